package optimizer

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

// Source is the Spec of a scan of a region table while rules push things into
// it; package sql turns it into the input format's own Spec afterwards.
// Immutable: rules copy it.
type Source struct {
	Table   *storage.Table
	At      storage.Timestamp
	Columns schema.Columns    // output, in order
	Filter  storage.Predicate // nil: all rows
	Limit   int64             // 0: none
	// Ranges are ascending, disjoint; nil: all keys; none but not nil: no row.
	// Of a partitioned table they are of what follows the partition id.
	Ranges []storage.KeyRange
	// Partitions are those of a partitioned table that are read, PartitionColumns
	// the columns whose values they have, AllPartitions how many there are.
	Partitions       []storage.Partition
	PartitionColumns schema.Columns
	AllPartitions    int
	// Regions are the table's with their figures, by key; nil: not known.
	Regions []storage.RegionStats
}

// Format implements inputformat.Spec.
func (s *Source) Format() string { return "region" }

// Fields implements inputformat.Spec.
func (s *Source) Fields() []schema.Field {
	out := make([]schema.Field, len(s.Columns))
	for i, c := range s.Columns {
		out[i] = schema.Field{Name: c.Name, Type: c.Type}
	}
	return out
}

// Describe implements inputformat.Spec.
func (s *Source) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s columns %d of %d", s.Table.Name, len(s.Columns), len(s.Table.Columns))
	if s.Filter != nil {
		fmt.Fprintf(&b, " where %s", PredicateString(s.Table, s.Filter))
	}
	return b.String()
}

// Kept returns the regions that the ranges touch, and how many there are.
func (s *Source) Kept() (kept []storage.RegionStats, total int) {
	ranges := s.Ranges
	if s.Table.Partitioned {
		ranges = []storage.KeyRange{}
		for _, p := range s.Partitions {
			ranges = append(ranges, p.ID.Range())
		}
		if len(ranges) == s.AllPartitions || len(s.Regions) == 1 && len(ranges) > 0 {
			ranges = nil
		}
	}
	for _, r := range s.Regions {
		if ranges == nil || overlapsAny(r.Range, ranges) {
			kept = append(kept, r)
		}
	}
	return kept, len(s.Regions)
}

func overlapsAny(r storage.KeyRange, ranges []storage.KeyRange) bool {
	for _, x := range ranges {
		if (len(x.End) == 0 || bytes.Compare(r.Start, x.End) < 0) && (len(r.End) == 0 || bytes.Compare(x.Start, r.End) < 0) {
			return true
		}
	}
	return false
}

// source returns the Source of a scan, or nil.
func source(n plan.Node) *Source {
	if scan, ok := n.(*plan.Scan); ok {
		s, _ := scan.Spec.(*Source)
		return s
	}
	return nil
}

// withSource returns a scan of s that keeps the estimate of another.
func withSource(n plan.Node, s *Source) plan.Node {
	return &plan.Scan{Spec: s, Rows: n.(*plan.Scan).Rows}
}

// PredicateString returns p as SQL would write it.
func PredicateString(t *storage.Table, p storage.Predicate) string {
	name := func(id schema.ColumnID) string {
		if i := t.Columns.ByID(id); i >= 0 {
			return t.Columns[i].Name
		}
		return fmt.Sprintf("column#%d", id)
	}
	join := func(parts []storage.Predicate, op string) string {
		texts := make([]string, len(parts))
		for i, q := range parts {
			texts[i] = PredicateString(t, q)
			switch q.(type) {
			case storage.And, storage.Or:
				texts[i] = "(" + texts[i] + ")"
			}
		}
		return strings.Join(texts, op)
	}
	switch p := p.(type) {
	case *storage.Compare:
		return fmt.Sprintf("%s %s %s", name(p.Column), p.Op, p.Value)
	case *storage.In:
		values := make([]string, len(p.Values))
		for i, v := range p.Values {
			values[i] = v.String()
		}
		return fmt.Sprintf("%s IN (%s)", name(p.Column), strings.Join(values, ", "))
	case *storage.IsNull:
		if p.Not {
			return name(p.Column) + " IS NOT NULL"
		}
		return name(p.Column) + " IS NULL"
	case storage.And:
		return join(p, " AND ")
	case storage.Or:
		return join(p, " OR ")
	}
	return ""
}
