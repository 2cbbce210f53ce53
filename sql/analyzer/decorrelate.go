package analyzer

import (
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// decorrelator joins a sub-query that uses columns of the enclosing query. Two ways:
// conditions on those columns are pulled up out of the sub-query and become the join's
// (Kim 1982; Ganski and Wong 1987 for what a group without rows is), or, where that
// isn't possible, the sub-query is computed for each distinct set of values that the
// enclosing query has (Neumann and Kemper 2015, Unnesting Arbitrary Queries).
type decorrelator struct {
	outer     []plan.Expr // what outerBase+j stands for, over outerNode
	outerNode plan.Node
}

// join joins the sub-query to n; left are its keys over n.
func (q *subquery) join(d *decorrelator, n plan.Node, left []plan.Expr) (plan.Node, error) {
	width := len(n.Fields())
	inner := q.input
	if q.kind != plan.LeftSingle {
		inner = unordered(inner)
		if len(q.right) == 0 {
			inner = existence(inner)
		}
	}
	p, ok := pulled{node: inner}, true
	if correlated(inner) {
		p, ok = pull(inner)
	}
	if !ok {
		return q.general(d, n, left, inner)
	}
	var values []plan.Expr // over p.node
	if q.kind == plan.LeftSingle {
		values = columnsOf(p.node, len(q.input.Fields()))
		if p.defaults != nil {
			values = p.defaulted(values)
		}
	}
	j := &plan.Join{Left: n, Right: p.node, Kind: q.kind, NullAware: q.nullAware}
	j.LeftKeys, j.RightKeys, j.Residual = d.joined(p.conds, width)
	j.LeftKeys, j.RightKeys = append(j.LeftKeys, left...), append(j.RightKeys, q.right...)
	if q.kind == plan.LeftSingle && (p.single || !correlated(inner) && oneRow(inner)) {
		j.Kind = plan.LeftOuter
	}
	q.finish(j, width, values)
	return j, nil
}

// finish sets what the sub-query's columns are behind the join; values are over
// the right side.
func (q *subquery) finish(j *plan.Join, width int, values []plan.Expr) {
	switch j.Kind {
	case plan.LeftSemi, plan.LeftAnti:
		q.values = []plan.Expr{}
	case plan.LeftMark:
		j.Mark = "_mark"
		q.values = []plan.Expr{&plan.Column{Index: width, Name: j.Mark, T: schema.BooleanType}}
	default:
		for _, v := range values {
			q.values = append(q.values, shifted(v, width))
		}
	}
}

// unordered drops sorting that no LIMIT needs.
func unordered(n plan.Node) plan.Node {
	for {
		s, ok := n.(*plan.Sort)
		if !ok || s.Limit >= 0 {
			return n
		}
		n = s.Input
	}
}

// existence drops from a sub-query of EXISTS what doesn't change whether there is a row:
// its select list, duplicates' removal, order and LIMIT.
func existence(n plan.Node) plan.Node {
	for {
		switch x := n.(type) {
		case *plan.Project:
			n = x.Input
		case *plan.Sort:
			if x.Limit == 0 || x.Offset > 0 {
				return n
			}
			n = x.Input
		case *plan.Limit:
			if x.Count == 0 || x.Offset > 0 {
				return n
			}
			n = x.Input
		case *plan.Aggregate:
			if len(x.Keys) == 0 {
				return n
			}
			n = x.Input
		case *plan.Window:
			n = x.Input
		default:
			return n
		}
	}
}

// oneRow reports whether n has never more than one row.
func oneRow(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Aggregate:
		return len(n.Keys) == 0
	case *plan.Project:
		return oneRow(n.Input)
	case *plan.Filter:
		return oneRow(n.Input)
	case *plan.Sort:
		return n.Limit == 1 || oneRow(n.Input)
	case *plan.Limit:
		return n.Count <= 1 || oneRow(n.Input)
	case *plan.Values:
		return len(n.Rows) <= 1
	}
	return false
}

// correlated reports whether n uses columns of the enclosing query.
func correlated(n plan.Node) bool {
	found := false
	plan.EachExpr(n, func(e plan.Expr) { found = found || uses(e, isOuter) })
	for _, c := range n.Children() {
		found = found || correlated(c)
	}
	return found
}

// pulled is a sub-query whose correlated conditions have been taken out.
type pulled struct {
	node plan.Node // starts with the columns it had; uses nothing of the enclosing query
	// conds are the conditions, over node and the enclosing query.
	conds []plan.Expr
	// single: at most one row satisfies them for each row of the enclosing query.
	single bool
	// defaults, if not nil, are the values of node's first columns when no row satisfies
	// the conditions; marker is a column of node that is never NULL.
	defaults []plan.Expr
	marker   int
}

// defaulted returns values that are the defaults where the join found no row.
func (p *pulled) defaulted(values []plan.Expr) []plan.Expr {
	out := make([]plan.Expr, len(values))
	found := &plan.Call{Name: "isnotnull", Args: []plan.Expr{columnOf(p.node, p.marker)}, T: schema.BooleanType}
	for i, v := range values {
		if l, ok := p.defaults[i].(*plan.Literal); ok && l.Value.Null {
			out[i] = v
			continue
		}
		out[i] = &plan.Case{T: v.Type(), Whens: []plan.When{{Cond: found, Then: v}}, Else: p.defaults[i]}
	}
	return out
}

// pull takes the correlated conditions out of n, if they are in places where that is
// the same.
func pull(n plan.Node) (pulled, bool) {
	if !correlated(n) {
		return pulled{node: n}, true
	}
	own := false // n's own expressions use the enclosing query
	plan.EachExpr(n, func(e plan.Expr) { own = own || uses(e, isOuter) })
	switch n := n.(type) {
	case *plan.Filter:
		p, ok := pull(n.Input)
		if !ok || p.defaults != nil {
			return p, false
		}
		for _, c := range conjuncts(n.Cond, nil) {
			if uses(c, isOuter) {
				p.conds = append(p.conds, c)
			} else {
				p.node = &plan.Filter{Input: p.node, Cond: c}
			}
		}
		return p, true
	case *plan.Project:
		if own {
			return pulled{}, false
		}
		return pullProject(n)
	case *plan.Aggregate:
		if own {
			return pulled{}, false
		}
		return pullAggregate(n)
	case *plan.Join:
		return pullJoin(n, own)
	case *plan.Sort:
		if own || n.Limit >= 0 {
			return pulled{}, false
		}
		return pull(n.Input)
	}
	return pulled{}, false
}

// pullProject passes the columns that conditions use on behind the projection's own.
func pullProject(n *plan.Project) (pulled, bool) {
	p, ok := pull(n.Input)
	if !ok {
		return p, false
	}
	m := &plan.Project{Input: p.node, Exprs: append([]plan.Expr(nil), n.Exprs...), Names: append([]string(nil), n.Names...)}
	at := map[int]int{}
	place := func(i int) int {
		k, ok := at[i]
		if !ok {
			k = len(m.Exprs)
			at[i] = k
			c := columnOf(p.node, i)
			m.Exprs, m.Names = append(m.Exprs, c), append(m.Names, c.Name)
		}
		return k
	}
	out := pulled{single: p.single}
	for _, c := range p.conds {
		out.conds = append(out.conds, mapColumns(c, func(c *plan.Column) plan.Expr {
			if c.Index >= firstPlace {
				return c
			}
			return &plan.Column{Index: place(c.Index), Name: c.Name, T: c.T}
		}))
	}
	if p.defaults != nil {
		out.marker = place(p.marker)
		for _, e := range n.Exprs {
			out.defaults = append(out.defaults, emptied(e, p.defaults))
		}
	}
	out.node = m
	return out, true
}

// emptied is e with columns replaced by their defaults; NULL at once where that is
// plain to see.
func emptied(e plan.Expr, defaults []plan.Expr) plan.Expr {
	out := mapColumns(e, func(c *plan.Column) plan.Expr { return defaults[c.Index] })
	if strictNull(out) {
		return &plan.Literal{Value: schema.NullOf(e.Type())}
	}
	return out
}

// strictNull reports whether e is NULL because a part of it is: arithmetic and casts of NULL.
func strictNull(e plan.Expr) bool {
	switch e := e.(type) {
	case *plan.Literal:
		return e.Value.Null
	case *plan.Cast:
		return strictNull(e.Arg)
	case *plan.Call:
		switch e.Name {
		case "+", "-", "*", "/", "%", "div", "negative", "positive", "round":
			for _, a := range e.Args {
				if strictNull(a) {
					return true
				}
			}
		}
	}
	return false
}

// emptyResults are aggregates of no rows that are not NULL.
var emptyResults = map[string]bool{"count": true}

// nullAggregates are those that are NULL for no rows.
var nullAggregates = map[string]bool{"sum": true, "min": true, "max": true, "avg": true, "std": true, "stddev": true, "stddev_pop": true,
	"stddev_samp": true, "variance": true, "var_pop": true, "var_samp": true, "corr": true, "covar_pop": true, "covar_samp": true, "percentile": true}

// pullAggregate groups by what the conditions compare, too. They must be equalities
// between the two sides, so that each row of the enclosing query meets one group.
func pullAggregate(n *plan.Aggregate) (pulled, bool) {
	p, ok := pull(n.Input)
	if !ok || p.defaults != nil {
		return p, false
	}
	m := *n
	m.Input = p.node
	m.Keys = append([]plan.Expr(nil), n.Keys...)
	m.KeyNames = append([]string(nil), n.KeyNames...)
	type eq struct {
		outer plan.Expr
		key   int
		call  *plan.Call
		left  bool // the outer side is the left one
	}
	var eqs []eq
	for _, c := range p.conds {
		call, ok := c.(*plan.Call)
		if !ok || call.Name != "=" || len(call.Args) != 2 {
			return pulled{}, false
		}
		a, b := call.Args[0], call.Args[1]
		left := uses(a, isOuter)
		if !left {
			a, b = b, a
		}
		if !onlyOuter(a) || uses(b, isOuter) {
			return pulled{}, false
		}
		eqs = append(eqs, eq{a, len(m.Keys), call, left})
		m.Keys, m.KeyNames = append(m.Keys, b), append(m.KeyNames, b.String())
	}
	// The added keys stand behind the old ones, in front of the aggregates: project the
	// old columns to the front again.
	g := plan.Node(&m)
	order := &plan.Project{Input: g}
	add := func(i int) {
		c := columnOf(g, i)
		order.Exprs, order.Names = append(order.Exprs, c), append(order.Names, c.Name)
	}
	for i := range n.Keys {
		add(i)
	}
	for i := range n.Aggs {
		add(len(m.Keys) + i)
	}
	first := len(order.Exprs)
	for i := len(n.Keys); i < len(m.Keys); i++ {
		add(i)
	}
	out := pulled{node: order, single: len(n.Keys) == 0}
	for i, e := range eqs {
		key := columnOf(order, first+i)
		args := []plan.Expr{key, e.outer}
		if e.left {
			args = []plan.Expr{e.outer, key}
		}
		out.conds = append(out.conds, &plan.Call{Name: "=", Args: args, T: e.call.T})
	}
	if len(n.Keys) == 0 {
		for _, a := range n.Aggs {
			switch {
			case emptyResults[a.Name]:
				out.defaults = append(out.defaults, &plan.Literal{Value: schema.Datum{Type: a.T}})
			case nullAggregates[a.Name]:
				out.defaults = append(out.defaults, &plan.Literal{Value: schema.NullOf(a.T)})
			default:
				return pulled{}, false
			}
		}
		out.marker = len(order.Exprs)
		order.Exprs = append(order.Exprs, truth(true))
		order.Names = append(order.Names, "_found")
	}
	return out, true
}

// onlyOuter reports whether all columns of e are the enclosing query's.
func onlyOuter(e plan.Expr) bool {
	return !uses(e, func(c *plan.Column) bool { return !isOuter(c) })
}

// pullJoin pulls out of both sides of an inner join, and out of the side that keeps
// its rows of an outer, semi or anti join.
func pullJoin(n *plan.Join, own bool) (pulled, bool) {
	m := *n
	width := len(n.Left.Fields())
	if n.Kind != plan.Inner {
		if own || correlated(n.Right) || n.Kind == plan.RightOuter || n.Kind == plan.FullOuter {
			return pulled{}, false
		}
		p, ok := pull(n.Left)
		if !ok || p.defaults != nil || len(p.node.Fields()) != width {
			return p, false
		}
		m.Left = p.node
		return pulled{node: &m, conds: p.conds}, true
	}
	for _, e := range append(append([]plan.Expr(nil), n.LeftKeys...), n.RightKeys...) {
		if uses(e, isOuter) {
			return pulled{}, false
		}
	}
	l, ok := pull(n.Left)
	if !ok || l.defaults != nil || len(l.node.Fields()) != width {
		return l, false
	}
	r, ok := pull(n.Right)
	if !ok || r.defaults != nil {
		return r, false
	}
	m.Left, m.Right, m.Residual = l.node, r.node, nil
	out := pulled{node: &m, conds: l.conds}
	for _, c := range r.conds {
		out.conds = append(out.conds, shifted(c, width))
	}
	var kept []plan.Expr
	if n.Residual != nil {
		for _, c := range conjuncts(n.Residual, nil) {
			if uses(c, isOuter) {
				out.conds = append(out.conds, c)
			} else {
				kept = append(kept, c)
			}
		}
	}
	m.Residual = conjunction(kept)
	return out, true
}

func conjunction(es []plan.Expr) plan.Expr {
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

// joined splits conditions over the right side and the enclosing query into the keys and
// the residual of a join whose left side has width columns.
func (d *decorrelator) joined(conds []plan.Expr, width int) (left, right []plan.Expr, residual plan.Expr) {
	var rest []plan.Expr
	for _, c := range conds {
		if call, ok := c.(*plan.Call); ok && call.Name == "=" && len(call.Args) == 2 {
			a, b := call.Args[0], call.Args[1]
			if !uses(a, isOuter) {
				a, b = b, a
			}
			if uses(a, isOuter) && onlyOuter(a) && !uses(b, isOuter) && hasColumns(b) && a.Type().Equal(b.Type()) {
				left, right = append(left, d.own(a)), append(right, b)
				continue
			}
		}
		rest = append(rest, d.own(shifted(c, width)))
	}
	return left, right, conjunction(rest)
}

func hasColumns(e plan.Expr) bool { return uses(e, func(*plan.Column) bool { return true }) }

// own replaces what stands for expressions of the enclosing query.
func (d *decorrelator) own(e plan.Expr) plan.Expr {
	return mapColumns(e, func(c *plan.Column) plan.Expr {
		if !isOuter(c) {
			return c
		}
		return d.outer[c.Index-outerBase]
	})
}

// nullSafe turns pairs of which NULL equals NULL into keys of a join, for which it
// doesn't: whether it is NULL, and the value or a stand-in.
func nullSafe(e plan.Expr) ([]plan.Expr, error) {
	t := e.Type()
	isNull := &plan.Call{Name: "isnull", Args: []plan.Expr{e}, T: schema.BooleanType}
	if !t.IsPrimitive() {
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnsupported, Message: "not supported yet: a sub-query that uses a " + t.String() + " of the enclosing query in this place"}
	}
	value := &plan.Call{Name: "coalesce", Args: []plan.Expr{e, &plan.Literal{Value: schema.Datum{Type: t}}}, T: t}
	return []plan.Expr{isNull, value}, nil
}

// nullSafeAll makes the keys of both sides.
func nullSafeAll(left, right []plan.Expr) (l, r []plan.Expr, err error) {
	for i := range left {
		a, err := nullSafe(left[i])
		if err != nil {
			return nil, nil, err
		}
		b, err := nullSafe(right[i])
		if err != nil {
			return nil, nil, err
		}
		l, r = append(l, a...), append(r, b...)
	}
	return l, r, nil
}
