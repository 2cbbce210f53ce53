package region

import (
	"testing"

	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
	"pgregory.net/rapid"
)

// For every key and snapshot, eras say what looking at each truncate says.
func TestEras(t *testing.T) {
	key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 255}), 0, 2)
	rapid.Check(t, func(t *rapid.T) {
		var ts []truncate
		var at storage.Timestamp
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			at += storage.Timestamp(rapid.IntRange(0, 2).Draw(t, "step"))
			r := storage.KeyRange{Start: key.Draw(t, "start"), End: key.Draw(t, "end")}
			if !r.Empty() {
				ts = append(ts, truncate{r, at})
			}
		}
		snapshot := storage.Timestamp(rapid.IntRange(0, 16).Draw(t, "at"))
		es := erasOf(ts, snapshot)
		since := func(k storage.Key) (want storage.Timestamp) {
			for _, x := range ts {
				if x.at <= snapshot && x.r.Contains(k) {
					want = max(want, x.at)
				}
			}
			return want
		}
		for i := range es {
			if i > 0 && es[i].since == es[i-1].since {
				t.Fatalf("eras %d and %d of %v are one", i-1, i, es)
			}
		}
		pos := 0
		keys := []storage.Key{nil, {0}, {0, 0}, {0, 1}, {1}, {1, 1}, {2}, {2, 255}, {255}, {255, 255}, {255, 255, 0}}
		for _, k := range keys {
			pos = es.move(pos, k)
			if got, want := es[es.at(k)].since, since(k); got != want || es[pos].since != want {
				t.Fatalf("key %x: %d, %d; want %d", []byte(k), got, es[pos].since, want)
			}
		}
		r := storage.KeyRange{Start: key.Draw(t, "from"), End: key.Draw(t, "to")}
		if r.Empty() {
			return
		}
		lo, hi := es.bounds(r)
		var parts []storage.KeyRange
		es.each(r, func(p storage.KeyRange, s storage.Timestamp) {
			parts = append(parts, p)
			if got := since(p.Start); got != s || s < lo || s > hi {
				t.Fatalf("part %s has %d, want %d, in [%d, %d]", p, s, got, lo, hi)
			}
		})
		if err := storage.CheckTiling(r, parts); err != nil {
			t.Fatal(err)
		}
	})
}

// Truncates go once nothing is left that they end, and not before.
func TestCollectTruncates(t *testing.T) {
	seg := func(first, last string, begin storage.Timestamp) entry {
		return entry{begin: begin, meta: segment.Meta{Rows: 2, FirstKey: storage.Key(first), LastKey: storage.Key(last)}}
	}
	cut := func(start, end string, at storage.Timestamp) truncate {
		return truncate{storage.KeyRange{Start: storage.Key(start), End: storage.Key(end)}, at}
	}
	for _, c := range []struct {
		name               string
		segments           []entry
		truncates          []truncate
		floor              storage.Timestamp
		settled            bool
		wantSeg, wantTrunc int
		wantFloor          storage.Timestamp
	}{
		{"all of a segment ended", []entry{seg("b", "c", 5)}, []truncate{cut("b", "d", 6)}, 7, false, 0, 1, 6},
		{"and nothing can come", []entry{seg("b", "c", 5)}, []truncate{cut("b", "d", 6)}, 7, true, 0, 0, 6},
		{"the last key lives", []entry{seg("b", "d", 5)}, []truncate{cut("b", "d", 6)}, 7, true, 1, 1, 0},
		{"by two truncates", []entry{seg("b", "d", 5)}, []truncate{cut("b", "c", 6), cut("c", "", 7)}, 7, true, 0, 0, 7},
		{"the second is above the floor", []entry{seg("b", "d", 5)}, []truncate{cut("b", "c", 6), cut("c", "", 8)}, 7, true, 1, 2, 0},
		{"a newer segment", []entry{seg("b", "c", 6)}, []truncate{cut("b", "d", 6)}, 7, true, 1, 0, 0},
		{"a later truncate covers it", []entry{seg("x", "y", 5)}, []truncate{cut("b", "d", 6), cut("a", "e", 7)}, 7, false, 1, 1, 7},
		{"one covers a part", []entry{seg("b", "y", 5)}, []truncate{cut("b", "d", 6), cut("a", "c", 7)}, 7, false, 1, 2, 0},
	} {
		m := &manifest{segments: c.segments, truncates: c.truncates}
		m.collect(c.floor, c.settled)
		if len(m.segments) != c.wantSeg || len(m.truncates) != c.wantTrunc || m.floor != c.wantFloor {
			t.Errorf("%s: %d segments, %d truncates, floor %d; want %d, %d, %d", c.name, len(m.segments), len(m.truncates), m.floor, c.wantSeg, c.wantTrunc, c.wantFloor)
		}
	}
}
