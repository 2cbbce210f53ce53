package analyzer

import (
	"context"
	"fmt"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// maxViews is how deep views may stand on views.
const maxViews = 50

// view analyses the query of a view, in the database in which it was created.
// Its columns have the view's names and types, whatever has become of the tables.
func (a *Analyzer) view(ctx context.Context, ref *ast.TableName, t *catalog.Table, _ *env) (plan.Node, *scope, error) {
	if a.o.Parse == nil {
		return nil, nil, fault.Bugf("analyzer: views can't be read")
	}
	if a.views >= maxViews {
		return nil, nil, errorAt(ref.Pos, fault.StateSyntax, "views stand on views more than %d deep: does %s stand on itself?", maxViews, t.Name)
	}
	q, err := a.o.Parse(t.ViewText)
	if err != nil {
		return nil, nil, errorAt(ref.Pos, fault.StateSyntax, "the query of view %s can't be read: %v", t.Name, unplaced(err))
	}
	database := a.o.Database
	a.o.Database = t.ViewDatabase
	a.views++
	n, inner, err := a.query(ctx, q, nil, nil)
	a.views--
	a.o.Database = database
	if err != nil {
		return nil, nil, &fault.Error{Class: fault.ClassOf(err), SQLState: fault.StateOf(err), Line: ref.Line, Column: ref.Column,
			Message: fmt.Sprintf("in view %s: %v", t.Name, unplaced(err))}
	}
	all := t.AllColumns()
	if len(inner.cols) < len(all) {
		return nil, nil, errorAt(ref.Pos, fault.StateUnknownCol, "view %s has %d columns, but its query gives %d now", t.Name, len(all), len(inner.cols))
	}
	alias, db := ref.Alias, ""
	if alias == "" {
		alias, db = t.TableName, t.Database
	}
	s := &scope{}
	p := &plan.Project{Input: n}
	for i, c := range all {
		p.Exprs = append(p.Exprs, castTo(inner.column(i), c.Type))
		p.Names = append(p.Names, c.Name)
		s.add(db, alias, c.Name, c.Type)
	}
	return p, s, nil
}

// unplaced drops the place of an error: it is one in another text.
func unplaced(err error) error {
	if e, ok := At(ast.Pos{}, err).(*fault.Error); ok {
		m := *e
		m.Line, m.Column = 0, 0
		return &m
	}
	return err
}
