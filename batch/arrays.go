package batch

import (
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Fixed is every physical type whose values lie side by side in a slice.
// Dates are int32, timestamps and decimals 128-bit numbers; booleans are
// bitmaps and not among them.
type Fixed interface {
	int8 | int16 | int32 | int64 | float32 | float64 | decimal128.Num
}

// DictionaryType is the Arrow type of dictionary-coded text.
func DictionaryType() *arrow.DictionaryType {
	return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
}

// IsDictionary reports whether a is dictionary-coded text.
func IsDictionary(a arrow.Array) bool { return a.DataType().ID() == arrow.DICTIONARY }

// DictionaryOf returns the dictionary of dictionary-coded text, nil for other
// arrays. Two arrays share a dictionary exactly when the results are equal.
func DictionaryOf(a arrow.Array) *array.Data {
	if !IsDictionary(a) {
		return nil
	}
	d, _ := a.Data().Dictionary().(*array.Data)
	return d
}

// Values returns the values of a fixed-width array, without copying. T must
// be the array's physical type. Values of null rows are arbitrary. For
// dictionary-coded text Values[int32] returns the codes.
func Values[T Fixed](a arrow.Array) []T {
	d := a.Data()
	if d.Len() == 0 {
		return nil
	}
	b := d.Buffers()[1]
	if b == nil {
		return make([]T, d.Len())
	}
	p := unsafe.Pointer(unsafe.SliceData(b.Bytes()))
	return unsafe.Slice((*T)(p), d.Offset()+d.Len())[d.Offset():]
}

// Validity returns a's validity bitmap starting at bit 0, or nil when no row is
// null. It copies only when a starts in the middle of a byte. Bits at and
// above Len are arbitrary.
func Validity(a arrow.Array) []byte {
	d := a.Data()
	if d.DataType().ID() == arrow.NULL {
		return make([]byte, (d.Len()+7)/8)
	}
	if d.Len() == 0 || d.NullN() == 0 || d.Buffers()[0] == nil {
		return nil
	}
	return bitsFrom(d.Buffers()[0].Bytes(), d.Offset(), d.Len())
}

// Bits returns the values of a boolean array as a bitmap starting at bit 0.
func Bits(a arrow.Array) []byte {
	d := a.Data()
	if d.Len() == 0 || d.Buffers()[1] == nil {
		return make([]byte, (d.Len()+7)/8)
	}
	return bitsFrom(d.Buffers()[1].Bytes(), d.Offset(), d.Len())
}

func bitsFrom(b []byte, offset, n int) []byte {
	if offset%8 == 0 {
		return b[offset/8 : (offset+n+7)/8]
	}
	out := make([]byte, (n+7)/8)
	b = b[offset/8:]
	shift := uint(offset % 8)
	for i := range out {
		out[i] = b[i] >> shift
		if i+1 < len(b) {
			out[i] |= b[i+1] << (8 - shift)
		}
	}
	return out
}

// CountBits returns the number of set bits among the first n.
func CountBits(b []byte, n int) int {
	count, i := 0, 0
	for ; i+8 <= n/8; i += 8 {
		count += bits.OnesCount64(*(*uint64)(unsafe.Pointer(&b[i])))
	}
	for ; i < n/8; i++ {
		count += bits.OnesCount8(b[i])
	}
	if r := n % 8; r > 0 {
		count += bits.OnesCount8(b[n/8] & (1<<r - 1))
	}
	return count
}

// BitSet reports bit i.
func BitSet(b []byte, i int) bool { return b[i>>3]>>(uint(i)&7)&1 != 0 }

// NewFixed makes an array of v; valid is a bitmap from bit 0 or nil. It keeps
// both slices. dt must have T as its physical type.
func NewFixed[T Fixed](dt arrow.DataType, v []T, valid []byte) arrow.Array {
	var raw []byte
	if len(v) > 0 {
		raw = unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
	}
	return array.MakeFromData(newData(dt, len(v), valid, raw))
}

// NewBoolean makes a boolean array of n values from bitmaps; it keeps them.
func NewBoolean(values []byte, n int, valid []byte) arrow.Array {
	return array.MakeFromData(newData(arrow.FixedWidthTypes.Boolean, n, valid, values))
}

// NewText makes a string or binary array: value i is
// data[offsets[i]:offsets[i+1]]. It keeps the slices.
func NewText(dt arrow.DataType, offsets []int32, data []byte, valid []byte) arrow.Array {
	n := len(offsets) - 1
	var raw []byte
	if len(offsets) > 0 {
		raw = unsafe.Slice((*byte)(unsafe.Pointer(&offsets[0])), len(offsets)*4)
	}
	d := newData(dt, n, valid, raw, data)
	return array.MakeFromData(d)
}

// NewStrings makes a plain string array with no nulls.
func NewStrings(v []string) arrow.Array {
	size := 0
	for _, s := range v {
		size += len(s)
	}
	offsets, data := make([]int32, 1, len(v)+1), make([]byte, 0, size)
	for _, s := range v {
		data = append(data, s...)
		offsets = append(offsets, int32(len(data)))
	}
	return NewText(arrow.BinaryTypes.String, offsets, data, nil)
}

// NewDictionary makes dictionary-coded text. It keeps the slices; the identity
// of dict is kept, so arrays made with one dict share a dictionary.
func NewDictionary(codes []int32, valid []byte, dict *array.Data) arrow.Array {
	var raw []byte
	if len(codes) > 0 {
		raw = unsafe.Slice((*byte)(unsafe.Pointer(&codes[0])), len(codes)*4)
	}
	nulls := 0
	var vb *memory.Buffer
	if valid != nil {
		if nulls = len(codes) - CountBits(valid, len(codes)); nulls > 0 {
			vb = memory.NewBufferBytes(valid)
		}
	}
	d := array.NewDataWithDictionary(DictionaryType(), len(codes),
		[]*memory.Buffer{vb, memory.NewBufferBytes(raw)}, nulls, 0, dict)
	return array.NewDictionaryData(d)
}

func newData(dt arrow.DataType, n int, valid []byte, buffers ...[]byte) *array.Data {
	nulls := 0
	bufs := make([]*memory.Buffer, 1, len(buffers)+1)
	if valid != nil {
		if nulls = n - CountBits(valid, n); nulls > 0 {
			bufs[0] = memory.NewBufferBytes(valid)
		}
	}
	for _, b := range buffers {
		bufs = append(bufs, memory.NewBufferBytes(b))
	}
	return array.NewData(dt, n, bufs, nil, nulls, 0)
}

// Text reads a string, binary or dictionary-coded array. Values of null rows
// must not be asked for.
type Text struct {
	// Codes are nil for plain arrays; otherwise row i's value is Value(Codes[i]).
	Codes   []int32
	offsets []int32
	data    []byte
}

// TextOf returns a view of a's values.
func TextOf(a arrow.Array) Text {
	if d := DictionaryOf(a); d != nil {
		t := TextOfData(d)
		t.Codes = Values[int32](a)
		return t
	}
	return TextOfData(a.Data())
}

// TextOfData returns a view of plain text, for instance a dictionary.
func TextOfData(d arrow.ArrayData) Text {
	var t Text
	if d.Len() == 0 {
		return t
	}
	bufs := d.Buffers()
	p := unsafe.Pointer(unsafe.SliceData(bufs[1].Bytes()))
	t.offsets = unsafe.Slice((*int32)(p), d.Offset()+d.Len()+1)[d.Offset():]
	if bufs[2] != nil {
		t.data = bufs[2].Bytes()
	}
	return t
}

// Bytes returns the value of row i; it must not be changed.
func (t *Text) Bytes(i int) []byte {
	if t.Codes != nil {
		i = int(t.Codes[i])
	}
	return t.data[t.offsets[i]:t.offsets[i+1]]
}

// String returns the value of row i, sharing the array's memory.
func (t *Text) String(i int) string {
	b := t.Bytes(i)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Size returns the bytes of plain values [0, n).
func (t *Text) Size(n int) int {
	if n == 0 || len(t.offsets) == 0 {
		return 0
	}
	return int(t.offsets[n] - t.offsets[0])
}

// Plain returns a with dictionaries decoded, inside nested arrays too; other
// arrays as they are.
func Plain(a arrow.Array) arrow.Array {
	if !IsDictionary(a) {
		if len(a.Data().Children()) > 0 {
			return plainNested(a)
		}
		return a
	}
	n, valid := a.Len(), Validity(a)
	t := TextOf(a)
	offsets := make([]int32, n+1)
	size := 0
	for i, c := range t.Codes {
		if valid == nil || bitutil.BitIsSet(valid, i) {
			size += int(t.offsets[c+1] - t.offsets[c])
		}
		offsets[i+1] = int32(size)
	}
	data := make([]byte, 0, size)
	for i := range n {
		if offsets[i+1] > offsets[i] {
			data = append(data, t.Bytes(i)...)
		}
	}
	return NewText(arrow.BinaryTypes.String, offsets, data, valid)
}
