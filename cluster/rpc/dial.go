package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	nodepb "github.com/skepdb/skep/api/node"
	"github.com/skepdb/skep/internal/fault"
)

// DialOptions say how to connect.
type DialOptions struct {
	Identity Identity // the caller's
	Errors   Translator
	// Timeout bounds Dial. Default 5 s.
	Timeout time.Duration
	// Window is how many bytes of a stream may be on their way to a reader that
	// doesn't take them, at least 64 KiB; 0: gRPC measures what is best for
	// speed, up to 16 MiB.
	Window int32
	// Dialer connects to an address; nil: TCP. In-memory networks have their own.
	Dialer func(ctx context.Context, address string) (net.Conn, error)
}

// Conn is a connection to a process of Skep. It implements
// grpc.ClientConnInterface: calls return errors of ours, with their class.
// It reconnects by itself: calls meanwhile fail with a retryable error.
type Conn struct {
	o       DialOptions
	address string
	grpc    *grpc.ClientConn
	peer    Identity
}

// Dial connects to the process at address and asks who it is. What doesn't
// answer, isn't Skep, or is of another version is an error that says so. The
// caller closes the connection.
func Dial(ctx context.Context, address string, o DialOptions) (*Conn, error) {
	c, err := NewConn(address, o)
	if err != nil {
		return nil, err
	}
	if c.o.Timeout <= 0 {
		c.o.Timeout = 5 * time.Second
	}
	within, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	peer, err := c.hello(within)
	if err == nil && peer.Version != o.Identity.Version {
		err = otherVersion(c.String(), peer.Version, "this "+roleName(o.Identity), o.Identity.Version)
	}
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fault.Retryablef("%s didn't answer as a node of Skep within %s: is it another program's port?", c, c.o.Timeout)
		}
		return nil, errors.Join(err, c.Close())
	}
	c.peer = peer
	return c, nil
}

func roleName(i Identity) string {
	if i.Role == "" || i.Role == "client" {
		return "client"
	}
	return "node"
}

// NewConn returns a connection that connects when it is first used, without
// asking who is there. Its calls fail if that one is of another version.
func NewConn(address string, o DialOptions) (*Conn, error) {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return nil, fault.Userf("address %q: want HOST:PORT", address)
	}
	c := &Conn{o: o, address: address}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
	}
	if o.Window > 0 {
		options = append(options, grpc.WithInitialWindowSize(o.Window))
	}
	if o.Dialer != nil {
		options = append(options, grpc.WithContextDialer(o.Dialer))
	}
	var err error
	if c.grpc, err = grpc.NewClient("passthrough:///"+address, options...); err != nil {
		return nil, fault.Userf("address %q: %w", address, err)
	}
	return c, nil
}

// Address returns the address that was dialled.
func (c *Conn) Address() string { return c.address }

// Peer returns who is at the other end, as it said when Dial connected.
func (c *Conn) Peer() Identity { return c.peer }

// String names the other end, for messages.
func (c *Conn) String() string { return "the node at " + c.address }

// Close ends the connection and all calls on it.
func (c *Conn) Close() error { return c.grpc.Close() }

// Check asks who is at the other end now.
func (c *Conn) Check(ctx context.Context) (Identity, error) { return c.hello(ctx) }

func (c *Conn) hello(ctx context.Context) (Identity, error) {
	p, err := nodepb.NewNodeClient(c.grpc).Hello(ctx, c.o.Identity.proto())
	switch {
	case err == nil && p.GetVersion() == "", unimplemented(err):
		return Identity{}, fault.Userf("what answers at %s is not a node of Skep", c.address)
	case err == nil:
		return identityOf(p), nil
	case status.Code(err) == codes.Unknown, status.Code(err) == codes.Internal:
		return Identity{}, fault.Userf("what answers at %s is not a node of Skep: %s", c.address, reason(status.Convert(err).Message()))
	case status.Code(err) == codes.Unavailable:
		if said, other := c.probe(ctx); other {
			return Identity{}, fault.Userf("what answers at %s is not a node of Skep: it says %.60q", c.address, said)
		}
	}
	return Identity{}, c.o.Errors.Error(c.String(), err)
}

// probe looks at the first bytes of the answer to the greeting of HTTP/2, and
// reports whether they are of another protocol. The transport's own message is
// no help: what it meets first, the strange answer or a closed connection, is a
// matter of luck.
func (c *Conn) probe(ctx context.Context) (said string, other bool) {
	dial := c.o.Dialer
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	conn, err := dial(ctx, c.address)
	if err != nil {
		return "", false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// The client's preface and an empty SETTINGS frame (RFC 9113, 3.4). A server
	// answers with SETTINGS, whose type 4 is in the fourth byte of a frame.
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	answer := make([]byte, 60)
	n, _ := io.ReadAtLeast(conn, answer, 9)
	return string(answer[:n]), n > 0 && (n < 9 || answer[3] != 4)
}

// reason takes the wrapping off a transport's message.
func reason(message string) string {
	message = strings.TrimPrefix(message, "connection error: desc = ")
	message = strings.Trim(message, `"`)
	message = strings.TrimPrefix(message, "transport: Error while dialing: ")
	return message
}

func (c *Conn) outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, versionKey, c.o.Identity.Version)
}

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.translate(ctx, c.grpc.Invoke(c.outgoing(ctx), method, args, reply, opts...))
}

// NewStream implements grpc.ClientConnInterface. The stream's errors are ours too.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.grpc.NewStream(c.outgoing(ctx), desc, method, opts...)
	if err != nil {
		return nil, c.translate(ctx, err)
	}
	return &clientStream{ClientStream: s, c: c, ctx: ctx}, nil
}

// translate prefers the caller's own reason to what the transport made of it.
func (c *Conn) translate(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		if code := status.Code(err); code == codes.Canceled || code == codes.DeadlineExceeded {
			return fmt.Errorf("call %s: %w", c, ctx.Err())
		}
	}
	return c.o.Errors.Error(c.String(), err)
}

type clientStream struct {
	grpc.ClientStream
	c   *Conn
	ctx context.Context // the caller's; the stream's own ends with the stream
}

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, s.c.translate(s.ctx, err)
}

func (s *clientStream) CloseSend() error {
	return s.c.translate(s.ctx, s.ClientStream.CloseSend())
}

func (s *clientStream) SendMsg(m any) error {
	return s.c.translate(s.ctx, s.ClientStream.SendMsg(m))
}

func (s *clientStream) RecvMsg(m any) error {
	return s.c.translate(s.ctx, s.ClientStream.RecvMsg(m))
}
