package segment

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// The benchmarks' table: 5 M rows of 10 columns, like occurrence records.
var benchColumns = schema.Columns{
	{ID: 1, Name: "id", Type: schema.BigIntType},
	{ID: 2, Name: "country", Type: schema.StringType},         // 200 values
	{ID: 3, Name: "basis", Type: schema.StringType},           // 8 values
	{ID: 4, Name: "scientific_name", Type: schema.StringType}, // 50 k values
	{ID: 5, Name: "occurrence_id", Type: schema.StringType},   // unique
	{ID: 6, Name: "latitude", Type: schema.DoubleType},
	{ID: 7, Name: "longitude", Type: schema.DoubleType},
	{ID: 8, Name: "year", Type: schema.IntType},  // 10 % NULL
	{ID: 9, Name: "month", Type: schema.IntType}, // 20 % NULL
	{ID: 10, Name: "taxon_key", Type: schema.IntType},
}

const benchRows = 5 << 20

// benchBatches makes 128 batches, 1 Mi rows, without the id column.
func benchBatches() []*batch.Batch {
	r := rand.New(rand.NewPCG(42, 42))
	names := make([]string, 50_000)
	for i := range names {
		names[i] = fmt.Sprintf("Genus%04d species%05d", i/40, i)
	}
	out := make([]*batch.Batch, 128)
	for n := range out {
		text := make([]*array.StringBuilder, 4)
		for i := range text {
			text[i] = array.NewStringBuilder(memory.DefaultAllocator)
		}
		lat, lon := array.NewFloat64Builder(memory.DefaultAllocator), array.NewFloat64Builder(memory.DefaultAllocator)
		year, month, taxon := array.NewInt32Builder(memory.DefaultAllocator), array.NewInt32Builder(memory.DefaultAllocator), array.NewInt32Builder(memory.DefaultAllocator)
		for i := range batch.MaxRows {
			name := r.IntN(len(names))
			text[0].Append(fmt.Sprintf("C%03d", r.IntN(200)))
			text[1].Append([...]string{"HUMAN_OBSERVATION", "PRESERVED_SPECIMEN", "OBSERVATION", "FOSSIL", "LIVING", "MATERIAL", "MACHINE", "OCCURRENCE"}[r.IntN(8)])
			text[2].Append(names[name])
			text[3].Append(fmt.Sprintf("urn:cat:%08x:%07d", r.Uint32(), n*batch.MaxRows+i))
			lat.Append(r.Float64()*180 - 90)
			lon.Append(r.Float64()*360 - 180)
			if r.IntN(10) == 0 {
				year.AppendNull()
			} else {
				year.Append(int32(1800 + r.IntN(225)))
			}
			if r.IntN(5) == 0 {
				month.AppendNull()
			} else {
				month.Append(int32(1 + r.IntN(12)))
			}
			taxon.Append(int32(2_000_000 + 17*name))
		}
		b := &batch.Batch{Len: batch.MaxRows, Columns: []arrow.Array{nil}}
		for _, t := range text {
			b.Columns = append(b.Columns, t.NewArray())
		}
		b.Columns = append(b.Columns, lat.NewArray(), lon.NewArray(), year.NewArray(), month.NewArray(), taxon.NewArray())
		out[n] = b
	}
	return out
}

func benchWrite(b testing.TB, fs vfs.FS, path, codec string, batches []*batch.Batch, rows int) Meta {
	w, err := Create(Options{FS: fs, Path: path, Columns: benchColumns, Key: []storage.KeyColumn{{Column: 1}}, Codec: codec})
	if err != nil {
		b.Fatal(err)
	}
	for at := 0; at < rows; at += batch.MaxRows {
		src := batches[at/batch.MaxRows%len(batches)]
		ids := make([]int64, batch.MaxRows)
		for i := range ids {
			ids[i] = int64(at + i)
		}
		c := append([]arrow.Array{batch.NewFixed(arrow.PrimitiveTypes.Int64, ids, nil)}, src.Columns[1:]...)
		if err := w.Append(Rows{Batch: &batch.Batch{Columns: c, Len: src.Len}}); err != nil {
			b.Fatal(err)
		}
	}
	m, err := w.Finish()
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func report(b *testing.B, rows int64) {
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

// BenchmarkWrite writes plain strings; BenchmarkWriteCoded dictionary-coded ones.
func BenchmarkWrite(b *testing.B) {
	batches := benchBatches()
	for _, codec := range []string{"snappy", "none", "zstd"} {
		b.Run(codec, func(b *testing.B) {
			fs, dir := vfs.Default, b.TempDir()
			var m Meta
			n := 0
			for b.Loop() {
				n++
				m = benchWrite(b, fs, fmt.Sprintf("%s/%d", dir, n), codec, batches, 2<<20)
			}
			report(b, m.Rows)
			b.ReportMetric(float64(m.Bytes)/float64(m.Rows), "bytes/row")
		})
	}
}

func BenchmarkScan(b *testing.B) {
	batches := benchBatches()
	for _, codec := range []string{"snappy", "none", "zstd"} {
		fs, path := vfs.Default, b.TempDir()+"/s"
		m := benchWrite(b, fs, path, codec, batches, benchRows)
		rd, err := Open(fs, path, m, []storage.KeyColumn{{Column: 1}}, NewCache(64<<20))
		if err != nil {
			b.Fatal(err)
		}
		name := schema.Datum{Type: schema.StringType, S: "Genus0100 species04000"}
		eq := &storage.Compare{Column: 4, Op: storage.Eq, Value: name}
		for _, c := range []struct {
			name string
			o    ScanOptions
		}{
			{"count", ScanOptions{}},
			{"count name=", ScanOptions{Filter: eq}},
			{"count name in 3", ScanOptions{Filter: &storage.In{Column: 4, Values: []schema.Datum{name, {Type: schema.StringType, S: "Genus0200 species08000"}, {Type: schema.StringType, S: "Genus0300 species12000"}}}}},
			{"count year>=", ScanOptions{Filter: &storage.Compare{Column: 8, Op: storage.Ge, Value: schema.Datum{Type: schema.IntType, I: 1900}}}},
			{"count lat<", ScanOptions{Filter: &storage.Compare{Column: 6, Op: storage.Lt, Value: schema.Datum{Type: schema.DoubleType, F: 10}}}},
			{"count unique=", ScanOptions{Filter: &storage.Compare{Column: 5, Op: storage.Eq, Value: name}}},
			{"country", ScanOptions{Columns: benchColumns[1:2]}},
			{"country lat lon", ScanOptions{Columns: schema.Columns{benchColumns[1], benchColumns[5], benchColumns[6]}}},
			{"name=, all columns", ScanOptions{Columns: benchColumns, Filter: eq}},
			{"all columns", ScanOptions{Columns: benchColumns}},
			{"all columns, keys", ScanOptions{Columns: benchColumns, NeedKeys: true}},
		} {
			b.Run(codec+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s, err := rd.Scan(c.o)
					if err != nil {
						b.Fatal(err)
					}
					for {
						if _, err := s.Next(context.Background()); err == io.EOF {
							break
						} else if err != nil {
							b.Fatal(err)
						}
					}
				}
				report(b, m.Rows)
			})
		}
		b.Run(codec+"/lookup", func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				k, err := rd.encoder.AppendDatums(nil, []schema.Datum{{Type: schema.BigIntType, I: int64(r.IntN(benchRows))}})
				if err != nil {
					b.Fatal(err)
				}
				if c, err := rd.Lookup(context.Background(), []storage.Key{k}, benchColumns); err != nil || c.Len != 1 {
					b.Fatal(err, c)
				}
			}
		})
		if err := rd.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
