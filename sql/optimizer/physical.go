package optimizer

import "github.com/skepdb/skep/sql/plan"

// splitDistinct computes aggregates of distinct values in two steps, when all
// of a SELECT are over the same argument: group by keys and argument, then
// aggregate what is left. Both steps can then run in two phases.
func splitDistinct(n plan.Node, _ *Options) (plan.Node, error) {
	return plan.RewriteNode(n, func(n plan.Node) plan.Node {
		g, ok := n.(*plan.Aggregate)
		if !ok || g.Phase != plan.Single || len(g.Aggs) == 0 {
			return n
		}
		args := g.Aggs[0].Args
		for _, a := range g.Aggs {
			if !a.Distinct || a.Filter != nil || a.Within != nil || !sameExprs(a.Args, args) {
				return n
			}
		}
		inner := &plan.Aggregate{Input: g.Input, Phase: plan.Single}
		inner.Keys = append(append(inner.Keys, g.Keys...), args...)
		inner.KeyNames = append(inner.KeyNames, g.KeyNames...)
		for _, a := range args {
			inner.KeyNames = append(inner.KeyNames, a.String())
		}
		fields := inner.Fields()
		outer := &plan.Aggregate{Input: inner, Phase: plan.Single, KeyNames: g.KeyNames}
		for i := range g.Keys {
			outer.Keys = append(outer.Keys, column(fields, i))
		}
		for _, a := range g.Aggs {
			a.Distinct = false
			a.Args = nil
			for i := range args {
				a.Args = append(a.Args, column(fields, len(g.Keys)+i))
			}
			outer.Aggs = append(outer.Aggs, a)
		}
		return outer
	}), nil
}

func sameExprs(a, b []plan.Expr) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameExpr(a[i], b[i]) {
			return false
		}
	}
	return true
}

// sameExpr reports whether a and b compute the same.
func sameExpr(a, b plan.Expr) bool {
	if a == b {
		return true
	}
	if !a.Type().Equal(b.Type()) {
		return false
	}
	switch a := a.(type) {
	case *plan.Column:
		c, ok := b.(*plan.Column)
		return ok && a.Index == c.Index
	case *plan.Literal:
		d, ok := b.(*plan.Literal)
		return ok && a.Value.Null == d.Value.Null && a.Value.Text() == d.Value.Text()
	case *plan.Call:
		c, ok := b.(*plan.Call)
		return ok && a.Name == c.Name && sameExprs(a.Args, c.Args)
	case *plan.Cast:
		c, ok := b.(*plan.Cast)
		return ok && sameExpr(a.Arg, c.Arg)
	case *plan.Member:
		m, ok := b.(*plan.Member)
		return ok && a.Index == m.Index && sameExpr(a.Base, m.Base)
	case *plan.Case:
		c, ok := b.(*plan.Case)
		if !ok || len(a.Whens) != len(c.Whens) {
			return false
		}
		for i, w := range a.Whens {
			if !sameExpr(w.Cond, c.Whens[i].Cond) || !sameExpr(w.Then, c.Whens[i].Then) {
				return false
			}
		}
		return sameExpr(a.Else, c.Else)
	}
	return false
}

// addExchanges makes the plan physical: it decides where rows change tasks.
func addExchanges(n plan.Node, o *Options) (plan.Node, error) {
	children := n.Children()
	out := make([]plan.Node, len(children))
	for i, c := range children {
		var err error
		if out[i], err = addExchanges(c, o); err != nil {
			return nil, err
		}
	}
	if len(out) > 0 {
		n = n.WithChildren(out)
	}
	switch n := n.(type) {
	case *plan.Aggregate:
		return twoPhases(n), nil
	case *plan.Sort:
		return sorted(n), nil
	case *plan.Limit:
		if !Parallel(n.Input) {
			return n, nil
		}
		local := &plan.Limit{Input: n.Input, Count: addCapped(n.Count, n.Offset)}
		return &plan.Limit{Input: &plan.Exchange{Input: local, How: plan.ToOne}, Count: n.Count, Offset: n.Offset}, nil
	case *plan.Join:
		return o.joined(n), nil
	case *plan.Window:
		return windowed(n), nil
	}
	return n, nil
}

// windowed brings all rows of a partition to one task.
func windowed(w *plan.Window) plan.Node {
	if !Parallel(w.Input) || sameTask(w.Input, w.PartitionBy) {
		return w
	}
	e := &plan.Exchange{Input: w.Input, How: plan.ToOne}
	if len(w.PartitionBy) > 0 {
		e.How, e.Keys = plan.ByHash, w.PartitionBy
	}
	return w.WithChildren([]plan.Node{e})
}

// sameTask reports whether rows of n with equal keys are in one task already, because a
// node below has exchanged them by some of these keys.
func sameTask(n plan.Node, keys []plan.Expr) bool {
	switch n := n.(type) {
	case *plan.Exchange:
		if n.How != plan.ByHash || len(n.Keys) == 0 {
			return false
		}
		for _, k := range n.Keys {
			if !contains(keys, k) {
				return false
			}
		}
		return true
	case *plan.Window, *plan.Filter:
		return sameTask(n.Children()[0], keys) // its output begins with its input's columns
	case *plan.Project:
		return sameTask(n.Input, columnsBelow(keys, n.Exprs))
	case *plan.Aggregate:
		if n.Phase != plan.Final && n.Phase != plan.Single {
			return false
		}
		return sameTask(n.Input, columnsBelow(keys, n.Keys))
	}
	return false
}

// columnsBelow returns those keys that are columns and stay columns below exprs.
func columnsBelow(keys, exprs []plan.Expr) []plan.Expr {
	var out []plan.Expr
	for _, k := range keys {
		if c, ok := k.(*plan.Column); ok && c.Index < len(exprs) {
			if below, ok := exprs[c.Index].(*plan.Column); ok {
				out = append(out, below)
			}
		}
	}
	return out
}

// Parallel reports whether a node's rows come from more than one task. The inputs of a
// union are stages of their own.
func Parallel(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Scan:
		return true
	case *plan.Union:
		return len(n.Inputs) > 1 || Parallel(n.Inputs[0])
	case *plan.Exchange:
		return n.How == plan.ByHash || n.How == plan.ByRegion
	}
	for _, c := range n.Children() {
		if e, ok := c.(*plan.Exchange); ok && e.How == plan.Broadcast {
			continue
		}
		if Parallel(c) {
			return true
		}
	}
	return false
}

// gathered spreads rows by keys, or brings all to one task when there are none.
func gathered(n plan.Node, keys int) plan.Node {
	if keys == 0 {
		return &plan.Exchange{Input: n, How: plan.ToOne}
	}
	fields := n.Fields()
	e := &plan.Exchange{Input: n, How: plan.ByHash}
	for i := range keys {
		e.Keys = append(e.Keys, column(fields, i))
	}
	return e
}

// twoPhases aggregates in each task first and moves one row a group and task.
// Aggregates of distinct values need all rows of a group in one place.
func twoPhases(g *plan.Aggregate) plan.Node {
	if g.Phase != plan.Single || !Parallel(g.Input) || len(g.Keys) > 0 && sameTask(g.Input, g.Keys) {
		return g
	}
	for _, a := range g.Aggs {
		if a.Distinct || len(a.State) == 0 {
			return onePhase(g)
		}
	}
	partial := *g
	partial.Phase = plan.Partial
	fields := partial.Fields()
	final := &plan.Aggregate{Input: gathered(&partial, len(g.Keys)), Phase: plan.Final, KeyNames: g.KeyNames}
	for i := range g.Keys {
		final.Keys = append(final.Keys, column(fields, i))
	}
	at := len(g.Keys)
	for _, a := range g.Aggs {
		a.Args, a.Filter = nil, nil
		for range a.State {
			a.Args = append(a.Args, column(fields, at))
			at++
		}
		final.Aggs = append(final.Aggs, a)
	}
	return final
}

// onePhase moves the rows themselves: keys and arguments are computed before.
func onePhase(g *plan.Aggregate) plan.Node {
	p := &plan.Project{Input: g.Input}
	add := func(e plan.Expr, name string) plan.Expr {
		p.Exprs = append(p.Exprs, e)
		p.Names = append(p.Names, name)
		return &plan.Column{Index: len(p.Exprs) - 1, Name: name, T: e.Type()}
	}
	out := &plan.Aggregate{Phase: plan.Single, KeyNames: g.KeyNames}
	for i, k := range g.Keys {
		out.Keys = append(out.Keys, add(k, g.KeyNames[i]))
	}
	for _, a := range g.Aggs {
		args := a.Args
		a.Args = nil
		for _, e := range args {
			a.Args = append(a.Args, add(e, e.String()))
		}
		if a.Filter != nil {
			a.Filter = add(a.Filter, a.Filter.String())
		}
		out.Aggs = append(out.Aggs, a)
	}
	out.Input = gathered(p, len(g.Keys))
	return out
}

// sorted sorts in one task; with a limit each task sorts first and sends only
// its best.
func sorted(s *plan.Sort) plan.Node {
	if !Parallel(s.Input) {
		return s
	}
	out := *s
	if s.Limit >= 0 {
		local := *s
		local.Limit, local.Offset = addCapped(s.Limit, s.Offset), 0
		out.Input = &local
	}
	out.Input = &plan.Exchange{Input: out.Input, How: plan.ToOne}
	return &out
}

// joined copies a small side to all tasks of the other, or spreads both by the
// join keys. The right side is built, so it should be the smaller one; which side that
// is can be chosen for inner joins, and for outer joins by turning them round.
func (o *Options) joined(j *plan.Join) plan.Node {
	l, r := Rows(j.Left), Rows(j.Right)
	smaller := l >= 0 && (r < 0 || l < r) // unknown counts as large
	switch j.Kind {
	case plan.RightOuter:
		// The side that keeps its rows must not be copied: unless it is by far the larger one,
		// it is built, and both sides are spread.
		if len(j.LeftKeys) == 0 || !smaller || l <= o.BroadcastRows {
			return o.swapped(j, plan.LeftOuter)
		}
	case plan.Inner:
		if smaller {
			return o.swapped(j, plan.Inner)
		}
	case plan.LeftOuter:
		if smaller && len(j.LeftKeys) > 0 && (r < 0 || r > o.BroadcastRows) {
			return o.swapped(j, plan.RightOuter)
		}
	case plan.FullOuter:
		if smaller && len(j.LeftKeys) > 0 {
			return o.swapped(j, plan.FullOuter)
		}
	}
	return o.placed(j)
}

// placed adds the exchanges of a join whose sides stay as they are.
func (o *Options) placed(j *plan.Join) *plan.Join {
	m := *j
	left, right := Parallel(j.Left), Parallel(j.Right)
	r := Rows(j.Right)
	keys := len(j.LeftKeys)
	if j.NullAware { // of rows with a NULL in the last key, all tasks must know
		keys--
	}
	keepsRight := j.Kind == plan.RightOuter || j.Kind == plan.FullOuter
	switch {
	case !left && !right:
	case keepsRight && keys == 0:
		if left {
			m.Left = &plan.Exchange{Input: j.Left, How: plan.ToOne}
		}
		if right {
			m.Right = &plan.Exchange{Input: j.Right, How: plan.ToOne}
		}
	case !keepsRight && (keys == 0 || !left || r >= 0 && r <= o.BroadcastRows):
		m.Right = &plan.Exchange{Input: j.Right, How: plan.Broadcast}
	default:
		m.Left = &plan.Exchange{Input: j.Left, How: plan.ByHash, Keys: j.LeftKeys[:keys]}
		m.Right = &plan.Exchange{Input: j.Right, How: plan.ByHash, Keys: j.RightKeys[:keys]}
	}
	return &m
}

// swapped joins the other way round and restores the order of the columns.
func (o *Options) swapped(j *plan.Join, kind plan.JoinKind) plan.Node {
	width, other := len(j.Left.Fields()), len(j.Right.Fields())
	at := make([]int, width+other)
	for i := range at {
		if at[i] = i + other; i >= width {
			at[i] = i - width
		}
	}
	m := &plan.Join{Left: j.Right, Right: j.Left, Kind: kind, LeftKeys: j.RightKeys, RightKeys: j.LeftKeys}
	if j.Residual != nil {
		m.Residual = remap(j.Residual, at)
	}
	return reordered(o.placed(m), at)
}
