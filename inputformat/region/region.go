// Package region reads tables of the region store: one split a region, or
// several cut at row groups when there are fewer regions than slots.
package region

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Name is the format's name in a registry.
const Name = "region"

// Spec asks for rows of a table.
type Spec struct {
	Table *storage.Table
	At    storage.Timestamp // the snapshot
	// Ranges are ascending and disjoint; nil: all keys; empty but not nil: no
	// row at all.
	Ranges  []storage.KeyRange
	Columns schema.Columns    // of the output, in order
	Filter  storage.Predicate // nil: all rows
	Limit   int64             // 0: none; a split may stop after so many rows
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
	fmt.Fprintf(&b, "%s, %d of %d columns", s.Table.Name, len(s.Columns), len(s.Table.Columns))
	switch {
	case s.Ranges == nil:
	case len(s.Ranges) == 0:
		b.WriteString(", no keys")
	case len(s.Ranges) == 1:
		fmt.Fprintf(&b, ", keys %s", s.Ranges[0])
	default:
		fmt.Fprintf(&b, ", %d key ranges from %s", len(s.Ranges), s.Ranges[0])
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
	for _, r := range regions {
		if len(clip(spec.Ranges, r.Range)) > 0 {
			kept++
		}
	}
	return kept, len(regions), nil
}

// clip returns the parts of ranges (nil: all keys) that lie in r.
func clip(ranges []storage.KeyRange, r storage.KeyRange) []storage.KeyRange {
	if ranges == nil {
		return []storage.KeyRange{r}
	}
	var out []storage.KeyRange
	for _, x := range ranges {
		if part, ok := x.Intersect(r); ok {
			out = append(out, part)
		}
	}
	return out
}

// part is a split in the making.
type part struct {
	region storage.RegionStats
	ranges []storage.KeyRange
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
				Hosts: []cluster.WorkerID{p.region.Worker},
				Body:  Body{Ranges: p.ranges},
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
	var parts []part
	var total int64
	for _, r := range regions {
		if own := clip(spec.Ranges, r.Range); len(own) > 0 {
			size := r.Bytes + r.DeltaBytes
			parts = append(parts, part{region: r, ranges: own, rows: r.Rows, bytes: size})
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
	span := storage.KeyRange{Start: p.ranges[0].Start, End: p.ranges[len(p.ranges)-1].End}
	keys, sizes, err := f.store.CutKeys(ctx, spec.Table, p.region.ID, span, spec.At, n)
	if errors.Is(err, storage.ErrRegionGone) {
		return []part{p}, nil // it was split meanwhile: its key range is still right
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
		own := clip(p.ranges, piece)
		if piece.Empty() || !span.Covers(piece) {
			return nil, fault.Bugf("region %d: cut key %d is not inside %s", p.region.ID, i, span)
		}
		if len(own) == 0 {
			continue
		}
		q := part{region: p.region, ranges: own}
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
	// Open the first range now: errors of the request show here.
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	return r, nil
}
