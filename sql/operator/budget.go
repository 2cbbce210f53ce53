package operator

import (
	"github.com/skepdb/skep/batch/spill"
	"github.com/skepdb/skep/internal/fault"
)

// budget counts what the blocking operators of one attempt hold in memory, and
// has the place for what is too much.
type budget struct {
	limit      int64 // 0: none
	used, peak int64
	dir        string
	space      *spill.Space
}

// spills returns where the attempt's rows go when they don't fit.
func (b *budget) spills() *spill.Space {
	if b.space == nil {
		b.space = spill.New(b.dir)
	}
	return b.space
}

func (b *budget) close() error {
	if b.space == nil {
		return nil
	}
	return b.space.Close()
}

// share is the part of the limit that an operator may hold whatever the others
// do: less would make it write rows a handful at a time.
const share = 8

// account is one operator's part of a budget.
type account struct {
	b        *budget
	operator string
	used     int64
}

// hold says how many bytes the operator holds now, and reports whether it may; if not,
// it must spill.
func (a *account) hold(bytes int64) bool {
	a.b.used += bytes - a.used
	a.used = bytes
	a.b.peak = max(a.b.peak, a.b.used)
	return a.b.limit <= 0 || a.b.used <= a.b.limit || bytes <= a.b.limit/share
}

// set is hold for an operator that can't spill what it holds.
func (a *account) set(bytes int64) error {
	if a.hold(bytes) {
		return nil
	}
	return &fault.Error{Class: fault.User, SQLState: "53200",
		Message: "out of memory in " + a.operator + ": the task holds " + megabytes(a.b.used) + ", of which this operator " +
			megabytes(a.used) + "; the limit is " + megabytes(a.b.limit),
		Hint: "filter or aggregate earlier, or give tasks more memory"}
}

// pieces returns how many rows a batch of a run should have, if a row takes so many
// bytes: several runs are read at once.
func (b *budget) pieces(bytes int64, rows int) int {
	if b.limit <= 0 || rows == 0 {
		return maxPiece
	}
	each := max(bytes/int64(rows), 1)
	return int(min(max(b.limit/(8*fanIn)/each, 16), maxPiece))
}

const (
	// fanIn is how many runs are written or read at once.
	fanIn    = 16
	maxPiece = 8192
)
