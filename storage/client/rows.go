package client

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// needKey refuses a table whose rows have no keys of their own.
func needKey(t *storage.Table) error {
	if !t.Keyed() {
		return fault.Userf("table %s has no row key: rows can't be put, got or deleted by key", t.Name)
	}
	return nil
}

// keyer makes the row keys of batches.
type keyer struct {
	encoder *rowkey.Encoder
	at      []int  // the encoder's columns in the batch
	suffix  []byte // of every key
}

// newKeyer returns a keyer of t's row key for batches with the given columns,
// after one of partition ids if the table is partitioned.
func newKeyer(t *storage.Table, columns schema.Columns) (*keyer, error) {
	k := &keyer{encoder: rowkey.ForTable(t)}
	first := 0
	if t.Partitioned {
		k.at, first = append(k.at, 0), 1
	}
	for _, c := range t.KeyColumns() {
		i := columns.ByID(c.ID)
		if i < 0 {
			return nil, fault.Userf("table %s: column %s of the row key is missing", t.Name, c.Name)
		}
		k.at = append(k.at, first+i)
	}
	return k, nil
}

// group is what of some rows goes to one region.
type group struct {
	region storage.Region
	rows   []int32
}

// keys encodes the row keys of a batch's rows, one after the other.
func (k *keyer) keys(b *batch.Batch) (data []byte, offsets []uint32, err error) {
	cols := make([]arrow.Array, len(k.at))
	for i, c := range k.at {
		if c >= len(b.Columns) {
			return nil, nil, fault.Bugf("a batch of %d columns has no column %d", len(b.Columns), c)
		}
		cols[i] = b.Columns[c]
	}
	binding, err := k.encoder.Bind(cols)
	if err != nil {
		return nil, nil, err
	}
	n := b.Rows()
	data, offsets = make([]byte, 0, (16+len(k.suffix))*n), append(make([]uint32, 0, n+1), 0)
	for i := range n {
		row := i
		if b.Sel != nil {
			row = int(b.Sel[i])
		}
		data = append(binding.Append(data, row), k.suffix...)
		offsets = append(offsets, uint32(len(data)))
	}
	return data, offsets, nil
}

// byRegion groups the rows of a batch by region: rows are positions in its columns.
func byRegion(b *batch.Batch, data []byte, offsets []uint32, regions []storage.Region) []group {
	groups := make([]group, len(regions))
	for i := range groups {
		groups[i].region = regions[i]
	}
	last := 0
	for k := range b.Rows() {
		row := int32(k)
		if b.Sel != nil {
			row = b.Sel[k]
		}
		key := storage.Key(data[offsets[k]:offsets[k+1]])
		if !regions[last].Range.Contains(key) {
			last = regionOf(regions, key)
		}
		groups[last].rows = append(groups[last].rows, row)
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.rows) == 0 })
}

// regionOf returns the position of the region that holds key; regions tile.
func regionOf(regions []storage.Region, key storage.Key) int {
	return sort.Search(len(regions), func(i int) bool { return bytes.Compare(regions[i].Range.Start, key) > 0 }) - 1
}

// Put implements storage.Store. Rows of one region are written together or not
// at all; regions are written one after the other.
func (s *Store) Put(ctx context.Context, t *storage.Table, columns schema.Columns, b *batch.Batch) error {
	if err := needKey(t); err != nil {
		return err
	}
	k, err := newKeyer(t, columns)
	if err != nil {
		return err
	}
	if b.Rows() == 0 {
		return nil
	}
	data, offsets, err := k.keys(b)
	if err != nil {
		return fmt.Errorf("put into %s: %w", t.Name, err)
	}
	done := make(map[int32]bool) // rows written before a region was found gone
	return retry(ctx, func() error {
		regions, err := s.regions(ctx, t, storage.Whole())
		if err != nil {
			return err
		}
		for _, g := range byRegion(b, data, offsets, regions) {
			rows := slices.DeleteFunc(g.rows, func(row int32) bool { return done[row] })
			if len(rows) == 0 {
				continue
			}
			server, err := s.server(g.region)
			if err != nil {
				return err
			}
			part := &batch.Batch{Columns: b.Columns, Len: b.Len, Sel: rows}
			if len(rows) == b.Len {
				part.Sel = nil
			}
			if _, err := server.Put(ctx, g.region.ID, columns, part); err != nil {
				return err
			}
			for _, row := range rows {
				done[row] = true
			}
		}
		return nil
	})
}

// keysByRegion groups keys, sorted and made unique, by region.
func keysByRegion(keys []storage.Key, regions []storage.Region) (out []struct {
	region storage.Region
	keys   []storage.Key
}) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b storage.Key) int { return bytes.Compare(a, b) })
	keys = slices.CompactFunc(keys, func(a, b storage.Key) bool { return bytes.Equal(a, b) })
	for len(keys) > 0 {
		r := regions[regionOf(regions, keys[0])]
		n := sort.Search(len(keys), func(i int) bool { return !r.Range.Contains(keys[i]) })
		out = append(out, struct {
			region storage.Region
			keys   []storage.Key
		}{r, keys[:n]})
		keys = keys[n:]
	}
	return out
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, t *storage.Table, keys []storage.Key) error {
	if err := needKey(t); err != nil {
		return err
	}
	// Deleting again what was deleted before a region was found gone is fine.
	return retry(ctx, func() error {
		regions, err := s.regions(ctx, t, storage.Whole())
		if err != nil {
			return err
		}
		for _, g := range keysByRegion(keys, regions) {
			server, err := s.server(g.region)
			if err != nil {
				return err
			}
			if _, err := server.Delete(ctx, g.region.ID, g.keys); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, t *storage.Table, keys []storage.Key, at storage.Timestamp, columns schema.Columns) (*batch.Batch, error) {
	if err := needKey(t); err != nil {
		return nil, err
	}
	var out *batch.Batch
	err := retry(ctx, func() error {
		regions, err := s.regions(ctx, t, storage.Whole())
		if err != nil {
			return err
		}
		var parts []*batch.Batch
		for _, g := range keysByRegion(keys, regions) {
			server, err := s.server(g.region)
			if err != nil {
				return err
			}
			b, err := server.Get(ctx, g.region.ID, g.keys, at, columns)
			if err != nil {
				return err
			}
			if b.Rows() > 0 {
				parts = append(parts, batch.Compact(b))
			}
		}
		out = concat(parts, columns)
		return nil
	})
	return out, err
}

// concat makes one batch of several without selections.
func concat(parts []*batch.Batch, columns schema.Columns) *batch.Batch {
	if len(parts) == 1 {
		return parts[0]
	}
	out := &batch.Batch{Columns: make([]arrow.Array, len(columns))}
	for _, p := range parts {
		out.Len += p.Len
	}
	for i, c := range columns {
		if len(parts) == 0 {
			out.Columns[i] = schema.ArrayOf(c.Type, nil)
			continue
		}
		arrays := make([]arrow.Array, len(parts))
		for k, p := range parts {
			arrays[k] = p.Columns[i]
		}
		out.Columns[i] = batch.Concat(arrays)
	}
	return out
}
