// Package region reads tables of the region store: one split a region, or
// several cut at row groups when there are fewer regions than slots.
package region

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// Name is the format's name in a registry.
const Name = "region"

// Spec asks for rows of a table.
type Spec struct {
	Table *storage.Table
	At    storage.Timestamp // the snapshot
	// Ranges are ascending and disjoint; nil: all keys; empty but not nil: no
	// row at all. Of a partitioned table they are of what follows the
	// partition id.
	Ranges []storage.KeyRange
	// Partitions are those to read, of a partitioned table, in any order. Only
	// Splits looks at them: tasks don't need them.
	Partitions []storage.Partition
	// PartitionColumns are the columns that Partitions have values of.
	PartitionColumns schema.Columns
	Columns          schema.Columns    // of the output, in order; partition columns among them
	Filter           storage.Predicate // nil: all rows
	Limit            int64             // 0: none; a split may stop after so many rows
}

// Format implements inputformat.Spec.
func (s Spec) Format() string { return Name }

// Fields implements inputformat.Spec.
func (s Spec) Fields() []schema.Field {
	out := make([]schema.Field, len(s.Columns))
	for i, c := range s.Columns {
		out[i] = schema.Field{Name: c.Name, Type: c.Type}
	}
	return out
}

// Describe implements inputformat.Spec: the table, how many of its columns are
// read, the key ranges and the predicate.
func (s Spec) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d of %d columns", s.Table.Name, len(s.Columns), len(s.Table.Columns)+len(s.PartitionColumns))
	if s.Table.Partitioned {
		fmt.Fprintf(&b, ", %d partitions", len(s.Partitions))
	}
	switch {
	case s.Ranges == nil:
	case len(s.Ranges) == 0:
		b.WriteString(", no keys")
	case len(s.Ranges) == 1:
		fmt.Fprintf(&b, ", keys %s", rowkey.RangeText(rowkey.ColumnsOf(s.Table), s.Ranges[0]))
	default:
		fmt.Fprintf(&b, ", %d key ranges from %s", len(s.Ranges), rowkey.RangeText(rowkey.ColumnsOf(s.Table), s.Ranges[0]))
	}
	if s.Filter != nil {
		fmt.Fprintf(&b, ", where %s", predicateText(s.Table, s.Filter))
	}
	if s.Limit > 0 {
		fmt.Fprintf(&b, ", limit %d", s.Limit)
	}
	return b.String()
}

// Body is what a split of this format carries: key ranges within one region, at the
// Spec's snapshot. They stay valid when the region is split, merged or moved.
type Body struct {
	Ranges []storage.KeyRange
	// Values are, for each of the Ranges, the values of the Spec's
	// PartitionColumns; nil when none of them is read.
	Values [][]schema.Datum
}

// Format implements inputformat.Format.
type Format struct{ store storage.Store }

// New returns the format over a store.
func New(store storage.Store) *Format { return &Format{store: store} }

var _ inputformat.Format = (*Format)(nil)

func specOf(s inputformat.Spec) (Spec, error) {
	spec, ok := s.(Spec)
	if !ok {
		return Spec{}, fault.Bugf("input format %s: a spec of type %T", Name, s)
	}
	return spec, nil
}

// Pruned returns how many regions the Spec's key ranges touch and how many the
// table has.
func (f *Format) Pruned(ctx context.Context, spec Spec) (kept, total int, err error) {
	regions, err := f.store.Regions(ctx, spec.Table)
	if err != nil {
		return 0, 0, err
	}
	all := spec.keys()
	for _, r := range regions {
		if len(all.clip(r.Range).ranges) > 0 {
			kept++
		}
	}
	return kept, len(regions), nil
}

// keySet are ascending, disjoint ranges; values, if not nil, are those of the
// partition columns in each.
type keySet struct {
	ranges []storage.KeyRange
	values [][]schema.Datum
}

// keys returns what the spec reads as ranges of whole row keys.
func (s Spec) keys() keySet {
	if !s.Table.Partitioned {
		if s.Ranges == nil {
			return keySet{ranges: []storage.KeyRange{storage.Whole()}}
		}
		return keySet{ranges: s.Ranges}
	}
	parts := slices.Clone(s.Partitions)
	slices.SortFunc(parts, func(a, b storage.Partition) int { return cmp.Compare(a.ID, b.ID) })
	within := s.Ranges
	if within == nil {
		within = []storage.KeyRange{storage.Whole()}
	}
	wanted := slices.ContainsFunc(s.Columns, func(c schema.Column) bool { return s.PartitionColumns.ByID(c.ID) >= 0 })
	var out keySet
	for _, p := range parts {
		for _, r := range within {
			r = r.In(p.ID)
			if wanted {
				out.values = append(out.values, p.Values)
			} else if n := len(out.ranges); n > 0 && bytes.Equal(out.ranges[n-1].End, r.Start) {
				out.ranges[n-1].End = r.End // neighbours that look alike are read in one go
				continue
			}
			out.ranges = append(out.ranges, r)
		}
	}
	return out
}

// clip returns the parts that lie in r.
func (k keySet) clip(r storage.KeyRange) keySet {
	var out keySet
	// The first range that ends behind r's start.
	from := sort.Search(len(k.ranges), func(i int) bool {
		end := k.ranges[i].End
		return len(end) == 0 || bytes.Compare(end, r.Start) > 0
	})
	for i := from; i < len(k.ranges); i++ {
		part, ok := k.ranges[i].Intersect(r)
		if !ok {
			break
		}
		out.ranges = append(out.ranges, part)
		if k.values != nil {
			out.values = append(out.values, k.values[i])
		}
	}
	return out
}

// part is a split in the making.
type part struct {
	region storage.RegionStats
	keys   keySet
	rows   int64
	bytes  int64
}

// Splits implements inputformat.Format.
func (f *Format) Splits(ctx context.Context, s inputformat.Spec, w inputformat.Want) iter.Seq2[inputformat.Split, error] {
	return func(yield func(inputformat.Split, error) bool) {
		spec, err := specOf(s)
		if err != nil {
			yield(inputformat.Split{}, err)
			return
		}
		parts, err := f.parts(ctx, spec, w)
		if err != nil {
			yield(inputformat.Split{}, fmt.Errorf("splits of %s: %w", spec.Table.Name, err))
			return
		}
		for _, p := range parts {
			sp := inputformat.Split{
				Label: fmt.Sprintf("%s region %d", spec.Table.Name, p.region.ID),
				Bytes: p.bytes, Rows: p.rows,
				Hosts: []cluster.WorkerID{p.region.Worker}, Bound: true,
				Body: Body{Ranges: p.keys.ranges, Values: p.keys.values},
			}
			if !yield(sp, nil) {
				return
			}
		}
	}
}

// parts cuts the regions that the ranges touch. The cuts are checked to cover
// each of them once: a key that is in no split would be a silent wrong answer.
func (f *Format) parts(ctx context.Context, spec Spec, w inputformat.Want) ([]part, error) {
	regions, err := f.store.Regions(ctx, spec.Table)
	if err != nil {
		return nil, err
	}
	ranges := make([]storage.KeyRange, len(regions))
	for i, r := range regions {
		ranges[i] = r.Range
	}
	if err := storage.CheckTiling(storage.Whole(), ranges); err != nil {
		return nil, fault.Bugf("regions: %w", err)
	}
	all := spec.keys()
	var parts []part
	var total int64
	for _, r := range regions {
		if own := all.clip(r.Range); len(own.ranges) > 0 {
			size := r.Bytes + r.DeltaBytes
			parts = append(parts, part{region: r, keys: own, rows: r.Rows, bytes: size})
			total += size
		}
	}
	if len(parts) == 0 || len(parts) >= w.Parallelism {
		return parts, nil
	}
	// Each region gets pieces by its share of the bytes.
	var out []part
	for _, p := range parts {
		n := 1
		if total > 0 {
			n = int((p.bytes*int64(w.Parallelism) + total - 1) / total)
		}
		pieces, err := f.cut(ctx, spec, p, n)
		if err != nil {
			return nil, err
		}
		out = append(out, pieces...)
	}
	return out, nil
}

func (f *Format) cut(ctx context.Context, spec Spec, p part, n int) ([]part, error) {
	if n <= 1 {
		return []part{p}, nil
	}
	span := storage.KeyRange{Start: p.keys.ranges[0].Start, End: p.keys.ranges[len(p.keys.ranges)-1].End}
	keys, sizes, err := f.store.CutKeys(ctx, spec.Table, p.region.ID, span, spec.At, n)
	if errors.Is(err, storage.ErrRegionGone) || errors.Is(err, fault.ErrUnavailable) {
		return []part{p}, nil // it was split meanwhile, or is away: its key range is still right
	}
	if err != nil {
		return nil, err
	}
	var out []part
	for i := 0; i <= len(keys); i++ {
		piece := span
		if i > 0 {
			piece.Start = keys[i-1]
		}
		if i < len(keys) {
			piece.End = keys[i]
		}
		own := p.keys.clip(piece)
		if piece.Empty() || !span.Covers(piece) {
			return nil, fault.Bugf("region %d: cut key %d is not inside %s", p.region.ID, i, span)
		}
		if len(own.ranges) == 0 {
			continue
		}
		q := part{region: p.region, keys: own}
		if len(sizes) == len(keys)+1 {
			q.rows, q.bytes = sizes[i].Rows, sizes[i].Bytes+sizes[i].DeltaBytes
		}
		out = append(out, q)
	}
	return out, nil
}

// Open implements inputformat.Format.
func (f *Format) Open(ctx context.Context, s inputformat.Spec, sp inputformat.Split) (inputformat.Reader, error) {
	spec, err := specOf(s)
	if err != nil {
		return nil, err
	}
	body, ok := sp.Body.(Body)
	if !ok {
		return nil, fault.Bugf("input format %s: a split of type %T", Name, sp.Body)
	}
	for i := 1; i < len(body.Ranges); i++ {
		if end := body.Ranges[i-1].End; len(end) == 0 || bytes.Compare(body.Ranges[i].Start, end) < 0 {
			return nil, fault.Bugf("input format %s: the split's ranges overlap", Name)
		}
	}
	r := &reader{store: f.store, spec: spec, fields: spec.Fields(), ranges: slices.Clone(body.Ranges), left: spec.Limit}
	for _, c := range spec.Columns {
		at := spec.PartitionColumns.ByID(c.ID)
		if at >= 0 && len(body.Values) != len(body.Ranges) {
			return nil, fault.Bugf("input format %s: the split has no values of partition column %s", Name, c.Name)
		}
		if r.partition = append(r.partition, at); at < 0 {
			r.stored = append(r.stored, c)
		}
	}
	if len(r.stored) < len(spec.Columns) {
		r.values = slices.Clone(body.Values)
	}
	// Open the first range now: errors of the request show here.
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	return r, nil
}
