package client

import (
	"context"
	"log/slog"

	"github.com/skepdb/skep/node"
)

// ConnectOptions say how to be a client of a server. The zero value is right.
type ConnectOptions struct {
	Logger *slog.Logger
}

// Connect returns a client of the server at address, HOST:PORT, that `skep start`
// runs. Every call is the same as on a client of Open.
func Connect(ctx context.Context, address string, o ConnectOptions) (*Client, error) {
	r, err := node.Dial(ctx, address, node.DialOptions{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Client{engine: remote{r}}, nil
}

// remote is a server.
type remote struct{ *node.Remote }

func (r remote) session(ctx context.Context, o SessionOptions) (Session, error) {
	s, err := r.Session(ctx, o)
	if err != nil {
		return nil, err
	}
	return remoteSession{s}, nil
}
