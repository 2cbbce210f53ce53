package batch

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Gather returns the values of a at the given positions; a negative position
// gives NULL. Dictionary-coded text stays coded, with the same dictionary.
func Gather(a arrow.Array, at []int32) arrow.Array {
	dt := a.DataType()
	switch dt.ID() {
	case arrow.NULL:
		return array.NewNull(len(at))
	case arrow.BOOL:
		values := Bits(a)
		out := make([]byte, (len(at)+7)/8)
		for k, i := range at {
			if i >= 0 && values[i>>3]>>(uint(i)&7)&1 != 0 {
				out[k>>3] |= 1 << (uint(k) & 7)
			}
		}
		return NewBoolean(out, len(at), gatherValidity(a, at))
	case arrow.INT8:
		return NewFixed(dt, gatherValues(Values[int8](a), at), gatherValidity(a, at))
	case arrow.INT16:
		return NewFixed(dt, gatherValues(Values[int16](a), at), gatherValidity(a, at))
	case arrow.INT32, arrow.DATE32:
		return NewFixed(dt, gatherValues(Values[int32](a), at), gatherValidity(a, at))
	case arrow.INT64:
		return NewFixed(dt, gatherValues(Values[int64](a), at), gatherValidity(a, at))
	case arrow.FLOAT32:
		return NewFixed(dt, gatherValues(Values[float32](a), at), gatherValidity(a, at))
	case arrow.FLOAT64:
		return NewFixed(dt, gatherValues(Values[float64](a), at), gatherValidity(a, at))
	case arrow.DECIMAL128:
		return NewFixed(dt, gatherValues(Values[decimal128.Num](a), at), gatherValidity(a, at))
	case arrow.DICTIONARY:
		return NewDictionary(gatherValues(Values[int32](a), at), gatherValidity(a, at), DictionaryOf(a))
	case arrow.STRING, arrow.BINARY:
		return gatherText(a, at)
	case arrow.LIST, arrow.MAP:
		return gatherList(a, at)
	case arrow.STRUCT:
		return gatherStruct(a, at)
	}
	panic(fmt.Sprintf("batch: gather of %s", dt))
}

func gatherValues[T Fixed](v []T, at []int32) []T {
	out := make([]T, len(at))
	for k, i := range at {
		if i >= 0 {
			out[k] = v[i]
		}
	}
	return out
}

// gatherValidity returns nil when no gathered row is null.
func gatherValidity(a arrow.Array, at []int32) []byte {
	valid := Validity(a)
	if valid == nil {
		outer := false
		for _, i := range at {
			outer = outer || i < 0
		}
		if !outer {
			return nil
		}
	}
	out := make([]byte, (len(at)+7)/8)
	for k, i := range at {
		if i >= 0 && (valid == nil || BitSet(valid, int(i))) {
			out[k>>3] |= 1 << (uint(k) & 7)
		}
	}
	return out
}

func gatherText(a arrow.Array, at []int32) arrow.Array {
	valid := gatherValidity(a, at)
	t := TextOf(a)
	offsets := make([]int32, len(at)+1)
	size := 0
	for k, i := range at {
		if i >= 0 {
			size += int(t.offsets[i+1] - t.offsets[i])
		}
		offsets[k+1] = int32(size)
	}
	data := make([]byte, size)
	for k, i := range at {
		if i >= 0 {
			copy(data[offsets[k]:], t.data[t.offsets[i]:t.offsets[i+1]])
		}
	}
	return NewText(a.DataType(), offsets, data, valid)
}

// Concat returns the values of the arrays one after the other. All have one
// logical type; text may be plain and coded, mixed. Arrays that share one
// dictionary give an array with it; otherwise the result is coded with a
// merged dictionary when all are coded, plain when one is plain.
func Concat(parts []arrow.Array) arrow.Array {
	switch len(parts) {
	case 0:
		return array.NewNull(0)
	case 1:
		return parts[0]
	}
	n, coded, shared := 0, true, true
	for _, p := range parts {
		n += p.Len()
		coded = coded && IsDictionary(p)
		shared = shared && coded && DictionaryOf(p) == DictionaryOf(parts[0])
	}
	dt := parts[0].DataType()
	if dt.ID() == arrow.DICTIONARY && !coded {
		dt = arrow.BinaryTypes.String
	}
	switch dt.ID() {
	case arrow.NULL:
		return array.NewNull(n)
	case arrow.BOOL:
		out := make([]byte, (n+7)/8)
		k := 0
		for _, p := range parts {
			values := Bits(p)
			for i := range p.Len() {
				if BitSet(values, i) {
					out[k>>3] |= 1 << (uint(k) & 7)
				}
				k++
			}
		}
		return NewBoolean(out, n, concatValidity(parts, n))
	case arrow.INT8:
		return concatFixed[int8](dt, parts, n)
	case arrow.INT16:
		return concatFixed[int16](dt, parts, n)
	case arrow.INT32, arrow.DATE32:
		return concatFixed[int32](dt, parts, n)
	case arrow.INT64:
		return concatFixed[int64](dt, parts, n)
	case arrow.FLOAT32:
		return concatFixed[float32](dt, parts, n)
	case arrow.FLOAT64:
		return concatFixed[float64](dt, parts, n)
	case arrow.DECIMAL128:
		return concatFixed[decimal128.Num](dt, parts, n)
	case arrow.DICTIONARY:
		if shared {
			codes := make([]int32, 0, n)
			for _, p := range parts {
				codes = append(codes, Values[int32](p)...)
			}
			return NewDictionary(codes, concatValidity(parts, n), DictionaryOf(parts[0]))
		}
		return concatDictionaries(parts, n)
	case arrow.STRING, arrow.BINARY:
		offsets, data := make([]int32, 1, n+1), []byte(nil)
		for _, p := range parts {
			p = Plain(p)
			t := TextOf(p)
			if p.Len() == 0 {
				continue
			}
			base := int32(len(data)) - t.offsets[0]
			data = append(data, t.data[t.offsets[0]:t.offsets[p.Len()]]...)
			for _, o := range t.offsets[1 : p.Len()+1] {
				offsets = append(offsets, o+base)
			}
		}
		return NewText(dt, offsets, data, concatValidity(parts, n))
	case arrow.LIST, arrow.MAP:
		return concatLists(dt, parts, n)
	case arrow.STRUCT:
		return concatStructs(dt, parts, n)
	}
	panic(fmt.Sprintf("batch: concat of %s", dt))
}

func concatFixed[T Fixed](dt arrow.DataType, parts []arrow.Array, n int) arrow.Array {
	out := make([]T, 0, n)
	for _, p := range parts {
		out = append(out, Values[T](p)...)
	}
	return NewFixed(dt, out, concatValidity(parts, n))
}

func concatValidity(parts []arrow.Array, n int) []byte {
	nulls := 0
	for _, p := range parts {
		nulls += p.NullN()
	}
	if nulls == 0 {
		return nil
	}
	out := make([]byte, (n+7)/8)
	k := 0
	for _, p := range parts {
		valid := Validity(p)
		for i := range p.Len() {
			if valid == nil || BitSet(valid, i) {
				out[k>>3] |= 1 << (uint(k) & 7)
			}
			k++
		}
	}
	return out
}

func concatDictionaries(parts []arrow.Array, n int) arrow.Array {
	var m Dictionary
	remaps := make(map[*array.Data][]int32)
	codes := make([]int32, 0, n)
	for _, p := range parts {
		d := DictionaryOf(p)
		remap, ok := remaps[d]
		if !ok {
			remap = m.AddAll(d)
			remaps[d] = remap
		}
		valid := Validity(p)
		for i, c := range Values[int32](p) {
			if valid != nil && !BitSet(valid, i) {
				codes = append(codes, 0)
				continue
			}
			codes = append(codes, remap[c])
		}
	}
	return NewDictionary(codes, concatValidity(parts, n), m.Data())
}

// Dictionary collects unique strings and gives them codes.
type Dictionary struct {
	codes   map[string]int32
	offsets []int32
	data    []byte
}

// Add returns the code of s, giving it the next one if it is new.
func (d *Dictionary) Add(s string) int32 {
	if c, ok := d.codes[s]; ok {
		return c
	}
	if d.codes == nil {
		d.codes = make(map[string]int32)
		d.offsets = append(d.offsets, 0)
	}
	// The map's key lives as long as the map: a copy, since s may lie in a
	// batch that would be kept alive by it.
	c := int32(len(d.codes))
	d.codes[string(append([]byte(nil), s...))] = c
	d.data = append(d.data, s...)
	d.offsets = append(d.offsets, int32(len(d.data)))
	return c
}

// AddAll adds the values of a dictionary and returns their codes.
func (d *Dictionary) AddAll(values *array.Data) []int32 {
	t := TextOfData(values)
	out := make([]int32, values.Len())
	for i := range out {
		out[i] = d.Add(t.String(i))
	}
	return out
}

// Len returns the number of values.
func (d *Dictionary) Len() int { return len(d.codes) }

// Data returns the values so far; later Adds don't change it.
func (d *Dictionary) Data() *array.Data {
	offsets := d.offsets
	if len(offsets) == 0 {
		offsets = []int32{0}
	}
	a := NewText(arrow.BinaryTypes.String, append([]int32(nil), offsets...), d.data[:len(d.data):len(d.data)], nil)
	return a.Data().(*array.Data)
}

// Slice returns values [from, to) of a, sharing its memory and dictionary.
func Slice(a arrow.Array, from, to int) arrow.Array {
	if from == 0 && to == a.Len() {
		return a
	}
	if d := DictionaryOf(a); d != nil {
		valid := Validity(a)
		var part []byte
		if valid != nil {
			part = bitsFrom(valid, from, to-from)
		}
		return NewDictionary(Values[int32](a)[from:to:to], part, d)
	}
	return array.NewSlice(a, int64(from), int64(to))
}

// Compact returns b without selection: selected rows only.
func Compact(b *Batch) *Batch {
	if b.Sel == nil {
		return b
	}
	out := &Batch{Columns: make([]arrow.Array, len(b.Columns)), Len: len(b.Sel)}
	for i, c := range b.Columns {
		out.Columns[i] = Gather(c, b.Sel)
	}
	return out
}

// Bytes estimates the memory a's values take; a dictionary is not counted.
func Bytes(a arrow.Array) int64 {
	d := a.Data()
	n := int64(d.Len())
	switch dt := d.DataType().(type) {
	case *arrow.StringType, *arrow.BinaryType:
		if n == 0 {
			return 0
		}
		p := unsafe.Pointer(unsafe.SliceData(d.Buffers()[1].Bytes()))
		o := unsafe.Slice((*int32)(p), d.Offset()+d.Len()+1)
		return n*4 + int64(o[d.Offset()+d.Len()]-o[d.Offset()])
	case *arrow.BooleanType:
		return n / 8
	case *arrow.ListType, *arrow.MapType:
		offsets, values := ListOf(a)
		if n == 0 {
			return 0
		}
		return n*4 + Bytes(Slice(values, int(offsets[0]), int(offsets[n])))
	case *arrow.StructType:
		size := n / 8
		for i := range dt.NumFields() {
			size += Bytes(FieldOf(a, i))
		}
		return size
	case arrow.FixedWidthDataType:
		return n * int64(dt.BitWidth()) / 8
	}
	return n
}
