package operator

import (
	"slices"

	"github.com/skepdb/skep/sql/plan"
)

// needed says which columns of its children somebody looks at, given which of
// n's own are (nil: all). A join doesn't gather the others: their arrays are NULLs, in every
// batch, whatever their type.
func needed(n plan.Node, need []bool) [][]bool {
	children := n.Children()
	out := make([][]bool, len(children))
	of := func(child int, exprs ...[]plan.Expr) []bool {
		m := make([]bool, len(children[child].Fields()))
		for _, list := range exprs {
			for _, e := range list {
				mark(m, e, 0)
			}
		}
		return m
	}
	switch n := n.(type) {
	case *plan.Project:
		out[0] = of(0, n.Exprs)
	case *plan.Filter:
		if need != nil {
			out[0] = or(of(0, []plan.Expr{n.Cond}), need)
		}
	case *plan.Aggregate:
		m := of(0, n.Keys)
		for _, a := range n.Aggs {
			for _, e := range a.Args {
				mark(m, e, 0)
			}
			if a.Filter != nil {
				mark(m, a.Filter, 0)
			}
		}
		out[0] = m
	case *plan.Join:
		l, r := of(0, n.LeftKeys), of(1, n.RightKeys)
		if n.Residual != nil {
			mark(l, n.Residual, 0)
			mark(r, n.Residual, len(l))
		}
		if need == nil {
			break
		}
		out[0] = or(l, need)
		switch n.Kind {
		case plan.LeftSemi, plan.LeftAnti, plan.LeftMark:
			out[1] = r
		default:
			out[1] = or(r, need[len(l):])
		}
	case *plan.Sort:
		if need != nil {
			m := of(0)
			for _, k := range n.Keys {
				mark(m, k.Expr, 0)
			}
			out[0] = or(m, need)
		}
	case *plan.Limit:
		out[0] = need
	case *plan.Expand:
		out[0] = of(0, n.Projections...)
	case *plan.Generate:
		if need != nil {
			out[0] = or(of(0, n.Args), need)
		}
	case *plan.Window:
		if need == nil {
			break
		}
		m := of(0, n.PartitionBy)
		for _, k := range n.OrderBy {
			mark(m, k.Expr, 0)
		}
		for _, c := range n.Calls {
			for _, e := range c.Args {
				mark(m, e, 0)
			}
		}
		out[0] = or(m, need)
	}
	return out
}

// mark marks the columns that e refers to; those of m begin at base.
func mark(m []bool, e plan.Expr, base int) {
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Column); ok && c.Index >= base && c.Index < base+len(m) {
			m[c.Index-base] = true
		}
	})
}

// or adds the first marks of need to m.
func or(m, need []bool) []bool {
	for i := range min(len(m), len(need)) {
		m[i] = m[i] || need[i]
	}
	return slices.Clip(m)
}
