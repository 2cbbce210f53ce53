package scheduler

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
)

// parked reports whether no worker is there that has the data which t must have.
func (t *task) parked() bool {
	if t.Split == nil || !t.Split.Bound || len(t.holders) == 0 {
		return false
	}
	for _, h := range t.holders {
		if h.w != nil {
			return false
		}
	}
	return true
}

// parkedSince is since when t is parked.
func (t *task) parkedSince() Time {
	last := t.holders[0].since
	for _, h := range t.holders[1:] {
		last = max(last, h.since)
	}
	return last
}

// maybeParked reports whether a ready task of st can be parked at all.
func (st *stage) maybeParked() bool {
	if st.ready == 0 && len(st.delayed) == 0 {
		return false
	}
	for _, h := range st.holders {
		if h.w == nil && h.ready > 0 {
			return true
		}
	}
	return false
}

// eachParked calls f for the ready tasks that are parked, until it returns false.
func (st *stage) eachParked(f func(*task) bool) {
	if !st.maybeParked() {
		return
	}
	for i := range st.tasks {
		if t := &st.tasks[i]; t.ready && t.parked() && !f(t) {
			return
		}
	}
}

// expireParked fails the jobs that have waited too long for a worker's data.
func (s *State) expireParked() {
	for i := 0; i < len(s.queue); i++ {
		j := s.queue[i]
		if j.phase != running {
			continue
		}
		for _, st := range j.stages {
			if !st.maybeParked() || !st.runnable() {
				continue
			}
			var over *task
			st.eachParked(func(t *task) bool {
				at := t.parkedSince() + s.opt.ParkLimit
				if at <= s.now {
					over = t
					return false
				}
				s.due(at)
				return true
			})
			if over == nil {
				continue
			}
			s.end(j, st, jobs.Failed, fault.Unavailablef("stage %d%s, task %d: the only copy of its data (%s) is on worker %s, which has not been there for %s",
				st.ID, quoted(st.Name), over.Index, over.Split.Label, names(over), seconds(s.now-over.parkedSince())))
			break
		}
		if i < len(s.queue) && s.queue[i] != j {
			i-- // the job has left the queue
		}
	}
}

// names are those of the workers that t waits for.
func names(t *task) string {
	out := make([]string, len(t.holders))
	for i, h := range t.holders {
		out[i] = string(h.id)
	}
	return some(out)
}

func seconds(d Time) string { return fmt.Sprintf("%d s", (d+500)/1000) }

// maxAwayDelay bounds the pause of a task that found something unavailable.
const maxAwayDelay Time = 1000

// unavailable lets a's task try again after a pause, for as long as a parked one
// would wait.
func (s *State) unavailable(a *attempt, err error) {
	t, st, j := a.task, a.task.stage, a.task.stage.job
	if t.awayCount == 0 {
		t.awaySince = s.now
	}
	if s.now-t.awaySince >= s.opt.ParkLimit {
		s.end(j, st, jobs.Failed, fmt.Errorf("stage %d%s, task %d: waited %s: %w",
			st.ID, quoted(st.Name), t.Index, seconds(s.now-t.awaySince), err))
		return
	}
	t.notBefore = s.now + max(min(s.opt.RetryDelay<<min(t.awayCount, 10), maxAwayDelay), 1)
	t.awayCount++
	st.away = err.Error()
	s.requeue(a)
	s.due(t.notBefore)
}

// waiting tells how many tasks of a stage are parked and what it waits for.
func (s *State) waiting(st *stage) (parked int, text string) {
	if st.job.phase != running || st.complete() || !st.runnable() {
		if st.job.phase == running && st.pendingInput() {
			return 0, "whether the map output of workers that have not come back is still there"
		}
		return 0, ""
	}
	var parts []string
	since := map[string]Time{}
	count := map[string]int{}
	var order []string
	st.eachParked(func(t *task) bool {
		n := names(t)
		if count[n] == 0 {
			order = append(order, n)
			since[n] = t.parkedSince()
		}
		count[n]++
		parked++
		return true
	})
	for _, n := range order {
		parts = append(parts, fmt.Sprintf("%s for worker %s, which has the only copy of the data and has not been there for %s",
			tasks(count[n]), n, seconds(s.now-since[n])))
	}
	away := 0
	for _, t := range st.delayed {
		if t.awayCount > 0 {
			away++
		}
	}
	if away > 0 {
		parts = append(parts, fmt.Sprintf("%s to try again: %s", tasks(away), st.away))
	}
	if len(s.order) == 0 && st.ready > parked {
		parts = append(parts, fmt.Sprintf("%s for a worker: none is there", tasks(st.ready-parked)))
	}
	return parked, strings.Join(parts, "; ")
}

func tasks(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return fmt.Sprintf("%d tasks wait", n)
}

func (st *stage) pendingInput() bool {
	for _, in := range st.Inputs {
		if st.job.stages[in].pending > 0 {
			return true
		}
	}
	return false
}
