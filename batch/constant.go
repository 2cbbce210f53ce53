package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/skepdb/skep/schema"
)

// Constant returns an array of n times the same value. Text is codes of a
// dictionary with one entry, so that operators compare codes.
func Constant(v schema.Datum, n int) arrow.Array {
	one := schema.ArrayOf(v.Type, []schema.Datum{v})
	if text, ok := one.(*array.String); ok && !v.Null {
		if dict, ok := text.Data().(*array.Data); ok {
			return NewDictionary(make([]int32, n), nil, dict)
		}
	}
	return Gather(one, make([]int32, n))
}
