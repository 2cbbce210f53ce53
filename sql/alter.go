package sql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

func (c *compiler) alterTable(ctx context.Context, s *ast.AlterTable) (Compiled, error) {
	t, err := c.table(ctx, s.Table)
	if err != nil {
		return nil, err
	}
	switch {
	case s.View && t.Kind != catalog.View:
		return nil, userError(s.Table.Pos, fault.StateSyntax, "write ALTER TABLE", "%s is a table, not a view", t.Name)
	case !s.View && t.Kind == catalog.View:
		switch s.Action.(type) {
		case *ast.AlterRename, *ast.AlterProperties:
		default:
			return nil, userError(s.Table.Pos, fault.StateSyntax, "write ALTER VIEW", "%s is a view, not a table", t.Name)
		}
	}
	switch a := s.Action.(type) {
	case *ast.AlterAddPartitions:
		return c.addPartitions(t, a)
	case *ast.AlterDropPartitions:
		return c.dropPartitions(ctx, t, a)
	case *ast.AlterRenamePartition:
		return c.renamePartition(ctx, t, s, a)
	case *ast.AlterExchange:
		return c.exchangePartition(ctx, t, s, a)
	}
	if s.Partition != nil {
		return c.alterPartition(ctx, t, s)
	}
	next := *t
	next.Columns, next.PartitionColumns = slices.Clone(t.Columns), slices.Clone(t.PartitionColumns)
	next.Properties, next.SerdeProperties = maps.Clone(t.Properties), maps.Clone(t.SerdeProperties)
	next.Constraints = slices.Clone(t.Constraints)
	if err := c.alter(ctx, s, &next); err != nil {
		return nil, err
	}
	if next.Name = next.Database + "." + next.TableName; next.Name != t.Name {
		// Constraints elsewhere that name the table are kept as written.
		if other, err := c.env.Catalog.Table(ctx, next.Database, next.TableName); err == nil && other.ID != t.ID {
			return nil, userError(s.Action.(*ast.AlterRename).To.Pos, fault.StateTableExists, "", "%s exists already", next.Name)
		}
	}
	return &AlterTable{Table: next}, nil
}

// alter makes the change to t.
func (c *compiler) alter(ctx context.Context, s *ast.AlterTable, t *catalog.Table) error {
	switch a := s.Action.(type) {
	case *ast.AlterRename:
		database, name, err := c.analyzer().Qualify(a.To)
		if err != nil {
			return err
		}
		if len(a.To.Parts) == 1 && len(s.Table.Parts) > 1 {
			database = t.Database
		}
		if _, err := c.env.Catalog.Database(ctx, database); err != nil {
			return analyzer.At(a.To.Pos, err)
		}
		t.Database, t.TableName = database, name
		return nil
	case *ast.AlterColumns:
		return c.alterColumns(ctx, a, t)
	case *ast.AlterChange:
		return c.changeColumn(ctx, a, t)
	case *ast.AlterPartitionColumn:
		i := t.PartitionColumns.Index(a.Column.Name.Name)
		if i < 0 {
			return userError(a.Column.Pos, fault.StateUnknownCol, nearest.Hint(a.Column.Name.Name, columnNames(t.PartitionColumns)), "table %s has no partition column %s", t.Name, a.Column.Name.Name)
		}
		if !a.Column.Type.Type.IsPrimitive() {
			return failAt(a.Column.Type.Pos, "a partition column must be of a primitive type")
		}
		t.PartitionColumns[i].Type = a.Column.Type.Type
		return nil
	case *ast.AlterProperties:
		return alterProperties(s, a, t)
	case *ast.AlterSerde:
		t.RowFormat = catalog.RowFormat{}
		return setSerde(a.Pos, a.Serde, a.Properties, t)
	case *ast.AlterFormat:
		return stored(a.Stored, t)
	case *ast.AlterLocation:
		t.Location = a.Location
		return nil
	case *ast.AlterOwner:
		t.Owner = a.Owner
		return nil
	case *ast.AlterClustered:
		switch {
		case a.Clustered != nil:
			return buckets(a.Clustered, t)
		case a.NotClustered:
			t.Buckets = catalog.Buckets{}
		case a.NotSorted:
			t.Buckets.Sorted = nil
		case t.Buckets.N == 0:
			return userError(s.Table.Pos, fault.StateSyntax, "", "table %s has no buckets", t.Name)
		default:
			t.Buckets.N = a.Buckets
		}
		return nil
	case *ast.AlterSkewed:
		switch {
		case a.Skewed != nil:
			return skew(a.Skewed, t)
		case a.NotDirectories:
			t.Skew.StoredAsDirectories = false
		default:
			t.Skew = catalog.Skew{}
		}
		return nil
	case *ast.AlterConstraint:
		if a.Add != nil {
			return c.addConstraint(t, *a.Add)
		}
		return dropConstraint(a.Drop, t)
	case *ast.AlterQuery:
		if t.Kind != catalog.View {
			return userError(s.Table.Pos, fault.StateSyntax, "", "%s is not a view", t.Name)
		}
		return c.viewQuery(ctx, t, a.Query, a.Text, nil)
	case *ast.AlterNothing:
		return nil
	}
	return fault.Bugf("sql: unknown change of a table %T", s.Action)
}

func alterProperties(s *ast.AlterTable, a *ast.AlterProperties, t *catalog.Table) error {
	for _, p := range a.Properties {
		switch {
		case !a.Unset && a.Serde:
			if err := setSerdeProperty(t, p); err != nil {
				return err
			}
		case !a.Unset && strings.EqualFold(p.Key, "comment"):
			t.Comment = p.Value
		case !a.Unset:
			setProperty(t, p.Key, p.Value)
		default:
			props := t.Properties
			if a.Serde {
				props = t.SerdeProperties
			}
			if _, ok := props[p.Key]; !ok && !a.IfExists {
				return userError(p.Pos, fault.StateSyntax, nearest.Hint(p.Key, sortedKeys(props)), "%s has no property %s", t.Name, p.Key)
			}
			delete(props, p.Key)
		}
	}
	return nil
}

func dropConstraint(name *ast.Ident, t *catalog.Table) error {
	i := slices.IndexFunc(t.Constraints, func(k catalog.Constraint) bool { return strings.EqualFold(k.Name, name.Name) })
	if i < 0 {
		var names []string
		for _, k := range t.Constraints {
			names = append(names, k.Name)
		}
		return userError(name.Pos, fault.StateSyntax, nearest.Hint(name.Name, names), "table %s has no constraint %s", t.Name, name.Name)
	}
	k := t.Constraints[i]
	if k.Kind == catalog.PrimaryKey && t.Keyed() && k.Enforced {
		return userError(name.Pos, fault.StateSyntax, "", "constraint %s is the row key of %s: it can't be dropped", k.Name, t.Name)
	}
	t.Constraints = slices.Delete(t.Constraints, i, i+1)
	if k.Kind == catalog.NotNull {
		still := slices.ContainsFunc(t.Constraints, func(o catalog.Constraint) bool {
			return o.Enforced && (o.Kind == catalog.NotNull && o.Columns[0] == k.Columns[0] ||
				o.Kind == catalog.PrimaryKey && slices.Contains(o.Columns, k.Columns[0]))
		})
		if at := t.Columns.Index(k.Columns[0]); at >= 0 {
			t.Columns[at].NotNull = still
		}
	}
	return nil
}

// checkNewColumn refuses what can't be a column of a table.
func checkNewColumn(def ast.ColumnDef, t *catalog.Table) error {
	if t.AllColumns().Index(def.Name.Name) >= 0 {
		return userError(def.Pos, fault.StateSyntax, "", "table %s has a column %s already", t.Name, strings.ToLower(def.Name.Name))
	}
	return nil
}

// alterColumns adds columns, or replaces all of them. A column that keeps its
// name keeps its values; one that comes back later has none.
func (c *compiler) alterColumns(ctx context.Context, a *ast.AlterColumns, t *catalog.Table) error {
	old := t.Columns
	if a.Replace {
		t.Columns = nil
	}
	for _, def := range a.Columns {
		if err := checkNewColumn(def, t); err != nil {
			return err
		}
		col := columnOf(def)
		if i := old.Index(col.Name); a.Replace && i >= 0 {
			id, err := c.changedColumn(ctx, def.Type.Pos, t, old[i], col.Type)
			if err != nil {
				return err
			}
			col.ID, col.NotNull = id, old[i].NotNull
		}
		t.Columns = append(t.Columns, col)
		if err := c.constraints(t, def.Constraints); err != nil {
			return err
		}
	}
	if !a.Replace {
		return nil
	}
	for _, k := range t.Key {
		if t.Columns.ByID(k.Column) < 0 {
			return userError(a.Columns[0].Pos, fault.StateSyntax, "", "column %s is part of the row key of %s: it can't be dropped", old[old.ByID(k.Column)].Name, t.Name)
		}
	}
	return forgetColumns(a.Columns[0].Pos, old, t)
}

// forgetColumns drops what else the definition says of columns that are gone.
func forgetColumns(pos ast.Pos, old schema.Columns, t *catalog.Table) error {
	gone := func(name string) bool { return old.Index(name) >= 0 && t.Columns.Index(name) < 0 }
	t.Constraints = slices.DeleteFunc(t.Constraints, func(k catalog.Constraint) bool { return slices.ContainsFunc(k.Columns, gone) })
	if slices.ContainsFunc(t.Buckets.Columns, gone) {
		return userError(pos, fault.StateSyntax, "", "table %s is clustered by a column that would be gone", t.Name)
	}
	t.Buckets.Sorted = slices.DeleteFunc(slices.Clone(t.Buckets.Sorted), func(c catalog.SortColumn) bool { return gone(c.Name) })
	if slices.ContainsFunc(t.Skew.Columns, gone) {
		t.Skew = catalog.Skew{}
	}
	return nil
}

// checkTypeChange refuses changes of a column's type that its values don't
// survive.
func (c *compiler) checkTypeChange(pos ast.Pos, old schema.Column, to schema.Type) error {
	if old.Type.Equal(to) {
		return nil
	}
	if strict := analyzer.Bool(c.env.Settings, "hive.metastore.disallow.incompatible.col.type.changes", true); strict && !widens(old.Type, to) {
		return userError(pos, fault.StateSyntax, "", "column %s is %s: its values may not fit in %s", old.Name, old.Type, to)
	}
	if _, ok := function.Cast(old.Type, to); !ok {
		return userError(pos, fault.StateSyntax, "", "column %s is %s, which can't become %s", old.Name, old.Type, to)
	}
	return nil
}

// changedColumn returns the id of a column that gets another type: its own where
// the values that are stored can be read as the new type; a new one in a table that
// holds no rows.
func (c *compiler) changedColumn(ctx context.Context, pos ast.Pos, t *catalog.Table, old schema.Column, to schema.Type) (schema.ColumnID, error) {
	if err := c.checkTypeChange(pos, old, to); err != nil {
		return 0, err
	}
	switch from := old.Type; {
	case from.Equal(to), t.Kind != catalog.Managed, isText(from) && isText(to) && to.Kind == schema.String,
		from.Kind == schema.Decimal && to.Kind == schema.Decimal && from.Scale == to.Scale && from.Precision <= to.Precision,
		isText(from) && from.Kind == to.Kind && from.Length <= to.Length:
		return old.ID, nil
	}
	if c.env.Stats == nil {
		return 0, nil
	}
	regions, err := c.env.Stats.Regions(ctx, &t.Table)
	if err != nil {
		return 0, err
	}
	for _, r := range regions {
		if r.Segments > 0 || r.DeltaBytes > 0 || r.Rows > 0 {
			return 0, unsupportedAt(pos, "changing column "+old.Name+" of a table with rows from "+old.Type.String()+" to "+to.String())
		}
	}
	return 0, nil
}

// widens reports whether Hive lets a column change from one type to another:
// every value has an image.
func widens(from, to schema.Type) bool {
	if isText(to) {
		return from.IsPrimitive() && from.Kind != schema.Binary || from.Kind == schema.Binary && to.Kind == schema.String
	}
	rank := map[schema.Kind]int{schema.TinyInt: 1, schema.SmallInt: 2, schema.Int: 3, schema.BigInt: 4, schema.Decimal: 5, schema.Float: 6, schema.Double: 7}
	a, b := rank[from.Kind], rank[to.Kind]
	switch {
	case a > 0 && b > 0:
		return a <= b
	case isText(from):
		return b >= rank[schema.Decimal]
	}
	return from.Kind == to.Kind
}

func isText(t schema.Type) bool {
	return t.Kind == schema.String || t.Kind == schema.Char || t.Kind == schema.Varchar
}

// changeColumn renames, retypes or moves a column.
func (c *compiler) changeColumn(ctx context.Context, a *ast.AlterChange, t *catalog.Table) error {
	i := t.Columns.Index(a.From.Name)
	if i < 0 {
		hint := nearest.Hint(a.From.Name, columnNames(t.Columns))
		if t.PartitionColumns.Index(a.From.Name) >= 0 {
			hint = "it is a partition column: see ALTER TABLE .. PARTITION COLUMN"
		}
		return userError(a.From.Pos, fault.StateUnknownCol, hint, "table %s has no column %s", t.Name, a.From.Name)
	}
	old := t.Columns[i]
	col := columnOf(a.To)
	if other := t.AllColumns().Index(col.Name); other >= 0 && other != i {
		return userError(a.To.Pos, fault.StateSyntax, "", "table %s has a column %s already", t.Name, col.Name)
	}
	id, err := c.changedColumn(ctx, a.To.Type.Pos, t, old, col.Type)
	if err != nil {
		return err
	}
	if col.ID, col.NotNull = id, old.NotNull; !a.To.HasComment {
		col.Comment = old.Comment
	}
	if !old.Type.Equal(col.Type) && slices.ContainsFunc(t.Key, func(k storage.KeyColumn) bool { return k.Column == old.ID }) {
		return userError(a.To.Type.Pos, fault.StateSyntax, "", "column %s is part of the row key of %s: its type can't change", old.Name, t.Name)
	}
	t.Columns = slices.Delete(t.Columns, i, i+1)
	switch {
	case a.First:
		i = 0
	case a.After != nil:
		at := t.Columns.Index(a.After.Name)
		if at < 0 {
			return userError(a.After.Pos, fault.StateUnknownCol, nearest.Hint(a.After.Name, columnNames(t.Columns)), "table %s has no column %s to put it behind", t.Name, a.After.Name)
		}
		i = at + 1
	}
	t.Columns = slices.Insert(t.Columns, i, col)
	rename := func(names []string) []string {
		names = slices.Clone(names)
		for k := range names {
			if names[k] == old.Name {
				names[k] = col.Name
			}
		}
		return names
	}
	for k := range t.Constraints {
		t.Constraints[k].Columns = rename(t.Constraints[k].Columns)
	}
	t.Buckets.Columns, t.Skew.Columns = rename(t.Buckets.Columns), rename(t.Skew.Columns)
	t.Buckets.Sorted = slices.Clone(t.Buckets.Sorted)
	for k := range t.Buckets.Sorted {
		if t.Buckets.Sorted[k].Name == old.Name {
			t.Buckets.Sorted[k].Name = col.Name
		}
	}
	return c.constraints(t, a.To.Constraints)
}

func (c *compiler) addPartitions(t *catalog.Table, a *ast.AlterAddPartitions) (Compiled, error) {
	out := &AddPartitions{Table: t, IfNotExists: a.IfNotExists}
	for _, d := range a.Parts {
		values, err := c.fullSpec(t, d.Pos, d.Values)
		if err != nil {
			return nil, err
		}
		out.Partitions = append(out.Partitions, catalog.Partition{Values: values, Location: d.Location})
	}
	return out, nil
}

func (c *compiler) dropPartitions(ctx context.Context, t *catalog.Table, a *ast.AlterDropPartitions) (Compiled, error) {
	out := &DropPartitions{Table: t}
	// Hive drops what isn't there without a word unless told otherwise.
	lenient := a.IfExists || analyzer.Bool(c.env.Settings, "hive.exec.drop.ignorenonexistent", true)
	for _, spec := range a.Specs {
		if _, err := specColumns(t, spec); err != nil {
			return nil, err
		}
		found, err := c.partitions(ctx, t, spec)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && !lenient {
			return nil, c.noPartition(ctx, t, spec)
		}
		for _, p := range found {
			if !slices.Contains(out.Partitions, p) {
				out.Partitions = append(out.Partitions, p)
			}
		}
	}
	return out, nil
}

func (c *compiler) renamePartition(ctx context.Context, t *catalog.Table, s *ast.AlterTable, a *ast.AlterRenamePartition) (Compiled, error) {
	p, err := c.onePartition(ctx, t, s.Table.Pos, s.Partition)
	if err != nil {
		return nil, err
	}
	next := *p
	if next.Values, err = c.fullSpec(t, s.Table.Pos, a.To); err != nil {
		return nil, err
	}
	return &AlterPartitions{Table: t, Partitions: []catalog.Partition{next}}, nil
}

// alterPartition changes what is kept of partitions. Their columns and formats
// are the table's, so changes of those have no effect.
func (c *compiler) alterPartition(ctx context.Context, t *catalog.Table, s *ast.AlterTable) (Compiled, error) {
	found, err := c.partitions(ctx, t, s.Partition)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, c.noPartition(ctx, t, s.Partition)
	}
	out := &AlterPartitions{Table: t}
	for _, p := range found {
		next := *p
		switch a := s.Action.(type) {
		case *ast.AlterLocation:
			next.Location = a.Location
		case *ast.AlterProperties:
			if a.Serde {
				continue
			}
			next.Properties = maps.Clone(p.Properties)
			for _, prop := range a.Properties {
				if a.Unset {
					delete(next.Properties, prop.Key)
					continue
				}
				if next.Properties == nil {
					next.Properties = map[string]string{}
				}
				next.Properties[prop.Key] = prop.Value
			}
		default:
			continue
		}
		out.Partitions = append(out.Partitions, next)
	}
	if out.Partitions == nil {
		// What is said of one partition must at least be right for the table.
		next := *t
		next.Columns, next.Constraints = slices.Clone(t.Columns), slices.Clone(t.Constraints)
		next.Properties, next.SerdeProperties = maps.Clone(t.Properties), maps.Clone(t.SerdeProperties)
		if err := c.alter(ctx, &ast.AlterTable{Stmt: s.Stmt, Table: s.Table, Action: s.Action}, &next); err != nil {
			return nil, err
		}
		return &Nothing{}, nil
	}
	return out, nil
}

// exchangePartition moves the partitions of a clause from another table to t.
func (c *compiler) exchangePartition(ctx context.Context, t *catalog.Table, s *ast.AlterTable, a *ast.AlterExchange) (Compiled, error) {
	from, err := c.table(ctx, a.With)
	if err != nil {
		return nil, err
	}
	same := func(a, b schema.Columns) bool {
		return slices.EqualFunc(a, b, func(x, y schema.Column) bool { return x.Name == y.Name && x.Type.Equal(y.Type) })
	}
	if !same(t.Columns, from.Columns) || !same(t.PartitionColumns, from.PartitionColumns) {
		return nil, userError(a.With.Pos, fault.StateSyntax, "", "tables %s and %s have different columns: partitions can't be exchanged", t.Name, from.Name)
	}
	if _, err := specColumns(t, a.Values); err != nil {
		return nil, err
	}
	parts, err := c.partitions(ctx, from, a.Values)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, c.noPartition(ctx, from, a.Values)
	}
	there, err := c.partitions(ctx, t, a.Values)
	if err != nil {
		return nil, err
	}
	for _, p := range there {
		if slices.ContainsFunc(parts, func(q *catalog.Partition) bool {
			return t.PartitionName(p.Values) == t.PartitionName(q.Values)
		}) {
			return nil, userError(s.Table.Pos, statePartition, "", "table %s has partition %s already", t.Name, t.PartitionName(p.Values))
		}
	}
	out := &Transaction{Drop: &DropPartitions{Table: from, Partitions: parts}}
	for _, p := range parts {
		q, err := c.moving(ctx, t, from, p)
		if err != nil {
			return nil, err
		}
		out.Queries = append(out.Queries, q)
	}
	return out, nil
}

// moving copies a partition from one table to another.
func (c *compiler) moving(ctx context.Context, t, from *catalog.Table, p *catalog.Partition) (*Query, error) {
	scan, err := c.scan(ctx, from)
	if err != nil {
		return nil, err
	}
	var n plan.Node = scan
	all := from.AllColumns()
	for i, v := range shownValues(p.Values) {
		at := len(from.Columns) + i
		n = &plan.Filter{Input: n, Cond: &plan.Call{Name: "<=>", T: schema.BooleanType,
			Args: []plan.Expr{&plan.Column{Index: at, Name: all[at].Name, T: all[at].Type}, &plan.Literal{Value: v}}}}
	}
	n, err = c.writing(ctx, Write{Table: t, Kind: catalog.TxnInsert, Static: p.Values}, n, ast.Pos{})
	if err != nil {
		return nil, fmt.Errorf("exchange partition %s: %w", t.PartitionName(p.Values), err)
	}
	return &Query{Kind: KindInsert, Plan: lower(n, c.env.Specs), Table: t, Name: "exchange partition"}, nil
}

func (c *compiler) truncate(ctx context.Context, s *ast.Truncate) (Compiled, error) {
	t, err := c.writable(ctx, s.Table)
	if err != nil {
		return nil, err
	}
	if t.Kind == catalog.External {
		return nil, userError(s.Table.Pos, fault.StateSyntax, "", "%s is an external table: its files are not this program's to delete", t.Name)
	}
	if s.Partition == nil {
		return &Truncate{Table: t}, nil
	}
	if _, err := specColumns(t, s.Partition); err != nil {
		return nil, err
	}
	found, err := c.partitions(ctx, t, s.Partition)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, c.noPartition(ctx, t, s.Partition)
	}
	return &Truncate{Table: t, Partitions: found}, nil
}

// analyze checks an ANALYZE; the store keeps its statistics itself.
func (c *compiler) analyze(ctx context.Context, s *ast.Analyze) (Compiled, error) {
	t, err := c.writable(ctx, s.Table)
	if err != nil {
		return nil, err
	}
	if s.Partition != nil {
		if _, err := specColumns(t, s.Partition); err != nil {
			return nil, err
		}
		found, err := c.partitions(ctx, t, s.Partition)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, c.noPartition(ctx, t, s.Partition)
		}
	}
	for _, id := range s.Columns {
		if t.AllColumns().Index(id.Name) < 0 {
			return nil, userError(id.Pos, fault.StateUnknownCol, nearest.Hint(id.Name, columnNames(t.Columns)), "table %s has no column %s", t.Name, id.Name)
		}
	}
	return &Nothing{}, nil
}

// msck accepts MSCK for managed tables, whose partitions can't differ from what the
// catalogue says.
func (c *compiler) msck(ctx context.Context, s *ast.Msck) (Compiled, error) {
	t, err := c.writable(ctx, s.Table)
	if err != nil {
		return nil, err
	}
	_ = t
	return &Nothing{}, nil
}
