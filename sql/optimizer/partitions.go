package optimizer

import (
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

// usesPartitions reports whether e, over the scan's output, has a partition
// column in it.
func (s *Source) usesPartitions(e plan.Expr) bool {
	found := false
	plan.Walk(e, func(x plan.Expr) {
		c, ok := x.(*plan.Column)
		found = found || ok && s.PartitionColumns.ByID(s.Columns[c.Index].ID) >= 0
	})
	return found
}

// onlyPartitions reports whether e has partition columns in it and no others.
func (s *Source) onlyPartitions(e plan.Expr) bool {
	some, other := false, false
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Column); ok {
			if s.PartitionColumns.ByID(s.Columns[c.Index].ID) >= 0 {
				some = true
			} else {
				other = true
			}
		}
	})
	return some && !other
}

// prunePartitions leaves out the partitions whose values refuse a condition,
// whatever functions it calls, and returns the conditions that still have to be
// looked at for each row.
func (o *Options) prunePartitions(s *Source, conds []plan.Expr) (*Source, []plan.Expr) {
	if !s.Table.Partitioned || o.Evaluator == nil || len(s.Partitions) == 0 {
		return s, conds
	}
	types := make([]schema.Type, len(s.PartitionColumns))
	for i, c := range s.PartitionColumns {
		types[i] = c.Type
	}
	at := make([]int, len(s.Columns)) // from the scan's output to the partition columns
	for i, c := range s.Columns {
		at[i] = s.PartitionColumns.ByID(c.ID)
	}
	parts := s.Partitions
	var left []plan.Expr
	for _, c := range conds {
		exact := s.onlyPartitions(c)
		weak := c
		if !exact {
			var ok bool
			if weak, ok = s.weakened(c); !ok {
				left = append(left, c)
				continue
			}
		}
		if o.volatile(weak) {
			left = append(left, c)
			continue
		}
		rows := make([][]schema.Datum, len(parts))
		for i, p := range parts {
			rows[i] = p.Values
		}
		match, err := o.Evaluator.Matches(remap(weak, at), types, rows)
		if err != nil { // it may be right for the rows that there are
			left = append(left, c)
			continue
		}
		kept := make([]storage.Partition, 0, len(parts))
		for i, p := range parts {
			if match[i] {
				kept = append(kept, p)
			}
		}
		parts = kept
		if !exact {
			left = append(left, c)
		}
	}
	m := *s
	m.Partitions = parts
	return &m, left
}

// weakened returns a condition over partition columns alone that is true
// wherever e is; false when nothing is left to say. e's negations are at its
// leaves.
func (s *Source) weakened(e plan.Expr) (plan.Expr, bool) {
	if s.onlyPartitions(e) {
		return e, true
	}
	c, ok := e.(*plan.Call)
	if !ok || c.Name != "and" && c.Name != "or" {
		return nil, false
	}
	var parts []plan.Expr
	for _, a := range c.Args {
		w, ok := s.weakened(a)
		switch {
		case ok:
			parts = append(parts, w)
		case c.Name == "or":
			return nil, false
		}
	}
	switch len(parts) {
	case 0:
		return nil, false
	case 1:
		return parts[0], true
	}
	m := *c
	m.Args = parts
	return &m, true
}
