package operator

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// memberExpr is a field of a struct; of an array of structs, the array of that
// field.
type memberExpr struct {
	base  expression
	index int
	e     *plan.Member
}

func (c *compiler) buildMember(e *plan.Member) (expression, bool, error) {
	base, volatile, err := c.build(e.Base)
	if err != nil {
		return nil, false, err
	}
	t := e.Base.Type().Arrow()
	if list, ok := t.(*arrow.ListType); ok {
		t = list.Elem()
	}
	if s, ok := t.(*arrow.StructType); !ok || e.Index < 0 || e.Index >= s.NumFields() {
		return nil, false, fault.Bugf("member %s (%d) of %s", e.Name, e.Index, e.Base.Type())
	}
	return &memberExpr{base, e.Index, e}, volatile, nil
}

func (m *memberExpr) eval(r rows) (function.Vector, error) {
	v, err := m.base.eval(r)
	if err != nil {
		return v, err
	}
	switch v.Array.DataType().ID() {
	case arrow.STRUCT:
		v.Array = fieldOf(v.Array, m.index)
	case arrow.LIST:
		offsets, values := batch.ListOf(v.Array)
		v.Array = batch.NewList(m.e.T.Arrow(), append([]int32(nil), offsets...), fieldOf(values, m.index), batch.Validity(v.Array))
	default:
		v.Array = function.NullArray(m.e.T, v.Array.Len())
	}
	return v, nil
}

// fieldOf returns a field of structs, NULL where the struct is.
func fieldOf(a arrow.Array, index int) arrow.Array {
	f := batch.FieldOf(a, index)
	outer := batch.Validity(a)
	if outer == nil {
		return f
	}
	return masked(f, outer)
}

// masked returns a with NULL where valid, a bitmap, is not set.
func masked(a arrow.Array, valid []byte) arrow.Array {
	at := make([]int32, a.Len())
	for i := range at {
		at[i] = int32(i)
		if !batch.BitSet(valid, i) {
			at[i] = -1
		}
	}
	return batch.Gather(a, at)
}
