package region

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
	"pgregory.net/rapid"
)

func testManifest() *manifest {
	meta := segment.Meta{Rows: 3, Bytes: 99, FirstKey: storage.Key("a"), LastKey: storage.Key("c"), RowGroups: []segment.RowGroup{{FirstKey: storage.Key("a"), Rows: 3}}}
	e := entry{file: 300, clip: storage.KeyRange{Start: storage.Key("a")}, begin: 7 << 20, meta: meta}
	return &manifest{
		edit: 5,
		table: &storage.Table{ID: 7, Name: "default.t", Version: 2, Partitioned: true, Key: []storage.KeyColumn{{Column: 1}, {Column: 4, Desc: true}}, Columns: schema.Columns{
			{ID: 1, Name: "id", Type: schema.BigIntType, NotNull: true, Comment: "the key"},
			{ID: 4, Name: "price", Type: schema.DecimalType(38, 9)},
			{ID: 9, Name: "tags", Type: schema.Type{Kind: schema.Array, Nested: &schema.Nested{Fields: []schema.Field{{Name: "item", Type: schema.VarcharType(20)}}}}},
		}},
		region:      storage.Region{ID: 11, Table: 7, Range: storage.KeyRange{Start: storage.Key("a"), End: storage.Key("x")}, Worker: "w1", Folder: 1},
		segments:    []entry{e},
		generations: []generation{{id: 1, clip: storage.KeyRange{End: storage.Key("x")}}, {id: 2}},
		pending:     []pendingTxn{{txn: 5, truncates: []storage.KeyRange{{Start: storage.Key("b")}, {Start: storage.Key("a"), End: storage.Key("b")}}}, {txn: 6, attempts: []attempt{{name: "a0", segments: []entry{e, e}}}}},
		truncates:   []truncate{{storage.KeyRange{End: storage.Key("k")}, 3}, {storage.KeyRange{Start: storage.Key("b")}, 4}},
		floor:       2,
	}
}

func TestManifestRoundTrip(t *testing.T) {
	want := testManifest()
	b, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := got.encode()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, b) {
		t.Errorf("decoded and encoded again it differs")
	}
	if !reflect.DeepEqual(got.table, want.table) || !reflect.DeepEqual(got.region, want.region) || !reflect.DeepEqual(got.generations, want.generations) ||
		!reflect.DeepEqual(got.truncates, want.truncates) || got.floor != want.floor || got.edit != want.edit || len(got.pending) != 2 || !reflect.DeepEqual(got.pending[0], want.pending[0]) || len(got.pending[1].attempts[0].segments) != 2 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// Cut anywhere it is refused, never a panic.
	for n := range b {
		if _, err := decodeManifest(b[:n]); err == nil {
			t.Errorf("a manifest cut to %d of %d bytes is accepted", n, len(b))
		}
	}
	if _, err := decodeManifest(append(slices.Clone(b), 0)); err == nil || !strings.Contains(err.Error(), "1 bytes too many") {
		t.Errorf("a byte too many: %v", err)
	}
	b[0] = 1
	if _, err := decodeManifest(b); err == nil || !strings.Contains(err.Error(), "version 1, this program reads version 2") {
		t.Errorf("another version: %v", err)
	}
}

// The bytes of docs/format/delta.md's example.
func TestDeltaBytes(t *testing.T) {
	key := appendDeltaKey(nil, 2, storage.Key{0x01, 0x80, 0x00, 0x05}, 0x0102030405060708)
	if got, want := hex.EncodeToString(key), "04"+"0000000000000002"+"018000ff05"+"0001"+"fefdfcfbfaf9f8f7"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	columns := schema.Columns{{ID: 1, Name: "id", Type: schema.IntType}, {ID: 300, Name: "name", Type: schema.StringType}, {ID: 3, Name: "d", Type: schema.DecimalType(9, 2)}}
	values := []schema.Datum{datumOf(t, columns[0].Type, "258"), datumOf(t, columns[1].Type, "ann"), schema.NullOf(columns[2].Type)}
	p := &putRows{table: &storage.Table{Columns: columns}, from: []int{0, 1, 2}, rows: []int32{0}}
	for i, v := range values {
		p.cols = append(p.cols, openColumn(columns[i].Type, schema.ArrayOf(columns[i].Type, []schema.Datum{v})))
	}
	row := p.appendRow(nil, 0, &oldRows{})
	if got, want := hex.EncodeToString(row), "01"+"00"+"03"+"01"+"04"+"02010000"+"ac02"+"09"+"03616e6e"+"03"+"00"; got != want {
		t.Errorf("row %s, want %s", got, want)
	}
	gone := appendTombstone(nil, columns[:1], values[:1])
	if got, want := hex.EncodeToString(gone), "01"+"01"+"01"+"01"+"04"+"02010000"; got != want {
		t.Errorf("tombstone %s, want %s", got, want)
	}
	// What appendDatum writes is what appendValue writes.
	for i, v := range values {
		if a, b := appendDatum(nil, v), p.cols[i].appendValue(nil, columns[i].Type, 0); !bytes.Equal(a, b) {
			t.Errorf("column %s: %x as a datum, %x from an array", columns[i].Name, a, b)
		}
	}
}

func datumOf(t *testing.T, typ schema.Type, text string) schema.Datum {
	t.Helper()
	d, ok := schema.ParseText(typ, []byte(text))
	if !ok {
		t.Fatalf("%q is not a %s", text, typ)
	}
	return d
}

// Whatever bytes keys and bounds have: delta keys are ordered by generation,
// key and descending timestamp, and bounds select exactly the keys of a range.
func TestDeltaKeyOrder(t *testing.T) {
	raw := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 1, 0xFE, 0xFF}), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := storage.Key(raw.Draw(t, "a")), storage.Key(raw.Draw(t, "b"))
		ta, tb := storage.Timestamp(rapid.Uint64().Draw(t, "ta")), storage.Timestamp(rapid.Uint64().Draw(t, "tb"))
		ka, kb := appendDeltaKey(nil, 3, a, ta), appendDeltaKey(nil, 3, b, tb)
		want := bytes.Compare(a, b)
		if want == 0 && ta != tb {
			want = 1
			if ta > tb {
				want = -1
			}
		}
		if got := bytes.Compare(ka, kb); got != want {
			t.Fatalf("keys %x@%d and %x@%d compare %d, want %d", []byte(a), ta, []byte(b), tb, got, want)
		}
		key, ts, err := decodeDeltaKey(nil, ka)
		if err != nil || !bytes.Equal(key, a) || ts != ta {
			t.Fatalf("decoded %x@%d, %v; want %x@%d", []byte(key), ts, err, []byte(a), ta)
		}
		r := storage.KeyRange{Start: b, End: raw.Draw(t, "end")}
		lower, upper := deltaBounds(3, r)
		inside := bytes.Compare(ka, lower) >= 0 && bytes.Compare(ka, upper) < 0
		if inside != r.Contains(a) {
			t.Fatalf("key %x in %s: %t by bounds, %t by range", []byte(a), r, inside, r.Contains(a))
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	b, err := testManifest().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		if _, err := m.encode(); err != nil {
			t.Errorf("what was decoded can't be encoded: %v", err)
		}
	})
}

func FuzzDecodeSplit(f *testing.F) {
	m := testManifest()
	f.Add((&splitRecord{parent: 11, halves: [2]storage.Region{m.region, m.region}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if rec, err := decodeSplit(b); err == nil && rec == nil {
			t.Error("neither a record nor an error")
		}
	})
}

func FuzzDeltaRow(f *testing.F) {
	columns := schema.Columns{{ID: 1, Name: "id", Type: schema.IntType}, {ID: 2, Name: "s", Type: schema.StringType}, {ID: 3, Name: "d", Type: schema.DecimalType(9, 2)},
		{ID: 4, Name: "b", Type: schema.BooleanType}, {ID: 5, Name: "f", Type: schema.DoubleType}, {ID: 6, Name: "n", Type: nestedType(f)}}
	f.Add([]byte{1, 0, 2, 1, 4, 1, 0, 0, 0, 2, 9, 1, 'x'})
	f.Add([]byte{1, 1, 1, 1, 4, 1, 0, 0, 0})
	f.Add(append([]byte{1, 0, 1, 6}, appendDatum(nil, nestedValue(f))...))
	f.Add([]byte{1, 0, 1, 3, 8, 2, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		rows := newRowBuilder(columns)
		if _, err := rows.add(b); err != nil {
			return
		}
		var c segment.Chunk
		rows.finish(&c)
		for i, a := range c.Columns {
			if a.Len() != 1 {
				t.Errorf("column %d has %d values", i, a.Len())
			}
		}
	})
}

// nestedType has every kind of nesting.
func nestedType(t testing.TB) schema.Type {
	t.Helper()
	typ, err := schema.ParseType("map<string,array<struct<a:int,u:uniontype<boolean,decimal(9,2)>>>>")
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func nestedValue(t testing.TB) schema.Datum {
	typ := nestedType(t)
	array := typ.Nested.Fields[1].Type
	record := array.Nested.Fields[0].Type
	union := record.Nested.Fields[1].Type
	price := schema.Datum{Type: union.Nested.Fields[1].Type, D: decimal128.FromI64(1250)}
	return schema.Datum{Type: typ, List: []schema.Datum{
		{Type: schema.StringType, S: "k"}, {Type: array, List: []schema.Datum{
			{Type: record, List: []schema.Datum{{Type: schema.IntType, I: -1}, {Type: union, I: 1, List: []schema.Datum{price}}}},
			schema.NullOf(record),
		}},
		{Type: schema.StringType, S: ""}, schema.NullOf(array),
	}}
}

// The bytes of docs/format/delta.md's nested example, and back.
func TestNestedBytes(t *testing.T) {
	v := nestedValue(t)
	got := appendDatum(nil, v)
	want := "13" + "28" + "02" + // a map of 40 bytes, two pairs
		"09016b" + "12" + "1f" + "02" + // "k": an array of 31 bytes, two elements
		"14" + "1b" + "02" + "04ffffffff" + "15" + "13" + "01" + "0802" + "e2040000000000000000000000000000" + // a struct: -1, and of a union the second: 12.50
		"00" + // NULL
		"0900" + "00" // "": NULL
	if hex.EncodeToString(got) != want {
		t.Errorf("bytes\n%x, want\n%s", got, want)
	}
	if a := openColumn(v.Type, schema.ArrayOf(v.Type, []schema.Datum{v})); !bytes.Equal(a.appendValue(nil, v.Type, 0), got) {
		t.Errorf("of an array: %x", a.appendValue(nil, v.Type, 0))
	}
	back, err := decodeNested(v.Type, got[2:], 0)
	if err != nil || string(back.AppendTo(nil)) != string(v.AppendTo(nil)) {
		t.Errorf("back: %s, %v", back.AppendTo(nil), err)
	}
	for n := range got[2:] {
		if _, err := decodeNested(v.Type, got[2:2+n], 0); err == nil {
			t.Errorf("%d bytes are accepted", n)
		}
	}
}

func FuzzDeltaKey(f *testing.F) {
	f.Add(appendDeltaKey(nil, 1, storage.Key{1, 0, 2}, 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, ts, err := decodeDeltaKey(nil, b)
		if err != nil {
			return
		}
		if again := appendDeltaKey(nil, 0, key, ts); !bytes.Equal(again[9:], b[9:]) {
			t.Errorf("%x decoded and encoded again is %x", b, again)
		}
	})
}

// The sorter against sort.SliceStable: order, and the last of equal keys.
func TestSorterOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		same := rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "same")
		keys := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xFF}), 0, 12), 1, 60).Draw(t, "keys")
		var s sorter
		last := map[string]int32{}
		for i, k := range keys {
			keys[i] = append(slices.Clone(same), k...)
			s.keys.Append(keys[i])
			last[string(keys[i])] = int32(i)
		}
		s.rows = len(keys)
		var want []int32
		for _, i := range last {
			want = append(want, i)
		}
		slices.SortFunc(want, func(a, b int32) int { return bytes.Compare(keys[a], keys[b]) })
		got, dups := s.order()
		if !slices.Equal(got, want) || dups != int64(len(keys)-len(want)) {
			t.Fatalf("order %v with %d duplicates, want %v with %d", got, dups, want, len(keys)-len(want))
		}
	})
}
