package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// Stage implements storage.Store. Rows of a keyed or partitioned table go to
// the servers of their regions; a task's rows of any other all go to one region,
// task k to region k mod n. A region that is split meanwhile makes the attempt fail
// with a retryable error.
func (s *Store) Stage(ctx context.Context, t *storage.Table, o storage.StageOptions) (storage.StageWriter, error) {
	regions, err := s.regions(ctx, t, storage.Whole())
	if err != nil {
		return nil, fmt.Errorf("stage into %s: %w", t.Name, err)
	}
	w := &stageWriter{store: s, table: t, o: o, regions: regions, byWorker: map[cluster.WorkerID]storage.StageWriter{}}
	if !t.Keyed() && !t.Partitioned {
		w.regions = []storage.Region{regions[max(o.Task, 0)%len(regions)]}
		return w, nil
	}
	if w.keyer, err = newKeyer(t, t.Columns); err != nil {
		return nil, err
	}
	if !t.Keyed() {
		// Which ordinal a row gets its server decides. Only a region cut between
		// the ordinals of this very task could tell.
		w.keyer.suffix = rowkey.AppendImplicit(nil, rowkey.Stripe(o.Task), uint64(o.Txn), uint32(o.Task), 0)
	}
	w.one = !slices.ContainsFunc(regions, func(r storage.Region) bool { return r.Worker != regions[0].Worker })
	return w, nil
}

type stageWriter struct {
	store    *Store
	table    *storage.Table
	o        storage.StageOptions
	regions  []storage.Region
	keyer    *keyer // nil: all rows go to one region
	one      bool   // all regions are one worker's
	byWorker map[cluster.WorkerID]storage.StageWriter
	order    []cluster.WorkerID // of byWorker
	done     bool
}

// to returns the writer for a worker's regions.
func (w *stageWriter) to(ctx context.Context, id cluster.WorkerID) (storage.StageWriter, error) {
	if sw, ok := w.byWorker[id]; ok {
		return sw, nil
	}
	var own []storage.Region
	for _, r := range w.regions {
		if r.Worker == id {
			own = append(own, r)
		}
	}
	server, err := w.store.server(own[0])
	if err != nil {
		return nil, err
	}
	sw, err := server.Stage(ctx, w.table, own, w.o)
	if err != nil {
		return nil, err
	}
	w.byWorker[id] = sw
	w.order = append(w.order, id)
	return sw, nil
}

// Write implements storage.StageWriter.
func (w *stageWriter) Write(ctx context.Context, b *batch.Batch) error {
	if w.done {
		return fault.Bugf("stage into %s: write after Finish or Abort", w.table.Name)
	}
	if b.Rows() == 0 {
		return nil
	}
	if w.one || w.keyer == nil {
		sw, err := w.to(ctx, w.regions[0].Worker)
		if err != nil {
			return err
		}
		return sw.Write(ctx, b)
	}
	data, offsets, err := w.keyer.keys(b)
	if err != nil {
		return fmt.Errorf("stage into %s: %w", w.table.Name, err)
	}
	rows := map[cluster.WorkerID][]int32{}
	for _, g := range byRegion(b, data, offsets, w.regions) {
		rows[g.region.Worker] = append(rows[g.region.Worker], g.rows...)
	}
	for id, sel := range rows {
		sw, err := w.to(ctx, id)
		if err != nil {
			return err
		}
		// The order of rows decides which of two equal keys wins, and sorted
		// rows must stay so.
		slices.Sort(sel)
		part := &batch.Batch{Columns: b.Columns, Len: b.Len, Sel: sel}
		if len(sel) == b.Len {
			part.Sel = nil
		}
		if err := sw.Write(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// Finish implements storage.StageWriter.
func (w *stageWriter) Finish(ctx context.Context) (storage.Staged, error) {
	if w.done {
		return storage.Staged{}, fault.Bugf("stage into %s: finished twice", w.table.Name)
	}
	out := storage.Staged{Attempt: w.o.Attempt}
	for _, id := range w.order {
		part, err := w.byWorker[id].Finish(ctx)
		if err != nil {
			return storage.Staged{}, errors.Join(err, w.Abort())
		}
		out.Rows += part.Rows
		out.Bytes += part.Bytes
		out.Duplicates += part.Duplicates
		out.Regions = append(out.Regions, part.Regions...)
	}
	w.done = true
	return out, nil
}

// Abort implements storage.StageWriter.
func (w *stageWriter) Abort() error {
	w.done = true
	var errs []error
	for _, id := range w.order {
		errs = append(errs, w.byWorker[id].Abort())
	}
	return errors.Join(errs...)
}

// StageTruncate implements storage.Store.
func (s *Store) StageTruncate(ctx context.Context, t *storage.Table, txn storage.TxnID, ranges ...storage.KeyRange) error {
	// Halves of a split carry what their parent had, so asking again is fine.
	err := retry(ctx, func() error {
		return s.each(ctx, t, func(ctx context.Context, _ int, r storage.Region, server storage.Server) error {
			var own []storage.KeyRange
			for _, want := range ranges {
				if part, ok := r.Range.Intersect(want); ok {
					own = append(own, part)
				}
			}
			if len(own) == 0 {
				return nil
			}
			return server.StageTruncate(ctx, r.ID, txn, own...)
		})
	})
	if err != nil {
		return fmt.Errorf("truncate %s: %w", t.Name, err)
	}
	return nil
}

// Resolve implements storage.Store: every server applies the outcome to all
// its regions, also those that hold a part of it without the catalogue knowing.
func (s *Store) Resolve(ctx context.Context, t *storage.Table, txn storage.TxnID) error {
	regions, err := s.regions(ctx, t, storage.Whole())
	if err != nil {
		return err
	}
	var seen []storage.Region // one of each worker
	for _, r := range regions {
		if !slices.ContainsFunc(seen, func(x storage.Region) bool { return x.Worker == r.Worker }) {
			seen = append(seen, r)
		}
	}
	return s.eachOf(ctx, seen, func(ctx context.Context, _ int, _ storage.Region, server storage.Server) error {
		return server.Resolve(ctx, txn)
	})
}
