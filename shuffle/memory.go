package shuffle

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Memory is the shuffle between tasks of one process: batches are handed over
// as they are, nothing is copied or encoded, except that a batch of which few
// rows are selected is compacted so as not to keep the others alive.
type Memory struct {
	limit int64

	mu   sync.Mutex
	used int64
	jobs map[string]map[Attempt]*memoryOutput
}

var _ Service = (*Memory)(nil)

// memoryOutput is what one attempt has written.
type memoryOutput struct {
	fields     []schema.Field
	partitions [][]*batch.Batch
	sizes      []int64
	used       int64 // bytes of distinct buffers
	finished   bool
	dropped    bool
	// counted has the first bytes of the buffers that used includes: the partitions of a batch
	// share its columns, the batches of a row group their dictionary. Only the
	// writer uses it.
	counted map[*byte]struct{}
}

// NewMemory returns an empty shuffle without limit.
func NewMemory() *Memory { return NewMemoryLimited(0) }

// NewMemoryLimited returns an empty shuffle that holds at most limit bytes of
// batches; 0 is no limit. A write beyond it fails with a retryable error.
func NewMemoryLimited(limit int64) *Memory {
	return &Memory{limit: limit, jobs: map[string]map[Attempt]*memoryOutput{}}
}

// Used returns the bytes of batches held now.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Writer implements Service.
func (m *Memory) Writer(ctx context.Context, a Attempt, fields []schema.Field, partitions int) (Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: open output of %s: %w", a, err)
	}
	if partitions <= 0 {
		return nil, fault.Bugf("shuffle: output of %s has %d partitions", a, partitions)
	}
	o := &memoryOutput{
		fields:     fields,
		partitions: make([][]*batch.Batch, partitions),
		sizes:      make([]int64, partitions),
		counted:    map[*byte]struct{}{},
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	outputs := m.jobs[a.Job]
	if outputs == nil {
		outputs = map[Attempt]*memoryOutput{}
		m.jobs[a.Job] = outputs
	}
	if outputs[a] != nil {
		return nil, fault.Bugf("shuffle: output of %s was opened before", a)
	}
	outputs[a] = o
	return &memoryWriter{m: m, a: a, o: o}, nil
}

// Reader implements Service. What it reads stays readable even if the job is
// dropped meanwhile.
func (m *Memory) Reader(ctx context.Context, fields []schema.Field, partition int, from []Attempt) (batch.Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: read partition %d: %w", partition, err)
	}
	r := &memoryReader{fields: fields}
	var gone []Attempt
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range from {
		o := m.jobs[a.Job][a]
		if o == nil || !o.finished {
			gone = append(gone, a)
			continue
		}
		if partition < 0 || partition >= len(o.partitions) {
			return nil, fault.Bugf("shuffle: read partition %d of %s, which has %d", partition, a, len(o.partitions))
		}
		if len(fields) != len(o.fields) {
			return nil, fault.Bugf("shuffle: read %s as %d columns, it was written with %d", a, len(fields), len(o.fields))
		}
		if len(o.partitions[partition]) > 0 {
			r.rest = append(r.rest, o.partitions[partition])
		}
	}
	if gone != nil {
		return nil, &GoneError{From: gone}
	}
	return r, nil
}

// Drop implements Service.
func (m *Memory) Drop(job string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.jobs[job] {
		m.release(o)
	}
	delete(m.jobs, job)
}

// release gives an output's memory back. m.mu is held.
func (m *Memory) release(o *memoryOutput) {
	o.dropped = true
	m.used -= o.used
	o.used = 0
}

// reserve accounts n more bytes to o, the only place where the shuffle grows:
// a service that can evict would make room here. m.mu is held.
func (m *Memory) reserve(a Attempt, o *memoryOutput, n int64) error {
	if o.dropped {
		return droppedError(a)
	}
	if m.limit > 0 && m.used+n > m.limit {
		return &fault.Error{
			Class: fault.Retryable, SQLState: "53200",
			Message: fmt.Sprintf("shuffle: output of %s needs %d more bytes of memory, but %d of at most %d are in use", a, n, m.used, m.limit),
			Hint:    "raise the shuffle's memory limit, or run fewer jobs at a time",
		}
	}
	m.used += n
	o.used += n
	return nil
}

func droppedError(a Attempt) error {
	return fmt.Errorf("shuffle: the job of %s has ended: %w", a, context.Canceled)
}

type memoryWriter struct {
	m *Memory
	a Attempt
	o *memoryOutput
	// done is set by Finish and Abort.
	done bool
}

func (w *memoryWriter) Write(ctx context.Context, partition int, b *batch.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("shuffle: write output of %s: %w", w.a, err)
	}
	o := w.o
	switch {
	case w.done:
		return fault.Bugf("shuffle: write to the closed output of %s", w.a)
	case partition < 0 || partition >= len(o.partitions):
		return fault.Bugf("shuffle: write to partition %d of %s, which has %d", partition, w.a, len(o.partitions))
	case len(b.Columns) != len(o.fields):
		return fault.Bugf("shuffle: write %d columns to the output of %s, which has %d", len(b.Columns), w.a, len(o.fields))
	}
	rows := b.Rows()
	if rows == 0 {
		return nil
	}
	// Handing over a selection is free, but what is not selected stays in
	// memory with it: worth it only if most rows are.
	if b.Sel != nil && rows < b.Len/2 {
		b = batch.Compact(b)
	}
	var total, fresh int64
	for _, c := range b.Columns {
		total += batch.Bytes(c)
		fresh += w.count(c.Data())
	}
	w.m.mu.Lock()
	err := w.m.reserve(w.a, o, fresh)
	w.m.mu.Unlock()
	if err != nil {
		return err
	}
	o.partitions[partition] = append(o.partitions[partition], b)
	o.sizes[partition] += total * int64(rows) / int64(max(b.Len, 1))
	return nil
}

// count returns the bytes of the buffers of d that were not counted before.
func (w *memoryWriter) count(d arrow.ArrayData) int64 {
	var n int64
	for _, buf := range d.Buffers() {
		if buf == nil || buf.Len() == 0 {
			continue
		}
		first := &buf.Bytes()[0]
		if _, ok := w.o.counted[first]; !ok {
			w.o.counted[first] = struct{}{}
			n += int64(buf.Len())
		}
	}
	if d.DataType().ID() == arrow.DICTIONARY && d.Dictionary() != nil {
		n += w.count(d.Dictionary())
	}
	for _, c := range d.Children() {
		n += w.count(c)
	}
	return n
}

func (w *memoryWriter) Finish(ctx context.Context) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: finish output of %s: %w", w.a, err)
	}
	if w.done {
		return nil, fault.Bugf("shuffle: finish the closed output of %s", w.a)
	}
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.o.dropped {
		return nil, droppedError(w.a)
	}
	w.done = true
	w.o.finished = true
	w.o.counted = nil
	return slices.Clone(w.o.sizes), nil
}

func (w *memoryWriter) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.o.dropped {
		return
	}
	w.m.release(w.o)
	outputs := w.m.jobs[w.a.Job]
	delete(outputs, w.a)
	if len(outputs) == 0 {
		delete(w.m.jobs, w.a.Job)
	}
}

// memoryReader walks the partitions of several outputs.
type memoryReader struct {
	fields []schema.Field
	rest   [][]*batch.Batch
	closed bool
}

func (r *memoryReader) Fields() []schema.Field { return r.fields }

func (r *memoryReader) Next(ctx context.Context) (*batch.Batch, error) {
	if r.closed {
		return nil, fault.Bugf("shuffle: read after close")
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: read: %w", err)
	}
	if len(r.rest) == 0 {
		return nil, io.EOF
	}
	b := r.rest[0][0]
	if r.rest[0] = r.rest[0][1:]; len(r.rest[0]) == 0 {
		r.rest = r.rest[1:]
	}
	return b, nil
}

func (r *memoryReader) Close() error {
	r.closed, r.rest = true, nil
	return nil
}
