package sql

import (
	"context"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/storage"
)

// Table properties, named as Hive names them, in which a table keeps what its
// ROW FORMAT says and catalog.RowFormat has no field for.
const (
	propertyQuote = "quoteChar"
	propertyNull  = "serialization.null.format"
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

func (c *compiler) createTable(s *ast.CreateTable) (Compiled, error) {
	database, name, err := c.analyzer().Qualify(s.Table)
	if err != nil {
		return nil, err
	}
	t := catalog.Table{Database: database, TableName: name, Comment: s.Comment, Properties: properties(s.Properties),
		StoredAs: s.StoredAs, WantRegions: s.SplitInto}
	names := map[string]bool{}
	for i, col := range s.Columns {
		column := schema.Column{ID: schema.ColumnID(i + 1), Name: strings.ToLower(col.Name.Name), Type: col.Type.Type, NotNull: col.NotNull, Comment: col.Comment}
		if names[column.Name] {
			return nil, failAt(col.Pos, "column %s is given twice", column.Name)
		}
		names[column.Name] = true
		if !column.Type.IsPrimitive() {
			return nil, unsupportedAt(col.Type.Pos, "columns of type "+column.Type.String())
		}
		t.Columns = append(t.Columns, column)
	}
	if len(t.Columns) == 0 {
		return nil, failAt(s.Table.Pos, "a table needs a column")
	}
	for _, id := range s.Informal {
		if t.Columns.Index(id.Name) < 0 {
			return nil, c.noKeyColumn(id.Pos, id.Name, t.Columns)
		}
	}
	inKey := map[int]bool{}
	for _, k := range s.Key {
		i := t.Columns.Index(k.Name)
		switch {
		case i < 0:
			return nil, c.noKeyColumn(k.Pos, k.Name, t.Columns)
		case inKey[i]:
			return nil, failAt(k.Pos, "column %s is twice in the row key", t.Columns[i].Name)
		}
		inKey[i] = true
		t.Key = append(t.Key, storage.KeyColumn{Column: t.Columns[i].ID, Desc: k.Desc})
	}
	if s.RowFormat != nil {
		if err := rowFormat(s.RowFormat, &t); err != nil {
			return nil, err
		}
	}
	t.Name = database + "." + name
	return &CreateTable{Table: t, IfNotExists: s.IfNotExists}, nil
}

func (c *compiler) noKeyColumn(pos ast.Pos, name string, columns schema.Columns) error {
	names := make([]string, len(columns))
	for i, col := range columns {
		names[i] = col.Name
	}
	return &fault.Error{Class: fault.User, SQLState: fault.StateUnknownCol, Message: "the key names column " + name + ", which the table does not have",
		Hint: nearest.Hint(name, names), Line: pos.Line, Column: pos.Column}
}

// rowFormat translates ROW FORMAT.
func rowFormat(f *ast.RowFormat, t *catalog.Table) error {
	r := &t.RowFormat
	one := func(what, text string) (string, error) {
		if text == "" {
			return "", nil
		}
		// A number is a character code, as in Hive: '9' is a tab, '001' is ^A.
		if n, ok := code(text); ok {
			return string([]byte{n}), nil
		}
		if len(text) != 1 {
			return "", failAt(f.Pos, "%s '%s': want one byte, or its code such as '9'", what, text)
		}
		return text, nil
	}
	if f.Serde != "" {
		return serde(f, t, one)
	}
	var err error
	for _, d := range []struct {
		what string
		from string
		to   *string
	}{{"FIELDS TERMINATED BY", f.Fields, &r.FieldDelimiter}, {"ESCAPED BY", f.Escape, &r.Escape},
		{"COLLECTION ITEMS TERMINATED BY", f.Collection, &r.CollectionDelim}, {"MAP KEYS TERMINATED BY", f.MapKeys, &r.MapKeyDelim},
		{"LINES TERMINATED BY", f.Lines, &r.LineDelimiter}} {
		if *d.to, err = one(d.what, d.from); err != nil {
			return err
		}
	}
	if r.LineDelimiter != "" && r.LineDelimiter != "\n" {
		return failAt(f.Pos, "LINES TERMINATED BY only takes '\\n'")
	}
	if f.Null != nil {
		if r.NullText = *f.Null; *f.Null == "" {
			setProperty(t, propertyNull, "")
		}
	}
	return nil
}

// code reads a delimiter given as the decimal number of its byte.
func code(text string) (byte, bool) {
	if len(text) < 1 || len(text) > 3 || len(text) == 1 && text != "9" && text != "1" && text != "2" && text != "3" {
		return 0, false
	}
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return byte(n), n < 128
}

func setProperty(t *catalog.Table, key, value string) {
	if t.Properties == nil {
		t.Properties = map[string]string{}
	}
	t.Properties[key] = value
}

// serde accepts the two SerDes that are ways to write ROW FORMAT DELIMITED and
// CSV.
func serde(f *ast.RowFormat, t *catalog.Table, one func(what, text string) (string, error)) error {
	r := &t.RowFormat
	var err error
	switch name := f.Serde[strings.LastIndexByte(f.Serde, '.')+1:]; strings.ToLower(name) {
	case "opencsvserde":
		r.CSV, r.FieldDelimiter = true, ","
		for _, p := range f.SerdeProperties {
			switch strings.ToLower(p.Key) {
			case "separatorchar":
				r.FieldDelimiter, err = one(p.Key, p.Value)
			case "quotechar":
				var q string
				if q, err = one(p.Key, p.Value); q != "" && q != `"` {
					setProperty(t, propertyQuote, q)
				}
			case "escapechar":
				r.Escape, err = one(p.Key, p.Value)
			default:
				return failAt(p.Pos, "OpenCSVSerde has no property %s: it has separatorChar, quoteChar and escapeChar", p.Key)
			}
			if err != nil {
				return err
			}
		}
		return nil
	case "lazysimpleserde":
		for _, p := range f.SerdeProperties {
			switch strings.ToLower(p.Key) {
			case "field.delim", "serialization.format":
				r.FieldDelimiter, err = one(p.Key, p.Value)
			case "escape.delim":
				r.Escape, err = one(p.Key, p.Value)
			case "serialization.null.format":
				if r.NullText = p.Value; p.Value == "" {
					setProperty(t, propertyNull, "")
				}
			case "collection.delim", "colelction.delim":
				r.CollectionDelim, err = one(p.Key, p.Value)
			case "mapkey.delim":
				r.MapKeyDelim, err = one(p.Key, p.Value)
			case "line.delim":
			default:
				return unsupportedAt(p.Pos, "the SerDe property "+p.Key)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return unsupportedAt(f.Pos, "ROW FORMAT SERDE '"+f.Serde+"' (LazySimpleSerDe and OpenCSVSerde are)")
}

func (c *compiler) dropTable(ctx context.Context, s *ast.DropTable) (Compiled, error) {
	t, err := c.table(ctx, s.Table)
	if err != nil {
		if s.IfExists && fault.StateOf(err) == fault.StateUnknownTable {
			return &DropTable{}, nil
		}
		return nil, err
	}
	return &DropTable{Table: t}, nil
}
