package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// list reads an array or map argument: row i has the elements [start(i), end(i)) of
// the child; a NULL row has none.
type list struct {
	offsets []int32
	valid   []byte
	mask    int
	values  arrow.Array // a map's is a struct of key and value
}

func listOf(v Vector) list {
	l := list{mask: v.mask(), valid: batch.Validity(v.Array)}
	l.offsets, l.values = batch.ListOf(v.Array)
	return l
}

func (l *list) span(i int) (from, to int) {
	i &= l.mask
	if l.valid != nil && !batch.BitSet(l.valid, i) {
		return 0, 0
	}
	return int(l.offsets[i]), int(l.offsets[i+1])
}

// null reports whether row i is NULL.
func (l *list) null(i int) bool { return l.valid != nil && !batch.BitSet(l.valid, i&l.mask) }

// newMap makes a map array; an entry whose key is NULL, which a map can't have, is left
// out. It keeps the slices.
func newMap(t schema.Type, offsets []int32, keys, items arrow.Array, valid []byte) arrow.Array {
	keys, items = batch.Plain(keys), batch.Plain(items)
	if keys.NullN() > 0 {
		present := batch.Validity(keys)
		var at []int32
		cut := make([]int32, len(offsets))
		for i := range len(offsets) - 1 {
			for j := offsets[i]; j < offsets[i+1]; j++ {
				if batch.BitSet(present, int(j)) {
					at = append(at, j)
				}
			}
			cut[i+1] = int32(len(at))
		}
		offsets, keys, items = cut, batch.Gather(keys, at), batch.Gather(items, at)
	}
	dt := t.Arrow().(*arrow.MapType)
	entries := batch.NewStruct(dt.Elem(), keys.Len(), []arrow.Array{keys, items}, nil)
	return batch.NewList(dt, offsets, entries, valid)
}

// gathered collects the result of a function that makes arrays of elements of one child.
type gathered struct {
	offsets []int32
	at      []int32 // elements, all rows one after the other; -1 is NULL
}

func newGathered(n int) *gathered { return &gathered{offsets: make([]int32, 1, n+1)} }

func (g *gathered) add(i int) { g.at = append(g.at, int32(i)) }

func (g *gathered) end() { g.offsets = append(g.offsets, int32(len(g.at))) }

// array returns array<t> of the rows.
func (g *gathered) array(t schema.Type, child arrow.Array, valid []byte) arrow.Array {
	return batch.NewList(t.Arrow(), g.offsets, batch.Gather(batch.Plain(child), g.at), valid)
}
