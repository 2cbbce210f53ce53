package plan

// EachChild calls f with the direct parts of e, in order.
func EachChild(e Expr, f func(Expr)) {
	switch e := e.(type) {
	case *Call:
		for _, x := range e.Args {
			f(x)
		}
	case *Cast:
		f(e.Arg)
	case *Member:
		f(e.Base)
	case *Case:
		for _, w := range e.Whens {
			f(w.Cond)
			f(w.Then)
		}
		f(e.Else)
	}
}

// MapChildren returns e with its direct parts replaced by f's results; e
// itself when none changed.
func MapChildren(e Expr, f func(Expr) Expr) Expr {
	changed := false
	g := func(x Expr) Expr {
		y := f(x)
		changed = changed || y != x
		return y
	}
	switch e := e.(type) {
	case *Call:
		args := make([]Expr, len(e.Args))
		for i, x := range e.Args {
			args[i] = g(x)
		}
		if changed {
			return &Call{Name: e.Name, Args: args, T: e.T}
		}
	case *Cast:
		if x := g(e.Arg); changed {
			return &Cast{Arg: x, T: e.T}
		}
	case *Member:
		if x := g(e.Base); changed {
			return &Member{Base: x, Index: e.Index, Name: e.Name, T: e.T}
		}
	case *Case:
		out := &Case{T: e.T, Whens: make([]When, len(e.Whens))}
		for i, w := range e.Whens {
			out.Whens[i] = When{Cond: g(w.Cond), Then: g(w.Then)}
		}
		if out.Else = g(e.Else); changed {
			return out
		}
	}
	return e
}

// Walk calls f with e and all its parts, outer ones first.
func Walk(e Expr, f func(Expr)) {
	f(e)
	EachChild(e, func(x Expr) { Walk(x, f) })
}

// Rewrite replaces parts of e bottom-up: f gets each part with its own parts
// replaced already, and returns what stands in its place.
func Rewrite(e Expr, f func(Expr) Expr) Expr {
	return f(MapChildren(e, func(x Expr) Expr { return Rewrite(x, f) }))
}

// RewriteNode replaces nodes of a tree bottom-up.
func RewriteNode(n Node, f func(Node) Node) Node {
	children := n.Children()
	changed := false
	out := make([]Node, len(children))
	for i, c := range children {
		out[i] = RewriteNode(c, f)
		changed = changed || out[i] != c
	}
	if changed {
		n = n.WithChildren(out)
	}
	return f(n)
}

// MapExprs returns n with each of its own expressions (not its children's)
// replaced by f's result.
func MapExprs(n Node, f func(Expr) Expr) Node {
	list := func(es []Expr) []Expr {
		if es == nil {
			return nil
		}
		out := make([]Expr, len(es))
		for i, e := range es {
			out[i] = f(e)
		}
		return out
	}
	lists := func(rows [][]Expr) [][]Expr {
		out := make([][]Expr, len(rows))
		for i, row := range rows {
			out[i] = list(row)
		}
		return out
	}
	keys := func(ks []SortKey) []SortKey {
		out := append([]SortKey(nil), ks...)
		for i := range out {
			out[i].Expr = f(out[i].Expr)
		}
		return out
	}
	switch n := n.(type) {
	case *Values:
		return &Values{Rows: lists(n.Rows), Out: n.Out}
	case *Filter:
		return &Filter{Input: n.Input, Cond: f(n.Cond)}
	case *Project:
		return &Project{Input: n.Input, Exprs: list(n.Exprs), Names: n.Names}
	case *Aggregate:
		m := *n
		m.Keys = list(n.Keys)
		m.Aggs = append([]Agg(nil), n.Aggs...)
		for i := range m.Aggs {
			m.Aggs[i].Args = list(m.Aggs[i].Args)
			if m.Aggs[i].Filter != nil {
				m.Aggs[i].Filter = f(m.Aggs[i].Filter)
			}
		}
		return &m
	case *Join:
		m := *n
		m.LeftKeys, m.RightKeys = list(n.LeftKeys), list(n.RightKeys)
		if n.Residual != nil {
			m.Residual = f(n.Residual)
		}
		return &m
	case *Expand:
		return &Expand{Input: n.Input, Projections: lists(n.Projections), Names: n.Names}
	case *Generate:
		m := *n
		m.Args = list(n.Args)
		return &m
	case *Window:
		m := *n
		m.PartitionBy, m.OrderBy = list(n.PartitionBy), keys(n.OrderBy)
		m.Calls = append([]WindowCall(nil), n.Calls...)
		for i := range m.Calls {
			m.Calls[i].Args = list(m.Calls[i].Args)
		}
		return &m
	case *Sort:
		m := *n
		m.Keys = keys(n.Keys)
		return &m
	case *Exchange:
		m := *n
		m.Keys = list(n.Keys)
		return &m
	}
	return n
}

// EachExpr calls f with each of n's own expressions.
func EachExpr(n Node, f func(Expr)) {
	MapExprs(n, func(e Expr) Expr { f(e); return e })
}
