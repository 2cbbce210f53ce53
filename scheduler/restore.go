package scheduler

import (
	"maps"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/jobs"
)

// restore takes up a job of an earlier scheduler.
func (s *State) restore(e JobRestored) {
	if s.jobs[e.Job.ID] != nil {
		return
	}
	j := s.add(e.Job)
	for _, st := range j.stages {
		for i := range st.tasks {
			st.tasks[i].attempts = e.FirstAttempt
		}
	}
	won := map[*task]Won{}
	var order []*task
	for _, w := range e.Won {
		if t := s.task(w.ID); t != nil && w.ID.Job == j.ID {
			if _, again := won[t]; !again {
				order = append(order, t)
			}
			won[t] = w
		}
	}
	for _, t := range order {
		w, st := won[t], t.stage
		st.take(t)
		t.won = &winner{
			id: w.ID, worker: w.Worker, locality: min(w.Locality, jobs.Anywhere), counters: maps.Clone(w.Counters),
			incarnation: w.Incarnation,
		}
		st.done++
		st.counters.Add(w.Counters)
		st.locality[t.won.locality]++
		if st.Partitions == 0 {
			continue // its output is where no worker's end can reach it
		}
		switch here := s.workers[w.Worker]; {
		case here == nil:
			t.won.pending = true
			st.pending++
		case here.incarnation != w.Incarnation:
			t.won.lost = true
		}
	}
	for _, st := range j.stages {
		if st.done > 0 {
			st.launched, st.startedAt, st.endedAt = st.done, s.now, s.now
		}
	}
	s.revive(j)
	s.progress(j)
}

// settle decides about restored map output of a worker: it is there if that very
// process of the worker is. "" is none.
func (s *State) settle(id cluster.WorkerID, incarnation string) {
	for _, j := range s.queue {
		if j.phase != running {
			continue
		}
		found := false
		for _, st := range j.stages {
			if st.pending == 0 {
				continue
			}
			for i := range st.tasks {
				w := st.tasks[i].won
				if w == nil || !w.pending || w.worker != id {
					continue
				}
				found = true
				w.pending = false
				st.pending--
				w.lost = w.incarnation != incarnation
			}
		}
		if found {
			s.revive(j)
		}
	}
}

// Won returns the record of an attempt that has won and not lost its victory since.
func (s *State) Won(id jobs.AttemptID) (Won, bool) {
	t := s.task(id)
	if t == nil || t.won == nil || t.won.id != id {
		return Won{}, false
	}
	w := t.won
	return Won{ID: id, Worker: w.worker, Incarnation: w.incarnation, Locality: w.locality, Counters: w.counters}, true
}
