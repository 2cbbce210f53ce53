// Package server serves the artifacts of a process to others, and takes new ones.
package server

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	artifactpb "github.com/skepdb/skep/api/artifact"
	"github.com/skepdb/skep/jobs/artifact"
)

// chunkSize is how many bytes go into a message.
const chunkSize = 256 << 10

// Server implements the Artifacts service over a store.
type Server struct {
	artifactpb.UnimplementedArtifactsServer
	store *artifact.Store
}

// Register makes the artifacts of a store known on a listener.
func Register(r grpc.ServiceRegistrar, s *artifact.Store) {
	artifactpb.RegisterArtifactsServer(r, &Server{store: s})
}

// Fetch implements the service.
func (s *Server) Fetch(req *artifactpb.FetchRequest, out grpc.ServerStreamingServer[artifactpb.Chunk]) error {
	f, err := s.store.Open(req.GetId())
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		buf := make([]byte, chunkSize) // gRPC keeps it
		n, err := io.ReadFull(f, buf)
		if n > 0 {
			if err := out.Send(&artifactpb.Chunk{Data: buf[:n]}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Put implements the service.
func (s *Server) Put(in grpc.ClientStreamingServer[artifactpb.Chunk, artifactpb.PutReply]) error {
	id, err := s.store.Put(in.Context(), &reader{next: func() ([]byte, error) {
		c, err := in.Recv()
		return c.GetData(), err
	}})
	if err != nil {
		return err
	}
	return in.SendAndClose(&artifactpb.PutReply{Id: id})
}

// reader reads messages as one stream of bytes.
type reader struct {
	next func() ([]byte, error)
	left []byte
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		var err error
		if r.left, err = r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}
