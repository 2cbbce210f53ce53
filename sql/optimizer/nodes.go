package optimizer

import (
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// conjuncts appends the parts of a AND b AND .. to out.
func conjuncts(e plan.Expr, out []plan.Expr) []plan.Expr {
	if c, ok := e.(*plan.Call); ok && c.Name == "and" {
		for _, x := range c.Args {
			out = conjuncts(x, out)
		}
		return out
	}
	return append(out, e)
}

// all returns the conjunction of es; nil for none.
func all(es []plan.Expr) plan.Expr {
	var out plan.Expr
	for _, e := range es {
		if out == nil {
			out = e
		} else {
			out = &plan.Call{Name: "and", Args: []plan.Expr{out, e}, T: schema.BooleanType}
		}
	}
	return out
}

// filtered puts a filter of all conds on n.
func filtered(n plan.Node, conds []plan.Expr) plan.Node {
	if cond := all(conds); cond != nil {
		return &plan.Filter{Input: n, Cond: cond}
	}
	return n
}

// substitute replaces column i of e by exprs[i].
func substitute(e plan.Expr, exprs []plan.Expr) plan.Expr {
	return plan.Rewrite(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Column); ok {
			return exprs[c.Index]
		}
		return x
	})
}

// maxMoved is the most nodes of an expression that is moved below a projection:
// what the projection computes is then written out wherever it is used, and
// projections on top of each other multiply.
const maxMoved = 2000

// large reports whether e has more than maxMoved nodes. It looks at no more.
func large(e plan.Expr) bool {
	n := 0
	var walk func(plan.Expr)
	walk = func(x plan.Expr) {
		if n++; n <= maxMoved {
			plan.EachChild(x, walk)
		}
	}
	walk(e)
	return n > maxMoved
}

// remap replaces column i of e by column to[i].
func remap(e plan.Expr, to []int) plan.Expr {
	return plan.Rewrite(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Column); ok && to[c.Index] != c.Index {
			return &plan.Column{Index: to[c.Index], Name: c.Name, T: c.T}
		}
		return x
	})
}

// shift adds by to the columns of e.
func shift(e plan.Expr, by int) plan.Expr {
	return plan.Rewrite(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Column); ok {
			return &plan.Column{Index: c.Index + by, Name: c.Name, T: c.T}
		}
		return x
	})
}

// columnRange returns the lowest and highest column of e; ok is false when it has none.
func columnRange(e plan.Expr) (low, high int, ok bool) {
	plan.Walk(e, func(x plan.Expr) {
		c, isColumn := x.(*plan.Column)
		switch {
		case !isColumn:
		case !ok:
			low, high, ok = c.Index, c.Index, true
		default:
			low, high = min(low, c.Index), max(high, c.Index)
		}
	})
	return low, high, ok
}

// literal returns e's value if it is a literal.
func literal(e plan.Expr) (schema.Datum, bool) {
	if l, ok := e.(*plan.Literal); ok {
		return l.Value, true
	}
	return schema.Datum{}, false
}

// isBool reports whether e is the literal true (or false); NULL is neither.
func isBool(e plan.Expr, want bool) bool {
	d, ok := literal(e)
	return ok && !d.Null && d.Type.Kind == schema.Boolean && (d.I != 0) == want
}

func boolean(b bool) plan.Expr {
	d := schema.Datum{Type: schema.BooleanType}
	if b {
		d.I = 1
	}
	return &plan.Literal{Value: d}
}

// column returns a reference to column i of fields.
func column(fields []schema.Field, i int) plan.Expr {
	return &plan.Column{Index: i, Name: fields[i].Name, T: fields[i].Type}
}
