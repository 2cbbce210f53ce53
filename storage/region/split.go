package region

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// A split is one step of the catalogue. Around it:
//
//  1. A split record is written: parent, both halves, their ids.
//  2. The catalogue replaces the parent by the halves, or refuses.
//  3. One batch writes the halves' manifests, which share the parent's
//     files, generations and pending transactions, clipped to their ranges,
//     and deletes the parent's manifest and the record.
//
// Nothing changes in the parent between 1 and 3. Whoever finds a record later
// (after a crash, or after an error of which nobody knows what it means) asks
// the catalogue whether the halves are there, and goes on with 3 or deletes
// the record.

// splitVersion is the first byte of a split record.
const splitVersion = 1

type splitRecord struct {
	parent storage.RegionID
	halves [2]storage.Region
}

func (rec *splitRecord) encode() []byte {
	dst := append([]byte{splitVersion}, regionKey(keySplit, rec.parent)[1:]...)
	return appendRegion(appendRegion(dst, rec.halves[0]), rec.halves[1])
}

func decodeSplit(b []byte) (*splitRecord, error) {
	d := &decoder{b: b}
	if v := d.byte(); d.err == nil && v != splitVersion {
		return nil, fmt.Errorf("split record of version %d, this program reads version %d", v, splitVersion)
	}
	rec := &splitRecord{parent: storage.RegionID(d.uint64()), halves: [2]storage.Region{d.region(), d.region()}}
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("split record: %w", err)
	}
	return rec, nil
}

// Split implements storage.Server.
func (s *Server) Split(ctx context.Context, id storage.RegionID, at storage.Key) ([2]storage.Region, error) {
	if err := s.enter(); err != nil {
		return [2]storage.Region{}, err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return [2]storage.Region{}, err
	}
	halves, err := s.split(ctx, r, at)
	if err != nil {
		return halves, fmt.Errorf("split region %d of %s: %w", id, r.table.Name, err)
	}
	return halves, nil
}

func (s *Server) split(ctx context.Context, r *region, at storage.Key) (halves [2]storage.Region, err error) {
	if len(at) == 0 {
		if at, err = s.median(ctx, r); err != nil {
			return halves, err
		}
	}
	if bytes.Compare(at, r.rng.Start) <= 0 || !r.rng.Contains(at) {
		return halves, fault.Userf("the key %s is not inside the region", r.keyText(at))
	}
	defer lockEdits([]*region{r})()
	// Puts wait; they are told to look the region up again.
	r.latch.Lock()
	defer r.latch.Unlock()
	m, err := r.current()
	if err != nil {
		return halves, err
	}
	rec := &splitRecord{parent: r.id}
	for i := range rec.halves {
		half := m.region
		if half.ID, err = s.o.Authority.NewRegionID(ctx); err != nil {
			return halves, fmt.Errorf("new region id: %w", err)
		}
		if i == 0 {
			half.Range.End = slices.Clone(at)
		} else {
			half.Range.Start = slices.Clone(at)
		}
		rec.halves[i] = half
	}
	b, err := r.st.newBatch()
	if err != nil {
		return halves, err
	}
	if err := b.Set(regionKey(keySplit, r.id), rec.encode(), nil); err != nil {
		return halves, errors.Join(err, b.Close())
	}
	if err := r.st.apply(b); err != nil {
		return halves, err
	}
	s.mu.Lock()
	s.splits[r.id] = rec
	s.mu.Unlock()
	replaceErr := s.o.Authority.ReplaceRegions(ctx, r.table.ID, []storage.RegionID{r.id}, rec.halves[:])
	if replaceErr == nil {
		return rec.halves, s.finishSplit(r, rec)
	}
	// It may have happened all the same. The question must be answered even if
	// the caller has gone; failing that, the next use of the region asks again.
	done, err := s.splitHappened(context.WithoutCancel(ctx), r, rec)
	switch {
	case err != nil:
		return halves, errors.Join(replaceErr, err)
	case done:
		return rec.halves, s.finishSplit(r, rec)
	}
	return halves, errors.Join(replaceErr, s.undoSplit(r, rec))
}

// splitHappened asks the catalogue whether it knows the halves.
func (s *Server) splitHappened(ctx context.Context, r *region, rec *splitRecord) (bool, error) {
	live, err := s.o.Authority.Regions(ctx, r.table.ID)
	if err != nil {
		return false, fmt.Errorf("regions of %s: %w", r.table.Name, err)
	}
	return slices.ContainsFunc(live, func(x storage.Region) bool { return x.ID == rec.halves[0].ID || x.ID == rec.halves[1].ID }), nil
}

// finishSplit does step 3. The caller holds editMu and the latch.
func (s *Server) finishSplit(r *region, rec *splitRecord) error {
	m, err := r.current()
	if err != nil {
		return err
	}
	changes := []change{{r, nil}}
	for _, half := range rec.halves {
		h := m.half(half)
		changes = append(changes, change{newRegion(r.st, h), h})
	}
	if err := r.st.install(changes, func(b *pebble.Batch) error { return b.Delete(regionKey(keySplit, r.id), nil) }); err != nil {
		return err
	}
	rows, size := r.deltaRows.Load(), r.deltaBytes.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.regions, r.id)
	delete(s.splits, r.id)
	for _, c := range changes[1:] {
		c.r.deltaRows.Store(rows / 2)
		c.r.deltaBytes.Store(size / 2)
		s.regions[c.r.id] = c.r
	}
	return nil
}

func (s *Server) undoSplit(r *region, rec *splitRecord) error {
	b, err := r.st.newBatch()
	if err != nil {
		return err
	}
	if err := b.Delete(regionKey(keySplit, r.id), nil); err != nil {
		return errors.Join(err, b.Close())
	}
	if err := r.st.apply(b); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.splits, r.id)
	s.mu.Unlock()
	return nil
}

// half returns the manifest of one half of a region.
func (m *manifest) half(region storage.Region) *manifest {
	h := m.clone()
	h.region = region
	h.segments = clipEntries(m.segments, region.Range)
	h.generations = nil
	for _, g := range m.generations {
		if g.clip, _ = g.clip.Intersect(region.Range); !g.clip.Empty() {
			h.generations = append(h.generations, g)
		}
	}
	h.truncates = nil
	for _, t := range m.truncates {
		if part, ok := t.r.Intersect(region.Range); ok {
			h.truncates = append(h.truncates, truncate{part, t.at})
		}
	}
	h.pending = nil
	for _, p := range m.pending {
		q := pendingTxn{txn: p.txn}
		for _, r := range p.truncates {
			if part, ok := r.Intersect(region.Range); ok {
				q.truncates = append(q.truncates, part)
			}
		}
		for _, a := range p.attempts {
			if es := clipEntries(a.segments, region.Range); len(es) > 0 {
				q.attempts = append(q.attempts, attempt{name: a.name, segments: es})
			}
		}
		if len(q.truncates) > 0 || len(q.attempts) > 0 {
			h.pending = append(h.pending, q)
		}
	}
	return h
}

// clipEntries returns the segments that may have rows in r, clipped to it.
func clipEntries(es []entry, r storage.KeyRange) []entry {
	var out []entry
	for _, e := range es {
		clip, ok := e.clip.Intersect(r)
		if ok && e.meta.Overlaps(clip) {
			e.clip = clip
			out = append(out, e)
		}
	}
	return out
}

// settleSplit ends a split that was left half done.
func (s *Server) settleSplit(ctx context.Context, parent storage.RegionID) error {
	s.mu.RLock()
	r, rec := s.regions[parent], s.splits[parent]
	s.mu.RUnlock()
	if rec == nil {
		return nil
	}
	if r == nil {
		return fault.Bugf("region %d has a split record but no manifest", parent)
	}
	defer lockEdits([]*region{r})()
	r.latch.Lock()
	defer r.latch.Unlock()
	s.mu.RLock()
	rec = s.splits[parent]
	s.mu.RUnlock()
	if rec == nil {
		return nil // the split went on, or someone else settled it
	}
	done, err := s.splitHappened(ctx, r, rec)
	if err != nil {
		return fmt.Errorf("split of region %d: %w", parent, err)
	}
	if done {
		err = s.finishSplit(r, rec)
	} else {
		err = s.undoSplit(r, rec)
	}
	if err != nil {
		return fmt.Errorf("split of region %d: %w", parent, err)
	}
	return nil
}

// settleChild ends a split of which a region is half, because that region is
// to be dropped: the catalogue knew it.
func (s *Server) settleChild(ctx context.Context, id storage.RegionID) error {
	s.mu.RLock()
	var r *region
	var rec *splitRecord
	for parent, x := range s.splits {
		if x.halves[0].ID == id || x.halves[1].ID == id {
			r, rec = s.regions[parent], x
		}
	}
	s.mu.RUnlock()
	if r == nil {
		return nil
	}
	defer lockEdits([]*region{r})()
	r.latch.Lock()
	defer r.latch.Unlock()
	if r.gone {
		return nil
	}
	return s.finishSplit(r, rec)
}

// maxSample is about how many keys of a segment median looks at.
const maxSample = 2048

// median returns a key that has about half of the region's rows below it, by a
// sample of the keys of each segment and of the delta.
func (s *Server) median(ctx context.Context, r *region) (_ storage.Key, err error) {
	v, err := s.read(ctx, r, storage.MaxTimestamp)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	type sample struct {
		key    storage.Key
		weight int64
	}
	var all []sample
	reads, err := v.segmentReads(r.rng)
	if err != nil {
		return nil, err
	}
	for _, read := range reads {
		every := max(1, read.e.meta.Rows/maxSample)
		n := int64(0)
		for _, part := range read.parts {
			if part.state == gone {
				continue
			}
			err := read.eachKey(ctx, part.r, func(k storage.Key) {
				if n++; n%every == 0 {
					all = append(all, sample{bytes.Clone(k), every})
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	keys, err := v.deltaKeys(r.rng)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		all = append(all, sample{k, 1})
	}
	slices.SortFunc(all, func(a, b sample) int { return bytes.Compare(a.key, b.key) })
	var total, below int64
	for _, x := range all {
		total += x.weight
	}
	for _, x := range all {
		// The lowest key would leave the left half empty.
		if below*2 >= total && !bytes.Equal(x.key, all[0].key) && bytes.Compare(x.key, r.rng.Start) > 0 {
			return x.key, nil
		}
		below += x.weight
	}
	if n := len(all); n > 0 && !bytes.Equal(all[n-1].key, all[0].key) {
		return all[n-1].key, nil
	}
	return nil, fault.Userf("it has too few rows to find a middle; give a key")
}
