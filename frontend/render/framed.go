package render

import (
	"bufio"
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// framed writes a table in a frame, or a Markdown table. Column widths are
// those of the first rows; a wider cell further down breaks the line, not the
// program's memory.
type framed struct {
	out      *bufio.Writer
	fields   []schema.Field
	markdown bool
	held     [][]string // rows from which widths are found
	widths   []int      // nil until found
	line     []byte
}

// widthRows is how many rows are held back to find the widths.
const widthRows = 1000

func (f *framed) Write(b *batch.Batch) error {
	return rows(b, func(row int) error {
		cells := make([]string, len(f.fields))
		var buf []byte
		for i, field := range f.fields {
			var ok bool
			if buf, ok = appendCell(buf[:0], field.Type, b.Columns[i], row); ok {
				cells[i] = f.printable(buf)
			} else {
				cells[i] = "NULL"
			}
		}
		if f.widths != nil {
			return f.row(cells, false)
		}
		f.held = append(f.held, cells)
		if len(f.held) < widthRows {
			return nil
		}
		return f.start()
	})
}

// printable keeps a cell on its line.
func (f *framed) printable(cell []byte) string {
	s := string(cell)
	if bytes.ContainsAny(cell, "\n\r\t") {
		s = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
	}
	if f.markdown {
		s = strings.ReplaceAll(s, "|", `\|`)
	}
	return s
}

// start finds the widths, and writes the header and the rows held back.
func (f *framed) start() error {
	f.widths = make([]int, len(f.fields))
	names := make([]string, len(f.fields))
	for i, field := range f.fields {
		names[i] = f.printable([]byte(field.Name))
		f.widths[i] = max(utf8.RuneCountInString(names[i]), 3)
		for _, r := range f.held {
			f.widths[i] = max(f.widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	if !f.markdown {
		if err := f.rule(); err != nil {
			return err
		}
	}
	if err := f.row(names, true); err != nil {
		return err
	}
	if err := f.rule(); err != nil {
		return err
	}
	for _, r := range f.held {
		if err := f.row(r, false); err != nil {
			return err
		}
	}
	f.held = nil
	return nil
}

func (f *framed) rule() error {
	f.line = f.line[:0]
	corner := byte('+')
	if f.markdown {
		corner = '|'
	}
	for i, w := range f.widths {
		f.line = append(f.line, corner)
		for range w + 1 {
			f.line = append(f.line, '-')
		}
		if f.markdown && f.right(i) {
			f.line = append(f.line, ':')
		} else {
			f.line = append(f.line, '-')
		}
	}
	f.line = append(f.line, corner, '\n')
	_, err := f.out.Write(f.line)
	return err
}

func (f *framed) right(i int) bool { return f.fields[i].Type.IsNumeric() }

func (f *framed) row(cells []string, header bool) error {
	f.line = f.line[:0]
	for i, c := range cells {
		f.line = append(f.line, '|', ' ')
		pad := max(f.widths[i]-utf8.RuneCountInString(c), 0)
		if f.right(i) && !header {
			f.line = append(appendBlanks(f.line, pad), c...)
		} else {
			f.line = appendBlanks(append(f.line, c...), pad)
		}
		f.line = append(f.line, ' ')
	}
	f.line = append(f.line, '|', '\n')
	_, err := f.out.Write(f.line)
	return err
}

func appendBlanks(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, ' ')
	}
	return dst
}

func (f *framed) End() error {
	if f.widths == nil {
		if err := f.start(); err != nil {
			return err
		}
	}
	if !f.markdown {
		if err := f.rule(); err != nil {
			return err
		}
	}
	return f.out.Flush()
}

// vertical writes a line a cell and a blank line between rows.
type vertical struct {
	out    *bufio.Writer
	fields []schema.Field
	width  int
	cell   []byte
	line   []byte
	any    bool
}

func nameWidth(fields []schema.Field) int {
	w := 0
	for _, f := range fields {
		w = max(w, utf8.RuneCountInString(f.Name))
	}
	return w
}

func (v *vertical) Write(b *batch.Batch) error {
	return rows(b, func(row int) error {
		v.line = v.line[:0]
		if v.any {
			v.line = append(v.line, '\n')
		}
		v.any = true
		for i, f := range v.fields {
			v.line = append(v.line, f.Name...)
			v.line = appendBlanks(v.line, v.width-utf8.RuneCountInString(f.Name)+2)
			var ok bool
			if v.cell, ok = appendCell(v.cell[:0], f.Type, b.Columns[i], row); ok {
				v.line = append(v.line, v.cell...)
			} else {
				v.line = append(v.line, "NULL"...)
			}
			v.line = append(v.line, '\n')
		}
		_, err := v.out.Write(v.line)
		return err
	})
}

func (v *vertical) End() error { return v.out.Flush() }
