package client

import (
	"context"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/frontend"
	frontendrpc "github.com/skepdb/skep/frontend/rpc"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/node"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/sql/parser"
	"github.com/skepdb/skep/storage"
)

// SessionOptions say in which surroundings statements run.
type SessionOptions = frontend.Options

// Session has a current database and variables. Its statements run one after the
// other. It is not safe for concurrent use, and must be closed.
type Session interface {
	// Start runs a statement of a script (parser.Split cuts them). The one before
	// it must have ended. When ctx ends, the statement is cancelled.
	Start(ctx context.Context, piece parser.Piece) Operation
	// Database returns the current database.
	Database() string
	// Names returns what a person may want to type: tables and their columns.
	Names(ctx context.Context) ([]string, error)
	// Close ends the session and what it runs. It may be called twice.
	Close() error
}

// Operation is a statement that runs, or has run. Wait for it, then read its rows
// by Next; Status and Cancel may be called at any time, from any goroutine. It must
// be closed.
type Operation interface {
	// Wait waits until the statement has run and returns what it failed with.
	// When ctx ends first, the statement is cancelled and still waited for.
	Wait(ctx context.Context) error
	// Cancel ends the statement soon, if it runs.
	Cancel()
	// Text returns the statement with its variables replaced.
	Text() string
	// Fields returns the columns of the result set, or nil when there is none.
	Fields() []schema.Field
	// Affected returns the number of rows that were written, or nil for a
	// statement that writes none.
	Affected() *int64
	// Notes are what a person should know of a statement that succeeded.
	Notes() []string
	// Next returns the next rows, or io.EOF.
	Next(ctx context.Context) (*batch.Batch, error)
	// Status returns how far the statement's job is; false when there is no job (yet).
	Status() (jobs.Status, bool)
	// Caret returns the line that an error's place is in, with a caret below, from
	// script, which the statement was cut out of; "" when there is no place.
	Caret(script string, line, column int) string
	// Close cancels the statement if it runs, and frees its rows. It may be called
	// twice.
	Close() error
}

var (
	_ Operation = (*frontend.Operation)(nil)
	_ Operation = (*frontendrpc.Operation)(nil)
)

// embeddedSession is a session of this process.
type embeddedSession struct{ *frontend.Session }

func (s embeddedSession) Start(ctx context.Context, piece parser.Piece) Operation {
	return s.Session.Start(ctx, piece)
}

func (s embeddedSession) Close() error { return nil }

// remoteSession is a session on a server.
type remoteSession struct{ *frontendrpc.Session }

func (s remoteSession) Start(ctx context.Context, piece parser.Piece) Operation {
	return s.Session.Start(ctx, piece)
}

// backend is what a Client is a client of: the engine in this process, or a server.
type backend interface {
	Catalog() catalog.Store
	Store() storage.Store
	session(ctx context.Context, o SessionOptions) (Session, error)
	Load(ctx context.Context, l sql.Load, progress func(frontend.Job)) (jobs.Status, error)
	FolderOf(r storage.Region) string
	JobList(ctx context.Context) ([]jobs.Status, error)
	JobStatus(ctx context.Context, id jobs.ID) (jobs.Status, error)
	KillJob(ctx context.Context, id jobs.ID, reason string) error
	Logs(ctx context.Context, id jobs.ID, follow bool, f func(a jobs.AttemptID, text []byte, dropped int64) error) error
	Close() error
}

// embedded is the engine in this process.
type embedded struct{ *node.Node }

func (e embedded) session(ctx context.Context, o SessionOptions) (Session, error) {
	s, err := e.Session(ctx, o)
	if err != nil {
		return nil, err
	}
	return embeddedSession{s}, nil
}
