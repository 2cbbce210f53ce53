package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/schema"
)

// Programs are those that are part of Skep, by name: a value that node makes.
type Programs map[string]mapreduce.Program

// NewPrograms returns the programs by their names; every one must describe
// itself without fault, and no two have one name.
func NewPrograms(programs ...mapreduce.Program) (Programs, error) {
	out := Programs{}
	for _, p := range programs {
		d, err := p.Describe()
		if err != nil {
			return nil, err
		}
		if out[d.Name] != nil {
			return nil, fault.Bugf("two programs are named %s", d.Name)
		}
		out[d.Name] = p
	}
	return out, nil
}

// Names returns the names in order.
func (p Programs) Names() []string { return slices.Sorted(maps.Keys(p)) }

// Runner runs Work: the jobs.Runner of Kind. Safe for concurrent use.
type Runner struct {
	Programs Programs
	// Logs has what programs write to their logs; nil: it is dropped.
	Logs Logs
	// Children runs programs that are not part of Skep; nil: they are refused.
	Children Launcher
}

// Logs keeps what attempts write.
type Logs interface {
	// Create opens the log of an attempt, anew.
	Create(id jobs.AttemptID) (io.WriteCloser, error)
}

var _ jobs.Runner = (*Runner)(nil)

// Run implements jobs.Runner.
func (r *Runner) Run(ctx context.Context, c *jobs.Context) error {
	w, ok := c.Work.(*Work)
	if !ok {
		return fault.Bugf("mapreduce: work of type %T", c.Work)
	}
	a := &mapreduce.Attempt{Reduce: w.Reduce, Index: c.Task.Index, Partitions: c.Stage.Partitions, Params: w.Params, Memory: c.Memory, Dir: c.SpillFolder}
	in, err := r.input(ctx, c, w, a)
	if err != nil {
		return err
	}
	defer in.Close()
	a.Input = in
	a.Write = writer(c, w)
	log := &lazyLog{logs: r.Logs, id: c.ID}
	a.Log = log
	if w.Artifact != "" {
		err = r.child(ctx, c, w, a)
	} else if p := r.Programs[w.Program]; p != nil {
		err = mapreduce.Run(ctx, p, a)
	} else {
		err = fault.Bugf("mapreduce: there is no program %s here", w.Program)
	}
	in.settle()
	c.Counters.Add(a.Counters)
	return errors.Join(err, log.Close())
}

// lazyLog is the log of an attempt, which is made when something is written.
type lazyLog struct {
	logs Logs
	id   jobs.AttemptID
	to   io.WriteCloser
	err  error
}

func (l *lazyLog) Write(p []byte) (int, error) {
	if l.logs == nil {
		return len(p), nil
	}
	if l.to == nil && l.err == nil {
		l.to, l.err = l.logs.Create(l.id)
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.to.Write(p)
}

func (l *lazyLog) Close() error {
	if l.to == nil {
		return nil
	}
	return l.to.Close()
}

// input opens what the attempt reads.
func (r *Runner) input(ctx context.Context, c *jobs.Context, w *Work, a *mapreduce.Attempt) (*input, error) {
	if w.Reduce {
		if len(c.Inputs) != 1 {
			return nil, fault.Bugf("mapreduce: a reduce with %d inputs", len(c.Inputs))
		}
		a.Label = fmt.Sprintf("partition %d", c.Task.Index)
		return &input{Reader: c.Inputs[0], c: c}, nil
	}
	if c.Task.Split == nil {
		return &input{Reader: empty(w.Input.Fields()), c: c}, nil
	}
	a.Label = c.Task.Split.Label
	format := c.Formats[w.Input.Format()]
	if format == nil {
		return nil, fault.Bugf("mapreduce: no input format %q", w.Input.Format())
	}
	in, err := format.Open(ctx, w.Input, *c.Task.Split)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", a.Label, err)
	}
	return &input{Reader: in, c: c, counted: in}, nil
}

// input is an attempt's input that counts and tells how far it is.
type input struct {
	batch.Reader
	c       *jobs.Context
	counted inputformat.Reader // nil: reads no split
}

// Next implements batch.Reader.
func (in *input) Next(ctx context.Context) (*batch.Batch, error) {
	b, err := in.Reader.Next(ctx)
	if in.counted != nil && in.c.Progress != nil && in.c.Task.Bytes > 0 {
		in.c.Progress(min(float64(in.counted.Stats().BytesRead)/float64(in.c.Task.Bytes), 1))
	}
	return b, err
}

// settle adds what was read to the counters.
func (in *input) settle() {
	if in.counted == nil {
		return
	}
	s := in.counted.Stats()
	in.c.Counters.Add(jobs.Counters{jobs.CounterRowsRead: s.RowsRead, jobs.CounterBytesRead: s.BytesRead})
	if s.BadCells > 0 {
		in.c.Counters[jobs.CounterBadCells] += s.BadCells
	}
}

// empty is a reader without rows.
type empty []schema.Field

func (e empty) Fields() []schema.Field                   { return e }
func (empty) Next(context.Context) (*batch.Batch, error) { return nil, io.EOF }
func (empty) Close() error                               { return nil }

// writer returns where an attempt's output goes.
func writer(c *jobs.Context, w *Work) func(context.Context, int, *batch.Batch) error {
	if c.Shuffle != nil {
		return c.Shuffle.Write
	}
	return func(ctx context.Context, _ int, b *batch.Batch) error {
		if c.Output == nil {
			return fault.Bugf("mapreduce: the job has no output")
		}
		if w.Columns != nil {
			b = arrange(b, w)
		}
		return c.Output.Write(ctx, b)
	}
}

// arrange puts a program's columns where the output has them.
func arrange(b *batch.Batch, w *Work) *batch.Batch {
	out := &batch.Batch{Len: b.Len, Sel: b.Sel, Columns: make([]arrow.Array, len(w.Columns))}
	for i, at := range w.Columns {
		if at >= 0 {
			out.Columns[i] = b.Columns[at]
			continue
		}
		nulls := make([]schema.Datum, b.Len)
		for k := range nulls {
			nulls[k] = schema.NullOf(w.Output[i].Type)
		}
		out.Columns[i] = schema.ArrayOf(w.Output[i].Type, nulls)
	}
	return out
}
