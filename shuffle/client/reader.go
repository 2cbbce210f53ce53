package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
)

// reader reads one partition of outputs in several processes, in their order.
// Each process's come in that order too, so that the next one needed is always the
// first in its queue, and bounded queues can't block one another.
type reader struct {
	s         *Service
	fields    []schema.Field
	partition int
	rest      []part
	open      batch.Reader // of rest[0]
	fetches   []*fetch
	cancel    context.CancelFunc
	running   sync.WaitGroup
	err       error
}

// part is one output: fetched, or in this process.
type part struct {
	source shuffle.Source
	fetch  *fetch
}

var errClosed = fault.Bugf("shuffle: read after close")

// Fields implements batch.Reader.
func (r *reader) Fields() []schema.Field { return r.fields }

// Next implements batch.Reader.
func (r *reader) Next(ctx context.Context) (*batch.Batch, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: read: %w", err)
	}
	for len(r.rest) > 0 {
		b, err := r.next(ctx)
		if err == nil {
			return b, nil
		}
		if r.open != nil {
			_ = r.open.Close() // read to its end, or broken
			r.open = nil
		}
		if err != io.EOF {
			if r.err = err; errors.Is(err, frame.ErrCorrupt) && !errors.Is(err, shuffle.ErrGone) {
				r.err = &shuffle.GoneError{From: []shuffle.Attempt{r.rest[0].source.Attempt}, Cause: err}
			}
			return nil, r.err
		}
		r.rest = r.rest[1:]
	}
	r.err = io.EOF
	return nil, r.err
}

func (r *reader) next(ctx context.Context) (*batch.Batch, error) {
	p := r.rest[0]
	if r.open == nil {
		if p.fetch == nil {
			local, err := r.s.o.Local.Reader(ctx, r.fields, r.partition, []shuffle.Source{p.source})
			if err != nil {
				return nil, err
			}
			r.open = local
		} else {
			src := &queue{chunks: p.fetch.chunks}
			r.open = &fetched{Reader: frame.NewReader(r.fields, src), src: src}
		}
	}
	return r.open.Next(ctx)
}

// Close implements batch.Reader. It waits until fetching has ended.
func (r *reader) Close() error {
	if r.open != nil {
		_ = r.open.Close() // nobody wants the rest
		r.open = nil
	}
	if r.cancel != nil {
		r.cancel()
		r.running.Wait()
	}
	r.rest = nil
	if r.err == nil || r.err == io.EOF {
		r.err = errClosed
	}
	return nil
}

// fetched reads one fetched output and checks that it is complete.
type fetched struct {
	*frame.Reader
	src *queue
}

func (f *fetched) Next(ctx context.Context) (*batch.Batch, error) {
	b, err := f.Reader.Next(ctx)
	if err == io.EOF && f.Rows() != f.src.rows {
		return nil, fmt.Errorf("shuffle: %w: %d rows were fetched of %d", frame.ErrCorrupt, f.Rows(), f.src.rows)
	}
	return b, err
}

// queue is the frames of one output, from a fetch. It implements frame.Source.
type queue struct {
	chunks <-chan chunk
	buf    []byte // frames that were not returned yet
	last   bool
	rows   int64
}

// Frame implements frame.Source.
func (q *queue) Frame(ctx context.Context) ([]byte, error) {
	for len(q.buf) == 0 {
		if q.last {
			return nil, io.EOF
		}
		select {
		case c, ok := <-q.chunks:
			if !ok {
				return nil, fmt.Errorf("shuffle: fetching has ended: %w", context.Canceled)
			}
			if c.err != nil {
				return nil, c.err
			}
			q.buf, q.last, q.rows = c.frames, c.last, c.rows
		case <-ctx.Done():
			return nil, fmt.Errorf("shuffle: read: %w", ctx.Err())
		}
	}
	n, err := frame.Size(q.buf)
	if err != nil {
		return nil, err
	}
	f := q.buf[:n]
	q.buf = q.buf[n:]
	return f, nil
}
