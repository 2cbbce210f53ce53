package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// valueLists keeps, for each group, the rows that it got: the base of aggregates that
// need all their values. Its state is one array a column.
type valueLists struct {
	types []schema.Type
	// keepNulls: rows with a NULL in the columns that must not be NULL are kept too.
	keepNulls bool
	required  int // so many of the first columns must not be NULL
	n         int // groups

	groups  []int32         // the group of each row
	columns [][]arrow.Array // by column, its chunks

	// Made when asked for, until rows are added.
	offsets []int32 // rows of group g are order[offsets[g]:offsets[g+1]]
	order   []int32
	whole   []arrow.Array
}

func newValueLists(required int, types ...schema.Type) *valueLists {
	return &valueLists{types: types, required: required, columns: make([][]arrow.Array, len(types))}
}

func (a *valueLists) Grow(n int) { a.n = max(a.n, n) }

func (a *valueLists) Update(groups, sel []int32, args []Vector, n int) error {
	return a.add(groups, sel, args, n, nil)
}

// add adds rows; keep, if not nil, has a last say.
func (a *valueLists) add(groups, sel []int32, args []Vector, n int, keep func(g int32, i int) bool) error {
	valid, null := validity(n, args[:a.required])
	if null && !a.keepNulls {
		return nil
	}
	if null || a.keepNulls {
		valid = nil
	}
	var at, kept []int32
	if sel == nil && valid == nil && keep == nil {
		for k := range a.columns {
			a.columns[k] = append(a.columns[k], batch.Plain(args[k].Rows(n)))
		}
		a.groups = append(a.groups, groups[:n]...)
		a.order = nil
		return nil
	}
	each := func(g int32, i int) {
		if (valid == nil || batch.BitSet(valid, i)) && (keep == nil || keep(g, i)) {
			at, kept = append(at, int32(i)), append(kept, g)
		}
	}
	if sel != nil {
		for k, i := range sel {
			each(groups[k], int(i))
		}
	} else {
		for i, g := range groups[:n] {
			each(g, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	for k := range a.columns {
		rows := at
		if args[k].Const {
			rows = make([]int32, len(at))
		}
		a.columns[k] = append(a.columns[k], batch.Plain(batch.Gather(args[k].Array, rows)))
	}
	a.groups = append(a.groups, kept...)
	a.order = nil
	return nil
}

// Merge adds states that State made.
func (a *valueLists) Merge(groups []int32, states []arrow.Array) error {
	return a.merge(groups, states, nil)
}

func (a *valueLists) merge(groups []int32, states []arrow.Array, keep func(g int32, columns []Vector, i int) bool) error {
	l := listOf(Vector{Array: states[0]})
	var rows, from []int32
	for i, g := range groups {
		for j, end := l.span(i); j < end; j++ {
			rows, from = append(rows, g), append(from, int32(j))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	// All columns' arrays have the same lengths, but their children may start elsewhere.
	args := make([]Vector, len(states))
	for k, s := range states {
		lk := listOf(Vector{Array: s})
		at := from
		if k > 0 {
			at = make([]int32, 0, len(from))
			for i := range groups {
				for j, end := lk.span(i); j < end; j++ {
					at = append(at, int32(j))
				}
			}
		}
		args[k] = Vector{Array: batch.Gather(lk.values, at)}
	}
	if keep == nil {
		for k := range a.columns {
			a.columns[k] = append(a.columns[k], args[k].Array)
		}
		a.groups = append(a.groups, rows...)
		a.order = nil
		return nil
	}
	saved := a.keepNulls
	a.keepNulls = true
	err := a.add(rows, nil, args, len(rows), func(g int32, i int) bool { return keep(g, args, i) })
	a.keepNulls = saved
	return err
}

// arrange sorts the rows by group, in the order in which they came.
func (a *valueLists) arrange() {
	if a.order != nil && len(a.offsets) > a.n {
		return
	}
	a.offsets = make([]int32, a.n+1)
	for _, g := range a.groups {
		a.offsets[g+1]++
	}
	for g := range a.n {
		a.offsets[g+1] += a.offsets[g]
	}
	next := append([]int32(nil), a.offsets[:a.n]...)
	a.order = make([]int32, len(a.groups))
	for i, g := range a.groups {
		a.order[next[g]] = int32(i)
		next[g]++
	}
	a.whole = make([]arrow.Array, len(a.columns))
	for k, parts := range a.columns {
		switch len(parts) {
		case 0:
			a.whole[k] = batch.EmptyOf(a.types[k].Arrow())
		default:
			a.whole[k] = batch.Concat(parts)
			a.columns[k] = []arrow.Array{a.whole[k]}
		}
	}
}

// rows returns the positions in the columns of group g's rows.
func (a *valueLists) rows(g int) []int32 { return a.order[a.offsets[g]:a.offsets[g+1]] }

// list returns array<type of column k> of groups [from, to).
func (a *valueLists) list(k, from, to int, valid []byte) arrow.Array {
	a.arrange()
	offsets := make([]int32, to-from+1)
	for i := range offsets {
		offsets[i] = a.offsets[from+i] - a.offsets[from]
	}
	at := a.order[a.offsets[from]:a.offsets[to]]
	return batch.NewList(schema.ArrayType(a.types[k]).Arrow(), offsets, batch.Gather(a.whole[k], at), valid)
}

func (a *valueLists) State(from, to int) []arrow.Array {
	out := make([]arrow.Array, len(a.columns))
	for k := range out {
		out[k] = a.list(k, from, to, nil)
	}
	return out
}

// stateTypes returns the types of State.
func stateTypes(types ...schema.Type) []schema.Type {
	out := make([]schema.Type, len(types))
	for k, t := range types {
		out[k] = schema.ArrayType(t)
	}
	return out
}
