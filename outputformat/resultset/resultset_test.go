package resultset

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
)

var fields = []schema.Field{{Name: "n", Type: schema.BigIntType}}

func numbers(n ...int64) *batch.Batch {
	a := schema.NewAppender(schema.BigIntType, len(n))
	for _, v := range n {
		a.AppendDatum(schema.Datum{Type: schema.BigIntType, I: v})
	}
	b := &batch.Batch{Len: len(n)}
	b.Columns = append(b.Columns, a.Finish())
	return b
}

func finished(t *testing.T, f *Format, s Spec, task int, name string, batches ...*batch.Batch) outputformat.Manifest {
	t.Helper()
	w, err := f.Open(context.Background(), s, fields, task, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Write(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	m, err := w.Finish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil { // a no-op after Finish
		t.Fatal(err)
	}
	return m
}

func read(t *testing.T, f *Format, s Spec) (out []int64) {
	t.Helper()
	c := f.Cursor(s)
	for {
		b, err := c.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Sel != nil {
			t.Error("a selection was kept")
		}
		out = append(out, batch.Values[int64](b.Columns[0])...)
	}
}

func TestWinnersInTaskOrder(t *testing.T) {
	ctx := context.Background()
	exchange := shuffle.NewMemory()
	f := New(Options{Exchange: exchange})
	s := f.Spec(fields)
	if _, err := f.Cursor(s).Next(ctx); fault.ClassOf(err) != fault.Bug || err == nil {
		t.Errorf("a cursor before the publish: %v", err)
	}
	part := numbers(1, 2, 3, 4)
	part.Sel = []int32{1, 3}
	second := finished(t, f, s, 1, "j.0.1.0", numbers(10), numbers(11))
	first := finished(t, f, s, 0, "j.0.0.1", part)
	finished(t, f, s, 0, "j.0.0.0", numbers(99))
	for range 2 {
		sum, err := f.Publish(ctx, s, []outputformat.Manifest{second, first})
		if err != nil || sum.Rows != 4 {
			t.Fatalf("%+v, %v", sum, err)
		}
	}
	for range 2 { // a cursor may be opened again
		if got := read(t, f, s); len(got) != 4 || got[0] != 2 || got[1] != 4 || got[2] != 10 || got[3] != 11 {
			t.Errorf("rows %v", got)
		}
	}
	if err := f.Abandon(ctx, s); err == nil {
		t.Error("a published result was abandoned")
	}
	f.Drop(s)
	f.Drop(s)
	if _, err := f.Cursor(s).Next(ctx); err == nil {
		t.Error("a cursor after Drop")
	}
	if st := exchange.Stats(); st.Memory != 0 || st.Jobs != 0 {
		t.Errorf("after Drop the exchange holds %+v", st)
	}
	if _, err := f.Open(ctx, s, fields, 2, "j.0.2.0"); err == nil {
		t.Error("an attempt writes to a result that was dropped")
	}
}

func TestAbandonAndLimit(t *testing.T) {
	ctx := context.Background()
	f := New(Options{Exchange: shuffle.NewMemory(), MaxBytes: 100})
	s := f.Spec(fields)
	m := finished(t, f, s, 0, "j.0.0.0", numbers(1, 2, 3))
	w, err := f.Open(ctx, s, fields, 1, "j.0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ctx, numbers(make([]int64, 20)...)); fault.ClassOf(err) != fault.User {
		t.Errorf("more than MaxBytes: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	many := finished(t, f, s, 1, "j.0.1.1", numbers(make([]int64, 12)...))
	if _, err := f.Publish(ctx, s, []outputformat.Manifest{m, many}); fault.ClassOf(err) != fault.User {
		t.Errorf("published more than MaxBytes: %v", err)
	}
	if err := f.Abandon(ctx, s); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Publish(ctx, s, []outputformat.Manifest{m}); err == nil {
		t.Error("an abandoned result was published")
	}
}

// A result larger than the exchange's memory goes to disk and comes back whole.
func TestSpools(t *testing.T) {
	const limit = 100_000
	exchange, err := shuffle.NewLocal(shuffle.LocalOptions{Memory: limit, Dirs: []string{"d"}, FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer exchange.Close()
	f := New(Options{Exchange: exchange})
	s := f.Spec(fields)
	var batches []*batch.Batch
	for k := range int64(100) {
		v := make([]int64, 1000)
		for i := range v {
			v[i] = k*1000 + int64(i)
		}
		batches = append(batches, numbers(v...))
	}
	m := finished(t, f, s, 0, "j.0.0.0", batches...)
	if held := exchange.Stats().Memory; held > limit {
		t.Errorf("%d bytes are held, want at most %d", held, limit)
	}
	if _, err := f.Publish(context.Background(), s, []outputformat.Manifest{m}); err != nil {
		t.Fatal(err)
	}
	got := read(t, f, s)
	for i, v := range got {
		if v != int64(i) {
			t.Fatalf("row %d is %d", i, v)
		}
	}
	if len(got) != 100_000 {
		t.Errorf("%d rows", len(got))
	}
	f.Drop(s)
}
