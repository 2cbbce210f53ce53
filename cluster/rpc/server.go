// Package rpc is how processes of Skep talk: one gRPC listener a process on
// which packages register their services, connections that know who is at the
// other end, and errors that keep their class on the way. Everything else
// about the network is above it.
//
// Both ends must be of one version: they exchange plans whose shape is that of
// the Go types, which may differ in the next commit. The first call on a connection
// asks for the other end's version, and every call carries the caller's.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	nodepb "github.com/skepdb/skep/api/node"
	"github.com/skepdb/skep/internal/fault"
)

// Identity is who a process is.
type Identity struct {
	Version string // equal on both sides, or they don't talk
	Role    string // "all", "master", "worker" or "client"
	ID      string // a master's or worker's own; empty for clients
	Cluster string // the id of the cluster; empty: not known (yet)
	Name    string // for people
	Master  string // where the cluster's master listens, as far as it is known
}

func (i Identity) proto() *nodepb.Identity {
	return &nodepb.Identity{Version: i.Version, Role: i.Role, Id: i.ID, Cluster: i.Cluster, Name: i.Name, Master: i.Master}
}

func identityOf(p *nodepb.Identity) Identity {
	return Identity{Version: p.GetVersion(), Role: p.GetRole(), ID: p.GetId(), Cluster: p.GetCluster(), Name: p.GetName(), Master: p.GetMaster()}
}

const (
	// maxMessage is the largest message of a call. What may be larger is streamed.
	maxMessage = 64 << 20

	versionKey = "skep-version"
	helloName  = "/skep.node.Node/Hello"
)

// ServerOptions make a Server.
type ServerOptions struct {
	Identity Identity
	Errors   Translator
	Logger   *slog.Logger // nil: none
}

// Server is the one listener of a process. Packages register their services
// before Start; it implements grpc.ServiceRegistrar.
type Server struct {
	nodepb.UnimplementedNodeServer
	o    ServerOptions
	grpc *grpc.Server

	mu      sync.Mutex
	address string
	serving sync.WaitGroup
	err     error
}

// NewServer returns a server that doesn't listen yet.
func NewServer(o ServerOptions) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream),
	)
	nodepb.RegisterNodeServer(s.grpc, s)
	return s
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(desc, impl)
}

// Identity returns who the server says it is.
func (s *Server) Identity() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.Identity
}

// Know tells the server what it didn't know of itself when it was made: its id,
// cluster, or master.
func (s *Server) Know(change func(*Identity)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.o.Identity)
}

// Start answers calls on l, which the server closes, until Close.
func (s *Server) Start(l net.Listener) {
	s.mu.Lock()
	s.address = l.Addr().String()
	s.mu.Unlock()
	s.serving.Go(func() {
		if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.o.Logger.Error("listener failed", "address", l.Addr().String(), "error", err.Error())
			s.mu.Lock()
			s.err = fmt.Errorf("serve %s: %w", l.Addr(), err)
			s.mu.Unlock()
		}
	})
}

// Address returns where the server listens, or "".
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Close refuses new calls, ends the contexts of those under way, and returns
// when their handlers have.
func (s *Server) Close() error {
	s.grpc.Stop()
	s.serving.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Hello implements the Node service.
func (s *Server) Hello(context.Context, *nodepb.Identity) (*nodepb.Identity, error) {
	return s.Identity().proto(), nil
}

// admit refuses callers of another version.
func (s *Server) admit(ctx context.Context, method string) error {
	if method == helloName {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	version := ""
	if v := md.Get(versionKey); len(v) == 1 {
		version = v[0]
	}
	if version != s.o.Identity.Version {
		return otherVersion("the caller", version, "this node", s.o.Identity.Version)
	}
	return nil
}

func otherVersion(there, theirs, here, ours string) error {
	if theirs == "" {
		theirs = "unknown"
	}
	return &fault.Error{
		Class: fault.User, SQLState: "08004",
		Message: fmt.Sprintf("%s is of version %s, %s of %s", there, theirs, here, ours),
		Hint:    "run the same build of skep on all nodes",
	}
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() { err = s.o.Errors.Status(s.caught(info.FullMethod, recover(), err)) }()
	if err := s.admit(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() { err = s.o.Errors.Status(s.caught(info.FullMethod, recover(), err)) }()
	if err := s.admit(ss.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, ss)
}

// caught makes an error of a panic: one call's bug must not end the process.
func (s *Server) caught(method string, panicked any, err error) error {
	if panicked == nil {
		return err
	}
	s.o.Logger.Error("a call panicked", "method", method, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return fault.Bugf("%s panicked: %v", method, panicked)
}

// Unimplemented reports whether err says that the other side has no such
// call; it is for gRPC's own errors, before translation.
func unimplemented(err error) bool { return status.Code(err) == codes.Unimplemented }
