package mapreduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
)

// Names of the counters of every job.
const (
	CounterMapInput     = "map_input_records"
	CounterMapOutput    = "map_output_records"
	CounterShuffled     = "shuffled_records" // after combining
	CounterSpilled      = "spilled_records"
	CounterReduceGroups = "reduce_input_groups"
	CounterReduceInput  = "reduce_input_records"
	CounterOutput       = "output_records"
)

// Attempt is one try of a task: what the engine gives to a program, in its
// process or in a child.
type Attempt struct {
	Reduce     bool // the reduce side
	Index      int
	Partitions int // of a map's output; 0: the map writes the rows of output
	Label      string
	Params     map[string]string
	Input      batch.Reader
	// Write takes output: rows, or records of ShuffleFields for a partition.
	Write    func(ctx context.Context, partition int, b *batch.Batch) error
	Counters map[string]int64 // filled in when the attempt ends, well or not
	Alive    func()           // hears of slow progress; may be nil
	Log      io.Writer        // may be nil
	Memory   int64            // bytes that may be held; 0: 256 MiB
	Dir      string           // where a folder for spilled runs is made; "": the system's
}

const defaultMemory = 256 << 20

// buffer is how much of the memory sorting gets: the rest is for blocks on their
// way and for the program itself.
func (a *Attempt) buffer() int64 {
	m := a.Memory
	if m <= 0 {
		m = defaultMemory
	}
	return max(m/3, 64<<10)
}

// Run runs an attempt of a program.
func Run(ctx context.Context, p Program, a *Attempt) error { return p.run(ctx, a) }

// newTask returns the task of an attempt.
func (a *Attempt) newTask(ctx context.Context) *Task {
	return &Task{ctx: ctx, a: a, counters: map[string]*Counter{}}
}

// settle puts the counters where the engine finds them.
func (t *Task) settle(own map[string]int64) {
	if t.a.Counters == nil {
		t.a.Counters = map[string]int64{}
	}
	for name, c := range t.counters {
		t.a.Counters[name] += c.n
	}
	for name, n := range own {
		t.a.Counters[name] += n
	}
}

// read feeds all records of the input to f.
func read[I any](ctx context.Context, a *Attempt, s Source[I], f func(I) error) (n int64, err error) {
	each, err := s.bind(a.Input.Fields())
	if err != nil {
		return 0, err
	}
	for {
		b, err := a.Input.Next(ctx)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("read %s: %w", a.Label, err)
		}
		n += int64(b.Rows())
		if err := each(b, f); err != nil {
			return n, err
		}
	}
}

// run implements Program.
func (j Job[I, K, V, O]) run(ctx context.Context, a *Attempt) (err error) {
	r, err := j.records()
	if err != nil {
		return fault.Userf("program %s: %w", j.Name, err)
	}
	t := a.newTask(ctx)
	s := &spills{parent: a.Dir}
	own := map[string]int64{}
	defer func() {
		own[CounterSpilled] = s.records
		t.settle(own)
		err = errors.Join(err, s.close())
	}()
	if a.Reduce {
		return j.reduce(ctx, t, r, s, own)
	}
	return j.mapAll(ctx, t, r, s, own)
}

func (j Job[I, K, V, O]) mapAll(ctx context.Context, t *Task, r *records[K, V], s *spills, own map[string]int64) error {
	a := t.a
	if a.Partitions <= 0 {
		return fault.Bugf("program %s: a map with %d partitions", j.Name, a.Partitions)
	}
	var m Mapper[I, K, V] = mapFunc[I, K, V](j.Map)
	if j.NewMapper != nil {
		m = j.NewMapper()
	}
	c := newCollector(r, a.Partitions, a.buffer(), s)
	err := mapLoop(ctx, t, j.Input, m.Setup,
		func(in I) error {
			if err := m.Map(t, in, c.emit); err != nil {
				return err
			}
			return c.err
		},
		func() error { return m.Cleanup(t, c.emit) }, own)
	own[CounterMapOutput] = c.emitted
	if err != nil {
		return err
	}
	return c.finish(func(b *block) error {
		own[CounterShuffled] += int64(b.n)
		return a.Write(ctx, b.part, b.batch())
	})
}

// mapLoop calls a mapper's functions.
func mapLoop[I any](ctx context.Context, t *Task, in Source[I], setup func(*Task) error, one func(I) error, cleanup func() error, own map[string]int64) error {
	if err := cmpErr(setup(t), t.err); err != nil {
		return userError("setup", err)
	}
	n, err := read(ctx, t.a, in, func(v I) error {
		if err := cmpErr(one(v), t.err); err != nil {
			return userError("map", err)
		}
		return nil
	})
	own[CounterMapInput] = n
	if err != nil {
		return err
	}
	if err := cmpErr(cleanup(), t.err); err != nil {
		return userError("cleanup", err)
	}
	return nil
}

// cmpErr returns the first error.
func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (j Job[I, K, V, O]) reduce(ctx context.Context, t *Task, r *records[K, V], s *spills, own map[string]int64) error {
	a := t.a
	var red Reducer[K, V, O] = reduceFunc[K, V, O](j.Reduce)
	if j.NewReducer != nil {
		red = j.NewReducer()
	}
	g := &gather{o: r.order, budget: a.buffer(), spills: s}
	if r.Combine != nil {
		g.fold = &combiner[V]{codec: r.ValueCodec, combine: r.Combine}
	}
	for {
		b, err := a.Input.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the shuffle: %w", err)
		}
		records, err := blockOf(b)
		if err != nil {
			return err
		}
		own[CounterReduceInput] += int64(records.n)
		if err := g.add(records); err != nil {
			return err
		}
	}
	m, err := g.merge()
	if err != nil {
		return err
	}
	out, err := newRowWriter[O](func(b *batch.Batch) error { return a.Write(ctx, 0, b) })
	if err != nil {
		return err
	}
	if err := cmpErr(red.Setup(t), t.err); err != nil {
		return userError("setup", err)
	}
	groups := groups[K, V]{m: m, r: r}
	for groups.next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		own[CounterReduceGroups]++
		if err := cmpErr(red.Reduce(t, groups.key, groups.values, out.emit), t.err); err != nil && groups.err == nil {
			return userError("reduce", err)
		}
		groups.skip()
		if out.err != nil {
			return out.err
		}
	}
	if groups.err != nil {
		return groups.err
	}
	if err := cmpErr(red.Cleanup(t, out.emit), t.err); err != nil {
		return userError("cleanup", err)
	}
	err = out.finish()
	own[CounterOutput] = out.rows
	return err
}

// groups walks over the keys of merged records.
type groups[K, V any] struct {
	m   *merger
	r   *records[K, V]
	key K
	raw []byte
	err error
}

// next goes to the next key; false at the end or after an error.
func (g *groups[K, V]) next() bool {
	if g.err != nil {
		return false
	}
	_, raw, _, ok := g.m.top()
	if !ok {
		return false
	}
	g.raw = raw
	if g.key, g.err = g.r.KeyCodec.Decode(raw); g.err != nil {
		g.err = fmt.Errorf("a key: %w", g.err)
		return false
	}
	return true
}

// values yields the values of the key.
func (g *groups[K, V]) values(yield func(V) bool) {
	for g.err == nil {
		_, raw, val, ok := g.m.top()
		if !ok || !bytes.Equal(raw, g.raw) {
			return
		}
		v, err := g.r.ValueCodec.Decode(val)
		if err != nil {
			g.err = fmt.Errorf("a value: %w", err)
			return
		}
		if g.err = g.m.advance(); g.err != nil {
			return
		}
		if !yield(v) {
			return
		}
	}
}

// skip leaves out the values of the key that were not read.
func (g *groups[K, V]) skip() {
	for g.err == nil {
		_, raw, _, ok := g.m.top()
		if !ok || !bytes.Equal(raw, g.raw) {
			return
		}
		g.err = g.m.advance()
	}
}

// run implements Program.
func (j MapOnly[I, O]) run(ctx context.Context, a *Attempt) (err error) {
	if a.Reduce {
		return fault.Bugf("program %s has no reduces", j.Name)
	}
	t := a.newTask(ctx)
	own := map[string]int64{}
	defer func() { t.settle(own) }()
	var m RowMapper[I, O] = rowFunc[I, O](j.Map)
	if j.NewMapper != nil {
		m = j.NewMapper()
	}
	out, err := newRowWriter[O](func(b *batch.Batch) error { return a.Write(ctx, 0, b) })
	if err != nil {
		return err
	}
	err = mapLoop(ctx, t, j.Input, m.Setup,
		func(in I) error {
			if err := m.Map(t, in, out.emit); err != nil {
				return err
			}
			return out.err
		},
		func() error { return m.Cleanup(t, out.emit) }, own)
	if err == nil {
		err = out.finish()
	}
	own[CounterOutput] = out.rows
	own[CounterMapOutput] = out.rows
	return err
}
