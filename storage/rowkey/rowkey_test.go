package rowkey

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"pgregory.net/rapid"
)

var keyTypes = []schema.Type{schema.BooleanType, schema.TinyIntType, schema.SmallIntType, schema.IntType, schema.BigIntType,
	schema.FloatType, schema.DoubleType, schema.DecimalType(38, 5), schema.DecimalType(9, 2), schema.StringType, schema.CharType(8),
	schema.VarcharType(9), schema.BinaryType, schema.DateType, schema.TimestampType, schema.TimestampTZType}

func text(s string) schema.Datum { return schema.Datum{Type: schema.StringType, S: s} }
func big(v int64) schema.Datum   { return schema.Datum{Type: schema.BigIntType, I: v} }

// TestBytes pins the format: docs/format/row-key.md has the same examples.
func TestBytes(t *testing.T) {
	double := func(f float64) schema.Datum { return schema.Datum{Type: schema.DoubleType, F: f} }
	for _, c := range []struct {
		value schema.Datum
		desc  bool
		want  string
	}{
		{schema.NullOf(schema.BigIntType), false, "00"},
		{schema.NullOf(schema.BigIntType), true, "ff"},
		{schema.Datum{Type: schema.BooleanType, I: 1}, false, "0101"},
		{schema.Datum{Type: schema.TinyIntType, I: -1}, false, "017f"},
		{schema.Datum{Type: schema.SmallIntType, I: 1}, false, "018001"},
		{schema.Datum{Type: schema.IntType, I: 1}, false, "0180000001"},
		{schema.Datum{Type: schema.DateType, I: -1}, false, "017fffffff"},
		{big(1), false, "018000000000000001"},
		{big(1), true, "fe7ffffffffffffffe"},
		{double(1), false, "01bff0000000000000"},
		{double(-1), false, "01400fffffffffffff"},
		{double(0), false, "018000000000000000"},
		{double(math.Copysign(0, -1)), false, "018000000000000000"},
		{double(math.NaN()), false, "01fff8000000000000"},
		{schema.Datum{Type: schema.FloatType, F: 1}, false, "01bf800000"},
		{schema.Datum{Type: schema.DecimalType(38, 2), D: decimal128.FromI64(-1)}, false, "017fffffffffffffffffffffffffffffff"},
		{schema.Datum{Type: schema.TimestampType, D: decimal128.FromI64(1_000_000_000)}, false, "018000000000000000000000003b9aca00"},
		{text(""), false, "010000"},
		{text("Poa"), false, "01506f610000"},
		{text("Poa"), true, "feaf909effff"},
		{text("a\x00b"), false, "016100ff620000"},
		{schema.Datum{Type: schema.CharType(5), S: "ab   "}, false, "0161620000"},
		{schema.Datum{Type: schema.BinaryType, S: "\x00\xff"}, false, "0100ffff0000"},
	} {
		e := NewEncoder([]Column{{c.value.Type, c.desc}})
		key, err := e.AppendDatums(nil, []schema.Datum{c.value})
		if got := hex.EncodeToString(key); err != nil || got != c.want {
			t.Errorf("%s %s desc %t = %s %v, want %s", c.value.Type, fmt.Sprint(c.value.S, c.value.I, c.value.F), c.desc, got, err, c.want)
		}
	}
}

// datum draws a value that often collides or neighbours another one.
func datum(t *rapid.T, typ schema.Type, label string) schema.Datum {
	d := schema.Datum{Type: typ}
	if rapid.IntRange(0, 9).Draw(t, label+" null") == 0 {
		return schema.NullOf(typ)
	}
	ints := func(bits int) int64 {
		v := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 255, 256, -256})).Draw(t, label)
		return v << (64 - bits) >> (64 - bits)
	}
	switch typ.Kind {
	case schema.Boolean:
		d.I = rapid.Int64Range(0, 1).Draw(t, label)
	case schema.TinyInt:
		d.I = ints(8)
	case schema.SmallInt:
		d.I = ints(16)
	case schema.Int, schema.Date:
		d.I = ints(32)
	case schema.BigInt:
		d.I = ints(64)
	case schema.Float:
		d.F = float64(rapid.OneOf(rapid.Float32(), rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))})).Draw(t, label))
	case schema.Double:
		d.F = rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64})).Draw(t, label)
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		d.D = decimal128.New(rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64()).Draw(t, label+" high"), rapid.Uint64().Draw(t, label+" low"))
	case schema.Binary:
		d.S = string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xFE, 0xFF}), 0, 4).Draw(t, label))
	default:
		d.S = rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, ' ', 'a', 'é', '\U0010FFFF'}), 0, 4, -1).Draw(t, label)
	}
	return d
}

// compare orders rows as the row-key contract says.
func compare(columns []Column, a, b []schema.Datum) int {
	for i, c := range columns {
		r := 0
		switch {
		case a[i].Null && b[i].Null:
		case a[i].Null:
			r = -1
		case b[i].Null:
			r = 1
		default:
			r = schema.Compare(a[i], b[i])
		}
		if c.Desc {
			r = -r
		}
		if r != 0 {
			return r
		}
	}
	return 0
}

func TestOrderRoundTripPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "columns")
		var columns []Column
		var a, b []schema.Datum
		for i := range n {
			c := Column{rapid.SampledFrom(keyTypes).Draw(t, "type"), rapid.Bool().Draw(t, "desc")}
			columns = append(columns, c)
			a = append(a, datum(t, c.Type, fmt.Sprint("a", i)))
			if rapid.Bool().Draw(t, "equal") {
				b = append(b, a[i])
			} else {
				b = append(b, datum(t, c.Type, fmt.Sprint("b", i)))
			}
		}
		e := NewEncoder(columns)
		ka, err := e.AppendDatums(nil, a)
		if err != nil {
			t.Fatal(err)
		}
		kb, err := e.AppendDatums([]byte("x"), b)
		if err != nil || kb[0] != 'x' {
			t.Fatal(err, kb)
		}
		kb = kb[1:]
		if got, want := bytes.Compare(ka, kb), compare(columns, a, b); got != want {
			t.Fatalf("order of %x and %x is %d, want %d", ka, kb, got, want)
		}
		if !bytes.Equal(ka, kb) && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
			t.Fatalf("%x and %x: one is a prefix of the other", ka, kb)
		}
		back, err := e.Decode(ka)
		if err != nil {
			t.Fatal(err)
		}
		if compare(columns, a, back) != 0 {
			t.Fatalf("%v came back as %v", a, back)
		}
		if len(ka) > 0 {
			if _, err := e.Decode(ka[:len(ka)-1]); err == nil {
				t.Fatalf("a cut key decodes")
			}
		}
		if _, err := e.Decode(append(ka, 0)); err == nil {
			t.Fatalf("a key with an extra byte decodes")
		}
	})
}

// appendArray appends a datum to a builder of its type.
func appendArray(b array.Builder, d schema.Datum) {
	if d.Null {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(d.I != 0)
	case *array.Int8Builder:
		b.Append(int8(d.I))
	case *array.Int16Builder:
		b.Append(int16(d.I))
	case *array.Int32Builder:
		b.Append(int32(d.I))
	case *array.Int64Builder:
		b.Append(d.I)
	case *array.Float32Builder:
		b.Append(float32(d.F))
	case *array.Float64Builder:
		b.Append(d.F)
	case *array.Decimal128Builder:
		b.Append(d.D)
	case *array.StringBuilder:
		b.Append(d.S)
	case *array.BinaryBuilder:
		b.Append([]byte(d.S))
	case *array.Date32Builder:
		b.Append(arrow.Date32(d.I))
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(d.S); err != nil {
			panic(err)
		}
	}
}

// TestArrays: arrays, sliced or dictionary-coded, give the keys of datums.
func TestArrays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, rows := rapid.IntRange(1, 3).Draw(t, "columns"), rapid.IntRange(1, 5).Draw(t, "rows")
		var columns []Column
		var cols []arrow.Array
		values := make([][]schema.Datum, rows)
		off := rapid.IntRange(0, rows-1).Draw(t, "offset")
		for range n {
			c := Column{rapid.SampledFrom(keyTypes).Draw(t, "type"), rapid.Bool().Draw(t, "desc")}
			columns = append(columns, c)
			typ := c.Type.Arrow()
			if c.Type.IsText() && rapid.Bool().Draw(t, "dictionary") {
				typ = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: typ}
			}
			b := array.NewBuilder(memory.DefaultAllocator, typ)
			for r := range rows {
				d := datum(t, c.Type, "v")
				values[r] = append(values[r], d)
				appendArray(b, d)
			}
			cols = append(cols, array.NewSlice(b.NewArray(), int64(off), int64(rows)))
		}
		e := NewEncoder(columns)
		binding, err := e.Bind(cols)
		if err != nil {
			t.Fatal(err)
		}
		data, offsets := binding.AppendAll(nil, nil, nil, rows-off)
		for r := off; r < rows; r++ {
			want, err := e.AppendDatums(nil, values[r])
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Append(nil, cols, r-off)
			if err != nil || !bytes.Equal(got, want) || !bytes.Equal(data[offsets[r-off]:offsets[r-off+1]], want) {
				t.Fatalf("row %d: %x %v, want %x", r, got, err, want)
			}
		}
	})
}

func TestMismatch(t *testing.T) {
	e := NewEncoder([]Column{{Type: schema.BigIntType}})
	b := array.NewInt32Builder(memory.DefaultAllocator)
	b.Append(1)
	if _, err := e.Append(nil, []arrow.Array{b.NewArray()}, 0); err == nil {
		t.Error("an int array makes a bigint key")
	}
	if _, err := e.AppendDatums(nil, []schema.Datum{text("1")}); err == nil {
		t.Error("a string makes a bigint key")
	}
	if _, err := e.AppendDatums(nil, nil); err == nil {
		t.Error("no value makes a key")
	}
}

func TestImplicit(t *testing.T) {
	k := Implicit(0x8000, 7, 3, 1<<40)
	if got, want := hex.EncodeToString(k), "80000000000000000007000000030000010000000000"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	s, l, task, o, ok := ParseImplicit(k)
	if !ok || s != 0x8000 || l != 7 || task != 3 || o != 1<<40 {
		t.Error(s, l, task, o, ok)
	}
	if _, _, _, _, ok := ParseImplicit(k[1:]); ok {
		t.Error("a short key parses")
	}
}

// FuzzDecode: no input panics, and what decodes is what encodes to it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{9, 1, 0x61, 0, 0}, uint8(1))
	f.Add([]byte{3, 9, 1, 0x80, 0, 0, 1, 1, 0, 0xFF, 0, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		k := int(n%4) + 1
		if len(in) < k {
			return
		}
		var columns []Column
		for _, b := range in[:k] {
			columns = append(columns, Column{keyTypes[int(b&0x7F)%len(keyTypes)], b&0x80 != 0})
		}
		e := NewEncoder(columns)
		values, err := e.Decode(storage.Key(in[k:]))
		if err != nil {
			return
		}
		again, err := e.AppendDatums(nil, values)
		if err != nil || !bytes.Equal(again, in[k:]) {
			t.Fatalf("%x decodes to %v, which encodes to %x %v", in[k:], values, again, err)
		}
	})
}

func BenchmarkString(b *testing.B) {
	sb := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range 8192 {
		sb.Append(fmt.Sprintf("occurrence-%08d", i))
	}
	benchmark(b, schema.StringType, sb.NewArray())
}

func BenchmarkBigInt(b *testing.B) {
	ib := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range 8192 {
		ib.Append(int64(i) * 7919)
	}
	benchmark(b, schema.BigIntType, ib.NewArray())
}

func benchmark(b *testing.B, typ schema.Type, a arrow.Array) {
	e := NewEncoder([]Column{{Type: typ}})
	var data []byte
	var offsets []uint32
	b.ReportAllocs()
	for b.Loop() {
		binding, err := e.Bind([]arrow.Array{a})
		if err != nil {
			b.Fatal(err)
		}
		data, offsets = binding.AppendAll(data[:0], offsets[:0], nil, a.Len())
	}
	b.ReportMetric(float64(a.Len())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
