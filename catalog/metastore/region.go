package metastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// Regions implements storage.Authority.
func (s *Store) Regions(ctx context.Context, table storage.TableID) ([]storage.Region, error) {
	if err := s.rlock(ctx); err != nil {
		return nil, err
	}
	cached, ok := s.regions[table]
	s.mu.RUnlock()
	if ok {
		return slices.Clone(cached), nil
	}
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if _, err := s.tableByID(table); err != nil {
		return nil, err
	}
	regions, err := s.regionsOf(table)
	return slices.Clone(regions), err
}

// regionsOf reads a table's regions once; mu is held for writing.
func (s *Store) regionsOf(table storage.TableID) ([]storage.Region, error) {
	if r, ok := s.regions[table]; ok {
		return r, nil
	}
	var out []storage.Region
	err := s.each(regionPrefix(table), func(key, value []byte) error {
		id, ok := decodeUint64(key)
		if !ok {
			return fault.Bugf("catalogue: a region of table %d has key %x", table, key)
		}
		var r regionRecord
		if err := parseRecord(key, value, &r); err != nil {
			return err
		}
		out = append(out, r.region(table, storage.RegionID(id)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.regions[table] = sortRegions(out)
	return out, nil
}

// ReplaceRegions implements storage.Authority.
func (s *Store) ReplaceRegions(ctx context.Context, table storage.TableID, old []storage.RegionID, with []storage.Region) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, err := s.tableByID(table); err != nil {
		return err
	}
	current, err := s.regionsOf(table)
	if err != nil {
		return err
	}
	next := make([]storage.Region, 0, len(current)+len(with))
	gone := 0
	for _, r := range current {
		if slices.Contains(old, r.ID) {
			gone++
			continue
		}
		next = append(next, r)
	}
	if gone != len(old) {
		for _, id := range old {
			if !slices.ContainsFunc(current, func(r storage.Region) bool { return r.ID == id }) {
				return fault.Retryablef("replace regions of table %d: %w", table, storage.RegionGone(id))
			}
		}
		return fault.Bugf("replace regions of table %d: a region is named twice", table)
	}
	next = sortRegions(append(next, with...))
	// The table's regions tiled before; if they tile after, old and new cover
	// the same keys.
	if err := checkRegions(table, next); err != nil {
		return fault.Bugf("replace regions of table %d: %w", table, err)
	}
	b := s.db.NewBatch()
	for _, id := range old {
		err = errors.Join(err, b.Delete(regionKey(table, id), nil))
	}
	for _, r := range with {
		err = errors.Join(err, setRecord(b, regionKey(table, r.ID), recordOfRegion(r)))
	}
	if err != nil {
		return err
	}
	if err := s.apply(b); err != nil {
		return err
	}
	s.regions[table] = next
	return nil
}

// sortRegions sorts by key, in place.
func sortRegions(regions []storage.Region) []storage.Region {
	slices.SortFunc(regions, func(a, b storage.Region) int { return bytes.Compare(a.Range.Start, b.Range.Start) })
	return regions
}

// checkRegions reports that regions, by key, are the table's, have ids and tile.
func checkRegions(table storage.TableID, regions []storage.Region) error {
	sorted := sortRegions(slices.Clone(regions))
	ranges := make([]storage.KeyRange, len(sorted))
	ids := map[storage.RegionID]bool{}
	for i, r := range sorted {
		if r.Table != table || r.ID == 0 || r.Worker == "" || ids[r.ID] {
			return fmt.Errorf("region %d of table %d on worker %q is not one of table %d", r.ID, r.Table, r.Worker, table)
		}
		ids[r.ID] = true
		ranges[i] = r.Range
	}
	return storage.CheckTiling(storage.Whole(), ranges)
}
