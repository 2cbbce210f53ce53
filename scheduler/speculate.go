package scheduler

import (
	"slices"

	"github.com/skepdb/skep/jobs"
)

// straggler is the attempt that a rival would help most.
type straggler struct {
	task *task
	left float64 // estimated ms to its end
}

// speculate gives slow attempts a rival, for jobs that ask for it, from
// slots that nobody else wants.
//
// An attempt is slow if its progress rate is less than half the mean rate of the
// stage's winners, and if a rival that starts now would probably end before
// it; the one with the longest time to its end goes first (LATE, Zaharia
// et al., OSDI 2008). At least one task in 20 must have finished, so that
// there is a mean; at most one task in 10, but always one, may have a rival.
func (s *State) speculate(free []*worker) {
	for _, j := range s.queue {
		if j.phase != running || j.Speculation != jobs.SpeculationDuplicate {
			continue
		}
		for _, st := range j.stages {
			if st.ready > 0 || st.complete() || st.done == 0 || st.done*20 < len(st.tasks) || !st.runnable() {
				continue
			}
			if st.checkAt > s.now {
				s.due(st.checkAt)
				continue
			}
			// Looking at all tasks at each event would be too much.
			st.checkAt = s.now + max(s.opt.SpeculateAfter/2, 1)
			s.due(st.checkAt)
			slow := s.stragglers(st)
			for _, x := range slow {
				if st.rivals >= max(1, len(st.tasks)/10) {
					break
				}
				s.launchRival(x.task, free)
			}
		}
	}
}

// stragglers returns the slow attempts of a stage, the latest first.
func (s *State) stragglers(st *stage) []straggler {
	mean := max(float64(st.runTime)/float64(st.done), 1)
	var slow []straggler
	for i := range st.tasks {
		t := &st.tasks[i]
		if t.won != nil || len(t.live) != 1 || t.live[0].cancelled {
			continue
		}
		a := t.live[0]
		run := float64(s.now - a.started)
		if s.now-a.started < s.opt.SpeculateAfter {
			continue
		}
		total := run / max(a.progress, 1e-6)
		if left := total - run; total > 2*mean && left > mean {
			slow = append(slow, straggler{t, left})
		}
	}
	slices.SortStableFunc(slow, func(a, b straggler) int {
		switch {
		case a.left > b.left:
			return -1
		case a.left < b.left:
			return 1
		}
		return 0
	})
	return slow
}

// launchRival starts a second attempt on the nearest of the free workers, if
// there is one where the task neither runs nor has failed.
func (s *State) launchRival(t *task, free []*worker) {
	var best, from *worker
	level := jobs.Anywhere
	for _, w := range free {
		if w.free() <= 0 || w == t.live[0].worker || slices.Contains(t.failedOn, w.ID) {
			continue
		}
		l, source := s.locate(t, w)
		if best == nil || l < level {
			best, from, level = w, source, l
		}
	}
	if best == nil {
		return
	}
	if level == jobs.Anywhere && len(t.holders) > 0 {
		level = jobs.Remote
	}
	s.launch(t, best, level, from, true)
}
