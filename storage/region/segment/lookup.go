package segment

import (
	"bytes"
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// stripe are the rows that a lookup found in one stripe of a row group.
type stripe struct {
	group int
	first int64 // row of the row group
	rows  []int32
}

// Lookup returns all versions of some keys (ascending, unique), in row order,
// with Keys, Begin and Deleted. The chunk may be empty, and longer than
// batch.MaxRows if there are more keys or versions than that; its Row is -1.
// A key costs a page of the key column, found by the key index, and a page of
// each output column.
func (r *Reader) Lookup(ctx context.Context, keys []storage.Key, columns schema.Columns) (*Chunk, error) {
	out := &Chunk{Row: -1, Batch: batch.Batch{Columns: make([]arrow.Array, len(columns))}}
	stripes, err := r.find(ctx, keys, out)
	if err != nil {
		return nil, err
	}
	parts := make([][]arrow.Array, len(columns))
	chunks := make([]*chunkReader, len(r.columns))
	// All that is handed on is gathered, so copied, from pages.
	defer func() {
		for _, c := range chunks {
			if c != nil {
				r.cache.giveBack(c.scratch)
			}
		}
	}()
	for _, st := range stripes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		chunk := func(leaf int) (*chunkReader, error) {
			if chunks[leaf] == nil || chunks[leaf].group != st.group {
				keep := r.columns[leaf].nest != nil // see nest.gather
				if chunks[leaf], err = r.chunk(st.group, leaf, chunkOptions{keep: keep}, chunks[leaf]); err != nil {
					return nil, err
				}
			}
			return chunks[leaf], nil
		}
		get := func(leaf int, t schema.Type) (arrow.Array, error) {
			if n := r.columns[leaf].nest; n != nil {
				return n.gather(chunk, st.first, st.rows)
			}
			c, err := chunk(leaf)
			if err != nil {
				return nil, err
			}
			return c.gather(st.first, st.rows, t)
		}
		for i, c := range columns {
			leaf, err := r.leafOf(c)
			if err != nil {
				return nil, err
			}
			if leaf < 0 {
				parts[i] = append(parts[i], array.MakeArrayOfNull(memory.DefaultAllocator, c.Type.Arrow(), len(st.rows)))
				continue
			}
			a, err := get(leaf, c.Type)
			if err != nil {
				return nil, err
			}
			parts[i] = append(parts[i], a)
		}
		var part Chunk
		err := r.versions(&part, len(st.rows), func(leaf int) (vector, error) {
			a, err := get(leaf, r.columns[leaf].typ)
			if err != nil {
				return vector{}, err
			}
			return vectorOf(a, r.columns[leaf].typ)
		})
		if err != nil {
			return nil, err
		}
		out.Begin = append(out.Begin, part.Begin...)
		out.Deleted = append(out.Deleted, part.Deleted...)
	}
	for i, p := range parts {
		switch len(p) {
		case 0:
			out.Columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, columns[i].Type.Arrow(), 0)
		case 1:
			out.Columns[i] = p[0]
		default:
			out.Columns[i] = batch.Concat(p)
		}
	}
	return out, nil
}

// find finds the rows of keys, in row order, and adds their keys to out.
func (r *Reader) find(ctx context.Context, keys []storage.Key, out *Chunk) ([]stripe, error) {
	var stripes []stripe
	k := &keyReader{r: r}
	defer k.close()
	for i, key := range keys {
		if i&63 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		if i > 0 && bytes.Compare(keys[i-1], key) >= 0 {
			return nil, fault.Bugf("lookup in segment %s: key %x comes after %x", r.file.path, []byte(key), []byte(keys[i-1]))
		}
		if bytes.Compare(key, r.meta.FirstKey) < 0 || bytes.Compare(key, r.meta.LastKey) > 0 {
			continue
		}
		row, err := r.search(k, key)
		if err != nil {
			return nil, err
		}
		for ; row < r.meta.Rows; row++ {
			g := r.groupOf(row)
			in := row - r.meta.RowGroups[g].FirstRow
			var got []byte
			if len(r.key) == 0 {
				got = r.meta.ImplicitKey(nil, row)
			} else if got, err = k.at(g, in); err != nil {
				return nil, err
			}
			if !bytes.Equal(got, key) {
				break
			}
			first := in / stripeRows * stripeRows
			if n := len(stripes); n == 0 || stripes[n-1].group != g || stripes[n-1].first != first {
				stripes = append(stripes, stripe{group: g, first: first})
			}
			s := &stripes[len(stripes)-1]
			s.rows = append(s.rows, int32(in-first))
			out.Positions = append(out.Positions, row)
			out.Keys.Append(key)
			out.Len++
		}
	}
	return stripes, nil
}

// groupOf returns the row group of a row of the file.
func (r *Reader) groupOf(row int64) int {
	groups := r.meta.RowGroups
	lo, hi := 0, len(groups)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; groups[mid].FirstRow <= row {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// gather returns the values of rows (ascending, relative to first).
func (c *chunkReader) gather(first int64, rows []int32, t schema.Type) (arrow.Array, error) {
	var parts []arrow.Array
	for len(rows) > 0 {
		v, page, err := c.page(first + int64(rows[0]))
		if err != nil {
			return nil, err
		}
		at := make([]int32, 0, len(rows))
		for len(rows) > 0 && first+int64(rows[0]) < page+int64(v.n) {
			at = append(at, int32(first-page)+rows[0])
			rows = rows[1:]
		}
		a, err := v.array(t, 0, v.n)
		if err != nil {
			return nil, err
		}
		parts = append(parts, batch.Gather(a, at))
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return batch.Concat(parts), nil
}
