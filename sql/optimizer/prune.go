package optimizer

import (
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// pruneColumns makes every node compute, and every scan read, only the columns
// that something above uses.
func pruneColumns(n plan.Node, _ *Options) (plan.Node, error) {
	need := make([]bool, len(n.Fields()))
	for i := range need {
		need[i] = true
	}
	out, at := prune(n, need)
	for i, to := range at {
		if to != i || len(out.Fields()) != len(at) {
			return reordered(out, at), nil
		}
	}
	return out, nil
}

// use marks the columns of e.
func use(need []bool, es ...plan.Expr) {
	for _, e := range es {
		if e != nil {
			plan.Walk(e, func(x plan.Expr) {
				if c, ok := x.(*plan.Column); ok {
					need[c.Index] = true
				}
			})
		}
	}
}

// kept returns the new positions of the needed columns, -1 for the others.
func kept(need []bool) []int {
	at := make([]int, len(need))
	n := 0
	for i, want := range need {
		if at[i] = -1; want {
			at[i] = n
			n++
		}
	}
	return at
}

// prune returns n without columns that are not needed, and where its columns
// went. It may keep more than asked.
func prune(n plan.Node, need []bool) (plan.Node, []int) {
	to := func(at []int) func(plan.Expr) plan.Expr {
		return func(e plan.Expr) plan.Expr { return remap(e, at) }
	}
	switch n := n.(type) {
	case *plan.Scan:
		s := source(n)
		if s == nil {
			break
		}
		m := *s
		m.Columns = schema.Columns{}
		for i, want := range need {
			if want {
				m.Columns = append(m.Columns, s.Columns[i])
			}
		}
		return withSource(n, &m), kept(need)
	case *plan.Values:
		m := &plan.Values{Rows: make([][]plan.Expr, len(n.Rows))}
		for i, want := range need {
			if want {
				m.Out = append(m.Out, n.Out[i])
			}
		}
		for r, row := range n.Rows {
			m.Rows[r] = []plan.Expr{}
			for i, want := range need {
				if want {
					m.Rows[r] = append(m.Rows[r], row[i])
				}
			}
		}
		return m, kept(need)
	case *plan.Project:
		below := make([]bool, len(n.Input.Fields()))
		m := &plan.Project{Exprs: []plan.Expr{}, Names: []string{}}
		for i, want := range need {
			if want {
				use(below, n.Exprs[i])
			}
		}
		input, at := prune(n.Input, below)
		m.Input = input
		for i, want := range need {
			if want {
				m.Exprs = append(m.Exprs, remap(n.Exprs[i], at))
				m.Names = append(m.Names, n.Names[i])
			}
		}
		return m, kept(need)
	case *plan.Aggregate:
		return pruneAggregate(n, need)
	case *plan.Join:
		return pruneJoin(n, need)
	case *plan.Filter:
		below := append([]bool(nil), need...)
		use(below, n.Cond)
		input, at := prune(n.Input, below)
		return &plan.Filter{Input: input, Cond: remap(n.Cond, at)}, at
	case *plan.Sort:
		below := append([]bool(nil), need...)
		for _, k := range n.Keys {
			use(below, k.Expr)
		}
		input, at := prune(n.Input, below)
		return plan.MapExprs(n.WithChildren([]plan.Node{input}), to(at)), at
	case *plan.Limit:
		input, at := prune(n.Input, need)
		return n.WithChildren([]plan.Node{input}), at
	case *plan.Union:
		return pruneUnion(n, need)
	case *plan.Expand:
		return pruneExpand(n, need)
	case *plan.Generate:
		return pruneGenerate(n, need)
	case *plan.Window:
		return pruneWindow(n, need)
	case *plan.Write:
		all := make([]bool, len(n.Input.Fields()))
		for i := range all {
			all[i] = true
		}
		input, at := prune(n.Input, all)
		if len(input.Fields()) != len(at) {
			input = reordered(input, at)
		}
		return n.WithChildren([]plan.Node{input}), nil
	}
	at := make([]int, len(need))
	for i := range at {
		at[i] = i
	}
	return n, at
}

// pruneAggregate keeps all keys, which make the groups, and the needed
// aggregates; without keys at least one.
func pruneAggregate(n *plan.Aggregate, need []bool) (plan.Node, []int) {
	below := make([]bool, len(n.Input.Fields()))
	use(below, n.Keys...)
	m := *n
	m.Aggs = nil
	at := make([]int, len(need))
	for i := range n.Keys {
		at[i] = i
	}
	for i, a := range n.Aggs {
		at[len(n.Keys)+i] = -1
		if need[len(n.Keys)+i] || len(n.Keys) == 0 && i == len(n.Aggs)-1 && m.Aggs == nil {
			at[len(n.Keys)+i] = len(n.Keys) + len(m.Aggs)
			use(below, append(append([]plan.Expr(nil), a.Args...), a.Filter)...)
			m.Aggs = append(m.Aggs, a)
		}
	}
	input, inner := prune(n.Input, below)
	m.Input = input
	return plan.MapExprs(&m, func(e plan.Expr) plan.Expr { return remap(e, inner) }), at
}

func pruneJoin(n *plan.Join, need []bool) (plan.Node, []int) {
	width, other := len(n.Left.Fields()), len(n.Right.Fields())
	below := make([]bool, width+other)
	switch n.Kind {
	case plan.LeftSemi, plan.LeftAnti, plan.LeftMark:
		copy(below, need[:width])
	default:
		copy(below, need)
	}
	use(below, n.Residual)
	use(below[:width], n.LeftKeys...)
	use(below[width:], n.RightKeys...)
	left, l := prune(n.Left, below[:width])
	right, r := prune(n.Right, below[width:])
	leftWidth := len(left.Fields())
	both := append([]int(nil), l...)
	for _, to := range r {
		if to >= 0 {
			to += leftWidth
		}
		both = append(both, to)
	}
	m := *n
	m.Left, m.Right, m.LeftKeys, m.RightKeys = left, right, nil, nil
	for i := range n.LeftKeys {
		m.LeftKeys = append(m.LeftKeys, remap(n.LeftKeys[i], l))
		m.RightKeys = append(m.RightKeys, remap(n.RightKeys[i], r))
	}
	if n.Residual != nil {
		m.Residual = remap(n.Residual, both)
	}
	switch n.Kind {
	case plan.LeftSemi, plan.LeftAnti:
		return &m, l
	case plan.LeftMark:
		return &m, append(append([]int(nil), l...), leftWidth)
	}
	return &m, both
}

// pruneUnion prunes all inputs to the same columns.
func pruneUnion(n *plan.Union, need []bool) (plan.Node, []int) {
	m := &plan.Union{}
	to := kept(need)
	width := 0
	for _, want := range need {
		if want {
			width++
		}
	}
	for _, c := range n.Inputs {
		input, at := prune(c, need)
		var order []int
		for i, want := range need {
			if want {
				order = append(order, at[i])
			}
		}
		same := len(input.Fields()) == width
		for i, k := range order {
			same = same && i == k
		}
		if !same {
			input = reordered(input, order)
			if order == nil {
				input.(*plan.Project).Exprs, input.(*plan.Project).Names = []plan.Expr{}, []string{}
			}
		}
		m.Inputs = append(m.Inputs, input)
	}
	return m, to
}

func pruneExpand(n *plan.Expand, need []bool) (plan.Node, []int) {
	below := make([]bool, len(n.Input.Fields()))
	for _, row := range n.Projections {
		for i, want := range need {
			if want {
				use(below, row[i])
			}
		}
	}
	input, at := prune(n.Input, below)
	m := &plan.Expand{Input: input, Names: []string{}}
	for i, want := range need {
		if want {
			m.Names = append(m.Names, n.Names[i])
		}
	}
	for _, row := range n.Projections {
		out := []plan.Expr{}
		for i, want := range need {
			if want {
				out = append(out, remap(row[i], at))
			}
		}
		m.Projections = append(m.Projections, out)
	}
	return m, kept(need)
}

func pruneGenerate(n *plan.Generate, need []bool) (plan.Node, []int) {
	width := len(n.Input.Fields())
	below := append([]bool(nil), need[:width]...)
	use(below, n.Args...)
	input, at := prune(n.Input, below)
	m := plan.MapExprs(n, func(e plan.Expr) plan.Expr { return remap(e, at) }).WithChildren([]plan.Node{input})
	out := append([]int(nil), at...)
	for i := range n.Out {
		out = append(out, len(input.Fields())+i)
	}
	return m, out
}

func pruneWindow(n *plan.Window, need []bool) (plan.Node, []int) {
	width := len(n.Input.Fields())
	below := append([]bool(nil), need[:width]...)
	var calls []plan.WindowCall
	place := make([]int, len(n.Calls))
	for i, c := range n.Calls {
		place[i] = -1
		if need[width+i] {
			place[i] = len(calls)
			calls = append(calls, c)
			use(below, c.Args...)
		}
	}
	if calls == nil {
		input, at := prune(n.Input, need[:width:width])
		return input, append(append([]int(nil), at...), place...)
	}
	use(below, n.PartitionBy...)
	for _, k := range n.OrderBy {
		use(below, k.Expr)
	}
	input, at := prune(n.Input, below)
	m := *n
	m.Calls = calls
	out := append([]int(nil), at...)
	for _, p := range place {
		if p >= 0 {
			p += len(input.Fields())
		}
		out = append(out, p)
	}
	return plan.MapExprs(&m, func(e plan.Expr) plan.Expr { return remap(e, at) }).WithChildren([]plan.Node{input}), out
}

// mergeProjections removes projections that change nothing, joins one with the
// one below it, and computes those over constant rows.
func mergeProjections(n plan.Node, o *Options) (plan.Node, error) {
	return plan.RewriteNode(n, func(n plan.Node) plan.Node {
		p, ok := n.(*plan.Project)
		if !ok {
			return n
		}
		switch below := p.Input.(type) {
		case *plan.Project:
			if m := o.merge(p, below); m != nil {
				p = m
			}
		case *plan.Values:
			return o.compute(p, below)
		}
		if isIdentity(p) {
			return p.Input
		}
		return p
	}), nil
}

func isIdentity(p *plan.Project) bool {
	fields := p.Input.Fields()
	if len(fields) != len(p.Exprs) {
		return false
	}
	for i, e := range p.Exprs {
		c, ok := e.(*plan.Column)
		if !ok || c.Index != i || p.Names[i] != fields[i].Name {
			return false
		}
	}
	return true
}

// merge returns p and the projection below it as one, or nil if that would
// compute something twice.
func (o *Options) merge(p, below *plan.Project) *plan.Project {
	uses := make([]int, len(below.Exprs))
	for _, e := range p.Exprs {
		plan.Walk(e, func(x plan.Expr) {
			if c, ok := x.(*plan.Column); ok {
				uses[c.Index]++
			}
		})
	}
	for i, e := range below.Exprs {
		switch e.(type) {
		case *plan.Column, *plan.Literal:
			continue
		}
		if uses[i] > 1 || uses[i] == 1 && o.volatile(e) {
			return nil
		}
	}
	m := &plan.Project{Input: below.Input, Names: p.Names, Exprs: make([]plan.Expr, len(p.Exprs))}
	for i, e := range p.Exprs {
		m.Exprs[i] = substitute(e, below.Exprs)
	}
	return m
}

// maxComputed is the most rows of VALUES that are computed while planning.
const maxComputed = 100_000

// compute applies a projection to constant rows.
func (o *Options) compute(p *plan.Project, v *plan.Values) plan.Node {
	if len(v.Rows) > maxComputed {
		return p
	}
	for _, row := range v.Rows {
		for _, e := range row {
			if o.volatile(e) {
				return p
			}
		}
	}
	out := &plan.Values{Out: p.Fields(), Rows: make([][]plan.Expr, len(v.Rows))}
	for r, row := range v.Rows {
		out.Rows[r] = make([]plan.Expr, len(p.Exprs))
		for i, e := range p.Exprs {
			moved := substitute(e, row)
			if large(moved) && !large(e) {
				return p
			}
			out.Rows[r][i] = plan.Rewrite(moved, o.fold)
		}
	}
	return out
}
