package segment

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// allTypes has a column of every type, id 0 a bigint that serves as the key.
func allTypes() schema.Columns {
	types := []schema.Type{schema.BigIntType, schema.BooleanType, schema.TinyIntType, schema.SmallIntType, schema.IntType, schema.BigIntType,
		schema.FloatType, schema.DoubleType, schema.DecimalType(7, 2), schema.DecimalType(16, 3), schema.DecimalType(38, 5),
		schema.StringType, schema.StringType, schema.CharType(6), schema.VarcharType(20), schema.BinaryType, schema.DateType,
		schema.TimestampType, schema.TimestampTZType}
	var out schema.Columns
	for i, t := range types {
		out = append(out, schema.Column{ID: schema.ColumnID(i), Name: fmt.Sprintf("c%d", i), Type: t})
	}
	return out
}

// random returns a value that repeats often enough for dictionaries and
// predicates to hit.
func random(r *rand.Rand, t schema.Type, unique bool) schema.Datum {
	d := schema.Datum{Type: t}
	small := int64(r.IntN(12)) - 4
	switch t.Kind {
	case schema.Boolean:
		d.I = int64(r.IntN(2))
	case schema.TinyInt, schema.SmallInt, schema.Int, schema.BigInt, schema.Date:
		d.I = small
	case schema.Float, schema.Double:
		d.F = float64(small) / 2
		switch r.IntN(40) {
		case 0:
			d.F = math.NaN()
		case 1:
			d.F = math.Copysign(0, -1)
		case 2:
			d.F = math.Inf(1)
		}
	case schema.Decimal:
		d.D = decimal128.FromI64(small * 7)
		if t.Precision == 38 && r.IntN(3) == 0 {
			d.D = decimal128.New(small, 5)
		}
	case schema.Timestamp, schema.TimestampTZ:
		d.D = decimal128.New(small, uint64(r.IntN(3)))
	case schema.Char:
		d.S = strings.Repeat("ab", r.IntN(3)) + strings.Repeat(" ", r.IntN(3))
	default:
		d.S = strings.Repeat("xyz", r.IntN(3)) + fmt.Sprint(r.IntN(4))
		if r.IntN(8) == 0 {
			d.S = ""
		}
		if unique {
			d.S = fmt.Sprintf("%x-%d", r.Uint64(), r.IntN(1000))
		}
	}
	return d
}

func appendDatum(b array.Builder, d schema.Datum) {
	if d.Null {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(d.I != 0)
	case *array.Int8Builder:
		b.Append(int8(d.I))
	case *array.Int16Builder:
		b.Append(int16(d.I))
	case *array.Int32Builder:
		b.Append(int32(d.I))
	case *array.Int64Builder:
		b.Append(d.I)
	case *array.Float32Builder:
		b.Append(float32(d.F))
	case *array.Float64Builder:
		b.Append(d.F)
	case *array.Decimal128Builder:
		b.Append(d.D)
	case *array.StringBuilder:
		b.Append(d.S)
	case *array.BinaryBuilder:
		b.Append([]byte(d.S))
	case *array.Date32Builder:
		b.Append(arrow.Date32(d.I))
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(d.S); err != nil {
			panic(err)
		}
	default:
		panic(fmt.Sprintf("%T", b))
	}
}

// datumAt reads a value back.
func datumAt(a arrow.Array, t schema.Type, i int) schema.Datum {
	if a.IsNull(i) {
		return schema.NullOf(t)
	}
	d := schema.Datum{Type: t}
	switch a := a.(type) {
	case *array.Boolean:
		if a.Value(i) {
			d.I = 1
		}
	case *array.Int8:
		d.I = int64(a.Value(i))
	case *array.Int16:
		d.I = int64(a.Value(i))
	case *array.Int32:
		d.I = int64(a.Value(i))
	case *array.Int64:
		d.I = a.Value(i)
	case *array.Date32:
		d.I = int64(a.Value(i))
	case *array.Float32:
		d.F = float64(a.Value(i))
	case *array.Float64:
		d.F = a.Value(i)
	case *array.Decimal128:
		d.D = a.Value(i)
	case *array.String:
		d.S = strings.Clone(a.Value(i))
	case *array.Binary:
		d.S = string(a.Value(i))
	case *array.Dictionary:
		d.S = strings.Clone(a.Dictionary().(*array.String).Value(a.GetValueIndex(i)))
	default:
		panic(fmt.Sprintf("%T", a))
	}
	return d
}

// makeBatch makes a batch of rows; text may come dictionary-coded.
func makeBatch(columns schema.Columns, rows [][]schema.Datum, coded bool) *batch.Batch {
	b := &batch.Batch{Len: len(rows)}
	for c, col := range columns {
		dt := col.Type.Arrow()
		if coded && col.Type.IsText() {
			dt = batch.DictionaryType()
		}
		builder := array.NewBuilder(memory.DefaultAllocator, dt)
		for _, r := range rows {
			appendDatum(builder, r[c])
		}
		b.Columns = append(b.Columns, builder.NewArray())
	}
	return b
}

// table makes rows with ascending keys in column 0, nulls elsewhere.
func table(r *rand.Rand, columns schema.Columns, n int) [][]schema.Datum {
	rows := make([][]schema.Datum, n)
	for i := range rows {
		rows[i] = make([]schema.Datum, len(columns))
		rows[i][0] = schema.Datum{Type: columns[0].Type, I: int64(2*i) - 50}
		for c := 1; c < len(columns); c++ {
			if r.IntN(5) == 0 || c == 9 && i < 3000 { // a page of nulls
				rows[i][c] = schema.NullOf(columns[c].Type)
			} else {
				rows[i][c] = random(r, columns[c].Type, c == 12)
			}
		}
	}
	return rows
}

// write writes rows in batches of random sizes.
func write(t testing.TB, r *rand.Rand, o Options, rows [][]schema.Datum) Meta {
	t.Helper()
	w, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(rows); {
		n := min(len(rows)-at, 1+r.IntN(batch.MaxRows))
		if err := w.Append(Rows{Batch: makeBatch(o.Columns, rows[at:at+n], r.IntN(2) == 0)}); err != nil {
			t.Fatal(err)
		}
		at += n
	}
	if len(o.Key) == 0 {
		w.SetRuns([]Run{{Stripe: 5, Load: 7, Task: 1, Ordinal: 10, Count: int64(len(rows))}})
	}
	m, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if m.Rows != int64(len(rows)) {
		t.Fatalf("%d rows written, meta has %d", len(rows), m.Rows)
	}
	return m
}

func open(t testing.TB, fs vfs.FS, path string, m Meta, key []storage.KeyColumn) *Reader {
	t.Helper()
	data, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var back Meta
	if err := back.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, back); d != "" {
		t.Fatalf("meta changed in its encoding: %s", d)
	}
	r, err := Open(fs, path, back, key, NewCache(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// result is a row that a scan gave.
type result struct {
	row    int64
	values []schema.Datum
	key    []byte
}

func scanAll(t testing.TB, r *Reader, o ScanOptions) ([]result, storage.ScanStats) {
	t.Helper()
	s, err := r.Scan(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out []result
	for {
		c, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Rows() == 0 || c.Len > batch.MaxRows {
			t.Fatalf("a chunk of %d rows, %d values", c.Rows(), c.Len)
		}
		each := func(i int) {
			x := result{row: c.Row + int64(i)}
			for j, a := range c.Columns {
				if a.Len() != c.Len {
					t.Fatalf("column %d has %d values of %d", j, a.Len(), c.Len)
				}
				x.values = append(x.values, datumAt(a, o.Columns[j].Type, i))
			}
			if o.NeedKeys {
				x.key = bytes.Clone(c.Keys.At(i))
			}
			out = append(out, x)
		}
		if c.Sel != nil {
			for _, i := range c.Sel {
				each(int(i))
			}
		} else {
			for i := range c.Len {
				each(i)
			}
		}
	}
	st := s.Stats()
	if st.Pruned+st.Clipped+st.Filtered+st.Emitted != r.Meta().Rows || st.Emitted != int64(len(out)) {
		t.Fatalf("stats %+v for %d rows, %d emitted", st, r.Meta().Rows, len(out))
	}
	return out, st
}

func same(a, b schema.Datum) bool {
	if a.Null || b.Null {
		return a.Null == b.Null
	}
	return schema.Compare(a, b) == 0 && a.S == b.S && math.Signbit(a.F) == math.Signbit(b.F)
}

func TestRoundTrip(t *testing.T) {
	for _, codec := range []string{"", "none", "zstd"} {
		t.Run("codec "+codec, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			columns := allTypes()
			rows := table(r, columns, 20_000)
			fs := vfs.NewMem()
			key := []storage.KeyColumn{{Column: 0}}
			m := write(t, r, Options{FS: fs, Path: "s", Columns: columns, SchemaVersion: 3, Key: key, Codec: codec, RowGroupRows: 12_000}, rows)
			if len(m.RowGroups) != 2 || m.RowGroups[0].Rows != 16384 || m.SchemaVersion != 3 {
				t.Errorf("meta %+v", m)
			}
			rd := open(t, fs, "s", m, key)
			if err := rd.Verify(context.Background()); err != nil {
				t.Error(err)
			}
			got, _ := scanAll(t, rd, ScanOptions{Columns: columns, NeedKeys: true})
			enc := rowkey.NewEncoder([]rowkey.Column{{Type: schema.BigIntType}})
			for i, g := range got {
				want, err := enc.AppendDatums(nil, rows[i][:1])
				if err != nil {
					t.Fatal(err)
				}
				if g.row != int64(i) || !bytes.Equal(g.key, want) {
					t.Fatalf("row %d: position %d, key %x instead of %x", i, g.row, g.key, want)
				}
				for c := range columns {
					if !same(g.values[c], rows[i][c]) {
						t.Fatalf("row %d, column %d: %+v instead of %+v", i, c, g.values[c], rows[i][c])
					}
				}
			}
			if len(got) != len(rows) {
				t.Fatalf("%d rows instead of %d", len(got), len(rows))
			}
		})
	}
}

// TestDictionaries: low-cardinality text stays codes with one dictionary a row
// group, unique text is plain.
func TestDictionaries(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	columns := allTypes()
	rows := table(r, columns, 40_000)
	fs := vfs.NewMem()
	key := []storage.KeyColumn{{Column: 0}}
	m := write(t, r, Options{FS: fs, Path: "s", Columns: columns, Key: key, RowGroupRows: 16384}, rows)
	rd := open(t, fs, "s", m, key)
	s, err := rd.Scan(ScanOptions{Columns: schema.Columns{columns[11], columns[12]}})
	if err != nil {
		t.Fatal(err)
	}
	dicts := map[*array.Data]int{}
	for {
		c, err := s.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		d := batch.DictionaryOf(c.Columns[0])
		if d == nil || batch.IsDictionary(c.Columns[1]) {
			t.Fatalf("columns come as %s and %s", c.Columns[0].DataType(), c.Columns[1].DataType())
		}
		dicts[d] += c.Len
	}
	if len(dicts) != 3 {
		t.Errorf("%d dictionaries for 3 row groups", len(dicts))
	}
}

var predicates = flag.Int("predicates", 150, "random predicates to try")

// naive evaluates a predicate row by row.
func naive(p storage.Predicate, row map[schema.ColumnID]schema.Datum) bool {
	switch p := p.(type) {
	case storage.And:
		for _, q := range p {
			if !naive(q, row) {
				return false
			}
		}
		return true
	case storage.Or:
		for _, q := range p {
			if naive(q, row) {
				return true
			}
		}
		return false
	case *storage.IsNull:
		v, ok := row[p.Column]
		return (!ok || v.Null) != p.Not
	case *storage.Compare:
		v, ok := row[p.Column]
		return ok && !v.Null && holds(p.Op, schema.Compare(v, p.Value))
	case *storage.In:
		v, ok := row[p.Column]
		for _, x := range p.Values {
			if ok && !v.Null && schema.Compare(v, x) == 0 {
				return true
			}
		}
		return false
	}
	panic("predicate")
}

func randomPredicate(r *rand.Rand, columns schema.Columns, depth int) storage.Predicate {
	if depth > 0 && r.IntN(2) == 0 {
		var parts []storage.Predicate
		for range 1 + r.IntN(3) {
			parts = append(parts, randomPredicate(r, columns, depth-1))
		}
		if r.IntN(2) == 0 {
			return storage.And(parts)
		}
		return storage.Or(parts)
	}
	c := columns[r.IntN(len(columns))]
	literal := func() schema.Datum {
		d := random(r, c.Type, false)
		if c.ID == 0 {
			d.I = int64(r.IntN(60_000)) - 100
		}
		if r.IntN(10) == 0 { // beyond all values
			d.I, d.F, d.S = 1<<40, 1e300, "~"
			if c.Type.Kind == schema.Decimal {
				d.D = decimal128.New(1<<40, 0)
			}
		}
		return d
	}
	switch r.IntN(5) {
	case 0:
		return &storage.IsNull{Column: c.ID, Not: r.IntN(2) == 0}
	case 1:
		p := &storage.In{Column: c.ID}
		for range 1 + r.IntN(12) {
			p.Values = append(p.Values, literal())
		}
		return p
	}
	return &storage.Compare{Column: c.ID, Op: storage.Op(r.IntN(6)), Value: literal()}
}

// TestPredicates holds scans, with ranges, and Filter against the naive
// evaluator.
func TestPredicates(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	columns := allTypes()
	missing := schema.Column{ID: 99, Name: "new", Type: schema.IntType}
	asked := append(columns[:len(columns):len(columns)], missing)
	rows := table(r, columns, 25_000)
	fs := vfs.NewMem()
	key := []storage.KeyColumn{{Column: 0}}
	rd := open(t, fs, "s", write(t, r, Options{FS: fs, Path: "s", Columns: columns, Key: key, RowGroupRows: 8192}, rows), key)
	enc := rowkey.NewEncoder([]rowkey.Column{{Type: schema.BigIntType}})
	bound := func() (storage.Key, int64) {
		if r.IntN(4) == 0 {
			return nil, 0
		}
		v := int64(r.IntN(52_000)) - 100
		k, err := enc.AppendDatums(nil, []schema.Datum{{Type: schema.BigIntType, I: v}})
		if err != nil {
			t.Fatal(err)
		}
		return k, v
	}
	all := makeBatch(columns, rows, true)
	byID := make([]map[schema.ColumnID]schema.Datum, len(rows))
	for i, row := range rows {
		byID[i] = map[schema.ColumnID]schema.Datum{}
		for c := range columns {
			byID[i][columns[c].ID] = row[c]
		}
	}
	pruned := int64(0)
	for range *predicates {
		p := randomPredicate(r, asked, 2)
		start, lo := bound()
		end, hi := bound()
		var want, filtered []int64
		for i, row := range rows {
			if !naive(p, byID[i]) {
				continue
			}
			filtered = append(filtered, int64(i))
			if (start == nil || row[0].I >= lo) && (end == nil || row[0].I < hi) {
				want = append(want, int64(i))
			}
		}
		o := ScanOptions{Filter: p, Range: storage.KeyRange{Start: start, End: end}, Columns: schema.Columns{missing, columns[r.IntN(len(columns))]}}
		got, st := scanAll(t, rd, o)
		pruned += st.Pruned
		if len(got) != len(want) {
			t.Fatalf("%s: %d rows instead of %d", show(p), len(got), len(want))
		}
		for i := range got {
			at := asked.ByID(o.Columns[1].ID)
			if got[i].row != want[i] || !got[i].values[0].Null || !same(got[i].values[1], rows[want[i]][at]) {
				t.Fatalf("%s: row %d is %+v instead of row %d", show(p), i, got[i], want[i])
			}
		}
		if n := countRows(t, rd, ScanOptions{Filter: p, Range: o.Range}); n != int64(len(want)) {
			t.Fatalf("%s: counted %d instead of %d", show(p), n, len(want))
		}
		f, err := NewFilter(p, columns)
		if err != nil {
			t.Fatal(err)
		}
		sel, err := f.Select(all)
		if err != nil {
			t.Fatal(err)
		}
		if sel == nil && len(filtered) == len(rows) {
			continue
		}
		if len(sel) != len(filtered) {
			t.Fatalf("%s: Filter selects %d rows instead of %d", show(p), len(sel), len(filtered))
		}
		for i := range sel {
			if int64(sel[i]) != filtered[i] {
				t.Fatalf("%s: Filter selects row %d instead of %d", show(p), sel[i], filtered[i])
			}
		}
	}
	if pruned == 0 {
		t.Error("nothing was ever pruned")
	}
}

func show(p storage.Predicate) string {
	switch p := p.(type) {
	case storage.And:
		return fmt.Sprintf("and%v", showAll(p))
	case storage.Or:
		return fmt.Sprintf("or%v", showAll(p))
	case *storage.Compare:
		return fmt.Sprintf("c%d %s %+v", p.Column, p.Op, p.Value)
	case *storage.In:
		return fmt.Sprintf("c%d in %+v", p.Column, p.Values)
	case *storage.IsNull:
		return fmt.Sprintf("c%d null %t", p.Column, !p.Not)
	}
	return "?"
}

func showAll(ps []storage.Predicate) (out []string) {
	for _, p := range ps {
		out = append(out, show(p))
	}
	return out
}

func countRows(t testing.TB, r *Reader, o ScanOptions) int64 {
	t.Helper()
	s, err := r.Scan(o)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for {
		c, err := s.Next(context.Background())
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n += int64(c.Rows())
	}
}

// TestVersions: composite keys, several versions, tombstones; lookups find
// every version.
func TestVersions(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	columns := schema.Columns{{ID: 1, Name: "a", Type: schema.StringType}, {ID: 2, Name: "b", Type: schema.DoubleType}, {ID: 3, Name: "v", Type: schema.IntType, NotNull: true}}
	key := []storage.KeyColumn{{Column: 2, Desc: true}, {Column: 1}}
	type row struct {
		key     []byte
		values  []schema.Datum
		begin   storage.Timestamp
		deleted bool
	}
	enc := rowkey.NewEncoder([]rowkey.Column{{Type: schema.DoubleType, Desc: true}, {Type: schema.StringType}})
	byKey := map[string][]row{}
	for range 15_000 {
		x := row{values: []schema.Datum{random(r, schema.StringType, true), random(r, schema.DoubleType, false), {Type: schema.IntType, I: int64(r.IntN(100))}}}
		if r.IntN(10) == 0 {
			x.values[0] = schema.NullOf(schema.StringType)
		}
		var err error
		if x.key, err = enc.AppendDatums(nil, []schema.Datum{x.values[1], x.values[0]}); err != nil {
			t.Fatal(err)
		}
		if byKey[string(x.key)] != nil {
			continue
		}
		begin := storage.Timestamp(1 << 62)
		for range 1 + r.IntN(4) {
			begin -= storage.Timestamp(1 + r.IntN(1000))
			x.begin, x.deleted = begin, r.IntN(6) == 0
			if x.deleted {
				x.values = []schema.Datum{x.values[0], x.values[1], schema.NullOf(schema.IntType)}
			} else {
				x.values = []schema.Datum{x.values[0], x.values[1], {Type: schema.IntType, I: int64(r.IntN(100))}}
			}
			byKey[string(x.key)] = append(byKey[string(x.key)], x)
		}
	}
	var rows []row
	for _, v := range byKey {
		rows = append(rows, v...)
	}
	sort.SliceStable(rows, func(i, j int) bool { return bytes.Compare(rows[i].key, rows[j].key) < 0 })
	fs := vfs.NewMem()
	w, err := Create(Options{FS: fs, Path: "s", Columns: columns, Key: key, Versions: true, Tombstones: true, RowGroupRows: 16384})
	if err != nil {
		t.Fatal(err)
	}
	tombstones := int64(0)
	for at := 0; at < len(rows); at += 1000 {
		var values [][]schema.Datum
		var in Rows
		for _, x := range rows[at:min(at+1000, len(rows))] {
			values = append(values, x.values)
			in.Begin = append(in.Begin, x.begin)
			in.Deleted = append(in.Deleted, x.deleted)
			if at%2000 == 0 {
				in.Keys.Append(x.key)
			}
			if x.deleted {
				tombstones++
			}
		}
		in.Batch = makeBatch(columns, values, false)
		if err := w.Append(in); err != nil {
			t.Fatal(err)
		}
	}
	m, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if !m.MultiVersion || m.Tombstones != tombstones || !bytes.Equal(m.FirstKey, rows[0].key) || !bytes.Equal(m.LastKey, rows[len(rows)-1].key) {
		t.Errorf("meta %+v", m)
	}
	rd := open(t, fs, "s", m, key)
	s, err := rd.Scan(ScanOptions{Columns: columns, NeedKeys: true, NeedVersions: true})
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for {
		c, err := s.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Len {
			x := rows[at]
			if !bytes.Equal(c.Keys.At(i), x.key) || c.Begin[i] != x.begin || c.Deleted[i] != x.deleted || !same(datumAt(c.Columns[2], schema.IntType, i), x.values[2]) {
				t.Fatalf("row %d: %x %d %t", at, c.Keys.At(i), c.Begin[i], c.Deleted[i])
			}
			at++
		}
	}
	if at != len(rows) {
		t.Fatalf("%d rows of %d", at, len(rows))
	}

	for range 60 {
		picked := map[string]bool{}
		for range 1 + r.IntN(20) {
			k := rows[r.IntN(len(rows))].key
			picked[string(k)] = true
			picked[string(k)+"\x00"] = true // no key
		}
		var keys []storage.Key
		for k := range picked {
			keys = append(keys, storage.Key(k))
		}
		sort.Slice(keys, func(i, j int) bool { return bytes.Compare(keys[i], keys[j]) < 0 })
		c, err := rd.Lookup(context.Background(), keys, columns)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for _, k := range keys {
			for _, x := range byKey[string(k)] {
				if i >= c.Len || !bytes.Equal(c.Keys.At(i), x.key) || c.Begin[i] != x.begin || c.Deleted[i] != x.deleted ||
					!same(datumAt(c.Columns[0], schema.StringType, i), x.values[0]) || !same(datumAt(c.Columns[2], schema.IntType, i), x.values[2]) {
					t.Fatalf("lookup %x: version %d is missing or wrong", k, i)
				}
				i++
			}
		}
		if i != c.Len {
			t.Fatalf("%d rows for %d", c.Len, i)
		}
	}
}

// TestImplicit: runs of row ids, in scans, ranges and lookups.
func TestImplicit(t *testing.T) {
	columns := schema.Columns{{ID: 1, Name: "a", Type: schema.BigIntType}}
	rows := make([][]schema.Datum, 20_000)
	for i := range rows {
		rows[i] = []schema.Datum{{Type: schema.BigIntType, I: int64(i)}}
	}
	fs := vfs.NewMem()
	w, err := Create(Options{FS: fs, Path: "s", Columns: columns, RowGroupRows: 8192})
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(rows); at += 5000 {
		if err := w.Append(Rows{Batch: makeBatch(columns, rows[at:at+5000], false)}); err != nil {
			t.Fatal(err)
		}
	}
	w.SetRuns([]Run{{0, 1, 9, 0, 100, 7000}, {0, 1, 9, 2, 0, 12_999}, {0, 3, 1, 0, 5, 1}})
	m, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	rd := open(t, fs, "s", m, nil)
	got, _ := scanAll(t, rd, ScanOptions{Columns: columns, NeedKeys: true, Range: storage.KeyRange{Start: rowkey.Implicit(1, 9, 0, 7098), End: rowkey.Implicit(1, 9, 2, 3)}})
	if len(got) != 5 || got[0].values[0].I != 6998 || !bytes.Equal(got[2].key, rowkey.Implicit(1, 9, 2, 0)) {
		t.Errorf("range gives %+v", got)
	}
	c, err := rd.Lookup(context.Background(), []storage.Key{rowkey.Implicit(1, 9, 0, 99), rowkey.Implicit(1, 9, 0, 100), rowkey.Implicit(3, 1, 0, 5)}, columns)
	if err != nil || c.Len != 2 || c.Columns[0].(*array.Int64).Value(1) != 19_999 {
		t.Errorf("lookup gives %+v %v", c, err)
	}
}

// TestLongText: pages of long values are short ones; statistics are left out.
func TestLongText(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	columns := schema.Columns{{ID: 1, Name: "k", Type: schema.BigIntType}, {ID: 2, Name: "s", Type: schema.StringType}, {ID: 3, Name: "n", Type: schema.IntType}}
	rows := make([][]schema.Datum, 1500)
	for i := range rows {
		rows[i] = []schema.Datum{{Type: schema.BigIntType, I: int64(i)}, schema.NullOf(schema.StringType), {Type: schema.IntType, I: int64(i)}}
		if i%3 > 0 {
			rows[i][1] = schema.Datum{Type: schema.StringType, S: strings.Repeat(fmt.Sprintf("%x", r.Uint64()), 600)}
		}
	}
	fs := vfs.NewMem()
	key := []storage.KeyColumn{{Column: 1}}
	rd := open(t, fs, "s", write(t, r, Options{FS: fs, Path: "s", Columns: columns, Key: key}, rows), key)
	got, _ := scanAll(t, rd, ScanOptions{Columns: columns})
	for i := range rows {
		if !same(got[i].values[1], rows[i][1]) || !same(got[i].values[2], rows[i][2]) {
			t.Fatalf("row %d differs", i)
		}
	}
	if n := countRows(t, rd, ScanOptions{Filter: &storage.IsNull{Column: 2}}); n != 500 {
		t.Errorf("%d nulls instead of 500", n)
	}
	if n := countRows(t, rd, ScanOptions{Filter: &storage.Compare{Column: 2, Op: storage.Eq, Value: rows[4][1]}}); n != 1 {
		t.Errorf("%d rows instead of 1", n)
	}
	for _, p := range rd.offsetsForTest(t, 1) {
		if p > 128 {
			t.Errorf("a page of %d rows", p)
		}
	}
}

func (r *Reader) offsetsForTest(t *testing.T, leaf int) (rows []int64) {
	locs, err := r.pages(0, leaf)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(locs); i++ {
		rows = append(rows, locs[i].FirstRowIndex-locs[i-1].FirstRowIndex)
	}
	return rows
}

func TestRefuses(t *testing.T) {
	columns := schema.Columns{{ID: 1, Name: "k", Type: schema.BigIntType, NotNull: true}}
	key := []storage.KeyColumn{{Column: 1}}
	row := func(v int64) *batch.Batch {
		return makeBatch(columns, [][]schema.Datum{{{Type: schema.BigIntType, I: v}}}, false)
	}
	for name, f := range map[string]func(w *Writer) error{
		"a key twice": func(w *Writer) error {
			return errors.Join(w.Append(Rows{Batch: row(1)}), w.Append(Rows{Batch: row(1)}))
		},
		"keys backwards": func(w *Writer) error {
			return errors.Join(w.Append(Rows{Batch: row(1)}), w.Append(Rows{Batch: row(0)}))
		},
		"null": func(w *Writer) error {
			return w.Append(Rows{Batch: makeBatch(columns, [][]schema.Datum{{schema.NullOf(schema.BigIntType)}}, false)})
		},
		"another type": func(w *Writer) error {
			return w.Append(Rows{Batch: makeBatch(schema.Columns{{Type: schema.IntType}}, [][]schema.Datum{{{I: 1}}}, false)})
		},
		"no rows": func(w *Writer) error { _, err := w.Finish(); return err },
	} {
		fs := vfs.NewMem()
		w, err := Create(Options{FS: fs, Path: "s", Columns: columns, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if err := f(w); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
		if names, err := fs.List(""); err != nil || len(names) > 0 {
			t.Errorf("after Abort: %v %v", names, err)
		}
	}
}
