package function

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// NullArray returns n nulls of a type.
func NullArray(t schema.Type, n int) arrow.Array {
	none := make([]byte, (n+7)/8)
	switch dt := t.Arrow(); dt.ID() {
	case arrow.NULL:
		return array.NewNull(n)
	case arrow.BOOL:
		return batch.NewBoolean(make([]byte, (n+7)/8), n, none)
	case arrow.STRING, arrow.BINARY:
		return batch.NewText(dt, make([]int32, n+1), nil, none)
	case arrow.LIST, arrow.MAP:
		return batch.NewList(dt, make([]int32, n+1), batch.EmptyOf(dt.(interface{ Elem() arrow.DataType }).Elem()), none)
	case arrow.STRUCT:
		var fields []arrow.Array
		if t.Kind == schema.Union {
			fields = append(fields, NullArray(schema.TinyIntType, n))
		}
		for k := range t.Parts() {
			fields = append(fields, NullArray(t.Part(k), n))
		}
		return batch.NewStruct(dt, n, fields, none)
	default:
		width := dt.(arrow.FixedWidthDataType).BitWidth() / 8
		switch width {
		case 1:
			return batch.NewFixed(dt, make([]int8, n), none)
		case 2:
			return batch.NewFixed(dt, make([]int16, n), none)
		case 4:
			return batch.NewFixed(dt, make([]int32, n), none)
		case 8:
			return batch.NewFixed(dt, make([]int64, n), none)
		default:
			return batch.NewFixed(dt, make([]decimal128.Num, n), none)
		}
	}
}

// nullOf returns the constant NULL.
func nullOf(t schema.Type) Vector { return Vector{Array: NullArray(t, 1), Const: true} }

// isNull reports whether v is a constant NULL.
func (v Vector) isNull() bool { return v.Const && v.Array.NullN() > 0 }

// Rows returns v as an array of n values, a constant spread out.
func (v Vector) Rows(n int) arrow.Array {
	if !v.Const {
		return v.Array
	}
	return batch.Gather(v.Array, make([]int32, n))
}

// mask is what an index is ANDed with: all ones, or zero for a constant.
func (v Vector) mask() int {
	if v.Const {
		return 0
	}
	return -1
}

// column is an argument's fixed-width values: row i's is v[i&mask].
type column[T batch.Fixed] struct {
	v    []T
	mask int
}

func columnOf[T batch.Fixed](v Vector) column[T] {
	return column[T]{batch.Values[T](v.Array), v.mask()}
}

func (c *column[T]) at(i int) T { return c.v[i&c.mask] }

// texts is an argument's text.
type texts struct {
	t    batch.Text
	mask int
}

func textsOf(v Vector) texts { return texts{batch.TextOf(v.Array), v.mask()} }

func (t *texts) at(i int) []byte { return t.t.Bytes(i & t.mask) }

// validity combines the arguments' null bitmaps; null means that the whole
// result is NULL. The bitmap may belong to an argument: it must not be changed.
func validity(n int, args []Vector) (valid []byte, null bool) {
	owned := false
	for _, a := range args {
		if a.Const {
			if a.Array.NullN() > 0 {
				return nil, true
			}
			continue
		}
		v := batch.Validity(a.Array)
		switch {
		case v == nil:
		case valid == nil:
			valid = v
		default:
			if !owned {
				valid = append(make([]byte, 0, len(valid)), valid...)
				owned = true
			}
			and(valid, valid, v)
		}
	}
	return valid, false
}

// words views a bitmap as 64-bit words, leaving out the tail.
func words(b []byte) []uint64 {
	if len(b) < 8 {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), len(b)/8)
}

// The bitmap operations work on the bytes that dst has; others may be longer.

func and(dst, a, b []byte) {
	k := bitmapLoop(dst, a, b, func(x, y uint64) uint64 { return x & y })
	for ; k < len(dst); k++ {
		dst[k] = a[k] & b[k]
	}
}

func or(dst, a, b []byte) {
	k := bitmapLoop(dst, a, b, func(x, y uint64) uint64 { return x | y })
	for ; k < len(dst); k++ {
		dst[k] = a[k] | b[k]
	}
}

func andNot(dst, a, b []byte) {
	k := bitmapLoop(dst, a, b, func(x, y uint64) uint64 { return x &^ y })
	for ; k < len(dst); k++ {
		dst[k] = a[k] &^ b[k]
	}
}

func bitmapLoop(dst, a, b []byte, f func(x, y uint64) uint64) int {
	d := words(dst)
	x, y := words(a), words(b)
	for i := range d {
		d[i] = f(x[i], y[i])
	}
	return len(d) * 8
}

func invert(b []byte) []byte {
	out := make([]byte, len(b))
	for i, x := range b {
		out[i] = ^x
	}
	return out
}

func bytesFor(n int) int { return (n + 7) / 8 }

func ones(n int) []byte {
	out := make([]byte, bytesFor(n))
	for i := range out {
		out[i] = 0xff
	}
	return out
}

// packBits makes a bitmap by asking for each row.
func packBits(n int, f func(i int) bool) []byte {
	out := make([]byte, bytesFor(n))
	for i := range n {
		if f(i) {
			out[i>>3] |= 1 << (uint(i) & 7)
		}
	}
	return out
}

// nullable collects rows that became NULL. Its bitmap is made at the first.
type nullable struct {
	n     int
	valid []byte
	owned bool
}

func (m *nullable) clear(i int) {
	if !m.owned {
		v := ones(m.n)
		if m.valid != nil {
			copy(v, m.valid)
		}
		m.valid, m.owned = v, true
	}
	m.valid[i>>3] &^= 1 << (uint(i) & 7)
}

// fixed1 makes a strict kernel of one fixed-width argument.
func fixed1[A, R batch.Fixed](rt schema.Type, f func(A) R) Kernel {
	dt := rt.Arrow()
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(rt), nil
		}
		out := make([]R, n)
		for i, x := range batch.Values[A](args[0].Array) {
			out[i] = f(x)
		}
		return Vector{Array: batch.NewFixed(dt, out, valid)}, nil
	}
}

// fixed1n is fixed1 for a function that may give NULL; it is not called for
// null rows.
func fixed1n[A, R batch.Fixed](rt schema.Type, f func(A) (R, bool)) Kernel {
	dt := rt.Arrow()
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(rt), nil
		}
		m := nullable{n: n, valid: valid}
		out := make([]R, n)
		for i, x := range batch.Values[A](args[0].Array) {
			if valid != nil && !batch.BitSet(valid, i) {
				continue
			}
			r, ok := f(x)
			if !ok {
				m.clear(i)
				continue
			}
			out[i] = r
		}
		return Vector{Array: batch.NewFixed(dt, out, m.valid)}, nil
	}
}

// fixed2n makes a strict kernel of two fixed-width arguments that may give
// NULL.
func fixed2n[A, B, R batch.Fixed](rt schema.Type, f func(A, B) (R, bool)) Kernel {
	dt := rt.Arrow()
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(rt), nil
		}
		m := nullable{n: n, valid: valid}
		a, b := columnOf[A](args[0]), columnOf[B](args[1])
		out := make([]R, n)
		for i := range out {
			if valid != nil && !batch.BitSet(valid, i) {
				continue
			}
			r, ok := f(a.at(i), b.at(i))
			if !ok {
				m.clear(i)
				continue
			}
			out[i] = r
		}
		return Vector{Array: batch.NewFixed(dt, out, m.valid)}, nil
	}
}

// eachValid makes a strict kernel with a fixed-width result from a function
// of the row number; prepare is called once a batch with its arguments.
func eachValid[R batch.Fixed](rt schema.Type, prepare func(c *Context, args []Vector) (func(i int) (R, bool), error)) Kernel {
	dt := rt.Arrow()
	return func(c *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(rt), nil
		}
		f, err := prepare(c, args)
		if err != nil {
			return Vector{}, err
		}
		m := nullable{n: n, valid: valid}
		out := make([]R, n)
		for i := range out {
			if valid != nil && !batch.BitSet(valid, i) {
				continue
			}
			r, ok := f(i)
			if !ok {
				m.clear(i)
				continue
			}
			out[i] = r
		}
		return Vector{Array: batch.NewFixed(dt, out, m.valid)}, nil
	}
}

// eachBool is eachValid for boolean results.
func eachBool(prepare func(c *Context, args []Vector) (func(i int) (value, ok bool), error)) Kernel {
	return func(c *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(schema.BooleanType), nil
		}
		f, err := prepare(c, args)
		if err != nil {
			return Vector{}, err
		}
		m := nullable{n: n, valid: valid}
		out := make([]byte, bytesFor(n))
		for i := range n {
			if valid != nil && !batch.BitSet(valid, i) {
				continue
			}
			r, ok := f(i)
			if !ok {
				m.clear(i)
				continue
			}
			if r {
				out[i>>3] |= 1 << (uint(i) & 7)
			}
		}
		return Vector{Array: batch.NewBoolean(out, n, m.valid)}, nil
	}
}

// eachText is eachValid for text results: the function appends row i's value.
func eachText(rt schema.Type, prepare func(c *Context, args []Vector) (func(dst []byte, i int) ([]byte, bool), error)) Kernel {
	dt := rt.Arrow()
	return func(c *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(rt), nil
		}
		f, err := prepare(c, args)
		if err != nil {
			return Vector{}, err
		}
		m := nullable{n: n, valid: valid}
		offsets := make([]int32, n+1)
		var data []byte
		for i := range n {
			if valid == nil || batch.BitSet(valid, i) {
				more, ok := f(data, i)
				if ok {
					data = more
				} else {
					m.clear(i)
				}
				if len(data) > maxTextBytes {
					return Vector{}, tooMuchText()
				}
			}
			offsets[i+1] = int32(len(data))
		}
		return Vector{Array: batch.NewText(dt, offsets, data, m.valid)}, nil
	}
}

// integers reads an integer argument of any width.
func integers(v Vector) func(i int) int64 {
	mask := v.mask()
	switch v.Array.DataType().ID() {
	case arrow.INT8:
		x := batch.Values[int8](v.Array)
		return func(i int) int64 { return int64(x[i&mask]) }
	case arrow.INT16:
		x := batch.Values[int16](v.Array)
		return func(i int) int64 { return int64(x[i&mask]) }
	case arrow.INT64:
		x := batch.Values[int64](v.Array)
		return func(i int) int64 { return x[i&mask] }
	default:
		x := batch.Values[int32](v.Array)
		return func(i int) int64 { return int64(x[i&mask]) }
	}
}
