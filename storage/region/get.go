package region

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// get returns the rows with these keys (ascending, unique) that the view sees,
// with their keys, in key order.
func (v *view) get(ctx context.Context, keys []storage.Key, columns schema.Columns) (*segment.Chunk, error) {
	var inputs []*input
	for i := range v.v.m.segments {
		e := &v.v.m.segments[i]
		some := within(keys, e)
		if e.minBegin() > v.at || len(some) == 0 {
			continue
		}
		if lo, _ := v.since.bounds(storage.KeyRange{Start: some[0], End: after(some[len(some)-1])}); e.maxBegin() < lo {
			continue
		}
		rd, err := v.v.files[e.file].open(e.meta, v.r.table.Key)
		if err != nil {
			return nil, err
		}
		c, err := rd.Lookup(ctx, some, columns)
		if err != nil {
			return nil, err
		}
		if c.Rows() > 0 {
			inputs = append(inputs, &input{src: oneChunk(c), begin: e.begin})
		}
	}
	c, err := v.lookupDelta(keys, columns)
	if err != nil {
		return nil, err
	}
	if c != nil {
		inputs = append(inputs, &input{src: oneChunk(c)})
	}
	m := &merger{inputs: inputs, at: v.at, since: v.since, ordered: true, keys: true, width: len(columns)}
	var parts []*segment.Chunk
	for {
		c, err := m.next(ctx)
		if errors.Is(err, io.EOF) {
			return concatChunks(parts, columns), nil
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, c)
	}
}

// within returns the keys that may lie in a segment.
func within(keys []storage.Key, e *entry) []storage.Key {
	lo, _ := slices.BinarySearchFunc(keys, e.meta.FirstKey, func(a, b storage.Key) int { return bytes.Compare(a, b) })
	hi, found := slices.BinarySearchFunc(keys, e.meta.LastKey, func(a, b storage.Key) int { return bytes.Compare(a, b) })
	if found {
		hi++
	}
	if lo >= hi {
		return nil
	}
	return keys[lo:hi]
}

// lookupDelta returns the versions of some keys in the delta that began at or
// before the view's timestamp, nil if there are none.
func (v *view) lookupDelta(keys []storage.Key, columns schema.Columns) (*segment.Chunk, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	it, err := newDeltaIter(v.snap, v.v.m.generations, storage.KeyRange{Start: keys[0], End: after(keys[len(keys)-1])})
	if err != nil {
		return nil, err
	}
	rows, c := newRowBuilder(columns), &segment.Chunk{}
	for _, k := range keys {
		if err = it.seek(k); err != nil {
			break
		}
		for err == nil && it.valid() && bytes.Equal(it.key(), k) {
			if it.ts() <= v.at {
				err = addDeltaRow(it, rows, c)
			}
			if err == nil {
				err = it.next()
			}
		}
	}
	if err := errors.Join(err, it.close()); err != nil {
		return nil, err
	}
	if rows.n == 0 {
		return nil, nil
	}
	rows.finish(c)
	return c, nil
}
