// Package inputformat is the door by which rows come into a task: a table or
// file into splits, a split into a batch.Reader. Its children are the kinds.
package inputformat

import (
	"context"
	"iter"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/schema"
)

// Spec says what to read, wholly resolved: a running job keeps its meaning
// when a table changes. Each format has its own type.
type Spec interface {
	// Format names the format that reads it: "region", "text", "csv".
	Format() string
	// Fields are the columns that its readers yield.
	Fields() []schema.Field
	// Describe is a line for EXPLAIN and job pages.
	Describe() string
}

// Split is a part of the input: one task's. Body belongs to the format.
type Split struct {
	Label string // for people: "region 3", "occurrence.tsv:0-1048576"
	Bytes int64  // hints: never a filter; 0 = unknown
	Rows  int64
	Hosts []cluster.WorkerID // where copies live; empty: anywhere is as good
	// Bound says that there are no copies but those on Hosts: the split can't be read
	// while none of them is there.
	Bound bool
	Body  any
}

// Want says how the input should be cut.
type Want struct {
	Parallelism int // at least so many splits, if the data can be cut; 0 = 1
}

// Stats are what a reader has done so far.
type Stats struct {
	RowsRead  int64 // rows looked at, pruned ones included
	BytesRead int64
	BadCells  int64 // cells that could not be read and became NULL
	BadRows   int64 // rows that were skipped
}

// Reader is a batch.Reader that counts. Stats is called from its goroutine.
type Reader interface {
	batch.Reader
	Stats() Stats
}

// Format is a kind of input.
type Format interface {
	// Splits cuts the input: a source, not a list, since a table may have
	// very many regions. The splits cover the input once.
	Splits(ctx context.Context, s Spec, w Want) iter.Seq2[Split, error]
	// Open opens one split. It may be called again for the same split: attempts
	// are repeated and speculative.
	Open(ctx context.Context, s Spec, sp Split) (Reader, error)
}

// Formats is the registry, a value built by node.
type Formats map[string]Format
