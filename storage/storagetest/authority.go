// Package storagetest is the suite that every storage.Server must pass, with
// an Authority in memory and rows written as text.
package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/skepdb/skep/storage"
)

// Authority is a catalogue's part for the store, in memory. It survives
// simulated crashes of the store, as a catalogue that commits durably would.
type Authority struct {
	mu     sync.Mutex
	clock  storage.Timestamp
	floor  storage.Timestamp
	nextID uint64
	txns   map[storage.TxnID]*storage.Outcome
	tables map[storage.TableID][]storage.Region

	// Replace, when set, is asked in place of ReplaceRegions; it may call the
	// func that does the work, or not, and fail.
	Replace func(do func() error) error
}

var _ storage.Authority = (*Authority)(nil)

// NewAuthority returns one whose first timestamp is 1001.
func NewAuthority() *Authority {
	return &Authority{clock: 1000, txns: map[storage.TxnID]*storage.Outcome{}, tables: map[storage.TableID][]storage.Region{}}
}

// Timestamp implements storage.Authority.
func (a *Authority) Timestamp(context.Context) (storage.Timestamp, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clock++
	return a.clock, nil
}

// Now returns a new timestamp.
func (a *Authority) Now() storage.Timestamp {
	ts, _ := a.Timestamp(context.Background())
	return ts
}

// Floor implements storage.Authority.
func (a *Authority) Floor(context.Context) (storage.Timestamp, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.floor, nil
}

// SetFloor sets the history floor.
func (a *Authority) SetFloor(t storage.Timestamp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.floor = t
}

// Outcome implements storage.Authority.
func (a *Authority) Outcome(_ context.Context, txn storage.TxnID) (storage.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if out := a.txns[txn]; out != nil {
		return *out, nil
	}
	return storage.Outcome{State: storage.Aborted}, nil
}

// Begin opens a transaction.
func (a *Authority) Begin() storage.TxnID {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nextID++
	id := storage.TxnID(a.nextID)
	a.txns[id] = &storage.Outcome{}
	return id
}

// Commit commits a transaction for the winners and returns when.
func (a *Authority) Commit(txn storage.TxnID, winners ...string) storage.Timestamp {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clock++
	*a.txns[txn] = storage.Outcome{State: storage.Committed, At: a.clock, Winners: winners}
	return a.clock
}

// Abort aborts a transaction.
func (a *Authority) Abort(txn storage.TxnID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*a.txns[txn] = storage.Outcome{State: storage.Aborted}
}

// Forget forgets a decided transaction.
func (a *Authority) Forget(txn storage.TxnID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.txns, txn)
}

// Regions implements storage.Authority.
func (a *Authority) Regions(_ context.Context, table storage.TableID) ([]storage.Region, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.tables[table]), nil
}

// NewRegionID implements storage.Authority.
func (a *Authority) NewRegionID(context.Context) (storage.RegionID, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nextID++
	return storage.RegionID(a.nextID), nil
}

// AddRegions makes regions known.
func (a *Authority) AddRegions(rs ...storage.Region) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range rs {
		a.tables[r.Table] = append(a.tables[r.Table], r)
	}
}

// ReplaceRegions implements storage.Authority.
func (a *Authority) ReplaceRegions(_ context.Context, table storage.TableID, old []storage.RegionID, new []storage.Region) error {
	do := func() error { return a.replace(table, old, new) }
	if a.Replace != nil {
		return a.Replace(do)
	}
	return do()
}

func (a *Authority) replace(table storage.TableID, old []storage.RegionID, new []storage.Region) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kept []storage.Region
	gone := 0
	for _, r := range a.tables[table] {
		if slices.Contains(old, r.ID) {
			gone++
			continue
		}
		kept = append(kept, r)
	}
	if gone != len(old) {
		return fmt.Errorf("replace regions %v of table %d: only %d of them are live", old, table, gone)
	}
	kept = append(kept, new...)
	slices.SortFunc(kept, func(a, b storage.Region) int { return bytes.Compare(a.Range.Start, b.Range.Start) })
	a.tables[table] = kept
	return nil
}

// Clone returns an authority with the same state, as if it had been read from
// disk at this moment.
func (a *Authority) Clone() *Authority {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &Authority{clock: a.clock, floor: a.floor, nextID: a.nextID, txns: map[storage.TxnID]*storage.Outcome{}, tables: map[storage.TableID][]storage.Region{}}
	for id, out := range a.txns {
		o := *out
		c.txns[id] = &o
	}
	for id, rs := range a.tables {
		c.tables[id] = slices.Clone(rs)
	}
	return c
}
