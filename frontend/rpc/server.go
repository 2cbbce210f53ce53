package rpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/parser"
)

// ServerOptions make a Server.
type ServerOptions struct {
	// Session opens a session; Load runs a load, as node does.
	Session func(ctx context.Context, o frontend.Options) (*frontend.Session, error)
	Load    func(ctx context.Context, l sql.Load, progress func(frontend.Job)) (jobs.Status, error)
	Codec   *coding.Registry
	Errors  rpc.Translator
	// Dir takes files that clients send, for as long as they are loaded. Workers must
	// see it. What is in it at the start is removed.
	Dir string
	// Idle is how long a session stays of which nothing is heard. Default 1 minute.
	Idle time.Duration
	// Every is the time between two statuses of a statement. Default 200 ms.
	Every time.Duration
	// PageBytes is about the size of a page of rows. Default 1 MiB.
	PageBytes int64
	// MaxSessions bounds the open sessions. Default 1000.
	MaxSessions int
	Logger      *slog.Logger // nil: none
}

// Server implements the Frontend service.
type Server struct {
	frontendpb.UnimplementedFrontendServer
	o      ServerOptions
	base   context.Context // of everything that sessions run
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sessions map[string]*session
}

// NewServer returns a server without sessions. Close ends it.
func NewServer(o ServerOptions) (*Server, error) {
	if o.Idle <= 0 {
		o.Idle = time.Minute
	}
	if o.Every <= 0 {
		o.Every = 200 * time.Millisecond
	}
	if o.PageBytes <= 0 {
		o.PageBytes = 1 << 20
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = 1000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		return nil, fmt.Errorf("remove files that clients sent before: %w", err)
	}
	s := &Server{o: o, sessions: map[string]*session{}}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.done.Go(s.expire)
	return s, nil
}

// Register makes the server answer on a listener.
func (s *Server) Register(r grpc.ServiceRegistrar) { frontendpb.RegisterFrontendServer(r, s) }

// Close ends all sessions and waits for what they run.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	var all []*session
	for id, x := range s.sessions {
		all = append(all, x)
		delete(s.sessions, id)
	}
	s.mu.Unlock()
	s.cancel()
	for _, x := range all {
		x.end()
	}
	s.done.Wait()
	return os.RemoveAll(s.o.Dir)
}

// expire ends sessions that nobody uses, until Close.
func (s *Server) expire() {
	tick := time.NewTicker(max(s.o.Idle/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.base.Done():
			return
		}
		var old []*session
		s.mu.Lock()
		for id, x := range s.sessions {
			if x.idle() > s.o.Idle {
				old = append(old, x)
				delete(s.sessions, id)
			}
		}
		s.mu.Unlock()
		for _, x := range old {
			s.o.Logger.Info("session expired", "session", x.id)
			x.end()
		}
	}
}

// session is a client's.
type session struct {
	id     string
	server *Server
	s      *frontend.Session
	ctx    context.Context
	cancel context.CancelFunc
	dir    string

	mu      sync.Mutex
	ops     map[int64]*operation
	next    int64
	current *operation // started last
	used    time.Time
	calls   int // streams that are open
}

func (x *session) idle() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.calls > 0 {
		return 0
	}
	return time.Since(x.used)
}

// end cancels and frees everything.
func (x *session) end() {
	x.cancel()
	x.mu.Lock()
	ops := x.ops
	x.ops = map[int64]*operation{}
	x.mu.Unlock()
	for _, o := range ops {
		o.close()
	}
	if x.s != nil {
		if err := x.s.Close(context.WithoutCancel(x.ctx)); err != nil {
			x.server.o.Logger.Warn("temporary tables of a session are left", "session", x.id, "error", err)
		}
	}
	_ = os.RemoveAll(x.dir) // what stays goes at the next start
}

// OpenSession implements the service.
func (s *Server) OpenSession(ctx context.Context, req *frontendpb.OpenSessionRequest) (*frontendpb.OpenSessionReply, error) {
	x := &session{id: rand.Text(), server: s, ops: map[int64]*operation{}, used: time.Now()}
	x.dir = filepath.Join(s.o.Dir, x.id)
	var err error
	if x.s, err = s.o.Session(ctx, frontend.Options{Database: req.GetDatabase(), HiveVar: req.GetHivevar(), HiveConf: req.GetHiveconf(), Local: x.local}); err != nil {
		return nil, err
	}
	x.ctx, x.cancel = context.WithCancel(s.base)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		err = fault.Retryablef("open session: the server is closing")
	case len(s.sessions) >= s.o.MaxSessions:
		err = fault.Retryablef("open session: there are %d sessions, as many as the server takes", len(s.sessions))
	}
	if err != nil {
		x.cancel()
		return nil, err
	}
	s.sessions[x.id] = x
	return &frontendpb.OpenSessionReply{Session: x.id, Database: x.s.Database(), IdleTimeoutNs: int64(s.o.Idle)}, nil
}

// session returns an open session and notes that it is used.
func (s *Server) session(id string) (*session, error) {
	s.mu.Lock()
	x := s.sessions[id]
	s.mu.Unlock()
	if x == nil {
		return nil, &fault.Error{Class: fault.Retryable, SQLState: "08003",
			Message: "the session is not there any more", Hint: "it was idle for too long, or the server was started again: connect again"}
	}
	x.mu.Lock()
	x.used = time.Now()
	x.mu.Unlock()
	return x, nil
}

// busy keeps a session from expiring during a call.
func (x *session) busy() (done func()) {
	x.mu.Lock()
	x.calls++
	x.mu.Unlock()
	return func() {
		x.mu.Lock()
		x.calls--
		x.used = time.Now()
		x.mu.Unlock()
	}
}

// Touch implements the service.
func (s *Server) Touch(_ context.Context, req *frontendpb.SessionRef) (*frontendpb.Empty, error) {
	_, err := s.session(req.GetSession())
	return &frontendpb.Empty{}, err
}

// CloseSession implements the service.
func (s *Server) CloseSession(_ context.Context, req *frontendpb.SessionRef) (*frontendpb.Empty, error) {
	s.mu.Lock()
	x := s.sessions[req.GetSession()]
	delete(s.sessions, req.GetSession())
	s.mu.Unlock()
	if x != nil {
		x.end()
	}
	return &frontendpb.Empty{}, nil
}

// Names implements the service.
func (s *Server) Names(ctx context.Context, req *frontendpb.SessionRef) (*frontendpb.NamesReply, error) {
	x, err := s.session(req.GetSession())
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	running := x.current != nil && !x.current.ended()
	x.mu.Unlock()
	if running { // a session does one thing at a time
		return &frontendpb.NamesReply{}, nil
	}
	names, err := x.s.Names(ctx)
	return &frontendpb.NamesReply{Names: names}, err
}

// begin makes an operation known; run starts it.
func (s *Server) begin(id string, start func(x *session, o *operation)) (*session, *operation, error) {
	x, err := s.session(id)
	if err != nil {
		return nil, nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		return nil, nil, fault.Retryablef("the session has ended")
	}
	if x.current != nil && !x.current.ended() {
		return nil, nil, fault.Userf("the session runs a statement: wait for its end, or open another session")
	}
	x.next++
	o := &operation{id: x.next, session: x, done: make(chan struct{}), changed: make(chan struct{}, 1)}
	x.ops[o.id], x.current = o, o
	start(x, o)
	return x, o, nil
}

// Start implements the service.
func (s *Server) Start(req *frontendpb.StartRequest, out grpc.ServerStreamingServer[frontendpb.Event]) error {
	piece := parser.Piece{Text: req.GetText(), Pos: ast.Pos{Line: int(req.GetLine()), Column: int(req.GetColumn()), Offset: int(req.GetOffset())}}
	x, o, err := s.begin(req.GetSession(), func(x *session, o *operation) {
		op := x.s.Start(x.ctx, piece)
		o.op = op
		s.done.Go(func() {
			defer close(o.done)
			o.err = op.Wait(x.ctx)
			o.dropFiles()
		})
	})
	if err != nil {
		return err
	}
	return x.events(o, out)
}

// Load implements the service.
func (s *Server) Load(req *frontendpb.LoadRequest, out grpc.ServerStreamingServer[frontendpb.Event]) error {
	l, err := coding.Decode[sql.Load](s.o.Codec, req.GetLoad())
	if err != nil {
		return fault.Bugf("load: %w", err)
	}
	if l.Table == nil {
		return fault.Bugf("load: no table")
	}
	x, o, err := s.begin(req.GetSession(), func(x *session, o *operation) {
		ctx, cancel := context.WithCancelCause(x.ctx)
		load := &load{cancel: cancel}
		o.load = load
		s.done.Go(func() {
			defer close(o.done)
			defer cancel(nil)
			o.err = x.load(ctx, o, l)
			if load.rejects == "" {
				o.dropFiles()
			}
		})
	})
	if err != nil {
		return err
	}
	return x.events(o, out)
}

// load is a load that a client asked for.
type load struct {
	cancel context.CancelCauseFunc

	mu  sync.Mutex
	job frontend.Job
	// Written before the operation has ended.
	status  jobs.Status
	rejects string // file of rows that were left out
}

func (x *session) load(ctx context.Context, o *operation, l sql.Load) error {
	paths, err := x.files(ctx, o, &need{files: l.Files.Paths})
	if err != nil {
		return err
	}
	l.Files.Paths = paths
	rejects := ""
	if l.Files.Reject != "" {
		rejects = filepath.Join(o.dir(), "rejected")
		l.Files.Reject = rejects
	}
	status, err := x.server.o.Load(ctx, l, func(j frontend.Job) {
		o.load.mu.Lock()
		o.load.job = j
		o.load.mu.Unlock()
	})
	o.load.status = status
	if err == nil {
		o.load.rejects = rejects
	} else if ctx.Err() != nil && !errors.Is(err, context.Canceled) {
		err = &fault.Error{Class: fault.User, SQLState: "57014", Message: "the load was cancelled", Cause: context.Canceled}
	}
	return o.rename(err)
}

// Watch implements the service.
func (s *Server) Watch(req *frontendpb.OperationRef, out grpc.ServerStreamingServer[frontendpb.Event]) error {
	x, o, err := s.operation(req.GetSession(), req.GetOperation())
	if err != nil {
		return err
	}
	return x.events(o, out)
}

func (s *Server) operation(sessionID string, id int64) (*session, *operation, error) {
	x, err := s.session(sessionID)
	if err != nil {
		return nil, nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.ops[id]
	if o == nil {
		return nil, nil, fault.Bugf("statement %d of the session is closed, or never was", id)
	}
	return x, o, nil
}

// Cancel implements the service.
func (s *Server) Cancel(_ context.Context, req *frontendpb.OperationRef) (*frontendpb.Empty, error) {
	_, o, err := s.operation(req.GetSession(), req.GetOperation())
	if err != nil {
		return nil, err
	}
	o.stop(errCancelled)
	return &frontendpb.Empty{}, nil
}

var errCancelled = errors.New("the statement was cancelled")

// CloseOperation implements the service.
func (s *Server) CloseOperation(_ context.Context, req *frontendpb.OperationRef) (*frontendpb.Empty, error) {
	x, o, err := s.operation(req.GetSession(), req.GetOperation())
	if err != nil {
		return &frontendpb.Empty{}, nil // closed before, or gone with its session
	}
	x.mu.Lock()
	delete(x.ops, o.id)
	x.mu.Unlock()
	o.close()
	return &frontendpb.Empty{}, nil
}
