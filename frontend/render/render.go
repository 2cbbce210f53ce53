// Package render writes query results as text: the formats of `skep sql`.
package render

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Format is a way to write rows.
type Format string

// The formats. TSV without a header is what `hive -e` prints.
const (
	Table    Format = "table"    // a frame, column widths found from the first rows
	Vertical Format = "vertical" // a line a cell: name, then value
	CSV      Format = "csv"      // RFC 4180, NULL is an empty field
	TSV      Format = "tsv"      // cells as they are, NULL is NULL
	JSON     Format = "json"     // an object a statement (see Statement)
	JSONL    Format = "jsonl"    // an object a row
	Markdown Format = "markdown" // a pipe table
)

// Formats lists the formats, in the order that help texts show.
func Formats() []Format { return []Format{Table, Vertical, CSV, TSV, JSON, JSONL, Markdown} }

// ParseFormat returns the format of this name.
func ParseFormat(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if string(f) == name {
			return f, nil
		}
		names = append(names, string(f))
	}
	return "", fmt.Errorf("unknown format %q: want one of %s", name, strings.Join(names, ", "))
}

// Writer writes the rows of one result. End must be called once, also after a
// result without rows.
type Writer interface {
	Write(b *batch.Batch) error
	End() error
}

// Options say how.
type Options struct {
	Format Format // JSON has its own writer: Statement
	Header bool   // name the columns; table, markdown and vertical always do
}

// NewWriter returns a writer of rows with these fields to w.
func NewWriter(w io.Writer, fields []schema.Field, o Options) (Writer, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	switch o.Format {
	case TSV, "":
		return newDelimited(out, fields, o.Header, false)
	case CSV:
		return newDelimited(out, fields, o.Header, true)
	case JSONL:
		return &jsonLines{out: out, fields: fields, names: quotedNames(fields)}, nil
	case Vertical:
		return &vertical{out: out, fields: fields, width: nameWidth(fields)}, nil
	case Table:
		return &framed{out: out, fields: fields}, nil
	case Markdown:
		return &framed{out: out, fields: fields, markdown: true}, nil
	}
	return nil, fmt.Errorf("render: format %q has no row writer", o.Format)
}
