package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/artifact"
	artifactserver "github.com/skepdb/skep/jobs/artifact/server"
	"github.com/skepdb/skep/jobs/builtin"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/jobs/mapreduce/engine"
	"github.com/skepdb/skep/storage/folder"
	"github.com/skepdb/skep/worker/child"
)

// Folders inside of the first data folder that users' programs need.
const (
	artifactsDir = "artifacts" // the programs
	programsDir  = "programs"  // where they run; empty while none does
	logsDir      = "logs"      // what they print, a folder a job
)

// keepLogs is how many jobs' logs are kept.
const keepLogs = 100

// openPrograms returns what runs map/reduce programs, the built-in ones and
// users'.
func (n *Node) openPrograms() (*engine.Runner, error) {
	r, err := newPrograms(n.own[0].folders[0])
	if err != nil {
		return nil, err
	}
	n.programs, n.artifacts, n.children, n.logs = r.Programs, r.artifacts, r.children, r.logs
	if n.cluster != nil {
		artifactserver.Register(n.cluster.rpc, n.artifacts)
	}
	return r.Runner, nil
}

// programs are what a process needs to run map/reduce programs.
type programs struct {
	*engine.Runner
	artifacts *artifact.Store
	children  *launcher
	logs      taskLogs
}

func newPrograms(f *folder.Folder) (*programs, error) {
	p := &programs{artifacts: artifact.New(f.Path(artifactsDir)), logs: taskLogs{dir: f.Path(logsDir), keep: keepLogs}}
	p.children = &launcher{artifacts: p.artifacts, dir: f.Path(programsDir)}
	// A process that was killed may have left them.
	if err := os.RemoveAll(p.children.dir); err != nil {
		return nil, fmt.Errorf("remove the folders of programs that have ended: %w", err)
	}
	known, err := engine.NewPrograms(builtin.Programs()...)
	if err != nil {
		return nil, err
	}
	p.Runner = &engine.Runner{Programs: known, Logs: p.logs, Children: p.children}
	return p, nil
}

// launcher starts users' programs: engine.Launcher over worker/child.
type launcher struct {
	artifacts *artifact.Store
	dir       string // of the programs' folders
}

// Launch implements engine.Launcher.
func (l *launcher) Launch(ctx context.Context, id string, limits engine.Limits, log io.Writer) (engine.Child, error) {
	path, err := l.artifacts.Path(ctx, id)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(l.dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.Retryablef("start a program: %w", err)
	}
	p, err := child.Start(ctx, child.Options{
		Path: path, Env: []string{mapreduce.ChildVariable + "=1"}, Dir: dir, Log: log,
		Memory: limits.Memory, Timeout: limits.Timeout, Files: limits.Files, FileBytes: limits.FileBytes,
		LogBytes: limits.LogBytes, Processes: limits.Processes,
	})
	if err != nil {
		return nil, err
	}
	return process{p}, nil
}

// process is a child.Process with the pipes as what engine.Child calls them.
type process struct{ *child.Process }

func (p process) In() io.Writer  { return p.Process.In() }
func (p process) Out() io.Reader { return p.Process.Out() }

// taskLogs keeps the logs of attempts in a directory a job.
type taskLogs struct {
	dir string
	// keep is how many jobs' logs stay.
	keep int
}

// Create implements engine.Logs. A job's first log makes room: those of the
// oldest jobs go.
func (t taskLogs) Create(id jobs.AttemptID) (io.WriteCloser, error) {
	dir := filepath.Join(t.dir, string(id.Job))
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	} else if err == nil {
		t.prune()
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Create(filepath.Join(dir, id.String()+".log"))
}

// prune drops the logs of all but the newest jobs.
func (t taskLogs) prune() {
	entries, err := os.ReadDir(t.dir)
	if err != nil || len(entries) <= t.keep {
		return
	}
	age := func(e fs.DirEntry) int64 {
		if info, err := e.Info(); err == nil {
			return info.ModTime().UnixNano()
		}
		return 0
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return int(max(min(age(a)-age(b), 1), -1)) })
	for _, e := range entries[:len(entries)-t.keep] {
		_ = os.RemoveAll(filepath.Join(t.dir, e.Name())) // untidy at worst
	}
}

// TaskLog is the log of an attempt.
type TaskLog struct {
	Attempt string // its name
	Bytes   int64
}

// TaskLogs lists the logs that the attempts of a job have left here, by attempt.
func (n *Node) TaskLogs(job string) ([]TaskLog, error) {
	entries, err := os.ReadDir(filepath.Join(n.logs.dir, filepath.Base(job)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("there are no logs of a job %q", job)
	}
	if err != nil {
		return nil, err
	}
	var out []TaskLog
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			out = append(out, TaskLog{strings.TrimSuffix(e.Name(), ".log"), info.Size()})
		}
	}
	return out, nil
}

// OpenTaskLog opens the log of an attempt.
func (n *Node) OpenTaskLog(attempt string) (io.ReadCloser, error) {
	job, _, _ := strings.Cut(attempt, ".")
	f, err := os.Open(filepath.Join(n.logs.dir, filepath.Base(job), filepath.Base(attempt)+".log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("there is no log of an attempt %q", attempt)
	}
	return f, err
}

// PutArtifact stores a program for jobs and returns its name, a SHA-256.
func (n *Node) PutArtifact(ctx context.Context, r io.Reader) (string, error) {
	return n.artifacts.Put(ctx, r)
}

// programOf describes the program that a request means: a built-in one, or the
// one of that name in an artifact, which may leave the name out if it has one
// only.
func (n *Node) programOf(ctx context.Context, name, id string) (mapreduce.Description, error) {
	if id == "" {
		return n.builtin(name)
	}
	all, err := engine.Describe(ctx, n.children, id)
	if err != nil {
		return mapreduce.Description{}, err
	}
	var names []string
	for _, d := range all {
		if d.Name == name || name == "" && len(all) == 1 {
			return d, nil
		}
		names = append(names, d.Name)
	}
	if name == "" {
		return mapreduce.Description{}, fault.Userf("the file has %d programs (%s): say which one", len(all), strings.Join(names, ", "))
	}
	return mapreduce.Description{}, noProgram(fmt.Sprintf("the file has no program %q", name), name, names)
}
