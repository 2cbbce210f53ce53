package region

import (
	"bytes"
	"slices"
	"sort"

	"github.com/skepdb/skep/storage"
)

// truncate is a range tombstone: at its commit it ended every version with a
// key in r that began before at.
type truncate struct {
	r  storage.KeyRange
	at storage.Timestamp
}

// era says that, of the keys from start up to the next era's, only versions
// that began at since or later count.
type era struct {
	start storage.Key
	since storage.Timestamp
}

// eras divide all keys, ascending; the first has no start. They are what
// truncates amount to at some snapshot.
type eras []era

// erasOf returns what the truncates at or below at amount to.
func erasOf(truncates []truncate, at storage.Timestamp) eras {
	out := eras{{}}
	// They are in the order of their times, so a later one covers earlier ones.
	for _, t := range truncates {
		if t.at <= at {
			out = out.assign(t.r, t.at)
		}
	}
	return slices.CompactFunc(out, func(a, b era) bool { return a.since == b.since })
}

// assign returns es with a time for all keys in r.
func (es eras) assign(r storage.KeyRange, since storage.Timestamp) eras {
	lo := sort.Search(len(es), func(i int) bool { return bytes.Compare(es[i].start, r.Start) >= 0 })
	hi := len(es)
	now := []era{{r.Start, since}}
	if len(r.End) > 0 {
		hi = sort.Search(len(es), func(i int) bool { return bytes.Compare(es[i].start, r.End) > 0 })
		now = append(now, era{r.End, es[hi-1].since})
	}
	return slices.Replace(es, lo, hi, now...)
}

// at returns the position of the era that has a key.
func (es eras) at(key storage.Key) int {
	if len(es) == 1 {
		return 0
	}
	return sort.Search(len(es), func(i int) bool { return bytes.Compare(es[i].start, key) > 0 }) - 1
}

// move returns the position of the era that has a key at or above those of
// earlier calls, whose result was from.
func (es eras) move(from int, key storage.Key) int {
	for from+1 < len(es) && bytes.Compare(es[from+1].start, key) <= 0 {
		from++
	}
	return from
}

// each calls f for the parts of r, ascending.
func (es eras) each(r storage.KeyRange, f func(part storage.KeyRange, since storage.Timestamp)) {
	for i := es.at(r.Start); i < len(es); i++ {
		span := storage.KeyRange{Start: es[i].start}
		if i+1 < len(es) {
			span.End = es[i+1].start
		}
		part, ok := r.Intersect(span)
		if !ok {
			return
		}
		f(part, es[i].since)
	}
}

// bounds returns the lowest and the highest time in r.
func (es eras) bounds(r storage.KeyRange) (lo, hi storage.Timestamp) {
	lo = storage.MaxTimestamp
	es.each(r, func(_ storage.KeyRange, since storage.Timestamp) { lo, hi = min(lo, since), max(hi, since) })
	return lo, hi
}

// span returns the keys in which the entry may have rows of the region.
func (e *entry) span() storage.KeyRange {
	span, _ := e.clip.Intersect(storage.KeyRange{Start: e.meta.FirstKey, End: after(e.meta.LastKey)})
	return span
}

// live estimates the entry's rows and bytes in r that no truncate ended.
func (e *entry) live(r storage.KeyRange, es eras) (rows, size int64) {
	if len(es) == 1 {
		if e.maxBegin() < es[0].since {
			return 0, 0
		}
		return e.estimate(r)
	}
	part, ok := r.Intersect(e.span())
	if !ok {
		return 0, 0
	}
	es.each(part, func(p storage.KeyRange, since storage.Timestamp) {
		if e.maxBegin() >= since {
			n, b := e.estimate(p)
			rows, size = rows+n, size+b
		}
	})
	return rows, size
}

// collect drops what no snapshot at or above floor sees: segments whose rows
// truncates ended, truncates that later ones cover, and truncates below which
// there is no row any more. For the last it must be sure that none can still
// come: settled says that neither the delta has rows from before floor nor a
// decided transaction waits to be applied.
func (m *manifest) collect(floor storage.Timestamp, settled bool) {
	if len(m.truncates) == 0 || m.truncates[0].at > floor {
		return
	}
	es := erasOf(m.truncates, floor)
	m.segments = slices.DeleteFunc(m.segments, func(e entry) bool {
		lo, hi := es.bounds(e.span())
		if e.maxBegin() >= lo {
			return false
		}
		m.floor = max(m.floor, hi)
		return true
	})
	m.truncates = slices.DeleteFunc(m.truncates, func(t truncate) bool {
		if t.at > floor {
			return false
		}
		if lo, hi := es.bounds(t.r); lo > t.at {
			m.floor = max(m.floor, hi)
			return true
		}
		return settled && !slices.ContainsFunc(m.segments, func(e entry) bool {
			_, overlap := e.span().Intersect(t.r)
			return overlap && e.minBegin() < t.at
		})
	})
}
