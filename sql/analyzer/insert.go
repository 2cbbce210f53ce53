package analyzer

import (
	"context"
	"fmt"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// Insert returns the plan of the rows that an INSERT writes: all columns of
// the table and behind them its partition columns, in their order and types.
// static are the values of the partition columns that the statement gives
// constants for, by lower-case name; defaults are the expressions of columns that are not listed.
func (a *Analyzer) Insert(ctx context.Context, s *ast.Insert, t *catalog.Table, static map[string]schema.Datum, defaults map[string]ast.Expr) (plan.Node, error) {
	all := t.AllColumns()
	target, err := insertTarget(s, t, all, static)
	if err != nil {
		return nil, err
	}
	types := make([]schema.Type, len(target))
	for i, to := range target {
		types[i] = all[to].Type
	}
	input, _, err := a.insertSource(ctx, s.Query, types)
	if err != nil {
		return nil, err
	}
	fields := input.Fields()
	if len(fields) != len(target) {
		what := fmt.Sprintf("table %s has %s", t.Name, columnCount(len(target)))
		switch {
		case s.Columns != nil:
			what = fmt.Sprintf("%d columns are listed", len(target))
		case len(target) > len(t.Columns):
			what += fmt.Sprintf(" (%s of them for the partition)", columnCount(len(target)-len(t.Columns)))
		}
		return nil, errorAt(s.Query.Pos, fault.StateSyntax, "%s, but the query gives %d", what, len(fields))
	}
	exprs := make([]plan.Expr, len(all))
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
		switch d, ok := static[c.Name]; {
		case ok:
			exprs[i] = &plan.Literal{Value: d}
		case defaults[c.Name] != nil && !contains(target, i):
			b := &binder{a: a, scope: &scope{}, what: "DEFAULT"}
			e, err := b.bind(defaults[c.Name])
			if err != nil {
				return nil, err
			}
			exprs[i] = castTo(e, c.Type)
		default:
			exprs[i] = &plan.Literal{Value: schema.NullOf(c.Type)}
		}
	}
	for i, to := range target {
		exprs[to] = castTo(&plan.Column{Index: i, Name: fields[i].Name, T: fields[i].Type}, all[to].Type)
	}
	return &plan.Project{Input: input, Exprs: exprs, Names: names}, nil
}

func contains(list []int, x int) bool {
	for _, v := range list {
		if v == x {
			return true
		}
	}
	return false
}

// insertTarget returns where the query's columns go, as positions in all: to the
// listed columns, or to all; the partition columns without a value follow in the order
// of the PARTITION clause.
func insertTarget(s *ast.Insert, t *catalog.Table, all schema.Columns, static map[string]schema.Datum) ([]int, error) {
	var target []int
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	if s.Columns == nil {
		for i := range t.Columns {
			target = append(target, i)
		}
	}
	taken := map[int]bool{}
	for _, id := range s.Columns {
		i := all.Index(id.Name)
		if i < 0 {
			return nil, unknownColumn(id.Pos, id.Name, names, "table "+t.Name)
		}
		if taken[i] {
			return nil, errorAt(id.Pos, fault.StateSyntax, "column %s is listed twice", all[i].Name)
		}
		if _, ok := static[all[i].Name]; ok {
			return nil, errorAt(id.Pos, fault.StateSyntax, "column %s has a value in PARTITION already", all[i].Name)
		}
		taken[i] = true
		target = append(target, i)
	}
	dynamic := make([]string, 0, len(t.PartitionColumns))
	for _, v := range s.Partition {
		if v.X == nil {
			dynamic = append(dynamic, strings.ToLower(v.Name.Name))
		}
	}
	if s.Partition == nil {
		for _, c := range t.PartitionColumns {
			dynamic = append(dynamic, c.Name)
		}
	}
	for _, name := range dynamic {
		if i := all.Index(name); i >= 0 && !taken[i] {
			taken[i] = true
			target = append(target, i)
		}
	}
	return target, nil
}

// insertSource analyses the query of an INSERT. The rows of VALUES take the
// types of the columns at once: 1 and 'a' in one column need no common type.
func (a *Analyzer) insertSource(ctx context.Context, q *ast.Query, types []schema.Type) (plan.Node, *scope, error) {
	v, ok := q.Body.(*ast.ValuesBody)
	if !ok || q.With != nil || q.OrderBy != nil || q.Limit != nil {
		n, s, err := a.query(ctx, q, nil, nil)
		if err != nil {
			return nil, nil, err
		}
		return firstIf(n, len(s.cols)), s, nil
	}
	return a.values(ctx, v, types, nil, nil)
}

// Constant binds an expression without columns.
func (a *Analyzer) Constant(x ast.Expr) (plan.Expr, error) {
	return (&binder{a: a, scope: &scope{}, what: "PARTITION"}).bind(x)
}

// Condition binds a condition over some columns, which it refers to by position.
func (a *Analyzer) Condition(x ast.Expr, columns schema.Columns, clause string) (plan.Expr, error) {
	s := &scope{}
	for _, c := range columns {
		s.add("", "", c.Name, c.Type)
	}
	return (&binder{a: a, scope: s, what: clause}).condition(x, clause)
}

// Expr binds an expression over some columns, which it refers to by position.
func (a *Analyzer) Expr(x ast.Expr, columns schema.Columns, clause string) (plan.Expr, error) {
	s := &scope{}
	for _, c := range columns {
		s.add("", "", c.Name, c.Type)
	}
	return (&binder{a: a, scope: s, what: clause}).bind(x)
}
