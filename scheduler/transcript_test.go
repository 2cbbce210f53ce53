package scheduler

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
)

// TestTranscripts runs testdata/*.txt: events in, actions out. Every command
// may have t=MS, the time at which it happens; the clock keeps it.
//
//	options wait=(500,200,500) budget=N retry=MS blame=N cooldown=MS grace=MS speculate=MS park=MS
//	worker w1 [slots=1] [host=h] [rack=r] [incarnation=x]
//	lost w1
//	job j [priority=N] [attempts=N] [speculate] [no-output]
//	  NAME tasks=w1,w1+w2,-:500 parts=2       one task a comma: its holders, its bytes
//	  NAME tasks=2 reads=0,broadcast:1        tasks without a place
//	  NAME tasks=w1,w2 bound                  their holders have the only copies
//	restore j [first=N] [won=(j.0.0.0@w1/x,...)], like job
//	start|finish|killed j.0.0.0               (finish: rows=N)
//	progress j.0.0.0 share=0.5
//	fail j.0.0.0 unavailable
//	fail j.0.0.0 class=user|retryable|bug [gone=(j.0.1.0,...)] [because=text]
//	kill j
//	published j [error=text]
//	tick
//	status j
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		h := &transcript{s: New(Options{})}
		datadriven.RunTest(t, filepath.FromSlash(path), h.run)
	})
}

type toil struct{}

func (toil) Kind() string { return "toil" }

type sink struct{}

func (sink) Format() string   { return "sink" }
func (sink) Describe() string { return "sink" }

type transcript struct {
	s   *State
	now Time
}

func (h *transcript) run(t *testing.T, d *datadriven.TestData) string {
	number := func(key string, otherwise int) int {
		v := otherwise
		if d.HasArg(key) {
			d.ScanArgs(t, key, &v)
		}
		return v
	}
	text := func(key string) string {
		for _, a := range d.CmdArgs {
			if a.Key == key && len(a.Vals) > 0 {
				return strings.Join(a.Vals, ",")
			}
		}
		return ""
	}
	first := func() string {
		if len(d.CmdArgs) == 0 {
			d.Fatalf(t, "%s of what?", d.Cmd)
		}
		return d.CmdArgs[0].Key
	}
	h.now = Time(number("t", int(h.now)))
	step := func(e Event) string { return printActions(h.s.Step(h.now, e)) }
	switch d.Cmd {
	case "options":
		o := Options{
			ScanBudget: number("budget", 0), RetryDelay: Time(number("retry", 0)), BlameLimit: number("blame", 0),
			Cooldown: Time(number("cooldown", 0)), CancelGrace: Time(number("grace", 0)), SpeculateAfter: Time(number("speculate", 0)), ParkLimit: Time(number("park", 0)),
		}
		if w := strings.Split(text("wait"), ","); len(w) == 3 {
			o.WaitWorker, o.WaitHost, o.WaitRack = Time(atoi(t, w[0])), Time(atoi(t, w[1])), Time(atoi(t, w[2]))
		}
		h.s, h.now = New(o), 0
		return "ok"
	case "worker":
		return step(WorkerRegistered{cluster.Worker{
			ID: cluster.WorkerID(first()), Name: first(), Slots: number("slots", 1), Host: text("host"), Rack: text("rack"),
		}, text("incarnation")})
	case "lost":
		return step(WorkerLost{cluster.WorkerID(first())})
	case "job", "restore":
		j := &jobs.Job{
			ID: jobs.ID(first()), Name: first(), Priority: number("priority", 0), MaxAttempts: number("attempts", 0), Output: sink{},
		}
		if d.HasArg("speculate") {
			j.Speculation = jobs.SpeculationDuplicate
		}
		if d.HasArg("no-output") {
			j.Output = nil
		}
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			j.Stages = append(j.Stages, parseStage(t, line, len(j.Stages)))
		}
		if err := j.Validate(); err != nil {
			d.Fatalf(t, "%v", err)
		}
		if d.Cmd == "restore" {
			e := JobRestored{Job: j, FirstAttempt: number("first", 1000)}
			for _, won := range strings.Split(text("won"), ",") {
				if won == "" {
					continue
				}
				id, at, _ := strings.Cut(strings.TrimSpace(won), "@")
				w, incarnation, _ := strings.Cut(at, "/")
				e.Won = append(e.Won, Won{ID: attemptID(t, id), Worker: cluster.WorkerID(w), Incarnation: incarnation,
					Counters: jobs.Counters{jobs.CounterRowsOut: 10}})
			}
			return step(e)
		}
		return step(JobSubmitted{j})
	case "start":
		return step(AttemptStarted{attemptID(t, first())})
	case "finish":
		return step(AttemptFinished{ID: attemptID(t, first()), Counters: jobs.Counters{jobs.CounterRowsOut: int64(number("rows", 1))}})
	case "killed":
		return step(AttemptKilled{attemptID(t, first())})
	case "progress":
		share, err := strconv.ParseFloat(text("share"), 64)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return step(AttemptProgress{attemptID(t, first()), share})
	case "fail":
		e := AttemptFailed{ID: attemptID(t, first()), Err: errors.New("it broke")}
		if b := text("because"); b != "" {
			e.Err = errors.New(b)
		}
		if d.HasArg("unavailable") {
			e.Unavailable, e.Class, e.Err = true, fault.Retryable, errors.New("region 7 is away")
			return step(e)
		}
		switch text("class") {
		case "user":
			e.Class = fault.User
		case "retryable", "":
			e.Class = fault.Retryable
		}
		if g := text("gone"); g != "" {
			for _, id := range strings.Split(g, ",") {
				e.Gone = append(e.Gone, attemptID(t, id))
			}
		}
		return step(e)
	case "kill":
		return step(KillJob{Job: jobs.ID(first()), Cause: errors.New("killed by the user")})
	case "published":
		e := JobPublished{Job: jobs.ID(first())}
		if m := text("error"); m != "" {
			e.Err = errors.New(m)
		}
		return step(e)
	case "tick":
		return step(Tick{})
	case "status":
		h.s.At(h.now)
		st, ok := h.s.Status(jobs.ID(first()))
		if !ok {
			return "unknown job"
		}
		return printStatus(st)
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func atoi(t *testing.T, s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func attemptID(t *testing.T, s string) jobs.AttemptID {
	p := strings.Split(strings.TrimSpace(s), ".")
	if len(p) != 4 {
		t.Fatalf("%q is not an attempt like j.0.0.0", s)
	}
	return jobs.AttemptID{Job: jobs.ID(p[0]), Stage: atoi(t, p[1]), Task: atoi(t, p[2]), Attempt: atoi(t, p[3])}
}

func parseStage(t *testing.T, line string, id int) *jobs.Stage {
	st := &jobs.Stage{ID: id, Work: toil{}}
	for i, f := range strings.Fields(line) {
		key, val, _ := strings.Cut(f, "=")
		switch {
		case i == 0:
			st.Name = f
		case f == "bound":
			for k := range st.Tasks {
				st.Tasks[k].Split = &inputformat.Split{Label: fmt.Sprintf("region %d", k), Bound: true}
			}
		case key == "parts":
			st.Partitions = atoi(t, val)
		case key == "reads":
			for _, in := range strings.Split(val, ",") {
				n, broadcast := strings.CutPrefix(in, "broadcast:")
				st.Inputs = append(st.Inputs, atoi(t, n))
				st.Broadcast = append(st.Broadcast, broadcast)
			}
		case key == "tasks":
			if n, err := strconv.Atoi(val); err == nil {
				for k := range n {
					st.Tasks = append(st.Tasks, jobs.Task{Index: k})
				}
				continue
			}
			for k, spec := range strings.Split(val, ",") {
				holders, bytes, sized := strings.Cut(spec, ":")
				task := jobs.Task{Index: k}
				if sized {
					task.Bytes = int64(atoi(t, bytes))
				}
				if holders != "-" {
					for _, w := range strings.Split(holders, "+") {
						task.Hosts = append(task.Hosts, cluster.WorkerID(w))
					}
				}
				st.Tasks = append(st.Tasks, task)
			}
		default:
			t.Fatalf("stage %q: what is %q?", line, f)
		}
	}
	return st
}

func printActions(actions []Action) string {
	if len(actions) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for _, a := range actions {
		switch a := a.(type) {
		case Launch:
			fmt.Fprintf(&b, "launch %s on %s (%s)", a.ID, a.Worker, a.Locality)
			if a.Rival {
				b.WriteString(" as a rival")
			}
			for _, in := range a.Inputs {
				b.WriteString(" reads")
				for _, id := range in {
					fmt.Fprintf(&b, " %d.%d.%d", id.Stage, id.Task, id.Attempt)
				}
			}
		case Cancel:
			fmt.Fprintf(&b, "cancel %s on %s", a.ID, a.Worker)
		case Publish:
			fmt.Fprintf(&b, "publish %s:", a.Job)
			for _, id := range a.Won {
				fmt.Fprintf(&b, " %d.%d", id.Task, id.Attempt)
			}
		case Abandon:
			fmt.Fprintf(&b, "abandon the output of %s", a.Job)
		case DropShuffle:
			fmt.Fprintf(&b, "drop the shuffle of %s", a.Job)
		case Finished:
			fmt.Fprintf(&b, "%s: %s", a.Job, a.State)
			if a.Err != nil {
				fmt.Fprintf(&b, ", %v", a.Err)
			}
			for _, st := range a.Status.Stages {
				if st.Warning != "" {
					fmt.Fprintf(&b, "\n  warning: %s", st.Warning)
				}
			}
		case Rest:
			fmt.Fprintf(&b, "rest %s until %d", a.Worker, a.Until)
		case Wake:
			fmt.Fprintf(&b, "wake at %d", a.At)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func printStatus(st jobs.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s rows_out=%d", st.ID, st.State, st.Counters[jobs.CounterRowsOut])
	if st.Error != "" {
		fmt.Fprintf(&b, " error: %s", st.Error)
	}
	b.WriteByte('\n')
	for i, s := range st.Stages {
		fmt.Fprintf(&b, "%d %s: %s %d/%d done, %d running, %.0f%%, local %d of %d, rows_out=%d, attempts %d, failed %d, %v\n",
			i, s.Name, s.State, s.Done, s.Tasks, s.Running, 100*s.Progress, s.Local, s.Placed,
			s.Counters[jobs.CounterRowsOut], s.Attempts, s.Failed, s.Elapsed)
		if s.Warning != "" {
			fmt.Fprintf(&b, "  warning: %s\n", s.Warning)
		}
		if s.Waiting != "" {
			fmt.Fprintf(&b, "  parked %d, waiting: %s\n", s.Parked, s.Waiting)
		}
	}
	return b.String()
}
