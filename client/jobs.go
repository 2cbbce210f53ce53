package client

import (
	"context"
	"time"

	"github.com/skepdb/skep/jobs"
)

// Jobs returns how far the jobs are that run, and how the last ones ended, in the
// order in which they were submitted: of a server, or those that this data folder
// remembers.
func (c *Client) Jobs(ctx context.Context) ([]JobStatus, error) { return c.engine.JobList(ctx) }

// JobStatus returns how far a job is, or how it ended.
func (c *Client) JobStatus(ctx context.Context, id string) (JobStatus, error) {
	return c.engine.JobStatus(ctx, jobs.ID(id))
}

// KillJob ends a job and returns its status when it has ended. A job that has ended
// stays as it is; one that is publishing ends as it would have.
func (c *Client) KillJob(ctx context.Context, id string) (JobStatus, error) {
	if err := c.engine.KillJob(ctx, jobs.ID(id), ""); err != nil {
		return JobStatus{}, err
	}
	for {
		s, err := c.engine.JobStatus(ctx, jobs.ID(id))
		if err != nil || s.State > jobs.Running {
			return s, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// LogText is something that an attempt has written.
type LogText struct {
	Attempt string
	Text    string
	Dropped int64 // bytes before it that are no longer kept
}

// JobLogs calls f with what the attempts of a job have written and, with follow, goes
// on until the job has ended.
func (c *Client) JobLogs(ctx context.Context, id string, follow bool, f func(LogText) error) error {
	return c.engine.Logs(ctx, jobs.ID(id), follow, func(a jobs.AttemptID, text []byte, dropped int64) error {
		return f(LogText{Attempt: a.String(), Text: string(text), Dropped: dropped})
	})
}
