package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
)

// phase is how far a job is; phases only go up.
type phase uint8

const (
	running    phase = iota // attempts are placed
	publishing              // all winners known, Publish is under way
	ending                  // failed or killed; waits for live attempts
	finished                // Finished is out; waits for live attempts
)

type job struct {
	*jobs.Job
	seq         int64
	phase       phase
	stages      []*stage
	live        int  // attempts holding a slot
	graceAt     Time // in phase ending: don't wait beyond
	state       jobs.State
	err         error
	failedStage int // or -1
}

func (j *job) maxAttempts() int {
	if j.MaxAttempts > 0 {
		return j.MaxAttempts
	}
	return 4
}

// stage is a stage's tasks and the order in which they are placed.
type stage struct {
	*jobs.Stage
	job   *job
	tasks []task
	done  int
	ready int // tasks ready, delayed ones not counted

	// A ready task that has not failed is in the queue of each worker named as a
	// holder of its data, or in free if none is named. One that has failed is
	// in again, since it may not go everywhere. Queues may have stale entries.
	holders []*holder
	byID    map[cluster.WorkerID]*holder
	free    taskQueue
	again   []*task
	delayed []*task // waiting for notBefore
	waits   map[*worker]*wait

	counters  jobs.Counters
	locality  [jobs.Anywhere + 1]int // of winners
	winners   []jobs.AttemptID       // of a complete stage, made when first asked for
	wonBy     []cluster.WorkerID     // their workers
	launched  int
	failed    int
	pending   int    // winners whose output may or may not be there
	away      string // why the last attempt found something unavailable
	startedAt Time
	endedAt   Time
	runTime   Time // sum over winners
	rivals    int  // live
	checkAt   Time // when to look for stragglers again
}

// holder is a worker that the splits of a stage name, registered or not.
type holder struct {
	id    cluster.WorkerID
	w     *worker // nil: not registered
	since Time    // when it was last there, or the job came
	queue taskQueue
	ready int   // ready tasks with data here
	bytes int64 // of those
}

// wait is how far a worker may reach for tasks of a stage, and since when it
// waits to reach farther.
type wait struct {
	level   jobs.Locality
	waiting bool
	since   Time
}

type task struct {
	*jobs.Task
	stage     *stage
	holders   []*holder
	ready     bool
	attempts  int // launched so far, the next attempt's number
	live      []*attempt
	failures  int
	failedOn  []cluster.WorkerID
	notBefore Time
	goneCount int // times its output got lost without its worker
	// awayCount attempts found something unavailable, the first at awaySince.
	awayCount int
	awaySince Time
	won       *winner
}

// winner is the attempt that finished first.
type winner struct {
	id       jobs.AttemptID
	worker   cluster.WorkerID
	locality jobs.Locality
	counters jobs.Counters
	runTime  Time
	lost     bool // its shuffle output is gone
	// incarnation is of the worker; pending: it has not registered since the
	// winner was restored.
	incarnation string
	pending     bool
}

// attempt holds a slot of its worker until an event says that it has ended.
type attempt struct {
	id        jobs.AttemptID
	task      *task
	worker    *worker
	source    *worker // whose data it reads; nil: nobody's in particular
	locality  jobs.Locality
	started   Time
	progress  float64
	cancelled bool
	rival     bool
}

func (s *State) submit(spec *jobs.Job) {
	if s.jobs[spec.ID] == nil {
		s.progress(s.add(spec))
	}
}

// add puts a job in the queue, all tasks ready.
func (s *State) add(spec *jobs.Job) *job {
	s.arrived++
	j := &job{Job: spec, seq: s.arrived, state: jobs.Running, failedStage: -1}
	for _, st := range spec.Stages {
		n := &stage{Stage: st, job: j, byID: map[cluster.WorkerID]*holder{}, waits: map[*worker]*wait{}, counters: jobs.Counters{}}
		n.tasks = make([]task, len(st.Tasks))
		for i := range st.Tasks {
			t := &n.tasks[i]
			t.Task, t.stage = &st.Tasks[i], n
			for _, id := range st.Tasks[i].Hosts {
				h := n.byID[id]
				if h == nil {
					h = &holder{id: id, w: s.workers[id], since: s.now}
					n.byID[id] = h
					n.holders = append(n.holders, h)
				}
				if !slices.Contains(t.holders, h) {
					t.holders = append(t.holders, h)
				}
			}
			n.push(t)
		}
		j.stages = append(j.stages, n)
	}
	s.jobs[j.ID] = j
	at := sort.Search(len(s.queue), func(i int) bool { return s.queue[i].Priority < j.Priority })
	s.queue = slices.Insert(s.queue, at, j)
	return j
}

// push makes a task ready.
func (st *stage) push(t *task) {
	t.ready = true
	st.ready++
	for _, h := range t.holders {
		h.ready++
		h.bytes += t.Bytes
	}
	switch {
	case t.failures > 0:
		st.again = append(st.again, t)
	case len(t.holders) == 0:
		st.free.push(t)
	default:
		for _, h := range t.holders {
			h.queue.push(t)
		}
	}
}

// rejoin notes that a worker has come (back) and fills its queue: while it was
// away tasks were left to the other holders of their data.
func (st *stage) rejoin(w *worker) {
	h := st.byID[w.ID]
	if h == nil {
		return
	}
	h.w, h.queue = w, nil
	for i := range st.tasks {
		if t := &st.tasks[i]; t.ready && t.failures == 0 && slices.Contains(t.holders, h) {
			h.queue.push(t)
		}
	}
}

// take makes a ready task unready; queues drop it when they come to it.
func (st *stage) take(t *task) {
	t.ready = false
	st.ready--
	for _, h := range t.holders {
		h.ready--
		h.bytes -= t.Bytes
	}
	if t.failures > 0 {
		st.again = slices.DeleteFunc(st.again, func(x *task) bool { return x == t })
	}
}

func (st *stage) complete() bool { return st.done == len(st.tasks) }

// runnable reports whether everything that the stage reads is there.
func (st *stage) runnable() bool {
	for _, in := range st.Inputs {
		if src := st.job.stages[in]; !src.complete() || src.pending > 0 {
			return false
		}
	}
	return true
}

// allWinners returns the winners of a complete stage and their workers, in task
// order. The slices are handed out and never changed.
func (st *stage) allWinners() ([]jobs.AttemptID, []cluster.WorkerID) {
	if st.winners == nil {
		st.winners = make([]jobs.AttemptID, len(st.tasks))
		st.wonBy = make([]cluster.WorkerID, len(st.tasks))
		for i := range st.tasks {
			st.winners[i], st.wonBy[i] = st.tasks[i].won.id, st.tasks[i].won.worker
		}
	}
	return st.winners, st.wonBy
}

// live returns the attempt with this id if it holds a slot.
func (s *State) live(id jobs.AttemptID) *attempt {
	t := s.task(id)
	if t == nil {
		return nil
	}
	for _, a := range t.live {
		if a.id == id {
			return a
		}
	}
	return nil
}

func (s *State) task(id jobs.AttemptID) *task {
	j := s.jobs[id.Job]
	if j == nil || id.Stage < 0 || id.Stage >= len(j.stages) || id.Task < 0 || id.Task >= len(j.stages[id.Stage].tasks) {
		return nil
	}
	return &j.stages[id.Stage].tasks[id.Task]
}

// release takes a out of its slot.
func (s *State) release(a *attempt) {
	w, t := a.worker, a.task
	if w.free() == 0 {
		w.freeSince = s.now
	}
	w.attempts = slices.DeleteFunc(w.attempts, func(x *attempt) bool { return x == a })
	t.live = slices.DeleteFunc(t.live, func(x *attempt) bool { return x == a })
	if a.source != nil {
		a.source.scans--
	}
	if a.rival {
		t.stage.rivals--
	}
	t.stage.job.live--
}

// requeue makes the task of an attempt that came to nothing ready again, unless
// that is needless.
func (s *State) requeue(a *attempt) {
	t := a.task
	if st := t.stage; st.job.phase == running && t.won == nil && len(t.live) == 0 && !t.ready {
		if t.notBefore > s.now {
			st.delayed = append(st.delayed, t)
		} else {
			st.push(t)
		}
	}
}

func (s *State) cancel(a *attempt) {
	if !a.cancelled {
		a.cancelled = true
		s.do(Cancel{ID: a.id, Worker: a.worker.ID})
	}
}

func (s *State) attemptFinished(e AttemptFinished) {
	a := s.live(e.ID)
	if a == nil {
		return
	}
	s.release(a)
	t, st, j := a.task, a.task.stage, a.task.stage.job
	if j.phase != running || t.won != nil {
		s.drained(j)
		return
	}
	// A cancelled attempt may win: that it was cancelled means only that
	// another had won, or the job ended; neither is the case.
	a.worker.blamed, a.worker.rests = nil, 0
	t.won = &winner{
		id: a.id, worker: a.worker.ID, locality: a.locality,
		counters: maps.Clone(e.Counters), runTime: s.now - a.started, incarnation: a.worker.incarnation,
	}
	st.done++
	st.winners = nil
	st.counters.Add(e.Counters)
	st.locality[a.locality]++
	st.runTime += t.won.runTime
	st.endedAt = s.now
	for _, loser := range t.live {
		s.cancel(loser)
	}
	s.progress(j)
}

// unwin takes a task's victory away: its output is lost and needed.
func (s *State) unwin(t *task) {
	st, w := t.stage, t.won
	if w.pending {
		st.pending--
	}
	t.won = nil
	st.done--
	st.winners = nil
	for k, v := range w.counters {
		st.counters[k] -= v
	}
	st.locality[w.locality]--
	st.runTime -= w.runTime
	if len(t.live) == 0 {
		st.push(t)
	}
}

// loseOutputs marks the shuffle outputs that the worker made as lost.
func (j *job) loseOutputs(id cluster.WorkerID) {
	for _, st := range j.stages {
		if st.Partitions == 0 {
			continue
		}
		for i := range st.tasks {
			if w := st.tasks[i].won; w != nil && w.worker == id {
				w.lost = true
			}
		}
	}
}

// revive runs lost map outputs again as far as a stage that is not complete
// reads them, be it since its own outputs are lost and needed. It goes from
// readers to what they read, so once is enough.
func (s *State) revive(j *job) {
	for i := len(j.stages) - 1; i >= 0; i-- {
		if j.stages[i].complete() {
			continue
		}
		for _, in := range j.stages[i].Inputs {
			src := j.stages[in]
			for k := range src.tasks {
				if t := &src.tasks[k]; t.won != nil && t.won.lost {
					s.unwin(t)
				}
			}
		}
	}
}

func (s *State) attemptKilled(id jobs.AttemptID) {
	a := s.live(id)
	if a == nil {
		return
	}
	s.release(a)
	s.requeue(a)
	s.drained(a.task.stage.job)
}

func (s *State) attemptFailed(e AttemptFailed) {
	a := s.live(e.ID)
	if a == nil {
		return
	}
	s.release(a)
	t, st, j := a.task, a.task.stage, a.task.stage.job
	if j.phase != running || a.cancelled || t.won != nil {
		s.requeue(a)
		s.drained(j)
		return
	}
	if e.Err == nil {
		e.Err = fault.Bugf("the worker gave no reason")
	}
	if e.Class == fault.User {
		// The query or its data is wrong: the message speaks for itself.
		s.end(j, st, jobs.Failed, e.Err)
		return
	}
	if s.reads(t, e.Gone) {
		s.gone(a, e.Gone, e.Err)
		return
	}
	if e.Unavailable {
		s.unavailable(a, e.Err)
		return
	}
	st.failed++
	t.failures++
	if !slices.Contains(t.failedOn, a.worker.ID) {
		t.failedOn = append(t.failedOn, a.worker.ID)
	}
	s.blame(a.worker, taskName{j.ID, st.ID, t.Index})
	if t.failures >= j.maxAttempts() {
		s.end(j, st, jobs.Failed, fmt.Errorf("stage %d%s, task %d: failure %d of %d, on worker %s: %w",
			st.ID, quoted(st.Name), t.Index, t.failures, j.maxAttempts(), workerName(a.worker), e.Err))
		return
	}
	t.notBefore = s.now + s.opt.RetryDelay<<min(t.failures-1, 10)
	s.requeue(a)
}

// reads reports whether t reads the output of all the named attempts, and there
// is one: else a confused worker could make tasks run for ever.
func (s *State) reads(t *task, gone []jobs.AttemptID) bool {
	for _, id := range gone {
		src := s.task(id)
		if id.Job != t.stage.job.ID || src == nil || !slices.Contains(t.stage.Inputs, id.Stage) || id.Attempt >= src.attempts {
			return false
		}
	}
	return len(gone) > 0
}

// gone runs the maps again whose output attempt a missed, then a's task.
func (s *State) gone(a *attempt, ids []jobs.AttemptID, cause error) {
	j := a.task.stage.job
	for _, id := range ids {
		t := s.task(id)
		if t.won == nil || t.won.id != id || t.won.lost {
			continue // known already, or made again meanwhile
		}
		t.won.lost = true
		if t.goneCount++; t.goneCount >= j.maxAttempts() {
			s.end(j, t.stage, jobs.Failed, fmt.Errorf("stage %d%s, task %d: its output was lost %d times: %w",
				t.stage.ID, quoted(t.stage.Name), t.Index, t.goneCount, cause))
			return
		}
	}
	s.requeue(a)
	s.revive(j)
}

func quoted(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" %q", name)
}

func workerName(w *worker) string {
	if w.Name != "" {
		return w.Name
	}
	return string(w.ID)
}

// progress moves a job on when its last stage has all winners.
func (s *State) progress(j *job) {
	if j.phase != running || len(j.stages) == 0 || !j.stages[len(j.stages)-1].complete() {
		return
	}
	last := j.stages[len(j.stages)-1]
	// A stage without tasks has nothing to wait for, but what it reads still
	// has to succeed.
	if len(last.tasks) == 0 && !last.runnable() {
		return
	}
	s.cancelAll(j)
	if j.Output == nil {
		s.finish(j, jobs.Succeeded, nil)
		return
	}
	j.phase = publishing
	won, _ := last.allWinners()
	s.do(Publish{Job: j.ID, Won: won})
}

func (s *State) cancelAll(j *job) {
	for _, st := range j.stages {
		for i := range st.tasks {
			for _, a := range st.tasks[i].live {
				s.cancel(a)
			}
		}
	}
}

func (s *State) published(id jobs.ID, err error) {
	j := s.jobs[id]
	if j == nil || j.phase != publishing {
		return
	}
	if err != nil {
		s.end(j, j.stages[len(j.stages)-1], jobs.Failed, err)
		return
	}
	s.finish(j, jobs.Succeeded, nil)
}

func (s *State) kill(id jobs.ID, cause error) {
	j := s.jobs[id]
	if j == nil || j.phase != running {
		return
	}
	if cause == nil {
		cause = fault.Userf("the job was killed")
	}
	s.end(j, nil, jobs.Killed, cause)
}

// end begins the end of a job without success: its attempts are cancelled, and
// when they have ended, or the grace is over, its output is abandoned.
func (s *State) end(j *job, st *stage, state jobs.State, err error) {
	j.phase, j.state, j.err = ending, state, err
	if st != nil {
		j.failedStage = st.ID
	}
	j.graceAt = s.now + s.opt.CancelGrace
	s.cancelAll(j)
	s.drained(j)
}

// drained does what had to wait until no attempt of the job was live.
func (s *State) drained(j *job) {
	if j.live > 0 {
		return
	}
	switch j.phase {
	case ending:
		s.conclude(j)
	case finished:
		s.forget(j)
	}
}

// expireGrace ends jobs whose attempts don't end.
func (s *State) expireGrace() {
	for _, j := range slices.Clone(s.queue) {
		if j.phase != ending {
			continue
		}
		if s.now >= j.graceAt {
			s.conclude(j)
		} else {
			s.due(j.graceAt)
		}
	}
}

func (s *State) conclude(j *job) {
	if j.Output != nil {
		s.do(Abandon{Job: j.ID})
	}
	s.finish(j, j.state, j.err)
}

// finish reports the end of a job. What it left in the shuffle goes when no
// attempt can write there any more.
func (s *State) finish(j *job, state jobs.State, err error) {
	j.phase, j.state, j.err = finished, state, err
	if j.live == 0 {
		s.forget(j)
	}
	s.do(Finished{Job: j.ID, State: state, Err: err, Status: s.status(j)})
}

func (s *State) forget(j *job) {
	s.do(DropShuffle{Job: j.ID})
	delete(s.jobs, j.ID)
	s.queue = slices.DeleteFunc(s.queue, func(x *job) bool { return x == j })
}

// taskQueue is a heap: most bytes first, then by index.
type taskQueue []*task

func (q taskQueue) less(a, b int) bool {
	if q[a].Bytes != q[b].Bytes {
		return q[a].Bytes > q[b].Bytes
	}
	return q[a].Index < q[b].Index
}

func (q *taskQueue) push(t *task) {
	*q = append(*q, t)
	for i := len(*q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			break
		}
		(*q)[i], (*q)[up] = (*q)[up], (*q)[i]
		i = up
	}
}

func (q *taskQueue) pop() {
	n := len(*q) - 1
	(*q)[0] = (*q)[n]
	(*q)[n] = nil
	*q = (*q)[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c+1 < n && q.less(c+1, c) {
			c++
		}
		if c >= n || !q.less(c, i) {
			return
		}
		(*q)[i], (*q)[c] = (*q)[c], (*q)[i]
		i = c
	}
}

// first returns the first task that is really ready, or nil.
func (q *taskQueue) first() *task {
	for len(*q) > 0 {
		// A task that has failed since is in stage.again.
		if t := (*q)[0]; t.ready && t.failures == 0 {
			return t
		}
		q.pop()
	}
	return nil
}
