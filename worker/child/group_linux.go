package child

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skepdb/skep/internal/fault"
)

// ownGroup puts the program in a process group that it leads, and has it killed
// when this process is.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// limit sets the kernel's limits. The program already runs, but does nothing
// until it is told what.
func (p *Process) limit() error {
	set := func(resource int, n uint64) error {
		return unix.Prlimit(p.cmd.Process.Pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil)
	}
	limits := []struct {
		resource int
		n        int64
	}{{unix.RLIMIT_NOFILE, int64(p.o.Files)}, {unix.RLIMIT_FSIZE, p.o.FileBytes}}
	if p.o.Memory > 0 {
		// The true limit is watched over; this one stops what grows faster than that.
		// It counts what is reserved, of which Go reserves more than it uses.
		limits = append(limits, struct {
			resource int
			n        int64
		}{unix.RLIMIT_DATA, 2*p.o.Memory + 512<<20})
	}
	err := set(unix.RLIMIT_CORE, 0)
	for _, l := range limits {
		if l.n > 0 && err == nil {
			err = set(l.resource, uint64(l.n))
		}
	}
	if err == unix.ESRCH {
		return nil // it has ended; Wait says how
	}
	if err != nil {
		return fault.Retryablef("limit the program: %w", err)
	}
	return nil
}

// usage is what a program and its descendants take.
type usage struct {
	processes int
	memory    int64
}

// sample looks at a process and its descendants.
func sample(pid int) (u usage) {
	queue := []int{pid}
	for len(queue) > 0 && u.processes < 10000 {
		pid := queue[0]
		queue = queue[1:]
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		u.processes++
		if f := strings.Fields(string(statm)); len(f) > 1 {
			if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				u.memory += pages * int64(os.Getpagesize())
			}
		}
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			continue
		}
		for _, t := range threads {
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
			if err != nil {
				continue
			}
			for _, c := range strings.Fields(string(children)) {
				if n, err := strconv.Atoi(c); err == nil {
					queue = append(queue, n)
				}
			}
		}
	}
	return u
}

// killRest kills what is left after the program has ended: of its group, and
// those that left the group but have its token in their environment. It returns
// how many it found.
func (p *Process) killRest() int {
	token := []byte(tokenVariable + "=" + p.token)
	killed := map[int]bool{}
	for range 10 { // what is killed may have started more
		entries, err := os.ReadDir("/proc")
		if err != nil {
			break
		}
		again := false
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
			if err == nil && bytes.Contains(env, token) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				killed[pid], again = true, true
			}
		}
		if !again {
			break
		}
	}
	killGroup(p.cmd.Process.Pid) // those that cleared their environment
	// A signal is quicker than the end that it brings.
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		alive := false
		for pid := range killed {
			alive = alive || runs(pid)
		}
		if !alive {
			break
		}
	}
	return len(killed)
}

// runs reports whether a process exists that is more than an exit code that nobody
// has asked for.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(stat), ") ")
	return ok && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
