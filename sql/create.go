package sql

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

func failAt(pos ast.Pos, format string, args ...any) error {
	e := fault.Userf(format, args...).(*fault.Error)
	e.SQLState, e.Line, e.Column = fault.StateSyntax, pos.Line, pos.Column
	return e
}

func unsupportedAt(pos ast.Pos, what string) error {
	return analyzer.At(pos, fault.Unsupportedf("%s", what))
}

func properties(in []ast.Property) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for _, p := range in {
		out[p.Key] = p.Value
	}
	return out
}

// columnOf translates a column's definition.
func columnOf(def ast.ColumnDef) schema.Column {
	return schema.Column{Name: strings.ToLower(def.Name.Name), Type: def.Type.Type, Comment: def.Comment}
}

func (c *compiler) createTable(ctx context.Context, s *ast.CreateTable) (Compiled, error) {
	database, name, err := c.analyzer().Qualify(s.Table)
	if err != nil {
		return nil, err
	}
	if _, err := c.env.Catalog.Database(ctx, database); err != nil {
		return nil, analyzer.At(s.Table.Pos, err)
	}
	out := &CreateTable{IfNotExists: s.IfNotExists}
	if s.Like != nil {
		if err := c.createLike(ctx, s, &out.Table); err != nil {
			return nil, err
		}
	}
	t := &out.Table
	t.Database, t.TableName, t.Name = database, name, database+"."+name
	t.Temporary = s.Temporary
	if s.Comment != "" {
		t.Comment = s.Comment
	}
	for _, p := range s.Properties {
		setProperty(t, p.Key, p.Value)
	}
	if s.SplitInto > 0 {
		t.WantRegions = s.SplitInto
	}
	if s.RowFormat != nil {
		if err := rowFormat(s.RowFormat, t); err != nil {
			return nil, err
		}
	}
	if err := stored(s.Stored, t); err != nil {
		return nil, err
	}
	if s.Location != nil {
		t.Location = *s.Location
	}
	if s.External {
		setProperty(t, propertyExternal, "TRUE")
	}
	if s.As != nil {
		if err := c.createAs(ctx, s, out); err != nil {
			return nil, err
		}
	}
	if err := tableColumns(s, t); err != nil {
		return nil, err
	}
	if err := c.layout(s, t); err != nil {
		return nil, err
	}
	if err := c.constraints(t, s.Constraints); err != nil {
		return nil, err
	}
	return out, nil
}

// tableColumns adds the columns that the statement lists.
func tableColumns(s *ast.CreateTable, t *catalog.Table) error {
	names := map[string]bool{}
	for _, col := range t.AllColumns() {
		names[col.Name] = true
	}
	take := func(def ast.ColumnDef, what string) (schema.Column, error) {
		column := columnOf(def)
		if names[column.Name] {
			return column, failAt(def.Pos, "column %s is given twice", column.Name)
		}
		names[column.Name] = true
		if column.Type.Kind == schema.Void {
			return column, failAt(def.Type.Pos, "a column can't have type void")
		}
		return column, nil
	}
	if s.As == nil || len(s.Columns) > 0 {
		for _, def := range s.Columns {
			if s.As != nil {
				return failAt(def.Pos, "CREATE TABLE .. AS takes its columns from the query: they can't be listed")
			}
			column, err := take(def, "column")
			if err != nil {
				return err
			}
			t.Columns = append(t.Columns, column)
		}
	}
	if s.As == nil {
		for _, def := range s.PartitionedBy {
			if def.Type.Line == 0 {
				return failAt(def.Pos, "partition column %s needs a type", def.Name.Name)
			}
			column, err := take(def, "partition column")
			if err != nil {
				return err
			}
			if !column.Type.IsPrimitive() {
				return failAt(def.Type.Pos, "partition column %s has type %s: it must be a primitive one", column.Name, column.Type)
			}
			t.PartitionColumns = append(t.PartitionColumns, column)
		}
	}
	if len(t.Columns) == 0 {
		return failAt(s.Table.Pos, "a table needs a column")
	}
	for i := range t.Columns {
		t.Columns[i].ID = schema.ColumnID(i + 1)
	}
	t.Partitioned = len(t.PartitionColumns) > 0
	return nil
}

// layout checks row key, buckets and skew.
func (c *compiler) layout(s *ast.CreateTable, t *catalog.Table) error {
	inKey := map[int]bool{}
	for _, k := range s.Key {
		i := t.Columns.Index(k.Name)
		switch {
		case i < 0:
			return c.noKeyColumn(k.Pos, k.Name, t.Columns)
		case inKey[i]:
			return failAt(k.Pos, "column %s is twice in the row key", t.Columns[i].Name)
		case !t.Columns[i].Type.IsPrimitive():
			return failAt(k.Pos, "column %s is %s, which can't be in a row key", t.Columns[i].Name, t.Columns[i].Type)
		}
		inKey[i] = true
		t.Key = append(t.Key, storage.KeyColumn{Column: t.Columns[i].ID, Desc: k.Desc})
	}
	if t.Kind == catalog.External && t.Key != nil {
		return failAt(s.KeyPos, "an external table is text files: it has no row key")
	}
	if s.Clustered != nil {
		if err := buckets(s.Clustered, t); err != nil {
			return err
		}
	}
	if s.Skewed != nil {
		return skew(s.Skewed, t)
	}
	return nil
}

func (c *compiler) noKeyColumn(pos ast.Pos, name string, columns schema.Columns) error {
	return userError(pos, fault.StateUnknownCol, nearest.Hint(name, columnNames(columns)), "the key names column %s, which the table does not have", name)
}

// buckets translates CLUSTERED BY.
func buckets(b *ast.Clustered, t *catalog.Table) error {
	find := func(pos ast.Pos, name, clause string) (string, error) {
		i := t.Columns.Index(name)
		if i < 0 {
			if t.PartitionColumns.Index(name) >= 0 {
				return "", failAt(pos, "%s names partition column %s: a partition is not cut by it", clause, name)
			}
			return "", userError(pos, fault.StateUnknownCol, nearest.Hint(name, columnNames(t.Columns)), "%s names column %s, which the table does not have", clause, name)
		}
		return t.Columns[i].Name, nil
	}
	out := catalog.Buckets{N: b.Buckets}
	for _, id := range b.Columns {
		name, err := find(id.Pos, id.Name, "CLUSTERED BY")
		if err != nil {
			return err
		}
		out.Columns = append(out.Columns, name)
	}
	for _, k := range b.Sorted {
		name, err := find(k.Pos, k.Name, "SORTED BY")
		if err != nil {
			return err
		}
		out.Sorted = append(out.Sorted, catalog.SortColumn{Name: name, Desc: k.Desc})
	}
	t.Buckets = out
	return nil
}

// skew translates SKEWED BY.
func skew(s *ast.Skewed, t *catalog.Table) error {
	out := catalog.Skew{Values: s.Values, StoredAsDirectories: s.Directories}
	for _, id := range s.Columns {
		i := t.Columns.Index(id.Name)
		if i < 0 {
			return userError(id.Pos, fault.StateUnknownCol, nearest.Hint(id.Name, columnNames(t.Columns)), "SKEWED BY names column %s, which the table does not have", id.Name)
		}
		if slices.Contains(out.Columns, t.Columns[i].Name) {
			return failAt(id.Pos, "SKEWED BY names column %s twice", id.Name)
		}
		if !t.Columns[i].Type.IsPrimitive() {
			return failAt(id.Pos, "SKEWED BY names column %s of type %s: it must be a primitive one", id.Name, t.Columns[i].Type)
		}
		out.Columns = append(out.Columns, t.Columns[i].Name)
	}
	for i, v := range s.Values {
		for _, w := range s.Values[:i] {
			if slices.Equal(v, w) {
				return failAt(s.Pos, "SKEWED BY lists the value (%s) twice", strings.Join(v, ", "))
			}
		}
	}
	t.Skew = out
	return nil
}

// createLike copies the definition of a table, or the columns of a view.
func (c *compiler) createLike(ctx context.Context, s *ast.CreateTable, t *catalog.Table) error {
	if s.Columns != nil || s.As != nil || s.PartitionedBy != nil || s.Clustered != nil || s.Skewed != nil {
		return failAt(s.Pos, "CREATE TABLE .. LIKE takes columns, partitions and buckets from the other table")
	}
	from, err := c.table(ctx, *s.Like)
	if err != nil {
		return err
	}
	t.Columns = slices.Clone(from.Columns)
	t.PartitionColumns = slices.Clone(from.PartitionColumns)
	for i := range t.PartitionColumns {
		t.PartitionColumns[i].ID = 0
	}
	if from.Kind == catalog.View {
		t.Columns = slices.Concat(from.Columns, t.PartitionColumns)
		t.PartitionColumns = nil
	} else {
		byPosition := func(id schema.ColumnID) schema.ColumnID { return schema.ColumnID(from.Columns.ByID(id) + 1) }
		for _, k := range from.Key {
			t.Key = append(t.Key, storage.KeyColumn{Column: byPosition(k.Column), Desc: k.Desc})
		}
		t.Comment, t.RowFormat, t.Serde, t.SerdeProperties, t.StoredAs = from.Comment, from.RowFormat, from.Serde, maps.Clone(from.SerdeProperties), from.StoredAs
		t.Buckets, t.Skew, t.WantRegions = from.Buckets, from.Skew, from.WantRegions
		for k, v := range from.Properties {
			if k != propertyExternal {
				setProperty(t, k, v)
			}
		}
	}
	for i := range t.Columns {
		t.Columns[i].ID = 0
		if t.Columns[i].NotNull {
			t.Columns[i].NotNull = false // constraints are not copied
		}
	}
	return nil
}

// createAs takes columns and rows from a query.
func (c *compiler) createAs(ctx context.Context, s *ast.CreateTable, out *CreateTable) error {
	t := &out.Table
	if s.External && t.Kind == catalog.External {
		return failAt(s.Pos, "CREATE EXTERNAL TABLE can't take rows from a query")
	}
	n, err := c.analyzer().Query(ctx, s.As)
	if err != nil {
		return err
	}
	fields := n.Fields()
	partition := map[int]int{} // field -> position among the partition columns
	for k, def := range s.PartitionedBy {
		if def.Type.Line > 0 {
			return failAt(def.Pos, "partition column %s takes its type from the query", def.Name.Name)
		}
		i := slices.IndexFunc(fields, func(f schema.Field) bool { return strings.EqualFold(f.Name, def.Name.Name) })
		if i < 0 {
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.Name
			}
			return userError(def.Pos, fault.StateUnknownCol, nearest.Hint(def.Name.Name, names), "the query has no column %s to partition by", def.Name.Name)
		}
		partition[i] = k
		t.PartitionColumns = append(t.PartitionColumns, schema.Column{Name: strings.ToLower(def.Name.Name), Type: fields[i].Type, Comment: def.Comment})
	}
	order := make([]int, 0, len(fields))
	seen := map[string]bool{}
	for i, f := range fields {
		name := strings.ToLower(f.Name)
		switch {
		case seen[name]:
			return failAt(s.As.Pos, "the query has two columns %s: give one of them another name by AS", name)
		case f.Type.Kind == schema.Void:
			return failAt(s.As.Pos, "column %s of the query is NULL without a type: cast it", name)
		case f.Type.Kind == schema.IntervalDayTime || f.Type.Kind == schema.IntervalYearMonth:
			return failAt(s.As.Pos, "column %s of the query is an interval, which a table can't keep", name)
		}
		seen[name] = true
		if _, ok := partition[i]; ok {
			continue
		}
		order = append(order, i)
		t.Columns = append(t.Columns, schema.Column{Name: name, Type: f.Type})
	}
	if len(t.Columns) == 0 {
		return failAt(s.As.Pos, "all columns of the query are partition columns: a table needs another one")
	}
	for _, def := range s.PartitionedBy {
		for i := range fields {
			if strings.EqualFold(fields[i].Name, def.Name.Name) {
				order = append(order, i)
			}
		}
	}
	p := &plan.Project{Input: n}
	for _, i := range order {
		p.Exprs = append(p.Exprs, &plan.Column{Index: i, Name: fields[i].Name, T: fields[i].Type})
		p.Names = append(p.Names, strings.ToLower(fields[i].Name))
	}
	out.Fill = func(ctx context.Context, t *catalog.Table) (*Query, error) {
		n, err := c.writing(ctx, Write{Table: t, Kind: catalog.TxnInsert}, p, joinPlace(s.As))
		if err != nil {
			return nil, err
		}
		return &Query{Kind: KindInsert, Plan: lower(n, c.env.Specs), Table: t, Name: s.Text}, nil
	}
	return nil
}

func (c *compiler) createDatabase(s *ast.CreateDatabase) (Compiled, error) {
	return &CreateDatabase{IfNotExists: s.IfNotExists, Database: catalog.Database{Name: strings.ToLower(s.Name.Name), Comment: s.Comment,
		Location: s.Location, ManagedLocation: s.ManagedLocation, Properties: properties(s.Properties)}}, nil
}

func (c *compiler) alterDatabase(ctx context.Context, s *ast.AlterDatabase) (Compiled, error) {
	d, err := c.env.Catalog.Database(ctx, strings.ToLower(s.Name.Name))
	if err != nil {
		return nil, analyzer.At(s.Name.Pos, err)
	}
	d.Properties = maps.Clone(d.Properties)
	for _, p := range s.Properties {
		if d.Properties == nil {
			d.Properties = map[string]string{}
		}
		d.Properties[p.Key] = p.Value
	}
	if s.OwnerType != "" {
		d.OwnerType, d.Owner = s.OwnerType, s.Owner
	}
	if s.Location != nil {
		d.Location = *s.Location
	}
	if s.ManagedLocation != nil {
		d.ManagedLocation = *s.ManagedLocation
	}
	return &AlterDatabase{Database: d}, nil
}

// createView compiles CREATE VIEW: the query is analysed now, so that a view
// whose query is wrong is not made.
func (c *compiler) createView(ctx context.Context, s *ast.CreateView) (Compiled, error) {
	database, name, err := c.analyzer().Qualify(s.Name)
	if err != nil {
		return nil, err
	}
	t := catalog.Table{Kind: catalog.View, Database: database, TableName: name, Comment: s.Comment, Properties: properties(s.Properties)}
	t.Name = database + "." + name
	out := &CreateTable{IfNotExists: s.IfNotExists}
	old, err := c.env.Catalog.Table(ctx, database, name)
	switch {
	case err == nil && old.Kind != catalog.View && !s.IfNotExists:
		return nil, userError(s.Name.Pos, fault.StateTableExists, "", "%s is a table, not a view", old.Name)
	case err == nil && s.OrReplace:
		out.Replace = old
	case err != nil && fault.StateOf(err) != fault.StateUnknownTable:
		return nil, analyzer.At(s.Name.Pos, err)
	}
	if err := c.viewQuery(ctx, &t, s.Query, s.QueryText, s.Columns); err != nil {
		return nil, err
	}
	for _, id := range s.PartitionOn {
		i := t.Columns.Index(id.Name)
		if i < 0 {
			return nil, userError(id.Pos, fault.StateUnknownCol, nearest.Hint(id.Name, columnNames(t.Columns)), "the view has no column %s to partition on", id.Name)
		}
		t.PartitionColumns = append(t.PartitionColumns, t.Columns[i])
	}
	// Hive wants them to be the last ones.
	for k := range t.PartitionColumns {
		if t.Columns[len(t.Columns)-len(t.PartitionColumns)+k].Name != t.PartitionColumns[k].Name {
			return nil, failAt(s.PartitionOn[k].Pos, "PARTITIONED ON names columns that are not the last ones of the view, in their order")
		}
		t.PartitionColumns[k].ID = 0
	}
	if t.Columns = t.Columns[:len(t.Columns)-len(t.PartitionColumns)]; len(t.Columns) == 0 {
		return nil, failAt(s.Pos, "a view needs a column that it is not partitioned on")
	}
	out.Table = t
	return out, nil
}

// viewQuery gives a view its query and columns.
func (c *compiler) viewQuery(ctx context.Context, t *catalog.Table, q *ast.Query, text string, columns []ast.ColumnDef) error {
	a := c.analyzer()
	n, err := a.Query(ctx, q)
	if err != nil {
		return err
	}
	for _, used := range a.Tables() {
		if used.Temporary {
			return userError(q.Pos, fault.StateSyntax, "", "the view would read temporary table %s, which ends with the session", used.Name)
		}
		if used.Kind == catalog.View && used.Database == t.Database && used.TableName == t.TableName {
			return userError(q.Pos, fault.StateSyntax, "", "view %s would stand on itself", t.Name)
		}
	}
	fields := n.Fields()
	if columns != nil && len(columns) != len(fields) {
		return failAt(columns[0].Pos, "%d columns are named, but the query gives %d", len(columns), len(fields))
	}
	t.ViewText, t.ViewDatabase, t.Columns = text, c.database, nil
	seen := map[string]bool{}
	for i, f := range fields {
		col := schema.Column{Name: strings.ToLower(f.Name), Type: f.Type}
		pos := q.Pos
		if columns != nil {
			col.Name, col.Comment, pos = strings.ToLower(columns[i].Name.Name), columns[i].Comment, columns[i].Pos
		}
		if seen[col.Name] {
			return failAt(pos, "the view would have two columns %s", col.Name)
		}
		seen[col.Name] = true
		t.Columns = append(t.Columns, col)
	}
	return nil
}

func (c *compiler) dropTable(ctx context.Context, s *ast.DropTable) (Compiled, error) {
	t, err := c.table(ctx, s.Table)
	if err != nil {
		if s.IfExists && (fault.StateOf(err) == fault.StateUnknownTable || c.noDatabase(ctx, s.Table)) {
			return &DropTable{}, nil
		}
		return nil, err
	}
	switch {
	case s.View && t.Kind != catalog.View:
		if s.IfExists {
			return &DropTable{}, nil
		}
		return nil, userError(s.Table.Pos, fault.StateSyntax, "write DROP TABLE", "%s is a table, not a view", t.Name)
	case !s.View && t.Kind == catalog.View:
		if s.IfExists {
			return &DropTable{}, nil
		}
		return nil, userError(s.Table.Pos, fault.StateSyntax, "write DROP VIEW", "%s is a view, not a table", t.Name)
	}
	return &DropTable{Table: t}, nil
}

// noDatabase reports whether the database of a name doesn't exist.
func (c *compiler) noDatabase(ctx context.Context, n ast.Name) bool {
	database, _, err := c.analyzer().Qualify(n)
	if err != nil {
		return false
	}
	_, err = c.env.Catalog.Database(ctx, database)
	return err != nil && fault.ClassOf(err) == fault.User
}
