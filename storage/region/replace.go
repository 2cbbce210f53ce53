package region

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// ReplaceEmpty implements storage.Server. Puts wait on the latch and are then
// told to look the region up again, so none can fall between the proof that the
// region is empty and its end. A crash after the catalogue's step leaves an
// empty region here that nobody asks for.
func (s *Server) ReplaceEmpty(ctx context.Context, id storage.RegionID, with []storage.Region) (bool, error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return false, err
	}
	done, err := s.replaceEmpty(ctx, r, with)
	if err != nil {
		return false, fmt.Errorf("replace region %d of %s: %w", id, r.table.Name, err)
	}
	return done, nil
}

func (s *Server) replaceEmpty(ctx context.Context, r *region, with []storage.Region) (bool, error) {
	if len(with) == 0 {
		return false, fault.Bugf("by no region")
	}
	defer lockEdits([]*region{r})()
	r.latch.Lock()
	defer r.latch.Unlock()
	m, err := r.current()
	if err != nil {
		return false, err
	}
	if len(m.segments) > 0 || len(m.pending) > 0 {
		return false, nil
	}
	if empty, err := r.emptyDelta(m.generations); err != nil || !empty {
		return false, err
	}
	if err := s.o.Authority.ReplaceRegions(ctx, r.table.ID, []storage.RegionID{r.id}, with); err != nil {
		// It may have happened all the same.
		live, askErr := s.o.Authority.Regions(context.WithoutCancel(ctx), r.table.ID)
		if askErr != nil || !slices.ContainsFunc(live, func(x storage.Region) bool { return x.ID == with[0].ID }) {
			return false, errors.Join(err, askErr)
		}
	}
	if err := r.st.install([]change{{r, nil}}, nil); err != nil {
		return false, err
	}
	s.mu.Lock()
	delete(s.regions, r.id)
	s.mu.Unlock()
	return true, nil
}
