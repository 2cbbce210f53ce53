// Package child runs users' programs: each in a process group and a folder of its
// own, with a clean environment, limits on memory, open files, files written, log
// and processes, and two pipes, descriptors 3 and 4. What a program starts ends
// with it.
package child

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skepdb/skep/internal/fault"
)

// Options say what to start.
type Options struct {
	Path string   // of the program
	Args []string // after its name
	Env  []string // beside PATH, HOME, TMPDIR, LANG and the limits' variables
	Dir  string   // in which the program's folder is made; "": the system's
	// Log gets what the program writes to standard output and error; nil: nobody.
	Log io.Writer
	// Limits, 0 = none.
	Memory    int64         // bytes resident, of all processes
	Timeout   time.Duration // between two calls of Touch
	Files     int           // open at once
	FileBytes int64         // of one file
	LogBytes  int64
	Processes int // the program itself included
}

// Process is a program that runs, or has run. Wait must be called.
type Process struct {
	o     Options
	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	dir   string
	token string // in the environment of all that the program starts

	touched atomic.Int64 // when, in nanoseconds since started
	started time.Time

	mu     sync.Mutex
	cause  error // why it was killed
	reaped bool  // its number may be another's
	ended  chan struct{}
	err    error
}

// tokenVariable marks the processes of an attempt.
const tokenVariable = "SKEP_TOKEN"

// sampleEvery is how often memory, processes and time are looked at.
const sampleEvery = 100 * time.Millisecond

// Start starts a program. It is killed when ctx ends.
func Start(ctx context.Context, o Options) (_ *Process, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	p := &Process{o: o, token: hex.EncodeToString(random[:]), ended: make(chan struct{})}
	if p.dir, err = os.MkdirTemp(o.Dir, "attempt-"); err != nil {
		return nil, fault.Retryablef("start a program: %w", err)
	}
	var opened []*os.File
	defer func() {
		if err != nil {
			for _, f := range opened {
				_ = f.Close() // some are closed already
			}
			err = errors.Join(err, os.RemoveAll(p.dir))
		}
	}()
	pipes := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			opened = append(opened, r, w)
		}
		return r, w, err
	}
	childIn, in, err := pipes()
	if err != nil {
		return nil, fault.Retryablef("start a program: %w", err)
	}
	out, childOut, err := pipes()
	if err != nil {
		return nil, fault.Retryablef("start a program: %w", err)
	}
	logRead, logWrite, err := pipes()
	if err != nil {
		return nil, fault.Retryablef("start a program: %w", err)
	}
	p.in, p.out = in, out
	p.cmd = exec.Command(o.Path, o.Args...)
	p.cmd.Dir = p.dir
	p.cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + p.dir, "TMPDIR=" + p.dir, "LANG=C.UTF-8", tokenVariable + "=" + p.token}, o.Env...)
	if o.Memory > 0 {
		p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("GOMEMLIMIT=%d", o.Memory-o.Memory/8))
	}
	p.cmd.Stdout, p.cmd.Stderr = logWrite, logWrite
	p.cmd.ExtraFiles = []*os.File{childIn, childOut}
	p.cmd.SysProcAttr = ownGroup()
	launched := make(chan error, 1)
	go p.supervise(ctx, launched, logRead)
	err = <-launched
	if err != nil {
		<-p.ended
		return nil, err
	}
	// The child has its own ends: with ours open, its end would not show.
	return p, errors.Join(childIn.Close(), childOut.Close(), logWrite.Close())
}

// supervise starts the program, watches over it and cleans up after it. It stays
// on one thread, since the kernel kills the program when the thread that
// started it ends.
func (p *Process) supervise(ctx context.Context, launched chan<- error, log *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	if err := p.launch(); err != nil {
		launched <- err
		return
	}
	p.started = time.Now()
	limited := p.limit()
	if limited != nil {
		p.Kill(limited)
	}
	launched <- limited
	var logged, watched sync.WaitGroup
	over := make(chan struct{})
	logged.Go(func() { p.copyLog(log) })
	watched.Go(func() { p.watch(ctx, over) })
	err := p.cmd.Wait()
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	close(over)
	watched.Wait()
	left := p.killRest()
	logged.Wait()
	_ = log.Close() // it has been read to its end
	p.finish(ctx, err, left)
}

// launch starts the process. A program that was only just written may still be
// open for writing in a process that another goroutine is starting: then it
// can't be executed for a moment.
func (p *Process) launch() error {
	for try := 0; ; try++ {
		err := p.cmd.Start()
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.ETXTBSY) || try == 10 {
			return fault.Userf("start the program: %w", err)
		}
		time.Sleep(time.Millisecond << try)
		again := exec.Command(p.o.Path, p.o.Args...)
		again.Dir, again.Env, again.Stdout, again.Stderr = p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr
		again.ExtraFiles, again.SysProcAttr = p.cmd.ExtraFiles, p.cmd.SysProcAttr
		p.cmd = again
	}
}

// copyLog copies what the program writes until nobody has the other end.
func (p *Process) copyLog(from *os.File) {
	buf := make([]byte, 32<<10)
	var total int64
	for {
		n, err := from.Read(buf)
		keep := int64(n)
		if p.o.LogBytes > 0 {
			keep = max(min(keep, p.o.LogBytes-total), 0)
		}
		if keep > 0 && p.o.Log != nil {
			_, _ = p.o.Log.Write(buf[:keep]) // a log that can't be written doesn't fail the task
		}
		total += int64(n)
		if p.o.LogBytes > 0 && total > p.o.LogBytes {
			p.Kill(fault.Retryablef("it wrote more than %d bytes to its log", p.o.LogBytes))
		}
		if err != nil {
			return
		}
	}
}

// watch kills the program when ctx ends or it takes too much.
func (p *Process) watch(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			p.Kill(context.Cause(ctx))
			return
		case <-tick.C:
		}
		if t := p.o.Timeout; t > 0 && time.Since(p.started)-time.Duration(p.touched.Load()) > t {
			p.Kill(fault.Retryablef("it made no progress for %s", t))
			return
		}
		use := sample(p.cmd.Process.Pid)
		switch {
		case p.o.Processes > 0 && use.processes > p.o.Processes:
			p.Kill(fault.Retryablef("it started other processes: %d run, %d may", use.processes, p.o.Processes))
			return
		case p.o.Memory > 0 && use.memory > p.o.Memory:
			p.Kill(fault.Retryablef("it used %d MiB of memory, its limit is %d MiB", use.memory>>20, p.o.Memory>>20))
			return
		}
	}
}

// finish says how the program ended.
func (p *Process) finish(ctx context.Context, waited error, left int) {
	removed := os.RemoveAll(p.dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cause != nil:
		p.err = fmt.Errorf("the program was killed: %w", p.cause)
	case waited != nil:
		p.err = fault.Retryablef("the program ended with %w", waited)
	case left > 0 && p.o.Processes > 0:
		p.err = fault.Retryablef("the program left other processes behind (%d, killed)", left)
	case removed != nil:
		p.err = fault.Retryablef("remove the program's folder: %w", removed)
	}
}

// In is the writing end of the program's descriptor 3. A program that is gone
// gives an error.
func (p *Process) In() *os.File { return p.in }

// Out is the reading end of the program's descriptor 4.
func (p *Process) Out() *os.File { return p.out }

// Touch says that the program makes progress.
func (p *Process) Touch() { p.touched.Store(int64(time.Since(p.started))) }

// Kill ends the program and everything that it started, at once. The first cause
// is part of what Wait returns.
func (p *Process) Kill(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == nil && cause != nil {
		p.cause = cause
	}
	if !p.reaped {
		killGroup(p.cmd.Process.Pid)
	}
}

// Wait closes the pipes' ends, waits until the program and everything that it
// started has ended, and returns nil if it ended well: with code 0, not killed.
// The error of one that was killed because its context ended is the context's.
func (p *Process) Wait() error {
	<-p.ended
	_, _ = p.in.Close(), p.out.Close() // both sides are gone
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
