package parser

import (
	"strings"

	"github.com/skepdb/skep/sql/ast"
)

// insert reads INSERT INTO|OVERWRITE [TABLE] t [(columns)] query.
func (p *parser) insert(stmt ast.Stmt) ast.Statement {
	p.expect("INSERT")
	s := &ast.Insert{Stmt: stmt}
	if s.Overwrite = p.accept("OVERWRITE"); !s.Overwrite {
		if !p.accept("INTO") {
			p.unexpected("INTO or OVERWRITE")
		}
	}
	p.accept("TABLE")
	s.Table = p.name("a table name")
	if p.at("PARTITION") {
		p.unsupported(p.peek().pos, "INSERT .. PARTITION")
	}
	if p.at("(") && isName(p.peekAt(1)) {
		s.Columns = p.identList("a column name")
	}
	switch t := p.peek(); {
	case t.is("SELECT"), t.is("VALUES"), t.is("WITH"), t.is("("):
		s.Query = p.query()
	case t.is("FROM"):
		p.unsupported(t.pos, "INSERT .. FROM .. SELECT")
	default:
		p.unexpected("VALUES or SELECT")
	}
	return s
}

// load reads LOAD DATA [LOCAL] INPATH 'p' [OVERWRITE] INTO TABLE t.
func (p *parser) load(stmt ast.Stmt) ast.Statement {
	p.expect("LOAD", "DATA")
	s := &ast.Load{Stmt: stmt, Local: p.accept("LOCAL")}
	p.expect("INPATH")
	s.PathPos = p.peek().pos
	s.Path = p.str("a path in quotes")
	s.Overwrite = p.accept("OVERWRITE")
	p.expect("INTO", "TABLE")
	s.Table = p.name("a table name")
	switch t := p.peek(); {
	case t.is("PARTITION"):
		p.unsupported(t.pos, "LOAD DATA .. PARTITION")
	case t.is("INPUTFORMAT"):
		p.unsupported(t.pos, "LOAD DATA .. INPUTFORMAT")
	}
	return s
}

// explainModes are the words that may follow EXPLAIN.
var explainModes = map[string]bool{"EXTENDED": true, "FORMATTED": true, "DEPENDENCY": true, "CBO": true, "LOGICAL": true,
	"AUTHORIZATION": true, "ANALYZE": true, "REOPTIMIZATION": true, "LOCKS": true, "AST": true, "VECTORIZATION": true,
	"DEBUG": true, "DDL": true}

func (p *parser) explain(stmt ast.Stmt) ast.Statement {
	p.expect("EXPLAIN")
	s := &ast.Explain{Stmt: stmt}
	// ANALYZE TABLE is a statement, EXPLAIN ANALYZE SELECT a mode.
	if t := p.peek(); t.kind == tokWord && explainModes[t.upper] && !p.at("ANALYZE", "TABLE") {
		s.Mode = strings.ToLower(t.upper)
		p.next()
	}
	if p.peek().kind == tokEOF {
		p.unexpected("a statement to explain")
		return s
	}
	s.Statement = p.statement()
	return s
}

// set reads SET [key[=value]]; the value is the raw text, blanks trimmed.
func (p *parser) set(stmt ast.Stmt) ast.Statement {
	p.expect("SET")
	raw := strings.TrimSpace(stmt.Text[len("SET"):])
	key, value, assigned := strings.Cut(raw, "=")
	s := &ast.Set{Stmt: stmt, Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Show: !assigned}
	switch {
	case strings.EqualFold(s.Key, "-v"):
		s.Key = ""
	case strings.HasPrefix(strings.ToUpper(raw), "ROLE ") && !assigned:
		p.unsupported(stmt.Pos, "roles")
	case strings.HasPrefix(strings.ToUpper(raw), "AUTOCOMMIT ") && !assigned:
		p.unsupported(stmt.Pos, "transactions")
	case assigned && s.Key == "", strings.ContainsAny(s.Key, " \t\n"):
		p.unexpected("key=value")
	}
	p.i = len(p.toks) - 1
	return s
}

func (p *parser) ifNotExists() bool { return p.accept("IF", "NOT", "EXISTS") }

func (p *parser) createDatabase(stmt ast.Stmt) ast.Statement {
	p.i += 2
	s := &ast.CreateDatabase{Stmt: stmt, IfNotExists: p.ifNotExists(), Name: p.databaseName()}
	for p.err == nil && p.peek().kind != tokEOF {
		switch t := p.peek(); {
		case p.accept("COMMENT"):
			s.Comment = p.str("a comment in quotes")
		case p.accept("WITH", "DBPROPERTIES"):
			s.Properties = p.properties()
		case t.is("LOCATION"), t.is("MANAGEDLOCATION"):
			p.unsupported(t.pos, "CREATE DATABASE .. "+t.upper)
		default:
			p.unexpected("COMMENT, WITH DBPROPERTIES or end of statement")
		}
	}
	return s
}

// properties reads ('k'='v', ..).
func (p *parser) properties() []ast.Property {
	var out []ast.Property
	p.expect("(")
	for {
		prop := ast.Property{Pos: p.peek().pos, Key: p.str("a property name in quotes")}
		p.expect("=")
		prop.Value = p.str("a property value in quotes")
		out = append(out, prop)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return out
}

func (p *parser) describe(stmt ast.Stmt) ast.Statement {
	p.next()
	if p.accept("DATABASE") || p.accept("SCHEMA") {
		ext := p.accept("EXTENDED")
		return &ast.DescribeDatabase{Stmt: stmt, Extended: ext, Name: p.databaseName()}
	}
	s := &ast.Describe{Stmt: stmt}
	switch {
	case p.accept("EXTENDED"):
		s.Mode = "extended"
	case p.at("FORMATTED") && isName(p.peekAt(1)):
		p.next()
		s.Mode = "formatted"
	}
	p.accept("TABLE")
	s.Table = p.name("a table name")
	if p.at("PARTITION") {
		p.unsupported(p.peek().pos, "DESCRIBE .. PARTITION")
	}
	if t := p.peek(); t.kind != tokEOF {
		column := p.ident("a column name")
		s.Column = &column
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
	case p.accept("SHOW", "TABLES"):
		s.What = "tables"
		in("a database name", false)
		pattern()
	case p.accept("SHOW", "COLUMNS"):
		s.What = "columns"
		in("a table name", true)
		if len(s.In.Parts) == 1 && (p.accept("FROM") || p.accept("IN")) {
			s.In.Parts = append([]ast.Ident{p.databaseName()}, s.In.Parts...)
		}
		pattern()
	case p.accept("SHOW", "CREATE", "TABLE"):
		s.What = "create table"
		s.In = p.name("a table name")
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
		pattern()
	default:
		return nil
	}
	return s
}
