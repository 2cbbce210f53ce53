package operator

import (
	"slices"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// denseGroups finds the groups of whole numbers that lie close together in an array by
// number, which is several times faster than hashing: keys of tables mostly do.
type denseGroups struct {
	base   int64
	groups []int32 // of base+i: the group+1; 0: none
}

// isWhole reports whether Bits64 of a type are whole numbers in their order.
func isWhole(t schema.Type) bool { return t.IsInteger() || t.Kind == schema.Date }

const (
	// denseLeast is the span of numbers up to which an array is always used.
	denseLeast = 1 << 16
	// densePerGroup is how many entries a group may take beyond that.
	densePerGroup = 16
)

// cover makes room for numbers from lo to hi when there will be at most n groups;
// false: they lie too far apart.
func (d *denseGroups) cover(lo, hi int64, n int) bool {
	limit := uint64(max(denseLeast, densePerGroup*n))
	if len(d.groups) == 0 {
		if uint64(hi)-uint64(lo) >= limit {
			return false
		}
		d.base, d.groups = lo, make([]int32, hi-lo+1)
		return true
	}
	last := d.base + int64(len(d.groups)) - 1
	if lo >= d.base && hi <= last {
		return true
	}
	from, to := min(lo, d.base), max(hi, last)
	if uint64(to)-uint64(from) >= limit {
		return false
	}
	// Half as much again, on the side where it was missing: it will be missing there again.
	spare := (to - from) / 2
	if lo < d.base && from-spare < from {
		from -= spare
	} else if hi > last && to+spare > to {
		to += spare
	}
	groups := make([]int32, to-from+1)
	copy(groups[d.base-from:], d.groups)
	d.base, d.groups = from, groups
	return true
}

// findDense is find1 while the numbers are dense. When they no longer are, the table
// goes over to hashing.
func (t *keyTable) findDense(dst []int32, words []uint64, valid []byte, add bool) []int32 {
	d := t.dense
	if add {
		lo, hi, some := bounds(words, valid)
		if some && !d.cover(lo, hi, t.n+len(words)) {
			t.dense = nil
			t.rehash()
			return t.find1(dst, words, valid, add)
		}
	}
	start := len(dst)
	dst = slices.Grow(dst, len(words))[:start+len(words)]
	out := dst[start:]
	base, groups := uint64(d.base), d.groups
	for i, x := range words {
		if valid != nil && !batch.BitSet(valid, i) {
			out[i] = t.nullKey(add)
			continue
		}
		at := x - base
		if at >= uint64(len(groups)) {
			out[i] = -1
			continue
		}
		g := groups[at]
		if g == 0 && add {
			t.keys = append(t.keys, x)
			t.n++
			g = int32(t.n)
			groups[at] = g
		}
		out[i] = g - 1
	}
	return dst
}

// becomeDense goes over from hashing if the numbers lie close together by now.
func (t *keyTable) becomeDense() {
	d := &denseGroups{}
	null := int(t.nullGroup)
	lo, hi, some := int64(0), int64(0), false
	for g, x := range t.keys {
		switch v := int64(x); {
		case g == null:
		case !some:
			lo, hi, some = v, v, true
		default:
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if !some || !d.cover(lo, hi, t.n) {
		return
	}
	for g, x := range t.keys {
		if g != null {
			d.groups[int64(x)-lo] = int32(g + 1)
		}
	}
	t.dense, t.slots = d, nil
}

// bounds returns the least and greatest number; false: all are NULL.
func bounds(words []uint64, valid []byte) (lo, hi int64, some bool) {
	for i, x := range words {
		if valid != nil && !batch.BitSet(valid, i) {
			continue
		}
		v := int64(x)
		if !some {
			lo, hi, some = v, v, true
			continue
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi, some
}

// rehash puts all groups into slots.
func (t *keyTable) rehash() {
	size := 256
	for size < 4*t.n {
		size *= 2
	}
	t.slots = make([]keySlot, size)
	t.fill()
}
