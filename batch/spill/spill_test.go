package spill

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

var list = schema.Type{Kind: schema.Array, Nested: &schema.Nested{Fields: []schema.Field{{Type: schema.StringType}}}}

func sample(rng *rand.Rand, n int) ([]schema.Field, *batch.Batch) {
	fields := []schema.Field{{Name: "x", Type: schema.StringType}, {Name: "x", Type: schema.BigIntType}, {Name: "", Type: schema.DecimalType(10, 2)},
		{Name: "b", Type: schema.BooleanType}, {Name: "l", Type: list}, {Name: "n", Type: schema.VoidType}, {Name: "unread", Type: schema.DateType}}
	columns := make([][]schema.Datum, len(fields))
	for range n {
		s := schema.Datum{Type: schema.StringType, S: strings.Repeat("ab", rng.IntN(20))}
		row := []schema.Datum{s, {Type: schema.BigIntType, I: rng.Int64()}, {Type: fields[2].Type, D: decimal128.FromI64(rng.Int64N(1e9))},
			{Type: schema.BooleanType, I: int64(rng.IntN(2))}, {Type: list, List: []schema.Datum{s, schema.NullOf(schema.StringType)}}, schema.NullOf(schema.VoidType),
			schema.NullOf(schema.DateType)}
		for i := range row {
			if rng.IntN(5) == 0 {
				row[i] = schema.NullOf(row[i].Type)
			}
			columns[i] = append(columns[i], row[i])
		}
	}
	b := &batch.Batch{Len: n}
	for i, f := range fields {
		b.Columns = append(b.Columns, schema.ArrayOf(f.Type, columns[i]))
	}
	b.Columns[6] = array.NewNull(n)
	return fields, b
}

func texts(fields []schema.Field, b *batch.Batch) string {
	var out []byte
	b = batch.Compact(b)
	for i := range b.Len {
		for c, f := range fields {
			out = append(schema.AppendText(out, f.Type, b.Columns[c], i), '|')
		}
	}
	return string(out)
}

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	dir := t.TempDir()
	s := New(dir + "/below")
	var want string
	fields, _ := sample(rng, 1)
	w, err := s.Create(fields)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		_, b := sample(rng, 1+rng.IntN(3000))
		if rng.IntN(2) == 0 {
			b.Sel = []int32{0}
		}
		var d batch.Dictionary
		coded := make([]int32, b.Len)
		for i := range coded {
			coded[i] = d.Add("word")
		}
		b.Columns[0] = batch.NewDictionary(coded, nil, d.Data())
		want += texts(fields, b)
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	run, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	first := run.Open()
	if _, err := first.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also while another reader is on its way
		r := run.Open()
		got, rows := "", int64(0)
		var kept []*batch.Batch
		for {
			b, err := r.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, b) // batches may be kept
			rows += int64(b.Len)
		}
		for _, b := range kept {
			got += texts(fields, b)
			if b.Columns[6].DataType().ID() != arrow.DATE32 {
				t.Fatal("a column came back with another type")
			}
		}
		if got != want || rows != run.Rows {
			t.Fatal("other rows came back")
		}
	}
	if n, runs := s.Bytes(); n != run.Bytes || runs != 1 {
		t.Errorf("%d bytes in %d runs", n, runs)
	}
	if err := errors.Join(run.Remove(), run.Remove()); err != nil {
		t.Fatal(err)
	}
	var e *fault.Error
	if _, err := run.Open().Next(context.Background()); !errors.As(err, &e) || e.Class != fault.Retryable {
		t.Errorf("reading a removed run: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir + "/below")
	if err != nil || len(left) > 0 {
		t.Errorf("%d files left, %v", len(left), err)
	}
}

// Every flipped bit and every truncation is found.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := New(t.TempDir())
	defer s.Close()
	fields, b := sample(rng, 500)
	w, err := s.Create(fields)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	run, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		r := run.Open()
		for {
			if _, err := r.Next(context.Background()); err != nil {
				return err
			}
		}
	}
	for range 200 {
		at := rng.Int64N(run.Bytes)
		var x [1]byte
		if _, err := run.file.ReadAt(x[:], at); err != nil {
			t.Fatal(err)
		}
		flipped := [1]byte{x[0] ^ 1<<rng.IntN(8)}
		if _, err := run.file.WriteAt(flipped[:], at); err != nil {
			t.Fatal(err)
		}
		if err := read(); errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a flipped bit at byte %d was not noticed", at)
		}
		if _, err := run.file.WriteAt(x[:], at); err != nil {
			t.Fatal(err)
		}
	}
	if err := read(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := run.file.Truncate(run.Bytes - 3); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == io.EOF || !strings.Contains(err.Error(), "spilled block") {
		t.Errorf("a truncation: %v", err)
	}
}

func TestFolderThatCannotBe(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var e *fault.Error
	if _, err := New(file).Create(nil); !errors.As(err, &e) || e.Class != fault.Retryable {
		t.Errorf("%v", err)
	}
}
