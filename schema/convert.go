package schema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// FromArrow returns element i of an array of type t; the array may be
// dictionary-coded text. Strings are copied. An array that is not t's Arrow
// form is a bug of the caller and panics.
func FromArrow(a arrow.Array, i int, t Type) Datum {
	d := Datum{Type: t}
	if a.IsNull(i) {
		d.Null = true
		return d
	}
	switch a := a.(type) {
	case *array.Boolean:
		if a.Value(i) {
			d.I = 1
		}
	case *array.Int8:
		d.I = int64(a.Value(i))
	case *array.Int16:
		d.I = int64(a.Value(i))
	case *array.Int32:
		d.I = int64(a.Value(i))
	case *array.Int64:
		d.I = a.Value(i)
	case *array.Date32:
		d.I = int64(a.Value(i))
	case *array.Float32:
		d.F = float64(a.Value(i))
	case *array.Float64:
		d.F = a.Value(i)
	case *array.Decimal128:
		d.D = a.Value(i)
	case *array.String:
		d.S = string([]byte(a.Value(i)))
	case *array.Binary:
		d.S = string(a.Value(i))
	case *array.Dictionary:
		return FromArrow(a.Dictionary(), a.GetValueIndex(i), t)
	case *array.Null:
		d.Null = true
	default:
		fromArrowNested(&d, a, i)
	}
	return d
}

// ArrayOf returns an array of type t with these values, which are of that
// type (or NULL of any).
func ArrayOf(t Type, values []Datum) arrow.Array {
	a := NewPlainAppender(t, len(values))
	for _, d := range values {
		a.AppendDatum(d)
	}
	return a.Finish()
}
