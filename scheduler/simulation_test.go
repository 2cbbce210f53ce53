package scheduler

import (
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
)

var (
	simSeeds = flag.Int("sim.seeds", 40, "how many seeds TestSimulation runs")
	simSeed  = flag.Uint64("sim.seed", 0, "the only seed that TestSimulation runs; 0 = many")
	simNodes = flag.Int("sim.nodes", 0, "nodes of each simulation; 0 = by seed")
)

// TestSimulation runs random jobs on random clusters with random failures. The
// simulated world knows on its own what it runs, and checks after every step:
//
//   - no worker has more attempts than slots, no attempt is launched twice;
//   - a stage runs only on winners that finished, each once, that reads find;
//   - a job is published at most once, with one finished attempt a task, and
//     ends exactly once, after that;
//   - every job ends, its shuffle is dropped once, when nothing of it runs.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		newWorld(*simSeed, *simNodes).run(t)
		return
	}
	for seed := range uint64(*simSeeds) {
		nodes := *simNodes
		if nodes == 0 && seed == 0 {
			nodes = 1000
		}
		newWorld(seed+1, nodes).run(t)
		if t.Failed() {
			t.Fatalf("run it again with -sim.seed=%d", seed+1)
		}
	}
}

// TestSimulationIsDeterministic runs one seed twice.
func TestSimulationIsDeterministic(t *testing.T) {
	a, b := newWorld(7, 20), newWorld(7, 20)
	a.keep, b.keep = true, true
	a.run(t)
	b.run(t)
	if len(a.log) == 0 || !slices.Equal(a.log, b.log) {
		t.Fatal("the same events gave other actions")
	}
}

type world struct {
	rnd  *rand.Rand
	s    *State
	now  Time
	seed uint64

	events  future
	pushed  int
	wake    Time
	workers map[cluster.WorkerID]*simWorker
	names   []cluster.WorkerID // registered, in order
	jobs    map[jobs.ID]*simJob
	running map[jobs.AttemptID]*simAttempt
	used    map[jobs.AttemptID]bool // ever launched
	ended   map[jobs.AttemptID]bool // finished well: its output is there
	outputs map[jobs.AttemptID]cluster.WorkerID

	failing, losing, going float64 // chances
	keep                   bool
	log                    []string
	faults                 []string
	launches               int
}

type simWorker struct {
	cluster.Worker
	running int
}

type simJob struct {
	*jobs.Job
	published, finished, dropped int
	live                         int
	final                        jobs.Status
}

type simAttempt struct {
	id     jobs.AttemptID
	worker cluster.WorkerID
	inputs [][]jobs.AttemptID
}

// future is a heap of things that will happen.
type future []happening

type happening struct {
	at    Time
	order int
	do    func()
}

func (f future) Len() int { return len(f) }
func (f future) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].order < f[j].order
}
func (f future) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *future) Push(x any)   { *f = append(*f, x.(happening)) }
func (f *future) Pop() any {
	n := len(*f) - 1
	x := (*f)[n]
	*f = (*f)[:n]
	return x
}

func newWorld(seed uint64, nodes int) *world {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, 1)), seed: seed, wake: never,
		workers: map[cluster.WorkerID]*simWorker{}, jobs: map[jobs.ID]*simJob{},
		running: map[jobs.AttemptID]*simAttempt{}, used: map[jobs.AttemptID]bool{},
		ended: map[jobs.AttemptID]bool{}, outputs: map[jobs.AttemptID]cluster.WorkerID{},
	}
	w.s = New(Options{
		WaitWorker: Time(w.rnd.IntN(800) - 100), WaitHost: Time(w.rnd.IntN(500) - 100), WaitRack: Time(w.rnd.IntN(500) - 100),
		ScanBudget: w.rnd.IntN(4), BlameLimit: 1 + w.rnd.IntN(4), SpeculateAfter: 200,
	})
	if nodes == 0 {
		nodes = 1 + w.rnd.IntN(30)
	}
	w.failing = []float64{0, 0.02, 0.1, 0.3}[w.rnd.IntN(4)]
	w.losing = []float64{0, 0.3, 1, 3}[w.rnd.IntN(4)] // losses a node during the jobs
	w.going = []float64{0, 0, 0.01, 0.1}[w.rnd.IntN(4)]
	for i := range nodes {
		n := cluster.Worker{
			ID: cluster.WorkerID(fmt.Sprintf("w%d", i)), Host: fmt.Sprintf("h%d", i/2), Rack: fmt.Sprintf("r%d", i/20),
			Slots: 1 + w.rnd.IntN(4),
		}
		w.at(Time(w.rnd.IntN(50)), func() { w.register(n) })
		for range w.poisson(w.losing) {
			w.at(Time(w.rnd.IntN(20_000)), func() { w.lose(n.ID) })
		}
	}
	for i := range 1 + w.rnd.IntN(8) {
		j := w.job(i, nodes)
		w.at(Time(w.rnd.IntN(5000)), func() {
			w.jobs[j.ID] = &simJob{Job: j}
			w.step(JobSubmitted{j})
		})
		if w.rnd.IntN(6) == 0 {
			w.at(Time(5000+w.rnd.IntN(5000)), func() { w.step(KillJob{Job: j.ID}) })
		}
	}
	return w
}

func (w *world) poisson(mean float64) int {
	n := 0
	for x := w.rnd.ExpFloat64(); x < mean; x += w.rnd.ExpFloat64() {
		n++
	}
	return n
}

// job makes a graph of up to five stages.
func (w *world) job(n, nodes int) *jobs.Job {
	j := &jobs.Job{
		ID: jobs.ID(fmt.Sprintf("j%d", n)), Priority: w.rnd.IntN(3), MaxAttempts: w.rnd.IntN(8),
		Speculation: jobs.Speculation(w.rnd.IntN(2)),
	}
	if w.rnd.IntN(4) > 0 {
		j.Output = sink{}
	}
	stages := 1 + w.rnd.IntN(5)
	unread := map[int]bool{}
	for i := range stages {
		st := &jobs.Stage{ID: i, Work: toil{}}
		last := i == stages-1
		if !last {
			st.Partitions = 1 + w.rnd.IntN(20)
		}
		tasks := w.rnd.IntN(3*nodes/2 + 3)
		for in := range i {
			if !last && w.rnd.IntN(2) == 0 || last && !unread[in] {
				continue
			}
			// The first input that isn't broadcast says how many tasks there are.
			broadcast := w.rnd.IntN(3) == 0
			for k, other := range st.Inputs {
				broadcast = broadcast || !st.Broadcast[k] && j.Stages[other].Partitions != j.Stages[in].Partitions
			}
			st.Inputs, st.Broadcast = append(st.Inputs, in), append(st.Broadcast, broadcast)
			if !broadcast {
				tasks = j.Stages[in].Partitions
			}
			delete(unread, in)
		}
		unread[i] = true
		for k := range tasks {
			task := jobs.Task{Index: k, Bytes: int64(w.rnd.IntN(3) * 100)}
			for range w.rnd.IntN(4) {
				task.Hosts = append(task.Hosts, cluster.WorkerID(fmt.Sprintf("w%d", w.rnd.IntN(nodes+1))))
			}
			st.Tasks = append(st.Tasks, task)
		}
		j.Stages = append(j.Stages, st)
	}
	if err := j.Validate(); err != nil {
		panic(err)
	}
	return j
}

func (w *world) at(t Time, do func()) {
	w.pushed++
	heap.Push(&w.events, happening{t, w.pushed, do})
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("seed %d, at %d: ", w.seed, w.now)+fmt.Sprintf(format, args...))
}

func (w *world) run(t *testing.T) {
	t.Helper()
	for n := 0; len(w.events) > 0 && len(w.faults) == 0; n++ {
		if n > 3_000_000 {
			w.fault("it does not end")
		}
		h := heap.Pop(&w.events).(happening)
		w.now = max(w.now, h.at)
		h.do()
	}
	for id, j := range w.jobs {
		if len(w.faults) == 0 && (j.finished != 1 || j.dropped != 1) {
			w.fault("%s finished %d times, its shuffle was dropped %d times, %d attempts live, %d workers",
				id, j.finished, j.dropped, j.live, len(w.names))
		}
	}
	if len(w.faults) == 0 && (len(w.s.jobs) > 0 || len(w.s.queue) > 0) {
		w.fault("the state still has jobs")
	}
	for _, worker := range w.s.workers {
		if len(w.faults) == 0 && (len(worker.attempts) > 0 || worker.scans != 0) {
			w.fault("worker %s ends with %d attempts and %d scans", worker.ID, len(worker.attempts), worker.scans)
		}
	}
	for _, f := range w.faults {
		t.Error(f)
	}
}

func (w *world) register(n cluster.Worker) {
	w.workers[n.ID] = &simWorker{Worker: n}
	w.names = append(w.names, n.ID)
	w.step(WorkerRegistered{Worker: n})
}

func (w *world) lose(id cluster.WorkerID) {
	n := w.workers[id]
	if n == nil {
		return
	}
	delete(w.workers, id)
	w.names = slices.DeleteFunc(w.names, func(x cluster.WorkerID) bool { return x == id })
	for a, at := range w.outputs {
		if at == id {
			delete(w.outputs, a)
		}
	}
	for aid, a := range w.running {
		if a.worker == id {
			delete(w.running, aid)
			w.jobs[aid.Job].live--
		}
	}
	w.step(WorkerLost{id})
	// It always comes back, so that every job can end.
	w.at(w.now+Time(w.rnd.IntN(3000)), func() { w.register(n.Worker) })
}

// step steps the state and does what it says.
func (w *world) step(e Event) {
	for _, a := range w.s.Step(w.now, e) {
		if w.keep {
			w.log = append(w.log, fmt.Sprintf("%d %T%v", w.now, a, a))
		}
		switch a := a.(type) {
		case Launch:
			w.launch(a)
		case Cancel:
			id := a.ID
			if r := w.running[id]; r != nil && r.worker != a.Worker {
				w.fault("%s cancelled on %s, but it runs on %s", id, a.Worker, r.worker)
			}
			w.at(w.now+Time(w.rnd.IntN(50)), func() {
				if w.stop(id) {
					w.step(AttemptKilled{id})
				}
			})
		case Publish:
			w.publish(a)
		case Finished:
			j := w.jobs[a.Job]
			j.finished++
			j.final = a.Status
			if j.finished > 1 {
				w.fault("%s finished twice", a.Job)
			}
			if a.State == jobs.Succeeded && j.Output != nil && j.published != 1 {
				w.fault("%s succeeded with %d publishes", a.Job, j.published)
			}
			if (a.State == jobs.Succeeded) != (a.Err == nil) {
				w.fault("%s %s: %v", a.Job, a.State, a.Err)
			}
		case Abandon:
			if j := w.jobs[a.Job]; j.Output == nil || j.finished > 0 {
				w.fault("%s abandoned", a.Job)
			}
		case DropShuffle:
			j := w.jobs[a.Job]
			if j.dropped++; j.dropped > 1 || j.live > 0 {
				w.fault("shuffle of %s dropped for the %d. time with %d attempts live", a.Job, j.dropped, j.live)
			}
			for id := range w.outputs {
				if id.Job == a.Job {
					delete(w.outputs, id)
				}
			}
		case Wake:
			if a.At <= w.now {
				w.fault("asks to be woken at %d", a.At)
			}
			w.wake = a.At
			w.at(a.At, func() {
				if w.wake == w.now {
					w.wake = never
					w.step(Tick{})
				}
			})
		}
	}
}

// stop takes an attempt out of its slot, if it is running.
func (w *world) stop(id jobs.AttemptID) bool {
	a := w.running[id]
	if a == nil {
		return false
	}
	delete(w.running, id)
	w.workers[a.worker].running--
	w.jobs[id.Job].live--
	return true
}

func (w *world) launch(l Launch) {
	n, j := w.workers[l.Worker], w.jobs[l.ID.Job]
	if n == nil {
		w.fault("%s launched on %s, which is lost", l.ID, l.Worker)
		return
	}
	if n.running++; n.running > n.Slots {
		w.fault("%s has %d attempts in %d slots", l.Worker, n.running, n.Slots)
	}
	if w.used[l.ID] {
		w.fault("%s launched twice", l.ID)
	}
	if j.published > 0 || j.finished > 0 {
		w.fault("%s launched after its job's end", l.ID)
	}
	w.used[l.ID] = true
	w.running[l.ID] = &simAttempt{l.ID, l.Worker, l.Inputs}
	j.live++
	w.launches++
	st := j.Stages[l.ID.Stage]
	task := st.Tasks[l.ID.Task]
	if here := slices.Contains(task.Hosts, l.Worker); here != (l.Locality == jobs.LocalWorker) {
		w.fault("%s on %s counts as %s, its data is on %v", l.ID, l.Worker, l.Locality, task.Hosts)
	}
	if (len(task.Hosts) == 0) != (l.Locality == jobs.Anywhere) {
		w.fault("%s counts as %s, its data is on %v", l.ID, l.Locality, task.Hosts)
	}
	for i, in := range st.Inputs {
		if len(l.Inputs[i]) != len(j.Stages[in].Tasks) {
			w.fault("%s reads %d of %d maps", l.ID, len(l.Inputs[i]), len(j.Stages[in].Tasks))
		}
		for k, won := range l.Inputs[i] {
			if !w.ended[won] || won.Stage != in || won.Task != k {
				w.fault("%s reads %s, which has not finished or is not task %d of stage %d", l.ID, won, k, in)
			}
		}
	}
	rivals := 0
	for _, a := range w.running {
		if a.id.Job == l.ID.Job && a.id.Stage == l.ID.Stage && a.id.Task == l.ID.Task {
			rivals++
		}
	}
	if l.Rival && rivals > 2 {
		w.fault("%s is one of %d", l.ID, rivals)
	}
	w.at(w.now+1, func() {
		if w.running[l.ID] != nil {
			w.step(AttemptStarted{l.ID})
		}
	})
	took := Time(1 + w.rnd.IntN(1000))
	if w.rnd.IntN(20) == 0 {
		took *= 10
	}
	for _, share := range []float64{0.3, 0.6} {
		w.at(w.now+Time(float64(took)*share), func() {
			if w.running[l.ID] != nil {
				w.step(AttemptProgress{l.ID, share})
			}
		})
	}
	w.at(w.now+took, func() { w.end(l.ID) })
}

// end lets an attempt succeed or fail.
func (w *world) end(id jobs.AttemptID) {
	a := w.running[id]
	if a == nil {
		// Somebody dead may still speak.
		w.step(AttemptFinished{ID: id})
		return
	}
	w.stop(id)
	var gone []jobs.AttemptID
	for _, in := range a.inputs {
		for _, from := range in {
			if _, there := w.outputs[from]; !there || w.rnd.Float64() < w.going/10 {
				delete(w.outputs, from)
				gone = append(gone, from)
			}
		}
	}
	switch {
	case len(gone) > 0:
		w.step(AttemptFailed{ID: id, Class: fault.Retryable, Err: errors.New("gone"), Gone: gone})
	case w.rnd.Float64() < w.failing:
		class := fault.Retryable
		switch w.rnd.IntN(30) {
		case 0:
			class = fault.User
		case 1, 2:
			class = fault.Bug
		}
		w.step(AttemptFailed{ID: id, Class: class, Err: errors.New("chance")})
	default:
		w.ended[id] = true
		w.outputs[id] = a.worker
		w.step(AttemptFinished{ID: id, Counters: jobs.Counters{jobs.CounterRowsOut: 1}})
	}
}

func (w *world) publish(p Publish) {
	j := w.jobs[p.Job]
	last := j.Stages[len(j.Stages)-1]
	if j.published++; j.published > 1 {
		w.fault("%s published twice", p.Job)
	}
	if len(p.Won) != len(last.Tasks) {
		w.fault("%s published with %d of %d tasks", p.Job, len(p.Won), len(last.Tasks))
	}
	for k, id := range p.Won {
		if !w.ended[id] || id.Stage != last.ID || id.Task != k {
			w.fault("%s published with %s as task %d", p.Job, id, k)
		}
	}
	w.at(w.now+Time(w.rnd.IntN(100)), func() {
		var err error
		if w.rnd.IntN(10) == 0 {
			err = errors.New("not published")
		}
		if err == nil {
			if st, ok := w.s.Status(p.Job); ok && st.Stages[last.ID].Counters[jobs.CounterRowsOut] != int64(len(last.Tasks)) {
				w.fault("%s counts %d rows from %d tasks", p.Job, st.Stages[last.ID].Counters[jobs.CounterRowsOut], len(last.Tasks))
			}
		}
		w.step(JobPublished{p.Job, err})
	})
}
