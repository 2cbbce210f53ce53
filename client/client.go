// Package client is the public Go client of Skep: SQL, and put, get, scan and
// delete on keyed tables. Open runs the engine in this process, over data
// folders that nothing else serves.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/node"
	"github.com/skepdb/skep/sql/parser"
)

// DefaultData is the data folder when none is given.
const DefaultData = node.DefaultData

// Batch is at most 8,192 rows as Arrow arrays.
type Batch = batch.Batch

// Options say what to open. The zero value opens DefaultData.
type Options struct {
	Data      []string // data folders; the first has the catalogue
	Workers   int      // that new folders are shared out to; 0 = 1
	Slots     int      // tasks that a worker runs at once; 0 = the processors' share
	MustExist bool     // an error, instead of a new empty folder, when the first isn't there
	Logger    *slog.Logger
	// AcceptClockJump takes the clock's word once although it says a time years
	// after the last timestamp in the data folder: without it nothing is read or
	// written then, since timestamps never go back.
	AcceptClockJump bool
}

// Client is an open engine. Its methods may be called from many goroutines at
// a time.
type Client struct {
	engine backend
	node   *node.Node // nil: the engine is a server
}

// Open opens the data folders, making those that don't exist, and the engine
// over them. Another process that holds one of them is named in the error.
func Open(ctx context.Context, o Options) (*Client, error) {
	n, err := node.Open(ctx, node.Options{Data: o.Data, Workers: o.Workers, Slots: o.Slots, MustExist: o.MustExist, AcceptClockJump: o.AcceptClockJump, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Client{engine: embedded{n}, node: n}, nil
}

// Close ends the engine: statements that run are cancelled, what was written is
// on disk, the folders are free for others. It may be called twice.
func (c *Client) Close() error { return c.engine.Close() }

// Session opens a session. The database must exist.
func (c *Client) Session(ctx context.Context, o SessionOptions) (Session, error) {
	return c.engine.session(ctx, o)
}

// Query runs one statement that has rows. Rows must be closed.
func (c *Client) Query(ctx context.Context, sql string) (*Rows, error) {
	s, err := c.Session(ctx, SessionOptions{})
	if err != nil {
		return nil, err
	}
	pieces := parser.Split(sql)
	if len(pieces) != 1 {
		return nil, errors.Join(fault.Userf("query: want one statement, got %d", len(pieces)), s.Close())
	}
	op := s.Start(ctx, pieces[0])
	end := func() error { return errors.Join(op.Close(), s.Close()) }
	if err := op.Wait(ctx); err != nil {
		return nil, errors.Join(err, end())
	}
	if op.Fields() == nil {
		return nil, errors.Join(fault.Userf("query: the statement has no rows; use Exec"), end())
	}
	return &Rows{fields: op.Fields(), next: op.Next, close: end}, nil
}

// Result is what a statement without rows did.
type Result struct {
	Affected int64    // rows that were written; 0 for statements that write none
	Notes    []string // what a person should know: cells that became NULL, duplicates
}

// Exec runs the statements of a script one after the other and returns the
// result of the last one. It stops at the first error. Rows are dropped.
func (c *Client) Exec(ctx context.Context, sql string) (r Result, err error) {
	s, err := c.Session(ctx, SessionOptions{})
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, piece := range parser.Split(sql) {
		op := s.Start(ctx, piece)
		err := op.Wait(ctx)
		r = Result{Notes: op.Notes()}
		if n := op.Affected(); n != nil {
			r.Affected = *n
		}
		if err := errors.Join(err, op.Close()); err != nil {
			return r, fmt.Errorf("statement %.80q: %w", piece.Text, err)
		}
	}
	return r, nil
}
