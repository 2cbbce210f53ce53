package region

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/skepdb/skep/storage"
)

// CutKeys implements storage.Server.
func (s *Server) CutKeys(ctx context.Context, id storage.RegionID, want storage.KeyRange, at storage.Timestamp, n int) ([]storage.Key, []storage.RegionStats, error) {
	if err := s.enter(); err != nil {
		return nil, nil, err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if err := s.settle(ctx, r, at); err != nil {
		return nil, nil, fmt.Errorf("cut region %d: %w", id, err)
	}
	m, err := r.current()
	if err != nil {
		return nil, nil, err
	}
	rng, ok := want.Intersect(m.region.Range)
	if !ok {
		return nil, []storage.RegionStats{{Region: m.region}}, nil
	}
	since := erasOf(m.truncates, at)
	keys := m.cut(rng, at, since, n)
	parts := make([]storage.RegionStats, len(keys)+1)
	for i := range parts {
		p := &parts[i]
		p.Region = m.region
		p.Range = rng
		if i > 0 {
			p.Range.Start = keys[i-1]
		}
		if i < len(keys) {
			p.Range.End = keys[i]
		}
		for k := range m.segments {
			rows, bytes := m.segments[k].live(p.Range, since)
			p.Rows += rows
			p.Bytes += bytes
			if rows > 0 {
				p.Segments++
			}
		}
		p.Rows += r.deltaRows.Load() / int64(len(parts))
		p.DeltaBytes = r.deltaBytes.Load() / int64(len(parts))
		p.Generations = len(m.generations)
	}
	return keys, parts, nil
}

// cut returns up to n-1 keys strictly inside r at which row groups begin, so
// that the parts between them have about equally many rows.
func (m *manifest) cut(r storage.KeyRange, at storage.Timestamp, since eras, n int) []storage.Key {
	type group struct {
		key  storage.Key
		rows int64
	}
	var groups []group
	var total int64
	for i := range m.segments {
		e := &m.segments[i]
		if e.minBegin() > at {
			continue
		}
		for k, g := range e.meta.RowGroups {
			end := after(e.meta.LastKey)
			if k+1 < len(e.meta.RowGroups) {
				end = e.meta.RowGroups[k+1].FirstKey
			}
			span, ok := r.Intersect(storage.KeyRange{Start: g.FirstKey, End: end})
			if !ok {
				continue
			}
			if lo, _ := since.bounds(span); e.maxBegin() >= lo {
				groups = append(groups, group{g.FirstKey, g.Rows})
				total += g.Rows
			}
		}
	}
	slices.SortFunc(groups, func(a, b group) int { return bytes.Compare(a.key, b.key) })
	var keys []storage.Key
	var below int64
	for _, g := range groups {
		// The next cut is due once the parts so far have their share, or as soon
		// as this group would take more over it than is missing.
		due := int64(len(keys)+1) * total / int64(max(n, 1))
		if len(keys) < n-1 && below > 0 && below+g.rows/2 >= due && bytes.Compare(g.key, r.Start) > 0 && r.Contains(g.key) &&
			(len(keys) == 0 || !bytes.Equal(keys[len(keys)-1], g.key)) {
			keys = append(keys, g.key)
		}
		below += g.rows
	}
	return keys
}
