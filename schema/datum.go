package schema

import (
	"bytes"
	"cmp"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Datum is one typed value: a literal, a bound of a predicate, a default. It
// is never used a row at a time on a hot path.
type Datum struct {
	Type Type
	Null bool
	I    int64          // Boolean (0 or 1), integers, Date (days), IntervalYearMonth (months)
	F    float64        // Float, Double
	S    string         // String, Char, Varchar, Binary (raw bytes)
	D    decimal128.Num // Decimal (unscaled), Timestamp, TimestampTZ, IntervalDayTime (nanoseconds)
	// List has the parts of a nested value: the elements of an Array; key, value,
	// key, value, ... of a Map, in its order; the fields of a Struct; the one value
	// of a Union, whose tag is I.
	List []Datum
}

// NullOf returns the NULL of a type.
func NullOf(t Type) Datum { return Datum{Type: t, Null: true} }

// Compare orders two non-null datums of the same kind (and scale): -1, 0, 1.
// NaN equals itself and is greater than every number, as in Hive. Char
// compares without trailing blanks.
func Compare(a, b Datum) int {
	switch a.Type.Kind {
	case Float, Double:
		return CompareFloat(a.F, b.F)
	case Decimal, Timestamp, TimestampTZ, IntervalDayTime:
		return a.D.Cmp(b.D)
	case String, Varchar:
		return strings.Compare(a.S, b.S)
	case Char:
		return strings.Compare(strings.TrimRight(a.S, " "), strings.TrimRight(b.S, " "))
	case Binary:
		return bytes.Compare([]byte(a.S), []byte(b.S))
	case Array, Map, Struct, Union:
		return compareNested(a, b)
	default:
		return cmp.Compare(a.I, b.I)
	}
}

// CompareFloat orders floats with NaN greatest and -0 equal to 0.
func CompareFloat(a, b float64) int {
	an, bn := math.IsNaN(a), math.IsNaN(b)
	switch {
	case an && bn:
		return 0
	case an:
		return 1
	case bn:
		return -1
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
