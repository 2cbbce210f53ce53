package analyzer

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/internal/fault"
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
}

func newAggregation(places map[*plan.Column]ast.Pos) *aggregation {
	return &aggregation{same: newIdentity(), keyOf: map[int]int{}, aggOf: map[string]int{}, places: places}
}

// add returns the position of an aggregate; equal ones share it.
func (g *aggregation) add(a plan.Agg) int {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %t", a.Name, a.Distinct)
	for _, e := range a.Args {
		fmt.Fprintf(&b, " %d", g.same.of(e))
	}
	key := b.String()
	if i, ok := g.aggOf[key]; ok {
		return i
	}
	g.aggOf[key] = len(g.aggs)
	g.aggs = append(g.aggs, a)
	return len(g.aggs) - 1
}

// addKey adds a GROUP BY expression; one that is there already changes nothing.
func (g *aggregation) addKey(e plan.Expr, name string) {
	id := g.same.of(e)
	if _, ok := g.keyOf[id]; ok {
		return
	}
	g.keyOf[id] = len(g.keys)
	g.keys = append(g.keys, e)
	g.keyNames = append(g.keyNames, name)
}

// node returns the aggregation of input.
func (g *aggregation) node(input plan.Node) plan.Node {
	return &plan.Aggregate{Input: input, Phase: plan.Single, Keys: g.keys, KeyNames: g.keyNames, Aggs: g.aggs}
}

// rewrite returns e over the output of node: the keys, then the aggregates. A
// column that is neither is an error.
func (g *aggregation) rewrite(e plan.Expr) (plan.Expr, error) {
	if c, ok := e.(*plan.Column); ok && c.Index >= aggBase {
		return &plan.Column{Index: len(g.keys) + c.Index - aggBase, Name: c.Name, T: c.T}, nil
	}
	if i, ok := g.keyOf[g.same.of(e)]; ok {
		return &plan.Column{Index: i, Name: g.keyNames[i], T: e.Type()}, nil
	}
	if c, ok := e.(*plan.Column); ok {
		err := errorAt(g.places[c], fault.StateSyntax, "column %s is neither in GROUP BY nor inside an aggregate function", c.Name)
		return nil, err
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
