package operator

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// windowAggregate computes an aggregate function over frames.
type windowAggregate struct {
	name      string
	signature function.AggregateSignature
	args      []compiled
	distinct  bool
	frame     plan.Frame
}

// Short frames are computed one by one: on average at most so many rows each.
const shortFrame = 8

func (w *windowAggregate) compute(p *partitions) (arrow.Array, error) {
	args, err := evalAll(w.args, rows{p.columns, p.n})
	if err != nil {
		return nil, err
	}
	f, err := p.frames(w.frame)
	if err != nil {
		return nil, err
	}
	if f.whole(p) {
		return w.perPartition(p, args)
	}
	var before []int32
	if w.distinct {
		if before, err = w.lastSame(p, args); err != nil {
			return nil, err
		}
		if f.running(p) { // each value counts where it first comes
			for i := range args {
				args[i].Array = materialise(args[i], p.n)
				args[i].Const = false
				args[i].Array = masked(args[i].Array, bitmap(p.n, func(k int) bool { return before[k] < p.start(k) }))
			}
			before = nil
		}
	}
	if before != nil || f.pairs() <= shortFrame*int64(p.n) {
		return w.oneByOne(p, args, f, before)
	}
	return w.byTree(p, args, f)
}

func bitmap(n int, f func(i int) bool) []byte {
	out := make([]byte, (n+7)/8)
	for i := range n {
		if f(i) {
			out[i>>3] |= 1 << (uint(i) & 7)
		}
	}
	return out
}

// perPartition is for frames that are the whole partition.
func (w *windowAggregate) perPartition(p *partitions, args []function.Vector) (arrow.Array, error) {
	a := w.signature.New()
	a.Grow(p.count)
	if !w.distinct {
		if err := a.Update(p.of, nil, args, p.n); err != nil {
			return nil, err
		}
		return batch.Gather(a.Result(0, p.count), p.of), nil
	}
	before, err := w.lastSame(p, args)
	if err != nil {
		return nil, err
	}
	var sel, of []int32
	for i, b := range before {
		if b < 0 {
			sel, of = append(sel, int32(i)), append(of, p.of[i])
		}
	}
	if err := a.Update(of, sel, args, p.n); err != nil {
		return nil, err
	}
	return batch.Gather(a.Result(0, p.count), p.of), nil
}

// lastSame returns for each row the last one before it, in its partition, with
// the same arguments; -1 if there is none.
func (w *windowAggregate) lastSame(p *partitions, args []function.Vector) ([]int32, error) {
	types := []schema.Type{schema.IntType}
	for i := range w.args {
		types = append(types, w.args[i].t)
	}
	table, err := newKeyTable(types)
	if err != nil {
		return nil, err
	}
	keys := append([]function.Vector{{Array: batch.NewFixed(arrow.PrimitiveTypes.Int32, p.of, nil)}}, args...)
	groups := table.groups(nil, keys, p.n, true)
	last := make([]int32, table.len())
	for i := range last {
		last[i] = -1
	}
	for i, g := range groups {
		groups[i], last[g] = last[g], int32(i)
	}
	return groups, nil
}

// oneByOne adds the rows of each frame in order: pairs of frame and row, many at
// a time. With before, a row counts in a frame only if none with the same value comes
// before it there.
func (w *windowAggregate) oneByOne(p *partitions, args []function.Vector, f frames, before []int32) (arrow.Array, error) {
	const most = 1 << 16
	a := w.signature.New()
	a.Grow(p.n)
	var of, at []int32
	flush := func() error {
		gathered := make([]function.Vector, len(args))
		for i, v := range args {
			if gathered[i] = v; !v.Const {
				gathered[i].Array = batch.Gather(v.Array, at)
			}
		}
		err := a.Update(of, nil, gathered, len(of))
		of, at = of[:0], at[:0]
		return err
	}
	for i := range p.n {
		for k := f.lo[i]; k < f.hi[i]; k++ {
			if before != nil && before[k] >= f.lo[i] {
				continue
			}
			of, at = append(of, int32(i)), append(at, k)
			if len(of) == most {
				if err := flush(); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return a.Result(0, p.n), nil
}

// byTree merges the states of aligned blocks of 1, 2, 4, ... rows: a frame is at
// most two of each size, which are merged from its first row to its last. All frames
// take their blocks of one size together. (A segment tree: Leis and others,
// "Efficient Processing of Window Functions in Analytical SQL Queries", 2015.)
func (w *windowAggregate) byTree(p *partitions, args []function.Vector, f frames) (arrow.Array, error) {
	a := w.signature.New()
	a.Grow(p.n)
	of := make([]int32, p.n)
	for i := range of {
		of[i] = int32(i)
	}
	if err := a.Update(of, nil, args, p.n); err != nil {
		return nil, err
	}
	out := w.signature.New()
	out.Grow(p.n)
	type blocks struct {
		states    []arrow.Array
		rows, ids []int32
	}
	merge := func(b blocks) error {
		if len(b.rows) == 0 {
			return nil
		}
		states := make([]arrow.Array, len(b.states))
		for i, s := range b.states {
			states[i] = batch.Gather(s, b.ids)
		}
		return out.Merge(b.rows, states)
	}
	lo, hi := append([]int32(nil), f.lo...), append([]int32(nil), f.hi...)
	var ends []blocks
	for size := p.n; ; size = (size + 1) / 2 {
		states := a.State(0, size)
		left, right := blocks{states: states}, blocks{states: states}
		more := false
		for i := range lo {
			if lo[i] >= hi[i] {
				continue
			}
			if lo[i]&1 != 0 {
				left.rows, left.ids = append(left.rows, int32(i)), append(left.ids, lo[i])
				lo[i]++
			}
			if hi[i]&1 != 0 && lo[i] < hi[i] {
				hi[i]--
				right.rows, right.ids = append(right.rows, int32(i)), append(right.ids, hi[i])
			}
			lo[i], hi[i] = lo[i]/2, hi[i]/2
			more = more || lo[i] < hi[i]
		}
		if err := merge(left); err != nil {
			return nil, err
		}
		ends = append(ends, right)
		if !more {
			break
		}
		for i := range of[:size] {
			of[i] = int32(i / 2)
		}
		a = w.signature.New()
		a.Grow((size + 1) / 2)
		if err := a.Merge(of[:size], states); err != nil {
			return nil, err
		}
	}
	for k := len(ends) - 1; k >= 0; k-- {
		if err := merge(ends[k]); err != nil {
			return nil, err
		}
	}
	return out.Result(0, p.n), nil
}
