package optimizer

import "github.com/skepdb/skep/sql/plan"

// pushLimits moves LIMIT below projections, makes a sort keep only what is
// wanted (top-N), and tells scans how many rows are enough.
func pushLimits(n plan.Node, _ *Options) (plan.Node, error) {
	return plan.RewriteNode(n, func(n plan.Node) plan.Node {
		if l, ok := n.(*plan.Limit); ok {
			return limited(l)
		}
		return n
	}), nil
}

func limited(l *plan.Limit) plan.Node {
	if l.Count == 0 {
		return &plan.Values{Out: l.Fields()}
	}
	switch in := l.Input.(type) {
	case *plan.Project:
		return in.WithChildren([]plan.Node{limited(&plan.Limit{Input: in.Input, Count: l.Count, Offset: l.Offset})})
	case *plan.Sort:
		if in.Limit < 0 {
			m := *in
			m.Limit, m.Offset = l.Count, l.Offset
			return &m
		}
	case *plan.Union: // each input need not give more than is wanted of all
		most := addCapped(l.Count, l.Offset)
		m := &plan.Union{}
		for _, c := range in.Inputs {
			if _, done := c.(*plan.Limit); !done {
				c = limited(&plan.Limit{Input: c, Count: most})
			}
			m.Inputs = append(m.Inputs, c)
		}
		return &plan.Limit{Input: m, Count: l.Count, Offset: l.Offset}
	case *plan.Limit:
		if l.Offset == 0 && in.Offset == 0 {
			return limited(&plan.Limit{Input: in.Input, Count: min(l.Count, in.Count)})
		}
	case *plan.Scan:
		if s := source(in); s != nil {
			m := *s
			m.Limit = addCapped(l.Count, l.Offset)
			return &plan.Limit{Input: withSource(in, &m), Count: l.Count, Offset: l.Offset}
		}
	}
	return l
}

// addCapped adds without overflow.
func addCapped(a, b int64) int64 {
	if a > 1<<62 || b > 1<<62 {
		return 1 << 62
	}
	return a + b
}
