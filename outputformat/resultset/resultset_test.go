package resultset

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
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
	f := New()
	s := f.Spec(fields)
	if _, err := f.Cursor(s).Next(ctx); fault.ClassOf(err) != fault.Bug || err == nil {
		t.Errorf("a cursor before the publish: %v", err)
	}
	part := numbers(1, 2, 3, 4)
	part.Sel = []int32{1, 3}
	second := finished(t, f, s, 1, "t1a0", numbers(10), numbers(11))
	first := finished(t, f, s, 0, "t0a1", part)
	finished(t, f, s, 0, "t0a0", numbers(99))
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
	if _, err := f.Open(ctx, s, fields, 2, "late"); fault.ClassOf(err) != fault.Retryable {
		t.Errorf("an attempt after the publish: %v", err)
	}
	if err := f.Abandon(ctx, s); err == nil {
		t.Error("a published result was abandoned")
	}
	f.Drop(s)
	f.Drop(s)
	if _, err := f.Cursor(s).Next(ctx); err == nil {
		t.Error("a cursor after Drop")
	}
}

func TestAbandonAndLimit(t *testing.T) {
	ctx := context.Background()
	f := New()
	f.MaxBytes = 100
	s := f.Spec(fields)
	m := finished(t, f, s, 0, "a", numbers(1, 2, 3))
	w, err := f.Open(ctx, s, fields, 1, "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ctx, numbers(make([]int64, 20)...)); fault.ClassOf(err) != fault.User {
		t.Errorf("more than MaxBytes: %v", err)
	}
	if err := w.Write(ctx, numbers(make([]int64, 9)...)); err != nil {
		t.Error(err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	finished(t, f, s, 1, "c", numbers(make([]int64, 9)...)) // what was aborted no longer counts
	if err := f.Abandon(ctx, s); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Publish(ctx, s, []outputformat.Manifest{m}); err == nil {
		t.Error("an abandoned result was published")
	}
}
