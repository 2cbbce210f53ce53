// Package text reads delimited text files: a record a line, fields between
// one-byte delimiters, as Hive's LazySimpleSerDe. Package csv adds quotes.
//
// # Lines
//
// A line ends at "\n" or "\r\n" (a "\r" elsewhere is data), the last one also
// at the end of the file. A byte order mark at the start of a file is skipped.
// Files are cut into splits at ends of records only, so every record belongs to
// exactly one split. Files named *.gz, *.bz2,
// *.deflate, *.zst or *.lz4 are decompressed, and not cut.
//
// # Cells that can't be read
//
// With OnError Null they are NULL and counted, as in Hive's LOAD DATA: too few
// fields are NULL, too many are ignored, an empty field of a type that isn't
// text is NULL and not counted. With Abort the first one is an error that names
// file, line, column and value; a wrong number of fields and a NULL in a NOT
// NULL column are errors too. With Skip such rows are left out, counted, and
// their lines kept (see CollectRejects). Abort and Skip ignore empty lines of
// files that have more than one column.
package text

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Name is the format's name in a registry.
const Name = "text"

// OnError says what becomes of a cell that can't be read.
type OnError uint8

// See the package's documentation.
const (
	Null OnError = iota
	Abort
	Skip
)

// String returns "null", "abort" or "skip".
func (o OnError) String() string {
	switch o {
	case Abort:
		return "abort"
	case Skip:
		return "skip"
	}
	return "null"
}

// Spec says which files to read, and how.
type Spec struct {
	// Paths are files, folders (all files in them but those whose names begin
	// with a dot or underscore) or patterns as of filepath.Match.
	Paths []string
	// Columns are the fields of a record, in order.
	Columns schema.Columns
	// Out are the columns that are wanted, by name; the others are not looked
	// at. Their types count, those of Columns don't.
	Out         schema.Columns
	Delimiter   string // one byte; "" = \x01, in package csv a comma
	Escape      string // one byte; the byte after it loses its meaning; "" = none
	Items       string // one byte, between the parts of a nested value; "" = \x02
	MapKeys     string // one byte, between key and value of a map; "" = \x03
	NullText    string // a field of this text is NULL; "" = \N
	EmptyIsNull bool   // an empty field is NULL; a quoted one isn't
	SkipHeader  int    // records at the start of each file that aren't data
	OnError     OnError
	// RejectPath is the file that rows left out by Skip are meant for.
	RejectPath string
}

var _ inputformat.Spec = Spec{}

// Format implements inputformat.Spec.
func (s Spec) Format() string { return Name }

// Fields implements inputformat.Spec.
func (s Spec) Fields() []schema.Field {
	out := make([]schema.Field, len(s.Out))
	for i, c := range s.Out {
		out[i] = schema.Field{Name: c.Name, Type: c.Type}
	}
	return out
}

// Describe implements inputformat.Spec.
func (s Spec) Describe() string {
	what := "no files"
	if len(s.Paths) > 0 {
		what = filepath.Base(s.Paths[0])
	}
	if n := len(s.Paths) - 1; n > 0 {
		what += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s, %d of %d columns", what, len(s.Out), len(s.Columns))
}

// Options are a checked Spec in the form that tokenizers use.
type Options struct {
	Delimiter   byte
	Escape      byte // meaningless unless HasEscape
	HasEscape   bool
	Items       byte
	MapKeys     byte
	NullText    []byte
	EmptyIsNull bool
	SkipBlank   bool // empty lines aren't records
}

// Options checks s and fills in defaults.
func (s Spec) Options(delimiter byte) (Options, error) {
	o := Options{Delimiter: delimiter, Items: 2, MapKeys: 3, NullText: []byte(`\N`), EmptyIsNull: s.EmptyIsNull, SkipBlank: s.OnError != Null && len(s.Columns) > 1}
	if err := oneByte("delimiter", s.Delimiter, &o.Delimiter); err != nil {
		return o, err
	}
	if err := oneByte("collection delimiter", s.Items, &o.Items); err != nil {
		return o, err
	}
	if err := oneByte("map key delimiter", s.MapKeys, &o.MapKeys); err != nil {
		return o, err
	}
	if s.Escape != "" {
		o.HasEscape = true
		if err := oneByte("escape character", s.Escape, &o.Escape); err != nil {
			return o, err
		}
		if o.Escape == o.Delimiter {
			return o, fault.Userf("text file: %q is both the delimiter and the escape character", s.Escape)
		}
	}
	if s.NullText != "" {
		o.NullText = []byte(s.NullText)
	}
	switch {
	case len(s.Paths) == 0:
		return o, fault.Userf("text file: no file is named")
	case len(s.Columns) == 0:
		return o, fault.Bugf("text file: no columns")
	case s.SkipHeader < 0:
		return o, fault.Userf("text file: %d header lines", s.SkipHeader)
	}
	for _, c := range s.Out {
		if s.Columns.Index(c.Name) < 0 {
			return o, fault.Bugf("text file: column %s is not among the file's", c.Name)
		}
	}
	return o, nil
}

// oneByte puts text into b; the empty text leaves it.
func oneByte(what, text string, b *byte) error {
	switch {
	case text == "":
		return nil
	case len(text) > 1:
		return fault.Userf("text file: the %s %q has %d bytes, it must have one", what, text, len(text))
	case strings.ContainsAny(text, "\r\n"):
		return fault.Userf("text file: the %s can't be a line end", what)
	}
	*b = text[0]
	return nil
}
