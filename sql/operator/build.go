package operator

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
)

// chains are lists of row numbers, one a group: those of group g are
// rows[start[g]:start[g+1]].
type chains struct{ start, rows []int32 }

// newChains lists the rows of each of n groups, in their order; group -1 is none.
func newChains(groups []int32, n int) chains {
	c := chains{start: make([]int32, n+1)}
	for _, g := range groups {
		if g >= 0 {
			c.start[g+1]++
		}
	}
	for g := range n {
		c.start[g+1] += c.start[g]
	}
	c.rows = make([]int32, c.start[n])
	at := append([]int32(nil), c.start[:n]...)
	for i, g := range groups {
		if g >= 0 {
			c.rows[at[g]] = int32(i)
			at[g]++
		}
	}
	return c
}

func (c *chains) of(g int32) []int32 { return c.rows[c.start[g]:c.start[g+1]] }

// build is the right side of a join, or a part of it that fits in memory: its rows
// in columns, and for each key the list of its rows.
type build struct {
	n        int
	columns  []arrow.Array
	table    *keyTable // nil without keys: then every row is a candidate
	rows     chains    // by key
	unique   bool      // each key has one row, whose number is the key's
	keysOnly bool      // there are no rows: that a key is known is enough
	// matched has a mark for each row that a left row matched, if the join kind
	// yields those that none did.
	matched []bool
	// Of a NullAware join: the keys but the last one (nil: there is none, all rows
	// are group 0), all rows by them, and those whose last key is NULL.
	others    *keyTable
	all, null chains
}

// builder collects the right side.
type builder struct {
	j      *join
	store  store
	table  *keyTable
	groups []int32
	others *keyTable
	// unread says which columns nobody looks at once the keys are known. Rows are kept
	// without them, but for those that keys are made of: rows may have to be cut by hash.
	unread, drop []bool
	// keysOnly: which keys there are is all that is asked. Rows aren't kept.
	keysOnly bool
	scratch  []int32

	other []int32 // by row
	null  []int32 // by row: its group in others if its last key is NULL, else -1
}

func newBuilder(j *join) (*builder, error) {
	b := &builder{j: j, store: store{width: len(j.right.Fields())}, unread: j.unread()}
	b.drop = append([]bool(nil), b.unread...)
	for _, k := range j.rightKeys {
		for _, c := range k.columns {
			b.drop[c] = false
		}
	}
	b.keysOnly = !j.yieldsPairs() && j.residual == nil && !j.nullAware && len(j.rightKeys) > 0
	var err error
	if len(j.rightKeys) > 0 {
		if b.table, err = newKeyTable(typesOf(j.rightKeys)); err != nil {
			return nil, err
		}
	}
	if j.nullAware && len(j.rightKeys) > 1 {
		b.others, err = newKeyTable(typesOf(j.rightKeys[:len(j.rightKeys)-1]))
	}
	return b, err
}

// unread returns which right columns neither the output nor the residual condition
// needs.
func (j *join) unread() []bool {
	left := len(j.left.Fields())
	out := make([]bool, len(j.right.Fields()))
	for i := range out {
		out[i] = !j.yieldsPairs() || j.need != nil && !j.need[left+i]
	}
	for _, e := range j.residual {
		for _, c := range e.columns {
			if c >= left {
				out[c-left] = false
			}
		}
	}
	return out
}

func typesOf(list []compiled) []schema.Type {
	out := make([]schema.Type, len(list))
	for i := range list {
		out[i] = list[i].t
	}
	return out
}

// add takes the rows of a compacted batch. Those with a NULL key match nothing
// and are dropped, unless the kind of the join still asks for them.
func (b *builder) add(in *batch.Batch) error {
	j := b.j
	keys, err := evalAll(j.rightKeys, rows{in.Columns, in.Len})
	if err != nil {
		return err
	}
	last := len(keys) - 1
	switch {
	case j.nullAware:
		in, keys = withoutNulls(in, keys, last)
	case !j.keepsRight():
		in, keys = withoutNulls(in, keys, len(keys))
	}
	if in.Len == 0 {
		return nil
	}
	if b.keysOnly {
		b.scratch = b.table.groups(b.scratch[:0], keys, in.Len, true)
		b.store.rows += in.Len
		return nil
	}
	kept := &batch.Batch{Columns: append([]arrow.Array(nil), in.Columns...), Len: in.Len}
	for i, drop := range b.drop {
		if drop {
			kept.Columns[i] = array.NewNull(in.Len)
		}
	}
	b.store.add(kept)
	if b.table == nil {
		return nil
	}
	from := len(b.groups)
	b.groups = b.table.groups(b.groups, keys, in.Len, true)
	added := b.groups[from:]
	forNulls(keys, in.Len, func(i int) { added[i] = -1 })
	if !j.nullAware {
		return nil
	}
	from = len(b.other)
	if b.others == nil {
		b.other = append(b.other, make([]int32, in.Len)...)
	} else {
		b.other = b.others.groups(b.other, keys[:last], in.Len, true)
	}
	for range in.Len {
		b.null = append(b.null, -1)
	}
	forNulls(keys[last:], in.Len, func(i int) { b.null[from+i] = b.other[from+i] })
	return nil
}

// bytes is the memory held, and that finish will take.
func (b *builder) bytes() int64 {
	n := b.store.bytes + 8*int64(cap(b.groups)) + 16*int64(cap(b.other))
	if b.table != nil {
		n += b.table.bytes()
	}
	if b.others != nil {
		n += b.others.bytes()
	}
	return n
}

func (b *builder) finish() (*build, error) {
	if b.keysOnly {
		return &build{n: b.store.rows, table: b.table, keysOnly: true}, nil
	}
	for _, in := range b.store.batches {
		for i, c := range in.Columns {
			if b.unread[i] {
				in.Columns[i] = array.NewNull(c.Len())
			}
		}
	}
	columns, err := b.store.concat("JOIN")
	if err != nil {
		return nil, err
	}
	for i, f := range b.j.right.Fields() {
		if b.store.rows == 0 { // concat knows no type then
			columns[i] = function.NullArray(f.Type, 0)
		}
	}
	out := &build{n: b.store.rows, columns: columns, table: b.table, others: b.others}
	if b.table != nil {
		n := b.table.len()
		out.unique = n == out.n
		for i, g := range b.groups {
			out.unique = out.unique && int(g) == i
		}
		out.rows = newChains(b.groups, n)
	}
	if b.j.nullAware {
		n := 1
		if b.others != nil {
			n = b.others.len()
		}
		out.all, out.null = newChains(b.other, n), newChains(b.null, n)
	}
	if b.j.keepsRight() {
		out.matched = make([]bool, out.n)
	}
	return out, nil
}

// forNulls calls f for the rows in which a key is NULL, perhaps more than once.
func forNulls(keys []function.Vector, n int, f func(i int)) {
	for _, k := range keys {
		if k.Array.NullN() == 0 && k.Array.DataType().ID() != arrow.NULL {
			continue
		}
		valid := batch.Validity(materialise(k, n))
		for i := 0; valid != nil && i < n; i++ {
			if !batch.BitSet(valid, i) {
				f(i)
			}
		}
	}
}

// withoutNulls drops the rows in which one of the first n keys is NULL.
func withoutNulls(b *batch.Batch, keys []function.Vector, n int) (*batch.Batch, []function.Vector) {
	var null []bool
	forNulls(keys[:n], b.Len, func(i int) {
		if null == nil {
			null = make([]bool, b.Len)
		}
		null[i] = true
	})
	if null == nil {
		return b, keys
	}
	sel := make([]int32, 0, b.Len)
	for i, x := range null {
		if !x {
			sel = append(sel, int32(i))
		}
	}
	out := make([]function.Vector, len(keys))
	for i, k := range keys {
		out[i] = function.Vector{Array: batch.Gather(materialise(k, b.Len), sel)}
	}
	return batch.Compact(&batch.Batch{Columns: b.Columns, Len: b.Len, Sel: sel}), out
}
