package scheduler

import (
	"cmp"
	"slices"

	"github.com/skepdb/skep/jobs"
)

// place gives free slots to ready tasks.
func (s *State) place() {
	if len(s.queue) == 0 {
		return
	}
	free := s.freeWorkers()
	waiting := false
	for _, j := range s.queue {
		if j.phase != running {
			continue
		}
		for _, st := range j.stages {
			if len(st.delayed) > 0 {
				s.wakeDelayed(st)
			}
			if st.ready == 0 || !st.runnable() {
				continue
			}
			if len(free) > 0 {
				s.placeStage(st, free)
				free = slices.DeleteFunc(free, func(w *worker) bool { return w.free() <= 0 })
			}
			waiting = waiting || st.ready > 0
		}
	}
	for _, w := range s.order {
		if waiting && w.coolUntil > s.now {
			s.due(w.coolUntil)
		}
	}
	s.speculate(free)
}

// freeWorkers returns the usable workers with a free slot, least busy first.
func (s *State) freeWorkers() []*worker {
	var free []*worker
	for _, w := range s.order {
		if w.free() > 0 && s.usable(w) {
			free = append(free, w)
		}
	}
	slices.SortFunc(free, func(a, b *worker) int {
		if n := cmp.Compare(len(a.attempts), len(b.attempts)); n != 0 {
			return n
		}
		return cmp.Compare(a.seq, b.seq)
	})
	return free
}

// wakeDelayed makes tasks ready whose pause is over.
func (s *State) wakeDelayed(st *stage) {
	st.delayed = slices.DeleteFunc(st.delayed, func(t *task) bool {
		if t.notBefore > s.now {
			s.due(t.notBefore)
			return false
		}
		st.push(t)
		return true
	})
}

// nearToFar is the order in which places are tried. Tasks that are nowhere at
// home come second: they never wait, but don't take a slot from those that are.
var nearToFar = [...]jobs.Locality{jobs.LocalWorker, jobs.Anywhere, jobs.LocalHost, jobs.LocalRack, jobs.Remote}

// placeStage launches tasks of st on free workers, one a worker and round.
func (s *State) placeStage(st *stage, free []*worker) {
	for {
		for _, level := range nearToFar {
			for again := true; again && st.ready > 0; {
				again = false
				if level != jobs.LocalWorker && level != jobs.Anywhere && !s.reachable(st) {
					break
				}
				for _, w := range free {
					if w.free() <= 0 || st.ready == 0 {
						continue
					}
					if t, source := s.pick(st, w, level); t != nil {
						near := level
						if level == jobs.Anywhere && len(t.holders) > 0 {
							near = jobs.Remote
						}
						st.take(t)
						s.launch(t, w, near, source, false)
						again = true
					} else if level == jobs.Anywhere && len(st.again) == 0 {
						break // nor for any other worker
					}
				}
			}
		}
		if st.ready == 0 || !s.reachFarther(st, free) {
			return
		}
	}
}

// reachable reports whether any task could be read from afar now.
func (s *State) reachable(st *stage) bool {
	if len(st.again) > 0 {
		return true
	}
	for _, h := range st.holders {
		if h.ready > 0 && s.mayScan(h.w) {
			return true
		}
	}
	return false
}

// mayScan reports whether one more attempt elsewhere may read w's data.
func (s *State) mayScan(w *worker) bool {
	if w == nil {
		return false
	}
	budget := s.opt.ScanBudget
	if budget <= 0 {
		budget = 2 * max(w.Slots, 1)
	}
	return w.scans < budget
}

// pick returns a ready task for w whose data is at just this level, and whose
// data it will read.
func (s *State) pick(st *stage, w *worker, level jobs.Locality) (*task, *worker) {
	far := level != jobs.LocalWorker && level != jobs.Anywhere
	if far && st.wait(w).level < level {
		return nil, nil
	}
	for _, t := range st.again {
		if s.avoids(t, w) || t.parked() {
			continue
		}
		if l, source := s.locate(t, w); l == level && (!far || s.mayScan(source)) {
			return t, source
		}
	}
	switch level {
	case jobs.LocalWorker:
		if h := st.byID[w.ID]; h != nil {
			if t := h.queue.first(); t != nil {
				return t, w
			}
		}
		return nil, nil
	case jobs.Anywhere:
		if t := st.free.first(); t != nil {
			return t, nil
		}
		return s.orphan(st)
	}
	// The worker with the most left to read is helped first.
	var best *holder
	for _, h := range st.holders {
		if h.ready == 0 || !h.awaited() || distance(w, h.w) != level || !s.mayScan(h.w) || h.queue.first() == nil {
			continue
		}
		if best == nil || h.bytes > best.bytes || h.bytes == best.bytes && h.ready > best.ready {
			best = h
		}
	}
	if best == nil {
		return nil, nil
	}
	return best.queue.first(), best.w
}

// orphan returns a ready task whose data has a place, but no worker there ever
// has a slot, and the worker it will read from, if there is one: to wait
// would be in vain.
func (s *State) orphan(st *stage) (*task, *worker) {
	for _, h := range st.holders {
		if h.ready == 0 || h.awaited() {
			continue
		}
		for t := h.queue.first(); t != nil; t = h.queue.first() {
			if slices.ContainsFunc(t.holders, (*holder).awaited) {
				h.queue.pop() // it is in the queue of one with slots as well
				continue
			}
			if t.parked() {
				h.queue.pop() // back when one of its workers is
				continue
			}
			// Workers that only store may be read from, within their budget.
			if h.w != nil && !s.mayScan(h.w) {
				break
			}
			return t, h.w
		}
	}
	return nil, nil
}

// awaited reports whether tasks may wait for a slot where their data is.
func (h *holder) awaited() bool { return h.w != nil && h.w.Slots > 0 }

// distance is how far b's data is from a.
func distance(a, b *worker) jobs.Locality {
	switch {
	case a == b:
		return jobs.LocalWorker
	case a.Host == b.Host && a.Host != "":
		return jobs.LocalHost
	case a.Rack == b.Rack && a.Rack != "":
		return jobs.LocalRack
	}
	return jobs.Remote
}

// locate returns how near w is to t's data and which holder it would read from:
// among equally near ones the one least read from. Anywhere means that
// it makes no difference where t runs, or that no place near its data is left.
func (s *State) locate(t *task, w *worker) (jobs.Locality, *worker) {
	level, source := jobs.Anywhere, (*worker)(nil)
	waitFor := false
	for _, h := range t.holders {
		o := h.w
		if o == nil {
			continue
		}
		waitFor = waitFor || h.awaited() && !s.avoids(t, o)
		if l := distance(w, o); l < level || l == level && o.scans < source.scans {
			level, source = l, o
		}
	}
	if level > jobs.LocalWorker && !waitFor {
		return jobs.Anywhere, source
	}
	return level, source
}

// avoids reports whether t has failed on w and can go elsewhere.
func (s *State) avoids(t *task, w *worker) bool {
	if !slices.Contains(t.failedOn, w.ID) {
		return false
	}
	for _, o := range s.order {
		if s.usable(o) && !slices.Contains(t.failedOn, o.ID) {
			return true
		}
	}
	return false
}

func (st *stage) wait(w *worker) *wait {
	r := st.waits[w]
	if r == nil {
		r = &wait{}
		st.waits[w] = r
	}
	return r
}

// reachFarther notes that the free workers have nothing to do within their
// reach, and extends the reach of those that have waited long enough. It
// reports whether there was one.
func (s *State) reachFarther(st *stage, free []*worker) bool {
	grew := false
	for _, w := range free {
		r := st.wait(w)
		if w.free() <= 0 || r.level == jobs.Remote {
			continue
		}
		if !r.waiting || r.since < w.freeSince {
			r.waiting, r.since = true, s.now
		}
		for r.level < jobs.Remote && r.since+s.waitAt(w, r.level) <= s.now {
			r.since += s.waitAt(w, r.level)
			r.level++
			grew = true
		}
	}
	if grew {
		return true
	}
	for _, w := range free {
		if r := st.wait(w); w.free() > 0 && r.level < jobs.Remote {
			s.due(r.since + s.waitAt(w, r.level))
		}
	}
	return false
}

// waitAt is how long w waits for tasks at a level before it reaches farther:
// not at all for levels that it has no neighbours at.
func (s *State) waitAt(w *worker, level jobs.Locality) Time {
	switch level {
	case jobs.LocalWorker:
		return s.opt.WaitWorker
	case jobs.LocalHost:
		if w.Host != "" && s.onHost[w.Host] > 1 {
			return s.opt.WaitHost
		}
	case jobs.LocalRack:
		if w.Rack != "" && s.onRack[w.Rack] > 1 {
			return s.opt.WaitRack
		}
	}
	return 0
}

// launch puts an attempt of t on w.
func (s *State) launch(t *task, w *worker, level jobs.Locality, source *worker, rival bool) {
	st, j := t.stage, t.stage.job
	a := &attempt{
		id:   jobs.AttemptID{Job: j.ID, Stage: st.ID, Task: t.Index, Attempt: t.attempts},
		task: t, worker: w, source: source, locality: level, started: s.now, rival: rival,
	}
	t.attempts++
	t.live = append(t.live, a)
	w.attempts = append(w.attempts, a)
	if source != nil {
		source.scans++
	}
	if rival {
		st.rivals++
	} else if r := st.wait(w); level != jobs.Anywhere {
		r.waiting, r.level = false, min(r.level, level)
	}
	j.live++
	if st.launched == 0 {
		st.startedAt = s.now
	}
	st.launched++
	l := Launch{ID: a.id, Worker: w.ID, Locality: level, Rival: rival}
	for _, in := range st.Inputs {
		won, held := j.stages[in].allWinners()
		l.Inputs, l.Holders = append(l.Inputs, won), append(l.Holders, held)
	}
	s.do(l)
}
