package schema

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// ArrayType returns array<element>, MapType map<key,value>, StructType
// struct<fields>, UnionType uniontype<alternatives>.
func ArrayType(element Type) Type {
	return Type{Kind: Array, Nested: &Nested{Fields: []Field{{Type: element}}}}
}

// MapType returns map<key,value>.
func MapType(key, value Type) Type {
	return Type{Kind: Map, Nested: &Nested{Fields: []Field{{Type: key}, {Type: value}}}}
}

// StructType returns struct<...>; it keeps the slice.
func StructType(fields []Field) Type { return Type{Kind: Struct, Nested: &Nested{Fields: fields}} }

// UnionType returns uniontype<...>.
func UnionType(alternatives []Type) Type {
	n := &Nested{Fields: make([]Field, len(alternatives))}
	for i, t := range alternatives {
		n.Fields[i].Type = t
	}
	return Type{Kind: Union, Nested: n}
}

// Storable reports whether a table can have a column of type t: a primitive one,
// or a nested one that is made of such.
func (t Type) Storable() bool {
	if !t.IsNested() {
		return t.IsPrimitive()
	}
	for _, f := range t.Nested.Fields {
		if !f.Type.Storable() {
			return false
		}
	}
	return true
}

// IsNested reports whether t is an array, map, struct or union.
func (t Type) IsNested() bool { return t.Kind >= Array && t.Kind <= Union }

// Part returns the type of part i: an array's element, a map's key (0) and value
// (1), a struct's field, a union's alternative.
func (t Type) Part(i int) Type { return t.Nested.Fields[i].Type }

// Parts returns how many there are.
func (t Type) Parts() int {
	if t.Nested == nil {
		return 0
	}
	return len(t.Nested.Fields)
}

// listSpan returns the child of row i of a list or map array and its values there.
func listSpan(a *array.List, i int) (values arrow.Array, from, to int) {
	f, t := a.ValueOffsets(i)
	return a.ListValues(), int(f), int(t)
}

// fromArrowNested fills d.List, and for a union d.I, from row i, which is not NULL.
func fromArrowNested(d *Datum, a arrow.Array, i int) {
	switch a := a.(type) {
	case *array.List:
		values, from, to := listSpan(a, i)
		d.List = make([]Datum, 0, to-from)
		for j := from; j < to; j++ {
			d.List = append(d.List, FromArrow(values, j, d.Type.Part(0)))
		}
	case *array.Map:
		f, t := a.ValueOffsets(i)
		keys, items := a.Keys(), a.Items()
		d.List = make([]Datum, 0, 2*(t-f))
		for j := int(f); j < int(t); j++ {
			d.List = append(d.List, FromArrow(keys, j, d.Type.Part(0)), FromArrow(items, j, d.Type.Part(1)))
		}
	case *array.Struct:
		if d.Type.Kind == Union {
			d.I = int64(a.Field(0).(*array.Int8).Value(i))
			d.List = []Datum{FromArrow(a.Field(int(d.I)+1), i, d.Type.Part(int(d.I)))}
			return
		}
		d.List = make([]Datum, d.Type.Parts())
		for k := range d.List {
			d.List[k] = FromArrow(a.Field(k), i, d.Type.Part(k))
		}
	default:
		panic("schema: no datum of " + a.DataType().String())
	}
}

// compareNested orders two non-null nested datums of one type: arrays and structs
// part by part, NULL first, a shorter array before a longer one; unions by tag, then
// value; maps by their entries in the order of their keys.
func compareNested(a, b Datum) int {
	switch a.Type.Kind {
	case Union:
		if c := cmp.Compare(a.I, b.I); c != 0 {
			return c
		}
	case Map:
		return slices.CompareFunc(sortedEntries(a.List), sortedEntries(b.List), compareOrNull)
	}
	return slices.CompareFunc(a.List, b.List, compareOrNull)
}

func compareOrNull(a, b Datum) int {
	switch {
	case a.Null && b.Null:
		return 0
	case a.Null:
		return -1
	case b.Null:
		return 1
	}
	return Compare(a, b)
}

// sortedEntries returns a map's keys and values in the order of the keys.
func sortedEntries(list []Datum) []Datum {
	type entry struct{ key, value Datum }
	entries := make([]entry, len(list)/2)
	for i := range entries {
		entries[i] = entry{list[2*i], list[2*i+1]}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return compareOrNull(a.key, b.key) })
	out := make([]Datum, 0, len(list))
	for _, e := range entries {
		out = append(out, e.key, e.value)
	}
	return out
}

// CompareAt orders element i of a and element j of b, both arrays of type t
// (text may be dictionary-coded): NULL comes first and equals NULL, the rest is as
// Compare has it. It allocates for maps only.
func CompareAt(t Type, a arrow.Array, i int, b arrow.Array, j int) int {
	an, bn := isNull(a, i), isNull(b, j)
	switch {
	case an && bn:
		return 0
	case an:
		return -1
	case bn:
		return 1
	}
	switch x := a.(type) {
	case *array.Dictionary:
		return CompareAt(t, x.Dictionary(), x.GetValueIndex(i), b, j)
	case *array.Boolean:
		return cmp.Compare(bool2int(x.Value(i)), bool2int(b.(*array.Boolean).Value(j)))
	case *array.Int8:
		return cmp.Compare(x.Value(i), b.(*array.Int8).Value(j))
	case *array.Int16:
		return cmp.Compare(x.Value(i), b.(*array.Int16).Value(j))
	case *array.Int32:
		return cmp.Compare(x.Value(i), b.(*array.Int32).Value(j))
	case *array.Int64:
		return cmp.Compare(x.Value(i), b.(*array.Int64).Value(j))
	case *array.Date32:
		return cmp.Compare(x.Value(i), b.(*array.Date32).Value(j))
	case *array.Float32:
		return CompareFloat(float64(x.Value(i)), float64(b.(*array.Float32).Value(j)))
	case *array.Float64:
		return CompareFloat(x.Value(i), b.(*array.Float64).Value(j))
	case *array.Decimal128:
		return x.Value(i).Cmp(b.(*array.Decimal128).Value(j))
	case *array.String:
		if y, ok := b.(*array.Dictionary); ok {
			return CompareAt(t, a, i, y.Dictionary(), y.GetValueIndex(j))
		}
		s, u := x.Value(i), b.(*array.String).Value(j)
		if t.Kind == Char {
			s, u = strings.TrimRight(s, " "), strings.TrimRight(u, " ")
		}
		return strings.Compare(s, u)
	case *array.Binary:
		return bytes.Compare(x.Value(i), b.(*array.Binary).Value(j))
	case *array.List:
		y := b.(*array.List)
		xv, xf, xt := listSpan(x, i)
		yv, yf, yt := listSpan(y, j)
		for ; xf < xt && yf < yt; xf, yf = xf+1, yf+1 {
			if c := CompareAt(t.Part(0), xv, xf, yv, yf); c != 0 {
				return c
			}
		}
		return cmp.Compare(xt-xf, yt-yf)
	case *array.Struct:
		y := b.(*array.Struct)
		if t.Kind == Union {
			k, l := x.Field(0).(*array.Int8).Value(i), y.Field(0).(*array.Int8).Value(j)
			if k != l {
				return cmp.Compare(k, l)
			}
			return CompareAt(t.Part(int(k)), x.Field(int(k)+1), i, y.Field(int(k)+1), j)
		}
		for k := range t.Parts() {
			if c := CompareAt(t.Part(k), x.Field(k), i, y.Field(k), j); c != 0 {
				return c
			}
		}
		return 0
	case *array.Null:
		return 0
	}
	return Compare(FromArrow(a, i, t), FromArrow(b, j, t))
}

// isNull is a.IsNull(i), which is false for arrays of NULLs only.
func isNull(a arrow.Array, i int) bool { return a.IsNull(i) || a.DataType().ID() == arrow.NULL }

func bool2int(b bool) int {
	if b {
		return 1
	}
	return 0
}

// AppendKey appends bytes that are equal for elements of arrays of one type
// exactly when the elements are: NULL equals NULL, -0 equals 0, every NaN equals
// every other, maps are equal whatever the order of their entries. They have no
// order, and no element's are a prefix of another's. They serve hash tables.
func AppendKey(dst []byte, t Type, a arrow.Array, i int) []byte {
	if isNull(a, i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch x := a.(type) {
	case *array.Dictionary:
		return AppendKey(dst[:len(dst)-1], t, x.Dictionary(), x.GetValueIndex(i))
	case *array.Boolean:
		return append(dst, byte(bool2int(x.Value(i))))
	case *array.Int8:
		return append(dst, byte(x.Value(i)))
	case *array.Int16:
		return binary.LittleEndian.AppendUint16(dst, uint16(x.Value(i)))
	case *array.Int32:
		return binary.LittleEndian.AppendUint32(dst, uint32(x.Value(i)))
	case *array.Int64:
		return binary.LittleEndian.AppendUint64(dst, uint64(x.Value(i)))
	case *array.Date32:
		return binary.LittleEndian.AppendUint32(dst, uint32(x.Value(i)))
	case *array.Float32:
		return appendFloatKey(dst, float64(x.Value(i)))
	case *array.Float64:
		return appendFloatKey(dst, x.Value(i))
	case *array.Decimal128:
		v := x.Value(i)
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, uint64(v.HighBits())), v.LowBits())
	case *array.String:
		s := x.Value(i)
		if t.Kind == Char {
			s = strings.TrimRight(s, " ")
		}
		return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	case *array.Binary:
		s := x.Value(i)
		return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	case *array.List:
		values, from, to := listSpan(x, i)
		dst = binary.AppendUvarint(dst, uint64(to-from))
		for ; from < to; from++ {
			dst = AppendKey(dst, t.Part(0), values, from)
		}
		return dst
	case *array.Map:
		f, u := x.ValueOffsets(i)
		entries := make([][]byte, 0, u-f)
		for j := int(f); j < int(u); j++ {
			entries = append(entries, AppendKey(AppendKey(nil, t.Part(0), x.Keys(), j), t.Part(1), x.Items(), j))
		}
		slices.SortFunc(entries, bytes.Compare)
		dst = binary.AppendUvarint(dst, uint64(len(entries)))
		for _, e := range entries {
			dst = append(dst, e...)
		}
		return dst
	case *array.Struct:
		if t.Kind == Union {
			k := int(x.Field(0).(*array.Int8).Value(i))
			return AppendKey(append(dst, byte(k)), t.Part(k), x.Field(k+1), i)
		}
		for k := range t.Parts() {
			dst = AppendKey(dst, t.Part(k), x.Field(k), i)
		}
	}
	return dst
}

func appendFloatKey(dst []byte, f float64) []byte {
	if f != f {
		f = math.NaN()
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f+0)) // -0 + 0 = 0
}

// appendJSON appends a nested value, or a part of one, as Hive's command line shows it
// (SerDeUtils.getJSONString): text, dates and timestamps in quotes, map keys as
// values are, NULL as null, decimals without trailing zeros.
func appendJSON(dst []byte, t Type, a arrow.Array, i int) []byte {
	if isNull(a, i) {
		return append(dst, "null"...)
	}
	switch x := a.(type) {
	case *array.List:
		values, from, to := listSpan(x, i)
		dst = append(dst, '[')
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, t.Part(0), values, j)
		}
		return append(dst, ']')
	case *array.Map:
		f, u := x.ValueOffsets(i)
		dst = append(dst, '{')
		for j := int(f); j < int(u); j++ {
			if j > int(f) {
				dst = append(dst, ',')
			}
			dst = append(appendJSON(dst, t.Part(0), x.Keys(), j), ':')
			dst = appendJSON(dst, t.Part(1), x.Items(), j)
		}
		return append(dst, '}')
	case *array.Struct:
		dst = append(dst, '{')
		if t.Kind == Union {
			k := int(x.Field(0).(*array.Int8).Value(i))
			dst = append(strconv.AppendInt(dst, int64(k), 10), ':')
			return append(appendJSON(dst, t.Part(k), x.Field(k+1), i), '}')
		}
		for k := range t.Parts() {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, '"'), t.Nested.Fields[k].Name...), `":`...)
			dst = appendJSON(dst, t.Part(k), x.Field(k), i)
		}
		return append(dst, '}')
	}
	return appendJSONScalar(dst, t, func(dst []byte) []byte { return AppendText(dst, t, a, i) })
}

// appendJSONScalar puts a primitive's text into its JSON form.
func appendJSONScalar(dst []byte, t Type, text func([]byte) []byte) []byte {
	switch t.Kind {
	case String, Char, Varchar:
		dst = append(dst, '"')
		start := len(dst)
		dst = text(dst)
		for k := start; k < len(dst); k++ {
			if c := dst[k]; c < ' ' || c == '"' || c == '\\' {
				raw := append([]byte(nil), dst[start:]...)
				dst = appendEscapedJSON(dst[:start], raw)
				break
			}
		}
		return append(dst, '"')
	case Date, Timestamp, TimestampTZ:
		return append(text(append(dst, '"')), '"')
	case Decimal:
		start := len(dst)
		dst = text(dst)
		return dst[:start+len(trimDecimal(dst[start:]))]
	}
	return text(dst)
}

// trimDecimal drops trailing zeros after the point.
func trimDecimal(s []byte) []byte {
	if bytes.IndexByte(s, '.') < 0 {
		return s
	}
	s = bytes.TrimRight(s, "0")
	return bytes.TrimSuffix(s, []byte{'.'})
}

// appendEscapedJSON is SerDeUtils.escapeString.
func appendEscapedJSON(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// appendJSONDatum is appendJSON of a datum.
func appendJSONDatum(dst []byte, d Datum) []byte {
	if d.Null {
		return append(dst, "null"...)
	}
	list := func(open, shut byte, part func(dst []byte, k int) []byte, n int) []byte {
		dst = append(dst, open)
		for k := range n {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = part(dst, k)
		}
		return append(dst, shut)
	}
	switch d.Type.Kind {
	case Array:
		return list('[', ']', func(dst []byte, k int) []byte { return appendJSONDatum(dst, d.List[k]) }, len(d.List))
	case Map:
		return list('{', '}', func(dst []byte, k int) []byte {
			return appendJSONDatum(append(appendJSONDatum(dst, d.List[2*k]), ':'), d.List[2*k+1])
		}, len(d.List)/2)
	case Struct:
		return list('{', '}', func(dst []byte, k int) []byte {
			dst = append(append(append(dst, '"'), d.Type.Nested.Fields[k].Name...), `":`...)
			return appendJSONDatum(dst, d.List[k])
		}, len(d.List))
	case Union:
		dst = append(strconv.AppendInt(append(dst, '{'), d.I, 10), ':')
		return append(appendJSONDatum(dst, d.List[0]), '}')
	}
	return appendJSONScalar(dst, d.Type, d.AppendTo)
}
