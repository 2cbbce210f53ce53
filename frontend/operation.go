package frontend

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/parser"
)

// Operation is a statement that runs, or has run. Wait for it, then read its
// rows by Next; Status may be asked at any time, from any goroutine. It must
// be closed.
type Operation struct {
	piece  parser.Piece // as it was parsed: variables replaced
	source string       // as it was written
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu     sync.Mutex
	job    Job
	status *jobs.Status

	// Written before done is closed.
	err      error
	snapshot uint64
	fields   []schema.Field
	cursor   batch.Reader
	affected *int64
	notes    []string
	release  []func() // what Close gives back
}

// Text returns the statement with its variables replaced.
func (o *Operation) Text() string { return o.piece.Text }

// Wait waits until the statement has run and returns what it failed with.
// When ctx ends first, the statement is cancelled and still waited for.
func (o *Operation) Wait(ctx context.Context) error {
	select {
	case <-o.done:
	case <-ctx.Done():
		o.cancel(context.Cause(ctx))
		<-o.done
	}
	return o.err
}

// Cancel ends the statement soon, if it runs; Wait tells when. It may be called from
// any goroutine.
func (o *Operation) Cancel() { o.cancel(errCancelled) }

// Fields returns the columns of the result set, or nil when there is none. It
// is known when Wait has returned nil.
func (o *Operation) Fields() []schema.Field { return o.fields }

// Snapshot returns the timestamp at which the statement has read: milliseconds since
// 1970 << 20 and a counter. It is known when Wait has returned.
func (o *Operation) Snapshot() uint64 { return o.snapshot }

// Affected returns the number of rows that were written, or nil for a
// statement that writes none.
func (o *Operation) Affected() *int64 { return o.affected }

// Notes are what a person should know of a statement that succeeded: cells
// that could not be read and are NULL, duplicate keys.
func (o *Operation) Notes() []string { return o.notes }

// Next returns the next rows of the result set, or io.EOF.
func (o *Operation) Next(ctx context.Context) (*batch.Batch, error) {
	if o.cursor == nil {
		return nil, io.EOF
	}
	return o.cursor.Next(ctx)
}

// Status returns how far the statement's job is, or how it ended; false when
// there is no job (yet).
func (o *Operation) Status() (jobs.Status, bool) {
	o.mu.Lock()
	job, status := o.job, o.status
	o.mu.Unlock()
	switch {
	case status != nil:
		return *status, true
	case job != nil:
		return job.Status(), true
	}
	return jobs.Status{}, false
}

// Close cancels the statement if it runs, and frees its rows. It may be called
// twice.
func (o *Operation) Close() error {
	o.cancel(errClosed)
	<-o.done
	var err error
	if o.cursor != nil {
		err = o.cursor.Close()
	}
	for _, f := range o.release {
		f()
	}
	o.release = nil
	return err
}

// Caret returns the line that an error's place is in, with a caret below, from
// script, which the statement was cut out of; "" when there is no place.
func (o *Operation) Caret(script string, line, column int) string {
	return Caret(script, o.source, o.piece, line, column)
}

// Caret is Operation.Caret of a statement of which source was written and ran, its
// variables replaced, was run.
func Caret(script, source string, ran parser.Piece, line, column int) string {
	if ran.Text == source {
		return parser.Caret(script, line, column)
	}
	// Variables were replaced: places are in the text that came out.
	if column > ran.Pos.Column-1 && line == ran.Pos.Line {
		column -= ran.Pos.Column - 1
	}
	return parser.Caret(ran.Text, line-ran.Pos.Line+1, column)
}

// cancelled makes the end of a cancelled statement recognisable as one.
func cancelled(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &fault.Error{Class: fault.User, SQLState: "57014", Message: "the statement was cancelled", Cause: context.Canceled}
}

// errCancelled is why a statement that was cancelled has ended.
var errCancelled = errors.New("the statement was cancelled")

// errClosed is why a statement that was closed while it ran has ended.
var errClosed = errors.New("the statement was closed")

// plural is "1 cell", "2 cells".
func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(n, 10) + " " + noun
}
