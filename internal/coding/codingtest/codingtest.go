// Package codingtest proves that codings lose nothing: it fills values of any
// type with what no default is, by reflection, so that a field that nobody codes
// is found in the moment in which it is added.
package codingtest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/skepdb/skep/internal/coding"
)

// Filler makes random values.
type Filler struct {
	Rand *rand.Rand
	// Registry has the types that may stand behind interfaces.
	Registry *coding.Registry
	// Make has makers of types whose shape doesn't say what is valid.
	Make map[reflect.Type]func(*rand.Rand) reflect.Value
}

// NewFiller returns a filler that knows plain types and those of package time.
func NewFiller(seed uint64, r *coding.Registry) *Filler {
	f := &Filler{Rand: rand.New(rand.NewPCG(seed, 1)), Registry: r, Make: map[reflect.Type]func(*rand.Rand) reflect.Value{}}
	Maker(f, func(r *rand.Rand) time.Time { return time.Unix(r.Int64N(1<<32), r.Int64N(1e9)).UTC() })
	Maker(f, func(r *rand.Rand) *time.Location { return time.FixedZone("zone", r.IntN(80_000)-40_000) })
	return f
}

// Maker says how values of T are made.
func Maker[T any](f *Filler, make func(*rand.Rand) T) {
	f.Make[reflect.TypeFor[T]()] = func(r *rand.Rand) reflect.Value {
		v := make(r)
		return reflect.ValueOf(&v).Elem()
	}
}

// Fill gives v a random value, no part of which is zero as far as depth allows.
func (f *Filler) Fill(v reflect.Value, depth int) {
	t := v.Type()
	if m, ok := f.Make[t]; ok {
		v.Set(m(f.Rand))
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1 + f.Rand.Int64N(100))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1 + f.Rand.Uint64N(2))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(float32(f.Rand.Float64() + 0.5)))
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d\x00é", f.Rand.IntN(1000)))
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(t.Elem()))
			f.Fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		n := 0
		if depth > 0 {
			n = 1 + f.Rand.IntN(2)
		}
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			f.Fill(v.Index(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			f.Fill(v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		if depth > 0 {
			k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			f.Fill(k, depth-1)
			f.Fill(e, depth-1)
			v.SetMapIndex(k, e)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f.Fill(v.Field(i), depth-1)
		}
	case reflect.Interface:
		if depth <= 0 {
			return
		}
		var names []string
		for name, u := range f.Registry.Types() {
			if u.Implements(t) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		x := reflect.New(f.Registry.Types()[names[f.Rand.IntN(len(names))]]).Elem()
		f.Fill(x, depth-1)
		v.Set(x)
	default:
		panic(fmt.Sprintf("codingtest: can't make a %v", t))
	}
}

// Equal are the options by which two values are compared: a location by its name
// and distance from UTC, floats by their bits.
func Equal() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b *time.Location) bool {
			if a == nil || b == nil {
				return a == b
			}
			at := time.Unix(0, 0)
			return at.In(a).Format(time.RFC3339) == at.In(b).Format(time.RFC3339) && a.String() == b.String()
		}),
		cmpopts.EquateNaNs(),
	}
}

// All fills values of every registered type, n times each, and requires that
// they come back from their coding as they were, and are coded equally again.
func All(t *testing.T, f *Filler, n int, opts ...cmp.Option) {
	t.Helper()
	r := f.Registry
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	for name, typ := range r.Types() {
		for range n {
			v := reflect.New(typ).Elem()
			f.Fill(v, 6)
			data, err := r.MarshalInterface(v.Interface())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			back, err := coding.DecodeInterface[any](r, data)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(v.Interface(), back, append(Equal(), opts...)...); diff != "" {
				t.Fatalf("%s: came back different (-sent +got):\n%s", name, diff)
			}
			if again, err := r.MarshalInterface(back); err != nil || string(again) != string(data) {
				t.Fatalf("%s: coded differently the second time (%v)", name, err)
			}
			// Bytes that are cut off are an error, never a panic or less of a value.
			if k := f.Rand.IntN(len(data)); k > 0 {
				if _, err := coding.DecodeInterface[any](r, data[:k]); err == nil {
					t.Fatalf("%s: %d of %d bytes were enough", name, k, len(data))
				}
			}
		}
	}
}
