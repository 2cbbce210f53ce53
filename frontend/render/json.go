package render

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Statement writes the object of one statement, on a line of its own, in
// `--format json`: Begin, Rows for each batch, End.
type Statement struct {
	out    *bufio.Writer
	fields []schema.Field
	rows   bool // inside "rows"
	any    bool
	cell   []byte
	line   []byte
}

// NewStatement starts the object of statement number (from 1) with its text.
// fields is nil for a statement without a result set.
func NewStatement(w io.Writer, number int, sql string, fields []schema.Field) *Statement {
	s := &Statement{out: bufio.NewWriterSize(w, 64<<10), fields: fields, rows: fields != nil}
	s.line = strconv.AppendInt(append(s.line, `{"statement":`...), int64(number), 10)
	s.line = appendString(append(s.line, `,"sql":`...), sql)
	s.line = append(s.line, `,"columns":[`...)
	for i, f := range fields {
		if i > 0 {
			s.line = append(s.line, ',')
		}
		s.line = appendString(append(s.line, `{"name":`...), f.Name)
		s.line = appendString(append(s.line, `,"type":`...), f.Type.String())
		s.line = append(s.line, '}')
	}
	s.line = append(s.line, `],"rows":`...)
	if s.rows {
		s.line = append(s.line, '[')
	} else {
		s.line = append(s.line, "null"...)
	}
	return s
}

// Write implements Writer: cells are text in Hive's rendering, NULL is null.
func (s *Statement) Write(b *batch.Batch) error {
	return rows(b, func(row int) error {
		if s.any {
			s.line = append(s.line, ',')
		}
		s.any = true
		s.line = append(s.line, '[')
		for i, f := range s.fields {
			if i > 0 {
				s.line = append(s.line, ',')
			}
			var ok bool
			if s.cell, ok = appendCell(s.cell[:0], f.Type, b.Columns[i], row); ok {
				s.line = appendString(s.line, s.cell)
			} else {
				s.line = append(s.line, "null"...)
			}
		}
		s.line = append(s.line, ']')
		_, err := s.out.Write(s.line)
		s.line = s.line[:0]
		return err
	})
}

// End ends the object. affected is the number of rows written, or nil; failed
// is what the statement failed with, or nil.
func (s *Statement) End(affected *int64, failed error, elapsed time.Duration) error {
	if s.rows {
		s.line = append(s.line, ']')
	}
	s.line = append(s.line, `,"affected":`...)
	if affected == nil {
		s.line = append(s.line, "null"...)
	} else {
		s.line = strconv.AppendInt(s.line, *affected, 10)
	}
	s.line = append(s.line, `,"error":`...)
	s.line = AppendError(s.line, failed)
	s.line = append(s.line, `,"elapsed_ms":`...)
	s.line = strconv.AppendFloat(s.line, math.Round(elapsed.Seconds()*1e6)/1e3, 'f', -1, 64)
	s.line = append(s.line, '}', '\n')
	if _, err := s.out.Write(s.line); err != nil {
		return err
	}
	return s.out.Flush()
}

// AppendError appends the JSON object of an error, or null.
func AppendError(dst []byte, err error) []byte {
	if err == nil {
		return append(dst, "null"...)
	}
	line, column := fault.PlaceOf(err)
	dst = appendString(append(dst, `{"class":`...), fault.ClassOf(err).String())
	dst = appendString(append(dst, `,"sqlstate":`...), fault.StateOf(err))
	dst = appendString(append(dst, `,"message":`...), err.Error())
	place := func(name string, n int) {
		dst = append(dst, ',', '"')
		dst = append(dst, name...)
		dst = append(dst, '"', ':')
		if n == 0 {
			dst = append(dst, "null"...)
		} else {
			dst = strconv.AppendInt(dst, int64(n), 10)
		}
	}
	place("line", line)
	place("column", column)
	return append(dst, '}')
}

// jsonLines writes an object a row: names to values. Numbers and booleans are
// JSON's where JSON has them, the rest is text; NULL is null.
type jsonLines struct {
	out    *bufio.Writer
	fields []schema.Field
	names  [][]byte
	cell   []byte
	line   []byte
}

func quotedNames(fields []schema.Field) [][]byte {
	out := make([][]byte, len(fields))
	for i, f := range fields {
		out[i] = append(appendString(nil, f.Name), ':')
	}
	return out
}

func (j *jsonLines) Write(b *batch.Batch) error {
	return rows(b, func(row int) error {
		j.line = append(j.line[:0], '{')
		for i, f := range j.fields {
			if i > 0 {
				j.line = append(j.line, ',')
			}
			j.line = append(j.line, j.names[i]...)
			var ok bool
			j.cell, ok = appendCell(j.cell[:0], f.Type, b.Columns[i], row)
			switch {
			case !ok:
				j.line = append(j.line, "null"...)
			case isJSONLiteral(f.Type, j.cell):
				j.line = append(j.line, j.cell...)
			default:
				j.line = appendString(j.line, j.cell)
			}
		}
		j.line = append(j.line, '}', '\n')
		_, err := j.out.Write(j.line)
		return err
	})
}

func (j *jsonLines) End() error { return j.out.Flush() }

// isJSONLiteral reports whether the text of a cell is a JSON number or
// boolean; NaN and Infinity are not.
func isJSONLiteral(t schema.Type, cell []byte) bool {
	switch {
	case t.Kind == schema.Boolean, t.IsInteger():
		return true
	case t.IsNumeric():
		return json.Valid(cell)
	}
	return false
}

const hex = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, as in encoding/json.
func appendString[S string | []byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			i++
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
