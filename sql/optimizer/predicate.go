package optimizer

import (
	"math"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

var comparisons = map[string]storage.Op{"=": storage.Eq, "<=>": storage.Eq, "<>": storage.Ne, "<": storage.Lt, "<=": storage.Le, ">": storage.Gt, ">=": storage.Ge}

// flipped has the operator with its sides exchanged.
var flipped = [...]storage.Op{storage.Eq: storage.Eq, storage.Ne: storage.Ne, storage.Lt: storage.Gt, storage.Le: storage.Ge, storage.Gt: storage.Lt, storage.Ge: storage.Le}

// toPredicate returns e as a predicate of the store: one that is true for
// exactly the rows for which e is. Only comparisons in the column's own type
// and order qualify; a cast of the column may be undone where every value
// survives it and the literal fits the column's type exactly.
func toPredicate(s *Source, e plan.Expr) (storage.Predicate, bool) {
	if s.Table.Partitioned && s.usesPartitions(e) {
		return nil, false // the store doesn't have their values
	}
	switch e := e.(type) {
	case *plan.Column:
		if e.T.Kind == schema.Boolean {
			return &storage.Compare{Column: s.Columns[e.Index].ID, Op: storage.Eq, Value: schema.Datum{Type: schema.BooleanType, I: 1}}, true
		}
	case *plan.Call:
		return callPredicate(s, e)
	}
	return nil, false
}

func callPredicate(s *Source, c *plan.Call) (storage.Predicate, bool) {
	switch c.Name {
	case "and", "or":
		var parts []storage.Predicate
		for _, a := range c.Args {
			p, ok := toPredicate(s, a)
			if !ok {
				return nil, false
			}
			switch q := p.(type) {
			case storage.And:
				if c.Name == "and" {
					parts = append(parts, q...)
					continue
				}
			case storage.Or:
				if c.Name == "or" {
					parts = append(parts, q...)
					continue
				}
			}
			parts = append(parts, p)
		}
		if c.Name == "and" {
			return storage.And(parts), true
		}
		return storage.Or(parts), true
	case "not":
		return notPredicate(s, c.Args[0])
	case "isnull", "isnotnull":
		if col, ok := c.Args[0].(*plan.Column); ok {
			return &storage.IsNull{Column: s.Columns[col.Index].ID, Not: c.Name == "isnotnull"}, true
		}
	case "in":
		return inPredicate(s, c.Args)
	case "like":
		return likePredicate(s, c.Args)
	}
	op, ok := comparisons[c.Name]
	if !ok || len(c.Args) != 2 {
		return nil, false
	}
	l, r := c.Args[0], c.Args[1]
	if _, isLiteral := literal(l); isLiteral {
		l, r, op = r, l, flipped[op]
	}
	value, isLiteral := literal(r)
	if !isLiteral {
		return nil, false
	}
	col := peel(l)
	switch {
	case col == nil:
		return nil, false
	case value.Null && c.Name == "<=>":
		if _, bare := l.(*plan.Column); bare {
			return &storage.IsNull{Column: s.Columns[col.Index].ID}, true
		}
		return nil, false
	case value.Null:
		return nil, false
	}
	v, ok := intoColumn(value, col.T, l.Type())
	if !ok {
		return nil, false
	}
	return &storage.Compare{Column: s.Columns[col.Index].ID, Op: op, Value: v}, true
}

// notPredicate handles what positive leaves below NOT: a boolean column, IN.
func notPredicate(s *Source, e plan.Expr) (storage.Predicate, bool) {
	switch e := e.(type) {
	case *plan.Column:
		if e.T.Kind == schema.Boolean {
			return &storage.Compare{Column: s.Columns[e.Index].ID, Op: storage.Eq, Value: schema.Datum{Type: schema.BooleanType}}, true
		}
	case *plan.Call:
		if e.Name != "in" || len(e.Args) > 17 {
			return nil, false
		}
		p, ok := inPredicate(s, e.Args)
		if !ok {
			return nil, false
		}
		for _, a := range e.Args[1:] {
			if d, _ := literal(a); d.Null { // x NOT IN (.., NULL) is never true
				return nil, false
			}
		}
		in, isList := p.(*storage.In)
		if !isList {
			eq := p.(*storage.Compare)
			return &storage.Compare{Column: eq.Column, Op: storage.Ne, Value: eq.Value}, true
		}
		var parts storage.And
		for _, v := range in.Values {
			parts = append(parts, &storage.Compare{Column: in.Column, Op: storage.Ne, Value: v})
		}
		return parts, true
	}
	return nil, false
}

// inPredicate converts x IN (..). NULLs in the list never make it true.
func inPredicate(s *Source, args []plan.Expr) (storage.Predicate, bool) {
	col := peel(args[0])
	if col == nil {
		return nil, false
	}
	in := &storage.In{Column: s.Columns[col.Index].ID}
	for _, a := range args[1:] {
		d, ok := literal(a)
		if !ok {
			return nil, false
		}
		if d.Null {
			continue
		}
		v, ok := intoColumn(d, col.T, args[0].Type())
		if !ok {
			return nil, false
		}
		in.Values = append(in.Values, v)
	}
	switch len(in.Values) {
	case 0:
		return nil, false
	case 1:
		return &storage.Compare{Column: in.Column, Op: storage.Eq, Value: in.Values[0]}, true
	}
	return in, true
}

// likePredicate converts LIKE 'text' to an equality and LIKE 'prefix%' to a
// range; other patterns stay filters.
func likePredicate(s *Source, args []plan.Expr) (storage.Predicate, bool) {
	if len(args) != 2 {
		return nil, false
	}
	col, ok := args[0].(*plan.Column)
	pattern, isLiteral := literal(args[1])
	if !ok || col.T.Kind != schema.String || !isLiteral || pattern.Null {
		return nil, false
	}
	var prefix strings.Builder
	rest := pattern.S
	for rest != "" && rest[0] != '%' && rest[0] != '_' {
		if rest[0] == '\\' {
			if len(rest) < 2 || rest[1] != '%' && rest[1] != '_' {
				return nil, false
			}
			rest = rest[1:]
		}
		prefix.WriteByte(rest[0])
		rest = rest[1:]
	}
	id := s.Columns[col.Index].ID
	text := func(s string) schema.Datum { return schema.Datum{Type: schema.StringType, S: s} }
	switch {
	case rest == "":
		return &storage.Compare{Column: id, Op: storage.Eq, Value: text(prefix.String())}, true
	case strings.Trim(rest, "%") != "":
		return nil, false
	case prefix.Len() == 0:
		return &storage.IsNull{Column: id, Not: true}, true
	}
	low := &storage.Compare{Column: id, Op: storage.Ge, Value: text(prefix.String())}
	end := prefixEnd([]byte(prefix.String()))
	if end == nil {
		return low, true
	}
	return storage.And{low, &storage.Compare{Column: id, Op: storage.Lt, Value: text(string(end))}}, true
}

// peel returns the column of e: e itself, or below one cast.
func peel(e plan.Expr) *plan.Column {
	if c, ok := e.(*plan.Cast); ok {
		e = c.Arg
	}
	c, _ := e.(*plan.Column)
	return c
}

// intoColumn converts a literal that is compared in type as (the column's own
// type, or that of a cast of it) into the column's type, if that changes the
// outcome of no comparison.
func intoColumn(d schema.Datum, col, as schema.Type) (schema.Datum, bool) {
	if !d.Type.Equal(as) && !(d.Type.IsText() && as.IsText()) {
		return d, false
	}
	if isNaN(d) {
		return d, false
	}
	if col.Equal(as) {
		d.Type = col
		return d, col.Kind != schema.Char
	}
	if col.Kind == schema.Varchar && as.Kind == schema.String {
		d.Type = col
		return d, utf8.RuneCountInString(d.S) <= int(col.Length)
	}
	if !col.IsNumeric() || !as.IsNumeric() {
		return d, false
	}
	r, ok := rational(d)
	if !ok || !survives(col, as, r) {
		return d, false
	}
	return fromRational(r, col)
}

func isNaN(d schema.Datum) bool {
	return (d.Type.Kind == schema.Float || d.Type.Kind == schema.Double) && math.IsNaN(d.F)
}

// survives reports whether casting values of type col to type as keeps them
// apart and in order around the value r.
func survives(col, as schema.Type, r *big.Rat) bool {
	below := func(bits uint) bool { // |r| < 2^bits: a float with so many bits of mantissa is exact there
		limit := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), bits))
		return new(big.Rat).Abs(r).Cmp(limit) < 0
	}
	switch {
	case col.IsInteger() && as.IsInteger():
		return as.Kind > col.Kind
	case col.IsInteger() && as.Kind == schema.Decimal:
		digits := map[schema.Kind]uint8{schema.TinyInt: 3, schema.SmallInt: 5, schema.Int: 10, schema.BigInt: 19}[col.Kind]
		return as.Precision-as.Scale >= digits
	case col.IsInteger() && as.Kind == schema.Double:
		return col.Kind != schema.BigInt || below(53)
	case col.IsInteger() && as.Kind == schema.Float:
		return below(24)
	case col.Kind == schema.Float && as.Kind == schema.Double:
		return true
	case col.Kind == schema.Decimal && as.Kind == schema.Decimal:
		return as.Scale >= col.Scale && as.Precision-as.Scale >= col.Precision-col.Scale
	case col.Kind == schema.Decimal && as.Kind == schema.Double:
		return col.Precision <= 15 // a double holds 15 decimal digits
	}
	return false
}

// rational returns the exact value of a number.
func rational(d schema.Datum) (*big.Rat, bool) {
	switch {
	case d.Type.IsInteger():
		return new(big.Rat).SetInt64(d.I), true
	case d.Type.Kind == schema.Decimal:
		ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Type.Scale)), nil)
		return new(big.Rat).SetFrac(d.D.BigInt(), ten), true
	case d.Type.Kind == schema.Float, d.Type.Kind == schema.Double:
		r := new(big.Rat).SetFloat64(d.F)
		return r, r != nil
	}
	return nil, false
}

var intBits = map[schema.Kind]uint{schema.TinyInt: 8, schema.SmallInt: 16, schema.Int: 32, schema.BigInt: 64}

// fromRational returns r as a value of a numeric type, if it is one exactly.
func fromRational(r *big.Rat, t schema.Type) (schema.Datum, bool) {
	out := schema.Datum{Type: t}
	switch {
	case t.IsInteger():
		if !r.IsInt() || !r.Num().IsInt64() {
			return out, false
		}
		out.I = r.Num().Int64()
		limit := int64(1) << (intBits[t.Kind] - 1) // overflows to the lowest bigint, on purpose
		return out, t.Kind == schema.BigInt || out.I >= -limit && out.I < limit
	case t.Kind == schema.Decimal:
		ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale)), nil)
		scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt(ten))
		if !scaled.IsInt() || scaled.Num().BitLen() > 126 {
			return out, false
		}
		out.D = decimal128.FromBigInt(scaled.Num())
		return out, schema.FitsPrecision(out.D, int(t.Precision))
	case t.Kind == schema.Float:
		f, exact := r.Float32()
		out.F = float64(f)
		return out, exact
	case t.Kind == schema.Double:
		var exact bool
		out.F, exact = r.Float64()
		return out, exact
	}
	return out, false
}
