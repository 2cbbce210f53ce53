package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/skepdb/skep/export"
	"github.com/skepdb/skep/internal/fault"
)

// HTTP serves what a node shows over HTTP: its exports.
type HTTP struct {
	server *http.Server
	l      net.Listener
	done   chan struct{}
}

// ServeHTTP follows the schedules of the exports, and serves their files at an
// address on loopback. Close ends the serving, not the schedules.
func (n *Node) ServeHTTP(address string) (*HTTP, error) {
	if err := loopback(address); err != nil {
		return nil, fault.Userf("http: %w", err)
	}
	s, err := n.FollowExports()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fault.Userf("http: listen on %s: %w", address, err)
	}
	mux := http.NewServeMux()
	h := export.Handler(s)
	mux.Handle("/exports", h)
	mux.Handle("/exports/", h)
	// A transfer may take hours; only what comes before it is bounded.
	out := &HTTP{server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}, l: l, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		if err := out.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.o.Logger.Error("http server ended", "error", err.Error())
		}
	}()
	return out, nil
}

// Address returns where it listens.
func (h *HTTP) Address() string { return h.l.Addr().String() }

// Close ends the serving; transfers have a few seconds to end.
func (h *HTTP) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := h.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = h.server.Close()
	}
	<-h.done
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	return nil
}
