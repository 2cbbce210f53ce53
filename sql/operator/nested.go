package operator

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// isNested reports whether values of t have parts.
func isNested(t schema.Type) bool { return t.Kind >= schema.Array && t.Kind <= schema.Union }

// encoder writes the values of an array, nested ones too, as bytes whose order
// (bytes.Compare) is the values' and which are equal exactly when the values
// are: NULL first, NaN greatest, -0 as 0, lists as their elements, structs as
// their fields, maps as their entries in the order of the keys.
type encoder struct {
	valid    []byte
	words    []uint64
	wide     []decimal128.Num
	text     *batch.Text
	offsets  []int32 // lists and maps
	parts    []*encoder
	isMap    bool
	isNull   bool     // the type VOID
	entries  [][]byte // of a map, while it is sorted
	entryMem []byte
}

func newEncoder(a arrow.Array, t schema.Type) *encoder {
	e := &encoder{valid: batch.Validity(a)}
	switch a.DataType().ID() {
	case arrow.NULL:
		e.isNull = true
	case arrow.DECIMAL128:
		e.wide = batch.Values[decimal128.Num](a)
	case arrow.STRING, arrow.BINARY, arrow.DICTIONARY:
		x := batch.TextOf(a)
		e.text = &x
	case arrow.LIST:
		offsets, values := batch.ListOf(a)
		e.offsets = offsets
		e.parts = []*encoder{newEncoder(values, t.Nested.Fields[0].Type)}
	case arrow.MAP:
		offsets, entries := batch.ListOf(a)
		e.offsets, e.isMap = offsets, true
		for i := range 2 {
			e.parts = append(e.parts, newEncoder(batch.FieldOf(entries, i), t.Nested.Fields[i].Type))
		}
	case arrow.STRUCT:
		types := make([]schema.Type, 0, len(t.Nested.Fields)+1)
		if t.Kind == schema.Union {
			types = append(types, schema.TinyIntType)
		}
		for _, f := range t.Nested.Fields {
			types = append(types, f.Type)
		}
		for i, x := range types {
			e.parts = append(e.parts, newEncoder(batch.FieldOf(a, i), x))
		}
	default:
		e.words = orderedWords(a, sortOrder{t: t}, false)
	}
	return e
}

// append appends value i: 0 if it is NULL, else 1 and the value.
func (e *encoder) append(dst []byte, i int) []byte {
	if e.isNull || e.valid != nil && !batch.BitSet(e.valid, i) {
		return append(dst, 0)
	}
	return e.appendValue(append(dst, 1), i)
}

// appendValue appends value i, which isn't NULL.
func (e *encoder) appendValue(dst []byte, i int) []byte {
	switch {
	case e.words != nil:
		return binary.BigEndian.AppendUint64(dst, e.words[i])
	case e.wide != nil:
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.wide[i].HighBits())^1<<63)
		return binary.BigEndian.AppendUint64(dst, e.wide[i].LowBits())
	case e.text != nil:
		return appendEscaped(dst, e.text.Bytes(i))
	case e.isMap:
		return e.appendMap(dst, i)
	case e.offsets != nil:
		for k := e.offsets[i]; k < e.offsets[i+1]; k++ {
			dst = e.parts[0].append(append(dst, 1), int(k))
		}
		return append(dst, 0)
	}
	for _, p := range e.parts {
		dst = p.append(dst, i)
	}
	return dst
}

func (e *encoder) appendMap(dst []byte, i int) []byte {
	e.entries, e.entryMem = e.entries[:0], e.entryMem[:0]
	from, to := e.offsets[i], e.offsets[i+1]
	ends := make([]int, 0, to-from)
	for k := from; k < to; k++ {
		e.entryMem = e.parts[1].append(e.parts[0].append(e.entryMem, int(k)), int(k))
		ends = append(ends, len(e.entryMem))
	}
	start := 0
	for _, end := range ends {
		e.entries = append(e.entries, e.entryMem[start:end])
		start = end
	}
	slices.SortFunc(e.entries, bytes.Compare)
	for _, x := range e.entries {
		dst = append(append(dst, 1), x...)
	}
	return append(dst, 0)
}
