package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

const (
	// A partition of a load is sorted in memory by one task.
	partitionRows  = 1 << 20
	partitionBytes = 256 << 20
	maxPartitions  = 4096
)

// Cuts returns ascending row keys that cut the rows of a load into partitions:
// every region bound is one, and between them as many as keep a partition at
// about a million rows and 256 MiB. sample has rows like those to load, with
// the table's key columns among its fields by name; nil: nothing is known, and
// only region bounds are returned. estRows and estBytes are of the whole load.
//
// The first load into an empty table that wants several regions also makes
// them, at quantiles of the sample; a keyless table's are cut by stripe, and it
// needs no partitions at all: the result is nil.
func Cuts(ctx context.Context, cat catalog.Store, store storage.Store, t *catalog.Table, sample batch.Reader, estRows, estBytes int64) ([][]byte, error) {
	var keys []storage.Key
	if t.Keyed() && sample != nil {
		var err error
		if keys, err = sampleKeys(ctx, &t.Table, sample); err != nil {
			return nil, fmt.Errorf("sample keys for %s: %w", t.Name, err)
		}
	}
	if t.WantRegions > 1 {
		cuts := Stripes(t.WantRegions)
		if t.Keyed() {
			cuts = quantiles(keys, t.WantRegions)
		}
		if len(cuts) > 0 {
			if _, err := store.SpreadEmpty(ctx, &t.Table, cuts); err != nil {
				return nil, err
			}
		}
	}
	if !t.Keyed() {
		return nil, nil
	}
	regions, err := cat.Regions(ctx, t.ID)
	if err != nil {
		return nil, fmt.Errorf("regions of %s: %w", t.Name, err)
	}
	n := max((estRows+partitionRows-1)/partitionRows, (estBytes+partitionBytes-1)/partitionBytes, 1)
	cuts := quantiles(keys, int(min(n, maxPartitions)))
	for _, r := range regions {
		if len(r.Range.Start) > 0 {
			cuts = append(cuts, r.Range.Start)
		}
	}
	slices.SortFunc(cuts, func(a, b storage.Key) int { return bytes.Compare(a, b) })
	cuts = slices.CompactFunc(cuts, func(a, b storage.Key) bool { return bytes.Equal(a, b) })
	out := make([][]byte, len(cuts))
	for i, c := range cuts {
		out[i] = c
	}
	return out, nil
}

// Stripes returns the cuts of a keyless table of n regions: its row ids begin
// with a 16-bit stripe.
func Stripes(n int) []storage.Key {
	n = min(n, 1<<16)
	var cuts []storage.Key
	for i := 1; i < n; i++ {
		s := i * (1 << 16) / n
		cuts = append(cuts, storage.Key{byte(s >> 8), byte(s)})
	}
	return cuts
}

// quantiles returns up to n-1 different keys that cut sorted keys into n parts
// of about equal length; fewer when there are few different keys.
func quantiles(keys []storage.Key, n int) []storage.Key {
	if len(keys) == 0 {
		return nil
	}
	var cuts []storage.Key
	for i := 1; i < n; i++ {
		k := keys[i*len(keys)/n]
		// The lowest key isn't a cut: nothing would lie below it.
		if bytes.Compare(k, keys[0]) > 0 && (len(cuts) == 0 || !bytes.Equal(k, cuts[len(cuts)-1])) {
			cuts = append(cuts, k)
		}
	}
	return cuts
}

// sampleKeys reads a sample to its end and returns its row keys, sorted.
func sampleKeys(ctx context.Context, t *storage.Table, sample batch.Reader) ([]storage.Key, error) {
	fields := sample.Fields()
	columns := make([]rowkey.Column, len(t.Key))
	at := make([]int, len(t.Key))
	for i, c := range t.KeyColumns() {
		columns[i] = rowkey.Column{Type: c.Type, Desc: t.Key[i].Desc}
		at[i] = -1
		for k, f := range fields {
			if f.Name == c.Name {
				at[i] = k
			}
		}
		if at[i] < 0 || !fields[at[i]].Type.Equal(c.Type) {
			return nil, fault.Bugf("it has no column %s of type %s", c.Name, c.Type)
		}
	}
	encoder := rowkey.NewEncoder(columns)
	var keys []storage.Key
	for {
		b, err := sample.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		cols := make([]arrow.Array, len(at))
		for i, k := range at {
			cols[i] = b.Columns[k]
		}
		binding, err := encoder.Bind(cols)
		if err != nil {
			return nil, err
		}
		data, offsets := binding.AppendAll(nil, nil, b.Sel, b.Len)
		for i := range b.Rows() {
			keys = append(keys, data[offsets[i]:offsets[i+1]:offsets[i+1]])
		}
	}
	slices.SortFunc(keys, func(a, b storage.Key) int { return bytes.Compare(a, b) })
	return keys, nil
}
