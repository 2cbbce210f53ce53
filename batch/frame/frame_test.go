package frame_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/schema"
)

// list is a Source of frames in memory.
type list struct{ rest [][]byte }

func (l *list) Frame(context.Context) ([]byte, error) {
	if len(l.rest) == 0 {
		return nil, io.EOF
	}
	f := l.rest[0]
	l.rest = l.rest[1:]
	return f, nil
}

func encode(t testing.TB, e *frame.Encoder, fields []schema.Field, batches ...*batch.Batch) [][]byte {
	t.Helper()
	var out [][]byte
	want := 0
	for _, b := range batches {
		want += b.Rows()
	}
	rows, err := e.Encode(fields, batches, func(f []byte) error {
		if n, err := frame.Size(f); err != nil || n != len(f) || frame.Check(f) != nil {
			t.Errorf("a frame of %d bytes has size %d, %v", len(f), n, err)
		}
		out = append(out, bytes.Clone(f))
		return nil
	})
	if err != nil || rows != int64(want) {
		t.Fatalf("%d rows, %v; want %d", rows, err, want)
	}
	return out
}

func decode(t testing.TB, fields []schema.Field, frames [][]byte) []*batch.Batch {
	t.Helper()
	r := frame.NewReader(fields, &list{frames})
	var out []*batch.Batch
	for {
		b, err := r.Next(t.Context())
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
}

var textFields = []schema.Field{{Name: "s", Type: schema.StringType}}

// coded is n rows with values of a dictionary of size, in turn from first on.
func coded(dict *batch.Dictionary, first, distinct, n int) *batch.Batch {
	codes := make([]int32, n)
	for i := range codes {
		codes[i] = int32(first + i%distinct)
	}
	return &batch.Batch{Columns: []arrow.Array{batch.NewDictionary(codes, nil, dict.Data())}, Len: n}
}

func dictionary(size, width int) *batch.Dictionary {
	var d batch.Dictionary
	for i := range size {
		d.Add(strings.Repeat("x", width) + fmt.Sprint(i))
	}
	return &d
}

// Dictionaries are cut down to the values in use, merged into one, and given up
// where plain text is smaller.
func TestDictionaries(t *testing.T) {
	big := dictionary(10_000, 20)
	other := dictionary(50, 20)
	var e frame.Encoder
	out := decode(t, textFields, encode(t, &e, textFields,
		coded(big, 100, 5, 8000), coded(other, 3, 4, 8000), coded(big, 102, 5, 8000)))
	if len(out) != 3 {
		t.Fatalf("%d batches, want 3", len(out))
	}
	for i, b := range out {
		d := batch.DictionaryOf(b.Columns[0])
		if d == nil || d != batch.DictionaryOf(out[0].Columns[0]) {
			t.Fatalf("batch %d has another dictionary", i)
		}
		if d.Len() != 5+4+2 { // 100..104, 3..6, 105 and 106
			t.Errorf("a dictionary of %d values, want 11", d.Len())
		}
	}
	if got := schema.FromArrow(out[2].Columns[0], 4, schema.StringType).S; got != strings.Repeat("x", 20)+"106" {
		t.Errorf("row 4 of the last batch is %q", got)
	}
	// As many values as rows: codes would only add to them.
	unique := decode(t, textFields, encode(t, &e, textFields, coded(big, 0, 5000, 5000)))
	if batch.IsDictionary(unique[0].Columns[0]) {
		t.Error("unique text was written with a dictionary")
	}
	// One plain array among them makes the column plain.
	mixed := decode(t, textFields, encode(t, &e, textFields, coded(big, 0, 2, 9), &batch.Batch{Columns: []arrow.Array{batch.NewStrings([]string{"p"})}, Len: 1}))
	if len(mixed) != 1 || mixed[0].Len != 10 || batch.IsDictionary(mixed[0].Columns[0]) {
		t.Errorf("mixed text: %d batches", len(mixed))
	}
	size := 0
	for _, f := range encode(t, &e, textFields, coded(big, 0, 10, 8000)) {
		size += len(f)
	}
	if size > 4000 {
		t.Errorf("8,000 rows of 10 values take %d bytes", size)
	}
}

// Small batches are joined, but never beyond the most rows of a batch.
func TestJoins(t *testing.T) {
	d := dictionary(3, 1)
	var in []*batch.Batch
	for range 100 {
		in = append(in, coded(d, 0, 3, 100))
	}
	in = append(in, coded(d, 0, 3, 0))
	out := decode(t, textFields, encode(t, new(frame.Encoder), textFields, in...))
	if len(out) != 2 || out[0].Len != 8100 || out[1].Len != 1900 {
		t.Errorf("%d batches, want one of 8100 rows and one of 1900", len(out))
	}
}

// Streams follow one another; what is not a whole stream is corrupt.
func TestStreams(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	numbers := func(n int) *batch.Batch {
		v := make([]int64, n)
		for i := range v {
			v[i] = rng.Int64() // does not compress
		}
		return &batch.Batch{Columns: []arrow.Array{batch.NewFixed(schema.BigIntType.Arrow(), v, nil)}, Len: n}
	}
	fields := []schema.Field{{Name: "n", Type: schema.BigIntType}}
	var in []*batch.Batch
	for range 20 {
		in = append(in, numbers(8000))
	}
	var e frame.Encoder
	one := encode(t, &e, fields, in...)
	if len(one) != 5 { // 1.28 MB
		t.Fatalf("%d frames", len(one))
	}
	two := append(append([][]byte{}, one...), encode(t, &e, fields, numbers(1))...)
	if out := decode(t, fields, two); len(out) != 21 || out[20].Len != 1 {
		t.Errorf("%d batches, want 21", len(out))
	}
	if out := decode(t, fields, nil); len(out) != 0 {
		t.Errorf("%d batches without frames", len(out))
	}
	for what, frames := range map[string][][]byte{
		"no end":    one[:4],
		"no start":  one[1:],
		"a gap":     append(append([][]byte{}, one[:2]...), one[3:]...),
		"cut short": append(append([][]byte{}, one[:2]...), two[5:]...),
		"twice":     append(append([][]byte{}, one[:1]...), one...),
	} {
		if err := failure(t, fields, frames); !errors.Is(err, frame.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := failure(t, textFields, one); !errors.Is(err, frame.ErrCorrupt) || !strings.Contains(err.Error(), "int64") {
		t.Errorf("other columns: %v", err)
	}
}

func failure(t testing.TB, fields []schema.Field, frames [][]byte) error {
	r := frame.NewReader(fields, &list{frames})
	for {
		if _, err := r.Next(t.Context()); err != nil {
			_, again := r.Next(t.Context())
			if again != err {
				t.Errorf("after %v comes %v", err, again)
			}
			return err
		}
	}
}

// Whatever bytes come as frames, reading them ends, and with an error or rows. Half of
// the inputs get a checksum that fits, so that the layers below are reached.
func FuzzReader(f *testing.F) {
	var e frame.Encoder
	d := dictionary(3, 4)
	for _, fr := range encode(f, &e, textFields, coded(d, 0, 3, 40), coded(d, 0, 1, 3)) {
		f.Add(fr, true)
		f.Add(fr, false)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		var frames [][]byte
		b = bytes.Clone(b)
		for len(b) >= frame.HeaderSize {
			n, err := frame.Size(b)
			if err != nil || n > len(b) {
				break
			}
			one := b[:n]
			if sum && n < 4096 {
				binary.LittleEndian.PutUint32(one[12:], crc32.Update(crc32.Checksum(one[:12], table), table, one[16:]))
			}
			frames = append(frames, one)
			b = b[n:]
		}
		if len(b) > 0 {
			frames = append(frames, b)
		}
		r := frame.NewReader(textFields, &list{frames})
		for {
			b, err := r.Next(t.Context())
			if err == io.EOF {
				return
			}
			if err != nil {
				if !errors.Is(err, frame.ErrCorrupt) {
					t.Fatalf("error %v is not one of corruption", err)
				}
				return
			}
			if b.Len == 0 || len(b.Columns) != 1 || b.Columns[0].Len() != b.Len {
				t.Fatalf("a batch of %d rows and %d columns", b.Len, len(b.Columns))
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	d := dictionary(200, 8)
	batches := make([]*batch.Batch, 16)
	fields := []schema.Field{{Name: "s", Type: schema.StringType}, {Name: "n", Type: schema.BigIntType}, {Name: "x", Type: schema.DoubleType}}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range batches {
		batches[i] = coded(d, 0, 200, batch.MaxRows)
		n, x := make([]int64, batch.MaxRows), make([]float64, batch.MaxRows)
		for k := range n {
			n[k], x[k] = rng.Int64N(1<<30), rng.Float64()
		}
		batches[i].Columns = append(batches[i].Columns,
			batch.NewFixed(schema.BigIntType.Arrow(), n, nil), batch.NewFixed(schema.DoubleType.Arrow(), x, nil))
	}
	var frames [][]byte
	b.Run("encode", func(b *testing.B) {
		var e frame.Encoder
		for b.Loop() {
			if _, err := e.Encode(fields, batches, func([]byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*16*batch.MaxRows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
	})
	b.Run("decode", func(b *testing.B) {
		frames = encode(b, new(frame.Encoder), fields, batches...)
		for b.Loop() {
			decode(b, fields, frames)
		}
		b.ReportMetric(float64(b.N*16*batch.MaxRows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
	})
}
