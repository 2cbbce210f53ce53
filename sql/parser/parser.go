package parser

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/sql/ast"
)

const (
	// maxNesting is how deep parentheses, sub-queries and CASEs may nest.
	maxNesting = 500
	// maxTerms is how many operators one expression may chain (a OR b OR ..).
	maxTerms = 10000
)

// parser reads the tokens of one statement. The first error sticks: it moves
// the parser to the end of the statement, where nothing is accepted any more,
// so that all its functions return soon; what they return then is discarded.
type parser struct {
	toks  []token
	i     int
	err   error
	depth int
	terms int // operators of the expression so far
	text  string
}

// ParsePiece parses one statement. Positions are those of the script it was
// cut from. Errors are *fault.Error of class user with line and column.
func ParsePiece(piece Piece) (ast.Statement, error) {
	p := &parser{text: piece.Text}
	l := newLexer(piece.Text, piece.Pos)
	for {
		t := l.next()
		if t.kind == tokBad {
			return nil, syntaxError(t.pos, "%s", t.text)
		}
		p.toks = append(p.toks, t)
		if t.kind == tokEOF {
			break
		}
	}
	s := p.statement()
	if p.err == nil && p.peek().kind != tokEOF {
		p.unexpected("end of statement")
	}
	if p.err != nil {
		return nil, p.err
	}
	return s, nil
}

func syntaxError(pos ast.Pos, format string, args ...any) error {
	return &fault.Error{Class: fault.User, SQLState: fault.StateSyntax, Message: fmt.Sprintf(format, args...), Line: pos.Line, Column: pos.Column}
}

// fail records the first error and moves to the end.
func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.i = len(p.toks) - 1
}

// unexpected fails because the current token is not what was expected; what is
// a phrase: "a table name", "FROM or end of statement".
func (p *parser) unexpected(what string) {
	t := p.peek()
	err := &fault.Error{Class: fault.User, SQLState: fault.StateSyntax, Line: t.pos.Line, Column: t.pos.Column,
		Message: "syntax error at " + t.show() + ": expected " + what}
	if t.kind == tokWord && isReserved(t.upper) && strings.Contains(what, "name") {
		err.Hint = t.text + " is a reserved word: write `" + t.text + "` to use it as a name"
	}
	p.fail(err)
}

// unsupported fails for something that Hive has and the engine has not yet.
func (p *parser) unsupported(pos ast.Pos, what string) {
	p.fail(unsupportedError(pos, what))
}

func unsupportedError(pos ast.Pos, what string) error {
	return &fault.Error{Class: fault.User, SQLState: fault.StateUnsupported, Message: "not supported yet: " + what, Line: pos.Line, Column: pos.Column}
}

func (p *parser) peek() token { return p.toks[p.i] }

// peekAt returns the token n places ahead.
func (p *parser) peekAt(n int) token { return p.toks[min(p.i+n, len(p.toks)-1)] }

// next returns the current token and moves on.
func (p *parser) next() token {
	t := p.toks[p.i]
	if p.i < len(p.toks)-1 {
		p.i++
	}
	return t
}

// at reports whether the next tokens are these keywords or operators.
func (p *parser) at(words ...string) bool {
	for i, w := range words {
		if !p.peekAt(i).is(w) {
			return false
		}
	}
	return true
}

// accept skips these keywords or operators if they come next.
func (p *parser) accept(words ...string) bool {
	if !p.at(words...) {
		return false
	}
	p.i += len(words)
	return true
}

// expect skips these keywords or operators or fails.
func (p *parser) expect(words ...string) {
	for _, w := range words {
		if !p.accept(w) {
			what := w
			if !isLetter(w) {
				what = "'" + w + "'"
			}
			p.unexpected(what)
			return
		}
	}
}

func isLetter(s string) bool { return s[0] >= 'A' && s[0] <= 'Z' }

// isName reports whether t can be a name where a name is wanted.
func isName(t token) bool {
	return t.kind == tokQuoted || t.kind == tokWord && !isReserved(t.upper)
}

// ident reads a name; what names it in the error: "a table name".
func (p *parser) ident(what string) ast.Ident {
	t := p.peek()
	if !isName(t) {
		p.unexpected(what)
		return ast.Ident{Pos: t.pos}
	}
	p.next()
	return ast.Ident{Pos: t.pos, Name: t.text}
}

// name reads [database.]table.
func (p *parser) name(what string) ast.Name {
	n := ast.Name{Pos: p.peek().pos}
	n.Parts = append(n.Parts, p.ident(what))
	for len(n.Parts) < 3 && p.accept(".") {
		n.Parts = append(n.Parts, p.ident(what))
	}
	return n
}

// identList reads (a, b, ..).
func (p *parser) identList(what string) []ast.Ident {
	var out []ast.Ident
	p.expect("(")
	for {
		out = append(out, p.ident(what))
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return out
}

// str reads a string literal; adjacent ones concatenate.
func (p *parser) str(what string) string {
	if p.peek().kind != tokString {
		p.unexpected(what)
		return ""
	}
	s := p.next().text
	for p.peek().kind == tokString {
		s += p.next().text
	}
	return s
}

// number reads an unsigned integer without suffix, up to most.
func (p *parser) number(what string, most int) int {
	t := p.peek()
	n := 0
	if t.kind == tokNumber {
		for _, c := range []byte(t.text) {
			if !isDigit(c) || n > most {
				n = -1
				break
			}
			n = n*10 + int(c-'0')
		}
	}
	if t.kind != tokNumber || n < 0 || n > most {
		p.unexpected(what)
		return 0
	}
	p.next()
	return n
}

// enter counts a level of nesting; each call that returns true needs leave.
func (p *parser) enter() bool {
	if p.depth >= maxNesting {
		p.fail(syntaxError(p.peek().pos, "the statement nests deeper than %d levels", maxNesting))
		return false
	}
	p.depth++
	return true
}

func (p *parser) leave() { p.depth-- }

// statement reads one statement.
func (p *parser) statement() ast.Statement {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	t := p.peek()
	stmt := ast.Stmt{Pos: t.pos, Text: p.textFrom(t)}
	switch {
	case t.is("SELECT"), t.is("WITH"), t.is("FROM"), t.is("VALUES"), t.is("TABLE"), t.is("("):
		if t.is("FROM") && p.insertAhead() {
			p.unsupported(t.pos, "FROM .. INSERT ..")
			return nil
		}
		return &ast.QueryStatement{Stmt: stmt, Query: p.query()}
	case p.at("INSERT", "OVERWRITE", "DIRECTORY"), p.at("INSERT", "OVERWRITE", "LOCAL"):
	case t.is("INSERT"):
		return p.insert(stmt)
	case t.is("LOAD"):
		return p.load(stmt)
	case t.is("EXPLAIN"):
		return p.explain(stmt)
	case t.is("SET"):
		return p.set(stmt)
	case t.is("USE"):
		p.next()
		return &ast.Use{Stmt: stmt, Database: p.databaseName()}
	case p.at("CREATE", "TABLE"):
		return p.createTable(stmt)
	case p.at("CREATE", "DATABASE"), p.at("CREATE", "SCHEMA"):
		return p.createDatabase(stmt)
	case p.at("DROP", "TABLE"):
		p.i += 2
		s := &ast.DropTable{Stmt: stmt, IfExists: p.ifExists(), Table: p.name("a table name")}
		p.accept("PURGE")
		return s
	case p.at("DROP", "DATABASE"), p.at("DROP", "SCHEMA"):
		p.i += 2
		s := &ast.DropDatabase{Stmt: stmt, IfExists: p.ifExists(), Name: p.databaseName()}
		if s.Cascade = p.accept("CASCADE"); !s.Cascade {
			p.accept("RESTRICT")
		}
		return s
	case p.at("DESCRIBE", "FUNCTION"), p.at("DESC", "FUNCTION"):
	case t.is("DESCRIBE"), t.is("DESC"):
		return p.describe(stmt)
	case t.is("SHOW"):
		if s := p.show(stmt); s != nil {
			return s
		}
	}
	return p.unknown(stmt)
}

// insertAhead reports whether the FROM here belongs to INSERTs and not to a SELECT.
func (p *parser) insertAhead() bool {
	depth := 0
	for n := 0; ; n++ {
		switch t := p.peekAt(n); {
		case t.kind == tokEOF, depth == 0 && t.is("SELECT"):
			return false
		case depth == 0 && t.is("INSERT"):
			return true
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		}
	}
}

// databaseName reads a database's name; `default` is one, though reserved words
// are not.
func (p *parser) databaseName() ast.Ident { return p.ident("a database name") }

func (p *parser) ifExists() bool { return p.accept("IF", "EXISTS") }

// textFrom returns the statement's text from a token on.
func (p *parser) textFrom(t token) string {
	first := p.toks[0].pos.Offset
	return p.text[t.pos.Offset-first:]
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
			return &ast.Unsupported{Stmt: stmt, What: u.name}
		}
	}
	t := p.peek()
	err := &fault.Error{Class: fault.User, SQLState: fault.StateSyntax, Line: t.pos.Line, Column: t.pos.Column,
		Message: "syntax error at " + t.show() + ": expected a statement"}
	words := statementWords
	switch {
	case t.is("CREATE") || t.is("DROP"):
		t = p.peekAt(1)
		err.Line, err.Column = t.pos.Line, t.pos.Column
		err.Message = "syntax error at " + t.show() + ": expected TABLE or DATABASE"
		words = []string{"TABLE", "DATABASE", "SCHEMA", "VIEW", "FUNCTION"}
	}
	if t.kind == tokWord && !slices.Contains(words, t.upper) {
		err.Hint = nearest.Hint(t.upper, words)
	}
	p.fail(err)
	return nil
}
