// Package parser turns HiveQL text into a tree (package sql/ast): its own
// lexer, recursive descent for statements, and operator precedence for
// expressions. No input makes it panic or hang: nesting is limited.
package parser

import (
	"strings"
	"unicode/utf8"

	"github.com/skepdb/skep/sql/ast"
)

// Piece is one statement's text, cut out of a script and not yet looked at.
type Piece struct {
	Text string  // without the semicolon, comments and blanks around it
	Pos  ast.Pos // of its first byte
	// Terminated: a semicolon follows. A shell asks for more lines until
	// the last piece is.
	Terminated bool
	// QuotedNames: "x" is a name and not text (hive.support.quoted.identifiers=standard).
	QuotedNames bool
}

// Split cuts a script at its semicolons, outside strings, quoted names and
// comments. Empty statements are left out.
func Split(script string) []Piece {
	var out []Piece
	l := newLexer(script, ast.Pos{Line: 1, Column: 1})
	var start *ast.Pos
	end := 0
	for {
		t := l.next()
		if t.kind == tokEOF || t.is(";") {
			if start != nil {
				out = append(out, Piece{Text: script[start.Offset:end], Pos: *start, Terminated: t.kind != tokEOF})
			}
			if t.kind == tokEOF {
				return out
			}
			start = nil
			continue
		}
		if start == nil {
			p := t.pos
			start = &p
		}
		end = t.end
	}
}

// Parse parses all statements of a script. On an error it returns the
// statements before the faulty one too.
func Parse(script string) ([]ast.Statement, error) {
	var out []ast.Statement
	for _, piece := range Split(script) {
		s, err := ParsePiece(piece)
		if err != nil {
			return out, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Caret returns the line of script that an error's place names, and below it a
// caret under the column: two lines, each with indent before it. It returns ""
// when there is no such place. Long lines are cut around the column.
func Caret(script string, line, column int) string {
	if line < 1 || column < 1 {
		return ""
	}
	lines := strings.Split(script, "\n")
	if line > len(lines) {
		return ""
	}
	text := []rune(strings.ToValidUTF8(strings.TrimRight(lines[line-1], "\r"), "?"))
	if column > len(text)+1 {
		column = len(text) + 1
	}
	const before, after = 60, 40
	from, prefix := 0, ""
	if column-1 > before {
		from, prefix = column-1-before, "..."
	}
	to, suffix := len(text), ""
	if to > column-1+after {
		to, suffix = column-1+after, "..."
	}
	shown := make([]rune, 0, to-from)
	for _, r := range text[from:to] {
		if r < ' ' {
			r = ' '
		}
		shown = append(shown, r)
	}
	return "  " + prefix + string(shown) + suffix + "\n  " +
		strings.Repeat(" ", utf8.RuneCountInString(prefix)+column-1-from) + "^"
}
