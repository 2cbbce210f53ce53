package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/spill"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// sorter orders its input; it is stable. With a limit it keeps the best rows
// only: whenever enough have gathered they are sorted and cut, and later
// rows that can't be among the best are dropped on arrival. What doesn't fit in memory
// is sorted and written in runs, which are merged at the end.
type sorter struct {
	input  batch.Reader
	keys   []compiled
	orders []sortOrder
	keep   int64 // offset+limit, -1 all
	offset int64
	// withKeys makes the keys the last columns of the output, beyond Fields.
	withKeys bool
	mem      account

	kept    store         // columns, then keys
	cut     *sortedKeys   // the last kept row's key, when keep rows have been seen
	sorted  []arrow.Array // of all rows, once read
	order   []int32
	emitted int
	done    bool

	runs   []*spill.Run
	piece  int     // rows a batch of a run
	merged *merger // of the runs; nil: there are none
	left   int64   // rows to give out of them, after skip
	skip   int64
}

type sortOrder struct {
	t                schema.Type
	desc, nullsAfter bool
}

func newSorter(c *compiler, n *plan.Sort, input batch.Reader, b *budget) (*sorter, error) {
	s := &sorter{input: input, keep: -1, offset: n.Offset, mem: account{b: b, operator: "ORDER BY"}}
	if n.Limit >= 0 {
		s.keep = n.Offset + n.Limit
		if s.keep < 0 { // overflow: no limit in effect
			s.keep = math.MaxInt64
		}
	}
	for _, k := range n.Keys {
		x, err := c.compile(k.Expr, input.Fields())
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, x)
		s.orders = append(s.orders, sortOrder{x.t, k.Desc, k.NullsLast})
	}
	s.kept.width = len(input.Fields()) + len(s.keys)
	return s, nil
}

func (s *sorter) Fields() []schema.Field { return s.input.Fields() }
func (s *sorter) Close() error           { return s.input.Close() }

func (s *sorter) Next(ctx context.Context) (*batch.Batch, error) {
	if !s.done {
		if err := s.read(ctx); err != nil {
			return nil, err
		}
		s.done = true
		s.emitted = int(min(s.offset, int64(len(s.order))))
	}
	if s.merged != nil {
		return s.nextMerged(ctx)
	}
	if s.emitted >= len(s.order) {
		s.sorted, s.order = nil, nil
		s.mem.hold(0)
		return nil, io.EOF
	}
	at := s.order[s.emitted:min(len(s.order), s.emitted+batch.MaxRows)]
	s.emitted += len(at)
	return s.output(s.sorted, at), nil
}

// output makes a batch of rows of columns that end with the keys; at nil: all of them.
func (s *sorter) output(columns []arrow.Array, at []int32) *batch.Batch {
	width := len(columns)
	if !s.withKeys {
		width -= len(s.keys)
	}
	out := &batch.Batch{Len: len(at), Columns: make([]arrow.Array, width)}
	for i, c := range columns[:width] {
		out.Columns[i] = batch.Gather(c, at)
	}
	return out
}

func (s *sorter) nextMerged(ctx context.Context) (*batch.Batch, error) {
	for s.left > 0 {
		b, err := s.merged.next(ctx)
		if err != nil {
			return nil, err
		}
		n := int64(b.Len)
		if s.skip >= n {
			s.skip -= n
			continue
		}
		b = slice(b, int(s.skip), int(min(n, s.skip+s.left)))
		s.skip = 0
		s.left -= int64(b.Len)
		if !s.withKeys {
			b = &batch.Batch{Columns: b.Columns[:len(b.Columns)-len(s.keys)], Len: b.Len}
		}
		return b, nil
	}
	return nil, io.EOF
}

func (s *sorter) read(ctx context.Context) error {
	if s.keep == 0 {
		return nil
	}
	for {
		b, err := s.input.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := s.add(b); err != nil {
			return err
		}
		if s.keep >= 0 && int64(s.kept.rows) >= max(2*s.keep, 8*batch.MaxRows) {
			if err := s.trim(); err != nil {
				return err
			}
		}
		if !s.mem.hold(s.held()) || s.kept.rows > math.MaxInt32/2 {
			if err := s.spill(); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	if len(s.runs) == 0 {
		var err error
		s.sorted, s.order, err = s.sort()
		return err
	}
	if err := s.spill(); err != nil {
		return err
	}
	var err error
	if s.runs, err = reduce(ctx, s.mem.b.spills(), s.runs, s.orders, s.piece); err != nil {
		return err
	}
	s.left, s.skip = s.keep, s.offset
	if s.keep < 0 {
		s.left = math.MaxInt64
	} else {
		s.left -= s.offset
	}
	s.merged, err = newMerger(ctx, s.runs, s.orders, s.piece)
	return err
}

// held estimates the memory of what there is: sorting needs the columns once
// more, and an entry a row.
func (s *sorter) held() int64 { return 2*s.kept.bytes + int64(s.kept.rows)*24 }

// spill sorts what there is and writes it as a run.
func (s *sorter) spill() error {
	if s.kept.rows == 0 {
		return nil
	}
	if s.piece == 0 {
		s.piece = s.mem.b.pieces(s.kept.bytes, s.kept.rows)
	}
	columns, order, err := s.sort()
	if err != nil {
		return err
	}
	fields := append([]schema.Field(nil), s.input.Fields()...)
	for i := range s.keys {
		fields = append(fields, schema.Field{Type: s.keys[i].t})
	}
	w, err := s.mem.b.spills().Create(fields)
	if err != nil {
		return err
	}
	for from := 0; from < len(order); from += s.piece {
		at := order[from:min(len(order), from+s.piece)]
		b := &batch.Batch{Len: len(at)}
		for _, c := range columns {
			b.Columns = append(b.Columns, batch.Gather(c, at))
		}
		if err := w.Write(b); err != nil {
			return err
		}
	}
	run, err := w.Finish()
	if err != nil {
		return err
	}
	s.runs = append(s.runs, run)
	s.kept = store{width: s.kept.width}
	s.mem.hold(0)
	return nil
}

// add keeps the rows of b that may be among the best.
func (s *sorter) add(b *batch.Batch) error {
	b = batch.Compact(b)
	vs, err := evalAll(s.keys, rows{b.Columns, b.Len})
	if err != nil {
		return err
	}
	keyed := &batch.Batch{Columns: slices.Clip(append([]arrow.Array(nil), b.Columns...)), Len: b.Len}
	keys := make([]arrow.Array, len(vs))
	for i, v := range vs {
		keys[i] = materialise(v, b.Len)
	}
	keyed.Columns = append(keyed.Columns, keys...)
	if s.cut != nil {
		k := encodeKeys(keys, s.orders, b.Len, false)
		sel := make([]int32, 0, 64)
		for i := range b.Len {
			if k.compareWith(i, s.cut, 0) < 0 { // an equal row came later, so it loses
				sel = append(sel, int32(i))
			}
		}
		if len(sel) == 0 {
			return nil
		}
		if len(sel) < b.Len {
			keyed.Sel = sel
			keyed = batch.Compact(keyed)
		}
	}
	s.kept.add(keyed)
	return nil
}

// sort returns the columns of all rows kept and the order of the best.
func (s *sorter) sort() ([]arrow.Array, []int32, error) {
	columns, err := s.kept.concat("ORDER BY")
	if err != nil {
		return nil, nil, err
	}
	keys := columns[len(columns)-len(s.keys):]
	order := radixOrder(keys, s.orders, s.kept.rows)
	if order == nil {
		order = encodeKeys(keys, s.orders, s.kept.rows, true).sorted()
	}
	if s.keep >= 0 && int64(len(order)) > s.keep {
		order = order[:s.keep]
	}
	return columns, order, nil
}

// trim sorts what there is and forgets all but the best.
func (s *sorter) trim() error {
	columns, order, err := s.sort()
	if err != nil {
		return err
	}
	n := len(order)
	width := s.kept.width
	s.kept = store{width: width}
	// In their old order, since ties among later rows are broken by it; in
	// pieces of a batch's size.
	best := slices.Clone(order)
	slices.Sort(best)
	for from := 0; from < n; from += batch.MaxRows {
		part := best[from:min(n, from+batch.MaxRows)]
		b := &batch.Batch{Len: len(part)}
		for _, c := range columns {
			b.Columns = append(b.Columns, batch.Gather(c, part))
		}
		s.kept.add(b)
	}
	if int64(n) == s.keep {
		last := order[n-1 : n]
		keys := make([]arrow.Array, len(s.keys))
		for i, c := range columns[len(columns)-len(s.keys):] {
			keys[i] = batch.Gather(c, last)
		}
		s.cut = encodeKeys(keys, s.orders, 1, false)
	}
	return nil
}

// sortedKeys are rows' keys in a form whose order is theirs: one word and a
// class for NULL when there is one short key, else bytes.
type sortedKeys struct {
	class   []uint8 // one-word keys: 0 NULL first, 1 value, 2 NULL last; nil if there are no nulls
	words   []uint64
	data    []byte
	offsets []int
}

// encodeKeys encodes n rows. With rank, dictionary-coded text may be replaced by
// its rank in its dictionary: such keys compare only among themselves.
func encodeKeys(keys []arrow.Array, orders []sortOrder, n int, rank bool) *sortedKeys {
	if len(keys) == 1 {
		if words := orderedWords(keys[0], orders[0], rank); words != nil {
			return oneWord(words, keys[0], orders[0], n)
		}
	}
	k := &sortedKeys{offsets: make([]int, 1, n+1)}
	type part struct {
		words []uint64
		width int
		wide  []decimal128.Num
		text  batch.Text
		parts *encoder // of a nested value
		valid []byte
		sortOrder
	}
	parts := make([]part, len(keys))
	for i, a := range keys {
		p := part{sortOrder: orders[i], valid: batch.Validity(a), width: 8}
		switch {
		case a.DataType().ID() == arrow.DECIMAL128:
			p.wide = batch.Values[decimal128.Num](a)
		case a.DataType().ID() == arrow.NULL:
		case isNested(p.t):
			p.parts = newEncoder(a, p.t)
		default:
			if p.words = orderedWords(a, orders[i], rank); p.words == nil {
				p.text = batch.TextOf(a)
			}
		}
		parts[i] = p
	}
	for i := range n {
		for j := range parts {
			p := &parts[j]
			if p.valid != nil && !batch.BitSet(p.valid, i) {
				k.data = append(k.data, nullClass(p.nullsAfter))
				continue
			}
			k.data = append(k.data, 1)
			start := len(k.data)
			switch {
			case p.words != nil: // desc is in the word already
				k.data = binary.BigEndian.AppendUint64(k.data, p.words[i])
				continue
			case p.wide != nil:
				k.data = binary.BigEndian.AppendUint64(k.data, uint64(p.wide[i].HighBits())^1<<63)
				k.data = binary.BigEndian.AppendUint64(k.data, p.wide[i].LowBits())
			case p.parts != nil:
				k.data = p.parts.appendValue(k.data, i)
			default:
				k.data = appendEscaped(k.data, p.text.Bytes(i))
			}
			if p.desc {
				for x := start; x < len(k.data); x++ {
					k.data[x] = ^k.data[x]
				}
			}
		}
		k.offsets = append(k.offsets, len(k.data))
	}
	return k
}

// appendEscaped writes 0 as 0 255 and ends with 0 0, so that no text is a prefix of another.
func appendEscaped(dst, s []byte) []byte {
	for {
		z := bytes.IndexByte(s, 0)
		if z < 0 {
			break
		}
		dst = append(append(dst, s[:z]...), 0, 0xff)
		s = s[z+1:]
	}
	return append(append(dst, s...), 0, 0)
}

func nullClass(after bool) uint8 {
	if after {
		return 2
	}
	return 0
}

func oneWord(words []uint64, a arrow.Array, o sortOrder, n int) *sortedKeys {
	k := &sortedKeys{words: words}
	if valid := batch.Validity(a); valid != nil {
		k.class = make([]uint8, n)
		for i := range k.class {
			k.class[i] = 1
			if !batch.BitSet(valid, i) {
				k.class[i], k.words[i] = nullClass(o.nullsAfter), 0
			}
		}
	}
	return k
}

// orderedWords returns values of at most 64 bits as words in their order; nil
// if there is no such form.
func orderedWords(a arrow.Array, o sortOrder, rank bool) []uint64 {
	var out []uint64
	switch a.DataType().ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.DATE32, arrow.INT64:
		out = function.Bits64(o.t, a, make([]uint64, 0, a.Len()))
		for i := range out {
			out[i] ^= 1 << 63
		}
	case arrow.FLOAT32:
		out = make([]uint64, a.Len())
		for i, x := range batch.Values[float32](a) {
			out[i] = orderedFloat(float64(x))
		}
	case arrow.FLOAT64:
		out = make([]uint64, a.Len())
		for i, x := range batch.Values[float64](a) {
			out[i] = orderedFloat(x)
		}
	case arrow.DICTIONARY:
		if !rank {
			return nil
		}
		out = ranks(a)
	default:
		return nil
	}
	if o.desc {
		for i := range out {
			out[i] = ^out[i]
		}
	}
	return out
}

// orderedFloat maps -0 to 0, NaN to the greatest, and orders the rest.
func orderedFloat(x float64) uint64 {
	if x != x {
		return math.MaxUint64
	}
	b := math.Float64bits(x + 0)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// ranks returns for each row the place of its value among the dictionary's.
func ranks(a arrow.Array) []uint64 {
	d := batch.DictionaryOf(a)
	t := batch.TextOfData(d)
	order := make([]int32, d.Len())
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(x, y int32) int { return bytes.Compare(t.Bytes(int(x)), t.Bytes(int(y))) })
	rank := make([]uint64, d.Len())
	for r, c := range order {
		rank[c] = uint64(r)
	}
	valid := batch.Validity(a)
	out := make([]uint64, a.Len())
	for i, c := range batch.Values[int32](a) {
		if valid == nil || batch.BitSet(valid, i) {
			out[i] = rank[c]
		}
	}
	return out
}

// compareWith compares row i of k with row j of o, both encoded alike.
func (k *sortedKeys) compareWith(i int, o *sortedKeys, j int) int {
	if k.words == nil {
		return bytes.Compare(k.data[k.offsets[i]:k.offsets[i+1]], o.data[o.offsets[j]:o.offsets[j+1]])
	}
	if c := cmp.Compare(k.classOf(i), o.classOf(j)); c != 0 {
		return c
	}
	return cmp.Compare(k.words[i], o.words[j])
}

func (k *sortedKeys) classOf(i int) uint8 {
	if k.class == nil {
		return 1
	}
	return k.class[i]
}

// sorted returns the rows in the order of their keys, equal ones as they came.
func (k *sortedKeys) sorted() []int32 {
	type entry struct {
		word  uint64 // the key, or its first bytes
		row   int32
		class uint8
	}
	n := len(k.words)
	if k.words == nil {
		n = len(k.offsets) - 1
	}
	entries := make([]entry, n)
	for i := range entries {
		e := entry{row: int32(i)}
		if k.words != nil {
			e.word, e.class = k.words[i], k.classOf(i)
		} else {
			var first [8]byte
			copy(first[:], k.data[k.offsets[i]:k.offsets[i+1]])
			e.word = binary.BigEndian.Uint64(first[:])
		}
		entries[i] = e
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if a.class != b.class {
			return int(a.class) - int(b.class)
		}
		if a.word != b.word {
			if a.word < b.word {
				return -1
			}
			return 1
		}
		if k.words == nil {
			if c := bytes.Compare(k.data[k.offsets[a.row]:k.offsets[a.row+1]], k.data[k.offsets[b.row]:k.offsets[b.row+1]]); c != 0 {
				return c
			}
		}
		return int(a.row) - int(b.row)
	})
	out := make([]int32, n)
	for i, e := range entries {
		out[i] = e.row
	}
	return out
}
