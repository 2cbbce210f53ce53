package wire

import (
	"maps"
	"time"

	jobspb "github.com/skepdb/skep/api/jobs"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
)

// Assignment codes an attempt for its worker.
func (c Codec) Assignment(a *jobs.Assignment) (*jobspb.Assignment, error) {
	out := &jobspb.Assignment{Id: Attempt(a.ID)}
	var err error
	if out.Stage, err = c.Stage(a.Stage); err != nil {
		return nil, err
	}
	if out.Task, err = c.Task(a.Task); err != nil {
		return nil, err
	}
	if out.Output, err = c.Spec(a.Output); err != nil {
		return nil, err
	}
	if out.Inputs, err = mappedErr(a.Inputs, func(in jobs.Input) (*jobspb.Input, error) {
		p := &jobspb.Input{
			Partitions: int32(in.Partitions), Broadcast: in.Broadcast, From: Attempts(in.From),
			Workers: mapped(in.Workers, func(w cluster.WorkerID) string { return string(w) }),
		}
		p.Fields, err = c.Fields(in.Fields)
		return p, err
	}); err != nil {
		return nil, err
	}
	if a.Addresses != nil {
		out.Addresses = map[string]string{}
		for w, addr := range a.Addresses {
			out.Addresses[string(w)] = addr
		}
	}
	return out, nil
}

// AssignmentOf is the inverse of Assignment.
func (c Codec) AssignmentOf(p *jobspb.Assignment) (jobs.Assignment, error) {
	a := jobs.Assignment{ID: AttemptOf(p.GetId())}
	var err error
	if a.Stage, err = c.StageOf(p.GetStage()); err != nil {
		return a, err
	}
	if a.Task, err = c.TaskOf(p.GetTask()); err != nil {
		return a, err
	}
	if a.Output, err = c.SpecOf(p.GetOutput()); err != nil {
		return a, err
	}
	if a.Inputs, err = mappedErr(p.GetInputs(), func(p *jobspb.Input) (jobs.Input, error) {
		in := jobs.Input{
			Partitions: int(p.GetPartitions()), Broadcast: p.GetBroadcast(), From: AttemptsOf(p.GetFrom()),
			Workers: mapped(p.GetWorkers(), func(w string) cluster.WorkerID { return cluster.WorkerID(w) }),
		}
		in.Fields, err = c.FieldsOf(p.GetFields())
		return in, err
	}); err != nil {
		return a, err
	}
	if len(p.GetAddresses()) > 0 {
		a.Addresses = map[cluster.WorkerID]string{}
		for w, addr := range p.GetAddresses() {
			a.Addresses[cluster.WorkerID(w)] = addr
		}
	}
	return a, nil
}

// Manifest codes what an attempt wrote; nil stays nil.
func (c Codec) Manifest(m *outputformat.Manifest) (*jobspb.Manifest, error) {
	if m == nil {
		return nil, nil
	}
	out := &jobspb.Manifest{Attempt: m.Attempt, Task: int32(m.Task), Rows: m.Rows, Bytes: m.Bytes}
	var err error
	out.Body, err = c.Registry.MarshalInterface(m.Body)
	return out, err
}

// ManifestOf is the inverse of Manifest.
func (c Codec) ManifestOf(p *jobspb.Manifest) (*outputformat.Manifest, error) {
	if p == nil {
		return nil, nil
	}
	m := &outputformat.Manifest{Attempt: p.GetAttempt(), Task: int(p.GetTask()), Rows: p.GetRows(), Bytes: p.GetBytes()}
	var err error
	if m.Body, err = coding.DecodeInterface[any](c.Registry, p.GetBody()); err != nil {
		return nil, broken("manifest", err)
	}
	return m, nil
}

// Result codes how an attempt ended.
func (c Codec) Result(r *jobs.Result) (*jobspb.Result, error) {
	out := &jobspb.Result{
		Id: Attempt(r.ID), Error: rpc.Translator{}.Encode(r.Err), Gone: Attempts(r.Gone),
		Killed: r.Killed, Unavailable: r.Unavailable, Counters: r.Counters,
	}
	var err error
	out.Manifest, err = c.Manifest(r.Manifest)
	return out, err
}

// ResultOf is the inverse of Result. Of an error, its class, SQLSTATE, place
// and text come through.
func (c Codec) ResultOf(p *jobspb.Result) (jobs.Result, error) {
	r := jobs.Result{
		ID: AttemptOf(p.GetId()), Err: rpc.Translator{}.Decode(p.GetError()), Gone: AttemptsOf(p.GetGone()),
		Killed: p.GetKilled(), Unavailable: p.GetUnavailable(), Counters: p.GetCounters(),
	}
	var err error
	r.Manifest, err = c.ManifestOf(p.GetManifest())
	return r, err
}

// Status codes a job's status, and the error that it ended with, if any.
func Status(s *jobs.Status, failed error) *jobspb.JobStatus {
	out := &jobspb.JobStatus{
		Id: string(s.ID), Name: s.Name, State: uint32(s.State), Error: s.Error,
		Summary:  &jobspb.Summary{Rows: s.Summary.Rows, Duplicates: s.Summary.Duplicates},
		Counters: s.Counters, Fault: rpc.Translator{}.Encode(failed),
	}
	out.Stages = mapped(s.Stages, func(st jobs.StageStatus) *jobspb.StageStatus {
		return &jobspb.StageStatus{
			Name: st.Name, State: uint32(st.State), Tasks: int64(st.Tasks), Done: int64(st.Done),
			Running: int64(st.Running), Local: int64(st.Local), Placed: int64(st.Placed), Counters: st.Counters,
			Locality: mapped(st.Locality[:], func(n int) int64 { return int64(n) }),
			Attempts: int64(st.Attempts), Failed: int64(st.Failed), Progress: st.Progress,
			ElapsedNs: int64(st.Elapsed), Warning: st.Warning, Parked: int64(st.Parked), Waiting: st.Waiting,
		}
	})
	return out
}

// StatusOf is the inverse of Status.
func StatusOf(p *jobspb.JobStatus) (jobs.Status, error) {
	s := jobs.Status{
		ID: jobs.ID(p.GetId()), Name: p.GetName(), State: state(p.GetState()), Error: p.GetError(),
		Summary:  outputformat.Summary{Rows: p.GetSummary().GetRows(), Duplicates: p.GetSummary().GetDuplicates()},
		Counters: counters(p.GetCounters()),
	}
	s.Stages = mapped(p.GetStages(), func(p *jobspb.StageStatus) jobs.StageStatus {
		st := jobs.StageStatus{
			Name: p.GetName(), State: state(p.GetState()), Tasks: int(p.GetTasks()), Done: int(p.GetDone()),
			Running: int(p.GetRunning()), Local: int(p.GetLocal()), Placed: int(p.GetPlaced()), Counters: counters(p.GetCounters()),
			Attempts: int(p.GetAttempts()), Failed: int(p.GetFailed()), Progress: p.GetProgress(),
			Elapsed: time.Duration(p.GetElapsedNs()), Warning: p.GetWarning(), Parked: int(p.GetParked()), Waiting: p.GetWaiting(),
		}
		for i, n := range p.GetLocality() {
			if i < len(st.Locality) {
				st.Locality[i] = int(n)
			}
		}
		return st
	})
	return s, rpc.Translator{}.Decode(p.GetFault())
}

func counters(c map[string]int64) jobs.Counters {
	return maps.Clone(jobs.Counters(c))
}

// state is a state that a message names; one that doesn't exist is Failed.
func state(n uint32) jobs.State {
	if n > uint32(jobs.Killed) {
		return jobs.Failed
	}
	return jobs.State(n)
}
