package text

import (
	"context"
	"errors"
	"io"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/schema"
)

const (
	samplePieces = 64
	leastSample  = 16 << 10 // bytes between two places of a sample
)

// Sample reads about rows rows of the files, from many places that are evenly spread,
// and estimates how many rows and bytes they have. Cells that can't be read are
// NULL in it whatever the Spec says.
func Sample(ctx context.Context, s Spec, rows int) (batch.Reader, int64, int64, error) {
	return New().Sample(ctx, s, rows)
}

// Sample is the function Sample for any format of this kind.
func (f *Format) Sample(ctx context.Context, s inputformat.Spec, rows int) (sample batch.Reader, estRows, estBytes int64, err error) {
	spec, tok, err := f.resolve(s)
	if err != nil {
		return nil, 0, 0, err
	}
	files, err := findFiles(spec.Paths)
	if err != nil {
		return nil, 0, 0, err
	}
	spec.OnError, spec.RejectPath = Null, ""
	var parts []Body
	size := splitSize(files, samplePieces, leastSample)
	for _, in := range files {
		for body, err := range cut(ctx, spec, tok, in, size) {
			if err != nil {
				return nil, 0, 0, err
			}
			parts = append(parts, body)
		}
		estBytes += in.bytesInside()
	}
	out := &sampled{fields: spec.Fields()}
	var read, got int64 // bytes and rows looked at
	// Files may be many; a sample reads at most so many of their parts.
	step := max(1, len(parts)/(2*samplePieces))
	places := (len(parts) + step - 1) / step
	for i := 0; i < len(parts); i += step {
		n, size, err := out.take(ctx, spec, tok, parts[i], max(1, rows/places))
		if err != nil {
			return nil, 0, 0, err
		}
		got, read = got+n, read+size
	}
	if read > 0 {
		estRows = int64(float64(got) * float64(estBytes) / float64(read))
	}
	return out, estRows, estBytes, nil
}

// bytesInside estimates the length of the text in a file.
func (f file) bytesInside() int64 {
	if f.compressed() {
		return 4 * f.Size
	}
	return f.Size
}

// sampled is the batches of a sample.
type sampled struct {
	fields  []schema.Field
	batches []*batch.Batch
}

// take reads up to rows records from the start of a part, and returns how many
// and how many bytes they have in the file.
func (s *sampled) take(ctx context.Context, spec Spec, tok Tokenizer, body Body, rows int) (n, size int64, err error) {
	r, err := newReader(spec, tok, body)
	if err != nil {
		return 0, 0, err
	}
	for n < int64(rows) {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, size, errors.Join(err, r.Close())
		}
		last := min(b.Len, rows-int(n))
		end := r.block.Pos
		if last < r.block.row {
			end = int(r.block.records[last].start)
		}
		size += int64(end) - int64(r.block.records[0].start)
		if last < b.Len {
			cut := &batch.Batch{Columns: b.Columns, Len: b.Len, Sel: make([]int32, last)}
			for i := range cut.Sel {
				cut.Sel[i] = int32(i)
			}
			b = batch.Compact(cut)
		}
		n += int64(b.Rows())
		s.batches = append(s.batches, b)
	}
	return n, size, r.Close()
}

// Fields implements batch.Reader.
func (s *sampled) Fields() []schema.Field { return s.fields }

// Next implements batch.Reader.
func (s *sampled) Next(ctx context.Context) (*batch.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(s.batches) == 0 {
		return nil, io.EOF
	}
	b := s.batches[0]
	s.batches = s.batches[1:]
	return b, nil
}

// Close implements batch.Reader.
func (s *sampled) Close() error {
	s.batches = nil
	return nil
}
