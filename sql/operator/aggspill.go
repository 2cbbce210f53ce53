package operator

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/spill"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
)

// What an aggregation can't hold it writes as groups with their intermediate
// states, partitioned by a hash of the keys; at the end each partition is merged by
// itself, and partitioned again if it is still too large. The values of a DISTINCT
// aggregate are written, too, partitioned by a hash of keys and values, so that those of
// one large group are spread: each partition's distinct values make states, which
// are then merged like the others.

// spilled is what an aggregation has on disk.
type spilled struct {
	states   *scatter
	distinct []*scatter // by aggregation; nil: not DISTINCT
	parts    []statePart
}

// statePart is groups with one hash, in some runs.
type statePart struct {
	runs  []stateRun
	level int
}

// stateRun has the keys and the states of some aggregations.
type stateRun struct {
	run  *spill.Run
	aggs []int
}

func (a *aggregate) keyFields() []schema.Field {
	out := make([]schema.Field, len(a.keys))
	for i := range a.keys {
		out[i] = schema.Field{Type: a.keys[i].t}
	}
	return out
}

// stateFields are the columns of a run of states.
func (a *aggregate) stateFields(aggs []int) []schema.Field {
	out := a.keyFields()
	for _, i := range aggs {
		for _, t := range a.aggs[i].signature.State {
			out = append(out, schema.Field{Type: t})
		}
	}
	return out
}

// plainAggs are the aggregations whose state is all that they know.
func (a *aggregate) plainAggs() []int {
	var out []int
	for i, x := range a.aggs {
		if x.distinct == nil {
			out = append(out, i)
		}
	}
	return out
}

func (a *aggregate) allAggs() []int {
	out := make([]int, len(a.aggs))
	for i := range out {
		out[i] = i
	}
	return out
}

// piece is how many rows a batch of a run should have.
func (a *aggregate) piece() int { return a.mem.b.pieces(a.mem.used, max(a.table.len(), 1)) }

// spill writes the table and empties it.
func (a *aggregate) spill() error {
	if a.onDisk == nil {
		piece := a.piece()
		space := a.mem.b.spills()
		a.onDisk = &spilled{states: newScatter(space, a.stateFields(a.plainAggs()), len(a.keys), 0, piece), distinct: make([]*scatter, len(a.aggs))}
		for i, x := range a.aggs {
			if x.distinct == nil {
				continue
			}
			fields := a.keyFields()
			for k := range x.args {
				fields = append(fields, schema.Field{Type: x.args[k].t})
			}
			a.onDisk.distinct[i] = newScatter(space, fields, len(fields), 0, piece)
		}
	}
	if err := a.writeStates(a.onDisk.states, a.plainAggs()); err != nil {
		return err
	}
	for i, x := range a.aggs {
		if x.distinct == nil {
			continue
		}
		for from := 0; from < x.distinct.len(); from += batch.MaxRows {
			columns := x.distinct.columns(from, min(from+batch.MaxRows, x.distinct.len()))
			of := batch.Values[int32](columns[0])
			b := &batch.Batch{Len: len(of)}
			if a.keyed {
				b.Columns = a.table.at(of)
			}
			b.Columns = append(b.Columns, columns[1:]...)
			if err := a.onDisk.distinct[i].add(b); err != nil {
				return err
			}
		}
	}
	return a.reset()
}

// writeStates writes the groups of the table with the states of some aggregations.
func (a *aggregate) writeStates(to *scatter, aggs []int) error {
	for from := 0; from < a.table.len(); from += batch.MaxRows {
		end := min(from+batch.MaxRows, a.table.len())
		b := &batch.Batch{Len: end - from}
		if a.keyed {
			b.Columns = a.table.columns(from, end)
		}
		for _, i := range aggs {
			a.aggs[i].accumulator.Grow(a.table.len())
			b.Columns = append(b.Columns, a.aggs[i].accumulator.State(from, end)...)
		}
		if err := to.add(b); err != nil {
			return err
		}
	}
	return nil
}

// collect ends the spilling: from here on there are only partitions of states.
func (a *aggregate) collect(ctx context.Context) error {
	if err := a.spill(); err != nil {
		return err
	}
	parts := make([]statePart, fanIn)
	add := func(s *scatter, aggs []int) error {
		runs, err := s.finish()
		if err != nil {
			return err
		}
		for p, r := range runs {
			if r != nil {
				parts[p].runs = append(parts[p].runs, stateRun{r, aggs})
			}
		}
		return nil
	}
	if err := add(a.onDisk.states, a.plainAggs()); err != nil {
		return err
	}
	for i, s := range a.onDisk.distinct {
		if s == nil {
			continue
		}
		runs, err := s.finish()
		if err != nil {
			return err
		}
		to := newScatter(a.mem.b.spills(), a.stateFields([]int{i}), len(a.keys), 0, s.piece)
		for _, r := range runs {
			if r == nil {
				continue
			}
			if err := a.deduplicate(ctx, i, r, 1, to); err != nil {
				return err
			}
		}
		if err := add(to, []int{i}); err != nil {
			return err
		}
		a.aggs[i].distinct = nil // what is left are states
	}
	a.onDisk.states, a.onDisk.distinct = nil, nil
	for _, p := range parts {
		if len(p.runs) > 0 {
			p.level = 1
			a.onDisk.parts = append(a.onDisk.parts, p)
		}
	}
	return nil
}

// deduplicate makes states of the distinct rows of a run of keys and arguments.
func (a *aggregate) deduplicate(ctx context.Context, agg int, run *spill.Run, level int, to *scatter) error {
	types := make([]schema.Type, len(run.Fields))
	for i, f := range run.Fields {
		types[i] = f.Type
	}
	table, err := newKeyTable(types)
	if err != nil {
		return err
	}
	var deeper *scatter
	write := func() error {
		for from := 0; from < table.len(); from += batch.MaxRows {
			end := min(from+batch.MaxRows, table.len())
			if err := deeper.add(&batch.Batch{Columns: table.columns(from, end), Len: end - from}); err != nil {
				return err
			}
		}
		table, err = newKeyTable(types)
		return err
	}
	in := run.Open()
	var groups []int32
	for {
		b, err := in.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		groups = table.groups(groups[:0], vectors(b.Columns), b.Len, true)
		if a.mem.hold(2*table.bytes()) || level > deepest {
			continue
		}
		if deeper == nil {
			deeper = newScatter(to.space, run.Fields, len(types), level, to.piece)
		}
		if err := write(); err != nil {
			return err
		}
	}
	if err := run.Remove(); err != nil {
		return err
	}
	if deeper == nil {
		return a.statesOf(agg, table, to)
	}
	if err := write(); err != nil {
		return err
	}
	runs, err := deeper.finish()
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r != nil {
			if err := a.deduplicate(ctx, agg, r, level+1, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// statesOf aggregates distinct rows of keys and arguments.
func (a *aggregate) statesOf(agg int, rows *keyTable, to *scatter) error {
	x := a.aggs[agg]
	x.accumulator = x.signature.New()
	types := typesOf(a.keys)
	table, err := newKeyTable(types)
	if err != nil {
		return err
	}
	for from := 0; from < rows.len(); from += batch.MaxRows {
		end := min(from+batch.MaxRows, rows.len())
		v := vectors(rows.columns(from, end))
		groups := table.groups(nil, v[:len(types)], end-from, true)
		x.accumulator.Grow(table.len())
		if err := x.accumulator.Update(groups, nil, v[len(types):], end-from); err != nil {
			return err
		}
	}
	before := a.table
	a.table = table
	err = a.writeStates(to, []int{agg})
	a.table = before
	return err
}

func vectors(columns []arrow.Array) []function.Vector {
	out := make([]function.Vector, len(columns))
	for i, c := range columns {
		out[i] = function.Vector{Array: c}
	}
	return out
}

// merge fills the table with the next partition; false: there is none.
func (a *aggregate) merge(ctx context.Context) (bool, error) {
	for len(a.onDisk.parts) > 0 {
		last := len(a.onDisk.parts) - 1
		part := a.onDisk.parts[last]
		a.onDisk.parts = a.onDisk.parts[:last]
		if err := a.reset(); err != nil {
			return false, err
		}
		var deeper *scatter
		for _, r := range part.runs {
			in := r.run.Open()
			for {
				b, err := in.Next(ctx)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return false, err
				}
				if err := a.addStates(b, r.aggs); err != nil {
					return false, err
				}
				if a.mem.hold(a.held()) {
					continue
				}
				if part.level > deepest || !a.keyed {
					return false, a.mem.set(a.held())
				}
				if deeper == nil {
					deeper = newScatter(a.mem.b.spills(), a.stateFields(a.allAggs()), len(a.keys), part.level, a.piece())
				}
				if err := a.writeStates(deeper, a.allAggs()); err != nil {
					return false, err
				}
				if err := a.reset(); err != nil {
					return false, err
				}
			}
			if err := r.run.Remove(); err != nil {
				return false, err
			}
		}
		if deeper == nil {
			return true, nil
		}
		if err := a.writeStates(deeper, a.allAggs()); err != nil {
			return false, err
		}
		runs, err := deeper.finish()
		if err != nil {
			return false, err
		}
		for _, r := range runs {
			if r != nil {
				a.onDisk.parts = append(a.onDisk.parts, statePart{[]stateRun{{r, a.allAggs()}}, part.level + 1})
			}
		}
	}
	return false, nil
}

// addStates merges rows of keys and the states of some aggregations.
func (a *aggregate) addStates(b *batch.Batch, aggs []int) error {
	if len(b.Columns) < len(a.keys) {
		return fault.Bugf("GROUP BY: a spilled run of %d columns for %d keys", len(b.Columns), len(a.keys))
	}
	groups := make([]int32, b.Len)
	if a.keyed {
		groups = a.table.groups(groups[:0], vectors(b.Columns[:len(a.keys)]), b.Len, true)
	}
	a.grown = a.table.len()
	at := len(a.keys)
	for _, i := range aggs {
		x := a.aggs[i]
		x.accumulator.Grow(a.grown)
		n := len(x.signature.State)
		if err := x.accumulator.Merge(groups, b.Columns[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}
