package analyzer

import (
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// stage is where in a SELECT a sub-query is joined to its rows.
type stage uint8

const (
	beforeGroups stage = iota // below the aggregation: of WHERE, aggregates and GROUP BY
	withHaving
	afterGroups // of the select list, ORDER BY, QUALIFY
)

// subqueries are those of one SELECT (or another clause with a scope of its own).
type subqueries struct{ list []*subquery }

// subquery is a query inside an expression. Its plan may have columns that stand for
// expressions of the enclosing query: those are in outer.
type subquery struct {
	stage stage
	// kind is LeftSingle for a value, LeftMark for EXISTS and IN.
	kind  plan.JoinKind
	input plan.Node
	outer *outerQuery
	// keys are pairs that must be equal: of the enclosing query, and of input's output.
	left, right []plan.Expr
	nullAware   bool // the last pair is that of IN
	// values are what the sub-query's columns are once it has been joined.
	values []plan.Expr
}

// add returns the columns that stand for the sub-query's.
func (s *subqueries) add(q *subquery, types ...schema.Type) []plan.Expr {
	id := len(s.list)
	s.list = append(s.list, q)
	out := make([]plan.Expr, len(types))
	for c, t := range types {
		out[c] = &plan.Column{Index: subBase + id*subWidth + c, Name: "_sub", T: t}
	}
	return out
}

// resolve replaces the columns that stand for joined sub-queries.
func (s *subqueries) resolve(e plan.Expr) plan.Expr {
	if s == nil || len(s.list) == 0 {
		return e
	}
	return mapColumns(e, func(c *plan.Column) plan.Expr {
		if !isSub(c) {
			return c
		}
		q := s.list[(c.Index-subBase)/subWidth]
		if q.values == nil {
			return c
		}
		return q.values[(c.Index-subBase)%subWidth]
	})
}

// attach joins the sub-queries of a stage to n; over rewrites what they use of the
// enclosing query into expressions over n.
func (s *subqueries) attach(b *binder, n plan.Node, st stage, over func(plan.Expr) (plan.Expr, error)) (plan.Node, error) {
	for _, q := range s.list {
		if q.stage != st || q.values != nil {
			continue
		}
		var err error
		if n, err = q.attach(b, n, func(e plan.Expr) (plan.Expr, error) {
			e, err := over(e)
			return s.resolve(e), err
		}); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// inner analyses a sub-query of an expression.
func (b *binder) inner(q *ast.Query, what string) (plan.Node, *outerQuery, error) {
	if b.subs == nil {
		return nil, nil, unsupported(q.Pos, "a sub-query in "+b.what)
	}
	if b.inWin {
		return nil, nil, unsupported(q.Pos, "a sub-query inside a window function")
	}
	outer := newOuter(b)
	n, s, err := b.a.query(b.ctx, q, b.env, outer)
	if err != nil {
		return nil, nil, err
	}
	if n.Fields() == nil || len(s.cols) == 0 {
		return nil, nil, fault.Bugf("analyzer: %s without columns", what)
	}
	if len(n.Fields()) > len(s.cols) {
		n = firstColumns(n, len(s.cols))
	}
	return n, outer, nil
}

func (b *binder) at() stage {
	if b.inAgg {
		return beforeGroups
	}
	return b.stage
}

// scalarQuery binds (query) as a value: of its one row, NULL if there is none.
func (b *binder) scalarQuery(x *ast.Subquery) (plan.Expr, error) {
	n, outer, err := b.inner(x.Query, "a sub-query")
	if err != nil {
		return nil, err
	}
	if f := n.Fields(); len(f) != 1 {
		return nil, errorAt(x.Pos, fault.StateSyntax, "a sub-query used as a value must have one column, this one has %d", len(f))
	}
	return b.subs.add(&subquery{stage: b.at(), kind: plan.LeftSingle, input: n, outer: outer}, n.Fields()[0].Type)[0], nil
}

// existsQuery binds EXISTS (query).
func (b *binder) existsQuery(x *ast.Exists) (plan.Expr, error) {
	n, outer, err := b.inner(x.Query, "EXISTS")
	if err != nil {
		return nil, err
	}
	return b.subs.add(&subquery{stage: b.at(), kind: plan.LeftMark, input: n, outer: outer}, schema.BooleanType)[0], nil
}

// inQuery binds x [NOT] IN (query).
func (b *binder) inQuery(x *ast.In) (plan.Expr, error) {
	parts := []ast.Expr{x.X}
	if t, ok := x.X.(*ast.Tuple); ok {
		parts = t.Parts
	}
	q, err := b.membership(x.Pos, parts, x.Query)
	if err != nil {
		return nil, err
	}
	if len(parts) > 1 && x.Not {
		return nil, unsupported(x.Pos, "(a, b) NOT IN (query)")
	}
	in := b.subs.add(q, schema.BooleanType)[0]
	return b.negate(x.Pos, in, nil, x.Not)
}

// membership makes the sub-query of parts IN (query).
func (b *binder) membership(pos ast.Pos, parts []ast.Expr, query *ast.Query) (*subquery, error) {
	left, err := b.bindAll(parts)
	if err != nil {
		return nil, err
	}
	n, outer, err := b.inner(query, "IN")
	if err != nil {
		return nil, err
	}
	fields := n.Fields()
	if len(fields) != len(parts) {
		return nil, errorAt(pos, fault.StateSyntax, "IN compares %s with a sub-query of %d", columnCount(len(parts)), len(fields))
	}
	q := &subquery{stage: b.at(), kind: plan.LeftMark, input: n, outer: outer, nullAware: true}
	for i, l := range left {
		t, ok := function.CommonType(l.Type(), fields[i].Type)
		if !ok {
			return nil, errorAt(pos, fault.StateSyntax, "IN can't compare %s with %s", l.Type(), fields[i].Type)
		}
		q.left = append(q.left, castTo(l, t))
		q.right = append(q.right, castTo(columnOf(n, i), t))
	}
	return q, nil
}

// quantified binds x op ANY|ALL (query). = ANY is IN; <> ALL is NOT IN; the others compare
// with the lowest or highest value, with how many there are, and how many are NULL.
func (b *binder) quantified(x *ast.Quantified) (plan.Expr, error) {
	switch {
	case x.Op == "=" && !x.All:
		return b.inQuery(&ast.In{Pos: x.Pos, X: x.X, Query: x.Query})
	case x.Op == "<>" && x.All:
		return b.inQuery(&ast.In{Pos: x.Pos, X: x.X, Query: x.Query, Not: true})
	case x.Op == "<=>":
		return nil, unsupported(x.Pos, "<=> with ANY or ALL")
	}
	value, err := b.bind(x.X)
	if err != nil {
		return nil, err
	}
	n, outer, err := b.inner(x.Query, "ANY or ALL")
	if err != nil {
		return nil, err
	}
	if len(n.Fields()) != 1 {
		return nil, errorAt(x.Pos, fault.StateSyntax, "a comparison with ANY or ALL wants a sub-query of one column, this one has %d", len(n.Fields()))
	}
	column := columnOf(n, 0)
	group := &plan.Aggregate{Input: n, Phase: plan.Single}
	types := []schema.Type{column.T, column.T, schema.BigIntType, schema.BigIntType}
	for i, name := range [...]string{"min", "max", "count", "count"} {
		agg := plan.Agg{Name: name, Args: []plan.Expr{column}}
		if i == 2 {
			agg.Args = nil
		}
		sig, err := b.a.o.Functions.ResolveAggregate(name, typesOf(agg.Args), false)
		if err != nil {
			return nil, At(x.Pos, err)
		}
		agg.T, agg.State, agg.Bound, agg.OutName = sig.Result, sig.State, sig.Args, name
		group.Aggs = append(group.Aggs, agg)
	}
	of := b.subs.add(&subquery{stage: b.at(), kind: plan.LeftSingle, input: group, outer: outer}, types...)
	low, high, all, known := of[0], of[1], of[2], of[3]
	var test plan.Expr
	compare := func(op string, with plan.Expr) (plan.Expr, error) { return b.function(x.Pos, op, value, with) }
	up := strings.HasPrefix(x.Op, ">")
	switch {
	case x.Op == "=": // ALL: the lowest and the highest are x
		var other plan.Expr
		if test, err = compare("=", low); err == nil {
			if other, err = compare("=", high); err == nil {
				test, err = b.function(x.Pos, "and", test, other)
			}
		}
	case x.Op == "<>": // ANY: the lowest or the highest is not x
		var other plan.Expr
		if test, err = compare("<>", low); err == nil {
			if other, err = compare("<>", high); err == nil {
				test, err = b.function(x.Pos, "or", test, other)
			}
		}
	case up == x.All: // > ALL: above the highest; < ANY: below it
		test, err = compare(x.Op, high)
	default:
		test, err = compare(x.Op, low)
	}
	if err != nil {
		return nil, err
	}
	var none, some plan.Expr
	if none, err = b.function(x.Pos, "=", all, bigint(0)); err != nil {
		return nil, err
	}
	if some, err = b.function(x.Pos, "<", known, all); err != nil {
		return nil, err
	}
	decided := test // that one value decides, whatever the NULLs are
	if x.All {
		if decided, err = b.function(x.Pos, "not", test); err != nil {
			return nil, err
		}
	}
	return &plan.Case{T: schema.BooleanType, Else: test, Whens: []plan.When{
		{Cond: none, Then: truth(x.All)}, {Cond: decided, Then: truth(!x.All)},
		{Cond: some, Then: &plan.Literal{Value: schema.NullOf(schema.BooleanType)}}}}, nil
}

func truth(v bool) plan.Expr {
	d := schema.Datum{Type: schema.BooleanType}
	if v {
		d.I = 1
	}
	return &plan.Literal{Value: d}
}

// filter applies a condition with sub-queries to n: one that is [NOT] EXISTS or [NOT] IN
// as it stands becomes a semi or anti join, the others are joined and compared.
func (s *subqueries) filter(b *binder, n plan.Node, cond plan.Expr, st stage, over func(plan.Expr) (plan.Expr, error)) (plan.Node, error) {
	var plain, rest []plan.Expr
	for _, c := range conjuncts(cond, nil) {
		if uses(c, isSub) {
			rest = append(rest, c)
			continue
		}
		e, err := over(c)
		if err != nil {
			return nil, err
		}
		plain = append(plain, e)
	}
	for _, e := range plain {
		n = &plan.Filter{Input: n, Cond: e}
	}
	width := len(n.Fields())
	for _, c := range rest {
		inner, not := c, false
		if call, ok := c.(*plan.Call); ok && call.Name == "not" {
			inner, not = call.Args[0], true
		}
		if col, ok := inner.(*plan.Column); ok && isSub(col) {
			q := s.list[(col.Index-subBase)/subWidth]
			if q.kind == plan.LeftMark && q.values == nil && q.stage == st {
				q.kind = plan.LeftSemi
				if not {
					q.kind = plan.LeftAnti
				}
				q.nullAware = q.nullAware && not // NULL refuses like false
				var err error
				if n, err = q.attach(b, n, func(e plan.Expr) (plan.Expr, error) {
					e, err := over(e)
					return s.resolve(e), err
				}); err != nil {
					return nil, err
				}
				continue
			}
		}
		var err error
		if n, err = s.attach(b, n, st, over); err != nil {
			return nil, err
		}
		e, err := over(c)
		if err != nil {
			return nil, err
		}
		n = &plan.Filter{Input: n, Cond: s.resolve(e)}
	}
	if len(n.Fields()) > width {
		n = firstColumns(n, width)
	}
	return n, nil
}

// attach joins the sub-query to n. The output has n's columns, then what values use;
// of LeftSemi and LeftAnti, n's columns only.
func (q *subquery) attach(b *binder, n plan.Node, over func(plan.Expr) (plan.Expr, error)) (plan.Node, error) {
	outer := make([]plan.Expr, len(q.outer.exprs))
	left := slices.Clone(q.left)
	var err error
	for i, e := range q.outer.exprs {
		if outer[i], err = over(e); err != nil {
			return nil, err
		}
	}
	for i, e := range left {
		if left[i], err = over(e); err != nil {
			return nil, err
		}
	}
	d := &decorrelator{outer: outer, outerNode: n}
	return q.join(d, n, left)
}
