package ast

import (
	"fmt"
	"strings"
)

func exists(b bool, words string) string {
	if b {
		return words + " "
	}
	return ""
}

func (p *printer) statement(s Statement) {
	switch s := s.(type) {
	case *QueryStatement:
		p.query(s.Query)
	case *Insert:
		p.put("INSERT ", map[bool]string{true: "OVERWRITE", false: "INTO"}[s.Overwrite], " TABLE ")
		p.name(s.Table)
		if s.Columns != nil {
			p.put(" (")
			p.idents(s.Columns)
			p.put(")")
		}
		p.put(" ")
		p.query(s.Query)
	case *Load:
		p.put("LOAD DATA ", exists(s.Local, "LOCAL"), "INPATH ", quoteString(s.Path), " ", exists(s.Overwrite, "OVERWRITE"), "INTO TABLE ")
		p.name(s.Table)
	case *Explain:
		p.put("EXPLAIN ", exists(s.Mode != "", strings.ToUpper(s.Mode)))
		p.statement(s.Statement)
	case *Set:
		p.put("SET ", s.Key)
		if !s.Show {
			p.put("=", s.Value)
		}
	case *Use:
		p.put("USE ", quoteIdent(s.Database.Name))
	case *CreateTable:
		p.createTable(s)
	case *CreateDatabase:
		p.put("CREATE DATABASE ", exists(s.IfNotExists, "IF NOT EXISTS"), quoteIdent(s.Name.Name))
		if s.Comment != "" {
			p.put(" COMMENT ", quoteString(s.Comment))
		}
		p.properties(" WITH DBPROPERTIES ", s.Properties)
	case *DropTable:
		p.put("DROP TABLE ", exists(s.IfExists, "IF EXISTS"))
		p.name(s.Table)
	case *DropDatabase:
		p.put("DROP DATABASE ", exists(s.IfExists, "IF EXISTS"), quoteIdent(s.Name.Name), map[bool]string{true: " CASCADE", false: ""}[s.Cascade])
	case *Describe:
		p.put("DESCRIBE ", exists(s.Mode != "", strings.ToUpper(s.Mode)))
		p.name(s.Table)
		if s.Column != nil {
			p.put(" ", quoteIdent(s.Column.Name))
		}
	case *DescribeDatabase:
		p.put("DESCRIBE DATABASE ", exists(s.Extended, "EXTENDED"), quoteIdent(s.Name.Name))
	case *Show:
		p.show(s)
	case *Unsupported:
		p.put(s.Text)
	}
}

func (p *printer) show(s *Show) {
	p.put("SHOW ", strings.ToUpper(s.What))
	switch {
	case s.What == "create table" || s.What == "tblproperties":
		p.put(" ")
		p.name(s.In)
	case s.In.Parts != nil:
		p.put(" IN ")
		p.name(s.In)
	}
	switch {
	case s.Pattern == nil:
	case s.What == "tblproperties":
		p.put(" (", quoteString(*s.Pattern), ")")
	default:
		p.put(" LIKE ", quoteString(*s.Pattern))
	}
}

func (p *printer) properties(before string, props []Property) {
	for i, prop := range props {
		if i == 0 {
			p.put(before, "(")
		} else {
			p.put(", ")
		}
		p.put(quoteString(prop.Key), " = ", quoteString(prop.Value))
	}
	if props != nil {
		p.put(")")
	}
}

func (p *printer) createTable(s *CreateTable) {
	p.put("CREATE TABLE ", exists(s.IfNotExists, "IF NOT EXISTS"))
	p.name(s.Table)
	p.put(" (")
	for i, c := range s.Columns {
		if i > 0 {
			p.put(", ")
		}
		p.put(quoteIdent(c.Name.Name), " ", typeText(c.Type.Type))
		if c.NotNull {
			p.put(" NOT NULL")
		}
		if c.Comment != "" {
			p.put(" COMMENT ", quoteString(c.Comment))
		}
	}
	if s.Informal != nil {
		p.put(", PRIMARY KEY (")
		p.idents(s.Informal)
		p.put(") DISABLE NOVALIDATE")
	}
	p.put(")")
	if s.Comment != "" {
		p.put(" COMMENT ", quoteString(s.Comment))
	}
	for i, k := range s.Key {
		p.put(map[bool]string{true: " ROW KEY (", false: ", "}[i == 0], quoteIdent(k.Name), map[bool]string{true: " DESC", false: ""}[k.Desc])
	}
	if s.Key != nil {
		p.put(")")
	}
	if s.SplitInto > 0 {
		p.put(fmt.Sprintf(" SPLIT INTO %d", s.SplitInto))
	}
	if s.RowFormat != nil {
		p.rowFormat(s.RowFormat)
	}
	if s.StoredAs != "" {
		p.put(" STORED AS ", quoteIdent(s.StoredAs))
	}
	p.properties(" TBLPROPERTIES ", s.Properties)
}

func (p *printer) rowFormat(f *RowFormat) {
	if f.Serde != "" {
		p.put(" ROW FORMAT SERDE ", quoteString(f.Serde))
		p.properties(" WITH SERDEPROPERTIES ", f.SerdeProperties)
		return
	}
	p.put(" ROW FORMAT DELIMITED")
	for _, d := range []struct{ words, text string }{{"FIELDS TERMINATED BY", f.Fields}, {"ESCAPED BY", f.Escape},
		{"COLLECTION ITEMS TERMINATED BY", f.Collection}, {"MAP KEYS TERMINATED BY", f.MapKeys}, {"LINES TERMINATED BY", f.Lines}} {
		if d.text != "" {
			p.put(" ", d.words, " ", quoteString(d.text))
		}
	}
	if f.Null != nil {
		p.put(" NULL DEFINED AS ", quoteString(*f.Null))
	}
}
