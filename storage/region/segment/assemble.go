package segment

import (
	"math/bits"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// levels are those of a page of a nested column's leaf, or of some of its rows,
// with the values of the entries that have one, in their order.
type levels struct {
	reps, defs []uint8
	rows       []int32 // entry at which each row begins
	values     vector
	at         []int32 // how many values there are before each row
}

// decodeLevels decodes levels of at most max into n bytes.
func decodeLevels(b []byte, max, n int) ([]uint8, error) {
	if max == 0 {
		return make([]uint8, n), nil
	}
	e := rle.Encoding{BitWidth: bits.Len(uint(max))}
	out, err := e.DecodeLevels(make([]uint8, 0, n+8), b)
	if err != nil {
		return nil, err
	}
	if len(out) < n {
		return nil, fault.Bugf("%d levels for %d values", len(out), n)
	}
	for _, x := range out[:n] {
		if int(x) > max {
			return nil, fault.Bugf("a level of %d where %d is the highest", x, max)
		}
	}
	return out[:n], nil
}

// newLevels finds the rows in a page's levels.
func newLevels(l *nest, reps, defs []uint8, rows int) (*levels, int, error) {
	v := &levels{reps: reps, defs: defs, rows: make([]int32, 0, rows), at: make([]int32, 0, rows)}
	values := 0
	for i, rep := range reps {
		if rep == 0 {
			v.rows, v.at = append(v.rows, int32(i)), append(v.at, int32(values))
		}
		if int(defs[i]) == l.def {
			values++
		}
	}
	if len(v.rows) != rows || len(reps) > 0 && reps[0] != 0 {
		return nil, 0, fault.Bugf("levels of %d rows instead of %d", len(v.rows), rows)
	}
	return v, values, nil
}

// valid returns which rows aren't NULL in the column, nil if all.
func (v *levels) valid() []byte {
	out := make([]byte, (len(v.rows)+63)/64*8)
	nulls := false
	for i, e := range v.rows {
		if v.defs[e] > 0 {
			out[i>>3] |= 1 << (i & 7)
		} else {
			nulls = true
		}
	}
	if !nulls {
		return nil
	}
	return out
}

// decodeNested decodes a page of a nested column's leaf.
func (c *chunkReader) decodeNested(h *format.PageHeader, body []byte, rows int) error {
	v2, l := &h.DataPageHeaderV2.V, c.col.level
	entries, reps, defs := int(v2.NumValues), int(v2.RepetitionLevelsByteLength), int(v2.DefinitionLevelsByteLength)
	size := int(h.UncompressedPageSize) - reps - defs
	if int(h.CompressedPageSize) != len(body) || entries < rows || reps < 0 || defs < 0 || reps+defs > len(body) || size < 0 || int(v2.NumRows) != rows {
		return fault.Bugf("a header that doesn't fit: %d values of %d rows for %d rows, %d bytes of %d", entries, v2.NumRows, rows, h.CompressedPageSize, len(body))
	}
	rep, err := decodeLevels(body[:reps], l.rep, entries)
	if err != nil {
		return fault.Bugf("repetition levels: %w", err)
	}
	def, err := decodeLevels(body[reps:reps+defs], l.def, entries)
	if err != nil {
		return fault.Bugf("definition levels: %w", err)
	}
	v, values, err := newLevels(l, rep, def, rows)
	if err != nil {
		return err
	}
	body = body[reps+defs:]
	compressed := !(v2.IsCompressed.Valid && !v2.IsCompressed.V) && c.meta.Codec != format.Uncompressed
	if !compressed && len(body) != size {
		return fault.Bugf("%d bytes instead of %d", len(body), size)
	}
	v.values = vector{n: values, phys: c.col.phys}
	switch v2.Encoding {
	case format.Plain:
		err = c.plain(&v.values, body, size, values, compressed)
	case format.RLE:
		err = c.runs(&v.values, body, size, values, compressed)
	default:
		err = fault.Bugf("encoding %s", v2.Encoding)
	}
	c.vec = vector{n: rows, phys: c.col.phys, valid: v.valid(), levels: v}
	return err
}

// part returns rows [from, to).
func (v *levels) part(from, to int) part {
	p := part{values: &v.values, first: len(v.defs), end: v.values.n}
	first := len(v.defs)
	if from < len(v.rows) {
		first, p.first = int(v.rows[from]), int(v.at[from])
	}
	end := len(v.defs)
	if to < len(v.rows) {
		end, p.end = int(v.rows[to]), int(v.at[to])
	}
	p.reps, p.defs = v.reps[first:end], v.defs[first:end]
	return p
}

// part are some rows of a leaf: their levels, and the values [first, end).
type part struct {
	reps, defs []uint8
	values     *vector
	first, end int
}

// assemble makes the Arrow array of a node from its leaves' parts of the same
// rows.
func (n *nest) assemble(parts []part) (arrow.Array, error) {
	dt := n.typ.Arrow()
	// Any leaf below knows the node's slots; values only the leaf itself.
	reps, defs := parts[0].reps, parts[0].defs
	slots := 0
	for i, d := range defs {
		if int(reps[i]) <= n.rep && int(d) >= n.slot {
			slots++
		}
	}
	valid := make([]byte, (slots+63)/64*8)
	slot, present := 0, 0
	for i, d := range defs {
		if int(reps[i]) <= n.rep && int(d) >= n.slot {
			if int(d) >= n.def {
				valid[slot>>3] |= 1 << (slot & 7)
				present++
			}
			slot++
		}
	}
	if present == slots {
		valid = nil
	}
	children := make([]arrow.Array, len(n.children))
	at := 0
	for i, c := range n.children {
		var err error
		if children[i], err = c.assemble(parts[at : at+c.leaves]); err != nil {
			return nil, err
		}
		at += c.leaves
	}
	switch n.typ.Kind {
	case schema.Struct, schema.Union:
		for _, c := range children {
			if c.Len() != slots {
				return nil, fault.Bugf("a field of %d values in a struct of %d", c.Len(), slots)
			}
		}
		return batch.NewStruct(dt, slots, children, valid), nil
	case schema.Array, schema.Map:
		element := n.children[0]
		offsets := make([]int32, 0, slots+1)
		count := int32(0)
		for i, d := range defs {
			if int(reps[i]) <= n.rep && int(d) >= n.slot {
				offsets = append(offsets, count)
			}
			if int(reps[i]) <= element.rep && int(d) >= element.slot {
				count++
			}
		}
		offsets = append(offsets, count)
		for _, c := range children {
			if c.Len() != int(count) {
				return nil, fault.Bugf("%d elements in lists of %d", c.Len(), count)
			}
		}
		values := children[0]
		if n.typ.Kind == schema.Map {
			values = batch.NewStruct(dt.(*arrow.MapType).Elem(), int(count), children, nil)
		}
		return batch.NewList(dt, offsets, values, valid), nil
	}
	return parts[0].leaf(n, valid, slots, present)
}

// leaf makes the array of a leaf.
func (p *part) leaf(n *nest, valid []byte, slots, present int) (arrow.Array, error) {
	if p.end-p.first != present {
		return nil, fault.Bugf("%d values for %d entries", p.end-p.first, present)
	}
	v := vector{n: slots, phys: p.values.phys, valid: valid}
	from, to := p.first, p.end
	switch s := p.values; {
	case s.bits != nil:
		v.bits = make([]byte, (slots+63)/64*8)
		j := from
		for i := range slots {
			if valid == nil || batch.BitSet(valid, i) {
				if batch.BitSet(s.bits, j) {
					v.bits[i>>3] |= 1 << (i & 7)
				}
				j++
			}
		}
	case s.i32 != nil:
		v.i32 = spread(s.i32[from:to], valid, slots)
	case s.i64 != nil:
		v.i64 = spread(s.i64[from:to], valid, slots)
	case s.f32 != nil:
		v.f32 = spread(s.f32[from:to], valid, slots)
	case s.f64 != nil:
		v.f64 = spread(s.f64[from:to], valid, slots)
	case s.wide != nil:
		v.wide = spread(s.wide[from:to], valid, slots)
	case s.offsets != nil:
		// The text itself is shared with the page.
		v.data = s.data
		v.offsets = make([]int32, slots+1)
		j := from
		v.offsets[0] = s.offsets[from]
		for i := range slots {
			if valid == nil || batch.BitSet(valid, i) {
				j++
			}
			v.offsets[i+1] = s.offsets[j]
		}
	case v.phys == physBool:
		v.bits = make([]byte, (slots+63)/64*8)
	}
	return v.array(n.typ, 0, slots)
}

// nested returns the array of a nested column for rows [row, row+n) of the
// open row group, all within one page of each leaf.
func (n *nest) read(chunk func(leaf int) (*chunkReader, error), row int64, rows int) (arrow.Array, error) {
	parts := make([]part, n.leaves)
	for i := range parts {
		c, err := chunk(n.leaf + i)
		if err != nil {
			return nil, err
		}
		v, first, err := c.page(row)
		if err != nil {
			return nil, err
		}
		at := int(row - first)
		parts[i] = v.levels.part(at, at+rows)
	}
	return n.assemble(parts)
}

// gather returns the values of rows (ascending, relative to first).
func (n *nest) gather(chunk func(leaf int) (*chunkReader, error), first int64, rows []int32) (arrow.Array, error) {
	var parts []arrow.Array
	for len(rows) > 0 {
		c, err := chunk(n.leaf)
		if err != nil {
			return nil, err
		}
		p, end := c.pageRange(c.pageOf(first + int64(rows[0])))
		// The pages of all leaves of a column have the same rows.
		k := sort.Search(len(rows), func(i int) bool { return first+int64(rows[i]) >= end })
		a, err := n.read(chunk, p, int(end-p))
		if err != nil {
			return nil, err
		}
		at := make([]int32, k)
		for i := range at {
			at[i] = int32(first-p) + rows[i]
		}
		parts, rows = append(parts, batch.Gather(a, at)), rows[k:]
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return batch.Concat(parts), nil
}
