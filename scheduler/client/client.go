// Package client is the scheduler of another process, for those who submit jobs
// and watch them, and who want to know the cluster.
package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	clusterpb "github.com/skepdb/skep/api/cluster"
	jobspb "github.com/skepdb/skep/api/jobs"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
)

// Client is a master's scheduler. Safe for concurrent use.
type Client struct {
	jobs    jobspb.JobsClient
	cluster clusterpb.ClusterClient
	codec   wire.Codec
}

// New returns the scheduler at the other end of conn, which stays the caller's.
func New(conn grpc.ClientConnInterface, codec wire.Codec) *Client {
	return &Client{jobs: jobspb.NewJobsClient(conn), cluster: clusterpb.NewClusterClient(conn), codec: codec}
}

// Submit starts a job, which goes on when ctx ends.
func (c *Client) Submit(ctx context.Context, job *jobs.Job) (jobs.ID, error) {
	p, err := c.codec.Job(job)
	if err != nil {
		return "", err
	}
	ref, err := c.jobs.Submit(ctx, &jobspb.SubmitRequest{Job: p})
	return jobs.ID(ref.GetId()), err
}

// Status returns how far a job is, and why it failed if it has.
func (c *Client) Status(ctx context.Context, id jobs.ID) (status jobs.Status, failed, err error) {
	p, err := c.jobs.Status(ctx, &jobspb.JobRef{Id: string(id)})
	if err != nil {
		return jobs.Status{}, nil, err
	}
	status, failed = wire.StatusOf(p)
	return status, failed, nil
}

// List returns the jobs that the scheduler knows, in the order of their submission.
func (c *Client) List(ctx context.Context) ([]jobs.Status, error) {
	reply, err := c.jobs.List(ctx, &jobspb.ListRequest{})
	if err != nil {
		return nil, err
	}
	out := make([]jobs.Status, len(reply.GetJobs()))
	for i, p := range reply.GetJobs() {
		out[i], _ = wire.StatusOf(p)
	}
	return out, nil
}

// Wait returns when a job has ended, with its last status and why it failed. f, if
// not nil, hears how far it is, at most every so often. A connection that breaks is
// made anew for as long as ctx lasts: the job goes on when its master starts again.
func (c *Client) Wait(ctx context.Context, id jobs.ID, every time.Duration, f func(jobs.Status)) (jobs.Status, error) {
	for {
		status, failed, over, err := c.watch(ctx, id, every, f)
		if over {
			return status, failed
		}
		if ctx.Err() != nil || err != nil && !errors.Is(err, fault.ErrUnavailable) {
			return status, err
		}
		timer := time.NewTimer(200 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return status, ctx.Err()
		}
	}
}

func (c *Client) watch(ctx context.Context, id jobs.ID, every time.Duration, f func(jobs.Status)) (status jobs.Status, failed error, over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.jobs.Watch(ctx, &jobspb.WatchRequest{Id: string(id), EveryNs: int64(every)})
	if err != nil {
		return status, nil, false, err
	}
	for {
		p, err := stream.Recv()
		if err == io.EOF {
			err = nil
		}
		if err != nil || p == nil {
			return status, failed, status.State > jobs.Running, err
		}
		status, failed = wire.StatusOf(p)
		if f != nil {
			f(status)
		}
	}
}

// Kill ends a job; it returns at once.
func (c *Client) Kill(ctx context.Context, id jobs.ID, reason string) error {
	_, err := c.jobs.Kill(ctx, &jobspb.KillRequest{Id: string(id), Reason: reason})
	return err
}

// Logs calls f with what the attempts of a job have written and, if it is to follow,
// goes on until the job has ended. dropped is how many bytes before text are no longer kept.
func (c *Client) Logs(ctx context.Context, id jobs.ID, follow bool, f func(a jobs.AttemptID, text []byte, dropped int64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.jobs.Logs(ctx, &jobspb.LogsRequest{Id: string(id), Follow: follow})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f(wire.AttemptOf(m.GetId()), m.GetText(), m.GetDropped()); err != nil {
			return err
		}
	}
}

// Node is a process of the cluster.
type Node struct {
	cluster.Worker
	Role    string // "all", "master", "worker"
	State   string // "up", "silent", "lost"
	Folders int
	Running int           // attempts
	Heard   time.Duration // how long ago; 0 for the master
	Since   time.Duration // how long it has been in its state; 0: as long as the master
	Gossip  string        // what gossip thinks; "" if it doesn't know
}

// Nodes returns the processes of the cluster, the master first.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	reply, err := c.cluster.Nodes(ctx, &clusterpb.NodesRequest{})
	if err != nil {
		return nil, err
	}
	out := make([]Node, len(reply.GetNodes()))
	for i, n := range reply.GetNodes() {
		w := n.GetWorker()
		out[i] = Node{
			Worker: cluster.Worker{ID: cluster.WorkerID(w.GetId()), Name: w.GetName(), Host: w.GetHost(), Rack: w.GetRack(), Slots: int(w.GetSlots()), Address: w.GetAddress()},
			Role:   n.GetRole(), State: n.GetState(), Folders: int(n.GetFolders()), Running: int(n.GetRunning()),
			Heard: time.Duration(n.GetHeardNs()), Since: time.Duration(n.GetSinceNs()), Gossip: n.GetGossip(),
		}
	}
	return out, nil
}
