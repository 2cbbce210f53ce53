package optimizer

import (
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

// Guesses of the share of rows that a condition keeps, for want of statistics
// of values (System R's, Selinger et al. 1979).
const (
	shareEqual = 0.1
	shareRange = 0.3
	shareOther = 0.5
)

// Rows estimates how many rows a node gives; < 0 = unknown. A hint: plans may
// differ by it, answers never.
func Rows(n plan.Node) int64 {
	switch n := n.(type) {
	case *plan.Scan:
		return scanRows(n)
	case *plan.Values:
		return int64(len(n.Rows))
	case *plan.Filter:
		return scaled(Rows(n.Input), shareOther)
	case *plan.Aggregate:
		if len(n.Keys) == 0 {
			return 1
		}
		if n.Phase == plan.Final {
			return Rows(n.Input)
		}
		return scaled(Rows(n.Input), shareEqual)
	case *plan.Limit:
		return capped(Rows(n.Input), n.Count)
	case *plan.Sort:
		if n.Limit >= 0 {
			return capped(Rows(n.Input), n.Limit)
		}
	case *plan.Join:
		return joinRows(n)
	case *plan.Union:
		total := int64(0)
		for _, c := range n.Inputs {
			r := Rows(c)
			if r < 0 {
				return -1
			}
			total += r
		}
		return total
	case *plan.Expand:
		if r := Rows(n.Input); r >= 0 {
			return r * int64(len(n.Projections))
		}
		return -1
	case *plan.Generate:
		if r := Rows(n.Input); r >= 0 {
			return r * generatedRows
		}
		return -1
	}
	if c := n.Children(); len(c) == 1 {
		return Rows(c[0])
	}
	return -1
}

// generatedRows guesses how many rows a table-generating function makes of one.
const generatedRows = 3

// joinRows estimates a join whose order is settled: as many rows as the larger side
// has, less what filters below the smaller side have taken from it.
func joinRows(n *plan.Join) int64 {
	l, r := Rows(n.Left), Rows(n.Right)
	switch n.Kind {
	case plan.LeftMark, plan.LeftSingle:
		return l
	case plan.LeftSemi, plan.LeftAnti:
		return scaled(l, shareOther)
	}
	if l < 0 || r < 0 {
		return -1
	}
	if len(n.LeftKeys) == 0 {
		if r > 0 && l > (1<<50)/r {
			return 1 << 50
		}
		return max(l*r, l, r)
	}
	rows := max(l, r)
	if n.Kind == plan.Inner {
		base := min(baseRows(n.Left), baseRows(n.Right))
		rows = max(1, int64(min(float64(l)*float64(r)/max(base, 1), float64(rows)*4)))
		if l == 0 || r == 0 {
			rows = 0
		}
	}
	return rows
}

func scanRows(n *plan.Scan) int64 {
	s := source(n)
	if s == nil {
		return n.Rows
	}
	if s.Regions == nil {
		return -1
	}
	kept, _ := s.Kept()
	rows := int64(0)
	for _, r := range kept {
		rows += r.Rows
	}
	if len(s.Partitions) < s.AllPartitions { // as if they were of one size
		rows = int64(float64(rows) * float64(len(s.Partitions)) / float64(s.AllPartitions))
	}
	rows = scaled(rows, share(s.Filter))
	if s.Table.Keyed() && pinsKey(s) { // a key is there once
		rows = min(rows, int64(len(s.Ranges)*max(1, len(s.Partitions))))
	}
	if s.Limit > 0 {
		rows = min(rows, s.Limit)
	}
	return rows
}

// pinsKey reports whether the predicate gives every key column its values.
func pinsKey(s *Source) bool {
	parts, ok := s.Filter.(storage.And)
	if !ok {
		parts = storage.And{s.Filter}
	}
	for _, c := range s.Table.KeyColumns() {
		if _, ok := equalities(parts, c); !ok {
			return false
		}
	}
	return s.Ranges != nil
}

// share guesses which part of the rows a predicate keeps.
func share(p storage.Predicate) float64 {
	switch p := p.(type) {
	case *storage.Compare:
		switch p.Op {
		case storage.Eq:
			return shareEqual
		case storage.Ne:
			return 1 - shareEqual
		}
		return shareRange
	case *storage.In:
		return min(shareOther, shareEqual*float64(len(p.Values)))
	case *storage.IsNull:
		if p.Not {
			return 1 - shareEqual
		}
		return shareEqual
	case storage.And:
		out := 1.0
		for _, q := range p {
			out *= share(q)
		}
		return out
	case storage.Or:
		none := 1.0
		for _, q := range p {
			none *= 1 - share(q)
		}
		return 1 - none
	}
	return 1
}

// scaled multiplies an estimate; what has rows keeps at least one.
func scaled(rows int64, by float64) int64 {
	if rows <= 0 {
		return rows
	}
	return max(1, int64(float64(rows)*by))
}

func capped(rows, most int64) int64 {
	if rows < 0 {
		return most
	}
	return min(rows, most)
}
