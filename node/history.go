package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
)

// historyDir has the jobs that ended, a file each, in the first data folder.
// docs/format/node.md describes it.
const historyDir = "jobs"

// keepHistory is how many jobs are remembered.
const keepHistory = 100

// history remembers jobs of an engine without a server, for the processes after it.
type history struct {
	fsys vfs.FS
	dir  string
}

// add remembers a job that has ended. It isn't synced: what a crash loses is only news.
func (h history) add(s jobs.Status) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := h.fsys.MkdirAll(h.dir, 0o755); err != nil {
		return err
	}
	path := h.fsys.PathJoin(h.dir, string(s.ID)+".json")
	f, err := h.fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, h.fsys.Remove(path))
	}
	names, err := h.names()
	if err != nil {
		return err
	}
	for _, n := range names[:max(0, len(names)-keepHistory)] {
		_ = h.fsys.Remove(h.fsys.PathJoin(h.dir, n)) // the next one tries again
	}
	return nil
}

// names returns the files, the oldest job first. Ids have the start of the process
// and a number, of as many digits as it needs.
func (h history) names() ([]string, error) {
	all, err := h.fsys.List(h.dir)
	if errors.Is(err, fs.ErrNotExist) || os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(n string) bool { return !strings.HasSuffix(n, ".json") })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return all, nil
}

// list returns what is remembered, the oldest first. Files that can't be read are left
// out: a crash may have cut one off.
func (h history) list() ([]jobs.Status, error) {
	names, err := h.names()
	if err != nil {
		return nil, err
	}
	var out []jobs.Status
	for _, n := range names {
		f, err := h.fsys.Open(h.fsys.PathJoin(h.dir, n))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(f)
		var s jobs.Status
		if errors.Join(err, f.Close()) != nil || json.Unmarshal(text, &s) != nil || s.ID == "" || s.State > jobs.Killed {
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

// remember is the scheduler's hook at the end of a job.
func (n *Node) remember(id jobs.ID) {
	s, ok := n.scheduler.Status(id)
	if !ok {
		return
	}
	if err := n.history.add(s); err != nil {
		n.o.Logger.Warn("job not remembered", "job", string(id), "error", err.Error())
	}
}

// Logs calls f with what the attempts of a job have left here. A job without a server
// doesn't outlive its command, so that there is nothing to follow.
func (n *Node) Logs(ctx context.Context, id jobs.ID, _ bool, f func(a jobs.AttemptID, text []byte, dropped int64) error) error {
	logs, err := n.TaskLogs(string(id))
	if err != nil {
		if _, known := n.JobStatus(ctx, id); known != nil {
			return known
		}
		return nil // it has written nothing
	}
	for _, l := range logs {
		if err := n.log(ctx, l.Attempt, f); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) log(ctx context.Context, attempt string, f func(a jobs.AttemptID, text []byte, dropped int64) error) (err error) {
	id, err := jobs.ParseAttemptID(attempt)
	if err != nil {
		return nil // not a log
	}
	r, err := n.OpenTaskLog(attempt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buf := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, err := io.ReadFull(r, buf)
		if k > 0 {
			if err := f(id, buf[:k], 0); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil
		case err != nil:
			return fault.Retryablef("read %s: %w", filepath.Base(attempt), err)
		}
	}
}
