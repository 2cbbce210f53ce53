package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/jobs/mapreduce/pipe"
	"github.com/skepdb/skep/schema"
)

// Launcher starts the programs of artifacts in child processes; package
// worker/child does it.
type Launcher interface {
	// Launch starts a program that is killed when ctx ends. What it prints goes to
	// log.
	Launch(ctx context.Context, artifact string, l Limits, log io.Writer) (Child, error)
}

// Child is a program that runs. Wait must be called.
type Child interface {
	In() io.Writer  // its descriptor 3
	Out() io.Reader // its descriptor 4
	Touch()         // it makes progress
	Kill(cause error)
	// Wait closes In and Out and waits until the program, and what it started, has
	// ended. The error says why it didn't end well.
	Wait() error
}

// child runs an attempt in a child process.
func (r *Runner) child(ctx context.Context, c *jobs.Context, w *Work, a *mapreduce.Attempt) error {
	if r.Children == nil {
		return fault.Userf("program %s: this worker doesn't run users' programs", w.Program)
	}
	log := &tail{to: a.Log}
	p, err := r.Children.Launch(ctx, w.Artifact, w.Limits, log)
	if err != nil {
		return fmt.Errorf("program %s: %w", w.Program, err)
	}
	s := &session{ctx: ctx, p: p, a: a}
	task := pipe.Task{Version: pipe.Version, Program: w.Program, Reduce: w.Reduce, Index: a.Index, Partitions: a.Partitions,
		Label: a.Label, Params: a.Params, Memory: w.Limits.Memory / 2, Fields: pipe.Columns(a.Input.Fields())}
	if c.Memory > 0 {
		task.Memory = min(task.Memory, c.Memory)
	}
	// The program may say something before it has read everything, so both ways go
	// at once; fed is read when the process has ended.
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		s.feed(feeding, task)
	}()
	fields := w.Fields
	if c.Stage.Partitions > 0 {
		fields = mapreduce.ShuffleFields()
	}
	if err := s.take(fields); err != nil {
		kill(p, err)
		s.taken = err
	}
	stop()
	ended := p.Wait()
	<-fed
	if err := s.outcome(ended); err != nil {
		if text := log.lines(15); text != "" && ctx.Err() == nil {
			err = fmt.Errorf("%w; from its log:\n%s", err, text)
		}
		return fmt.Errorf("program %s: %w", w.Program, err)
	}
	return nil
}

// kill ends a child with which talking has failed. One that is ending by itself
// is to say why.
func kill(p Child, err error) {
	if errors.Is(err, pipe.ErrEnded) {
		err = nil
	}
	p.Kill(err)
}

// session is the talk with a child about a task.
type session struct {
	ctx   context.Context
	p     Child
	a     *mapreduce.Attempt
	input error      // of reading what the program is fed
	taken error      // of taking its output
	done  *pipe.Done // its last message
}

// feed writes the task and its input.
func (s *session) feed(ctx context.Context, task pipe.Task) {
	out := pipe.NewWriter(touching{s.p})
	if out.Send(pipe.KindHello, task) != nil {
		return // the program is gone: Wait knows why
	}
	fields := s.a.Input.Fields()
	for {
		b, err := s.a.Input.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if ctx.Err() == nil {
				s.input = fmt.Errorf("read %s: %w", s.a.Label, err)
				s.p.Kill(s.input)
			}
			return
		}
		if out.Batch(fields, -1, b) != nil {
			return
		}
	}
	_ = out.Send(pipe.KindEnd, nil) // as above
}

// touching is a child's input that tells progress.
type touching struct{ p Child }

func (t touching) Write(b []byte) (int, error) {
	n, err := t.p.In().Write(b)
	t.p.Touch()
	return n, err
}

// take reads what the program says until it is done.
func (s *session) take(fields []schema.Field) error {
	in := pipe.NewReader(s.p.Out())
	if err := greet(in); err != nil {
		return err
	}
	batches := pipe.NewBatches(in, fields, true, func(k pipe.Kind, payload []byte) (bool, error) {
		switch k {
		case pipe.KindAlive:
			s.p.Touch()
			return false, nil
		case pipe.KindDone:
			s.done = &pipe.Done{}
			return true, pipe.Decode(payload, s.done)
		}
		return true, fmt.Errorf("%w: a message %q during a task", pipe.ErrGarbage, k)
	})
	for {
		b, err := batches.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.p.Touch()
		if n := batches.Partition(); n < 0 || n >= max(s.a.Partitions, 1) {
			return fmt.Errorf("%w: a batch for partition %d of %d", pipe.ErrGarbage, n, s.a.Partitions)
		}
		if err := s.a.Write(s.ctx, batches.Partition(), b); err != nil {
			return err
		}
		s.p.Touch()
	}
}

func greet(in *pipe.Reader) error {
	var hello pipe.Hello
	if err := in.Expect(pipe.KindHello, &hello); err != nil {
		return err
	}
	if hello.Version != pipe.Version {
		return fault.Userf("it speaks version %d of the protocol, skep version %d: build it again", hello.Version, pipe.Version)
	}
	return nil
}

// outcome says how the task ended, from all that is known.
func (s *session) outcome(ended error) error {
	var classed *fault.Error
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case s.input != nil:
		return s.input
	case s.done != nil && s.taken == nil && s.done.Error != "":
		s.count()
		if s.done.Permanent {
			return fault.Userf("%s", s.done.Error)
		}
		return fault.Retryablef("%s", s.done.Error)
	case s.taken != nil && errors.As(s.taken, &classed):
		return s.taken // of the output, or of another version
	case errors.Is(s.taken, pipe.ErrEnded) && ended != nil:
		return ended
	case errors.Is(s.taken, pipe.ErrEnded):
		return fault.Retryablef("it ended before its task did")
	case errors.Is(s.taken, pipe.ErrGarbage), errors.Is(s.taken, frame.ErrCorrupt):
		return fault.Retryablef("it wrote to descriptor 4 what isn't in the protocol: %w", s.taken)
	case s.taken != nil:
		return fault.Retryablef("%w", s.taken)
	case ended != nil:
		return ended
	}
	s.count()
	return nil
}

// count takes the counters of the program, under names that are its own.
func (s *session) count() {
	if s.a.Counters == nil {
		s.a.Counters = map[string]int64{}
	}
	for name, n := range s.done.Counters {
		if len(name) <= 200 && len(s.a.Counters) < 2000 {
			s.a.Counters[name] += n
		}
	}
}

// describeTimeout is how long a program may take to say what it is.
const describeTimeout = 10 * time.Second

// Describe asks the program of an artifact what it has.
func Describe(ctx context.Context, l Launcher, artifact string) ([]mapreduce.Description, error) {
	log := &tail{to: io.Discard}
	p, err := l.Launch(ctx, artifact, Limits{Timeout: describeTimeout, LogBytes: 64 << 10}.WithDefaults(), log)
	if err != nil {
		return nil, err
	}
	all, err := ask(p)
	if err != nil {
		kill(p, err)
	}
	ended := p.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		var classed *fault.Error
		if errors.As(err, &classed) {
			return nil, err
		}
		if errors.Is(err, pipe.ErrEnded) && ended != nil {
			err = ended
		}
		text := log.lines(10)
		if text != "" {
			text = "; it printed:\n" + text
		}
		return nil, fault.Userf("the program does not answer as one that is built with mapreduce.Main: %w%s", err, text)
	}
	return all, nil
}

func ask(p Child) ([]mapreduce.Description, error) {
	if err := pipe.NewWriter(p.In()).Send(pipe.KindHello, pipe.Task{Version: pipe.Version, Describe: true}); err != nil {
		return nil, err
	}
	in := pipe.NewReader(p.Out())
	if err := greet(in); err != nil {
		return nil, err
	}
	k, payload, err := in.Next()
	if err == io.EOF {
		err = pipe.ErrEnded
	}
	if err != nil {
		return nil, err
	}
	if k == pipe.KindDone {
		var done pipe.Done
		if err := pipe.Decode(payload, &done); err != nil {
			return nil, err
		}
		return nil, fault.Userf("%s", done.Error)
	}
	var programs []pipe.Description
	if k != pipe.KindPrograms {
		return nil, fmt.Errorf("%w: a message %q", pipe.ErrGarbage, k)
	}
	if err := pipe.Decode(payload, &programs); err != nil {
		return nil, err
	}
	var out []mapreduce.Description
	for _, d := range programs {
		m := mapreduce.Description{Name: d.Name, About: d.About, Input: mapreduce.InputKind(d.Input), Columns: d.Columns, MapOnly: d.MapOnly}
		if m.Input != mapreduce.InputLines && m.Input != mapreduce.InputRows {
			return nil, fmt.Errorf("%w: program %s reads %q", pipe.ErrGarbage, d.Name, d.Input)
		}
		if m.Fields, err = pipe.Fields(d.Fields); err != nil || len(m.Fields) == 0 {
			return nil, fmt.Errorf("%w: program %s: its columns: %v", pipe.ErrGarbage, d.Name, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// tail keeps the last bytes that are written through it.
type tail struct {
	to   io.Writer
	last []byte
}

const tailBytes = 32 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p[max(0, len(p)-tailBytes):]...)
	if len(t.last) > 2*tailBytes {
		t.last = append([]byte(nil), t.last[len(t.last)-tailBytes:]...)
	}
	return t.to.Write(p)
}

// lines returns the last n lines, or, where the program has panicked, as many
// from there on.
func (t *tail) lines(n int) string {
	text := bytes.TrimRight(t.last[max(0, len(t.last)-tailBytes):], "\n")
	all := bytes.Split(text, []byte("\n"))
	from := max(0, len(all)-n)
	for i, l := range all {
		if bytes.HasPrefix(l, []byte("panic: ")) || bytes.HasPrefix(l, []byte("fatal error: ")) {
			from = i
			break
		}
	}
	return string(bytes.Join(all[from:min(from+n, len(all))], []byte("\n")))
}
