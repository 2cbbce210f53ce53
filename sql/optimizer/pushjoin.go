package optimizer

import (
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// pushJoin gives each side of a join the conditions that may be checked before it; what
// needs both sides becomes part of an inner join, and stays above the others.
func (o *Options) pushJoin(n *plan.Join, conds []plan.Expr) plan.Node {
	width := len(n.Left.Fields())
	kind := o.simplified(n, conds, width)
	var on []plan.Expr
	if n.Residual != nil {
		on = o.split(n.Residual)
	}
	var left, right, both, above []plan.Expr
	sort := func(c plan.Expr, toLeft, toRight, toBoth *[]plan.Expr) {
		low, high, ok := columnRange(c)
		switch {
		case o.volatile(c):
			*toBoth = append(*toBoth, c)
		case !ok || high < width:
			*toLeft = append(*toLeft, c)
		case low >= width:
			*toRight = append(*toRight, c)
		default:
			*toBoth = append(*toBoth, c)
		}
	}
	// What ON says refuses rows of the side that isn't kept; of the kept one it only says
	// which rows have a match.
	for _, c := range on {
		switch kind {
		case plan.Inner:
			sort(c, &left, &right, &both)
		case plan.LeftSemi:
			sort(c, &left, &right, &both)
		case plan.LeftOuter, plan.LeftAnti, plan.LeftMark, plan.LeftSingle:
			sort(c, &both, &right, &both)
		case plan.RightOuter:
			sort(c, &left, &both, &both)
		default:
			both = append(both, c)
		}
	}
	for _, c := range conds {
		switch kind {
		case plan.Inner:
			if o.volatile(c) {
				above = append(above, c)
			} else {
				sort(c, &left, &right, &both)
			}
		case plan.FullOuter:
			above = append(above, c)
		case plan.RightOuter:
			sort(c, &above, &right, &above)
		default:
			sort(c, &left, &above, &above)
		}
	}
	o.imply(n, kind, &left, &right, both, width)
	m := *n
	m.Kind = kind
	for i, c := range right {
		right[i] = shift(c, -width)
	}
	m.Left, m.Right, m.Residual = o.push(n.Left, left), o.push(n.Right, right), all(both)
	return filtered(&m, above)
}

// simplified returns the kind of a join under a filter: a condition that refuses the rows
// that an outer join adds makes it less outer.
func (o *Options) simplified(n *plan.Join, conds []plan.Expr, width int) plan.JoinKind {
	kind := n.Kind
	if kind != plan.LeftOuter && kind != plan.RightOuter && kind != plan.FullOuter {
		return kind
	}
	refuses := func(in func(int) bool) bool {
		for _, c := range conds {
			if o.refusesNulls(c, in) {
				return true
			}
		}
		return false
	}
	noLeft := refuses(func(i int) bool { return i < width }) // rows without a left side
	noRight := refuses(func(i int) bool { return i >= width })
	switch {
	case kind == plan.LeftOuter && noRight, kind == plan.RightOuter && noLeft, kind == plan.FullOuter && noLeft && noRight:
		return plan.Inner
	case kind == plan.FullOuter && noLeft:
		return plan.LeftOuter
	case kind == plan.FullOuter && noRight:
		return plan.RightOuter
	}
	return kind
}

// refusesNulls reports whether c is not true when the columns that in names are NULL.
func (o *Options) refusesNulls(c plan.Expr, in func(int) bool) bool {
	if call, ok := c.(*plan.Call); ok && len(call.Args) == 2 {
		switch call.Name {
		case "and":
			return o.refusesNulls(call.Args[0], in) || o.refusesNulls(call.Args[1], in)
		case "or":
			return o.refusesNulls(call.Args[0], in) && o.refusesNulls(call.Args[1], in)
		}
	}
	found := false
	e := plan.Rewrite(c, func(x plan.Expr) plan.Expr {
		if col, ok := x.(*plan.Column); ok && in(col.Index) {
			found = true
			return &plan.Literal{Value: schema.NullOf(col.T)}
		}
		return o.fold(x)
	})
	d, ok := literal(e)
	return found && ok && (d.Null || d.I == 0)
}

// imply adds conditions that follow from those there are: what is said of one side of
// an equality holds for the other, and an OR whose every arm says something of one side
// says so of that side.
func (o *Options) imply(n *plan.Join, kind plan.JoinKind, left, right *[]plan.Expr, both []plan.Expr, width int) {
	toLeft := kind == plan.Inner || kind == plan.LeftSemi || kind == plan.RightOuter
	toRight := kind != plan.RightOuter && kind != plan.FullOuter && !n.NullAware
	if kind == plan.RightOuter {
		toRight = false
	}
	add := func(to *[]plan.Expr, c plan.Expr) {
		if !contains(*to, c) && !large(c) {
			*to = append(*to, c)
		}
	}
	oldLeft, oldRight := append([]plan.Expr(nil), *left...), append([]plan.Expr(nil), *right...)
	for _, c := range both {
		if l, r, ok := equalColumns(c, width); ok {
			for _, p := range oldLeft {
				if q, ok := o.transferred(p, l, r); ok && toRight {
					add(right, q)
				}
			}
			for _, p := range oldRight {
				if q, ok := o.transferred(p, r, l); ok && toLeft {
					add(left, q)
				}
			}
			continue
		}
		arms := disjuncts(c, nil)
		if len(arms) < 2 || len(arms) > maxArms || o.volatile(c) {
			continue
		}
		if l := armsOf(arms, func(low, high int) bool { return high < width }); l != nil && toLeft {
			add(left, l)
		}
		if r := armsOf(arms, func(low, high int) bool { return low >= width }); r != nil && toRight {
			add(right, r)
		}
	}
}

// equalColumns returns the columns of l = r, one of each side.
func equalColumns(c plan.Expr, width int) (l, r *plan.Column, ok bool) {
	call, isCall := c.(*plan.Call)
	if !isCall || call.Name != "=" || len(call.Args) != 2 {
		return nil, nil, false
	}
	l, ok1 := call.Args[0].(*plan.Column)
	r, ok2 := call.Args[1].(*plan.Column)
	if !ok1 || !ok2 || !l.T.Equal(r.T) || l.T.Kind == schema.Char {
		return nil, nil, false
	}
	if l.Index > r.Index {
		l, r = r, l
	}
	return l, r, l.Index < width && r.Index >= width
}

// transferred returns a comparison of from with constants as one of to.
func (o *Options) transferred(p plan.Expr, from, to *plan.Column) (plan.Expr, bool) {
	call, ok := p.(*plan.Call)
	if !ok {
		return nil, false
	}
	switch call.Name {
	case "=", "<", "<=", ">", ">=", "<>", "in", "or":
	default:
		return nil, false
	}
	fits, found := !o.volatile(p), false
	out := plan.Rewrite(p, func(x plan.Expr) plan.Expr {
		c, ok := x.(*plan.Column)
		if !ok {
			return x
		}
		found = true
		fits = fits && c.Index == from.Index
		return to
	})
	return out, fits && found
}

// armsOf returns the OR of what each arm says about one side; nil if an arm says nothing.
func armsOf(arms []plan.Expr, side func(low, high int) bool) plan.Expr {
	var out []plan.Expr
	for _, a := range arms {
		var own []plan.Expr
		for _, c := range conjuncts(a, nil) {
			if low, high, ok := columnRange(c); ok && side(low, high) {
				own = append(own, c)
			}
		}
		if own == nil {
			return nil
		}
		out = append(out, all(own))
	}
	return anyOf(out)
}
