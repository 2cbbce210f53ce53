package operator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

const (
	// A partial aggregation looks at whether it reduces after so many rows, and
	// passes rows through as groups of one when more than 3 in 4 are a new group.
	reductionSample = 1 << 16
	// partialBytes bounds a partial aggregation's table: then it emits its groups and
	// starts over, which the final phase doesn't mind.
	partialBytes = 64 << 20
)

// aggregate groups rows in a hash table. It yields groups in the order of their
// first appearance.
type aggregate struct {
	input  batch.Reader
	fields []schema.Field
	phase  plan.Phase
	keys   []compiled
	aggs   []*aggregation
	table  *keyTable
	mem    account

	groups   []int32
	keyed    bool
	reading  bool // more input may come
	draining bool // groups are being given out
	emitted  int  // how many have been
	grown    int  // groups the accumulators have room for
	rows     int  // read since the table was empty
	through  bool // partial: rows pass as groups of one
	onDisk   *spilled
}

// aggregation is one function call of an aggregate.
type aggregation struct {
	args        []compiled
	filter      []compiled // rows to count; nil: all
	signature   function.AggregateSignature
	accumulator function.Accumulator
	distinct    *keyTable // of (group, arguments); nil unless DISTINCT
	marks       []int32
	out         schema.Type
}

func newAggregate(c *compiler, n *plan.Aggregate, input batch.Reader, b *budget) (*aggregate, error) {
	a := &aggregate{input: input, fields: n.Fields(), phase: n.Phase, keyed: len(n.Keys) > 0, reading: true,
		mem: account{b: b, operator: "GROUP BY"}}
	var err error
	if a.keys, err = c.compileAll(n.Keys, input.Fields()); err != nil {
		return nil, err
	}
	for i := range n.Aggs {
		x, err := newAggregation(c, &n.Aggs[i], n.Phase, input.Fields())
		if err != nil {
			return nil, fmt.Errorf("aggregate %s: %w", n.Aggs[i].Name, err)
		}
		a.aggs = append(a.aggs, x)
	}
	return a, a.reset()
}

func newAggregation(c *compiler, g *plan.Agg, phase plan.Phase, input []schema.Field) (*aggregation, error) {
	bound := g.Bound
	args := g.Args
	if phase != plan.Final {
		bound = nil
		for _, e := range args {
			bound = append(bound, e.Type())
		}
	}
	s, err := resolveAggregate(c.registry, g, bound)
	if err != nil {
		return nil, err
	}
	x := &aggregation{signature: s, out: g.T}
	if g.Filter != nil && phase != plan.Final {
		if x.filter, err = c.conditions(g.Filter, input); err != nil {
			return nil, err
		}
	}
	want := s.Args
	if phase == plan.Final {
		want = s.State
	}
	if len(want) != len(args) {
		return nil, fault.Bugf("%d arguments in the plan, %d in the signature", len(args), len(want))
	}
	for i, e := range args {
		if !e.Type().Equal(want[i]) {
			e = &plan.Cast{Arg: e, T: want[i]}
		}
		e, err := c.compile(e, input)
		if err != nil {
			return nil, err
		}
		x.args = append(x.args, e)
	}
	if g.Distinct {
		if phase != plan.Single {
			return nil, fault.Bugf("DISTINCT in a two-phase aggregation")
		}
		types := []schema.Type{schema.IntType}
		for i := range x.args {
			types = append(types, x.args[i].t)
		}
		if x.distinct, err = newKeyTable(types); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func resolveAggregate(reg *function.Registry, g *plan.Agg, bound []schema.Type) (function.AggregateSignature, error) {
	if len(g.Within) == 0 {
		return reg.ResolveAggregate(g.Name, bound, g.Distinct)
	}
	k := len(bound) - len(g.Within)
	if k < 0 {
		return function.AggregateSignature{}, fault.Bugf("%d arguments, of which %d are ordered", len(bound), len(g.Within))
	}
	return reg.ResolveWithinGroup(g.Name, bound[:k], bound[k:], g.Within)
}

// reset empties the table.
func (a *aggregate) reset() error {
	types := make([]schema.Type, len(a.keys))
	for i := range a.keys {
		types[i] = a.keys[i].t
	}
	var err error
	if a.table, err = newKeyTable(types); err != nil {
		return err
	}
	for _, x := range a.aggs {
		x.accumulator = x.signature.New()
		if x.distinct != nil {
			if x.distinct, err = newKeyTable(x.distinct.types()); err != nil {
				return err
			}
		}
	}
	a.rows, a.emitted, a.grown = 0, 0, 0
	if !a.keyed { // one row whatever comes
		a.table.n = 1
	}
	return nil
}

func (a *aggregate) Fields() []schema.Field { return a.fields }
func (a *aggregate) Close() error           { return a.input.Close() }

func (a *aggregate) Next(ctx context.Context) (*batch.Batch, error) {
	for {
		if a.draining {
			if a.emitted < a.table.len() {
				return a.emit(), nil
			}
			if !a.reading {
				if a.onDisk == nil {
					a.mem.hold(0)
					return nil, io.EOF
				}
				more, err := a.merge(ctx)
				if err != nil {
					return nil, err
				}
				if !more {
					a.mem.hold(0)
					return nil, io.EOF
				}
				continue
			}
			a.draining = false
			if err := a.reset(); err != nil {
				return nil, err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		b, err := a.input.Next(ctx)
		if errors.Is(err, io.EOF) {
			a.reading = false
			a.draining = true
			if a.onDisk != nil {
				if err := a.collect(ctx); err != nil {
					return nil, err
				}
				a.emitted = a.table.len()
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if a.through {
			return a.passThrough(b)
		}
		if err := a.add(b); err != nil {
			return nil, err
		}
		held := a.held()
		fits := a.mem.hold(held)
		switch {
		case a.phase == plan.Partial && a.keyed && (held > partialBytes || !fits ||
			a.rows >= reductionSample && a.table.len()*4 > a.rows*3):
			a.through = held <= partialBytes && fits
			a.draining = true
		case !fits:
			if err := a.spill(); err != nil {
				return nil, err
			}
		}
	}
}

// held estimates the memory of the table and the accumulators.
func (a *aggregate) held() int64 {
	n := a.table.bytes()
	for _, x := range a.aggs {
		if s, ok := x.accumulator.(interface{ Bytes() int64 }); ok {
			n += s.Bytes()
		} else {
			n += int64(a.grown) * 16 * int64(len(x.signature.State))
		}
		if x.distinct != nil {
			n += x.distinct.bytes()
		}
	}
	return n
}

func (a *aggregate) lists() [][]compiled {
	lists := [][]compiled{a.keys}
	for _, x := range a.aggs {
		lists = append(lists, x.args, x.filter)
	}
	return lists
}

// add puts the rows of b into the table.
func (a *aggregate) add(b *batch.Batch) error {
	r := dense(b, a.lists()...)
	keys, err := evalAll(a.keys, r)
	if err != nil {
		return err
	}
	if a.keyed {
		a.groups = a.table.groups(a.groups[:0], keys, r.n, true)
	} else if len(a.groups) < r.n {
		a.groups = make([]int32, batch.MaxRows)
		if len(a.groups) < r.n {
			a.groups = make([]int32, r.n)
		}
	}
	a.rows += r.n
	a.grown = a.table.len()
	for _, x := range a.aggs {
		if err := x.update(a.phase, a.groups[:r.n], a.grown, r); err != nil {
			return err
		}
	}
	return nil
}

// update adds rows, of the groups listed, to the accumulator, which gets room
// for so many groups.
func (x *aggregation) update(phase plan.Phase, groups []int32, room int, r rows) error {
	x.accumulator.Grow(room)
	args, err := evalAll(x.args, r)
	if err != nil {
		return err
	}
	if phase == plan.Final {
		states := make([]arrow.Array, len(args))
		for i, v := range args {
			states[i] = batch.Plain(materialise(v, r.n))
		}
		return x.accumulator.Merge(groups, states)
	}
	var sel []int32
	of := groups
	if x.filter != nil {
		some, all, err := narrow(x.filter, &batch.Batch{Columns: r.cols, Len: r.n})
		if err != nil || !all && len(some) == 0 {
			return err
		}
		if !all {
			sel, of = some, pickInts(groups, some)
		}
	}
	if x.distinct != nil {
		keys := append([]function.Vector{{Array: batch.NewFixed(arrow.PrimitiveTypes.Int32, groups, nil)}}, args...)
		if sel, of = x.fresh(keys, sel, r.n); len(sel) == 0 {
			return nil
		}
	}
	return x.accumulator.Update(of, sel, args, r.n)
}

// fresh adds the rows of sel, nil: all, to the distinct ones and returns those that
// are new, with their groups. The first key is the group.
func (x *aggregation) fresh(keys []function.Vector, sel []int32, n int) (fresh, of []int32) {
	if sel != nil {
		some := make([]function.Vector, len(keys))
		for i, k := range keys {
			some[i] = function.Vector{Array: batch.Gather(materialise(k, n), sel)}
		}
		keys, n = some, len(sel)
	}
	before := int32(x.distinct.len())
	x.marks = x.distinct.groups(x.marks[:0], keys, n, true)
	groups := batch.Values[int32](keys[0].Array)
	fresh, of = make([]int32, 0, n), make([]int32, 0, n)
	for i, m := range x.marks {
		if m != before { // numbers are given in order: the first row with this one
			continue
		}
		before++
		at := int32(i)
		if sel != nil {
			at = sel[i]
		}
		fresh, of = append(fresh, at), append(of, groups[i])
	}
	return fresh, of
}

func pickInts(v, at []int32) []int32 {
	out := make([]int32, len(at))
	for k, i := range at {
		out[k] = v[i]
	}
	return out
}

// emit gives out the next groups.
func (a *aggregate) emit() *batch.Batch {
	from := a.emitted
	to := min(from+batch.MaxRows, a.table.len())
	a.emitted = to
	if !a.keyed {
		for _, x := range a.aggs { // perhaps no row came
			x.accumulator.Grow(1)
		}
	}
	out := &batch.Batch{Len: to - from}
	if a.keyed {
		out.Columns = a.table.columns(from, to)
	}
	for _, x := range a.aggs {
		if a.phase == plan.Partial {
			out.Columns = append(out.Columns, x.accumulator.State(from, to)...)
			continue
		}
		out.Columns = append(out.Columns, x.accumulator.Result(from, to))
	}
	return out
}

// passThrough makes each row a group of its own.
func (a *aggregate) passThrough(b *batch.Batch) (*batch.Batch, error) {
	r := dense(b, a.lists()...)
	keys, err := evalAll(a.keys, r)
	if err != nil {
		return nil, err
	}
	out := &batch.Batch{Len: r.n}
	for _, k := range keys {
		out.Columns = append(out.Columns, materialise(k, r.n))
	}
	groups := make([]int32, r.n)
	for i := range groups {
		groups[i] = int32(i)
	}
	for _, x := range a.aggs {
		x.accumulator = x.signature.New()
		if err := x.update(a.phase, groups, r.n, r); err != nil {
			return nil, err
		}
		out.Columns = append(out.Columns, x.accumulator.State(0, r.n)...)
	}
	return out, nil
}
