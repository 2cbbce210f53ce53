package sql

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// evaluator computes constants with the kernels that tasks use.
type evaluator struct {
	functions *function.Registry
	context   function.Context
	// columns have the values of columns in what is computed, n rows of them.
	columns []arrow.Array
	n       int
}

// Matches implements optimizer.Evaluator.
func (e *evaluator) Matches(cond plan.Expr, types []schema.Type, rows [][]schema.Datum) ([]bool, error) {
	values, err := e.values(cond, types, rows)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(rows))
	for i, d := range values {
		out[i] = !d.Null && d.I != 0
	}
	return out, nil
}

// values computes an expression over the columns of some rows.
func (e *evaluator) values(x plan.Expr, types []schema.Type, rows [][]schema.Datum) ([]schema.Datum, error) {
	m := &evaluator{functions: e.functions, context: e.context, n: len(rows)}
	column := make([]schema.Datum, len(rows))
	for c, t := range types {
		for i, row := range rows {
			column[i] = row[c]
		}
		m.columns = append(m.columns, schema.ArrayOf(t, column))
	}
	if len(rows) == 0 {
		return nil, nil
	}
	v, err := m.vector(x)
	if err != nil {
		return nil, err
	}
	out := make([]schema.Datum, len(rows))
	for i := range out {
		at := i
		if v.Const {
			at = 0
		}
		out[i] = schema.FromArrow(v.Array, at, x.Type())
	}
	return out, nil
}

// Eval implements optimizer.Evaluator.
func (e *evaluator) Eval(x plan.Expr) (schema.Datum, error) {
	v, err := e.vector(x)
	if err != nil {
		return schema.Datum{}, err
	}
	return schema.FromArrow(v.Array, 0, x.Type()), nil
}

// volatile reports whether a call may give another value when computed again.
func (e *evaluator) volatile(call *plan.Call) bool {
	types := make([]schema.Type, len(call.Args))
	for i, a := range call.Args {
		types[i] = a.Type()
	}
	sig, err := e.functions.Resolve(call.Name, types, plan.Constants(call.Args)...)
	return err == nil && sig.Volatile
}

// isVolatile reports whether a part of x is volatile.
func (e *evaluator) isVolatile(x plan.Expr) bool {
	found := false
	plan.Walk(x, func(y plan.Expr) {
		c, ok := y.(*plan.Call)
		found = found || ok && e.volatile(c)
	})
	return found
}

// vector computes x as a constant.
func (e *evaluator) vector(x plan.Expr) (function.Vector, error) {
	switch x := x.(type) {
	case *plan.Column:
		if x.Index >= len(e.columns) {
			return function.Vector{}, fault.Bugf("sql: %s is not constant", x)
		}
		return function.Vector{Array: e.columns[x.Index]}, nil
	case *plan.Literal:
		return function.Vector{Array: schema.ArrayOf(x.Value.Type, []schema.Datum{x.Value}), Const: true}, nil
	case *plan.Call:
		types := make([]schema.Type, len(x.Args))
		for i, a := range x.Args {
			types[i] = a.Type()
		}
		sig, err := e.functions.Resolve(x.Name, types, plan.Constants(x.Args)...)
		if err != nil {
			return function.Vector{}, err
		}
		return e.apply(sig.Kernel, x.Args)
	case *plan.Cast:
		kernel, ok := function.Cast(x.Arg.Type(), x.T)
		if !ok {
			return function.Vector{}, fault.Bugf("sql: no cast from %s to %s", x.Arg.Type(), x.T)
		}
		return e.apply(kernel, []plan.Expr{x.Arg})
	case *plan.Member:
		base, err := e.Eval(x.Base)
		if err != nil {
			return function.Vector{}, err
		}
		d := schema.NullOf(x.T)
		if x.Base.Type().Kind == schema.Struct && !base.Null && x.Index < len(base.List) {
			d = base.List[x.Index]
		} else if !base.Null {
			return function.Vector{}, fault.Bugf("sql: %s is not constant", x)
		}
		return function.Vector{Array: schema.ArrayOf(x.T, []schema.Datum{d}), Const: true}, nil
	case *plan.Case:
		if e.columns != nil {
			return e.byRow(x)
		}
		for _, w := range x.Whens {
			cond, err := e.Eval(w.Cond)
			if err != nil {
				return function.Vector{}, err
			}
			if !cond.Null && cond.I != 0 {
				return e.vector(w.Then)
			}
		}
		return e.vector(x.Else)
	}
	return function.Vector{}, fault.Bugf("sql: %s is not constant", x)
}

func (e *evaluator) apply(k function.Kernel, args []plan.Expr) (function.Vector, error) {
	vs := make([]function.Vector, len(args))
	for i, a := range args {
		var err error
		if vs[i], err = e.vector(a); err != nil {
			return function.Vector{}, err
		}
	}
	return k(&e.context, max(1, e.n), vs)
}

// byRow computes x for one row after the other: the branches of a CASE that a
// row doesn't take must not be computed for it.
func (e *evaluator) byRow(x plan.Expr) (function.Vector, error) {
	values := make([]schema.Datum, e.n)
	for i := range values {
		one := &evaluator{functions: e.functions, context: e.context}
		constant := plan.Rewrite(x, func(x plan.Expr) plan.Expr {
			if c, ok := x.(*plan.Column); ok && c.Index < len(e.columns) {
				return &plan.Literal{Value: schema.FromArrow(batch.Slice(e.columns[c.Index], i, i+1), 0, c.T)}
			}
			return x
		})
		var err error
		if values[i], err = one.Eval(constant); err != nil {
			return function.Vector{}, err
		}
	}
	return function.Vector{Array: schema.ArrayOf(x.Type(), values)}, nil
}
