package operator

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// union yields the rows of its inputs, one after the other.
type union struct {
	inputs []batch.Reader
	fields []schema.Field
	next   int
}

func newUnion(n *plan.Union, inputs []batch.Reader) (batch.Reader, error) {
	if len(inputs) == 0 {
		return nil, fault.Bugf("a union of nothing")
	}
	fields := n.Fields()
	for k, in := range inputs {
		got := in.Fields()
		if len(got) != len(fields) {
			return nil, fault.Bugf("union: input %d has %d columns, the first %d", k+1, len(got), len(fields))
		}
		for i := range got {
			if !got[i].Type.Equal(fields[i].Type) {
				return nil, fault.Bugf("union: column %d of input %d is %s, of the first %s", i+1, k+1, got[i].Type, fields[i].Type)
			}
		}
	}
	return &union{inputs: inputs, fields: fields}, nil
}

func (u *union) Fields() []schema.Field { return u.fields }

func (u *union) Close() error {
	errs := make([]error, len(u.inputs))
	for i, in := range u.inputs {
		errs[i] = in.Close()
	}
	return errors.Join(errs...)
}

func (u *union) Next(ctx context.Context) (*batch.Batch, error) {
	for u.next < len(u.inputs) {
		b, err := u.inputs[u.next].Next(ctx)
		if err == nil || !errors.Is(err, io.EOF) {
			return b, err
		}
		u.next++
	}
	return nil, io.EOF
}

// expand yields each batch once a projection.
type expand struct {
	input  batch.Reader
	fields []schema.Field
	sets   []*project
	b      *batch.Batch // the batch that is projected
	next   int          // projection of b
}

func newExpand(c *compiler, n *plan.Expand, input batch.Reader) (*expand, error) {
	if len(n.Projections) == 0 {
		return nil, fault.Bugf("an expansion without projections")
	}
	x := &expand{input: input, fields: n.Fields(), next: len(n.Projections)}
	for _, exprs := range n.Projections {
		p, err := newProject(c, &plan.Project{Input: n.Input, Exprs: exprs, Names: n.Names}, input)
		if err != nil {
			return nil, err
		}
		x.sets = append(x.sets, p)
	}
	return x, nil
}

func (x *expand) Fields() []schema.Field { return x.fields }
func (x *expand) Close() error           { return x.input.Close() }

func (x *expand) Next(ctx context.Context) (*batch.Batch, error) {
	if x.next == len(x.sets) {
		b, err := x.input.Next(ctx)
		if err != nil {
			return nil, err
		}
		x.b, x.next = b, 0
	}
	x.next++
	return x.sets[x.next-1].apply(x.b)
}

// sliced cuts a result of any length into batches.
type sliced struct {
	columns []arrow.Array
	n, from int
}

// next returns the next batch, nil at the end.
func (s *sliced) next() *batch.Batch {
	if s.from >= s.n {
		return nil
	}
	to := min(s.n, s.from+batch.MaxRows)
	b := &batch.Batch{Len: to - s.from, Columns: make([]arrow.Array, len(s.columns))}
	for i, c := range s.columns {
		b.Columns[i] = batch.Slice(c, s.from, to)
	}
	s.from = to
	return b
}
