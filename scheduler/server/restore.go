package server

import (
	"context"
	"time"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/scheduler"
)

// durable reports whether a job is one for the journal.
func (s *Server) durable(j *jobs.Job) bool {
	if s.o.Journal == nil {
		return false
	}
	return j.Output == nil || s.o.Durable == nil || s.o.Durable(j.Output)
}

// restore takes up the jobs of the journal. Workers have the time of one lease to
// come back with their map output.
func (s *Server) restore() {
	j := s.o.Journal
	for _, e := range j.ended {
		status, failed := wire.StatusOf(e)
		r := &record{job: &jobs.Job{ID: status.ID, Name: status.Name}, done: make(chan struct{}), status: status, err: failed}
		close(r.done)
		if s.jobs[status.ID] == nil {
			s.jobs[status.ID] = r
			s.order = append(s.order, status.ID)
			s.ended = append(s.ended, status.ID)
		}
	}
	for _, old := range j.restored {
		r := &record{job: old.job, ctx: context.Background(), done: make(chan struct{}), manifests: old.manifests, durable: true}
		if old.job.Output != nil {
			r.format = s.o.Outputs[old.job.Output.Format()]
		}
		s.jobs[old.job.ID] = r
		s.order = append(s.order, old.job.ID)
		if old.job.Output != nil && r.format == nil {
			s.post(scheduler.JobSubmitted{Job: &jobs.Job{ID: old.job.ID, Name: old.job.Name}})
			s.post(scheduler.KillJob{Job: old.job.ID, Cause: fault.Bugf("no output format %q", old.job.Output.Format())})
			continue
		}
		s.o.Logger.Info("job goes on", "job", string(old.job.ID), "won", len(old.won))
		s.post(scheduler.JobRestored{Job: old.job, Won: old.won, FirstAttempt: int(j.restarts) * attemptsARestart})
	}
	if ids := j.workers(); len(ids) > 0 {
		s.graceOver = s.o.Clock.AfterFunc(s.o.RestoreGrace, func() {
			for _, id := range ids {
				if s.connection(id) == nil {
					s.post(scheduler.WorkerLost{Worker: id})
				}
			}
		})
	}
}

// note writes to the journal what an event has changed, before its actions are done.
func (s *Server) note(e scheduler.Event) {
	f, ok := e.(scheduler.AttemptFinished)
	if !ok || s.o.Journal == nil {
		return
	}
	s.mu.Lock()
	r := s.jobs[f.ID.Job]
	won, is := s.state.Won(f.ID)
	var m *outputformat.Manifest
	if r != nil {
		if x, ok := r.manifests[f.ID]; ok {
			m = &x
		}
	}
	s.mu.Unlock()
	if r == nil || !is || !r.durable {
		return
	}
	if err := s.o.Journal.won(won, m); err != nil {
		s.o.Logger.Error("a finished attempt is not in the journal: it will run again after a restart", "attempt", f.ID.String(), "error", err.Error())
	}
}

// liveJobs are the jobs that have not ended.
func (s *Server) liveJobs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, id := range s.order {
		if r := s.jobs[id]; r != nil && !r.hasEnded() {
			out = append(out, string(id))
		}
	}
	return out
}

// Outputs returns the outputs, as Begin returned them, of the jobs that have not ended.
func (s *Server) Outputs() []outputformat.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []outputformat.Spec
	for _, id := range s.order {
		if r := s.jobs[id]; r != nil && !r.hasEnded() && r.job.Output != nil {
			out = append(out, r.job.Output)
		}
	}
	return out
}

// Job returns a known job.
func (s *Server) Job(id jobs.ID) (*Handle, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.jobs[id]
	if r == nil {
		return nil, false
	}
	return &Handle{s, r}, true
}

// Err returns why the job ended without success, or nil.
func (h *Handle) Err() error {
	if h.r.hasEnded() {
		return h.r.err
	}
	return nil
}

const defaultRestoreGrace = DefaultLease + 5*time.Second
