package function

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/skepdb/skep/schema"
)

// jsonKind is the kind of a JSON value.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonFalse
	jsonTrue
	jsonNumber
	jsonText
	jsonArray
	jsonObject
)

// jsonValue is a parsed JSON value, as Hive's functions see it through Jackson.
type jsonValue struct {
	kind jsonKind
	// text is a string's text; a number as Java prints it: integers of any size as
	// they are, others as a double.
	text  string
	names []string // an object's, in order; of equal names the last value counts
	items []jsonValue
}

// member returns the value of a name, nil when there is none.
func (v *jsonValue) member(name string) *jsonValue {
	for i, n := range v.names {
		if n == name {
			return &v.items[i]
		}
	}
	return nil
}

// maxJSONDepth bounds the nesting, as Jackson does.
const maxJSONDepth = 1000

// parseJSON reads one value and ignores what follows it, as Jackson's readValue
// does. Control characters in texts and a backslash before any character are fine.
func parseJSON(s string) (jsonValue, bool) {
	p := jsonParser{s: s}
	return p.value(0)
}

type jsonParser struct {
	s  string
	at int
}

func (p *jsonParser) skip() {
	for p.at < len(p.s) && (p.s[p.at] == ' ' || p.s[p.at] == '\t' || p.s[p.at] == '\n' || p.s[p.at] == '\r') {
		p.at++
	}
}

func (p *jsonParser) accept(c byte) bool {
	p.skip()
	if p.at < len(p.s) && p.s[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *jsonParser) word(w string) bool {
	if !strings.HasPrefix(p.s[p.at:], w) {
		return false
	}
	p.at += len(w)
	return p.at == len(p.s) || !isLetterOrDigit(p.s[p.at])
}

func (p *jsonParser) value(depth int) (v jsonValue, ok bool) {
	p.skip()
	if p.at == len(p.s) || depth > maxJSONDepth {
		return v, false
	}
	switch c := p.s[p.at]; {
	case c == '{':
		p.at++
		v.kind = jsonObject
		if p.accept('}') {
			return v, true
		}
		for {
			p.skip()
			if p.at == len(p.s) || p.s[p.at] != '"' {
				return v, false
			}
			name, ok := p.text()
			if !ok || !p.accept(':') {
				return v, false
			}
			item, ok := p.value(depth + 1)
			if !ok {
				return v, false
			}
			if old := v.member(name); old != nil {
				*old = item
			} else {
				v.names, v.items = append(v.names, name), append(v.items, item)
			}
			if p.accept(',') {
				continue
			}
			return v, p.accept('}')
		}
	case c == '[':
		p.at++
		v.kind = jsonArray
		if p.accept(']') {
			return v, true
		}
		for {
			item, ok := p.value(depth + 1)
			if !ok {
				return v, false
			}
			v.items = append(v.items, item)
			if p.accept(',') {
				continue
			}
			return v, p.accept(']')
		}
	case c == '"':
		v.kind = jsonText
		v.text, ok = p.text()
		return v, ok
	case c == 't':
		return jsonValue{kind: jsonTrue, text: "true"}, p.word("true")
	case c == 'f':
		return jsonValue{kind: jsonFalse, text: "false"}, p.word("false")
	case c == 'n':
		return jsonValue{kind: jsonNull, text: "null"}, p.word("null")
	}
	v.kind = jsonNumber
	v.text, ok = p.number()
	return v, ok
}

// text reads a string; p.at is at its quote.
func (p *jsonParser) text() (string, bool) {
	p.at++
	start := p.at
	for p.at < len(p.s) && p.s[p.at] != '"' && p.s[p.at] != '\\' {
		p.at++
	}
	if p.at < len(p.s) && p.s[p.at] == '"' {
		p.at++
		return p.s[start : p.at-1], true
	}
	out := []byte(p.s[start:p.at])
	for p.at < len(p.s) {
		c := p.s[p.at]
		p.at++
		switch {
		case c == '"':
			return string(out), true
		case c != '\\':
			out = append(out, c)
			continue
		case p.at == len(p.s):
			return "", false
		}
		c = p.s[p.at]
		p.at++
		switch c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := p.hex4()
			if !ok {
				return "", false
			}
			if utf16.IsSurrogate(r) && strings.HasPrefix(p.s[p.at:], `\u`) {
				saved := p.at
				p.at += 2
				low, ok := p.hex4()
				if whole := utf16.DecodeRune(r, low); ok && whole != utf8.RuneError {
					r = whole
				} else {
					p.at = saved
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
	}
	return "", false
}

func (p *jsonParser) hex4() (rune, bool) {
	if p.at+4 > len(p.s) {
		return 0, false
	}
	n, err := strconv.ParseUint(p.s[p.at:p.at+4], 16, 32)
	p.at += 4
	return rune(n), err == nil
}

func (p *jsonParser) number() (string, bool) {
	start := p.at
	if p.at < len(p.s) && p.s[p.at] == '-' {
		p.at++
	}
	digits := func() int {
		from := p.at
		for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
			p.at++
		}
		return p.at - from
	}
	first := p.at
	if n := digits(); n == 0 || n > 1 && p.s[first] == '0' {
		return "", false
	}
	whole := true
	if p.at < len(p.s) && p.s[p.at] == '.' {
		whole = false
		p.at++
		if digits() == 0 {
			return "", false
		}
	}
	if p.at < len(p.s) && p.s[p.at]|0x20 == 'e' {
		whole = false
		p.at++
		if p.at < len(p.s) && (p.s[p.at] == '+' || p.s[p.at] == '-') {
			p.at++
		}
		if digits() == 0 {
			return "", false
		}
	}
	if p.at < len(p.s) && (isLetterOrDigit(p.s[p.at]) || p.s[p.at] == '.') {
		return "", false
	}
	text := p.s[start:p.at]
	if whole {
		if text == "-0" {
			text = "0"
		}
		return text, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return "", false
	}
	return string(schema.AppendDouble(nil, f)), true
}

// appendText appends a value as json_tuple and get_json_object show it: texts without quotes.
func (v *jsonValue) appendText(dst []byte) []byte {
	if v.kind == jsonText {
		return append(dst, v.text...)
	}
	return v.appendJSON(dst)
}

// appendJSON appends a value as Jackson writes it.
func (v *jsonValue) appendJSON(dst []byte) []byte {
	switch v.kind {
	case jsonText:
		return appendQuotedJSON(dst, v.text)
	case jsonArray:
		dst = append(dst, '[')
		for i := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.items[i].appendJSON(dst)
		}
		return append(dst, ']')
	case jsonObject:
		dst = append(dst, '{')
		for i := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendQuotedJSON(dst, v.names[i]), ':')
			dst = v.items[i].appendJSON(dst)
		}
		return append(dst, '}')
	}
	return append(dst, v.text...)
}

func appendQuotedJSON(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, '"')
}
