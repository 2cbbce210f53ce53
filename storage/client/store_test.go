package client

import (
	"context"
	"errors"
	"testing"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// mapOnly is an authority that knows only a region map.
type mapOnly struct {
	storage.Authority
	regions []storage.Region
	asked   int
}

func (m *mapOnly) Regions(context.Context, storage.TableID) ([]storage.Region, error) {
	m.asked++
	return m.regions, nil
}

// away is a server whose regions are gone for some time.
type away struct {
	storage.Server
	left int
}

func (a *away) Stats(_ context.Context, id storage.RegionID) (storage.RegionStats, error) {
	if a.left > 0 {
		a.left--
		return storage.RegionStats{}, storage.RegionGone(id)
	}
	return storage.RegionStats{Rows: 7}, nil
}

func (a *away) Check(_ context.Context, id storage.RegionID) ([]storage.CheckProblem, error) {
	return nil, storage.RegionGone(id)
}

func at(id storage.RegionID, worker, start, end string) storage.Region {
	return storage.Region{ID: id, Table: 1, Worker: cluster.WorkerID(worker), Range: storage.KeyRange{Start: storage.Key(start), End: storage.Key(end)}}
}

var birds = &storage.Table{ID: 1, Name: "default.birds", Columns: schema.Columns{{ID: 1, Name: "id", Type: schema.IntType}}}

func TestAGapIsLoud(t *testing.T) {
	ctx := context.Background()
	auth := &mapOnly{regions: []storage.Region{at(1, "w", "", "b"), at(2, "w", "c", "")}}
	s := New(auth, map[cluster.WorkerID]storage.Server{"w": &away{}}, nil)
	_, err := s.Scan(ctx, birds, storage.Scan{})
	want := "table default.birds: the catalogue's regions don't cover the keys: no region covers [62, 63)"
	if err == nil || err.Error() != want || fault.ClassOf(err) != fault.Bug {
		t.Errorf("scan: %v, want %s", err, want)
	}
	problems, err := s.Check(ctx, birds)
	if err != nil || len(problems) != 3 || problems[0].Detail != "table default.birds: no region covers [62, 63)" || problems[1].String() != "region 1: worker w does not have it" {
		t.Errorf("check: %v, %v", problems, err)
	}
}

func TestRegionsThatAreGoneAreAskedForAgain(t *testing.T) {
	ctx := context.Background()
	auth := &mapOnly{regions: []storage.Region{at(1, "w", "", "")}}
	server := &away{left: 3}
	s := New(auth, map[cluster.WorkerID]storage.Server{"w": server}, nil)
	stats, err := s.Regions(ctx, birds)
	if err != nil || len(stats) != 1 || stats[0].Rows != 7 || auth.asked != 4 {
		t.Errorf("%v, %v; asked %d times", stats, err, auth.asked)
	}
	// Not for ever, and not after the caller has gone.
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	server.left = 1000
	if _, err := s.Regions(canceled, birds); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
	if server.left < 990 {
		t.Errorf("asked %d times after cancel", 1000-server.left)
	}
	// A worker that isn't there is worth a retry by the caller.
	auth.regions = []storage.Region{at(1, "elsewhere", "", "")}
	err = s.Flush(ctx, birds)
	if want := "region 1 is on worker elsewhere, which is not there"; err == nil || err.Error() != want || fault.ClassOf(err) != fault.Retryable {
		t.Errorf("%v, want %s", err, want)
	}
	// But figures are hints: a job over its regions can be planned meanwhile.
	stats, err = s.Regions(ctx, birds)
	if err != nil || len(stats) != 1 || stats[0].Region.Worker != "elsewhere" || stats[0].Rows != 0 {
		t.Errorf("regions of a worker that isn't there: %v, %v", stats, err)
	}
}

func TestPlacesAreTakenInTurns(t *testing.T) {
	places := []Place{{"b", 1}, {"a", 0}, {"b", 0}, {"a", 1}}
	s := New(&mapOnly{}, nil, places)
	want := []Place{{"a", 0}, {"b", 0}, {"a", 1}, {"b", 1}}
	for i, p := range inTurn(s.directory.Places()) {
		if p != want[i] {
			t.Errorf("place %d is %v, want %v", i, p, want[i])
		}
	}
}
