package batch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// values returns n values of a type, some of them NULL.
func values(t schema.Type, n int, rng *rand.Rand) []schema.Datum {
	out := make([]schema.Datum, n)
	for i := range out {
		out[i] = schema.Datum{Type: t, I: int64(rng.IntN(100)), F: float64(rng.IntN(100)) / 4, S: fmt.Sprint("text", rng.IntN(9)),
			D: decimal128.FromI64(int64(rng.IntN(1000)))}
		if t.Kind == schema.Boolean {
			out[i].I &= 1
		}
		if rng.IntN(4) == 0 {
			out[i] = schema.NullOf(t)
		}
	}
	return out
}

func coded(vs []schema.Datum, rng *rand.Rand) arrow.Array {
	var d batch.Dictionary
	d.Add(fmt.Sprint("unused", rng.IntN(100)))
	codes, valid := make([]int32, len(vs)), make([]byte, (len(vs)+7)/8)
	for i, v := range vs {
		codes[i] = -7 // arbitrary
		if !v.Null {
			codes[i] = d.Add(v.S)
			valid[i/8] |= 1 << (i % 8)
		}
	}
	return batch.NewDictionary(codes, valid, d.Data())
}

func same(t *testing.T, what string, typ schema.Type, got arrow.Array, want []schema.Datum) {
	t.Helper()
	if got.Len() != len(want) {
		t.Fatalf("%s: %d values, not %d", what, got.Len(), len(want))
	}
	nulls := 0
	for i, w := range want {
		if w.Null {
			nulls++
		}
		if g := schema.FromArrow(got, i, typ); g.Text() != w.Text() {
			t.Fatalf("%s: value %d is %s, not %s", what, i, g.Text(), w.Text())
		}
	}
	if typ.Kind != schema.Void && got.NullN() != nulls {
		t.Fatalf("%s: %d nulls, not %d", what, got.NullN(), nulls)
	}
}

func TestGatherConcatSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, typ := range []schema.Type{schema.BooleanType, schema.TinyIntType, schema.SmallIntType, schema.IntType, schema.BigIntType,
		schema.FloatType, schema.DoubleType, schema.DecimalType(12, 3), schema.StringType, schema.BinaryType, schema.DateType, schema.TimestampType} {
		for _, n := range []int{1, 8, 37} {
			vs := values(typ, n, rng)
			arrays := []arrow.Array{schema.ArrayOf(typ, vs)}
			// The same in the middle of a larger one.
			larger := append(append(values(typ, 3, rng), vs...), values(typ, 2, rng)...)
			arrays = append(arrays, array.NewSlice(schema.ArrayOf(typ, larger), 3, int64(3+n)))
			arrays = append(arrays, batch.Slice(schema.ArrayOf(typ, larger), 3, 3+n))
			if typ.Kind == schema.String {
				arrays = append(arrays, coded(vs, rng), batch.Slice(coded(larger, rng), 3, 3+n))
			}
			at := make([]int32, 20)
			want := make([]schema.Datum, len(at))
			for i := range at {
				at[i] = int32(rng.IntN(n+1) - 1)
				want[i] = schema.NullOf(typ)
				if at[i] >= 0 {
					want[i] = vs[at[i]]
				}
			}
			for k, a := range arrays {
				what := fmt.Sprintf("%s, n=%d, array %d", typ, n, k)
				same(t, what, typ, a, vs)
				same(t, "gather of "+what, typ, batch.Gather(a, at), want)
				same(t, "plain "+what, typ, batch.Plain(a), vs)
				for l, b := range arrays {
					same(t, fmt.Sprintf("concat of %s and %d", what, l), typ, batch.Concat([]arrow.Array{a, b, a}), append(append(append([]schema.Datum{}, vs...), vs...), vs...))
				}
			}
		}
	}
}

// Arrays made with one dictionary share it, whatever is done to them; merged
// dictionaries have unique values.
func TestDictionaryIdentity(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	vs := values(schema.StringType, 30, rng)
	a := coded(vs, rng)
	d := batch.DictionaryOf(a)
	for _, b := range []arrow.Array{batch.Gather(a, []int32{3, 1, -1}), batch.Slice(a, 2, 9), batch.Concat([]arrow.Array{a, a})} {
		if batch.DictionaryOf(b) != d {
			t.Error("the dictionary was copied")
		}
	}
	m := batch.DictionaryOf(batch.Concat([]arrow.Array{a, coded(values(schema.StringType, 30, rng), rng)}))
	x := batch.TextOfData(m)
	seen := map[string]bool{}
	for i := range m.Len() {
		if s := x.String(i); seen[s] {
			t.Errorf("%q is in the dictionary twice", s)
		} else {
			seen[s] = true
		}
	}
	if batch.DictionaryOf(batch.NewStrings([]string{"x"})) != nil {
		t.Error("plain text has a dictionary")
	}
}
