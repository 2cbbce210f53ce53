// Package client is the table-level view of the region servers: it finds the
// regions of a key range, cuts batches by region, follows splits, and places
// new regions.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"golang.org/x/sync/errgroup"
)

// Place is where a region can live.
type Place struct {
	Worker cluster.WorkerID
	Folder int
}

// Directory says which servers there are at the moment. Safe for concurrent use.
type Directory interface {
	// Server returns the server of a worker; false if the worker isn't there.
	Server(cluster.WorkerID) (storage.Server, bool)
	// Places are where new regions may live.
	Places() []Place
}

// Store implements storage.Store over the servers of a directory.
type Store struct {
	authority storage.Authority
	directory Directory
}

// fixed is a directory that doesn't change.
type fixed struct {
	servers map[cluster.WorkerID]storage.Server
	places  []Place
}

func (f fixed) Server(id cluster.WorkerID) (storage.Server, bool) {
	s, ok := f.servers[id]
	return s, ok
}

func (f fixed) Places() []Place { return f.places }

var _ storage.Store = (*Store)(nil)

// New returns a store over servers that don't change. Regions of new tables are
// spread over places; nil means folder 0 of each server.
func New(authority storage.Authority, servers map[cluster.WorkerID]storage.Server, places []Place) *Store {
	if len(places) == 0 {
		for id := range servers {
			places = append(places, Place{Worker: id})
		}
	}
	return Over(authority, fixed{servers: servers, places: places})
}

// Over returns a store over the servers that a directory has at the moment.
func Over(authority storage.Authority, d Directory) *Store {
	return &Store{authority: authority, directory: d}
}

// inTurn sorts places: one folder of each worker, then the next of each.
// Neighbouring regions are then on different workers, and all folders get their share.
func inTurn(places []Place) []Place {
	places = slices.Clone(places)
	slices.SortFunc(places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Folder, b.Folder), cmp.Compare(a.Worker, b.Worker))
	})
	return places
}

const (
	// A region that has just been split is in the catalogue before its halves
	// answer; waits double from firstWait to lastWait, tries times.
	tries     = 12
	firstWait = time.Millisecond
	lastWait  = 256 * time.Millisecond
)

// retry calls f again while it reports a region that is gone.
func retry(ctx context.Context, f func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == tries || !errors.Is(err, storage.ErrRegionGone) {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		wait = min(2*wait, lastWait)
	}
}

// server returns the server of a region.
func (s *Store) server(r storage.Region) (storage.Server, error) {
	server, ok := s.directory.Server(r.Worker)
	if !ok {
		return nil, fault.Unavailablef("region %d is on worker %s, which is not there", r.ID, r.Worker)
	}
	return server, nil
}

// regions returns the regions of t in r, by key, and proves that they tile it.
func (s *Store) regions(ctx context.Context, t *storage.Table, r storage.KeyRange) ([]storage.Region, error) {
	if r.Empty() {
		return nil, nil
	}
	all, err := s.authority.Regions(ctx, t.ID)
	if err != nil {
		return nil, fmt.Errorf("regions of table %s: %w", t.Name, err)
	}
	var out []storage.Region
	var ranges []storage.KeyRange
	for _, g := range all {
		if part, ok := g.Range.Intersect(r); ok {
			out = append(out, g)
			ranges = append(ranges, part)
		}
	}
	if err := storage.CheckTiling(r, ranges); err != nil {
		return nil, fault.Bugf("table %s: the catalogue's regions don't cover the keys: %w", t.Name, err)
	}
	return out, nil
}

// each calls f for every region of t, a few at a time.
func (s *Store) each(ctx context.Context, t *storage.Table, f func(ctx context.Context, i int, r storage.Region, server storage.Server) error) error {
	regions, err := s.regions(ctx, t, storage.Whole())
	if err != nil {
		return err
	}
	return s.eachOf(ctx, regions, f)
}

func (s *Store) eachOf(ctx context.Context, regions []storage.Region, f func(ctx context.Context, i int, r storage.Region, server storage.Server) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, r := range regions {
		server, err := s.server(r)
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return f(ctx, i, r, server) })
	}
	return g.Wait()
}

// CreateTable implements storage.Store.
func (s *Store) CreateTable(ctx context.Context, t *storage.Table, cuts []storage.Key) ([]storage.Region, error) {
	regions, err := s.place(ctx, t, cuts)
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", t.Name, err)
	}
	return regions, nil
}

// place makes empty regions between the cuts, in turns over the places.
func (s *Store) place(ctx context.Context, t *storage.Table, cuts []storage.Key) ([]storage.Region, error) {
	places := inTurn(s.directory.Places())
	if len(places) == 0 {
		return nil, fault.Unavailablef("there is no worker with a data folder")
	}
	regions := make([]storage.Region, len(cuts)+1)
	ranges := make([]storage.KeyRange, len(regions))
	for i := range regions {
		id, err := s.authority.NewRegionID(ctx)
		if err != nil {
			return nil, err
		}
		// Small tables begin at different places.
		p := places[(uint64(t.ID)+uint64(i))%uint64(len(places))]
		r := storage.Region{ID: id, Table: t.ID, Worker: p.Worker, Folder: p.Folder}
		if i > 0 {
			r.Range.Start = cuts[i-1]
		}
		if i < len(cuts) {
			r.Range.End = cuts[i]
		}
		regions[i], ranges[i] = r, r.Range
	}
	if err := storage.CheckTiling(storage.Whole(), ranges); err != nil {
		return nil, fault.Bugf("the cuts are not ascending: %w", err)
	}
	return regions, s.eachOf(ctx, regions, func(ctx context.Context, _ int, r storage.Region, server storage.Server) error {
		return server.CreateRegion(ctx, t, r)
	})
}

// DropRegions implements storage.Store.
func (s *Store) DropRegions(ctx context.Context, regions []storage.Region) error {
	return s.eachOf(ctx, regions, func(ctx context.Context, _ int, r storage.Region, server storage.Server) error {
		return server.DropRegion(ctx, r.ID)
	})
}

// SpreadEmpty implements storage.Store.
func (s *Store) SpreadEmpty(ctx context.Context, t *storage.Table, cuts []storage.Key) (bool, error) {
	now, err := s.regions(ctx, t, storage.Whole())
	if err != nil || len(now) != 1 {
		return false, err
	}
	server, err := s.server(now[0])
	if err != nil {
		return false, err
	}
	regions, err := s.place(ctx, t, cuts)
	if err != nil {
		return false, fmt.Errorf("spread table %s: %w", t.Name, err)
	}
	done, err := server.ReplaceEmpty(ctx, now[0].ID, regions)
	if errors.Is(err, storage.ErrRegionGone) {
		err = nil // somebody else has cut the table
	}
	if !done {
		// Whether or not they are in the catalogue after an error: ask before they go.
		live, askErr := s.authority.Regions(context.WithoutCancel(ctx), t.ID)
		if askErr != nil || slices.ContainsFunc(live, func(r storage.Region) bool { return r.ID == regions[0].ID }) {
			return false, errors.Join(err, askErr)
		}
		return false, errors.Join(err, s.DropRegions(context.WithoutCancel(ctx), regions))
	}
	return true, err
}

// Regions implements storage.Store. A region that is split meanwhile is asked
// for again; one whose worker isn't there has no figures.
func (s *Store) Regions(ctx context.Context, t *storage.Table) ([]storage.RegionStats, error) {
	var out []storage.RegionStats
	err := retry(ctx, func() error {
		regions, err := s.regions(ctx, t, storage.Whole())
		if err != nil {
			return err
		}
		out = make([]storage.RegionStats, len(regions))
		var there []int
		var asked []storage.Region
		for i, r := range regions {
			out[i].Region = r
			if _, err := s.server(r); err == nil {
				there, asked = append(there, i), append(asked, r)
			}
		}
		return s.eachOf(ctx, asked, func(ctx context.Context, k int, r storage.Region, server storage.Server) error {
			stats, err := server.Stats(ctx, r.ID)
			switch {
			case err == nil:
				out[there[k]] = stats
			case errors.Is(err, fault.ErrUnavailable):
				return nil
			}
			return err
		})
	})
	return out, err
}

// Flush implements storage.Store.
func (s *Store) Flush(ctx context.Context, t *storage.Table) error {
	return retry(ctx, func() error {
		return s.each(ctx, t, func(ctx context.Context, _ int, r storage.Region, server storage.Server) error {
			return server.Flush(ctx, r.ID)
		})
	})
}

// find returns a region of t by its id.
func (s *Store) find(ctx context.Context, t *storage.Table, id storage.RegionID) (storage.Region, storage.Server, error) {
	regions, err := s.authority.Regions(ctx, t.ID)
	if err != nil {
		return storage.Region{}, nil, fmt.Errorf("regions of table %s: %w", t.Name, err)
	}
	for _, r := range regions {
		if r.ID == id {
			server, err := s.server(r)
			return r, server, err
		}
	}
	return storage.Region{}, nil, storage.RegionGone(id)
}

// Split implements storage.Store.
func (s *Store) Split(ctx context.Context, t *storage.Table, region storage.RegionID, at storage.Key) ([2]storage.Region, error) {
	_, server, err := s.find(ctx, t, region)
	if errors.Is(err, storage.ErrRegionGone) {
		return [2]storage.Region{}, fault.Userf("table %s has no region %d", t.Name, region)
	}
	if err != nil {
		return [2]storage.Region{}, err
	}
	return server.Split(ctx, region, at)
}

// CutKeys implements storage.Store.
func (s *Store) CutKeys(ctx context.Context, t *storage.Table, region storage.RegionID, r storage.KeyRange, at storage.Timestamp, n int) ([]storage.Key, []storage.RegionStats, error) {
	_, server, err := s.find(ctx, t, region)
	if err != nil {
		return nil, nil, err
	}
	return server.CutKeys(ctx, region, r, at, n)
}

// Check implements storage.Store.
func (s *Store) Check(ctx context.Context, t *storage.Table) ([]storage.CheckProblem, error) {
	regions, err := s.authority.Regions(ctx, t.ID)
	if err != nil {
		return nil, fmt.Errorf("regions of table %s: %w", t.Name, err)
	}
	var problems []storage.CheckProblem
	ranges := make([]storage.KeyRange, len(regions))
	for i, r := range regions {
		ranges[i] = r.Range
	}
	if err := storage.CheckTiling(storage.Whole(), ranges); err != nil {
		problems = append(problems, storage.CheckProblem{Detail: "table " + t.Name + ": " + err.Error()})
	}
	found := make([][]storage.CheckProblem, len(regions))
	err = s.eachOf(ctx, regions, func(ctx context.Context, i int, r storage.Region, server storage.Server) (err error) {
		found[i], err = server.Check(ctx, r.ID)
		if errors.Is(err, storage.ErrRegionGone) {
			found[i], err = []storage.CheckProblem{{Region: r.ID, Detail: fmt.Sprintf("worker %s does not have it", r.Worker)}}, nil
		}
		return err
	})
	for _, f := range found {
		problems = append(problems, f...)
	}
	return problems, err
}
