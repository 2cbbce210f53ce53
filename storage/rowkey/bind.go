package rowkey

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Binding is an encoder bound to the arrays of one batch: it looks at their
// types once, not once a row.
type Binding struct {
	sources []source
	ids     []int32   // partition ids; nil: keys have none
	one     [1]source // sources of a key of one column, without allocating
}

// source is one key column's values; which slice is set depends on kind.
type source struct {
	kind  schema.Kind
	desc  bool
	nulls arrow.Array // nil: no null among the rows

	bools *array.Boolean
	i8    []int8
	i16   []int16
	i32   []int32 // Int and Date; codes of dictionary-coded text
	i64   []int64
	f32   []float32
	f64   []float64
	d128  []decimal128.Num
	text  *array.String
	bin   *array.Binary
	coded bool
}

// Bind returns a Binding of the key columns' arrays, in key order.
func (e *Encoder) Bind(cols []arrow.Array) (*Binding, error) {
	b := new(Binding)
	if err := b.bind(e, cols); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Binding) bind(e *Encoder, cols []arrow.Array) error {
	if e.partitioned {
		ids, ok := (*array.Int32)(nil), false
		if len(cols) > 0 {
			ids, ok = cols[0].(*array.Int32)
		}
		if !ok || ids.NullN() > 0 {
			return fault.Bugf("row key: no column of partition ids before those of the key")
		}
		b.ids, cols = ids.Int32Values(), cols[1:]
	}
	if len(cols) != len(e.columns) {
		return fault.Bugf("row key: %d arrays for %d key columns", len(cols), len(e.columns))
	}
	if len(cols) == 1 {
		b.sources = b.one[:]
	} else {
		b.sources = make([]source, len(cols))
	}
	for i, c := range e.columns {
		if !b.sources[i].set(c, cols[i]) {
			return fault.Bugf("row key: an array of Arrow type %s for key column %d of type %s", cols[i].DataType(), i+1, c.Type)
		}
	}
	return nil
}

func (s *source) set(c Column, a arrow.Array) bool {
	s.kind, s.desc = c.Type.Kind, c.Desc
	if a.NullN() > 0 {
		s.nulls = a
	}
	if d, ok := a.(*array.Dictionary); ok {
		codes, ok := d.Indices().(*array.Int32)
		if !ok || !c.Type.IsText() {
			return false
		}
		s.i32, s.coded = codes.Int32Values(), true
		s.text, ok = d.Dictionary().(*array.String)
		return ok
	}
	ok := false
	switch c.Type.Kind {
	case schema.Boolean:
		s.bools, ok = a.(*array.Boolean)
	case schema.TinyInt:
		if v, is := a.(*array.Int8); is {
			s.i8, ok = v.Int8Values(), true
		}
	case schema.SmallInt:
		if v, is := a.(*array.Int16); is {
			s.i16, ok = v.Int16Values(), true
		}
	case schema.Int:
		if v, is := a.(*array.Int32); is {
			s.i32, ok = v.Int32Values(), true
		}
	case schema.Date:
		if v, is := a.(*array.Date32); is {
			s.i32, ok = batch.Values[int32](v), true
		}
	case schema.BigInt:
		if v, is := a.(*array.Int64); is {
			s.i64, ok = v.Int64Values(), true
		}
	case schema.Float:
		if v, is := a.(*array.Float32); is {
			s.f32, ok = v.Float32Values(), true
		}
	case schema.Double:
		if v, is := a.(*array.Float64); is {
			s.f64, ok = v.Float64Values(), true
		}
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		if v, is := a.(*array.Decimal128); is {
			want := c.Type.Arrow().(*arrow.Decimal128Type).Scale
			s.d128, ok = v.Values(), v.DataType().(*arrow.Decimal128Type).Scale == want
		}
	case schema.String, schema.Char, schema.Varchar:
		s.text, ok = a.(*array.String)
	case schema.Binary:
		s.bin, ok = a.(*array.Binary)
	}
	return ok
}

// Append appends to dst the key of a row.
func (b *Binding) Append(dst []byte, row int) []byte {
	if b.ids != nil {
		dst = binary.BigEndian.AppendUint32(dst, uint32(b.ids[row]))
	}
	for i := range b.sources {
		s := &b.sources[i]
		if s.nulls != nil && s.nulls.IsNull(row) {
			dst = append(dst, mark(markNull, s.desc))
			continue
		}
		start := len(dst)
		dst = s.append(dst, row)
		if s.desc {
			complement(dst[start:])
		}
	}
	return dst
}

func (s *source) append(dst []byte, row int) []byte {
	switch s.kind {
	case schema.String, schema.Varchar, schema.Char:
		if s.coded {
			row = int(s.i32[row])
		}
		v := s.text.Value(row)
		if s.kind == schema.Char {
			v = strings.TrimRight(v, " ")
		}
		return appendText(append(dst, markValue), v)
	case schema.BigInt:
		return binary.BigEndian.AppendUint64(append(dst, markValue), uint64(s.i64[row])^1<<63)
	case schema.Int, schema.Date:
		return binary.BigEndian.AppendUint32(append(dst, markValue), uint32(s.i32[row])^1<<31)
	case schema.Boolean:
		if s.bools.Value(row) {
			return append(dst, markValue, 1)
		}
		return append(dst, markValue, 0)
	case schema.TinyInt:
		return append(dst, markValue, byte(s.i8[row])^0x80)
	case schema.SmallInt:
		return binary.BigEndian.AppendUint16(append(dst, markValue), uint16(s.i16[row])^0x8000)
	case schema.Float:
		return binary.BigEndian.AppendUint32(append(dst, markValue), floatBits(s.f32[row]))
	case schema.Double:
		return binary.BigEndian.AppendUint64(append(dst, markValue), doubleBits(s.f64[row]))
	case schema.Binary:
		return appendText(append(dst, markValue), s.bin.Value(row))
	default: // Decimal, Timestamp, TimestampTZ: set has let nothing else through
		v := s.d128[row]
		dst = binary.BigEndian.AppendUint64(append(dst, markValue), uint64(v.HighBits())^1<<63)
		return binary.BigEndian.AppendUint64(dst, v.LowBits())
	}
}

// AppendAll appends the keys of the rows at sel (nil: of rows 0 to n-1) to
// data and their ends to offsets. offsets that are empty get a 0 first.
func (b *Binding) AppendAll(data []byte, offsets []uint32, sel []int32, n int) ([]byte, []uint32) {
	if len(offsets) == 0 {
		offsets = append(offsets, uint32(len(data)))
	}
	if sel != nil {
		for _, i := range sel {
			data = b.Append(data, int(i))
			offsets = append(offsets, uint32(len(data)))
		}
		return data, offsets
	}
	for i := range n {
		data = b.Append(data, i)
		offsets = append(offsets, uint32(len(data)))
	}
	return data, offsets
}

func indexZero[T string | []byte](s T) int {
	switch v := any(s).(type) {
	case string:
		return strings.IndexByte(v, 0)
	case []byte:
		return bytes.IndexByte(v, 0)
	}
	return -1
}
