package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/skepdb/skep/internal/fault"
)

// Source is where an export's file comes from.
type Source interface {
	// Describe returns the run, which has succeeded.
	Describe(ctx context.Context) (Run, error)
	// Open returns the file's bytes from offset on.
	Open(ctx context.Context, run Run, offset int64) (io.ReadCloser, error)
}

// Local is the Source of a run of a Service in this process.
type Local struct {
	Service   *Service
	Name, Run string
}

// Describe implements Source.
func (l Local) Describe(context.Context) (Run, error) {
	f, r, err := l.Service.Artifact(l.Name, l.Run)
	if err != nil {
		return r, err
	}
	return r, f.Close()
}

// Open implements Source.
func (l Local) Open(_ context.Context, run Run, offset int64) (io.ReadCloser, error) {
	f, _, err := l.Service.Artifact(run.Export, run.ID)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Remote is the Source of a run behind a Handler.
type Remote struct {
	Client    *http.Client // nil: http.DefaultClient
	Base      string       // "http://host:port"
	Name, Run string       // Run "" is latest
}

func (r Remote) get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.Base, "/")+path, nil)
	if err != nil {
		return nil, fault.Userf("download: %w", err)
	}
	req.Header = header
	c := r.Client
	if c == nil {
		c = http.DefaultClient
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, fault.Retryablef("download: %w", err)
	}
	return resp, nil
}

// failed turns an answer that is no success into an error.
func failed(resp *http.Response) error {
	defer resp.Body.Close()
	var said struct {
		Error string `json:"error"`
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = "the server answered " + resp.Status
	}
	if resp.StatusCode >= 500 {
		return fault.Retryablef("download: %s", said.Error)
	}
	return fault.Userf("download: %s", said.Error)
}

// Describe implements Source.
func (r Remote) Describe(ctx context.Context) (Run, error) {
	id := r.Run
	if id == "" {
		id = "latest"
	}
	resp, err := r.get(ctx, "/exports/"+url.PathEscape(r.Name)+"/runs/"+url.PathEscape(id), http.Header{})
	if err != nil {
		return Run{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return Run{}, failed(resp)
	}
	defer resp.Body.Close()
	var run Run
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&run); err != nil {
		return Run{}, fault.Retryablef("download: the server's answer: %w", err)
	}
	if run.State != Succeeded || run.Manifest == nil {
		return run, fault.Userf("run %s of export %s has no file, it is %s", run.ID, run.Export, run.State)
	}
	return run, nil
}

// Open implements Source.
func (r Remote) Open(ctx context.Context, run Run, offset int64) (io.ReadCloser, error) {
	h := http.Header{}
	if offset > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		h.Set("If-Range", `"`+run.Manifest.ZipSHA256+`"`)
	}
	resp, err := r.get(ctx, "/exports/"+url.PathEscape(run.Export)+"/runs/"+url.PathEscape(run.ID)+"/download", h)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent:
		return nil, failed(resp)
	case offset > 0 && resp.StatusCode == http.StatusOK:
		return nil, errors.Join(fault.Retryablef("download: the server doesn't resume this file"), resp.Body.Close())
	}
	return resp.Body, nil
}

// DownloadOptions say how a file is fetched.
type DownloadOptions struct {
	// Retries is how often a broken transfer is resumed that makes no progress;
	// 0 = 5, negative = never.
	Retries int
	// Pause is the time before the first retry; it doubles. 0 = 500 ms.
	Pause    time.Duration
	Progress func(have, all int64)
}

// Download fetches the file of a run to path, and checks its SHA-256 against the
// manifest's. What has come is kept in path.part, with the hash that it is part of in its
// name, until it is complete: a later call goes on there. A file that is at path
// already, and is this one, is left; another one is refused.
func Download(ctx context.Context, src Source, path string, o DownloadOptions) (Run, error) {
	if o.Retries == 0 {
		o.Retries = 5
	}
	if o.Pause == 0 {
		o.Pause = 500 * time.Millisecond
	}
	run, err := src.Describe(ctx)
	if err != nil {
		return run, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, run.Export+"-"+run.ID+".zip")
	}
	m := run.Manifest
	if len(m.ZipSHA256) != 2*sha256.Size {
		return run, fault.Userf("download: the manifest has no SHA-256 of the file")
	}
	if _, err := os.Stat(path); err == nil {
		sum, err := hashFile(path)
		if err != nil {
			return run, err
		}
		if sum == m.ZipSHA256 {
			return run, nil
		}
		return run, fault.Userf("download: %s is there already and is another file", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return run, fault.Userf("download: %w", err)
	}
	part := path + "." + m.ZipSHA256[:12] + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return run, fault.Userf("download: %w", err)
	}
	err = fill(ctx, src, run, f, o)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return run, err // the part stays: a later call resumes
	}
	sum, err := hashFile(part)
	if err != nil {
		return run, err
	}
	if sum != m.ZipSHA256 {
		// Going on with it would only give the same wrong file again.
		return run, errors.Join(fault.Retryablef("download: what came has the SHA-256 %s, the manifest says %s; try again", sum, m.ZipSHA256), os.Remove(part))
	}
	if err := os.Rename(part, path); err != nil {
		return run, fault.Userf("download: %w", err)
	}
	return run, nil
}

// fill appends what is missing, resuming broken transfers.
func fill(ctx context.Context, src Source, run Run, f *os.File, o DownloadOptions) error {
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	all := run.Manifest.ZipBytes
	if have > all { // not a part of it
		if err := f.Truncate(0); err != nil {
			return err
		}
		if have, err = f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	fruitless := 0
	for have < all {
		n, err := transfer(ctx, src, run, f, have, all, o.Progress)
		have += n
		if err == nil && have < all {
			err = fault.Retryablef("download: the transfer ended after %d of %d bytes", have, all)
		}
		if err == nil {
			break
		}
		if n > 0 {
			fruitless = 0
		}
		fruitless++
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if fault.ClassOf(err) != fault.Retryable || fruitless > o.Retries {
			return err
		}
		timer := time.NewTimer(o.Pause << min(fruitless-1, 6))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// transfer copies from offset on until the line breaks.
func transfer(ctx context.Context, src Source, run Run, f *os.File, offset, all int64, progress func(int64, int64)) (n int64, err error) {
	in, err := src.Open(ctx, run, offset)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	buf := make([]byte, 256<<10)
	for {
		got, rerr := in.Read(buf[:min(int64(len(buf)), all-offset-n+1)])
		if offset+n+int64(got) > all {
			return n, fault.Userf("download: the file is longer than its manifest says")
		}
		if got > 0 {
			if _, err := f.Write(buf[:got]); err != nil {
				return n, fault.Userf("download: %w", err)
			}
			n += int64(got)
			if progress != nil {
				progress(offset+n, all)
			}
		}
		if errors.Is(rerr, io.EOF) {
			return n, nil
		}
		if rerr != nil {
			return n, fault.Retryablef("download: %w", rerr)
		}
	}
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fault.Userf("download: %w", err)
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}
