package operator

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/spill"
)

// merger yields the rows of sorted runs in their order, equal ones in the order
// of the runs. Runs end with the key columns.
type merger struct {
	orders []sortOrder
	piece  int // rows a batch
	// sources is a heap: the one with the least row is first.
	sources []*source
}

// source is a run on its way: the rows of b from row on are still to come.
type source struct {
	in    batch.Reader
	place int // among the runs
	b     *batch.Batch
	keys  *sortedKeys
	row   int
	// Of the output that is being made: where the rows from first on go.
	part, first int
}

func newMerger(ctx context.Context, runs []*spill.Run, orders []sortOrder, piece int) (*merger, error) {
	m := &merger{orders: orders, piece: piece}
	for i, r := range runs {
		s := &source{in: r.Open(), place: i, part: -1}
		more, err := m.load(ctx, s)
		if err != nil {
			return nil, err
		}
		if more {
			m.sources = append(m.sources, s)
		}
	}
	for i := len(m.sources)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	return m, nil
}

// load reads a source's next batch; false at its end.
func (m *merger) load(ctx context.Context, s *source) (bool, error) {
	b, err := s.in.Next(ctx)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.b, s.row, s.first, s.part = b, 0, 0, -1
	s.keys = encodeKeys(b.Columns[len(b.Columns)-len(m.orders):], m.orders, b.Len, false)
	return true, nil
}

func (m *merger) less(a, b *source) bool {
	if c := a.keys.compareWith(a.row, b.keys, b.row); c != 0 {
		return c < 0
	}
	return a.place < b.place
}

func (m *merger) sink(i int) {
	h := m.sources
	for {
		k := 2*i + 1
		if k >= len(h) {
			return
		}
		if k+1 < len(h) && m.less(h[k+1], h[k]) {
			k++
		}
		if !m.less(h[k], h[i]) {
			return
		}
		h[i], h[k] = h[k], h[i]
		i = k
	}
}

// next returns the next batch, with the key columns, or io.EOF. Of each source a
// stretch of rows goes into it; those are joined and put in order.
func (m *merger) next(ctx context.Context) (*batch.Batch, error) {
	type stretch struct {
		b        *batch.Batch
		from, to int
	}
	var parts []stretch
	type place struct{ part, row int32 }
	order := make([]place, 0, m.piece)
	for len(order) < m.piece && len(m.sources) > 0 {
		s := m.sources[0]
		if s.part < 0 {
			s.part, s.first = len(parts), s.row
			parts = append(parts, stretch{b: s.b, from: s.row})
		}
		order = append(order, place{int32(s.part), int32(s.row - s.first)})
		s.row++
		parts[s.part].to = s.row
		if s.row == s.b.Len {
			more, err := m.load(ctx, s)
			if err != nil {
				return nil, err
			}
			if !more {
				last := len(m.sources) - 1
				m.sources[0] = m.sources[last]
				m.sources = m.sources[:last]
			}
		}
		if len(m.sources) > 0 {
			m.sink(0)
		}
	}
	for _, s := range m.sources {
		s.part = -1
	}
	if len(order) == 0 {
		return nil, io.EOF
	}
	base := make([]int32, len(parts))
	for i := 1; i < len(parts); i++ {
		base[i] = base[i-1] + int32(parts[i-1].to-parts[i-1].from)
	}
	at := make([]int32, len(order))
	for i, p := range order {
		at[i] = base[p.part] + p.row
	}
	out := &batch.Batch{Len: len(at)}
	column := make([]arrow.Array, len(parts))
	for c := range parts[0].b.Columns {
		for i, p := range parts {
			column[i] = batch.Slice(p.b.Columns[c], p.from, p.to)
		}
		a := batch.Concat(column)
		if len(parts) > 1 {
			a = batch.Gather(a, at)
		}
		out.Columns = append(out.Columns, a)
	}
	return out, nil
}

// reduce merges runs until one merge can take them all.
func reduce(ctx context.Context, space *spill.Space, runs []*spill.Run, orders []sortOrder, piece int) ([]*spill.Run, error) {
	for len(runs) > fanIn {
		var longer []*spill.Run
		for from := 0; from < len(runs); from += fanIn {
			part := runs[from:min(len(runs), from+fanIn)]
			m, err := newMerger(ctx, part, orders, piece)
			if err != nil {
				return nil, err
			}
			w, err := space.Create(part[0].Fields)
			if err != nil {
				return nil, err
			}
			for {
				b, err := m.next(ctx)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return nil, err
				}
				if err := w.Write(b); err != nil {
					return nil, err
				}
			}
			run, err := w.Finish()
			if err != nil {
				return nil, err
			}
			for _, r := range part {
				if err := r.Remove(); err != nil {
					return nil, err
				}
			}
			longer = append(longer, run)
		}
		runs = longer
	}
	return runs, nil
}
