package region

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// segmentRead is a segment's part in a scan.
type segmentRead struct {
	e     *entry
	rd    *segment.Reader
	r     storage.KeyRange // of rows that the scan wants of it
	clean bool             // its rows need no version work by themselves
	stats storage.ScanStats
}

// piece is a key range of a scan in which the same sources have rows. A piece
// with one clean segment and no delta is read column by column with the filter
// pushed down; others are merged by key.
type piece struct {
	r        storage.KeyRange
	segments []*segmentRead
	delta    bool
}

func (p *piece) columnar() bool { return !p.delta && len(p.segments) == 1 && p.segments[0].clean }

// maxCuts is how many delta rows in the middle of a clean segment are cut out
// of it one by one. With more, whole row groups are merged.
const maxCuts = 16

// segmentReads opens the segments that may have rows of the view in r.
func (v *view) segmentReads(r storage.KeyRange) ([]*segmentRead, error) {
	var out []*segmentRead
	for i := range v.v.m.segments {
		e := &v.v.m.segments[i]
		want, ok := r.Intersect(e.clip)
		if !ok || !e.meta.Overlaps(want) || e.minBegin() > v.at || e.maxBegin() < v.since {
			continue
		}
		rd, err := v.v.files[e.file].open(e.meta, v.r.table.Key)
		if err != nil {
			return nil, err
		}
		out = append(out, &segmentRead{
			e: e, rd: rd, r: want,
			clean: !e.meta.MultiVersion && e.meta.Tombstones == 0 && e.minBegin() >= v.since && e.maxBegin() <= v.at,
		})
	}
	return out, nil
}

// span returns the keys in which the segment can have wanted rows.
func (s *segmentRead) span() storage.KeyRange {
	span, _ := s.r.Intersect(storage.KeyRange{Start: s.e.meta.FirstKey, End: after(s.e.meta.LastKey)})
	return span
}

// deltaKeys returns the keys in r, each once, that have a version in the delta
// which matters at the view's timestamp.
func (v *view) deltaKeys(r storage.KeyRange) ([]storage.Key, error) {
	if v.snap == nil {
		return nil, nil
	}
	it, err := newDeltaIter(v.snap, v.v.m.generations, r)
	if err != nil {
		return nil, err
	}
	var keys []storage.Key
	for err = it.first(); err == nil && it.valid(); err = it.next() {
		if ts := it.ts(); ts > v.at || ts < v.since {
			continue
		}
		if n := len(keys); n == 0 || !bytes.Equal(keys[n-1], it.key()) {
			keys = append(keys, bytes.Clone(it.key()))
		}
	}
	if closeErr := it.close(); err == nil {
		err = closeErr
	}
	return keys, err
}

// plan cuts r into pieces in ascending order; keys that no source has rows
// for are in none of them. keys are deltaKeys.
func plan(r storage.KeyRange, reads []*segmentRead, keys []storage.Key) []*piece {
	var bounds []storage.Key
	for _, s := range reads {
		span := s.span()
		bounds = append(bounds, span.Start, span.End)
	}
	bounds = append(bounds, r.Start)
	slices.SortFunc(bounds, func(a, b storage.Key) int { return bytes.Compare(a, b) })
	bounds = slices.CompactFunc(bounds, func(a, b storage.Key) bool { return bytes.Equal(a, b) })
	var out []*piece
	for i, b := range bounds {
		p := &piece{r: storage.KeyRange{Start: b, End: r.End}}
		if i+1 < len(bounds) {
			p.r.End = bounds[i+1]
		}
		if p.r.Empty() {
			continue
		}
		for _, s := range reads {
			if _, ok := s.span().Intersect(p.r); ok {
				p.segments = append(p.segments, s)
			}
		}
		inside := keysIn(keys, p.r)
		if p.delta = len(inside) > 0; p.delta && len(p.segments) == 1 && p.segments[0].clean {
			out = append(out, cutAround(p, inside)...)
			continue
		}
		if p.delta || len(p.segments) > 0 {
			out = append(out, p)
		}
	}
	return join(out)
}

// keysIn returns the part of sorted keys that lies in r.
func keysIn(keys []storage.Key, r storage.KeyRange) []storage.Key {
	cmp := func(a, b storage.Key) int { return bytes.Compare(a, b) }
	lo, _ := slices.BinarySearchFunc(keys, r.Start, cmp)
	hi := len(keys)
	if len(r.End) > 0 {
		hi, _ = slices.BinarySearchFunc(keys, r.End, cmp)
	}
	return keys[lo:hi]
}

// cutAround cuts a piece of one clean segment so that only the surroundings of
// the delta's rows are merged.
func cutAround(p *piece, keys []storage.Key) []*piece {
	var dirty []storage.KeyRange
	if len(keys) <= maxCuts {
		for _, k := range keys {
			dirty = append(dirty, storage.KeyRange{Start: k, End: after(k)})
		}
	} else {
		groups := p.segments[0].e.meta.RowGroups
		for i := range groups {
			g := storage.KeyRange{Start: groups[i].FirstKey, End: p.r.End}
			if i == 0 {
				g.Start = p.r.Start
			}
			// Two row groups may share a key's versions; here there is one version
			// a key, so that the next group's first key ends this one.
			if i+1 < len(groups) {
				g.End = groups[i+1].FirstKey
			}
			if g, ok := p.r.Intersect(g); ok && len(keysIn(keys, g)) > 0 {
				dirty = append(dirty, g)
			}
		}
	}
	var out []*piece
	add := func(r storage.KeyRange, delta bool) {
		if !r.Empty() {
			out = append(out, &piece{r: r, segments: p.segments, delta: delta})
		}
	}
	start := p.r.Start
	for _, d := range dirty {
		if bytes.Compare(start, d.Start) < 0 {
			add(storage.KeyRange{Start: start, End: d.Start}, false)
		}
		add(d, true)
		start = d.End
	}
	if last := dirty[len(dirty)-1]; !bytes.Equal(last.End, p.r.End) {
		add(storage.KeyRange{Start: start, End: p.r.End}, false)
	}
	return out
}

// join unites neighbours that are merged anyway.
func join(ps []*piece) []*piece {
	var out []*piece
	for _, p := range ps {
		if n := len(out); n > 0 && !p.columnar() && !out[n-1].columnar() && bytes.Equal(out[n-1].r.End, p.r.Start) {
			q := out[n-1]
			q.r.End = p.r.End
			q.delta = q.delta || p.delta
			for _, s := range p.segments {
				if !slices.Contains(q.segments, s) {
					q.segments = append(slices.Clone(q.segments), s)
				}
			}
			continue
		}
		out = append(out, p)
	}
	return out
}

// check proves that the scan accounted for every row of the segment: rows of
// the file = pruned + superseded + filtered + emitted in its pieces, plus those
// outside the keys that it wanted, of which there are none when it wanted all.
func (s *segmentRead) check(table string, st *storage.ScanStats) error {
	outside := s.e.meta.Rows - s.stats.Pruned - s.stats.Superseded - s.stats.Filtered - s.stats.Emitted
	s.stats.Clipped = outside
	whole := s.r.Covers(storage.KeyRange{Start: s.e.meta.FirstKey, End: after(s.e.meta.LastKey)})
	if outside < 0 || (whole && outside > 0) {
		return fault.Bugf("scan of %s: %s: %d rows in the footer, but pruned %d + superseded %d + filtered %d + emitted %d", table,
			fmt.Sprintf("segment %d", s.e.file), s.e.meta.Rows, s.stats.Pruned, s.stats.Superseded, s.stats.Filtered, s.stats.Emitted)
	}
	st.Clipped += outside
	return nil
}
