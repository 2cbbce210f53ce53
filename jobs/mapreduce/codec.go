package mapreduce

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"unsafe"
)

// Codec turns keys or values into bytes and back. The bytes of two keys must
// compare as the keys are to be ordered, and be equal exactly when the keys are:
// sorting and grouping see nothing else. Values that are to be sorted need the
// same. The codecs of CodecFor are all like that.
type Codec[T any] interface {
	// Append appends the bytes of v to dst.
	Append(dst []byte, v T) []byte
	// Decode is the inverse of Append. src is never changed afterwards, so the
	// result may share its memory. It must not panic whatever src is.
	Decode(src []byte) (T, error)
}

// CodecFor returns the codec of T, made once: strings and byte slices as they
// are, numbers as big-endian bytes in the order of the numbers (NaN above all),
// booleans, and structs, arrays, slices and pointers of those, field by field in
// their order; nil comes first. Unexported fields, maps and interfaces have no
// order: give such types a Codec of their own.
func CodecFor[T any]() (Codec[T], error) {
	var zero T
	var c any
	switch any(zero).(type) {
	case string:
		c = stringCodec{}
	case []byte:
		c = bytesCodec{}
	case int64:
		c = int64Codec{}
	case int:
		c = intCodec{}
	case float64:
		c = float64Codec{}
	default:
		p, err := planOf(reflect.TypeFor[T](), nil)
		if err != nil {
			return nil, fmt.Errorf("no codec for %s: %w", reflect.TypeFor[T](), err)
		}
		return planCodec[T]{p}, nil
	}
	return c.(Codec[T]), nil //nolint:forcetypeassert // T is the type of the case
}

type stringCodec struct{}

func (stringCodec) Append(dst []byte, v string) []byte { return append(dst, v...) }
func (stringCodec) Decode(src []byte) (string, error)  { return view(src), nil }

type bytesCodec struct{}

func (bytesCodec) Append(dst []byte, v []byte) []byte { return append(dst, v...) }
func (bytesCodec) Decode(src []byte) ([]byte, error)  { return src, nil }

type int64Codec struct{}

func (int64Codec) Append(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
}

func (int64Codec) Decode(src []byte) (int64, error) {
	if len(src) != 8 {
		return 0, shape("int64", 8, len(src))
	}
	return int64(binary.BigEndian.Uint64(src) ^ 1<<63), nil
}

type intCodec struct{}

func (intCodec) Append(dst []byte, v int) []byte { return int64Codec{}.Append(dst, int64(v)) }

func (intCodec) Decode(src []byte) (int, error) {
	v, err := int64Codec{}.Decode(src)
	return int(v), err
}

type float64Codec struct{}

func (float64Codec) Append(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(dst, floatBits(v))
}

func (float64Codec) Decode(src []byte) (float64, error) {
	if len(src) != 8 {
		return 0, shape("float64", 8, len(src))
	}
	return floatOf(binary.BigEndian.Uint64(src)), nil
}

// floatBits returns bits that order as floats do: -0 is 0, NaN is highest.
func floatBits(v float64) uint64 {
	switch {
	case v == 0:
		v = 0 // -0 equals 0, so their bytes must
	case v != v:
		v = math.NaN() // one of the many
	}
	b := math.Float64bits(v)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

func floatOf(b uint64) float64 {
	if b>>63 == 1 {
		return math.Float64frombits(b &^ (1 << 63))
	}
	return math.Float64frombits(^b)
}

func shape(what string, want, got int) error {
	return fmt.Errorf("decode %s: %d bytes, want %d", what, got, want)
}

// view returns the bytes as a string that shares their memory: they never
// change any more.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// planCodec is the codec of composed types: reflection looks at the type once,
// values are reached by their offsets.
type planCodec[T any] struct{ p *typePlan }

func (c planCodec[T]) Append(dst []byte, v T) []byte {
	return c.p.append(dst, unsafe.Pointer(&v), true)
}

func (c planCodec[T]) Decode(src []byte) (T, error) {
	var v T
	rest, err := c.p.decode(src, unsafe.Pointer(&v), true)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("decode %T: %d bytes too many", v, len(rest))
	}
	return v, err
}
