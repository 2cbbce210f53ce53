package analyzer

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// aggregation collects the aggregates of one SELECT and, once its keys are
// known, rewrites expressions over the input into expressions over the groups.
type aggregation struct {
	same     *identity
	keys     []plan.Expr
	keyNames []string
	keyOf    map[int]int // identity -> position in keys
	aggs     []plan.Agg
	aggOf    map[string]int // identity of an aggregate -> position in aggs
	places   map[*plan.Column]ast.Pos
	// sets are the positions in keys of each grouping set; nil: plain GROUP BY.
	sets [][]int
	bit  func(gid plan.Expr, place int) (plan.Expr, error) // of GROUPING__ID
}

func newAggregation(places map[*plan.Column]ast.Pos) *aggregation {
	return &aggregation{same: newIdentity(), keyOf: map[int]int{}, aggOf: map[string]int{}, places: places}
}

// add returns the position of an aggregate; equal ones share it.
func (g *aggregation) add(a plan.Agg) int {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %t %v", a.Name, a.Distinct, a.Within)
	for _, e := range a.Args {
		fmt.Fprintf(&b, " %d", g.same.of(e))
	}
	if a.Filter != nil {
		fmt.Fprintf(&b, " filter %d", g.same.of(a.Filter))
	}
	key := b.String()
	if i, ok := g.aggOf[key]; ok {
		return i
	}
	g.aggOf[key] = len(g.aggs)
	g.aggs = append(g.aggs, a)
	return len(g.aggs) - 1
}

// addKey adds a GROUP BY expression and returns its position; one that is there
// already changes nothing.
func (g *aggregation) addKey(e plan.Expr, name string) int {
	id := g.same.of(e)
	if i, ok := g.keyOf[id]; ok {
		return i
	}
	g.keyOf[id] = len(g.keys)
	g.keys = append(g.keys, e)
	g.keyNames = append(g.keyNames, name)
	return len(g.keys) - 1
}

// node returns the aggregation of input. Its output: the keys, with grouping sets
// the grouping id, then the aggregates.
func (g *aggregation) node(input plan.Node) plan.Node {
	if g.sets == nil {
		return &plan.Aggregate{Input: input, Phase: plan.Single, Keys: g.keys, KeyNames: g.keyNames, Aggs: g.aggs}
	}
	fields := input.Fields()
	x := &plan.Expand{Input: input}
	for _, f := range fields {
		x.Names = append(x.Names, f.Name)
	}
	x.Names = append(append(x.Names, g.keyNames...), "grouping__id")
	seen := map[int64]bool{}
	for _, set := range g.sets {
		row := columnsOf(input, len(fields))
		in := make([]bool, len(g.keys))
		for _, k := range set {
			in[k] = true
		}
		id := int64(0)
		for k, e := range g.keys {
			id <<= 1
			if !in[k] {
				id |= 1
				e = &plan.Literal{Value: schema.NullOf(e.Type())}
			}
			row = append(row, e)
		}
		if seen[id] { // a set that is there twice gives its groups once, as in Hive
			continue
		}
		seen[id] = true
		row = append(row, bigint(id))
		x.Projections = append(x.Projections, row)
	}
	out := &plan.Aggregate{Input: x, Phase: plan.Single, Aggs: g.aggs}
	for i := len(fields); i < len(x.Names); i++ {
		out.Keys = append(out.Keys, columnOf(x, i))
		out.KeyNames = append(out.KeyNames, x.Names[i])
	}
	return out
}

// width is how many columns stand before the aggregates.
func (g *aggregation) width() int {
	n := len(g.keys)
	if g.sets != nil {
		n++
	}
	return n
}

func bigint(n int64) plan.Expr {
	return &plan.Literal{Value: schema.Datum{Type: schema.BigIntType, I: n}}
}

// groupingCall is the name of the call that stands for grouping(..) until the keys
// are known; its arguments are bound over the input.
const groupingCall = "grouping"

// rewrite returns e over the output of node: the keys, then the aggregates. A
// column that is neither is an error.
func (g *aggregation) rewrite(e plan.Expr) (plan.Expr, error) {
	if c, ok := e.(*plan.Column); ok {
		switch {
		case c.Index >= aggBase:
			return &plan.Column{Index: g.width() + c.Index - aggBase, Name: c.Name, T: c.T}, nil
		case c.Index == groupID:
			if g.sets == nil {
				return bigint(0), nil
			}
			return &plan.Column{Index: len(g.keys), Name: c.Name, T: c.T}, nil
		case c.Index >= firstPlace:
			return c, nil
		}
	}
	if i, ok := g.keyOf[g.same.of(e)]; ok {
		return &plan.Column{Index: i, Name: g.keyNames[i], T: e.Type()}, nil
	}
	switch x := e.(type) {
	case *plan.Column:
		return nil, errorAt(g.places[x], fault.StateSyntax, "column %s is neither in GROUP BY nor inside an aggregate function", x.Name)
	case *plan.Call:
		if x.Name == groupingCall {
			return g.grouping(x)
		}
	}
	var failed error
	out := plan.MapChildren(e, func(x plan.Expr) plan.Expr {
		if failed != nil {
			return x
		}
		y, err := g.rewrite(x)
		if err != nil {
			failed = err
			return x
		}
		return y
	})
	return out, failed
}

// grouping computes grouping(a, b): a bit for each argument, the last one lowest,
// set where the row's group is not by it.
func (g *aggregation) grouping(x *plan.Call) (plan.Expr, error) {
	var out plan.Expr = bigint(0)
	if g.sets == nil {
		return out, nil
	}
	gid := &plan.Column{Index: len(g.keys), Name: "grouping__id", T: schema.BigIntType}
	for i, a := range x.Args {
		k, ok := g.keyOf[g.same.of(a)]
		if !ok {
			return nil, errorAt(ast.Pos{}, fault.StateSyntax, "grouping(%s): that is not in GROUP BY", a)
		}
		bit, err := g.bit(gid, len(g.keys)-1-k)
		if err != nil {
			return nil, err
		}
		if len(x.Args) == 1 {
			return bit, nil
		}
		weight := bigint(1 << (len(x.Args) - 1 - i))
		bit = &plan.Call{Name: "*", Args: []plan.Expr{bit, weight}, T: schema.BigIntType}
		out = &plan.Call{Name: "+", Args: []plan.Expr{out, bit}, T: schema.BigIntType}
	}
	return out, nil
}

// identity numbers expressions so that equal ones have equal numbers.
type identity struct {
	ids  map[string]int
	seen map[plan.Expr]int // by pointer, so that asking again costs nothing
}

func newIdentity() *identity { return &identity{map[string]int{}, map[plan.Expr]int{}} }

// of returns e's number.
func (m *identity) of(e plan.Expr) int {
	if id, ok := m.seen[e]; ok {
		return id
	}
	var b strings.Builder
	switch e := e.(type) {
	case *plan.Column:
		fmt.Fprintf(&b, "column %d", e.Index)
	case *plan.Literal:
		fmt.Fprintf(&b, "literal %s %t %q", e.Value.Type, e.Value.Null, e.Value.Text())
	case *plan.Call:
		fmt.Fprintf(&b, "call %s", e.Name)
	case *plan.Cast:
		fmt.Fprintf(&b, "cast %s", e.T)
	case *plan.Member:
		fmt.Fprintf(&b, "member %d", e.Index)
	case *plan.Case:
		b.WriteString("case")
	}
	plan.EachChild(e, func(x plan.Expr) { fmt.Fprintf(&b, " %d", m.of(x)) })
	key := b.String()
	id, ok := m.ids[key]
	if !ok {
		id = len(m.ids)
		m.ids[key] = id
	}
	m.seen[e] = id
	return id
}
