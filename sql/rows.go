package sql

import (
	"context"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Rows is a result that is known at once: of SHOW, DESCRIBE, EXPLAIN.
type Rows struct {
	Fields []schema.Field
	Data   [][]schema.Datum
}

// texts returns rows of string columns.
func texts(names ...string) *Rows {
	r := &Rows{}
	for _, n := range names {
		r.Fields = append(r.Fields, schema.Field{Name: n, Type: schema.StringType})
	}
	return r
}

// add appends a row; columns that are not given are empty.
func (r *Rows) add(cells ...string) {
	row := make([]schema.Datum, len(r.Fields))
	for i := range row {
		row[i] = schema.Datum{Type: schema.StringType}
		if i < len(cells) {
			row[i].S = cells[i]
		}
	}
	r.Data = append(r.Data, row)
}

// Reader returns the rows as batches.
func (r *Rows) Reader() batch.Reader { return &rowsReader{rows: r} }

type rowsReader struct {
	rows *Rows
	at   int
}

func (r *rowsReader) Fields() []schema.Field { return r.rows.Fields }

func (r *rowsReader) Next(ctx context.Context) (*batch.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := min(len(r.rows.Data)-r.at, batch.MaxRows)
	if n == 0 {
		return nil, io.EOF
	}
	b := &batch.Batch{Len: n, Columns: make([]arrow.Array, len(r.rows.Fields))}
	values := make([]schema.Datum, n)
	for c, f := range r.rows.Fields {
		for i := range values {
			values[i] = r.rows.Data[r.at+i][c]
		}
		b.Columns[c] = schema.ArrayOf(f.Type, values)
	}
	r.at += n
	return b, nil
}

func (r *rowsReader) Close() error { return nil }
