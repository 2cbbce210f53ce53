package function

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// javaPosix are the named classes of Java that .NET's syntax lacks, as members of a class.
var javaPosix = map[string]string{
	"Lower": "a-z", "Upper": "A-Z", "ASCII": `\x00-\x7f`, "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
	"Punct": "!-/:-@\\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": ` \t`, "Cntrl": `\x00-\x1f\x7f`, "XDigit": "0-9a-fA-F", "Space": ` \t\n\x0b\f\r`,
	"javaLowerCase": `\p{Ll}`, "javaUpperCase": `\p{Lu}`, "javaWhitespace": `\s`, "IsAlphabetic": `\p{L}\p{Nl}`, "IsDigit": `\p{Nd}`,
	"IsLetter": `\p{L}`, "IsLowercase": `\p{Ll}`, "IsUppercase": `\p{Lu}`, "IsPunctuation": `\p{P}`, "IsWhite_Space": `\s`, "L1": `\x00-\xff`,
}

// javaClasses are \d and its like: ASCII in Java.
var javaClasses = map[byte]string{'d': "0-9", 'w': "a-zA-Z_0-9", 's': ` \t\n\x0b\f\r`, 'h': ` \t\xa0`, 'v': `\n\x0b\f\r\x85`}

// fromJava turns a Java regular expression into one of .NET's syntax, which regexp2 reads.
// What is the same in both passes through, faults included.
func fromJava(p string) string {
	t := javaTranslator{in: p}
	for t.at < len(p) {
		t.next()
	}
	if t.broken {
		return p
	}
	return string(t.out)
}

type javaTranslator struct {
	in   string
	at   int
	out  []byte
	atom int   // where in out the last atom starts
	open []int // where the open groups start

	broken bool // a class without end
}

func (t *javaTranslator) next() {
	p, c := t.in, t.in[t.at]
	switch c {
	case '\\':
		t.atom = len(t.out)
		t.out = append(t.out, t.escape(false)...)
	case '[':
		t.atom = len(t.out)
		t.out = append(t.out, t.class()...)
	case '(':
		t.open = append(t.open, len(t.out))
		t.out = append(t.out, c)
		t.at++
	case ')':
		if n := len(t.open); n > 0 {
			t.atom = t.open[n-1]
			t.open = t.open[:n-1]
		}
		t.out = append(t.out, c)
		t.at++
	case '*', '+', '?', '{':
		end := t.at + 1
		if c == '{' {
			shut := strings.IndexByte(p[t.at:], '}')
			if shut < 0 {
				t.out = append(t.out, c)
				t.at++
				return
			}
			end = t.at + shut + 1
		}
		quantifier := p[t.at:end]
		t.at = end
		if len(t.out) > 0 && t.out[len(t.out)-1] == '(' { // (?: and its like: no quantifier
			t.out = append(t.out, quantifier...)
			return
		}
		if t.at < len(p) && p[t.at] == '+' { // possessive: an atomic group
			t.at++
			inner := string(t.out[t.atom:])
			t.out = append(t.out[:t.atom], "(?>"+inner+quantifier+")"...)
			return
		}
		t.out = append(t.out, quantifier...)
	default:
		t.atom = len(t.out)
		_, size := utf8.DecodeRuneInString(p[t.at:])
		t.out = append(t.out, p[t.at:t.at+size]...)
		t.at += size
	}
}

// escape reads an escape; what it returns stands inside or outside of a class.
func (t *javaTranslator) escape(inClass bool) string {
	p := t.in
	if t.at+1 == len(p) {
		t.at++
		return `\`
	}
	c := p[t.at+1]
	t.at += 2
	members := func(s string, negative bool) string {
		switch {
		case inClass && !negative:
			return s
		case inClass:
			return "" // handled by class
		case negative:
			return "[^" + s + "]"
		}
		return "[" + s + "]"
	}
	switch c {
	case 'Q':
		text := p[t.at:]
		if end := strings.Index(text, `\E`); end >= 0 {
			text = text[:end]
			t.at += 2
		}
		t.at += len(text)
		var b strings.Builder
		for _, r := range text {
			if r < utf8.RuneSelf && !isLetterOrDigit(byte(r)) {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		return b.String()
	case 'E':
		return ""
	case 'd', 'w', 's', 'h', 'v':
		return members(javaClasses[c], false)
	case 'D', 'W', 'S', 'H', 'V':
		if !inClass {
			return members(javaClasses[c|0x20], true)
		}
		if c == 'H' || c == 'V' {
			return ""
		}
		return `\` + string(c) // Unicode's idea of it: there is no other way inside of a class
	case 'R':
		return `(?>\r\n|[\n\x0b\f\r\x85\u2028\u2029])`
	case '0':
		end := t.at
		for end < len(p) && end < t.at+3 && p[end] >= '0' && p[end] <= '7' {
			end++
		}
		if n, err := strconv.ParseUint(p[t.at:end], 8, 8); err == nil {
			t.at = end
			return fmt.Sprintf(`\x%02x`, n)
		}
		return `\0`
	case 'x':
		if t.at < len(p) && p[t.at] == '{' {
			if end := strings.IndexByte(p[t.at:], '}'); end > 0 {
				if n, err := strconv.ParseUint(p[t.at+1:t.at+end], 16, 32); err == nil {
					t.at += end + 1
					return quoteRune(rune(n))
				}
			}
		}
	case 'p', 'P':
		name := ""
		switch {
		case t.at < len(p) && p[t.at] == '{':
			if end := strings.IndexByte(p[t.at:], '}'); end > 0 {
				name = p[t.at+1 : t.at+end]
				t.at += end + 1
			}
		case t.at < len(p):
			name = p[t.at : t.at+1]
			t.at++
		}
		if s, ok := javaPosix[name]; ok && (c == 'p' || !inClass) {
			return members(s, c == 'P')
		}
		if block, ok := strings.CutPrefix(name, "In"); ok {
			name = "Is" + block
		} else if general, ok := strings.CutPrefix(name, "Is"); ok && len(general) <= 2 {
			name = general
		}
		return `\` + string(c) + "{" + name + "}"
	}
	return p[t.at-2 : t.at]
}

func quoteRune(r rune) string {
	if r < utf8.RuneSelf && !isLetterOrDigit(byte(r)) {
		return `\` + string(r)
	}
	return string(r)
}

// class reads [...]: unions of classes are flattened, an intersection becomes .NET's
// subtraction of what the other side isn't.
func (t *javaTranslator) class() string {
	p := t.in
	t.at++ // [
	negative := t.at < len(p) && p[t.at] == '^'
	if negative {
		t.at++
	}
	var b strings.Builder
	first := true
	subtract := ""
	for t.at < len(p) && (p[t.at] != ']' || first) {
		first = false
		switch {
		case p[t.at] == '\\':
			b.WriteString(t.escape(true))
		case p[t.at] == '[':
			inner := t.class()
			body := inner[1 : len(inner)-1]
			// A union with a negated class has no form: Java's rare case.
			b.WriteString(strings.TrimPrefix(body, "^"))
		case strings.HasPrefix(p[t.at:], "&&"):
			t.at += 2
			var other string
			if t.at < len(p) && p[t.at] == '[' {
				other = t.class()
			} else {
				sub := javaTranslator{in: "[" + p[t.at:]}
				other = sub.class()
				t.broken = t.broken || sub.broken
				t.at += sub.at - 1
				if strings.HasSuffix(p[:t.at], "]") {
					t.at--
				}
			}
			body := other[1 : len(other)-1]
			if rest, ok := strings.CutPrefix(body, "^"); ok {
				subtract = "-[" + rest + "]"
			} else {
				subtract = "-[^" + body + "]"
			}
		default:
			_, size := utf8.DecodeRuneInString(p[t.at:])
			b.WriteString(p[t.at : t.at+size])
			t.at += size
		}
	}
	if t.at < len(p) {
		t.at++ // ]
	} else {
		t.broken = true
	}
	open := "["
	if negative {
		open = "[^"
	}
	return open + b.String() + subtract + "]"
}
