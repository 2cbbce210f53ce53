package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/skepdb/skep/internal/fault"
)

// Limits bound what a program in a child process may take, for each attempt. A
// zero field is its default.
type Limits struct {
	Memory    int64         // bytes resident, of all its processes. Default 1 GiB
	Timeout   time.Duration // without progress. Default 10 min
	Files     int           // open at once. Default 256
	FileBytes int64         // of one file that it writes. Default 16 GiB
	LogBytes  int64         // to standard output and error. Default 16 MiB
	Processes int           // itself included. Default 1
}

// WithDefaults returns l with its zero fields filled in.
func (l Limits) WithDefaults() Limits {
	def(&l.Memory, 1<<30)
	def(&l.Timeout, 10*time.Minute)
	def(&l.Files, 256)
	def(&l.FileBytes, 16<<30)
	def(&l.LogBytes, 16<<20)
	def(&l.Processes, 1)
	return l
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Validate names every fault at once.
func (l Limits) Validate() error {
	l = l.WithDefaults()
	var faults []error
	least := func(what string, have, want int64) {
		if have < want {
			faults = append(faults, fmt.Errorf("%s: %d is less than %d", what, have, want))
		}
	}
	least("memory in bytes", l.Memory, 32<<20)
	least("time-out in milliseconds", l.Timeout.Milliseconds(), 1)
	least("open files", int64(l.Files), 16)
	least("bytes of a file", l.FileBytes, 1<<20)
	least("bytes of the log", l.LogBytes, 1<<10)
	least("processes", int64(l.Processes), 1)
	if len(faults) > 0 {
		return fault.Userf("limits: %w", errors.Join(faults...))
	}
	return nil
}
