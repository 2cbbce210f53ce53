// Package analyzer turns a syntax tree into a plan: it looks up tables, columns
// and functions, gives every expression a type and makes Hive's implicit
// conversions explicit. It reads the catalogue and nothing else.
package analyzer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// FunctionSet is what the analyzer needs of the function registry. Errors of
// Resolve name the function, the argument types and what would be right.
type FunctionSet interface {
	Resolve(name string, args []schema.Type, constants ...*schema.Datum) (function.Signature, error)
	ResolveAggregate(name string, args []schema.Type, distinct bool) (function.AggregateSignature, error)
	IsAggregate(name string) bool
	Names() []string
	// Has reports whether there is a scalar function of the name.
	Has(name string) bool
	ResolveTable(name string, args []schema.Type, constants ...*schema.Datum) (function.TableSignature, error)
	ResolveWindow(name string, args []schema.Type) (function.WindowSignature, error)
	ResolveWithinGroup(name string, args, order []schema.Type, dirs []function.Direction) (function.AggregateSignature, error)
	IsTable(name string) bool
	IsWindow(name string) bool
}

// Options are what a statement is analysed against.
type Options struct {
	// Table finds a table; its errors name the nearest existing one.
	Table func(ctx context.Context, database, name string) (*catalog.Table, error)
	// Scan makes the leaf that reads all columns of a table.
	Scan func(ctx context.Context, t *catalog.Table) (*plan.Scan, error)
	// Parse reads the query of a view; nil: there are no views.
	Parse     func(text string) (*ast.Query, error)
	Functions FunctionSet
	Database  string // for names without one
	// Constant computes an expression without columns; nil: only literals are constants.
	Constant func(e plan.Expr) (schema.Datum, bool)
	// Bytes is about how large what a scan reads is; nil or 0: not known.
	Bytes func(scan *plan.Scan) int64
	// BucketColumns are the positions of the columns that a scan's table is clustered by.
	BucketColumns func(scan *plan.Scan) []int
	// RegexColumns: a quoted name in a select list is a regular expression over
	// column names (hive.support.quoted.identifiers=none).
	RegexColumns bool
	// GroupByPosition: GROUP BY 1 means the first column of the select list
	// (hive.groupby.position.alias, default false).
	GroupByPosition bool
	// OrderByConstant: ORDER BY 1 means the constant
	// (the opposite of hive.orderby.position.alias, which is true by default).
	OrderByConstant bool
	// NullsFirst: NULLs come first in ascending and last in descending order
	// (the opposite of hive.default.nulls.last, which is true by default).
	NullsFirst bool
}

// maxTables is how many tables, sub-queries by name included, a statement may
// read: common table expressions that use each other twice double at each step.
const maxTables = 2000

// Analyzer analyses one statement. Not safe for concurrent use.
type Analyzer struct {
	o      Options
	tables int // read so far
	depth  int // of the query being analysed
	views  int // around what is analysed
	// used are the tables and views that the statement reads by name.
	used []*catalog.Table
}

// Tables returns the tables and views that what was analysed so far reads,
// those below views included.
func (a *Analyzer) Tables() []*catalog.Table { return a.used }

// New returns an analyzer.
func New(o Options) *Analyzer { return &Analyzer{o: o} }

// Query returns the plan of a query. Errors are of class user and have the
// place in the text.
func (a *Analyzer) Query(ctx context.Context, q *ast.Query) (plan.Node, error) {
	n, s, err := a.query(ctx, q, nil, nil)
	if err != nil {
		return nil, err
	}
	return firstIf(n, len(s.cols)), nil
}

// env is what names mean around a query: the common table expressions.
type env struct {
	outer *env
	name  string
	query *ast.Query
	cols  []ast.Ident
}

func (e *env) find(name string) *env {
	for ; e != nil; e = e.outer {
		if strings.EqualFold(e.name, name) {
			return e
		}
	}
	return nil
}

// query analyses a query and returns its plan and the names of its columns, which
// are the first of the plan's.
func (a *Analyzer) query(ctx context.Context, q *ast.Query, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	if a.depth++; a.depth > maxDepth {
		return nil, nil, errorAt(q.Pos, fault.StateSyntax, "the statement nests deeper than %d queries, those of WITH counted where they are used", maxDepth)
	}
	defer func() { a.depth-- }()
	for _, c := range q.With {
		e = &env{outer: e, name: c.Name.Name, query: c.Query, cols: c.Columns}
	}
	order := q.OrderBy
	for _, x := range q.ClusterBy { // sorted runs: one run is sorted wholly
		order = append(order, ast.OrderItem{Pos: x.Position(), X: x})
	}
	if order == nil {
		order = q.SortBy
	}
	n, s, err := a.body(ctx, q.Body, order, e, outer)
	if err != nil {
		return nil, nil, err
	}
	n, err = a.limit(n, q)
	return n, s, err
}

// maxDepth is how deep queries nest.
const maxDepth = 200

// body analyses what a query computes, sorted by order.
func (a *Analyzer) body(ctx context.Context, body ast.Body, order []ast.OrderItem, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	var n plan.Node
	var s *scope
	var err error
	switch b := body.(type) {
	case *ast.Select:
		return a.selectBody(ctx, b, order, e, outer)
	case *ast.ValuesBody:
		n, s, err = a.values(ctx, b, nil, e, outer)
	case *ast.Query:
		n, s, err = a.query(ctx, b, e, outer)
	case *ast.SetOp:
		n, s, err = a.setOp(ctx, b, e, outer)
	default:
		return nil, nil, fault.Bugf("analyzer: unknown query body %T", body)
	}
	if err != nil || order == nil {
		return n, s, err
	}
	n, err = a.orderOutput(n, s, order)
	return n, s, err
}

// limit adds LIMIT and OFFSET.
func (a *Analyzer) limit(n plan.Node, q *ast.Query) (plan.Node, error) {
	if q.Limit == nil && q.Offset == nil {
		return n, nil
	}
	out := &plan.Limit{Input: n, Count: math.MaxInt64}
	var err error
	if q.Limit != nil {
		if out.Count, err = a.rowCount(q.Limit, "LIMIT"); err != nil {
			return nil, err
		}
	}
	if q.Offset != nil {
		if out.Offset, err = a.rowCount(q.Offset, "OFFSET"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rowCount computes the constant of LIMIT or OFFSET.
func (a *Analyzer) rowCount(x ast.Expr, what string) (int64, error) {
	b := &binder{a: a, scope: &scope{}, what: what}
	e, err := b.bind(x)
	if err != nil {
		return 0, err
	}
	l, ok := e.(*plan.Literal)
	if !ok && a.o.Constant != nil {
		if d, known := a.o.Constant(e); known {
			l, ok = &plan.Literal{Value: d}, true
		}
	}
	if !ok || l.Value.Null || !l.Value.Type.IsInteger() || l.Value.I < 0 {
		return 0, errorAt(x.Position(), fault.StateSyntax, "%s wants a number of rows, 0 or more", what)
	}
	return l.Value.I, nil
}

// values analyses VALUES. With types, each column is cast to its type there;
// otherwise to the type that all rows of the column share.
func (a *Analyzer) values(ctx context.Context, v *ast.ValuesBody, types []schema.Type, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	b := &binder{a: a, ctx: ctx, env: e, scope: &scope{}, outer: outer, what: "VALUES"}
	out := &plan.Values{}
	width := len(v.Rows[0])
	for _, row := range v.Rows {
		if len(row) != width {
			return nil, nil, errorAt(row[0].Position(), fault.StateSyntax, "this row of VALUES has %s, the first has %d", columnCount(len(row)), width)
		}
		exprs := make([]plan.Expr, width)
		for i, x := range row {
			var err error
			if exprs[i], err = b.bind(x); err != nil {
				return nil, nil, err
			}
		}
		out.Rows = append(out.Rows, exprs)
	}
	s := &scope{}
	for i := range width {
		t := schema.VoidType
		if len(types) == width {
			t = types[i]
		} else {
			for r, row := range out.Rows {
				u, ok := function.UnionType(t, row[i].Type())
				if !ok {
					return nil, nil, errorAt(v.Rows[r][i].Position(), fault.StateSyntax,
						"this column of VALUES has the types %s and %s, which have no common type", t, row[i].Type())
				}
				t = u
			}
		}
		for _, row := range out.Rows {
			row[i] = castTo(row[i], t)
		}
		name := fmt.Sprintf("col%d", i+1)
		if i < len(v.Names) && v.Names[i] != "" {
			name = strings.ToLower(v.Names[i])
		}
		out.Out = append(out.Out, schema.Field{Name: name, Type: t})
		s.add("", "", name, t)
	}
	return out, s, nil
}

// castTo converts e to type t, if it has another.
func castTo(e plan.Expr, t schema.Type) plan.Expr {
	if e.Type().Equal(t) {
		return e
	}
	if l, ok := e.(*plan.Literal); ok && l.Value.Null {
		return &plan.Literal{Value: schema.NullOf(t)}
	}
	return &plan.Cast{Arg: e, T: t}
}

func errorAt(pos ast.Pos, state, format string, args ...any) *fault.Error {
	return &fault.Error{Class: fault.User, SQLState: state, Message: fmt.Sprintf(format, args...), Line: pos.Line, Column: pos.Column}
}

func unsupported(pos ast.Pos, what string) error {
	return errorAt(pos, fault.StateUnsupported, "not supported yet: %s", what)
}

// At gives an error of a lower package the place in the text it is about.
func At(pos ast.Pos, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Line > 0 {
		return err
	}
	placed := *e
	placed.Line, placed.Column = pos.Line, pos.Column
	if e.Class == fault.User && e.Cause != nil && e.Message != "" { // the message alone should say all
		placed.Message, placed.Cause = e.Message+": "+e.Cause.Error(), nil
	}
	return &placed
}
