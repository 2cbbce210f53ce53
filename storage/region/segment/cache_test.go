package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/parquet-go/parquet-go/format"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"pgregory.net/rapid"
)

var nameColumns = schema.Columns{{ID: 1, Name: "id", Type: schema.BigIntType}, {ID: 2, Name: "name", Type: schema.StringType}}

// writeNames writes rows with ascending ids and the given names.
func writeNames(t testing.TB, fs vfs.FS, path string, names []string, groupRows int64) Meta {
	t.Helper()
	w, err := Create(Options{FS: fs, Path: path, Columns: nameColumns, Key: []storage.KeyColumn{{Column: 1}}, RowGroupRows: groupRows})
	if err != nil {
		t.Fatal(err)
	}
	id := int64(0)
	for part := range slices.Chunk(names, batch.MaxRows) {
		ids, text := make([]int64, len(part)), make([]schema.Datum, len(part))
		for i := range part {
			ids[i], text[i] = id, schema.Datum{Type: schema.StringType, S: part[i]}
			id++
		}
		b := &batch.Batch{Len: len(part), Columns: []arrow.Array{batch.NewFixed(arrow.PrimitiveTypes.Int64, ids, nil), schema.ArrayOf(schema.StringType, text)}}
		if err := w.Append(Rows{Batch: b}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func equals(name string) storage.Predicate {
	return &storage.Compare{Column: 2, Op: storage.Eq, Value: schema.Datum{Type: schema.StringType, S: name}}
}

// countWhere counts by a filter, without output columns.
func countWhere(r *Reader, p storage.Predicate) (n int, st storage.ScanStats, err error) {
	s, err := r.Scan(ScanOptions{Filter: p})
	if err != nil {
		return 0, st, err
	}
	for {
		c, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return n, s.Stats(), s.Close()
		}
		if err != nil {
			return n, st, err
		}
		n += c.Rows()
	}
}

// Whichever way a value is looked up in a dictionary, the answer is the same.
func TestDictionaryFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom([]rune("abñ")), 0, 4, -1), 0, 20, rapid.ID[string]).Draw(t, "values")
		var raw []byte
		for _, v := range values {
			raw = append(raw, byte(len(v)), 0, 0, 0)
			raw = append(raw, v...)
		}
		probe := rapid.StringOfN(rapid.RuneFrom([]rune("abñ")), 0, 4, -1)
		split := rapid.Bool().Draw(t, "split first")
		d := &dictionary{n: len(values), phys: physBytes, raw: raw}
		if split {
			if _, _, err := d.values(); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 * maxWalks {
			v := probe.Draw(t, "probe")
			if got, err := d.find([]byte(v)); err != nil || int(got) != slices.Index(values, v) {
				t.Fatalf("%q in %q: %d, %v", v, values, got, err)
			}
		}
		// Cut anywhere it is refused.
		for n := range raw {
			if _, err := walkText(raw[:n], len(values), []byte("a")); err == nil {
				t.Fatalf("%d of %d bytes of text are accepted", n, len(raw))
			}
		}
	})
}

// The second scan reads no dictionary; a closed reader's are gone; whatever the
// limit, answers are the same and the cache keeps to it.
func TestCache(t *testing.T) {
	fs := vfs.NewMem()
	r := rand.New(rand.NewPCG(5, 5))
	names := make([]string, 40_000)
	want := 0
	for i := range names {
		names[i] = fmt.Sprintf("Genus species%04d", r.IntN(1000))
		if names[i] == "Genus species0007" {
			want++
		}
	}
	m := writeNames(t, fs, "s", names, 8192) // five row groups
	for _, most := range []int64{0, 60_000, 150_000, 64 << 20} {
		cache := NewCache(most)
		rd, err := Open(fs, "s", m, []storage.KeyColumn{{Column: 1}}, cache)
		if err != nil {
			t.Fatal(err)
		}
		var read [4]int64
		for i := range read {
			n, st, err := countWhere(rd, equals("Genus species0007"))
			if err != nil || n != want {
				t.Fatalf("limit %d: %d rows, %v, want %d", most, n, err, want)
			}
			read[i] = st.BytesRead
			if cache.Bytes() > most {
				t.Errorf("the cache has %d bytes of %d", cache.Bytes(), most)
			}
		}
		if large := most > 1<<20; large != (read[1] < read[0]) || large != (cache.Bytes() > 100_000) {
			t.Errorf("limit %d: scans read %d bytes, the cache has %d", most, read, cache.Bytes())
		}
		if err := rd.Close(); err != nil {
			t.Fatal(err)
		}
		if cache.Bytes() != 0 {
			t.Errorf("%d bytes of a closed reader are left", cache.Bytes())
		}
		cache.add(cacheKey{rd, 0, 0}, &dictionary{})
		if cache.Bytes() != 0 {
			t.Errorf("a closed reader's dictionary is taken in")
		}
	}
}

// Scans at the same time share dictionaries and take buffers from each other,
// but never values that were handed on.
func TestCacheConcurrent(t *testing.T) {
	fs := vfs.NewMem()
	columns := allTypes()
	rows := table(rand.New(rand.NewPCG(9, 9)), columns, 30_000)
	key := []storage.KeyColumn{{Column: 0}}
	m := write(t, rand.New(rand.NewPCG(1, 1)), Options{FS: fs, Path: "s", Columns: columns, Key: key, RowGroupRows: 8192}, rows)
	rd := open(t, fs, "s", m, key)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var kept []*Chunk
			for range 3 {
				s, err := rd.Scan(ScanOptions{Columns: columns[g:], NeedKeys: true, Filter: &storage.IsNull{Column: 4, Not: true}})
				if err != nil {
					t.Error(err)
					return
				}
				for {
					c, err := s.Next(context.Background())
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Error(err)
						return
					}
					kept = append(kept, c)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, c := range kept {
				for k := range c.Rows() {
					i := k
					if c.Sel != nil {
						i = int(c.Sel[k])
					}
					for j, a := range c.Columns {
						if want := rows[c.Row+int64(i)][g+j]; !same(datumAt(a, columns[g+j].Type, i), want) {
							t.Errorf("row %d, column %s is not what it was", c.Row+int64(i), columns[g+j].Name)
							return
						}
					}
				}
			}
		})
	}
	wg.Wait()
}

// Codes that a codec doesn't shrink lie in the file as they are; codes that it
// does shrink, long dictionaries and plain text are compressed.
func TestCodecOfCodes(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	name := func(i int) string { return fmt.Sprintf("Genus species %06d", i) }
	for _, c := range []struct {
		what string
		name func(i int) string
		want format.CompressionCodec
	}{
		{"few names, in any order", func(int) string { return name(r.IntN(500)) }, format.Uncompressed},
		{"few names, each a thousand times", func(i int) string { return name(i / 1000) }, format.Snappy},
		{"few names, in turn", func(i int) string { return name(i % 7) }, format.Snappy},
		{"a name a row", func(i int) string { return name(i * 7919 % 1_000_003) }, format.Snappy},
		{"many names, a dictionary as long as the codes", func(int) string { return name(r.IntN(20_000)) }, format.Snappy},
	} {
		names := make([]string, 50_000)
		for i := range names {
			names[i] = c.name(i)
		}
		fs := vfs.NewMem()
		m := writeNames(t, fs, "s", names, 0)
		rd := open(t, fs, "s", m, []storage.KeyColumn{{Column: 1}})
		if got := rd.footer.RowGroups[0].Columns[1].MetaData.Codec; got != c.want {
			t.Errorf("%s: codec %s, want %s", c.what, got, c.want)
		}
		n, _, err := countWhere(rd, equals(names[777]))
		want := 0
		for _, x := range names {
			if x == names[777] {
				want++
			}
		}
		if err != nil || n != want {
			t.Errorf("%s: %d rows, %v, want %d", c.what, n, err, want)
		}
	}
}

func TestBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codes := rapid.SliceOfN(rapid.OneOf(rapid.Int32Range(0, 40), rapid.Int32()), 0, 30).Draw(t, "codes")
		n := rapid.OneOf(rapid.IntRange(0, 50), rapid.Just(1<<31-1)).Draw(t, "n")
		want := true
		for _, c := range codes {
			want = want && c >= 0 && int(c) < n
		}
		if got := below(codes, n); got != want {
			t.Fatalf("codes %v below %d: %t", codes, n, got)
		}
	})
}

func TestMaskEq(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, odds := range []int{1, 2, 50, 1000, 1 << 30} {
		for _, n := range []int{0, 1, 63, 64, 65, 2048, 8191} {
			v := make([]int32, n)
			for i := range v {
				v[i] = int32(r.IntN(odds))
			}
			m := maskOf(nil, n)
			maskEq(m, v, 0)
			for i, x := range v {
				if got := m[i/64]>>(i&63)&1 == 1; got != (x == 0) {
					t.Fatalf("value %d of %d is %d: %t", i, n, x, got)
				}
			}
		}
	}
}
