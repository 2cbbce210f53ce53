package operator

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// generateRows is how many input rows a table-generating function is given at a
// time: their results are held together.
const generateRows = 1024

// generate applies a table-generating function: each row comes with every row that
// the function makes of it, LATERAL VIEW.
type generate struct {
	c      *compiler
	input  batch.Reader
	fields []schema.Field
	out    []schema.Field // of the function
	args   []compiled
	kernel function.TableKernel
	outer  bool
	need   []bool // see join.need

	b       *batch.Batch
	from    int // rows of b that have been given to the function
	pending sliced
}

func newGenerate(c *compiler, n *plan.Generate, input batch.Reader) (*generate, error) {
	bound := n.Bound
	if bound == nil {
		for _, a := range n.Args {
			bound = append(bound, a.Type())
		}
	}
	s, err := c.registry.ResolveTable(n.Name, bound, constants(n.Args)...)
	if err != nil {
		return nil, err
	}
	if len(s.Args) != len(n.Args) {
		return nil, fault.Bugf("%s: %d arguments in the plan, %d in the signature", n.Name, len(n.Args), len(s.Args))
	}
	if len(s.Out) != len(n.Out) {
		return nil, fault.Bugf("%s: %d columns in the plan, %d in the signature", n.Name, len(n.Out), len(s.Out))
	}
	g := &generate{c: c, input: input, fields: n.Fields(), out: n.Out, kernel: s.Kernel, outer: n.Outer}
	for i, e := range n.Args {
		if !e.Type().Equal(s.Args[i]) {
			e = &plan.Cast{Arg: e, T: s.Args[i]}
		}
		x, err := c.compile(e, input.Fields())
		if err != nil {
			return nil, err
		}
		g.args = append(g.args, x)
	}
	return g, nil
}

// constants returns the values of the arguments that are literals, nil for the others.
func constants(args []plan.Expr) []*schema.Datum {
	out := make([]*schema.Datum, len(args))
	for i, e := range args {
		if l, ok := e.(*plan.Literal); ok {
			out[i] = &l.Value
		}
	}
	return out
}

func (g *generate) Fields() []schema.Field { return g.fields }
func (g *generate) Close() error           { return g.input.Close() }

func (g *generate) Next(ctx context.Context) (*batch.Batch, error) {
	for {
		if b := g.pending.next(); b != nil {
			return b, nil
		}
		if g.b == nil || g.from >= g.b.Rows() {
			b, err := g.input.Next(ctx)
			if err != nil {
				return nil, err
			}
			g.b, g.from = b, 0
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		to := min(g.b.Rows(), g.from+generateRows)
		part := slice(g.b, g.from, to)
		g.from = to
		if err := g.apply(part); err != nil {
			return nil, err
		}
	}
}

// apply makes the rows of one part of a batch.
func (g *generate) apply(b *batch.Batch) error {
	r := dense(b, g.args)
	args, err := evalAll(g.args, r)
	if err != nil {
		return err
	}
	from, columns, err := g.kernel(g.c.context, r.n, args)
	if err != nil {
		return err
	}
	if g.outer {
		from, columns = withEmpty(from, columns, r.n, g.out)
	}
	at := from
	if b.Sel != nil {
		at = make([]int32, len(from))
		for k, i := range from {
			at[k] = b.Sel[i]
		}
	}
	g.pending = sliced{n: len(at), columns: make([]arrow.Array, 0, len(g.fields))}
	for i, c := range b.Columns {
		if g.need != nil && !g.need[i] {
			g.pending.columns = append(g.pending.columns, array.NewNull(len(at)))
			continue
		}
		g.pending.columns = append(g.pending.columns, batch.Gather(c, at))
	}
	g.pending.columns = append(g.pending.columns, columns...)
	return nil
}

// withEmpty adds a row of NULLs for each of n input rows that has none.
func withEmpty(from []int32, columns []arrow.Array, n int, out []schema.Field) ([]int32, []arrow.Array) {
	all := make([]int32, 0, len(from)+n)
	at := make([]int32, 0, len(from)+n)
	k := 0
	for i := range int32(n) {
		if k == len(from) || from[k] != i {
			all, at = append(all, i), append(at, -1)
		}
		for ; k < len(from) && from[k] == i; k++ {
			all, at = append(all, i), append(at, int32(k))
		}
	}
	if len(all) == len(from) {
		return from, columns
	}
	padded := make([]arrow.Array, len(columns))
	for i, c := range columns {
		if c.DataType().ID() == arrow.NULL {
			c = function.NullArray(out[i].Type, c.Len())
		}
		padded[i] = batch.Gather(c, at)
	}
	return all, padded
}
