package shuffle

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Reader implements Service. It reads what is in this process, wherever the
// sources say it is.
func (l *Local) Reader(ctx context.Context, fields []schema.Field, partition int, from []Source) (batch.Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: read partition %d: %w", partition, err)
	}
	r := &localReader{fields: fields, partition: partition}
	var gone []Attempt
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range from {
		o := l.jobs[s.Job][s.Attempt]
		if o == nil || !o.finished {
			gone = append(gone, s.Attempt)
			continue
		}
		if err := o.readable(partition, len(fields)); err != nil {
			return nil, err
		}
		r.rest = append(r.rest, o)
	}
	if gone != nil {
		return nil, &GoneError{From: gone}
	}
	return r, nil
}

// readable makes sure that a request makes sense.
func (o *output) readable(partition, fields int) error {
	if partition < 0 || partition >= len(o.sizes) {
		return fault.Bugf("shuffle: read partition %d of %s, which has %d", partition, o.a, len(o.sizes))
	}
	if fields != len(o.fields) {
		return fault.Bugf("shuffle: read %s as %d columns, it was written with %d", o.a, fields, len(o.fields))
	}
	return nil
}

// localReader walks a partition of several outputs. Of each it takes batches
// from memory as long as they are there, and goes on in the file when the output has
// been written out.
type localReader struct {
	fields    []schema.Field
	partition int
	rest      []*output
	next      int   // batch of rest[0] in memory
	rows      int64 // read of rest[0]
	disk      *diskReader
	err       error
}

func (r *localReader) Fields() []schema.Field { return r.fields }

func (r *localReader) Next(ctx context.Context) (*batch.Batch, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: read: %w", err)
	}
	for len(r.rest) > 0 {
		b, err := r.step(ctx)
		if b != nil {
			r.rows += int64(b.Rows())
			return b, nil
		}
		if err != nil && err != io.EOF {
			if r.err = err; lost(err) {
				r.err = gone(r.rest[0].a, err)
			}
			r.closeDisk()
			return nil, r.err
		}
		r.closeDisk()
		r.rest, r.next, r.rows = r.rest[1:], 0, 0
	}
	r.err = io.EOF
	return nil, r.err
}

// step returns the next batch of rest[0], or io.EOF.
func (r *localReader) step(ctx context.Context) (*batch.Batch, error) {
	o := r.rest[0]
	if r.disk != nil {
		return r.disk.Next(ctx)
	}
	o.l.mu.Lock()
	if o.dropped {
		o.l.mu.Unlock()
		return nil, errDropped
	}
	if o.file == nil {
		defer o.l.mu.Unlock()
		if r.next == len(o.parts[r.partition]) {
			return nil, io.EOF
		}
		b := o.parts[r.partition][r.next]
		r.next++
		return b, nil
	}
	file := o.file
	o.l.mu.Unlock()
	var err error
	if r.disk, err = openDisk(o.l.o.FS, file, r.fields, r.partition, r.rows); err != nil {
		return nil, err
	}
	return r.disk.Next(ctx)
}

var errDropped = errors.New("its job has ended")

// gone is the error of an output that can't be read, and has to be made again.
func gone(a Attempt, cause error) error {
	if errors.Is(cause, errDropped) {
		cause = nil
	}
	return &GoneError{From: []Attempt{a}, Cause: cause}
}

func (r *localReader) closeDisk() {
	if r.disk != nil {
		r.disk.close()
		r.disk = nil
	}
}

func (r *localReader) Close() error {
	r.closeDisk()
	r.rest = nil
	if r.err == nil || r.err == io.EOF {
		r.err = fault.Bugf("shuffle: read after close")
	}
	return nil
}

// diskReader reads a partition from an output's files.
type diskReader struct {
	*frame.Reader
	name string
	f    vfs.File
	at   extent
	skip int64 // rows that were read before, from memory
}

// openPartition opens a data file and finds a partition in it.
func openPartition(fsys vfs.FS, s *stored, partition int) (vfs.File, extent, error) {
	index, err := fsys.Open(s.index)
	if err != nil {
		return nil, extent{}, fmt.Errorf("open: %w", err)
	}
	e, err := readIndex(index, partition)
	_ = index.Close() // it was only read
	if err != nil {
		return nil, e, fmt.Errorf("%s: %w", s.index, err)
	}
	f, err := fsys.Open(s.data, vfs.SequentialReadsOption)
	if err != nil {
		return nil, e, fmt.Errorf("open: %w", err)
	}
	return f, e, nil
}

func openDisk(fsys vfs.FS, s *stored, fields []schema.Field, partition int, skip int64) (*diskReader, error) {
	f, e, err := openPartition(fsys, s, partition)
	if err != nil {
		return nil, err
	}
	src := frameSource{&frames{r: f, at: e.offset, end: e.offset + e.length}}
	return &diskReader{Reader: frame.NewReader(fields, src), name: s.data, f: f, at: e, skip: skip}, nil
}

// frameSource makes frames a frame.Source.
type frameSource struct{ *frames }

func (s frameSource) Frame(context.Context) ([]byte, error) { return s.next() }

func (d *diskReader) Next(ctx context.Context) (*batch.Batch, error) {
	for {
		b, err := d.Reader.Next(ctx)
		if err == io.EOF {
			if d.Rows() != d.at.rows {
				return nil, fmt.Errorf("%s: %w: %d rows, the index says %d", d.name, frame.ErrCorrupt, d.Rows(), d.at.rows)
			}
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		if d.skip >= int64(b.Len) {
			d.skip -= int64(b.Len)
			continue
		}
		if d.skip > 0 {
			for i, c := range b.Columns {
				b.Columns[i] = batch.Slice(c, int(d.skip), b.Len)
			}
			b.Len -= int(d.skip)
			d.skip = 0
		}
		return b, nil
	}
}

func (d *diskReader) close() { _ = d.f.Close() }

// Frames gives emit the frames of a partition from the skip-th on, which other
// processes read with frame.Reader, and returns how many rows are in all of them.
// Equal calls give streams of equal bytes, in frames of equal cut, so that a
// reader may go on where an earlier call ended. It holds one frame at a time.
func (l *Local) Frames(ctx context.Context, a Attempt, partition, skip int, emit func(frame []byte) error) (rows int64, err error) {
	l.mu.Lock()
	o := l.jobs[a.Job][a]
	if o == nil || !o.finished {
		l.mu.Unlock()
		return 0, &GoneError{From: []Attempt{a}}
	}
	if err := o.readable(partition, len(o.fields)); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	file := o.file
	var batches []*batch.Batch
	if file == nil {
		batches = o.parts[partition]
	}
	l.mu.Unlock()
	sent := skip
	if file == nil {
		if len(batches) == 0 {
			return 0, nil
		}
		n := 0
		var enc frame.Encoder
		rows, err := enc.Encode(o.fields, batches, func(f []byte) error {
			if n++; n <= sent {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			// Once it is on disk the batches should not be held for a slow reader.
			l.mu.Lock()
			stop := o.dropped || o.file != nil
			l.mu.Unlock()
			if stop {
				return errMoved
			}
			sent++
			return emit(f)
		})
		if err == nil || !errors.Is(err, errMoved) {
			return rows, err
		}
		batches = nil
		l.mu.Lock()
		file = o.file
		dropped := o.dropped
		l.mu.Unlock()
		if dropped {
			return 0, &GoneError{From: []Attempt{a}}
		}
	}
	rows, err = l.fileFrames(ctx, file, partition, sent, emit)
	if lost(err) {
		err = gone(a, err)
	}
	return rows, err
}

// lost reports whether an error of the disk means that what was written isn't there
// any more.
func lost(err error) bool {
	return errors.Is(err, errDropped) || errors.Is(err, frame.ErrCorrupt) || oserror.IsNotExist(err)
}

var errMoved = errors.New("shuffle: the output is elsewhere")

func (l *Local) fileFrames(ctx context.Context, s *stored, partition, skip int, emit func([]byte) error) (int64, error) {
	f, e, err := openPartition(l.o.FS, s, partition)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	src := frames{r: f, at: e.offset, end: e.offset + e.length}
	for {
		b, err := src.next()
		if err == io.EOF {
			return e.rows, nil
		}
		if err == nil && skip > 0 {
			skip--
			continue
		}
		if err == nil {
			err = frame.Check(b)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", s.data, err)
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := emit(b); err != nil {
			return 0, err
		}
	}
}

// Has reports whether the output of an attempt is here and finished.
func (l *Local) Has(a Attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.jobs[a.Job][a]
	return o != nil && o.finished
}
