package jobs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
)

// String returns the attempt's unique name, "job_1_0001.2.7.0" for attempt 0 of
// task 7 of stage 2. It is fit to be a file name; outputs are written under it.
func (a AttemptID) String() string {
	return fmt.Sprintf("%s.%d.%d.%d", a.Job, a.Stage, a.Task, a.Attempt)
}

// Input is where an attempt finds one of its shuffle inputs.
type Input struct {
	Fields []schema.Field
	// Partitions is how many the producing stage writes. The attempt reads the
	// one with its task's index, or all of them in order if Broadcast.
	Partitions int
	Broadcast  bool
	From       []AttemptID // the attempts that won, in task order
	// Workers are where their output is, in From's order; nil: all in this process.
	Workers []cluster.WorkerID
}

// Assignment is an attempt as a worker gets it: resolved, so that a worker
// asks nobody anything about the job.
type Assignment struct {
	ID     AttemptID
	Stage  *Stage
	Task   *Task
	Inputs []Input           // in Stage.Inputs' order
	Output outputformat.Spec // as Begin returned it; nil unless the stage writes the job's output
	// Addresses are those of the workers that Inputs name. One that isn't there
	// is this process's, or lost.
	Addresses map[cluster.WorkerID]string
}

// Result is how an attempt ended.
type Result struct {
	ID AttemptID
	// Err is nil if the attempt succeeded; package fault has its class.
	Err error
	// Gone lists map attempts whose output no longer exists, if Err is because
	// of that: the attempt is not to blame.
	Gone []AttemptID
	// Unavailable says that what the attempt needs is away for a while, such as a
	// region of a worker that is not there: the attempt is not to blame.
	Unavailable bool
	// Killed says that the attempt ended because it was cancelled.
	Killed bool
	// Manifest is what the attempt wrote to the job's output, or nil.
	Manifest *outputformat.Manifest
	Counters Counters
}

// Reporter hears from a worker about the attempts that it runs. Its methods
// don't block and may be called from any goroutine.
type Reporter interface {
	// Started says that the attempt's work has begun.
	Started(AttemptID)
	// Progress says which share of the work is done, 0..1; now and then.
	Progress(id AttemptID, share float64)
	// Ended is called exactly once for an attempt, last, when its slot is free.
	Ended(Result)
}

// ParseAttemptID is the inverse of AttemptID.String.
func ParseAttemptID(name string) (AttemptID, error) {
	parts := strings.Split(name, ".")
	if len(parts) != 4 || parts[0] == "" {
		return AttemptID{}, fault.Bugf("%q is no name of an attempt", name)
	}
	id := AttemptID{Job: ID(parts[0])}
	for i, to := range []*int{&id.Stage, &id.Task, &id.Attempt} {
		n, err := strconv.Atoi(parts[i+1])
		if err != nil || n < 0 {
			return AttemptID{}, fault.Bugf("%q is no name of an attempt", name)
		}
		*to = n
	}
	return id, nil
}
