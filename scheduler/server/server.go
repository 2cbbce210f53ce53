// Package server is the shell around the scheduler's pure core: it has the
// clock, the connections to workers, and the outputs that jobs publish. All
// events go through one goroutine, which steps the core and carries out its
// actions; what may take long (publish, abandon) runs beside it, in order for
// each job.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/scheduler"
)

// Worker is a connection to a worker. Its methods don't block; they may be
// called while the worker reports.
type Worker interface {
	// Launch starts an attempt; ctx is the attempt's. If it returns nil,
	// report hears how it ends; otherwise nothing has been started.
	Launch(ctx context.Context, a jobs.Assignment, report jobs.Reporter) error
	// Cancel ends an attempt soon.
	Cancel(id jobs.AttemptID)
	// Drop forgets the shuffle output of a job.
	Drop(job jobs.ID)
}

// Clock is where the time comes from.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d, unless stopped before.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// Options make a server; the zero value is usable.
type Options struct {
	Outputs   outputformat.Formats
	Scheduler scheduler.Options
	Clock     Clock // nil: the system's
	// History is how many ended jobs are remembered. Default 100.
	History int
	// PublishAttempts is how often a publish is tried that fails with a
	// retryable error. Default 4.
	PublishAttempts int
	// Journal keeps jobs for the next scheduler; nil: nothing does. New takes up those
	// that it has. Close leaves it open, and its jobs in it.
	Journal *Journal
	// Durable says which outputs survive a restart; jobs with others are not for the
	// journal. nil: all do.
	Durable func(outputformat.Spec) bool
	// RestoreGrace is how long workers have to come back after a restart before
	// their map output counts as lost. Default 15 s.
	RestoreGrace time.Duration
	// Ended hears of jobs that have ended, after the journal has; it must not block. nil: nobody.
	Ended  func(*jobs.Job)
	Logger *slog.Logger // nil: none
}

// Server runs jobs on workers. Safe for concurrent use.
type Server struct {
	o       Options
	started time.Time
	base    context.Context // of attempts; ends with the server
	cancel  context.CancelFunc

	// inbox has the events that the loop has not seen. It is unbounded, so
	// that reporting never blocks; workers bound it by their slots.
	inboxMu sync.Mutex
	inbox   []scheduler.Event
	signal  chan struct{} // has room for one
	stop    chan struct{}
	done    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	state   *scheduler.State
	workers map[cluster.WorkerID]*connection
	jobs    map[jobs.ID]*record
	order   []jobs.ID // by submission
	ended   []jobs.ID // by end, the oldest first
	number  int
	stopper func() bool // of the pending wake-up
	// graceOver stops the grace after a restart; nil: there is none.
	graceOver func() bool
	logs      *logs
}

type connection struct {
	Worker
	address string
	ctx     context.Context
	cancel  context.CancelFunc
}

// record is a job as the shell knows it.
type record struct {
	job       *jobs.Job
	durable   bool                // in the journal
	format    outputformat.Format // nil: no output
	ctx       context.Context     // for publish and abandon: never cancelled
	unwatch   func() bool
	manifests map[jobs.AttemptID]outputformat.Manifest
	summary   outputformat.Summary

	queue []func() // what is to be done in order
	busy  bool     // a goroutine works on queue

	// done is closed when the job has ended; then status and err are final.
	done   chan struct{}
	status jobs.Status
	err    error
}

func (r *record) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// New starts a server without workers. Close ends it.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.History <= 0 {
		o.History = 100
	}
	if o.PublishAttempts <= 0 {
		o.PublishAttempts = 4
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RestoreGrace <= 0 {
		o.RestoreGrace = defaultRestoreGrace
	}
	s := &Server{
		o: o, started: o.Clock.Now(),
		signal: make(chan struct{}, 1), stop: make(chan struct{}),
		state:   scheduler.New(o.Scheduler),
		workers: map[cluster.WorkerID]*connection{},
		jobs:    map[jobs.ID]*record{},
		logs:    newLogs(),
	}
	if o.Journal != nil {
		s.restore()
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.done.Go(s.loop)
	return s
}

// AddWorker makes a worker's slots available. A worker of that id that was there
// before counts as lost.
func (s *Server) AddWorker(w cluster.Worker, conn Worker) { s.addWorker(w, conn, "") }

func (s *Server) addWorker(w cluster.Worker, conn Worker, incarnation string) {
	c := &connection{Worker: conn, address: w.Address}
	c.ctx, c.cancel = context.WithCancel(s.base)
	s.mu.Lock()
	old := s.workers[w.ID]
	s.workers[w.ID] = c
	s.mu.Unlock()
	if old != nil {
		old.cancel()
	}
	s.post(scheduler.WorkerRegistered{Worker: w, Incarnation: incarnation})
}

// RemoveWorker gives a worker up: its attempts are cancelled and run again
// elsewhere, and so are its map outputs that are still needed.
func (s *Server) RemoveWorker(id cluster.WorkerID) {
	s.mu.Lock()
	c := s.workers[id]
	delete(s.workers, id)
	s.mu.Unlock()
	if c != nil {
		s.post(scheduler.WorkerLost{Worker: id})
		c.cancel()
	}
}

// Handle is a submitted job.
type Handle struct {
	s *Server
	r *record
}

// ID returns the job's id.
func (h *Handle) ID() jobs.ID { return h.r.job.ID }

// Done is closed when the job has ended.
func (h *Handle) Done() <-chan struct{} { return h.r.done }

// Status returns how far the job is, after its end too.
func (h *Handle) Status() jobs.Status { return h.s.statusOf(h.r) }

// Kill ends the job; it returns at once. cause, which may be nil, becomes part of
// its error. A job that is publishing ends as it would have.
func (h *Handle) Kill(cause error) {
	h.s.post(scheduler.KillJob{Job: h.r.job.ID, Cause: killed(cause)})
}

// Wait returns the job's last status and its error when it has ended. If ctx
// ends first, it returns the status so far and the reason; the job goes on.
func (h *Handle) Wait(ctx context.Context) (jobs.Status, error) {
	select {
	case <-h.r.done:
		return h.r.status, h.r.err
	default:
	}
	select {
	case <-h.r.done:
		return h.r.status, h.r.err
	case <-ctx.Done():
		return h.Status(), fmt.Errorf("wait for job %s: %w", h.r.job.ID, context.Cause(ctx))
	}
}

// Submit starts a job: it begins the job's output and lets its first attempts
// loose. When ctx ends before the job does, the job is killed. The job is not
// changed; it gets an id if it has none.
func (s *Server) Submit(ctx context.Context, job *jobs.Job) (*Handle, error) {
	if err := job.Validate(); err != nil {
		return nil, err
	}
	j := *job
	r := &record{
		job: &j, ctx: context.WithoutCancel(ctx), done: make(chan struct{}),
		manifests: map[jobs.AttemptID]outputformat.Manifest{},
	}
	if j.Output != nil {
		if r.format = s.o.Outputs[j.Output.Format()]; r.format == nil {
			return nil, fault.Bugf("submit %q: no output format %q", j.Name, j.Output.Format())
		}
		begun, err := r.format.Begin(ctx, j.Output)
		if err != nil {
			return nil, fmt.Errorf("begin output %s: %w", j.Output.Describe(), err)
		}
		j.Output = begun
	}
	if err := s.record(r); err != nil {
		if r.format != nil {
			if aerr := r.format.Abandon(r.ctx, j.Output); aerr != nil {
				err = fmt.Errorf("%w; abandon its output: %w", err, aerr)
			}
		}
		return nil, err
	}
	// Only now: the kill must not come before the job.
	unwatch := context.AfterFunc(ctx, func() {
		s.post(scheduler.KillJob{Job: j.ID, Cause: killed(context.Cause(ctx))})
	})
	s.mu.Lock()
	r.unwatch = unwatch
	over := r.hasEnded()
	s.mu.Unlock()
	if over {
		unwatch()
	}
	return &Handle{s, r}, nil
}

// record makes a job known, to the journal first, and posts it.
func (s *Server) record(r *record) error {
	s.mu.Lock()
	for r.job.ID == "" {
		s.number++ // two schedulers that start within a second share a prefix
		if id := jobs.ID(fmt.Sprintf("job_%d_%04d", s.started.Unix(), s.number)); s.jobs[id] == nil {
			r.job.ID = id
		}
	}
	known := s.jobs[r.job.ID] != nil
	s.mu.Unlock()
	if r.durable = s.durable(r.job); r.durable && !known {
		if err := s.o.Journal.submitted(r.job); err != nil {
			return fmt.Errorf("submit %q: %w", r.job.Name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.Retryablef("submit %q: the scheduler is closing", r.job.Name)
	}
	if s.jobs[r.job.ID] != nil {
		return fault.Bugf("submit %q: there is a job %s already", r.job.Name, r.job.ID)
	}
	s.jobs[r.job.ID] = r
	s.order = append(s.order, r.job.ID)
	s.post(scheduler.JobSubmitted{Job: r.job})
	return nil
}

// killed is the error of a killed job.
func killed(cause error) error {
	return &fault.Error{Class: fault.User, SQLState: "57014", Message: "the job was killed", Cause: cause}
}

// Status returns how far a job is; false if it is not known, or no longer.
func (s *Server) Status(id jobs.ID) (jobs.Status, bool) {
	s.mu.Lock()
	r := s.jobs[id]
	s.mu.Unlock()
	if r == nil {
		return jobs.Status{}, false
	}
	return s.statusOf(r), true
}

func (s *Server) statusOf(r *record) jobs.Status {
	if r.hasEnded() {
		return r.status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.At(s.now())
	if st, ok := s.state.Status(r.job.ID); ok {
		return st
	}
	return jobs.Status{ID: r.job.ID, Name: r.job.Name, State: jobs.Waiting}
}

// List returns the statuses of the jobs that are known, in the order in which
// they were submitted: all that run and the last that have ended.
func (s *Server) List() []jobs.Status {
	s.mu.Lock()
	known := make([]*record, len(s.order))
	for i, id := range s.order {
		known[i] = s.jobs[id]
	}
	s.mu.Unlock()
	out := make([]jobs.Status, len(known))
	for i, r := range known {
		out[i] = s.statusOf(r)
	}
	return out
}

// Kill ends a job as Handle.Kill does; false if it is not known.
func (s *Server) Kill(id jobs.ID, cause error) bool {
	s.mu.Lock()
	r := s.jobs[id]
	s.mu.Unlock()
	if r == nil {
		return false
	}
	s.post(scheduler.KillJob{Job: id, Cause: killed(cause)})
	return true
}

// Close kills all jobs, waits for their end and ends the server. Workers are
// closed by who made them, afterwards.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.done.Wait()
		return nil
	}
	s.closed = true
	var live []*record
	for _, id := range s.order {
		if r := s.jobs[id]; !r.hasEnded() {
			live = append(live, r)
		}
	}
	s.mu.Unlock()
	// Jobs of the journal go on with the next scheduler.
	live = slices.DeleteFunc(live, func(r *record) bool { return r.durable })
	for _, r := range live {
		s.post(scheduler.KillJob{Job: r.job.ID, Cause: killed(fault.Retryablef("the scheduler is closing"))})
	}
	for _, r := range live {
		<-r.done
	}
	close(s.stop)
	s.cancel()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopper != nil {
		s.stopper()
	}
	if s.graceOver != nil {
		s.graceOver()
	}
	for _, id := range s.order {
		if r := s.jobs[id]; !r.hasEnded() {
			r.err = fault.Retryablef("the scheduler is closing; job %s goes on when it starts again", id)
			r.status = jobs.Status{ID: id, Name: r.job.Name, State: jobs.Waiting, Error: r.err.Error()}
			close(r.done)
		}
	}
	return nil
}

// post gives the loop an event; it never blocks.
func (s *Server) post(e scheduler.Event) {
	s.inboxMu.Lock()
	s.inbox = append(s.inbox, e)
	s.inboxMu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// now is the core's time.
func (s *Server) now() scheduler.Time {
	return scheduler.Time(s.o.Clock.Now().Sub(s.started).Milliseconds())
}

// remember notes that a job has ended and forgets the oldest. s.mu is held.
func (s *Server) remember(id jobs.ID) {
	s.ended = append(s.ended, id)
	for len(s.ended) > s.o.History {
		old := s.ended[0]
		s.ended = s.ended[1:]
		delete(s.jobs, old)
		s.order = slices.DeleteFunc(s.order, func(x jobs.ID) bool { return x == old })
	}
}
