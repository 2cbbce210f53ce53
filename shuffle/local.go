package shuffle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// LocalOptions make a Local.
type LocalOptions struct {
	// Memory is how many bytes of batches are held, 0 = no limit. What does not
	// fit goes to disk. An output that is written holds at most one batch more.
	Memory int64
	// Dirs are directories for files, one in each data folder. They belong to
	// the shuffle alone: what is in them is removed. None: nothing goes to disk,
	// and a write beyond Memory fails with a retryable error.
	Dirs []string
	// FS is the directories' file system; nil: the operating system's.
	FS vfs.FS
	// MinFree is how many bytes of a directory's disk the shuffle leaves free.
	MinFree int64
}

// Validate names every fault at once.
func (o LocalOptions) Validate() error {
	var faults []error
	if o.Memory < 0 {
		faults = append(faults, fmt.Errorf("a memory of %d bytes", o.Memory))
	}
	if o.MinFree < 0 {
		faults = append(faults, fmt.Errorf("%d bytes to leave free", o.MinFree))
	}
	for i, d := range o.Dirs {
		if d == "" || slices.Contains(o.Dirs[:i], d) {
			faults = append(faults, fmt.Errorf("directory %q is empty or given twice", d))
		}
	}
	if faults == nil {
		return nil
	}
	return fault.Bugf("shuffle: %w", errors.Join(faults...))
}

// Local is the shuffle between tasks of one process, and what other processes
// fetch from it. Batches are handed over as they are; when they exceed the memory
// limit, outputs are written to disk, finished ones first, and read from there.
// Safe for concurrent use.
type Local struct {
	o LocalOptions

	mu      sync.Mutex
	used    int64 // bytes of batches held, and reserved for some that soon will be
	spilled int64 // bytes written to disk so far
	jobs    map[string]map[Attempt]*output
	// ended are the jobs that were dropped last: an attempt of theirs that comes
	// late must not leave anything.
	ended   []string
	changed chan struct{} // closed and renewed when used falls or an eviction ends
	closed  bool
}

var _ Service = (*Local)(nil)

// NewMemory returns a shuffle that holds everything in memory, without limit.
func NewMemory() *Local {
	return &Local{jobs: map[string]map[Attempt]*output{}, changed: make(chan struct{})}
}

// NewLocal returns an empty shuffle. Files that a process before it left in the
// directories are removed.
func NewLocal(o LocalOptions) (*Local, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	l := NewMemory()
	l.o = o
	return l, l.clear()
}

// clear removes the directories.
func (l *Local) clear() error {
	var errs []error
	for _, d := range l.o.Dirs {
		if err := l.o.FS.RemoveAll(d); err != nil {
			errs = append(errs, fmt.Errorf("shuffle: remove %s: %w", d, err))
		}
	}
	return errors.Join(errs...)
}

// Close forgets everything and removes the directories. Writers and readers that
// are open fail.
func (l *Local) Close() error {
	l.mu.Lock()
	l.closed = true
	var all []string
	for job := range l.jobs {
		all = append(all, job)
	}
	l.mu.Unlock()
	for _, job := range all {
		l.Drop(job)
	}
	return l.clear()
}

// Stats is what a Local holds, and has written.
type Stats struct {
	Memory  int64 // bytes of batches held now
	Spilled int64 // bytes written to disk since the start
	Jobs    int   // that have output
}

// Stats returns what the shuffle holds.
func (l *Local) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Memory: l.used, Spilled: l.spilled, Jobs: len(l.jobs)}
}

// Writer implements Service.
func (l *Local) Writer(ctx context.Context, a Attempt, fields []schema.Field, partitions int) (Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: open output of %s: %w", a, err)
	}
	switch {
	case partitions <= 0 || partitions > maxPartitions:
		return nil, fault.Bugf("shuffle: output of %s has %d partitions, want 1 to %d", a, partitions, maxPartitions)
	case a.Job == "" || a.Job != filepath.Base(a.Job) || a.Job[0] == '.':
		return nil, fault.Bugf("shuffle: output of a job named %q", a.Job)
	}
	o := &output{
		l: l, a: a, fields: fields,
		parts: make([][]*batch.Batch, partitions),
		sizes: make([]int64, partitions),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fault.Retryablef("shuffle: open output of %s: the shuffle is closed", a)
	}
	if slices.Contains(l.ended, a.Job) {
		return nil, droppedError(a)
	}
	outputs := l.jobs[a.Job]
	if outputs == nil {
		outputs = map[Attempt]*output{}
		l.jobs[a.Job] = outputs
	}
	if outputs[a] != nil {
		return nil, fault.Bugf("shuffle: output of %s was opened before", a)
	}
	outputs[a] = o
	return &localWriter{o: o}, nil
}

// Drop implements Service. Files of an output that is being written are removed
// by its writer's Abort.
func (l *Local) Drop(job string) {
	var files []*stored
	l.mu.Lock()
	for _, o := range l.jobs[job] {
		o.dropped = true
		l.used -= o.used
		o.used = 0
		if o.finished {
			o.parts = nil
		}
		if o.file != nil {
			files = append(files, o.file)
		}
	}
	delete(l.jobs, job)
	const remember = 256
	if l.ended = append(l.ended, job); len(l.ended) > remember {
		l.ended = l.ended[1:]
	}
	l.notify()
	l.mu.Unlock()
	for _, f := range files {
		l.remove(f.paths()...)
	}
	if len(files) > 0 {
		l.removeJob(job)
	}
}

// notify wakes those who wait for room. l.mu is held.
func (l *Local) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// reserve accounts n more bytes to o, and makes room for them by writing outputs
// to disk.
func (l *Local) reserve(ctx context.Context, o *output, n int64) error {
	for {
		l.mu.Lock()
		if o.dropped {
			l.mu.Unlock()
			return droppedError(o.a)
		}
		victim, busy := (*output)(nil), false
		if l.o.Memory > 0 && l.used+n > l.o.Memory && l.used > 0 {
			if len(l.o.Dirs) == 0 {
				err := l.memoryError(o.a, n)
				l.mu.Unlock()
				return err
			}
			victim, busy = l.victim()
		}
		if victim == nil && !busy {
			// It fits, or everything that could be written out is: what is
			// left are the batches that writers are about to add, one each.
			l.used += n
			o.used += n
			l.mu.Unlock()
			return nil
		}
		if victim == nil {
			changed := l.changed
			l.mu.Unlock()
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return fmt.Errorf("shuffle: write output of %s: %w", o.a, ctx.Err())
			}
		}
		victim.evicting = true
		l.mu.Unlock()
		err := victim.evict()
		l.mu.Lock()
		victim.evicting = false
		l.notify()
		l.mu.Unlock()
		if err != nil {
			return fmt.Errorf("shuffle: make room for output of %s: %w", o.a, err)
		}
	}
}

// victim returns whose batches go to disk next: a finished output, the largest;
// else the largest of those that are written. busy says that one is on its way
// already. l.mu is held.
func (l *Local) victim() (v *output, busy bool) {
	for _, outputs := range l.jobs {
		for _, o := range outputs {
			if o.evicting {
				busy = true
				continue
			}
			if o.held > 0 && (v == nil || worse(o, v) > 0) {
				v = o
			}
		}
	}
	return v, busy
}

// worse orders outputs by how gladly their memory is taken.
func worse(a, b *output) int {
	if a.finished != b.finished {
		if a.finished {
			return 1
		}
		return -1
	}
	if c := cmp.Compare(a.held, b.held); c != 0 {
		return c
	}
	return cmp.Compare(a.a.String(), b.a.String())
}

func (l *Local) memoryError(a Attempt, n int64) error {
	return &fault.Error{
		Class: fault.Retryable, SQLState: "53200",
		Message: fmt.Sprintf("shuffle: output of %s needs %d more bytes of memory, but %d of at most %d are in use", a, n, l.used, l.o.Memory),
		Hint:    "raise the shuffle's memory limit, or run fewer jobs at a time",
	}
}

func droppedError(a Attempt) error {
	return fmt.Errorf("shuffle: the job of %s has ended: %w", a, context.Canceled)
}

// Jobs returns the names of those whose output is held.
func (l *Local) Jobs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]string, 0, len(l.jobs))
	for job := range l.jobs {
		out = append(out, job)
	}
	return out
}
