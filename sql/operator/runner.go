// Package operator runs plan fragments: vectorised operators that pull batches
// from each other (package batch), on Arrow's buffers directly. Dictionary-coded
// text stays coded: functions of one text column are computed once for each
// dictionary entry, group-by and join keys are looked up by code. Selections
// are passed on, not copied.
package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// Runner runs plan.Fragments: the jobs.Runner of kind "sql". It keeps nothing
// between runs and is safe for concurrent use.
type Runner struct{ registry *function.Registry }

var _ jobs.Runner = (*Runner)(nil)

// NewRunner returns a runner whose calls are bound by reg.
func NewRunner(reg *function.Registry) *Runner { return &Runner{reg} }

// Run implements jobs.Runner.
func (r *Runner) Run(ctx context.Context, c *jobs.Context) (err error) {
	fragment, ok := c.Work.(*plan.Fragment)
	if !ok {
		return fault.Bugf("sql: work of type %T", c.Work)
	}
	defer func() { // a fault in a kernel must not take the other tasks with it
		if p := recover(); p != nil {
			err = fault.Bugf("sql: task %d of stage %d: panic: %v\n%s", c.ID.Task, c.ID.Stage, p, debug.Stack())
		}
	}()
	t := &tree{c: c, compiler: compiler{r.registry, &function.Context{Now: fragment.Now, Location: fragment.Location, Settings: fragment.Settings}},
		budget: &budget{limit: c.Memory, dir: c.SpillFolder}}
	defer func() {
		if closeErr := t.budget.close(); err == nil {
			err = closeErr
		}
	}()
	if t.compiler.context.Now.IsZero() {
		t.compiler.context.Now = time.Now()
	}
	var input batch.Reader
	var out sink
	switch root := fragment.Root.(type) {
	case *plan.Exchange:
		if c.Shuffle == nil {
			return fault.Bugf("sql: an exchange without a shuffle")
		}
		if input, err = t.build(ctx, root.Input, nil); err == nil {
			out, err = newExchange(&t.compiler, root, c)
		}
	case *plan.Write:
		if c.Output == nil {
			return fault.Bugf("sql: a write without an output")
		}
		out = outputSink{c}
		input, err = t.build(ctx, root.Input, nil)
	default:
		return fault.Bugf("sql: a fragment whose root is a %T", fragment.Root)
	}
	if err == nil {
		err = t.pump(ctx, input, out)
	}
	t.count()
	for _, r := range t.opened {
		if closeErr := r.Close(); err == nil {
			err = closeErr
		}
	}
	return err
}

// tree is the operators of one attempt.
type tree struct {
	c        *jobs.Context
	compiler compiler
	budget   *budget
	opened   []io.Closer // leaves: operators have nothing to close themselves
	scan     inputformat.Reader
}

// build makes the operators of n, of whose columns need says which are looked at
// (nil: all).
func (t *tree) build(ctx context.Context, n plan.Node, need []bool) (batch.Reader, error) {
	children := n.Children()
	in := make([]batch.Reader, len(children))
	below := needed(n, need)
	for i, c := range children {
		var err error
		if in[i], err = t.build(ctx, c, below[i]); err != nil {
			return nil, err
		}
	}
	switch n := n.(type) {
	case *plan.Scan:
		return t.open(ctx, n)
	case *plan.Input:
		if n.Index < 0 || n.Index >= len(t.c.Inputs) {
			return nil, fault.Bugf("sql: input %d of %d", n.Index, len(t.c.Inputs))
		}
		t.opened = append(t.opened, t.c.Inputs[n.Index])
		return t.c.Inputs[n.Index], nil
	case *plan.Values:
		return &values{fields: n.Out, rows: n.Rows, c: &t.compiler}, nil
	case *plan.Filter:
		return built(newFilter(&t.compiler, n, in[0]))
	case *plan.Project:
		return built(newProject(&t.compiler, n, in[0]))
	case *plan.Aggregate:
		return built(newAggregate(&t.compiler, n, in[0], t.budget))
	case *plan.Join:
		j, err := newJoin(&t.compiler, n, in[0], in[1], t.budget)
		if err != nil {
			return nil, err
		}
		j.need = need
		return j, nil
	case *plan.Union:
		return newUnion(n, in)
	case *plan.Expand:
		return built(newExpand(&t.compiler, n, in[0]))
	case *plan.Generate:
		g, err := newGenerate(&t.compiler, n, in[0])
		if err != nil {
			return nil, err
		}
		g.need = need
		return g, nil
	case *plan.Window:
		return built(newWindow(&t.compiler, n, in[0], t.budget))
	case *plan.Sort:
		return built(newSorter(&t.compiler, n, in[0], t.budget))
	case *plan.Limit:
		return &limit{input: in[0], offset: n.Offset, count: n.Count}, nil
	}
	return nil, fault.Bugf("sql: a %T inside a fragment", n)
}

// built keeps a nil *T from becoming a non-nil Reader.
func built[T batch.Reader](r T, err error) (batch.Reader, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// open opens the task's split; without one (an empty table) there are no rows.
func (t *tree) open(ctx context.Context, n *plan.Scan) (batch.Reader, error) {
	if t.c.Task.Split == nil {
		return &values{fields: n.Fields(), c: &t.compiler}, nil
	}
	if t.scan != nil {
		return nil, fault.Bugf("sql: two scans in a fragment")
	}
	f, ok := t.c.Formats[n.Spec.Format()]
	if !ok {
		return nil, fault.Bugf("sql: no input format %q", n.Spec.Format())
	}
	r, err := f.Open(ctx, n.Spec, *t.c.Task.Split)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", t.c.Task.Split.Label, err)
	}
	t.scan = r
	t.opened = append(t.opened, r)
	return &scan{Reader: r, t: t}, nil
}

// scan is the task's split; it reports progress as it is read.
type scan struct {
	inputformat.Reader
	t       *tree
	batches int
}

// progressEvery is how many batches pass between two reports.
const progressEvery = 16

func (s *scan) Next(ctx context.Context) (*batch.Batch, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s.batches++; s.batches%progressEvery == 0 {
		s.t.progress()
	}
	return s.Reader.Next(ctx)
}

// pump moves the rows of input to out.
func (t *tree) pump(ctx context.Context, input batch.Reader, out sink) error {
	var rows int64
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b, err := input.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		rows += int64(b.Rows())
		if err := out.write(ctx, b); err != nil {
			return err
		}
	}
	if err := out.finish(ctx); err != nil {
		return err
	}
	t.c.Counters[jobs.CounterRowsOut] += rows
	if t.c.Progress != nil {
		t.c.Progress(1)
	}
	return nil
}

// progress reports the share of the split that has been read.
func (t *tree) progress() {
	if t.c.Progress == nil || t.scan == nil {
		return
	}
	s, split := t.scan.Stats(), t.c.Task.Split
	switch {
	case split.Rows > 0:
		t.c.Progress(min(1, float64(s.RowsRead)/float64(split.Rows)))
	case split.Bytes > 0:
		t.c.Progress(min(1, float64(s.BytesRead)/float64(split.Bytes)))
	}
}

// count adds what the scan has read to the attempt's counters.
func (t *tree) count() {
	if t.budget.space != nil {
		bytes, _ := t.budget.space.Bytes()
		t.c.Counters[jobs.CounterSpillBytes] += bytes
	}
	if t.scan == nil {
		return
	}
	s := t.scan.Stats()
	for name, n := range map[string]int64{
		jobs.CounterRowsRead: s.RowsRead, jobs.CounterBytesRead: s.BytesRead,
		jobs.CounterBadCells: s.BadCells, jobs.CounterBadRows: s.BadRows,
	} {
		if n != 0 {
			t.c.Counters[name] += n
		}
	}
}

// Execute runs a plan tree without a job: leaves that are Inputs read from inputs.
// memory bounds what operators hold, in bytes, beyond which they write to the system's
// folder for temporary files; 0 is no bound. Closing the reader removes those files.
func Execute(ctx context.Context, reg *function.Registry, n plan.Node, inputs []batch.Reader, fc *function.Context, memory int64) (batch.Reader, error) {
	t := &tree{c: &jobs.Context{Inputs: inputs, Task: &jobs.Task{}}, compiler: compiler{reg, contextOf(fc)}, budget: &budget{limit: memory}}
	r, err := t.build(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	return &executed{r, t.budget}, nil
}

type executed struct {
	batch.Reader
	budget *budget
}

func (e *executed) Close() error { return errors.Join(e.Reader.Close(), e.budget.close()) }
