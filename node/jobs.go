package node

import (
	"context"
	"fmt"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/jobs"
)

// Jobs returns how far the jobs of this process are that run, and how the last ones
// ended, in the order in which they were submitted.
func (n *Node) Jobs() []jobs.Status { return n.scheduler.List() }

// JobList returns how the last jobs ended, of the processes before this one too, and
// how far those are that run, in the order in which they were submitted.
func (n *Node) JobList(context.Context) ([]jobs.Status, error) {
	now := n.scheduler.List()
	here := map[jobs.ID]bool{}
	for _, s := range now {
		here[s.ID] = true
	}
	before, err := n.history.list()
	if err != nil {
		return nil, fmt.Errorf("read the history of jobs: %w", err)
	}
	var out []jobs.Status
	for _, s := range before {
		if !here[s.ID] {
			out = append(out, s)
		}
	}
	return append(out, now...), nil
}

// JobStatus returns how far a job is, or how it ended.
func (n *Node) JobStatus(ctx context.Context, id jobs.ID) (jobs.Status, error) {
	if s, ok := n.scheduler.Status(id); ok {
		return s, nil
	}
	all, err := n.JobList(ctx)
	if err != nil {
		return jobs.Status{}, err
	}
	var known []string
	for _, s := range all {
		if s.ID == id {
			return s, nil
		}
		known = append(known, string(s.ID))
	}
	return jobs.Status{}, &fault.Error{Class: fault.User, SQLState: "42704",
		Message: fmt.Sprintf("there is no job %q", id), Hint: nearest.Hint(string(id), known)}
}

// KillJob ends a job soon. Killing one that has ended is fine.
func (n *Node) KillJob(ctx context.Context, id jobs.ID, reason string) error {
	var cause error
	if reason != "" {
		cause = fault.Userf("%s", reason)
	}
	if n.scheduler.Kill(id, cause) {
		return nil
	}
	_, err := n.JobStatus(ctx, id)
	return err
}
