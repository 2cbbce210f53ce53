// Package scheduler decides which attempt runs where, and when again. It is a
// pure core: State.Step takes an event and the time and returns actions. It has
// no clock, goroutine, network or disk, and the same events give the same
// actions; package server is the shell around it that owns those.
//
// # Placing
//
// Jobs go by priority, then first come first served; a job leaves the slots it
// can't use to the next one. A stage starts when all its inputs are complete. A
// task runs, best of all, on a worker that holds its data. A worker with a free
// slot but without such a task waits a while before it takes one whose data
// is on the same host, then on the same rack, then anywhere (delay scheduling,
// Zaharia et al., EuroSys 2010, with the wait in time instead of in missed
// heartbeats). The wait is kept by stage and worker: a worker that has waited in
// vain does not wait again for the next task of that stage, until it gets
// nearer data. Tasks whose data has no place, or no longer a live one, go
// anywhere at once. At most a budget of attempts reads from one worker's data,
// so that stragglers don't all pile up on the worker they wait for.
//
// # Failing
//
// An error of the user's fails the job at once. Other failures are tried again
// after a pause, elsewhere first, up to Job.MaxAttempts. Workers where different
// tasks fail get a rest that doubles, but never all of them, and never for ever.
// Map output belongs to the worker that made it: when the worker is lost, or a
// reader reports that the output is gone, the maps whose output is still
// needed run again. That costs the reader none of its attempts.
//
// # Waiting
//
// A task whose split is bound to its hosts can't run while none of them is there:
// it is parked, and its stage says for whom it waits. So is, for a pause that
// grows to a second, a task whose attempt reports that what it needs is unavailable.
// Neither costs an attempt; both end the job when they last too long.
//
// # Going on
//
// A scheduler that starts again gets the jobs of the one before it as JobRestored, with
// the attempts that had won. Stages that read map output of workers that have not
// registered yet wait until it is known whether it is still there.
//
// # Publishing
//
// A job publishes once, when each task of its last stage has a winner: the first
// attempt that finished. All others are fenced: what they report is ignored.
package scheduler

import (
	"slices"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/jobs"
)

// Time is milliseconds since some start; it never goes back.
type Time int64

// never is a time that does not come.
const never Time = 1<<63 - 1

// Options are the scheduler's settings. A zero field is its default; a
// negative time is none at all.
type Options struct {
	// WaitWorker is how long a worker with a free slot waits for a task whose data
	// it holds before it takes one of its host; WaitHost and WaitRack are
	// the waits before the next levels. Defaults: 500, 200, 500 ms, of the order
	// of a task's run time, below which waiting is cheaper than reading remotely.
	WaitWorker, WaitHost, WaitRack Time
	// ScanBudget is how many attempts may read from one worker's data before
	// others than itself must wait. Default: twice the worker's slots.
	ScanBudget int
	// RetryDelay is the pause before the second attempt of a task; it doubles
	// with each failure. Default 100 ms.
	RetryDelay Time
	// BlameLimit is the number of tasks that must fail on a worker, with none
	// succeeding in between, before it gets a rest of Cooldown, which doubles each
	// time up to MaxCooldown. Defaults: 3, 10 s, 5 min.
	BlameLimit            int
	Cooldown, MaxCooldown Time
	// CancelGrace is how long the end of a failed or killed job waits for its
	// attempts to end. Default 10 s.
	CancelGrace Time
	// SpeculateAfter is the least run time of an attempt that may get a rival.
	// Default 1 s.
	SpeculateAfter Time
	// ParkLimit is how long a job waits for data whose only copy is on a worker that
	// is not there, before it fails. Default 60 s.
	ParkLimit Time
}

func (o Options) withDefaults() Options {
	def := func(t *Time, d Time) {
		if *t == 0 {
			*t = d
		}
		*t = max(*t, 0)
	}
	def(&o.WaitWorker, 500)
	def(&o.WaitHost, 200)
	def(&o.WaitRack, 500)
	def(&o.RetryDelay, 100)
	def(&o.Cooldown, 10_000)
	def(&o.MaxCooldown, 300_000)
	def(&o.CancelGrace, 10_000)
	def(&o.SpeculateAfter, 1000)
	def(&o.ParkLimit, 60_000)
	if o.BlameLimit <= 0 {
		o.BlameLimit = 3
	}
	return o
}

// State is all that the scheduler knows. Not safe for concurrent use.
type State struct {
	opt     Options
	workers map[cluster.WorkerID]*worker
	order   []*worker      // registered workers, in the order they came
	onHost  map[string]int // registered workers by host
	onRack  map[string]int
	lost    map[cluster.WorkerID]bool // were registered, and may be again
	jobs    map[jobs.ID]*job
	queue   []*job // by priority, then by arrival
	arrived int64

	now     Time
	next    Time // when something is due, collected during a step
	alarm   Time // the wake-up already asked for
	actions []Action
}

// New returns a state without workers and jobs.
func New(o Options) *State {
	return &State{
		opt:     o.withDefaults(),
		workers: map[cluster.WorkerID]*worker{},
		onHost:  map[string]int{},
		onRack:  map[string]int{},
		lost:    map[cluster.WorkerID]bool{},
		jobs:    map[jobs.ID]*job{},
		alarm:   never,
	}
}

// worker is a registered worker.
type worker struct {
	cluster.Worker
	incarnation string
	seq         int64 // by registration
	attempts    []*attempt
	scans       int // live attempts that read this worker's data
	// freeSince is when the worker last got a free slot after having had none.
	freeSince Time
	// blamed are the tasks that failed here since the last success; coolUntil
	// ends the rest; rests counts rests since the last success.
	blamed    []taskName
	coolUntil Time
	rests     int
}

type taskName struct {
	job         jobs.ID
	stage, task int
}

func (w *worker) free() int { return w.Slots - len(w.attempts) }

// Step takes one event at the time now and returns what is to be done, in
// order. now must not be less than at the step before (it is taken as equal).
func (s *State) Step(now Time, e Event) []Action {
	s.now = max(s.now, now)
	s.actions = nil
	if s.note(e) && s.alarm > s.now {
		return nil
	}
	s.next = never
	if s.alarm <= s.now {
		s.alarm = never
	}
	switch e := e.(type) {
	case WorkerRegistered:
		s.register(e.Worker, e.Incarnation)
	case WorkerLost:
		s.lose(e.Worker)
	case JobSubmitted:
		s.submit(e.Job)
	case JobRestored:
		s.restore(e)
	case KillJob:
		s.kill(e.Job, e.Cause)
	case AttemptFinished:
		s.attemptFinished(e)
	case AttemptFailed:
		s.attemptFailed(e)
	case AttemptKilled:
		s.attemptKilled(e.ID)
	case JobPublished:
		s.published(e.Job, e.Err)
	case Tick:
	}
	s.expireGrace()
	s.place()
	s.expireParked() // place has made tasks ready whose pause is over
	if s.next < s.alarm {
		s.alarm = max(s.next, s.now+1)
		s.do(Wake{At: s.alarm})
	}
	return s.actions
}

// note takes the events that change nothing about who may run, and reports
// whether e is one.
func (s *State) note(e Event) bool {
	switch e := e.(type) {
	case AttemptStarted:
		if a := s.live(e.ID); a != nil {
			a.started = s.now
		}
	case AttemptProgress:
		if a := s.live(e.ID); a != nil && e.Share > a.progress {
			a.progress = min(e.Share, 1)
		}
	default:
		return false
	}
	return true
}

func (s *State) do(a Action) { s.actions = append(s.actions, a) }

// due asks for a step at t.
func (s *State) due(t Time) { s.next = min(s.next, t) }

func (s *State) register(w cluster.Worker, incarnation string) {
	if s.workers[w.ID] != nil {
		s.lose(w.ID) // it started again and has forgotten everything
	}
	s.arrived++
	n := &worker{Worker: w, incarnation: incarnation, seq: s.arrived, freeSince: s.now}
	s.workers[w.ID] = n
	s.order = append(s.order, n)
	s.onHost[w.Host]++
	s.onRack[w.Rack]++
	for _, j := range s.queue {
		for _, st := range j.stages {
			st.rejoin(n)
		}
	}
	s.settle(w.ID, incarnation)
}

func (s *State) lose(id cluster.WorkerID) {
	w := s.workers[id]
	if w == nil {
		s.settle(id, "")
		return
	}
	delete(s.workers, id)
	s.lost[id] = true
	s.order = slices.DeleteFunc(s.order, func(x *worker) bool { return x == w })
	s.onHost[w.Host]--
	s.onRack[w.Rack]--
	for _, j := range s.queue {
		for _, st := range j.stages {
			if h := st.byID[id]; h != nil {
				h.w, h.since = nil, s.now
			}
			delete(st.waits, w)
		}
	}
	for _, a := range slices.Clone(w.attempts) {
		s.release(a)
		s.requeue(a)
	}
	for _, j := range s.queue {
		if j.phase == running {
			j.loseOutputs(id)
			s.revive(j)
		}
	}
	for _, j := range slices.Clone(s.queue) {
		s.drained(j)
	}
}

// usable reports whether w may get attempts now.
func (s *State) usable(w *worker) bool { return w.Slots > 0 && w.coolUntil <= s.now }

// blame notes that a task failed on w, and gives w a rest if several did.
func (s *State) blame(w *worker, t taskName) {
	// One task that fails everywhere is not the workers' fault.
	if slices.Contains(w.blamed, t) {
		return
	}
	w.blamed = append(w.blamed, t)
	if len(w.blamed) < s.opt.BlameLimit {
		return
	}
	resting := 0
	for _, o := range s.order {
		if o != w && o.coolUntil > s.now {
			resting++
		}
	}
	// When many workers fail, it's not the workers either.
	if n := len(s.order); n < 2 || resting >= max(1, n/3) {
		return
	}
	rest := min(s.opt.Cooldown<<min(w.rests, 20), s.opt.MaxCooldown)
	w.coolUntil = s.now + rest
	w.rests++
	w.blamed = nil
	s.do(Rest{Worker: w.ID, Until: w.coolUntil})
}
