package schema

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Cell is where a cell's text lies in a buffer: data[Start : Start+Len]. A
// negative Len is NULL.
type Cell struct{ Start, Len int32 }

// Appender builds arrays of one type, one after the other, from the cells of
// text files or from datums. It parses straight into the array's buffers, with
// no allocation for a value. Not safe for concurrent use.
//
// Text comes out dictionary-coded while few distinct values occur. The
// dictionary is kept over the arrays, so its pointer is the same from array to
// array while no new value turns up (see package batch). A column whose values are
// mostly distinct is plain from the first array on.
type Appender struct {
	t        Type
	capacity int
	n        int
	nulls    int
	valid    []byte // bitmap; nil while no value is NULL

	bits    []byte
	i8      []int8
	i16     []int16
	i32     []int32 // also dates and dictionary codes
	i64     []int64
	f32     []float32
	f64     []float64
	d128    []decimal128.Num
	offsets []int32 // plain text and binary: n+1 of them
	text    []byte
	dict    *dictionary // text while it pays
	// children are the appenders of a nested value's parts: array 1, map 2, struct
	// as many as fields, union its tag (tinyint) and its alternatives.
	children []*Appender
	form     *CellForm // of nested cells; nil: Hive's default
}

// SetCellForm says how the cells of a nested type lie in the file. Escapes in
// them must not have been undone.
func (a *Appender) SetCellForm(f *CellForm) { a.form = f }

// NewAppender returns an appender of arrays with about capacity elements. The
// type must have an Arrow form.
func NewAppender(t Type, capacity int) *Appender {
	a := &Appender{t: t, capacity: max(capacity, 1)}
	if t.IsText() {
		a.dict = newDictionary()
	}
	a.makeChildren()
	a.reset()
	return a
}

func (a *Appender) makeChildren() {
	if a.t.Kind == Union {
		a.children = append(a.children, NewPlainAppender(TinyIntType, a.capacity))
	}
	for k := range a.t.Parts() {
		a.children = append(a.children, NewPlainAppender(a.t.Part(k), a.capacity))
	}
}

// endList ends an array or map whose elements were appended to the children.
func (a *Appender) endList() {
	a.offsets = append(a.offsets, int32(a.children[0].n))
	a.n++
}

// NewPlainAppender is NewAppender whose text arrays are never
// dictionary-coded.
func NewPlainAppender(t Type, capacity int) *Appender {
	a := &Appender{t: t, capacity: max(capacity, 1)}
	a.makeChildren()
	a.reset()
	return a
}

// Type returns the type of the arrays.
func (a *Appender) Type() Type { return a.t }

// Len returns how many values the next Finish will have.
func (a *Appender) Len() int { return a.n }

// Bytes returns about how many bytes of memory they take.
func (a *Appender) Bytes() int {
	inner := 0
	for _, c := range a.children {
		inner += c.Bytes()
	}
	return inner + len(a.text) + 4*(len(a.i32)+len(a.offsets)+len(a.f32)) + 8*(len(a.i64)+len(a.f64)) +
		16*len(a.d128) + len(a.i8) + 2*len(a.i16) + len(a.bits)
}

func (a *Appender) reset() {
	a.n, a.nulls, a.valid = 0, 0, nil
	switch a.t.Kind {
	case Boolean:
		a.bits = make([]byte, 0, (a.capacity+7)/8)
	case TinyInt:
		a.i8 = make([]int8, 0, a.capacity)
	case SmallInt:
		a.i16 = make([]int16, 0, a.capacity)
	case Int, Date, IntervalYearMonth:
		a.i32 = make([]int32, 0, a.capacity)
	case BigInt:
		a.i64 = make([]int64, 0, a.capacity)
	case Float:
		a.f32 = make([]float32, 0, a.capacity)
	case Double:
		a.f64 = make([]float64, 0, a.capacity)
	case Decimal, Timestamp, TimestampTZ, IntervalDayTime:
		a.d128 = make([]decimal128.Num, 0, a.capacity)
	case Array, Map:
		a.offsets = append(make([]int32, 0, a.capacity+1), 0)
	case String, Char, Varchar, Binary:
		if a.dict != nil {
			a.i32, a.offsets = make([]int32, 0, a.capacity), nil
			return
		}
		a.i32 = nil
		a.offsets = append(make([]int32, 0, a.capacity+1), 0)
		// The next array is about as long as the last one.
		a.text = make([]byte, 0, len(a.text)+len(a.text)/8+64)
	}
}

// setNull marks the value about to be appended as NULL.
func (a *Appender) setNull() {
	if a.valid == nil {
		a.valid = make([]byte, (max(a.n+1, a.capacity)+7)/8)
		for i := range a.valid {
			a.valid[i] = 0xff
		}
	}
	for a.n/8 >= len(a.valid) {
		a.valid = append(a.valid, 0xff)
	}
	a.valid[a.n/8] &^= 1 << (a.n % 8)
	a.nulls++
}

// AppendNull appends NULL.
func (a *Appender) AppendNull() { a.appendNull() }

func (a *Appender) appendNull() {
	a.setNull()
	switch a.t.Kind {
	case Boolean:
		a.appendBit(false)
	case TinyInt:
		a.i8 = append(a.i8, 0)
	case SmallInt:
		a.i16 = append(a.i16, 0)
	case Int, Date, IntervalYearMonth:
		a.i32 = append(a.i32, 0)
	case BigInt:
		a.i64 = append(a.i64, 0)
	case Float:
		a.f32 = append(a.f32, 0)
	case Double:
		a.f64 = append(a.f64, 0)
	case Decimal, Timestamp, TimestampTZ, IntervalDayTime:
		a.d128 = append(a.d128, decimal128.Num{})
	case String, Char, Varchar, Binary:
		if a.dict != nil {
			a.i32 = append(a.i32, 0)
		} else {
			a.offsets = append(a.offsets, int32(len(a.text)))
		}
	case Array, Map:
		a.offsets = append(a.offsets, int32(a.children[0].n))
	case Struct, Union:
		for _, c := range a.children {
			c.appendNull()
		}
	}
	a.n++
}

func (a *Appender) appendBit(v bool) {
	if a.n%8 == 0 {
		a.bits = append(a.bits, 0)
	}
	if v {
		a.bits[a.n/8] |= 1 << (a.n % 8)
	}
}

// AppendText appends a cell as ParseText reads it; false: unreadable, NULL was
// appended.
func (a *Appender) AppendText(cell []byte) bool {
	one := [1]Cell{{Len: int32(len(cell))}}
	return len(a.AppendCells(cell, one[:], nil)) == 0
}

// AppendCells appends cells that lie in data. The positions in cells of those
// that are unreadable, which become NULL, are added to bad, which is returned.
func (a *Appender) AppendCells(data []byte, cells []Cell, bad []int32) []int32 {
	switch a.t.Kind {
	case Boolean:
		for i, c := range cells {
			if c.Len < 0 {
				a.appendNull()
				continue
			}
			v, ok := parseBool(data[c.Start : c.Start+c.Len])
			if !ok {
				bad = append(bad, int32(i))
				a.appendNull()
				continue
			}
			a.appendBit(v)
			a.n++
		}
	case TinyInt:
		a.i8, bad = appendInts(a, a.i8, data, cells, bad, math.MinInt8, math.MaxInt8)
	case SmallInt:
		a.i16, bad = appendInts(a, a.i16, data, cells, bad, math.MinInt16, math.MaxInt16)
	case Int:
		a.i32, bad = appendInts(a, a.i32, data, cells, bad, math.MinInt32, math.MaxInt32)
	case BigInt:
		a.i64, bad = appendInts(a, a.i64, data, cells, bad, math.MinInt64, math.MaxInt64)
	case Date:
		a.i32, bad = appendParsed(a, a.i32, data, cells, bad, func(s []byte) (int32, bool) {
			days, ok := parseDate(s)
			return int32(days), ok
		})
	case Float:
		a.f32, bad = appendParsed(a, a.f32, data, cells, bad, func(s []byte) (float32, bool) {
			f, ok := parseFloat(s, 32)
			return float32(f), ok
		})
	case Double:
		a.f64, bad = appendParsed(a, a.f64, data, cells, bad, func(s []byte) (float64, bool) { return parseFloat(s, 64) })
	case Decimal:
		precision, scale := int(a.t.Precision), int(a.t.Scale)
		a.d128, bad = appendParsed(a, a.d128, data, cells, bad, func(s []byte) (decimal128.Num, bool) {
			return parseDecimal(s, precision, scale)
		})
	case Timestamp, TimestampTZ:
		useZone := a.t.Kind == TimestampTZ
		a.d128, bad = appendParsed(a, a.d128, data, cells, bad, func(s []byte) (decimal128.Num, bool) {
			return parseTimestamp(s, useZone)
		})
	case String, Char, Varchar:
		a.appendTexts(data, cells)
	case Binary:
		for _, c := range cells {
			if c.Len < 0 {
				a.appendNull()
				continue
			}
			a.appendBytes(parseBinary(data[c.Start : c.Start+c.Len]))
		}
	case Array, Map, Struct, Union:
		if a.form == nil {
			a.form = NewCellForm(2, 3, 0, `\N`)
		}
		for i, c := range cells {
			if c.Len < 0 {
				a.appendNull()
			} else if !a.AppendNested(data[c.Start:c.Start+c.Len], a.form) {
				bad = append(bad, int32(i))
			}
		}
	default: // Void, intervals: no text form in files
		for i, c := range cells {
			if c.Len >= 0 {
				bad = append(bad, int32(i))
			}
			a.appendNull()
		}
	}
	return bad
}

func appendInts[T int8 | int16 | int32 | int64](a *Appender, dst []T, data []byte, cells []Cell, bad []int32, least, most int64) ([]T, []int32) {
	for i, c := range cells {
		if c.Len < 0 {
			a.setNull()
			dst = append(dst, 0)
			a.n++
			continue
		}
		v, ok := parseInt(data[c.Start:c.Start+c.Len], least, most)
		if !ok {
			bad = append(bad, int32(i))
			a.setNull()
		}
		dst = append(dst, T(v))
		a.n++
	}
	return dst, bad
}

func appendParsed[T any](a *Appender, dst []T, data []byte, cells []Cell, bad []int32, parse func([]byte) (T, bool)) ([]T, []int32) {
	var zero T
	for i, c := range cells {
		if c.Len < 0 {
			a.setNull()
			dst = append(dst, zero)
			a.n++
			continue
		}
		v, ok := parse(data[c.Start : c.Start+c.Len])
		if !ok {
			bad = append(bad, int32(i))
			a.setNull()
			v = zero
		}
		dst = append(dst, v)
		a.n++
	}
	return dst, bad
}

func (a *Appender) appendTexts(data []byte, cells []Cell) {
	cut := a.t.Kind != String
	for k, c := range cells {
		if c.Len < 0 {
			a.appendNull()
			continue
		}
		s := data[c.Start : c.Start+c.Len]
		if cut {
			s = cutText(a.t, s)
		}
		if a.dict == nil {
			a.text = append(a.text, s...)
			a.offsets = append(a.offsets, int32(len(a.text)))
			a.n++
			continue
		}
		code, ok := a.dict.code(s)
		if !ok {
			a.toPlain()
			a.appendTexts(data, cells[k:])
			return
		}
		a.i32 = append(a.i32, code)
		a.n++
	}
}

func (a *Appender) appendBytes(s []byte) {
	if a.dict != nil {
		if code, ok := a.dict.code(s); ok {
			a.i32 = append(a.i32, code)
			a.n++
			return
		}
		a.toPlain()
	}
	a.text = append(a.text, s...)
	a.offsets = append(a.offsets, int32(len(a.text)))
	a.n++
}

// toPlain gives up the dictionary for good.
func (a *Appender) toPlain() {
	codes, dict := a.i32, a.dict
	a.dict, a.i32 = nil, nil
	a.offsets = append(make([]int32, 0, max(a.capacity, len(codes))+1), 0)
	a.text = make([]byte, 0, 16*a.capacity)
	for i, code := range codes {
		if a.valid == nil || i/8 >= len(a.valid) || a.valid[i/8]&(1<<(i%8)) != 0 {
			a.text = append(a.text, dict.value(code)...)
		}
		a.offsets = append(a.offsets, int32(len(a.text)))
	}
}

// AppendDatum appends d, which is NULL or of the appender's type.
func (a *Appender) AppendDatum(d Datum) {
	if d.Null {
		a.appendNull()
		return
	}
	switch a.t.Kind {
	case Boolean:
		a.appendBit(d.I != 0)
	case TinyInt:
		a.i8 = append(a.i8, int8(d.I))
	case SmallInt:
		a.i16 = append(a.i16, int16(d.I))
	case Int, Date, IntervalYearMonth:
		a.i32 = append(a.i32, int32(d.I))
	case BigInt:
		a.i64 = append(a.i64, d.I)
	case Float:
		a.f32 = append(a.f32, float32(d.F))
	case Double:
		a.f64 = append(a.f64, d.F)
	case Decimal, Timestamp, TimestampTZ, IntervalDayTime:
		a.d128 = append(a.d128, d.D)
	case String, Char, Varchar, Binary:
		a.appendBytes(cutText(a.t, []byte(d.S)))
		return
	case Array:
		for _, e := range d.List {
			a.children[0].AppendDatum(e)
		}
		a.endList()
		return
	case Map:
		for k := 0; k+1 < len(d.List); k += 2 {
			a.children[0].AppendDatum(d.List[k])
			a.children[1].AppendDatum(d.List[k+1])
		}
		a.endList()
		return
	case Struct:
		for k, c := range a.children {
			c.AppendDatum(d.List[k])
		}
	case Union:
		a.children[0].AppendDatum(Datum{Type: TinyIntType, I: d.I})
		for k, c := range a.children[1:] {
			if k == int(d.I) {
				c.AppendDatum(d.List[0])
			} else {
				c.appendNull()
			}
		}
	default:
		a.appendNull()
		return
	}
	a.n++
}

// Finish returns the array of what was appended since the last Finish.
func (a *Appender) Finish() arrow.Array {
	if a.dict != nil && !a.dict.pays(a.n-a.nulls) {
		a.toPlain()
	}
	var valid *memory.Buffer
	if a.nulls > 0 {
		for len(a.valid) < (a.n+7)/8 {
			a.valid = append(a.valid, 0xff)
		}
		valid = memory.NewBufferBytes(a.valid)
	}
	var out arrow.Array
	switch a.t.Kind {
	case Boolean:
		out = fixed(a, valid, a.bits)
	case TinyInt:
		out = fixed(a, valid, arrow.Int8Traits.CastToBytes(a.i8))
	case SmallInt:
		out = fixed(a, valid, arrow.Int16Traits.CastToBytes(a.i16))
	case Int, Date, IntervalYearMonth:
		out = fixed(a, valid, arrow.Int32Traits.CastToBytes(a.i32))
	case BigInt:
		out = fixed(a, valid, arrow.Int64Traits.CastToBytes(a.i64))
	case Float:
		out = fixed(a, valid, arrow.Float32Traits.CastToBytes(a.f32))
	case Double:
		out = fixed(a, valid, arrow.Float64Traits.CastToBytes(a.f64))
	case Decimal, Timestamp, TimestampTZ, IntervalDayTime:
		out = fixed(a, valid, arrow.Decimal128Traits.CastToBytes(a.d128))
	case String, Char, Varchar, Binary:
		if a.dict != nil {
			out = a.dict.array(a.i32, valid, a.nulls)
			break
		}
		data := array.NewData(a.t.Arrow(), a.n, []*memory.Buffer{valid,
			memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(a.offsets)), memory.NewBufferBytes(a.text)}, nil, a.nulls, 0)
		out = array.MakeFromData(data)
	case Array, Map, Struct, Union:
		out = a.finishNested(valid)
	default:
		out = array.NewNull(a.n)
	}
	a.capacity = max(a.capacity, a.n) // the next one is about as long
	a.reset()
	return out
}

func fixed(a *Appender, valid *memory.Buffer, values []byte) arrow.Array {
	return array.MakeFromData(array.NewData(a.t.Arrow(), a.n, []*memory.Buffer{valid, memory.NewBufferBytes(values)}, nil, a.nulls, 0))
}

func (a *Appender) finishNested(valid *memory.Buffer) arrow.Array {
	children := make([]arrow.ArrayData, len(a.children))
	n := 0
	for k, c := range a.children {
		n = c.n
		children[k] = c.Finish().Data()
	}
	dt := a.t.Arrow()
	buffers := []*memory.Buffer{valid}
	switch a.t.Kind {
	case Map:
		entries := array.NewData(dt.(*arrow.MapType).Elem(), n, []*memory.Buffer{nil}, children, 0, 0)
		children = []arrow.ArrayData{entries}
		fallthrough
	case Array:
		buffers = append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(a.offsets)))
	}
	return array.MakeFromData(array.NewData(dt, a.n, buffers, children, a.nulls, 0))
}
