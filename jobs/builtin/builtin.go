// Package builtin has the map/reduce programs that are part of Skep.
package builtin

import (
	"iter"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/jobs/mapreduce"
)

// Programs returns all of them.
func Programs() []mapreduce.Program {
	return []mapreduce.Program{WordCount(), RowCount()}
}

// Count is a row of WordCount's output.
type Count struct {
	Word  string
	Count int64
}

// WordCount counts the words of text files: what stands between ASCII white
// space, upper and lower case apart.
func WordCount() mapreduce.Program {
	return mapreduce.Job[string, string, int64, Count]{
		Name: "wordcount", About: "count the words of text files",
		Input: mapreduce.Lines(),
		Map: func(_ *mapreduce.Task, line string, emit func(string, int64)) error {
			start := -1
			for i := range len(line) {
				if space(line[i]) {
					if start >= 0 {
						emit(line[start:i], 1)
						start = -1
					}
				} else if start < 0 {
					start = i
				}
			}
			if start >= 0 {
				emit(line[start:], 1)
			}
			return nil
		},
		Combine: add,
		Reduce: func(_ *mapreduce.Task, word string, counts iter.Seq[int64], emit func(Count)) error {
			emit(Count{word, sum(counts)})
			return nil
		},
	}
}

func space(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func add(a, b int64) int64 { return a + b }

func sum(values iter.Seq[int64]) (n int64) {
	for v := range values {
		n += v
	}
	return n
}

// Rows is the row of RowCount's output.
type Rows struct{ Rows int64 }

// RowCount counts the rows of a table, or those that a condition picks.
func RowCount() mapreduce.Program {
	none := []string{} // no column is read
	return mapreduce.Job[*batch.Batch, bool, int64, Rows]{
		Name: "rowcount", About: "count the rows of a table",
		Input:     mapreduce.Batches(none...),
		NewMapper: func() mapreduce.Mapper[*batch.Batch, bool, int64] { return &rowCounter{} },
		Partition: func(bool, int) int { return 0 },
		Combine:   add,
		// Each map task emits a count, so a table without rows has one that is 0.
		Reduce: func(_ *mapreduce.Task, _ bool, counts iter.Seq[int64], emit func(Rows)) error {
			emit(Rows{sum(counts)})
			return nil
		},
	}
}

type rowCounter struct{ n int64 }

func (*rowCounter) Setup(*mapreduce.Task) error { return nil }

func (r *rowCounter) Map(_ *mapreduce.Task, b *batch.Batch, _ func(bool, int64)) error {
	r.n += int64(b.Rows())
	return nil
}

func (r *rowCounter) Cleanup(_ *mapreduce.Task, emit func(bool, int64)) error {
	emit(true, r.n)
	return nil
}
