package parser

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/internal/fault"
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
	l.quotedNames = piece.QuotedNames
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
