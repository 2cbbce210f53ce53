// Package worker runs attempts: it opens an attempt's three doors, hands it
// to the jobs.Runner of its kind in a slot of its own, and reports how it
// ended. It knows neither catalogue nor SQL: an assignment says everything.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/shuffle"
)

// Options make a worker.
type Options struct {
	Worker  cluster.Worker // Slots: attempts at a time; 0 = 1
	Runners jobs.Runners
	Inputs  inputformat.Formats
	Outputs outputformat.Formats
	Shuffle shuffle.Service
	// Memory is what all attempts together may hold, in bytes; each gets its
	// slot's share. 0 = no limit.
	Memory int64
	// SpillFolder is where attempts put what they can't hold; see jobs.Context.
	SpillFolder string
	// ProgressEvery is the least time between two reports of an attempt's
	// progress. Default 200 ms; negative reports every one.
	ProgressEvery time.Duration
	Logger        *slog.Logger // nil: none
}

// Validate names every fault at once.
func (o Options) Validate() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Worker.ID == "" {
		bad("no worker id")
	}
	if o.Worker.Slots < 0 {
		bad("%d slots", o.Worker.Slots)
	}
	if len(o.Runners) == 0 {
		bad("no runners")
	}
	if o.Shuffle == nil {
		bad("no shuffle")
	}
	if o.Memory < 0 {
		bad("a memory of %d bytes", o.Memory)
	}
	if len(faults) == 0 {
		return nil
	}
	return fault.Bugf("worker: %w", errors.Join(faults...))
}

// Worker runs attempts. Safe for concurrent use.
type Worker struct {
	o Options

	mu       sync.Mutex
	closed   bool
	attempts map[jobs.AttemptID]context.CancelCauseFunc
	running  sync.WaitGroup
}

// errCancelled is the cause of the context of a cancelled attempt.
var errCancelled = errors.New("the attempt was cancelled")

// New returns a worker with all slots free. Close waits for what it runs.
func New(o Options) (*Worker, error) {
	if o.Worker.Slots == 0 {
		o.Worker.Slots = 1
	}
	if o.ProgressEvery == 0 {
		o.ProgressEvery = 200 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Worker{o: o, attempts: map[jobs.AttemptID]context.CancelCauseFunc{}}, nil
}

// Identity says who the worker is.
func (w *Worker) Identity() cluster.Worker { return w.o.Worker }

// Launch starts an attempt in a free slot and returns at once; report hears how
// it goes. ctx is the attempt's: when it ends, so does the attempt. An error
// means that nothing was started and report is not called.
func (w *Worker) Launch(ctx context.Context, a jobs.Assignment, report jobs.Reporter) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return fault.Retryablef("launch %s: worker %s is closing", a.ID, w.name())
	case w.attempts[a.ID] != nil:
		return fault.Bugf("launch %s: it is running on worker %s", a.ID, w.name())
	case len(w.attempts) >= w.o.Worker.Slots:
		return fault.Retryablef("launch %s: worker %s has no free slot of %d", a.ID, w.name(), w.o.Worker.Slots)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w.attempts[a.ID] = cancel
	w.running.Go(func() {
		result := w.attempt(ctx, &a, report)
		cancel(nil)
		w.mu.Lock()
		delete(w.attempts, a.ID)
		w.mu.Unlock()
		report.Ended(result)
	})
	return nil
}

// Cancel ends an attempt soon; unknown ones are ignored.
func (w *Worker) Cancel(id jobs.AttemptID) {
	w.mu.Lock()
	cancel := w.attempts[id]
	w.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

// Drop forgets the shuffle output of a job.
func (w *Worker) Drop(job jobs.ID) { w.o.Shuffle.Drop(string(job)) }

// Running returns how many attempts hold a slot.
func (w *Worker) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.attempts)
}

// Close cancels all attempts and waits until they have ended.
func (w *Worker) Close() error {
	w.mu.Lock()
	w.closed = true
	for _, cancel := range w.attempts {
		cancel(errCancelled)
	}
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

func (w *Worker) name() string {
	if w.o.Worker.Name != "" {
		return w.o.Worker.Name
	}
	return string(w.o.Worker.ID)
}

// attempt runs an attempt and says how it ended.
func (w *Worker) attempt(ctx context.Context, a *jobs.Assignment, report jobs.Reporter) (result jobs.Result) {
	r := &run{w: w, a: a, report: report, counters: jobs.Counters{}}
	defer func() {
		if p := recover(); p != nil {
			// User code and kernels run here: one attempt's bug must not end
			// the attempts beside it.
			w.o.Logger.Error("attempt panicked", "attempt", a.ID.String(), "worker", w.name(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result = jobs.Result{ID: a.ID, Err: fault.Bugf("attempt %s panicked: %v", a.ID, p)}
		}
	}()
	defer r.abort()
	report.Started(a.ID)
	manifest, err := r.do(ctx)
	result = jobs.Result{ID: a.ID, Err: err, Manifest: manifest, Counters: r.counters}
	if err == nil {
		return result
	}
	if ctx.Err() != nil {
		result.Killed = true
		return result
	}
	result.Unavailable = errors.Is(err, fault.ErrUnavailable)
	if gone, ok := errors.AsType[*shuffle.GoneError](err); ok {
		for _, from := range gone.From {
			result.Gone = append(result.Gone, jobs.AttemptID{Job: jobs.ID(from.Job), Stage: from.Stage, Task: from.Task, Attempt: from.Attempt})
		}
	}
	return result
}
