package wire_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/coding/codingtest"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
	"google.golang.org/protobuf/proto"
)

type work struct{ Program string }

func (work) Kind() string { return "test" }

type spec struct{ Path string }

func (spec) Format() string   { return "test" }
func (spec) Describe() string { return "" }

type body struct{ From, To int64 }

func setup(seed uint64) (wire.Codec, *codingtest.Filler) {
	r := coding.NewRegistry()
	r.Add("work", work{})
	r.Add("spec", spec{})
	r.Add("body", body{})
	f := codingtest.NewFiller(seed, r)
	// What comes back of an error is its text, class, state and place.
	codingtest.Maker(f, func(r *rand.Rand) error {
		return &fault.Error{Class: fault.Retryable, SQLState: "40001", Message: "lost", Line: 2, Column: r.IntN(9) + 1}
	})
	codingtest.Maker(f, func(r *rand.Rand) jobs.State { return jobs.State(r.IntN(int(jobs.Killed)) + 1) })
	return wire.Codec{Registry: r}, f
}

// An empty list is no list on the wire.
var equal = append(codingtest.Equal(), cmpopts.EquateEmpty(), cmp.Comparer(func(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	l1, c1 := fault.PlaceOf(a)
	l2, c2 := fault.PlaceOf(b)
	return a.Error() == b.Error() && fault.ClassOf(a) == fault.ClassOf(b) && fault.StateOf(a) == fault.StateOf(b) && l1 == l2 && c1 == c2
}))

// through sends a message over the wire.
func through[M proto.Message](t *testing.T, m M, err error) M {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	back := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(data, back); err != nil {
		t.Fatal(err)
	}
	return back
}

func fill[T any](f *codingtest.Filler) *T {
	v := new(T)
	f.Fill(reflect.ValueOf(v).Elem(), 12)
	return v
}

// Every field of every type comes through: a new one that isn't coded fails here.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(50) {
		c, f := setup(seed)
		check := func(name string, sent, got any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sent, got, equal...); diff != "" {
				t.Fatalf("%s (-sent +got):\n%s", name, diff)
			}
		}
		job := fill[jobs.Job](f)
		pj, err := c.Job(job)
		gotJob, err2 := c.JobOf(through(t, pj, err))
		check("job", job, gotJob, err2)

		a := fill[jobs.Assignment](f)
		a.Stage.Tasks = nil // it has its task beside it
		pa, err := c.Assignment(a)
		gotA, err2 := c.AssignmentOf(through(t, pa, err))
		check("assignment", *a, gotA, err2)

		r := fill[jobs.Result](f)
		pr, err := c.Result(r)
		gotR, err2 := c.ResultOf(through(t, pr, err))
		check("result", *r, gotR, err2)

		s := fill[jobs.Status](f)
		gotS, failed := wire.StatusOf(through(t, wire.Status(s, errors.New("why")), nil))
		check("status", *s, gotS, nil)
		if failed == nil || failed.Error() != "why" {
			t.Errorf("the error of a status came as %v", failed)
		}
	}
}

// Empty things come through as well.
func TestEmpty(t *testing.T) {
	c, _ := setup(1)
	p, err := c.Job(&jobs.Job{})
	got, err2 := c.JobOf(through(t, p, err))
	if diff := cmp.Diff(&jobs.Job{}, got); diff != "" || err2 != nil {
		t.Error(diff, err2)
	}
	r, err := c.Result(&jobs.Result{})
	gotR, err2 := c.ResultOf(through(t, r, err))
	if diff := cmp.Diff(jobs.Result{}, gotR); diff != "" || err2 != nil {
		t.Error(diff, err2)
	}
}

func FuzzJob(f *testing.F) {
	c, fl := setup(3)
	p, err := c.Job(fill[jobs.Job](fl))
	if err != nil {
		f.Fatal(err)
	}
	data, err := proto.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := c.Job(&jobs.Job{})
		if err != nil || proto.Unmarshal(data, m) != nil {
			return
		}
		if j, err := c.JobOf(m); err == nil {
			_ = j.Validate()
		}
	})
}
