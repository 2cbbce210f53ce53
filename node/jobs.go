package node

import (
	"context"
	"fmt"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/jobs"
)

// JobList returns how far the jobs are that run, and how the last ones ended, in the
// order in which they were submitted.
func (n *Node) JobList(context.Context) ([]jobs.Status, error) { return n.scheduler.List(), nil }

// JobStatus returns how far a job is, or how it ended.
func (n *Node) JobStatus(_ context.Context, id jobs.ID) (jobs.Status, error) {
	s, ok := n.scheduler.Status(id)
	if !ok {
		return s, n.noJob(id)
	}
	return s, nil
}

// KillJob ends a job soon. Killing one that has ended is fine.
func (n *Node) KillJob(_ context.Context, id jobs.ID, reason string) error {
	var cause error
	if reason != "" {
		cause = fault.Userf("%s", reason)
	}
	if !n.scheduler.Kill(id, cause) {
		return n.noJob(id)
	}
	return nil
}

func (n *Node) noJob(id jobs.ID) error {
	var known []string
	for _, s := range n.scheduler.List() {
		known = append(known, string(s.ID))
	}
	return &fault.Error{Class: fault.User, SQLState: "42704", Message: fmt.Sprintf("there is no job %q", id), Hint: nearest.Hint(string(id), known)}
}
