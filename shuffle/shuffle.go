// Package shuffle moves batches between the tasks of two stages. It is
// blocking per task: the output of a map attempt is visible once the attempt
// has finished, and a reader reads only the attempts it is told.
package shuffle

import (
	"context"
	"errors"
	"fmt"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/schema"
)

// ErrGone is returned by a reader when a map attempt's output no longer
// exists: the scheduler runs that map again. It comes as a *GoneError.
var ErrGone = errors.New("shuffle: map output is gone")

// GoneError names the map attempts whose output no longer exists, or can't be had:
// its process has died, its file is damaged. It is ErrGone to errors.Is.
type GoneError struct {
	From  []Attempt
	Cause error // why; nil if the output is simply not known
}

func (e *GoneError) Error() string {
	s := ErrGone.Error() + ": "
	for i, a := range e.From {
		if i == 3 {
			s = fmt.Sprintf("%s and %d more", s, len(e.From)-i)
			break
		}
		if i > 0 {
			s += ", "
		}
		s += a.String()
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *GoneError) Unwrap() error { return e.Cause }

// Is implements errors.Is.
func (e *GoneError) Is(target error) bool { return target == ErrGone }

// Attempt names a map attempt whose output is read.
type Attempt struct {
	Job     string
	Stage   int
	Task    int
	Attempt int
}

// String returns "job_1_0001.0.7.1" for attempt 1 of task 7 of stage 0.
func (a Attempt) String() string {
	return fmt.Sprintf("%s.%d.%d.%d", a.Job, a.Stage, a.Task, a.Attempt)
}

// Source is a map attempt whose output is read, and where it is.
type Source struct {
	Attempt
	// Worker ran the attempt; "" is a worker of this process.
	Worker cluster.WorkerID
	// Address is where its services listen; "" if that isn't known, which means
	// that the output is in this process, or gone.
	Address string
}

// Writer takes the partitioned output of one map attempt. Not safe for
// concurrent use.
type Writer interface {
	Write(ctx context.Context, partition int, b *batch.Batch) error
	// Finish makes the output visible to readers, all partitions at once; sizes
	// are bytes by partition. It fails if the job was dropped meanwhile.
	Finish(ctx context.Context) (sizes []int64, err error)
	// Abort drops it; safe after an error, a no-op after Finish.
	Abort()
}

// Service is the shuffle of a process.
type Service interface {
	// Writer opens the output of an attempt; each attempt may be opened once.
	Writer(ctx context.Context, a Attempt, fields []schema.Field, partitions int) (Writer, error)
	// Reader reads one partition of the given map attempts, in their order and,
	// within each, in the order written. Unknown, unfinished and dropped
	// attempts give a *GoneError, here or from Next.
	Reader(ctx context.Context, fields []schema.Field, partition int, from []Source) (batch.Reader, error)
	// Drop forgets all output of a job, unfinished writers' included. It doesn't
	// wait for anybody.
	Drop(job string)
}
