package parser

import (
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/sql/ast"
)

// statement reads one statement.
func (p *parser) statement() ast.Statement {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	t := p.peek()
	stmt := ast.Stmt{Pos: t.pos, Text: p.textFrom(t)}
	switch {
	case t.is("WITH"), t.is("FROM"), t.is("INSERT"):
		return p.insertOrQuery(stmt)
	case t.is("SELECT"), t.is("VALUES"), t.is("TABLE"), t.is("("):
		return &ast.QueryStatement{Stmt: stmt, Query: p.query()}
	case t.is("LOAD"):
		return p.load(stmt)
	case t.is("EXPLAIN"):
		return p.explain(stmt)
	case t.is("SET"):
		return p.set(stmt)
	case t.is("RESET"):
		return p.reset(stmt)
	case t.is("USE"):
		p.next()
		return &ast.Use{Stmt: stmt, Database: p.databaseName()}
	case t.is("CREATE"):
		if s := p.create(stmt); s != nil {
			return s
		}
	case t.is("DROP"):
		if s := p.drop(stmt); s != nil {
			return s
		}
	case t.is("ALTER"):
		if s := p.alter(stmt); s != nil {
			return s
		}
	case t.is("TRUNCATE"):
		return p.truncate(stmt)
	case p.at("ANALYZE", "TABLE"):
		return p.analyze(stmt)
	case t.is("MSCK"):
		return p.msck(stmt)
	case t.is("DESCRIBE"), t.is("DESC"):
		return p.describe(stmt)
	case t.is("SHOW"):
		if s := p.show(stmt); s != nil {
			return s
		}
	}
	return p.unknown(stmt)
}

func (p *parser) create(stmt ast.Stmt) ast.Statement {
	words := 1
	for {
		t := p.peekAt(words)
		if !t.is("TEMPORARY") && !t.is("EXTERNAL") && !t.is("MANAGED") && !t.is("TRANSACTIONAL") {
			break
		}
		words++
	}
	switch t := p.peekAt(words); {
	case t.is("TABLE"):
		return p.createTable(stmt)
	case words > 1:
	case t.is("DATABASE"), t.is("SCHEMA"):
		return p.createDatabase(stmt)
	case t.is("VIEW"), p.at("CREATE", "OR", "REPLACE", "VIEW"):
		return p.createView(stmt)
	}
	return nil
}

func (p *parser) drop(stmt ast.Stmt) ast.Statement {
	switch {
	case p.accept("DROP", "TABLE"):
		s := &ast.DropTable{Stmt: stmt, IfExists: p.ifExists(), Table: p.name("a table name")}
		p.accept("PURGE")
		if p.accept("FOR", "REPLICATION") || p.accept("FOR") {
			p.unsupported(stmt.Pos, "DROP TABLE .. FOR REPLICATION")
		}
		return s
	case p.accept("DROP", "VIEW"):
		return &ast.DropTable{Stmt: stmt, View: true, IfExists: p.ifExists(), Table: p.name("a view name")}
	case p.accept("DROP", "DATABASE"), p.accept("DROP", "SCHEMA"):
		s := &ast.DropDatabase{Stmt: stmt, IfExists: p.ifExists(), Name: p.databaseName()}
		if s.Cascade = p.accept("CASCADE"); !s.Cascade {
			p.accept("RESTRICT")
		}
		return s
	}
	return nil
}

// databaseName reads a database's name; `default` is one, though reserved words
// are not.
func (p *parser) databaseName() ast.Ident { return p.ident("a database name") }

func (p *parser) ifExists() bool { return p.accept("IF", "EXISTS") }

func (p *parser) ifNotExists() bool { return p.accept("IF", "NOT", "EXISTS") }

// textFrom returns the statement's text from a token on.
func (p *parser) textFrom(t token) string {
	first := p.toks[0].pos.Offset
	return p.text[t.pos.Offset-first:]
}

// textBetween returns the text from token i up to the end of the last one read.
func (p *parser) textBetween(i int) string {
	if p.err != nil || p.i <= i {
		return ""
	}
	first := p.toks[0].pos.Offset
	return p.text[p.toks[i].pos.Offset-first : p.toks[p.i-1].end-first]
}

// explainModes are the words that may follow EXPLAIN, each with those that may
// follow it.
var explainModes = map[string][]string{"EXTENDED": nil, "FORMATTED": nil, "DEPENDENCY": nil, "LOGICAL": nil,
	"CBO": {"COST", "JOINCOST"}, "AUTHORIZATION": nil, "ANALYZE": nil, "REOPTIMIZATION": nil, "LOCKS": nil, "AST": nil,
	"VECTORIZATION": {"ONLY", "SUMMARY", "OPERATOR", "EXPRESSION", "DETAIL", "DEBUG"}, "DEBUG": nil, "DDL": nil, "REWRITE": nil}

func (p *parser) explain(stmt ast.Stmt) ast.Statement {
	p.expect("EXPLAIN")
	s := &ast.Explain{Stmt: stmt}
	var modes []string
	for {
		t := p.peek()
		more, ok := explainModes[t.upper]
		// ANALYZE TABLE is a statement, EXPLAIN ANALYZE SELECT a mode.
		if t.kind != tokWord || !ok || p.at("ANALYZE", "TABLE") {
			break
		}
		modes = append(modes, p.next().upper)
		for t := p.peek(); t.kind == tokWord && slices.Contains(more, t.upper); t = p.peek() {
			modes = append(modes, p.next().upper)
		}
	}
	s.Mode = strings.ToLower(strings.Join(modes, " "))
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

// reset reads RESET [-d] [keys].
func (p *parser) reset(stmt ast.Stmt) ast.Statement {
	s := &ast.Reset{Stmt: stmt}
	for _, key := range strings.Fields(stmt.Text[len("RESET"):]) {
		if key != "-d" {
			s.Keys = append(s.Keys, key)
		}
	}
	p.i = len(p.toks) - 1
	return s
}

func (p *parser) truncate(stmt ast.Stmt) ast.Statement {
	p.expect("TRUNCATE")
	p.accept("TABLE")
	s := &ast.Truncate{Stmt: stmt, Table: p.name("a table name"), Partition: p.partitionClause(specConstants)}
	if t := p.peek(); t.is("COLUMNS") {
		p.unsupported(t.pos, "TRUNCATE .. COLUMNS")
	}
	p.accept("FORCE")
	return s
}

// analyze reads ANALYZE TABLE t [PARTITION (..)] COMPUTE STATISTICS ...
func (p *parser) analyze(stmt ast.Stmt) ast.Statement {
	p.expect("ANALYZE", "TABLE")
	s := &ast.Analyze{Stmt: stmt, Table: p.name("a table name"), Partition: p.partitionClause(specMixed)}
	if p.accept("CACHE", "METADATA") {
		return s
	}
	p.expect("COMPUTE")
	if p.accept("INCREMENTAL") {
		p.expect("STATISTICS")
		return s
	}
	p.expect("STATISTICS")
	switch {
	case p.accept("NOSCAN"), p.accept("PARTIALSCAN"):
	case p.accept("FOR", "COLUMNS"):
		for p.peek().kind != tokEOF && p.err == nil {
			s.Columns = append(s.Columns, p.ident("a column name"))
			if !p.accept(",") {
				break
			}
		}
		p.accept("NOSCAN")
	}
	return s
}

func (p *parser) msck(stmt ast.Stmt) ast.Statement {
	p.expect("MSCK")
	s := &ast.Msck{Stmt: stmt, Repair: p.accept("REPAIR")}
	p.accept("TABLE")
	s.Table = p.name("a table name")
	for _, what := range []string{"ADD", "DROP", "SYNC"} {
		if p.accept(what, "PARTITIONS") {
			break
		}
	}
	p.partitionClause(specSearch)
	return s
}

// unknown refuses a statement: as not supported yet if its first words are one
// of Hive's statements.
func (p *parser) unknown(stmt ast.Stmt) ast.Statement {
	if p.err != nil {
		return nil
	}
	for _, u := range unsupported {
		if p.at(strings.Fields(u.words)...) {
			p.i = len(p.toks) - 1
			return &ast.Unsupported{Stmt: stmt, What: u.name, Reason: u.reason}
		}
	}
	t := p.peek()
	err := &fault.Error{Class: fault.User, SQLState: fault.StateSyntax, Line: t.pos.Line, Column: t.pos.Column,
		Message: "syntax error at " + t.show() + ": expected a statement"}
	words := statementWords
	switch {
	case t.is("CREATE") || t.is("DROP") || t.is("ALTER"):
		t = p.peekAt(1)
		err.Line, err.Column = t.pos.Line, t.pos.Column
		err.Message = "syntax error at " + t.show() + ": expected TABLE, VIEW or DATABASE"
		words = []string{"TABLE", "DATABASE", "SCHEMA", "VIEW", "FUNCTION"}
	case t.is("SHOW"):
		t = p.peekAt(1)
		err.Line, err.Column = t.pos.Line, t.pos.Column
		err.Message = "syntax error at " + t.show() + ": expected what to show, such as TABLES or PARTITIONS"
		words = showWords
	}
	if t.kind == tokWord && !slices.Contains(words, t.upper) {
		err.Hint = nearest.Hint(t.upper, words)
	}
	p.fail(err)
	return nil
}
