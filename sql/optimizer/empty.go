package optimizer

import (
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// dropEmpty removes what can't have rows because a condition was found to be never true:
// the input of a union, the join with nothing.
func dropEmpty(n plan.Node, _ *Options) (plan.Node, error) {
	return plan.RewriteNode(n, withoutEmpty), nil
}

func isEmpty(n plan.Node) bool {
	v, ok := n.(*plan.Values)
	return ok && len(v.Rows) == 0
}

// withoutEmpty simplifies a node whose inputs are simplified.
func withoutEmpty(n plan.Node) plan.Node {
	nothing := func() plan.Node { return &plan.Values{Out: n.Fields()} }
	switch n := n.(type) {
	case *plan.Union:
		return unionWithoutEmpty(n)
	case *plan.Join:
		return joinWithoutEmpty(n)
	case *plan.Aggregate:
		if len(n.Keys) > 0 && isEmpty(n.Input) {
			return nothing()
		}
	case *plan.Filter, *plan.Project, *plan.Expand, *plan.Generate, *plan.Window, *plan.Sort, *plan.Limit:
		if isEmpty(n.Children()[0]) {
			return nothing()
		}
	}
	return n
}

func unionWithoutEmpty(n *plan.Union) plan.Node {
	var kept []plan.Node
	for _, c := range n.Inputs {
		if !isEmpty(c) {
			kept = append(kept, c)
		}
	}
	switch len(kept) {
	case len(n.Inputs):
		return n
	case 0:
		return &plan.Values{Out: n.Fields()}
	}
	// The names are the first input's, which may be gone.
	fields := n.Fields()
	p := &plan.Project{Input: kept[0]}
	for i, f := range kept[0].Fields() {
		p.Exprs = append(p.Exprs, &plan.Column{Index: i, Name: f.Name, T: f.Type})
		p.Names = append(p.Names, fields[i].Name)
	}
	kept[0] = p
	if len(kept) == 1 {
		return p
	}
	return &plan.Union{Inputs: kept}
}

func joinWithoutEmpty(n *plan.Join) plan.Node {
	left, right := isEmpty(n.Left), isEmpty(n.Right)
	if !left && !right {
		return n
	}
	keepsLeft := n.Kind != plan.Inner && n.Kind != plan.RightOuter && n.Kind != plan.LeftSemi
	keepsRight := n.Kind == plan.RightOuter || n.Kind == plan.FullOuter
	if left && !keepsRight || right && !keepsLeft {
		return &plan.Values{Out: n.Fields()}
	}
	if left && right {
		return &plan.Values{Out: n.Fields()}
	}
	if n.Kind == plan.LeftAnti {
		return n.Left
	}
	width := len(n.Left.Fields())
	p := &plan.Project{Input: n.Left}
	if left {
		p.Input = n.Right
	}
	for i, f := range n.Fields() {
		var e plan.Expr
		switch {
		case i < width == left: // the empty side's
			e = &plan.Literal{Value: schema.NullOf(f.Type)}
			if n.Kind == plan.LeftMark {
				e = boolean(false)
			}
		case left:
			e = &plan.Column{Index: i - width, Name: f.Name, T: f.Type}
		default:
			e = &plan.Column{Index: i, Name: f.Name, T: f.Type}
		}
		p.Exprs, p.Names = append(p.Exprs, e), append(p.Names, f.Name)
	}
	return p
}
