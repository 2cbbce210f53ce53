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
	case "tables":
		return c.showTables(ctx, s, match)
	case "functions":
		out := texts("tab_name")
		for _, n := range c.env.Functions.Names() {
			if match(n) {
				out.add(n)
			}
		}
		return out, nil
	}
	t, err := c.table(ctx, s.In)
	if err != nil {
		return nil, err
	}
	switch s.What {
	case "columns":
		out := texts("field")
		for _, col := range t.Columns {
			if match(col.Name) {
				out.add(col.Name)
			}
		}
		return out, nil
	case "create table":
		out := texts("createtab_stmt")
		for _, line := range createLines(t) {
			out.add(line)
		}
		return out, nil
	case "tblproperties":
		out := texts("prpt_name", "prpt_value")
		for _, key := range sortedKeys(t.Properties) {
			if s.Pattern == nil || key == *s.Pattern {
				out.add(key, t.Properties[key])
			}
		}
		return out, nil
	}
	return nil, fault.Bugf("sql: SHOW %s", s.What)
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
	for _, t := range tables {
		if match(t.TableName) {
			out.add(t.TableName)
		}
	}
	return out, nil
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
	out.add(d.Name, d.Comment, "", "", "", braces(params))
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
		return nil, err
	}
	out := texts("col_name", "data_type", "comment")
	if s.Column != nil {
		i := t.Columns.Index(s.Column.Name)
		if i < 0 {
			var names []string
			for _, col := range t.Columns {
				names = append(names, col.Name)
			}
			return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnknownCol, Message: "unknown column " + s.Column.Name + " of table " + t.Name,
				Hint: nearest.Hint(s.Column.Name, names), Line: s.Column.Line, Column: s.Column.Pos.Column}
		}
		out.add(t.Columns[i].Name, t.Columns[i].Type.String(), t.Columns[i].Comment)
		return out, nil
	}
	if s.Mode == "formatted" {
		out.add("# col_name", "data_type", "comment")
	}
	for _, col := range t.Columns {
		out.add(col.Name, col.Type.String(), col.Comment)
	}
	switch s.Mode {
	case "extended":
		out.add("", "", "")
		out.add("Detailed Table Information", tableText(t), "")
	case "formatted":
		if err := c.formatted(ctx, t, out); err != nil {
			return nil, err
		}
	}
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
	b.WriteString(", tableType:MANAGED_TABLE)")
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
	out.add("CreateTime:", t.Created.UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
	out.add("Table Type:", "MANAGED_TABLE")
	if t.Comment != "" {
		out.add("Comment:", t.Comment)
	}
	if len(t.Properties) > 0 {
		out.add("Table Parameters:")
		for _, k := range sortedKeys(t.Properties) {
			out.add("", k, t.Properties[k])
		}
	}
	section("# Storage Information")
	if t.StoredAs != "" {
		out.add("Stored As:", strings.ToUpper(t.StoredAs)+" (a hint: rows are kept in regions)")
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
	var notNull []string
	for _, col := range t.Columns {
		if col.NotNull {
			notNull = append(notNull, col.Name)
		}
	}
	if notNull != nil {
		section("# Constraints")
		out.add("Not Null Constraints:", strings.Join(notNull, ", "))
	}
	return nil
}

// quoteName writes a name so that the parser reads it back.
func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// quoteText writes a string literal.
func quoteText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\x00", `\0`, "\x01", `\001`).Replace(s) + "'"
}

// createLines is the statement that creates a table, line by line.
func createLines(t *catalog.Table) []string {
	lines := []string{"CREATE TABLE " + quoteName(t.Database) + "." + quoteName(t.TableName) + " ("}
	for i, c := range t.Columns {
		line := "  " + quoteName(c.Name) + " " + c.Type.String()
		if c.NotNull {
			line += " NOT NULL"
		}
		if c.Comment != "" {
			line += " COMMENT " + quoteText(c.Comment)
		}
		if i < len(t.Columns)-1 {
			line += ","
		} else {
			line += ")"
		}
		lines = append(lines, line)
	}
	if t.Comment != "" {
		lines = append(lines, "COMMENT "+quoteText(t.Comment))
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
	var props []string
	for _, k := range sortedKeys(t.Properties) {
		if t.RowFormat.CSV && k == propertyQuote {
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
