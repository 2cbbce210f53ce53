package pipe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

var fields = []schema.Field{{Name: "word", Type: schema.StringType}, {Name: "n", Type: schema.BigIntType}, {Name: "ok", Type: schema.BooleanType}}

func someBatch() *batch.Batch {
	type d = schema.Datum
	return &batch.Batch{Len: 3, Columns: []arrow.Array{
		schema.ArrayOf(schema.StringType, []d{{Type: schema.StringType, S: "a"}, schema.NullOf(schema.StringType), {Type: schema.StringType, S: "ccc"}}),
		schema.ArrayOf(schema.BigIntType, []d{{Type: schema.BigIntType, I: 1}, {Type: schema.BigIntType, I: -2}, schema.NullOf(schema.BigIntType)}),
		schema.ArrayOf(schema.BooleanType, []d{{Type: schema.BooleanType, I: 1}, schema.NullOf(schema.BooleanType), {Type: schema.BooleanType}})}}
}

// The bytes of docs/format/child.md.
func TestMessageBytes(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := errors.Join(w.Send(KindHello, Hello{Version: 1}), w.Send(KindEnd, nil)); err != nil {
		t.Fatal(err)
	}
	want := "480000000d000000" + hex.EncodeToString([]byte(`{"version":1}`)) + "4500000000000000"
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("wrote %s, want %s", got, want)
	}
}

func TestBatches(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for i := range 3 {
		if err := errors.Join(w.Batch(fields, 7*i, someBatch()), w.Send(KindAlive, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Send(KindDone, Done{Counters: map[string]int64{"a/b": 5}}); err != nil {
		t.Fatal(err)
	}
	var done Done
	beats := 0
	r := NewBatches(NewReader(&b), fields, true, func(k Kind, payload []byte) (bool, error) {
		if k == KindAlive {
			beats++
			return false, nil
		}
		return true, Decode(payload, &done)
	})
	for i := range 3 {
		got, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Partition() != 7*i {
			t.Errorf("batch %d is for partition %d", i, r.Partition())
		}
		for c, f := range fields {
			for row := range 3 {
				have, want := schema.FromArrow(got.Columns[c], row, f.Type), schema.FromArrow(someBatch().Columns[c], row, f.Type)
				if have.Text() != want.Text() {
					t.Errorf("column %d, row %d: %s, want %s", c, row, have.Text(), want.Text())
				}
			}
		}
	}
	if _, err := r.Next(t.Context()); err != io.EOF || beats != 3 || done.Counters["a/b"] != 5 {
		t.Errorf("at the end: %v, %d beats, %+v", err, beats, done)
	}
}

// A pipe that breaks off says so.
func TestEnded(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Batch(fields, -1, someBatch()); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() {
		r := NewBatches(NewReader(bytes.NewReader(b.Bytes()[:n])), fields, false, nil)
		if _, err := r.Next(t.Context()); !errors.Is(err, ErrEnded) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

func FuzzBatches(f *testing.F) {
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := errors.Join(w.Batch(fields, 1, someBatch()), w.Send(KindDone, Done{})); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("hello, this is not a message\n"))
	f.Add([]byte("D\x00\x00\x00\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		r := NewBatches(NewReader(bytes.NewReader(src)), fields, true, func(_ Kind, payload []byte) (bool, error) {
			var d Done
			return true, Decode(payload, &d)
		})
		for {
			got, err := r.Next(t.Context())
			if err != nil {
				return
			}
			// What was let through can be read to its last value.
			for c, f := range fields {
				for row := range got.Len {
					_ = schema.FromArrow(got.Columns[c], row, f.Type)
				}
			}
		}
	})
}

// Buffers that don't hold what the offsets say are refused.
func TestCheckArray(t *testing.T) {
	text := func(offsets ...int32) arrow.ArrayData {
		return array.NewData(schema.StringType.Arrow(), 2, []*memory.Buffer{nil,
			memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes([]byte("abc"))}, nil, 0, 0)
	}
	if err := checkArray(text(0, 1, 3)); err != nil {
		t.Errorf("good offsets: %v", err)
	}
	for name, d := range map[string]arrow.ArrayData{
		"falling": text(0, 3, 1), "beyond": text(0, 1, 9), "negative": text(-1, 1, 2), "too few": text(0, 1),
		"numbers": array.NewData(schema.BigIntType.Arrow(), 2, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}, nil, 0, 0),
		"nulls":   array.NewData(schema.BigIntType.Arrow(), 20, []*memory.Buffer{memory.NewBufferBytes(make([]byte, 2)), memory.NewBufferBytes(make([]byte, 160))}, nil, 0, 0),
	} {
		if err := checkArray(d); err == nil {
			t.Errorf("%s: let through", name)
		}
	}
}
