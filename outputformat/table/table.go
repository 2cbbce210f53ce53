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
// table's columns, in its order.
type Spec struct {
	Table *storage.Table
	// Overwrite ends all rows that are there, in the same step in which the new
	// ones appear.
	Overwrite bool
	Kind      catalog.TxnKind
	Txn       storage.TxnID // filled in by Begin
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
}

// New returns the format over a catalogue and a store.
func New(c catalog.Store, s storage.Store) *Format {
	return &Format{catalog: c, store: s, published: map[storage.TxnID]outputformat.Summary{}}
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
	if spec.Txn, err = f.catalog.Begin(ctx, spec.Kind, []storage.TableID{spec.Table.ID}); err != nil {
		return nil, fmt.Errorf("begin writing to %s: %w", spec.Table.Name, err)
	}
	if spec.Overwrite {
		if err := f.store.StageTruncate(ctx, spec.Table, spec.Txn, storage.Whole()); err != nil {
			return nil, errors.Join(err, f.Abandon(context.WithoutCancel(ctx), spec))
		}
	}
	return spec, nil
}

// Open implements outputformat.Format. Rows need not be sorted.
func (f *Format) Open(ctx context.Context, s outputformat.Spec, fields []schema.Field, task int, attempt string) (outputformat.Writer, error) {
	spec, err := begun(s)
	if err != nil {
		return nil, err
	}
	if err := checkFields(spec.Table, fields); err != nil {
		return nil, err
	}
	w, err := f.store.Stage(ctx, spec.Table, storage.StageOptions{Txn: spec.Txn, Attempt: attempt, Task: task})
	if err != nil {
		return nil, err
	}
	return &writer{table: spec.Table, task: task, stage: w}, nil
}

// checkFields refuses rows that aren't the table's: staging them would give
// values to the wrong columns.
func checkFields(t *storage.Table, fields []schema.Field) error {
	if len(fields) != len(t.Columns) {
		return fault.Bugf("write to %s: %d fields for %d columns", t.Name, len(fields), len(t.Columns))
	}
	for i, c := range t.Columns {
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
	if sum, done := f.summary(spec.Txn); done {
		return sum, nil
	}
	won = slices.Clone(won)
	slices.SortFunc(won, func(a, b outputformat.Manifest) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Attempt, b.Attempt))
	})
	var sum outputformat.Summary
	winners := make([]string, 0, len(won))
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
	if err := f.catalog.Abort(ctx, spec.Txn); err != nil {
		return fmt.Errorf("abandon the write to %s: %w", spec.Table.Name, err)
	}
	return f.settle(ctx, spec)
}

type writer struct {
	table *storage.Table
	task  int
	stage storage.StageWriter
	done  bool
}

// Write implements outputformat.Writer.
func (w *writer) Write(ctx context.Context, b *batch.Batch) error { return w.stage.Write(ctx, b) }

// Finish implements outputformat.Writer.
func (w *writer) Finish(ctx context.Context) (outputformat.Manifest, error) {
	staged, err := w.stage.Finish(ctx)
	if err != nil {
		return outputformat.Manifest{}, err
	}
	w.done = true
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
