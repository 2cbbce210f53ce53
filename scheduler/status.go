package scheduler

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/skepdb/skep/jobs"
)

// At moves the time on, for statuses; it decides nothing.
func (s *State) At(now Time) { s.now = max(s.now, now) }

// Status returns how far a job is; false if it is not known, or no longer.
func (s *State) Status(id jobs.ID) (jobs.Status, bool) {
	j := s.jobs[id]
	if j == nil {
		return jobs.Status{}, false
	}
	return s.status(j), true
}

// Jobs returns the ids of all jobs that have not ended, in the order in which
// they get slots.
func (s *State) Jobs() []jobs.ID {
	var ids []jobs.ID
	for _, j := range s.queue {
		if j.phase != finished {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func (s *State) status(j *job) jobs.Status {
	out := jobs.Status{ID: j.ID, Name: j.Name, State: j.state, Counters: jobs.Counters{}}
	if j.err != nil {
		out.Error = j.err.Error()
	}
	for _, st := range j.stages {
		ss := s.stageStatus(st)
		out.Stages = append(out.Stages, ss)
		out.Counters.Add(ss.Counters)
	}
	return out
}

func (s *State) stageStatus(st *stage) jobs.StageStatus {
	j := st.job
	ss := jobs.StageStatus{
		Name: st.Name, Tasks: len(st.tasks), Done: st.done, Counters: maps.Clone(st.counters),
		Locality: st.locality, Attempts: st.launched, Failed: st.failed,
		Local: st.locality[jobs.LocalWorker], Warning: s.warning(st),
	}
	for l := jobs.LocalWorker; l < jobs.Anywhere; l++ {
		ss.Placed += st.locality[l]
	}
	ss.Parked, ss.Waiting = s.waiting(st)
	share := float64(st.done)
	for i := range st.tasks {
		t := &st.tasks[i]
		best := 0.0
		for _, a := range t.live {
			ss.Running++
			best = max(best, a.progress)
		}
		if t.won == nil {
			share += best
		}
	}
	ss.Progress = 1
	if len(st.tasks) > 0 {
		ss.Progress = share / float64(len(st.tasks))
	}
	switch {
	case st.complete() && st.runnable(), j.state == jobs.Succeeded:
		ss.State = jobs.Succeeded
	case j.phase == running || j.phase == publishing:
		if st.launched > 0 {
			ss.State = jobs.Running
		}
	case st.ID == j.failedStage:
		ss.State = jobs.Failed
	default:
		ss.State = jobs.Killed
	}
	if st.launched > 0 {
		end := st.endedAt
		if ss.State == jobs.Running {
			end = s.now
		}
		ss.Elapsed = time.Duration(max(end-st.startedAt, 0)) * time.Millisecond
	}
	return ss
}

// warning says so when no task of a complete stage ran on a worker that holds
// its data although there is such a worker, or although workers and splits
// should know each other and don't.
func (s *State) warning(st *stage) string {
	placed := st.locality[jobs.LocalHost] + st.locality[jobs.LocalRack] + st.locality[jobs.Remote]
	if !st.complete() || placed == 0 || st.locality[jobs.LocalWorker] > 0 {
		return ""
	}
	var here, unknown []string
	for _, h := range st.holders {
		if w := h.w; w == nil {
			if !s.lost[h.id] {
				unknown = append(unknown, string(h.id))
			}
		} else if w.Slots > 0 {
			here = append(here, workerName(w))
		}
	}
	var there []string
	for _, w := range s.order {
		there = append(there, string(w.ID))
	}
	switch {
	case len(here) > 0:
		return fmt.Sprintf("none of %d tasks ran on a worker that holds its data: %s had no free slot in time", placed, some(here))
	case len(unknown) > 0 && len(there) > 0:
		return fmt.Sprintf("none of %d tasks ran on a worker that holds its data: the data is on %s, but the workers are %s", placed, some(unknown), some(there))
	}
	return ""
}

// some lists names, the first few.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
