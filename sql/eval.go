package sql

import (
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// evaluator computes constants with the kernels that tasks use.
type evaluator struct {
	functions *function.Registry
	context   function.Context
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
	return k(&e.context, 1, vs)
}
