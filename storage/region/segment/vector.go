package segment

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/parquet-go/parquet-go/format"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// vector is a column's values of a page, or of a batch, as slices by physical
// type. Values of null rows are arbitrary, their codes valid or 0.
type vector struct {
	n     int
	valid []byte // bitmap, nil without nulls
	phys  physical

	bits    []byte
	i32     []int32
	i64     []int64
	f32     []float32
	f64     []float64
	wide    []decimal128.Num
	offsets []int32 // text value i is data[offsets[i]:offsets[i+1]]
	data    []byte
	codes   []int32 // instead of offsets and data: into dict
	dict    *dictionary
	levels  *levels // of a nested column's leaf, instead of all values
}

// slice returns values [from, to); from must be a multiple of 64.
func (v *vector) slice(from, to int) vector {
	if from == 0 && to == v.n {
		return *v
	}
	out := vector{n: to - from, phys: v.phys, data: v.data, dict: v.dict}
	if v.valid != nil {
		out.valid = v.valid[from/8:]
	}
	switch {
	case v.codes != nil:
		out.codes = v.codes[from:to]
	case v.bits != nil:
		out.bits = v.bits[from/8:]
	case v.i32 != nil:
		out.i32 = v.i32[from:to]
	case v.i64 != nil:
		out.i64 = v.i64[from:to]
	case v.f32 != nil:
		out.f32 = v.f32[from:to]
	case v.f64 != nil:
		out.f64 = v.f64[from:to]
	case v.wide != nil:
		out.wide = v.wide[from:to]
	case v.offsets != nil:
		out.offsets = v.offsets[from : to+1]
	}
	return out
}

// array returns values [from, to) as an Arrow array of a table column's type;
// from must be a multiple of 64. It keeps the slices where it can.
func (v *vector) array(t schema.Type, from, to int) (arrow.Array, error) {
	s := v.slice(from, to)
	dt := t.Arrow()
	switch t.Kind {
	case schema.Boolean:
		return batch.NewBoolean(s.bits, s.n, s.valid), nil
	case schema.TinyInt:
		return batch.NewFixed(dt, narrow[int8](s.i32, s.n), s.valid), nil
	case schema.SmallInt:
		return batch.NewFixed(dt, narrow[int16](s.i32, s.n), s.valid), nil
	case schema.Int, schema.Date:
		return batch.NewFixed(dt, sized(s.i32, s.n), s.valid), nil
	case schema.BigInt:
		return batch.NewFixed(dt, sized(s.i64, s.n), s.valid), nil
	case schema.Float:
		return batch.NewFixed(dt, sized(s.f32, s.n), s.valid), nil
	case schema.Double:
		return batch.NewFixed(dt, sized(s.f64, s.n), s.valid), nil
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		wide := s.wide
		switch s.phys {
		case physInt32:
			wide = widen128(s.i32)
		case physInt64:
			wide = widen128(s.i64)
		}
		return batch.NewFixed(dt, sized(wide, s.n), s.valid), nil
	}
	if s.codes != nil {
		d, err := s.dict.arrow()
		if err != nil {
			return nil, err
		}
		return batch.NewDictionary(s.codes, s.valid, d), nil
	}
	if s.offsets == nil {
		s.offsets = make([]int32, s.n+1)
	}
	return batch.NewText(dt, s.offsets, s.data, s.valid), nil
}

// sized makes up for slices that are nil because all rows are null.
func sized[T any](v []T, n int) []T {
	if len(v) < n {
		return make([]T, n)
	}
	return v[:n]
}

func narrow[T int8 | int16](v []int32, n int) []T {
	out := make([]T, n)
	for i, x := range v {
		out[i] = T(x)
	}
	return out
}

func widen128[T int32 | int64](v []T) []decimal128.Num {
	out := make([]decimal128.Num, len(v))
	for i, x := range v {
		out[i] = decimal128.FromI64(int64(x))
	}
	return out
}

// vectorOf views an Arrow array as a vector.
func vectorOf(a arrow.Array, t schema.Type) (vector, error) {
	if t.IsNested() {
		// Whether it is NULL is all that is ever asked.
		return vector{n: a.Len(), valid: batch.Validity(a)}, nil
	}
	p, ok := physicalOf(t)
	if !ok {
		return vector{}, fault.Bugf("a column of type %s", t)
	}
	v := vector{n: a.Len(), valid: batch.Validity(a), phys: p}
	if !arrayFits(a, t) {
		return v, fault.Bugf("an array of Arrow type %s for a column of type %s", a.DataType(), t)
	}
	switch t.Kind {
	case schema.Boolean:
		v.bits = batch.Bits(a)
	case schema.TinyInt:
		v.i32 = widen32(batch.Values[int8](a))
	case schema.SmallInt:
		v.i32 = widen32(batch.Values[int16](a))
	case schema.Int, schema.Date:
		v.i32 = batch.Values[int32](a)
	case schema.BigInt:
		v.i64 = batch.Values[int64](a)
	case schema.Float:
		v.f32 = batch.Values[float32](a)
	case schema.Double:
		v.f64 = batch.Values[float64](a)
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		v.phys = physFixed16
		v.wide = batch.Values[decimal128.Num](a)
	default:
		if d := batch.DictionaryOf(a); d != nil {
			v.codes = batch.Values[int32](a)
			v.dict = &dictionary{n: d.Len(), phys: physBytes, data: d}
			v.dict.offsets, v.dict.text = textSlices(d)
			break
		}
		v.offsets, v.data = textSlices(a.Data())
	}
	return v, nil
}

// arrayFits reports whether an array can hold values of a type.
func arrayFits(a arrow.Array, t schema.Type) bool {
	if t.IsText() && batch.IsDictionary(a) {
		dt := a.DataType().(*arrow.DictionaryType)
		return dt.IndexType.ID() == arrow.INT32 && dt.ValueType.ID() == arrow.STRING
	}
	return arrow.TypeEqual(a.DataType(), t.Arrow())
}

func textSlices(d arrow.ArrayData) ([]int32, []byte) {
	if d.Len() == 0 {
		return make([]int32, 1), nil
	}
	offsets := arrow.Int32Traits.CastFromBytes(d.Buffers()[1].Bytes())[d.Offset():][:d.Len()+1]
	if d.Buffers()[2] == nil {
		return offsets, nil
	}
	return offsets, d.Buffers()[2].Bytes()
}

func widen32[T int8 | int16](v []T) []int32 {
	out := make([]int32, len(v))
	for i, x := range v {
		out[i] = int32(x)
	}
	return out
}

// onlyCodes reports whether all data pages are dictionary-coded.
func (c *chunkReader) onlyCodes() bool {
	if c.meta.DictionaryPageOffset <= 0 || len(c.meta.EncodingStats) == 0 {
		return false
	}
	for _, s := range c.meta.EncodingStats {
		data := s.PageType == format.DataPage || s.PageType == format.DataPageV2
		//lint:ignore SA1019 older writers still name it so
		if data && s.Encoding != format.RLEDictionary && s.Encoding != format.PlainDictionary {
			return false
		}
	}
	return true
}

// bounds are a column chunk's statistics, in the column's order.
type bounds struct {
	nulls    int64
	has      bool // lo and hi are set
	openHigh bool // a NaN may be above hi
	lo, hi   value
}

// value is a literal or a bound in each form that it is compared in.
type value struct {
	i64  int64
	fits bool // wide fits i64
	f64  float64
	wide decimal128.Num
	text []byte
}

// chunkBounds returns the statistics of a column chunk.
func (r *Reader) chunkBounds(group, leaf int) bounds {
	m := &r.footer.RowGroups[group].Columns[leaf].MetaData
	col := &r.columns[leaf]
	b := bounds{nulls: m.Statistics.NullCount, openHigh: r.nan[nanChunk{group, col.field}]}
	lo, ok1 := decodeBound(col.phys, m.Statistics.MinValue)
	hi, ok2 := decodeBound(col.phys, m.Statistics.MaxValue)
	b.lo, b.hi, b.has = lo, hi, ok1 && ok2
	return b
}

// decodeBound decodes a plain-encoded statistic. nil means there is none.
func decodeBound(p physical, b []byte) (v value, ok bool) {
	if b == nil {
		return v, false
	}
	switch p {
	case physBool:
		if len(b) != 1 {
			return v, false
		}
		v.i64 = int64(b[0] & 1)
	case physInt32:
		if len(b) != 4 {
			return v, false
		}
		v.i64 = int64(int32(binary.LittleEndian.Uint32(b)))
	case physInt64:
		if len(b) != 8 {
			return v, false
		}
		v.i64 = int64(binary.LittleEndian.Uint64(b))
	case physFloat:
		if len(b) != 4 {
			return v, false
		}
		v.f64 = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		return v, v.f64 == v.f64
	case physDouble:
		if len(b) != 8 {
			return v, false
		}
		v.f64 = math.Float64frombits(binary.LittleEndian.Uint64(b))
		return v, v.f64 == v.f64
	case physFixed16:
		if len(b) != 16 {
			return v, false
		}
		v.wide = decimal128.New(int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:]))
		return v, true
	default:
		v.text = b
		return v, true
	}
	v.wide, v.fits = decimal128.FromI64(v.i64), true
	return v, true
}
