// Package lines reads text files as they are: a record is a line, whatever is in
// it. What package text says of lines, files and splits holds here too; a "\r"
// before a line end belongs to it.
package lines

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Name is the format's name in a registry.
const Name = "lines"

// Spec says which files to read: files, folders and patterns, as those of
// package text.
type Spec struct {
	Paths []string
}

// Format implements inputformat.Spec.
func (s Spec) Format() string { return Name }

// Fields implements inputformat.Spec: one column, line.
func (s Spec) Fields() []schema.Field {
	return []schema.Field{{Name: "line", Type: schema.StringType}}
}

// Describe implements inputformat.Spec.
func (s Spec) Describe() string {
	switch len(s.Paths) {
	case 0:
		return "no files"
	case 1:
		return "lines of " + filepath.Base(s.Paths[0])
	}
	return fmt.Sprintf("lines of %s and %d more", filepath.Base(s.Paths[0]), len(s.Paths)-1)
}

// New returns the format.
func New() *text.Format { return text.NewFormat(resolve) }

func resolve(s inputformat.Spec) (text.Spec, text.Tokenizer, error) {
	spec, ok := s.(Spec)
	if !ok {
		return text.Spec{}, nil, fault.Bugf("input format %s: a spec of type %T", Name, s)
	}
	if len(spec.Paths) == 0 {
		return text.Spec{}, nil, fault.Userf("no text file is named")
	}
	c := schema.Columns{{ID: 1, Name: "line", Type: schema.StringType}}
	return text.Spec{Paths: spec.Paths, Columns: c, Out: c}, whole{}, nil
}

// whole is a text.Tokenizer whose records have one field.
type whole struct{}

// LineEnds implements text.Tokenizer.
func (whole) LineEnds() bool { return true }

// Record implements text.Tokenizer.
func (whole) Record(data []byte, final bool) int {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1
	}
	if final {
		return len(data)
	}
	return -1
}

// Tokenize implements text.Tokenizer.
func (whole) Tokenize(b *text.Block, final bool) {
	for !b.Full() && b.Pos < b.Len {
		start, end := b.Pos, b.Len
		next := end
		if i := bytes.IndexByte(b.Data[start:b.Len], '\n'); i >= 0 {
			end = start + i
			next = end + 1
		} else if !final {
			return
		}
		if end > start && b.Data[end-1] == '\r' {
			end--
		}
		row := b.Begin()
		b.Cells()[0][row] = schema.Cell{Start: int32(start), Len: int32(end - start)}
		b.End(start, end, 1)
		b.Pos = next
	}
}
