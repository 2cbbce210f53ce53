package mapreduce

import (
	"bytes"
	"encoding/binary"
)

// order is how records are sorted: by key, perhaps by value too.
type order struct {
	descending bool
	values     Order
}

// compare orders two records of one partition.
func (o order) compare(aKey, aVal, bKey, bVal []byte) int {
	c := bytes.Compare(aKey, bKey)
	if o.descending {
		c = -c
	}
	if c != 0 || o.values == Unsorted {
		return c
	}
	if o.values == Descending {
		return bytes.Compare(bVal, aVal)
	}
	return bytes.Compare(aVal, bVal)
}

// prefixOf returns the first bytes of a key as a number that orders as they do.
func prefixOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// source yields blocks of a sorted run, in order; nil at its end.
type source interface{ next() (*block, error) }

// sliceSource is a run in memory.
type sliceSource struct{ blocks []*block }

func (s *sliceSource) next() (*block, error) {
	if len(s.blocks) == 0 {
		return nil, nil
	}
	b := s.blocks[0]
	s.blocks = s.blocks[1:]
	return b, nil
}

// cursor is a place in a run.
type cursor struct {
	from   source
	run    int // its number: among equal records the earlier run comes first
	b      *block
	i      int
	prefix uint64
	key    []byte
}

// advance goes to the next record; false at the end.
func (c *cursor) advance() (bool, error) {
	c.i++
	for c.b == nil || c.i >= c.b.n {
		b, err := c.from.next()
		if err != nil || b == nil {
			c.b, c.key = nil, nil
			return false, err
		}
		c.b, c.i = b, 0
	}
	c.key = c.b.keys.at(c.i)
	c.prefix = prefixOf(c.key)
	return true, nil
}

// merger yields the records of sorted runs in order: a binary heap of cursors,
// whose top is the current record.
type merger struct {
	o    order
	heap []*cursor
}

func newMerger(o order, runs []source) (*merger, error) {
	m := &merger{o: o}
	for i, r := range runs {
		c := &cursor{from: r, run: i}
		ok, err := c.advance()
		if err != nil {
			return nil, err
		}
		if ok {
			m.heap = append(m.heap, c)
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m, nil
}

func (m *merger) less(a, b *cursor) bool {
	if a.b.part != b.b.part {
		return a.b.part < b.b.part
	}
	if a.prefix != b.prefix {
		return (a.prefix < b.prefix) != m.o.descending
	}
	var c int
	if m.o.values == Unsorted {
		if c = bytes.Compare(a.key, b.key); m.o.descending {
			c = -c
		}
	} else {
		c = m.o.compare(a.key, a.b.vals.at(a.i), b.key, b.b.vals.at(b.i))
	}
	if c != 0 {
		return c < 0
	}
	return a.run < b.run
}

func (m *merger) down(i int) {
	h := m.heap
	for {
		l := 2*i + 1
		if l >= len(h) {
			return
		}
		if r := l + 1; r < len(h) && m.less(h[r], h[l]) {
			l = r
		}
		if !m.less(h[l], h[i]) {
			return
		}
		h[i], h[l] = h[l], h[i]
		i = l
	}
}

// top returns the current record; false at the end.
func (m *merger) top() (part int, key, val []byte, ok bool) {
	if len(m.heap) == 0 {
		return 0, nil, nil, false
	}
	c := m.heap[0]
	return c.b.part, c.key, c.b.vals.at(c.i), true
}

// advance goes to the next record.
func (m *merger) advance() error {
	ok, err := m.heap[0].advance()
	if err != nil {
		return err
	}
	if !ok {
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
	}
	if len(m.heap) > 1 {
		m.down(0)
	}
	return nil
}

// mergeRuns merges runs into blocks. fold, if not nil, makes one value of two of
// the same key.
func mergeRuns(o order, runs []source, fold folder, to func(*block) error) error {
	if len(runs) == 1 {
		for {
			b, err := runs[0].next()
			if err != nil || b == nil {
				return err
			}
			if err := to(b); err != nil {
				return err
			}
		}
	}
	m, err := newMerger(o, runs)
	if err != nil {
		return err
	}
	out := &builder{to: to}
	for {
		part, key, val, ok := m.top()
		if !ok {
			return out.flush()
		}
		if err := m.advance(); err != nil {
			return err
		}
		if fold != nil {
			if val, err = foldEqual(m, fold, part, key, val); err != nil {
				return err
			}
		}
		if err := out.add(part, key, val); err != nil {
			return err
		}
	}
}

// folder makes one value of the values of a key: start, then add, then end.
type folder interface {
	start(val []byte) error
	add(val []byte) error
	end() []byte // valid until the next start
}

// foldEqual folds the records at the top that have this key.
func foldEqual(m *merger, fold folder, part int, key, val []byte) ([]byte, error) {
	many := false
	for {
		p, k, v, ok := m.top()
		if !ok || p != part || !bytes.Equal(k, key) {
			break
		}
		if !many {
			many = true
			if err := fold.start(val); err != nil {
				return nil, err
			}
		}
		if err := fold.add(v); err != nil {
			return nil, err
		}
		if err := m.advance(); err != nil {
			return nil, err
		}
	}
	if many {
		return fold.end(), nil
	}
	return val, nil
}

// combiner is the folder of a job's Combine.
type combiner[V any] struct {
	codec   Codec[V]
	combine func(a, b V) V
	v       V
	buf     []byte
}

func (c *combiner[V]) start(val []byte) (err error) {
	c.v, err = c.codec.Decode(val)
	return err
}

func (c *combiner[V]) add(val []byte) error {
	v, err := c.codec.Decode(val)
	if err == nil {
		c.v = c.combine(c.v, v)
	}
	return err
}

func (c *combiner[V]) end() []byte {
	c.buf = c.codec.Append(c.buf[:0], c.v)
	return c.buf
}
