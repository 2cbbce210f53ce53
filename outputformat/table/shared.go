package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// shared is a transaction of several jobs: what they write appears in one step.
type shared struct {
	tables  []*storage.Table
	winners []string
}

// BeginShared opens a transaction for several jobs, whose Specs have Shared and Txn
// set. CommitShared or AbortShared ends it.
func (f *Format) BeginShared(ctx context.Context, kind catalog.TxnKind, tables []*storage.Table) (storage.TxnID, error) {
	var ids []storage.TableID
	var once []*storage.Table
	for _, t := range tables {
		if !slices.Contains(ids, t.ID) {
			ids, once = append(ids, t.ID), append(once, t)
		}
	}
	txn, err := f.catalog.Begin(ctx, kind, ids)
	if err != nil {
		return 0, fmt.Errorf("begin a transaction: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shared[txn] = &shared{tables: once}
	return txn, nil
}

func (f *Format) sharedOf(txn storage.TxnID) (*shared, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.shared[txn]
	if s == nil {
		return nil, fault.Bugf("transaction %d is not one of several jobs, or has ended", txn)
	}
	return s, nil
}

// note adds the winners of one job.
func (f *Format) note(spec Spec, winners []string) error {
	s, err := f.sharedOf(spec.Txn)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range winners {
		if !slices.Contains(s.winners, w) { // a publish may be repeated
			s.winners = append(s.winners, w)
		}
	}
	return nil
}

// CommitShared makes what all jobs wrote visible.
func (f *Format) CommitShared(ctx context.Context, txn storage.TxnID) error {
	s, err := f.sharedOf(txn)
	if err != nil {
		return err
	}
	if _, err := f.catalog.Commit(ctx, txn, s.winners); err != nil {
		return err
	}
	// From here on it is done; see Publish.
	if err := f.endShared(context.WithoutCancel(ctx), txn, s); err != nil && f.Logger != nil {
		f.Logger.Warn("a published transaction is not applied everywhere yet", "txn", uint64(txn), "error", err)
	}
	return nil
}

// AbortShared drops what all jobs wrote.
func (f *Format) AbortShared(ctx context.Context, txn storage.TxnID) error {
	s, err := f.sharedOf(txn)
	if err != nil {
		return err
	}
	if err := f.catalog.Abort(ctx, txn); err != nil {
		return err
	}
	return f.endShared(ctx, txn, s)
}

func (f *Format) endShared(ctx context.Context, txn storage.TxnID, s *shared) error {
	f.mu.Lock()
	delete(f.shared, txn)
	f.mu.Unlock()
	var errs []error
	for _, t := range s.tables {
		errs = append(errs, f.store.Resolve(ctx, t, txn))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return f.catalog.Forget(ctx, txn)
}

// Truncate ends the rows of a table, or those of some of its partitions, in one
// step. With drop the partitions end, too.
func (f *Format) Truncate(ctx context.Context, t *storage.Table, partitions []storage.PartitionID, drop bool) error {
	kind, ranges := catalog.TxnTruncate, []storage.KeyRange{storage.Whole()}
	if partitions != nil {
		if ranges = nil; len(partitions) == 0 {
			return nil
		}
		for _, id := range partitions {
			ranges = append(ranges, id.Range())
		}
	}
	if drop {
		kind = catalog.TxnPartition
	}
	txn, err := f.BeginShared(ctx, kind, []*storage.Table{t})
	if err != nil {
		return err
	}
	if err = f.store.StageTruncate(ctx, t, txn, ranges...); err == nil && drop {
		err = f.catalog.DropPartitions(ctx, txn, t.ID, partitions)
	}
	if err == nil {
		err = f.CommitShared(ctx, txn)
	}
	if err != nil {
		return errors.Join(err, f.AbortShared(context.WithoutCancel(ctx), txn))
	}
	return nil
}
