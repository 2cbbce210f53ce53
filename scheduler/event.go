package scheduler

import (
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
)

// Event is something that has happened. Events about attempts, jobs and workers
// that are not, or no longer, known are ignored.
type Event interface{ event() }

// WorkerRegistered says that a worker is there, with no attempt running.
// Incarnation names its process: the map output that an earlier one made is gone.
type WorkerRegistered struct {
	Worker      cluster.Worker
	Incarnation string
}

// WorkerLost says that a worker's lease has expired: whatever it ran is dead,
// whatever it still says is ignored.
type WorkerLost struct{ Worker cluster.WorkerID }

// JobSubmitted brings a job, which must be valid and have an ID of its own.
// The scheduler keeps it and never changes it.
type JobSubmitted struct{ Job *jobs.Job }

// JobRestored brings back a job that an earlier scheduler had, with the attempts that
// had won. Whatever else ran then is fenced: attempts are numbered from
// FirstAttempt, which must be above all numbers used before. Map output of a
// worker that has not registered yet is neither there nor lost: WorkerRegistered or
// WorkerLost decides. Of each task the last winner counts.
type JobRestored struct {
	Job          *jobs.Job
	Won          []Won
	FirstAttempt int
}

// Won is an attempt that has won, as a journal keeps it.
type Won struct {
	ID          jobs.AttemptID
	Worker      cluster.WorkerID
	Incarnation string
	Locality    jobs.Locality
	Counters    jobs.Counters
}

// KillJob ends a job; Cause becomes its error. A job that is publishing can no
// longer be killed.
type KillJob struct {
	Job   jobs.ID
	Cause error
}

// AttemptStarted says that a worker has begun an attempt.
type AttemptStarted struct{ ID jobs.AttemptID }

// AttemptProgress says which share of its work an attempt has done, 0..1.
type AttemptProgress struct {
	ID    jobs.AttemptID
	Share float64
}

// AttemptFinished says that an attempt has succeeded.
type AttemptFinished struct {
	ID       jobs.AttemptID
	Counters jobs.Counters
}

// AttemptFailed says that an attempt has failed. If it could not read map output
// that no longer exists, Gone names the attempts that had made it.
type AttemptFailed struct {
	ID    jobs.AttemptID
	Class fault.Class
	Err   error
	Gone  []jobs.AttemptID
	// Unavailable says that what it needs is away for a while. The task is tried
	// again for Options.ParkLimit, without counting that against it.
	Unavailable bool
}

// AttemptKilled says that an attempt has ended because it was cancelled.
type AttemptKilled struct{ ID jobs.AttemptID }

// JobPublished is the outcome of a Publish.
type JobPublished struct {
	Job jobs.ID
	Err error
}

// Tick only says what time it is.
type Tick struct{}

func (WorkerRegistered) event() {}
func (WorkerLost) event()       {}
func (JobSubmitted) event()     {}
func (JobRestored) event()      {}
func (KillJob) event()          {}
func (AttemptStarted) event()   {}
func (AttemptProgress) event()  {}
func (AttemptFinished) event()  {}
func (AttemptFailed) event()    {}
func (AttemptKilled) event()    {}
func (JobPublished) event()     {}
func (Tick) event()             {}

// Action is something to be done by the shell. Actions about one job must be
// done in order.
type Action interface{ action() }

// Launch starts an attempt on a worker. An event must tell how it ended.
type Launch struct {
	ID       jobs.AttemptID
	Worker   cluster.WorkerID
	Locality jobs.Locality
	// Inputs are the winners of the stages read, by Stage.Inputs, then by task.
	Inputs [][]jobs.AttemptID
	// Holders are the workers that have their output, in the same order.
	Holders [][]cluster.WorkerID
	Rival   bool // another attempt of the task is running
}

// Cancel asks a worker to end an attempt soon. An event must tell when it has
// ended; until then its slot is taken.
type Cancel struct {
	ID     jobs.AttemptID
	Worker cluster.WorkerID
}

// Publish makes the output of the winners, by task, visible. There is at most
// one for a job; JobPublished answers it.
type Publish struct {
	Job jobs.ID
	Won []jobs.AttemptID
}

// Abandon drops the output of a job. Its attempts have ended or are fenced.
type Abandon struct{ Job jobs.ID }

// DropShuffle drops the shuffle output of a job. None of its attempts is live.
type DropShuffle struct{ Job jobs.ID }

// Finished says that a job has ended, with its last status. State is
// Succeeded, Failed or Killed; Err is nil if it succeeded. There is exactly one
// for a job.
type Finished struct {
	Job    jobs.ID
	State  jobs.State
	Err    error
	Status jobs.Status
}

// Rest tells that a worker gets no attempts for a while; for the log.
type Rest struct {
	Worker cluster.WorkerID
	Until  Time
}

// Wake asks for a Tick at a time. A later Wake replaces an earlier one.
type Wake struct{ At Time }

func (Launch) action()      {}
func (Cancel) action()      {}
func (Publish) action()     {}
func (Abandon) action()     {}
func (DropShuffle) action() {}
func (Finished) action()    {}
func (Rest) action()        {}
func (Wake) action()        {}
