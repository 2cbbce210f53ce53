// Package coding turns trees of Go values into bytes and back by the shape of
// their types. It carries what one part of Skep hands to its like in another
// process of the same build: plans, specs, predicates, splits. A field that is
// added to such a type is coded from then on; nobody keeps a second description of it.
//
// What stands behind an interface is written with its registered name. The
// bytes hold neither names nor types of fields, so both sides must have types of
// one shape: that is what Fingerprint is for. Codings that must outlive a build
// do not belong here.
//
// # Form
//
// Integers are varints (zig-zag if signed), floats 8 bytes little-endian,
// strings and byte slices a length and bytes. Slices, maps and pointers that are nil
// stay nil: a slice or map is 0, or its length + 1 and its elements (a map's in
// the order of its coded keys); a pointer is 0, or 1 and its target. A struct is its
// fields in order, embedded ones too. An interface is its name, "" for nil, and
// the value. Cycles are refused as too deep; a pointer that occurs twice becomes two values.
package coding

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxDepth is how deep a tree may be.
const MaxDepth = 10_000

// ErrMalformed is an error of bytes that are not what Marshal writes.
var ErrMalformed = errors.New("coding: malformed")

// Registry knows the types that may stand behind interfaces, by name. Fill it
// before use; then it is safe for concurrent use.
type Registry struct {
	byName map[string]reflect.Type
	byType map[reflect.Type]string
	custom map[reflect.Type]custom
	codecs sync.Map // reflect.Type -> *codec
}

type custom struct {
	encode func(reflect.Value) ([]byte, error)
	decode func([]byte) (reflect.Value, error)
}

// NewRegistry returns a registry that knows the plain types and time.Time and
// *time.Location.
func NewRegistry() *Registry {
	r := &Registry{byName: map[string]reflect.Type{}, byType: map[reflect.Type]string{}, custom: map[reflect.Type]custom{}}
	Custom(r, time.Time.MarshalBinary, func(b []byte) (t time.Time, err error) { return t, t.UnmarshalBinary(b) })
	Custom(r, encodeLocation, decodeLocation)
	return r
}

// Add gives the type of sample, as it stands behind interfaces, a name. Two
// types of one name, or two names of one type, are a mistake in the program: it
// panics.
func (r *Registry) Add(name string, sample any) {
	t := reflect.TypeOf(sample)
	if t == nil || name == "" {
		panic(fmt.Sprintf("coding: %q for a %v", name, t))
	}
	if u, ok := r.byName[name]; ok {
		panic(fmt.Sprintf("coding: %q is %v and %v", name, u, t))
	}
	if n, ok := r.byType[t]; ok {
		panic(fmt.Sprintf("coding: %v is %q and %q", t, n, name))
	}
	r.byName[name], r.byType[t] = t, name
}

// Custom says how a type is coded whose shape doesn't say it.
func Custom[T any](r *Registry, encode func(T) ([]byte, error), decode func([]byte) (T, error)) {
	r.custom[reflect.TypeFor[T]()] = custom{
		encode: func(v reflect.Value) ([]byte, error) { return encode(v.Interface().(T)) },
		decode: func(b []byte) (reflect.Value, error) {
			t, err := decode(b)
			return reflect.ValueOf(&t).Elem(), err
		},
	}
}

// Types returns the registered types by name.
func (r *Registry) Types() map[string]reflect.Type { return r.byName }

// Check verifies that all registered types can be coded, and that each interface
// within them has a registered type at least. It names all faults at once.
func (r *Registry) Check() error {
	var faults []error
	seen := map[reflect.Type]bool{}
	for _, name := range r.names() {
		r.check(r.byName[name], name, seen, &faults)
	}
	return errors.Join(faults...)
}

func (r *Registry) names() []string {
	names := make([]string, 0, len(r.byName))
	for n := range r.byName {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (r *Registry) check(t reflect.Type, path string, seen map[reflect.Type]bool, faults *[]error) {
	if _, ok := r.custom[t]; ok || seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		r.check(t.Elem(), path, seen, faults)
	case reflect.Map:
		r.check(t.Key(), path, seen, faults)
		r.check(t.Elem(), path, seen, faults)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				*faults = append(*faults, fmt.Errorf("coding: %s: %v has the unexported field %s", path, t, f.Name))
				continue
			}
			r.check(f.Type, path+"."+f.Name, seen, faults)
		}
	case reflect.Interface:
		for _, u := range r.byName {
			if u.Implements(t) {
				return
			}
		}
		*faults = append(*faults, fmt.Errorf("coding: %s: no type is registered that is a %v", path, t))
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.String:
	default:
		*faults = append(*faults, fmt.Errorf("coding: %s: a %v can't be coded", path, t))
	}
}

// Fingerprint names the shape of all registered types: registries of one
// fingerprint read each other's bytes.
func (r *Registry) Fingerprint() string {
	h := sha256.New()
	seen := map[reflect.Type]bool{}
	var describe func(t reflect.Type)
	describe = func(t reflect.Type) {
		fmt.Fprintf(h, "%s %s;", t.Kind(), t)
		if _, ok := r.custom[t]; ok || seen[t] {
			return
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			describe(t.Elem())
		case reflect.Map:
			describe(t.Key())
			describe(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				fmt.Fprintf(h, "%s ", t.Field(i).Name)
				describe(t.Field(i).Type)
			}
		}
	}
	for _, name := range r.names() {
		fmt.Fprintf(h, "%q ", name)
		describe(r.byName[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// Marshal codes v, as a value of its own type.
func (r *Registry) Marshal(v any) ([]byte, error) {
	if v == nil {
		return nil, errors.New("coding: nothing to code")
	}
	return r.AppendValue(nil, reflect.ValueOf(v))
}

// MarshalInterface codes v, which may be nil, with its registered name.
func (r *Registry) MarshalInterface(v any) ([]byte, error) {
	return r.AppendValue(nil, reflect.ValueOf(&v).Elem())
}

// AppendValue appends the coding of v to dst.
func (r *Registry) AppendValue(dst []byte, v reflect.Value) ([]byte, error) {
	return r.codec(v.Type()).encode(dst, v, 0)
}

// Unmarshal decodes all of data into what into points at.
func (r *Registry) Unmarshal(data []byte, into any) error {
	p := reflect.ValueOf(into)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("coding: decode into %T: want a pointer", into)
	}
	d := &decoder{data: data}
	if err := r.codec(p.Type().Elem()).decode(d, p.Elem(), 0); err != nil {
		return err
	}
	if len(d.data) > 0 {
		return fmt.Errorf("%w: %d bytes too many", ErrMalformed, len(d.data))
	}
	return nil
}

// Decode decodes all of data as a T: the inverse of Marshal.
func Decode[T any](r *Registry, data []byte) (T, error) {
	var v T
	err := r.Unmarshal(data, &v)
	return v, err
}

// DecodeInterface is the inverse of MarshalInterface: what was coded must be a T,
// or nil.
func DecodeInterface[T any](r *Registry, data []byte) (T, error) {
	var v any
	var none T
	if err := r.Unmarshal(data, &v); err != nil || v == nil {
		return none, err
	}
	t, ok := v.(T)
	if !ok {
		return none, fmt.Errorf("%w: a %T, want a %v", ErrMalformed, v, reflect.TypeFor[T]())
	}
	return t, nil
}

type decoder struct{ data []byte }

func (d *decoder) uvarint() (uint64, error) {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		return 0, fmt.Errorf("%w: no number", ErrMalformed)
	}
	d.data = d.data[n:]
	return v, nil
}

// take returns the next n bytes, which stay the input's.
func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.data)) {
		return nil, fmt.Errorf("%w: %d bytes wanted, %d left", ErrMalformed, n, len(d.data))
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b, nil
}

func (d *decoder) bytes() ([]byte, error) {
	n, err := d.uvarint()
	if err != nil {
		return nil, err
	}
	return d.take(n)
}

// codec codes one type. It is filled in after it is known by its type, since types
// are recursive.
type codec struct {
	encode func(dst []byte, v reflect.Value, depth int) ([]byte, error)
	decode func(d *decoder, v reflect.Value, depth int) error
	// least is the fewest bytes that a value takes: it bounds how many elements
	// bytes can be.
	least int
}

func (r *Registry) codec(t reflect.Type) *codec {
	if c, ok := r.codecs.Load(t); ok {
		return c.(*codec)
	}
	c := r.build(t)
	known, _ := r.codecs.LoadOrStore(t, c)
	return known.(*codec)
}

func (r *Registry) build(t reflect.Type) *codec {
	if c, ok := r.custom[t]; ok {
		return customCodec(t, c)
	}
	switch t.Kind() {
	case reflect.Bool:
		return &codec{least: 1,
			encode: func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
				if v.Bool() {
					return append(dst, 1), nil
				}
				return append(dst, 0), nil
			},
			decode: func(d *decoder, v reflect.Value, _ int) error {
				b, err := d.take(1)
				if err == nil && b[0] > 1 {
					err = fmt.Errorf("%w: a truth value of %d", ErrMalformed, b[0])
				}
				if err == nil {
					v.SetBool(b[0] == 1)
				}
				return err
			}}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &codec{least: 1,
			encode: func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
				return binary.AppendVarint(dst, v.Int()), nil
			},
			decode: func(d *decoder, v reflect.Value, _ int) error {
				i, n := binary.Varint(d.data)
				if n <= 0 || v.OverflowInt(i) {
					return fmt.Errorf("%w: no %v", ErrMalformed, t)
				}
				d.data = d.data[n:]
				v.SetInt(i)
				return nil
			}}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &codec{least: 1,
			encode: func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
				return binary.AppendUvarint(dst, v.Uint()), nil
			},
			decode: func(d *decoder, v reflect.Value, _ int) error {
				u, err := d.uvarint()
				if err == nil && v.OverflowUint(u) {
					err = fmt.Errorf("%w: %d is no %v", ErrMalformed, u, t)
				}
				if err == nil {
					v.SetUint(u)
				}
				return err
			}}
	case reflect.Float32, reflect.Float64:
		return &codec{least: 8,
			encode: func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
				return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float())), nil
			},
			decode: func(d *decoder, v reflect.Value, _ int) error {
				b, err := d.take(8)
				if err == nil {
					v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)))
				}
				return err
			}}
	case reflect.String:
		return &codec{least: 1,
			encode: func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
				return append(binary.AppendUvarint(dst, uint64(v.Len())), v.String()...), nil
			},
			decode: func(d *decoder, v reflect.Value, _ int) error {
				b, err := d.bytes()
				if err == nil {
					v.SetString(string(b))
				}
				return err
			}}
	case reflect.Pointer:
		return r.pointerCodec(t)
	case reflect.Slice:
		return r.sliceCodec(t)
	case reflect.Array:
		return r.arrayCodec(t)
	case reflect.Map:
		return r.mapCodec(t)
	case reflect.Struct:
		return r.structCodec(t)
	case reflect.Interface:
		return r.interfaceCodec(t)
	}
	return refuse(fmt.Errorf("coding: a %v can't be coded", t))
}

func refuse(err error) *codec {
	return &codec{
		encode: func([]byte, reflect.Value, int) ([]byte, error) { return nil, err },
		decode: func(*decoder, reflect.Value, int) error { return err },
	}
}

var errDeep = fmt.Errorf("coding: a tree of more than %d levels", MaxDepth)

func customCodec(t reflect.Type, c custom) *codec {
	return &codec{least: 1,
		encode: func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
			b, err := c.encode(v)
			if err != nil {
				return nil, fmt.Errorf("coding: %v: %w", t, err)
			}
			return append(binary.AppendUvarint(dst, uint64(len(b))), b...), nil
		},
		decode: func(d *decoder, v reflect.Value, _ int) error {
			b, err := d.bytes()
			if err != nil {
				return err
			}
			x, err := c.decode(b)
			if err != nil {
				return fmt.Errorf("%w: %v: %w", ErrMalformed, t, err)
			}
			v.Set(x)
			return nil
		}}
}

func (r *Registry) pointerCodec(t reflect.Type) *codec {
	return &codec{least: 1,
		encode: func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
			if depth > MaxDepth {
				return nil, errDeep
			}
			if v.IsNil() {
				return append(dst, 0), nil
			}
			return r.codec(t.Elem()).encode(append(dst, 1), v.Elem(), depth+1)
		},
		decode: func(d *decoder, v reflect.Value, depth int) error {
			b, err := d.take(1)
			switch {
			case err != nil:
				return err
			case depth > MaxDepth:
				return errDeep
			case b[0] == 0:
				return nil
			case b[0] > 1:
				return fmt.Errorf("%w: a pointer of %d", ErrMalformed, b[0])
			}
			p := reflect.New(t.Elem())
			v.Set(p)
			return r.codec(t.Elem()).decode(d, p.Elem(), depth+1)
		}}
}

// length reads the length of a slice or map; ok is false if it is nil.
func (d *decoder) length(least int) (n int, ok bool, err error) {
	u, err := d.uvarint()
	if err != nil || u == 0 {
		return 0, false, err
	}
	u--
	if u > uint64(len(d.data)/max(least, 1)) {
		return 0, false, fmt.Errorf("%w: %d elements in %d bytes", ErrMalformed, u, len(d.data))
	}
	return int(u), true, nil
}

func (r *Registry) sliceCodec(t reflect.Type) *codec {
	if t.Elem().Kind() == reflect.Uint8 {
		return &codec{least: 1,
			encode: func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
				if v.IsNil() {
					return append(dst, 0), nil
				}
				return append(binary.AppendUvarint(dst, uint64(v.Len())+1), v.Bytes()...), nil
			},
			decode: func(d *decoder, v reflect.Value, _ int) error {
				n, ok, err := d.length(1)
				if err != nil || !ok {
					return err
				}
				b, err := d.take(uint64(n))
				if err == nil {
					v.SetBytes(append(make([]byte, 0, n), b...))
				}
				return err
			}}
	}
	return &codec{least: 1,
		encode: func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
			if v.IsNil() {
				return append(dst, 0), nil
			}
			if depth > MaxDepth {
				return nil, errDeep
			}
			elem := r.codec(t.Elem())
			dst = binary.AppendUvarint(dst, uint64(v.Len())+1)
			for i := range v.Len() {
				if dst, err = elem.encode(dst, v.Index(i), depth+1); err != nil {
					return nil, err
				}
			}
			return dst, nil
		},
		decode: func(d *decoder, v reflect.Value, depth int) error {
			elem := r.codec(t.Elem())
			n, ok, err := d.length(elem.least)
			if err != nil || !ok {
				return err
			}
			if depth > MaxDepth {
				return errDeep
			}
			v.Set(reflect.MakeSlice(t, n, n))
			for i := range n {
				if err := elem.decode(d, v.Index(i), depth+1); err != nil {
					return err
				}
			}
			return nil
		}}
}

func (r *Registry) arrayCodec(t reflect.Type) *codec {
	return &codec{least: 1,
		encode: func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
			for i := range v.Len() {
				if dst, err = r.codec(t.Elem()).encode(dst, v.Index(i), depth+1); err != nil {
					return nil, err
				}
			}
			return dst, nil
		},
		decode: func(d *decoder, v reflect.Value, depth int) error {
			for i := range v.Len() {
				if err := r.codec(t.Elem()).decode(d, v.Index(i), depth+1); err != nil {
					return err
				}
			}
			return nil
		}}
}

func (r *Registry) mapCodec(t reflect.Type) *codec {
	return &codec{least: 1,
		encode: func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
			if v.IsNil() {
				return append(dst, 0), nil
			}
			if depth > MaxDepth {
				return nil, errDeep
			}
			type entry struct{ key, value []byte }
			var entries []entry
			for it := v.MapRange(); it.Next(); {
				k, err := r.codec(t.Key()).encode(nil, it.Key(), depth+1)
				if err != nil {
					return nil, err
				}
				e, err := r.codec(t.Elem()).encode(nil, it.Value(), depth+1)
				if err != nil {
					return nil, err
				}
				entries = append(entries, entry{k, e})
			}
			slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(string(a.key), string(b.key)) })
			dst = binary.AppendUvarint(dst, uint64(len(entries))+1)
			for _, e := range entries {
				dst = append(append(dst, e.key...), e.value...)
			}
			return dst, nil
		},
		decode: func(d *decoder, v reflect.Value, depth int) error {
			key, elem := r.codec(t.Key()), r.codec(t.Elem())
			n, ok, err := d.length(key.least + elem.least)
			if err != nil || !ok {
				return err
			}
			if depth > MaxDepth {
				return errDeep
			}
			m := reflect.MakeMapWithSize(t, n)
			v.Set(m)
			for range n {
				k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
				if err := key.decode(d, k, depth+1); err != nil {
					return err
				}
				if err := elem.decode(d, e, depth+1); err != nil {
					return err
				}
				if k.Kind() == reflect.Interface && !k.Comparable() || m.MapIndex(k).IsValid() {
					return fmt.Errorf("%w: a key of a map twice", ErrMalformed)
				}
				m.SetMapIndex(k, e)
			}
			return nil
		}}
}

func (r *Registry) structCodec(t reflect.Type) *codec {
	for i := range t.NumField() {
		if f := t.Field(i); !f.IsExported() {
			return refuse(fmt.Errorf("coding: %v has the unexported field %s", t, f.Name))
		}
	}
	n := t.NumField()
	return &codec{least: min(n, 1),
		encode: func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
			for i := range n {
				if dst, err = r.codec(t.Field(i).Type).encode(dst, v.Field(i), depth+1); err != nil {
					return nil, err
				}
			}
			return dst, nil
		},
		decode: func(d *decoder, v reflect.Value, depth int) error {
			for i := range n {
				if err := r.codec(t.Field(i).Type).decode(d, v.Field(i), depth+1); err != nil {
					return err
				}
			}
			return nil
		}}
}

func (r *Registry) interfaceCodec(t reflect.Type) *codec {
	return &codec{least: 1,
		encode: func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
			if depth > MaxDepth {
				return nil, errDeep
			}
			if v.IsNil() {
				return append(dst, 0), nil
			}
			x := v.Elem()
			name, ok := r.byType[x.Type()]
			if !ok {
				return nil, fmt.Errorf("coding: no name is registered for a %v, which stands for a %v", x.Type(), t)
			}
			dst = append(binary.AppendUvarint(dst, uint64(len(name))), name...)
			return r.codec(x.Type()).encode(dst, x, depth+1)
		},
		decode: func(d *decoder, v reflect.Value, depth int) error {
			name, err := d.bytes()
			switch {
			case err != nil:
				return err
			case depth > MaxDepth:
				return errDeep
			case len(name) == 0:
				return nil
			}
			u, ok := r.byName[string(name)]
			if !ok || !u.Implements(t) {
				return fmt.Errorf("%w: %.60q is no %v", ErrMalformed, name, t)
			}
			x := reflect.New(u).Elem()
			if err := r.codec(u).decode(d, x, depth+1); err != nil {
				return err
			}
			v.Set(x)
			return nil
		}}
}

// A location is written by name. One without a name that others know, such as
// time.FixedZone's, is its present distance from UTC.
func encodeLocation(l *time.Location) ([]byte, error) {
	if l == nil {
		return nil, nil
	}
	if _, err := time.LoadLocation(l.String()); err == nil {
		return []byte("=" + l.String()), nil
	}
	name, seconds := time.Unix(0, 0).In(l).Zone()
	return binary.AppendVarint([]byte("+"+strings.ReplaceAll(name, "\x00", "")+"\x00"), int64(seconds)), nil
}

func decodeLocation(b []byte) (*time.Location, error) {
	switch {
	case len(b) == 0:
		return nil, nil
	case b[0] == '=':
		return time.LoadLocation(string(b[1:]))
	}
	name, rest, ok := strings.Cut(string(b[1:]), "\x00")
	seconds, n := binary.Varint([]byte(rest))
	if b[0] != '+' || !ok || n != len(rest) || seconds < -86400 || seconds > 86400 {
		return nil, errors.New("no time zone")
	}
	return time.FixedZone(name, int(seconds)), nil
}
