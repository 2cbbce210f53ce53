package mapreduce

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/skepdb/skep/internal/fault"
)

// collector takes what a mapper emits and sorts it: in memory up to a budget,
// then in runs on disk. With a combiner, records of a key are folded as they
// come, in an open-addressing table.
type collector[K, V any] struct {
	job    *records[K, V]
	parts  int
	o      order
	budget int64
	spills *spills
	fold   folder // nil: no combiner

	arena []byte // keys, and values when there is no combiner
	items []item
	// With a combiner: the value of items[i], and where to find it. A slot is the
	// high half of the hash and the item's number + 1; 0 is empty.
	vals    []V
	slots   []uint64
	perVal  int64 // bytes of a value, an estimate unless V has no pointers
	pointed bool
	emitted int64
	scratch []byte

	err error // the first; after it nothing is taken
}

// item is a record in the arena: key, then value.
type item struct {
	prefix     uint64
	off        uint32
	klen, vlen uint32
	part       int32
}

const itemBytes = 24

// maxArena keeps offsets in 32 bits.
const maxArena = 1 << 30

func newCollector[K, V any](j *records[K, V], parts int, budget int64, s *spills) *collector[K, V] {
	c := &collector[K, V]{job: j, parts: parts, o: j.order, budget: min(budget, maxArena), spills: s}
	if j.Combine != nil {
		c.fold = &combiner[V]{codec: j.ValueCodec, combine: j.Combine}
		c.slots = make([]uint64, 1024)
		c.perVal = sizeOf[V]()
		c.pointed = hasPointers(reflect.TypeFor[V]())
	}
	return c
}

func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return false
	case reflect.Array:
		return hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return true
}

// emit takes a record.
func (c *collector[K, V]) emit(k K, v V) {
	if c.err != nil {
		return
	}
	c.emitted++
	start := len(c.arena)
	c.arena = c.job.KeyCodec.Append(c.arena, k)
	klen := len(c.arena) - start
	key := c.arena[start:]
	hash, prefix := xxhash.Sum64(key), prefixOf(key)
	if c.fold != nil {
		if i := c.find(hash, prefix, key); i >= 0 {
			c.arena = c.arena[:start]
			c.vals[i] = c.job.Combine(c.vals[i], v)
			if c.pointed && c.emitted%1024 == 0 {
				c.measure()
			}
			return
		}
	}
	it := item{prefix: prefix, off: uint32(start), klen: uint32(klen), part: int32(uint64(uint32(hash)) * uint64(c.parts) >> 32)}
	if c.job.Partition != nil {
		p := c.job.Partition(k, c.parts)
		if p < 0 || p >= c.parts {
			c.err = fault.Userf("the partitioner gave partition %d of %d", p, c.parts)
			return
		}
		it.part = int32(p)
	}
	if c.fold != nil {
		c.vals = append(c.vals, v)
		c.insert(hash, len(c.items))
	} else {
		c.arena = c.job.ValueCodec.Append(c.arena, v)
		it.vlen = uint32(len(c.arena) - start - klen)
	}
	c.items = append(c.items, it)
	if c.used() > c.budget {
		c.err = c.spill()
	}
}

func (c *collector[K, V]) used() int64 {
	n := int64(len(c.arena)) + itemBytes*int64(len(c.items))
	if c.fold != nil {
		n += int64(len(c.items))*c.perVal + 8*int64(len(c.slots))
	}
	return n
}

// find returns the item of a key, or -1.
func (c *collector[K, V]) find(hash, prefix uint64, key []byte) int {
	mask := uint64(len(c.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		s := c.slots[at]
		if s == 0 {
			return -1
		}
		if s>>32 != hash>>32 {
			continue
		}
		i := int(uint32(s)) - 1
		it := &c.items[i]
		if it.prefix != prefix || int(it.klen) != len(key) {
			continue
		}
		// The prefix is all of a short key: no need to fetch it.
		if len(key) <= 8 || bytes.Equal(c.arena[it.off:it.off+it.klen], key) {
			return i
		}
	}
}

// insert notes item number i, which is about to be appended.
func (c *collector[K, V]) insert(hash uint64, i int) {
	if 2*(i+1) > len(c.slots) {
		old := c.slots
		c.slots = make([]uint64, 2*len(old))
		for _, s := range old {
			if s != 0 {
				it := &c.items[uint32(s)-1]
				c.place(xxhash.Sum64(c.arena[it.off:it.off+it.klen]), s)
			}
		}
	}
	c.place(hash, hash&^(1<<32-1)|uint64(i+1))
}

func (c *collector[K, V]) place(hash, slot uint64) {
	mask := uint64(len(c.slots) - 1)
	at := hash & mask
	for c.slots[at] != 0 {
		at = (at + 1) & mask
	}
	c.slots[at] = slot
}

// measure estimates what a value with pointers takes, from a few of them, and
// spills when values that have grown exceed the budget.
func (c *collector[K, V]) measure() {
	const probes = 32
	var total int64
	step := max(len(c.vals)/probes, 1)
	n := int64(0)
	for i := 0; i < len(c.vals); i += step {
		c.scratch = c.job.ValueCodec.Append(c.scratch[:0], c.vals[i])
		total += int64(len(c.scratch))
		n++
	}
	if n == 0 {
		return
	}
	// Slices have room to grow in: count the bytes twice.
	c.perVal = sizeOf[V]() + 2*total/n
	if c.used() > c.budget {
		c.err = c.spill()
	}
}

// sort orders the items by partition, then as the job says; records that are
// equal stay in the order in which they came.
func (c *collector[K, V]) sort() {
	arena, o := c.arena, c.o
	slices.SortFunc(c.items, func(a, b item) int {
		if a.part != b.part {
			return cmp.Compare(a.part, b.part)
		}
		if a.prefix != b.prefix {
			if (a.prefix < b.prefix) != o.descending {
				return -1
			}
			return 1
		}
		ak, bk := arena[a.off:a.off+a.klen], arena[b.off:b.off+b.klen]
		var r int
		if o.values == Unsorted {
			if r = bytes.Compare(ak, bk); o.descending {
				r = -r
			}
		} else {
			r = o.compare(ak, arena[a.off+a.klen:a.off+a.klen+a.vlen], bk, arena[b.off+b.klen:b.off+b.klen+b.vlen])
		}
		if r == 0 {
			r = cmp.Compare(a.off, b.off)
		}
		return r
	})
}

// encodeValues puts the folded values behind the keys, so that what is sorted and
// written has one form.
func (c *collector[K, V]) encodeValues() error {
	if c.fold == nil {
		return nil
	}
	arena := make([]byte, 0, len(c.arena)+9*len(c.items))
	for i := range c.items {
		it := &c.items[i]
		off := len(arena)
		arena = append(arena, c.arena[it.off:it.off+it.klen]...)
		arena = c.job.ValueCodec.Append(arena, c.vals[i])
		if len(arena) > 1<<32-1 {
			return fault.Userf("the combined values of a task exceed 4 GiB: combine to smaller ones")
		}
		it.off, it.vlen = uint32(off), uint32(len(arena)-off-int(it.klen))
	}
	c.arena = arena
	return nil
}

// drain sorts what is in memory and returns it as a run.
func (c *collector[K, V]) drain() (source, error) {
	if err := c.encodeValues(); err != nil {
		return nil, err
	}
	c.sort()
	run := &itemSource{arena: c.arena, items: c.items}
	c.arena, c.items, c.vals = nil, nil, nil
	clear(c.slots)
	return run, nil
}

func (c *collector[K, V]) spill() error {
	arena, items, vals := c.arena, c.items, c.vals
	run, err := c.drain()
	if err != nil {
		return err
	}
	err = c.spills.spill(func(to func(*block) error) error { return mergeRuns(c.o, []source{run}, nil, to) })
	// Blocks are copies, so what they were made of can be used again.
	clear(vals)
	c.arena, c.items, c.vals = arena[:0], items[:0], vals[:0]
	c.perVal = sizeOf[V]() // those that come are small again
	return err
}

// finish hands over everything in order.
func (c *collector[K, V]) finish(to func(*block) error) error {
	if c.err != nil {
		return c.err
	}
	run, err := c.drain()
	if err != nil {
		return err
	}
	if err := c.spills.squeeze(c.o, c.fold); err != nil {
		return err
	}
	return mergeRuns(c.o, append(sources(c.spills.runs), run), c.fold, to)
}

// itemSource is a sorted run in an arena; it makes its blocks when they are
// asked for.
type itemSource struct {
	arena []byte
	items []item
}

func (s *itemSource) next() (*block, error) {
	if len(s.items) == 0 {
		return nil, nil
	}
	n, kbytes, vbytes := 0, 0, 0
	for n < len(s.items) && n < blockRows && s.items[n].part == s.items[0].part {
		it := &s.items[n]
		if n > 0 && kbytes+vbytes+int(it.klen)+int(it.vlen) > blockBytes {
			break
		}
		kbytes += int(it.klen)
		vbytes += int(it.vlen)
		n++
	}
	if kbytes > 1<<31-1 || vbytes > 1<<31-1 {
		return nil, fault.Userf("a record of %d bytes is too large", kbytes+vbytes)
	}
	b := &block{part: int(s.items[0].part), n: n,
		keys: texts{off: make([]int32, 1, n+1), data: make([]byte, 0, kbytes)},
		vals: texts{off: make([]int32, 1, n+1), data: make([]byte, 0, vbytes)}}
	for i := range s.items[:n] {
		it := &s.items[i]
		b.keys.data = append(b.keys.data, s.arena[it.off:it.off+it.klen]...)
		b.vals.data = append(b.vals.data, s.arena[it.off+it.klen:it.off+it.klen+it.vlen]...)
		b.keys.off = append(b.keys.off, int32(len(b.keys.data)))
		b.vals.off = append(b.vals.off, int32(len(b.vals.data)))
	}
	s.items = s.items[n:]
	return b, nil
}

// gather takes the shuffled records of a reduce and merges them.
type gather struct {
	o      order
	fold   folder
	budget int64
	spills *spills

	runs [][]*block // each in order
	used int64
}

// add takes a block. Runs are told apart by a record that is lower than the one
// before it; where there is none, two runs are one.
func (g *gather) add(b *block) error {
	if b.n == 0 {
		return nil
	}
	last := len(g.runs) - 1
	if last >= 0 {
		tail := g.runs[last]
		p := tail[len(tail)-1]
		if g.o.compare(p.keys.at(p.n-1), p.vals.at(p.n-1), b.keys.at(0), b.vals.at(0)) > 0 {
			last = -1
		}
	}
	if last < 0 {
		g.runs = append(g.runs, nil)
		last = len(g.runs) - 1
	}
	g.runs[last] = append(g.runs[last], b)
	if g.used += b.bytes(); g.used <= g.budget {
		return nil
	}
	runs := g.sources()
	return g.spills.spill(func(to func(*block) error) error { return mergeRuns(g.o, runs, g.fold, to) })
}

func (g *gather) sources() []source {
	out := make([]source, len(g.runs))
	for i, r := range g.runs {
		out[i] = &sliceSource{r}
	}
	g.runs, g.used = nil, 0
	return out
}

// merge returns all records in order.
func (g *gather) merge() (*merger, error) {
	if err := g.spills.squeeze(g.o, g.fold); err != nil {
		return nil, err
	}
	runs := append(sources(g.spills.runs), g.sources()...)
	m, err := newMerger(g.o, runs)
	if err != nil {
		return nil, fmt.Errorf("merge %d runs: %w", len(runs), err)
	}
	return m, nil
}
