package optimizer

import (
	"slices"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

// pushFilters moves the conditions of WHERE, ON and HAVING as near to the scans
// as they go, and into those of region tables what the store can evaluate. On the
// way outer joins become inner ones where a condition refuses the rows that they add.
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
		return o.push(n.Input, append(o.split(n.Cond), conds...))
	case *plan.Project:
		return o.pushProject(n, conds)
	case *plan.Aggregate:
		return o.pushAggregate(n, conds)
	case *plan.Join:
		return o.pushJoin(n, conds)
	case *plan.Union:
		out := make([]plan.Node, len(n.Inputs))
		for i, c := range n.Inputs {
			out[i] = o.push(c, conds)
		}
		return &plan.Union{Inputs: out}
	case *plan.Expand:
		return o.pushExpand(n, conds)
	case *plan.Generate:
		return o.pushThrough(n, conds, func(c plan.Expr) bool {
			_, high, ok := columnRange(c)
			return !ok || high < len(n.Input.Fields())
		})
	case *plan.Window:
		return o.pushThrough(n, conds, func(c plan.Expr) bool { return onKeys(c, n.PartitionBy) })
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

// split takes a condition apart: NOT moved inwards, what all arms of an OR share taken out.
func (o *Options) split(e plan.Expr) []plan.Expr {
	var out []plan.Expr
	for _, c := range conjuncts(positive(e, false), nil) {
		out = append(out, conjuncts(factored(c), nil)...)
	}
	return out
}

// pushThrough moves the conditions that fit below a node whose output begins with its
// input's columns.
func (o *Options) pushThrough(n plan.Node, conds []plan.Expr, fits func(plan.Expr) bool) plan.Node {
	var below, above []plan.Expr
	for _, c := range conds {
		if fits(c) && !o.volatile(c) {
			below = append(below, c)
		} else {
			above = append(above, c)
		}
	}
	return filtered(n.WithChildren([]plan.Node{o.push(n.Children()[0], below)}), above)
}

// onKeys reports whether all columns of c are among keys.
func onKeys(c plan.Expr, keys []plan.Expr) bool {
	fits := true
	plan.Walk(c, func(x plan.Expr) {
		if col, ok := x.(*plan.Column); ok {
			fits = fits && slices.ContainsFunc(keys, func(k plan.Expr) bool {
				kc, ok := k.(*plan.Column)
				return ok && kc.Index == col.Index
			})
		}
	})
	return fits
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
	return o.split(plan.Rewrite(e, o.fold))
}

// pushExpand moves conditions on columns that every projection computes alike.
func (o *Options) pushExpand(n *plan.Expand, conds []plan.Expr) plan.Node {
	same := func(i int) bool {
		for _, row := range n.Projections[1:] {
			if !sameExpr(row[i], n.Projections[0][i]) {
				return false
			}
		}
		return true
	}
	var below, above []plan.Expr
	for _, c := range conds {
		fits := !o.volatile(c)
		plan.Walk(c, func(x plan.Expr) {
			if col, ok := x.(*plan.Column); ok {
				fits = fits && same(col.Index)
			}
		})
		if moved := c; fits {
			if moved = substitute(c, n.Projections[0]); !large(moved) || large(c) {
				below = append(below, o.refold(moved)...)
				continue
			}
		}
		above = append(above, c)
	}
	return filtered(n.WithChildren([]plan.Node{o.push(n.Input, below)}), above)
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

// pushScan gives the store the conditions it understands, equalities first.
func (o *Options) pushScan(n *plan.Scan, conds []plan.Expr) plan.Node {
	s := source(n)
	if s == nil {
		return filtered(n, conds)
	}
	s, conds = o.prunePartitions(s, conds)
	if s.Table.Partitioned && len(s.Partitions) == 0 {
		return &plan.Values{Out: n.Fields()}
	}
	n = &plan.Scan{Spec: s, Rows: n.Rows}
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

// disjuncts appends the parts of a OR b OR .. to out.
func disjuncts(e plan.Expr, out []plan.Expr) []plan.Expr {
	if c, ok := e.(*plan.Call); ok && c.Name == "or" {
		for _, x := range c.Args {
			out = disjuncts(x, out)
		}
		return out
	}
	return append(out, e)
}

func anyOf(es []plan.Expr) plan.Expr {
	var out plan.Expr
	for _, e := range es {
		if out == nil {
			out = e
		} else {
			out = &plan.Call{Name: "or", Args: []plan.Expr{out, e}, T: schema.BooleanType}
		}
	}
	return out
}

// maxArms is the most arms of an OR that are compared with each other.
const maxArms = 100

// factored takes out what all arms of an OR share: (a AND b) OR (a AND c) is
// a AND (b OR c), which holds in three-valued logic too.
func factored(e plan.Expr) plan.Expr {
	arms := disjuncts(e, nil)
	if len(arms) < 2 || len(arms) > maxArms {
		return e
	}
	parts := make([][]plan.Expr, len(arms))
	for i, a := range arms {
		parts[i] = conjuncts(a, nil)
	}
	var common []plan.Expr
	for _, c := range parts[0] {
		everywhere := true
		for _, p := range parts[1:] {
			everywhere = everywhere && contains(p, c)
		}
		if everywhere && !contains(common, c) {
			common = append(common, c)
		}
	}
	if common == nil {
		return e
	}
	var rest []plan.Expr
	for _, p := range parts {
		p = slices.DeleteFunc(p, func(c plan.Expr) bool { return contains(common, c) })
		if len(p) == 0 { // this arm is the common part alone: the others add nothing
			return all(common)
		}
		rest = append(rest, all(p))
	}
	return all(append(common, anyOf(rest)))
}

func contains(es []plan.Expr, e plan.Expr) bool {
	return slices.ContainsFunc(es, func(x plan.Expr) bool { return sameExpr(x, e) })
}
