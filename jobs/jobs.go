// Package jobs has the shape of work: a job is a graph of stages cut at
// shuffles, a stage is tasks, an attempt is one try of a task in a slot of a
// worker. It knows nothing of SQL: a task's work is an opaque value with a kind.
package jobs

import (
	"context"
	"time"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
)

// ID names a job: "job_<cluster start>_0001".
type ID string

// Work is what tasks of a stage do. Kind picks the Runner.
type Work interface{ Kind() string }

// Job is a graph of stages. Stages come in an order in which each reads only
// from earlier ones; the last one writes Output.
type Job struct {
	ID          ID
	Name        string // for people: the SQL text, the program
	Stages      []*Stage
	Output      outputformat.Spec // nil: the job has no output
	MaxAttempts int               // failed attempts of a task that fail the job; 0 = 4
	Speculation Speculation
	Priority    int // higher goes first; among equals, first come first served
}

// Speculation says whether a slow attempt gets a rival.
type Speculation uint8

// The toggles; the zero value is off.
const (
	SpeculationOff Speculation = iota
	SpeculationDuplicate
)

// Stage is tasks that do the same work over different parts.
type Stage struct {
	ID     int // its index in Job.Stages
	Name   string
	Work   Work
	Inputs []int // stages whose shuffle output the tasks read, in the work's order
	// Broadcast[i]: every task reads all partitions of Inputs[i]; otherwise
	// task k reads partition k.
	Broadcast []bool
	Tasks     []Task
	// Partitions of the shuffle output; 0: the stage writes the job's output.
	Partitions int
	Fields     []schema.Field // of the output
}

// Task is one part of a stage.
type Task struct {
	Index int
	Split *inputformat.Split // nil: reads only shuffle inputs
	Bytes int64              // a hint
	Hosts []cluster.WorkerID
}

// AttemptID names one try of a task.
type AttemptID struct {
	Job     ID
	Stage   int
	Task    int
	Attempt int
}

// Locality says how near an attempt ran to its data.
type Locality uint8

// From near to far. Anywhere is for tasks whose data has no place.
const (
	LocalWorker Locality = iota
	LocalHost
	LocalRack
	Remote
	Anywhere
)

// String returns "worker", "host", "rack", "remote" or "any".
func (l Locality) String() string {
	return [...]string{"worker", "host", "rack", "remote", "any"}[l]
}

// Counters are named sums over a task, stage or job. Names in use are the
// Counter constants; user code adds its own as "group/name".
type Counters map[string]int64

// Names of the engine's counters.
const (
	CounterRowsRead     = "rows_read"     // looked at, pruned included
	CounterRowsOut      = "rows_out"      // left the stage
	CounterBytesRead    = "bytes_read"    // of files and segments
	CounterShuffleBytes = "shuffle_bytes" // written to shuffles
	CounterSpillBytes   = "spill_bytes"   // written because memory was not enough
	CounterBadCells     = "bad_cells"
	CounterBadRows      = "bad_rows"
	CounterDuplicates   = "duplicate_keys"
)

// Add adds d's counts.
func (c Counters) Add(d Counters) {
	for k, v := range d {
		c[k] += v
	}
}

// Context is what a running attempt has: its work and its three doors.
type Context struct {
	ID      AttemptID
	Stage   *Stage
	Task    *Task
	Work    Work
	Inputs  []batch.Reader      // shuffle inputs, in Stage.Inputs' order
	Formats inputformat.Formats // to open Task.Split with
	// Shuffle takes output of stages with Partitions > 0, Output that of the
	// last stage; the other is nil.
	Shuffle interface {
		Write(ctx context.Context, partition int, b *batch.Batch) error
	}
	Output interface {
		Write(ctx context.Context, b *batch.Batch) error
	}
	// Counters are the attempt's; the runner adds to them, from its goroutine.
	Counters Counters
	// Progress reports a share done, 0..1; may be nil.
	Progress func(float64)
	// Memory is how many bytes the attempt may hold; 0 = no limit.
	Memory int64
	// SpillFolder is where the attempt may put what it can't hold: files that it removes
	// before Run returns. It is made when needed; "" is the system's temporary folder.
	SpillFolder string
}

// Runner does the work of one kind. Run returns when the attempt's output is
// complete; it must return soon after ctx is done. It may run twice for one
// task, at the same time.
type Runner interface {
	Run(ctx context.Context, c *Context) error
}

// Runners is the registry by Work.Kind, a value built by node.
type Runners map[string]Runner

// State of a job, stage, task or attempt: Waiting -> Running -> one of the rest.
type State uint8

// The states.
const (
	Waiting State = iota
	Running
	Succeeded
	Failed
	Killed
)

// String returns the state in lower case.
func (s State) String() string {
	return [...]string{"waiting", "running", "succeeded", "failed", "killed"}[s]
}

// StageStatus and Status are how far a job is, for people and EXPLAIN ANALYZE.
type StageStatus struct {
	Name     string
	State    State
	Tasks    int
	Done     int
	Running  int
	Local    int // finished tasks that ran on a worker holding their data
	Placed   int // finished tasks whose data has a place
	Counters Counters
	// Locality counts the finished tasks by how near they ran: Locality[LocalHost].
	Locality [Anywhere + 1]int
	Attempts int           // launched so far
	Failed   int           // attempts that failed, killed and lost ones not counted
	Progress float64       // 0..1
	Elapsed  time.Duration // from the first launch to the last end, or to now
	Warning  string        // for people; empty if all is well
	Parked   int           // tasks whose data is on no worker that is there
	Waiting  string        // for people: what the stage waits for; empty if for nothing
}

// Status is a job's.
type Status struct {
	ID       ID
	Name     string
	State    State
	Stages   []StageStatus
	Error    string
	Summary  outputformat.Summary
	Counters Counters
}
