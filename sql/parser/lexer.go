package parser

import (
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skepdb/skep/sql/ast"
)

// tokenKind is the family of a token.
type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokWord             // an unquoted name or keyword
	tokQuoted           // `name`
	tokString           // a string literal, unescaped
	tokNumber           // with its suffix
	tokOp
	tokBad // text holds the complaint
)

// token is a piece of the text. For words upper is the text in upper case.
type token struct {
	kind  tokenKind
	text  string // words and operators as written; strings and `names` unescaped
	upper string
	pos   ast.Pos
	end   int // offset after the token
}

// is reports whether t is the keyword or operator.
func (t token) is(s string) bool {
	switch t.kind {
	case tokWord:
		return t.upper == s
	case tokOp:
		return t.text == s
	}
	return false
}

// show returns t as an error message names it.
func (t token) show() string {
	switch t.kind {
	case tokEOF:
		return "end of statement"
	case tokString:
		return "string '" + clip(t.text) + "'"
	case tokQuoted:
		return "`" + clip(t.text) + "`"
	}
	return "'" + clip(t.text) + "'"
}

// clip shortens a text for a message.
func clip(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "..."
}

// lexer cuts text into tokens. It never fails: what it can't read becomes a
// tokBad token, after which it goes on behind it.
type lexer struct {
	text string
	pos  ast.Pos
	base int // offset of text[0] in the whole script
	// afterValue: the last token ends an operand, so that a point after it
	// selects a field and does not begin the number .5
	afterValue bool
	// quotedNames: "x" is a name.
	quotedNames bool
}

func newLexer(text string, start ast.Pos) *lexer {
	return &lexer{text: text, pos: start, base: start.Offset}
}

func (l *lexer) at() int { return l.pos.Offset - l.base }

// peek returns the byte n places ahead, or 0.
func (l *lexer) peek(n int) byte {
	if i := l.at() + n; i < len(l.text) {
		return l.text[i]
	}
	return 0
}

// skip moves n bytes on, keeping line and column right.
func (l *lexer) skip(n int) {
	end := min(l.at()+n, len(l.text))
	for i := l.at(); i < end; {
		r, size := utf8.DecodeRuneInString(l.text[i:])
		if r == '\n' {
			l.pos.Line++
			l.pos.Column = 1
		} else {
			l.pos.Column++
		}
		i += size
		l.pos.Offset = l.base + i
	}
}

// blank skips white space and comments; it reports an unclosed comment.
func (l *lexer) blank() (unclosed *ast.Pos) {
	for l.at() < len(l.text) {
		rest := l.text[l.at():]
		switch {
		case strings.HasPrefix(rest, "--"):
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				l.skip(n + 1)
			} else {
				l.skip(len(rest))
			}
		case strings.HasPrefix(rest, "/*"): // hints /*+ .. */ too
			start := l.pos
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				l.skip(len(rest))
				return &start
			}
			l.skip(n + 4)
		default:
			r, size := utf8.DecodeRuneInString(rest)
			if !unicode.IsSpace(r) && r != '\ufeff' {
				return nil
			}
			l.skip(size)
		}
	}
	return nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// wordLen returns the length of the run of letters, digits and _ at the start of s.
func wordLen(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) || r == utf8.RuneError {
			return i
		}
	}
	return len(s)
}

// operators, longest first.
var operators = [...]string{"<=>", "<=", ">=", "<>", "!=", "==", "||"}

// next returns the next token; at the end, tokEOF for ever.
func (l *lexer) next() token {
	t := l.scan()
	l.afterValue = t.kind == tokWord || t.kind == tokQuoted || t.kind == tokNumber || t.is(")") || t.is("]")
	return t
}

func (l *lexer) scan() token {
	if p := l.blank(); p != nil {
		return token{kind: tokBad, text: "comment is not closed: */ is missing", pos: *p, end: l.pos.Offset}
	}
	start := l.pos
	rest := l.text[l.at():]
	if rest == "" {
		return token{kind: tokEOF, pos: start, end: start.Offset}
	}
	c := rest[0]
	switch {
	case c == '\'' || c == '"' && !l.quotedNames:
		s, n, ok := unquote(rest)
		l.skip(n)
		if !ok {
			return token{kind: tokBad, text: "string is not closed: " + string(c) + " is missing", pos: start, end: l.pos.Offset}
		}
		return token{kind: tokString, text: s, pos: start, end: l.pos.Offset}
	case c == '`', c == '"' && l.quotedNames:
		s, n, ok := unquoteName(rest)
		l.skip(n)
		switch {
		case !ok:
			return token{kind: tokBad, text: "quoted name is not closed: " + rest[:1] + " is missing", pos: start, end: l.pos.Offset}
		case s == "":
			return token{kind: tokBad, text: "a quoted name can't be empty", pos: start, end: l.pos.Offset}
		}
		return token{kind: tokQuoted, text: s, pos: start, end: l.pos.Offset}
	case isDigit(c), c == '.' && isDigit(l.peek(1)) && !l.afterValue:
		n, word := numberLen(rest), wordLen(rest)
		if word > n { // an identifier may start with a digit: 1abc
			return l.word(rest, word)
		}
		l.skip(n)
		return token{kind: tokNumber, text: rest[:n], pos: start, end: l.pos.Offset}
	}
	if value, n, ok := charsetLiteral(rest); ok {
		l.skip(n)
		return token{kind: tokString, text: value, pos: start, end: l.pos.Offset}
	}
	if n := wordLen(rest); n > 0 {
		return l.word(rest, n)
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.skip(len(op))
			return token{kind: tokOp, text: op, pos: start, end: l.pos.Offset}
		}
	}
	if strings.IndexByte("()[]{},.;:+-*/%&|^~<>=!?@$", c) >= 0 {
		l.skip(1)
		return token{kind: tokOp, text: rest[:1], pos: start, end: l.pos.Offset}
	}
	r, size := utf8.DecodeRuneInString(rest)
	l.skip(size)
	if r == utf8.RuneError && size <= 1 {
		return token{kind: tokBad, text: "the text is not UTF-8", pos: start, end: l.pos.Offset}
	}
	return token{kind: tokBad, text: "unexpected character '" + string(r) + "'", pos: start, end: l.pos.Offset}
}

func (l *lexer) word(rest string, n int) token {
	t := token{kind: tokWord, text: rest[:n], upper: strings.ToUpper(rest[:n]), pos: l.pos}
	l.skip(n)
	t.end = l.pos.Offset
	return t
}

// numberLen returns the length of the number at the start of s: digits,
// fraction, exponent and one of the suffixes Y S L D BD.
func numberLen(s string) int {
	n := 0
	digits := func() bool {
		from := n
		for n < len(s) && isDigit(s[n]) {
			n++
		}
		return n > from
	}
	digits()
	if n < len(s) && s[n] == '.' {
		n++
		digits()
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		mark := n
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		if !digits() {
			n = mark
		}
	}
	switch {
	case n+1 < len(s) && strings.EqualFold(s[n:n+2], "BD"):
		n += 2
	case n < len(s) && strings.IndexByte("yYsSlLdD", s[n]) >= 0:
		n++
	}
	if w := wordLen(s[n:]); w > 0 { // 1.5x: the letters are no suffix, and 1.5days is not a number and a word
		for n > 0 && !isDigit(s[n-1]) && s[n-1] != '.' {
			n--
		}
	}
	return n
}

// unquoteName reads `name`, or "name", at the start of s; a doubled quote is one.
func unquoteName(s string) (name string, n int, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != s[0] {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == s[0] {
			b.WriteByte(s[0])
			i++
			continue
		}
		return b.String(), i + 1, true
	}
	return "", len(s), false
}

// unquote reads the string literal at the start of s, in ' or ", with Hive's
// escapes: \0 \' \" \b \n \r \t \Z \\; \% and \_ keep the backslash (they mean
// something to LIKE); \uXXXX; \NNN octal up to \177; any other \x is x.
func unquote(s string) (value string, n int, ok bool) {
	quote := s[0]
	if end := strings.IndexAny(s[1:], "\\"+string(quote)); end >= 0 && s[1+end] == quote {
		return s[1 : 1+end], end + 2, true // nothing to unescape
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		if c == quote {
			return b.String(), i + 1, true
		}
		if c != '\\' || i+1 == len(s) {
			b.WriteByte(c)
			continue
		}
		i++
		switch e := s[i]; {
		case e == 'u' && isHex(s[i+1:], 4):
			b.WriteRune(hexRune(s[i+1 : i+5]))
			i += 4
		case (e == '0' || e == '1') && i+2 < len(s) && isOctal(s[i+1]) && isOctal(s[i+2]):
			b.WriteByte((e-'0')<<6 | (s[i+1]-'0')<<3 | (s[i+2] - '0'))
			i += 2
		case e == '0':
			b.WriteByte(0)
		case e == 'b':
			b.WriteByte('\b')
		case e == 'n':
			b.WriteByte('\n')
		case e == 'r':
			b.WriteByte('\r')
		case e == 't':
			b.WriteByte('\t')
		case e == 'Z':
			b.WriteByte(0x1a)
		case e == '%' || e == '_':
			b.WriteByte('\\')
			b.WriteByte(e)
		default:
			b.WriteByte(e)
		}
	}
	return "", len(s), false
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

func isHex(s string, n int) bool {
	if len(s) < n {
		return false
	}
	for i := range n {
		if strings.IndexByte("0123456789abcdefABCDEF", s[i]) < 0 {
			return false
		}
	}
	return true
}

func hexRune(s string) rune {
	var r rune
	for _, c := range strings.ToLower(s) {
		d := c - '0'
		if c >= 'a' {
			d = c - 'a' + 10
		}
		r = r<<4 | d
	}
	return r
}

// charsetLiteral reads _utf-8 0xE982B5: the name of a character set, and text in it as
// hexadecimal digits. Of other sets than Latin-1 the bytes are taken as they are.
func charsetLiteral(s string) (value string, n int, ok bool) {
	if s[0] != '_' {
		return "", 0, false
	}
	n = 1
	for n < len(s) && (isDigit(s[n]) || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || strings.IndexByte("_-.:", s[n]) >= 0) {
		n++
	}
	name := s[1:n]
	from := n
	for n < len(s) && (s[n] == ' ' || s[n] == '\t' || s[n] == '\n' || s[n] == '\r') {
		n++
	}
	if n == from || len(s) < n+2 || s[n] != '0' || s[n+1]|0x20 != 'x' {
		return "", 0, false
	}
	n += 2
	digits := n
	for n < len(s) && isHex(s[n:], 1) {
		n++
	}
	raw, err := hex.DecodeString(s[digits:n])
	if err != nil || n == digits || wordLen(s[n:]) > 0 {
		return "", 0, false
	}
	if strings.EqualFold(name, "iso-8859-1") || strings.EqualFold(name, "latin1") {
		var b strings.Builder
		for _, c := range raw {
			b.WriteRune(rune(c))
		}
		return b.String(), n, true
	}
	return string(raw), n, true
}
