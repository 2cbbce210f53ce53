package render

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// delimited writes TSV as `hive -e` does, or CSV as RFC 4180 says but with
// "\n" line ends.
type delimited struct {
	out    *bufio.Writer
	fields []schema.Field
	csv    bool
	line   []byte
}

func newDelimited(out *bufio.Writer, fields []schema.Field, header, csv bool) (*delimited, error) {
	d := &delimited{out: out, fields: fields, csv: csv}
	if header {
		for i, f := range fields {
			d.separate(i)
			start := len(d.line)
			d.line = append(d.line, f.Name...)
			d.quote(start)
		}
		d.line = append(d.line, '\n')
		if _, err := out.Write(d.line); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *delimited) separate(i int) {
	switch {
	case i == 0:
	case d.csv:
		d.line = append(d.line, ',')
	default:
		d.line = append(d.line, '\t')
	}
}

// quote puts the cell from start on in quotes where CSV needs it: for a
// separator, a quote, a line break, and for the empty string, since an empty
// field is NULL.
func (d *delimited) quote(start int) {
	cell := d.line[start:]
	if !d.csv || (len(cell) > 0 && !bytes.ContainsAny(cell, "\",\r\n")) {
		return
	}
	text := string(cell)
	d.line = append(d.line[:start], '"')
	d.line = append(d.line, strings.ReplaceAll(text, `"`, `""`)...)
	d.line = append(d.line, '"')
}

func (d *delimited) Write(b *batch.Batch) error {
	return rows(b, func(row int) error {
		d.line = d.line[:0]
		for i, f := range d.fields {
			d.separate(i)
			start := len(d.line)
			var ok bool
			if d.line, ok = appendCell(d.line, f.Type, b.Columns[i], row); ok {
				d.quote(start)
			} else if !d.csv {
				d.line = append(d.line, "NULL"...)
			}
		}
		d.line = append(d.line, '\n')
		_, err := d.out.Write(d.line)
		return err
	})
}

func (d *delimited) End() error { return d.out.Flush() }
