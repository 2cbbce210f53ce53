package segment

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// TestOtherReader: arrow-go's own reader sees what was written, under the
// column ids, and statistics hold for every row.
func TestOtherReader(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	columns := allTypes()
	rows := table(r, columns, 10_000)
	rows[17][11] = schema.Datum{Type: schema.StringType} // the empty string is the least
	fs := vfs.NewMem()
	key := []storage.KeyColumn{{Column: 0}}
	m := write(t, r, Options{FS: fs, Path: "s", Columns: columns, Key: key, RowGroupRows: 8192}, rows)
	data := readFile(t, fs, "s")
	if dir := os.Getenv("SKEP_KEEP_SEGMENT"); dir != "" { // to try other tools on
		if err := os.WriteFile(dir+"/segment.parquet", data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pf, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer pf.Close()
	for i, c := range columns {
		if id := pf.MetaData().Schema.Column(i).SchemaNode().FieldID(); id != int32(c.ID) {
			t.Errorf("column %s has field id %d", c.Name, id)
		}
	}
	pr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := pr.ReadTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if table.NumRows() != int64(len(rows)) {
		t.Fatalf("%d rows of %d", table.NumRows(), len(rows))
	}
	for c, col := range columns {
		at := 0
		for _, a := range table.Column(c).Data().Chunks() {
			for i := range a.Len() {
				want := rows[at][c]
				if d, ok := a.(array.ExtensionArray); ok {
					a = d.Storage()
				}
				if !same(foreignDatum(a, col.Type, i), want) {
					t.Fatalf("row %d of %s: %s instead of %+v", at, col.Name, a.ValueStr(i), want)
				}
				at++
			}
		}
	}

	rd := open(t, fs, "s", m, key)
	for g, group := range m.RowGroups {
		for leaf, c := range rd.columns {
			b := rd.chunkBounds(g, leaf)
			if !b.has {
				t.Errorf("row group %d of %s has no bounds", g, c.name)
			}
			nulls := int64(0)
			for _, row := range rows[group.FirstRow : group.FirstRow+group.Rows] {
				v := row[leaf]
				if v.Null {
					nulls++
					continue
				}
				l := &leafOfDatum{typ: c.typ}
				lo, hi := l.order(t, &b.lo, v), l.order(t, &b.hi, v)
				if c.typ.Kind == schema.Char {
					continue // in another order
				}
				if lo > 0 || hi < 0 && !b.openHigh {
					t.Fatalf("row group %d of %s: %+v is outside the bounds %+v", g, c.name, v, b)
				}
			}
			if nulls != b.nulls {
				t.Errorf("row group %d of %s: %d nulls, statistics say %d", g, c.name, nulls, b.nulls)
			}
		}
	}
}

// leafOfDatum orders bounds and values through a leaf.
type leafOfDatum struct{ typ schema.Type }

func (x *leafOfDatum) order(t *testing.T, bound *value, d schema.Datum) int {
	l := &leaf{typ: x.typ}
	if err := l.add(d); err != nil {
		t.Fatal(err)
	}
	return l.compare(bound, &l.values[0])
}

// foreignDatum reads a value of the arrays that pqarrow makes.
func foreignDatum(a arrow.Array, t schema.Type, i int) schema.Datum {
	if s, ok := a.(*array.LargeString); ok && a.IsValid(i) {
		return schema.Datum{Type: t, S: s.Value(i)}
	}
	return datumAt(a, t, i)
}
