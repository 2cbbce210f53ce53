package jobs

import (
	"errors"
	"fmt"

	"github.com/skepdb/skep/internal/fault"
)

// Validate checks that the graph means what it says: that no row can get lost
// between stages. The error is of class bug (planners make jobs, not users) and
// names every fault.
func (j *Job) Validate() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(j.Stages) == 0 {
		bad("no stages")
	}
	if j.MaxAttempts < 0 {
		bad("MaxAttempts %d is negative", j.MaxAttempts)
	}
	if j.Speculation > SpeculationDuplicate {
		bad("Speculation %d is unknown", j.Speculation)
	}
	read := make([]bool, len(j.Stages))
	for i, s := range j.Stages {
		if s == nil {
			bad("stage %d is nil", i)
			continue
		}
		if s.ID != i {
			bad("stage %d has ID %d", i, s.ID)
		}
		if s.Work == nil {
			bad("stage %d has no work", i)
		}
		last := i == len(j.Stages)-1
		switch {
		case last && s.Partitions != 0:
			bad("stage %d is the last one but has %d shuffle partitions", i, s.Partitions)
		case !last && s.Partitions <= 0:
			bad("stage %d is not the last one but has %d shuffle partitions", i, s.Partitions)
		}
		if len(s.Broadcast) != 0 && len(s.Broadcast) != len(s.Inputs) {
			bad("stage %d has %d inputs and %d broadcast flags", i, len(s.Inputs), len(s.Broadcast))
			continue
		}
		for k, in := range s.Inputs {
			if in < 0 || in >= i || j.Stages[in] == nil {
				bad("stage %d reads stage %d, which does not come before it", i, in)
				continue
			}
			read[in] = true
			// Fewer tasks would leave partitions unread, without anyone noticing.
			if !s.IsBroadcast(k) && len(s.Tasks) != j.Stages[in].Partitions {
				bad("stage %d has %d tasks but reads %d partitions of stage %d", i, len(s.Tasks), j.Stages[in].Partitions, in)
			}
		}
		for k := range s.Tasks {
			if s.Tasks[k].Index != k {
				bad("stage %d has task %d at place %d", i, s.Tasks[k].Index, k)
			}
		}
	}
	for i := 0; i < len(read)-1; i++ {
		if !read[i] {
			bad("nobody reads stage %d", i)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fault.Bugf("job %q is malformed: %w", j.Name, errors.Join(faults...))
}

// IsBroadcast reports whether every task reads all of the stage's k-th input.
func (s *Stage) IsBroadcast(k int) bool { return k < len(s.Broadcast) && s.Broadcast[k] }
