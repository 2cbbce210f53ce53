package mapreduce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs/mapreduce/pipe"
	"github.com/skepdb/skep/schema"
)

// ChildVariable is set in the environment of a program that runs as a child of
// Skep.
const ChildVariable = "SKEP_CHILD"

// Main is the main function of a program that `skep job submit` ships: as a child
// of a worker it runs one task, started by hand it says what it is. It doesn't
// return.
func Main(programs ...Program) {
	if os.Getenv(ChildVariable) == "" {
		os.Exit(about(os.Stdout, programs))
	}
	in, out := os.NewFile(3, "input"), os.NewFile(4, "output")
	if in == nil || out == nil {
		fmt.Fprintln(os.Stderr, "mapreduce: descriptors 3 and 4 are not open")
		os.Exit(2)
	}
	if err := Serve(context.Background(), in, out, programs...); err != nil {
		fmt.Fprintf(os.Stderr, "mapreduce: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// about prints what programs there are.
func about(w io.Writer, programs []Program) int {
	out := bufio.NewWriter(w)
	defer out.Flush()
	code := 0
	fmt.Fprintln(out, "A program for Skep: run it with\n  skep job submit", os.Args[0], "INPUT...\n\nIt has:")
	for _, p := range programs {
		d, err := p.Describe()
		if err != nil {
			fmt.Fprintf(out, "  %v\n", err)
			code = 1
			continue
		}
		fmt.Fprintf(out, "  %s\treads %s\t%s\n", d.Name, d.Input, d.About)
	}
	return code
}

// Serve is what Main does in a child: it runs the task that in asks for. An error
// means that in or out failed; one of the task is written to out.
func Serve(ctx context.Context, in io.Reader, out io.Writer, programs ...Program) error {
	r, w := pipe.NewReader(in), pipe.NewWriter(out)
	var task pipe.Task
	if err := r.Expect(pipe.KindHello, &task); err != nil {
		return err
	}
	if err := w.Send(pipe.KindHello, pipe.Hello{Version: pipe.Version}); err != nil {
		return err
	}
	if task.Version != pipe.Version {
		return fmt.Errorf("skep speaks version %d of the protocol, this program version %d: build it again", task.Version, pipe.Version)
	}
	if task.Describe {
		return sendPrograms(w, programs)
	}
	done := pipe.Done{Counters: map[string]int64{}}
	if err := serveTask(ctx, r, w, task, programs, done.Counters); err != nil {
		done.Error, done.Permanent = err.Error(), fault.ClassOf(err) == fault.User
	}
	return w.Send(pipe.KindDone, done)
}

func sendPrograms(w *pipe.Writer, programs []Program) error {
	all := []pipe.Description{}
	seen := map[string]bool{}
	for _, p := range programs {
		d, err := p.Describe()
		if err == nil && seen[d.Name] {
			err = fault.Userf("two programs are named %s", d.Name)
		}
		if err != nil {
			return w.Send(pipe.KindDone, pipe.Done{Error: err.Error(), Permanent: true})
		}
		seen[d.Name] = true
		all = append(all, pipe.Description{Name: d.Name, About: d.About, Input: string(d.Input), Columns: d.Columns, MapOnly: d.MapOnly, Fields: pipe.Columns(d.Fields)})
	}
	return w.Send(pipe.KindPrograms, all)
}

func serveTask(ctx context.Context, r *pipe.Reader, w *pipe.Writer, task pipe.Task, programs []Program, counters map[string]int64) error {
	for _, p := range programs {
		d, err := p.Describe()
		if err != nil || d.Name != task.Program {
			continue
		}
		fields, err := pipe.Fields(task.Fields)
		if err != nil {
			return err
		}
		outFields, partitioned := d.Fields, false
		if !task.Reduce && !d.MapOnly {
			outFields, partitioned = ShuffleFields(), true
		}
		input := newPrefetch(pipe.NewBatches(r, fields, false, func(k pipe.Kind, _ []byte) (bool, error) {
			if k != pipe.KindEnd {
				return true, fmt.Errorf("%w: a message %q among batches", pipe.ErrGarbage, k)
			}
			return true, nil
		}))
		defer input.Close()
		alive := &heartbeat{w: w}
		return Run(ctx, p, &Attempt{
			Reduce: task.Reduce, Index: task.Index, Partitions: task.Partitions, Label: task.Label, Params: task.Params,
			Input: input, Counters: counters, Memory: task.Memory, Log: os.Stderr, Alive: alive.beat, Dir: ".",
			Write: func(_ context.Context, partition int, b *batch.Batch) error {
				if !partitioned {
					partition = 0
				}
				return w.Batch(outFields, partition, b)
			},
		})
	}
	return fault.Userf("this file has no program %s", task.Program)
}

// heartbeat tells Skep that a task is alive, at most once a second.
type heartbeat struct {
	w    *pipe.Writer
	last time.Time
}

func (h *heartbeat) beat() {
	if now := time.Now(); now.Sub(h.last) >= time.Second {
		h.last = now
		_ = h.w.Send(pipe.KindAlive, nil) // a pipe that is gone shows with the next batch
	}
}

// prefetch reads ahead, so that a batch is decoded while the one before it is
// mapped.
type prefetch struct {
	fields  []schema.Field
	batches chan *batch.Batch
	stop    chan struct{}
	once    sync.Once
	err     error // why batches was closed
}

func newPrefetch(in batch.Reader) *prefetch {
	p := &prefetch{fields: in.Fields(), batches: make(chan *batch.Batch, 2), stop: make(chan struct{})}
	// The process ends with its task: nobody waits for a read that blocks.
	go func() {
		defer close(p.batches)
		for {
			b, err := in.Next(context.Background())
			if err != nil {
				p.err = err
				return
			}
			select {
			case p.batches <- b:
			case <-p.stop:
				p.err = errors.New("read after Close")
				return
			}
		}
	}()
	return p
}

func (p *prefetch) Fields() []schema.Field { return p.fields }

func (p *prefetch) Next(ctx context.Context) (*batch.Batch, error) {
	select {
	case b, ok := <-p.batches:
		if !ok {
			return nil, p.err
		}
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *prefetch) Close() error {
	p.once.Do(func() { close(p.stop) })
	return nil
}
