package mapreduce

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/skepdb/skep/internal/fault"
)

// Task is the task that a map or reduce function runs in. It is used by that
// function's goroutine only.
type Task struct {
	ctx      context.Context
	a        *Attempt
	counters map[string]*Counter
	err      error // of a call that returns none
}

// Context ends when the attempt is cancelled.
func (t *Task) Context() context.Context { return t.ctx }

// Index is the task's number within its stage, from 0.
func (t *Task) Index() int { return t.a.Index }

// Label says what the task reads, for people: "birds.tsv:0-1048576".
func (t *Task) Label() string { return t.a.Label }

// Param returns a parameter of the job (-D name=value), or "".
func (t *Task) Param(name string) string { return t.a.Params[name] }

// IntParam returns a parameter as a number, or def when it isn't given.
func (t *Task) IntParam(name string, def int64) (int64, error) {
	text, ok := t.a.Params[name]
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fault.Userf("parameter %s: %q is not a whole number", name, text)
	}
	return n, nil
}

// Counter is a sum over the whole job, of the attempts that won.
type Counter struct{ n int64 }

// Add adds to the counter.
func (c *Counter) Add(n int64) { c.n += n }

// Counter returns the counter "group/name". Get it once and keep it where it
// counts every record.
func (t *Task) Counter(name string) *Counter {
	c := t.counters[name]
	if c == nil {
		group, rest, ok := strings.Cut(name, "/")
		if t.err == nil && (!ok || group == "" || rest == "" || len(name) > 200 || len(t.counters) >= maxCounters) {
			t.err = fault.Userf("counter %q: want group/name, at most 200 bytes, and at most %d of them", name, maxCounters)
		}
		c = &Counter{}
		t.counters[name] = c
	}
	return c
}

// maxCounters bounds what a task reports.
const maxCounters = 1000

// Logf writes a line to the task's log.
func (t *Task) Logf(format string, args ...any) {
	if t.a.Log != nil {
		_, _ = io.WriteString(t.a.Log, fmt.Sprintf(format, args...)+"\n") // a log that can't be written is no reason to fail
	}
}

// Alive says that the task is not stuck, for functions that take longer over
// one record than the task time-out.
func (t *Task) Alive() {
	if t.a.Alive != nil {
		t.a.Alive()
	}
}
