// Package server serves the output of a process's map attempts to other
// processes, as streams of frames.
package server

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"

	shufflepb "github.com/skepdb/skep/api/shuffle"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/shuffle"
)

// chunkSize is how many bytes of small frames go into one message. A message
// with a large frame is as large as the frame.
const chunkSize = 64 << 10

// Server implements the Shuffle service over a process's shuffle. It holds one
// message a call; how far it runs ahead of a slow reader is up to the
// connection's flow control.
type Server struct {
	shufflepb.UnimplementedShuffleServer
	local   *shuffle.Local
	workers []cluster.WorkerID
}

// New returns a server of what the workers of this process have written to local.
func New(local *shuffle.Local, workers ...cluster.WorkerID) *Server {
	return &Server{local: local, workers: workers}
}

// Register makes the server answer on a listener.
func (s *Server) Register(r grpc.ServiceRegistrar) { shufflepb.RegisterShuffleServer(r, s) }

// Fetch implements the service.
func (s *Server) Fetch(req *shufflepb.FetchRequest, out grpc.ServerStreamingServer[shufflepb.Chunk]) error {
	from := make([]shuffle.Attempt, len(req.GetFrom()))
	for i, a := range req.GetFrom() {
		from[i] = shuffle.Attempt{Job: a.GetJob(), Stage: int(a.GetStage()), Task: int(a.GetTask()), Attempt: int(a.GetAttempt())}
	}
	// All that is gone at once: the maps run again together.
	gone := &shufflepb.Chunk{}
	known := slices.Contains(s.workers, cluster.WorkerID(req.GetWorker()))
	if !known {
		gone.Cause = "worker " + req.GetWorker() + " is no longer here"
	}
	for i, a := range from {
		if !known || !s.local.Has(a) {
			gone.Gone = append(gone.Gone, int32(i))
		}
	}
	if gone.Gone != nil {
		return out.Send(gone)
	}
	skip := int(req.GetSkip())
	for i, a := range from {
		if err := s.send(out.Context(), out, int32(i), a, int(req.GetPartition()), skip); err != nil {
			if e, ok := errors.AsType[*shuffle.GoneError](err); ok {
				c := &shufflepb.Chunk{Gone: []int32{int32(i)}}
				if e.Cause != nil {
					c.Cause = e.Cause.Error()
				}
				return out.Send(c)
			}
			return err
		}
		skip = 0
	}
	return nil
}

// send sends a partition of one attempt.
func (s *Server) send(ctx context.Context, out grpc.ServerStreamingServer[shufflepb.Chunk], source int32, a shuffle.Attempt, partition, skip int) error {
	c := &shufflepb.Chunk{Source: source}
	rows, err := s.local.Frames(ctx, a, partition, skip, func(f []byte) error {
		if len(c.Frames) > 0 && len(c.Frames)+len(f) > chunkSize {
			if err := out.Send(c); err != nil {
				return err
			}
			c = &shufflepb.Chunk{Source: source}
		}
		c.Frames = append(c.Frames, f...)
		return nil
	})
	if err != nil {
		return err
	}
	c.Last, c.Rows = true, rows
	return out.Send(c)
}
