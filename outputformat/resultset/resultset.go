// Package resultset keeps the rows of a query in memory for its cursor. Rows
// of an attempt count once the job has published it; they are dropped with the
// cursor. All of a result is held in memory: what a person or program fetches
// by cursor is small, and tables and files are other formats.
package resultset

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
)

// Name is the format's name in a registry.
const Name = "resultset"

// DefaultMaxBytes bounds one result unless Format.MaxBytes says otherwise.
const DefaultMaxBytes = 4 << 30

// Spec names one result.
type Spec struct {
	ID     uint64
	Fields []schema.Field
}

// Format implements outputformat.Spec.
func (s Spec) Format() string { return Name }

// Describe implements outputformat.Spec.
func (s Spec) Describe() string { return fmt.Sprintf("result of %d columns", len(s.Fields)) }

// Format implements outputformat.Format. Safe for concurrent use.
type Format struct {
	// MaxBytes bounds the memory of one result; 0 = DefaultMaxBytes. Set it
	// before use.
	MaxBytes int64

	mu      sync.Mutex
	next    uint64
	results map[uint64]*result
}

// result is what attempts have written for one Spec.
type result struct {
	attempts  map[string]*attempt // finished
	published []string            // winners in task order; nil: not yet
	rows      int64
	abandoned bool
	bytes     int64 // of all attempts, unfinished ones included
}

type attempt struct {
	batches []*batch.Batch
	rows    int64
	bytes   int64
}

var _ outputformat.Format = (*Format)(nil)

// New returns an empty format.
func New() *Format { return &Format{results: map[uint64]*result{}} }

// Spec makes room for a result with these columns. The caller must Drop it.
func (f *Format) Spec(fields []schema.Field) Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	f.results[f.next] = &result{attempts: map[string]*attempt{}}
	return Spec{ID: f.next, Fields: slices.Clone(fields)}
}

func (f *Format) limit() int64 {
	if f.MaxBytes > 0 {
		return f.MaxBytes
	}
	return DefaultMaxBytes
}

// result returns the result of a spec; mu is held.
func (f *Format) result(s outputformat.Spec) (Spec, *result, error) {
	spec, ok := s.(Spec)
	if !ok {
		return Spec{}, nil, fault.Bugf("output format %s: a spec of type %T", Name, s)
	}
	r, ok := f.results[spec.ID]
	if !ok {
		return Spec{}, nil, fault.Bugf("result %d is not there (any more)", spec.ID)
	}
	return spec, r, nil
}

// Begin implements outputformat.Format.
func (f *Format) Begin(_ context.Context, s outputformat.Spec) (outputformat.Spec, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	spec, _, err := f.result(s)
	return spec, err
}

// Open implements outputformat.Format.
func (f *Format) Open(_ context.Context, s outputformat.Spec, fields []schema.Field, task int, name string) (outputformat.Writer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	spec, r, err := f.result(s)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(spec.Fields) {
		return nil, fault.Bugf("result %d has %d columns, the attempt writes %d", spec.ID, len(spec.Fields), len(fields))
	}
	if r.published != nil || r.abandoned {
		return nil, fault.Retryablef("result %d is complete: it takes no more attempts", spec.ID)
	}
	return &writer{format: f, result: r, name: name, task: task, attempt: &attempt{}}, nil
}

// Publish implements outputformat.Format.
func (f *Format) Publish(_ context.Context, s outputformat.Spec, won []outputformat.Manifest) (outputformat.Summary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	spec, r, err := f.result(s)
	if err != nil {
		return outputformat.Summary{}, err
	}
	if r.published != nil {
		return outputformat.Summary{Rows: r.rows}, nil
	}
	if r.abandoned {
		return outputformat.Summary{}, fault.Bugf("result %d was abandoned", spec.ID)
	}
	won = slices.Clone(won)
	slices.SortStableFunc(won, func(a, b outputformat.Manifest) int { return cmp.Compare(a.Task, b.Task) })
	names := make([]string, 0, len(won))
	var rows int64
	for _, m := range won {
		a, ok := r.attempts[m.Attempt]
		if !ok {
			return outputformat.Summary{}, fault.Retryablef("result %d: the rows of attempt %s are gone", spec.ID, m.Attempt)
		}
		names = append(names, m.Attempt)
		rows += a.rows
	}
	for name, a := range r.attempts {
		if !slices.Contains(names, name) {
			r.bytes -= a.bytes
			delete(r.attempts, name)
		}
	}
	r.published, r.rows = names, rows
	return outputformat.Summary{Rows: rows}, nil
}

// Abandon implements outputformat.Format.
func (f *Format) Abandon(_ context.Context, s outputformat.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	spec, ok := s.(Spec)
	if !ok {
		return fault.Bugf("output format %s: a spec of type %T", Name, s)
	}
	r, ok := f.results[spec.ID]
	if !ok {
		return nil
	}
	if r.published != nil {
		return fault.Bugf("result %d is published: it can't be abandoned", spec.ID)
	}
	r.abandoned, r.bytes = true, 0
	clear(r.attempts)
	return nil
}

// Drop forgets a result and frees its memory once no cursor reads it.
func (f *Format) Drop(spec Spec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.results, spec.ID)
}

// Cursor returns the rows of a published result, in the order of the tasks. It
// may be called again to read from the start. Before Publish its Next fails.
func (f *Format) Cursor(spec Spec) batch.Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &cursor{fields: spec.Fields}
	_, r, err := f.result(spec)
	switch {
	case err != nil:
		c.err = err
	case r.published == nil:
		c.err = fault.Bugf("result %d is not published yet", spec.ID)
	default:
		for _, name := range r.published {
			c.batches = append(c.batches, r.attempts[name].batches...)
		}
	}
	return c
}

type cursor struct {
	fields  []schema.Field
	batches []*batch.Batch
	err     error
}

// Fields implements batch.Reader.
func (c *cursor) Fields() []schema.Field { return c.fields }

// Next implements batch.Reader.
func (c *cursor) Next(ctx context.Context) (*batch.Batch, error) {
	if c.err == nil {
		c.err = ctx.Err()
	}
	if c.err != nil {
		return nil, c.err
	}
	if len(c.batches) == 0 {
		return nil, io.EOF
	}
	b := c.batches[0]
	c.batches = c.batches[1:]
	return b, nil
}

// Close implements batch.Reader.
func (c *cursor) Close() error {
	c.batches = nil
	return nil
}

type writer struct {
	format  *Format
	result  *result
	name    string
	task    int
	attempt *attempt
	done    bool
}

// Write implements outputformat.Writer. Batches are kept as they are: they
// are immutable. A small selection is copied, so that it doesn't keep a large
// batch alive.
func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.done {
		return fault.Bugf("result: write after Finish or Abort")
	}
	if b.Rows() == 0 {
		return nil
	}
	b = batch.Compact(b)
	var size int64
	for _, c := range b.Columns {
		size += batch.Bytes(c)
	}
	w.format.mu.Lock()
	defer w.format.mu.Unlock()
	if limit := w.format.limit(); w.result.bytes+size > limit {
		return fault.Userf("the result is larger than %d MiB: write it to a table, or add a LIMIT", limit>>20)
	}
	w.result.bytes += size
	w.attempt.bytes += size
	w.attempt.rows += int64(b.Rows())
	w.attempt.batches = append(w.attempt.batches, b)
	return nil
}

// Finish implements outputformat.Writer.
func (w *writer) Finish(context.Context) (outputformat.Manifest, error) {
	w.format.mu.Lock()
	defer w.format.mu.Unlock()
	if w.done {
		return outputformat.Manifest{}, fault.Bugf("result: attempt %s was finished or aborted before", w.name)
	}
	if _, twice := w.result.attempts[w.name]; twice {
		return outputformat.Manifest{}, fault.Bugf("result: two attempts are named %s", w.name)
	}
	w.done = true
	if w.result.published == nil && !w.result.abandoned {
		w.result.attempts[w.name] = w.attempt
	}
	return outputformat.Manifest{Attempt: w.name, Task: w.task, Rows: w.attempt.rows, Bytes: w.attempt.bytes}, nil
}

// Abort implements outputformat.Writer.
func (w *writer) Abort() error {
	w.format.mu.Lock()
	defer w.format.mu.Unlock()
	if w.done {
		return nil
	}
	w.done = true
	w.result.bytes -= w.attempt.bytes
	w.attempt.batches = nil
	return nil
}
