// Package resultset keeps the rows of a query for its cursor. An attempt's rows
// stay in the process where it ran, in that process's shuffle, which writes them to
// disk when they are many; they count once the job has published them, are
// fetched as the cursor moves, and are dropped with the result.
package resultset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
)

// Name is the format's name in a registry.
const Name = "resultset"

// DefaultMaxBytes bounds one result unless Options.MaxBytes says otherwise.
const DefaultMaxBytes = 64 << 30

// Options make a Format.
type Options struct {
	// Exchange takes the rows of this process's attempts, and reads those of all.
	Exchange shuffle.Service
	// Worker and Address are those of this process; empty when all attempts run
	// here.
	Worker  cluster.WorkerID
	Address string
	// Start is part of the names of results, so that two processes, one after the
	// other or side by side, never use the same.
	Start string
	// MaxBytes bounds one result; 0 = DefaultMaxBytes.
	MaxBytes int64
	// Drop forgets rows in all processes; nil: in this one.
	Drop func(job string)
}

// Spec names one result.
type Spec struct {
	ID     string
	Fields []schema.Field
}

// Format implements outputformat.Spec.
func (s Spec) Format() string { return Name }

// Describe implements outputformat.Spec.
func (s Spec) Describe() string { return fmt.Sprintf("result of %d columns", len(s.Fields)) }

// Part is the body of a manifest: where an attempt's rows are.
type Part struct {
	Worker  cluster.WorkerID
	Address string
	Attempt int
}

// Format implements outputformat.Format. Safe for concurrent use.
type Format struct {
	o Options

	mu      sync.Mutex
	next    uint64
	results map[string]*result
}

// result is what is known of a result where it was asked for.
type result struct {
	published []shuffle.Source // winners in task order
	done      bool             // published
	rows      int64
	abandoned bool
}

var _ outputformat.Format = (*Format)(nil)

// New returns an empty format.
func New(o Options) *Format {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Drop == nil {
		o.Drop = o.Exchange.Drop
	}
	return &Format{o: o, results: map[string]*result{}}
}

// Spec makes room for a result with these columns. The caller must Drop it.
func (f *Format) Spec(fields []schema.Field) Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	id := fmt.Sprintf("result_%s_%d", f.o.Start, f.next)
	f.results[id] = &result{}
	return Spec{ID: id, Fields: slices.Clone(fields)}
}

func specOf(s outputformat.Spec) (Spec, error) {
	spec, ok := s.(Spec)
	if !ok {
		return Spec{}, fault.Bugf("output format %s: a spec of type %T", Name, s)
	}
	return spec, nil
}

// result returns the result of a spec; mu is held.
func (f *Format) result(s outputformat.Spec) (Spec, *result, error) {
	spec, err := specOf(s)
	if err != nil {
		return spec, nil, err
	}
	r, ok := f.results[spec.ID]
	if !ok {
		return Spec{}, nil, fault.Bugf("result %s is not there (any more)", spec.ID)
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
func (f *Format) Open(ctx context.Context, s outputformat.Spec, fields []schema.Field, task int, name string) (outputformat.Writer, error) {
	spec, err := specOf(s)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(spec.Fields) {
		return nil, fault.Bugf("result %s has %d columns, the attempt writes %d", spec.ID, len(spec.Fields), len(fields))
	}
	_, number, _ := cutLast(name, ".")
	attempt, err := strconv.Atoi(number)
	if err != nil {
		return nil, fault.Bugf("result %s: an attempt named %q", spec.ID, name)
	}
	w, err := f.o.Exchange.Writer(ctx, shuffle.Attempt{Job: spec.ID, Task: task, Attempt: attempt}, spec.Fields, 1)
	if err != nil {
		return nil, err
	}
	return &writer{f: f, rows: w, manifest: outputformat.Manifest{Attempt: name, Task: task,
		Body: Part{Worker: f.o.Worker, Address: f.o.Address, Attempt: attempt}}}, nil
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

func (f *Format) tooLarge() error {
	return fault.Userf("the result is larger than %d MiB: write it to a table, or add a LIMIT", f.o.MaxBytes>>20)
}

// Publish implements outputformat.Format.
func (f *Format) Publish(_ context.Context, s outputformat.Spec, won []outputformat.Manifest) (outputformat.Summary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	spec, r, err := f.result(s)
	if err != nil {
		return outputformat.Summary{}, err
	}
	if r.done {
		return outputformat.Summary{Rows: r.rows}, nil
	}
	if r.abandoned {
		return outputformat.Summary{}, fault.Bugf("result %s was abandoned", spec.ID)
	}
	won = slices.Clone(won)
	slices.SortStableFunc(won, func(a, b outputformat.Manifest) int { return cmp.Compare(a.Task, b.Task) })
	var sources []shuffle.Source
	var rows, bytes int64
	for _, m := range won {
		p, ok := m.Body.(Part)
		if !ok {
			return outputformat.Summary{}, fault.Bugf("result %s: a manifest whose body is a %T", spec.ID, m.Body)
		}
		rows += m.Rows
		bytes += m.Bytes
		if m.Rows > 0 {
			sources = append(sources, shuffle.Source{Worker: p.Worker, Address: p.Address,
				Attempt: shuffle.Attempt{Job: spec.ID, Task: m.Task, Attempt: p.Attempt}})
		}
	}
	if bytes > f.o.MaxBytes {
		return outputformat.Summary{}, f.tooLarge()
	}
	r.published, r.rows, r.done = sources, rows, true
	return outputformat.Summary{Rows: rows}, nil
}

// Abandon implements outputformat.Format.
func (f *Format) Abandon(_ context.Context, s outputformat.Spec) error {
	f.mu.Lock()
	spec, err := specOf(s)
	r := f.results[spec.ID]
	switch {
	case err == nil && r != nil && r.done:
		err = fault.Bugf("result %s is published: it can't be abandoned", spec.ID)
	case r != nil:
		r.abandoned = true
	}
	f.mu.Unlock()
	if err == nil {
		f.o.Drop(spec.ID)
	}
	return err
}

// Drop forgets a result. Cursors that read it fail.
func (f *Format) Drop(spec Spec) {
	f.mu.Lock()
	delete(f.results, spec.ID)
	f.mu.Unlock()
	f.o.Drop(spec.ID)
}

// Cursor returns the rows of a published result, in the order of the tasks. It
// may be called again to read from the start. Before Publish its Next fails. It
// must be closed.
func (f *Format) Cursor(spec Spec) batch.Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &cursor{f: f, fields: spec.Fields}
	_, r, err := f.result(spec)
	switch {
	case err != nil:
		c.err = err
	case !r.done:
		c.err = fault.Bugf("result %s is not published yet", spec.ID)
	default:
		c.from = r.published
	}
	return c
}

// cursor reads the parts of a result. It opens them when it is first asked.
type cursor struct {
	f      *Format
	fields []schema.Field
	from   []shuffle.Source
	rows   batch.Reader
	cancel context.CancelFunc
	err    error
}

// Fields implements batch.Reader.
func (c *cursor) Fields() []schema.Field { return c.fields }

// Next implements batch.Reader.
func (c *cursor) Next(ctx context.Context) (*batch.Batch, error) {
	if c.err != nil {
		return nil, c.err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.rows == nil {
		// Fetching goes on between calls, so it can't end with this one's context.
		var background context.Context
		background, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
		if c.rows, c.err = c.f.o.Exchange.Reader(background, c.fields, 0, c.from); c.err != nil {
			c.cancel()
			c.err = lost(c.err)
			return nil, c.err
		}
	}
	b, err := c.rows.Next(ctx)
	if err != nil {
		err = lost(err)
		if ctx.Err() == nil {
			c.err = err
		}
		return nil, err
	}
	return batch.Compact(b), nil
}

// lost says what it means that rows are gone.
func lost(err error) error {
	if !errors.Is(err, shuffle.ErrGone) {
		return err
	}
	return &fault.Error{Class: fault.Retryable, SQLState: fault.StateRetry, Message: "rows of the result are lost", Cause: err,
		Hint: "a worker has ended since the query ran: run it again"}
}

// Close implements batch.Reader.
func (c *cursor) Close() error {
	if c.rows == nil {
		return nil
	}
	err := c.rows.Close()
	c.cancel()
	c.rows, c.err = nil, fault.Bugf("result: read after close")
	return err
}

type writer struct {
	f        *Format
	rows     shuffle.Writer
	manifest outputformat.Manifest
	done     bool
}

// Write implements outputformat.Writer.
func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	if w.done {
		return fault.Bugf("result: write after Finish or Abort")
	}
	rows := int64(b.Rows())
	if rows == 0 {
		return ctx.Err()
	}
	var size int64
	for _, c := range b.Columns {
		size += batch.Bytes(c)
	}
	if w.manifest.Bytes += size * rows / int64(b.Len); w.manifest.Bytes > w.f.o.MaxBytes {
		return w.f.tooLarge()
	}
	w.manifest.Rows += rows
	return w.rows.Write(ctx, 0, b)
}

// Finish implements outputformat.Writer.
func (w *writer) Finish(ctx context.Context) (outputformat.Manifest, error) {
	if w.done {
		return outputformat.Manifest{}, fault.Bugf("result: attempt %s was finished or aborted before", w.manifest.Attempt)
	}
	if _, err := w.rows.Finish(ctx); err != nil {
		return outputformat.Manifest{}, err
	}
	w.done = true
	return w.manifest, nil
}

// Abort implements outputformat.Writer.
func (w *writer) Abort() error {
	if !w.done {
		w.done = true
		w.rows.Abort()
	}
	return nil
}
