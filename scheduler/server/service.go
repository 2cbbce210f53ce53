package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	clusterpb "github.com/skepdb/skep/api/cluster"
	jobspb "github.com/skepdb/skep/api/jobs"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
)

// Register makes the scheduler and its workers available to the callers of r.
func Register(r grpc.ServiceRegistrar, s *Server, w *Workers, codec wire.Codec) {
	jobspb.RegisterJobsServer(r, &service{s: s, codec: codec})
	clusterpb.RegisterClusterServer(r, w)
}

type service struct {
	jobspb.UnimplementedJobsServer
	s     *Server
	codec wire.Codec
}

func unknownJob(id string) error {
	return &fault.Error{Class: fault.User, SQLState: "02000", Message: "there is no job " + id,
		Hint: "jobs that ended long ago are forgotten; skep job list has those that are known"}
}

func (v *service) Submit(ctx context.Context, req *jobspb.SubmitRequest) (*jobspb.JobRef, error) {
	job, err := v.codec.JobOf(req.GetJob())
	if err != nil {
		return nil, err
	}
	job.ID = "" // the scheduler gives ids
	h, err := v.s.Submit(context.WithoutCancel(ctx), job)
	if err != nil {
		return nil, err
	}
	return &jobspb.JobRef{Id: string(h.ID())}, nil
}

func (v *service) handle(id string) (*Handle, error) {
	h, ok := v.s.Job(jobs.ID(id))
	if !ok {
		return nil, unknownJob(id)
	}
	return h, nil
}

func (v *service) Status(_ context.Context, req *jobspb.JobRef) (*jobspb.JobStatus, error) {
	h, err := v.handle(req.GetId())
	if err != nil {
		return nil, err
	}
	return h.message(), nil
}

// message is the job's status with its error.
func (h *Handle) message() *jobspb.JobStatus {
	status := h.Status()
	return wire.Status(&status, h.Err())
}

func (v *service) List(context.Context, *jobspb.ListRequest) (*jobspb.ListReply, error) {
	out := &jobspb.ListReply{}
	for _, st := range v.s.List() {
		out.Jobs = append(out.Jobs, wire.Status(&st, nil))
	}
	return out, nil
}

func (v *service) Watch(req *jobspb.WatchRequest, stream jobspb.Jobs_WatchServer) error {
	h, err := v.handle(req.GetId())
	if err != nil {
		return err
	}
	every := time.Duration(req.GetEveryNs())
	if every <= 0 {
		every = 100 * time.Millisecond
	}
	for {
		over := false
		select {
		case <-h.Done():
			over = true
		default:
		}
		if err := stream.Send(h.message()); err != nil || over {
			return err
		}
		v.s.wait(stream.Context(), h.Done(), every)
		if err := stream.Context().Err(); err != nil {
			return err
		}
	}
}

// wait returns after d, or when done is closed or ctx ends.
func (s *Server) wait(ctx context.Context, done <-chan struct{}, d time.Duration) {
	over := make(chan struct{})
	stop := s.o.Clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
	case <-done:
	case <-ctx.Done():
	}
}

func (v *service) Kill(_ context.Context, req *jobspb.KillRequest) (*jobspb.KillReply, error) {
	var cause error
	if req.GetReason() != "" {
		cause = errors.New(req.GetReason())
	}
	if !v.s.Kill(jobs.ID(req.GetId()), cause) {
		return nil, unknownJob(req.GetId())
	}
	return &jobspb.KillReply{}, nil
}

func (v *service) Logs(req *jobspb.LogsRequest, stream jobspb.Jobs_LogsServer) error {
	h, err := v.handle(req.GetId())
	if err != nil {
		return err
	}
	var over <-chan struct{}
	if req.GetFollow() {
		over = h.Done()
	}
	return v.s.logs.follow(stream.Context(), h.ID(), over, stream.Send)
}
