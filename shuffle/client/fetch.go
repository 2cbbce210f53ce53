package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	shufflepb "github.com/skepdb/skep/api/shuffle"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/shuffle"
)

// maxChunk is the size of the largest message, nearly.
const maxChunk = frame.MaxRaw

// place is where output is.
type place struct {
	worker  cluster.WorkerID
	address string
}

// fetch brings one partition of the attempts of one worker, in their order.
type fetch struct {
	s         *Service
	place     place
	partition int
	from      []shuffle.Attempt

	chunks chan chunk // closed at the end
	// What has been received whole: the attempts before next, and frames of it.
	next   int
	frames int64
}

// chunk is a piece of one attempt's partition, or the error that ends a fetch.
type chunk struct {
	frames []byte // checked
	last   bool
	rows   int64 // with last: of the partition
	err    error
}

// run fetches until everything is there, opening the stream again where it
// broke.
func (f *fetch) run(ctx context.Context) {
	defer close(f.chunks)
	pause, tries := f.s.o.Backoff, 0
	for f.next < len(f.from) {
		next, frames := f.next, f.frames
		err := f.stream(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return // all is there, or nobody waits for it
		case errors.Is(err, shuffle.ErrGone), fault.ClassOf(err) == fault.User:
			f.send(ctx, chunk{err: err})
			return
		}
		if f.next != next || f.frames != frames {
			pause, tries = f.s.o.Backoff, 0
		}
		if tries++; tries > f.s.o.Retries {
			if fault.ClassOf(err) != fault.Bug || errors.Is(err, frame.ErrCorrupt) {
				err = &shuffle.GoneError{From: f.from[f.next:], Cause: err}
			}
			f.send(ctx, chunk{err: err})
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause *= 2
	}
}

// send hands a chunk over; false if nobody wants it any more.
func (f *fetch) send(ctx context.Context, c chunk) bool {
	select {
	case f.chunks <- c:
		return true
	case <-ctx.Done():
		return false
	}
}

// stream fetches what is missing by one call. It returns nil when all is there.
func (f *fetch) stream(ctx context.Context) error {
	conn, err := f.s.connect(f.place.address)
	if err != nil {
		return err
	}
	defer f.s.release(conn)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the call
	req := &shufflepb.FetchRequest{Worker: string(f.place.worker), Partition: int32(f.partition), Skip: f.frames}
	for _, a := range f.from[f.next:] {
		req.From = append(req.From, &shufflepb.Attempt{Job: a.Job, Stage: int32(a.Stage), Task: int32(a.Task), Attempt: int32(a.Attempt)})
	}
	call, err := shufflepb.NewShuffleClient(conn).Fetch(ctx, req)
	if err != nil {
		return err
	}
	first := f.next
	for {
		m, err := call.Recv()
		if err == io.EOF && f.next == len(f.from) {
			return nil
		}
		if err == io.EOF {
			return fault.Retryablef("shuffle: %s ended a stream after %d of %d outputs", f.place.address, f.next-first, len(f.from)-first)
		}
		if err != nil {
			return fmt.Errorf("shuffle: fetch from worker %s: %w", f.place.worker, err)
		}
		if len(m.GetGone()) > 0 {
			return f.gone(first, m)
		}
		if first+int(m.GetSource()) != f.next || f.next == len(f.from) {
			return fault.Bugf("shuffle: %s sent output %d, want %d", f.place.address, m.GetSource(), f.next-first)
		}
		n, err := check(m.GetFrames())
		if err != nil {
			return fmt.Errorf("shuffle: from worker %s at %s: %w", f.place.worker, f.place.address, err)
		}
		if !f.send(ctx, chunk{frames: m.GetFrames(), last: m.GetLast(), rows: m.GetRows()}) {
			return ctx.Err()
		}
		f.frames += n
		if m.GetLast() {
			f.next, f.frames = f.next+1, 0
		}
	}
}

// gone returns the error of a message that says what is gone.
func (f *fetch) gone(first int, m *shufflepb.Chunk) error {
	e := &shuffle.GoneError{}
	if m.GetCause() != "" {
		e.Cause = errors.New(m.GetCause())
	}
	for _, i := range m.GetGone() {
		if i < 0 || first+int(i) >= len(f.from) {
			return fault.Bugf("shuffle: %s says that output %d of %d is gone", f.place.address, i, len(f.from)-first)
		}
		e.From = append(e.From, f.from[first+int(i)])
	}
	return e
}

// check verifies the frames of a message and counts them.
func check(b []byte) (n int64, err error) {
	for len(b) > 0 {
		size, err := frame.Size(b)
		if err == nil && size > len(b) {
			err = fmt.Errorf("%w: a frame of %d bytes in %d", frame.ErrCorrupt, size, len(b))
		}
		if err == nil {
			err = frame.Check(b[:size])
		}
		if err != nil {
			return n, err
		}
		n++
		b = b[size:]
	}
	return n, nil
}
