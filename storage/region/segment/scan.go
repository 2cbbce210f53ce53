package segment

import (
	"context"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// Scanner is a scan in progress. Not safe for concurrent use.
type Scanner struct {
	r      *Reader
	o      ScanOptions
	leaves []int // of the output columns; -1: not in the file
	filter *node
	counts bool  // no output but row counts
	lo, hi int64 // rows of the file whose keys are in the range

	group  int // open row group; -1 before the first
	row    int64
	n      int   // rows of the chunk at row
	rows   int64 // of the row group
	step   int64 // rows a chunk
	chunks []*chunkReader
	old    []*chunkReader // of earlier row groups
	pass   bool           // the filter accepts all rows of the row group

	keyed   *rowkey.Binding // of the key column's page
	keyPage int
	keyBase int

	// column is a method value, and operands what it returns, so that
	// evaluating the filter allocates nothing.
	column   func(int) (*vector, error)
	operands []vector

	mask     mask
	pending  int64 // rows counted but not yet emitted
	full     *Chunk
	nulls    []arrow.Array
	stats    storage.ScanStats
	err      error
	checkCtx int
}

// Scan starts a scan.
func (r *Reader) Scan(o ScanOptions) (*Scanner, error) {
	s := &Scanner{r: r, o: o, group: -1, hi: r.meta.Rows, chunks: make([]*chunkReader, len(r.columns)), nulls: make([]arrow.Array, len(o.Columns)),
		old: make([]*chunkReader, len(r.columns)), operands: make([]vector, len(r.columns))}
	s.column = s.operand
	for _, c := range o.Columns {
		leaf, err := r.leafOf(c)
		if err != nil {
			return nil, err
		}
		s.leaves = append(s.leaves, leaf)
	}
	if o.Filter != nil {
		var err error
		s.filter, err = compile(o.Filter, func(id schema.ColumnID) (int, schema.Type) {
			if i, ok := r.byField[int32(id)]; ok && int32(id) < keyField {
				return i, r.typeOf(i)
			}
			return -1, schema.VoidType
		})
		if err != nil {
			return nil, fault.Bugf("scan of segment %s: %w", r.file.path, err)
		}
	}
	s.counts = len(o.Columns) == 0 && !o.NeedKeys && !(o.NeedVersions && r.meta.Versions)
	k := &keyReader{r: r}
	defer k.close()
	var err error
	if len(o.Range.Start) > 0 {
		if s.lo, err = r.search(k, o.Range.Start); err != nil {
			return nil, err
		}
	}
	if len(o.Range.End) > 0 {
		if s.hi, err = r.search(k, o.Range.End); err != nil {
			return nil, err
		}
	}
	s.hi = max(s.lo, s.hi)
	return s, nil
}

// leafOf returns where a table column is in the file, -1 if it isn't.
func (r *Reader) leafOf(c schema.Column) (int, error) {
	leaf, ok := r.byField[int32(c.ID)]
	if !ok || int32(c.ID) >= keyField {
		return -1, nil
	}
	t := r.typeOf(leaf)
	if t.IsNested() {
		if !c.Type.IsNested() || !arrow.TypeEqual(t.Arrow(), c.Type.Arrow()) {
			return 0, fault.Bugf("scan of segment %s: column %s is %s in the file, not %s", r.file.path, c.Name, t, c.Type)
		}
		return leaf, nil
	}
	if t.Kind != c.Type.Kind && !(t.IsText() && c.Type.IsText()) || t.Scale != c.Type.Scale {
		return 0, fault.Bugf("scan of segment %s: column %s is %s in the file, not %s", r.file.path, c.Name, t, c.Type)
	}
	return leaf, nil
}

// typeOf returns the type of the table column whose first leaf is leaf.
func (r *Reader) typeOf(leaf int) schema.Type {
	if n := r.columns[leaf].nest; n != nil {
		return n.typ
	}
	return r.columns[leaf].typ
}

// Stats returns what the scan has done so far.
func (s *Scanner) Stats() storage.ScanStats { return s.stats }

// Close ends the scan; safe at any time, twice.
func (s *Scanner) Close() error {
	if s.err == nil {
		s.err = fault.Bugf("scan of segment %s: closed", s.r.file.path)
	}
	s.giveBack()
	return nil
}

// giveBack returns the buffers, of which nothing handed on has a part.
func (s *Scanner) giveBack() {
	for _, list := range [][]*chunkReader{s.chunks, s.old} {
		for i, c := range list {
			if c != nil {
				s.r.cache.giveBack(c.scratch)
				c.scratch, list[i] = nil, nil
			}
		}
	}
}

// Next returns the next chunk with at least one row, or io.EOF. At the end it
// checks that Pruned + Clipped + Filtered + Emitted are the file's rows.
func (s *Scanner) Next(ctx context.Context) (*Chunk, error) {
	if s.err != nil {
		return nil, s.err
	}
	c, err := s.next(ctx)
	if err != nil {
		s.err = err
		s.giveBack()
		return nil, err
	}
	return c, nil
}

func (s *Scanner) next(ctx context.Context) (*Chunk, error) {
	for {
		if s.pending >= batch.MaxRows {
			return s.count(batch.MaxRows), nil
		}
		if s.checkCtx++; s.checkCtx&15 == 1 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		if s.group < 0 || s.row >= s.rows {
			ok, err := s.nextGroup()
			if err != nil {
				return nil, err
			}
			if !ok {
				if s.pending > 0 {
					return s.count(s.pending), nil
				}
				return nil, s.finish()
			}
			continue
		}
		c, err := s.nextChunk()
		if c != nil || err != nil {
			return c, err
		}
	}
}

// finish proves that no row was lost.
func (s *Scanner) finish() error {
	if got := s.stats.Pruned + s.stats.Clipped + s.stats.Filtered + s.stats.Emitted; got != s.r.meta.Rows {
		return fault.Bugf("scan of segment %s: %d of %d rows accounted for: %d pruned, %d clipped, %d filtered, %d emitted",
			s.r.file.path, got, s.r.meta.Rows, s.stats.Pruned, s.stats.Clipped, s.stats.Filtered, s.stats.Emitted)
	}
	return io.EOF
}

// count returns a chunk of rows without columns.
func (s *Scanner) count(n int64) *Chunk {
	s.pending -= n
	if n < batch.MaxRows {
		return &Chunk{Batch: batch.Batch{Len: int(n)}, Row: -1}
	}
	if s.full == nil {
		s.full = &Chunk{Batch: batch.Batch{Len: batch.MaxRows}, Row: -1}
	}
	return s.full
}

// nextGroup opens the next row group that may have rows; false at the end.
func (s *Scanner) nextGroup() (bool, error) {
	groups := s.r.meta.RowGroups
	for s.group++; s.group < len(groups); s.group++ {
		g := &groups[s.group]
		first, end := g.FirstRow, g.FirstRow+g.Rows
		inside := max(0, min(end, s.hi)-max(first, s.lo))
		if inside == 0 {
			s.stats.Clipped += g.Rows
			continue
		}
		for i, c := range s.chunks {
			if c != nil {
				s.old[i] = c // its buffers serve the next row group
			}
		}
		clear(s.chunks)
		s.keyed = nil
		s.row, s.rows = 0, g.Rows
		s.pass = true
		if s.filter != nil {
			v, err := s.judge(g.Rows)
			if err != nil {
				return false, err
			}
			if v == never {
				s.stats.Clipped += g.Rows - inside
				s.stats.Pruned += inside
				continue
			}
			s.pass = v == always
		}
		if s.counts && s.pass {
			s.stats.Clipped += g.Rows - inside
			s.stats.Emitted += inside
			s.pending += inside
			s.row = s.rows
			return true, nil
		}
		s.stats.RowGroups++
		return true, s.openGroup()
	}
	s.row, s.rows = 0, 0
	return false, nil
}

// judge tries to decide the filter for the row group by statistics and
// dictionaries, and orders its parts.
func (s *Scanner) judge(rows int64) (verdict, error) {
	v, err := s.filter.judge(func(l *leaf) (verdict, error) {
		if l.column < 0 {
			return l.judgeNull(), nil
		}
		if s.r.columns[l.column].nest != nil {
			return maybe, nil // a leaf's statistics aren't the column's
		}
		b := s.r.chunkBounds(s.group, l.column)
		return l.judgeBounds(&b, rows), nil
	})
	if err != nil || v != maybe {
		return v, err
	}
	v, err = s.filter.judge(func(l *leaf) (verdict, error) {
		if l.column < 0 {
			return l.judgeNull(), nil
		}
		if s.r.columns[l.column].nest != nil {
			return maybe, nil
		}
		b := s.r.chunkBounds(s.group, l.column)
		if v := l.judgeBounds(&b, rows); v != maybe || l.isNull {
			return v, nil
		}
		c, err := s.chunk(l.column)
		if err != nil || !c.onlyCodes() {
			return maybe, err
		}
		if err := c.openDictionary(); err != nil {
			return maybe, err
		}
		return l.judgeDictionary(c.dict, b.nulls)
	})
	if err == nil && v == maybe {
		s.filter.order(func(column int) int {
			switch c := s.chunks[column]; {
			case c != nil && c.dict != nil:
				return 1
			case s.r.columns[column].phys != physBytes:
				return 2
			}
			return 10
		})
	}
	return v, err
}

// chunk returns the reader of a leaf in the open row group.
func (s *Scanner) chunk(leaf int) (*chunkReader, error) {
	if s.chunks[leaf] == nil {
		o := chunkOptions{scan: true}
		first := leaf
		if n := s.r.columns[leaf].nest; n != nil {
			first = n.leaf
		}
		for _, l := range s.leaves {
			o.keep = o.keep || l == first
		}
		switch f := s.r.columns[leaf].field; {
		case f >= keyField:
			o.keep = f == keyField // keys are handed on as they are
		case leaf == s.r.plain && s.o.NeedKeys:
			o.keep = true // the key encoder holds on to a page
		default:
			o.codes = !o.keep
		}
		c, err := s.r.chunk(s.group, leaf, o, s.old[leaf])
		if err != nil {
			return nil, err
		}
		c.read = &s.stats.BytesRead
		s.chunks[leaf] = c
	}
	return s.chunks[leaf], nil
}

// openGroup works out the size of chunks: pages nest, so with the smallest of
// the columns at hand no chunk ever spans two pages.
func (s *Scanner) openGroup() error {
	need := map[int]bool{}
	for _, l := range s.leaves {
		if l < 0 {
			continue
		}
		need[l] = true
		if n := s.r.columns[l].nest; n != nil {
			for i := range n.leaves {
				need[l+i] = true
			}
		}
	}
	if s.filter != nil && !s.pass {
		s.filter.columns(func(l int) { need[l] = true })
	}
	if s.o.NeedKeys && len(s.r.key) > 0 {
		need[s.keyLeaf()] = true
	}
	if s.o.NeedVersions {
		for _, f := range []int32{beginField, tombstoneField} {
			if l, ok := s.r.byField[f]; ok {
				need[l] = true
			}
		}
	}
	s.step = stripeRows
	for l := range need {
		c, err := s.chunk(l)
		if err != nil {
			return err
		}
		if len(c.locs) > 1 {
			s.step = min(s.step, c.locs[1].FirstRowIndex)
		}
	}
	for l := range need {
		for _, p := range s.chunks[l].locs {
			if p.FirstRowIndex%s.step != 0 || s.step%minPage != 0 {
				return fault.Bugf("scan of segment %s: column %s has a page at row %d, which isn't a multiple of %d", s.r.file.path, s.r.columns[l].name, p.FirstRowIndex, s.step)
			}
		}
	}
	return nil
}

func (s *Scanner) keyLeaf() int {
	if s.r.plain >= 0 {
		return s.r.plain
	}
	return s.r.byField[keyField]
}

// values returns a column's values in the chunk of n rows at s.row.
func (s *Scanner) values(leaf, n int) (vector, error) {
	c, err := s.chunk(leaf)
	if err != nil {
		return vector{}, err
	}
	v, first, err := c.page(s.row)
	if err != nil {
		return vector{}, err
	}
	at := int(s.row - first)
	return v.slice(at, at+n), nil
}

// operand returns a filter column's values in the chunk at s.row.
func (s *Scanner) operand(leaf int) (*vector, error) {
	v, err := s.values(leaf, s.n)
	s.operands[leaf] = v
	return &s.operands[leaf], err
}

// nextChunk reads the rows at s.row. It returns nil when none of them counts.
func (s *Scanner) nextChunk() (*Chunk, error) {
	n := int(min(s.step, s.rows-s.row))
	base := s.r.meta.RowGroups[s.group].FirstRow + s.row
	from, to := int(max(0, min(s.lo-base, int64(n)))), int(max(0, min(s.hi-base, int64(n))))
	inside := max(0, to-from)
	s.stats.Clipped += int64(n - inside)
	if inside == 0 {
		s.row += int64(n)
		return nil, nil
	}
	s.mask = maskOf(s.mask, n)
	s.n = n
	if s.pass {
		s.mask.fill(n)
	} else if err := s.filter.eval(s.mask, n, s.column); err != nil {
		return nil, err
	}
	if inside < n {
		s.mask.clip(from, to)
	}
	count := s.mask.count()
	s.stats.Filtered += int64(inside - count)
	s.stats.Emitted += int64(count)
	if count == 0 {
		s.row += int64(n)
		return nil, nil
	}
	if s.counts {
		s.pending += int64(count)
		s.row += int64(n)
		return nil, nil
	}
	c := &Chunk{Batch: batch.Batch{Len: n, Columns: make([]arrow.Array, len(s.leaves))}, Row: base}
	if count < n {
		c.Sel = s.mask.appendTo(make([]int32, 0, count))
	}
	if err := s.output(c, n); err != nil {
		return nil, err
	}
	s.row += int64(n)
	return c, nil
}

// output fills a chunk's columns, keys and versions.
func (s *Scanner) output(c *Chunk, n int) error {
	for i, leaf := range s.leaves {
		if leaf < 0 {
			c.Columns[i] = s.null(i, n)
			continue
		}
		if tree := s.r.columns[leaf].nest; tree != nil {
			var err error
			if c.Columns[i], err = tree.read(s.chunk, s.row, n); err != nil {
				return err
			}
			continue
		}
		v, err := s.values(leaf, n)
		if err != nil {
			return err
		}
		if c.Columns[i], err = v.array(s.o.Columns[i].Type, 0, n); err != nil {
			return err
		}
	}
	if s.o.NeedKeys {
		if err := s.keys(c, n); err != nil {
			return err
		}
	}
	if s.o.NeedVersions {
		return s.r.versions(c, n, func(leaf int) (vector, error) { return s.values(leaf, n) })
	}
	return nil
}

// versions fills begins and tombstones.
func (r *Reader) versions(c *Chunk, n int, values func(leaf int) (vector, error)) error {
	if leaf, ok := r.byField[beginField]; ok {
		v, err := values(leaf)
		if err != nil {
			return err
		}
		c.Begin = make([]storage.Timestamp, n)
		for i, t := range v.i64 {
			c.Begin[i] = storage.Timestamp(t)
		}
	}
	if leaf, ok := r.byField[tombstoneField]; ok && r.meta.Tombstones > 0 {
		v, err := values(leaf)
		if err != nil {
			return err
		}
		c.Deleted = make([]bool, n)
		for i := range c.Deleted {
			c.Deleted[i] = batch.BitSet(v.bits, i)
		}
	}
	return nil
}

// null returns n NULLs for an output column that the file doesn't have.
func (s *Scanner) null(i, n int) arrow.Array {
	if s.nulls[i] == nil {
		s.nulls[i] = array.MakeArrayOfNull(memory.DefaultAllocator, s.o.Columns[i].Type.Arrow(), stripeRows)
	}
	if n == stripeRows {
		return s.nulls[i]
	}
	return array.NewSlice(s.nulls[i], 0, int64(n))
}

// keys fills the keys of the selected rows; those of others are empty.
func (s *Scanner) keys(c *Chunk, n int) error {
	if len(s.r.key) > 0 && s.r.plain < 0 {
		v, err := s.values(s.keyLeaf(), n)
		if err != nil {
			return err
		}
		offsets := make([]uint32, n+1)
		for i, o := range v.offsets {
			offsets[i] = uint32(o)
		}
		c.Keys = Keys{Offsets: offsets, Data: v.data}
		return nil
	}
	run := runCursor{runs: s.r.meta.Runs}
	add := func(dst []byte, i int) []byte { return run.appendKey(dst, c.Row+int64(i)) }
	if s.r.plain >= 0 {
		chunk, err := s.chunk(s.r.plain)
		if err != nil {
			return err
		}
		v, first, err := chunk.page(s.row)
		if err != nil {
			return err
		}
		if s.keyed == nil || s.keyPage != chunk.current {
			a, err := v.array(s.r.columns[s.r.plain].typ, 0, v.n)
			if err != nil {
				return err
			}
			if s.keyed, err = s.r.encoder.Bind([]arrow.Array{a}); err != nil {
				return err
			}
			s.keyPage, s.keyBase = chunk.current, int(first)
		}
		at := int(s.row) - s.keyBase
		add = func(dst []byte, i int) []byte { return s.keyed.Append(dst, at+i) }
	}
	out := Keys{Offsets: make([]uint32, 1, n+1), Data: make([]byte, 0, 24*c.Rows())}
	next := 0
	for i := range n {
		if c.Sel == nil || next < len(c.Sel) && int(c.Sel[next]) == i {
			out.Data = add(out.Data, i)
			next++
		}
		out.Offsets = append(out.Offsets, uint32(len(out.Data)))
	}
	c.Keys = out
	return nil
}
