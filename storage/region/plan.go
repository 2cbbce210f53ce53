package region

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// segmentRead is a segment's part in a scan.
type segmentRead struct {
	e     *entry
	rank  int // position in the manifest: on a tie the later wins
	rd    *segment.Reader
	r     storage.KeyRange // of rows that the scan wants of it
	parts []readPart       // of the keys in which it has such rows, ascending
	stats storage.ScanStats
}

// readPart is a part of a segment's keys of which all rows are in one state.
type readPart struct {
	r     storage.KeyRange
	state partState
}

type partState uint8

const (
	mixed partState = iota // versions must be looked at
	clean                  // rows need no version work by themselves
	gone                   // a truncate ended all of them
)

// span returns the keys in which the segment can have wanted rows.
func (s *segmentRead) span() storage.KeyRange {
	return storage.KeyRange{Start: s.parts[0].r.Start, End: s.parts[len(s.parts)-1].r.End}
}

// in returns the state of a segment's rows in r, which lies in one part.
func (s *segmentRead) in(r storage.KeyRange) (_ partState, ok bool) {
	for _, p := range s.parts {
		if _, ok := p.r.Intersect(r); ok {
			return p.state, true
		}
	}
	return 0, false
}

// piece is a key range of a scan in which the same sources have rows. A piece
// with one clean segment and no delta is read column by column with the filter
// pushed down; others are merged by key.
//
// Rows that a truncate ended are in pieces of their own, which only count them.
//
// A masked piece is a columnar one of which some rows, those with the keys in
// masked, are left out and looked up one by one in all their sources instead.
type piece struct {
	r        storage.KeyRange
	segments []*segmentRead
	clean    bool // the one segment is
	apart    bool // some segment is gone here, but maybe not in the neighbours
	delta    bool
	masked   []storage.Key
	sources  []*scattered   // of the masked keys, besides the segment
	gone     []*segmentRead // instead of all else: only their rows are counted
}

func (p *piece) columnar() bool { return !p.delta && len(p.segments) == 1 && p.clean }

// scattered is a source with few rows, here and there between the rows of a
// large segment: the delta, or a small segment of which all keys are known.
// Only where its keys are has the large segment to be merged with it.
type scattered struct {
	read *segmentRead  // nil: the delta
	keys []storage.Key // ascending, each once
}

const (
	// A segment of at most smallRows is treated as scattered between the rows of
	// one that is at least smallShare times as large.
	smallRows  = 1 << 16
	smallShare = 4
	// In unordered scans scattered rows are masked if there are at most this part
	// of the segment's rows of them.
	maskShare = 4
	// Otherwise: maxCuts is how many scattered rows in the middle of a clean segment are
	// cut out of it one by one. With more, whole stripes of the segment are
	// merged, also clean ones between them where fewer than minStripes lie side
	// by side: each piece costs a new start in the file.
	maxCuts    = 16
	minStripes = 8
)

// segmentReads opens the segments that may have rows of the view in r.
func (v *view) segmentReads(r storage.KeyRange) ([]*segmentRead, error) {
	var out []*segmentRead
	for i := range v.v.m.segments {
		e := &v.v.m.segments[i]
		want, ok := r.Intersect(e.clip)
		if !ok || !e.meta.Overlaps(want) || e.minBegin() > v.at {
			continue
		}
		parts := v.partsOf(e, want)
		if len(parts) == 1 && parts[0].state == gone {
			continue
		}
		rd, err := v.v.files[e.file].open(e.meta, v.r.table.Key)
		if err != nil {
			return nil, err
		}
		out = append(out, &segmentRead{e: e, rank: i, rd: rd, r: want, parts: parts})
	}
	return out, nil
}

// partsOf divides the keys in which a segment has rows in r by what truncates
// make of them.
func (v *view) partsOf(e *entry, r storage.KeyRange) []readPart {
	single := !e.meta.MultiVersion && e.meta.Tombstones == 0 && e.maxBegin() <= v.at
	span, _ := r.Intersect(e.span())
	var out []readPart
	v.since.each(span, func(part storage.KeyRange, since storage.Timestamp) {
		state := mixed
		switch {
		case e.maxBegin() < since:
			state = gone
		case single && e.minBegin() >= since:
			state = clean
		}
		if n := len(out); n > 0 && out[n-1].state == state {
			out[n-1].r.End = part.End
			return
		}
		out = append(out, readPart{part, state})
	})
	return out
}

// scatter takes small segments that lie between the rows of large ones out of
// reads and returns them with their keys.
func scatter(ctx context.Context, reads []*segmentRead) (large []*segmentRead, small []*scattered, err error) {
	for _, s := range reads {
		among := slices.ContainsFunc(reads, func(o *segmentRead) bool {
			_, overlap := o.span().Intersect(s.span())
			return overlap && s.e.meta.Rows <= smallRows && o.e.meta.Rows >= smallShare*s.e.meta.Rows
		})
		if !among {
			large = append(large, s)
			continue
		}
		keys, err := s.keys(ctx)
		if err != nil {
			return nil, nil, err
		}
		small = append(small, &scattered{read: s, keys: keys})
	}
	return large, small, nil
}

// keys returns the keys of a segment's wanted rows, each once.
func (s *segmentRead) keys(ctx context.Context) (keys []storage.Key, err error) {
	err = s.eachKey(ctx, s.r, func(k storage.Key) {
		if len(keys) == 0 || !bytes.Equal(keys[len(keys)-1], k) {
			keys = append(keys, k)
		}
	})
	return keys, err
}

// eachKey calls f with the keys of a segment's rows in r.
func (s *segmentRead) eachKey(ctx context.Context, r storage.KeyRange, f func(storage.Key)) (err error) {
	sc, err := s.rd.Scan(segment.ScanOptions{Range: r, NeedKeys: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sc.Close()) }()
	for {
		c, err := sc.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		in := input{c: c}
		for i := range c.Rows() {
			f(in.key(i))
		}
	}
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
	era := 0
	for err = it.first(); err == nil && it.valid(); err = it.next() {
		era = v.since.move(era, it.key())
		if ts := it.ts(); ts > v.at || ts < v.since[era].since {
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
// for are in none of them.
func plan(r storage.KeyRange, reads []*segmentRead, scattered []*scattered, ordered bool) []*piece {
	bounds := []storage.Key{r.Start}
	for _, s := range reads {
		for _, part := range s.parts {
			bounds = append(bounds, part.r.Start, part.r.End)
		}
	}
	slices.SortFunc(bounds, compareKeys)
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
		var ended []*segmentRead
		for _, s := range reads {
			switch state, ok := s.in(p.r); {
			case !ok:
			case state == gone:
				ended = append(ended, s)
			default:
				p.clean = len(p.segments) == 0 && state == clean
				p.segments = append(p.segments, s)
			}
		}
		if len(ended) > 0 {
			out = append(out, &piece{r: p.r, apart: true, gone: ended})
			p.apart = true
		}
		var keys []storage.Key
		for _, s := range scattered {
			keys = append(keys, keysIn(s.keys, p.r)...)
		}
		if len(keys) > 0 && p.columnar() {
			slices.SortFunc(keys, compareKeys)
			keys = slices.CompactFunc(keys, func(a, b storage.Key) bool { return bytes.Equal(a, b) })
			if !ordered && int64(len(keys)) <= max(maxCuts, p.segments[0].e.meta.Rows/maskShare) {
				p.masked, p.sources = keys, scattered
				out = append(out, p)
				continue
			}
			out = append(out, cutAround(p, keys, scattered)...)
			continue
		}
		p.attach(scattered)
		if p.delta || len(p.segments) > 0 {
			out = append(out, p)
		}
	}
	return join(out)
}

func compareKeys(a, b storage.Key) int { return bytes.Compare(a, b) }

// joins reports whether the piece may be united with a neighbour.
func (p *piece) joins() bool { return !p.apart && !p.columnar() }

// attach adds the scattered sources that have keys in the piece.
func (p *piece) attach(sources []*scattered) {
	p.segments = slices.Clone(p.segments)
	for _, s := range sources {
		switch {
		case len(keysIn(s.keys, p.r)) == 0:
		case s.read == nil:
			p.delta = true
		default:
			p.segments = append(p.segments, s.read)
		}
	}
}

// keysIn returns the part of sorted keys that lies in r.
func keysIn(keys []storage.Key, r storage.KeyRange) []storage.Key {
	lo, _ := slices.BinarySearchFunc(keys, r.Start, compareKeys)
	hi := len(keys)
	if len(r.End) > 0 {
		hi, _ = slices.BinarySearchFunc(keys, r.End, compareKeys)
	}
	return keys[lo:max(lo, hi)]
}

// cutAround cuts a piece of one clean segment so that only the surroundings of
// scattered rows, whose keys are keys, are merged.
func cutAround(p *piece, keys []storage.Key, sources []*scattered) []*piece {
	var dirty []storage.KeyRange
	if len(keys) <= maxCuts {
		for _, k := range keys {
			dirty = append(dirty, storage.KeyRange{Start: k, End: after(k)})
		}
	} else {
		dirty = dirtyStripes(p, keys)
	}
	var out []*piece
	add := func(r storage.KeyRange, merged bool) {
		q := &piece{r: r, segments: p.segments, clean: p.clean, apart: p.apart}
		if merged {
			q.attach(sources)
		}
		out = append(out, q)
	}
	start := p.r.Start
	for _, d := range dirty {
		if bytes.Compare(start, d.Start) < 0 {
			add(storage.KeyRange{Start: start, End: d.Start}, false)
		}
		add(d, true)
		start = d.End
	}
	if !bytes.Equal(start, p.r.End) {
		add(storage.KeyRange{Start: start, End: p.r.End}, false)
	}
	return out
}

// dirtyStripes returns the key ranges of p that are better merged.
func dirtyStripes(p *piece, keys []storage.Key) []storage.KeyRange {
	bounds := append([]storage.Key{p.r.Start}, p.segments[0].rd.StripeKeys(p.r)...)
	var dirty []storage.KeyRange
	last := 0 // the stripe where the last dirty range ends
	for i, start := range bounds {
		// The segment has one version a key, so no key lies in two stripes.
		stripe := storage.KeyRange{Start: start, End: p.r.End}
		if i+1 < len(bounds) {
			stripe.End = bounds[i+1]
		}
		if len(keysIn(keys, stripe)) == 0 {
			continue
		}
		if n := len(dirty); n > 0 && i-last < minStripes {
			dirty[n-1].End = stripe.End
		} else {
			dirty = append(dirty, stripe)
		}
		last = i + 1
	}
	return dirty
}

// join unites neighbours that are merged anyway.
func join(ps []*piece) []*piece {
	var out []*piece
	for _, p := range ps {
		if n := len(out); n > 0 && p.joins() && out[n-1].joins() && bytes.Equal(out[n-1].r.End, p.r.Start) {
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
