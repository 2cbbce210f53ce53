package sql

import (
	"context"
	"strconv"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

// storageNow asks for the partitions as they are now.
const storageNow = storage.MaxTimestamp

// writable looks up a table that rows can be written to.
func (c *compiler) writable(ctx context.Context, n ast.Name) (*catalog.Table, error) {
	t, err := c.table(ctx, n)
	if err != nil {
		return nil, err
	}
	if t.Kind == catalog.View {
		return nil, userError(n.Pos, fault.StateSyntax, "", "%s is a view: rows can't be written to it", t.Name)
	}
	return t, nil
}

// setting is a number among the settings.
func (c *compiler) setting(key string, otherwise int) int {
	if n, err := strconv.Atoi(strings.TrimSpace(c.env.Settings[key])); err == nil {
		return n
	}
	return otherwise
}

// staticValues returns what a PARTITION clause says of a write: the values of
// the first partition columns. Columns without a value get it from the rows.
func (c *compiler) staticValues(t *catalog.Table, spec []ast.PartitionValue) ([]schema.Datum, error) {
	if spec == nil {
		return nil, nil
	}
	at, err := specColumns(t, spec)
	if err != nil {
		return nil, err
	}
	given := make([]*ast.PartitionValue, len(t.PartitionColumns))
	for i := range spec {
		given[at[i]] = &spec[i]
	}
	var static []schema.Datum
	for i, v := range given {
		col := t.PartitionColumns[i]
		switch {
		case v == nil:
			return nil, userError(spec[0].Pos, fault.StateSyntax, "write PARTITION (.., "+col.Name+") to take it from the rows", "partition column %s is not in PARTITION (..)", col.Name)
		case v.X == nil:
			continue
		case len(static) < i:
			return nil, userError(v.Pos, fault.StateSyntax, "", "partition column %s has a value, but %s before it has none", col.Name, t.PartitionColumns[len(static)].Name)
		case v.Text == "" && col.Type.Kind == schema.String:
			return nil, userError(v.Pos, fault.StateBadData, "", "the value of partition column %s is empty", col.Name)
		}
		d, err := c.partitionValue(col, *v)
		if err != nil {
			return nil, err
		}
		static = append(static, d)
	}
	return static, nil
}

// checkDynamic applies hive.exec.dynamic.partition and its mode.
func (c *compiler) checkDynamic(pos ast.Pos, t *catalog.Table, static []schema.Datum) error {
	if len(static) == len(t.PartitionColumns) {
		return nil
	}
	if !analyzer.Bool(c.env.Settings, "hive.exec.dynamic.partition", true) {
		return userError(pos, fault.StateSyntax, "set hive.exec.dynamic.partition=true", "the rows would name partitions of %s, which hive.exec.dynamic.partition=false forbids", t.Name)
	}
	if len(static) == 0 && strings.EqualFold(c.env.Settings["hive.exec.dynamic.partition.mode"], "strict") {
		return userError(pos, fault.StateSyntax, "set hive.exec.dynamic.partition.mode=nonstrict", "in strict mode at least one partition column of %s needs a value in PARTITION (..)", t.Name)
	}
	return nil
}

// insertIsThere reports INSERT .. IF NOT EXISTS into a partition that exists.
func (c *compiler) insertIsThere(ctx context.Context, s *ast.Insert) (bool, error) {
	if !s.IfNotExists {
		return false, nil
	}
	t, err := c.writable(ctx, s.Table)
	if err != nil {
		return false, err
	}
	if _, err := c.fullSpec(t, s.Pos, s.Partition); err != nil {
		return false, err
	}
	found, err := c.partitions(ctx, t, s.Partition)
	return len(found) > 0, err
}

// insert compiles an INSERT into a table or a directory.
func (c *compiler) insert(ctx context.Context, s *ast.Insert) (*Query, plan.Node, error) {
	if s.Directory != nil {
		return c.insertDirectory(ctx, s)
	}
	t, err := c.writable(ctx, s.Table)
	if err != nil {
		return nil, nil, err
	}
	if s.Partition == nil && t.Partitioned && s.Columns != nil {
		// Partition columns that are not listed must have a value somewhere.
		for _, col := range t.PartitionColumns {
			if !listed(s.Columns, col.Name) {
				return nil, nil, userError(s.Table.Pos, fault.StateSyntax, "", "partition column %s of %s is neither listed nor in PARTITION (..)", col.Name, t.Name)
			}
		}
	}
	static, err := c.staticValues(t, s.Partition)
	if err != nil {
		return nil, nil, err
	}
	if err := c.checkDynamic(s.Table.Pos, t, static); err != nil {
		return nil, nil, err
	}
	byName := map[string]schema.Datum{}
	for i, d := range static {
		byName[t.PartitionColumns[i].Name] = d
	}
	defaults, err := c.defaults(t)
	if err != nil {
		return nil, nil, err
	}
	n, err := c.analyzer().Insert(ctx, s, t, byName, defaults)
	if err != nil {
		return nil, nil, err
	}
	if n, err = c.checked(t, n); err != nil {
		return nil, nil, analyzer.At(s.Pos, err)
	}
	n, err = c.writing(ctx, Write{Table: t, Overwrite: s.Overwrite, Kind: catalog.TxnInsert, Static: static}, n, joinPlace(s.Query))
	return &Query{Kind: KindInsert, Table: t, Name: s.Text}, n, err
}

func listed(columns []ast.Ident, name string) bool {
	for _, id := range columns {
		if strings.EqualFold(id.Name, name) {
			return true
		}
	}
	return false
}

// writing optimizes the plan of rows that go to a table.
func (c *compiler) writing(ctx context.Context, w Write, n plan.Node, pos ast.Pos) (plan.Node, error) {
	n, err := c.optimize(n)
	if err != nil {
		return nil, analyzer.At(pos, err)
	}
	if n, err = byRegion(ctx, c.env, w.Table, n, nil); err != nil {
		return nil, err
	}
	w.Most = c.setting("hive.exec.max.dynamic.partitions", defaultMostPartitions)
	w.MostOfTask = c.setting("hive.exec.max.dynamic.partitions.pernode", defaultMostOfTask)
	return &plan.Write{Input: n, Spec: c.env.Specs.Table(w)}, nil
}

// Hive's bounds on dynamic partitions.
const (
	defaultMostPartitions = 1000
	defaultMostOfTask     = 100
)

// multiInsert compiles FROM .. INSERT .. INSERT ..
func (c *compiler) multiInsert(ctx context.Context, s *ast.MultiInsert) (Compiled, error) {
	out := &Transaction{}
	for _, in := range s.Inserts {
		if there, err := c.insertIsThere(ctx, in); err != nil {
			return nil, err
		} else if there {
			continue
		}
		q, n, err := c.insert(ctx, in)
		if err != nil {
			return nil, err
		}
		q.Plan = lower(n, c.env.Specs)
		out.Queries = append(out.Queries, q)
	}
	return out, nil
}
