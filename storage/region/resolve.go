package region

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skepdb/skep/storage"
)

// Resolve implements storage.Server.
func (s *Server) Resolve(ctx context.Context, txn storage.TxnID) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	out, err := s.o.Authority.Outcome(ctx, txn)
	if err != nil {
		return fmt.Errorf("resolve transaction %d: %w", txn, err)
	}
	if out.State == storage.Undecided {
		return nil
	}
	s.mu.RLock()
	rs := make([]*region, 0, len(s.regions))
	for _, r := range s.regions {
		rs = append(rs, r)
	}
	s.mu.RUnlock()
	var errs []error
	for _, r := range rs {
		if err := s.resolve(ctx, r, txn, out); err != nil && !errors.Is(err, storage.ErrRegionGone) {
			errs = append(errs, fmt.Errorf("resolve transaction %d in region %d: %w", txn, r.id, err))
		}
	}
	return errors.Join(errs...)
}

// settle applies the outcomes of the region's pending transactions that are
// decided, so that a read at at sees what was committed at or below it. One
// that is still undecided commits above at, if ever: at was issued before.
func (s *Server) settle(ctx context.Context, r *region, at storage.Timestamp) error {
	m, err := r.current()
	if err != nil {
		return err
	}
	for _, p := range m.pending {
		out, err := s.o.Authority.Outcome(ctx, p.txn)
		if err != nil {
			return fmt.Errorf("outcome of transaction %d: %w", p.txn, err)
		}
		if out.State == storage.Undecided || (out.State == storage.Committed && out.At > at) {
			continue
		}
		if err := s.resolve(ctx, r, p.txn, out); err != nil {
			return fmt.Errorf("resolve transaction %d: %w", p.txn, err)
		}
	}
	return nil
}

// unsettled reports whether a pending transaction committed at or below at.
func (s *Server) unsettled(ctx context.Context, r *region, at storage.Timestamp) (bool, error) {
	m, err := r.current()
	if err != nil {
		return false, err
	}
	for _, p := range m.pending {
		out, err := s.o.Authority.Outcome(ctx, p.txn)
		if err != nil {
			return false, fmt.Errorf("outcome of transaction %d: %w", p.txn, err)
		}
		if out.State == storage.Committed && out.At <= at {
			return true, nil
		}
	}
	return false, nil
}

// resolve applies a decided outcome to one region: a single manifest edit.
func (s *Server) resolve(ctx context.Context, r *region, txn storage.TxnID, out storage.Outcome) error {
	m, err := r.current()
	if err != nil || m.txn(txn) < 0 {
		return err
	}
	floor, err := s.o.Authority.Floor(ctx)
	if err != nil {
		return fmt.Errorf("history floor: %w", err)
	}
	return r.edit(func(m *manifest) (bool, error) {
		i := m.txn(txn)
		if i < 0 {
			return false, nil // someone else was faster
		}
		p := m.pending[i]
		m.pending = slices.Delete(m.pending, i, i+1)
		if out.State == storage.Committed {
			m.commit(p, out)
		}
		m.collect(floor)
		return true, nil
	}, nil)
}

// commit makes what the winners of a transaction staged count.
func (m *manifest) commit(p pendingTxn, out storage.Outcome) {
	if p.truncate {
		m.truncates = append(m.truncates, out.At)
		slices.Sort(m.truncates)
	}
	// In the winners' order, so that the last wins where two attempts of
	// different tasks staged one key.
	for _, name := range out.Winners {
		for _, a := range p.attempts {
			if a.name != name {
				continue
			}
			for _, e := range a.segments {
				e.begin = out.At
				m.segments = append(m.segments, e)
			}
		}
	}
}

// collect drops what no snapshot at or above floor sees: segments that a
// truncate ended, and truncates that a later one makes superfluous. The newest
// truncate below floor stays, since rows older than it may still come from the
// delta or from a transaction whose outcome isn't applied yet.
func (m *manifest) collect(floor storage.Timestamp) {
	since := m.since(floor)
	if since == 0 {
		return
	}
	n := len(m.segments) + len(m.truncates)
	m.segments = slices.DeleteFunc(m.segments, func(e entry) bool { return e.maxBegin() < since })
	m.truncates = slices.DeleteFunc(m.truncates, func(c storage.Timestamp) bool { return c < since })
	if n > len(m.segments)+len(m.truncates) {
		m.floor = max(m.floor, since)
	}
}

// StageTruncate implements storage.Server.
func (s *Server) StageTruncate(ctx context.Context, id storage.RegionID, txn storage.TxnID) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return err
	}
	err = r.edit(func(m *manifest) (bool, error) {
		i := m.txn(txn)
		if i < 0 {
			m.pending = append(m.pending, pendingTxn{txn: txn, truncate: true})
			return true, nil
		}
		if m.pending[i].truncate {
			return false, nil
		}
		m.pending[i].truncate = true
		return true, nil
	}, nil)
	if err != nil {
		return fmt.Errorf("truncate %s: %w", r.table.Name, err)
	}
	return nil
}
