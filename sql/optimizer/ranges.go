package optimizer

import (
	"bytes"
	"slices"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// maxRanges is the most key ranges one scan gets: IN lists multiply.
const maxRanges = 1000

// keyRanges turns what a scan's predicate says of the leading row-key columns
// into ranges of row keys. The predicate stays: ranges may be too wide, never
// too narrow.
func keyRanges(n plan.Node, _ *Options) (plan.Node, error) {
	return plan.RewriteNode(n, func(n plan.Node) plan.Node {
		s := source(n)
		if s == nil || s.Filter == nil || !s.Table.Keyed() {
			return n
		}
		ranges := rangesOf(s.Table, s.Filter)
		if ranges == nil {
			return n
		}
		m := *s
		m.Ranges = ranges
		return withSource(n, &m)
	}), nil
}

// rangesOf returns ascending disjoint key ranges outside of which p holds for
// no row; nil when p says nothing.
func rangesOf(t *storage.Table, p storage.Predicate) []storage.KeyRange {
	if or, ok := p.(storage.Or); ok {
		out := []storage.KeyRange{}
		for _, q := range or {
			r := rangesOf(t, q)
			if r == nil || len(out)+len(r) > maxRanges {
				return nil
			}
			out = append(out, r...)
		}
		return union(out)
	}
	parts, ok := p.(storage.And)
	if !ok {
		parts = storage.And{p}
	}
	columns := t.KeyColumns()
	prefixes := [][]byte{nil}
	fixed := 0 // key columns that are in the prefixes
	for ; fixed < len(t.Key); fixed++ {
		values, ok := equalities(parts, columns[fixed])
		if !ok || len(values)*len(prefixes) > maxRanges {
			break
		}
		next := make([][]byte, 0, len(values)*len(prefixes))
		for _, prefix := range prefixes {
			for _, v := range values {
				key, err := appendKey(prefix, columns[fixed], t.Key[fixed].Desc, v)
				if err != nil {
					return nil
				}
				next = append(next, key)
			}
		}
		prefixes = next
	}
	out := make([]storage.KeyRange, 0, len(prefixes))
	bounded := fixed > 0
	for _, prefix := range prefixes {
		r := storage.KeyRange{Start: prefix, End: prefixEnd(prefix)}
		if fixed < len(t.Key) {
			var ok bool
			r, ok = bound(r, prefix, parts, columns[fixed], t.Key[fixed].Desc)
			bounded = bounded || ok
		}
		if len(r.End) == 0 || bytes.Compare(r.Start, r.End) < 0 {
			out = append(out, r)
		}
	}
	if !bounded {
		return nil
	}
	return union(out)
}

// appendKey returns a copy of prefix with a key column's value behind it.
func appendKey(prefix []byte, c schema.Column, desc bool, v schema.Datum) ([]byte, error) {
	return rowkey.NewEncoder([]rowkey.Column{{Type: c.Type, Desc: desc}}).AppendDatums(slices.Clone(prefix), []schema.Datum{v})
}

// equalities returns the values that the conditions leave for a column: of =,
// IN and IS NULL.
func equalities(parts storage.And, c schema.Column) ([]schema.Datum, bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *storage.Compare:
			if p.Column == c.ID && p.Op == storage.Eq {
				return []schema.Datum{p.Value}, true
			}
		case *storage.IsNull:
			if p.Column == c.ID && !p.Not {
				return []schema.Datum{schema.NullOf(c.Type)}, true
			}
		}
	}
	for _, p := range parts {
		if in, ok := p.(*storage.In); ok && in.Column == c.ID {
			return in.Values, true
		}
	}
	return nil, false
}

// bound narrows r by the inequalities of a column; all keys of r start with
// prefix, the column's value follows.
func bound(r storage.KeyRange, prefix []byte, parts storage.And, c schema.Column, desc bool) (storage.KeyRange, bool) {
	found := false
	for _, p := range parts {
		cmp, ok := p.(*storage.Compare)
		if !ok || cmp.Column != c.ID || cmp.Op == storage.Eq || cmp.Op == storage.Ne {
			continue
		}
		key, err := appendKey(prefix, c, desc, cmp.Value)
		if err != nil {
			continue
		}
		found = true
		op := cmp.Op
		if desc { // larger values have smaller keys
			op = flipped[op]
		}
		switch op {
		case storage.Ge:
			r.Start = later(r.Start, key)
		case storage.Gt:
			if end := prefixEnd(key); end != nil {
				r.Start = later(r.Start, end)
			}
		case storage.Lt:
			r.End = earlier(r.End, key)
		case storage.Le:
			r.End = earlier(r.End, prefixEnd(key))
		}
	}
	return r, found
}

func later(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

// earlier returns the lower of two ends; an empty end is above all keys.
func earlier(a, b []byte) []byte {
	if len(a) == 0 || len(b) > 0 && bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}

// prefixEnd returns the lowest key above all that start with prefix; nil if
// there is none.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := slices.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}

// union sorts ranges and joins those that touch.
func union(in []storage.KeyRange) []storage.KeyRange {
	slices.SortFunc(in, func(a, b storage.KeyRange) int { return bytes.Compare(a.Start, b.Start) })
	out := in[:0]
	for _, r := range in {
		if n := len(out); n > 0 && (len(out[n-1].End) == 0 || bytes.Compare(r.Start, out[n-1].End) <= 0) {
			if len(r.End) == 0 || len(out[n-1].End) > 0 && bytes.Compare(r.End, out[n-1].End) > 0 {
				out[n-1].End = r.End
			}
			continue
		}
		out = append(out, r)
	}
	return out
}
