package analyzer

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// aggBase is the first column index that stands for an aggregate: while an
// expression is bound over the input of an aggregation, its j-th aggregate is
// the column aggBase+j. aggregation.rewrite replaces these columns.
const aggBase = 1 << 30

// binder binds expressions to the columns of one scope.
type binder struct {
	a     *Analyzer
	scope *scope
	what  string       // the clause, for messages
	aggs  *aggregation // nil: aggregates are not allowed here
	inAgg bool         // inside an aggregate's arguments
	// alias finds a select item by its name; before says that it is asked
	// before the scope (ORDER BY), else after it (HAVING).
	alias  func(name string) (plan.Expr, bool)
	before bool
	// places of bound columns, for messages of aggregation.rewrite.
	places map[*plan.Column]ast.Pos
	sizes  map[plan.Expr]int // nodes in bound expressions
}

// maxSize is how many nodes a bound expression may have. BETWEEN and CASE use
// their operand more than once, so that nesting them multiplies.
const maxSize = 200_000

// sized returns e, or an error if it is too large.
func (b *binder) sized(pos ast.Pos, e plan.Expr) (plan.Expr, error) {
	if b.sizes == nil {
		b.sizes = map[plan.Expr]int{}
	}
	if b.size(e) > maxSize {
		return nil, errorAt(pos, fault.StateSyntax, "the expression is too large: more than %d operators once BETWEEN and CASE are written out", maxSize)
	}
	return e, nil
}

func (b *binder) size(e plan.Expr) int {
	if n, ok := b.sizes[e]; ok {
		return n
	}
	n := 1
	plan.EachChild(e, func(x plan.Expr) { n = min(n+b.size(x), maxSize+1) })
	b.sizes[e] = n
	return n
}

// bind returns the typed form of x.
func (b *binder) bind(x ast.Expr) (plan.Expr, error) {
	switch x := x.(type) {
	case *ast.Literal:
		return &plan.Literal{Value: x.Value}, nil
	case *ast.Column:
		return b.column(x)
	case *ast.Field:
		return b.field(x)
	case *ast.Unary:
		return b.unary(x)
	case *ast.Binary:
		return b.binary(x)
	case *ast.Between:
		return b.between(x)
	case *ast.In:
		return b.in(x)
	case *ast.Like:
		return b.like(x)
	case *ast.Is:
		return b.is(x)
	case *ast.Distinct:
		same, err := b.calls(x.Pos, "<=>", x.L, x.R)
		return b.negate(x.Pos, same, err, !x.Not)
	case *ast.Case:
		return b.caseExpr(x)
	case *ast.Cast:
		return b.cast(x)
	case *ast.Call:
		return b.call(x)
	case *ast.Interval:
		return b.interval(x)
	case *ast.Star:
		return nil, errorAt(x.Pos, fault.StateSyntax, "* can't stand here: only in a select list or count(*)")
	case *ast.Index:
		return nil, unsupported(x.Pos, "elements of arrays and maps: x[i]")
	case *ast.Subquery:
		return nil, unsupported(x.Pos, "sub-queries as values")
	case *ast.Exists:
		return nil, unsupported(x.Pos, "EXISTS")
	case *ast.Quantified:
		return nil, unsupported(x.Pos, "comparisons with ANY|ALL (query)")
	case *ast.Tuple:
		return nil, unsupported(x.Pos, "row values: (a, b)")
	case *ast.Param:
		return nil, unsupported(x.Pos, "parameters: ?")
	}
	return nil, fault.Bugf("analyzer: unknown expression %T", x)
}

func (b *binder) column(x *ast.Column) (plan.Expr, error) {
	if b.before && b.alias != nil && !b.inAgg {
		if e, ok := b.alias(x.Name); ok {
			return e, nil
		}
	}
	c, err := b.scope.resolve(x.Pos, "", "", x.Name)
	if err == nil {
		return b.placed(c, x.Pos), nil
	}
	if !b.before && b.alias != nil && !b.inAgg && len(b.scope.find("", "", x.Name)) == 0 {
		if e, ok := b.alias(x.Name); ok {
			return e, nil
		}
	}
	if len(b.scope.cols) == 0 && fault.StateOf(err) == fault.StateUnknownCol {
		return nil, errorAt(x.Pos, fault.StateUnknownCol, "unknown column %s: %s has no table to take it from", x.Name, b.what)
	}
	return nil, err
}

func (b *binder) placed(c *plan.Column, pos ast.Pos) *plan.Column {
	if b.places != nil {
		b.places[c] = pos
	}
	return c
}

// field resolves table.column and database.table.column.
func (b *binder) field(x *ast.Field) (plan.Expr, error) {
	var database, table string
	switch base := x.Base.(type) {
	case *ast.Column:
		table = base.Name
	case *ast.Field:
		if outer, ok := base.Base.(*ast.Column); ok {
			database, table = outer.Name, base.Name
		}
	}
	if table == "" || !b.scope.hasTable(database, table) {
		if c, ok := x.Base.(*ast.Column); ok && len(b.scope.find("", "", c.Name)) == 0 {
			return nil, unknownTable(c.Pos, c.Name, b.scope.tables())
		}
		if database != "" {
			return nil, unknownTable(x.Base.Position(), database+"."+table, b.scope.tables())
		}
		return nil, unsupported(x.Pos, "fields of structs")
	}
	c, err := b.scope.resolve(x.Pos, database, table, x.Name)
	if err != nil {
		return nil, err
	}
	return b.placed(c, x.Pos), nil
}

// function applies a scalar function to bound arguments.
func (b *binder) function(pos ast.Pos, name string, args ...plan.Expr) (plan.Expr, error) {
	types := make([]schema.Type, len(args))
	for i, x := range args {
		types[i] = x.Type()
	}
	sig, err := b.a.o.Functions.Resolve(name, types, plan.Constants(args)...)
	if err != nil {
		return nil, At(pos, err)
	}
	cast := make([]plan.Expr, len(args))
	for i, x := range args {
		cast[i] = castTo(x, sig.Args[i])
	}
	return b.sized(pos, &plan.Call{Name: name, Args: cast, T: sig.Result})
}

// calls binds the arguments and applies a function.
func (b *binder) calls(pos ast.Pos, name string, args ...ast.Expr) (plan.Expr, error) {
	bound := make([]plan.Expr, len(args))
	for i, x := range args {
		var err error
		if bound[i], err = b.bind(x); err != nil {
			return nil, err
		}
	}
	return b.function(pos, name, bound...)
}

// negate returns NOT e where not; it passes err on.
func (b *binder) negate(pos ast.Pos, e plan.Expr, err error, not bool) (plan.Expr, error) {
	if err != nil || !not {
		return e, err
	}
	return b.function(pos, "not", e)
}

func (b *binder) unary(x *ast.Unary) (plan.Expr, error) {
	switch x.Op {
	case "-":
		return b.calls(x.Pos, "negative", x.X)
	case "+":
		return b.calls(x.Pos, "positive", x.X)
	}
	return b.calls(x.Pos, x.Op, x.X)
}

// binary binds chains of one operator without recursion on the left: a
// generated a OR b OR .. may be long.
func (b *binder) binary(x *ast.Binary) (plan.Expr, error) {
	var spine []*ast.Binary
	var left ast.Expr = x
	for {
		l, ok := left.(*ast.Binary)
		if !ok {
			break
		}
		spine = append(spine, l)
		left = l.L
	}
	out, err := b.bind(left)
	if err != nil {
		return nil, err
	}
	for i := len(spine) - 1; i >= 0; i-- {
		right, err := b.bind(spine[i].R)
		if err != nil {
			return nil, err
		}
		name := spine[i].Op
		if name == "||" {
			name = "concat"
		}
		if out, err = b.function(spine[i].Pos, name, out, right); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// between is x >= low AND x <= high.
func (b *binder) between(x *ast.Between) (plan.Expr, error) {
	var parts [3]plan.Expr
	for i, part := range [...]ast.Expr{x.X, x.Low, x.High} {
		var err error
		if parts[i], err = b.bind(part); err != nil {
			return nil, err
		}
	}
	low, err := b.function(x.Pos, ">=", parts[0], parts[1])
	if err != nil {
		return nil, err
	}
	high, err := b.function(x.Pos, "<=", parts[0], parts[2])
	if err != nil {
		return nil, err
	}
	both, err := b.function(x.Pos, "and", low, high)
	return b.negate(x.Pos, both, err, x.Not)
}

func (b *binder) in(x *ast.In) (plan.Expr, error) {
	if x.Query != nil {
		return nil, unsupported(x.Pos, "IN (query)")
	}
	in, err := b.calls(x.Pos, "in", append([]ast.Expr{x.X}, x.List...)...)
	return b.negate(x.Pos, in, err, x.Not)
}

func (b *binder) like(x *ast.Like) (plan.Expr, error) {
	subject, err := b.bind(x.X)
	if err != nil {
		return nil, err
	}
	var out plan.Expr
	for _, p := range x.Patterns {
		pattern, err := b.bind(p)
		if err != nil {
			return nil, err
		}
		one, err := b.function(x.Pos, x.Op, subject, pattern)
		switch {
		case err != nil:
			return nil, err
		case out == nil:
			out = one
			continue
		}
		op := "or"
		if x.Quantifier == "all" {
			op = "and"
		}
		if out, err = b.function(x.Pos, op, out, one); err != nil {
			return nil, err
		}
	}
	return b.negate(x.Pos, out, nil, x.Not)
}

// is binds IS [NOT] NULL|UNKNOWN; x IS TRUE is x <=> true.
func (b *binder) is(x *ast.Is) (plan.Expr, error) {
	switch x.What {
	case "null", "unknown":
		name := "isnull"
		if x.Not {
			name = "isnotnull"
		}
		return b.calls(x.Pos, name, x.X)
	}
	value := schema.Datum{Type: schema.BooleanType}
	if x.What == "true" {
		value.I = 1
	}
	same, err := b.calls(x.Pos, "<=>", x.X, &ast.Literal{Pos: x.Pos, Value: value})
	return b.negate(x.Pos, same, err, x.Not)
}

// caseExpr binds both forms of CASE: CASE x WHEN v is CASE WHEN x = v.
func (b *binder) caseExpr(x *ast.Case) (plan.Expr, error) {
	out := &plan.Case{T: schema.VoidType, Else: &plan.Literal{Value: schema.NullOf(schema.VoidType)}}
	var operand plan.Expr
	var err error
	if x.Operand != nil {
		if operand, err = b.bind(x.Operand); err != nil {
			return nil, err
		}
	}
	merge := func(pos ast.Pos, t schema.Type) error {
		u, ok := function.UnionType(out.T, t)
		if !ok {
			return errorAt(pos, fault.StateSyntax, "the results of CASE are %s and %s, which have no common type", out.T, t)
		}
		out.T = u
		return nil
	}
	for _, w := range x.Whens {
		var cond plan.Expr
		if operand == nil {
			cond, err = b.condition(w.Cond, "WHEN")
		} else if cond, err = b.bind(w.Cond); err == nil {
			cond, err = b.function(w.Cond.Position(), "=", operand, cond)
		}
		if err != nil {
			return nil, err
		}
		then, err := b.bind(w.Then)
		if err != nil {
			return nil, err
		}
		if err := merge(w.Then.Position(), then.Type()); err != nil {
			return nil, err
		}
		out.Whens = append(out.Whens, plan.When{Cond: cond, Then: then})
	}
	if x.Else != nil {
		if out.Else, err = b.bind(x.Else); err != nil {
			return nil, err
		}
		if err := merge(x.Else.Position(), out.Else.Type()); err != nil {
			return nil, err
		}
	}
	for i := range out.Whens {
		out.Whens[i].Then = castTo(out.Whens[i].Then, out.T)
	}
	out.Else = castTo(out.Else, out.T)
	return b.sized(x.Pos, out)
}

func (b *binder) cast(x *ast.Cast) (plan.Expr, error) {
	if x.Format != "" {
		return nil, unsupported(x.Pos, "CAST .. FORMAT")
	}
	e, err := b.bind(x.X)
	if err != nil {
		return nil, err
	}
	return b.convert(x.Pos, e, x.To.Type)
}

// convert makes an explicit cast.
func (b *binder) convert(pos ast.Pos, e plan.Expr, t schema.Type) (plan.Expr, error) {
	if !t.IsPrimitive() && t.Kind != schema.Void {
		return nil, unsupported(pos, "CAST to "+t.String())
	}
	if _, ok := function.Cast(e.Type(), t); !ok && !e.Type().Equal(t) && e.Type().Kind != schema.Void {
		return nil, errorAt(pos, fault.StateSyntax, "%s can't be cast to %s", e.Type(), t)
	}
	return castTo(e, t), nil
}

// castFunctions are the functions that are casts: int(x), string(x).
var castFunctions = map[string]schema.Type{
	"boolean": schema.BooleanType, "tinyint": schema.TinyIntType, "smallint": schema.SmallIntType, "int": schema.IntType,
	"bigint": schema.BigIntType, "float": schema.FloatType, "double": schema.DoubleType, "string": schema.StringType,
	"binary": schema.BinaryType, "date": schema.DateType, "timestamp": schema.TimestampType,
}

func (b *binder) call(x *ast.Call) (plan.Expr, error) {
	name := strings.ToLower(x.Name.Name)
	switch {
	case x.Over != nil:
		return nil, unsupported(x.Over.Pos, "window functions: "+name+"(..) OVER")
	case x.Within != nil:
		return nil, unsupported(x.Pos, name+"(..) WITHIN GROUP")
	case b.a.o.Functions.IsAggregate(name):
		return b.aggregate(x, name)
	case x.Distinct:
		return nil, errorAt(x.Pos, fault.StateSyntax, "DISTINCT belongs into an aggregate function; %s is none", name)
	case (name == "current_database" || name == "current_schema") && len(x.Args) == 0:
		return &plan.Literal{Value: schema.Datum{Type: schema.StringType, S: b.a.o.Database}}, nil
	}
	args := make([]plan.Expr, len(x.Args))
	for i, arg := range x.Args {
		var err error
		if args[i], err = b.bind(arg); err != nil {
			return nil, err
		}
	}
	if t, ok := castFunctions[name]; ok && len(args) == 1 {
		return b.convert(x.Pos, args[0], t)
	}
	return b.function(x.Pos, name, args...)
}

// aggregate binds a call of an aggregate function to a column that stands for it.
func (b *binder) aggregate(x *ast.Call, name string) (plan.Expr, error) {
	switch {
	case b.inAgg:
		return nil, errorAt(x.Pos, fault.StateSyntax, "%s stands inside another aggregate function", name)
	case b.aggs == nil:
		return nil, errorAt(x.Pos, fault.StateSyntax, "aggregate function %s can't stand in %s", name, b.what)
	}
	b.inAgg = true
	defer func() { b.inAgg = false }()
	agg := plan.Agg{Name: name, Distinct: x.Distinct}
	var types []schema.Type
	if len(x.Args) == 1 && isStar(x.Args[0]) {
		if name != "count" || x.Distinct {
			return nil, errorAt(x.Args[0].Position(), fault.StateSyntax, "only count takes *, as in count(*)")
		}
	} else {
		for _, arg := range x.Args {
			e, err := b.bind(arg)
			if err != nil {
				return nil, err
			}
			agg.Args = append(agg.Args, e)
			types = append(types, e.Type())
		}
		if len(x.Args) == 0 {
			return nil, errorAt(x.Pos, fault.StateSyntax, "%s wants an argument", name)
		}
	}
	sig, err := b.a.o.Functions.ResolveAggregate(name, types, x.Distinct)
	if err != nil {
		return nil, At(x.Pos, err)
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
			return nil, At(x.Pos, err)
		}
	}
	agg.T, agg.State, agg.Bound = sig.Result, sig.State, sig.Args
	agg.OutName = describeAgg(agg)
	return &plan.Column{Index: aggBase + b.aggs.add(agg), Name: agg.OutName, T: agg.T}, nil
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
	return fmt.Sprintf("%s(%s)", g.Name, text)
}

// interval binds INTERVAL n unit of a constant to a literal.
func (b *binder) interval(x *ast.Interval) (plan.Expr, error) {
	l, ok := x.Value.(*ast.Literal)
	if !ok || l.Value.Null {
		return nil, unsupported(x.Pos, "INTERVAL of an expression")
	}
	d, ok := intervalOf(l.Value.Text(), x.Unit)
	if !ok {
		return nil, errorAt(l.Pos, fault.StateSyntax, "'%s' is not an interval of %s", l.Value.Text(), strings.ToLower(x.Unit))
	}
	return &plan.Literal{Value: d}, nil
}
