// Package wire turns jobs, assignments, results and statuses into protobuf
// messages and back. Work, specs and bodies, whose types jobs doesn't know, travel
// as bytes that a coding.Registry makes; node fills it.
package wire

import (
	"fmt"

	jobspb "github.com/skepdb/skep/api/jobs"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
)

// Codec turns jobs into messages and back. Safe for concurrent use.
type Codec struct{ Registry *coding.Registry }

// Attempt returns an attempt's name as a message.
func Attempt(id jobs.AttemptID) *jobspb.AttemptID {
	return &jobspb.AttemptID{Job: string(id.Job), Stage: int32(id.Stage), Task: int32(id.Task), Attempt: int32(id.Attempt)}
}

// AttemptOf is the inverse of Attempt.
func AttemptOf(p *jobspb.AttemptID) jobs.AttemptID {
	return jobs.AttemptID{Job: jobs.ID(p.GetJob()), Stage: int(p.GetStage()), Task: int(p.GetTask()), Attempt: int(p.GetAttempt())}
}

// Attempts is Attempt of each.
func Attempts(ids []jobs.AttemptID) []*jobspb.AttemptID { return mapped(ids, Attempt) }

// AttemptsOf is AttemptOf of each.
func AttemptsOf(ps []*jobspb.AttemptID) []jobs.AttemptID { return mapped(ps, AttemptOf) }

func mapped[A, B any](in []A, f func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, x := range in {
		out[i] = f(x)
	}
	return out
}

func mappedErr[A, B any](in []A, f func(A) (B, error)) ([]B, error) {
	if in == nil {
		return nil, nil
	}
	out := make([]B, len(in))
	for i, x := range in {
		var err error
		if out[i], err = f(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// broken is an error of a message that no Skep of this version sends.
func broken(what string, err error) error { return fault.Bugf("decode %s: %w", what, err) }

// Job codes a job.
func (c Codec) Job(j *jobs.Job) (*jobspb.Job, error) {
	out := &jobspb.Job{
		Id: string(j.ID), Name: j.Name, MaxAttempts: int32(j.MaxAttempts),
		Speculation: uint32(j.Speculation), Priority: int32(j.Priority),
	}
	var err error
	if out.Output, err = c.Spec(j.Output); err != nil {
		return nil, err
	}
	if out.Stages, err = mappedErr(j.Stages, func(st *jobs.Stage) (*jobspb.Stage, error) {
		p, err := c.Stage(st)
		if err != nil {
			return nil, err
		}
		p.Tasks, err = mappedErr(st.Tasks, func(t jobs.Task) (*jobspb.Task, error) { return c.Task(&t) })
		return p, err
	}); err != nil {
		return nil, fmt.Errorf("code job %q: %w", j.Name, err)
	}
	return out, nil
}

// JobOf is the inverse of Job. The job is not validated.
func (c Codec) JobOf(p *jobspb.Job) (*jobs.Job, error) {
	j := &jobs.Job{
		ID: jobs.ID(p.GetId()), Name: p.GetName(), MaxAttempts: int(p.GetMaxAttempts()),
		Speculation: jobs.Speculation(p.GetSpeculation()), Priority: int(p.GetPriority()),
	}
	var err error
	if j.Output, err = c.SpecOf(p.GetOutput()); err != nil {
		return nil, err
	}
	j.Stages, err = mappedErr(p.GetStages(), func(p *jobspb.Stage) (*jobs.Stage, error) {
		st, err := c.StageOf(p)
		if err != nil {
			return nil, err
		}
		st.Tasks, err = mappedErr(p.GetTasks(), func(p *jobspb.Task) (jobs.Task, error) {
			t, err := c.TaskOf(p)
			if err != nil {
				return jobs.Task{}, err
			}
			return *t, nil
		})
		return st, err
	})
	return j, err
}

// Spec codes an output's spec; nil is no bytes.
func (c Codec) Spec(s outputformat.Spec) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	return c.Registry.MarshalInterface(s)
}

// SpecOf is the inverse of Spec.
func (c Codec) SpecOf(b []byte) (outputformat.Spec, error) {
	if len(b) == 0 {
		return nil, nil
	}
	s, err := coding.DecodeInterface[outputformat.Spec](c.Registry, b)
	if err != nil {
		return nil, broken("output", err)
	}
	return s, nil
}

// Fields codes columns.
func (c Codec) Fields(f []schema.Field) ([]byte, error) { return c.Registry.Marshal(f) }

// FieldsOf is the inverse of Fields.
func (c Codec) FieldsOf(b []byte) ([]schema.Field, error) {
	f, err := coding.Decode[[]schema.Field](c.Registry, b)
	if err != nil {
		return nil, broken("fields", err)
	}
	return f, nil
}

// Stage codes a stage without its tasks.
func (c Codec) Stage(st *jobs.Stage) (*jobspb.Stage, error) {
	out := &jobspb.Stage{
		Id: int32(st.ID), Name: st.Name, Broadcast: st.Broadcast, Partitions: int32(st.Partitions),
		Inputs: mapped(st.Inputs, func(i int) int32 { return int32(i) }),
	}
	var err error
	if out.Fields, err = c.Fields(st.Fields); err != nil {
		return nil, err
	}
	if st.Work != nil {
		out.Work = &jobspb.Work{Kind: st.Work.Kind()}
		if out.Work.Body, err = c.Registry.MarshalInterface(st.Work); err != nil {
			return nil, fmt.Errorf("code stage %d: %w", st.ID, err)
		}
	}
	return out, nil
}

// StageOf is the inverse of Stage.
func (c Codec) StageOf(p *jobspb.Stage) (*jobs.Stage, error) {
	st := &jobs.Stage{
		ID: int(p.GetId()), Name: p.GetName(), Broadcast: p.GetBroadcast(), Partitions: int(p.GetPartitions()),
		Inputs: mapped(p.GetInputs(), func(i int32) int { return int(i) }),
	}
	var err error
	if st.Fields, err = c.FieldsOf(p.GetFields()); err != nil {
		return nil, err
	}
	if w := p.GetWork(); w != nil {
		if st.Work, err = coding.DecodeInterface[jobs.Work](c.Registry, w.GetBody()); err != nil {
			return nil, broken("work of kind "+w.GetKind(), err)
		}
		if st.Work == nil || st.Work.Kind() != w.GetKind() {
			return nil, fault.Bugf("decode work: it says that it is of kind %q and is not", w.GetKind())
		}
	}
	return st, nil
}

// Task codes a task.
func (c Codec) Task(t *jobs.Task) (*jobspb.Task, error) {
	out := &jobspb.Task{Index: int32(t.Index), Bytes: t.Bytes, Hosts: mapped(t.Hosts, func(h cluster.WorkerID) string { return string(h) })}
	if s := t.Split; s != nil {
		out.Split = &jobspb.Split{
			Label: s.Label, Bytes: s.Bytes, Rows: s.Rows, Bound: s.Bound,
			Hosts: mapped(s.Hosts, func(h cluster.WorkerID) string { return string(h) }),
		}
		var err error
		if out.Split.Body, err = c.Registry.MarshalInterface(s.Body); err != nil {
			return nil, fmt.Errorf("code split %s: %w", s.Label, err)
		}
	}
	return out, nil
}

// TaskOf is the inverse of Task.
func (c Codec) TaskOf(p *jobspb.Task) (*jobs.Task, error) {
	t := &jobs.Task{Index: int(p.GetIndex()), Bytes: p.GetBytes(), Hosts: mapped(p.GetHosts(), func(h string) cluster.WorkerID { return cluster.WorkerID(h) })}
	if s := p.GetSplit(); s != nil {
		t.Split = &inputformat.Split{
			Label: s.GetLabel(), Bytes: s.GetBytes(), Rows: s.GetRows(), Bound: s.GetBound(),
			Hosts: mapped(s.GetHosts(), func(h string) cluster.WorkerID { return cluster.WorkerID(h) }),
		}
		var err error
		if t.Split.Body, err = coding.DecodeInterface[any](c.Registry, s.GetBody()); err != nil {
			return nil, broken("split", err)
		}
	}
	return t, nil
}
