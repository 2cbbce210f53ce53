package storage

import (
	"errors"

	"github.com/skepdb/skep/internal/fault"
)

// ErrRegionGone is in the tree of errors about a region that this server does
// not hold (any more): it was split, moved or dropped, or never was here. Ask
// the catalogue for the table's regions and go on with those.
var ErrRegionGone = errors.New("not here (any more)")

// RegionGone returns the error of a request for a region that is not here: of
// class Retryable, with ErrRegionGone in its tree.
func RegionGone(id RegionID) error {
	return fault.Retryablef("region %d: %w", id, ErrRegionGone)
}
