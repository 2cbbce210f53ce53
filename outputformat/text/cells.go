package text

import (
	"bytes"
	"fmt"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Style says how rows are written as text. Cells are in Hive's rendering.
type Style string

const (
	// TSV has tabs between cells; NULL is \N; a tab, line end, carriage return or
	// backslash in a cell is \t, \n, \r or \\.
	TSV Style = "tsv"
	// CSV is that of RFC 4180 with "\n" line ends: cells with a comma, quote or
	// line break are quoted; NULL is an empty cell, the empty string is "".
	CSV Style = "csv"
	// Text is what Hive's LazySimpleSerDe writes: see Delimited.
	Text Style = "txt"
)

// Delimited says how rows look in style Text. The zero value is Hive's default: ^A
// between cells, NULL is \N, nothing is escaped.
type Delimited struct {
	Field  string // one byte; "" = \x01
	Escape string // one byte, put before itself, the delimiter and line ends; "" = none
	Null   *string
}

// ParseStyle reads the name of a style.
func ParseStyle(name string) (Style, error) {
	switch s := Style(name); s {
	case TSV, CSV, Text:
		return s, nil
	}
	return "", fault.Userf("format %q: want tsv or csv", name)
}

// Encoder turns rows into text.
type Encoder struct {
	style  Style
	fields []schema.Field
	cell   []byte
	field  byte // of style Text
	escape string
	null   string
}

// NewDelimitedEncoder returns an encoder of style Text.
func NewDelimitedEncoder(d Delimited, fields []schema.Field) (*Encoder, error) {
	e := &Encoder{style: Text, fields: fields, field: 1, escape: d.Escape, null: `\N`}
	if len(d.Field) > 1 || len(d.Escape) > 1 {
		return nil, fault.Userf("text output: a delimiter %q or escape character %q of more than one byte", d.Field, d.Escape)
	}
	if d.Field != "" {
		e.field = d.Field[0]
	}
	if d.Null != nil {
		e.null = *d.Null
	}
	return e, nil
}

// NewEncoder returns an encoder of rows with these fields.
func NewEncoder(style Style, fields []schema.Field) (*Encoder, error) {
	if style != TSV && style != CSV {
		return nil, fault.Bugf("text output: the style %q", style)
	}
	return &Encoder{style: style, fields: fields}, nil
}

// AppendHeader appends the names of the fields as a line.
func (e *Encoder) AppendHeader(dst []byte) []byte {
	for i, f := range e.fields {
		e.cell = append(e.cell[:0], f.Name...)
		dst = e.append(dst, i)
	}
	return append(dst, '\n')
}

// Append appends the rows of a batch, a line each.
func (e *Encoder) Append(dst []byte, b *batch.Batch) ([]byte, error) {
	if len(b.Columns) != len(e.fields) {
		return dst, fmt.Errorf("write text: %d columns for %d fields", len(b.Columns), len(e.fields))
	}
	for k := range b.Rows() {
		row := k
		if b.Sel != nil {
			row = int(b.Sel[k])
		}
		for i, f := range e.fields {
			a := b.Columns[i]
			if a.IsNull(row) || f.Type.Kind == schema.Void {
				dst = e.separate(dst, i)
				switch e.style {
				case TSV:
					dst = append(dst, `\N`...)
				case Text:
					dst = append(dst, e.null...)
				}
				continue
			}
			e.cell = schema.AppendText(e.cell[:0], f.Type, a, row)
			dst = e.append(dst, i)
		}
		dst = append(dst, '\n')
	}
	return dst, nil
}

func (e *Encoder) separate(dst []byte, i int) []byte {
	switch {
	case i == 0:
		return dst
	case e.style == CSV:
		return append(dst, ',')
	case e.style == Text:
		return append(dst, e.field)
	}
	return append(dst, '\t')
}

// append appends e.cell as the i-th cell of a line.
func (e *Encoder) append(dst []byte, i int) []byte {
	dst = e.separate(dst, i)
	if e.style == Text {
		if e.escape == "" {
			return append(dst, e.cell...)
		}
		for _, c := range e.cell {
			switch c {
			case e.field, e.escape[0]:
				dst = append(dst, e.escape[0], c)
			case '\n':
				dst = append(dst, e.escape[0], 'n')
			case '\r':
				dst = append(dst, e.escape[0], 'r')
			default:
				dst = append(dst, c)
			}
		}
		return dst
	}
	if e.style == CSV {
		if len(e.cell) > 0 && !bytes.ContainsAny(e.cell, "\",\r\n") {
			return append(dst, e.cell...)
		}
		dst = append(dst, '"')
		for _, c := range e.cell {
			if c == '"' {
				dst = append(dst, '"')
			}
			dst = append(dst, c)
		}
		return append(dst, '"')
	}
	if !bytes.ContainsAny(e.cell, "\t\n\r\\") {
		return append(dst, e.cell...)
	}
	for _, c := range e.cell {
		switch c {
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\\':
			dst = append(dst, `\\`...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
