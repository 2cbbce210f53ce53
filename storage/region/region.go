package region

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// region is one region in memory.
//
// Locks are taken in this order: flushMu, editMu (of several regions by id),
// latch, rows, viewMu.
type region struct {
	id    storage.RegionID
	st    *store
	table *storage.Table
	rng   storage.KeyRange
	enc   *rowkey.Encoder
	keys  schema.Columns // of the row key

	// latch is held shared by a put from choosing generation and timestamp
	// until Pebble has applied it; exclusively to see that none is in between.
	latch sync.RWMutex
	rows  rowLatches
	// gone says that the region was split or dropped. Written with latch held
	// exclusively and viewMu; read with either.
	gone bool

	flushMu sync.Mutex // one flush at a time
	editMu  sync.Mutex // manifest edits are serial
	// viewMu makes a manifest's becoming durable and current one step for
	// those who take manifest and Pebble snapshot together.
	viewMu sync.Mutex
	cur    *version // guarded by viewMu

	deltaBytes atomic.Int64 // estimates
	deltaRows  atomic.Int64
	flushing   atomic.Bool // a flush in the background is under way
}

// version is a manifest with the files it lists kept alive.
type version struct {
	m     *manifest
	since eras // of all truncates
	files map[uint64]*file
	refs  atomic.Int32 // one while it is current, and one a view
}

func newRegion(st *store, m *manifest) *region {
	r := &region{id: m.region.ID, st: st, table: m.table, rng: m.region.Range, keys: m.table.KeyColumns()}
	r.enc = rowkey.ForTable(m.table)
	return r
}

// newVersion takes a reference to every file of m.
func (s *store) newVersion(m *manifest) *version {
	v := &version{m: m, since: erasOf(m.truncates, storage.MaxTimestamp), files: map[uint64]*file{}}
	v.refs.Store(1)
	m.files(func(e *entry) {
		if v.files[e.file] == nil {
			v.files[e.file] = s.refFile(m.table.ID, e.file)
		}
	})
	return v
}

func (v *version) unref() {
	if v.refs.Add(-1) == 0 {
		for _, f := range v.files {
			f.unref()
		}
	}
}

// current returns the region's manifest. It may be replaced at once.
func (r *region) current() (*manifest, error) {
	r.viewMu.Lock()
	defer r.viewMu.Unlock()
	if r.gone {
		return nil, storage.RegionGone(r.id)
	}
	return r.cur.m, nil
}

// change is a region's part in an edit: from nil makes a region, to nil ends it.
type change struct {
	r  *region
	to *manifest
}

// lockEdits locks the manifests of some regions against edits by others.
func lockEdits(rs []*region) (unlock func()) {
	rs = slices.Clone(rs)
	slices.SortFunc(rs, func(a, b *region) int { return cmp.Compare(a.id, b.id) })
	rs = slices.Compact(rs)
	for _, r := range rs {
		r.editMu.Lock()
	}
	return func() {
		for _, r := range rs {
			r.editMu.Unlock()
		}
	}
}

// install makes new manifests durable and current, in one synced Pebble batch
// to which extra may add. The caller holds editMu of every region. After an
// error the old ones stay.
func (s *store) install(changes []change, extra func(*pebble.Batch) error) (err error) {
	b, err := s.newBatch()
	if err != nil {
		return err
	}
	for _, c := range changes {
		key := regionKey(keyManifest, c.r.id)
		if c.to == nil {
			err = errors.Join(err, b.Delete(key, nil))
			continue
		}
		c.to.edit++
		value, encodeErr := c.to.encode()
		if encodeErr != nil {
			return errors.Join(fmt.Errorf("region %d: manifest: %w", c.r.id, encodeErr), b.Close())
		}
		err = errors.Join(err, b.Set(key, value, nil))
	}
	if extra != nil {
		err = errors.Join(err, extra(b))
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	versions := make([]*version, len(changes))
	for i, c := range changes {
		if c.to != nil {
			versions[i] = s.newVersion(c.to)
		}
	}
	// Several regions change together only in ascending order of their ids.
	order := slices.Clone(changes)
	slices.SortFunc(order, func(a, b change) int { return cmp.Compare(a.r.id, b.r.id) })
	for _, c := range order {
		c.r.viewMu.Lock()
	}
	err = s.apply(b)
	for i, c := range changes {
		if err == nil {
			c.r.cur, versions[i] = versions[i], c.r.cur
			if c.to == nil {
				c.r.gone = true // the caller holds the latch
			}
		}
		c.r.viewMu.Unlock()
	}
	// Old versions lose their reference; after an error the new ones do, whose
	// new files then stay on disk, since the batch may yet be found.
	for _, v := range versions {
		if v != nil {
			v.unref()
		}
	}
	return err
}

// edit changes one region's manifest. f gets a copy to change and says whether
// there is anything to do.
func (r *region) edit(f func(m *manifest) (bool, error), extra func(*pebble.Batch) error) error {
	r.editMu.Lock()
	defer r.editMu.Unlock()
	cur, err := r.current()
	if err != nil {
		return err
	}
	m := cur.clone()
	if ok, err := f(m); err != nil || !ok {
		return err
	}
	return r.st.install([]change{{r, m}}, extra)
}

// view is what a read sees: a manifest version and, for keyed tables, a Pebble
// snapshot taken together with it.
type view struct {
	r     *region
	v     *version
	snap  *pebble.Snapshot // nil without a delta
	at    storage.Timestamp
	since eras // of the truncates at or below at
}

// read returns a view of everything at or below at, which it waits for.
func (s *Server) read(ctx context.Context, r *region, at storage.Timestamp) (*view, error) {
	if err := s.settle(ctx, r, at); err != nil {
		return nil, err
	}
	if !r.table.Keyed() {
		return r.view(at)
	}
	// A put with a timestamp below at holds the latch until it is applied.
	r.latch.Lock()
	defer r.latch.Unlock()
	return r.view(at)
}

// view returns a view without waiting for anything.
func (r *region) view(at storage.Timestamp) (*view, error) {
	r.viewMu.Lock()
	defer r.viewMu.Unlock()
	if r.gone {
		return nil, storage.RegionGone(r.id)
	}
	if at < r.cur.m.floor {
		return nil, tooOld(r, at)
	}
	v := &view{r: r, v: r.cur, at: at, since: r.cur.since}
	if ts := r.cur.m.truncates; len(ts) > 0 && ts[len(ts)-1].at > at {
		v.since = erasOf(ts, at)
	}
	if r.table.Keyed() {
		snap, err := r.st.snapshot()
		if err != nil {
			return nil, err
		}
		v.snap = snap
	}
	v.v.refs.Add(1)
	return v, nil
}

// dropSnapshot lets Pebble forget what only this view needed.
func (v *view) dropSnapshot() error {
	if v.snap == nil {
		return nil
	}
	snap := v.snap
	v.snap = nil
	return snap.Close()
}

func (v *view) close() error {
	if v.v == nil {
		return nil
	}
	err := v.dropSnapshot()
	v.v.unref()
	v.v = nil
	return err
}
