// Package csv reads comma-separated files as RFC 4180 describes them: a field
// may be quoted, a quote in it is doubled, and it may have line breaks. Files
// are cut into splits at ends of records only, never at a line break in quotes. What
// package text says of lines, errors and files holds here too.
//
// A quote that isn't at the start of a field is data. What follows a closing
// quote up to the delimiter is data too, but Abort and Skip refuse such a record. With
// an Escape, the byte after it in a quoted field loses its meaning, as in
// Hive's OpenCSVSerde.
package csv

import (
	"context"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/internal/fault"
)

// Name is the format's name in a registry.
const Name = "csv"

// Spec is a text.Spec with quotes. The Delimiter "" is a comma.
type Spec struct {
	text.Spec
	Quote string // one byte; "" = a double quote
}

// Format implements inputformat.Spec.
func (s Spec) Format() string { return Name }

// New returns the format.
func New() *text.Format { return text.NewFormat(resolve) }

// Sample reads about rows rows from many places of the files: see text.Sample.
func Sample(ctx context.Context, s Spec, rows int) (batch.Reader, int64, int64, error) {
	return New().Sample(ctx, s, rows)
}

func resolve(s inputformat.Spec) (text.Spec, text.Tokenizer, error) {
	spec, ok := s.(Spec)
	if !ok {
		return text.Spec{}, nil, fault.Bugf("input format %s: a spec of type %T", Name, s)
	}
	o, err := spec.Options(',')
	if err != nil {
		return text.Spec{}, nil, err
	}
	t := &quoted{o: o, quote: '"', strict: spec.OnError != text.Null}
	if spec.Quote != "" {
		t.quote = spec.Quote[0]
	}
	switch {
	case len(spec.Quote) > 1:
		return text.Spec{}, nil, fault.Userf("CSV file: the quote %q has %d bytes, it must have one", spec.Quote, len(spec.Quote))
	case t.quote == o.Delimiter:
		return text.Spec{}, nil, fault.Userf("CSV file: %q is both the delimiter and the quote", o.Delimiter)
	case t.quote == '\n' || t.quote == '\r':
		return text.Spec{}, nil, fault.Userf("CSV file: the quote can't be a line end")
	case o.HasEscape && o.Escape == t.quote:
		t.o.HasEscape = false // doubling is what that means
	}
	return spec.Spec, t, nil
}
