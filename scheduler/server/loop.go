package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/scheduler"
)

// loop steps the core until the server ends.
func (s *Server) loop() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.signal:
		}
		s.inboxMu.Lock()
		events := s.inbox
		s.inbox = nil
		s.inboxMu.Unlock()
		for _, e := range events {
			s.mu.Lock()
			actions := s.state.Step(s.now(), e)
			s.mu.Unlock()
			s.note(e)
			for _, a := range actions {
				s.perform(a)
			}
		}
	}
}

func (s *Server) perform(a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.Launch:
		s.launch(a)
	case scheduler.Cancel:
		if c := s.connection(a.Worker); c != nil {
			c.Cancel(a.ID)
		}
	case scheduler.Publish:
		s.inOrder(a.Job, func(r *record) { s.publish(r, a.Won) })
	case scheduler.Abandon:
		s.inOrder(a.Job, s.abandon)
	case scheduler.DropShuffle:
		s.inOrder(a.Job, func(*record) { s.dropShuffle(a.Job) })
	case scheduler.Finished:
		s.inOrder(a.Job, func(r *record) { s.finish(r, a) })
	case scheduler.Rest:
		s.o.Logger.Warn("worker gets a rest, attempts of several tasks failed on it", "worker", string(a.Worker), "for", (time.Duration(a.Until-s.now()) * time.Millisecond).String())
	case scheduler.Wake:
		s.wake(a.At)
	}
}

func (s *Server) wake(at scheduler.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopper != nil {
		s.stopper()
	}
	// A millisecond is the core's grain: up to one is lost in rounding.
	d := s.started.Add(time.Duration(at) * time.Millisecond).Sub(s.o.Clock.Now())
	s.stopper = s.o.Clock.AfterFunc(max(d, 0), func() { s.post(scheduler.Tick{}) })
}

func (s *Server) connection(id cluster.WorkerID) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[id]
}

// launch sends an attempt to its worker.
func (s *Server) launch(l scheduler.Launch) {
	s.mu.Lock()
	c, r := s.workers[l.Worker], s.jobs[l.ID.Job]
	s.mu.Unlock()
	if c == nil || r == nil {
		return // the worker is lost; the core hears of it next
	}
	st := r.job.Stages[l.ID.Stage]
	a := jobs.Assignment{ID: l.ID, Stage: st, Task: &st.Tasks[l.ID.Task]}
	for i, in := range st.Inputs {
		src := r.job.Stages[in]
		a.Inputs = append(a.Inputs, jobs.Input{
			Fields: src.Fields, Partitions: src.Partitions, Broadcast: st.IsBroadcast(i), From: l.Inputs[i], Workers: l.Holders[i],
		})
	}
	a.Addresses = s.addresses(l.Holders)
	if st.Partitions == 0 {
		a.Output = r.job.Output
	}
	if err := c.Launch(c.ctx, a, reporter{s}); err != nil {
		s.post(scheduler.AttemptFailed{ID: l.ID, Class: fault.ClassOf(err), Err: err, Unavailable: errors.Is(err, fault.ErrUnavailable)})
	}
}

// addresses returns where the workers listen, those that do and are there.
func (s *Server) addresses(holders [][]cluster.WorkerID) map[cluster.WorkerID]string {
	var out map[cluster.WorkerID]string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ids := range holders {
		for _, id := range ids {
			if c := s.workers[id]; c != nil && c.address != "" && out[id] == "" {
				if out == nil {
					out = map[cluster.WorkerID]string{}
				}
				out[id] = c.address
			}
		}
	}
	return out
}

// reporter turns what workers say into events.
type reporter struct{ s *Server }

func (p reporter) Started(id jobs.AttemptID) { p.s.post(scheduler.AttemptStarted{ID: id}) }

func (p reporter) Progress(id jobs.AttemptID, share float64) {
	p.s.post(scheduler.AttemptProgress{ID: id, Share: share})
}

func (p reporter) Ended(result jobs.Result) {
	s := p.s
	switch {
	case result.Err == nil:
		if result.Manifest != nil {
			s.mu.Lock()
			if r := s.jobs[result.ID.Job]; r != nil && !r.hasEnded() {
				r.manifests[result.ID] = *result.Manifest
			}
			s.mu.Unlock()
		}
		s.post(scheduler.AttemptFinished{ID: result.ID, Counters: result.Counters})
	case result.Killed:
		s.post(scheduler.AttemptKilled{ID: result.ID})
	default:
		s.post(scheduler.AttemptFailed{ID: result.ID, Class: fault.ClassOf(result.Err), Err: result.Err, Gone: result.Gone, Unavailable: result.Unavailable})
	}
}

// inOrder does f for a job, after what was to be done for it before, without
// holding up the loop.
func (s *Server) inOrder(id jobs.ID, f func(*record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.jobs[id]
	if r == nil {
		// Ended long ago and forgotten: only its shuffle is left to drop.
		r = &record{job: &jobs.Job{ID: id}}
	}
	r.queue = append(r.queue, func() { f(r) })
	if r.busy {
		return
	}
	r.busy = true
	s.done.Go(func() {
		for {
			s.mu.Lock()
			if len(r.queue) == 0 {
				r.busy = false
				s.mu.Unlock()
				return
			}
			next := r.queue[0]
			r.queue = r.queue[1:]
			s.mu.Unlock()
			next()
		}
	})
}

// publish makes the winners' output visible. Publishing is idempotent, so that
// an attempt whose outcome is unknown may be made again.
func (s *Server) publish(r *record, won []jobs.AttemptID) {
	manifests := make([]outputformat.Manifest, 0, len(won))
	var err error
	s.mu.Lock()
	for _, id := range won {
		m, ok := r.manifests[id]
		if !ok {
			err = fault.Bugf("attempt %s has won but gave no manifest", id)
			break
		}
		manifests = append(manifests, m)
	}
	s.mu.Unlock()
	if err == nil && r.durable {
		// From here on the winners are these: after a restart too.
		err = s.o.Journal.sync()
	}
	if err == nil {
		for try := 1; ; try++ {
			r.summary, err = r.format.Publish(r.ctx, r.job.Output, manifests)
			if err == nil || fault.ClassOf(err) != fault.Retryable || try == s.o.PublishAttempts {
				break
			}
			s.o.Logger.Warn("publish failed, trying again", "job", string(r.job.ID), "error", err.Error())
			s.wait(r.ctx, nil, 100*time.Millisecond<<try)
		}
	}
	if err != nil {
		err = fmt.Errorf("publish %s: %w", r.job.Output.Describe(), err)
	}
	s.post(scheduler.JobPublished{Job: r.job.ID, Err: err})
}

func (s *Server) abandon(r *record) {
	if err := r.format.Abandon(r.ctx, r.job.Output); err != nil {
		s.o.Logger.Error("output of job not abandoned", "job", string(r.job.ID), "error", err.Error())
	}
}

func (s *Server) dropShuffle(id jobs.ID) {
	s.mu.Lock()
	var all []*connection
	for _, c := range s.workers {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.Drop(id)
	}
}

// finish makes the end of a job known.
func (s *Server) finish(r *record, f scheduler.Finished) {
	status := f.Status
	status.Summary = r.summary
	if r.durable {
		if err := s.o.Journal.over(&status, f.Err); err != nil {
			s.o.Logger.Error("the end of a job is not in the journal", "job", string(r.job.ID), "error", err.Error())
		}
	}
	if s.o.Ended != nil {
		defer s.o.Ended(r.job)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.status, r.err = f.Status, f.Err
	r.status.Summary = r.summary
	r.manifests = nil
	if r.unwatch != nil {
		r.unwatch()
	}
	close(r.done)
	s.remember(r.job.ID)
	for i, st := range r.status.Stages {
		if st.Warning != "" {
			s.o.Logger.Warn("no locality", "job", string(r.job.ID), "stage", i, "why", st.Warning)
		}
	}
}
