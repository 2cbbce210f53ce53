package parser

import (
	"strings"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
)

func stringDatum(s string) schema.Datum { return schema.Datum{Type: schema.StringType, S: s} }

func (p *parser) describe(stmt ast.Stmt) ast.Statement {
	p.next()
	switch t := p.peek(); {
	case p.accept("DATABASE"), p.accept("SCHEMA"):
		ext := p.accept("EXTENDED")
		return &ast.DescribeDatabase{Stmt: stmt, Extended: ext, Name: p.databaseName()}
	case p.accept("FUNCTION"):
		return p.describeFunction(stmt)
	case t.is("DATACONNECTOR"):
		p.unsupported(t.pos, "data connectors")
	}
	s := &ast.Describe{Stmt: stmt}
	switch {
	case p.accept("EXTENDED"):
		s.Mode = "extended"
	case p.at("FORMATTED") && (isName(p.peekAt(1)) || p.peekAt(1).is("TABLE")):
		p.next()
		s.Mode = "formatted"
	}
	p.accept("TABLE")
	s.Table = p.name("a table name")
	s.Partition = p.partitionClause(specMixed)
	if t := p.peek(); t.kind != tokEOF && s.Partition == nil {
		column := p.ident("a column name")
		s.Column = &column
		for p.accept(".") {
			// $elem$, $key$ and $value$ are lexed as one word or three tokens.
			s.Path = append(s.Path, p.pathPart())
		}
		s.Partition = p.partitionClause(specMixed)
	}
	return s
}

// pathPart reads a field's name or $elem$, $key$, $value$.
func (p *parser) pathPart() string {
	if p.accept("$") {
		name := "$" + p.ident("elem, key or value").Name
		p.accept("$")
		return name + "$"
	}
	return p.ident("a field name").Name
}

func (p *parser) describeFunction(stmt ast.Stmt) ast.Statement {
	s := &ast.DescribeFunction{Stmt: stmt, Extended: p.accept("EXTENDED")}
	t := p.peek()
	s.Name.Pos = t.pos
	switch t.kind {
	case tokEOF, tokNumber, tokBad:
		p.unexpected("the name of a function")
		return s
	}
	// Operators, keywords and names in quotes are functions too.
	s.Name.Name = strings.ToLower(p.next().text)
	for p.err == nil && p.accept(".") {
		s.Name.Name += "." + strings.ToLower(p.ident("the name of a function").Name)
	}
	if t.kind == tokOp {
		for p.peek().kind == tokOp && p.peek().pos.Offset == t.pos.Offset+len(s.Name.Name) {
			s.Name.Name += p.next().text
		}
	}
	return s
}

// show returns nil, without an error, for kinds of SHOW it does not know.
func (p *parser) show(stmt ast.Stmt) ast.Statement {
	s := &ast.Show{Stmt: stmt}
	in := func(what string, must bool) {
		if p.accept("FROM") || p.accept("IN") {
			s.In = p.name(what)
		} else if must {
			p.unexpected("FROM or IN")
		}
	}
	pattern := func() {
		if p.accept("LIKE") || p.peek().kind == tokString {
			text := p.str("a pattern in quotes")
			s.Pattern = &text
		}
	}
	switch {
	case p.accept("SHOW", "DATABASES"), p.accept("SHOW", "SCHEMAS"):
		s.What = "databases"
		pattern()
	case p.accept("SHOW", "TABLES"), p.accept("SHOW", "EXTENDED", "TABLES"):
		s.What = "tables"
		s.Extended = p.toks[1].is("EXTENDED")
		in("a database name", false)
		p.tableFilter(s, pattern)
	case p.accept("SHOW", "VIEWS"):
		s.What = "views"
		in("a database name", false)
		pattern()
	case p.accept("SHOW", "MATERIALIZED", "VIEWS"):
		s.What = "materialized views"
		in("a database name", false)
		pattern()
	case p.accept("SHOW", "COLUMNS"), p.accept("SHOW", "SORTED", "COLUMNS"):
		s.What = "columns"
		s.Sorted = p.toks[1].is("SORTED")
		in("a table name", true)
		if len(s.In.Parts) == 1 && (p.accept("FROM") || p.accept("IN")) {
			s.In.Parts = append([]ast.Ident{p.databaseName()}, s.In.Parts...)
		}
		pattern()
	case p.accept("SHOW", "CREATE", "TABLE"):
		s.What = "create table"
		s.In = p.name("a table name")
	case p.accept("SHOW", "CREATE", "DATABASE"), p.accept("SHOW", "CREATE", "SCHEMA"):
		s.What = "create database"
		s.In = ast.Name{Pos: p.peek().pos, Parts: []ast.Ident{p.databaseName()}}
	case p.accept("SHOW", "TBLPROPERTIES"):
		s.What = "tblproperties"
		s.In = p.name("a table name")
		if p.accept("(") {
			text := p.str("a property name in quotes")
			s.Pattern = &text
			p.expect(")")
		}
	case p.accept("SHOW", "FUNCTIONS"):
		s.What = "functions"
		if p.peek().kind == tokWord && !p.at("LIKE") {
			text := p.next().text
			s.Pattern = &text
		} else {
			pattern()
		}
	case p.accept("SHOW", "PARTITIONS"):
		p.showPartitions(s)
	case p.accept("SHOW", "TABLE", "EXTENDED"):
		s.What = "table extended"
		in("a database name", false)
		p.expect("LIKE")
		if isName(p.peek()) {
			text := p.next().text
			s.Pattern = &text
		} else {
			text := p.str("a pattern in quotes")
			s.Pattern = &text
		}
		s.Partition = p.partitionClause(specConstants)
	case p.accept("SHOW", "CONF"):
		s.What = "conf"
		text := p.str("the name of a setting in quotes")
		s.Pattern = &text
	case p.accept("SHOW", "LOCKS"):
		s.What = "locks"
		if p.accept("DATABASE") || p.accept("SCHEMA") {
			s.In = ast.Name{Pos: p.peek().pos, Parts: []ast.Ident{p.databaseName()}}
		} else if isName(p.peek()) && !p.at("EXTENDED") {
			s.In = p.name("a table name")
			s.Partition = p.partitionClause(specMixed)
		}
		p.accept("EXTENDED")
	case p.accept("SHOW", "TRANSACTIONS"):
		s.What = "transactions"
	case p.accept("SHOW", "COMPACTIONS"):
		s.What = "compactions"
		p.i = len(p.toks) - 1
	default:
		return nil
	}
	return s
}

// tableFilter reads [LIKE] 'pattern' or WHERE table_type = 't'.
func (p *parser) tableFilter(s *ast.Show, pattern func()) {
	if !p.accept("WHERE") {
		pattern()
		return
	}
	prop := ast.Property{Pos: p.peek().pos, Key: strings.ToLower(p.ident("table_type").Name)}
	p.expect("=")
	prop.Value = p.str("the type of the tables in quotes")
	s.Filter = append(s.Filter, prop)
}

// showPartitions reads the rest of SHOW PARTITIONS t [PARTITION (..)] [WHERE ..]
// [ORDER BY ..] [LIMIT n].
func (p *parser) showPartitions(s *ast.Show) {
	s.What = "partitions"
	s.In = p.name("a table name")
	s.Partition = p.partitionClause(specConstants)
	if p.accept("WHERE") {
		s.Where = p.expr()
	}
	if p.accept("ORDER", "BY") {
		s.OrderBy = p.orderItems()
	}
	if p.accept("LIMIT") {
		s.Limit = p.number("a number of partitions", 1<<30)
	}
}
