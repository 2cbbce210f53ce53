package worker

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
)

// run is one attempt in the doing.
type run struct {
	w        *Worker
	a        *jobs.Assignment
	report   jobs.Reporter
	counters jobs.Counters

	inputs  []batch.Reader
	shuffle shuffle.Writer
	output  outputformat.Writer
	rowsOut int64

	reported time.Time // when progress was last reported
}

// do opens the doors, runs the work and finishes the output. At most one of
// the two outputs is open, so at most one is ever finished.
func (r *run) do(ctx context.Context) (*outputformat.Manifest, error) {
	a := r.a
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if a.Stage == nil || a.Task == nil || a.Stage.Work == nil || len(a.Inputs) != len(a.Stage.Inputs) {
		return nil, fault.Bugf("run %s: the assignment is incomplete", a.ID)
	}
	kind := a.Stage.Work.Kind()
	runner := r.w.o.Runners[kind]
	if runner == nil {
		return nil, fault.Bugf("run %s: worker %s can't do work of kind %q", a.ID, r.w.name(), kind)
	}
	for i := range a.Inputs {
		in, err := r.openInput(ctx, &a.Inputs[i])
		if err != nil {
			return nil, fmt.Errorf("open shuffle input %d: %w", i, err)
		}
		r.inputs = append(r.inputs, in)
	}
	c := &jobs.Context{
		ID: a.ID, Stage: a.Stage, Task: a.Task, Work: a.Stage.Work,
		Inputs: r.inputs, Formats: r.w.o.Inputs,
		Counters: r.counters, Progress: r.progress,
		Memory: r.w.o.Memory / int64(r.w.o.Worker.Slots), SpillFolder: r.w.o.SpillFolder,
	}
	if err := r.openOutput(ctx, c); err != nil {
		return nil, err
	}
	if err := runner.Run(ctx, c); err != nil {
		return nil, err
	}
	r.closeInputs()
	// The last moment at which a cancelled attempt can be stopped.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.counters[jobs.CounterRowsOut] = r.rowsOut
	switch {
	case r.shuffle != nil:
		sizes, err := r.shuffle.Finish(ctx)
		if err != nil {
			return nil, fmt.Errorf("finish shuffle output: %w", err)
		}
		var total int64
		for _, n := range sizes {
			total += n
		}
		r.counters[jobs.CounterShuffleBytes] = total
	case r.output != nil:
		m, err := r.output.Finish(ctx)
		if err != nil {
			return nil, fmt.Errorf("finish output: %w", err)
		}
		return &m, nil
	}
	return nil, nil
}

// openInput opens one partition of an input, or all of them in order.
func (r *run) openInput(ctx context.Context, in *jobs.Input) (batch.Reader, error) {
	if in.Workers != nil && len(in.Workers) != len(in.From) {
		return nil, fault.Bugf("run %s: an input of %d attempts is on %d workers", r.a.ID, len(in.From), len(in.Workers))
	}
	from := make([]shuffle.Source, len(in.From))
	for i, id := range in.From {
		from[i].Attempt = shuffle.Attempt{Job: string(id.Job), Stage: id.Stage, Task: id.Task, Attempt: id.Attempt}
		if in.Workers != nil {
			from[i].Worker, from[i].Address = in.Workers[i], r.a.Addresses[in.Workers[i]]
		}
	}
	first, n := r.a.Task.Index, 1
	if in.Broadcast {
		first, n = 0, in.Partitions
	}
	out := &inputReader{fields: in.Fields, rest: n}
	out.open = func(ctx context.Context) (batch.Reader, error) {
		return r.w.o.Shuffle.Reader(ctx, in.Fields, first+n-out.rest, from)
	}
	// The first one at once, so that output that is gone is known before work begins.
	if err := out.next(ctx); err != nil {
		return nil, err
	}
	return out, nil
}

func (r *run) openOutput(ctx context.Context, c *jobs.Context) error {
	a := r.a
	switch {
	case a.Stage.Partitions > 0:
		id := shuffle.Attempt{Job: string(a.ID.Job), Stage: a.ID.Stage, Task: a.ID.Task, Attempt: a.ID.Attempt}
		w, err := r.w.o.Shuffle.Writer(ctx, id, a.Stage.Fields, a.Stage.Partitions)
		if err != nil {
			return fmt.Errorf("open shuffle output: %w", err)
		}
		r.shuffle = w
		c.Shuffle = shuffleDoor{r}
	case a.Output != nil:
		f := r.w.o.Outputs[a.Output.Format()]
		if f == nil {
			return fault.Bugf("run %s: worker %s can't write format %q", a.ID, r.w.name(), a.Output.Format())
		}
		w, err := f.Open(ctx, a.Output, a.Stage.Fields, a.Task.Index, a.ID.String())
		if err != nil {
			return fmt.Errorf("open output %s: %w", a.Output.Describe(), err)
		}
		r.output = w
		c.Output = outputDoor{r}
	}
	return nil
}

func (r *run) closeInputs() {
	for _, in := range r.inputs {
		_ = in.Close() // everything has been read
	}
	r.inputs = nil
}

// abort drops what is open: a no-op after do has succeeded.
func (r *run) abort() {
	r.closeInputs()
	if r.shuffle != nil {
		r.shuffle.Abort()
	}
	if r.output != nil {
		if err := r.output.Abort(); err != nil {
			r.w.o.Logger.Warn("output of attempt not removed", "attempt", r.a.ID.String(), "error", err.Error())
		}
	}
}

// progress is the attempt's jobs.Context.Progress.
func (r *run) progress(share float64) {
	now := time.Now()
	if now.Sub(r.reported) < r.w.o.ProgressEvery {
		return
	}
	r.reported = now
	r.report.Progress(r.a.ID, share)
}

// shuffleDoor and outputDoor are what a runner writes to. They count, and stop a
// runner that does not look at its context itself.
type shuffleDoor struct{ r *run }

func (d shuffleDoor) Write(ctx context.Context, partition int, b *batch.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.r.rowsOut += int64(b.Rows())
	return d.r.shuffle.Write(ctx, partition, b)
}

type outputDoor struct{ r *run }

func (d outputDoor) Write(ctx context.Context, b *batch.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.r.rowsOut += int64(b.Rows())
	return d.r.output.Write(ctx, b)
}

// inputReader reads partitions one after the other. Each is opened when the one
// before it ends, so that no more than one is fetched at a time.
type inputReader struct {
	fields []schema.Field
	rest   int // partitions that are not open yet
	open   func(context.Context) (batch.Reader, error)
	part   batch.Reader // nil: none is open
	err    error
}

func (r *inputReader) Fields() []schema.Field { return r.fields }

// next opens the next partition, if there is one.
func (r *inputReader) next(ctx context.Context) error {
	if r.rest == 0 {
		return nil
	}
	part, err := r.open(ctx)
	if err != nil {
		return err
	}
	r.rest--
	r.part = part
	return nil
}

func (r *inputReader) Next(ctx context.Context) (*batch.Batch, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for r.part != nil {
		b, err := r.part.Next(ctx)
		if err == nil {
			return b, nil
		}
		if err != io.EOF {
			r.err = err
			return nil, err
		}
		_ = r.part.Close() // read to its end
		r.part = nil
		if err := r.next(ctx); err != nil {
			r.err = err
			return nil, err
		}
	}
	r.err = io.EOF
	return nil, io.EOF
}

func (r *inputReader) Close() error {
	if r.part != nil {
		_ = r.part.Close() // nobody wants the rest
	}
	r.part, r.rest, r.err = nil, 0, io.EOF
	return nil
}
