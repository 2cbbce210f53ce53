package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Nulls returns an array of n nulls.
func Nulls(dt arrow.DataType, n int) arrow.Array {
	none := make([]byte, (n+7)/8)
	switch dt := dt.(type) {
	case *arrow.NullType:
		return array.NewNull(n)
	case *arrow.BooleanType:
		return NewBoolean(make([]byte, (n+7)/8), n, none)
	case *arrow.StringType, *arrow.BinaryType:
		return NewText(dt, make([]int32, n+1), nil, none)
	case *arrow.DictionaryType:
		return NewText(arrow.BinaryTypes.String, make([]int32, n+1), nil, none)
	case *arrow.ListType:
		return NewList(dt, make([]int32, n+1), Nulls(dt.Elem(), 0), none)
	case *arrow.MapType:
		return NewList(dt, make([]int32, n+1), Nulls(dt.Elem(), 0), none)
	case *arrow.StructType:
		fields := make([]arrow.Array, dt.NumFields())
		for i := range fields {
			fields[i] = Nulls(dt.Field(i).Type, n)
		}
		return NewStruct(dt, n, fields, none)
	case arrow.FixedWidthDataType:
		d := array.NewData(dt, n, []*memory.Buffer{memory.NewBufferBytes(none), memory.NewBufferBytes(make([]byte, n*dt.BitWidth()/8))}, nil, n, 0)
		return array.MakeFromData(d)
	}
	panic("batch: nulls of " + dt.String())
}
