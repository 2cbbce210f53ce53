package metastore

import (
	"context"
	"slices"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// Begin implements catalog.Store.
func (s *Store) Begin(ctx context.Context, kind catalog.TxnKind, tables []storage.TableID) (storage.TxnID, error) {
	id, err := s.ids.take()
	if err != nil {
		return 0, err
	}
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	r := txnRecord{Kind: string(kind), State: stateUndecided, Started: s.clock.now().UTC()}
	for _, t := range tables {
		if _, err := s.tableByID(t); err != nil {
			return 0, err
		}
		r.Tables = append(r.Tables, uint64(t))
	}
	return storage.TxnID(id), s.setTxn(storage.TxnID(id), r)
}

// Outcome implements storage.Authority. It waits for a commit in flight: what
// it calls undecided will commit at a later timestamp than any given out before
// the answer.
func (s *Store) Outcome(ctx context.Context, txn storage.TxnID) (storage.Outcome, error) {
	if err := s.rlock(ctx); err != nil {
		return storage.Outcome{}, err
	}
	defer s.mu.RUnlock()
	r, known, err := s.txn(txn)
	if err != nil {
		return storage.Outcome{}, err
	}
	if !known {
		return storage.Outcome{State: storage.Aborted}, nil
	}
	return r.outcome(), nil
}

func (s *Store) txn(id storage.TxnID) (r txnRecord, known bool, err error) {
	value, err := s.read(txnKey(id))
	if err != nil || value == nil {
		return r, false, err
	}
	return r, true, parseRecord(txnKey(id), value, &r)
}

func (s *Store) setTxn(id storage.TxnID, r txnRecord) error {
	b := s.db.NewBatch()
	if err := setRecord(b, txnKey(id), r); err != nil {
		return err
	}
	return s.apply(b)
}

// Commit implements catalog.Store. A retry must name the same winners.
func (s *Store) Commit(ctx context.Context, txn storage.TxnID, winners []string) (storage.Timestamp, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	r, known, err := s.txn(txn)
	switch {
	case err != nil:
		return 0, err
	case !known || r.State == stateAborted:
		return 0, fault.Retryablef("transaction %d was aborted: its rows are gone, run the statement again", txn)
	case r.State == stateCommitted:
		if !slices.Equal(r.Winners, winners) {
			return 0, fault.Bugf("transaction %d was committed with other attempts", txn)
		}
		return storage.Timestamp(r.At), nil
	}
	writes, err := s.writesOf(txn)
	if err != nil {
		return 0, err
	}
	if err := s.checkWrites(writes); err != nil {
		return 0, err
	}
	// mu is held from before the timestamp is taken until the outcome is durable,
	// see Outcome.
	s.clock.mu.Lock()
	at, err := s.clock.take()
	s.clock.mu.Unlock()
	if err != nil {
		return 0, err
	}
	r.State, r.At, r.Winners = stateCommitted, uint64(at), winners
	b := s.db.NewBatch()
	installed, err := s.commitWrites(b, txn, writes, at)
	if err != nil {
		return 0, err
	}
	if err := setRecord(b, txnKey(txn), r); err != nil {
		return 0, err
	}
	if err := s.apply(b); err != nil {
		return 0, err
	}
	installed()
	return at, nil
}

// Abort implements catalog.Store; idempotent.
func (s *Store) Abort(ctx context.Context, txn storage.TxnID) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, known, err := s.txn(txn)
	switch {
	case err != nil:
		return err
	case !known || r.State == stateAborted:
		return nil
	case r.State == stateCommitted:
		return fault.Bugf("transaction %d is committed: it can't be aborted", txn)
	}
	r.State = stateAborted
	b := s.db.NewBatch()
	installed, err := s.abortWrites(b, txn)
	if err != nil {
		return err
	}
	if err := setRecord(b, txnKey(txn), r); err != nil {
		return err
	}
	if err := s.apply(b); err != nil {
		return err
	}
	installed()
	return nil
}

// Forget implements catalog.Store; idempotent.
func (s *Store) Forget(ctx context.Context, txn storage.TxnID) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, known, err := s.txn(txn)
	switch {
	case err != nil || !known:
		return err
	case r.State == stateUndecided:
		return fault.Bugf("transaction %d is undecided: it can't be forgotten", txn)
	}
	b := s.db.NewBatch()
	if err := b.Delete(txnKey(txn), nil); err != nil {
		return err
	}
	return s.apply(b)
}

// Open implements catalog.Store.
func (s *Store) Open(ctx context.Context) ([]catalog.TxnInfo, error) {
	if err := s.rlock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	var out []catalog.TxnInfo
	err := s.each(prefixTxn, func(key, value []byte) error {
		id, ok := decodeUint64(key)
		if !ok {
			return fault.Bugf("catalogue: a transaction has key %x", key)
		}
		var r txnRecord
		if err := parseRecord(key, value, &r); err != nil {
			return err
		}
		info := catalog.TxnInfo{ID: storage.TxnID(id), Kind: catalog.TxnKind(r.Kind), Outcome: r.outcome(), Started: r.Started}
		for _, t := range r.Tables {
			info.Tables = append(info.Tables, storage.TableID(t))
		}
		out = append(out, info)
		return nil
	})
	return out, err
}
