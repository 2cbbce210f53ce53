package sql

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/storage"
)

// matcher returns a test of names against a SHOW pattern: * and % are any text,
// . and _ are what they are in Hive's own (a literal . and any one
// character), | separates alternatives; case does not matter.
func matcher(pattern *string) func(name string) bool {
	if pattern == nil {
		return func(string) bool { return true }
	}
	var alternatives []string
	for _, a := range strings.Split(*pattern, "|") {
		q := regexp.QuoteMeta(strings.TrimSpace(a))
		q = strings.NewReplacer(`\*`, ".*", "%", ".*", "_", ".").Replace(q)
		alternatives = append(alternatives, q)
	}
	re, err := regexp.Compile("(?is)^(?:" + strings.Join(alternatives, "|") + ")$")
	if err != nil {
		return func(string) bool { return false }
	}
	return re.MatchString
}

func (c *compiler) show(ctx context.Context, s *ast.Show) (Compiled, error) {
	match := matcher(s.Pattern)
	switch s.What {
	case "databases":
		out := texts("database_name")
		databases, err := c.env.Catalog.Databases(ctx)
		if err != nil {
			return nil, err
		}
		for _, d := range databases {
			if match(d.Name) {
				out.add(d.Name)
			}
		}
		return out, nil
	case "tables", "views", "materialized views", "table extended":
		return c.showTables(ctx, s, match)
	case "functions":
		out := texts("tab_name")
		for _, n := range c.env.Functions.Names() {
			if match(n) {
				out.add(n)
			}
		}
		return out, nil
	case "create database":
		return c.showCreateDatabase(ctx, s)
	case "conf":
		return c.showConf(s)
	case "locks":
		if len(s.In.Parts) > 0 {
			if _, err := c.table(ctx, s.In); err != nil && fault.StateOf(err) == fault.StateUnknownTable {
				return nil, err
			}
		}
		return texts("tab_name", "mode"), nil
	case "transactions":
		return c.showTransactions(ctx)
	case "compactions":
		return texts("compactionid", "dbname", "tabname", "partname", "type", "state"), nil
	}
	t, err := c.table(ctx, s.In)
	if err != nil {
		return nil, err
	}
	switch s.What {
	case "columns":
		out := texts("field")
		names := columnNames(t.AllColumns())
		if s.Sorted {
			slices.Sort(names)
		}
		for _, n := range names {
			if match(n) {
				out.add(n)
			}
		}
		return out, nil
	case "partitions":
		return c.showPartitions(ctx, s, t)
	case "create table":
		out := texts("createtab_stmt")
		for _, line := range createLines(t) {
			out.add(line)
		}
		return out, nil
	case "tblproperties":
		out := texts("prpt_name", "prpt_value")
		if s.Pattern != nil {
			if value, ok := t.Properties[*s.Pattern]; ok {
				out.add(*s.Pattern, value)
			} else {
				out.add("Table " + t.Name + " does not have property: " + *s.Pattern)
			}
			return out, nil
		}
		for _, key := range sortedKeys(t.Properties) {
			out.add(key, t.Properties[key])
		}
		return out, nil
	}
	return nil, fault.Bugf("sql: SHOW %s", s.What)
}

// tableType is what Hive calls a table's kind.
func tableType(t *catalog.Table) string {
	switch {
	case t.Kind == catalog.View:
		return "VIRTUAL_VIEW"
	case t.Kind == catalog.External || strings.EqualFold(t.Properties[propertyExternal], "true"):
		return "EXTERNAL_TABLE"
	}
	return "MANAGED_TABLE"
}

func (c *compiler) showTables(ctx context.Context, s *ast.Show, match func(string) bool) (Compiled, error) {
	database := c.database
	switch len(s.In.Parts) {
	case 0:
	case 1:
		database = strings.ToLower(s.In.Parts[0].Name)
	default:
		return nil, failAt(s.In.Pos, "a database has one name")
	}
	if _, err := c.env.Catalog.Database(ctx, database); err != nil {
		return nil, analyzer.At(s.In.Pos, err)
	}
	tables, err := c.env.Catalog.Tables(ctx, database)
	if err != nil {
		return nil, err
	}
	out := texts("tab_name")
	if s.Extended {
		out = texts("tab_name", "table_type")
	}
	for _, t := range tables {
		switch {
		case !match(t.TableName), s.What == "views" && t.Kind != catalog.View, s.What == "materialized views":
			continue
		case slices.ContainsFunc(s.Filter, func(p ast.Property) bool { return !strings.EqualFold(p.Value, tableType(t)) }):
			continue
		}
		switch {
		case s.What == "table extended":
			if err := c.tableExtended(ctx, t, s, out); err != nil {
				return nil, err
			}
		case s.Extended:
			out.add(t.TableName, tableType(t))
		default:
			out.add(t.TableName)
		}
	}
	return out, nil
}

// tableExtended adds what SHOW TABLE EXTENDED says of a table, or of the one
// partition it names.
func (c *compiler) tableExtended(ctx context.Context, t *catalog.Table, s *ast.Show, out *Rows) error {
	if s.Partition != nil {
		if _, err := c.onePartition(ctx, t, s.Pos, s.Partition); err != nil {
			return err
		}
	}
	columns := func(cs schema.Columns) string {
		parts := make([]string, len(cs))
		for i, col := range cs {
			parts[i] = col.Type.String() + " " + col.Name
		}
		return strings.Join(parts, ", ")
	}
	out.add("tableName:" + t.TableName)
	out.add("owner:" + t.Owner)
	out.add("location:" + t.Location)
	out.add("inputformat:" + inputFormatOf(t))
	out.add("outputformat:" + outputFormatOf(t))
	out.add("columns:struct columns { " + columns(t.Columns) + "}")
	out.add("partitioned:" + fmt.Sprint(t.Partitioned))
	if t.Partitioned {
		out.add("partitionColumns:struct partition_columns { " + columns(t.PartitionColumns) + "}")
	} else {
		out.add("partitionColumns:")
	}
	out.add("")
	return nil
}

func (c *compiler) showCreateDatabase(ctx context.Context, s *ast.Show) (Compiled, error) {
	d, err := c.env.Catalog.Database(ctx, strings.ToLower(s.In.Last()))
	if err != nil {
		return nil, analyzer.At(s.In.Pos, err)
	}
	out := texts("createdb_stmt")
	out.add("CREATE DATABASE " + quoteName(d.Name))
	if d.Comment != "" {
		out.add("COMMENT")
		out.add("  " + quoteText(d.Comment))
	}
	if d.Location != "" {
		out.add("LOCATION")
		out.add("  " + quoteText(d.Location))
	}
	if d.ManagedLocation != "" {
		out.add("MANAGEDLOCATION")
		out.add("  " + quoteText(d.ManagedLocation))
	}
	if len(d.Properties) > 0 {
		out.add("WITH DBPROPERTIES (")
		keys := sortedKeys(d.Properties)
		for i, k := range keys {
			end := ","
			if i == len(keys)-1 {
				end = ")"
			}
			out.add("  " + quoteText(k) + "=" + quoteText(d.Properties[k]) + end)
		}
	}
	return out, nil
}

func (c *compiler) showConf(s *ast.Show) (Compiled, error) {
	out := texts("default", "type", "desc")
	value, ok := c.env.Settings[*s.Pattern]
	if !ok {
		return nil, userError(s.Pos, fault.StateSyntax, "", "setting %s has no value in this session", *s.Pattern)
	}
	out.add(value, "STRING", "")
	return out, nil
}

func (c *compiler) showTransactions(ctx context.Context) (Compiled, error) {
	out := texts("txnid", "state", "startedtime", "lastheartbeattime", "user", "host")
	open, err := c.env.Catalog.Open(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range open {
		if x.Outcome.State == storage.Undecided {
			out.add(fmt.Sprint(x.ID), "OPEN", fmt.Sprint(x.Started.UnixMilli()))
		}
	}
	return out, nil
}

// showPartitions lists partitions by name, those that hold the conditions.
func (c *compiler) showPartitions(ctx context.Context, s *ast.Show, t *catalog.Table) (Compiled, error) {
	if len(t.PartitionColumns) == 0 {
		return nil, userError(s.In.Pos, fault.StateSyntax, "", "table %s is not partitioned", t.Name)
	}
	out := texts("partition")
	if t.Kind == catalog.View {
		return out, nil
	}
	parts, err := c.partitions(ctx, t, s.Partition)
	if err != nil {
		return nil, err
	}
	types := make([]schema.Type, len(t.PartitionColumns))
	for i, col := range t.PartitionColumns {
		types[i] = col.Type
	}
	rows := func() [][]schema.Datum {
		rows := make([][]schema.Datum, len(parts))
		for i, p := range parts {
			rows[i] = p.Values
		}
		return rows
	}
	eval := c.evaluator()
	if s.Where != nil {
		cond, err := c.analyzer().Condition(s.Where, t.PartitionColumns, "WHERE")
		if err != nil {
			return nil, err
		}
		match, err := eval.Matches(cond, types, rows())
		if err != nil {
			return nil, analyzer.At(s.Where.Position(), err)
		}
		var kept []*catalog.Partition
		for i, p := range parts {
			if match[i] {
				kept = append(kept, p)
			}
		}
		parts = kept
	}
	type named struct {
		name string
		keys []schema.Datum
	}
	list := make([]named, len(parts))
	for i, p := range parts {
		list[i].name = t.PartitionName(p.Values)
	}
	for _, item := range s.OrderBy {
		e, err := c.analyzer().Expr(item.X, t.PartitionColumns, "ORDER BY")
		if err != nil {
			return nil, err
		}
		keys, err := eval.values(e, types, rows())
		if err != nil {
			return nil, analyzer.At(item.X.Position(), err)
		}
		for i := range list {
			list[i].keys = append(list[i].keys, keys[i])
		}
	}
	slices.SortStableFunc(list, func(a, b named) int {
		for i, item := range s.OrderBy {
			n := compareNullsFirst(a.keys[i], b.keys[i])
			if item.Desc {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return strings.Compare(a.name, b.name)
	})
	for i, p := range list {
		if s.Limit > 0 && i == s.Limit {
			break
		}
		out.add(p.name)
	}
	return out, nil
}

func compareNullsFirst(a, b schema.Datum) int {
	switch {
	case a.Null && b.Null:
		return 0
	case a.Null:
		return -1
	case b.Null:
		return 1
	}
	return schema.Compare(a, b)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (c *compiler) describeDatabase(ctx context.Context, s *ast.DescribeDatabase) (Compiled, error) {
	d, err := c.env.Catalog.Database(ctx, strings.ToLower(s.Name.Name))
	if err != nil {
		return nil, analyzer.At(s.Name.Pos, err)
	}
	out := texts("db_name", "comment", "location", "owner_name", "owner_type", "parameters")
	var params []string
	if s.Extended {
		for _, k := range sortedKeys(d.Properties) {
			params = append(params, k+"="+d.Properties[k])
		}
	}
	ownerType := d.OwnerType
	if ownerType == "" && d.Owner != "" {
		ownerType = "USER"
	}
	out.add(d.Name, d.Comment, d.Location, d.Owner, ownerType, braces(params))
	return out, nil
}

func braces(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (c *compiler) describe(ctx context.Context, s *ast.Describe) (Compiled, error) {
	t, err := c.table(ctx, s.Table)
	if err != nil {
		// DESCRIBE table.column of older scripts.
		if len(s.Table.Parts) > 1 && s.Column == nil && s.Partition == nil {
			if u, err := c.table(ctx, ast.Name{Pos: s.Table.Pos, Parts: s.Table.Parts[:len(s.Table.Parts)-1]}); err == nil {
				column := s.Table.Parts[len(s.Table.Parts)-1]
				return c.describeColumn(s, u, column)
			}
		}
		return nil, err
	}
	var p *catalog.Partition
	if s.Partition != nil {
		if p, err = c.onePartition(ctx, t, s.Table.Pos, s.Partition); err != nil {
			return nil, err
		}
	}
	if s.Column != nil {
		return c.describeColumn(s, t, *s.Column)
	}
	out := texts("col_name", "data_type", "comment")
	columns := t.AllColumns()
	if s.Mode == "formatted" {
		out.add("# col_name", "data_type", "comment")
		columns = t.Columns
	}
	for _, col := range columns {
		out.add(col.Name, col.Type.String(), col.Comment)
	}
	if len(t.PartitionColumns) > 0 {
		out.add("")
		out.add("# Partition Information")
		out.add("# col_name", "data_type", "comment")
		for _, col := range t.PartitionColumns {
			out.add(col.Name, col.Type.String(), col.Comment)
		}
	}
	switch s.Mode {
	case "extended":
		out.add("", "", "")
		if p != nil {
			out.add("Detailed Partition Information", partitionText(t, p), "")
		} else {
			out.add("Detailed Table Information", tableText(t), "")
		}
	case "formatted":
		if p != nil {
			partitionFormatted(t, p, out)
		}
		if err := c.formatted(ctx, t, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// describeColumn shows a column, or what a path leads to below it.
func (c *compiler) describeColumn(s *ast.Describe, t *catalog.Table, column ast.Ident) (Compiled, error) {
	all := t.AllColumns()
	i := all.Index(column.Name)
	if i < 0 {
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnknownCol, Message: "unknown column " + column.Name + " of table " + t.Name,
			Hint: nearest.Hint(column.Name, columnNames(all)), Line: column.Line, Column: column.Pos.Column}
	}
	name, typ, comment := all[i].Name, all[i].Type, all[i].Comment
	for _, part := range s.Path {
		below, ok := partOf(typ, part)
		if !ok {
			return nil, userError(column.Pos, fault.StateUnknownCol, "", "%s is %s: it has no part %s", name, typ, part)
		}
		name, typ, comment = strings.ToLower(part), below, "from deserializer"
	}
	out := texts("col_name", "data_type", "comment")
	if typ.Kind == schema.Struct && s.Path == nil {
		out.add(name, typ.String(), comment)
		return out, nil
	}
	out.add(name, typ.String(), comment)
	return out, nil
}

// partOf is the type of a part of a nested type: $elem$, $key$, $value$ or a field.
func partOf(t schema.Type, part string) (schema.Type, bool) {
	switch {
	case t.Kind == schema.Array && part == "$elem$":
		return t.Nested.Fields[0].Type, true
	case t.Kind == schema.Map && part == "$key$":
		return t.Nested.Fields[0].Type, true
	case t.Kind == schema.Map && part == "$value$":
		return t.Nested.Fields[1].Type, true
	case t.Kind == schema.Struct:
		for _, f := range t.Nested.Fields {
			if strings.EqualFold(f.Name, part) {
				return f.Type, true
			}
		}
	}
	return schema.Type{}, false
}

func partitionText(t *catalog.Table, p *catalog.Partition) string {
	var values []string
	for _, v := range p.Values {
		values = append(values, catalog.PartitionText(v))
	}
	return fmt.Sprintf("Partition(values:[%s], dbName:%s, tableName:%s, createTime:%d, parameters:{%s})", strings.Join(values, ", "), t.Database, t.TableName,
		p.Created.Unix(), strings.Join(pairs(p.Properties), ", "))
}

func pairs(m map[string]string) []string {
	var out []string
	for _, k := range sortedKeys(m) {
		out = append(out, k+"="+m[k])
	}
	return out
}

func partitionFormatted(t *catalog.Table, p *catalog.Partition, out *Rows) {
	var values []string
	for _, v := range p.Values {
		values = append(values, catalog.PartitionText(v))
	}
	out.add("")
	out.add("# Detailed Partition Information")
	out.add("Partition Value:", "["+strings.Join(values, ", ")+"]")
	out.add("Database:", t.Database)
	out.add("Table:", t.TableName)
	out.add("CreateTime:", p.Created.UTC().Format(hiveTime))
	if p.Location != "" {
		out.add("Location:", p.Location)
	}
	if len(p.Properties) > 0 {
		out.add("Partition Parameters:")
		for _, k := range sortedKeys(p.Properties) {
			out.add("", k, p.Properties[k])
		}
	}
}

// hiveTime is how Hive writes times in DESCRIBE.
const hiveTime = "Mon Jan 02 15:04:05 MST 2006"

func (c *compiler) describeFunction(s *ast.DescribeFunction) (Compiled, error) {
	out := texts("tab_name")
	name := strings.ToLower(s.Name.Name)
	if !slices.Contains(c.env.Functions.Names(), name) {
		out.add("Function '" + s.Name.Name + "' does not exist.")
		return out, nil
	}
	out.add("Function '" + name + "' is built in; docs/functions.md describes it")
	return out, nil
}

// tableText is a table's definition in one line, for DESCRIBE EXTENDED.
func tableText(t *catalog.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Table(tableName:%s, dbName:%s, owner:%s, createTime:%d, rowKey:[%s]", t.TableName, t.Database, t.Owner, t.Created.Unix(), keyText(t))
	if len(t.Properties) > 0 {
		var params []string
		for _, k := range sortedKeys(t.Properties) {
			params = append(params, k+"="+t.Properties[k])
		}
		fmt.Fprintf(&b, ", parameters:%s", braces(params))
	}
	if t.Kind == catalog.View {
		fmt.Fprintf(&b, ", viewOriginalText:%s, viewDatabase:%s", t.ViewText, t.ViewDatabase)
	}
	fmt.Fprintf(&b, ", tableType:%s)", tableType(t))
	return b.String()
}

// keyText is the row key as ROW KEY lists it.
func keyText(t *catalog.Table) string {
	var parts []string
	for i, c := range t.KeyColumns() {
		name := quoteName(c.Name)
		if t.Key[i].Desc {
			name += " DESC"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

// formatted adds the sections of DESCRIBE FORMATTED, laid out as Hive's.
func (c *compiler) formatted(ctx context.Context, t *catalog.Table, out *Rows) error {
	section := func(title string) {
		out.add("")
		out.add(title)
	}
	section("# Detailed Table Information")
	out.add("Database:", t.Database)
	out.add("Owner:", t.Owner)
	out.add("CreateTime:", t.Created.UTC().Format(hiveTime))
	out.add("Table Type:", tableType(t))
	if t.Comment != "" {
		out.add("Comment:", t.Comment)
	}
	if len(t.Properties) > 0 {
		out.add("Table Parameters:")
		for _, k := range sortedKeys(t.Properties) {
			out.add("", k, t.Properties[k])
		}
	}
	if t.Kind == catalog.View {
		section("# View Information")
		out.add("Original Query:", t.ViewText)
		out.add("Database of its names:", t.ViewDatabase)
		return nil
	}
	section("# Storage Information")
	out.add("SerDe Library:", serdeOf(t))
	out.add("InputFormat:", inputFormatOf(t))
	out.add("OutputFormat:", outputFormatOf(t))
	out.add("Compressed:", "No")
	out.add("Num Buckets:", fmt.Sprint(bucketCount(t)))
	out.add("Bucket Columns:", "["+strings.Join(t.Buckets.Columns, ", ")+"]")
	var sorted []string
	for _, k := range t.Buckets.Sorted {
		order := 1
		if k.Desc {
			order = 0
		}
		sorted = append(sorted, fmt.Sprintf("Order(col:%s, order:%d)", k.Name, order))
	}
	out.add("Sort Columns:", "["+strings.Join(sorted, ", ")+"]")
	if t.StoredAs != "" {
		out.add("Stored As:", strings.ToUpper(t.StoredAs)+" (a hint: rows are kept in regions)")
	}
	if t.Location != "" {
		out.add("Location:", t.Location)
	}
	if t.Keyed() {
		out.add("Row Key:", keyText(t))
	} else {
		out.add("Row Key:", "none (rows are appended)")
	}
	if c.env.Stats != nil {
		regions, err := c.env.Stats.Regions(ctx, &t.Table)
		if err != nil {
			return err
		}
		var sum storage.RegionStats
		for _, r := range regions {
			sum.Rows += r.Rows
			sum.Bytes += r.Bytes
			sum.DeltaBytes += r.DeltaBytes
		}
		out.add("Num Regions:", fmt.Sprint(len(regions)))
		out.add("Num Rows:", fmt.Sprint(sum.Rows))
		out.add("Total Size:", fmt.Sprint(sum.Bytes+sum.DeltaBytes))
	}
	if len(t.Skew.Columns) > 0 {
		out.add("Skewed Columns:", "["+strings.Join(t.Skew.Columns, ", ")+"]")
		var values []string
		for _, v := range t.Skew.Values {
			values = append(values, "["+strings.Join(v, ", ")+"]")
		}
		out.add("Skewed Values:", "["+strings.Join(values, ", ")+"]")
	}
	if len(t.Constraints) > 0 {
		section("# Constraints")
		for _, k := range t.Constraints {
			text := strings.Join(k.Columns, ", ")
			switch k.Kind {
			case catalog.ForeignKey:
				text += " -> " + k.RefTable + " (" + strings.Join(k.RefColumns, ", ") + ")"
			case catalog.Default, catalog.Check:
				text = strings.TrimSpace(text + " " + k.Text)
			}
			out.add(strings.ToUpper(string(k.Kind))+":", text, k.Name)
		}
	}
	return nil
}

// bucketCount is as Hive counts: -1 is none.
func bucketCount(t *catalog.Table) int {
	if t.Buckets.N == 0 {
		return -1
	}
	return t.Buckets.N
}

// serdeOf, inputFormatOf and outputFormatOf are the classes that Hive would use.
func serdeOf(t *catalog.Table) string {
	if t.Serde != "" {
		return t.Serde
	}
	return formatClasses(t)[0]
}

func inputFormatOf(t *catalog.Table) string { return formatClasses(t)[1] }

func outputFormatOf(t *catalog.Table) string { return formatClasses(t)[2] }

func formatClasses(t *catalog.Table) [3]string {
	const hive = "org.apache.hadoop.hive."
	switch strings.ToLower(t.StoredAs) {
	case "orc", "orcfile":
		return [3]string{hive + "ql.io.orc.OrcSerde", hive + "ql.io.orc.OrcInputFormat", hive + "ql.io.orc.OrcOutputFormat"}
	case "parquet", "parquetfile":
		return [3]string{hive + "ql.io.parquet.serde.ParquetHiveSerDe", hive + "ql.io.parquet.MapredParquetInputFormat", hive + "ql.io.parquet.MapredParquetOutputFormat"}
	case "rcfile":
		return [3]string{hive + "serde2.columnar.LazyBinaryColumnarSerDe", hive + "ql.io.RCFileInputFormat", hive + "ql.io.RCFileOutputFormat"}
	case "sequencefile":
		return [3]string{hive + "serde2.lazy.LazySimpleSerDe", "org.apache.hadoop.mapred.SequenceFileInputFormat", hive + "ql.io.HiveSequenceFileOutputFormat"}
	case "avro", "avrofile":
		return [3]string{hive + "serde2.avro.AvroSerDe", hive + "ql.io.avro.AvroContainerInputFormat", hive + "ql.io.avro.AvroContainerOutputFormat"}
	case "jsonfile":
		return [3]string{hive + "serde2.JsonSerDe", "org.apache.hadoop.mapred.TextInputFormat", hive + "ql.io.HiveIgnoreKeyTextOutputFormat"}
	}
	return [3]string{hive + "serde2.lazy.LazySimpleSerDe", "org.apache.hadoop.mapred.TextInputFormat", hive + "ql.io.HiveIgnoreKeyTextOutputFormat"}
}

// quoteName writes a name so that the parser reads it back.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// quoteText writes a string literal.
func quoteText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\x00", `\0`, "\x01", `\001`).Replace(s) + "'"
}

// createLines is the statement that creates a table, line by line.
func createLines(t *catalog.Table) []string {
	if t.Kind == catalog.View {
		return viewLines(t)
	}
	kind := ""
	switch {
	case t.Temporary:
		kind = "TEMPORARY "
	case tableType(t) == "EXTERNAL_TABLE":
		kind = "EXTERNAL "
	}
	lines := append([]string{"CREATE " + kind + "TABLE " + quoteName(t.Database) + "." + quoteName(t.TableName) + " ("}, columnLines(t, t.Columns)...)
	if t.Comment != "" {
		lines = append(lines, "COMMENT "+quoteText(t.Comment))
	}
	if len(t.PartitionColumns) > 0 {
		lines = append(append(lines, "PARTITIONED BY ("), columnLines(t, t.PartitionColumns)...)
	}
	if t.Buckets.N > 0 {
		lines = append(lines, "CLUSTERED BY ("+quoteNames(t.Buckets.Columns)+")")
		var sorted []string
		for _, k := range t.Buckets.Sorted {
			sorted = append(sorted, quoteName(k.Name)+map[bool]string{true: " DESC", false: " ASC"}[k.Desc])
		}
		if sorted != nil {
			lines = append(lines, "SORTED BY ("+strings.Join(sorted, ", ")+")")
		}
		lines = append(lines, fmt.Sprintf("INTO %d BUCKETS", t.Buckets.N))
	}
	if len(t.Skew.Columns) > 0 {
		var values []string
		for _, v := range t.Skew.Values {
			quoted := make([]string, len(v))
			for i, x := range v {
				quoted[i] = quoteText(x)
			}
			values = append(values, "("+strings.Join(quoted, ", ")+")")
		}
		lines = append(lines, "SKEWED BY ("+quoteNames(t.Skew.Columns)+") ON ("+strings.Join(values, ", ")+")")
		if t.Skew.StoredAsDirectories {
			lines = append(lines, "STORED AS DIRECTORIES")
		}
	}
	if t.Keyed() {
		lines = append(lines, "ROW KEY ("+keyText(t)+")")
	}
	if t.WantRegions > 1 {
		lines = append(lines, fmt.Sprintf("SPLIT INTO %d", t.WantRegions))
	}
	lines = append(lines, formatLines(t)...)
	if t.StoredAs != "" {
		lines = append(lines, "STORED AS "+t.StoredAs)
	}
	if t.Location != "" {
		lines = append(lines, "LOCATION", "  "+quoteText(t.Location))
	}
	var props []string
	for _, k := range sortedKeys(t.Properties) {
		if t.RowFormat.CSV && k == propertyQuote || k == propertyExternal {
			continue
		}
		props = append(props, "  "+quoteText(k)+"="+quoteText(t.Properties[k]))
	}
	for i, p := range props {
		end := ","
		if i == len(props)-1 {
			end = ")"
		}
		if i == 0 {
			lines = append(lines, "TBLPROPERTIES (")
		}
		lines = append(lines, p+end)
	}
	return lines
}

func quoteNames(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quoteName(n)
	}
	return strings.Join(quoted, ", ")
}

// columnLines are the lines of columns between parentheses, the closing one included.
func columnLines(t *catalog.Table, columns schema.Columns) []string {
	var lines []string
	for i, c := range columns {
		line := "  " + quoteName(c.Name) + " " + c.Type.String()
		if c.NotNull {
			line += " NOT NULL"
		}
		for _, k := range t.Constraints {
			if k.Kind == catalog.Default && k.Columns[0] == c.Name {
				line += " DEFAULT " + k.Text
			}
		}
		if c.Comment != "" {
			line += " COMMENT " + quoteText(c.Comment)
		}
		if i < len(columns)-1 {
			line += ","
		} else {
			line += ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func viewLines(t *catalog.Table) []string {
	names := columnNames(t.AllColumns())
	lines := []string{"CREATE VIEW " + quoteName(t.Database) + "." + quoteName(t.TableName) + " (" + quoteNames(names) + ")"}
	if t.Comment != "" {
		lines = append(lines, "COMMENT "+quoteText(t.Comment))
	}
	if len(t.PartitionColumns) > 0 {
		lines = append(lines, "PARTITIONED ON ("+quoteNames(columnNames(t.PartitionColumns))+")")
	}
	return append(lines, "AS "+t.ViewText)
}

func formatLines(t *catalog.Table) []string {
	f := t.RowFormat
	if f.CSV {
		props := []string{"'separatorChar'=" + quoteText(f.FieldDelimiter)}
		if q := t.Properties[propertyQuote]; q != "" {
			props = append(props, "'quoteChar'="+quoteText(q))
		}
		if f.Escape != "" {
			props = append(props, "'escapeChar'="+quoteText(f.Escape))
		}
		return []string{"ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'", "WITH SERDEPROPERTIES (" + strings.Join(props, ", ") + ")"}
	}
	if f == (catalog.RowFormat{}) {
		return nil
	}
	lines := []string{"ROW FORMAT DELIMITED"}
	add := func(what, text string) {
		if text != "" {
			lines = append(lines, "  "+what+" "+quoteText(text))
		}
	}
	fields := f.FieldDelimiter
	if fields == "" && f.Escape != "" {
		fields = "\x01" // ESCAPED BY needs FIELDS before it
	}
	add("FIELDS TERMINATED BY", fields)
	add("ESCAPED BY", f.Escape)
	add("COLLECTION ITEMS TERMINATED BY", f.CollectionDelim)
	add("MAP KEYS TERMINATED BY", f.MapKeyDelim)
	add("LINES TERMINATED BY", f.LineDelimiter)
	add("NULL DEFINED AS", f.NullText)
	return lines
}
