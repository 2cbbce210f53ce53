package optimizer

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/sql/plan"
)

// shareExchanges makes equal sub-plans below exchanges one: a stage that is computed
// once and read by several others. What is used twice in a query, as tables of WITH
// are, meets here again if all its uses want the same of it.
func shareExchanges(n plan.Node, o *Options) (plan.Node, error) {
	s := &sharing{o: o, ids: map[string]int{}, of: map[plan.Node]int{}, first: map[int]plan.Node{}}
	return s.rewrite(n), nil
}

type sharing struct {
	o     *Options
	ids   map[string]int
	of    map[plan.Node]int
	first map[int]plan.Node // exchanges by the id of what they are
}

// rewrite replaces exchanges that do the same as an earlier one by that one.
func (s *sharing) rewrite(n plan.Node) plan.Node {
	return plan.RewriteNode(n, func(n plan.Node) plan.Node {
		if _, ok := n.(*plan.Exchange); !ok || !s.repeatable(n) {
			return n
		}
		id := s.id(n)
		if same := s.first[id]; same != nil {
			return same
		}
		s.first[id] = n
		return n
	})
}

// repeatable reports whether computing n twice gives the same rows.
func (s *sharing) repeatable(n plan.Node) bool {
	ok := true
	plan.EachExpr(n, func(e plan.Expr) { ok = ok && !s.o.volatile(e) })
	for _, c := range n.Children() {
		ok = ok && s.repeatable(c)
	}
	return ok
}

// id numbers nodes so that nodes that do the same have the same number.
func (s *sharing) id(n plan.Node) int {
	if id, ok := s.of[n]; ok {
		return id
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%T", n)
	switch n := n.(type) {
	case *plan.Scan:
		if src := source(n); src != nil {
			fmt.Fprintf(&b, " %d %v %s %d %q", src.Table.ID, src.At, src.Describe(), src.Limit, fmt.Sprint(src.Ranges))
			for _, c := range src.Columns {
				fmt.Fprintf(&b, " %d", c.ID)
			}
		} else {
			fmt.Fprintf(&b, " %p", n)
		}
	case *plan.Values:
		fmt.Fprintf(&b, " %d", len(n.Rows))
		for _, f := range n.Out {
			fmt.Fprintf(&b, " %s", f.Type)
		}
	case *plan.Aggregate:
		fmt.Fprintf(&b, " %d %d", n.Phase, len(n.Keys))
		for _, a := range n.Aggs {
			fmt.Fprintf(&b, " %s/%d %t %v %s %v %t", a.Name, len(a.Args), a.Distinct, a.Within, a.T, a.Bound, a.Filter != nil)
		}
	case *plan.Join:
		fmt.Fprintf(&b, " %d %t %d %t", n.Kind, n.NullAware, len(n.LeftKeys), n.Residual != nil)
	case *plan.Expand:
		fmt.Fprintf(&b, " %d", len(n.Projections))
	case *plan.Generate:
		fmt.Fprintf(&b, " %s %t %v", n.Name, n.Outer, n.Out)
	case *plan.Window:
		fmt.Fprintf(&b, " %d", len(n.PartitionBy))
		for _, k := range n.OrderBy {
			fmt.Fprintf(&b, " %t%t", k.Desc, k.NullsLast)
		}
		for _, c := range n.Calls {
			fmt.Fprintf(&b, " %s/%d %t %t %v %s", c.Name, len(c.Args), c.Distinct, c.IgnoreNulls, c.Bound, c.T)
			fmt.Fprintf(&b, " %t %d %d", c.Frame.Range, c.Frame.Start.Kind, c.Frame.End.Kind)
			for _, n := range [...]*plan.Literal{c.Frame.Start.N, c.Frame.End.N} {
				if n != nil {
					fmt.Fprintf(&b, " %s %s", n.Value.Type, n.Value.Text())
				}
			}
		}
	case *plan.Sort:
		fmt.Fprintf(&b, " %d %d", n.Limit, n.Offset)
		for _, k := range n.Keys {
			fmt.Fprintf(&b, " %t%t", k.Desc, k.NullsLast)
		}
	case *plan.Limit:
		fmt.Fprintf(&b, " %d %d", n.Count, n.Offset)
	case *plan.Exchange:
		fmt.Fprintf(&b, " %d", n.How)
		if n.How == plan.ByRegion {
			fmt.Fprintf(&b, " %p", n)
		}
	}
	plan.EachExpr(n, func(e plan.Expr) { b.WriteByte(';'); writeKey(&b, e) })
	for _, c := range n.Children() {
		fmt.Fprintf(&b, " (%d)", s.id(c))
	}
	id, ok := s.ids[b.String()]
	if !ok {
		id = len(s.ids)
		s.ids[b.String()] = id
	}
	s.of[n] = id
	return id
}

// writeKey writes what e computes.
func writeKey(b *strings.Builder, e plan.Expr) {
	switch x := e.(type) {
	case *plan.Column:
		fmt.Fprintf(b, "#%d", x.Index)
	case *plan.Literal:
		fmt.Fprintf(b, "%s:%t:%q", x.Value.Type, x.Value.Null, x.Value.Text())
	case *plan.Call:
		b.WriteString(x.Name)
	case *plan.Cast:
		fmt.Fprintf(b, "cast %s", x.T)
	case *plan.Member:
		fmt.Fprintf(b, "member %d", x.Index)
	case *plan.Case:
		b.WriteString("case")
	}
	b.WriteByte('(')
	plan.EachChild(e, func(x plan.Expr) { writeKey(b, x); b.WriteByte(',') })
	b.WriteByte(')')
}
