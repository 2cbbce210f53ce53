package region

import (
	"cmp"
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
		settled, err := r.settled(m, floor)
		if err != nil {
			return false, err
		}
		m.collect(floor, settled)
		return true, nil
	}, nil)
}

// settled reports whether no row from before floor can come to the region any
// more, be it from the delta or from a transaction. The caller holds editMu.
func (r *region) settled(m *manifest, floor storage.Timestamp) (bool, error) {
	if len(m.pending) > 0 || len(m.truncates) == 0 || m.truncates[0].at > floor {
		return false, nil // or nobody needs to know
	}
	if !r.table.Keyed() {
		return true, nil
	}
	// A put with a timestamp below floor holds the latch until it is applied.
	r.latch.Lock()
	defer r.latch.Unlock()
	return r.emptyDelta(m.generations)
}

// emptyDelta reports whether generations have no row. The caller holds the
// latch, or knows otherwise that none is being put there.
func (r *region) emptyDelta(gens []generation) (bool, error) {
	it, err := newDeltaIter(r.st.db, gens, r.rng)
	if err != nil {
		return false, err
	}
	err = it.first()
	empty := !it.valid()
	return empty, errors.Join(err, it.close())
}

// commit makes what the winners of a transaction staged count.
func (m *manifest) commit(p pendingTxn, out storage.Outcome) {
	for _, r := range p.truncates {
		m.truncates = append(m.truncates, truncate{r, out.At})
	}
	slices.SortStableFunc(m.truncates, func(a, b truncate) int { return cmp.Compare(a.at, b.at) })
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

// StageTruncate implements storage.Server.
func (s *Server) StageTruncate(ctx context.Context, id storage.RegionID, txn storage.TxnID, ranges ...storage.KeyRange) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return err
	}
	var own []storage.KeyRange
	for _, want := range ranges {
		if part, ok := want.Intersect(r.rng); ok {
			own = append(own, part)
		}
	}
	if len(own) == 0 {
		return nil
	}
	err = r.edit(func(m *manifest) (bool, error) {
		i := m.txn(txn)
		if i < 0 {
			i = len(m.pending)
			m.pending = append(m.pending, pendingTxn{txn: txn})
		}
		p := &m.pending[i]
		n := len(p.truncates)
		for _, want := range own {
			if !slices.ContainsFunc(p.truncates, func(have storage.KeyRange) bool { return have.Covers(want) }) {
				p.truncates = append(p.truncates, want)
			}
		}
		return len(p.truncates) > n, nil
	}, nil)
	if err != nil {
		return fmt.Errorf("truncate %s: %w", r.table.Name, err)
	}
	return nil
}
