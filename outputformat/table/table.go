// Package table writes the output of a job to a table of the region store: all
// attempts stage their rows in one transaction, and one compare-and-set in the
// catalogue makes those of the winners visible, in all regions at once.
package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Name is the format's name in a registry.
const Name = "table"

// Spec says which table to write. The fields of what is written are the
// table's columns, in its order, and behind them the partition columns, if
// any.
type Spec struct {
	Table *storage.Table
	// Overwrite ends all rows that are there, in the same step in which the new
	// ones appear; of a partitioned table, those of the partitions that are written.
	Overwrite bool
	Kind      catalog.TxnKind
	Txn       storage.TxnID // filled in by Begin
	// Partitions is set for a partitioned table.
	Partitions *Partitions
	// Shared says that Txn is the transaction of several jobs, opened by
	// Format.BeginShared: a publish only notes the winners.
	Shared bool
	// FirstTask is added to the numbers of tasks, so that row ids of the jobs
	// of one transaction differ.
	FirstTask int
}

// Partitions says where the rows of a partitioned table go.
type Partitions struct {
	Columns schema.Columns
	// Static are the values of the first columns, which the statement names. When
	// they are all, the partition is made, and overwritten, also without any row.
	Static []schema.Datum
	// Most and MostOfTask bound the partitions that the job, and one of its
	// tasks, may write by values of the rows; 0: no bound.
	Most, MostOfTask int
}

// Format implements outputformat.Spec.
func (s Spec) Format() string { return Name }

// Describe implements outputformat.Spec.
func (s Spec) Describe() string {
	if s.Overwrite {
		return s.Table.Name + ", overwriting it"
	}
	return s.Table.Name
}

// Format implements outputformat.Format.
type Format struct {
	// Logger hears of tidying that failed after a publish; nil: nobody does. Set
	// it before use.
	Logger *slog.Logger

	catalog catalog.Store
	store   storage.Store

	mu        sync.Mutex
	published map[storage.TxnID]outputformat.Summary // some of the latest, for retries
	shared    map[storage.TxnID]*shared
}

// New returns the format over a catalogue and a store.
func New(c catalog.Store, s storage.Store) *Format {
	return &Format{catalog: c, store: s, published: map[storage.TxnID]outputformat.Summary{}, shared: map[storage.TxnID]*shared{}}
}

// maxPublished bounds Format.published: a publish is retried soon or never.
const maxPublished = 1000

func (f *Format) remember(txn storage.TxnID, sum outputformat.Summary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.published) >= maxPublished {
		clear(f.published)
	}
	f.published[txn] = sum
}

func (f *Format) summary(txn storage.TxnID) (outputformat.Summary, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum, ok := f.published[txn]
	return sum, ok
}

var _ outputformat.Format = (*Format)(nil)

func specOf(s outputformat.Spec) (Spec, error) {
	spec, ok := s.(Spec)
	if !ok {
		return Spec{}, fault.Bugf("output format %s: a spec of type %T", Name, s)
	}
	return spec, nil
}

func begun(s outputformat.Spec) (Spec, error) {
	spec, err := specOf(s)
	if err == nil && spec.Txn == 0 {
		err = fault.Bugf("output format %s: the transaction of %s has not begun", Name, spec.Table.Name)
	}
	return spec, err
}

// Begin implements outputformat.Format: it opens the transaction's record, and
// with Overwrite stages the end of what is there.
func (f *Format) Begin(ctx context.Context, s outputformat.Spec) (outputformat.Spec, error) {
	spec, err := specOf(s)
	if err != nil {
		return nil, err
	}
	if spec.Kind == "" {
		spec.Kind = catalog.TxnInsert
	}
	if !spec.Shared {
		if spec.Txn, err = f.catalog.Begin(ctx, spec.Kind, []storage.TableID{spec.Table.ID}); err != nil {
			return nil, fmt.Errorf("begin writing to %s: %w", spec.Table.Name, err)
		}
	}
	if err := f.begin(ctx, spec); err != nil {
		return nil, errors.Join(err, f.Abandon(context.WithoutCancel(ctx), spec))
	}
	return spec, nil
}

// begin stages what is known before the first row.
func (f *Format) begin(ctx context.Context, spec Spec) error {
	p := spec.Partitions
	switch {
	case p == nil && spec.Overwrite:
		return f.store.StageTruncate(ctx, spec.Table, spec.Txn, storage.Whole())
	case p != nil && len(p.Static) == len(p.Columns):
		ids, err := f.catalog.PartitionIDs(ctx, spec.Txn, spec.Table.ID, [][]schema.Datum{p.Static})
		if err != nil || !spec.Overwrite {
			return err
		}
		return f.store.StageTruncate(ctx, spec.Table, spec.Txn, ids[0].Range())
	}
	return nil
}

// Open implements outputformat.Format. Rows need not be sorted.
func (f *Format) Open(ctx context.Context, s outputformat.Spec, fields []schema.Field, task int, attempt string) (outputformat.Writer, error) {
	spec, err := begun(s)
	if err != nil {
		return nil, err
	}
	columns := spec.Table.Columns
	if spec.Table.Partitioned != (spec.Partitions != nil) {
		return nil, fault.Bugf("output format %s: it is not said where the rows of %s go", Name, spec.Table.Name)
	}
	if spec.Partitions != nil {
		columns = slices.Concat(columns, spec.Partitions.Columns)
	}
	if err := checkFields(spec.Table, columns, fields); err != nil {
		return nil, err
	}
	stage, err := f.store.Stage(ctx, spec.Table, storage.StageOptions{Txn: spec.Txn, Attempt: attempt, Task: spec.FirstTask + task})
	if err != nil {
		return nil, err
	}
	w := &writer{table: spec.Table, task: task, stage: stage}
	if spec.Partitions != nil {
		w.partitions = newPartitioner(f.catalog, spec)
	}
	return w, nil
}

// checkFields refuses rows that aren't the table's: staging them would give
// values to the wrong columns.
func checkFields(t *storage.Table, columns schema.Columns, fields []schema.Field) error {
	if len(fields) != len(columns) {
		return fault.Bugf("write to %s: %d fields for %d columns", t.Name, len(fields), len(columns))
	}
	for i, c := range columns {
		if !fields[i].Type.Equal(c.Type) {
			return fault.Bugf("write to %s: field %d is %s, column %s is %s", t.Name, i+1, fields[i].Type, c.Name, c.Type)
		}
	}
	return nil
}

// Publish implements outputformat.Format. After the commit the rows are
// visible: what follows is tidying, which reads also do by themselves.
func (f *Format) Publish(ctx context.Context, s outputformat.Spec, won []outputformat.Manifest) (outputformat.Summary, error) {
	spec, err := begun(s)
	if err != nil {
		return outputformat.Summary{}, err
	}
	if sum, done := f.summary(spec.Txn); done && !spec.Shared {
		return sum, nil
	}
	won = slices.Clone(won)
	slices.SortFunc(won, func(a, b outputformat.Manifest) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Attempt, b.Attempt))
	})
	var sum outputformat.Summary
	winners := make([]string, 0, len(won))
	written := map[storage.PartitionID]bool{}
	for i, m := range won {
		staged, ok := m.Body.(storage.Staged)
		if !ok {
			return sum, fault.Bugf("publish %s: a manifest of type %T", spec.Table.Name, m.Body)
		}
		if i > 0 && won[i-1].Task == m.Task {
			return sum, fault.Bugf("publish %s: attempts %s and %s of task %d both won", spec.Table.Name, won[i-1].Attempt, m.Attempt, m.Task)
		}
		winners = append(winners, m.Attempt)
		sum.Rows += staged.Rows
		sum.Duplicates += staged.Duplicates
		for _, id := range staged.Partitions {
			written[id] = true
		}
	}
	if p := spec.Partitions; p != nil && len(p.Static) < len(p.Columns) {
		if p.Most > 0 && len(written) > p.Most {
			return outputformat.Summary{}, tooMany(spec.Table, len(written), "a statement", p.Most, settingMost)
		}
		if spec.Overwrite {
			var ranges []storage.KeyRange
			for id := range written {
				ranges = append(ranges, id.Range())
			}
			if err := f.store.StageTruncate(ctx, spec.Table, spec.Txn, ranges...); err != nil {
				return outputformat.Summary{}, err
			}
		}
	}
	if spec.Shared {
		return sum, f.note(spec, winners)
	}
	if _, err := f.catalog.Commit(ctx, spec.Txn, winners); err != nil {
		return outputformat.Summary{}, fmt.Errorf("publish %s: %w", spec.Table.Name, err)
	}
	f.remember(spec.Txn, sum)
	// The rows are there whatever happens now, so it isn't an error of the job:
	// the record stays until every region has applied it, reads apply it on
	// their own, and the next open goes on with it.
	if err := f.settle(context.WithoutCancel(ctx), spec); err != nil && f.Logger != nil {
		f.Logger.Warn("a published transaction is not applied everywhere yet", "table", spec.Table.Name, "txn", uint64(spec.Txn), "error", err)
	}
	return sum, nil
}

// settle applies a decided transaction everywhere and forgets it.
func (f *Format) settle(ctx context.Context, spec Spec) error {
	if err := f.store.Resolve(ctx, spec.Table, spec.Txn); err != nil {
		return err
	}
	return f.catalog.Forget(ctx, spec.Txn)
}

// Abandon implements outputformat.Format.
func (f *Format) Abandon(ctx context.Context, s outputformat.Spec) error {
	spec, err := begun(s)
	if err != nil {
		return err
	}
	if spec.Shared {
		return nil // whoever opened the transaction ends it
	}
	if err := f.catalog.Abort(ctx, spec.Txn); err != nil {
		return fmt.Errorf("abandon the write to %s: %w", spec.Table.Name, err)
	}
	return f.settle(ctx, spec)
}

type writer struct {
	table *storage.Table
	task  int
	stage storage.StageWriter
	// partitions gives rows of a partitioned table their partition's id.
	partitions *partitioner
	done       bool
}

// Write implements outputformat.Writer.
func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	if w.partitions != nil && b.Rows() > 0 {
		var err error
		if b, err = w.partitions.withIDs(ctx, b); err != nil {
			return err
		}
	}
	return w.stage.Write(ctx, b)
}

// Finish implements outputformat.Writer.
func (w *writer) Finish(ctx context.Context) (outputformat.Manifest, error) {
	staged, err := w.stage.Finish(ctx)
	if err != nil {
		return outputformat.Manifest{}, err
	}
	w.done = true
	if w.partitions != nil {
		staged.Partitions = w.partitions.written()
	}
	return outputformat.Manifest{Attempt: staged.Attempt, Task: w.task, Rows: staged.Rows, Bytes: staged.Bytes, Body: staged}, nil
}

// Abort implements outputformat.Writer.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	return w.stage.Abort()
}
