package shuffle

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// output is what one attempt has written.
type output struct {
	l      *Local
	a      Attempt
	fields []schema.Field

	// mu is held while batches are added, written out or merged; it comes
	// before l.mu.
	mu sync.Mutex
	// counted has the first bytes of the buffers that held includes: the
	// partitions of a batch share its columns, the batches of a row group
	// their dictionary.
	counted map[*byte]struct{}
	runs    []*run // written out, the oldest first

	// parts are the batches by partition. Until the output is finished mu guards
	// them; then nobody changes them, and l.mu guards that they are there.
	parts [][]*batch.Batch
	sizes []int64 // bytes by partition, whether in memory or not; the writer's

	// These are l.mu's.
	used     int64 // bytes accounted: held, and reserved for a batch to come
	held     int64 // bytes of parts
	finished bool
	dropped  bool
	evicting bool    // somebody is in evict, or about to be
	file     *stored // not nil: finished, and on disk
}

// evict writes what the output holds to disk.
func (o *output) evict() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.l
	l.mu.Lock()
	finished, gone := o.finished, o.dropped || o.held == 0
	parts := o.parts
	l.mu.Unlock()
	if gone {
		return nil
	}
	if !finished {
		return o.spill()
	}
	f, err := l.store(o, parts)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if o.dropped {
		l.mu.Unlock()
		l.remove(f.paths()...)
		l.removeJob(o.a.Job)
		return nil
	}
	o.file, o.parts = f, nil
	o.release(o.held)
	l.mu.Unlock()
	return nil
}

// spill writes the batches of an unfinished output to a run. o.mu is held. After
// an error the batches are where they were.
func (o *output) spill() error {
	l := o.l
	r, err := l.writeRun(o, fmt.Sprintf("run%d", len(o.runs)), o.parts)
	if err != nil {
		return err
	}
	o.runs = append(o.runs, r)
	for i := range o.parts {
		o.parts[i] = nil
	}
	o.counted = nil
	l.mu.Lock()
	o.release(o.held)
	l.mu.Unlock()
	return nil
}

// release gives n held bytes back. l.mu is held.
func (o *output) release(n int64) {
	o.held -= n
	if !o.dropped {
		o.used -= n
		o.l.used -= n
	}
}

// count returns the bytes of the buffers of d that were not counted before, and
// counts them if add is set. o.mu is held.
func (o *output) count(d arrow.ArrayData, add bool) int64 {
	var n int64
	for _, buf := range d.Buffers() {
		if buf == nil || buf.Len() == 0 {
			continue
		}
		first := &buf.Bytes()[0]
		if _, ok := o.counted[first]; !ok {
			n += int64(buf.Len())
			if add {
				o.counted[first] = struct{}{}
			}
		}
	}
	if d.DataType().ID() == arrow.DICTIONARY && d.Dictionary() != nil {
		n += o.count(d.Dictionary(), add)
	}
	for _, c := range d.Children() {
		n += o.count(c, add)
	}
	return n
}

type localWriter struct {
	o *output
	// done is set by Finish and Abort.
	done bool
}

func (w *localWriter) Write(ctx context.Context, partition int, b *batch.Batch) error {
	o := w.o
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("shuffle: write output of %s: %w", o.a, err)
	}
	switch {
	case w.done:
		return fault.Bugf("shuffle: write to the closed output of %s", o.a)
	case partition < 0 || partition >= len(o.sizes):
		return fault.Bugf("shuffle: write to partition %d of %s, which has %d", partition, o.a, len(o.sizes))
	case len(b.Columns) != len(o.fields):
		return fault.Bugf("shuffle: write %d columns to the output of %s, which has %d", len(b.Columns), o.a, len(o.fields))
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
	reserved := o.fresh(b, false)
	if err := o.l.reserve(ctx, o, reserved); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	// The output may have been written out since: then more of the batch is fresh.
	n := o.freshLocked(b, true)
	o.l.mu.Lock()
	if o.dropped {
		o.l.mu.Unlock()
		return droppedError(o.a)
	}
	o.held += n
	o.used += n - reserved
	o.l.used += n - reserved
	o.l.mu.Unlock()
	o.parts[partition] = append(o.parts[partition], b)
	var total int64
	for _, c := range b.Columns {
		total += batch.Bytes(c)
	}
	o.sizes[partition] += total * int64(rows) / int64(max(b.Len, 1))
	return nil
}

func (o *output) fresh(b *batch.Batch, add bool) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.freshLocked(b, add)
}

// freshLocked returns how many bytes of b the output doesn't hold yet.
func (o *output) freshLocked(b *batch.Batch, add bool) int64 {
	if o.counted == nil {
		o.counted = map[*byte]struct{}{}
	}
	var n int64
	for _, c := range b.Columns {
		n += o.count(c.Data(), add)
	}
	return n
}

func (w *localWriter) Finish(ctx context.Context) ([]int64, error) {
	o := w.o
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: finish output of %s: %w", o.a, err)
	}
	if w.done {
		return nil, fault.Bugf("shuffle: finish the closed output of %s", o.a)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var f *stored
	if len(o.runs) > 0 {
		if o.holds() {
			if err := o.spill(); err != nil {
				return nil, fmt.Errorf("shuffle: finish output of %s: %w", o.a, err)
			}
		}
		var err error
		if f, err = o.l.merge(ctx, o); err != nil {
			return nil, fmt.Errorf("shuffle: finish output of %s: %w", o.a, err)
		}
		o.runs = nil
	}
	o.l.mu.Lock()
	if o.dropped {
		o.l.mu.Unlock()
		if f != nil {
			o.l.remove(f.paths()...)
			o.l.removeJob(o.a.Job)
		}
		return nil, droppedError(o.a)
	}
	o.finished, o.file = true, f
	if f != nil {
		o.parts = nil
	}
	o.l.mu.Unlock()
	w.done = true
	o.counted = nil
	return slices.Clone(o.sizes), nil
}

// holds reports whether any batch is in memory. o.mu is held.
func (o *output) holds() bool {
	return slices.ContainsFunc(o.parts, func(p []*batch.Batch) bool { return len(p) > 0 })
}

func (w *localWriter) Abort() {
	if w.done {
		return
	}
	w.done = true
	o := w.o
	// Whoever is writing the output out holds mu; it ends soon.
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.l
	l.mu.Lock()
	if !o.dropped {
		l.used -= o.used
		o.used, o.dropped = 0, true
		outputs := l.jobs[o.a.Job]
		delete(outputs, o.a)
		if len(outputs) == 0 {
			delete(l.jobs, o.a.Job)
		}
	}
	o.held = 0
	l.notify()
	l.mu.Unlock()
	o.parts, o.counted = nil, nil
	if len(o.runs) > 0 {
		for _, r := range o.runs {
			l.remove(r.path)
		}
		o.runs = nil
		l.removeJob(o.a.Job)
	}
}
