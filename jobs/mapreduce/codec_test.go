package mapreduce

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type inner struct {
	S string
	N int16
}

type composite struct {
	Name  string
	In    inner
	Tags  []string
	Score *float64
	Raw   []byte
	Flag  bool
	Pair  [2]uint8
	End   string
}

func encode[T any](t interface{ Fatal(...any) }, v T) []byte {
	c, err := CodecFor[T]()
	if err != nil {
		t.Fatal(err)
	}
	return c.Append(nil, v)
}

// The bytes that docs and other programs may rely on.
func TestCodecBytes(t *testing.T) {
	for _, c := range []struct {
		name, want string
		got        []byte
	}{
		{"string", "6100ff", encode(t, "a\x00\xff")},
		{"int64 0", "8000000000000000", encode(t, int64(0))},
		{"int64 -1", "7fffffffffffffff", encode(t, int64(-1))},
		{"int64 min", "0000000000000000", encode(t, int64(math.MinInt64))},
		{"int8", "ff", encode(t, int8(127))},
		{"uint16", "0102", encode(t, uint16(0x102))},
		{"float64 1", "bff0000000000000", encode(t, 1.0)},
		{"float64 -1", "400fffffffffffff", encode(t, -1.0)},
		{"float64 0", "8000000000000000", encode(t, math.Copysign(0, -1))},
		{"struct", "6100ff0001" + "8005", encode(t, inner{"a\x00", 5})},
		{"slice", "01610001" + "01000100", encode(t, []string{"a", ""})},
		{"nil pointer", "00", encode(t, (*int8)(nil))},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func check[T any](t *testing.T, name string, gen *rapid.Generator[T], compare func(a, b T) int) {
	t.Run(name, func(t *testing.T) {
		c, err := CodecFor[T]()
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
			ab, bb := c.Append(nil, a), c.Append(nil, b)
			back, err := c.Decode(ab)
			if err != nil || compare(back, a) != 0 {
				t.Fatalf("%v came back as %v, %v", a, back, err)
			}
			if got, want := bytes.Compare(ab, bb), compare(a, b); got != want {
				t.Fatalf("%v and %v compare as %d, want %d", a, b, got, want)
			}
		})
	})
}

// Bytes order as values do, and come back as they were.
func TestCodecOrder(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("\x00\x01ab\u00ff")), 0, 4, -1)
	check(t, "string", text, cmp.Compare[string])
	check(t, "int64", rapid.Int64(), cmp.Compare[int64])
	check(t, "int", rapid.Int(), cmp.Compare[int])
	check(t, "int32", rapid.Int32(), cmp.Compare[int32])
	check(t, "uint64", rapid.Uint64(), cmp.Compare[uint64])
	check(t, "float64", rapid.Float64(), cmp.Compare[float64])
	check(t, "float32", rapid.Float32(), cmp.Compare[float32])
	check(t, "slice", rapid.SliceOfN(text, 0, 3), slices.Compare[[]string])
	check(t, "struct", rapid.Custom(func(t *rapid.T) inner {
		return inner{text.Draw(t, "s"), rapid.Int16Range(-2, 2).Draw(t, "n")}
	}), func(a, b inner) int { return cmp.Or(cmp.Compare(a.S, b.S), cmp.Compare(a.N, b.N)) })
}

func TestCodecComposite(t *testing.T) {
	score := 2.5
	for _, v := range []composite{
		{},
		{Name: "a\x00b", In: inner{"", -3}, Tags: []string{"", "x\x00"}, Score: &score, Raw: []byte{0, 1, 255}, Flag: true, Pair: [2]uint8{7, 9}, End: "e\x00nd"},
	} {
		c, err := CodecFor[composite]()
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Decode(c.Append(nil, v))
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Raw) == 0 {
			got.Raw = v.Raw // nil and empty are one
		}
		if !reflect.DeepEqual(got, v) {
			t.Errorf("%+v came back as %+v", v, got)
		}
	}
}

func TestCodecRefuses(t *testing.T) {
	type hidden struct{ a int }
	type loop struct{ Next *loop }
	_ = hidden{}.a
	for name, err := range map[string]error{
		"map":       second(CodecFor[map[string]int]()),
		"func":      second(CodecFor[func()]()),
		"interface": second(CodecFor[[]any]()),
		"hidden":    second(CodecFor[hidden]()),
		"loop":      second(CodecFor[loop]()),
	} {
		if err == nil {
			t.Errorf("%s: there is a codec", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Decoding never panics, and what decodes encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	c, err := CodecFor[composite]()
	if err != nil {
		f.Fatal(err)
	}
	score := 1.5
	f.Add(c.Append(nil, composite{Name: "n", Tags: []string{"a", "b"}, Score: &score, End: "e"}))
	f.Add([]byte{0, 1, 0, 1, 0x80})
	f.Fuzz(func(t *testing.T, src []byte) {
		v, err := c.Decode(src)
		if err != nil {
			return
		}
		if v.Score != nil && (*v.Score != *v.Score || *v.Score == 0) {
			return // NaN and zero have one form
		}
		if got := c.Append(nil, v); !bytes.Equal(got, src) {
			t.Errorf("%x decodes to %+v, which is %x", src, v, got)
		}
	})
}
