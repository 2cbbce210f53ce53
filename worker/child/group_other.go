//go:build !linux

package child

import "syscall"

// ownGroup puts the program in a process group that it leads.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// limit does nothing: only Linux lets a process limit another.
func (p *Process) limit() error { return nil }

// usage is what a program and its descendants take.
type usage struct {
	processes int
	memory    int64
}

// sample knows nothing here.
func sample(int) usage { return usage{} }

// killRest kills what is left of the group.
func (p *Process) killRest() int {
	killGroup(p.cmd.Process.Pid)
	return 0
}
