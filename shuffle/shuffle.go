// Package shuffle moves batches between the tasks of two stages. It is
// blocking per task: the output of a map attempt is visible once the attempt
// has finished, and a reader reads only the attempts it is told.
package shuffle

import (
	"context"
	"errors"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// ErrGone is returned by a reader when a map attempt's output no longer
// exists: the scheduler runs that map again.
var ErrGone = errors.New("shuffle: map output is gone")

// Attempt names a map attempt whose output is read.
type Attempt struct {
	Job     string
	Stage   int
	Task    int
	Attempt int
}

// Writer takes the partitioned output of one map attempt.
type Writer interface {
	Write(ctx context.Context, partition int, b *batch.Batch) error
	// Finish makes the output visible to readers; sizes are bytes by partition.
	Finish(ctx context.Context) (sizes []int64, err error)
	// Abort drops it; safe after an error, a no-op after Finish.
	Abort()
}

// Service is the shuffle of a process.
type Service interface {
	Writer(ctx context.Context, a Attempt, fields []schema.Field, partitions int) (Writer, error)
	// Reader reads one partition of the given map attempts, in their order.
	Reader(ctx context.Context, fields []schema.Field, partition int, from []Attempt) (batch.Reader, error)
	// Drop forgets all output of a job.
	Drop(job string)
}
