package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Factory opens an empty server that closes at the end of the test. Its
// folder 0 must exist; maxRowGroup, if not 0, is the most rows of a row group.
type Factory func(tb testing.TB, a *Authority, maxRowGroup int64) storage.Server

// People is a keyed table: id bigint (the key), name string, age int, city
// string NOT NULL.
func People() *storage.Table {
	return &storage.Table{ID: 7, Name: "default.people", Version: 1,
		Columns: schema.Columns{
			{ID: 1, Name: "id", Type: schema.BigIntType},
			{ID: 2, Name: "name", Type: schema.StringType},
			{ID: 3, Name: "age", Type: schema.IntType},
			{ID: 5, Name: "city", Type: schema.StringType, NotNull: true},
		},
		Key: []storage.KeyColumn{{Column: 1}},
	}
}

// Events is a keyless table: kind string, n bigint.
func Events() *storage.Table {
	return &storage.Table{ID: 9, Name: "default.events", Version: 1,
		Columns: schema.Columns{{ID: 1, Name: "kind", Type: schema.StringType}, {ID: 2, Name: "n", Type: schema.BigIntType}},
	}
}

// Run runs the suite.
func Run(t *testing.T, open Factory) {
	tests := []struct {
		name string
		run  func(t *testing.T, open Factory)
	}{
		{"PutGetDelete", testPutGetDelete},
		{"Versions", testVersions},
		{"PartialPut", testPartialPut},
		{"PutRefusals", testPutRefusals},
		{"Types", testTypes},
		{"CompositeKey", testCompositeKey},
		{"Predicates", testPredicates},
		{"Ranges", testRanges},
		{"Publish", testPublish},
		{"PublishDuplicates", testPublishDuplicates},
		{"Abort", testAbort},
		{"Nested", testNested},
		{"Truncate", testTruncate},
		{"Overwrite", testOverwrite},
		{"TruncateRange", testTruncateRange},
		{"TruncateRanges", testTruncateRanges},
		{"OverwriteRange", testOverwriteRange},
		{"Flush", testFlush},
		{"FlushHistory", testFlushHistory},
		{"Overlap", testOverlap},
		{"Split", testSplit},
		{"SplitCarriesPending", testSplitCarriesPending},
		{"Keyless", testKeyless},
		{"PartitionedKeyed", testPartitionedKeyed},
		{"PartitionedKeyless", testPartitionedKeyless},
		{"PartitionedInOrder", testPartitionedInOrder},
		{"PartitionedRefusals", testPartitionedRefusals},
		{"ScanOutlivesChanges", testScanOutlivesChanges},
		{"CutKeys", testCutKeys},
		{"CreateAndDrop", testCreateAndDrop},
		{"ReplaceEmpty", testReplaceEmpty},
		{"UnknownRegion", testUnknownRegion},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, open) })
	}
}

func people(t *testing.T, open Factory, rowGroup int64, cuts ...string) *Fixture {
	auth := NewAuthority()
	table := People()
	return NewFixture(t, open(t, auth, rowGroup), auth, table, Keys(table, cuts...)...)
}

func testPutGetDelete(t *testing.T, open Factory) {
	f := people(t, open, 0)
	f.Rows(0)
	before := f.Auth.Now()
	first := f.Put("1|ann|30|Rome", "2|bob|NULL|Oslo")
	f.Rows(0, "1|ann|30|Rome", "2|bob|NULL|Oslo")
	f.Rows(before)
	second := f.Put("2|bob|41|Oslo", "-3|cy|7|Bonn")
	if second <= first {
		t.Errorf("timestamps %d, %d don't ascend", first, second)
	}
	f.Rows(0, "-3|cy|7|Bonn", "1|ann|30|Rome", "2|bob|41|Oslo")
	f.Rows(first, "1|ann|30|Rome", "2|bob|NULL|Oslo")
	f.Delete("1", "99")
	f.Rows(0, "-3|cy|7|Bonn", "2|bob|41|Oslo")
	f.Rows(second, "-3|cy|7|Bonn", "1|ann|30|Rome", "2|bob|41|Oslo")
	f.Put("1|ann|31|Rome")
	f.Rows(0, "-3|cy|7|Bonn", "1|ann|31|Rome", "2|bob|41|Oslo")

	// The last of equal keys in one put wins; a get of what isn't there is empty.
	f.Put("5|x|1|A", "5|y|2|B")
	b, err := f.Server.Get(context.Background(), f.Regions()[0].ID, Keys(f.Table, "5", "77", "2", "5"), f.Auth.Now(), schema.Columns{f.columns[1], f.columns[0]})
	f.ok(err)
	f.equal("get", Sorted(Text(schema.Columns{f.columns[1], f.columns[0]}, b)), []string{"bob|2", "y|5"})
	b, err = f.Server.Get(context.Background(), f.Regions()[0].ID, Keys(f.Table, "77"), f.Auth.Now(), f.columns)
	f.ok(err)
	if b.Rows() != 0 || len(b.Columns) != 4 {
		t.Errorf("get of an absent key: %d rows, %d columns", b.Rows(), len(b.Columns))
	}
	f.Check()
}

// testVersions: newer means timestamp, never layer.
func testVersions(t *testing.T, open Factory) {
	f := people(t, open, 0)
	txn := f.Auth.Begin()
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "a"}, "1|load|1|X", "2|load|1|X")
	p1 := f.Put("1|put before commit|2|X")
	c := f.Auth.Commit(txn, "a")
	f.Rows(p1, "1|put before commit|2|X")
	f.Rows(c, "1|load|1|X", "2|load|1|X")
	p2 := f.Put("2|put after commit|3|X")
	f.Rows(0, "1|load|1|X", "2|put after commit|3|X")
	f.Flush()
	f.Rows(p1, "1|put before commit|2|X")
	f.Rows(c, "1|load|1|X", "2|load|1|X")
	f.Rows(p2, "1|load|1|X", "2|put after commit|3|X")
	d := f.Delete("2")
	f.Load("2|again|4|X")
	f.Rows(d, "1|load|1|X")
	f.Rows(0, "1|load|1|X", "2|again|4|X")
	f.Flush()
	f.Rows(d, "1|load|1|X")
	f.Rows(0, "1|load|1|X", "2|again|4|X")
	f.Check()
}

func testPartialPut(t *testing.T, open Factory) {
	f := people(t, open, 0)
	c := f.columns
	f.Put("1|ann|30|Rome", "2|bob|41|Oslo")
	f.PutColumns(schema.Columns{c[0], c[2]}, "1|31")
	f.Rows(0, "1|ann|31|Rome", "2|bob|41|Oslo")
	f.PutColumns(schema.Columns{c[0], c[3], c[1]}, "3|Bonn|cy", "2|Kiel|NULL")
	f.Rows(0, "1|ann|31|Rome", "2|NULL|41|Kiel", "3|cy|NULL|Bonn")
	f.Flush()
	f.PutColumns(schema.Columns{c[0], c[1]}, "3|cyd", "2|bo", "1|an")
	f.Rows(0, "1|an|31|Rome", "2|bo|41|Kiel", "3|cyd|NULL|Bonn")
	// A committed load is read even before anyone resolved it.
	f.Load("4|dora|50|Graz")
	f.PutColumns(schema.Columns{c[0], c[2]}, "4|51")
	f.Rows(0, "1|an|31|Rome", "2|bo|41|Kiel", "3|cyd|NULL|Bonn", "4|dora|51|Graz")
	// After a delete nothing is kept.
	f.Delete("4")
	_, err := f.Server.Put(context.Background(), f.Regions()[0].ID, schema.Columns{c[0], c[2]}, Rows(schema.Columns{c[0], c[2]}, "4|52"))
	wantError(t, err, fault.User, "column city is NOT NULL and isn't given for the new row with key (4)")
	f.PutColumns(schema.Columns{c[0], c[3]}, "4|Ulm")
	f.Rows(0, "1|an|31|Rome", "2|bo|41|Kiel", "3|cyd|NULL|Bonn", "4|NULL|NULL|Ulm")
	f.Check()
}

func wantError(t testing.TB, err error, class fault.Class, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) || fault.ClassOf(err) != class {
		t.Errorf("error %v (%s), want a %s error with %q", err, fault.ClassOf(err), class, text)
	}
}

func testPutRefusals(t *testing.T, open Factory) {
	f := people(t, open, 0)
	ctx, id, c := context.Background(), f.Regions()[0].ID, f.columns
	tests := []struct {
		columns schema.Columns
		row     string
		want    string
	}{
		{c, "1|ann|3|NULL", "row 1: column city is NOT NULL"},
		{schema.Columns{c[1], c[3]}, "ann|Rome", "the row-key column id is missing"},
		{schema.Columns{c[0], {ID: 99, Name: "zip", Type: schema.IntType}}, "1|2", "no column zip (id 99)"},
		{schema.Columns{c[0], {ID: 3, Name: "age", Type: schema.StringType}}, "1|2", "column age is int, the values are string"},
		{schema.Columns{c[0], c[1], c[1]}, "1|a|b", "column name is named twice"},
	}
	for _, tt := range tests {
		_, err := f.Server.Put(ctx, id, tt.columns, Rows(tt.columns, tt.row))
		wantError(t, err, fault.User, tt.want)
		wantError(t, err, fault.User, "default.people")
	}
	f.Rows(0)
	events := NewFixture(t, f.Server, f.Auth, Events())
	eid := events.Regions()[0].ID
	_, err := f.Server.Put(ctx, eid, events.columns, Rows(events.columns, "a|1"))
	wantError(t, err, fault.User, "no row key")
	_, err = f.Server.Delete(ctx, eid, []storage.Key{{1}})
	wantError(t, err, fault.User, "no row key")
	_, err = f.Server.Get(ctx, eid, []storage.Key{{1}}, f.Auth.Now(), events.columns)
	wantError(t, err, fault.User, "no row key")
	_, err = f.TryStage(storage.StageOptions{Txn: f.Auth.Begin(), Attempt: "a"}, "1|ann|3|NULL")
	wantError(t, err, fault.User, "column city is NOT NULL")
	f.Rows(0)
	f.Check()
}

// testTypes takes a value of each primitive type, its limits and NULL through
// put, flush and load.
func testTypes(t *testing.T, open Factory) {
	kinds := []schema.Type{schema.BooleanType, schema.TinyIntType, schema.SmallIntType, schema.IntType, schema.BigIntType, schema.FloatType,
		schema.DoubleType, schema.DecimalType(38, 5), schema.DecimalType(9, 2), schema.StringType, schema.CharType(4), schema.VarcharType(5),
		schema.BinaryType, schema.DateType, schema.TimestampType, schema.TimestampTZType}
	table := &storage.Table{ID: 3, Name: "default.kinds", Version: 2, Columns: schema.Columns{{ID: 1, Name: "k", Type: schema.IntType}}, Key: []storage.KeyColumn{{Column: 1}}}
	for i, k := range kinds {
		table.Columns = append(table.Columns, schema.Column{ID: schema.ColumnID(i + 2), Name: fmt.Sprintf("c%d", i), Type: k})
	}
	rows := []string{
		"1|true|-128|-32768|-2147483648|-9223372036854775808|1.5|-1.0E10|-999999999999999999999999999999999.99999|1234567.89|x|ab  |hello|bytes|0001-01-01|0001-01-01 00:00:00|2026-11-30 12:00:00.0 UTC",
		"2|false|127|32767|2147483647|9223372036854775807|-0.25|NaN|999999999999999999999999999999999.99999|-0.01||abcd|||9999-12-31|9999-12-31 23:59:59.999999999|1969-12-31 23:59:59.5 UTC",
		"3" + strings.Repeat("|NULL", len(kinds)),
	}
	want := make([]string, len(rows))
	for i, r := range rows {
		want[i] = Text(table.Columns, Rows(table.Columns, r))[0]
	}
	for _, how := range []string{"put", "flush", "load"} {
		auth := NewAuthority()
		f := NewFixture(t, open(t, auth, 0), auth, table)
		if how == "load" {
			f.Load(rows...)
		} else {
			f.Put(rows...)
		}
		if how == "flush" {
			f.Flush()
		}
		got, _ := f.Scan(storage.Scan{})
		f.equal(how, Sorted(got), want)
		f.Check()
	}
}

// testCompositeKey: NULLs come first ascending, last descending.
func testCompositeKey(t *testing.T, open Factory) {
	table := &storage.Table{ID: 4, Name: "default.pairs", Version: 1,
		Columns: schema.Columns{{ID: 1, Name: "a", Type: schema.StringType}, {ID: 2, Name: "b", Type: schema.IntType}, {ID: 3, Name: "v", Type: schema.IntType}},
		Key:     []storage.KeyColumn{{Column: 1}, {Column: 2, Desc: true}},
	}
	auth := NewAuthority()
	f := NewFixture(t, open(t, auth, 0), auth, table)
	want := []string{"NULL|NULL|1", "|5|2", "a|9|3", "a|-1|4", "a|NULL|5", "ab|0|6"}
	f.Put("a|-1|4", "NULL|NULL|1", "a|NULL|5", "ab|0|6")
	f.Flush()
	f.Put("a|9|3", "|5|2")
	got, _ := f.Scan(storage.Scan{Ordered: true})
	f.equal("key order", got, want)
	f.Delete("a|NULL")
	got, _ = f.Scan(storage.Scan{Ordered: true})
	f.equal("key order", got, []string{"NULL|NULL|1", "|5|2", "a|9|3", "a|-1|4", "ab|0|6"})
}

func datum(t schema.Type, text string) schema.Datum {
	d, ok := schema.ParseText(t, []byte(text))
	if !ok {
		panic(text)
	}
	return d
}

func testPredicates(t *testing.T, open Factory) {
	f := people(t, open, 0)
	age := func(op storage.Op, v string) storage.Predicate {
		return &storage.Compare{Column: 3, Op: op, Value: datum(schema.IntType, v)}
	}
	city := func(op storage.Op, v string) storage.Predicate {
		return &storage.Compare{Column: 5, Op: op, Value: datum(schema.StringType, v)}
	}
	tests := []struct {
		name   string
		filter storage.Predicate
		want   string // ids
	}{
		{"eq", age(storage.Eq, "30"), "1 4"},
		{"ne", age(storage.Ne, "30"), "2 5"},
		{"lt", age(storage.Lt, "30"), "5"},
		{"le", age(storage.Le, "30"), "1 4 5"},
		{"gt", age(storage.Gt, "30"), "2"},
		{"ge", age(storage.Ge, "41"), "2"},
		{"text", city(storage.Eq, "Rome"), "1 5"},
		{"in", &storage.In{Column: 5, Values: []schema.Datum{datum(schema.StringType, "Oslo"), datum(schema.StringType, "none"), datum(schema.StringType, "Bonn")}}, "2 3 4"},
		{"null", &storage.IsNull{Column: 3}, "3"},
		{"not null", &storage.IsNull{Column: 3, Not: true}, "1 2 4 5"},
		{"and", storage.And{age(storage.Eq, "30"), city(storage.Eq, "Rome")}, "1"},
		{"or", storage.Or{age(storage.Eq, "41"), city(storage.Eq, "Rome")}, "1 2 5"},
		{"none", city(storage.Eq, "Atlantis"), ""},
		// 2 was in Rome before: the filter must not bring that version back.
		{"key", &storage.Compare{Column: 1, Op: storage.Ge, Value: datum(schema.BigIntType, "4")}, "4 5"},
	}
	run := func(layout string) {
		for _, tt := range tests {
			for _, ordered := range []bool{false, true} {
				for _, columns := range []schema.Columns{f.columns[:1], f.columns[:2]} {
					got, _ := f.Scan(storage.Scan{Columns: columns, Filter: tt.filter, Ordered: ordered})
					for i, row := range got {
						got[i], _, _ = strings.Cut(row, "|")
					}
					if ids := strings.Join(Sorted(got), " "); ids != tt.want {
						t.Errorf("%s, %s: rows %q, want %q", layout, tt.name, ids, tt.want)
					}
				}
			}
		}
	}
	f.Load("1|ann|30|Rome", "2|bob|1|Rome", "3|cy|NULL|Oslo", "6|gone|30|Rome")
	f.Put("2|bob|41|Oslo", "4|di|30|Bonn", "5|ed|3|Rome")
	f.Delete("6")
	run("load and delta")
	f.Flush()
	run("overlapping segments")
	f.Put("1|ann|30|Rome")
	run("and a put")
	f.Check()
}

func testRanges(t *testing.T, open Factory) {
	f := people(t, open, 0, "10", "20")
	var rows []string
	for i := range 30 {
		rows = append(rows, fmt.Sprintf("%d|n%d|%d|X", i, i, i))
	}
	f.Load(rows...)
	key := func(i int) storage.Key { return Key(f.Table, fmt.Sprint(i)) }
	f.Put("11|new|11|X")
	rows[11] = "11|new|11|X"
	for _, r := range [][2]int{{0, 30}, {5, 15}, {10, 20}, {11, 12}, {12, 12}, {19, 21}} {
		got, st := f.Scan(storage.Scan{Range: storage.KeyRange{Start: key(r[0]), End: key(r[1])}, Ordered: true})
		f.equal(fmt.Sprintf("range %v", r), got, append([]string{}, rows[r[0]:r[1]]...))
		if st.Emitted != int64(len(got)) {
			t.Errorf("range %v: emitted %d, want %d", r, st.Emitted, len(got))
		}
	}
	// No columns: counts only.
	n := 0
	for _, r := range f.Regions() {
		sr, err := f.Server.Scan(context.Background(), storage.Scan{Region: r.ID, At: f.Auth.Now()})
		f.ok(err)
		for {
			b, err := sr.Next(context.Background())
			if err != nil {
				break
			}
			n += b.Rows()
		}
		f.ok(sr.Close())
	}
	if n != 30 {
		t.Errorf("counted %d rows, want 30", n)
	}
	for _, limit := range []int64{1, 4, 9} {
		sr, err := f.Server.Scan(context.Background(), storage.Scan{Region: f.Region(key(0)), At: f.Auth.Now(), Columns: f.columns, Limit: limit, Ordered: true})
		f.ok(err)
		got, err := Read(context.Background(), f.columns, sr)
		f.ok(err)
		f.equal("limit", got, rows[:limit])
	}
}

func testPublish(t *testing.T, open Factory) {
	f := people(t, open, 0, "100", "200")
	txn := f.Auth.Begin()
	st := f.Stage(storage.StageOptions{Txn: txn, Attempt: "t0"}, "250|c|1|X", "5|a|1|X", "150|b|1|X", "6|a|2|X")
	if st.Rows != 4 || st.Duplicates != 0 || len(st.Regions) != 3 || st.Bytes == 0 || st.Attempt != "t0" {
		t.Errorf("staged %+v, want 4 rows in 3 regions", st)
	}
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "t0 again"}, "250|wrong|1|X")
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "t1", Task: 1, Sorted: true}, "7|s|1|X", "8|s|2|X", "105|s|3|X", "299|s|4|X")
	f.Rows(0)
	if _, err := f.TryStage(storage.StageOptions{Txn: txn, Attempt: "t1"}, "1|x|1|X"); err == nil {
		t.Errorf("an attempt's name was used twice")
	}
	before := f.Auth.Now()
	c := f.Auth.Commit(txn, "t0", "t1")
	want := []string{"105|s|3|X", "150|b|1|X", "250|c|1|X", "299|s|4|X", "5|a|1|X", "6|a|2|X", "7|s|1|X", "8|s|2|X"}
	f.Rows(before)
	f.Rows(c, want...)
	for range 2 {
		f.ok(f.Server.Resolve(context.Background(), txn))
	}
	f.Rows(c, want...)
	f.Rows(before)
	// Too late: the transaction is decided, and then forgotten.
	for range 2 {
		if _, err := f.TryStage(storage.StageOptions{Txn: txn, Attempt: "late"}, "1|late|1|X"); err == nil {
			t.Errorf("staged into a decided transaction")
		}
		f.Auth.Forget(txn)
	}
	f.Rows(0, want...)
	f.Check()
}

func testPublishDuplicates(t *testing.T, open Factory) {
	f := people(t, open, 0, "3")
	txn := f.Auth.Begin()
	st := f.Stage(storage.StageOptions{Txn: txn, Attempt: "a"}, "2|first|1|X", "1|x|1|X", "2|second|2|X", "3|y|1|X", "2|third|3|X")
	if st.Rows != 3 || st.Duplicates != 2 {
		t.Errorf("staged %+v, want 3 rows, 2 duplicates", st)
	}
	// The same key from another task: the last of the winners counts.
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "b", Task: 1}, "1|task 1|9|X")
	f.Auth.Commit(txn, "a", "b")
	f.Rows(0, "1|task 1|9|X", "2|third|3|X", "3|y|1|X")
	_, err := f.TryStage(storage.StageOptions{Txn: f.Auth.Begin(), Attempt: "unsorted", Sorted: true}, "2|a|1|X", "1|a|1|X")
	wantError(t, err, fault.Bug, "sorted")
	f.Check()
}

func testAbort(t *testing.T, open Factory) {
	f := people(t, open, 0, "3")
	f.Put("1|ann|30|Rome")
	txn := f.Auth.Begin()
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "a"}, "1|x|1|X", "4|x|1|X")
	f.ok(f.Server.StageTruncate(context.Background(), f.Regions()[0].ID, txn, storage.Whole()))
	f.Auth.Abort(txn)
	f.Rows(0, "1|ann|30|Rome")
	f.ok(f.Server.Resolve(context.Background(), txn))
	f.Rows(0, "1|ann|30|Rome")
	// An unknown transaction was aborted.
	txn = f.Auth.Begin()
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "a"}, "1|x|1|X", "4|x|1|X")
	f.Auth.Forget(txn)
	f.Rows(0, "1|ann|30|Rome")
	// A writer that is given up, before and after Finish.
	txn = f.Auth.Begin()
	w, err := f.Server.Stage(context.Background(), f.Table, f.Regions(), storage.StageOptions{Txn: txn, Attempt: "a"})
	f.ok(err)
	f.ok(w.Write(context.Background(), Rows(f.columns, "9|x|1|X")))
	f.ok(w.Abort())
	if err := w.Write(context.Background(), Rows(f.columns, "9|x|1|X")); err == nil {
		t.Errorf("Write after Abort works")
	}
	w, err = f.Server.Stage(context.Background(), f.Table, f.Regions(), storage.StageOptions{Txn: txn, Attempt: "b"})
	f.ok(err)
	f.ok(w.Write(context.Background(), Rows(f.columns, "9|x|1|X")))
	_, err = w.Finish(context.Background())
	f.ok(err)
	f.ok(w.Abort())
	f.Auth.Commit(txn)
	f.Rows(0, "1|ann|30|Rome")
	f.Check()
}

func testTruncate(t *testing.T, open Factory) {
	f := people(t, open, 0, "3")
	f.Load("1|ann|30|Rome", "5|eve|1|Ulm")
	f.Put("2|bob|41|Oslo")
	f.Flush()
	last := f.Put("1|ann|31|Rome")
	c := f.Truncate()
	f.Rows(last, "1|ann|31|Rome", "2|bob|41|Oslo", "5|eve|1|Ulm")
	f.Rows(c)
	p := f.Put("2|bob|42|Oslo")
	f.Rows(p, "2|bob|42|Oslo")
	f.PutColumns(schema.Columns{f.columns[0], f.columns[3]}, "1|Graz")
	f.Rows(0, "1|NULL|NULL|Graz", "2|bob|42|Oslo")
	f.Rows(last, "1|ann|31|Rome", "2|bob|41|Oslo", "5|eve|1|Ulm")
	// Once nobody can ask for what was before, it may go, and stays gone.
	f.Auth.SetFloor(f.Auth.Now())
	f.Flush()
	f.Rows(0, "1|NULL|NULL|Graz", "2|bob|42|Oslo")
	_, _, err := f.TryScan(storage.Scan{At: last})
	wantError(t, err, fault.User, "snapshot too old")
	f.Check()
}

// testOverwrite: rows staged with a truncate in one transaction survive it.
func testOverwrite(t *testing.T, open Factory) {
	f := people(t, open, 0, "3")
	f.Load("1|ann|30|Rome", "5|eve|1|Ulm")
	txn := f.Auth.Begin()
	for _, r := range f.Regions() {
		f.ok(f.Server.StageTruncate(context.Background(), r.ID, txn, storage.Whole()))
	}
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "a"}, "1|new|1|X", "2|new|2|X")
	before := f.Put("4|between|1|X")
	f.Auth.Commit(txn, "a")
	f.Rows(0, "1|new|1|X", "2|new|2|X")
	f.Rows(before, "1|ann|30|Rome", "4|between|1|X", "5|eve|1|Ulm")
	after := f.Put("4|after|1|X")
	f.Flush()
	f.Rows(after, "1|new|1|X", "2|new|2|X", "4|after|1|X")
	f.Check()
}

// between returns the keys from one person's up to another's.
func between(f *Fixture, from, to string) storage.KeyRange {
	var r storage.KeyRange
	if from != "" {
		r.Start = Key(f.Table, from)
	}
	if to != "" {
		r.End = Key(f.Table, to)
	}
	return r
}

// testTruncateRange: of rows in segments and in the delta, in several regions,
// exactly those in the range end; reads before and after see them rightly
// however they are read; an older truncate doesn't end newer rows.
func testTruncateRange(t *testing.T, open Factory) {
	f := people(t, open, 0, "4")
	f.Load("1|a|1|X", "2|b|2|X", "3|c|3|X", "4|d|4|X", "5|e|5|X", "6|f|6|X")
	f.Put("3|put|3|X")
	f.Put("5|put|5|X")
	f.Flush()
	last := f.Put("2|delta|2|X")
	all := []string{"1|a|1|X", "2|delta|2|X", "3|put|3|X", "4|d|4|X", "5|put|5|X", "6|f|6|X"}
	f.Rows(last, all...)
	c := f.Truncate(between(f, "2", "5"))
	f.Rows(last, all...)
	f.Rows(c, "1|a|1|X", "5|put|5|X", "6|f|6|X")
	// What is put again doesn't bring old values back.
	f.PutColumns(schema.Columns{f.columns[0], f.columns[3]}, "4|Graz")
	f.Load("3|new|3|X")
	again := f.Auth.Now()
	f.Rows(again, "1|a|1|X", "3|new|3|X", "4|NULL|NULL|Graz", "5|put|5|X", "6|f|6|X")
	f.Flush()
	f.Rows(again, "1|a|1|X", "3|new|3|X", "4|NULL|NULL|Graz", "5|put|5|X", "6|f|6|X")
	f.Rows(last, all...)
	// Ranges overlap, one after the other.
	f.Truncate(between(f, "", "2"))
	f.Truncate(between(f, "4", ""))
	f.Rows(0, "3|new|3|X")
	f.Rows(again, "1|a|1|X", "3|new|3|X", "4|NULL|NULL|Graz", "5|put|5|X", "6|f|6|X")
	for _, r := range []storage.KeyRange{between(f, "1", "4"), between(f, "3", "5"), between(f, "2", "3"), between(f, "4", "6")} {
		got, _ := f.Scan(storage.Scan{Range: r})
		var want []string
		if r.Contains(Key(f.Table, "3")) {
			want = []string{"3|new|3|X"}
		}
		f.equal(fmt.Sprintf("rows in %s", r), got, want)
	}
	f.Check()
	f.Auth.SetFloor(f.Auth.Now())
	f.Put("6|late|6|X")
	f.Flush()
	f.Rows(0, "3|new|3|X", "6|late|6|X")
	f.Check()
}

// testTruncateRanges: many ranges in one transaction, over regions, some of
// them outside a region, with a split between asking and committing.
func testTruncateRanges(t *testing.T, open Factory) {
	f := people(t, open, 0, "100")
	var rows, want []string
	for i := range 200 {
		rows = append(rows, fmt.Sprintf("%d|p|%d|X", i, i))
	}
	f.Load(rows...)
	txn := f.Auth.Begin()
	for i := 0; i < 200; i += 4 {
		f.StageTruncate(txn, between(f, fmt.Sprint(i), fmt.Sprint(i+1)), between(f, fmt.Sprint(i+1), fmt.Sprint(i+2)))
		want = append(want, rows[i+2], rows[i+3])
	}
	f.StageTruncate(txn, between(f, "0", "1")) // asked for again
	f.Rows(0, rows...)
	_, err := f.Server.Split(context.Background(), f.Regions()[0].ID, Key(f.Table, "49"))
	f.ok(err)
	before := f.Auth.Now()
	f.Auth.Commit(txn)
	f.Rows(0, want...)
	f.Rows(before, rows...)
	got, st := f.Scan(storage.Scan{Columns: f.columns[:1]})
	if len(got) != 100 || st.Emitted != 100 || st.Superseded != 100 {
		t.Errorf("%d rows, stats %+v; want 100 emitted and 100 superseded", len(got), st)
	}
	f.Check()
	// None: nothing happens.
	txn = f.Auth.Begin()
	f.ok(f.Server.StageTruncate(context.Background(), f.Regions()[0].ID, txn))
	f.Auth.Commit(txn)
	f.Rows(0, want...)
}

// testOverwriteRange: rows staged with the end of a range in one transaction
// live, those around it too, and aborting leaves all as it was.
func testOverwriteRange(t *testing.T, open Factory) {
	f := people(t, open, 0, "3")
	old := []string{"1|ann|30|Rome", "2|bob|41|Oslo", "4|di|1|Ulm", "5|eve|1|Ulm"}
	f.Load(old...)
	txn := f.Auth.Begin()
	f.StageTruncate(txn, between(f, "2", "5"))
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "a"}, "2|x|1|X")
	f.Auth.Abort(txn)
	f.Rows(0, old...)
	txn = f.Auth.Begin()
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "a"}, "2|new|1|X", "3|new|2|X")
	f.StageTruncate(txn, between(f, "2", "5"))
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "b", Task: 1}, "1|new|3|X")
	before := f.Put("4|between|1|X")
	f.Auth.Commit(txn, "a", "b")
	want := []string{"1|new|3|X", "2|new|1|X", "3|new|2|X", "5|eve|1|Ulm"}
	f.Rows(0, want...)
	f.Rows(before, "1|ann|30|Rome", "2|bob|41|Oslo", "4|between|1|X", "5|eve|1|Ulm")
	f.Flush()
	f.Rows(0, want...)
	f.Auth.SetFloor(f.Auth.Now())
	after := f.Put("4|after|1|X")
	f.Flush()
	f.Rows(after, append(want, "4|after|1|X")...)
	f.Check()
}

func testFlush(t *testing.T, open Factory) {
	f := people(t, open, 0, "3")
	id := f.Regions()[0].ID
	f.Flush()
	st, err := f.Server.Stats(context.Background(), id)
	f.ok(err)
	if st.Segments != 0 || st.Rows != 0 || st.ID != id {
		t.Errorf("an empty region after a flush: %+v", st)
	}
	f.Put("1|ann|30|Rome", "2|bob|NULL|Oslo")
	f.Delete("2")
	st, err = f.Server.Stats(context.Background(), id)
	f.ok(err)
	if st.Rows != 3 || st.DeltaBytes == 0 || st.Segments != 0 {
		t.Errorf("before the flush: %+v, want 3 rows in the delta", st)
	}
	f.Flush()
	st, err = f.Server.Stats(context.Background(), id)
	f.ok(err)
	if st.Segments != 1 || st.DeltaBytes != 0 || st.Bytes == 0 {
		t.Errorf("after the flush: %+v, want one segment and no delta", st)
	}
	f.Rows(0, "1|ann|30|Rome")
	f.Flush()
	f.Put("2|bob|1|Oslo")
	f.Flush()
	f.Rows(0, "1|ann|30|Rome", "2|bob|1|Oslo")
	f.Check()
}

// testFlushHistory: a flush keeps every version that some snapshot above the
// floor sees, and only those.
func testFlushHistory(t *testing.T, open Factory) {
	f := people(t, open, 0)
	v1 := f.Put("1|v1|1|X", "2|w1|1|X")
	v2 := f.Put("1|v2|2|X")
	d := f.Delete("2")
	v3 := f.Put("1|v3|3|X")
	f.Auth.SetFloor(v2)
	f.Flush()
	f.Rows(v2, "1|v2|2|X", "2|w1|1|X")
	f.Rows(d, "1|v2|2|X")
	f.Rows(v3, "1|v3|3|X")
	_, _, err := f.TryScan(storage.Scan{At: v1})
	wantError(t, err, fault.User, "snapshot too old")
	// A deletion below the floor hides what lies in segments.
	f.Delete("1")
	f.Auth.SetFloor(f.Auth.Now())
	f.Flush()
	f.Rows(0)
	f.Check()
}

// testOverlap: segments that overlap with each other and with the delta in
// part of their keys give each key once, wherever the overlap is cut.
func testOverlap(t *testing.T, open Factory) {
	t.Run("small", func(t *testing.T) { overlap(t, people(t, open, 0), 1, 300) })
	// Several row groups and stripes, clean ones among them.
	t.Run("large", func(t *testing.T) { overlap(t, people(t, open, 3*8192), 100, 300_000) })
}

func overlap(t *testing.T, f *Fixture, scale, n int) {
	want := map[int]string{}
	load := func(name string, from, to, step int) {
		var rows []string
		for i := from; i < to; i += step {
			want[i] = fmt.Sprintf("%d|%s|%d|X", i, name, i)
			rows = append(rows, want[i])
		}
		f.Load(rows...)
	}
	put := func(name string, ids ...int) {
		var rows []string
		for _, i := range ids {
			want[i] = fmt.Sprintf("%d|%s|%d|Y", i, name, i)
			rows = append(rows, want[i])
		}
		f.Put(rows...)
	}
	check := func(pushed bool) {
		t.Helper()
		if scale == 1 {
			var rows []string
			for _, r := range want {
				rows = append(rows, r)
			}
			f.Rows(0, rows...)
		}
		names := map[string]int{}
		for i, r := range want {
			if i >= n/2 {
				names[strings.Split(r, "|")[1]]++
			}
		}
		filter := &storage.Compare{Column: 3, Op: storage.Ge, Value: datum(schema.IntType, fmt.Sprint(n/2))}
		for _, ordered := range []bool{false, true} {
			got, st := f.Scan(storage.Scan{Columns: f.columns[1:2], Filter: filter, Ordered: ordered})
			counts := map[string]int{}
			for _, name := range got {
				counts[name]++
			}
			if fmt.Sprint(counts) != fmt.Sprint(names) || st.Emitted != int64(len(got)) {
				t.Errorf("filtered, ordered %t: rows by name %v, want %v; emitted %d", ordered, counts, names, st.Emitted)
			}
			if pushed && scale > 1 && st.Pruned == 0 {
				t.Errorf("nothing was pruned: %+v", st)
			}
		}
	}
	load("a", 0, n, 1)
	check(true)
	put("p", 0, 17*scale, n/2, n-1, n+1)
	check(true)
	load("b", 100*scale, 120*scale, 2)
	check(true)
	load("c", 290*scale, 400*scale, 1)
	f.Flush()
	check(true)
	var ids []int
	for i := 20; i < 60; i++ {
		ids = append(ids, i*scale)
	}
	put("q", ids...)
	gone := 70 * scale
	f.Delete(fmt.Sprint(gone))
	delete(want, gone)
	check(true)
	f.Flush()
	check(true)
	f.Check()
}

func testSplit(t *testing.T, open Factory) {
	f := people(t, open, 0)
	_, err := f.Server.Split(context.Background(), f.Regions()[0].ID, nil)
	wantError(t, err, fault.User, "too few rows")
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("%d|n|%d|X", i, i))
	}
	f.Load(want[:30]...)
	f.Put(want[30:]...)
	f.Flush()
	want[3] = "3|put|3|X"
	at := f.Put(want[3])
	old := f.Regions()[0]
	halves, err := f.Server.Split(context.Background(), old.ID, nil)
	f.ok(err)
	rs := f.Regions()
	if len(rs) != 2 || rs[0].ID != halves[0].ID || rs[1].ID != halves[1].ID || string(rs[0].Range.End) != string(rs[1].Range.Start) {
		t.Fatalf("regions after the split %v, want %v", rs, halves)
	}
	if n := len(rowsIn(f, rs[0])); n < 15 || n > 25 {
		t.Errorf("%d of 40 rows in the lower half", n)
	}
	f.Rows(0, want...)
	f.Check()
	_, err = f.Server.Put(context.Background(), old.ID, f.columns, Rows(f.columns, "1|x|1|X"))
	if !errors.Is(err, storage.ErrRegionGone) || fault.ClassOf(err) != fault.Retryable {
		t.Errorf("put into the parent: %v", err)
	}
	// The halves flush, split and truncate apart.
	want[39], want[0] = "39|late|39|X", "0|late|0|X"
	f.Put(want[39])
	f.Put(want[0])
	f.ok(f.Server.Flush(context.Background(), rs[0].ID))
	f.Rows(0, want...)
	_, err = f.Server.Split(context.Background(), rs[1].ID, Key(f.Table, "35"))
	f.ok(err)
	_, err = f.Server.Split(context.Background(), rs[0].ID, Key(f.Table, "35"))
	wantError(t, err, fault.User, "(35) is not inside the region")
	f.Flush()
	f.Rows(0, want...)
	before := append([]string{}, want...)
	before[39], before[0] = "39|n|39|X", "0|n|0|X"
	f.Rows(at, before...)
	f.Check()
	f.ok(f.Server.DropRegion(context.Background(), f.Regions()[0].ID))
	got, _, err := f.TryScan(storage.Scan{Range: storage.KeyRange{Start: f.Regions()[1].Range.Start}})
	f.ok(err)
	if len(got) < 15 {
		t.Errorf("%d rows are left after the other half was dropped", len(got))
	}
}

func rowsIn(f *Fixture, r storage.Region) []string {
	f.TB.Helper()
	sr, err := f.Server.Scan(context.Background(), storage.Scan{Region: r.ID, At: f.Auth.Now(), Columns: f.columns})
	f.ok(err)
	rows, err := Read(context.Background(), f.columns, sr)
	f.ok(err)
	return rows
}

func testSplitCarriesPending(t *testing.T, open Factory) {
	f := people(t, open, 0)
	f.Load("1|old|1|X", "9|old|1|X")
	txn := f.Auth.Begin()
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "a"}, "2|new|1|X", "8|new|1|X")
	f.ok(f.Server.StageTruncate(context.Background(), f.Regions()[0].ID, txn, storage.Whole()))
	w, err := f.Server.Stage(context.Background(), f.Table, f.Regions(), storage.StageOptions{Txn: txn, Attempt: "b"})
	f.ok(err)
	f.ok(w.Write(context.Background(), Rows(f.columns, "3|b|1|X", "7|b|1|X")))
	_, err = f.Server.Split(context.Background(), f.Regions()[0].ID, Key(f.Table, "5"))
	f.ok(err)
	f.Rows(0, "1|old|1|X", "9|old|1|X")
	st, err := w.Finish(context.Background())
	f.ok(err)
	if len(st.Regions) != 2 {
		t.Errorf("staged in %v, want both halves", st.Regions)
	}
	f.Check()
	f.Auth.Commit(txn, "a", "b")
	f.Rows(0, "2|new|1|X", "3|b|1|X", "7|b|1|X", "8|new|1|X")
	f.Check()
}

func testKeyless(t *testing.T, open Factory) {
	auth := NewAuthority()
	table := Events()
	f := NewFixture(t, open(t, auth, 0), auth, table, storage.Key{0x40, 0}, storage.Key{0x80, 0}, storage.Key{0xC0, 0})
	txn := auth.Begin()
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "t0"}, "a|1", "a|1", "b|2")
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "t1", Task: 1}, "c|3")
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "t1 again", Task: 1}, "c|3")
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "t6", Task: 6}, "d|4", "e|5")
	f.Rows(0)
	c := auth.Commit(txn, "t0", "t1 again", "t6")
	f.Rows(c, "a|1", "a|1", "b|2", "c|3", "d|4", "e|5")
	for i, want := range []int{3, 1, 2, 0} {
		if got := len(rowsIn(f, f.Regions()[i])); got != want {
			t.Errorf("region %d has %d rows, want %d", i, got, want)
		}
	}
	// More loads overlap in stripe, never in row id.
	f.Load("a|1", "z|9")
	got, st := f.Scan(storage.Scan{Filter: &storage.Compare{Column: 1, Op: storage.Eq, Value: datum(schema.StringType, "a")}})
	f.equal("filtered", got, []string{"a|1", "a|1", "a|1"})
	if st.Emitted != 3 || st.Superseded != 0 {
		t.Errorf("stats %+v, want 3 emitted", st)
	}
	_, err := f.Server.Split(context.Background(), f.Regions()[0].ID, nil)
	f.ok(err)
	f.Rows(0, "a|1", "a|1", "a|1", "b|2", "c|3", "d|4", "e|5", "z|9")
	for range 3 {
		f.Load("y|8")
	}
	f.Rows(0, "a|1", "a|1", "a|1", "b|2", "c|3", "d|4", "e|5", "y|8", "y|8", "y|8", "z|9")
	f.Rows(c, "a|1", "a|1", "b|2", "c|3", "d|4", "e|5")
	f.Flush()
	f.Check()
	f.Truncate()
	f.Rows(0)
	f.Check()
}

// testScanOutlivesChanges: an open scan sees its snapshot to the end.
func testScanOutlivesChanges(t *testing.T, open Factory) {
	f := people(t, open, 8)
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("%d|n|%d|X", i, i))
	}
	f.Load(want[:60]...)
	f.Put(want[60:]...)
	f.Put("5|put|5|X")
	want[5] = "5|put|5|X"
	var scans []storage.ScanReader
	for _, ordered := range []bool{false, true} {
		sr, err := f.Server.Scan(context.Background(), storage.Scan{Region: f.Regions()[0].ID, At: f.Auth.Now(), Columns: f.columns, Ordered: ordered})
		f.ok(err)
		scans = append(scans, sr)
	}
	f.Delete("1", "2", "3", "70")
	f.Flush()
	f.Load("4|x|1|X", "200|x|1|X")
	f.Truncate()
	f.Auth.SetFloor(f.Auth.Now())
	f.Rows(0)
	_, err := f.Server.Split(context.Background(), f.Regions()[0].ID, Key(f.Table, "50"))
	f.ok(err)
	f.Flush()
	for _, r := range f.Regions() {
		f.ok(f.Server.DropRegion(context.Background(), r.ID))
	}
	for _, sr := range scans {
		got, err := Read(context.Background(), f.columns, sr)
		f.ok(err)
		f.equal("an old scan", Sorted(got), Sorted(want))
		if _, err := sr.Next(context.Background()); err == nil {
			t.Errorf("Next after Close works")
		}
	}
}

// numbered returns rows of people with ids from 0.
func numbered(n int) []string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf("%d|n|%d|X", i, i)
	}
	return rows
}

func testCutKeys(t *testing.T, open Factory) {
	const n, group = 40_960, 8192 // five row groups
	f := people(t, open, group)
	f.Load(numbered(n)...)
	id := f.Regions()[0].ID
	for cuts, want := range map[int]int{1: 0, 2: 1, 4: 3, 50: 4} {
		keys, parts, err := f.Server.CutKeys(context.Background(), id, storage.KeyRange{}, f.Auth.Now(), cuts)
		f.ok(err)
		if len(keys) != want || len(parts) != want+1 {
			t.Errorf("cut in %d: %d keys, %d parts, want %d keys", cuts, len(keys), len(parts), want)
		}
		for i, p := range parts {
			if i > 0 && string(p.Range.Start) != string(parts[i-1].Range.End) {
				t.Errorf("cut in %d: part %d doesn't begin where the one before ends", cuts, i)
			}
			got, _ := f.Scan(storage.Scan{Range: p.Range, Columns: f.columns[:1]})
			if int64(len(got)) != p.Rows || len(got)%group != 0 || (want == 3 && len(got) > 2*group) {
				t.Errorf("cut in %d: a part has %d rows, estimated %d", cuts, len(got), p.Rows)
			}
		}
	}
	r := storage.KeyRange{Start: Key(f.Table, "8192"), End: Key(f.Table, "30000")}
	keys, parts, err := f.Server.CutKeys(context.Background(), id, r, f.Auth.Now(), 10)
	f.ok(err)
	if len(keys) != 2 || string(keys[0]) != string(Key(f.Table, "16384")) || string(keys[1]) != string(Key(f.Table, "24576")) {
		t.Errorf("cuts inside a range: %x, want those of 16384 and 24576", keys)
	}
	if first, last := parts[0].Range, parts[len(parts)-1].Range; string(first.Start) != string(r.Start) || string(last.End) != string(r.End) {
		t.Errorf("the parts don't cover the range asked for")
	}
}

func testCreateAndDrop(t *testing.T, open Factory) {
	f := people(t, open, 0)
	r := f.Regions()[0]
	f.Put("1|ann|30|Rome")
	f.ok(f.Server.CreateRegion(context.Background(), f.Table, r))
	f.Rows(0, "1|ann|30|Rome")
	for range 2 {
		f.ok(f.Server.DropRegion(context.Background(), r.ID))
	}
	if _, _, err := f.TryScan(storage.Scan{}); !errors.Is(err, storage.ErrRegionGone) {
		t.Errorf("scan of a dropped region: %v", err)
	}
	f.ok(f.Server.CreateRegion(context.Background(), f.Table, r))
	f.Rows(0)
	f.Check()
}

func testReplaceEmpty(t *testing.T, open Factory) {
	f := people(t, open, 0)
	ctx, old, at := context.Background(), f.Regions()[0], Key(f.Table, "10")
	var with []storage.Region
	for _, r := range []storage.KeyRange{{End: at}, {Start: at}} {
		id, err := f.Auth.NewRegionID(ctx)
		f.ok(err)
		reg := storage.Region{ID: id, Table: f.Table.ID, Range: r, Worker: "w1"}
		f.ok(f.Server.CreateRegion(ctx, f.Table, reg))
		with = append(with, reg)
	}
	replace := func(want bool) {
		t.Helper()
		done, err := f.Server.ReplaceEmpty(ctx, old.ID, with)
		f.ok(err)
		if done != want {
			t.Errorf("replaced: %t, want %t", done, want)
		}
	}
	f.Put("1|ann|30|Rome")
	replace(false)
	// Even a deleted row is one, until a flush has dropped it.
	f.Delete("1")
	replace(false)
	f.Auth.SetFloor(f.Auth.Now())
	f.Flush()
	replace(true)
	if rs := f.Regions(); len(rs) != 2 || rs[0].ID != with[0].ID || rs[1].ID != with[1].ID {
		t.Errorf("regions afterwards: %v", rs)
	}
	f.Load("5|a|1|X", "15|b|2|X")
	f.Put("6|c|3|X")
	f.Rows(0, "15|b|2|X", "5|a|1|X", "6|c|3|X")
	f.Check()
}

func testUnknownRegion(t *testing.T, open Factory) {
	f := people(t, open, 0, "10")
	ctx := context.Background()
	row := Rows(f.columns, "5|x|1|X")
	upper := f.Regions()[1].ID
	errs := map[string]error{}
	_, errs["stats"] = f.Server.Stats(ctx, 999)
	_, errs["put"] = f.Server.Put(ctx, 999, f.columns, row)
	_, errs["put elsewhere"] = f.Server.Put(ctx, upper, f.columns, row)
	_, errs["delete elsewhere"] = f.Server.Delete(ctx, upper, Keys(f.Table, "5"))
	_, errs["get elsewhere"] = f.Server.Get(ctx, upper, Keys(f.Table, "5"), f.Auth.Now(), f.columns)
	_, errs["split"] = f.Server.Split(ctx, 999, nil)
	errs["flush"] = f.Server.Flush(ctx, 999)
	errs["truncate"] = f.Server.StageTruncate(ctx, 999, f.Auth.Begin(), storage.Whole())
	_, errs["check"] = f.Server.Check(ctx, 999)
	for what, err := range errs {
		if !errors.Is(err, storage.ErrRegionGone) || fault.ClassOf(err) != fault.Retryable {
			t.Errorf("%s: error %v, want a retryable ErrRegionGone", what, err)
		}
	}
}
