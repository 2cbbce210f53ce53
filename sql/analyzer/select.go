package analyzer

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// item is a column of a select list, bound over the input of the SELECT.
type item struct {
	x    ast.Expr // nil: from a star
	e    plan.Expr
	name string
}

// selection is one SELECT while it is analysed.
type selection struct {
	a     *Analyzer
	ctx   context.Context
	env   *env
	outer *outerQuery
	sel   *ast.Select

	in     *scope
	items  []item
	aggs   *aggregation
	wins   *windows
	subs   *subqueries
	gens   []*plan.Generate
	places map[*plan.Column]ast.Pos
}

// binder makes a binder of a clause. Sub-queries in it are joined at st; aggregates and
// window functions are allowed where the arguments say so.
func (q *selection) binder(what string, st stage, aggregates, windowed bool) *binder {
	b := &binder{a: q.a, ctx: q.ctx, env: q.env, outer: q.outer, scope: q.in, what: what, subs: q.subs, stage: st, places: q.places}
	if aggregates {
		b.aggs = q.aggs
		b.grouped = q.groupColumn
	}
	if windowed {
		b.wins = q.wins
	}
	return b
}

// groupColumn returns the one of the columns that GROUP BY names with its table.
func (q *selection) groupColumn(columns []int) (*plan.Column, bool) {
	found := -1
	for _, x := range q.sel.GroupBy {
		f, ok := x.(*ast.Field)
		if !ok {
			continue
		}
		table, ok := f.Base.(*ast.Column)
		if !ok {
			continue
		}
		for _, i := range q.in.find("", table.Name, f.Name) {
			if slices.Contains(columns, i) {
				if found >= 0 && found != i {
					return nil, false
				}
				found = i
			}
		}
	}
	if found < 0 {
		return nil, false
	}
	return q.in.column(found), true
}

// alias finds a column of the select list by its name.
func (q *selection) alias(name string) (plan.Expr, bool) {
	for _, it := range q.items {
		if strings.EqualFold(it.name, name) {
			return it.e, true
		}
	}
	return nil, false
}

// selectBody analyses SELECT together with the ORDER BY behind it, which may
// name what the select list does not have.
func (a *Analyzer) selectBody(ctx context.Context, sel *ast.Select, order []ast.OrderItem, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	q := &selection{a: a, ctx: ctx, env: e, outer: outer, sel: sel, places: map[*plan.Column]ast.Pos{}, subs: &subqueries{}}
	q.aggs = newAggregation(q.places)
	n, in, err := a.from(ctx, sel.From, e, outer)
	if err != nil {
		return nil, nil, err
	}
	q.in = in
	if q.wins, err = newWindows(sel.Windows); err != nil {
		return nil, nil, err
	}
	if sel.Where != nil {
		b := q.binder("WHERE", beforeGroups, false, false)
		cond, err := b.condition(sel.Where, "WHERE")
		if err != nil {
			return nil, nil, err
		}
		if n, err = q.subs.filter(b, n, cond, beforeGroups, asIs); err != nil {
			return nil, nil, At(sel.Where.Position(), err)
		}
	}
	if err := q.bindItems(); err != nil {
		return nil, nil, err
	}
	if err := q.groupBy(); err != nil {
		return nil, nil, err
	}
	var having, qualify plan.Expr
	if sel.Having != nil {
		b := q.binder("HAVING", withHaving, true, false)
		b.alias = q.alias
		if having, err = b.condition(sel.Having, "HAVING"); err != nil {
			return nil, nil, err
		}
	}
	if sel.Qualify != nil {
		b := q.binder("QUALIFY", afterGroups, true, true)
		b.alias = q.alias
		if qualify, err = b.condition(sel.Qualify, "QUALIFY"); err != nil {
			return nil, nil, err
		}
	}
	keys, err := q.orderKeys(order)
	if err != nil {
		return nil, nil, err
	}
	return q.assemble(n, having, qualify, keys, order)
}

// assemble puts the parts of a SELECT on top of its filtered input: groups, HAVING,
// windows, QUALIFY, table-generating functions, the select list, DISTINCT and ORDER BY.
func (q *selection) assemble(n plan.Node, having, qualify plan.Expr, keys []plan.SortKey, order []ast.OrderItem) (plan.Node, *scope, error) {
	b := q.binder("SELECT", afterGroups, true, true)
	over := asIs
	n, err := q.subs.attach(b, n, beforeGroups, asIs)
	if err != nil {
		return nil, nil, err
	}
	if q.grouped() {
		over = q.aggs.rewrite
		q.resolveAggregates()
		n = q.aggs.node(n)
		if having != nil {
			if n, err = q.subs.filter(b, n, having, withHaving, over); err != nil {
				return nil, nil, At(q.sel.Having.Position(), err)
			}
		}
	} else if having != nil { // without groups or aggregates it is a filter of rows
		if n, err = q.subs.filter(b, n, having, withHaving, over); err != nil {
			return nil, nil, At(q.sel.Having.Position(), err)
		}
	}
	if n, err = q.subs.attach(b, n, afterGroups, over); err != nil {
		return nil, nil, At(q.sel.Pos, err)
	}
	final := func(e plan.Expr) (plan.Expr, error) {
		e, err := over(e)
		if err != nil {
			return nil, err
		}
		return q.subs.resolve(e), nil
	}
	n, calls, err := q.wins.nodes(n, final, q.alias)
	if err != nil {
		return nil, nil, err
	}
	all := func(e plan.Expr) (plan.Expr, error) {
		e, err := final(e)
		if err != nil {
			return nil, err
		}
		return mapColumns(e, func(c *plan.Column) plan.Expr {
			if c.Index >= winBase && c.Index < genBase {
				return calls[c.Index-winBase]
			}
			return c
		}), nil
	}
	if qualify != nil {
		cond, err := all(qualify)
		if err != nil {
			return nil, nil, err
		}
		n = &plan.Filter{Input: n, Cond: cond}
	}
	var generated []plan.Expr
	for _, g := range q.gens {
		args := make([]plan.Expr, len(g.Args))
		for i, e := range g.Args {
			if args[i], err = all(e); err != nil {
				return nil, nil, err
			}
		}
		width := len(n.Fields())
		n = &plan.Generate{Input: n, Name: g.Name, Args: args, Bound: g.Bound, Out: g.Out}
		for i := range g.Out {
			generated = append(generated, columnOf(n, width+i))
		}
	}
	last := func(e plan.Expr) (plan.Expr, error) {
		e, err := all(e)
		if err != nil || generated == nil {
			return e, err
		}
		return mapColumns(e, func(c *plan.Column) plan.Expr {
			if c.Index >= genBase && c.Index < groupID {
				return generated[c.Index-genBase]
			}
			return c
		}), nil
	}
	for i := range q.items {
		if q.items[i].e, err = last(q.items[i].e); err != nil {
			return nil, nil, err
		}
	}
	for i := range keys {
		if keys[i].Expr, err = last(keys[i].Expr); err != nil {
			return nil, nil, err
		}
	}
	return q.a.project(n, q.sel, q.items, keys, order)
}

// grouped reports whether the SELECT has groups.
func (q *selection) grouped() bool {
	return len(q.aggs.keys) > 0 || len(q.aggs.aggs) > 0 || q.aggs.sets != nil || q.sel.GroupBy != nil || q.sel.Sets != nil
}

// resolveAggregates replaces sub-queries inside aggregates and keys, which are joined
// below them.
func (q *selection) resolveAggregates() {
	if len(q.subs.list) == 0 {
		return
	}
	for i, e := range q.aggs.keys {
		q.aggs.keys[i] = q.subs.resolve(e)
	}
	for i := range q.aggs.aggs {
		g := &q.aggs.aggs[i]
		for k, e := range g.Args {
			g.Args[k] = q.subs.resolve(e)
		}
		if g.Filter != nil {
			g.Filter = q.subs.resolve(g.Filter)
		}
	}
}

// bindItems binds the select list, stars and patterns expanded.
func (q *selection) bindItems() error {
	what := "a SELECT without FROM"
	if q.sel.From != nil {
		what = "SELECT"
	}
	b := q.binder(what, afterGroups, true, true)
	b.listed = func(name string) (plan.Expr, bool) {
		e, ok := q.alias(name)
		return e, ok && !hasWindow(e)
	}
	for _, it := range q.sel.Items {
		var err error
		switch x := it.X.(type) {
		case *ast.Star:
			q.items, err = b.star(x, q.items)
		case *ast.Call:
			if name := strings.ToLower(x.Name.Name); x.Over == nil && q.a.o.Functions.IsTable(name) && !q.a.o.Functions.Has(name) {
				err = q.generator(b, it, x)
				break
			}
			err = q.item(b, it)
		default:
			if pattern, table, ok := q.a.columnPattern(it.X); ok && it.Alias == "" {
				q.items, err = b.matching(it.Pos, pattern, table, q.items)
				break
			}
			err = q.item(b, it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// item binds one expression of the select list.
func (q *selection) item(b *binder, it ast.SelectItem) error {
	e, err := b.bind(it.X)
	if err != nil {
		return err
	}
	if it.Aliases != nil {
		if len(it.Aliases) != 1 {
			return errorAt(it.Pos, fault.StateSyntax, "AS (a, b) belongs behind a table-generating function")
		}
		it.Alias = it.Aliases[0].Name
	}
	name := strings.ToLower(it.Alias)
	if name == "" {
		switch x := it.X.(type) {
		case *ast.Column:
			name = strings.ToLower(x.Name)
		case *ast.Field:
			name = strings.ToLower(x.Name)
		default:
			name = fmt.Sprintf("_c%d", len(q.items))
		}
	}
	q.items = append(q.items, item{x: it.X, e: e, name: name})
	return nil
}

// generator binds a table-generating function in the select list.
func (q *selection) generator(b *binder, it ast.SelectItem, x *ast.Call) error {
	names := it.Aliases
	if names == nil && it.Alias != "" {
		names = []ast.Ident{{Pos: it.Pos, Name: it.Alias}}
	}
	g, err := b.generate(x, names)
	if err != nil {
		return err
	}
	at := 0
	for _, other := range q.gens {
		at += len(other.Out)
	}
	q.gens = append(q.gens, g)
	for i, f := range g.Out {
		q.items = append(q.items, item{x: it.X, e: &plan.Column{Index: genBase + at + i, Name: f.Name, T: f.Type}, name: f.Name})
	}
	return nil
}

// columnPattern returns the regular expression of a quoted name in a select list, and
// the table in front of it.
func (a *Analyzer) columnPattern(x ast.Expr) (pattern, table string, ok bool) {
	if !a.o.RegexColumns {
		return "", "", false
	}
	switch x := x.(type) {
	case *ast.Column:
		return x.Name, "", x.Quoted && strings.ContainsAny(x.Name, "*+?.|()[]{}^$\\")
	case *ast.Field:
		if base, isColumn := x.Base.(*ast.Column); isColumn {
			return x.Name, base.Name, strings.ContainsAny(x.Name, "*+?.|()[]{}^$\\")
		}
	}
	return "", "", false
}

// matching appends the columns whose whole name matches a regular expression. The form
// (a|b)?+.+, all columns but a and b, is Hive's idiom: a possessive ?+, which Go's
// expressions don't have.
func (b *binder) matching(pos ast.Pos, pattern, table string, out []item) ([]item, error) {
	if table != "" && !b.scope.hasTable("", table) {
		return nil, unknownTable(pos, table, b.scope.tables())
	}
	but := ""
	if except, ok := strings.CutSuffix(pattern, ")?+.+"); ok && strings.HasPrefix(except, "(") {
		but, pattern = "(?i)^(?:"+except[1:]+")$", ".+"
	}
	re, err := regexp.Compile("(?i)^(?:" + pattern + ")$")
	var not *regexp.Regexp
	if err == nil && but != "" {
		not, err = regexp.Compile(but)
	}
	if err != nil {
		return nil, errorAt(pos, fault.StateSyntax, "`%s` is not a regular expression: %v", pattern, err)
	}
	found := false
	for i := range b.scope.cols {
		c := &b.scope.cols[i]
		if table == "" && c.merged || table != "" && !c.in("", table) || !re.MatchString(c.name) || not != nil && not.MatchString(c.name) {
			continue
		}
		found = true
		e := b.placed(b.scope.column(i), pos)
		out = append(out, item{e: e, name: e.Name})
	}
	if !found {
		return nil, errorAt(pos, fault.StateUnknownCol, "no column matches `%s`", pattern)
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
		if table == "" && !b.scope.cols[i].merged || table != "" && b.scope.cols[i].in(database, table) {
			c := b.placed(b.scope.column(i), star.Pos)
			out = append(out, item{e: c, name: c.Name})
		}
	}
	return out, nil
}

// groupBy binds GROUP BY; SELECT DISTINCT without aggregates needs no keys here.
func (q *selection) groupBy() error {
	at := map[ast.Expr]int{}
	for i, x := range q.sel.GroupBy {
		k, err := q.groupKey(x, i)
		if err != nil {
			return err
		}
		at[x] = k
	}
	key := func(x ast.Expr) (int, error) {
		if k, ok := at[x]; ok {
			return k, nil
		}
		before := len(q.aggs.keys)
		k, err := q.groupKey(x, before)
		if err == nil && len(q.aggs.keys) > before && q.sel.GroupBy != nil {
			return 0, errorAt(x.Position(), fault.StateSyntax, "GROUPING SETS: this is not in GROUP BY")
		}
		return k, err
	}
	n := len(q.aggs.keys)
	switch q.sel.GroupingSet {
	case "rollup":
		for k := n; k >= 0; k-- {
			q.aggs.sets = append(q.aggs.sets, sequence(k))
		}
	case "cube":
		if n > 12 {
			return errorAt(q.sel.GroupBy[0].Position(), fault.StateSyntax, "CUBE of more than 12 expressions")
		}
		for mask := 1<<n - 1; mask >= 0; mask-- {
			set := []int{}
			for k := range n {
				if mask&(1<<(n-1-k)) != 0 {
					set = append(set, k)
				}
			}
			q.aggs.sets = append(q.aggs.sets, set)
		}
	case "sets":
		for _, xs := range q.sel.Sets {
			set := []int{}
			for _, x := range xs {
				k, err := key(x)
				if err != nil {
					return err
				}
				set = append(set, k)
			}
			q.aggs.sets = append(q.aggs.sets, set)
		}
	}
	if q.aggs.sets == nil {
		return nil
	}
	b := q.binder("GROUPING", beforeGroups, false, false)
	q.aggs.bit = func(gid plan.Expr, place int) (plan.Expr, error) {
		moved, err := b.function(q.sel.Pos, "shiftright", gid, &plan.Literal{Value: schema.Datum{Type: schema.IntType, I: int64(place)}})
		if err != nil {
			return nil, err
		}
		bit, err := b.function(q.sel.Pos, "&", moved, bigint(1))
		if err != nil {
			return nil, err
		}
		return castTo(bit, schema.BigIntType), nil
	}
	return nil
}

func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// groupKey binds an expression of GROUP BY and returns its position among the keys.
func (q *selection) groupKey(x ast.Expr, i int) (int, error) {
	if l, ok := x.(*ast.Literal); ok && q.a.o.GroupByPosition && l.Value.Type.IsInteger() && !l.Value.Null {
		if l.Value.I < 1 || l.Value.I > int64(len(q.items)) {
			return 0, errorAt(x.Position(), fault.StateSyntax, "GROUP BY %d: the select list has %s", l.Value.I, columnCount(len(q.items)))
		}
		it := q.items[l.Value.I-1]
		if hasAggregate(it.e) {
			return 0, errorAt(x.Position(), fault.StateSyntax, "GROUP BY %d: that column contains an aggregate or window function", l.Value.I)
		}
		return q.aggs.addKey(it.e, it.name), nil
	}
	b := q.binder("GROUP BY", beforeGroups, false, false)
	e, err := b.bind(x)
	if err != nil {
		c, ok := x.(*ast.Column)
		if !ok {
			return 0, err
		}
		// Where no column has the name, the select list's alias is meant.
		it, found := q.alias(c.Name)
		if !found || fault.StateOf(err) != fault.StateUnknownCol {
			return 0, err
		}
		if hasAggregate(it) {
			return 0, errorAt(c.Pos, fault.StateSyntax, "GROUP BY %s: that column contains an aggregate or window function", c.Name)
		}
		e = it
	}
	name := fmt.Sprintf("_key%d", i)
	if c, ok := e.(*plan.Column); ok {
		name = c.Name
	}
	return q.aggs.addKey(e, name), nil
}

func hasAggregate(e plan.Expr) bool {
	found := false
	plan.Walk(e, func(x plan.Expr) {
		c, ok := x.(*plan.Column)
		found = found || ok && c.Index >= winBase && c.Index != groupID
	})
	return found
}

// orderKeys binds ORDER BY over the input of the SELECT: a position or alias
// of the select list means that column's expression.
func (q *selection) orderKeys(order []ast.OrderItem) ([]plan.SortKey, error) {
	out := make([]plan.SortKey, len(order))
	for i, o := range order {
		out[i] = q.a.sortKey(o)
		if pos, ok := q.a.position(o.X); ok {
			if pos < 1 || pos > int64(len(q.items)) {
				return nil, errorAt(o.Pos, fault.StateSyntax, "ORDER BY %d: the select list has %s", pos, columnCount(len(q.items)))
			}
			out[i].Expr = q.items[pos-1].e
			continue
		}
		b := q.binder("ORDER BY", afterGroups, true, true)
		b.alias, b.before = q.alias, true
		e, err := b.bind(o.X)
		if err != nil {
			// (SELECT t.a AS b ..) ORDER BY t.b is not SQL, but Hive takes it: the table is gone by then
			if f, ok := o.X.(*ast.Field); ok {
				if alias, found := q.alias(f.Name); found && q.grouped() {
					out[i].Expr = alias
					continue
				}
			}
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
	if sel.Distinct {
		for _, k := range keys {
			if at[same.of(k.Expr)] == 0 {
				return a.orderDistinct(p, s, keys, order, same, at)
			}
		}
	}
	for i, k := range keys {
		id := same.of(k.Expr)
		if at[id] == 0 {
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

// orderDistinct sorts a SELECT DISTINCT, whose list is p's, by expressions over the
// columns of that list; at has the list's expressions by identity, from 1.
func (a *Analyzer) orderDistinct(p *plan.Project, s *scope, keys []plan.SortKey, order []ast.OrderItem, same *identity, at map[int]int) (plan.Node, *scope, error) {
	n := distinct(p)
	var over func(e plan.Expr) (plan.Expr, bool)
	over = func(e plan.Expr) (plan.Expr, bool) {
		if k := at[same.of(e)]; k > 0 {
			return columnOf(n, k-1), true
		}
		if _, ok := e.(*plan.Column); ok {
			return nil, false
		}
		fits := true
		out := plan.MapChildren(e, func(x plan.Expr) plan.Expr {
			y, ok := over(x)
			if !ok {
				fits = false
				return x
			}
			return y
		})
		return out, fits
	}
	out := &plan.Sort{Input: n, Limit: -1}
	for i, k := range keys {
		e, ok := over(k.Expr)
		if !ok {
			return nil, nil, errorAt(order[i].Pos, fault.StateSyntax, "ORDER BY of a SELECT DISTINCT can only use columns of its select list")
		}
		k.Expr = e
		out.Keys = append(out.Keys, k)
	}
	return out, s, nil
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
