package batch

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Nested arrays: a list or map is offsets into a child, a map's child being a
// struct of keys and values; a struct is one child a field. Text inside nested
// arrays is always plain, never dictionary-coded, and a map's keys are never
// NULL.

// ListOf returns the parts of a list or map array: row i has the values
// [offsets[i], offsets[i+1]) of the child, which for a map is a struct of key and
// value (see FieldOf). The offsets of a null row are arbitrary.
func ListOf(a arrow.Array) (offsets []int32, values arrow.Array) {
	d := a.Data()
	values = array.MakeFromData(d.Children()[0])
	if d.Len() == 0 || d.Buffers()[1] == nil || d.Buffers()[1].Len() == 0 {
		return make([]int32, d.Len()+1), values
	}
	p := unsafe.Pointer(unsafe.SliceData(d.Buffers()[1].Bytes()))
	return unsafe.Slice((*int32)(p), d.Offset()+d.Len()+1)[d.Offset():], values
}

// NewList makes a list or map array of len(offsets)-1 rows; it keeps the slices.
// Text in values must be plain.
func NewList(dt arrow.DataType, offsets []int32, values arrow.Array, valid []byte) arrow.Array {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&offsets[0])), len(offsets)*4)
	d := newData(dt, len(offsets)-1, valid, raw)
	return array.MakeFromData(withChildren(d, []arrow.ArrayData{values.Data()}))
}

// FieldOf returns field i of a struct array, with the struct's length. A row that is
// NULL in the struct may have any value in the field.
func FieldOf(a arrow.Array, i int) arrow.Array {
	d := a.Data()
	child := d.Children()[i]
	if d.Offset() == 0 && child.Len() == d.Len() {
		return array.MakeFromData(child)
	}
	return array.MakeFromData(array.NewSliceData(child, int64(d.Offset()), int64(d.Offset()+d.Len())))
}

// NewStruct makes a struct array of n rows; each field has n values, text in
// them must be plain.
func NewStruct(dt arrow.DataType, n int, fields []arrow.Array, valid []byte) arrow.Array {
	children := make([]arrow.ArrayData, len(fields))
	for i, f := range fields {
		children[i] = f.Data()
	}
	return array.MakeFromData(withChildren(newData(dt, n, valid), children))
}

func withChildren(d *array.Data, children []arrow.ArrayData) *array.Data {
	return array.NewData(d.DataType(), d.Len(), d.Buffers(), children, d.NullN(), 0)
}

// EmptyOf returns an array without values: what a nested array without elements
// has as its child.
func EmptyOf(dt arrow.DataType) arrow.Array {
	var d *array.Data
	switch t := dt.(type) {
	case *arrow.MapType:
		d = array.NewData(dt, 0, []*memory.Buffer{nil, nil}, []arrow.ArrayData{EmptyOf(t.Elem()).Data()}, 0, 0)
	case *arrow.ListType:
		d = array.NewData(dt, 0, []*memory.Buffer{nil, nil}, []arrow.ArrayData{EmptyOf(t.Elem()).Data()}, 0, 0)
	case *arrow.StructType:
		children := make([]arrow.ArrayData, t.NumFields())
		for i, f := range t.Fields() {
			children[i] = EmptyOf(f.Type).Data()
		}
		d = array.NewData(dt, 0, []*memory.Buffer{nil}, children, 0, 0)
	case *arrow.NullType:
		return array.NewNull(0)
	case *arrow.StringType, *arrow.BinaryType:
		return NewText(dt, []int32{0}, nil, nil)
	default:
		d = array.NewData(dt, 0, []*memory.Buffer{nil, nil}, nil, 0, 0)
	}
	return array.MakeFromData(d)
}

// gatherList gathers rows of a list or map.
func gatherList(a arrow.Array, at []int32) arrow.Array {
	valid := gatherValidity(a, at)
	offsets, values := ListOf(a)
	out := make([]int32, len(at)+1)
	size := 0
	for k, i := range at {
		if i >= 0 && (valid == nil || BitSet(valid, k)) {
			size += int(offsets[i+1] - offsets[i])
		}
		out[k+1] = int32(size)
	}
	inner := make([]int32, 0, size)
	for k, i := range at {
		if out[k+1] > out[k] {
			for j := offsets[i]; j < offsets[i+1]; j++ {
				inner = append(inner, j)
			}
		}
	}
	return NewList(a.DataType(), out, Gather(values, inner), valid)
}

func gatherStruct(a arrow.Array, at []int32) arrow.Array {
	fields := make([]arrow.Array, len(a.Data().Children()))
	for i := range fields {
		fields[i] = Gather(FieldOf(a, i), at)
	}
	return NewStruct(a.DataType(), len(at), fields, gatherValidity(a, at))
}

func concatLists(dt arrow.DataType, parts []arrow.Array, n int) arrow.Array {
	out := make([]int32, 1, n+1)
	children := make([]arrow.Array, 0, len(parts))
	size := int32(0)
	for _, p := range parts {
		offsets, values := ListOf(p)
		m := p.Len()
		if m == 0 {
			continue
		}
		from, to := offsets[0], offsets[m]
		for _, o := range offsets[1 : m+1] {
			out = append(out, size+o-from)
		}
		size += to - from
		children = append(children, Slice(values, int(from), int(to)))
	}
	var child arrow.Array
	if len(children) == 0 {
		child = EmptyOf(dt.(interface{ Elem() arrow.DataType }).Elem())
	} else {
		child = Concat(children)
	}
	return NewList(dt, out, child, concatValidity(parts, n))
}

func concatStructs(dt arrow.DataType, parts []arrow.Array, n int) arrow.Array {
	fields := make([]arrow.Array, len(parts[0].Data().Children()))
	column := make([]arrow.Array, len(parts))
	for i := range fields {
		for k, p := range parts {
			column[k] = FieldOf(p, i)
		}
		fields[i] = Concat(append([]arrow.Array(nil), column...))
	}
	return NewStruct(dt, n, fields, concatValidity(parts, n))
}

// plainNested decodes dictionaries of text inside nested arrays, which arrays made
// elsewhere may have.
func plainNested(a arrow.Array) arrow.Array {
	d := a.Data()
	changed := false
	children := make([]arrow.ArrayData, len(d.Children()))
	for i, c := range d.Children() {
		p := Plain(array.MakeFromData(c))
		children[i] = p.Data()
		changed = changed || !arrow.TypeEqual(p.DataType(), c.DataType())
	}
	if !changed {
		return a
	}
	dt := a.DataType()
	switch t := dt.(type) {
	case *arrow.MapType:
		kv := children[0].DataType().(*arrow.StructType)
		dt = arrow.MapOf(kv.Field(0).Type, kv.Field(1).Type)
	case *arrow.ListType:
		dt = arrow.ListOf(children[0].DataType())
	case *arrow.StructType:
		fields := make([]arrow.Field, t.NumFields())
		for i, f := range t.Fields() {
			f.Type = children[i].DataType()
			fields[i] = f
		}
		dt = arrow.StructOf(fields...)
	}
	return array.MakeFromData(array.NewData(dt, d.Len(), d.Buffers(), children, d.NullN(), d.Offset()))
}
