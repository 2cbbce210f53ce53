package operator

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/spill"
	"github.com/skepdb/skep/schema"
)

// deepest is how often rows are partitioned again, each time fanIn-fold: if
// they don't fit then, they are one key's, and partitioning can't help.
const deepest = 6

// scatter writes rows to fanIn runs, by a hash of some columns that differs from
// level to level and from that of exchanges.
type scatter struct {
	hash    hasher
	level   int
	fields  []schema.Field
	space   *spill.Space
	piece   int
	writers [fanIn]*spill.Writer
	pending [fanIn]store
}

// newScatter makes a scatter by the first so many columns.
func newScatter(space *spill.Space, fields []schema.Field, keys, level, piece int) *scatter {
	s := &scatter{level: level, fields: fields, space: space, piece: piece}
	for i := range keys {
		s.hash.keys = append(s.hash.keys, compiled{expression: columnExpr(i), t: fields[i].Type, columns: []int{i}})
	}
	for p := range s.pending {
		s.pending[p].width = len(fields)
	}
	return s
}

// add writes the rows of a compacted batch.
func (s *scatter) add(b *batch.Batch) error {
	hashes, err := s.hash.hashes(b)
	if err != nil {
		return err
	}
	return s.addHashed(b, hashes)
}

// addHashed is add of rows whose hashes are known.
func (s *scatter) addHashed(b *batch.Batch, hashes []uint64) error {
	seed := mix(uint64(s.level)+1, 0x5EED)
	var lists [fanIn][]int32
	for i, h := range hashes {
		p, _ := bits.Mul64(mix(h, seed), fanIn)
		lists[p] = append(lists[p], int32(i))
	}
	for p, sel := range lists {
		if len(sel) == 0 {
			continue
		}
		part := &s.pending[p]
		part.add(batch.Compact(&batch.Batch{Columns: b.Columns, Len: b.Len, Sel: sel}))
		if part.rows >= s.piece {
			if err := s.flush(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scatter) flush(p int) error {
	part := &s.pending[p]
	if part.rows == 0 {
		return nil
	}
	if s.writers[p] == nil {
		w, err := s.space.Create(s.fields)
		if err != nil {
			return err
		}
		s.writers[p] = w
	}
	columns, err := part.concat("spill")
	if err != nil {
		return err
	}
	b := &batch.Batch{Columns: columns, Len: part.rows}
	for from := 0; from < b.Len; from += maxPiece {
		if err := s.writers[p].Write(slice(b, from, min(b.Len, from+maxPiece))); err != nil {
			return err
		}
	}
	*part = store{width: part.width}
	return nil
}

// finish ends the runs; one is nil if it got no rows.
func (s *scatter) finish() ([]*spill.Run, error) {
	out := make([]*spill.Run, fanIn)
	for p := range s.writers {
		if err := s.flush(p); err != nil {
			return nil, err
		}
		if s.writers[p] == nil {
			continue
		}
		var err error
		if out[p], err = s.writers[p].Finish(); err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return slices.Clip(out), nil
}
