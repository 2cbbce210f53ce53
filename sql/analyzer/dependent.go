package analyzer

import (
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// general joins a sub-query that is computed for each distinct set of values that the
// enclosing query gives it.
func (q *subquery) general(d *decorrelator, n plan.Node, left []plan.Expr, inner plan.Node) (plan.Node, error) {
	width := len(n.Fields())
	g := &domain{width: len(d.outer)}
	names := make([]string, len(d.outer))
	distinctValues := &plan.Aggregate{Phase: plan.Single}
	p := &plan.Project{Input: d.outerNode, Exprs: d.outer, Names: names}
	for i := range d.outer {
		names[i] = "_outer"
	}
	distinctValues.Input = p
	distinctValues.Keys, distinctValues.KeyNames = columnsOf(p, len(names)), names
	g.node = distinctValues
	right, err := g.push(inner)
	if err != nil {
		return nil, err
	}
	at := len(inner.Fields())
	j := &plan.Join{Left: n, Right: right, Kind: q.kind, NullAware: q.nullAware}
	if j.LeftKeys, j.RightKeys, err = nullSafeAll(d.outer, g.columns(right, at)); err != nil {
		return nil, err
	}
	j.LeftKeys, j.RightKeys = append(j.LeftKeys, left...), append(j.RightKeys, q.right...)
	if q.kind == plan.LeftSingle && oneRow(inner) {
		j.Kind = plan.LeftOuter
	}
	var values []plan.Expr
	if q.kind == plan.LeftSingle {
		values = columnsOf(right, len(q.input.Fields()))
	}
	q.finish(j, width, values)
	return j, nil
}

// domain is the distinct sets of values that a sub-query is computed for.
type domain struct {
	node  plan.Node // one column for each expression of the enclosing query
	width int
}

// columns are the domain's columns of n, which start at position at.
func (g *domain) columns(n plan.Node, at int) []plan.Expr {
	out := make([]plan.Expr, g.width)
	for i := range out {
		out[i] = columnOf(n, at+i)
	}
	return out
}

// bound replaces what stands for expressions of the enclosing query by the domain's
// columns, which start at position at.
func (g *domain) bound(e plan.Expr, at int) plan.Expr {
	if e == nil {
		return nil
	}
	return mapColumns(e, func(c *plan.Column) plan.Expr {
		if !isOuter(c) {
			return c
		}
		return &plan.Column{Index: at + c.Index - outerBase, Name: c.Name, T: c.T}
	})
}

func (g *domain) boundAll(es []plan.Expr, at int) []plan.Expr {
	out := make([]plan.Expr, len(es))
	for i, e := range es {
		out[i] = g.bound(e, at)
	}
	return out
}

func (g *domain) names() []string {
	out := make([]string, g.width)
	for i := range out {
		out[i] = "_outer"
	}
	return out
}

// push returns n computed for each row of the domain: n's columns, then the domain's.
func (g *domain) push(n plan.Node) (plan.Node, error) {
	if !correlated(n) {
		return &plan.Join{Left: n, Right: g.node, Kind: plan.Inner}, nil
	}
	at := len(n.Fields())
	switch n := n.(type) {
	case *plan.Values:
		return g.values(n)
	case *plan.Filter:
		in, err := g.push(n.Input)
		if err != nil {
			return nil, err
		}
		return &plan.Filter{Input: in, Cond: g.bound(n.Cond, at)}, nil
	case *plan.Project:
		in, err := g.push(n.Input)
		if err != nil {
			return nil, err
		}
		w := len(n.Input.Fields())
		return &plan.Project{Input: in, Exprs: append(g.boundAll(n.Exprs, w), g.columns(in, w)...),
			Names: append(append([]string(nil), n.Names...), g.names()...)}, nil
	case *plan.Sort:
		return g.sort(n)
	case *plan.Limit:
		return g.first(n.Input, nil, n.Count, n.Offset)
	case *plan.Aggregate:
		return g.aggregate(n)
	case *plan.Join:
		return g.join(n)
	case *plan.Union:
		out := &plan.Union{}
		for _, c := range n.Inputs {
			in, err := g.push(c)
			if err != nil {
				return nil, err
			}
			out.Inputs = append(out.Inputs, in)
		}
		return out, nil
	case *plan.Window:
		in, err := g.push(n.Input)
		if err != nil {
			return nil, err
		}
		w := len(n.Input.Fields())
		m := plan.MapExprs(n, func(e plan.Expr) plan.Expr { return g.bound(e, w) }).(*plan.Window)
		m.Input = in
		m.PartitionBy = append(m.PartitionBy, g.columns(in, w)...)
		return g.behind(m, w, at), nil
	case *plan.Generate:
		in, err := g.push(n.Input)
		if err != nil {
			return nil, err
		}
		w := len(n.Input.Fields())
		m := plan.MapExprs(n, func(e plan.Expr) plan.Expr { return g.bound(e, w) }).(*plan.Generate)
		m.Input = in
		return g.behind(m, w, at), nil
	case *plan.Expand:
		in, err := g.push(n.Input)
		if err != nil {
			return nil, err
		}
		w := len(n.Input.Fields())
		m := &plan.Expand{Input: in, Names: append(append([]string(nil), n.Names...), g.names()...)}
		for _, row := range n.Projections {
			m.Projections = append(m.Projections, append(g.boundAll(row, w), g.columns(in, w)...))
		}
		return m, nil
	}
	return nil, fault.Bugf("analyzer: a %T that uses the enclosing query", n)
}

// behind moves the domain's columns of n, which start at from, behind the others.
func (g *domain) behind(n plan.Node, from, total int) plan.Node {
	p := &plan.Project{Input: n}
	add := func(i int) {
		c := columnOf(n, i)
		p.Exprs, p.Names = append(p.Exprs, c), append(p.Names, c.Name)
	}
	for i := range total + g.width {
		if i < from || i >= from+g.width {
			add(i)
		}
	}
	for i := range g.width {
		add(from + i)
	}
	return p
}

// values computes constant rows that use the domain: one projection of it a row.
func (g *domain) values(n *plan.Values) (plan.Node, error) {
	out := &plan.Union{}
	for _, row := range n.Rows {
		p := &plan.Project{Input: g.node, Exprs: append(g.boundAll(row, 0), g.columns(g.node, 0)...)}
		for _, f := range n.Out {
			p.Names = append(p.Names, f.Name)
		}
		p.Names = append(p.Names, g.names()...)
		out.Inputs = append(out.Inputs, p)
	}
	if len(out.Inputs) == 1 {
		return out.Inputs[0], nil
	}
	return out, nil
}

func (g *domain) sort(n *plan.Sort) (plan.Node, error) {
	if n.Limit < 0 { // the order of a sub-query's rows means nothing
		return g.push(n.Input)
	}
	return g.first(n.Input, n.Keys, n.Limit, n.Offset)
}

// first keeps count rows after offset for each row of the domain: by their number.
func (g *domain) first(input plan.Node, keys []plan.SortKey, count, offset int64) (plan.Node, error) {
	if s, ok := input.(*plan.Sort); ok && keys == nil && s.Limit < 0 {
		input, keys = s.Input, s.Keys
	}
	in, err := g.push(input)
	if err != nil {
		return nil, err
	}
	w := len(input.Fields())
	order := append([]plan.SortKey(nil), keys...)
	for i := range order {
		order[i].Expr = g.bound(order[i].Expr, w)
	}
	rank := &plan.Window{Input: in, PartitionBy: g.columns(in, w), OrderBy: order, Calls: []plan.WindowCall{{Name: "row_number", T: schema.IntType, OutName: "_row",
		Frame: plan.Frame{Start: plan.Bound{Kind: plan.UnboundedPreceding}, End: plan.Bound{Kind: plan.CurrentRow}}}}}
	row := &plan.Cast{Arg: columnOf(rank, w+g.width), T: schema.BigIntType}
	cond := []plan.Expr{&plan.Call{Name: "<=", Args: []plan.Expr{row, bigint(min(count, 1<<61) + min(offset, 1<<61))}, T: schema.BooleanType}}
	if offset > 0 {
		cond = append(cond, &plan.Call{Name: ">", Args: []plan.Expr{row, bigint(offset)}, T: schema.BooleanType})
	}
	return firstColumns(&plan.Filter{Input: rank, Cond: conjunction(cond)}, w+g.width), nil
}

// aggregate groups by the domain, too. Without keys each row of the domain has one group,
// even if no row falls into it: the input is joined to the domain, from which
// all rows remain, and aggregates count only rows that were there.
func (g *domain) aggregate(n *plan.Aggregate) (plan.Node, error) {
	in, err := g.push(n.Input)
	if err != nil {
		return nil, err
	}
	w := len(n.Input.Fields())
	m := plan.MapExprs(n, func(e plan.Expr) plan.Expr { return g.bound(e, w) }).(*plan.Aggregate)
	m.Input = in
	keys := g.columns(in, w)
	if len(n.Keys) == 0 {
		marked := extended(in, []plan.Expr{truth(true)}, []string{"_found"})
		lk, rk, err := nullSafeAll(columnsOf(g.node, g.width), g.columns(marked, w))
		if err != nil {
			return nil, err
		}
		j := &plan.Join{Left: g.node, Right: marked, Kind: plan.LeftOuter, LeftKeys: lk, RightKeys: rk}
		m = plan.MapExprs(m, func(e plan.Expr) plan.Expr { return shifted(e, g.width) }).(*plan.Aggregate)
		m.Input = j
		found := plan.Expr(&plan.Call{Name: "isnotnull", Args: []plan.Expr{columnOf(j, g.width+w+g.width)}, T: schema.BooleanType})
		for i := range m.Aggs {
			f := m.Aggs[i].Filter
			if m.Aggs[i].Filter = found; f != nil {
				m.Aggs[i].Filter = conjunction([]plan.Expr{found, f})
			}
		}
		keys = columnsOf(j, g.width)
	}
	m.Keys = append(append([]plan.Expr(nil), m.Keys...), keys...)
	m.KeyNames = append(append([]string(nil), m.KeyNames...), g.names()...)
	return g.behind(m, len(n.Keys), len(n.Keys)+len(n.Aggs)), nil
}

// join pushes the domain into the sides that need it; where both do, they are joined on it.
func (g *domain) join(n *plan.Join) (plan.Node, error) {
	lw, rw := len(n.Left.Fields()), len(n.Right.Fields())
	own := false
	plan.EachExpr(n, func(e plan.Expr) { own = own || uses(e, isOuter) })
	if n.Kind == plan.FullOuter || n.Kind == plan.RightOuter {
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnsupported,
			Message: "not supported yet: a full or right outer join in a sub-query that uses the enclosing query"}
	}
	left, err := g.push(n.Left)
	if err != nil {
		return nil, err
	}
	// The left side now has the domain's columns: expressions over both sides, whose right
	// columns follow the left ones, move.
	over := func(e plan.Expr) plan.Expr {
		if e == nil {
			return nil
		}
		return mapColumns(e, func(c *plan.Column) plan.Expr {
			switch {
			case isOuter(c):
				return &plan.Column{Index: lw + c.Index - outerBase, Name: c.Name, T: c.T}
			case c.Index >= lw:
				return &plan.Column{Index: c.Index + g.width, Name: c.Name, T: c.T}
			}
			return c
		})
	}
	m := *n
	m.Left, m.LeftKeys, m.Residual = left, g.boundAll(n.LeftKeys, lw), over(n.Residual)
	rightKeys := n.RightKeys
	right := n.Right
	if correlated(n.Right) || anyOuter(n.RightKeys) {
		if right, err = g.push(n.Right); err != nil {
			return nil, err
		}
		rightKeys = g.boundAll(n.RightKeys, rw)
		lk, rk, err := nullSafeAll(g.columns(left, lw), g.columns(right, rw))
		if err != nil {
			return nil, err
		}
		m.LeftKeys, rightKeys = append(lk, m.LeftKeys...), append(rk, rightKeys...)
	}
	m.Right, m.RightKeys = right, rightKeys
	switch n.Kind {
	case plan.LeftSemi, plan.LeftAnti:
		return &m, nil
	case plan.LeftMark:
		return g.behind(&m, lw, lw+1), nil
	}
	// left, domain, right [, domain]: to left, right, domain
	p := &plan.Project{Input: &m}
	add := func(i int) {
		c := columnOf(&m, i)
		p.Exprs, p.Names = append(p.Exprs, c), append(p.Names, c.Name)
	}
	for i := range lw {
		add(i)
	}
	for i := range rw {
		add(lw + g.width + i)
	}
	for i := range g.width {
		add(lw + i)
	}
	return p, nil
}

func anyOuter(es []plan.Expr) bool {
	for _, e := range es {
		if uses(e, isOuter) {
			return true
		}
	}
	return false
}
