package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	frontendpb "github.com/skepdb/skep/api/frontend"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/sql/parser"
)

// Operation is a statement on a server, as frontend.Operation is one in this
// process. It must be closed.
type Operation struct {
	s      *Session
	piece  parser.Piece // as it ran
	source string
	reject string // file for rows that a load leaves out
	done   chan struct{}
	stop   context.CancelFunc // of its streams: the last resort

	mu        sync.Mutex
	id        int64 // 0: not known yet
	last      *jobs.Status
	cancelled bool

	// Written before done is closed.
	err      error
	fields   []schema.Field
	affected *int64
	notes    []string
	database string

	rows   []*batch.Batch // of the page
	page   int64          // the next one
	end    bool
	failed error
	closed bool
}

// stream is the events of an operation.
type stream interface {
	Recv() (*frontendpb.Event, error)
}

// reconnects is how often a broken stream is taken up again.
const reconnects = 5

// run follows an operation to its end. When ctx ends the operation is cancelled.
func (o *Operation) run(ctx context.Context, start func(context.Context) (stream, error)) {
	// The stream outlives ctx: the end of a cancelled operation is waited for.
	var streams context.Context
	streams, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, o.interrupt)
	go func() {
		defer close(o.done)
		defer o.stop()
		defer unwatch()
		defer func() {
			if p := recover(); p != nil {
				o.err = fault.Bugf("panic: %v", p)
			}
		}()
		if err := ctx.Err(); err != nil {
			o.err = err
			return
		}
		err := o.follow(streams, start)
		for try := 1; err != nil && o.known() && try <= reconnects && broken(err) && streams.Err() == nil; try++ {
			select {
			case <-time.After(time.Duration(try) * 100 * time.Millisecond):
			case <-streams.Done():
			}
			err = o.follow(streams, func(ctx context.Context) (stream, error) {
				return o.s.c.api.Watch(ctx, o.ref())
			})
		}
		if err != nil && ctx.Err() != nil {
			err = &fault.Error{Class: fault.User, SQLState: "57014", Message: "the statement was cancelled", Cause: ctx.Err()}
		}
		if err != nil {
			o.err = err
		}
	}()
}

// broken reports whether an error is the connection's, so that the operation may
// go on.
func broken(err error) bool {
	return errors.Is(err, fault.ErrUnavailable) || err == io.EOF
}

func (o *Operation) known() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.id != 0
}

func (o *Operation) ref() *frontendpb.OperationRef {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &frontendpb.OperationRef{Session: o.s.id, Operation: o.id}
}

// interrupt tells the server to cancel; if it doesn't hear, the operation ends
// here all the same.
func (o *Operation) interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	o.mu.Lock()
	o.cancelled = true
	id := o.id
	o.mu.Unlock()
	if id != 0 { // otherwise follow does it when it knows
		if _, err := o.s.c.api.Cancel(ctx, o.ref()); err != nil {
			o.stop()
			return
		}
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		o.stop()
	}
}

// follow reads events to the last one.
func (o *Operation) follow(ctx context.Context, open func(context.Context) (stream, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := open(ctx)
	if err != nil {
		return err
	}
	var rejects *os.File
	defer func() {
		if rejects != nil {
			_ = rejects.Close() // an error came before
		}
	}()
	for {
		e, err := events.Recv()
		if err != nil {
			return err
		}
		switch k := e.GetKind().(type) {
		case *frontendpb.Event_Started:
			o.mu.Lock()
			o.id = k.Started
			late := o.cancelled
			o.mu.Unlock()
			if late {
				if _, err := o.s.c.api.Cancel(ctx, o.ref()); err != nil {
					return err
				}
			}
		case *frontendpb.Event_Status:
			s, _ := wire.StatusOf(k.Status)
			o.mu.Lock()
			o.last = &s
			o.mu.Unlock()
		case *frontendpb.Event_Need:
			if err := o.upload(ctx, k.Need); err != nil {
				return err
			}
		case *frontendpb.Event_Rejected:
			if rejects == nil {
				if rejects, err = os.Create(o.reject); err != nil {
					return fault.Userf("write rejected rows: %w", err)
				}
			}
			if _, err := rejects.Write(k.Rejected); err != nil {
				return fault.Userf("write rejected rows: %w", err)
			}
		case *frontendpb.Event_Done:
			if rejects != nil {
				err := rejects.Close()
				rejects = nil
				if err != nil {
					return fault.Userf("write rejected rows: %w", err)
				}
			}
			return o.finish(ctx, k.Done)
		}
	}
}

// finish takes the last event in.
func (o *Operation) finish(ctx context.Context, d *frontendpb.Done) error {
	if d.GetStatus() != nil {
		s, _ := wire.StatusOf(d.GetStatus())
		o.mu.Lock()
		o.last = &s
		o.mu.Unlock()
	}
	if d.GetText() != "" {
		o.piece.Text = d.GetText()
	}
	o.notes, o.database, o.affected = d.GetNotes(), d.GetDatabase(), d.Affected
	if d.GetError() != nil {
		return o.s.c.errors.Decode(d.GetError())
	}
	if !d.GetHasRows() {
		return nil
	}
	var err error
	if o.fields, err = decodeFields(o.s.c.codec, d.GetFields()); err != nil {
		return err
	}
	o.rows, err = decodeRows(ctx, o.fields, d.GetFrames())
	o.page, o.end = d.GetPage(), d.GetLast()
	return err
}

// upload sends files that the server asks for.
func (o *Operation) upload(ctx context.Context, n *frontendpb.NeedFiles) error {
	out, err := o.s.c.api.Upload(ctx)
	if err != nil {
		return err
	}
	first := &frontendpb.UploadChunk{Operation: o.ref(), Need: n.GetId()}
	send := func(m *frontendpb.UploadChunk) error {
		if first != nil {
			m.Operation, m.Need = first.Operation, first.Need
			first = nil
		}
		return out.Send(m)
	}
	paths := n.GetFiles()
	if n.GetPath() != "" {
		paths, err = sql.ListFiles("", n.GetPath())
	}
	for _, p := range paths {
		if err != nil {
			break
		}
		err = sendFile(p, send)
	}
	var own *fileError
	switch {
	case err == nil:
		err = send(&frontendpb.UploadChunk{End: true})
	case errors.As(err, &own) || n.GetPath() != "" && paths == nil:
		// The statement fails with it.
		if own != nil {
			err = own.err
		}
		err = send(&frontendpb.UploadChunk{Error: o.s.c.errors.Encode(err)})
	}
	if err != nil && err != io.EOF { // io.EOF: the server says why
		return err
	}
	var m frontendpb.Empty
	if err := out.CloseSend(); err != nil {
		return err
	}
	// An error is the statement's too, whose end tells it.
	if err := out.RecvMsg(&m); err != nil && broken(err) {
		return err
	}
	return nil
}

// fileError is an error with a file here.
type fileError struct{ err error }

func (e *fileError) Error() string { return e.err.Error() }

func sendFile(path string, send func(*frontendpb.UploadChunk) error) error {
	f, err := os.Open(path)
	if err != nil {
		return &fileError{fault.Userf("load: %w", err)}
	}
	defer f.Close()
	name := path
	for {
		buf := make([]byte, uploadChunk)
		n, err := io.ReadFull(f, buf)
		if n > 0 || name != "" {
			if err := send(&frontendpb.UploadChunk{Name: name, Data: buf[:n]}); err != nil {
				return err
			}
			name = ""
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return &fileError{fault.Userf("load: read %s: %w", filepath.Clean(path), err)}
		}
	}
}

func (o *Operation) ended() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// Text is frontend.Operation.Text.
func (o *Operation) Text() string { return o.piece.Text }

// Wait is frontend.Operation.Wait.
func (o *Operation) Wait(ctx context.Context) error {
	select {
	case <-o.done:
	case <-ctx.Done():
		o.Cancel()
		<-o.done
	}
	return o.err
}

// Cancel is frontend.Operation.Cancel. It returns when the server knows, or can't be
// reached.
func (o *Operation) Cancel() {
	if !o.ended() {
		o.interrupt()
	}
}

// Fields is frontend.Operation.Fields.
func (o *Operation) Fields() []schema.Field { return o.fields }

// Affected is frontend.Operation.Affected.
func (o *Operation) Affected() *int64 { return o.affected }

// Notes is frontend.Operation.Notes.
func (o *Operation) Notes() []string { return o.notes }

// Status is frontend.Operation.Status.
func (o *Operation) Status() (jobs.Status, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		return jobs.Status{}, false
	}
	return *o.last, true
}

// Next is frontend.Operation.Next.
func (o *Operation) Next(ctx context.Context) (*batch.Batch, error) {
	for len(o.rows) == 0 {
		if o.failed != nil {
			return nil, o.failed
		}
		if o.fields == nil || o.end || o.closed {
			return nil, io.EOF
		}
		if err := o.fetch(ctx); err != nil {
			if ctx.Err() == nil {
				o.failed = err
			}
			return nil, err
		}
	}
	b := o.rows[0]
	o.rows = o.rows[1:]
	return b, nil
}

// fetch gets the next page, again if the connection breaks.
func (o *Operation) fetch(ctx context.Context) error {
	for try := 0; ; try++ {
		err := o.fetchOnce(ctx)
		if err == nil || !broken(err) || try == reconnects {
			return err
		}
		select {
		case <-time.After(time.Duration(try+1) * 100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *Operation) fetchOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ref := o.ref()
	in, err := o.s.c.api.Fetch(ctx, &frontendpb.FetchRequest{Session: ref.Session, Operation: ref.Operation, Page: o.page})
	if err != nil {
		return err
	}
	var frames []byte
	last := false
	for {
		m, err := in.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		frames = append(frames, m.GetFrames()...)
		last = m.GetLast()
	}
	rows, err := decodeRows(ctx, o.fields, frames)
	if err != nil {
		return err
	}
	o.rows, o.end, o.page = rows, last, o.page+1
	return nil
}

// Close is frontend.Operation.Close.
func (o *Operation) Close() error {
	o.Cancel()
	<-o.done
	if o.closed {
		return nil
	}
	o.closed, o.rows = true, nil
	if !o.known() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_, err := o.s.c.api.CloseOperation(ctx, o.ref())
	if err != nil && (fault.ClassOf(err) == fault.Retryable || errors.Is(err, context.Canceled)) {
		return nil // it goes with the session
	}
	if err != nil {
		return fmt.Errorf("close the statement: %w", err)
	}
	return nil
}

// Caret is frontend.Operation.Caret.
func (o *Operation) Caret(script string, line, column int) string {
	return frontend.Caret(script, o.source, o.piece, line, column)
}
