package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	nodepb "github.com/skepdb/skep/api/node"
	"github.com/skepdb/skep/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errGone = errors.New("the thing is gone")

type lostError struct{ id string }

func (e *lostError) Error() string        { return "lost " + e.id }
func (e *lostError) Is(target error) bool { return target == errGone }

var marks = Translator{Marks: []Mark{{
	Name: "gone", Sentinel: errGone,
	Encode: func(err error) []byte {
		if l, ok := errors.AsType[*lostError](err); ok {
			return []byte(l.id)
		}
		return nil
	},
	Decode: func(p []byte, text string) error {
		if len(p) == 0 {
			return nil
		}
		return &lostError{id: string(p)}
	},
}}}

// answer is a service of one method, Ask, and one stream, Watch, that do what
// the test says.
func answer(s *Server, ask func(context.Context) error, watch func(grpc.ServerStream) error) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Answer", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Ask", Handler: func(_ any, ctx context.Context, dec func(any) error, in grpc.UnaryServerInterceptor) (any, error) {
			var id nodepb.Identity
			if err := dec(&id); err != nil {
				return nil, err
			}
			return in(ctx, &id, &grpc.UnaryServerInfo{FullMethod: "/test.Answer/Ask"}, func(ctx context.Context, _ any) (any, error) {
				return &nodepb.Identity{Name: "done"}, ask(ctx)
			})
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, Handler: func(_ any, ss grpc.ServerStream) error { return watch(ss) }}},
	}, nil)
}

func serve(t *testing.T, version string, ask func(context.Context) error, watch func(grpc.ServerStream) error) DialOptions {
	t.Helper()
	s := NewServer(ServerOptions{Identity: Identity{Version: version, Role: "master", ID: "m1", Cluster: "c1"}, Errors: marks})
	answer(s, ask, watch)
	l := bufconn.Listen(1 << 16)
	s.Start(l)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return DialOptions{
		Identity: Identity{Version: "v1", Role: "client"}, Errors: marks,
		Dialer: func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) },
	}
}

func dial(t *testing.T, o DialOptions) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), "node:1", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ask(ctx context.Context, c *Conn) error {
	return c.Invoke(ctx, "/test.Answer/Ask", &nodepb.Identity{}, &nodepb.Identity{})
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	placed := &fault.Error{Class: fault.User, SQLState: "42000", Message: "no such thing", Line: 3, Column: 7, Hint: "try another"}
	for _, sent := range []error{
		fault.Userf("a user's"), fault.Retryablef("try again"), fault.Bugf("ours"), errors.New("nobody's"),
		placed, fmt.Errorf("compile: %w", placed),
		fmt.Errorf("read: %w", &lostError{"x.7"}), fault.Retryablef("read: %w", errGone),
		context.Canceled, fmt.Errorf("wait: %w", context.DeadlineExceeded),
		fault.Userf("%s", strings.Repeat("é", 30_000)),
	} {
		for _, how := range []string{"call", "stream"} {
			o := serve(t, "v1", func(context.Context) error { return sent }, func(grpc.ServerStream) error { return sent })
			c := dial(t, o)
			var got error
			if how == "call" {
				got = ask(t.Context(), c)
			} else {
				s, err := c.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/test.Answer/Watch")
				if err != nil {
					t.Fatal(err)
				}
				got = errors.Join(s.SendMsg(&nodepb.Identity{}), s.CloseSend(), s.RecvMsg(&nodepb.Identity{}))
				if j, ok := got.(interface{ Unwrap() []error }); ok {
					got = j.Unwrap()[0]
				}
			}
			if got == nil {
				t.Fatalf("%s: %v came as no error", how, sent)
			}
			if want := sent.Error(); len(want) < maxText && got.Error() != want {
				t.Errorf("%s: %q came as %q", how, want, got)
			} else if len(want) > maxText && (!strings.HasPrefix(want, got.Error()[:maxText-2]) || !strings.Contains(got.Error(), "bytes more")) {
				t.Errorf("%s: a long text came as %.80q", how, got)
			}
			if a, b := fault.ClassOf(sent), fault.ClassOf(got); a != b {
				t.Errorf("%s: %v: class %v came as %v", how, sent, a, b)
			}
			if a, b := fault.StateOf(sent), fault.StateOf(got); a != b {
				t.Errorf("%s: %v: SQLSTATE %v came as %v", how, sent, a, b)
			}
			l1, c1 := fault.PlaceOf(sent)
			if l2, c2 := fault.PlaceOf(got); l1 != l2 || c1 != c2 {
				t.Errorf("%s: %v: place %d:%d came as %d:%d", how, sent, l1, c1, l2, c2)
			}
			for _, sentinel := range []error{errGone, context.Canceled, context.DeadlineExceeded} {
				if errors.Is(sent, sentinel) != errors.Is(got, sentinel) {
					t.Errorf("%s: %v: is %v: %v, came as %v", how, sent, sentinel, errors.Is(sent, sentinel), errors.Is(got, sentinel))
				}
			}
			if l, ok := errors.AsType[*lostError](sent); ok {
				if m, ok := errors.AsType[*lostError](got); !ok || m.id != l.id {
					t.Errorf("%s: %v came as %#v", how, sent, got)
				}
			}
		}
	}
}

func TestPanicEndsOneCall(t *testing.T) {
	first := true
	o := serve(t, "v1", func(context.Context) error {
		if first {
			first = false
			panic("oh")
		}
		return nil
	}, nil)
	c := dial(t, o)
	if err := ask(t.Context(), c); fault.ClassOf(err) != fault.Bug || !strings.Contains(fmt.Sprint(err), "panicked: oh") {
		t.Errorf("a panic came as %v", err)
	}
	if err := ask(t.Context(), c); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestVersions(t *testing.T) {
	o := serve(t, "v2", func(context.Context) error { return nil }, nil)
	_, err := Dial(t.Context(), "node:1", o)
	if fault.ClassOf(err) != fault.User || !strings.Contains(fmt.Sprint(err), "version v2, this client of v1") {
		t.Errorf("Dial to another version: %v", err)
	}
	// One that skips the question is refused by the other side.
	c, err := NewConn("node:1", o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := ask(t.Context(), c); fault.ClassOf(err) != fault.User || !strings.Contains(fmt.Sprint(err), "version v1, this node of v2") {
		t.Errorf("a call to another version: %v", err)
	}
}

func TestPeer(t *testing.T) {
	c := dial(t, serve(t, "v1", nil, nil))
	if p := c.Peer(); p.ID != "m1" || p.Cluster != "c1" || p.Role != "master" {
		t.Errorf("the peer is %+v", p)
	}
}

// What is on the port need not be Skep.
func TestWrongPort(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	o := DialOptions{Identity: Identity{Version: "v1"}}

	web := &http.Server{Handler: http.NotFoundHandler()}
	l := listen()
	over := make(chan struct{})
	go func() { defer close(over); _ = web.Serve(l) }()
	_, err := Dial(t.Context(), l.Addr().String(), o)
	if fault.ClassOf(err) != fault.User || !strings.Contains(fmt.Sprint(err), "not a node of Skep") {
		t.Errorf("a web server: %v", err)
	}
	_ = web.Close()
	<-over

	greeting := listen()
	over = make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := greeting.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 mail.example.org ESMTP ready and willing\r\n")
			_ = c.Close()
		}
	}()
	_, err = Dial(t.Context(), greeting.Addr().String(), o)
	if err == nil || !strings.Contains(fmt.Sprint(err), "not a node of Skep") {
		t.Errorf("a mail server: %v", err)
	}
	_ = greeting.Close()
	<-over

	silent := listen()
	short := o
	short.Timeout = 50 * time.Millisecond
	_, err = Dial(t.Context(), silent.Addr().String(), short)
	if fault.ClassOf(err) != fault.Retryable || !strings.Contains(fmt.Sprint(err), "didn't answer") {
		t.Errorf("one that says nothing: %v", err)
	}
	addr := silent.Addr().String()
	_ = silent.Close()
	_, err = Dial(t.Context(), addr, o)
	if fault.ClassOf(err) != fault.Retryable || !strings.Contains(fmt.Sprint(err), "refused") {
		t.Errorf("nobody: %v", err)
	}

	plain := grpc.NewServer()
	other := listen()
	over = make(chan struct{})
	go func() { defer close(over); _ = plain.Serve(other) }()
	_, err = Dial(t.Context(), other.Addr().String(), o)
	if fault.ClassOf(err) != fault.User || !strings.Contains(fmt.Sprint(err), "not a node of Skep") {
		t.Errorf("another gRPC server: %v", err)
	}
	plain.Stop()
	<-over

	if _, err := Dial(t.Context(), "localhost", o); fault.ClassOf(err) != fault.User {
		t.Errorf("no port: %v", err)
	}
}

// Close ends the calls that are under way.
func TestCloseEndsCalls(t *testing.T) {
	s := NewServer(ServerOptions{Identity: Identity{Version: "v1"}})
	began := make(chan struct{})
	answer(s, func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}, nil)
	l := bufconn.Listen(1 << 16)
	s.Start(l)
	c := dial(t, DialOptions{Identity: Identity{Version: "v1"}, Dialer: func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }})
	ended := make(chan error, 1)
	go func() { ended <- ask(t.Context(), c) }()
	<-began
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; fault.ClassOf(err) != fault.Retryable && !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
}
