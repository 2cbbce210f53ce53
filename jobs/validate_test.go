package jobs

import (
	"strings"
	"testing"

	"github.com/skepdb/skep/internal/fault"
)

type toil struct{}

func (toil) Kind() string { return "toil" }

func twoStages() *Job {
	return &Job{Name: "j", Stages: []*Stage{
		{ID: 0, Work: toil{}, Tasks: []Task{{Index: 0}, {Index: 1}, {Index: 2}}, Partitions: 2},
		{ID: 1, Work: toil{}, Inputs: []int{0}, Tasks: []Task{{Index: 0}, {Index: 1}}},
	}}
}

func TestValidate(t *testing.T) {
	if err := twoStages().Validate(); err != nil {
		t.Fatalf("a good job: %v", err)
	}
	for _, c := range []struct {
		name  string
		spoil func(*Job)
		want  string
	}{
		{"empty", func(j *Job) { j.Stages = nil }, "no stages"},
		{"nil stage", func(j *Job) { j.Stages[0] = nil }, "stage 0 is nil"},
		{"id", func(j *Job) { j.Stages[1].ID = 7 }, "stage 1 has ID 7"},
		{"no work", func(j *Job) { j.Stages[0].Work = nil }, "stage 0 has no work"},
		{"last with partitions", func(j *Job) { j.Stages[1].Partitions = 3 }, "stage 1 is the last one"},
		{"first without", func(j *Job) { j.Stages[0].Partitions = 0 }, "stage 0 is not the last one"},
		{"reads itself", func(j *Job) { j.Stages[1].Inputs[0] = 1 }, "stage 1 reads stage 1"},
		{"unread partition", func(j *Job) { j.Stages[0].Partitions = 3 }, "stage 1 has 2 tasks but reads 3 partitions of stage 0"},
		{"unread stage", func(j *Job) { j.Stages[1].Inputs = nil }, "nobody reads stage 0"},
		{"flags", func(j *Job) { j.Stages[1].Broadcast = []bool{true, false} }, "1 inputs and 2 broadcast flags"},
		{"task order", func(j *Job) { j.Stages[0].Tasks[1].Index = 2 }, "task 2 at place 1"},
		{"attempts", func(j *Job) { j.MaxAttempts = -1 }, "MaxAttempts -1"},
		{"speculation", func(j *Job) { j.Speculation = 9 }, "Speculation 9"},
	} {
		j := twoStages()
		c.spoil(j)
		err := j.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.ClassOf(err) != fault.Bug {
			t.Errorf("%s: got %v, want a bug that contains %q", c.name, err, c.want)
		}
	}
	// A broadcast input is read whole, however many tasks there are.
	j := twoStages()
	j.Stages[1].Broadcast = []bool{true}
	j.Stages[1].Tasks = j.Stages[1].Tasks[:1]
	if err := j.Validate(); err != nil {
		t.Errorf("broadcast: %v", err)
	}
}

func TestAttemptName(t *testing.T) {
	if got := (AttemptID{"job_1_0001", 2, 7, 0}).String(); got != "job_1_0001.2.7.0" {
		t.Error(got)
	}
}
