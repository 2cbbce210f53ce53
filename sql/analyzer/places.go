package analyzer

import "github.com/skepdb/skep/sql/plan"

// While a SELECT is bound, some columns of its expressions stand for what is
// computed later: their indexes lie above all columns that a node can have.
const (
	// outerBase+j is the j-th expression of the enclosing query that a
	// sub-query uses (correlation): outerQuery.exprs.
	outerBase = 1 << 25
	// subBase + id*subWidth + c is column c of the id-th sub-query.
	subBase  = 1 << 26
	subWidth = 4
	// winBase+k is the k-th window call.
	winBase = 1 << 27
	// genBase+k is the k-th column of table-generating functions in the select list.
	genBase = 1 << 28
	// groupID is GROUPING__ID.
	groupID = 1<<30 - 1
	// aggBase+j is the j-th aggregate.
	aggBase = 1 << 30
)

// firstPlace is above all real columns.
const firstPlace = outerBase

func isOuter(c *plan.Column) bool { return c.Index >= outerBase && c.Index < subBase }
func isSub(c *plan.Column) bool   { return c.Index >= subBase && c.Index < winBase }

// uses reports whether some column of e satisfies f.
func uses(e plan.Expr, f func(*plan.Column) bool) bool {
	found := false
	plan.Walk(e, func(x plan.Expr) {
		c, ok := x.(*plan.Column)
		found = found || ok && f(c)
	})
	return found
}

// mapColumns replaces the columns of e.
func mapColumns(e plan.Expr, f func(*plan.Column) plan.Expr) plan.Expr {
	return plan.Rewrite(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Column); ok {
			return f(c)
		}
		return x
	})
}

// shifted adds by to the real columns of e.
func shifted(e plan.Expr, by int) plan.Expr {
	return mapColumns(e, func(c *plan.Column) plan.Expr {
		if c.Index >= firstPlace {
			return c
		}
		return &plan.Column{Index: c.Index + by, Name: c.Name, T: c.T}
	})
}

// columnOf refers to output column i of n.
func columnOf(n plan.Node, i int) *plan.Column {
	f := n.Fields()[i]
	return &plan.Column{Index: i, Name: f.Name, T: f.Type}
}

// columnsOf refers to the first count output columns of n.
func columnsOf(n plan.Node, count int) []plan.Expr {
	out := make([]plan.Expr, count)
	for i, f := range n.Fields()[:count] {
		out[i] = &plan.Column{Index: i, Name: f.Name, T: f.Type}
	}
	return out
}

// extended projects all columns of n and more behind them.
func extended(n plan.Node, exprs []plan.Expr, names []string) plan.Node {
	if len(exprs) == 0 {
		return n
	}
	fields := n.Fields()
	p := &plan.Project{Input: n, Exprs: columnsOf(n, len(fields))}
	for _, f := range fields {
		p.Names = append(p.Names, f.Name)
	}
	p.Exprs = append(p.Exprs, exprs...)
	p.Names = append(p.Names, names...)
	return p
}

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
