package text

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skepdb/skep/internal/fault"
)

// rejects keeps the lines of rows that were left out, a file a split, in the
// folder RejectPath + ".parts". The file appears when the split has been read
// to its end, under a name that says which split it is: attempts at the same
// split write the same file.
type rejects struct {
	dir  string
	name string
	out  *os.File
	w    *bufio.Writer
}

func newRejects(path string, body Body) *rejects {
	return &rejects{dir: partsOf(path), name: fmt.Sprintf("%06d-%020d", body.File.Number, body.Start)}
}

func partsOf(path string) string { return path + ".parts" }

func (r *rejects) add(line []byte) error {
	if r == nil {
		return nil
	}
	if r.out == nil {
		if err := os.MkdirAll(r.dir, 0o755); err != nil {
			return rejectError(r.dir, err)
		}
		out, err := os.CreateTemp(r.dir, r.name+".*.tmp")
		if err != nil {
			return rejectError(r.dir, err)
		}
		r.out, r.w = out, bufio.NewWriter(out)
	}
	if _, err := r.w.Write(line); err != nil {
		return rejectError(r.out.Name(), err)
	}
	if err := r.w.WriteByte('\n'); err != nil {
		return rejectError(r.out.Name(), err)
	}
	return nil
}

func rejectError(path string, err error) error {
	return fault.Userf("write rejected rows to %s: %w", path, err)
}

// finish makes the file appear.
func (r *rejects) finish() error {
	if r == nil || r.out == nil {
		return nil
	}
	tmp := r.out.Name()
	err := errors.Join(r.w.Flush(), r.out.Close())
	r.out = nil
	if err == nil {
		err = os.Rename(tmp, filepath.Join(r.dir, r.name))
	}
	if err != nil {
		return rejectError(tmp, errors.Join(err, os.Remove(tmp)))
	}
	return nil
}

// abort removes what finish hasn't made appear.
func (r *rejects) abort() error {
	if r == nil || r.out == nil {
		return nil
	}
	tmp := r.out.Name()
	err := r.out.Close()
	r.out = nil
	return errors.Join(err, os.Remove(tmp))
}

// CollectRejects joins the lines that readers of a Spec with this RejectPath
// have left out into one file of that name, in the order of the input, and
// returns how many bytes it has. Call it once the job is published, with the
// readers closed. Without any, no file is made and an old one of that name goes.
func CollectRejects(path string) (size int64, err error) {
	dir := partsOf(path)
	entries, err := os.ReadDir(dir) // sorted: by file, then by offset
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, rejectError(path, err)
		}
		return 0, nil
	}
	if err != nil {
		return 0, rejectError(dir, err)
	}
	out, err := os.Create(path)
	if err != nil {
		return 0, rejectError(path, err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".tmp" {
			continue // of an attempt that didn't get to its end
		}
		n, err := appendFile(out, filepath.Join(dir, e.Name()))
		size += n
		if err != nil {
			return size, rejectError(path, errors.Join(err, out.Close()))
		}
	}
	if err := errors.Join(out.Close(), os.RemoveAll(dir)); err != nil {
		return size, rejectError(path, err)
	}
	return size, nil
}

func appendFile(out io.Writer, path string) (int64, error) {
	in, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, in)
	return n, errors.Join(err, in.Close())
}

// DropRejects removes what readers have left out, after a job that failed.
func DropRejects(path string) error {
	if err := os.RemoveAll(partsOf(path)); err != nil {
		return rejectError(path, err)
	}
	return nil
}
