package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
)

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

// Options make a Service.
type Options struct {
	Dir    string // the folder of exports, made when it is first needed
	Engine Engine
	// Follow runs what schedules say, and again what a process before this one did not
	// finish. Without it only what is asked for runs.
	Follow bool
	// Parallel is how many runs are made at a time; 0 = 1.
	Parallel int
	// Attempts is how often a run is tried that fails with a retryable error, or whose
	// process ends; 0 = 3.
	Attempts int
	Clock    Clock        // nil: the system's
	Logger   *slog.Logger // nil: none
}

// Service has the exports of a folder. One process at a time may open it: the data
// folder's lock sees to that. Safe for concurrent use.
type Service struct {
	o     Options
	store store

	mu      sync.Mutex
	all     map[string]*exported
	running map[*Run]context.CancelCauseFunc
	queue   []*Run
	changed chan struct{} // closed, and made anew, at each change of a run
	closed  bool
	stop    func() bool // of the pending wake-up
	work    sync.WaitGroup
}

var (
	errCancelled = errors.New("the run was cancelled")
	errClosing   = errors.New("the process is ending")
)

// Open opens the folder. With Options.Follow it begins to run what is due. Close
// ends it.
func Open(o Options) (*Service, error) {
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Parallel <= 0 {
		o.Parallel = 1
	}
	if o.Attempts <= 0 {
		o.Attempts = 3
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{o: o, store: store{o.Dir}, running: map[*Run]context.CancelCauseFunc{}, changed: make(chan struct{})}
	var err error
	if s.all, err = s.store.load(); err != nil {
		return nil, err
	}
	if err := s.recover(); err != nil {
		return nil, fmt.Errorf("exports: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
	return s, nil
}

// recover sets right what a process that ended left: nothing of an unfinished run
// stays but its record, which is tried again or says what happened.
func (s *Service) recover() error {
	var again []*Run
	for name, x := range s.all {
		for _, r := range x.runs {
			if r.State.Over() {
				if r.State == Succeeded {
					if _, err := os.Stat(s.store.data(name, r.ID)); errors.Is(err, fs.ErrNotExist) {
						s.o.Logger.Error("the file of an export run is gone", "export", name, "run", r.ID)
					}
				}
				continue
			}
			before := r.State
			switch {
			case r.State == Running && r.Attempts >= s.o.Attempts:
				r.State, r.Ended, r.Error = Failed, s.o.Clock.Now(), fmt.Sprintf("the process ended during attempt %d of %d", r.Attempts, s.o.Attempts)
			case s.o.Follow:
				r.State = Queued
			default:
				r.State = Interrupted
			}
			r.Rows = 0
			if r.State == Queued {
				again = append(again, r)
			}
			if r.State != before {
				if err := s.store.write(s.store.run(name, r.ID), r); err != nil {
					return err
				}
			}
		}
	}
	if err := s.store.tidy(s.all); err != nil {
		return err
	}
	slices.SortFunc(again, func(a, b *Run) int { return cmp.Or(a.Queued.Compare(b.Queued), cmp.Compare(a.ID, b.ID)) })
	s.queue = again
	return nil
}

// Close ends the runs that are being made (they are tried again when the folder is
// next followed) and waits for them.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.stop != nil {
		s.stop()
	}
	for _, cancel := range s.running {
		cancel(errClosing)
	}
	s.notify()
	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// notify tells those that wait that a run has changed. mu is held.
func (s *Service) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// longest is the longest time without a look at the clock, which people may set.
const longest = 10 * time.Minute

// wake queues what is due, starts what may run, and asks to be called again.
// mu is held.
func (s *Service) wake() {
	if s.closed {
		return
	}
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	now := s.o.Clock.Now()
	pause := longest
	if s.o.Follow {
		for _, name := range slices.Sorted(maps.Keys(s.all)) {
			x := s.all[name]
			if x.def.Schedule == nil {
				continue
			}
			next, err := s.due(x, now)
			if err != nil {
				s.o.Logger.Error("schedule of an export not followed", "export", name, "error", err.Error())
				continue
			}
			if !next.IsZero() {
				pause = min(pause, next.Sub(now))
			}
		}
	}
	s.launch()
	if !s.o.Follow {
		return
	}
	s.stop = s.o.Clock.AfterFunc(max(pause, time.Millisecond), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wake()
	})
}

const (
	// onTime is how late a firing may be seen that wasn't missed.
	onTime = time.Minute
	// maxMissed bounds how many missed times are made up for.
	maxMissed = 1000
)

// due queues the firings up to now that are to be run, notes that they have been,
// and returns when the next one is. A firing has one id: a crash between the two steps
// makes no second run of it. mu is held.
func (s *Service) due(x *exported, now time.Time) (next time.Time, err error) {
	c, err := x.def.Schedule.parse()
	if err != nil {
		return time.Time{}, err
	}
	var missed []firing
	f := c.next(x.def.Through)
	for ; !f.IsZero() && !f.at.After(now); f = c.next(f.at) {
		missed = append(missed, f)
		if len(missed) > maxMissed {
			missed = missed[1:]
		}
	}
	if len(missed) == 0 {
		return f.at, nil
	}
	last := missed[len(missed)-1]
	switch x.def.Schedule.Missed {
	case MissedOnce:
		missed = missed[len(missed)-1:]
	case MissedSkip:
		missed = slices.DeleteFunc(missed, func(f firing) bool { return now.Sub(f.at) > onTime })
	}
	for _, f := range missed {
		if x.runs[f.id()] != nil {
			continue
		}
		if err := s.enqueue(x, &Run{Export: x.def.Name, ID: f.id(), State: Queued, Scheduled: f.at.UTC(), Queued: now.UTC()}); err != nil {
			return time.Time{}, err
		}
	}
	d := *x.def
	d.Through = last.at.UTC()
	if err := s.store.write(s.store.definition(d.Name), d); err != nil {
		return time.Time{}, err
	}
	x.def = &d
	return f.at, nil
}

// enqueue makes a run durable and queues it. mu is held.
func (s *Service) enqueue(x *exported, r *Run) error {
	if err := s.store.write(s.store.run(r.Export, r.ID), r); err != nil {
		return fmt.Errorf("run export %s: %w", r.Export, err)
	}
	x.runs[r.ID] = r
	s.queue = append(s.queue, r)
	s.notify()
	return nil
}

// launch starts queued runs while there is room. mu is held.
func (s *Service) launch() {
	for len(s.queue) > 0 && len(s.running) < s.o.Parallel && !s.closed {
		r := s.queue[0]
		s.queue = s.queue[1:]
		ctx, cancel := context.WithCancelCause(context.Background())
		s.running[r] = cancel
		def := *s.all[r.Export].def
		s.work.Go(func() {
			s.execute(ctx, r, def)
			cancel(nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, r)
			s.launch()
			s.notify()
		})
	}
}

// execute makes a run and records how it ended.
func (s *Service) execute(ctx context.Context, r *Run, d Definition) {
	s.mu.Lock()
	r.State, r.Started, r.Error, r.Rows = Running, s.o.Clock.Now().UTC(), "", 0
	r.Attempts++
	err := s.store.write(s.store.run(d.Name, r.ID), r)
	s.notify()
	s.mu.Unlock()
	var m *Manifest
	var file string
	if err == nil {
		m, file, err = s.make(ctx, r, &d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := s.all[d.Name] == nil || s.all[d.Name].runs[r.ID] != r
	if err == nil && !dropped {
		// Before the record says so: a crash in between leaves a file that nobody
		// knows of, and the run is made again.
		if err = s.store.install(file, s.store.data(d.Name, r.ID)); err != nil {
			err = fault.Retryablef("export: %w", err)
		}
	}
	if file != "" && (err != nil || dropped) {
		_ = os.Remove(file) // the next start removes what is left
	}
	if dropped {
		return
	}
	r.Rows, r.Ended = 0, s.o.Clock.Now().UTC()
	switch cause := context.Cause(ctx); {
	case err == nil:
		r.State, r.Manifest = Succeeded, m
	case errors.Is(cause, errCancelled):
		r.State, r.Error = Cancelled, errCancelled.Error()
	case errors.Is(cause, errClosing):
		r.State, r.Ended, r.Error = Interrupted, time.Time{}, errClosing.Error()
	case fault.ClassOf(err) == fault.Retryable && r.Attempts < s.o.Attempts:
		r.State, r.Ended, r.Error = Queued, time.Time{}, err.Error()
	default:
		r.State, r.Error = Failed, err.Error()
	}
	if werr := s.store.write(s.store.run(d.Name, r.ID), r); werr != nil {
		// What is on disk says Running: the next process tries again.
		s.o.Logger.Error("the end of an export run was not recorded", "export", d.Name, "run", r.ID, "error", werr.Error())
		if r.State == Succeeded {
			r.State, r.Manifest, r.Error = Failed, nil, werr.Error()
		}
	}
	if err != nil {
		s.o.Logger.Warn("export run failed", "export", d.Name, "run", r.ID, "state", string(r.State), "error", err.Error())
	}
	if r.State == Queued {
		s.later(r)
	}
	s.prune(s.all[d.Name])
}

// later queues a run again after a pause. mu is held.
func (s *Service) later(r *Run) {
	s.o.Clock.AfterFunc(time.Second<<min(r.Attempts, 6), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if x := s.all[r.Export]; s.closed || r.State != Queued || x == nil || x.runs[r.ID] != r || slices.Contains(s.queue, r) {
			return
		}
		s.queue = append(s.queue, r)
		s.launch()
	})
}

// make runs the query and returns the zip, complete and durable, beside its place.
func (s *Service) make(ctx context.Context, r *Run, d *Definition) (_ *Manifest, file string, err error) {
	result, err := s.o.Engine.Query(ctx, d.Database, d.Query)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, result.Close()) }()
	if err := os.MkdirAll(s.store.aside(), 0o755); err != nil {
		return nil, "", fault.Retryablef("export: %w", err)
	}
	f, err := os.CreateTemp(s.store.aside(), "zip-")
	if err != nil {
		return nil, "", fault.Retryablef("export: %w", err)
	}
	m, err := archive(ctx, f, d, r.ID, result, func(rows int64) {
		s.mu.Lock()
		r.Rows = rows
		s.mu.Unlock()
	})
	return m, f.Name(), errors.Join(err, f.Chmod(0o644), f.Close(), ctx.Err())
}

// prune drops runs that the definition doesn't keep. mu is held.
func (s *Service) prune(x *exported) {
	now := s.o.Clock.Now()
	kept, failures := 0, 0
	for _, r := range x.sorted() {
		drop := false
		switch {
		case !r.State.Over():
		case r.State == Succeeded:
			kept++
			drop = kept > x.def.keep() || kept > 1 && x.def.KeepDays > 0 && now.Sub(r.Ended) > time.Duration(x.def.KeepDays)*24*time.Hour
		default:
			failures++
			drop = failures > x.def.keep()
		}
		if !drop {
			continue
		}
		if err := s.store.dropRun(x.def.Name, r.ID); err != nil {
			s.o.Logger.Error("old export run not dropped", "export", x.def.Name, "run", r.ID, "error", err.Error())
			continue
		}
		delete(x.runs, r.ID)
	}
}

// find returns an export. mu is held.
func (s *Service) find(name string) (*exported, error) {
	x := s.all[name]
	if x == nil {
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateBadData, Message: fmt.Sprintf("there is no export %q", name),
			Hint: nearest.Hint(name, slices.Sorted(maps.Keys(s.all))), Cause: fs.ErrNotExist}
	}
	return x, nil
}

// findRun returns a run; the id "latest" or "" is the newest that succeeded. mu is held.
func (s *Service) findRun(name, id string) (*Run, error) {
	x, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if id == "" || id == "latest" {
		if r := x.latest(); r != nil {
			return r, nil
		}
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateBadData, Message: fmt.Sprintf("export %s has no run that succeeded", name), Cause: fs.ErrNotExist}
	}
	r := x.runs[id]
	if r == nil {
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateBadData, Message: fmt.Sprintf("export %s has no run %q", name, id),
			Hint: nearest.Hint(id, slices.Sorted(maps.Keys(x.runs))), Cause: fs.ErrNotExist}
	}
	return r, nil
}
