package rpc

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"

	frontendpb "github.com/skepdb/skep/api/frontend"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/sql/parser"
)

// Client opens sessions on a server. Safe for concurrent use.
type Client struct {
	api    frontendpb.FrontendClient
	codec  *coding.Registry
	errors rpc.Translator
}

// NewClient returns a client of the server at the other end of conn, which stays
// the caller's.
func NewClient(conn grpc.ClientConnInterface, codec *coding.Registry, errors rpc.Translator) *Client {
	return &Client{api: frontendpb.NewFrontendClient(conn), codec: codec, errors: errors}
}

// Session is a session on a server, as frontend.Session is one in this process. It
// must be closed. It is not safe for concurrent use.
type Session struct {
	c        *Client
	id       string
	database string
	cancel   context.CancelFunc
	running  sync.WaitGroup
	current  *Operation
}

// Open opens a session. It is kept alive until Close. o.Local is not looked at:
// files are this process's.
func (c *Client) Open(ctx context.Context, o frontend.Options) (*Session, error) {
	r, err := c.api.OpenSession(ctx, &frontendpb.OpenSessionRequest{Database: o.Database, Hivevar: o.HiveVar, Hiveconf: o.HiveConf})
	if err != nil {
		return nil, err
	}
	s := &Session{c: c, id: r.GetSession(), database: r.GetDatabase()}
	var alive context.Context
	alive, s.cancel = context.WithCancel(context.Background())
	every := max(time.Duration(r.GetIdleTimeoutNs())/4, time.Millisecond)
	s.running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				// An error is met by the next statement, too.
				_, _ = c.api.Touch(alive, &frontendpb.SessionRef{Session: s.id})
			case <-alive.Done():
				return
			}
		}
	})
	return s, nil
}

// farewell bounds what a client tells a server at the end.
const farewell = 5 * time.Second

// Close ends the session and what it runs. It may be called twice.
func (s *Session) Close() error {
	s.cancel()
	s.running.Wait()
	if s.id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_, err := s.c.api.CloseSession(ctx, &frontendpb.SessionRef{Session: s.id})
	s.id = ""
	if fault.ClassOf(err) == fault.Retryable || errors.Is(err, context.Canceled) {
		return nil // it expires by itself
	}
	return err
}

// Database returns the current database.
func (s *Session) Database() string {
	if o := s.current; o != nil && o.ended() && o.database != "" {
		s.database = o.database
	}
	return s.database
}

// Names is frontend.Session.Names.
func (s *Session) Names(ctx context.Context) ([]string, error) {
	r, err := s.c.api.Names(ctx, &frontendpb.SessionRef{Session: s.id})
	return r.GetNames(), err
}

// Start is frontend.Session.Start.
func (s *Session) Start(ctx context.Context, piece parser.Piece) *Operation {
	s.Database() // before it is another operation's
	o := s.operation()
	o.piece, o.source = piece, piece.Text
	s.current = o
	o.run(ctx, func(ctx context.Context) (stream, error) {
		return s.c.api.Start(ctx, &frontendpb.StartRequest{Session: s.id, Text: piece.Text,
			Line: int64(piece.Pos.Line), Column: int64(piece.Pos.Column), Offset: int64(piece.Pos.Offset)})
	})
	return o
}

// Load loads files of this process into a table, as node.Load does. Rows that were
// left out are in l.Files.Reject when it has succeeded.
func (s *Session) Load(ctx context.Context, l sql.Load, progress func(frontend.Job)) (jobs.Status, error) {
	data, err := s.c.codec.Marshal(l)
	if err != nil {
		return jobs.Status{}, err
	}
	o := s.operation()
	o.reject = l.Files.Reject
	o.run(ctx, func(ctx context.Context) (stream, error) {
		return s.c.api.Load(ctx, &frontendpb.LoadRequest{Session: s.id, Load: data})
	})
	if progress != nil {
		progress(loadJob{o})
	}
	err = o.Wait(ctx)
	status, _ := o.Status()
	return status, errors.Join(err, o.Close())
}

// loadJob is a load as a frontend.Job.
type loadJob struct{ o *Operation }

func (j loadJob) Status() jobs.Status {
	s, _ := j.o.Status()
	return s
}

func (j loadJob) Wait(ctx context.Context) (jobs.Status, error) {
	select {
	case <-j.o.done:
		return j.Status(), j.o.err
	case <-ctx.Done():
		return j.Status(), ctx.Err()
	}
}

func (s *Session) operation() *Operation {
	return &Operation{s: s, done: make(chan struct{})}
}
