package operator

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// join is an inner hash join: the right side is built, the left one probes in
// its order; matches of a row come in the order of the right side. Without keys
// it is the cross product.
type join struct {
	left, right batch.Reader
	fields      []schema.Field
	leftKeys    []compiled
	rightKeys   []compiled
	residual    []compiled
	mem         account

	built *build

	probe  *batch.Batch // compacted
	groups []int32
	row    int   // of probe
	next   int32 // build row in the chain of row, -1: none begun
	begun  bool
}

// build is the right side: its rows in columns, and for each key the chain of
// its rows.
type build struct {
	table   *keyTable
	columns []arrow.Array
	head    []int32 // by key
	next    []int32 // by row, -1 ends
}

func newJoin(c *compiler, n *plan.Join, left, right batch.Reader, b *budget) (*join, error) {
	j := &join{left: left, right: right, fields: n.Fields(), mem: account{b: b, operator: "JOIN"}}
	if n.Kind != plan.Inner {
		return nil, fault.Bugf("join of kind %d", n.Kind)
	}
	if len(n.LeftKeys) != len(n.RightKeys) {
		return nil, fault.Bugf("join with %d left keys and %d right ones", len(n.LeftKeys), len(n.RightKeys))
	}
	for i := range n.LeftKeys {
		if !n.LeftKeys[i].Type().Equal(n.RightKeys[i].Type()) {
			return nil, fault.Bugf("join key %d is %s on the left, %s on the right", i+1, n.LeftKeys[i].Type(), n.RightKeys[i].Type())
		}
	}
	var err error
	if j.leftKeys, err = c.compileAll(n.LeftKeys, left.Fields()); err != nil {
		return nil, err
	}
	if j.rightKeys, err = c.compileAll(n.RightKeys, right.Fields()); err != nil {
		return nil, err
	}
	if n.Residual != nil {
		x, err := c.compile(n.Residual, j.fields)
		if err != nil {
			return nil, err
		}
		j.residual = []compiled{x}
	}
	return j, nil
}

func (j *join) Fields() []schema.Field { return j.fields }
func (j *join) Close() error           { return errors.Join(j.left.Close(), j.right.Close()) }

func (j *join) Next(ctx context.Context) (*batch.Batch, error) {
	if j.built == nil {
		if err := j.build(ctx); err != nil {
			return nil, err
		}
	}
	if len(j.built.next) == 0 {
		return nil, io.EOF // no row to match, so no need to read the left side
	}
	for {
		if j.probe == nil || j.row >= j.probe.Len {
			b, err := j.left.Next(ctx)
			if err != nil {
				return nil, err
			}
			if err := j.begin(b); err != nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, context.Cause(ctx)
			}
		}
		b, err := j.emit()
		if err != nil {
			return nil, err
		}
		if b != nil {
			return b, nil
		}
	}
}

// build reads the right side.
func (j *join) build(ctx context.Context) error {
	types := make([]schema.Type, len(j.rightKeys))
	for i := range j.rightKeys {
		types[i] = j.rightKeys[i].t
	}
	table, err := newKeyTable(types)
	if err != nil {
		return err
	}
	s := store{width: len(j.right.Fields())}
	var groups []int32
	for {
		b, err := j.right.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		b = batch.Compact(b)
		r := rows{b.Columns, b.Len}
		keys, err := evalAll(j.rightKeys, r)
		if err != nil {
			return err
		}
		if b, keys = withoutNulls(b, keys); b.Len == 0 {
			continue
		}
		groups = table.groups(groups, keys, b.Len, true)
		s.add(b)
		if err := j.mem.set(s.bytes + table.bytes() + int64(cap(groups))*8); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	if s.rows > math.MaxInt32 {
		return fault.Userf("JOIN: the right side has %d rows for one task, more than %d", s.rows, math.MaxInt32)
	}
	columns, err := s.concat("JOIN")
	if err != nil {
		return err
	}
	built := &build{table: table, columns: columns, head: make([]int32, table.len()), next: make([]int32, s.rows)}
	for i := range built.head {
		built.head[i] = -1
	}
	for i := len(groups) - 1; i >= 0; i-- {
		built.next[i] = built.head[groups[i]]
		built.head[groups[i]] = int32(i)
	}
	j.built = built
	return nil
}

// withoutNulls drops the rows in which a key is NULL: they match nothing.
func withoutNulls(b *batch.Batch, keys []function.Vector) (*batch.Batch, []function.Vector) {
	some := false
	for _, k := range keys {
		some = some || k.Array.NullN() > 0
	}
	if !some {
		return b, keys
	}
	var sel []int32
	arrays := make([]arrow.Array, len(keys))
	valids := make([][]byte, len(keys))
	for i, k := range keys {
		arrays[i] = materialise(k, b.Len)
		valids[i] = batch.Validity(arrays[i])
	}
row:
	for i := range b.Len {
		for _, v := range valids {
			if v != nil && !batch.BitSet(v, i) {
				continue row
			}
		}
		sel = append(sel, int32(i))
	}
	out := make([]function.Vector, len(keys))
	for i, a := range arrays {
		out[i] = function.Vector{Array: batch.Gather(a, sel)}
	}
	return batch.Compact(&batch.Batch{Columns: b.Columns, Len: b.Len, Sel: append([]int32{}, sel...)}), out
}

// begin looks up the keys of a left batch. Rows without a match are dropped at
// once, before any column but the keys' is touched.
func (j *join) begin(b *batch.Batch) error {
	r := dense(b, j.leftKeys)
	keys, err := evalAll(j.leftKeys, r)
	if err != nil {
		return err
	}
	j.groups = j.built.table.groups(j.groups[:0], keys, r.n, false)
	sel := make([]int32, 0, r.n)
	kept := j.groups[:0]
	for i, g := range j.groups {
		if g < 0 {
			continue
		}
		at := int32(i)
		if b.Sel != nil {
			at = b.Sel[i]
		}
		sel = append(sel, at)
		kept = append(kept, g)
	}
	j.groups = kept
	j.row, j.begun = 0, false
	if len(sel) == b.Len {
		j.probe = &batch.Batch{Columns: b.Columns, Len: b.Len}
		return nil
	}
	j.probe = &batch.Batch{Columns: b.Columns, Len: len(sel), Sel: sel} // Sel maps rows of groups to columns
	return nil
}

// emit returns up to MaxRows matches of the current left batch; nil when all
// there were failed the residual condition.
func (j *join) emit() (*batch.Batch, error) {
	var left, right []int32
	for j.row < len(j.groups) && len(left) < batch.MaxRows {
		if !j.begun {
			j.next, j.begun = j.built.head[j.groups[j.row]], true
		}
		at := int32(j.row)
		if j.probe.Sel != nil {
			at = j.probe.Sel[j.row]
		}
		for j.next >= 0 && len(left) < batch.MaxRows {
			left = append(left, at)
			right = append(right, j.next)
			j.next = j.built.next[j.next]
		}
		if j.next < 0 {
			j.row++
			j.begun = false
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	out := &batch.Batch{Len: len(left)}
	for _, c := range j.probe.Columns {
		out.Columns = append(out.Columns, batch.Gather(c, left))
	}
	for _, c := range j.built.columns {
		out.Columns = append(out.Columns, batch.Gather(c, right))
	}
	if j.residual == nil {
		return out, nil
	}
	sel, all, err := narrow(j.residual, out)
	if err != nil || all {
		return out, err
	}
	if len(sel) == 0 {
		return nil, nil
	}
	out.Sel = sel
	return out, nil
}
