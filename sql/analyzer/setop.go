package analyzer

import (
	"context"
	"fmt"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// setOp analyses UNION, INTERSECT and EXCEPT. Chains of UNION ALL become one node.
func (a *Analyzer) setOp(ctx context.Context, b *ast.SetOp, e *env, outer *outerQuery) (plan.Node, *scope, error) {
	parts := []ast.Body{b.R}
	left := b.L
	for b.Op == "union" { // the same operator to the left: one wide union, without recursion
		l, ok := left.(*ast.SetOp)
		if !ok || l.Op != "union" || l.All != b.All {
			break
		}
		parts = append(parts, l.R)
		left = l.L
	}
	parts = append(parts, left)
	inputs := make([]plan.Node, len(parts))
	scopes := make([]*scope, len(parts))
	for i := range parts { // parts are from right to left
		k := len(parts) - 1 - i
		var err error
		if inputs[i], scopes[i], err = a.body(ctx, parts[k], nil, e, outer); err != nil {
			return nil, nil, err
		}
		inputs[i] = firstIf(inputs[i], len(scopes[i].cols))
	}
	inputs, s, err := aligned(b, inputs, scopes)
	if err != nil {
		return nil, nil, err
	}
	var n plan.Node
	switch {
	case b.Op == "union":
		n = &plan.Union{Inputs: inputs}
		if !b.All {
			n = distinct(n)
		}
	default:
		n, err = a.counted(b, inputs[0], inputs[1])
	}
	return n, s, err
}

func firstIf(n plan.Node, width int) plan.Node {
	if len(n.Fields()) > width {
		return firstColumns(n, width)
	}
	return n
}

// aligned casts the inputs' columns to the types that they share; names are the first
// input's.
func aligned(b *ast.SetOp, inputs []plan.Node, scopes []*scope) ([]plan.Node, *scope, error) {
	width := len(scopes[0].cols)
	types := make([]schema.Type, width)
	for c := range types {
		types[c] = scopes[0].cols[c].t
	}
	for _, s := range scopes[1:] {
		if len(s.cols) != width {
			return nil, nil, errorAt(b.Pos, fault.StateSyntax, "%s: the left side has %s, the right one %d", strings.ToUpper(b.Op), columnCount(width), len(s.cols))
		}
		for c := range types {
			t, ok := function.UnionType(types[c], s.cols[c].t)
			if !ok {
				return nil, nil, errorAt(b.Pos, fault.StateSyntax, "%s: column %d is %s on the left and %s on the right, which have no common type",
					strings.ToUpper(b.Op), c+1, types[c], s.cols[c].t)
			}
			types[c] = t
		}
	}
	out := &scope{}
	for c, t := range types {
		out.add("", "", scopes[0].cols[c].name, t)
	}
	for i, n := range inputs {
		p := &plan.Project{Input: n}
		change := false
		for c, t := range types {
			e := castTo(columnOf(n, c), t)
			_, cast := e.(*plan.Column)
			change = change || !cast
			p.Exprs, p.Names = append(p.Exprs, e), append(p.Names, out.cols[c].name)
		}
		if change || i == 0 {
			inputs[i] = p
		}
	}
	return inputs, out, nil
}

// counted computes INTERSECT and EXCEPT by counting how often each row is on either
// side; NULLs are equal there, as in groups.
func (a *Analyzer) counted(b *ast.SetOp, left, right plan.Node) (plan.Node, error) {
	width := len(left.Fields())
	tag := func(n plan.Node, l, r int64) plan.Node {
		return extended(n, []plan.Expr{bigint(l), bigint(r)}, []string{"_left", "_right"})
	}
	u := &plan.Union{Inputs: []plan.Node{tag(left, 1, 0), tag(right, 0, 1)}}
	g := &plan.Aggregate{Input: u, Phase: plan.Single, Keys: columnsOf(u, width)}
	for _, f := range u.Fields()[:width] {
		g.KeyNames = append(g.KeyNames, f.Name)
	}
	for i := range 2 {
		arg := columnOf(u, width+i)
		sig, err := a.o.Functions.ResolveAggregate("sum", []schema.Type{arg.T}, false)
		if err != nil {
			return nil, At(b.Pos, err)
		}
		g.Aggs = append(g.Aggs, plan.Agg{Name: "sum", Args: []plan.Expr{arg}, T: sig.Result, State: sig.State, Bound: sig.Args, OutName: fmt.Sprintf("sum(%s)", arg.Name)})
	}
	l, r := columnOf(g, width), columnOf(g, width+1)
	f := &binder{a: a, scope: &scope{}}
	call := func(name string, args ...plan.Expr) plan.Expr {
		e, err := f.function(b.Pos, name, args...)
		if err != nil { // of bigints
			return &plan.Literal{Value: schema.NullOf(schema.BooleanType)}
		}
		return e
	}
	zero := bigint(0)
	var cond, times plan.Expr
	switch {
	case b.Op == "intersect":
		cond = call("and", call(">", l, zero), call(">", r, zero))
		times = call("least", l, r)
	case b.All:
		cond = call(">", l, r)
		times = call("-", l, r)
	default:
		cond = call("and", call(">", l, zero), call("=", r, zero))
	}
	n := plan.Node(&plan.Filter{Input: g, Cond: cond})
	if b.All {
		sig, err := a.o.Functions.ResolveTable("replicate_rows", []schema.Type{schema.BigIntType, schema.BigIntType})
		if err != nil {
			return nil, unsupported(b.Pos, strings.ToUpper(b.Op)+" ALL")
		}
		n = &plan.Generate{Input: n, Name: "replicate_rows", Args: []plan.Expr{castTo(times, sig.Args[0]), castTo(zero, sig.Args[1])}, Bound: sig.Args, Out: sig.Out}
	}
	return firstColumns(n, width), nil
}
