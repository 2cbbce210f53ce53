package sql

import (
	"context"
	"slices"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/optimizer"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

// scan is the whole of a table at the statement's snapshot.
func (c *compiler) scan(ctx context.Context, t *catalog.Table) (*plan.Scan, error) {
	s := &optimizer.Source{Table: &t.Table, At: c.env.At, Columns: t.AllColumns()}
	rows := int64(-1)
	if c.env.Stats != nil {
		regions, err := c.env.Stats.Regions(ctx, &t.Table)
		if err != nil {
			return nil, err
		}
		s.Regions, rows = regions, 0
		for _, r := range regions {
			rows += r.Rows
		}
	}
	if t.Partitioned {
		parts, err := c.env.Catalog.Partitions(ctx, t.ID, c.env.At)
		if err != nil {
			return nil, err
		}
		s.PartitionColumns, s.AllPartitions = t.PartitionColumns, len(parts)
		s.Partitions = make([]storage.Partition, len(parts))
		for i, p := range parts {
			s.Partitions[i] = storage.Partition{ID: p.ID, Values: shownValues(p.Values)}
		}
	}
	return &plan.Scan{Spec: s, Rows: rows}, nil
}

// shownValues are a partition's values as queries see them: in the default
// partition a text column has the name of that partition, as in Hive, others are
// NULL.
func shownValues(values []schema.Datum) []schema.Datum {
	var out []schema.Datum
	for i, v := range values {
		if v.Null && isText(v.Type) {
			if out == nil {
				out = slices.Clone(values)
			}
			out[i] = schema.Datum{Type: v.Type, S: catalog.DefaultPartition}
		}
	}
	if out == nil {
		return values
	}
	return out
}
