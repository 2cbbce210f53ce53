package optimizer

import (
	"slices"

	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

// pushFilters moves the conditions of WHERE, ON and HAVING as near to the scans
// as they go, and into those of region tables what the store can evaluate.
func pushFilters(n plan.Node, o *Options) (plan.Node, error) { return o.push(n, nil), nil }

// push returns n filtered by conds, over n's output.
func (o *Options) push(n plan.Node, conds []plan.Expr) plan.Node {
	var kept []plan.Expr
	for _, c := range conds {
		if d, ok := literal(c); ok { // a condition that is NULL refuses rows like false
			if d.Null || d.I == 0 {
				return &plan.Values{Out: n.Fields()}
			}
			continue
		}
		kept = append(kept, c)
	}
	conds = kept
	switch n := n.(type) {
	case *plan.Filter:
		return o.push(n.Input, append(conjuncts(positive(n.Cond, false), nil), conds...))
	case *plan.Project:
		return o.pushProject(n, conds)
	case *plan.Aggregate:
		return o.pushAggregate(n, conds)
	case *plan.Join:
		return o.pushJoin(n, conds)
	case *plan.Sort:
		if n.Limit < 0 {
			return n.WithChildren([]plan.Node{o.push(n.Input, conds)})
		}
	case *plan.Scan:
		return o.pushScan(n, conds)
	}
	children := n.Children()
	out := make([]plan.Node, len(children))
	for i, c := range children {
		out[i] = o.push(c, nil)
	}
	if len(out) > 0 {
		n = n.WithChildren(out)
	}
	return filtered(n, conds)
}

// pushProject moves conditions below the expressions they use, unless those
// may give another value when computed twice.
func (o *Options) pushProject(n *plan.Project, conds []plan.Expr) plan.Node {
	var below, above []plan.Expr
	for _, c := range conds {
		if moved := substitute(c, n.Exprs); large(moved) && !large(c) || o.volatile(moved) {
			above = append(above, c)
		} else {
			below = append(below, o.refold(moved)...)
		}
	}
	return filtered(n.WithChildren([]plan.Node{o.push(n.Input, below)}), above)
}

// refold folds a condition again and splits it.
func (o *Options) refold(e plan.Expr) []plan.Expr {
	return conjuncts(positive(plan.Rewrite(e, o.fold), false), nil)
}

// pushAggregate moves conditions on grouping keys below. Without keys there is
// always one group, so nothing moves.
func (o *Options) pushAggregate(n *plan.Aggregate, conds []plan.Expr) plan.Node {
	var below, above []plan.Expr
	for _, c := range conds {
		_, high, ok := columnRange(c)
		if ok && high < len(n.Keys) && !o.volatile(c) {
			if moved := substitute(c, n.Keys); !large(moved) || large(c) {
				below = append(below, o.refold(moved)...)
				continue
			}
		}
		above = append(above, c)
	}
	return filtered(n.WithChildren([]plan.Node{o.push(n.Input, below)}), above)
}

// pushJoin gives each side of an inner join its own conditions; what needs both
// becomes part of the join.
func (o *Options) pushJoin(n *plan.Join, conds []plan.Expr) plan.Node {
	if n.Residual != nil {
		conds = append(conjuncts(positive(n.Residual, false), nil), conds...)
	}
	width := len(n.Left.Fields())
	var left, right, both, above []plan.Expr
	for _, c := range conds {
		low, high, ok := columnRange(c)
		switch {
		case o.volatile(c):
			above = append(above, c)
		case !ok || high < width:
			left = append(left, c)
		case low >= width:
			right = append(right, shift(c, -width))
		default:
			both = append(both, c)
		}
	}
	m := *n
	m.Left, m.Right, m.Residual = o.push(n.Left, left), o.push(n.Right, right), all(both)
	return filtered(&m, above)
}

// pushScan gives the store the conditions it understands, equalities first.
func (o *Options) pushScan(n *plan.Scan, conds []plan.Expr) plan.Node {
	s := source(n)
	if s == nil {
		return filtered(n, conds)
	}
	var pushed []storage.Predicate
	var above []plan.Expr
	for _, c := range conds {
		if p, ok := toPredicate(s, c); ok {
			pushed = append(pushed, p)
		} else {
			above = append(above, c)
		}
	}
	if pushed == nil {
		return filtered(n, conds)
	}
	m := *s
	m.Filter = conjunction(s.Filter, pushed)
	return filtered(withSource(n, &m), above)
}

// conjunction returns old AND all of more, the cheapest and most selective first.
func conjunction(old storage.Predicate, more []storage.Predicate) storage.Predicate {
	var parts storage.And
	add := func(p storage.Predicate) {
		if and, ok := p.(storage.And); ok {
			parts = append(parts, and...)
		} else if p != nil {
			parts = append(parts, p)
		}
	}
	add(old)
	for _, p := range more {
		add(p)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	slices.SortStableFunc(parts, func(a, b storage.Predicate) int { return rank(a) - rank(b) })
	return parts
}

// rank orders predicates: equality, IN, IS NULL, ranges, the rest.
func rank(p storage.Predicate) int {
	switch p := p.(type) {
	case *storage.Compare:
		switch p.Op {
		case storage.Eq:
			return 0
		case storage.Ne:
			return 4
		}
		return 3
	case *storage.In:
		return 1
	case *storage.IsNull:
		return 2
	}
	return 5
}
