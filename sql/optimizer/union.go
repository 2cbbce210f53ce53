package optimizer

import "github.com/skepdb/skep/sql/plan"

// splitUnions gives each input of a union a stage of its own: what a stage does on top of
// a union of scans, each of the inputs' stages does by itself, and the union is what the next
// stage reads. All that stands between a union and the next exchange works on
// any part of the rows, or there would be an exchange below it.
func splitUnions(n plan.Node, _ *Options) (plan.Node, error) {
	out := divided(n)
	if len(out) == 1 {
		return out[0], nil
	}
	// The root's rows leave from one stage: it reads the union.
	u := &plan.Union{}
	for _, c := range out {
		u.Inputs = append(u.Inputs, &plan.Exchange{Input: c, How: plan.ToOne})
	}
	return u, nil
}

// divided returns the trees that together give n's rows: none has a union of anything but
// exchanges above its exchanges.
func divided(n plan.Node) []plan.Node {
	switch n := n.(type) {
	case *plan.Exchange:
		inputs := divided(n.Input)
		if len(inputs) == 1 {
			return []plan.Node{n.WithChildren(inputs)}
		}
		u := &plan.Union{}
		for _, c := range inputs {
			u.Inputs = append(u.Inputs, n.WithChildren([]plan.Node{c}))
		}
		return []plan.Node{u}
	case *plan.Union:
		var out []plan.Node
		for _, c := range n.Inputs {
			out = append(out, divided(c)...)
		}
		return out
	}
	children := n.Children()
	if len(children) == 0 {
		return []plan.Node{n}
	}
	lists := make([][]plan.Node, len(children))
	for i, c := range children {
		lists[i] = divided(c)
	}
	// Only one side of a join has rows that are not exchanged; were it both, each pair would count.
	out := []plan.Node{}
	var combine func(i int, chosen []plan.Node)
	combine = func(i int, chosen []plan.Node) {
		if i == len(lists) {
			out = append(out, n.WithChildren(append([]plan.Node(nil), chosen...)))
			return
		}
		for _, c := range lists[i] {
			combine(i+1, append(chosen, c))
		}
	}
	combine(0, nil)
	return out
}
