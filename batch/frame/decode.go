package frame

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Source gives frames, one after the other.
type Source interface {
	// Frame returns the next whole frame, or io.EOF after the last one. It is
	// valid until the next call.
	Frame(ctx context.Context) ([]byte, error)
}

var errClosed = errors.New("frame: read after close")

// Reader reads the batches in frames. It implements batch.Reader; Close does
// nothing to the source.
type Reader struct {
	fields []schema.Field
	in     stream
	ipc    *ipc.Reader
	rows   int64
	err    error
}

var _ batch.Reader = (*Reader)(nil)

// NewReader returns a reader of the frames of src, which hold any number of
// streams of these columns.
func NewReader(fields []schema.Field, src Source) *Reader {
	return &Reader{fields: fields, in: stream{src: src}}
}

// Fields implements batch.Reader.
func (r *Reader) Fields() []schema.Field { return r.fields }

// Close implements batch.Reader.
func (r *Reader) Close() error {
	r.err, r.ipc, r.in.buf = errClosed, nil, nil
	return nil
}

// Rows returns how many rows were read so far.
func (r *Reader) Rows() int64 { return r.rows }

// Next implements batch.Reader. Frames that aren't what was written give an
// ErrCorrupt.
func (r *Reader) Next(ctx context.Context) (*batch.Batch, error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.err = ctx.Err(); r.err != nil {
		return nil, r.err
	}
	b, err := r.next(ctx)
	if err != nil {
		r.err, r.ipc = err, nil
		return nil, err
	}
	r.rows += int64(b.Len)
	return b, nil
}

func (r *Reader) next(ctx context.Context) (b *batch.Batch, err error) {
	// Arrow's reader catches its panics itself, but not those of arrays that
	// look into buffers that are too short.
	defer func() {
		if p := recover(); p != nil {
			err = corruptf("arrow stream: %v", p)
		}
	}()
	r.in.ctx = ctx
	defer func() { r.in.ctx = nil }()
	for {
		if r.ipc == nil {
			if err := r.in.begin(); err != nil {
				return nil, err // io.EOF between two streams is the end
			}
			if r.ipc, err = ipc.NewReader(&r.in); err != nil {
				return nil, r.in.cause(err)
			}
			if err := r.check(r.ipc.Schema()); err != nil {
				return nil, err
			}
		}
		rec, err := r.ipc.Read()
		if err == io.EOF {
			if err := r.in.finish(); err != nil {
				return nil, err
			}
			r.ipc = nil
			continue
		}
		if err != nil {
			return nil, r.in.cause(err)
		}
		if rec.NumRows() == 0 {
			continue
		}
		return r.batch(rec)
	}
}

// check compares a stream's columns with the expected ones.
func (r *Reader) check(s *arrow.Schema) error {
	if s.NumFields() != len(r.fields) {
		return corruptf("a stream of %d columns, want %d", s.NumFields(), len(r.fields))
	}
	for i, f := range r.fields {
		got := s.Field(i).Type
		if arrow.TypeEqual(got, f.Type.Arrow()) {
			continue
		}
		if f.Type.IsText() && arrow.TypeEqual(got, batch.DictionaryType()) {
			continue
		}
		return corruptf("column %d (%s) is %s, want %s", i+1, f.Name, got, f.Type)
	}
	return nil
}

func (r *Reader) batch(rec arrow.RecordBatch) (*batch.Batch, error) {
	if rec.NumRows() > batch.MaxRows {
		return nil, corruptf("a batch of %d rows, want at most %d", rec.NumRows(), batch.MaxRows)
	}
	b := &batch.Batch{Columns: make([]arrow.Array, rec.NumCols()), Len: int(rec.NumRows())}
	for i, c := range rec.Columns() {
		if c.Len() != b.Len {
			return nil, corruptf("column %d has %d values of %d", i+1, c.Len(), b.Len)
		}
		// The record is released with the next one; a batch lives on.
		c.Retain()
		b.Columns[i] = c
		if err := checkCodes(c); err != nil {
			return nil, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return b, nil
}

// checkCodes makes sure that codes name values of their dictionary: operators
// index by them.
func checkCodes(c arrow.Array) error {
	d := batch.DictionaryOf(c)
	if d == nil {
		return nil
	}
	n, valid := int32(d.Len()), batch.Validity(c)
	for k, code := range batch.Values[int32](c) {
		if (code < 0 || code >= n) && (valid == nil || batch.BitSet(valid, k)) {
			return corruptf("code %d of a dictionary of %d values", code, n)
		}
	}
	return nil
}

// stream is the bytes of one Arrow stream after the other, from frames.
type stream struct {
	src  Source
	ctx  context.Context // during a Next
	buf  []byte
	at   int
	last header // of the frame in buf
	open bool   // between begin and finish
	err  error  // of the source or a frame
}

// begin goes to the first frame of the next stream.
func (s *stream) begin() error {
	if err := s.fetch(); err != nil {
		if err == io.EOF {
			s.err = nil
		}
		return err
	}
	if s.last.flags&flagStart == 0 {
		return corruptf("the first frame of a stream is not marked as one")
	}
	s.open = true
	return nil
}

// finish checks that the stream was read to its last byte.
func (s *stream) finish() error {
	if s.err != nil && s.err != io.EOF {
		return s.err
	}
	if s.at < len(s.buf) || s.last.flags&flagEnd == 0 {
		return corruptf("the stream ends before its last frame does")
	}
	s.open = false
	return nil
}

// cause returns why reading failed: what the source said, or that the stream
// makes no sense.
func (s *stream) cause(err error) error {
	if s.err != nil && s.err != io.EOF {
		return s.err
	}
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	return corruptf("arrow stream: %v", err)
}

func (s *stream) fetch() error {
	f, err := s.src.Frame(s.ctx)
	if err != nil {
		s.err = err
		return err
	}
	if s.buf, s.last, err = unpack(s.buf[:0], f); err != nil {
		s.err = err
		return err
	}
	s.at = 0
	return nil
}

// Read implements io.Reader: io.EOF is the end of the stream.
func (s *stream) Read(p []byte) (int, error) {
	for s.at == len(s.buf) {
		if s.last.flags&flagEnd != 0 {
			return 0, io.EOF
		}
		if err := s.fetch(); err != nil {
			if err == io.EOF {
				s.err = corruptf("the frames end in the middle of a stream")
			}
			return 0, s.err
		}
		if s.last.flags&flagStart != 0 {
			s.err = corruptf("a stream begins before the one before it has ended")
			return 0, s.err
		}
	}
	n := copy(p, s.buf[s.at:])
	s.at += n
	return n, nil
}
