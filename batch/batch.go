// Package batch has Batch, the only thing that moves between the parts of
// Skep: some rows as Arrow arrays, one a column, with an optional selection.
//
// # Encoding
//
// A column's meaning is a schema.Type, known from the Reader's Fields. Its
// array has Type.Arrow() as its type, or, for text only, dictionary<int32,
// utf8>: codes into a dictionary. Which of the two may change from batch to
// batch, and so may the dictionary; two arrays share one exactly when
// DictionaryOf returns the same pointer for both (Arrow's Dictionary() makes a
// new array for each). Dictionary values are unique and never null; a null row
// is null in the codes' validity bitmap, its code is arbitrary.
//
// # Ownership
//
// Batches, arrays and selections are immutable once handed on and may be kept
// for ever: nobody reuses a buffer, nobody calls Release (memory is the
// garbage collector's; see docs/design/0001).
package batch

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/schema"
)

// MaxRows is the most rows a batch may have.
const MaxRows = 8192

// Batch is at most MaxRows rows. Every column has Len values; where Sel is not
// nil only the positions it lists, ascending and unique, are rows.
type Batch struct {
	Columns []arrow.Array
	Len     int     // values in each column; a batch may have rows and no columns
	Sel     []int32 // nil: all of [0, Len)
}

// Rows returns the number of selected rows.
func (b *Batch) Rows() int {
	if b.Sel != nil {
		return len(b.Sel)
	}
	return b.Len
}

// Reader yields batches. Not safe for concurrent use.
type Reader interface {
	// Fields returns names and types of the columns, the same at every call.
	Fields() []schema.Field
	// Next returns the next batch, never an empty one, or io.EOF. After an
	// error it returns that error again. It returns soon after ctx is done.
	Next(ctx context.Context) (*Batch, error)
	// Close frees what the reader holds; it may be called at any time, twice.
	Close() error
}

// Writer takes batches. Not safe for concurrent use.
type Writer interface {
	Write(ctx context.Context, b *Batch) error
	Close() error
}
