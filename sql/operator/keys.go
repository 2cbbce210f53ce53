package operator

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
)

// keyTable gives equal keys of some columns equal numbers, from 0 in order of
// appearance: the hash table of GROUP BY, DISTINCT and joins. NULL equals NULL
// here; -0 equals 0 and NaN itself.
//
// Every column takes a fixed number of bits (text: its number in an interner)
// and the columns are packed into 64-bit words, so a key is compared as one
// word, two, or a few, whatever its columns are. One text column needs no table
// but its interner, and one column of at most 64 bits no room for a NULL mark:
// NULL is a group beside the table then.
type keyTable struct {
	cols  []keyColumn
	width int // words a key

	keys  []uint64 // of the groups, width words each
	slots []keySlot
	seed  uint64
	n     int

	dense  *denseGroups // instead of slots
	grew   bool         // slots did, in this call
	lone   bool         // one text column
	single bool         // one column of at most 64 bits
	// Of a lone column: group by interned number, -1 = none yet, and back (-1: NULL).
	groupOf   []int32
	idOf      []int32
	nullGroup int32 // of a lone or single column; -1: none yet

	scratch []uint64
	ids     []int32
	wide    []uint64
}

type keySlot struct {
	hash  uint32
	group int32 // group+1; 0 free
}

// keyColumn is where a column lies in a key: its value in word, from bit shift
// on (128-bit values in word and word+1), its NULL mark at nullWord, nullShift.
type keyColumn struct {
	t         schema.Type
	word      int
	shift     uint
	bits      uint
	nullWord  int
	nullShift uint
	interner  *interner
	// Of nested values, the interner has the encodings and firsts the values, in the
	// order of their numbers.
	nested  bool
	firsts  []arrow.Array
	held    int64 // bytes of firsts
	encoded []byte
}

func newKeyTable(types []schema.Type) (*keyTable, error) {
	t := &keyTable{seed: rand.Uint64(), nullGroup: -1}
	used := []uint{} // bits used by word
	place := func(width uint) (int, uint) {
		for w := range used {
			if used[w]+width <= 64 {
				used[w] += width
				return w, used[w] - width
			}
		}
		used = append(used, width)
		return len(used) - 1, 0
	}
	for _, typ := range types {
		c := keyColumn{t: typ, nested: isNested(typ)}
		switch dt := typ.Arrow(); dt.ID() {
		case arrow.STRING, arrow.BINARY, arrow.LIST, arrow.MAP, arrow.STRUCT:
			c.bits, c.interner = 31, newInterner()
		case arrow.BOOL:
			c.bits = 1
		case arrow.NULL:
			c.bits = 0
		case arrow.DECIMAL128:
			c.bits = 128
		default:
			f, ok := dt.(arrow.FixedWidthDataType)
			if !ok {
				return nil, fault.Unsupportedf("%s as a key", typ)
			}
			c.bits = uint(f.BitWidth())
		}
		if c.bits == 128 {
			c.word = len(used)
			used = append(used, 64, 64)
		} else {
			c.word, c.shift = place(c.bits)
		}
		t.cols = append(t.cols, c)
	}
	t.lone = len(types) == 1 && t.cols[0].interner != nil && !t.cols[0].nested
	t.single = len(types) == 1 && t.cols[0].interner == nil && t.cols[0].bits > 0 && t.cols[0].bits <= 64
	for i := 0; i < len(t.cols) && !t.single; i++ { // last, so that values fill whole words
		t.cols[i].nullWord, t.cols[i].nullShift = place(1)
	}
	t.width = len(used)
	switch {
	case t.lone:
	case t.single && isWhole(types[0]):
		t.dense = &denseGroups{}
	default:
		t.slots = make([]keySlot, 256)
	}
	return t, nil
}

// types returns the types of the key's columns.
func (t *keyTable) types() []schema.Type {
	out := make([]schema.Type, len(t.cols))
	for i := range t.cols {
		out[i] = t.cols[i].t
	}
	return out
}

// len returns the number of groups.
func (t *keyTable) len() int { return t.n }

// bytes returns the memory held.
func (t *keyTable) bytes() int64 {
	n := int64(cap(t.keys))*8 + int64(len(t.slots))*8 + int64(cap(t.groupOf)+cap(t.idOf))*4
	if t.dense != nil {
		n += int64(len(t.dense.groups)) * 4
	}
	for i := range t.cols {
		if in := t.cols[i].interner; in != nil {
			n += in.bytes() + t.cols[i].held
		}
	}
	return n
}

// groups appends the number of each row's key to dst. With add, new keys get the
// next number; otherwise they, and keys with a NULL, give -1.
func (t *keyTable) groups(dst []int32, keys []function.Vector, n int, add bool) []int32 {
	if len(t.cols) == 0 {
		t.n = max(t.n, 1)
		return append(dst, make([]int32, n)...)
	}
	if t.lone {
		return t.loneGroups(dst, materialise(keys[0], n), add)
	}
	if t.single {
		a := materialise(keys[0], n)
		t.wide = function.Bits64(t.cols[0].t, a, t.wide[:0])
		if t.dense != nil {
			return t.findDense(dst, t.wide, batch.Validity(a), add)
		}
		dst = t.find1(dst, t.wide, batch.Validity(a), add)
		if t.grew && isWhole(t.cols[0].t) {
			t.becomeDense()
		}
		t.grew = false
		return dst
	}
	start := len(dst)
	dst = t.find(dst, t.pack(keys, n, add), n, add)
	if !add {
		for i := range keys {
			valid := batch.Validity(materialise(keys[i], n))
			for k := 0; valid != nil && k < n; k++ {
				if !batch.BitSet(valid, k) {
					dst[start+k] = -1
				}
			}
		}
	}
	return dst
}

func (t *keyTable) loneGroups(dst []int32, a arrow.Array, add bool) []int32 {
	const null = -3
	in := t.cols[0].interner
	start := len(dst)
	dst = in.ids(dst, a, null, add)
	out := dst[start:]
	for len(t.groupOf) < in.len() {
		t.groupOf = append(t.groupOf, -1)
	}
	groupOf := t.groupOf
	for i, id := range out {
		if id >= 0 {
			g := groupOf[id]
			if g < 0 && add {
				g = int32(t.n)
				groupOf[id] = g
				t.idOf = append(t.idOf, id)
				t.n++
			}
			out[i] = g
			continue
		}
		if !add {
			out[i] = -1
			continue
		}
		if t.nullGroup < 0 {
			t.nullGroup = int32(t.n)
			t.idOf = append(t.idOf, -1)
			t.n++
		}
		out[i] = t.nullGroup
	}
	return dst
}

// textBits masks the number of a text in a key. absentCode is a number then that
// no text has.
const textBits = 1<<31 - 1

// pack returns the rows' keys, width words each. NULL rows have the value 0.
func (t *keyTable) pack(keys []function.Vector, n int, add bool) []uint64 {
	if cap(t.scratch) < n*t.width {
		t.scratch = make([]uint64, n*t.width)
	}
	words := t.scratch[:n*t.width]
	clear(words)
	for i := range t.cols {
		t.packColumn(&t.cols[i], words, keys[i], n, add)
	}
	return words
}

func (t *keyTable) packColumn(c *keyColumn, words []uint64, v function.Vector, n int, add bool) {
	a := materialise(v, n)
	valid := batch.Validity(a)
	w := t.width
	switch {
	case c.bits == 128:
		for i, x := range batch.Values[decimal128.Num](a) {
			words[i*w+c.word], words[i*w+c.word+1] = x.LowBits(), uint64(x.HighBits())
		}
	case c.interner != nil:
		if c.nested {
			t.ids = c.nestedIDs(t.ids[:0], a, valid, add)
		} else {
			t.ids = c.interner.ids(t.ids[:0], a, 0, add)
		}
		for i, id := range t.ids {
			words[i*w+c.word] |= uint64(id) & textBits << c.shift
		}
	case c.bits > 0:
		t.wide = function.Bits64(c.t, a, t.wide[:0])
		mask := ^uint64(0) >> (64 - c.bits)
		for i, x := range t.wide {
			words[i*w+c.word] |= x & mask << c.shift
		}
	}
	if valid == nil {
		return
	}
	for i := range n {
		if batch.BitSet(valid, i) {
			continue
		}
		words[i*w+c.nullWord] |= 1 << c.nullShift
		if c.bits == 128 {
			words[i*w+c.word], words[i*w+c.word+1] = 0, 0
		} else if c.bits > 0 {
			words[i*w+c.word] &^= ^uint64(0) >> (64 - c.bits) << c.shift
		}
	}
}

// nestedIDs is interner.ids of nested values.
func (c *keyColumn) nestedIDs(dst []int32, a arrow.Array, valid []byte, add bool) []int32 {
	e := newEncoder(a, c.t)
	before := int32(c.interner.len())
	var fresh []int32
	for i := range a.Len() {
		if valid != nil && !batch.BitSet(valid, i) {
			dst = append(dst, 0)
			continue
		}
		c.encoded = e.append(c.encoded[:0], i)
		id := c.interner.id(c.encoded, add)
		if id == before+int32(len(fresh)) {
			fresh = append(fresh, int32(i))
		}
		dst = append(dst, id)
	}
	if len(fresh) > 0 {
		first := batch.Gather(a, fresh)
		c.firsts = append(c.firsts, first)
		c.held += batch.Bytes(first)
	}
	return dst
}

// nestedArray returns the values with these numbers, -1 = NULL.
func (c *keyColumn) nestedArray(ids []int32) arrow.Array {
	if len(c.firsts) == 0 {
		return function.NullArray(c.t, len(ids))
	}
	if len(c.firsts) > 1 {
		c.firsts = []arrow.Array{batch.Concat(c.firsts)}
	}
	return batch.Gather(c.firsts[0], ids)
}

// mix is one round of wyhash's folded multiplication (Wang Yi, 2019).
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xE7037ED1A0B428DB)
	return hi ^ lo
}

func (t *keyTable) find(dst []int32, words []uint64, n int, add bool) []int32 {
	if t.width == 1 {
		return t.find1(dst, words, nil, add)
	}
	w := t.width
	for i := range n {
		key := words[i*w : i*w+w : i*w+w]
		h := t.seed
		for _, x := range key {
			h = mix(h, x)
		}
		tag := uint32(h >> 32)
		mask := uint32(len(t.slots) - 1)
		s := uint32(h) & mask
		group := int32(-1)
	probe:
		for ; t.slots[s].group != 0; s = (s + 1) & mask {
			if t.slots[s].hash != tag {
				continue
			}
			g := int(t.slots[s].group - 1)
			for k, x := range t.keys[g*w : g*w+w] {
				if x != key[k] {
					continue probe
				}
			}
			group = int32(g)
			break
		}
		if group < 0 && add {
			group = t.insert(s, tag, key)
		}
		dst = append(dst, group)
	}
	return dst
}

// find1 is find for keys of one word. Rows that aren't valid (a single column's)
// are of the NULL group.
func (t *keyTable) find1(dst []int32, words []uint64, valid []byte, add bool) []int32 {
	start := len(dst)
	dst = slices.Grow(dst, len(words))[:start+len(words)]
	out := dst[start:]
	slots, keys := t.slots, t.keys
	mask := uint32(len(slots) - 1)
	for i, x := range words {
		if valid != nil && !batch.BitSet(valid, i) {
			out[i] = t.nullKey(add)
			keys = t.keys
			continue
		}
		h := mix(t.seed, x)
		tag := uint32(h >> 32)
		s := uint32(h) & mask
		group := int32(-1)
		for ; slots[s].group != 0; s = (s + 1) & mask {
			if slots[s].hash == tag && keys[slots[s].group-1] == x {
				group = slots[s].group - 1
				break
			}
		}
		if group < 0 && add {
			key := [1]uint64{x}
			group = t.insert(s, tag, key[:])
			slots, keys = t.slots, t.keys
			mask = uint32(len(slots) - 1)
		}
		out[i] = group
	}
	return dst
}

// nullKey returns the NULL group of a single column.
func (t *keyTable) nullKey(add bool) int32 {
	if !add {
		return -1
	}
	if t.nullGroup < 0 {
		t.nullGroup = int32(t.n)
		t.keys = append(t.keys, 0) // a place that no slot points to
		t.n++
	}
	return t.nullGroup
}

func (t *keyTable) insert(slot, tag uint32, key []uint64) int32 {
	t.keys = append(t.keys, key...)
	t.n++
	t.slots[slot] = keySlot{tag, int32(t.n)}
	if 2*t.n > len(t.slots) {
		t.grow()
	}
	return int32(t.n - 1)
}

func (t *keyTable) grow() {
	t.slots = make([]keySlot, 4*len(t.slots))
	t.fill()
	t.grew = true
}

// fill puts all groups into the slots, which are empty.
func (t *keyTable) fill() {
	mask := uint32(len(t.slots) - 1)
	for g := range t.n {
		if int32(g) == t.nullGroup {
			continue
		}
		h := t.seed
		for _, x := range t.keys[g*t.width : (g+1)*t.width] {
			h = mix(h, x)
		}
		s := uint32(h) & mask
		for t.slots[s].group != 0 {
			s = (s + 1) & mask
		}
		t.slots[s] = keySlot{uint32(h >> 32), int32(g + 1)}
	}
}

// columns returns the keys of groups [from, to).
func (t *keyTable) columns(from, to int) []arrow.Array {
	groups := make([]int32, to-from)
	for i := range groups {
		groups[i] = int32(from + i)
	}
	return t.at(groups)
}

// at returns the keys of the groups listed.
func (t *keyTable) at(groups []int32) []arrow.Array {
	out := make([]arrow.Array, len(t.cols))
	if t.lone {
		ids := make([]int32, len(groups))
		var valid []byte
		for i, g := range groups {
			if ids[i] = t.idOf[g]; g == t.nullGroup {
				if valid == nil {
					valid = allOnes(len(groups))
				}
				valid[i>>3] &^= 1 << (uint(i) & 7)
			}
		}
		out[0] = t.cols[0].interner.array(t.cols[0].t.Arrow(), ids, valid)
		return out
	}
	for i := range t.cols {
		out[i] = t.column(&t.cols[i], groups)
	}
	return out
}

func (t *keyTable) column(c *keyColumn, groups []int32) arrow.Array {
	w, n := t.width, len(groups)
	var valid []byte
	for i, g := range groups {
		null := t.keys[int(g)*w+c.nullWord]>>c.nullShift&1 != 0
		if t.single {
			null = g == t.nullGroup
		}
		if null {
			if valid == nil {
				valid = allOnes(n)
			}
			valid[i>>3] &^= 1 << (uint(i) & 7)
		}
	}
	at := func(i int) uint64 { return t.keys[int(groups[i])*w+c.word] >> c.shift }
	dt := c.t.Arrow()
	switch dt.ID() {
	case arrow.NULL:
		return function.NullArray(c.t, n)
	case arrow.STRING, arrow.BINARY, arrow.LIST, arrow.MAP, arrow.STRUCT:
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(at(i) & textBits)
			if valid != nil && !batch.BitSet(valid, i) {
				ids[i] = -1
			}
		}
		if c.nested {
			return c.nestedArray(ids)
		}
		return c.interner.array(dt, ids, valid)
	case arrow.BOOL:
		values := make([]byte, (n+7)/8)
		for i := range n {
			values[i>>3] |= byte(at(i)&1) << (uint(i) & 7)
		}
		return batch.NewBoolean(values, n, valid)
	case arrow.INT8:
		return unpackInts[int8](dt, at, n, valid)
	case arrow.INT16:
		return unpackInts[int16](dt, at, n, valid)
	case arrow.INT32, arrow.DATE32:
		return unpackInts[int32](dt, at, n, valid)
	case arrow.INT64:
		return unpackInts[int64](dt, at, n, valid)
	case arrow.FLOAT32:
		v := make([]float32, n)
		for i := range v {
			v[i] = math.Float32frombits(uint32(at(i)))
		}
		return batch.NewFixed(dt, v, valid)
	case arrow.FLOAT64:
		v := make([]float64, n)
		for i := range v {
			v[i] = math.Float64frombits(at(i))
		}
		return batch.NewFixed(dt, v, valid)
	}
	v := make([]decimal128.Num, n)
	for i := range v {
		k := int(groups[i])*w + c.word
		v[i] = decimal128.New(int64(t.keys[k+1]), t.keys[k])
	}
	return batch.NewFixed(dt, v, valid)
}

func unpackInts[T int8 | int16 | int32 | int64](dt arrow.DataType, at func(int) uint64, n int, valid []byte) arrow.Array {
	v := make([]T, n)
	for i := range v {
		v[i] = T(at(i))
	}
	return batch.NewFixed(dt, v, valid)
}
