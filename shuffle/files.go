package shuffle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/internal/fault"
)

// run is a data file of an output that is not finished; its index is in memory.
type run struct {
	path   string
	parts  []extent
	length int64
}

// stored is the two files of a finished output.
type stored struct{ data, index string }

func (s *stored) paths() []string { return []string{s.data, s.index} }

// diskWriter writes a file through a buffer and counts.
type diskWriter struct {
	f   vfs.File
	buf []byte
	n   int64 // bytes written, those in buf too
}

const writeBuffer = 256 << 10

func (w *diskWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	if len(w.buf)+len(p) > cap(w.buf) {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) >= cap(w.buf) {
		_, err := w.f.Write(p)
		return len(p), err
	}
	w.buf = append(w.buf, p...)
	return len(p), nil
}

func (w *diskWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.f.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// write makes a file of what fill writes. Nothing stays behind after an error.
func (l *Local) write(path string, fill func(*diskWriter) error) (err error) {
	f, err := l.o.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return l.diskError("create", path, err)
	}
	w := &diskWriter{f: f, buf: make([]byte, 0, writeBuffer)}
	if err = fill(w); err == nil {
		err = w.flush()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		l.remove(path)
		return l.diskError("write", path, err)
	}
	l.mu.Lock()
	l.spilled += w.n
	l.mu.Unlock()
	return nil
}

// diskError classes an error of the disk: one that is full may not be later, or
// elsewhere.
func (l *Local) diskError(op, path string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &fault.Error{Class: fault.Retryable, SQLState: "53100",
			Message: fmt.Sprintf("%s %s: the disk is full", op, path), Cause: err,
			Hint: "free space, or give the shuffle a folder on another disk"}
	}
	return &fault.Error{Class: fault.Retryable, SQLState: "58030", Message: fmt.Sprintf("%s %s", op, path), Cause: err}
}

// dir returns the directory with the most free space, made for a job.
func (l *Local) dir(job string) (string, error) {
	best, free := "", int64(-1)
	for _, d := range l.o.Dirs {
		dir := l.o.FS.PathJoin(d, job)
		if err := l.o.FS.MkdirAll(dir, 0o755); err != nil {
			return "", l.diskError("make", dir, err)
		}
		avail := int64(1) << 62
		usage, err := l.o.FS.GetDiskUsage(dir)
		switch {
		case err == nil:
			avail = int64(min(usage.AvailBytes, 1<<62))
		case !errors.Is(err, vfs.ErrUnsupported):
			return "", l.diskError("measure", dir, err)
		}
		if avail > free {
			best, free = dir, avail
		}
	}
	if free < l.o.MinFree {
		l.removeJob(job)
		return "", &fault.Error{Class: fault.Retryable, SQLState: "53100",
			Message: fmt.Sprintf("shuffle: %s has %d bytes free, and %d stay reserved", best, free, l.o.MinFree),
			Hint:    "free space, or give the shuffle a folder on another disk"}
	}
	return best, nil
}

// writeRun writes batches as a data file named after the attempt and kind.
func (l *Local) writeRun(o *output, kind string, parts [][]*batch.Batch) (*run, error) {
	dir, err := l.dir(o.a.Job)
	if err != nil {
		return nil, err
	}
	r := &run{path: l.o.FS.PathJoin(dir, o.a.String()+"."+kind), parts: make([]extent, len(parts))}
	err = l.write(r.path, func(w *diskWriter) error {
		if _, err := w.Write(appendDataHeader(nil)); err != nil {
			return err
		}
		var enc frame.Encoder
		for p, batches := range parts {
			r.parts[p].offset = w.n
			if len(batches) > 0 {
				rows, err := enc.Encode(o.fields, batches, func(f []byte) error {
					_, err := w.Write(f)
					return err
				})
				if err != nil {
					return err
				}
				r.parts[p].rows = rows
			}
			r.parts[p].length = w.n - r.parts[p].offset
		}
		r.length = w.n
		return nil
	})
	if err != nil {
		l.removeJob(o.a.Job)
		return nil, err
	}
	return r, nil
}

// store writes the two files of a finished output.
func (l *Local) store(o *output, parts [][]*batch.Batch) (*stored, error) {
	r, err := l.writeRun(o, "data", parts)
	if err != nil {
		return nil, err
	}
	return l.index(o, r)
}

// index writes the index of a data file. After an error the data file is gone, too.
func (l *Local) index(o *output, r *run) (*stored, error) {
	s := &stored{data: r.path, index: r.path[:len(r.path)-len("data")] + "index"}
	err := l.write(s.index, func(w *diskWriter) error {
		_, err := w.Write(appendIndex(nil, r.parts, r.length))
		return err
	})
	if err != nil {
		l.remove(s.data)
		l.removeJob(o.a.Job)
		return nil, err
	}
	return s, nil
}

// merge makes one data file of an output's runs: a partition is its streams in
// the runs, one after the other, as they are. The runs are removed. o.mu is held.
func (l *Local) merge(ctx context.Context, o *output) (_ *stored, err error) {
	dir, err := l.dir(o.a.Job)
	if err != nil {
		return nil, err
	}
	if len(o.runs) == 1 {
		r := *o.runs[0]
		from := r.path
		r.path = l.o.FS.PathJoin(l.o.FS.PathDir(from), o.a.String()+".data")
		if err := l.o.FS.Rename(from, r.path); err != nil {
			return nil, l.diskError("rename", from, err)
		}
		o.runs = nil // its file has another name, whatever comes
		return l.index(o, &r)
	}
	files := make([]vfs.File, len(o.runs))
	defer func() {
		for _, f := range files {
			if f != nil {
				_ = f.Close() // it was only read
			}
		}
	}()
	for i, r := range o.runs {
		if files[i], err = l.o.FS.Open(r.path); err != nil {
			return nil, l.diskError("open", r.path, err)
		}
	}
	out := &run{path: l.o.FS.PathJoin(dir, o.a.String()+".data"), parts: make([]extent, len(o.sizes))}
	err = l.write(out.path, func(w *diskWriter) error {
		if _, err := w.Write(appendDataHeader(nil)); err != nil {
			return err
		}
		buf := make([]byte, writeBuffer)
		for p := range out.parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			e := &out.parts[p]
			e.offset = w.n
			for i, r := range o.runs {
				from := io.NewSectionReader(files[i], r.parts[p].offset, r.parts[p].length)
				n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{from}, buf)
				if err != nil {
					return err
				}
				if n != r.parts[p].length {
					return fmt.Errorf("%s ends early", r.path)
				}
				e.rows += r.parts[p].rows
			}
			e.length = w.n - e.offset
		}
		out.length = w.n
		return nil
	})
	if err != nil {
		return nil, err
	}
	s, err := l.index(o, out)
	if err != nil {
		return nil, err
	}
	for _, r := range o.runs {
		l.remove(r.path)
	}
	return s, nil
}

// remove removes files. One that can't be removed goes when the shuffle is next
// opened: it is no error of the job that it belonged to.
func (l *Local) remove(paths ...string) {
	for _, p := range paths {
		_ = l.o.FS.Remove(p)
	}
}

// removeJob removes a job's directories if they are empty.
func (l *Local) removeJob(job string) {
	for _, d := range l.o.Dirs {
		_ = l.o.FS.Remove(l.o.FS.PathJoin(d, job)) // not empty: in use
	}
}
