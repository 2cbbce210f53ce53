package operator

import (
	"github.com/skepdb/skep/internal/fault"
)

// budget counts what the blocking operators of one attempt hold in memory.
type budget struct {
	limit int64 // 0: none
	used  int64
}

// account is one operator's part of a budget.
type account struct {
	b        *budget
	operator string
	used     int64
}

// set says how many bytes the operator holds now. The error, once spilling
// exists, is the signal to spill.
func (a *account) set(bytes int64) error {
	a.b.used += bytes - a.used
	a.used = bytes
	if a.b.limit > 0 && a.b.used > a.b.limit {
		return &fault.Error{Class: fault.User, SQLState: "53200",
			Message: "out of memory in " + a.operator + ": the task holds " + megabytes(a.b.used) + ", of which this operator " +
				megabytes(a.used) + "; the limit is " + megabytes(a.b.limit),
			Hint: "filter or aggregate earlier, or give tasks more memory"}
	}
	return nil
}
