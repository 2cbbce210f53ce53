// Package client fetches artifacts from another process, and sends it new ones.
package client

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	artifactpb "github.com/skepdb/skep/api/artifact"
)

// chunkSize is how many bytes go into a message.
const chunkSize = 256 << 10

// Client asks one process. Safe for concurrent use.
type Client struct{ c artifactpb.ArtifactsClient }

// New returns a client over a connection.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{artifactpb.NewArtifactsClient(conn)}
}

// Fetch returns the content of an artifact, for artifact.Store.Fetch; it is closed by
// the caller.
func (c *Client) Fetch(ctx context.Context, id string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	in, err := c.c.Fetch(ctx, &artifactpb.FetchRequest{Id: id})
	if err != nil {
		cancel()
		return nil, err
	}
	return &content{in: in, cancel: cancel}, nil
}

// content is an artifact on its way.
type content struct {
	in     grpc.ServerStreamingClient[artifactpb.Chunk]
	left   []byte
	cancel context.CancelFunc
}

func (c *content) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		m, err := c.in.Recv()
		if err != nil {
			return 0, err // io.EOF at the end
		}
		c.left = m.GetData()
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (c *content) Close() error {
	c.cancel()
	return nil
}

// Put sends a new artifact and returns its id, the SHA-256 of its content.
func (c *Client) Put(ctx context.Context, r io.Reader) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := c.c.Put(ctx)
	if err != nil {
		return "", err
	}
	for {
		buf := make([]byte, chunkSize) // gRPC keeps it
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := out.Send(&artifactpb.Chunk{Data: buf[:n]}); err != nil {
				break // CloseAndRecv says why
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return "", err
		}
	}
	reply, err := out.CloseAndRecv()
	if err != nil {
		return "", err
	}
	return reply.GetId(), nil
}
