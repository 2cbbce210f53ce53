package analyzer

import (
	"fmt"
	"maps"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

func (b *binder) call(x *ast.Call) (plan.Expr, error) {
	name := strings.ToLower(x.Name.Name)
	fs := b.a.o.Functions
	switch {
	case x.Over != nil:
		return b.windowCall(x, name)
	case fs.IsAggregate(name) || x.Within != nil:
		return b.aggregate(x, name)
	case fs.IsWindow(name):
		return nil, errorAt(x.Pos, fault.StateSyntax, "%s is a window function: write %s(..) OVER (..)", name, name)
	case x.Distinct:
		return nil, errorAt(x.Pos, fault.StateSyntax, "DISTINCT belongs into an aggregate function; %s is none", name)
	case x.Filter != nil:
		return nil, errorAt(x.Pos, fault.StateSyntax, "FILTER belongs behind an aggregate function; %s is none", name)
	case fs.IsTable(name) && !fs.Has(name):
		return nil, errorAt(x.Pos, fault.StateSyntax, "%s makes rows: it can only stand in LATERAL VIEW or as a column of the select list", name)
	case (name == "current_database" || name == "current_schema") && len(x.Args) == 0:
		return &plan.Literal{Value: schema.Datum{Type: schema.StringType, S: b.a.o.Database}}, nil
	}
	args, err := b.arguments(x)
	if err != nil {
		return nil, err
	}
	if name == groupingCall && b.aggs != nil {
		if len(args) == 0 {
			return nil, errorAt(x.Pos, fault.StateSyntax, "grouping wants the columns of GROUP BY that it is about")
		}
		return &plan.Call{Name: groupingCall, Args: args, T: schema.BigIntType}, nil
	}
	if t, ok := castFunctions[name]; ok && len(args) == 1 {
		return b.convert(x.Pos, args[0], t)
	}
	return b.function(x.Pos, name, args...)
}

// arguments binds the arguments of a scalar function: t.* and * stand for all columns.
func (b *binder) arguments(x *ast.Call) ([]plan.Expr, error) {
	var out []plan.Expr
	for _, arg := range x.Args {
		if star, ok := arg.(*ast.Star); ok {
			items, err := b.star(star, nil)
			if err != nil {
				return nil, err
			}
			for _, it := range items {
				out = append(out, it.e)
			}
			continue
		}
		e, err := b.bind(arg)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// castFormat binds CAST(x AS t FORMAT 'f').
func (b *binder) castFormat(x *ast.Cast, e plan.Expr) (plan.Expr, error) {
	if !b.a.o.Functions.Has("cast_format") {
		return nil, unsupported(x.Pos, "CAST .. FORMAT")
	}
	text := func(s string) plan.Expr {
		return &plan.Literal{Value: schema.Datum{Type: schema.StringType, S: s}}
	}
	return b.function(x.Pos, "cast_format", text(x.To.Type.String()), e, text(x.Format))
}

// aggregate binds a call of an aggregate function to a column that stands for it.
func (b *binder) aggregate(x *ast.Call, name string) (plan.Expr, error) {
	switch {
	case b.inAgg:
		return nil, errorAt(x.Pos, fault.StateSyntax, "%s stands inside another aggregate function", name)
	case b.outer != nil && b.outer.b.aggs != nil && b.foreign(x): // it is about the enclosing query's groups
		if e, err := b.outer.b.bind(x); err == nil {
			return b.outer.use(e, name), nil
		}
		fallthrough
	case b.aggs == nil:
		if b.aggs != nil {
			break
		}
		return nil, errorAt(x.Pos, fault.StateSyntax, "aggregate function %s can't stand in %s", name, b.what)
	}
	b.inAgg = true
	defer func() { b.inAgg = false }()
	agg, err := b.boundAggregate(x, name)
	if err != nil {
		return nil, err
	}
	agg.OutName = describeAgg(agg)
	return &plan.Column{Index: aggBase + b.aggs.add(agg), Name: agg.OutName, T: agg.T}, nil
}

// foreign reports whether an aggregate has columns, none of which is the query's own.
func (b *binder) foreign(x *ast.Call) bool {
	try := *b
	try.aggs, try.inAgg = nil, true
	outer := *b.outer
	outer.at = maps.Clone(outer.at)
	try.outer = &outer
	found, own := false, false
	for _, arg := range x.Args {
		if isStar(arg) {
			return false
		}
		e, err := try.bind(arg)
		if err != nil {
			return false
		}
		plan.Walk(e, func(p plan.Expr) {
			if c, ok := p.(*plan.Column); ok {
				found = true
				own = own || !isOuter(c)
			}
		})
	}
	return found && !own
}

// boundAggregate binds an aggregate function and its arguments; the name is not set.
func (b *binder) boundAggregate(x *ast.Call, name string) (plan.Agg, error) {
	agg := plan.Agg{Name: name, Distinct: x.Distinct}
	var err error
	switch {
	case len(x.Args) == 1 && isStar(x.Args[0]):
		if name != "count" || x.Distinct {
			return agg, errorAt(x.Args[0].Position(), fault.StateSyntax, "only count takes *, as in count(*)")
		}
	case len(x.Args) == 0 && x.Within == nil:
		return agg, errorAt(x.Pos, fault.StateSyntax, "%s wants an argument", name)
	default:
		if agg.Args, err = b.arguments(x); err != nil {
			return agg, err
		}
	}
	if x.Filter != nil {
		if agg.Filter, err = b.condition(x.Filter, "FILTER"); err != nil {
			return agg, err
		}
	}
	var sig function.AggregateSignature
	if x.Within != nil {
		n := len(agg.Args)
		for _, o := range x.Within {
			e, err := b.bind(o.X)
			if err != nil {
				return agg, err
			}
			k := b.a.sortKey(o)
			agg.Args = append(agg.Args, e)
			agg.Within = append(agg.Within, function.Direction{Desc: k.Desc, NullsLast: k.NullsLast})
		}
		sig, err = b.a.o.Functions.ResolveWithinGroup(name, typesOf(agg.Args[:n]), typesOf(agg.Args[n:]), agg.Within)
	} else {
		sig, err = b.a.o.Functions.ResolveAggregate(name, typesOf(agg.Args), x.Distinct)
	}
	if err != nil {
		return agg, At(x.Pos, err)
	}
	for i := range agg.Args {
		agg.Args[i] = castTo(agg.Args[i], sig.Args[i])
	}
	if name == "min" || name == "max" {
		agg.Distinct = false // the same answer for less work
	}
	if allConstant(agg.Args) && name == "count" && len(agg.Args) == 1 && !agg.Distinct && !isNull(agg.Args[0]) {
		agg.Args = nil // count(1) is count(*)
		if sig, err = b.a.o.Functions.ResolveAggregate(name, nil, false); err != nil {
			return agg, At(x.Pos, err)
		}
	}
	agg.T, agg.State, agg.Bound = sig.Result, sig.State, sig.Args
	return agg, nil
}

func isStar(x ast.Expr) bool {
	s, ok := x.(*ast.Star)
	return ok && len(s.Qualifier) == 0
}

func isNull(e plan.Expr) bool {
	l, ok := e.(*plan.Literal)
	return ok && l.Value.Null
}

func allConstant(es []plan.Expr) bool {
	for _, e := range es {
		if _, ok := e.(*plan.Literal); !ok {
			return false
		}
	}
	return true
}

func describeAgg(g plan.Agg) string {
	args := make([]string, len(g.Args))
	for i, e := range g.Args {
		args[i] = e.String()
	}
	text := strings.Join(args, ", ")
	switch {
	case len(args) == 0:
		text = "*"
	case g.Distinct:
		text = "DISTINCT " + text
	}
	out := fmt.Sprintf("%s(%s)", g.Name, text)
	if g.Filter != nil {
		out += " FILTER (WHERE " + g.Filter.String() + ")"
	}
	return out
}

// interval binds INTERVAL n unit: of a constant to a literal, of another expression to
// so many times one unit.
func (b *binder) interval(x *ast.Interval) (plan.Expr, error) {
	value := x.Value
	sign := ""
	if u, ok := value.(*ast.Unary); ok && u.Op == "-" {
		if _, literal := u.X.(*ast.Literal); literal {
			value, sign = u.X, "-"
		}
	}
	if l, ok := value.(*ast.Literal); ok && !l.Value.Null {
		d, ok := intervalOf(sign+l.Value.Text(), x.Unit)
		if !ok {
			return nil, errorAt(l.Pos, fault.StateSyntax, "'%s' is not an interval of %s", l.Value.Text(), strings.ToLower(x.Unit))
		}
		return &plan.Literal{Value: d}, nil
	}
	e, err := b.bind(x.Value)
	if err != nil {
		return nil, err
	}
	switch x.Unit {
	case "YEAR TO MONTH":
		return b.convert(x.Pos, e, schema.Type{Kind: schema.IntervalYearMonth})
	case "DAY TO SECOND":
		return b.convert(x.Pos, e, schema.Type{Kind: schema.IntervalDayTime})
	}
	if !b.a.o.Functions.Has("internal_interval") {
		return nil, unsupported(x.Pos, "INTERVAL of an expression")
	}
	return b.function(x.Pos, "internal_interval", &plan.Literal{Value: schema.Datum{Type: schema.StringType, S: strings.ToLower(x.Unit)}}, e)
}
