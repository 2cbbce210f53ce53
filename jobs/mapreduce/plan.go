package mapreduce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"
)

// typePlan is how values of a type become bytes. In bytes, a text within a
// larger value has each 0x00 doubled as 0x00 0xff and ends in 0x00 0x01, so that
// a shorter one sorts first; the last text of all is written as it is.
type typePlan struct {
	append func(dst []byte, p unsafe.Pointer, last bool) []byte
	// decode reads a value off src into *p and returns the rest.
	decode func(src []byte, p unsafe.Pointer, last bool) ([]byte, error)
}

var errShort = errors.New("the bytes end early")

// planOf makes the plan of a type; above are the types that it is a part of.
func planOf(t reflect.Type, above []reflect.Type) (*typePlan, error) {
	if slices.Contains(above, t) {
		return nil, fmt.Errorf("%s contains itself", t)
	}
	above = append(slices.Clone(above), t)
	switch t.Kind() {
	case reflect.Bool:
		return boolPlan(), nil
	case reflect.Int8:
		return intPlan[int8](1, 1<<7), nil
	case reflect.Int16:
		return intPlan[int16](2, 1<<15), nil
	case reflect.Int32:
		return intPlan[int32](4, 1<<31), nil
	case reflect.Int64:
		return intPlan[int64](8, 1<<63), nil
	case reflect.Int:
		return intPlan[int](8, 1<<63), nil
	case reflect.Uint8:
		return intPlan[uint8](1, 0), nil
	case reflect.Uint16:
		return intPlan[uint16](2, 0), nil
	case reflect.Uint32:
		return intPlan[uint32](4, 0), nil
	case reflect.Uint64:
		return intPlan[uint64](8, 0), nil
	case reflect.Uint:
		return intPlan[uint](8, 0), nil
	case reflect.Float64:
		return floatPlan(func(p unsafe.Pointer) float64 { return *(*float64)(p) }, func(p unsafe.Pointer, v float64) { *(*float64)(p) = v }), nil
	case reflect.Float32:
		return floatPlan(func(p unsafe.Pointer) float64 { return float64(*(*float32)(p)) }, func(p unsafe.Pointer, v float64) { *(*float32)(p) = float32(v) }), nil
	case reflect.String:
		return textPlan(func(p unsafe.Pointer) []byte { s := *(*string)(p); return unsafe.Slice(unsafe.StringData(s), len(s)) },
			func(p unsafe.Pointer, b []byte) { *(*string)(p) = view(b) }), nil
	case reflect.Struct:
		return structPlan(t, above)
	case reflect.Pointer:
		return pointerPlan(t, above)
	case reflect.Array:
		return arrayPlan(t, above)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return textPlan(func(p unsafe.Pointer) []byte { return *(*[]byte)(p) }, func(p unsafe.Pointer, b []byte) { *(*[]byte)(p) = b }), nil
		}
		return slicePlan(t, above)
	}
	return nil, fmt.Errorf("%s has no order", t)
}

func boolPlan() *typePlan {
	return &typePlan{
		append: func(dst []byte, p unsafe.Pointer, _ bool) []byte {
			if *(*bool)(p) {
				return append(dst, 1)
			}
			return append(dst, 0)
		},
		decode: func(src []byte, p unsafe.Pointer, _ bool) ([]byte, error) {
			if len(src) == 0 {
				return nil, errShort
			}
			if src[0] > 1 {
				return nil, fmt.Errorf("a boolean of %d", src[0])
			}
			*(*bool)(p) = src[0] == 1
			return src[1:], nil
		},
	}
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint
}

func intPlan[T integer](size int, sign uint64) *typePlan {
	return &typePlan{
		append: func(dst []byte, p unsafe.Pointer, _ bool) []byte {
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], (uint64(*(*T)(p))^sign)<<(64-8*size))
			return append(dst, b[:size]...)
		},
		decode: func(src []byte, p unsafe.Pointer, _ bool) ([]byte, error) {
			if len(src) < size {
				return nil, errShort
			}
			var b [8]byte
			copy(b[:], src[:size])
			*(*T)(p) = T(binary.BigEndian.Uint64(b[:])>>(64-8*size) ^ sign)
			return src[size:], nil
		},
	}
}

func floatPlan(get func(unsafe.Pointer) float64, set func(unsafe.Pointer, float64)) *typePlan {
	return &typePlan{
		append: func(dst []byte, p unsafe.Pointer, _ bool) []byte {
			return binary.BigEndian.AppendUint64(dst, floatBits(get(p)))
		},
		decode: func(src []byte, p unsafe.Pointer, _ bool) ([]byte, error) {
			if len(src) < 8 {
				return nil, errShort
			}
			set(p, floatOf(binary.BigEndian.Uint64(src)))
			return src[8:], nil
		},
	}
}

func textPlan(get func(unsafe.Pointer) []byte, set func(unsafe.Pointer, []byte)) *typePlan {
	return &typePlan{
		append: func(dst []byte, p unsafe.Pointer, last bool) []byte {
			v := get(p)
			if last {
				return append(dst, v...)
			}
			for _, c := range v {
				if dst = append(dst, c); c == 0 {
					dst = append(dst, 0xff)
				}
			}
			return append(dst, 0, 1)
		},
		decode: func(src []byte, p unsafe.Pointer, last bool) ([]byte, error) {
			if last {
				set(p, src)
				return nil, nil
			}
			var out []byte // nil while nothing had to be undone
			for i := 0; i+1 < len(src); i++ {
				if src[i] != 0 {
					if out != nil {
						out = append(out, src[i])
					}
					continue
				}
				switch src[i+1] {
				case 1:
					if out == nil {
						out = src[:i:i]
					}
					set(p, out)
					return src[i+2:], nil
				case 0xff:
					if out == nil {
						out = append(make([]byte, 0, len(src)), src[:i]...)
					}
					out = append(out, 0)
					i++
				default:
					return nil, fmt.Errorf("0x00 0x%02x in a text", src[i+1])
				}
			}
			return nil, errShort
		},
	}
}

func structPlan(t reflect.Type, above []reflect.Type) (*typePlan, error) {
	type part struct {
		*typePlan
		offset uintptr
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			return nil, fmt.Errorf("field %s of %s is not exported", f.Name, t)
		}
		p, err := planOf(f.Type, above)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		parts = append(parts, part{p, f.Offset})
	}
	return &typePlan{
		append: func(dst []byte, p unsafe.Pointer, last bool) []byte {
			for i := range parts {
				dst = parts[i].append(dst, unsafe.Add(p, parts[i].offset), last && i == len(parts)-1)
			}
			return dst
		},
		decode: func(src []byte, p unsafe.Pointer, last bool) ([]byte, error) {
			var err error
			for i := range parts {
				if src, err = parts[i].decode(src, unsafe.Add(p, parts[i].offset), last && i == len(parts)-1); err != nil {
					return nil, err
				}
			}
			return src, nil
		},
	}, nil
}

func arrayPlan(t reflect.Type, above []reflect.Type) (*typePlan, error) {
	e, err := planOf(t.Elem(), above)
	if err != nil {
		return nil, err
	}
	size, n := t.Elem().Size(), t.Len()
	return &typePlan{
		append: func(dst []byte, p unsafe.Pointer, last bool) []byte {
			for i := range n {
				dst = e.append(dst, unsafe.Add(p, uintptr(i)*size), last && i == n-1)
			}
			return dst
		},
		decode: func(src []byte, p unsafe.Pointer, last bool) ([]byte, error) {
			var err error
			for i := range n {
				if src, err = e.decode(src, unsafe.Add(p, uintptr(i)*size), last && i == n-1); err != nil {
					return nil, err
				}
			}
			return src, nil
		},
	}, nil
}

// pointerPlan: a byte 0 is nil; 1, then the value.
func pointerPlan(t reflect.Type, above []reflect.Type) (*typePlan, error) {
	e, err := planOf(t.Elem(), above)
	if err != nil {
		return nil, err
	}
	elem := t.Elem()
	return &typePlan{
		append: func(dst []byte, p unsafe.Pointer, last bool) []byte {
			to := *(*unsafe.Pointer)(p)
			if to == nil {
				return append(dst, 0)
			}
			return e.append(append(dst, 1), to, last)
		},
		decode: func(src []byte, p unsafe.Pointer, last bool) ([]byte, error) {
			if len(src) == 0 {
				return nil, errShort
			}
			switch src[0] {
			case 0:
				*(*unsafe.Pointer)(p) = nil
				return src[1:], nil
			case 1:
				to := reflect.New(elem).UnsafePointer()
				*(*unsafe.Pointer)(p) = to
				return e.decode(src[1:], to, last)
			}
			return nil, fmt.Errorf("a pointer of %d", src[0])
		},
	}, nil
}

// slicePlan: each element after a byte 1, then a byte 0.
func slicePlan(t reflect.Type, above []reflect.Type) (*typePlan, error) {
	e, err := planOf(t.Elem(), above)
	if err != nil {
		return nil, err
	}
	size := t.Elem().Size()
	if size == 0 {
		return nil, fmt.Errorf("%s has elements of no size", t)
	}
	return &typePlan{
		append: func(dst []byte, p unsafe.Pointer, _ bool) []byte {
			s := *(*sliceHeader)(p)
			for i := range s.len {
				dst = e.append(append(dst, 1), unsafe.Add(s.data, uintptr(i)*size), false)
			}
			return append(dst, 0)
		},
		decode: func(src []byte, p unsafe.Pointer, _ bool) ([]byte, error) {
			v := reflect.NewAt(t, p).Elem()
			v.SetZero()
			for n := 0; ; n++ {
				if len(src) == 0 || n == math.MaxInt32 {
					return nil, errShort
				}
				if src[0] == 0 {
					return src[1:], nil
				}
				if src[0] != 1 {
					return nil, fmt.Errorf("a byte %d between elements", src[0])
				}
				v.Grow(1)
				v.SetLen(n + 1)
				var err error
				if src, err = e.decode(src[1:], v.Index(n).Addr().UnsafePointer(), false); err != nil {
					return nil, err
				}
			}
		},
	}, nil
}

// sliceHeader is a slice as it lies in memory.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}
