package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// Rows makes a batch of rows written as text, cells separated by |, NULL for
// NULL. It panics on text that isn't of the column's type.
func Rows(columns schema.Columns, rows ...string) *batch.Batch {
	values := make([][]schema.Datum, len(columns))
	for _, row := range rows {
		for i, d := range parse(columns, row) {
			values[i] = append(values[i], d)
		}
	}
	b := &batch.Batch{Len: len(rows), Columns: make([]arrow.Array, len(columns))}
	for i, c := range columns {
		b.Columns[i] = schema.ArrayOf(c.Type, values[i])
	}
	return b
}

func parse(columns schema.Columns, row string) []schema.Datum {
	cells := strings.Split(row, "|")
	if len(cells) != len(columns) {
		panic(fmt.Sprintf("row %q has %d cells, want %d", row, len(cells), len(columns)))
	}
	out := make([]schema.Datum, len(cells))
	for i, cell := range cells {
		if cell == "NULL" {
			out[i] = schema.NullOf(columns[i].Type)
			continue
		}
		d, ok := schema.ParseText(columns[i].Type, []byte(cell))
		if !ok {
			panic(fmt.Sprintf("%q is not a %s", cell, columns[i].Type))
		}
		out[i] = d
	}
	return out
}

// Written returns the columns of what is put or staged: of a partitioned
// table's the partition id comes first.
func Written(t *storage.Table, columns schema.Columns) schema.Columns {
	if !t.Partitioned {
		return columns
	}
	return append(schema.Columns{{Name: "partition", Type: schema.IntType}}, columns...)
}

// Key returns the row key of a row of key-column values, written as for Rows;
// those of a partitioned table begin with the partition id.
func Key(t *storage.Table, values string) storage.Key {
	k, err := rowkey.ForTable(t).AppendDatums(nil, parse(Written(t, t.KeyColumns()), values))
	if err != nil {
		panic(err)
	}
	return k
}

// Keys returns several keys.
func Keys(t *storage.Table, values ...string) []storage.Key {
	out := make([]storage.Key, len(values))
	for i, v := range values {
		out[i] = Key(t, v)
	}
	return out
}

// Text returns a batch's rows as text.
func Text(columns schema.Columns, b *batch.Batch) []string {
	var out []string
	var line []byte
	for k := range b.Rows() {
		row := k
		if b.Sel != nil {
			row = int(b.Sel[k])
		}
		line = line[:0]
		for i, c := range columns {
			if i > 0 {
				line = append(line, '|')
			}
			line = schema.AppendText(line, c.Type, b.Columns[i], row)
		}
		out = append(out, string(line))
	}
	return out
}

// Read reads a scan to its end, closes it and returns its rows as text.
func Read(ctx context.Context, columns schema.Columns, r batch.Reader) ([]string, error) {
	var out []string
	for {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return out, r.Close()
		}
		if err != nil {
			return out, errors.Join(err, r.Close())
		}
		if b.Rows() == 0 || b.Len > batch.MaxRows {
			return out, errors.Join(fmt.Errorf("a batch of %d rows, length %d", b.Rows(), b.Len), r.Close())
		}
		out = append(out, Text(columns, b)...)
	}
}

// Sorted returns the rows in order of their text.
func Sorted(rows []string) []string {
	rows = slices.Clone(rows)
	slices.Sort(rows)
	return rows
}
