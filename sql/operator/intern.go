package operator

import (
	"hash/maphash"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/skepdb/skep/batch"
)

// interner gives equal texts equal numbers, from 0 in order of appearance, over
// batches, encodings and dictionaries: an open-addressing table over one
// arena, and for dictionary-coded text a table by code, filled as codes appear.
type interner struct {
	seed    maphash.Seed
	slots   []internSlot // a power of two, at most half full
	offsets []int        // ids+1
	text    []byte

	dict  *array.Data
	remap []int32     // id by code of dict; unknownCode, absentCode
	seen  *array.Data // a large dictionary that came once
}

type internSlot struct {
	hash uint32
	id   int32 // id+1; 0 free
}

const (
	unknownCode = -1 // not looked up yet
	absentCode  = -2 // looked up without adding: not there
)

func newInterner() *interner {
	return &interner{seed: maphash.MakeSeed(), slots: make([]internSlot, 64), offsets: []int{0}}
}

func (t *interner) len() int { return len(t.offsets) - 1 }

func (t *interner) value(id int32) []byte { return t.text[t.offsets[id]:t.offsets[id+1]] }

// bytes returns the memory held.
func (t *interner) bytes() int64 {
	return int64(len(t.slots))*8 + int64(cap(t.offsets))*8 + int64(cap(t.text)) + int64(len(t.remap))*4
}

// id returns the number of s; when it is new it gets the next one, or, without
// add, absentCode is returned.
func (t *interner) id(s []byte, add bool) int32 {
	h := uint32(maphash.Bytes(t.seed, s))
	mask := uint32(len(t.slots) - 1)
	i := h & mask
	for ; t.slots[i].id != 0; i = (i + 1) & mask {
		if t.slots[i].hash == h && string(t.value(t.slots[i].id-1)) == string(s) {
			return t.slots[i].id - 1
		}
	}
	if !add {
		return absentCode
	}
	t.text = append(t.text, s...)
	t.offsets = append(t.offsets, len(t.text))
	n := int32(t.len())
	t.slots[i] = internSlot{h, n}
	if 2*int(n) > len(t.slots) {
		t.grow()
	}
	return n - 1
}

func (t *interner) grow() {
	old := t.slots
	t.slots = make([]internSlot, 2*len(old))
	mask := uint32(len(t.slots) - 1)
	for _, e := range old {
		if e.id == 0 {
			continue
		}
		i := e.hash & mask
		for t.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = e
	}
}

// ids appends the numbers of a's values to dst: null for null rows, and, without
// add, absentCode for values that aren't there.
func (t *interner) ids(dst []int32, a arrow.Array, null int32, add bool) []int32 {
	n, valid := a.Len(), batch.Validity(a)
	d := batch.DictionaryOf(a)
	text := batch.TextOf(a)
	if d == nil || !t.follow(d, n) {
		for i := range n {
			if valid != nil && !batch.BitSet(valid, i) {
				dst = append(dst, null)
				continue
			}
			dst = append(dst, t.id(text.Bytes(i), add))
		}
		return dst
	}
	start := len(dst)
	dst = append(dst, text.Codes...)
	out, remap := dst[start:], t.remap
	for i, c := range out {
		if valid != nil && !batch.BitSet(valid, i) {
			out[i] = null
			continue
		}
		id := remap[c]
		if id == unknownCode {
			id = t.id(text.Bytes(i), add)
			remap[c] = id
		}
		out[i] = id
	}
	return dst
}

// follow makes remap be of dictionary d; false when that isn't worth it: a
// large dictionary that comes for the first time, with few rows.
func (t *interner) follow(d *array.Data, n int) bool {
	if d == t.dict {
		return true
	}
	if d.Len() > 8*n && d != t.seen {
		t.seen = d
		return false
	}
	if cap(t.remap) < d.Len() {
		t.remap = make([]int32, d.Len())
	}
	t.remap = t.remap[:d.Len()]
	for i := range t.remap {
		t.remap[i] = unknownCode
	}
	t.dict = d
	return true
}

// array returns texts [from, to) as an array of type dt; valid may be nil.
func (t *interner) array(dt arrow.DataType, ids []int32, valid []byte) arrow.Array {
	offsets := make([]int32, len(ids)+1)
	size := 0
	for i, id := range ids {
		if id >= 0 {
			size += len(t.value(id))
		}
		offsets[i+1] = int32(size)
	}
	data := make([]byte, 0, size)
	for _, id := range ids {
		if id >= 0 {
			data = append(data, t.value(id)...)
		}
	}
	return batch.NewText(dt, offsets, data, valid)
}
