// Package region is the region store of one worker: it implements
// storage.Server over the worker's data folders.
//
// A region's recent writes, its delta, lie row-wise in the folder's Pebble; its
// segments are Parquet files (package segment). Its manifest, in the same
// Pebble, lists both. DESIGN 4.3 is the idea; docs/format/folder.md and
// docs/format/delta.md have the bytes.
//
// The ways through the package:
//
//	put.go       checks, row latches, one synced Pebble batch
//	region.go    views: a manifest and a Pebble snapshot taken together; edits
//	scan.go      plan.go cuts a key range in parts that need version work
//	             (merge.go) and parts that don't
//	flush.go     a generation becomes a segment
//	stage.go     rows of a transaction become pending segments
//	resolve.go   pending becomes visible, or goes
//	split.go     one region becomes two that share files and generations
package region

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// Server serves the regions of a worker's data folders.
type Server struct {
	o      Options
	stores []*store
	cache  *pebble.Cache
	dicts  *segment.Cache

	// life is held shared by every call, exclusively by Close.
	life   sync.RWMutex
	closed bool // guarded by life

	mu      sync.RWMutex
	regions map[storage.RegionID]*region
	splits  map[storage.RegionID]*splitRecord // that began and aren't settled, by parent
	scans   map[*scanReader]struct{}          // open ones

	background sync.WaitGroup // flushes
	ctx        context.Context
	cancel     context.CancelFunc
}

var _ storage.Server = (*Server)(nil)

// errClosed is what calls get after Close.
var errClosed = errors.New("region server is closed")

// Open opens the regions of some data folders, which stay locked by their
// Folder. It rolls splits that a crash interrupted forward or back and removes
// files that no region lists.
func Open(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{o: o, regions: map[storage.RegionID]*region{}, splits: map[storage.RegionID]*splitRecord{}, scans: map[*scanReader]struct{}{}}
	// The background work outlives this call.
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.cache, s.dicts = pebble.NewCache(o.CacheBytes), segment.NewCache(o.DictBytes)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open regions: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	for i, f := range s.o.Folders {
		st, err := openStore(f, i, s.o, s.cache, s.dicts)
		if err != nil {
			return err
		}
		s.stores = append(s.stores, st)
		manifests, splits, err := st.load()
		if err != nil {
			return err
		}
		for _, m := range manifests {
			if other := s.regions[m.region.ID]; other != nil {
				return fault.Userf("region %d is in data folder %s and in %s: one of them is a copy", m.region.ID, other.st.folder.Dir(), f.Dir())
			}
			r := newRegion(st, m)
			r.cur = st.newVersion(m)
			if err := r.estimateDelta(); err != nil {
				return err
			}
			s.regions[r.id] = r
		}
		for _, rec := range splits {
			s.splits[rec.parent] = rec
		}
		if err := st.collectOrphans(ctx); err != nil {
			return err
		}
	}
	for parent := range s.splits {
		if err := s.settleSplit(ctx, parent); err != nil {
			// It is tried again when the region is used.
			s.o.Logger.Warn("a split can't be settled yet", "region", parent, "error", err)
		}
	}
	return s.dropStrays(ctx)
}

// dropStrays forgets empty regions that the catalogue doesn't know: a crash fell
// between a region's making here and its becoming part of a table, or between
// its end there and here. One with rows stays for DropRegion.
func (s *Server) dropStrays(ctx context.Context) error {
	type answer struct {
		live []storage.Region
		err  error
	}
	known := map[storage.TableID]*answer{}
	for id, r := range s.regions {
		a := known[r.table.ID]
		if a == nil {
			a = &answer{}
			known[r.table.ID] = a
			a.live, a.err = s.o.Authority.Regions(ctx, r.table.ID)
		}
		if a.err != nil && fault.ClassOf(a.err) != fault.User {
			continue // not that there is no such table
		}
		live := a.live
		if s.splits[id] != nil || slices.ContainsFunc(live, func(x storage.Region) bool { return x.ID == id }) {
			continue
		}
		m := r.cur.m
		if len(m.segments) > 0 || len(m.pending) > 0 || r.deltaRows.Load() > 0 {
			continue
		}
		if err := r.st.install([]change{{r, nil}}, func(b *pebble.Batch) error { return deleteGenerations(b, m.generations) }); err != nil {
			return fmt.Errorf("drop region %d, which no table has: %w", id, err)
		}
		delete(s.regions, id)
	}
	return nil
}

// Close ends open scans, waits for calls in progress and closes the stores.
// It flushes no region.
func (s *Server) Close() error {
	s.cancel()
	s.life.Lock()
	if s.closed {
		s.life.Unlock()
		return nil
	}
	s.closed = true
	s.life.Unlock()
	s.background.Wait()
	s.mu.Lock()
	scans := s.scans
	s.scans = map[*scanReader]struct{}{}
	s.mu.Unlock()
	var errs []error
	for r := range scans {
		errs = append(errs, r.end(errClosed))
	}
	for _, st := range s.stores {
		errs = append(errs, st.close())
	}
	s.cache.Unref()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close regions: %w", err)
	}
	return nil
}

// enter begins a call; exit must follow if it succeeds.
func (s *Server) enter() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return errClosed
	}
	return nil
}

func (s *Server) exit() { s.life.RUnlock() }

// region returns a region that is served here, once a split of it that a
// crash or an error interrupted is settled.
func (s *Server) region(ctx context.Context, id storage.RegionID) (*region, error) {
	s.mu.RLock()
	r, unsettled := s.regions[id], s.splits[id] != nil
	s.mu.RUnlock()
	if unsettled {
		if err := s.settleSplit(ctx, id); err != nil {
			return nil, err
		}
		s.mu.RLock()
		r = s.regions[id]
		s.mu.RUnlock()
	}
	if r == nil {
		return nil, storage.RegionGone(id)
	}
	if err := r.st.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// ofTable returns the regions of a table that are served here.
func (s *Server) ofTable(id storage.TableID) []*region {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*region
	for _, r := range s.regions {
		if r.table.ID == id {
			out = append(out, r)
		}
	}
	return out
}

// CreateRegion implements storage.Server.
func (s *Server) CreateRegion(ctx context.Context, t *storage.Table, region storage.Region) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	if region.Folder < 0 || region.Folder >= len(s.stores) {
		return fault.Bugf("create region %d: worker %s has no data folder %d", region.ID, s.o.Worker, region.Folder)
	}
	if t.ID != region.Table {
		return fault.Bugf("create region %d: it is of table %d, not %d", region.ID, region.Table, t.ID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.regions[region.ID]; r != nil {
		return nil
	}
	st := s.stores[region.Folder]
	if err := st.err(); err != nil {
		return err
	}
	m := &manifest{table: t, region: region, generations: []generation{{id: st.newID(), clip: region.Range}}}
	r := newRegion(st, m)
	if err := st.install([]change{{r, m}}, nil); err != nil {
		return fmt.Errorf("create region %d: %w", region.ID, err)
	}
	s.regions[r.id] = r
	return nil
}

// DropRegion implements storage.Server.
func (s *Server) DropRegion(ctx context.Context, id storage.RegionID) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	if err := s.settleChild(ctx, id); err != nil {
		return fmt.Errorf("drop region %d: %w", id, err)
	}
	s.mu.RLock()
	r := s.regions[id]
	s.mu.RUnlock()
	if r == nil {
		return nil
	}
	defer lockEdits([]*region{r})()
	cur, err := r.current()
	if err != nil {
		return nil // it went while we waited
	}
	r.latch.Lock()
	defer r.latch.Unlock()
	err = r.st.install([]change{{r, nil}}, func(b *pebble.Batch) error { return deleteGenerations(b, cur.generations) })
	if err != nil {
		return fmt.Errorf("drop region %d: %w", id, err)
	}
	s.mu.Lock()
	delete(s.regions, id)
	s.mu.Unlock()
	return nil
}

// deleteGenerations deletes the rows of generations from the delta.
func deleteGenerations(b *pebble.Batch, gens []generation) error {
	var errs []error
	for _, g := range gens {
		lower, upper := deltaBounds(g.id, g.clip)
		errs = append(errs, b.DeleteRange(lower, upper, nil))
	}
	return errors.Join(errs...)
}

// Stats implements storage.Server.
func (s *Server) Stats(ctx context.Context, id storage.RegionID) (storage.RegionStats, error) {
	if err := s.enter(); err != nil {
		return storage.RegionStats{}, err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return storage.RegionStats{}, err
	}
	// A load that was decided a moment ago should count.
	if err := s.settle(ctx, r, storage.MaxTimestamp); err != nil {
		return storage.RegionStats{}, err
	}
	m, err := r.current()
	if err != nil {
		return storage.RegionStats{}, err
	}
	st := storage.RegionStats{Region: m.region, Rows: r.deltaRows.Load(), DeltaBytes: r.deltaBytes.Load(), Segments: len(m.segments), Generations: len(m.generations)}
	since := erasOf(m.truncates, storage.MaxTimestamp)
	for i := range m.segments {
		rows, bytes := m.segments[i].live(m.region.Range, since)
		st.Rows += rows
		st.Bytes += bytes
	}
	return st, nil
}

// estimate returns about how many rows and bytes of the segment lie in r: whole
// row groups, and half of one that r cuts.
func (e *entry) estimate(r storage.KeyRange) (rows, bytes int64) {
	r, ok := r.Intersect(e.clip)
	if !ok {
		return 0, 0
	}
	for i, g := range e.meta.RowGroups {
		span := storage.KeyRange{Start: g.FirstKey}
		if i+1 < len(e.meta.RowGroups) {
			span.End = e.meta.RowGroups[i+1].FirstKey
		} else {
			span.End = after(e.meta.LastKey)
		}
		switch _, some := r.Intersect(span); {
		case r.Covers(span):
			rows, bytes = rows+g.Rows, bytes+g.Bytes
		case some:
			rows, bytes = rows+(g.Rows+1)/2, bytes+(g.Bytes+1)/2
		}
	}
	return rows, bytes
}

// after returns the lowest key above k.
func after(k storage.Key) storage.Key { return append(append(storage.Key(nil), k...), 0) }

// estimateDelta counts the delta of a region that was just opened: exactly up
// to some thousand rows, beyond that from the size that Pebble reports.
func (r *region) estimateDelta() error {
	const most = 4096
	it, err := newDeltaIter(r.st.db, r.cur.m.generations, r.rng)
	if err != nil {
		return err
	}
	var rows, size int64
	for err = it.first(); err == nil && it.valid() && rows < most; err = it.next() {
		value := it.gens[it.cur].it.LazyValue()
		rows++
		size += int64(len(it.key()) + value.Len())
	}
	more := err == nil && it.valid()
	if err := errors.Join(err, it.close()); err != nil {
		return fmt.Errorf("region %d: %w", r.id, err)
	}
	if more {
		var disk uint64
		for _, g := range r.cur.m.generations {
			lower, upper := deltaBounds(g.id, g.clip)
			n, err := r.st.db.EstimateDiskUsage(lower, upper)
			if err != nil {
				return fmt.Errorf("region %d: size of the delta: %w", r.id, err)
			}
			disk += n
		}
		if total := int64(disk); total > size {
			rows, size = rows*total/max(size, 1), total
		}
	}
	r.deltaRows.Store(rows)
	r.deltaBytes.Store(size)
	return nil
}

func tooOld(r *region, at storage.Timestamp) error {
	return fault.Userf("table %s: snapshot too old: the history at %d ms was dropped", r.table.Name, at.Millis())
}
