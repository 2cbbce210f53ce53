package schema

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// cellsOf lays texts out in one buffer; "<null>" is NULL.
func cellsOf(texts []string) (data []byte, cells []Cell) {
	for _, s := range texts {
		if s == "<null>" {
			cells = append(cells, Cell{Len: -1})
			continue
		}
		cells = append(cells, Cell{Start: int32(len(data)), Len: int32(len(s))})
		data = append(data, s...)
	}
	return data, cells
}

func texts(n, distinct int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("value %d", i%distinct)
		if i%10 == 9 {
			out[i] = "<null>"
		}
	}
	return out
}

func checkTexts(t *testing.T, a arrow.Array, want []string) {
	t.Helper()
	if a.Len() != len(want) {
		t.Fatalf("%d values, want %d", a.Len(), len(want))
	}
	nulls := 0
	for i, w := range want {
		d := FromArrow(a, i, StringType)
		if d.Null != (w == "<null>") || !d.Null && d.S != w {
			t.Fatalf("value %d is %+v, want %q", i, d, w)
		}
		if d.Null {
			nulls++
		}
	}
	if a.NullN() != nulls {
		t.Errorf("%d nulls, want %d", a.NullN(), nulls)
	}
}

func TestTextIsCodedWhileItPays(t *testing.T) {
	a := NewAppender(StringType, 100)
	few := texts(8000, 50)
	data, cells := cellsOf(few)
	a.AppendCells(data, cells, nil)
	first := a.Finish()
	a.AppendCells(data, cells, nil)
	second := a.Finish()
	checkTexts(t, first, few)
	checkTexts(t, second, few)
	if first.Data().Dictionary() != second.Data().Dictionary() {
		t.Error("no new value, yet another dictionary")
	}
	if n := first.(*array.Dictionary).Dictionary().Len(); n != 45 { // every tenth is NULL
		t.Errorf("%d values in the dictionary, want 45", n)
	}
	// A new value makes another dictionary and leaves the old arrays alone.
	more := append(texts(1000, 50), "new", "newer")
	data, cells = cellsOf(more)
	a.AppendCells(data, cells, nil)
	third := a.Finish()
	checkTexts(t, third, more)
	checkTexts(t, first, few)
	if third.Data().Dictionary() == second.Data().Dictionary() {
		t.Error("a new value, yet the same dictionary")
	}
	// Mostly new values: plain from then on, also in the middle of an array.
	many := append(texts(1000, 50), texts(20_000, 20_000)...)
	data, cells = cellsOf(many)
	a.AppendCells(data, cells, nil)
	fourth := a.Finish()
	checkTexts(t, fourth, many)
	if _, plain := fourth.(*array.String); !plain {
		t.Errorf("%T, want plain text", fourth)
	}
	data, cells = cellsOf(few)
	a.AppendCells(data, cells, nil)
	if _, plain := a.Finish().(*array.String); !plain {
		t.Error("coded again after it was given up")
	}
	// Short arrays are coded, whatever is in them.
	b := NewAppender(StringType, 3)
	data, cells = cellsOf([]string{"a", "<null>", "b"})
	b.AppendCells(data, cells, nil)
	checkTexts(t, b.Finish(), []string{"a", "<null>", "b"})
	checkTexts(t, b.Finish(), nil)
}

func TestAppendCellsTellsBadOnes(t *testing.T) {
	for _, c := range []struct {
		t     Type
		cells []string
		bad   []int32
		want  []string
	}{
		{IntType, []string{"1", "x", "<null>", "-7", ""}, []int32{1, 4}, []string{"1", "NULL", "NULL", "-7", "NULL"}},
		{DoubleType, []string{"1.5", "abc", "1e3"}, []int32{1}, []string{"1.5", "NULL", "1000.0"}},
		{BooleanType, []string{"true", "maybe", "<null>", "FALSE"}, []int32{1}, []string{"true", "NULL", "NULL", "false"}},
		{DateType, []string{"2020-01-02", "<null>", "2020-02-30"}, []int32{2}, []string{"2020-01-02", "NULL", "NULL"}},
		{DecimalType(4, 1), []string{"12.34", "12345"}, []int32{1}, []string{"12.3", "NULL"}},
		{TimestampType, []string{"2020-01-02 03:04:05", "x"}, []int32{1}, []string{"2020-01-02 03:04:05", "NULL"}},
		{BinaryType, []string{"aGk=", "<null>", "plain!"}, nil, []string{"hi", "NULL", "plain!"}},
		{VarcharType(2), []string{"abc", "<null>"}, nil, []string{"ab", "NULL"}},
		{VoidType, []string{"x", "<null>"}, []int32{0}, []string{"NULL", "NULL"}},
	} {
		a := NewAppender(c.t, 2)
		for round := range 2 { // buffers aren't shared between arrays
			data, cells := cellsOf(c.cells)
			bad := a.AppendCells(data, cells, nil)
			if fmt.Sprint(bad) != fmt.Sprint(c.bad) {
				t.Errorf("%s: bad cells %v, want %v", c.t, bad, c.bad)
			}
			arr := a.Finish()
			for i, want := range c.want {
				if got := FromArrow(arr, i, c.t).Text(); got != want {
					t.Errorf("%s, round %d, value %d: %q, want %q", c.t, round, i, got, want)
				}
			}
		}
	}
}

func BenchmarkAppendCells(b *testing.B) {
	for _, c := range []struct {
		t    Type
		text string
	}{{IntType, "1234567"}, {BigIntType, "123456789012"}, {DoubleType, "-36.123456"}, {DateType, "2020-01-02"}, {TimestampType, "2020-01-02 03:04:05.123"},
		{DecimalType(10, 2), "12345.67"}, {StringType, "Poa bulbosa L."}} {
		b.Run(c.t.String(), func(b *testing.B) {
			in := make([]string, 8192)
			for i := range in {
				in[i] = c.text
			}
			data, cells := cellsOf(in)
			a := NewAppender(c.t, len(in))
			for b.Loop() {
				if bad := a.AppendCells(data, cells, nil); len(bad) > 0 {
					b.Fatal("bad cells")
				}
				a.Finish()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(in)), "ns/cell")
		})
	}
}
