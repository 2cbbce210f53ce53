package ast

import "strings"

func exists(b bool, words string) string {
	if b {
		return words + " "
	}
	return ""
}

// statement prints the statements whose meaning is in their tree: queries and
// what writes their rows. Others are their source.
func (p *printer) statement(s Statement) {
	switch s := s.(type) {
	case *QueryStatement:
		p.query(s.Query)
	case *Insert:
		p.insert(s)
	case *MultiInsert:
		p.put(s.Text)
	case *Explain:
		p.put("EXPLAIN ", exists(s.Mode != "", strings.ToUpper(s.Mode)))
		p.statement(s.Statement)
	default:
		p.put(s.Source())
	}
}

func (p *printer) insert(s *Insert) {
	p.put("INSERT ", map[bool]string{true: "OVERWRITE", false: "INTO"}[s.Overwrite], " ")
	if d := s.Directory; d != nil {
		p.put(exists(d.Local, "LOCAL"), "DIRECTORY ", quoteString(d.Path))
		if d.RowFormat != nil {
			p.rowFormat(d.RowFormat)
		}
		if d.StoredAs != "" {
			p.put(" STORED AS ", quoteIdent(d.StoredAs))
		}
	} else {
		p.put("TABLE ")
		p.name(s.Table)
	}
	for i, v := range s.Partition {
		p.put(map[bool]string{true: " PARTITION (", false: ", "}[i == 0], quoteIdent(v.Name.Name))
		if v.X != nil {
			p.put(" ", v.Op, " ")
			p.expr(v.X)
		}
	}
	if len(s.Partition) > 0 {
		p.put(")")
	}
	p.put(exists(s.IfNotExists, " IF NOT EXISTS"))
	if s.Columns != nil {
		p.put(" (")
		p.idents(s.Columns)
		p.put(")")
	}
	p.put(" ")
	p.query(s.Query)
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
