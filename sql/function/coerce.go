package function

import "github.com/skepdb/skep/schema"

// Decimal limits of Hive.
const (
	maxPrecision = 38
	maxScale     = 38
	// minAdjustedScale is what is left of the scale when a result needs more
	// than 38 digits (GenericUDFBaseNumeric.adjustPrecScale).
	minAdjustedScale = 6
)

// CommonType returns the type in which values of types a and b are compared
// (=, <, IN, BETWEEN, join keys), and false when they can't be: Hive's
// FunctionRegistry.getCommonClassForComparison. Text against a number compares
// as double, text against a date or timestamp as that.
func CommonType(a, b schema.Type) (schema.Type, bool) {
	if t, ok := sameFamily(a, b); ok {
		return t, true
	}
	switch {
	case a.IsText() && isDateTime(b):
		return b, true
	case isDateTime(a) && b.IsText():
		return a, true
	case a.IsText() && b.IsNumeric(), a.IsNumeric() && b.IsText():
		return schema.DoubleType, true
	case a.IsNumeric() && b.Kind == schema.Timestamp, a.Kind == schema.Timestamp && b.IsNumeric():
		return schema.DoubleType, true
	case a.IsText() && b.Kind == schema.Boolean, a.Kind == schema.Boolean && b.IsText(),
		a.IsText() && b.Kind == schema.Binary, a.Kind == schema.Binary && b.IsText():
		return schema.StringType, true
	}
	return nestedType(CommonType, a, b)
}

// UnionType returns the type that can hold values of a and b in one column
// (CASE, IF, COALESCE, UNION, VALUES), and false when there is none: Hive's
// FunctionRegistry.getCommonClass. It differs from CommonType where text meets
// something else: the result is string.
func UnionType(a, b schema.Type) (schema.Type, bool) {
	if t, ok := sameFamily(a, b); ok {
		return t, true
	}
	if a.IsText() && b.IsPrimitive() || b.IsText() && a.IsPrimitive() {
		return schema.StringType, true
	}
	return nestedType(UnionType, a, b)
}

// sameFamily has the rules that comparison and union share.
func sameFamily(a, b schema.Type) (schema.Type, bool) {
	switch {
	case a.Equal(b):
		return a, true
	case a.Kind == schema.Void:
		return b, true
	case b.Kind == schema.Void:
		return a, true
	case a.IsText() && b.IsText():
		if a.Kind == b.Kind && a.Kind != schema.String {
			return schema.Type{Kind: a.Kind, Length: max(a.Length, b.Length)}, true
		}
		return schema.StringType, true
	case a.IsNumeric() && b.IsNumeric():
		return commonNumeric(a, b), true
	case isDateTime(a) && isDateTime(b):
		if a.Kind == schema.TimestampTZ || b.Kind == schema.TimestampTZ {
			return schema.TimestampTZType, true
		}
		return schema.TimestampType, true
	}
	return schema.Type{}, false
}

// nestedType applies a rule to the parts of two nested types of one kind; a struct's
// field names are the first one's.
func nestedType(rule func(a, b schema.Type) (schema.Type, bool), a, b schema.Type) (schema.Type, bool) {
	if !a.IsNested() || a.Kind != b.Kind || a.Parts() != b.Parts() {
		return schema.Type{}, false
	}
	fields := make([]schema.Field, a.Parts())
	for k := range fields {
		t, ok := rule(a.Part(k), b.Part(k))
		if !ok {
			return schema.Type{}, false
		}
		fields[k] = schema.Field{Name: a.Nested.Fields[k].Name, Type: t}
	}
	return schema.Type{Kind: a.Kind, Nested: &schema.Nested{Fields: fields}}, true
}

// commonNumeric promotes tinyint -> smallint -> int -> bigint -> decimal ->
// float -> double.
func commonNumeric(a, b schema.Type) schema.Type {
	ra, rb := numericRank(a.Kind), numericRank(b.Kind)
	if a.Kind == schema.Decimal && rb <= ra || b.Kind == schema.Decimal && ra <= rb {
		x, y := asDecimal(a), asDecimal(b)
		scale := max(x.Scale, y.Scale)
		digits := max(x.Precision-x.Scale, y.Precision-y.Scale) + scale
		return schema.DecimalType(min(digits, maxPrecision), scale)
	}
	if ra >= rb {
		return a
	}
	return b
}

func numericRank(k schema.Kind) int {
	switch k {
	case schema.TinyInt, schema.SmallInt, schema.Int, schema.BigInt:
		return int(k)
	case schema.Decimal:
		return int(schema.BigInt) + 1
	case schema.Float:
		return int(schema.BigInt) + 2
	case schema.Double:
		return int(schema.BigInt) + 3
	}
	return 0
}

// asDecimal returns the decimal type that holds all of an exact number type.
func asDecimal(t schema.Type) schema.Type {
	switch t.Kind {
	case schema.TinyInt:
		return schema.DecimalType(3, 0)
	case schema.SmallInt:
		return schema.DecimalType(5, 0)
	case schema.Int:
		return schema.DecimalType(10, 0)
	case schema.BigInt:
		return schema.DecimalType(19, 0)
	}
	return t
}

// adjusted caps a decimal at 38 digits, giving up scale but for
// minAdjustedScale digits, as SQL Server and Hive do.
func adjusted(precision, scale int) schema.Type {
	if precision <= maxPrecision {
		return schema.DecimalType(uint8(precision), uint8(scale))
	}
	kept := max(maxPrecision-(precision-scale), min(scale, minAdjustedScale))
	return schema.DecimalType(maxPrecision, uint8(kept))
}

func isDateTime(t schema.Type) bool { return t.Kind >= schema.Date && t.Kind <= schema.TimestampTZ }

func isInterval(t schema.Type) bool {
	return t.Kind == schema.IntervalYearMonth || t.Kind == schema.IntervalDayTime
}

// common folds a rule over types; VOID only gives string.
func common(rule func(a, b schema.Type) (schema.Type, bool), types []schema.Type) (schema.Type, bool) {
	out := schema.VoidType
	for _, t := range types {
		var ok bool
		if out, ok = rule(out, t); !ok {
			return out, false
		}
	}
	if out.Kind == schema.Void {
		return schema.StringType, true
	}
	for _, t := range types { // the rules aren't transitive: boolean, text, date
		if castKernel(t, out) == nil {
			return out, false
		}
	}
	return out, true
}
