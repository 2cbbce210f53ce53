package node

import (
	"context"
	"errors"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// unionServer is the regions of all workers of one process behind one address. A
// region that one doesn't have may be another's.
type unionServer []*lazyServer

var _ storage.Server = unionServer{}

// try asks one server after the other until one knows the region.
func try[R any](u unionServer, id storage.RegionID, f func(storage.Server) (R, error)) (R, error) {
	result, err := *new(R), storage.RegionGone(id)
	for _, s := range u {
		if result, err = f(s); !errors.Is(err, storage.ErrRegionGone) {
			break
		}
	}
	return result, err
}

func tryDo(u unionServer, id storage.RegionID, f func(storage.Server) error) error {
	_, err := try(u, id, func(s storage.Server) (struct{}, error) { return struct{}{}, f(s) })
	return err
}

// CreateRegion makes the region at the worker that it names; the folder's number
// alone would not tell which.
func (u unionServer) CreateRegion(ctx context.Context, t *storage.Table, r storage.Region) error {
	for _, s := range u {
		if s.worker == r.Worker {
			return s.CreateRegion(ctx, t, r)
		}
	}
	return fault.Retryablef("region %d: worker %s is not here", r.ID, r.Worker)
}

// DropRegion is idempotent at each.
func (u unionServer) DropRegion(ctx context.Context, id storage.RegionID) error {
	var errs []error
	for _, s := range u {
		errs = append(errs, s.DropRegion(ctx, id))
	}
	return errors.Join(errs...)
}

func (u unionServer) Stats(ctx context.Context, id storage.RegionID) (storage.RegionStats, error) {
	return try(u, id, func(s storage.Server) (storage.RegionStats, error) { return s.Stats(ctx, id) })
}

func (u unionServer) CutKeys(ctx context.Context, id storage.RegionID, r storage.KeyRange, at storage.Timestamp, n int) (keys []storage.Key, parts []storage.RegionStats, err error) {
	err = tryDo(u, id, func(s storage.Server) error {
		keys, parts, err = s.CutKeys(ctx, id, r, at, n)
		return err
	})
	return keys, parts, err
}

func (u unionServer) Scan(ctx context.Context, sc storage.Scan) (storage.ScanReader, error) {
	return try(u, sc.Region, func(s storage.Server) (storage.ScanReader, error) { return s.Scan(ctx, sc) })
}

func (u unionServer) Get(ctx context.Context, id storage.RegionID, keys []storage.Key, at storage.Timestamp, columns schema.Columns) (*batch.Batch, error) {
	return try(u, id, func(s storage.Server) (*batch.Batch, error) { return s.Get(ctx, id, keys, at, columns) })
}

func (u unionServer) Put(ctx context.Context, id storage.RegionID, columns schema.Columns, b *batch.Batch) (storage.Timestamp, error) {
	return try(u, id, func(s storage.Server) (storage.Timestamp, error) { return s.Put(ctx, id, columns, b) })
}

func (u unionServer) Delete(ctx context.Context, id storage.RegionID, keys []storage.Key) (storage.Timestamp, error) {
	return try(u, id, func(s storage.Server) (storage.Timestamp, error) { return s.Delete(ctx, id, keys) })
}

// Stage stages at the worker whose regions these are: a caller gives those of one.
func (u unionServer) Stage(ctx context.Context, t *storage.Table, regions []storage.Region, o storage.StageOptions) (storage.StageWriter, error) {
	for _, s := range u {
		if len(regions) > 0 && s.worker == regions[0].Worker {
			return s.Stage(ctx, t, regions, o)
		}
	}
	return nil, fault.Retryablef("stage into %s: its regions are on a worker that is not here", t.Name)
}

func (u unionServer) StageTruncate(ctx context.Context, id storage.RegionID, txn storage.TxnID, ranges ...storage.KeyRange) error {
	return tryDo(u, id, func(s storage.Server) error { return s.StageTruncate(ctx, id, txn, ranges...) })
}

// Resolve applies the outcome at each.
func (u unionServer) Resolve(ctx context.Context, txn storage.TxnID) error {
	var errs []error
	for _, s := range u {
		errs = append(errs, s.Resolve(ctx, txn))
	}
	return errors.Join(errs...)
}

func (u unionServer) Flush(ctx context.Context, id storage.RegionID) error {
	return tryDo(u, id, func(s storage.Server) error { return s.Flush(ctx, id) })
}

func (u unionServer) Split(ctx context.Context, id storage.RegionID, at storage.Key) ([2]storage.Region, error) {
	return try(u, id, func(s storage.Server) ([2]storage.Region, error) { return s.Split(ctx, id, at) })
}

func (u unionServer) ReplaceEmpty(ctx context.Context, id storage.RegionID, with []storage.Region) (bool, error) {
	return try(u, id, func(s storage.Server) (bool, error) { return s.ReplaceEmpty(ctx, id, with) })
}

func (u unionServer) Check(ctx context.Context, id storage.RegionID) ([]storage.CheckProblem, error) {
	return try(u, id, func(s storage.Server) ([]storage.CheckProblem, error) { return s.Check(ctx, id) })
}
