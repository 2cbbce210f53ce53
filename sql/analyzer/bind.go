package analyzer

import (
	"context"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// binder binds expressions to the columns of one scope.
type binder struct {
	a     *Analyzer
	ctx   context.Context
	env   *env // the common table expressions that sub-queries see
	scope *scope
	outer *outerQuery  // the enclosing query; nil: there is none
	what  string       // the clause, for messages
	aggs  *aggregation // nil: aggregates are not allowed here
	inAgg bool         // inside an aggregate's arguments
	wins  *windows     // nil: window functions are not allowed here
	inWin bool         // inside a window function's arguments
	// subs takes the sub-queries found, to be joined at stage; nil: not allowed.
	// Those inside aggregates are joined before the aggregation.
	subs  *subqueries
	stage stage
	// alias finds a select item by its name; before says that it is asked
	// before the scope (ORDER BY), else after it (HAVING).
	alias  func(name string) (plan.Expr, bool)
	before bool
	// grouped chooses, among columns of one name, the one that GROUP BY has.
	grouped func(columns []int) (*plan.Column, bool)
	// listed finds, for a window, a column of the select list before it.
	listed func(name string) (plan.Expr, bool)
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
		return b.calls(x.Pos, "index", x.Base, x.Index)
	case *ast.Subquery:
		return b.scalarQuery(x)
	case *ast.Exists:
		return b.existsQuery(x)
	case *ast.Quantified:
		return b.quantified(x)
	case *ast.Tuple: // Hive's (a, b) is a struct
		return b.calls(x.Pos, "struct", x.Parts...)
	case *ast.Param:
		return nil, unsupported(x.Pos, "parameters: ?")
	}
	return nil, fault.Bugf("analyzer: unknown expression %T", x)
}

func (b *binder) column(x *ast.Column) (plan.Expr, error) {
	if b.before && b.alias != nil && !b.inAgg && !b.inWin {
		if e, ok := b.alias(x.Name); ok {
			return e, nil
		}
	}
	found := b.scope.find("", "", x.Name)
	if len(found) > 1 && b.aggs != nil && b.grouped != nil && !b.inAgg {
		if c, ok := b.grouped(found); ok { // only one of them is a column of the groups
			return b.placed(c, x.Pos), nil
		}
	}
	if len(found) > 0 {
		c, err := b.scope.resolve(x.Pos, "", "", x.Name)
		if err != nil {
			return nil, err
		}
		return b.placed(c, x.Pos), nil
	}
	if b.aggs != nil && strings.EqualFold(x.Name, "grouping__id") {
		return &plan.Column{Index: groupID, Name: "grouping__id", T: schema.BigIntType}, nil
	}
	if !b.before && b.alias != nil && !b.inAgg {
		if e, ok := b.alias(x.Name); ok {
			return e, nil
		}
	}
	if b.inWin && b.listed != nil {
		if e, ok := b.listed(x.Name); ok {
			return e, nil
		}
	}
	_, err := b.scope.resolve(x.Pos, "", "", x.Name)
	if b.outer != nil {
		if e, outerErr := b.outer.b.bind(x); outerErr == nil {
			return b.outer.use(e, x.Name), nil
		}
	}
	if len(b.scope.cols) == 0 {
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

// field resolves table.column, database.table.column and fields of structs.
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
	switch {
	case table != "" && b.scope.hasTable(database, table) && len(b.scope.find(database, table, x.Name)) > 0:
		c, err := b.scope.resolve(x.Pos, database, table, x.Name)
		if err != nil {
			return nil, err
		}
		return b.placed(c, x.Pos), nil
	case table != "" && b.outer != nil && !b.scope.hasTable(database, table):
		if e, err := b.outer.b.bind(x); err == nil {
			return b.outer.use(e, x.Name), nil
		}
	}
	if c, ok := x.Base.(*ast.Column); ok && len(b.scope.find("", "", c.Name)) == 0 {
		if b.scope.hasTable("", c.Name) {
			_, err := b.scope.resolve(x.Pos, "", c.Name, x.Name)
			return nil, err
		}
		return nil, unknownTable(c.Pos, c.Name, b.scope.tables())
	}
	if f, ok := x.Base.(*ast.Field); ok && database != "" && len(b.scope.find("", "", database)) == 0 && !b.scope.hasTable("", database) {
		return nil, unknownTable(f.Position(), database+"."+table, b.scope.tables())
	}
	base, err := b.bind(x.Base)
	if err != nil {
		return nil, err
	}
	return member(x.Pos, base, x.Name)
}

// member is a field of a struct; of an array of structs, the array of the fields.
func member(pos ast.Pos, base plan.Expr, name string) (plan.Expr, error) {
	t := base.Type()
	inner := t
	if t.Kind == schema.Array && t.Nested != nil {
		inner = t.Nested.Fields[0].Type
	}
	if inner.Kind != schema.Struct || inner.Nested == nil {
		return nil, errorAt(pos, fault.StateSyntax, "%s has no field %s: it is %s and not a struct", base, name, t)
	}
	var names []string
	for i, f := range inner.Nested.Fields {
		if !strings.EqualFold(f.Name, name) {
			names = append(names, f.Name)
			continue
		}
		out := f.Type
		if t.Kind == schema.Array {
			out = schema.Type{Kind: schema.Array, Nested: &schema.Nested{Fields: []schema.Field{{Name: t.Nested.Fields[0].Name, Type: f.Type}}}}
		}
		return &plan.Member{Base: base, Index: i, Name: f.Name, T: out}, nil
	}
	return nil, unknownColumn(pos, name, names, base.String())
}

// function applies a scalar function to bound arguments.
func (b *binder) function(pos ast.Pos, name string, args ...plan.Expr) (plan.Expr, error) {
	sig, err := b.a.o.Functions.Resolve(name, typesOf(args), plan.Constants(args)...)
	if err != nil {
		folded, changed := b.folded(args)
		if !changed {
			return nil, At(pos, err)
		}
		if sig, err = b.a.o.Functions.Resolve(name, typesOf(folded), plan.Constants(folded)...); err != nil {
			return nil, At(pos, err)
		}
		args = folded
	}
	cast := make([]plan.Expr, len(args))
	for i, x := range args {
		cast[i] = castTo(x, sig.Args[i])
	}
	return b.sized(pos, &plan.Call{Name: name, Args: cast, T: sig.Result})
}

// folded computes the arguments that are constant, for functions that want literals.
func (b *binder) folded(args []plan.Expr) (out []plan.Expr, changed bool) {
	out = append(out, args...)
	for i, e := range args {
		if _, literal := e.(*plan.Literal); literal || b.a.o.Constant == nil || hasColumns(e) {
			continue
		}
		if d, ok := b.a.o.Constant(e); ok {
			out[i], changed = &plan.Literal{Value: d}, true
		}
	}
	return out, changed
}

func typesOf(args []plan.Expr) []schema.Type {
	types := make([]schema.Type, len(args))
	for i, x := range args {
		types[i] = x.Type()
	}
	return types
}

// bindAll binds a list.
func (b *binder) bindAll(xs []ast.Expr) ([]plan.Expr, error) {
	out := make([]plan.Expr, len(xs))
	for i, x := range xs {
		var err error
		if out[i], err = b.bind(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// calls binds the arguments and applies a function.
func (b *binder) calls(pos ast.Pos, name string, args ...ast.Expr) (plan.Expr, error) {
	bound, err := b.bindAll(args)
	if err != nil {
		return nil, err
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
		return b.inQuery(x)
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
	e, err := b.bind(x.X)
	if err != nil {
		return nil, err
	}
	if x.Format != "" {
		return b.castFormat(x, e)
	}
	return b.convert(x.Pos, e, x.To.Type)
}

// convert makes an explicit cast.
func (b *binder) convert(pos ast.Pos, e plan.Expr, t schema.Type) (plan.Expr, error) {
	if unit := intervalUnits[t.Kind]; unit != "" && e.Type().IsText() && b.a.o.Constant != nil && !hasColumns(e) {
		if d, ok := b.a.o.Constant(e); ok && !d.Null {
			if v, ok := intervalOf(d.S, unit); ok {
				return &plan.Literal{Value: v}, nil
			}
			return &plan.Literal{Value: schema.NullOf(t)}, nil
		}
	}
	if _, ok := function.Cast(e.Type(), t); !ok && !e.Type().Equal(t) && e.Type().Kind != schema.Void {
		return nil, errorAt(pos, fault.StateSyntax, "%s can't be cast to %s", e.Type(), t)
	}
	return castTo(e, t), nil
}

// intervalUnits are the units in which text is read as an interval.
var intervalUnits = map[schema.Kind]string{schema.IntervalYearMonth: "YEAR TO MONTH", schema.IntervalDayTime: "DAY TO SECOND"}

// castFunctions are the functions that are casts: int(x), string(x).
var castFunctions = map[string]schema.Type{
	"boolean": schema.BooleanType, "tinyint": schema.TinyIntType, "smallint": schema.SmallIntType, "int": schema.IntType,
	"bigint": schema.BigIntType, "float": schema.FloatType, "double": schema.DoubleType, "string": schema.StringType,
	"binary": schema.BinaryType, "date": schema.DateType, "timestamp": schema.TimestampType, "real": schema.FloatType,
	"interval_year_month": {Kind: schema.IntervalYearMonth}, "interval_day_time": {Kind: schema.IntervalDayTime},
}
