package segment

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// nestedColumns are a key and columns of nested types.
func nestedColumns(t testing.TB) schema.Columns {
	out := schema.Columns{{ID: 0, Name: "id", Type: schema.BigIntType}}
	for i, text := range []string{
		"array<int>", "array<string>", "map<string,int>", "struct<a:int,b:string>",
		"array<array<boolean>>", "map<int,array<struct<x:double,y:array<decimal(20,2)>>>>",
		"uniontype<int,string,array<date>>", "struct<u:uniontype<timestamp,binary>,m:map<string,map<int,string>>,f:float>",
		"array<struct<a:struct<b:struct<c:bigint>>>>", "struct<only:array<char(6)>>",
	} {
		typ, err := schema.ParseType(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, schema.Column{ID: schema.ColumnID(i + 1), Name: fmt.Sprintf("c%d", i+1), Type: typ})
	}
	return out
}

// randomNested returns a value with lists of all short lengths, and NULLs at
// each level.
func randomNested(r *rand.Rand, t schema.Type, null bool) schema.Datum {
	if null && r.IntN(4) == 0 {
		return schema.NullOf(t)
	}
	d := schema.Datum{Type: t}
	switch t.Kind {
	case schema.Array:
		for range r.IntN(4) {
			d.List = append(d.List, randomNested(r, t.Nested.Fields[0].Type, true))
		}
	case schema.Map:
		for range r.IntN(3) {
			d.List = append(d.List, randomNested(r, t.Nested.Fields[0].Type, false), randomNested(r, t.Nested.Fields[1].Type, true))
		}
	case schema.Struct:
		for _, f := range t.Nested.Fields {
			d.List = append(d.List, randomNested(r, f.Type, true))
		}
	case schema.Union:
		d.I = int64(r.IntN(len(t.Nested.Fields)))
		d.List = []schema.Datum{randomNested(r, t.Nested.Fields[d.I].Type, true)}
	default:
		return random(r, t, false)
	}
	return d
}

// nestedRows makes rows with ascending ids, and a batch of them.
func nestedRows(r *rand.Rand, columns schema.Columns, n int) ([][]schema.Datum, *batch.Batch) {
	values := make([][]schema.Datum, len(columns)) // by column
	for i := range n {
		values[0] = append(values[0], schema.Datum{Type: columns[0].Type, I: int64(3 * i)})
		for c := 1; c < len(columns); c++ {
			values[c] = append(values[c], randomNested(r, columns[c].Type, true))
		}
	}
	b := &batch.Batch{Len: n}
	for c := range columns {
		b.Columns = append(b.Columns, schema.ArrayOf(columns[c].Type, values[c]))
	}
	return values, b
}

func text(d schema.Datum) string { return string(d.AppendTo(nil)) }

func TestNested(t *testing.T) {
	columns := nestedColumns(t)
	for _, n := range []int{1, 5, 700, 9000} {
		r := rand.New(rand.NewPCG(uint64(n), 3))
		values, b := nestedRows(r, columns, n)
		fs := vfs.NewMem()
		key := []storage.KeyColumn{{Column: 0}}
		w, err := Create(Options{FS: fs, Path: "s", Columns: columns, Key: key, RowGroupRows: 8192})
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from < n; {
			to := min(n, from+1+r.IntN(batch.MaxRows))
			part := &batch.Batch{Len: to - from}
			for _, a := range b.Columns {
				part.Columns = append(part.Columns, batch.Slice(a, from, to))
			}
			if err := w.Append(Rows{Batch: part}); err != nil {
				t.Fatal(err)
			}
			from = to
		}
		m, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		rd := open(t, fs, "s", m, key)
		check := func(what string, column int, a arrow.Array, at int, row int) {
			t.Helper()
			got := schema.FromArrow(a, at, columns[column].Type)
			if want := values[column][row]; text(got) != text(want) || got.Null != want.Null {
				t.Fatalf("%d rows, %s: row %d, column %s of type %s:\n got %s\nwant %s", n, what, row, columns[column].Name, columns[column].Type, text(got), text(want))
			}
		}
		scan := func(what string, o ScanOptions, of []int, accept func(row int) bool) {
			t.Helper()
			s, err := rd.Scan(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			next := 0
			for {
				c, err := s.Next(context.Background())
				if err != nil {
					break
				}
				for k := range c.Rows() {
					i := k
					if c.Sel != nil {
						i = int(c.Sel[k])
					}
					row := int(c.Row) + i
					for ; !accept(next); next++ {
					}
					if row != next {
						t.Fatalf("%s: row %d instead of %d", what, row, next)
					}
					next++
					for j, column := range of {
						check(what, column, c.Columns[j], i, row)
					}
				}
			}
			for ; next < n && !accept(next); next++ {
			}
			if next != n {
				t.Errorf("%s: ends at row %d of %d: %v", what, next, n, s.err)
			}
		}
		all := make([]int, len(columns))
		for i := range all {
			all[i] = i
		}
		scan("scan", ScanOptions{Columns: columns}, all, func(int) bool { return true })
		for c := 1; c < len(columns); c++ {
			for _, not := range []bool{false, true} {
				scan(fmt.Sprintf("IS NULL, not %t", not), ScanOptions{Columns: columns[c : c+1], Filter: &storage.IsNull{Column: columns[c].ID, Not: not}}, []int{c},
					func(row int) bool { return row >= n || values[c][row].Null != not })
				// The same, computed on what was read.
				f, err := NewFilter(&storage.IsNull{Column: columns[c].ID, Not: not}, columns)
				if err != nil {
					t.Fatal(err)
				}
				sel, err := f.Select(b)
				if err != nil {
					t.Fatal(err)
				}
				want := 0
				for _, v := range values[c] {
					if v.Null != not {
						want++
					}
				}
				if len(sel) != want && !(sel == nil && want == n) {
					t.Errorf("the filter selects %d rows of column %s, want %d", len(sel), columns[c].Name, want)
				}
			}
		}
		enc := rowkey.NewEncoder([]rowkey.Column{{Type: schema.BigIntType}})
		var keys []storage.Key
		var rows []int
		for i := 0; i < n; i += 1 + r.IntN(n/3+1) {
			k, err := enc.AppendDatums(nil, []schema.Datum{values[0][i]})
			if err != nil {
				t.Fatal(err)
			}
			keys, rows = append(keys, k), append(rows, i)
		}
		c, err := rd.Lookup(context.Background(), keys, columns)
		if err != nil || c.Len != len(keys) {
			t.Fatalf("lookup: %d rows, %v", c.Len, err)
		}
		for i, row := range rows {
			for j := range columns {
				check("lookup", j, c.Columns[j], i, row)
			}
		}
		// Another Parquet reader sees the same values.
		pf, err := file.NewParquetReader(bytes.NewReader(readFile(t, fs, "s")))
		if err != nil {
			t.Fatal(err)
		}
		fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		table, err := fr.ReadTable(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if int(table.NumCols()) != len(columns) {
			t.Fatalf("another reader sees %d columns", table.NumCols())
		}
		for j := 1; j < len(columns); j++ {
			row := 0
			for _, chunk := range table.Column(j).Data().Chunks() {
				for i := range chunk.Len() {
					got := fmt.Sprint(chunk.ValueStr(i))
					want := fmt.Sprint(b.Columns[j].ValueStr(row))
					if got != want && !sameShape(columns[j].Type) {
						t.Fatalf("another reader: row %d, column %d of type %s:\n got %s\nwant %s", row, j, columns[j].Type, got, want)
					}
					row++
				}
			}
			if row != n {
				t.Errorf("another reader sees %d rows of column %d", row, j)
			}
		}
	}
}

// sameShape reports whether a type has parts that Parquet's own types don't
// tell apart from others, so that another reader's text may differ.
func sameShape(t schema.Type) bool {
	text := t.String()
	for _, kind := range []string{"timestamp", "decimal", "binary", "date", "char"} {
		if strings.Contains(text, kind) {
			return true
		}
	}
	return false
}

// Long values make shorter pages, and what was handed on stays as it is.
func TestNestedPages(t *testing.T) {
	columns := nestedColumns(t)[:3]
	const n = 3000
	values := make([][]schema.Datum, 3)
	for i := range n {
		long := schema.Datum{Type: schema.StringType, S: strings.Repeat("x", 700) + fmt.Sprint(i)}
		values[0] = append(values[0], schema.Datum{Type: schema.BigIntType, I: int64(i)})
		values[1] = append(values[1], schema.Datum{Type: columns[1].Type, List: []schema.Datum{{Type: schema.IntType, I: int64(i)}}})
		values[2] = append(values[2], schema.Datum{Type: columns[2].Type, List: []schema.Datum{long, long}})
	}
	b := &batch.Batch{Len: n}
	for c := range columns {
		b.Columns = append(b.Columns, schema.ArrayOf(columns[c].Type, values[c]))
	}
	fs := vfs.NewMem()
	key := []storage.KeyColumn{{Column: 0}}
	w, err := Create(Options{FS: fs, Path: "s", Columns: columns, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(Rows{Batch: b}); err != nil {
		t.Fatal(err)
	}
	m, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	rd := open(t, fs, "s", m, key)
	pages, err := rd.pages(0, 2)
	if err != nil || len(pages) < 3 {
		t.Errorf("%d pages, %v", len(pages), err)
	}
	var kept []*Chunk
	for range 2 {
		s, err := rd.Scan(ScanOptions{Columns: columns})
		if err != nil {
			t.Fatal(err)
		}
		for {
			c, err := s.Next(context.Background())
			if err != nil {
				break
			}
			kept = append(kept, c)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	for _, c := range kept {
		for i := range c.Len {
			for j := range columns {
				if got, want := schema.FromArrow(c.Columns[j], i, columns[j].Type), values[j][int(c.Row)+i]; text(got) != text(want) {
					t.Fatalf("row %d: %.40s instead of %.40s", int(c.Row)+i, text(got), text(want))
				}
			}
			rows++
		}
	}
	if rows != 2*n {
		t.Errorf("%d rows", rows)
	}
}

func TestNestedRefusals(t *testing.T) {
	fs := vfs.NewMem()
	columns := nestedColumns(t)[:4]
	for _, p := range []storage.Predicate{
		&storage.Compare{Column: 1, Op: storage.Eq, Value: schema.Datum{Type: columns[1].Type}},
		&storage.In{Column: 1, Values: []schema.Datum{{Type: columns[1].Type}}},
	} {
		if _, err := NewFilter(p, columns); fault.ClassOf(err) != fault.Bug || err == nil {
			t.Errorf("a %T of an array: %v", p, err)
		}
	}
	void := schema.Columns{columns[0], {ID: 9, Name: "v", Type: schema.Type{Kind: schema.Array, Nested: &schema.Nested{Fields: []schema.Field{{Type: schema.VoidType}}}}}}
	if _, err := Create(Options{FS: fs, Path: "v", Columns: void, Key: []storage.KeyColumn{{Column: 0}}}); err == nil || !strings.Contains(err.Error(), "column v") {
		t.Errorf("an array of void: %v", err)
	}
}
