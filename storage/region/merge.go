package region

import (
	"bytes"
	"context"
	"io"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// source yields versions by key and, within a key, newest first, with their
// keys. *segment.Scanner and *deltaSource are sources.
type source interface {
	Next(ctx context.Context) (*segment.Chunk, error)
	Close() error
}

// chunks is a source of one chunk.
type chunks struct{ c *segment.Chunk }

func oneChunk(c *segment.Chunk) source { return &chunks{c} }

func (c *chunks) Next(context.Context) (*segment.Chunk, error) {
	out := c.c
	c.c = nil
	if out == nil {
		return nil, io.EOF
	}
	return out, nil
}

func (c *chunks) Close() error { return nil }

// input is a source in a merge. Of two versions with one key and timestamp
// the one of the later input wins.
type input struct {
	src   source
	begin storage.Timestamp // of all rows, when chunks have none of their own
	stats *storage.ScanStats

	c    *segment.Chunk // nil at the end
	pos  int            // next row of c, counted among the selected
	n    int
	pass []uint64 // bitmap by value position of what the filter accepts; nil: all
	keep []int32  // survivors of c
}

func (in *input) row(i int) int32 {
	if in.c.Sel != nil {
		return in.c.Sel[i]
	}
	return int32(i)
}

func (in *input) key(i int) storage.Key { return in.c.Keys.At(int(in.row(i))) }

func (in *input) ts(row int32) storage.Timestamp {
	if in.c.Begin == nil {
		return in.begin
	}
	return in.c.Begin[row]
}

// merger merges versions of the same keys and keeps of each key the newest
// that began at or before at, unless it is a deletion or was ended by a
// truncate, and the filter accepts it. The filter looks at rows as they are in
// the chunks, before the merge, but decides only about those that survive it.
//
// Unordered, it yields each chunk with a selection, copying nothing. Ordered,
// it gathers rows in key order.
type merger struct {
	inputs  []*input
	at      storage.Timestamp
	since   eras
	filter  *segment.Filter // nil: all; bound to the chunks' columns
	width   int             // columns to yield, the first so many of the chunks'
	ordered bool
	keys    bool // yield keys too; only when ordered

	started bool
	era     int         // in since, of last
	last    storage.Key // the key of the row before, nil at first
	decided bool        // the version of last that counts was found
	picks   []pick      // ordered rows not yet yielded
}

// pick is a row of an ordered result.
type pick struct {
	c   *segment.Chunk
	row int32
}

// next returns the next rows that count, or io.EOF.
func (m *merger) next(ctx context.Context) (*segment.Chunk, error) {
	if !m.started {
		m.started = true
		for _, in := range m.inputs {
			if err := m.load(ctx, in); err != nil {
				return nil, err
			}
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		best, bound := m.lowest()
		if best == nil {
			return m.gather(len(m.picks))
		}
		m.take(best, bound)
		if m.ordered && len(m.picks) >= batch.MaxRows {
			if best.pos == best.n {
				if err := m.load(ctx, best); err != nil {
					return nil, err
				}
			}
			return m.gather(batch.MaxRows)
		}
		if best.pos < best.n {
			continue
		}
		done, keep := best.c, best.keep
		if err := m.load(ctx, best); err != nil {
			return nil, err
		}
		if !m.ordered && len(keep) > 0 {
			out := &segment.Chunk{Row: done.Row}
			out.Batch = batch.Batch{Columns: done.Columns[:m.width], Len: done.Len, Sel: keep}
			return out, nil
		}
	}
}

// load moves an input to its next chunk that isn't empty.
func (m *merger) load(ctx context.Context, in *input) error {
	in.c, in.pos, in.n, in.keep, in.pass = nil, 0, 0, nil, nil
	for {
		c, err := in.src.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if in.n = c.Rows(); in.n == 0 {
			continue
		}
		in.c = c
		if m.filter == nil {
			return nil
		}
		sel, err := m.filter.Select(&c.Batch)
		if err != nil {
			return err
		}
		if sel == nil && c.Sel == nil {
			return nil
		}
		in.pass = make([]uint64, (c.Len+63)/64)
		for _, i := range sel {
			in.pass[i/64] |= 1 << (i % 64)
		}
		return nil
	}
}

// lowest returns the input whose row comes first, and the lowest key among
// the others: rows below it can be taken without looking at them.
func (m *merger) lowest() (best *input, bound storage.Key) {
	for _, in := range m.inputs {
		if in.c == nil {
			continue
		}
		key := in.key(in.pos)
		if best == nil {
			best = in
			continue
		}
		bestKey := best.key(best.pos)
		c := bytes.Compare(key, bestKey)
		if c < 0 || (c == 0 && in.ts(in.row(in.pos)) >= best.ts(best.row(best.pos))) {
			best, key = in, bestKey
		}
		if bound == nil || bytes.Compare(key, bound) < 0 {
			bound = key
		}
	}
	return best, bound
}

// take takes the first row of an input and those after it that lie below bound.
func (m *merger) take(in *input, bound storage.Key) {
	end := in.n
	if bound != nil {
		// Gallop: mostly the bound is far away or right here.
		step, lo := 1, in.pos+1
		for lo+step < in.n && bytes.Compare(in.key(lo+step-1), bound) < 0 {
			lo, step = lo+step, 2*step
		}
		hi := min(lo+step, in.n)
		end = lo + sort.Search(hi-lo, func(i int) bool { return bytes.Compare(in.key(lo+i), bound) >= 0 })
	}
	for ; in.pos < end; in.pos++ {
		row := in.row(in.pos)
		key := in.c.Keys.At(int(row))
		if m.last == nil || !bytes.Equal(key, m.last) {
			m.last, m.decided = key, false
			m.era = m.since.move(m.era, key)
		}
		if m.decided {
			in.superseded()
			continue
		}
		ts := in.ts(row)
		if ts > m.at {
			in.superseded()
			continue
		}
		m.decided = true
		switch {
		case ts < m.since[m.era].since || (in.c.Deleted != nil && in.c.Deleted[row]):
			in.superseded()
		case in.pass != nil && in.pass[row/64]>>(row%64)&1 == 0:
			if in.stats != nil {
				in.stats.Filtered++
			}
		default:
			if in.stats != nil {
				in.stats.Emitted++
			}
			if m.ordered {
				m.picks = append(m.picks, pick{in.c, row})
			} else {
				in.keep = append(in.keep, row)
			}
		}
		if m.ordered && len(m.picks) >= batch.MaxRows {
			in.pos++
			return
		}
	}
}

func (in *input) superseded() {
	if in.stats != nil {
		in.stats.Superseded++
	}
}

// gather yields the first n picked rows.
func (m *merger) gather(n int) (*segment.Chunk, error) {
	if n == 0 {
		return nil, io.EOF
	}
	picks := m.picks[:n]
	// Rows of one chunk are gathered together, then all brought in order.
	type part struct {
		c    *segment.Chunk
		rows []int32
	}
	var parts []*part
	index := map[*segment.Chunk]*part{}
	for _, p := range picks {
		q := index[p.c]
		if q == nil {
			q = &part{c: p.c}
			index[p.c] = q
			parts = append(parts, q)
		}
		q.rows = append(q.rows, p.row)
	}
	out := &segment.Chunk{}
	out.Len, out.Columns = n, make([]arrow.Array, m.width)
	order := make([]int32, n)
	if len(parts) > 1 {
		next := map[*segment.Chunk]int32{}
		at := int32(0)
		for _, q := range parts {
			next[q.c] = at
			at += int32(len(q.rows))
		}
		for i, p := range picks {
			order[i] = next[p.c]
			next[p.c]++
		}
	}
	for col := range out.Columns {
		arrays := make([]arrow.Array, len(parts))
		for i, q := range parts {
			arrays[i] = batch.Gather(q.c.Columns[col], q.rows)
		}
		out.Columns[col] = arrays[0]
		if len(parts) > 1 {
			out.Columns[col] = batch.Gather(batch.Concat(arrays), order)
		}
	}
	if m.keys {
		for _, p := range picks {
			out.Keys.Append(p.c.Keys.At(int(p.row)))
		}
	}
	m.picks = append(m.picks[:0], m.picks[n:]...)
	return out, nil
}

// concatChunks puts chunks with keys, and without selections, together.
func concatChunks(parts []*segment.Chunk, columns schema.Columns) *segment.Chunk {
	if len(parts) == 1 {
		return parts[0]
	}
	out := &segment.Chunk{}
	if len(parts) == 0 {
		newRowBuilder(columns).finish(out)
		return out
	}
	for _, p := range parts {
		out.Len += p.Len
		for i := range p.Keys.Len() {
			out.Keys.Append(p.Keys.At(i))
		}
	}
	out.Columns = make([]arrow.Array, len(columns))
	for col := range columns {
		arrays := make([]arrow.Array, len(parts))
		for i, p := range parts {
			arrays[i] = p.Columns[col]
		}
		out.Columns[col] = batch.Concat(arrays)
	}
	return out
}

// close closes the inputs' sources.
func (m *merger) close() (err error) {
	for _, in := range m.inputs {
		if e := in.src.Close(); err == nil {
			err = e
		}
	}
	return err
}

// each calls f with all rows of a merge.
func each(ctx context.Context, m *merger, f func(*segment.Chunk) error) error {
	for {
		c, err := m.next(ctx)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = f(c)
		}
		if err != nil {
			return err
		}
	}
}
