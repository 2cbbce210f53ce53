package storagetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// nestedRow turns a row as tests write it, with ; and : for the separators of
// nested cells, into one of Rows.
func nestedRow(row string) string { return strings.NewReplacer(";", "\x02", ":", "\x03").Replace(row) }

// testNested: arrays, maps, structs and unions, whole and in parts of NULL, go
// through delta, flush, load, merge and split unchanged.
func testNested(t *testing.T, open Factory) {
	auth, table := NewAuthority(), People()
	table.Columns = schema.Columns{table.Columns[0]}
	for i, text := range []string{"array<string>", "map<string,int>", "struct<a:int,b:array<string>>", "uniontype<int,string>"} {
		typ, err := schema.ParseType(text)
		if err != nil {
			t.Fatal(err)
		}
		table.Columns = append(table.Columns, schema.Column{ID: schema.ColumnID(10 + i), Name: []string{"list", "pairs", "rec", "either"}[i], Type: typ})
	}
	f := NewFixture(t, open(t, auth, 0), auth, table, Key(table, "5"))
	// What is written, and how it is read.
	in := map[int]string{
		1: `1|a;b;|x:1;y:\N|7;p:q|0;42`,
		2: `2|NULL|NULL|NULL|NULL`,
		3: `3|\N;c||\N;\N|1;word`,
		7: `7|only|k:5|1;r|0;-1`,
	}
	out := map[int]string{
		1: `1|["a","b",""]|{"x":1,"y":null}|{"a":7,"b":["p","q"]}|{0:42}`,
		2: `2|NULL|NULL|NULL|NULL`,
		3: `3|[null,"c"]|{}|{"a":null,"b":null}|{1:"word"}`,
		7: `7|["only"]|{"k":5}|{"a":1,"b":["r"]}|{0:-1}`,
	}
	check := func(what string, at storage.Timestamp, ids ...int) {
		t.Helper()
		var want []string
		for _, id := range ids {
			want = append(want, out[id])
		}
		got, _ := f.Scan(storage.Scan{At: at})
		f.equal(what, Sorted(got), Sorted(want))
		got, _ = f.Scan(storage.Scan{At: at, Ordered: true})
		f.equal(what+", ordered", got, want)
		for i, c := range table.Columns[1:] {
			for _, not := range []bool{false, true} {
				var some []string
				for _, row := range want {
					if cells := strings.Split(row, "|"); (cells[i+1] == "NULL") != not {
						some = append(some, cells[0])
					}
				}
				got, _ := f.Scan(storage.Scan{At: at, Columns: table.Columns[:1], Filter: &storage.IsNull{Column: c.ID, Not: not}})
				f.equal(what+", "+c.Name+" IS [NOT] NULL", Sorted(got), Sorted(some))
			}
		}
		for _, id := range ids {
			k := Key(table, fmt.Sprint(id))
			b, err := f.Server.Get(context.Background(), f.Region(k), []storage.Key{k}, f.Auth.Now(), table.Columns)
			f.ok(err)
			f.equal(what+", get", Text(table.Columns, b), []string{out[id]})
		}
		f.Check()
	}
	for id := range in {
		in[id] = nestedRow(in[id])
	}
	f.Load(in[1], in[2], in[7])
	check("loaded", 0, 1, 2, 7)
	loaded := f.Auth.Now()
	f.Put(in[3])
	f.Put(in[1])
	check("put", 0, 1, 2, 3, 7)
	f.PutColumns(schema.Columns{table.Columns[0], table.Columns[2]}, nestedRow("2|k:5"))
	out[2] = `2|NULL|{"k":5}|NULL|NULL`
	check("put in part", 0, 1, 2, 3, 7)
	f.Flush()
	check("flushed", 0, 1, 2, 3, 7)
	f.Delete("1")
	check("deleted", 0, 2, 3, 7)
	f.Load(in[1], in[3])
	f.Flush()
	check("loaded over it", 0, 1, 2, 3, 7)
	got, _ := f.Scan(storage.Scan{At: loaded, Columns: table.Columns[1:2]})
	f.equal("as it was", Sorted(got), []string{"NULL", `["a","b",""]`, `["only"]`})
	_, err := f.Server.Split(context.Background(), f.Regions()[0].ID, Key(table, "2"))
	f.ok(err)
	check("split", 0, 1, 2, 3, 7)
	_, _, err = f.TryScan(storage.Scan{Filter: &storage.Compare{Column: 10, Value: schema.Datum{Type: table.Columns[1].Type}}})
	wantError(t, err, fault.Bug, "array<string>")
}
