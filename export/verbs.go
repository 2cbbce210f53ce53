package export

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
)

// Create makes an export; its query is compiled, not run. A schedule is followed
// from now on.
func (s *Service) Create(ctx context.Context, d Definition) (Definition, error) {
	d.Number, d.Created = 0, s.o.Clock.Now().UTC()
	d.Through = d.Created
	if err := d.check(); err != nil {
		return Definition{}, err
	}
	if _, err := s.o.Engine.Check(ctx, d.Database, d.Query); err != nil {
		return Definition{}, fmt.Errorf("export %s: %w", d.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[d.Name] != nil {
		return Definition{}, fault.Userf("there is an export %s already", d.Name)
	}
	if err := s.store.write(s.store.definition(d.Name), d); err != nil {
		return Definition{}, fmt.Errorf("create export %s: %w", d.Name, err)
	}
	s.all[d.Name] = &exported{def: &d, runs: map[string]*Run{}}
	s.wake()
	return d, nil
}

// SetSchedule changes when an export runs by itself; nil is never. Times before
// now are neither made up for nor repeated.
func (s *Service) SetSchedule(name string, schedule *Schedule) (Definition, error) {
	if schedule != nil {
		copied := *schedule
		schedule = &copied
		if _, err := schedule.parse(); err != nil {
			return Definition{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(name)
	if err != nil {
		return Definition{}, err
	}
	d := *x.def
	d.Schedule, d.Through = schedule, s.o.Clock.Now().UTC()
	if err := s.store.write(s.store.definition(name), d); err != nil {
		return Definition{}, fmt.Errorf("schedule export %s: %w", name, err)
	}
	x.def = &d
	s.wake()
	return d, nil
}

// List returns all exports, by name.
func (s *Service) List() []Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Definition
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		out = append(out, *s.all[name].def)
	}
	return out
}

// Get returns an export and its runs, the newest first.
func (s *Service) Get(name string) (Definition, []Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(name)
	if err != nil {
		return Definition{}, nil, err
	}
	var runs []Run
	for _, r := range x.sorted() {
		runs = append(runs, *r)
	}
	return *x.def, runs, nil
}

// Run returns a run; "latest" or "" is the newest that succeeded.
func (s *Service) Run(name, id string) (Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.findRun(name, id)
	if err != nil {
		return Run{}, err
	}
	return *r, nil
}

// Start queues a run on demand.
func (s *Service) Start(name string) (Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(name)
	if err != nil {
		return Run{}, err
	}
	if s.closed {
		return Run{}, fault.Retryablef("run export %s: %w", name, errClosing)
	}
	d := *x.def
	d.Number++
	// The number is spent before there is a run of it, so that it is never used
	// twice, even by runs that are dropped.
	if err := s.store.write(s.store.definition(name), d); err != nil {
		return Run{}, fmt.Errorf("run export %s: %w", name, err)
	}
	x.def = &d
	r := &Run{Export: name, ID: fmt.Sprintf("run-%d", d.Number), State: Queued, Queued: s.o.Clock.Now().UTC()}
	if err := s.enqueue(x, r); err != nil {
		return Run{}, err
	}
	s.launch()
	return *r, nil
}

// Wait waits until a run is over and returns it, with an error if it did not
// succeed. If ctx ends first, the run goes on.
func (s *Service) Wait(ctx context.Context, name, id string) (Run, error) {
	for {
		s.mu.Lock()
		r, err := s.findRun(name, id)
		if err != nil {
			s.mu.Unlock()
			return Run{}, err
		}
		now, changed, closed := *r, s.changed, s.closed
		s.mu.Unlock()
		switch {
		case now.State == Succeeded:
			return now, nil
		case now.State.Over(), now.State == Interrupted:
			return now, fault.Userf("run %s of export %s %s: %s", now.ID, name, now.State, now.Error)
		case closed:
			return now, fault.Retryablef("run %s of export %s: %w", now.ID, name, errClosing)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
	}
}

// Cancel ends a run that is queued or being made. Nothing of it stays but its
// record.
func (s *Service) Cancel(name, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.findRun(name, id)
	if err != nil {
		return err
	}
	if r.State.Over() {
		return fault.Userf("run %s of export %s has %s already", r.ID, name, r.State)
	}
	if cancel := s.running[r]; cancel != nil {
		cancel(errCancelled)
		return nil
	}
	over := *r
	over.State, over.Ended, over.Error = Cancelled, s.o.Clock.Now().UTC(), errCancelled.Error()
	if err := s.store.write(s.store.run(name, r.ID), over); err != nil {
		return fmt.Errorf("cancel run %s of export %s: %w", r.ID, name, err)
	}
	*r = over
	s.queue = slices.DeleteFunc(s.queue, func(q *Run) bool { return q == r })
	s.notify()
	return nil
}

// Delete drops an export with all its runs and files, or, with an id, one run
// that is over. Runs that are being made are cancelled.
func (s *Service) Delete(name, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(name)
	if err != nil {
		return err
	}
	if id != "" {
		r, err := s.findRun(name, id)
		if err != nil {
			return err
		}
		if !r.State.Over() && r.State != Interrupted {
			return fault.Userf("run %s of export %s is %s: cancel it first", r.ID, name, r.State)
		}
		if err := s.store.dropRun(name, r.ID); err != nil {
			return fmt.Errorf("delete run %s of export %s: %w", r.ID, name, err)
		}
		delete(x.runs, r.ID)
		return nil
	}
	if err := s.store.drop(name); err != nil {
		return fmt.Errorf("delete export %s: %w", name, err)
	}
	delete(s.all, name)
	for _, r := range x.runs {
		if cancel := s.running[r]; cancel != nil {
			cancel(errCancelled)
		}
	}
	s.queue = slices.DeleteFunc(s.queue, func(q *Run) bool { return q.Export == name })
	s.notify()
	return nil
}

// Artifact opens the zip of a run that succeeded; "latest" or "" is the newest. The
// file stays readable when the run is dropped meanwhile.
func (s *Service) Artifact(name, id string) (*os.File, Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.findRun(name, id)
	if err != nil {
		return nil, Run{}, err
	}
	if r.State != Succeeded {
		why := string(r.State)
		if r.Error != "" {
			why += ": " + strings.TrimSpace(r.Error)
		}
		return nil, *r, fault.Userf("run %s of export %s has no file, it is %s", r.ID, name, why)
	}
	f, err := os.Open(s.store.data(name, r.ID))
	if err != nil {
		return nil, *r, fmt.Errorf("the file of run %s of export %s: %w", r.ID, name, err)
	}
	return f, *r, nil
}
