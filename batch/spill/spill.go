// Package spill keeps runs of batches on disk for operators whose memory is
// not enough. A run is written once and may then be read any number of times, also
// by several readers.
//
// A run's file is an Arrow IPC stream, each record batch's buffers compressed as
// LZ4 frames, cut into blocks of at most 64 KiB: length (4 bytes, little-endian), CRC32C
// of the payload (4 bytes), payload. Text is plain there, never coded. Files are
// private to their task: they have no name, or lose it when the task ends, so
// nothing is left behind.
package spill

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

const (
	blockSize  = 64 << 10
	headerSize = 8
)

// Space is where one task keeps its runs. Not safe for concurrent use.
type Space struct {
	dir   string
	named []string // files that couldn't be unlinked while open
	open  map[*os.File]bool
	bytes int64
	runs  int
}

// New returns a space for files in dir, which is made when the first run is; ""
// is the system's folder for temporary files.
func New(dir string) *Space { return &Space{dir: dir, open: make(map[*os.File]bool)} }

// Bytes returns how many bytes have been written so far, in how many runs.
func (s *Space) Bytes() (bytes int64, runs int) { return s.bytes, s.runs }

// Close removes all runs; their readers fail from then on.
func (s *Space) Close() error {
	var errs []error
	for f := range s.open {
		errs = append(errs, f.Close())
	}
	clear(s.open)
	for _, name := range s.named {
		errs = append(errs, os.Remove(name))
	}
	s.named = nil
	return errors.Join(errs...)
}

func (s *Space) create() (*os.File, error) {
	if s.dir != "" {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, failed("make a folder for", err)
		}
	}
	f, err := os.CreateTemp(s.dir, "spill-*")
	if err != nil {
		return nil, failed("make a file for", err)
	}
	if err := os.Remove(f.Name()); err != nil { // not everywhere can an open file be removed
		s.named = append(s.named, f.Name())
	}
	s.open[f] = true
	s.runs++
	return f, nil
}

// failed: another node, or the same one later, may have a disk that works.
func failed(what string, err error) error {
	return &fault.Error{Class: fault.Retryable, Message: what + " rows that don't fit in memory", Cause: err}
}

// Writer writes a run.
type Writer struct {
	space  *Space
	fields []schema.Field
	schema *arrow.Schema
	file   *os.File
	blocks *blockWriter
	stream *ipc.Writer
	rows   int64
}

// Create begins a run of batches with these columns.
func (s *Space) Create(fields []schema.Field) (*Writer, error) {
	f, err := s.create()
	if err != nil {
		return nil, err
	}
	columns := make([]arrow.Field, len(fields))
	for i, x := range fields {
		columns[i] = arrow.Field{Name: fmt.Sprint(i), Type: x.Type.Arrow(), Nullable: true}
	}
	w := &Writer{space: s, fields: fields, schema: arrow.NewSchema(columns, nil), file: f}
	w.blocks = &blockWriter{file: f, space: s, buf: make([]byte, headerSize, 4<<10)}
	w.stream = ipc.NewWriter(w.blocks, ipc.WithSchema(w.schema), ipc.WithLZ4())
	return w, nil
}

// Write appends the selected rows of b. A column that nobody looks at may be of NULLs
// whatever its type.
func (w *Writer) Write(b *batch.Batch) error {
	b = batch.Compact(b)
	columns := make([]arrow.Array, len(b.Columns))
	for i, c := range b.Columns {
		c = batch.Plain(c)
		if want := w.schema.Field(i).Type; c.DataType().ID() == arrow.NULL && want.ID() != arrow.NULL {
			c = batch.Gather(batch.EmptyOf(want), nulls(c.Len()))
		}
		columns[i] = c
	}
	if err := w.stream.Write(array.NewRecordBatch(w.schema, columns, int64(b.Len))); err != nil {
		return failed("write", err)
	}
	w.rows += int64(b.Len)
	return nil
}

func nulls(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = -1
	}
	return out
}

// Rows returns how many have been written.
func (w *Writer) Rows() int64 { return w.rows }

// Finish ends the run, which can be read now.
func (w *Writer) Finish() (*Run, error) {
	err := w.stream.Close()
	if err == nil {
		err = w.blocks.flush()
	}
	if err != nil {
		return nil, failed("write", err)
	}
	r := &Run{Fields: w.fields, Rows: w.rows, Bytes: w.blocks.at, space: w.space, file: w.file}
	w.blocks.buf = nil
	return r, nil
}

// blockWriter cuts what is written to it into blocks.
type blockWriter struct {
	file  *os.File
	space *Space
	buf   []byte // room for a header, then the payload so far
	at    int64  // bytes in the file
}

func (w *blockWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), headerSize+blockSize-len(w.buf))
		w.buf = append(w.buf, p[:k]...)
		p = p[k:]
		if len(w.buf) == headerSize+blockSize {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *blockWriter) flush() error {
	payload := w.buf[headerSize:]
	if len(payload) == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(len(payload)))
	binary.LittleEndian.PutUint32(w.buf[4:], crc32.Checksum(payload, castagnoli))
	n, err := w.file.Write(w.buf)
	w.at += int64(n)
	w.space.bytes += int64(n)
	w.buf = w.buf[:headerSize]
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Run is batches on disk.
type Run struct {
	Fields []schema.Field
	Rows   int64
	Bytes  int64 // of the file
	space  *Space
	file   *os.File
}

// Remove frees the run's disk space; its readers fail from then on.
func (r *Run) Remove() error {
	if !r.space.open[r.file] {
		return nil
	}
	delete(r.space.open, r.file)
	return r.file.Close()
}

// Open returns a reader of the run from its beginning.
func (r *Run) Open() batch.Reader {
	return &reader{run: r}
}

type reader struct {
	run    *Run
	stream *ipc.Reader
	err    error
}

func (r *reader) Fields() []schema.Field { return r.run.Fields }
func (r *reader) Close() error           { return nil }

func (r *reader) Next(ctx context.Context) (*batch.Batch, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	b, err := r.next()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = failed("read back", err)
		}
		r.err = err
		return nil, err
	}
	return b, nil
}

func (r *reader) next() (*batch.Batch, error) {
	if r.stream == nil {
		blocks := &blockReader{in: bufio.NewReaderSize(io.NewSectionReader(r.run.file, 0, r.run.Bytes), 64<<10)}
		s, err := ipc.NewReader(blocks)
		if err != nil {
			return nil, err
		}
		r.stream = s
	}
	rec, err := r.stream.Read()
	if err != nil {
		return nil, err
	}
	b := &batch.Batch{Len: int(rec.NumRows()), Columns: make([]arrow.Array, rec.NumCols())}
	for i := range b.Columns {
		b.Columns[i] = rec.Column(i)
		b.Columns[i].Retain() // the stream lets go of them at its next step
	}
	return b, nil
}

// blockReader reads what a blockWriter wrote.
type blockReader struct {
	in   *bufio.Reader
	buf  []byte
	rest []byte
	at   int64
}

func (r *blockReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if err := r.block(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *blockReader) block() error {
	var header [headerSize]byte
	if _, err := io.ReadFull(r.in, header[:]); err != nil {
		return err // io.EOF between blocks
	}
	size := binary.LittleEndian.Uint32(header[:])
	if size == 0 || size > blockSize {
		return fmt.Errorf("spilled block at byte %d: a length of %d", r.at, size)
	}
	if cap(r.buf) < int(size) {
		r.buf = make([]byte, size)
	}
	r.buf = r.buf[:size]
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		return fmt.Errorf("spilled block at byte %d: %w", r.at, noEOF(err))
	}
	if crc32.Checksum(r.buf, castagnoli) != binary.LittleEndian.Uint32(header[4:]) {
		return fmt.Errorf("spilled block at byte %d: the checksum doesn't match", r.at)
	}
	r.at += headerSize + int64(size)
	r.rest = r.buf
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
