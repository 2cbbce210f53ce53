package sql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// statePartition is the SQLSTATE of partitions that are not there.
const statePartition = "42000"

// columnNames are the names of columns, for suggestions.
func columnNames(columns schema.Columns) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}

func userError(pos ast.Pos, state, hint, format string, args ...any) error {
	return &fault.Error{Class: fault.User, SQLState: state, Message: fmt.Sprintf(format, args...), Hint: hint, Line: pos.Line, Column: pos.Column}
}

// specColumns returns the position among t's partition columns of each part of a PARTITION
// clause.
func specColumns(t *catalog.Table, spec []ast.PartitionValue) ([]int, error) {
	if len(t.PartitionColumns) == 0 {
		return nil, userError(spec[0].Pos, fault.StateSyntax, "", "table %s is not partitioned", t.Name)
	}
	out := make([]int, len(spec))
	taken := map[int]bool{}
	for i, v := range spec {
		at := t.PartitionColumns.Index(v.Name.Name)
		switch {
		case at < 0:
			names := columnNames(t.PartitionColumns)
			hint := nearest.Hint(v.Name.Name, names)
			if hint == "" {
				hint = "its partition columns: " + strings.Join(names, ", ")
			}
			return nil, userError(v.Pos, fault.StateUnknownCol, hint, "table %s has no partition column %s", t.Name, v.Name.Name)
		case taken[at] && (v.Op == "" || v.Op == "="):
			return nil, userError(v.Pos, fault.StateSyntax, "", "partition column %s is given twice", t.PartitionColumns[at].Name)
		}
		taken[at] = true
		out[i] = at
	}
	return out, nil
}

// constant computes a constant in a type.
func (c *compiler) constant(pos ast.Pos, x ast.Expr, t schema.Type) (schema.Datum, error) {
	e, err := c.analyzer().Constant(x)
	if err != nil {
		return schema.Datum{}, err
	}
	if !e.Type().Equal(t) {
		e = &plan.Cast{Arg: e, T: t}
	}
	d, err := c.evaluator().Eval(e)
	return d, analyzer.At(pos, err)
}

// partitionValue is the value of a part of a PARTITION clause.
func (c *compiler) partitionValue(col schema.Column, v ast.PartitionValue) (schema.Datum, error) {
	if v.Text == catalog.DefaultPartition {
		return schema.NullOf(col.Type), nil
	}
	if l, ok := v.X.(*ast.Literal); ok {
		switch {
		case l.Value.Null:
			return schema.NullOf(col.Type), nil
		case col.Type.Kind == schema.Boolean:
			// Every text is a boolean, by CAST.
			return c.constant(v.Pos, &ast.Literal{Pos: v.Pos, Value: schema.Datum{Type: schema.StringType, S: v.Text}}, col.Type)
		case l.Value.Type.Kind == schema.String || isPlainNumber(v.Text):
			d, ok := schema.ParseText(col.Type, []byte(v.Text))
			if !ok {
				return d, userError(v.Pos, fault.StateBadData, "", "'%s' is no value of partition column %s, which is %s", v.Text, col.Name, col.Type)
			}
			return d, nil
		}
	}
	d, err := c.constant(v.Pos, v.X, col.Type)
	if err == nil && d.Null {
		err = userError(v.Pos, fault.StateBadData, "", "%s is no value of partition column %s, which is %s", v.Text, col.Name, col.Type)
	}
	return d, err
}

func isPlainNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// fullSpec returns the values of all partition columns of a clause that must
// name them all.
func (c *compiler) fullSpec(t *catalog.Table, pos ast.Pos, spec []ast.PartitionValue) ([]schema.Datum, error) {
	if len(spec) == 0 {
		return nil, failAt(pos, "the partition is not named")
	}
	at, err := specColumns(t, spec)
	if err != nil {
		return nil, err
	}
	values := make([]schema.Datum, len(t.PartitionColumns))
	given := make([]bool, len(values))
	for i, v := range spec {
		if v.X == nil {
			return nil, userError(v.Pos, fault.StateSyntax, "", "partition column %s has no value", v.Name.Name)
		}
		if values[at[i]], err = c.partitionValue(t.PartitionColumns[at[i]], v); err != nil {
			return nil, err
		}
		given[at[i]] = true
	}
	for i, ok := range given {
		if !ok {
			return nil, userError(spec[0].Pos, fault.StateSyntax, "", "the partition needs a value of %s, too", t.PartitionColumns[i].Name)
		}
	}
	return values, nil
}

// partitions returns those partitions of t that a clause names: all of its
// conditions hold. nil: no condition.
func (c *compiler) partitions(ctx context.Context, t *catalog.Table, spec []ast.PartitionValue) ([]*catalog.Partition, error) {
	all, err := c.env.Catalog.Partitions(ctx, t.ID, storageNow)
	if err != nil {
		return nil, err
	}
	if len(spec) == 0 {
		return all, nil
	}
	at, err := specColumns(t, spec)
	if err != nil {
		return nil, err
	}
	values := make([]schema.Datum, len(spec))
	for i, v := range spec {
		if v.X == nil {
			continue
		}
		if values[i], err = c.partitionValue(t.PartitionColumns[at[i]], v); err != nil {
			return nil, err
		}
	}
	var out []*catalog.Partition
	for _, p := range all {
		match := true
		for i, v := range spec {
			if v.X != nil && !comparesTo(p.Values[at[i]], v.Op, values[i]) {
				match = false
				break
			}
		}
		if match {
			out = append(out, p)
		}
	}
	return out, nil
}

// comparesTo reports whether a op b; NULL equals only itself.
func comparesTo(a schema.Datum, op string, b schema.Datum) bool {
	if a.Null || b.Null {
		switch op {
		case "=":
			return a.Null && b.Null
		case "<>":
			return a.Null != b.Null
		}
		return false
	}
	cmp := schema.Compare(a, b)
	switch op {
	case "=":
		return cmp == 0
	case "<>":
		return cmp != 0
	case "<":
		return cmp < 0
	case "<=":
		return cmp <= 0
	case ">":
		return cmp > 0
	case ">=":
		return cmp >= 0
	}
	return false
}

// noPartition is the error of a clause that names none.
func (c *compiler) noPartition(ctx context.Context, t *catalog.Table, spec []ast.PartitionValue) error {
	var parts, have []string
	for _, v := range spec {
		if v.X != nil {
			parts = append(parts, v.Name.Name+map[bool]string{true: "=", false: " " + v.Op + " "}[v.Op == "="]+v.Text)
		}
	}
	if all, err := c.env.Catalog.Partitions(ctx, t.ID, storageNow); err == nil && len(all) < 10_000 {
		for _, p := range all {
			have = append(have, t.PartitionName(p.Values))
		}
	}
	name := strings.Join(parts, "/")
	return userError(spec[0].Pos, statePartition, nearest.Hint(name, have), "table %s has no partition %s", t.Name, name)
}

// onePartition returns the partition that a clause names.
func (c *compiler) onePartition(ctx context.Context, t *catalog.Table, pos ast.Pos, spec []ast.PartitionValue) (*catalog.Partition, error) {
	if _, err := c.fullSpec(t, pos, spec); err != nil {
		return nil, err
	}
	found, err := c.partitions(ctx, t, spec)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, c.noPartition(ctx, t, spec)
	}
	return found[0], nil
}
