package optimizer

import (
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql/plan"
)

// relation is one input of a tree of inner joins; its columns are from..from+width
// of the tree's output.
type relation struct {
	node        plan.Node
	from, width int
}

func (r relation) has(column int) bool { return column >= r.from && column < r.from+r.width }

// orderJoins finds the equalities that join: trees of inner joins are taken
// apart and put together again so that each join has one. The order is that of
// FROM, but a table that nothing ties to those before it waits for one that does.
func orderJoins(n plan.Node, o *Options) (plan.Node, error) {
	if _, ok := n.(*plan.Join); !ok {
		children := n.Children()
		out := make([]plan.Node, len(children))
		for i, c := range children {
			var err error
			if out[i], err = orderJoins(c, o); err != nil {
				return nil, err
			}
		}
		if len(out) > 0 {
			n = n.WithChildren(out)
		}
		return n, nil
	}
	var relations []relation
	var conds []plan.Expr
	flatten(n, 0, &relations, &conds)
	for i := range relations {
		var err error
		if relations[i].node, err = orderJoins(relations[i].node, o); err != nil {
			return nil, err
		}
	}
	return rebuild(n, relations, conds)
}

// flatten lists the inputs and conditions of a join tree whose first column is
// column from of the whole.
func flatten(n plan.Node, from int, relations *[]relation, conds *[]plan.Expr) {
	j, ok := n.(*plan.Join)
	if !ok || j.Kind != plan.Inner || len(j.LeftKeys) > 0 {
		*relations = append(*relations, relation{n, from, len(n.Fields())})
		return
	}
	flatten(j.Left, from, relations, conds)
	flatten(j.Right, from+len(j.Left.Fields()), relations, conds)
	if j.Residual != nil {
		for _, c := range conjuncts(j.Residual, nil) {
			*conds = append(*conds, shift(c, from))
		}
	}
}

// rebuild joins relations left-deep.
func rebuild(whole plan.Node, relations []relation, conds []plan.Expr) (plan.Node, error) {
	fields := whole.Fields()
	at := make([]int, len(fields)) // column of the whole -> column of out, -1: not there yet
	for i := range at {
		at[i] = -1
	}
	var out plan.Node
	width := 0
	place := func(r relation) {
		for i := range r.width {
			at[r.from+i] = width + i
		}
		width += r.width
	}
	out = relations[0].node
	place(relations[0])
	rest := relations[1:]
	used := make([]bool, len(conds))
	for len(rest) > 0 {
		pick := -1
		var left, right []plan.Expr
		for i, r := range rest {
			if left, right = keysBetween(conds, used, at, r); left != nil {
				pick = i
				break
			}
		}
		if pick < 0 {
			return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnsupported,
				Message: "not supported yet: a join without an equality between its tables (a cross join)",
				Hint:    "add a condition such as a.id = b.id to ON or WHERE"}
		}
		r := rest[pick]
		rest = append(append([]relation(nil), rest[:pick]...), rest[pick+1:]...)
		place(r)
		j := &plan.Join{Left: out, Right: r.node, Kind: plan.Inner, LeftKeys: left, RightKeys: right}
		var residual []plan.Expr
		for i, c := range conds {
			if !used[i] && allPlaced(c, at) {
				used[i] = true
				residual = append(residual, remap(c, at))
			}
		}
		j.Residual = all(residual)
		out = j
	}
	for i, to := range at {
		if i != to {
			return reordered(out, at), nil
		}
	}
	return out, nil
}

// reordered projects column at[i] of n to column i.
func reordered(n plan.Node, at []int) plan.Node {
	fields := n.Fields()
	p := &plan.Project{Input: n}
	for _, i := range at {
		p.Exprs = append(p.Exprs, column(fields, i))
		p.Names = append(p.Names, fields[i].Name)
	}
	return p
}

// keysBetween returns the sides of the equalities that tie relation r to the
// columns that are placed already, and marks them used.
func keysBetween(conds []plan.Expr, used []bool, at []int, r relation) (left, right []plan.Expr) {
	for i, c := range conds {
		eq, ok := c.(*plan.Call)
		if used[i] || !ok || eq.Name != "=" || len(eq.Args) != 2 {
			continue
		}
		a, b := eq.Args[0], eq.Args[1]
		if inside(a, r) {
			a, b = b, a
		}
		if !inside(b, r) || !allPlaced(a, at) || !hasColumn(a) || !a.Type().Equal(b.Type()) {
			continue
		}
		used[i] = true
		left = append(left, remap(a, at))
		right = append(right, shift(b, -r.from))
	}
	return left, right
}

// inside reports whether e has columns, all of them r's.
func inside(e plan.Expr, r relation) bool {
	low, high, ok := columnRange(e)
	return ok && r.has(low) && r.has(high)
}

func hasColumn(e plan.Expr) bool {
	_, _, ok := columnRange(e)
	return ok
}

func allPlaced(e plan.Expr, at []int) bool {
	ok := true
	plan.Walk(e, func(x plan.Expr) {
		if c, isColumn := x.(*plan.Column); isColumn && at[c.Index] < 0 {
			ok = false
		}
	})
	return ok
}
