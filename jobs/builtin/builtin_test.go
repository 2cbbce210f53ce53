package builtin

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/lines"
	"github.com/skepdb/skep/jobs/mapreduce"
)

var size = flag.Int("wordcount.mib", 8, "how much text the word count benchmark reads, in MiB")

// writeText writes about n bytes of words, of Zipf's frequencies, in lines.
func writeText(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.07, 2, 300_000)
	for written := 0; written < n; {
		for range 5 + rng.IntN(15) {
			k, _ := fmt.Fprintf(w, "w%x ", zipf.Uint64()*2654435761%1000003)
			written += k
		}
		_ = w.WriteByte('\n')
		written++
	}
	return errors.Join(w.Flush(), f.Close())
}

func BenchmarkWordCount(b *testing.B) {
	path := filepath.Join(b.TempDir(), "text")
	if err := writeText(path, *size<<20); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	f, spec := lines.New(), lines.Spec{Paths: []string{path}}
	for b.Loop() {
		for sp, err := range f.Splits(b.Context(), spec, inputformat.Want{Parallelism: 1}) {
			if err != nil {
				b.Fatal(err)
			}
			in, err := f.Open(b.Context(), spec, sp)
			if err != nil {
				b.Fatal(err)
			}
			a := &mapreduce.Attempt{Input: in, Partitions: 4, Write: func(context.Context, int, *batch.Batch) error { return nil }}
			if err := mapreduce.Run(b.Context(), WordCount(), a); err != nil {
				b.Fatal(err)
			}
			_, err = in.Next(b.Context())
			if !errors.Is(err, io.EOF) {
				b.Fatal(err)
			}
		}
	}
}
