package analyzer

import (
	"context"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// from analyses the sources of FROM. No source is one row without columns.
func (a *Analyzer) from(ctx context.Context, ref ast.TableRef, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	switch ref := ref.(type) {
	case nil:
		return &plan.Values{Rows: [][]plan.Expr{{}}}, &scope{}, nil
	case *ast.TableName:
		return a.tableName(ctx, ref, e)
	case *ast.Derived:
		n, inner, err := a.query(ctx, ref.Query, e, outer)
		if err != nil {
			return nil, nil, err
		}
		return renamed(ref.Pos, n, inner, ref.Alias, ref.Columns)
	case *ast.Join:
		return a.join(ctx, ref, e, outer)
	case *ast.LateralView:
		return a.lateralView(ctx, ref, e, outer)
	case *ast.TableFunction:
		return a.tableFunction(ctx, ref, e, outer)
	}
	return nil, nil, fault.Bugf("analyzer: unknown source %T", ref)
}

// renamed gives the columns of a sub-query its alias, and new names if any.
func renamed(pos ast.Pos, n plan.Node, inner *scope, alias string, columns []ast.Ident) (plan.Node, *scope, error) {
	s := &scope{}
	if columns != nil && len(columns) != len(inner.cols) {
		return nil, nil, errorAt(pos, fault.StateSyntax, "%s has %s, but %d names are given", alias, columnCount(len(inner.cols)), len(columns))
	}
	for i, c := range inner.cols {
		name := c.name
		if columns != nil {
			name = columns[i].Name
		}
		s.add("", alias, name, c.t)
	}
	return n, s, nil
}

// passThrough are table functions that give back their input.
var passThrough = map[string]bool{"noop": true, "noopwithmap": true, "noopstreaming": true, "noopwithmapstreaming": true}

func (a *Analyzer) tableFunction(ctx context.Context, ref *ast.TableFunction, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	if !passThrough[strings.ToLower(ref.Name.Name)] {
		return nil, nil, unsupported(ref.Pos, "table function "+ref.Name.Name)
	}
	n, s, err := a.from(ctx, ref.Source, e, outer)
	if err != nil {
		return nil, nil, err
	}
	if ref.Alias == "" {
		return n, s, nil
	}
	return renamed(ref.Pos, n, s, ref.Alias, nil)
}

func (a *Analyzer) tableName(ctx context.Context, ref *ast.TableName, e *env) (plan.Node, *scope, error) {
	if ref.AsOf != nil {
		return nil, nil, unsupported(ref.AsOf.Pos, "FOR SYSTEM_TIME AS OF")
	}
	if a.tables++; a.tables > maxTables {
		return nil, nil, errorAt(ref.Pos, fault.StateSyntax, "the statement reads more than %d tables", maxTables)
	}
	n, s, err := a.namedTable(ctx, ref, e)
	if err != nil {
		return nil, nil, err
	}
	if ref.Columns != nil {
		if n, s, err = renamed(ref.Pos, n, s, s.cols[0].table, ref.Columns); err != nil {
			return nil, nil, err
		}
	}
	if ref.Sample != nil {
		n, err = a.sample(ctx, n, s, ref.Sample)
	}
	return n, s, err
}

func (a *Analyzer) namedTable(ctx context.Context, ref *ast.TableName, e *env) (plan.Node, *scope, error) {
	parts := ref.Name.Parts
	if len(parts) == 1 {
		if cte := e.find(parts[0].Name); cte != nil {
			n, inner, err := a.query(ctx, cte.query, cte.outer, nil)
			if err != nil {
				return nil, nil, err
			}
			alias := ref.Alias
			if alias == "" {
				alias = parts[0].Name
			}
			columns := cte.cols
			for i := len(columns); columns != nil && i < len(inner.cols); i++ { // fewer names than columns: the others keep theirs
				columns = append(columns[:i:i], ast.Ident{Name: inner.cols[i].name})
			}
			return renamed(ref.Pos, n, inner, alias, columns)
		}
	}
	database, name, err := a.Qualify(ref.Name)
	if err != nil {
		return nil, nil, err
	}
	t, err := a.o.Table(ctx, database, name)
	if err != nil {
		return nil, nil, At(ref.Pos, err)
	}
	a.used = append(a.used, t)
	if t.Kind == catalog.View {
		return a.view(ctx, ref, t, e)
	}
	scan, err := a.o.Scan(ctx, t)
	if err != nil {
		return nil, nil, At(ref.Pos, err)
	}
	alias := ref.Alias
	if alias != "" {
		database = "" // an alias hides the table's own name
	} else {
		alias = name
	}
	s := &scope{}
	for _, f := range scan.Fields() {
		s.add(database, alias, f.Name, f.Type)
	}
	return scan, s, nil
}

// Qualify splits a table's name into database and table, in lower case.
func (a *Analyzer) Qualify(n ast.Name) (database, table string, err error) {
	switch len(n.Parts) {
	case 1:
		return a.o.Database, strings.ToLower(n.Parts[0].Name), nil
	case 2:
		return strings.ToLower(n.Parts[0].Name), strings.ToLower(n.Parts[1].Name), nil
	}
	return "", "", unsupported(n.Pos, "names of more than two parts")
}

var joinKinds = map[string]plan.JoinKind{"inner": plan.Inner, "cross": plan.Inner, "left": plan.LeftOuter, "right": plan.RightOuter,
	"full": plan.FullOuter, "left semi": plan.LeftSemi, "left anti": plan.LeftAnti}

// join analyses a join. Its condition stays whole: the optimizer finds the
// equalities, of inner joins those of WHERE included.
func (a *Analyzer) join(ctx context.Context, j *ast.Join, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	kind, ok := joinKinds[j.Kind]
	if !ok {
		return nil, nil, fault.Bugf("analyzer: join of kind %q", j.Kind)
	}
	l, ls, err := a.from(ctx, j.L, e, outer)
	if err != nil {
		return nil, nil, err
	}
	r, rs, err := a.from(ctx, j.R, e, outer)
	if err != nil {
		return nil, nil, err
	}
	s := &scope{cols: append(append([]scopeColumn(nil), ls.cols...), rs.cols...)}
	for _, t := range rs.tables() {
		for i := range ls.cols {
			if c := &ls.cols[i]; c.table == t && sameDatabase(c, rs, t) {
				return nil, nil, errorAt(j.R.Position(), fault.StateSyntax, "%s is twice in FROM: give one of them an alias", t)
			}
		}
	}
	if j.Using != nil {
		return a.joinUsing(j, kind, l, r, ls, rs)
	}
	out := &plan.Join{Left: l, Right: r, Kind: kind}
	if j.On == nil {
		return out, visible(kind, s, ls), nil
	}
	b := &binder{a: a, ctx: ctx, env: e, scope: s, outer: outer, what: "ON", subs: &subqueries{}}
	cond, err := b.condition(j.On, "ON")
	if err != nil {
		return nil, nil, err
	}
	if !uses(cond, isSub) {
		out.Residual = cond
		return out, visible(kind, s, ls), nil
	}
	if kind != plan.Inner {
		return nil, nil, unsupported(j.On.Position(), "a sub-query in the condition of an outer or semi join")
	}
	n, err := b.subs.filter(b, out, cond, beforeGroups, asIs) // of an inner join, ON is WHERE
	return n, s, err
}

func asIs(e plan.Expr) (plan.Expr, error) { return e, nil }

// visible is the scope of a join's output: semi and anti joins have the left columns only.
func visible(kind plan.JoinKind, both, left *scope) *scope {
	if kind == plan.LeftSemi || kind == plan.LeftAnti {
		return left
	}
	return both
}

// joinUsing joins on columns of equal names, which appear once, first, in the output.
func (a *Analyzer) joinUsing(j *ast.Join, kind plan.JoinKind, l, r plan.Node, ls, rs *scope) (plan.Node, *scope, error) {
	out := &plan.Join{Left: l, Right: r, Kind: kind}
	width := len(ls.cols)
	if len(l.Fields()) != width || len(r.Fields()) != len(rs.cols) {
		return nil, nil, fault.Bugf("analyzer: a source has %d columns and names for %d", len(l.Fields()), width)
	}
	b := &binder{a: a, scope: &scope{}, what: "USING"}
	var merged []plan.Expr
	var names []string
	using := map[int]bool{}
	for _, id := range j.Using {
		lc, err := ls.resolve(id.Pos, "", "", id.Name)
		if err != nil {
			return nil, nil, err
		}
		rc, err := rs.resolve(id.Pos, "", "", id.Name)
		if err != nil {
			return nil, nil, err
		}
		using[lc.Index], using[width+rc.Index] = true, true
		right := &plan.Column{Index: width + rc.Index, Name: rc.Name, T: rc.T}
		same, err := b.function(id.Pos, "=", lc, right)
		if err != nil {
			return nil, nil, err
		}
		if out.Residual == nil {
			out.Residual = same
		} else {
			out.Residual = conjunction([]plan.Expr{out.Residual, same})
		}
		var value plan.Expr = lc
		switch kind {
		case plan.RightOuter:
			value = right
		case plan.FullOuter:
			if value, err = b.function(id.Pos, "coalesce", lc, right); err != nil {
				return nil, nil, err
			}
		}
		merged, names = append(merged, value), append(names, lc.Name)
	}
	s := &scope{}
	p := &plan.Project{Input: out, Exprs: merged, Names: names}
	for i, e := range merged {
		s.add("", "", names[i], e.Type())
	}
	cols := append(append([]scopeColumn(nil), ls.cols...), rs.cols...)
	if kind == plan.LeftSemi || kind == plan.LeftAnti {
		cols = cols[:width]
	}
	for i, c := range cols {
		p.Exprs, p.Names = append(p.Exprs, &plan.Column{Index: i, Name: c.name, T: c.t}), append(p.Names, c.name)
		c.merged = c.merged || using[i]
		s.cols = append(s.cols, c)
	}
	s.byName = nil
	return p, s, nil
}

// sameDatabase reports whether the table of s has c's database.
func sameDatabase(c *scopeColumn, s *scope, table string) bool {
	for i := range s.cols {
		if s.cols[i].table == table && s.cols[i].database == c.database {
			return true
		}
	}
	return false
}

// lateralView analyses source LATERAL VIEW f(..) t AS columns.
func (a *Analyzer) lateralView(ctx context.Context, v *ast.LateralView, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	n, s, err := a.from(ctx, v.Source, e, outer)
	if err != nil {
		return nil, nil, err
	}
	b := &binder{a: a, ctx: ctx, env: e, scope: s, outer: outer, what: "LATERAL VIEW"}
	if v.Call == nil {
		return nil, nil, fault.Bugf("analyzer: a lateral view without a call")
	}
	g, err := b.generate(v.Call, v.Columns)
	if err != nil {
		return nil, nil, err
	}
	if v.Alias != "" && s.hasTable("", v.Alias) {
		return nil, nil, errorAt(v.Pos, fault.StateSyntax, "%s is twice in FROM: give the lateral view another alias", v.Alias)
	}
	if len(n.Fields()) != len(s.cols) {
		return nil, nil, fault.Bugf("analyzer: a source has %d columns and names for %d", len(n.Fields()), len(s.cols))
	}
	g.Input, g.Outer = n, v.Outer
	out := &scope{cols: append([]scopeColumn(nil), s.cols...)}
	for _, f := range g.Out {
		out.add("", v.Alias, f.Name, f.Type)
	}
	return g, out, nil
}

// generate binds a call of a table-generating function; names, if any, are its columns'.
func (b *binder) generate(x *ast.Call, names []ast.Ident) (*plan.Generate, error) {
	name := strings.ToLower(x.Name.Name)
	if !b.a.o.Functions.IsTable(name) {
		if _, err := b.a.o.Functions.ResolveTable(name, nil); err != nil {
			return nil, At(x.Pos, err)
		}
	}
	args, err := b.arguments(x)
	if err != nil {
		return nil, err
	}
	sig, err := b.a.o.Functions.ResolveTable(name, typesOf(args), plan.Constants(args)...)
	if err != nil {
		return nil, At(x.Pos, err)
	}
	g := &plan.Generate{Name: name, Bound: sig.Args, Out: append([]schema.Field(nil), sig.Out...)}
	for i, e := range args {
		g.Args = append(g.Args, castTo(e, sig.Args[i]))
	}
	if names != nil && len(names) != len(g.Out) {
		return nil, errorAt(x.Pos, fault.StateSyntax, "%s gives %s, but %d names are given", name, columnCount(len(g.Out)), len(names))
	}
	for i := range names {
		g.Out[i].Name = strings.ToLower(names[i].Name)
	}
	return g, nil
}

// condition binds a boolean expression.
func (b *binder) condition(x ast.Expr, clause string) (plan.Expr, error) {
	e, err := b.bind(x)
	if err != nil {
		return nil, err
	}
	switch t := e.Type(); {
	case t.Kind == schema.Boolean:
		return e, nil
	case t.Kind == schema.Void:
		return castTo(e, schema.BooleanType), nil
	case t.IsNumeric() || t.IsText(): // Hive converts them
		if _, ok := function.Cast(t, schema.BooleanType); ok {
			return castTo(e, schema.BooleanType), nil
		}
	}
	return nil, errorAt(x.Position(), fault.StateSyntax, "%s wants a condition (boolean), this is %s", clause, e.Type())
}
