package analyzer

import (
	"context"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// from analyses the sources of FROM. No source is one row without columns.
func (a *Analyzer) from(ctx context.Context, ref ast.TableRef, e *env) (plan.Node, *scope, error) {
	switch ref := ref.(type) {
	case nil:
		return &plan.Values{Rows: [][]plan.Expr{{}}}, &scope{}, nil
	case *ast.TableName:
		return a.tableName(ctx, ref, e)
	case *ast.Derived:
		n, inner, err := a.query(ctx, ref.Query, e)
		if err != nil {
			return nil, nil, err
		}
		return renamed(ref.Pos, n, inner, ref.Alias, ref.Columns)
	case *ast.Join:
		return a.join(ctx, ref, e)
	case *ast.LateralView:
		return nil, nil, unsupported(ref.Pos, "LATERAL VIEW")
	}
	return nil, nil, fault.Bugf("analyzer: unknown source %T", ref)
}

// renamed gives the columns of a sub-query its alias, and new names if any.
func renamed(pos ast.Pos, n plan.Node, inner *scope, alias string, columns []ast.Ident) (plan.Node, *scope, error) {
	s := &scope{}
	if columns != nil && len(columns) != len(inner.cols) {
		return nil, nil, errorAt(pos, fault.StateSyntax, "%s has %d columns, but %d names are given", alias, len(inner.cols), len(columns))
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

func (a *Analyzer) tableName(ctx context.Context, ref *ast.TableName, e *env) (plan.Node, *scope, error) {
	if ref.AsOf != nil {
		return nil, nil, unsupported(ref.AsOf.Pos, "FOR SYSTEM_TIME AS OF")
	}
	if a.tables++; a.tables > maxTables {
		return nil, nil, errorAt(ref.Pos, fault.StateSyntax, "the statement reads more than %d tables", maxTables)
	}
	parts := ref.Name.Parts
	if len(parts) == 1 {
		if cte := e.find(parts[0].Name); cte != nil {
			n, inner, err := a.query(ctx, cte.query, cte.outer)
			if err != nil {
				return nil, nil, err
			}
			alias := ref.Alias
			if alias == "" {
				alias = parts[0].Name
			}
			return renamed(ref.Pos, n, inner, alias, cte.cols)
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

// join analyses an inner or comma join. Its condition stays whole: the
// optimizer finds the equalities, those of WHERE included.
func (a *Analyzer) join(ctx context.Context, j *ast.Join, e *env) (plan.Node, *scope, error) {
	if j.Kind != "inner" && j.Kind != "cross" {
		return nil, nil, unsupported(j.Pos, strings.ToUpper(j.Kind)+" JOIN")
	}
	l, ls, err := a.from(ctx, j.L, e)
	if err != nil {
		return nil, nil, err
	}
	r, rs, err := a.from(ctx, j.R, e)
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
		return nil, nil, unsupported(j.Pos, "JOIN .. USING")
	}
	out := &plan.Join{Left: l, Right: r, Kind: plan.Inner}
	if j.On != nil {
		b := &binder{a: a, scope: s, what: "ON"}
		if out.Residual, err = b.condition(j.On, "ON"); err != nil {
			return nil, nil, err
		}
	}
	return out, s, nil
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

// condition binds a boolean expression.
func (b *binder) condition(x ast.Expr, clause string) (plan.Expr, error) {
	e, err := b.bind(x)
	if err != nil {
		return nil, err
	}
	switch e.Type().Kind {
	case schema.Boolean:
		return e, nil
	case schema.Void:
		return castTo(e, schema.BooleanType), nil
	}
	return nil, errorAt(x.Position(), fault.StateSyntax, "%s wants a condition (boolean), this is %s", clause, e.Type())
}
