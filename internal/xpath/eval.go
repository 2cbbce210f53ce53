package xpath

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

func boolean(b bool) Value { return Value{Type: Boolean, Bool: b} }

func modulo(x, y float64) float64 { return math.Mod(x, y) }

func arithmetic(f func(x, y float64) float64) func(a, b evaluator) evaluator {
	return func(a, b evaluator) evaluator {
		return func(c context) Value { return Value{Type: Number, Number: f(a(c).ToNumber(), b(c).ToNumber())} }
	}
}

func unite(a, b evaluator) evaluator {
	return func(c context) Value {
		return Value{Nodes: ordered(append(append([]*Node(nil), a(c).Nodes...), b(c).Nodes...))}
	}
}

// ordered sorts nodes by the document and drops doubles.
func ordered(nodes []*Node) []*Node {
	slices.SortFunc(nodes, func(a, b *Node) int { return a.order - b.order })
	return slices.Compact(nodes)
}

// comparing is = != < <= > >=: of node-sets, whether any pair of nodes satisfies it.
func comparing(op string) func(a, b evaluator) evaluator {
	return func(a, b evaluator) evaluator {
		return func(c context) Value { return boolean(compare(op, a(c), b(c))) }
	}
}

func compare(op string, a, b Value) bool {
	if a.Type == NodeSet && b.Type != Boolean {
		for _, n := range a.Nodes {
			if compare(op, Value{Type: String, String: n.Text()}, b) {
				return true
			}
		}
		return false
	}
	if b.Type == NodeSet && a.Type != Boolean {
		for _, n := range b.Nodes {
			if compare(op, a, Value{Type: String, String: n.Text()}) {
				return true
			}
		}
		return false
	}
	if op == "=" || op == "!=" {
		equal := false
		switch {
		case a.Type == Boolean || b.Type == Boolean:
			equal = a.ToBool() == b.ToBool()
		case a.Type == Number || b.Type == Number:
			equal = a.ToNumber() == b.ToNumber()
		default:
			equal = a.ToString() == b.ToString()
		}
		return equal == (op == "=")
	}
	x, y := a.ToNumber(), b.ToNumber()
	switch op {
	case "<":
		return x < y
	case "<=":
		return x <= y
	case ">":
		return x > y
	}
	return x >= y
}

func self(n *Node) []*Node { return []*Node{n} }

func parent(n *Node) []*Node {
	if n.Parent == nil {
		return nil
	}
	return []*Node{n.Parent}
}

func children(n *Node) []*Node { return n.Children }

func attributes(n *Node) []*Node { return n.Attributes }

func descendants(n *Node) []*Node {
	var out []*Node
	for _, c := range n.Children {
		out = append(append(out, c), descendants(c)...)
	}
	return out
}

func descendantsOrSelf(n *Node) []*Node { return append([]*Node{n}, descendants(n)...) }

func ancestors(n *Node) []*Node {
	var out []*Node
	for n = n.Parent; n != nil; n = n.Parent {
		out = append(out, n)
	}
	return out
}

func ancestorsOrSelf(n *Node) []*Node { return append([]*Node{n}, ancestors(n)...) }

// siblings returns those after n, or those before it, nearest first.
func siblings(n *Node, after bool) []*Node {
	if n.Parent == nil || n.Kind == Attribute {
		return nil
	}
	k := slices.Index(n.Parent.Children, n)
	if after {
		return n.Parent.Children[k+1:]
	}
	out := slices.Clone(n.Parent.Children[:k])
	slices.Reverse(out)
	return out
}

// beyond returns all nodes after, or before, n that are no relatives in line.
func beyond(n *Node, after bool) []*Node {
	var out []*Node
	for ; n != nil; n = n.Parent {
		for _, s := range siblings(n, after) {
			d := descendantsOrSelf(s)
			if !after {
				slices.Reverse(d)
			}
			out = append(out, d...)
		}
	}
	return out
}

// axes give nodes in the axis's order.
var axes = map[string]func(*Node) []*Node{
	"self": self, "parent": parent, "child": children, "attribute": attributes, "descendant": descendants,
	"descendant-or-self": descendantsOrSelf, "ancestor": ancestors, "ancestor-or-self": ancestorsOrSelf,
	"following-sibling": func(n *Node) []*Node { return siblings(n, true) },
	"preceding-sibling": func(n *Node) []*Node { return siblings(n, false) },
	"following":         func(n *Node) []*Node { return beyond(n, true) },
	"preceding":         func(n *Node) []*Node { return beyond(n, false) },
}

// stepFrom goes one step from each node of start.
func stepFrom(start evaluator, axis func(*Node) []*Node, test func(*Node) bool, preds []evaluator) evaluator {
	return func(c context) Value {
		var out []*Node
		for _, n := range start(c).Nodes {
			var found []*Node
			if *c.steps < 0 {
				break
			}
			all := axis(n)
			*c.steps -= len(all) + 1
			for _, m := range all {
				if test(m) {
					found = append(found, m)
				}
			}
			for _, p := range preds {
				found = filter(c, found, p)
			}
			out = append(out, found...)
		}
		return Value{Nodes: ordered(out)}
	}
}

// filter keeps the nodes for which a predicate holds; a number means that position.
func filter(c context, nodes []*Node, pred evaluator) []*Node {
	var out []*Node
	for i, n := range nodes {
		v := pred(context{n, i + 1, len(nodes), c.steps})
		if v.Type == Number && v.Number == float64(i+1) || v.Type != Number && v.ToBool() {
			out = append(out, n)
		}
	}
	return out
}

type function struct {
	least, most int // arguments; most < 0: any number
	call        func(c context, args []Value) Value
}

func text(s string) Value { return Value{Type: String, String: s} }

func numeric(f float64) Value { return Value{Type: Number, Number: f} }

// argument is the first argument, or the context's node.
func argument(c context, args []Value) Value {
	if len(args) > 0 {
		return args[0]
	}
	return Value{Nodes: []*Node{c.node}}
}

func localName(s string) string { return s[strings.IndexByte(s, ':')+1:] }

// named returns a name of the first node.
func named(f func(string) string) function {
	return function{0, 1, func(c context, args []Value) Value {
		v := argument(c, args)
		if len(v.Nodes) == 0 {
			return text("")
		}
		return text(f(v.Nodes[0].Name))
	}}
}

var functions = map[string]function{
	"last":       {0, 0, func(c context, _ []Value) Value { return numeric(float64(c.size)) }},
	"position":   {0, 0, func(c context, _ []Value) Value { return numeric(float64(c.position)) }},
	"count":      {1, 1, func(_ context, a []Value) Value { return numeric(float64(len(a[0].Nodes))) }},
	"name":       named(func(s string) string { return s }),
	"local-name": named(localName),
	"string":     {0, 1, func(c context, a []Value) Value { return text(argument(c, a).ToString()) }},
	"concat": {2, -1, func(_ context, a []Value) Value {
		var b strings.Builder
		for _, v := range a {
			b.WriteString(v.ToString())
		}
		return text(b.String())
	}},
	"starts-with": {2, 2, func(_ context, a []Value) Value {
		return boolean(strings.HasPrefix(a[0].ToString(), a[1].ToString()))
	}},
	"contains": {2, 2, func(_ context, a []Value) Value {
		return boolean(strings.Contains(a[0].ToString(), a[1].ToString()))
	}},
	"substring-before": {2, 2, func(_ context, a []Value) Value {
		s, _, ok := strings.Cut(a[0].ToString(), a[1].ToString())
		if !ok {
			s = ""
		}
		return text(s)
	}},
	"substring-after": {2, 2, func(_ context, a []Value) Value {
		_, s, _ := strings.Cut(a[0].ToString(), a[1].ToString())
		return text(s)
	}},
	"substring": {2, 3, func(_ context, a []Value) Value {
		from, to := roundNumber(a[1].ToNumber()), math.Inf(1)
		if len(a) > 2 {
			to = from + roundNumber(a[2].ToNumber())
		}
		var b strings.Builder
		i := 1.0
		for _, r := range a[0].ToString() {
			if i >= from && i < to {
				b.WriteRune(r)
			}
			i++
		}
		return text(b.String())
	}},
	"string-length": {0, 1, func(c context, a []Value) Value {
		return numeric(float64(utf8.RuneCountInString(argument(c, a).ToString())))
	}},
	"normalize-space": {0, 1, func(c context, a []Value) Value {
		return text(strings.Join(strings.Fields(argument(c, a).ToString()), " "))
	}},
	"translate": {3, 3, func(_ context, a []Value) Value {
		from, to := []rune(a[1].ToString()), []rune(a[2].ToString())
		return text(strings.Map(func(r rune) rune {
			k := slices.Index(from, r)
			switch {
			case k < 0:
				return r
			case k < len(to):
				return to[k]
			}
			return -1
		}, a[0].ToString()))
	}},
	"boolean": {1, 1, func(_ context, a []Value) Value { return boolean(a[0].ToBool()) }},
	"not":     {1, 1, func(_ context, a []Value) Value { return boolean(!a[0].ToBool()) }},
	"true":    {0, 0, func(context, []Value) Value { return boolean(true) }},
	"false":   {0, 0, func(context, []Value) Value { return boolean(false) }},
	"number":  {0, 1, func(c context, a []Value) Value { return numeric(argument(c, a).ToNumber()) }},
	"sum": {1, 1, func(_ context, a []Value) Value {
		total := 0.0
		for _, n := range a[0].Nodes {
			total += text(n.Text()).ToNumber()
		}
		return numeric(total)
	}},
	"floor":   {1, 1, func(_ context, a []Value) Value { return numeric(math.Floor(a[0].ToNumber())) }},
	"ceiling": {1, 1, func(_ context, a []Value) Value { return numeric(math.Ceil(a[0].ToNumber())) }},
	"round":   {1, 1, func(_ context, a []Value) Value { return numeric(roundNumber(a[0].ToNumber())) }},
}

func roundNumber(f float64) float64 { return math.Floor(f + 0.5) }
