// Package node assembles the parts of Skep, with their registries, into a
// running whole. Today there is one kind: the embedded engine, which runs
// everything in this process over data folders. It is one of the few packages
// that may import everything.
package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/internal/fault"
)

// DefaultData is the data folder when none is given.
const DefaultData = "skep-data"

// Options say what a node is made of. The zero value is usable.
type Options struct {
	// Data are the data folders; the catalogue is in the first one. A folder
	// that is made stays with the worker that it was given to. A directory
	// with a FOLDERS file stands for the folders that the file names. None:
	// DefaultData.
	Data []string
	// Workers is how many workers a new set of folders is shared out to, in
	// turn. Folders that exist already keep their workers. 0: 1.
	Workers int
	// Slots is how many attempts a worker runs at once. 0: the share of the
	// processors that falls to one worker, at least 1.
	Slots int
	// Memory is how many bytes an attempt may hold. 0: 1 GiB.
	Memory int64
	// ShuffleMemory is how many bytes of batches the shuffle holds; what exceeds
	// it goes to the data folders. 0: 1 GiB.
	ShuffleMemory int64
	// MustExist refuses to make a first data folder that isn't there.
	MustExist bool
	// AcceptClockJump takes the clock's word once, at Open, although it says a
	// time years after the last timestamp of the folder, which is refused
	// otherwise.
	AcceptClockJump bool
	// Command is what other processes are told of who holds the folders; "":
	// the command line.
	Command string
	// FS is the file system of the data folders; nil: the operating system's.
	FS vfs.FS
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Logger takes what is worth knowing and no error; nil: nothing is logged.
	Logger *slog.Logger
}

// withDefaults returns o with its zero values filled in.
func (o Options) withDefaults() Options {
	if len(o.Data) == 0 {
		o.Data = []string{DefaultData}
	}
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	if o.ShuffleMemory == 0 {
		o.ShuffleMemory = 1 << 30
	}
	if o.Command == "" {
		o.Command = strings.Join(os.Args, " ")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate names every fault of o at once; nil when there is none.
func (o Options) Validate() error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	seen := map[string]string{}
	for _, d := range o.Data {
		switch clean := filepath.Clean(d); {
		case d == "":
			wrong("data: a folder's path is empty")
		case seen[clean] != "":
			wrong("data: %s and %s are the same folder", seen[clean], d)
		default:
			seen[clean] = d
		}
	}
	if o.Workers < 0 {
		wrong("workers: %d is negative", o.Workers)
	}
	if o.Slots < 0 {
		wrong("slots: %d is negative", o.Slots)
	}
	const least = 16 << 20
	if o.Memory != 0 && o.Memory < least {
		wrong("memory: %d bytes an attempt are fewer than %d", o.Memory, least)
	}
	if o.ShuffleMemory < 0 {
		wrong("shuffle memory: %d is negative", o.ShuffleMemory)
	}
	if len(faults) == 0 {
		return nil
	}
	return fault.Userf("options: %w", errors.Join(faults...))
}

// String returns the options a line each, defaults filled in.
func (o Options) String() string {
	o = o.withDefaults()
	var b strings.Builder
	for _, d := range o.Data {
		fmt.Fprintf(&b, "data = %q\n", d)
	}
	slots := "auto"
	if o.Slots > 0 {
		slots = fmt.Sprint(o.Slots)
	}
	fmt.Fprintf(&b, "workers = %d\nslots = %s\nmemory = %d\nshuffle_memory = %d\n", o.Workers, slots, o.Memory, o.ShuffleMemory)
	return b.String()
}

// slotsOf returns the slots of each of n workers.
func (o Options) slotsOf(n int) int {
	if o.Slots > 0 {
		return o.Slots
	}
	return max(1, runtime.GOMAXPROCS(0)/max(n, 1))
}
