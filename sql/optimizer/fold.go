package optimizer

import (
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// foldConstants computes what has no columns in it and simplifies AND, OR,
// NOT and CASE around constants. A constant whose computation fails stays: the
// error belongs to the run, and only if a row gets there.
func foldConstants(n plan.Node, o *Options) (plan.Node, error) {
	return plan.RewriteNode(n, func(n plan.Node) plan.Node {
		return plan.MapExprs(n, func(e plan.Expr) plan.Expr { return plan.Rewrite(e, o.fold) })
	}), nil
}

// fold simplifies e, whose parts are folded.
func (o *Options) fold(e plan.Expr) plan.Expr {
	switch x := e.(type) {
	case *plan.Call:
		if y := foldLogic(x); y != e {
			return y
		}
		if _, ok := comparisons[x.Name]; ok && x.Name != "<=>" {
			for _, a := range x.Args {
				if d, ok := literal(a); ok && d.Null {
					return &plan.Literal{Value: schema.NullOf(schema.BooleanType)}
				}
			}
		}
		if y := unwrapDate(x); y != nil {
			return y
		}
		if o.Volatile != nil && o.Volatile(x) {
			return e
		}
		return o.evaluate(e, x.Args)
	case *plan.Cast:
		if x.Arg.Type().Equal(x.T) {
			return x.Arg
		}
		return o.evaluate(e, []plan.Expr{x.Arg})
	case *plan.Case:
		return foldCase(x)
	}
	return e
}

func (o *Options) evaluate(e plan.Expr, args []plan.Expr) plan.Expr {
	if o.Evaluator == nil {
		return e
	}
	for _, a := range args {
		if _, ok := a.(*plan.Literal); !ok {
			return e
		}
	}
	d, err := o.Evaluator.Eval(e)
	if err != nil {
		return e
	}
	return &plan.Literal{Value: d}
}

// foldLogic applies the laws of AND and OR that hold with NULLs too.
func foldLogic(c *plan.Call) plan.Expr {
	if len(c.Args) != 2 || c.Name != "and" && c.Name != "or" {
		return c
	}
	neutral := c.Name == "and" // true AND x = x, false OR x = x
	l, r := c.Args[0], c.Args[1]
	switch {
	case isBool(l, neutral), isBool(r, !neutral):
		return r
	case isBool(r, neutral), isBool(l, !neutral):
		return l
	}
	return c
}

// foldCase drops arms that are never taken and those behind one that always is.
func foldCase(c *plan.Case) plan.Expr {
	out := &plan.Case{Else: c.Else, T: c.T}
	for _, w := range c.Whens {
		if d, ok := literal(w.Cond); ok {
			if d.Null || d.I == 0 {
				continue
			}
			out.Else = w.Then
			break
		}
		out.Whens = append(out.Whens, w)
	}
	switch len(out.Whens) {
	case 0:
		return out.Else
	case len(c.Whens):
		return c
	}
	return out
}

// negations of comparisons. They hold with NULLs and with NaN, which is
// ordered above all numbers.
var negations = map[string]string{"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
	"isnull": "isnotnull", "isnotnull": "isnull"}

// positive returns e with NOT moved inwards (De Morgan, which holds in
// three-valued logic too).
func positive(e plan.Expr, not bool) plan.Expr {
	c, ok := e.(*plan.Call)
	if !ok {
		return negated(e, not)
	}
	switch {
	case c.Name == "not" && len(c.Args) == 1:
		return positive(c.Args[0], !not)
	case c.Name == "and" || c.Name == "or":
		name := c.Name
		if not {
			name = map[string]string{"and": "or", "or": "and"}[name]
		}
		args := make([]plan.Expr, len(c.Args))
		for i, a := range c.Args {
			args[i] = positive(a, not)
		}
		return &plan.Call{Name: name, Args: args, T: c.T}
	case not && negations[c.Name] != "":
		return &plan.Call{Name: negations[c.Name], Args: c.Args, T: c.T}
	}
	return negated(e, not)
}

func negated(e plan.Expr, not bool) plan.Expr {
	if !not {
		return e
	}
	if d, ok := literal(e); ok && !d.Null {
		return boolean(d.I == 0)
	}
	return &plan.Call{Name: "not", Args: []plan.Expr{e}, T: schema.BooleanType}
}
