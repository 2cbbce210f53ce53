package text

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"

	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
)

const (
	// splitBytes is the most that a split has, leastSplit the least unless the
	// file is smaller.
	splitBytes = 64 << 20
	leastSplit = 512 << 10
	// maxRecord bounds a record: a missing quote must not eat a file's worth of memory.
	maxRecord = 64 << 20
	// bufferBytes is read at a time; about a batch of usual lines.
	bufferBytes = 1 << 20
)

// Body is what a split of this format carries: records that begin in
// [Start, End) of one file. Both are ends of records.
type Body struct {
	File       file
	Start, End int64 // End is math.MaxInt64 in compressed files
}

// Resolve turns a format's Spec into a text Spec and its tokenizer, checked.
type Resolve func(inputformat.Spec) (Spec, Tokenizer, error)

// Format implements inputformat.Format for any Tokenizer.
type Format struct{ resolve Resolve }

var _ inputformat.Format = (*Format)(nil)

// New returns the format of delimited files without quotes.
func New() *Format { return NewFormat(resolve) }

// NewFormat returns a format with other records and fields, for package csv.
func NewFormat(r Resolve) *Format { return &Format{resolve: r} }

func resolve(s inputformat.Spec) (Spec, Tokenizer, error) {
	spec, ok := s.(Spec)
	if !ok {
		return Spec{}, nil, fault.Bugf("input format %s: a spec of type %T", Name, s)
	}
	o, err := spec.Options('\x01')
	return spec, &delimited{o}, err
}

// Splits implements inputformat.Format.
func (f *Format) Splits(ctx context.Context, s inputformat.Spec, w inputformat.Want) iter.Seq2[inputformat.Split, error] {
	return func(yield func(inputformat.Split, error) bool) {
		spec, tok, err := f.resolve(s)
		if err != nil {
			yield(inputformat.Split{}, err)
			return
		}
		files, err := findFiles(spec.Paths)
		if err != nil {
			yield(inputformat.Split{}, err)
			return
		}
		size := splitSize(files, w.Parallelism, leastSplit)
		for _, in := range files {
			for body, err := range cut(ctx, spec, tok, in, size) {
				if err != nil {
					yield(inputformat.Split{}, err)
					return
				}
				if !yield(splitOf(body), nil) {
					return
				}
			}
		}
	}
}

func splitOf(b Body) inputformat.Split {
	name := filepath.Base(b.File.Path)
	if b.File.compressed() {
		return inputformat.Split{Label: name, Bytes: b.File.Size, Body: b}
	}
	return inputformat.Split{Label: fmt.Sprintf("%s:%d-%d", name, b.Start, b.End), Bytes: b.End - b.Start, Body: b}
}

// splitSize returns how long splits should be so that there are at least n.
func splitSize(files []file, n int, least int64) int64 {
	var total int64
	for _, f := range files {
		total += f.Size
	}
	if n > 1 {
		return min(splitBytes, max(least, (total+int64(n)-1)/int64(n)))
	}
	return splitBytes
}

// cut yields the parts of a file, none if it has no records.
func cut(ctx context.Context, spec Spec, tok Tokenizer, in file, size int64) iter.Seq2[Body, error] {
	return func(yield func(Body, error) bool) {
		start, err := headerEnd(ctx, spec, tok, in)
		if err != nil {
			yield(Body{}, err)
			return
		}
		if in.compressed() {
			yield(Body{File: in, Start: start, End: math.MaxInt64}, nil)
			return
		}
		// A rest of less than a tenth goes with the last part.
		var r *recordReader
		for in.Size-start > size+size/10 {
			var end int64
			if tok.LineEnds() {
				end, err = lineEnd(in, start+size)
			} else {
				// Only reading on from the last cut tells what is quoted.
				if r == nil {
					if r, err = newRecordReader(tok, in, start); err != nil {
						yield(Body{}, err)
						return
					}
				}
				end, err = r.skipTo(ctx, start+size)
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Body{}, errors.Join(err, r.close()))
				return
			}
			if end >= in.Size {
				break
			}
			if !yield(Body{File: in, Start: start, End: end}, nil) {
				r.close()
				return
			}
			start = end
		}
		if err := r.close(); err != nil {
			yield(Body{}, err)
			return
		}
		if start < in.Size {
			yield(Body{File: in, Start: start, End: in.Size}, nil)
		}
	}
}

// lineEnd returns the position after the first line end at or after from-1.
func lineEnd(in file, from int64) (int64, error) {
	at := from - 1
	h, err := in.open(at)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := h.Read(buf)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return at + int64(i) + 1, h.Close()
		}
		at += int64(n)
		if errors.Is(err, io.EOF) {
			return in.Size, h.Close()
		}
		if err != nil {
			return 0, errors.Join(in.readError(err), h.Close())
		}
	}
}

// headerEnd returns where the data of a file begins: after a byte order mark
// and the header.
func headerEnd(ctx context.Context, spec Spec, tok Tokenizer, in file) (int64, error) {
	r, err := newRecordReader(tok, in, 0)
	if err != nil {
		return 0, err
	}
	if err := r.skipMark(); err != nil {
		return 0, errors.Join(err, r.close())
	}
	for range spec.SkipHeader {
		if more, err := r.skip(ctx); err != nil || !more {
			return r.offset(), errors.Join(err, r.close())
		}
	}
	return r.offset(), r.close()
}

// recordReader walks over the records of a file without looking into them.
type recordReader struct {
	tok  Tokenizer
	in   file
	r    io.ReadCloser
	buf  []byte // the unread bytes are buf[pos:end]
	pos  int
	end  int
	base int64 // file offset of buf[0]
	eof  bool
}

func newRecordReader(tok Tokenizer, in file, from int64) (*recordReader, error) {
	r, err := in.open(from)
	if err != nil {
		return nil, err
	}
	return &recordReader{tok: tok, in: in, r: r, base: from}, nil
}

func (r *recordReader) close() error {
	if r == nil {
		return nil
	}
	return r.r.Close()
}

func (r *recordReader) offset() int64 { return r.base + int64(r.pos) }

func (r *recordReader) fill() error {
	copy(r.buf, r.buf[r.pos:r.end])
	r.base += int64(r.pos)
	r.end -= r.pos
	r.pos = 0
	if r.end == len(r.buf) {
		if len(r.buf) >= maxRecord {
			return tooLong(r.in, r.base)
		}
		r.buf = append(make([]byte, 0, max(64<<10, 2*len(r.buf))), r.buf...)
		r.buf = r.buf[:cap(r.buf)]
	}
	n, err := io.ReadFull(r.r, r.buf[r.end:])
	r.end += n
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// A gzip stream that ends early says ErrUnexpectedEOF too; the reader of
		// the split will find it.
		r.eof = true
		return nil
	}
	if err != nil {
		return r.in.readError(err)
	}
	return nil
}

func tooLong(in file, offset int64) error {
	line, err := in.lineAt(offset)
	if err != nil {
		return err
	}
	return fault.Userf("%s, line %d: the record is longer than %d MiB (is a quote missing?)", in.Path, line, maxRecord>>20)
}

func (r *recordReader) skipMark() error {
	if err := r.fill(); err != nil {
		return err
	}
	if bytes.HasPrefix(r.buf[:r.end], []byte("\xef\xbb\xbf")) {
		r.pos = 3
	}
	return nil
}

// skip goes over one record; false: there is none.
func (r *recordReader) skip(ctx context.Context) (bool, error) {
	for {
		if n := r.tok.Record(r.buf[r.pos:r.end], r.eof); n > 0 {
			r.pos += n
			return true, nil
		}
		if r.eof {
			return false, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err := r.fill(); err != nil {
			return false, err
		}
	}
}

// skipTo goes on to the first start of a record at or after offset.
func (r *recordReader) skipTo(ctx context.Context, offset int64) (int64, error) {
	for r.offset() < offset {
		if more, err := r.skip(ctx); err != nil || !more {
			return r.offset(), err
		}
	}
	return r.offset(), nil
}

// Open implements inputformat.Format.
func (f *Format) Open(_ context.Context, s inputformat.Spec, sp inputformat.Split) (inputformat.Reader, error) {
	spec, tok, err := f.resolve(s)
	if err != nil {
		return nil, err
	}
	body, ok := sp.Body.(Body)
	if !ok {
		return nil, fault.Bugf("input format %s: a split of type %T", Name, sp.Body)
	}
	return newReader(spec, tok, body)
}
