package region

import (
	"context"
	"io"
	"slices"
	"sort"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// mask is the state of a masked piece. First the masked keys are looked up in
// all sources, some thousand at a time, and merged; the positions of their rows
// in the segment are remembered. Then the segment is scanned with the filter
// pushed down, without those rows.
type mask struct {
	p         *piece
	done      int     // masked keys looked up
	positions []int64 // of their rows in the segment, ascending
	passing   int64   // of these, how many the filter accepts
	next      int     // positions before it lie before what was scanned
	dropped   int64   // rows that the scan yielded and the mask took out
}

// maskBatch is how many keys are looked up at a time.
const maskBatch = 4096

// nextMasked returns the next batch of a masked piece, or io.EOF.
func (sr *scanReader) nextMasked(ctx context.Context) (*batch.Batch, error) {
	k := sr.mask
	for {
		if sr.merge != nil {
			c, err := sr.merge.next(ctx)
			if err == nil {
				return &c.Batch, nil
			}
			if err != io.EOF {
				return nil, err
			}
			m := sr.merge
			sr.merge = nil
			if err := m.close(); err != nil {
				return nil, err
			}
		}
		if k.done == len(k.p.masked) {
			break
		}
		keys := k.p.masked[k.done:min(k.done+maskBatch, len(k.p.masked))]
		k.done += len(keys)
		if err := sr.lookUp(ctx, keys); err != nil {
			return nil, err
		}
	}
	for {
		c, err := sr.scanner.Next(ctx)
		if err != nil {
			return nil, err
		}
		if c.Row < 0 {
			// Only counted: rows without a place. The masked ones that the filter
			// accepts are among those counted somewhere.
			n := min(k.passing-k.dropped, int64(c.Len))
			k.dropped += n
			if int64(c.Len) > n {
				return &batch.Batch{Len: c.Len - int(n)}, nil
			}
			continue
		}
		if b := k.apply(c); b != nil {
			return b, nil
		}
	}
}

// lookUp starts the merge of some masked keys' versions.
func (sr *scanReader) lookUp(ctx context.Context, keys []storage.Key) error {
	m, err := sr.newMerger()
	if err != nil {
		return err
	}
	sr.merge = m
	k, base := sr.mask, sr.read
	reads := []*segmentRead{base}
	delta := false
	for _, s := range k.p.sources {
		if s.read == nil {
			delta = true
		} else {
			reads = append(reads, s.read)
		}
	}
	slices.SortFunc(reads, func(a, b *segmentRead) int { return a.rank - b.rank })
	for _, s := range reads {
		some := within(keys, s.e)
		if s != base {
			some = keysIn(some, s.r)
		}
		if len(some) == 0 {
			continue
		}
		c, err := s.rd.Lookup(ctx, some, sr.columns)
		if err != nil {
			return err
		}
		if s == base {
			if err := k.exclude(c, m.filter); err != nil {
				return err
			}
		}
		m.inputs = append(m.inputs, &input{src: oneChunk(c), begin: s.e.begin, stats: &s.stats})
	}
	if !delta {
		return nil
	}
	r, _ := k.p.r.Intersect(storage.KeyRange{Start: keys[0], End: after(keys[len(keys)-1])})
	it, err := newDeltaIter(sr.v.snap, sr.v.v.m.generations, r)
	if err != nil {
		return err
	}
	m.inputs = append(m.inputs, &input{src: newDeltaSource(it, sr.columns, sr.spec.At), stats: &sr.stats})
	return nil
}

// exclude masks the rows of a lookup in the segment.
func (k *mask) exclude(c *segment.Chunk, filter *segment.Filter) error {
	k.positions = append(k.positions, c.Positions...)
	passing := c.Rows()
	if filter != nil && c.Rows() > 0 {
		sel, err := filter.Select(&c.Batch)
		if err != nil {
			return err
		}
		if sel != nil {
			passing = len(sel)
		}
	}
	k.passing += int64(passing)
	return nil
}

// apply returns the rows of a chunk that aren't masked, nil if there are none.
func (k *mask) apply(c *segment.Chunk) *batch.Batch {
	k.next += sort.Search(len(k.positions)-k.next, func(i int) bool { return k.positions[k.next+i] >= c.Row })
	end := c.Row + int64(c.Len)
	if k.next == len(k.positions) || k.positions[k.next] >= end {
		return &c.Batch
	}
	b := c.Batch
	b.Sel = make([]int32, 0, c.Rows())
	p := k.next
	for i := range c.Rows() {
		row := int32(i)
		if c.Sel != nil {
			row = c.Sel[i]
		}
		at := c.Row + int64(row)
		for p < len(k.positions) && k.positions[p] < at {
			p++
		}
		if p < len(k.positions) && k.positions[p] == at {
			k.dropped++
			continue
		}
		b.Sel = append(b.Sel, row)
	}
	if len(b.Sel) == 0 {
		return nil
	}
	return &b
}

// correct takes the masked rows out of what the scanner counted: their lookups
// have counted them. Those that it didn't yield it has filtered or pruned.
func (k *mask) correct(st *storage.ScanStats) {
	st.Emitted -= k.dropped
	rest := int64(len(k.positions)) - k.dropped
	filtered := min(rest, st.Filtered)
	st.Filtered -= filtered
	st.Pruned -= rest - filtered
}
