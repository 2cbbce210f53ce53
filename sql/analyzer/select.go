package analyzer

import (
	"context"
	"fmt"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// item is a column of a select list, bound over the input of the SELECT.
type item struct {
	x    ast.Expr // nil: from a star
	e    plan.Expr
	name string
}

// selectBody analyses SELECT together with the ORDER BY behind it, which may
// name what the select list does not have.
func (a *Analyzer) selectBody(ctx context.Context, sel *ast.Select, order []ast.OrderItem, e *env) (plan.Node, *scope, error) {
	switch {
	case sel.GroupingSet != "":
		return nil, nil, unsupported(sel.Pos, "GROUP BY with ROLLUP, CUBE or GROUPING SETS")
	case sel.Qualify != nil:
		return nil, nil, unsupported(sel.Qualify.Position(), "QUALIFY")
	case sel.Windows != nil:
		return nil, nil, unsupported(sel.Windows[0].Pos, "WINDOW")
	}
	n, in, err := a.from(ctx, sel.From, e)
	if err != nil {
		return nil, nil, err
	}
	if sel.Where != nil {
		b := &binder{a: a, scope: in, what: "WHERE"}
		cond, err := b.condition(sel.Where, "WHERE")
		if err != nil {
			return nil, nil, err
		}
		n = &plan.Filter{Input: n, Cond: cond}
	}

	places := map[*plan.Column]ast.Pos{}
	aggs := newAggregation(places)
	items, err := a.items(sel, in, aggs, places)
	if err != nil {
		return nil, nil, err
	}
	alias := func(name string) (plan.Expr, bool) {
		for _, it := range items {
			if strings.EqualFold(it.name, name) {
				return it.e, true
			}
		}
		return nil, false
	}
	if err := a.groupKeys(sel, in, items, aggs, places); err != nil {
		return nil, nil, err
	}
	var having plan.Expr
	if sel.Having != nil {
		b := &binder{a: a, scope: in, what: "HAVING", aggs: aggs, alias: alias, places: places}
		if having, err = b.condition(sel.Having, "HAVING"); err != nil {
			return nil, nil, err
		}
	}
	keys, err := a.orderKeys(order, in, items, aggs, alias, places)
	if err != nil {
		return nil, nil, err
	}

	if len(aggs.keys) > 0 || len(aggs.aggs) > 0 || sel.Having != nil {
		for i := range items {
			if items[i].e, err = aggs.rewrite(items[i].e); err != nil {
				return nil, nil, err
			}
		}
		for i := range keys {
			if keys[i].Expr, err = aggs.rewrite(keys[i].Expr); err != nil {
				return nil, nil, err
			}
		}
		n = aggs.node(n)
		if having != nil {
			if having, err = aggs.rewrite(having); err != nil {
				return nil, nil, err
			}
			n = &plan.Filter{Input: n, Cond: having}
		}
	}
	return a.project(n, sel, items, keys, order)
}

// items binds the select list, stars expanded.
func (a *Analyzer) items(sel *ast.Select, in *scope, aggs *aggregation, places map[*plan.Column]ast.Pos) ([]item, error) {
	b := &binder{a: a, scope: in, what: "a SELECT without FROM", aggs: aggs, places: places}
	if sel.From != nil {
		b.what = "SELECT"
	}
	var out []item
	for _, it := range sel.Items {
		if star, ok := it.X.(*ast.Star); ok {
			var err error
			if out, err = b.star(star, out); err != nil {
				return nil, err
			}
			continue
		}
		if it.Aliases != nil {
			return nil, unsupported(it.Pos, "AS (a, b): table-generating functions")
		}
		e, err := b.bind(it.X)
		if err != nil {
			return nil, err
		}
		name := strings.ToLower(it.Alias)
		if name == "" {
			switch x := it.X.(type) {
			case *ast.Column:
				name = strings.ToLower(x.Name)
			case *ast.Field:
				name = strings.ToLower(x.Name)
			default:
				name = fmt.Sprintf("_c%d", len(out))
			}
		}
		out = append(out, item{x: it.X, e: e, name: name})
	}
	return out, nil
}

// star appends the columns that * or t.* stands for.
func (b *binder) star(star *ast.Star, out []item) ([]item, error) {
	var database, table string
	switch q := star.Qualifier; len(q) {
	case 1:
		table = q[0].Name
	case 2:
		database, table = q[0].Name, q[1].Name
	}
	if table != "" && !b.scope.hasTable(database, table) {
		return nil, unknownTable(star.Pos, table, b.scope.tables())
	}
	if len(b.scope.cols) == 0 {
		return nil, errorAt(star.Pos, fault.StateSyntax, "SELECT * needs a FROM")
	}
	for i := range b.scope.cols {
		if table == "" || b.scope.cols[i].in(database, table) {
			c := b.placed(b.scope.column(i), star.Pos)
			out = append(out, item{e: c, name: c.Name})
		}
	}
	return out, nil
}

// groupKeys binds GROUP BY; SELECT DISTINCT without aggregates needs no keys here.
func (a *Analyzer) groupKeys(sel *ast.Select, in *scope, items []item, aggs *aggregation, places map[*plan.Column]ast.Pos) error {
	for i, x := range sel.GroupBy {
		if l, ok := x.(*ast.Literal); ok && a.o.GroupByPosition && l.Value.Type.IsInteger() {
			if l.Value.I < 1 || l.Value.I > int64(len(items)) {
				return errorAt(x.Position(), fault.StateSyntax, "GROUP BY %d: the select list has %s", l.Value.I, columnCount(len(items)))
			}
			it := items[l.Value.I-1]
			if hasAggregate(it.e) {
				return errorAt(x.Position(), fault.StateSyntax, "GROUP BY %d: that column contains an aggregate function", l.Value.I)
			}
			aggs.addKey(it.e, it.name)
			continue
		}
		b := &binder{a: a, scope: in, what: "GROUP BY", places: places}
		e, err := b.bind(x)
		if err != nil {
			if c, ok := x.(*ast.Column); ok {
				return hintAlias(err, c.Name, sel)
			}
			return err
		}
		name := fmt.Sprintf("_key%d", i)
		if c, ok := e.(*plan.Column); ok {
			name = c.Name
		}
		aggs.addKey(e, name)
	}
	return nil
}

// hintAlias adds that GROUP BY, in Hive, does not see the aliases of SELECT.
func hintAlias(err error, name string, sel *ast.Select) error {
	for _, it := range sel.Items {
		if e, ok := err.(*fault.Error); ok && strings.EqualFold(it.Alias, name) {
			e.Hint = "GROUP BY can't use the alias " + it.Alias + ": repeat its expression"
		}
	}
	return err
}

func hasAggregate(e plan.Expr) bool {
	found := false
	plan.Walk(e, func(x plan.Expr) {
		c, ok := x.(*plan.Column)
		found = found || ok && c.Index >= aggBase
	})
	return found
}

// orderKeys binds ORDER BY over the input of the SELECT: a position or alias
// of the select list means that column's expression.
func (a *Analyzer) orderKeys(order []ast.OrderItem, in *scope, items []item, aggs *aggregation, alias func(string) (plan.Expr, bool), places map[*plan.Column]ast.Pos) ([]plan.SortKey, error) {
	out := make([]plan.SortKey, len(order))
	for i, o := range order {
		out[i] = a.sortKey(o)
		if pos, ok := a.position(o.X); ok {
			if pos < 1 || pos > int64(len(items)) {
				return nil, errorAt(o.Pos, fault.StateSyntax, "ORDER BY %d: the select list has %s", pos, columnCount(len(items)))
			}
			out[i].Expr = items[pos-1].e
			continue
		}
		b := &binder{a: a, scope: in, what: "ORDER BY", aggs: aggs, alias: alias, before: true, places: places}
		e, err := b.bind(o.X)
		if err != nil {
			return nil, err
		}
		out[i].Expr = e
	}
	return out, nil
}

// position returns the number of ORDER BY 1.
func (a *Analyzer) position(x ast.Expr) (int64, bool) {
	l, ok := x.(*ast.Literal)
	if !ok || a.o.OrderByConstant || l.Value.Null || !l.Value.Type.IsInteger() {
		return 0, false
	}
	return l.Value.I, true
}

// sortKey returns the directions of o: by default NULLs are last going up and
// first going down (hive.default.nulls.last).
func (a *Analyzer) sortKey(o ast.OrderItem) plan.SortKey {
	nullsLast := !o.Desc != a.o.NullsFirst
	if o.NullsFirst != nil {
		nullsLast = !*o.NullsFirst
	}
	return plan.SortKey{Desc: o.Desc, NullsLast: nullsLast}
}

// project adds the select list, DISTINCT and ORDER BY on top of n. Sort keys
// that the list does not have are computed beside it and dropped after.
func (a *Analyzer) project(n plan.Node, sel *ast.Select, items []item, keys []plan.SortKey, order []ast.OrderItem) (plan.Node, *scope, error) {
	s := &scope{}
	same := newIdentity()
	at := map[int]int{} // identity -> column of the projection
	p := &plan.Project{Input: n}
	for i, it := range items {
		s.add("", "", it.name, it.e.Type())
		p.Exprs = append(p.Exprs, it.e)
		p.Names = append(p.Names, it.name)
		if id := same.of(it.e); at[id] == 0 {
			at[id] = i + 1
		}
	}
	hidden := 0
	for i, k := range keys {
		id := same.of(k.Expr)
		if at[id] == 0 {
			if sel.Distinct {
				return nil, nil, errorAt(order[i].Pos, fault.StateSyntax, "ORDER BY of a SELECT DISTINCT can only use columns of its select list")
			}
			p.Exprs = append(p.Exprs, k.Expr)
			p.Names = append(p.Names, fmt.Sprintf("_order%d", hidden))
			hidden++
			at[id] = len(p.Exprs)
		}
		keys[i].Expr = &plan.Column{Index: at[id] - 1, Name: p.Names[at[id]-1], T: k.Expr.Type()}
	}
	n = p
	if sel.Distinct {
		n = distinct(n)
	}
	if len(keys) > 0 {
		n = &plan.Sort{Input: n, Keys: keys, Limit: -1}
	}
	if hidden > 0 {
		n = firstColumns(n, len(items))
	}
	return n, s, nil
}

// distinct groups by all columns.
func distinct(n plan.Node) plan.Node {
	g := &plan.Aggregate{Input: n, Phase: plan.Single}
	for i, f := range n.Fields() {
		g.Keys = append(g.Keys, &plan.Column{Index: i, Name: f.Name, T: f.Type})
		g.KeyNames = append(g.KeyNames, f.Name)
	}
	return g
}

// firstColumns keeps the first n columns.
func firstColumns(input plan.Node, n int) plan.Node {
	p := &plan.Project{Input: input}
	for i, f := range input.Fields()[:n] {
		p.Exprs = append(p.Exprs, &plan.Column{Index: i, Name: f.Name, T: f.Type})
		p.Names = append(p.Names, f.Name)
	}
	return p
}

// orderOutput sorts by the output columns of a query that is no SELECT.
func (a *Analyzer) orderOutput(n plan.Node, s *scope, order []ast.OrderItem) (plan.Node, error) {
	b := &binder{a: a, scope: s, what: "ORDER BY"}
	out := &plan.Sort{Input: n, Limit: -1}
	for _, o := range order {
		k := a.sortKey(o)
		if pos, ok := a.position(o.X); ok {
			if pos < 1 || pos > int64(len(s.cols)) {
				return nil, errorAt(o.Pos, fault.StateSyntax, "ORDER BY %d: the query has %s", pos, columnCount(len(s.cols)))
			}
			k.Expr = s.column(int(pos - 1))
		} else {
			e, err := b.bind(o.X)
			if err != nil {
				return nil, err
			}
			k.Expr = e
		}
		out.Keys = append(out.Keys, k)
	}
	return out, nil
}

// columnCount is "1 column", "2 columns".
func columnCount(n int) string {
	if n == 1 {
		return "1 column"
	}
	return fmt.Sprintf("%d columns", n)
}

// Bool reads a session setting.
func Bool(settings map[string]string, key string, otherwise bool) bool {
	switch strings.ToLower(settings[key]) {
	case "true":
		return true
	case "false":
		return false
	}
	return otherwise
}
