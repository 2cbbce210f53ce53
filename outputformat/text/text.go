// Package text writes the output of a job to a directory of text files. Attempts
// write beside it, in a hidden directory; publishing gives the winners' files
// their names, part-00000.tsv and so on by task, adds a file _SUCCESS, and
// renames the directory into place: all of it appears at once.
package text

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
)

// Name is the format's name in a registry.
const Name = "text"

// SuccessFile says that an output is complete; readers of text files skip names
// that begin with "_".
const SuccessFile = "_SUCCESS"

// Spec says where to write, and how.
type Spec struct {
	Dir   string // an absolute path that all workers see
	Style Style
	// Delimited is of style Text.
	Delimited Delimited
	Header    bool // each file begins with the names of the columns
	// Overwrite replaces a directory that is there. Otherwise it must not exist,
	// or be empty.
	Overwrite bool
	Token     string // filled in by Begin: names this output among all
}

// Format implements outputformat.Spec.
func (s Spec) Format() string { return Name }

// Describe implements outputformat.Spec.
func (s Spec) Describe() string { return fmt.Sprintf("%s files in %s", s.Style, s.Dir) }

func (s Spec) encoder(fields []schema.Field) (*Encoder, error) {
	if s.Style == Text {
		return NewDelimitedEncoder(s.Delimited, fields)
	}
	return NewEncoder(s.Style, fields)
}

// staging is where attempts write.
func (s Spec) staging() string {
	return filepath.Join(filepath.Dir(s.Dir), "."+filepath.Base(s.Dir)+"."+s.Token)
}

func (s Spec) attempts() string { return filepath.Join(s.staging(), "attempts") }
func (s Spec) out() string      { return filepath.Join(s.staging(), "out") }

// success is the content of a SuccessFile.
type success struct {
	Token string `json:"output"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	Files int    `json:"files"`
}

// Format implements outputformat.Format. It keeps nothing: the directories say
// how far an output is, also after a restart.
type Format struct{}

var _ outputformat.Format = Format{}

// New returns the format.
func New() Format { return Format{} }

func specOf(s outputformat.Spec) (Spec, error) {
	spec, ok := s.(Spec)
	if !ok {
		return Spec{}, fault.Bugf("output format %s: a spec of type %T", Name, s)
	}
	return spec, nil
}

func begun(s outputformat.Spec) (Spec, error) {
	spec, err := specOf(s)
	if err == nil && spec.Token == "" {
		err = fault.Bugf("output format %s: %s has not begun", Name, spec.Dir)
	}
	return spec, err
}

// Begin implements outputformat.Format.
func (Format) Begin(_ context.Context, s outputformat.Spec) (outputformat.Spec, error) {
	spec, err := specOf(s)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(spec.Dir) || filepath.Clean(spec.Dir) == "/" {
		return nil, fault.Userf("output %q: want an absolute path", spec.Dir)
	}
	spec.Dir = filepath.Clean(spec.Dir)
	if _, err := ParseStyle(string(spec.Style)); err != nil {
		return nil, err
	}
	if err := spec.vacant(); err != nil {
		return nil, err
	}
	var token [8]byte
	if _, err := rand.Read(token[:]); err != nil {
		return nil, err
	}
	spec.Token = hex.EncodeToString(token[:])
	if err := os.MkdirAll(spec.attempts(), 0o755); err != nil {
		return nil, fault.Userf("output %s: %w", spec.Dir, err)
	}
	return spec, nil
}

// vacant refuses an output that is there already.
func (s Spec) vacant() error {
	info, err := os.Stat(s.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fault.Userf("output %s: %w", s.Dir, err)
	case !info.IsDir():
		return fault.Userf("output %s is a file: name a directory", s.Dir)
	case s.Overwrite:
		return nil
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fault.Userf("output %s: %w", s.Dir, err)
	}
	if len(entries) > 0 {
		return &fault.Error{Class: fault.User, SQLState: fault.StateBadData,
			Message: fmt.Sprintf("output %s exists already", s.Dir), Hint: "name another directory, or overwrite it"}
	}
	return nil
}

// Open implements outputformat.Format.
func (Format) Open(_ context.Context, s outputformat.Spec, fields []schema.Field, task int, attempt string) (outputformat.Writer, error) {
	spec, err := begun(s)
	if err != nil {
		return nil, err
	}
	e, err := spec.encoder(fields)
	if err != nil {
		return nil, err
	}
	if attempt != filepath.Base(attempt) {
		return nil, fault.Bugf("output format %s: an attempt is named %q", Name, attempt)
	}
	f, err := os.OpenFile(filepath.Join(spec.attempts(), attempt), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, writeError(spec.Dir, err)
	}
	w := &writer{spec: spec, task: task, attempt: attempt, encoder: e, f: f, out: bufio.NewWriterSize(f, 256<<10)}
	if spec.Header {
		w.buf = e.AppendHeader(nil)
		if err := w.flush(); err != nil {
			return nil, errors.Join(err, w.Abort())
		}
	}
	return w, nil
}

// writeError: elsewhere, or later, there may be room.
func writeError(dir string, err error) error {
	return fault.Retryablef("write output %s: %w", dir, err)
}

type writer struct {
	spec    Spec
	task    int
	attempt string
	encoder *Encoder
	f       *os.File
	out     *bufio.Writer
	buf     []byte
	rows    int64
	bytes   int64
	done    bool
}

// Write implements outputformat.Writer.
func (w *writer) Write(ctx context.Context, b *batch.Batch) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.buf, err = w.encoder.Append(w.buf, b); err != nil {
		return err
	}
	w.rows += int64(b.Rows())
	return w.flush()
}

func (w *writer) flush() error {
	w.bytes += int64(len(w.buf))
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	if err != nil {
		return writeError(w.spec.Dir, err)
	}
	return nil
}

// Finish implements outputformat.Writer.
func (w *writer) Finish(context.Context) (outputformat.Manifest, error) {
	if w.done {
		return outputformat.Manifest{}, fault.Bugf("output %s: attempt %s was finished or aborted before", w.spec.Dir, w.attempt)
	}
	if err := errors.Join(w.out.Flush(), w.f.Sync()); err != nil {
		return outputformat.Manifest{}, writeError(w.spec.Dir, err)
	}
	w.done = true
	if err := w.f.Close(); err != nil {
		return outputformat.Manifest{}, writeError(w.spec.Dir, err)
	}
	return outputformat.Manifest{Attempt: w.attempt, Task: w.task, Rows: w.rows, Bytes: w.bytes}, nil
}

// Abort implements outputformat.Writer.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	return errors.Join(w.f.Close(), os.Remove(w.f.Name()))
}

// Publish implements outputformat.Format. Tasks without rows leave no file.
func (Format) Publish(_ context.Context, s outputformat.Spec, won []outputformat.Manifest) (outputformat.Summary, error) {
	spec, err := begun(s)
	if err != nil {
		return outputformat.Summary{}, err
	}
	if done, ok := spec.published(); ok {
		return outputformat.Summary{Rows: done.Rows}, os.RemoveAll(spec.staging())
	}
	won = slices.Clone(won)
	slices.SortFunc(won, func(a, b outputformat.Manifest) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Attempt, b.Attempt))
	})
	done := success{Token: spec.Token}
	if err := os.MkdirAll(spec.out(), 0o755); err != nil {
		return outputformat.Summary{}, writeError(spec.Dir, err)
	}
	for i, m := range won {
		if i > 0 && won[i-1].Task == m.Task {
			return outputformat.Summary{}, fault.Bugf("publish %s: attempts %s and %s of task %d both won", spec.Dir, won[i-1].Attempt, m.Attempt, m.Task)
		}
		done.Rows += m.Rows
		if m.Rows == 0 {
			continue
		}
		done.Bytes += m.Bytes
		done.Files++
		from := filepath.Join(spec.attempts(), m.Attempt)
		to := filepath.Join(spec.out(), fmt.Sprintf("part-%05d.%s", m.Task, spec.Style))
		if err := os.Rename(from, to); err != nil {
			// An earlier try may have come this far.
			if info, serr := os.Stat(to); serr != nil || info.Size() != m.Bytes {
				return outputformat.Summary{}, fault.Retryablef("publish %s: the file of attempt %s: %w", spec.Dir, m.Attempt, err)
			}
		}
	}
	if err := spec.install(done); err != nil {
		return outputformat.Summary{}, err
	}
	// What is left is only untidy.
	_ = os.RemoveAll(spec.staging())
	return outputformat.Summary{Rows: done.Rows}, nil
}

// published reports whether this output is in place.
func (s Spec) published() (success, bool) {
	var have success
	text, err := os.ReadFile(filepath.Join(s.Dir, SuccessFile))
	return have, err == nil && json.Unmarshal(text, &have) == nil && have.Token == s.Token
}

// install renames the finished directory into place.
func (s Spec) install(done success) error {
	text, err := json.Marshal(done)
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(s.out(), SuccessFile), append(text, '\n')); err != nil {
		return writeError(s.Dir, err)
	}
	if err := syncDir(s.out()); err != nil {
		return writeError(s.Dir, err)
	}
	if s.Overwrite {
		if _, err := os.Stat(s.Dir); err == nil {
			if err := exchange(s.out(), s.Dir); err != nil {
				return writeError(s.Dir, err)
			}
			return syncParent(s.Dir)
		}
	} else if err := s.vacant(); err != nil {
		return err
	}
	// A rename replaces an empty directory, and only an empty one.
	if err := os.Rename(s.out(), s.Dir); err != nil {
		return writeError(s.Dir, err)
	}
	return syncParent(s.Dir)
}

func syncParent(dir string) error {
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return writeError(dir, err)
	}
	return nil
}

func writeSynced(path string, text []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Abandon implements outputformat.Format.
func (Format) Abandon(_ context.Context, s outputformat.Spec) error {
	spec, err := begun(s)
	if err != nil {
		return err
	}
	if _, ok := spec.published(); ok {
		return fault.Bugf("output %s is published: it can't be abandoned", spec.Dir)
	}
	if err := os.RemoveAll(spec.staging()); err != nil {
		return writeError(spec.Dir, err)
	}
	return nil
}
