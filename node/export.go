package node

import (
	"context"
	"errors"
	"sync"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/export"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/parser"
)

// exportsDir is the folder of exports, inside of the first data folder.
const exportsDir = "exports"

// exports are opened when they are first asked for.
type exports struct {
	mu      sync.Mutex
	service *export.Service
	closed  bool
}

// Exports returns the exports of the data folder. Schedules are followed only after
// FollowExports.
func (n *Node) Exports() (*export.Service, error) { return n.openExports(false) }

// FollowExports follows the schedules of the exports from now on, and finishes
// what a process before this one left. It must come before Exports.
func (n *Node) FollowExports() (*export.Service, error) { return n.openExports(true) }

func (n *Node) openExports(follow bool) (*export.Service, error) {
	x := &n.exports
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, fault.Retryablef("exports: the node is closing")
	}
	if x.service == nil {
		s, err := export.Open(export.Options{Dir: n.own[0].folders[0].Path(exportsDir), Engine: exportEngine{n}, Follow: follow, Logger: n.o.Logger})
		if err != nil {
			return nil, err
		}
		x.service = s
	}
	return x.service, nil
}

func (x *exports) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.service == nil {
		return nil
	}
	return x.service.Close()
}

// exportEngine answers the queries of exports: an export.Engine.
type exportEngine struct{ n *Node }

var _ export.Engine = exportEngine{}

// selectOf returns the one SELECT that text is.
func selectOf(text string) (parser.Piece, *ast.QueryStatement, error) {
	pieces := parser.Split(text)
	if len(pieces) != 1 {
		return parser.Piece{}, nil, fault.Userf("want one SELECT, found %d statements", len(pieces))
	}
	stmt, err := parser.ParsePiece(pieces[0])
	if err != nil {
		return parser.Piece{}, nil, err
	}
	q, ok := stmt.(*ast.QueryStatement)
	if !ok {
		return parser.Piece{}, nil, fault.Userf("want a SELECT, found %.60q", text)
	}
	return pieces[0], q, nil
}

// Check implements export.Engine.
func (e exportEngine) Check(ctx context.Context, database, query string) ([]schema.Field, error) {
	_, stmt, err := selectOf(query)
	if err != nil {
		return nil, err
	}
	pin, err := e.n.catalog.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer pin.Release()
	env := e.n.Env()
	env.Database, env.At = database, pin.At()
	env.Sink = func([]schema.Field) outputformat.Spec { return nil }
	compiled, err := sql.Compile(ctx, stmt, env)
	if err != nil {
		return nil, err
	}
	q, ok := compiled.(*sql.Query)
	if !ok {
		return nil, fault.Userf("want a SELECT, found %.60q", query)
	}
	return q.Fields, nil
}

// Query implements export.Engine.
func (e exportEngine) Query(ctx context.Context, database, query string) (export.Result, error) {
	piece, _, err := selectOf(query)
	if err != nil {
		return nil, err
	}
	s, err := e.n.Session(ctx, frontend.Options{Database: database})
	if err != nil {
		return nil, err
	}
	op := s.Start(ctx, piece)
	if err := op.Wait(ctx); err != nil {
		return nil, errors.Join(err, op.Close())
	}
	return &exportResult{op}, nil
}

// exportResult is an operation whose statement has run.
type exportResult struct{ op *frontend.Operation }

func (r *exportResult) Fields() []schema.Field { return r.op.Fields() }
func (r *exportResult) Snapshot() uint64       { return r.op.Snapshot() }
func (r *exportResult) Close() error           { return r.op.Close() }
func (r *exportResult) Next(ctx context.Context) (*batch.Batch, error) {
	return r.op.Next(ctx)
}
