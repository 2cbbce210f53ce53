package shuffletest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Fields are columns of every primitive type.
func Fields() []schema.Field {
	types := []schema.Type{
		schema.BooleanType, schema.TinyIntType, schema.SmallIntType, schema.IntType, schema.BigIntType,
		schema.FloatType, schema.DoubleType, schema.DecimalType(20, 4), schema.StringType, schema.CharType(9),
		schema.VarcharType(20), schema.BinaryType, schema.DateType, schema.TimestampType, schema.TimestampTZType,
	}
	out := make([]schema.Field, len(types))
	for i, t := range types {
		out[i] = schema.Field{Name: fmt.Sprintf("c%d", i), Type: t}
	}
	return out
}

// Random makes batches of random rows: some columns without NULLs, some with
// nothing else, text plain and in dictionaries that change and have values that no
// row has, rows that are not selected.
type Random struct {
	Rand  *rand.Rand
	dicts []*dictionary
}

type dictionary struct {
	d batch.Dictionary
	n int
}

// Batch returns n rows.
func (r *Random) Batch(fields []schema.Field, n int) *batch.Batch {
	rng := r.Rand
	b := &batch.Batch{Len: n}
	if rng.IntN(3) == 0 {
		b.Len = n + rng.IntN(n+1)
		b.Sel = make([]int32, 0, n)
		for i := 0; len(b.Sel) < n; i++ {
			if b.Len-i == n-len(b.Sel) || rng.IntN(2) == 0 {
				b.Sel = append(b.Sel, int32(i))
			}
		}
	}
	for _, f := range fields {
		nulls := []float64{0, 0.2, 1}[rng.IntN(3)]
		if f.Type.IsText() && rng.IntN(2) == 0 {
			b.Columns = append(b.Columns, r.coded(b.Len, nulls))
			continue
		}
		vs := make([]schema.Datum, b.Len)
		for i := range vs {
			if vs[i] = datum(f.Type, rng); rng.Float64() < nulls {
				vs[i] = schema.NullOf(f.Type)
			}
		}
		b.Columns = append(b.Columns, schema.ArrayOf(f.Type, vs))
	}
	return b
}

func datum(t schema.Type, rng *rand.Rand) schema.Datum {
	d := schema.Datum{Type: t, I: int64(rng.IntN(100)), F: float64(rng.IntN(1000)) / 8,
		S: strings.Repeat("x", rng.IntN(5)) + fmt.Sprint(rng.IntN(100)), D: decimal128.FromI64(rng.Int64N(1 << 40))}
	if t.Kind == schema.Boolean {
		d.I &= 1
	}
	return d
}

func (r *Random) coded(n int, nulls float64) arrow.Array {
	rng := r.Rand
	if len(r.dicts) == 0 || rng.IntN(3) == 0 {
		d := &dictionary{n: 1 + rng.IntN(60)}
		for i := range d.n {
			d.d.Add(fmt.Sprint("v", rng.IntN(50), "-", i))
		}
		r.dicts = append(r.dicts, d)
	}
	d := r.dicts[rng.IntN(len(r.dicts))]
	codes, valid := make([]int32, n), make([]byte, (n+7)/8)
	for i := range codes {
		if rng.Float64() < nulls {
			codes[i] = -3 // arbitrary
			continue
		}
		codes[i] = int32(rng.IntN(d.n))
		valid[i/8] |= 1 << (i % 8)
	}
	return batch.NewDictionary(codes, valid, d.d.Data())
}

// Text returns the selected rows of a batch, cells joined by bars.
func Text(fields []schema.Field, b *batch.Batch) []string {
	out := make([]string, b.Rows())
	var s strings.Builder
	for k := range out {
		i := k
		if b.Sel != nil {
			i = int(b.Sel[k])
		}
		s.Reset()
		for c, f := range fields {
			if c > 0 {
				s.WriteByte('|')
			}
			if d := schema.FromArrow(b.Columns[c], i, f.Type); d.Null {
				s.WriteString("NULL")
			} else {
				s.WriteString(d.Text())
			}
		}
		out[k] = s.String()
	}
	return out
}

// Drain reads to the end and closes.
func Drain(ctx context.Context, r batch.Reader) ([]string, error) {
	defer func() { _ = r.Close() }()
	var out []string
	for {
		b, err := r.Next(ctx)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if b.Rows() == 0 {
			return out, fmt.Errorf("a batch without rows")
		}
		out = append(out, Text(r.Fields(), b)...)
	}
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s: row %d is %q, want %q", what, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
}
