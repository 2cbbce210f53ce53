// Package schema has Skep's types, columns and values: HiveQL's type system,
// its Arrow form, its text form and its order. It sits below storage, catalog
// and sql so that all of them mean the same by "int".
package schema

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Kind is the family of a type. The numbers are stored on disk: never reuse one.
type Kind uint8

const (
	Void              Kind = 0 // the type of NULL
	Boolean           Kind = 1
	TinyInt           Kind = 2 // 8 bits
	SmallInt          Kind = 3 // 16 bits
	Int               Kind = 4 // 32 bits
	BigInt            Kind = 5 // 64 bits
	Float             Kind = 6 // 32 bits
	Double            Kind = 7 // 64 bits
	Decimal           Kind = 8 // Precision <= 38, Scale <= Precision
	String            Kind = 9
	Char              Kind = 10 // Length <= 255; arrays hold it without trailing blanks, text pads it
	Varchar           Kind = 11 // Length <= 65535
	Binary            Kind = 12
	Date              Kind = 13 // days since 1970-01-01, proleptic Gregorian
	Timestamp         Kind = 14 // no zone, nanoseconds
	TimestampTZ       Kind = 15 // timestamp with local time zone: an instant, nanoseconds
	IntervalYearMonth Kind = 16 // months; expressions only
	IntervalDayTime   Kind = 17 // nanoseconds; expressions only
	Array             Kind = 18
	Map               Kind = 19
	Struct            Kind = 20
	Union             Kind = 21
)

// Type is a HiveQL type. Primitive types compare with ==; use Equal in general.
type Type struct {
	Kind      Kind
	Precision uint8  // Decimal
	Scale     uint8  // Decimal
	Length    uint16 // Char, Varchar
	Nested    *Nested
}

// Nested describes the parts of an array (one field), map (two) or struct.
type Nested struct{ Fields []Field }

// Field is a named part of a struct, or a column of a plan node's output.
type Field struct {
	Name string
	Type Type
}

// The types without parameters.
var (
	VoidType        = Type{Kind: Void}
	BooleanType     = Type{Kind: Boolean}
	TinyIntType     = Type{Kind: TinyInt}
	SmallIntType    = Type{Kind: SmallInt}
	IntType         = Type{Kind: Int}
	BigIntType      = Type{Kind: BigInt}
	FloatType       = Type{Kind: Float}
	DoubleType      = Type{Kind: Double}
	StringType      = Type{Kind: String}
	BinaryType      = Type{Kind: Binary}
	DateType        = Type{Kind: Date}
	TimestampType   = Type{Kind: Timestamp}
	TimestampTZType = Type{Kind: TimestampTZ}
)

// DecimalType returns decimal(precision,scale).
func DecimalType(precision, scale uint8) Type {
	return Type{Kind: Decimal, Precision: precision, Scale: scale}
}

// CharType returns char(n); VarcharType varchar(n).
func CharType(n uint16) Type    { return Type{Kind: Char, Length: n} }
func VarcharType(n uint16) Type { return Type{Kind: Varchar, Length: n} }

// Equal reports whether a and b are the same type, nested fields included; only
// a struct's have names.
func (t Type) Equal(u Type) bool {
	if t.Kind != u.Kind || t.Precision != u.Precision || t.Scale != u.Scale || t.Length != u.Length {
		return false
	}
	if (t.Nested == nil) != (u.Nested == nil) {
		return false
	}
	if t.Nested == nil || t.Nested == u.Nested {
		return true
	}
	if len(t.Nested.Fields) != len(u.Nested.Fields) {
		return false
	}
	for i, f := range t.Nested.Fields {
		if g := u.Nested.Fields[i]; t.Kind == Struct && f.Name != g.Name || !f.Type.Equal(g.Type) {
			return false
		}
	}
	return true
}

// IsInteger, IsNumeric and IsText classify: text is string, char and varchar.
func (t Type) IsInteger() bool { return t.Kind >= TinyInt && t.Kind <= BigInt }
func (t Type) IsNumeric() bool { return t.Kind >= TinyInt && t.Kind <= Decimal }
func (t Type) IsText() bool    { return t.Kind >= String && t.Kind <= Varchar }

// IsPrimitive reports whether t can be a column without nested parts.
func (t Type) IsPrimitive() bool { return t.Kind >= Boolean && t.Kind <= TimestampTZ }

var kindNames = [...]string{"void", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal",
	"string", "char", "varchar", "binary", "date", "timestamp", "timestamp with local time zone",
	"interval_year_month", "interval_day_time", "array", "map", "struct", "uniontype"}

// String returns the type as Hive writes it: "decimal(10,2)", "array<int>".
func (t Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case Char, Varchar:
		return fmt.Sprintf("%s(%d)", kindNames[t.Kind], t.Length)
	case Array, Map, Struct, Union:
		var parts []string
		if t.Nested != nil {
			for _, f := range t.Nested.Fields {
				if t.Kind == Struct {
					parts = append(parts, f.Name+":"+f.Type.String())
				} else {
					parts = append(parts, f.Type.String())
				}
			}
		}
		return kindNames[t.Kind] + "<" + strings.Join(parts, ",") + ">"
	}
	if int(t.Kind) < len(kindNames) {
		return kindNames[t.Kind]
	}
	return fmt.Sprintf("kind(%d)", t.Kind)
}

// Arrow returns the Arrow type of t's arrays. A text column may also come as
// dictionary<int32, utf8>: an encoding, not another type (see package batch).
// Nested types are List, Map and Struct; a union is a Struct of its tag and one
// field for each alternative. Timestamps are decimal(38,9) seconds since 1970-01-01 00:00:00, that is a
// 128-bit count of nanoseconds: 64 bits can't hold Hive's range at its
// precision (docs/design/0001).
func (t Type) Arrow() arrow.DataType {
	switch t.Kind {
	case Void:
		return arrow.Null
	case Boolean:
		return arrow.FixedWidthTypes.Boolean
	case TinyInt:
		return arrow.PrimitiveTypes.Int8
	case SmallInt:
		return arrow.PrimitiveTypes.Int16
	case Int, IntervalYearMonth:
		return arrow.PrimitiveTypes.Int32
	case BigInt:
		return arrow.PrimitiveTypes.Int64
	case Float:
		return arrow.PrimitiveTypes.Float32
	case Double:
		return arrow.PrimitiveTypes.Float64
	case Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case String, Char, Varchar:
		return arrow.BinaryTypes.String
	case Binary:
		return arrow.BinaryTypes.Binary
	case Date:
		return arrow.FixedWidthTypes.Date32
	case Timestamp, TimestampTZ, IntervalDayTime:
		return &arrow.Decimal128Type{Precision: 38, Scale: 9}
	case Array:
		return arrow.ListOf(t.Nested.Fields[0].Type.Arrow())
	case Map:
		return arrow.MapOf(t.Nested.Fields[0].Type.Arrow(), t.Nested.Fields[1].Type.Arrow())
	case Struct, Union:
		fields := make([]arrow.Field, 0, len(t.Nested.Fields)+1)
		if t.Kind == Union { // a tag, and one field for each alternative, NULL but for the tag's
			fields = append(fields, arrow.Field{Name: "tag", Type: arrow.PrimitiveTypes.Int8, Nullable: true})
		}
		for i, f := range t.Nested.Fields {
			name := f.Name
			if t.Kind == Union {
				name = fmt.Sprintf("f%d", i)
			}
			fields = append(fields, arrow.Field{Name: name, Type: f.Type.Arrow(), Nullable: true})
		}
		return arrow.StructOf(fields...)
	}
	panic("schema: no Arrow form for " + t.String())
}
