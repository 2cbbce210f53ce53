package region_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/folder"
	"github.com/skepdb/skep/storage/region"
	"github.com/skepdb/skep/storage/storagetest"
)

// sightings is a generated table: id (the key if keyed), name of 5,000, year
// with NULLs, weight.
func sightings(keyed bool) *storage.Table {
	t := &storage.Table{ID: 7, Name: "default.sightings", Version: 1, Columns: schema.Columns{
		{ID: 1, Name: "id", Type: schema.BigIntType}, {ID: 2, Name: "name", Type: schema.StringType},
		{ID: 3, Name: "year", Type: schema.IntType}, {ID: 4, Name: "weight", Type: schema.DoubleType},
	}}
	if keyed {
		t.Key = []storage.KeyColumn{{Column: 1}}
	}
	return t
}

func sightingBatches(n int, shuffled bool) []*batch.Batch {
	rng := rand.New(rand.NewPCG(1, 2))
	order := make([]int64, n)
	for i := range order {
		order[i] = int64(i)
	}
	if shuffled {
		rng.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	var dict batch.Dictionary
	for i := range 5000 {
		dict.Add(fmt.Sprintf("Species number %d", i))
	}
	names := dict.Data()
	var out []*batch.Batch
	for from := 0; from < n; from += batch.MaxRows {
		k := min(batch.MaxRows, n-from)
		codes, years, weights, valid := make([]int32, k), make([]int32, k), make([]float64, k), make([]byte, (k+7)/8)
		for i := range k {
			codes[i], years[i], weights[i] = rng.Int32N(5000), 1900+rng.Int32N(120), rng.Float64()
			if rng.IntN(10) > 0 {
				valid[i/8] |= 1 << (i % 8)
			}
		}
		out = append(out, &batch.Batch{Len: k, Columns: []arrow.Array{
			batch.NewFixed(arrow.PrimitiveTypes.Int64, order[from:from+k], nil), batch.NewDictionary(codes, nil, names),
			batch.NewFixed(arrow.PrimitiveTypes.Int32, years, valid), batch.NewFixed(arrow.PrimitiveTypes.Float64, weights, nil),
		}})
	}
	return out
}

func benchServer(b *testing.B, t *storage.Table) *storagetest.Fixture {
	dir := filepath.Join(b.TempDir(), "data")
	fo, err := folder.Open(vfs.Default, dir, folder.Options{})
	if err != nil {
		b.Fatal(err)
	}
	auth := storagetest.NewAuthority()
	s, err := region.Open(context.Background(), region.Options{Folders: []*folder.Folder{fo}, Authority: auth})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
		fo.Close()
	})
	return storagetest.NewFixture(b, s, auth, t)
}

func stageAll(b *testing.B, f *storagetest.Fixture, batches []*batch.Batch, sorted bool) {
	txn := f.Auth.Begin()
	w, err := f.Server.Stage(context.Background(), f.Table, f.Regions(), storage.StageOptions{Txn: txn, Attempt: "a", Sorted: sorted})
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range batches {
		if err := w.Write(context.Background(), x); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Finish(context.Background()); err != nil {
		b.Fatal(err)
	}
	f.Auth.Commit(txn, "a")
}

const benchRows = 1_000_000

func BenchmarkStage(b *testing.B) {
	for _, how := range []string{"keyless", "sorted", "unsorted"} {
		b.Run(how, func(b *testing.B) {
			batches := sightingBatches(benchRows, how == "unsorted")
			f := benchServer(b, sightings(how != "keyless"))
			for b.Loop() {
				stageAll(b, f, batches, how == "sorted")
			}
			b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}

// BenchmarkScan counts the rows of one name, and reads all columns: clean, and
// with some or many rows overwritten.
func BenchmarkScan(b *testing.B) {
	for _, put := range []int{0, 10, 1000, 100_000} {
		f := benchServer(b, sightings(true))
		stageAll(b, f, sightingBatches(benchRows, false), true)
		rng := rand.New(rand.NewPCG(3, 4))
		for from := 0; from < put; from += batch.MaxRows {
			x := sightingBatches(min(batch.MaxRows, put-from), false)[0]
			ids := make([]int64, x.Len)
			for i := range ids {
				ids[i] = rng.Int64N(benchRows)
			}
			x.Columns[0] = batch.NewFixed(arrow.PrimitiveTypes.Int64, ids, nil)
			if _, err := f.Server.Put(context.Background(), f.Regions()[0].ID, f.Table.Columns, x); err != nil {
				b.Fatal(err)
			}
		}
		for _, layer := range []string{"delta", "flushed"} {
			if layer == "flushed" {
				f.Flush()
			}
			for _, all := range []bool{false, true} {
				b.Run(fmt.Sprintf("put=%d/%s/all=%t", put, layer, all), func(b *testing.B) {
					s := storage.Scan{Region: f.Regions()[0].ID}
					if all {
						s.Columns = f.Table.Columns
					} else {
						s.Filter = &storage.Compare{Column: 2, Op: storage.Eq, Value: schema.Datum{Type: schema.StringType, S: "Species number 77"}}
					}
					for b.Loop() {
						s.At = f.Auth.Now()
						sr, err := f.Server.Scan(context.Background(), s)
						if err != nil {
							b.Fatal(err)
						}
						for err == nil {
							_, err = sr.Next(context.Background())
						}
						if err != io.EOF {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
				})
			}
			if put == 0 {
				break
			}
		}
	}
}

// BenchmarkPut writes one row a put, durably.
func BenchmarkPut(b *testing.B) {
	f := benchServer(b, sightings(true))
	x := sightingBatches(1, false)[0]
	for b.Loop() {
		if _, err := f.Server.Put(context.Background(), f.Regions()[0].ID, f.Table.Columns, x); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens a folder after a clean close, and closes it.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	auth := storagetest.NewAuthority()
	run := func(f func(*region.Server)) {
		fo, err := folder.Open(vfs.Default, dir, folder.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s, err := region.Open(context.Background(), region.Options{Folders: []*folder.Folder{fo}, Authority: auth})
		if err != nil {
			b.Fatal(err)
		}
		f(s)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		if err := fo.Close(); err != nil {
			b.Fatal(err)
		}
	}
	run(func(s *region.Server) {
		f := storagetest.NewFixture(b, s, auth, sightings(true))
		stageAll(b, f, sightingBatches(100_000, false), true)
		f.Put("1|x|2|3")
	})
	for b.Loop() {
		run(func(*region.Server) {})
	}
}
