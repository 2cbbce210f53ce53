package client

import (
	"context"
	"io"
	"iter"

	"github.com/skepdb/skep/schema"
)

// Column is a column of a result or a table.
type Column struct {
	Name string
	Type string // as HiveQL writes it: "decimal(10,2)"
}

// Rows are the rows of a query. Read them once, by All or by Batches, and
// close them.
type Rows struct {
	fields []schema.Field
	next   func(context.Context) (*Batch, error)
	close  func() error
}

// Columns returns names and types.
func (r *Rows) Columns() []Column {
	out := make([]Column, len(r.fields))
	for i, f := range r.fields {
		out[i] = Column{Name: f.Name, Type: f.Type.String()}
	}
	return out
}

// Fields returns the columns in the engine's terms, for those who read Batches.
func (r *Rows) Fields() []schema.Field { return r.fields }

// Close frees what the rows hold; it may be called at any time, twice.
func (r *Rows) Close() error { return r.close() }

// Batches yields the rows as Arrow arrays (package batch has the encoding).
// The last pair may have an error instead.
func (r *Rows) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for {
			b, err := r.next(ctx)
			if err == io.EOF {
				return
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// All yields the rows as Go values, a value a column:
//
//	boolean            bool
//	tinyint .. bigint  int8, int16, int32, int64
//	float, double      float32, float64
//	decimal            Decimal
//	string and kin     string
//	binary             []byte
//	date, timestamp    time.Time in UTC
//	NULL               nil
//
// The last pair may have an error instead.
func (r *Rows) All(ctx context.Context) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for b, err := range r.Batches(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			for k := range b.Rows() {
				i := k
				if b.Sel != nil {
					i = int(b.Sel[k])
				}
				row := make([]any, len(r.fields))
				for c, f := range r.fields {
					row[c] = goValue(schema.FromArrow(b.Columns[c], i, f.Type))
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}
