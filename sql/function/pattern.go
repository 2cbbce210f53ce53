package function

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func addPatterns(r *Registry) {
	r.add("like", func(args []schema.Type) (Signature, error) {
		want, err := shaped("tt?t", args)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: want, Result: schema.BooleanType, Kernel: likeKernel()}, nil
	})
	r.add("rlike regexp", func(args []schema.Type) (Signature, error) {
		want, err := shaped("tt", args)
		if err != nil {
			return Signature{}, err
		}
		var kept atomic.Pointer[pattern]
		return Signature{Args: want, Result: schema.BooleanType,
			Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
				var failed error
				v, err := eachBool(func(_ *Context, args []Vector) (func(int) (bool, bool), error) {
					s, p := textsOf(args[0]), textsOf(args[1])
					return func(i int) (bool, bool) {
						re, err := compiledPattern(&kept, p.at(i))
						if err == nil {
							var ok bool
							if ok, err = re.matches(s.at(i)); err == nil {
								return ok, true
							}
						}
						failed = err
						return false, false
					}, nil
				})(c, n, args)
				if failed != nil {
					return Vector{}, failed
				}
				return v, err
			}}, nil
	})
	addRegexpText(r, "regexp_replace", "ttt", func(re *pattern, dst, s []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool, error) {
		dst, err := re.replaceAll(dst, s, t[2].at(i))
		return dst, true, err
	})
	addRegexpText(r, "regexp_extract", "tt?n", func(re *pattern, dst, s []byte, _ []texts, n []func(int) int64, i int) ([]byte, bool, error) {
		group := int64(1)
		if len(n) > 0 {
			group = n[0](i)
		}
		dst, err := re.extract(dst, s, group)
		return dst, true, err
	})
}

func addRegexpText(r *Registry, name, shape string,
	f func(re *pattern, dst, s []byte, t []texts, n []func(int) int64, i int) ([]byte, bool, error)) {
	r.add(name, func(args []schema.Type) (Signature, error) {
		want, err := shaped(shape, args)
		if err != nil {
			return Signature{}, err
		}
		var kept atomic.Pointer[pattern]
		return Signature{Args: want, Result: schema.StringType,
			Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
				var failed error
				v, err := eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
					t, ints := shapedArgs(want, args)
					return func(dst []byte, i int) ([]byte, bool) {
						if failed != nil {
							return dst, false
						}
						re, err := compiledPattern(&kept, t[1].at(i))
						if err != nil {
							failed = err
							return dst, false
						}
						out, ok, err := f(re, dst, t[0].at(i), t, ints, i)
						if err != nil {
							failed = err
							return dst, false
						}
						return out, ok
					}, nil
				})(c, n, args)
				if failed != nil {
					return Vector{}, failed
				}
				return v, err
			}}, nil
	})
}

// likeKernel matches LIKE patterns; the last one used is kept compiled, so a
// constant pattern is compiled once.
func likeKernel() Kernel {
	var kept atomic.Pointer[likePattern]
	return eachBool(func(_ *Context, args []Vector) (func(int) (bool, bool), error) {
		s, p := textsOf(args[0]), textsOf(args[1])
		escape := []byte(`\`)
		var escapes *texts
		if len(args) == 3 {
			e := textsOf(args[2])
			escapes = &e
		}
		return func(i int) (bool, bool) {
			esc := escape
			if escapes != nil {
				esc = escapes.at(i)
			}
			m := kept.Load()
			if m == nil || m.text != string(p.at(i)) || m.escape != string(esc) {
				m = compileLike(p.at(i), esc)
				kept.Store(m)
			}
			return m.matches(s.at(i)), true
		}, nil
	})
}

// likePattern is a LIKE pattern: literal pieces, '_' and '%'.
type likePattern struct {
	text, escape string
	kind         likeKind
	literal      []byte    // of the simple kinds
	parts        [][]token // of likeAny: what lies between the %
}

type likeKind uint8

const (
	likeEquals likeKind = iota
	likePrefix
	likeSuffix
	likeContains
	likeAny
)

// token is a literal, or one arbitrary code point when nil.
type token []byte

func compileLike(p, escape []byte) *likePattern {
	m := &likePattern{text: string(p), escape: string(escape)}
	var parts [][]token
	var part []token
	var literal []byte
	flush := func() {
		if len(literal) > 0 {
			part = append(part, literal)
			literal = nil
		}
	}
	wild := false // a '_' somewhere
	for i := 0; i < len(p); {
		switch {
		case len(escape) > 0 && bytes.HasPrefix(p[i:], escape) && i+len(escape) < len(p):
			i += len(escape)
			_, size := utf8.DecodeRune(p[i:])
			literal = append(literal, p[i:i+size]...)
			i += size
		case p[i] == '%':
			flush()
			parts = append(parts, part)
			part = nil
			i++
		case p[i] == '_':
			flush()
			part = append(part, nil)
			wild = true
			i++
		default:
			literal = append(literal, p[i])
			i++
		}
	}
	flush()
	parts = append(parts, part)
	one := func(k int) []byte {
		if len(parts[k]) == 0 {
			return []byte{}
		}
		return parts[k][0]
	}
	empty := func(k int) bool { return len(parts[k]) == 0 }
	switch {
	case wild:
		m.kind = likeAny
	case len(parts) == 1:
		m.kind, m.literal = likeEquals, one(0)
	case len(parts) == 2 && empty(1):
		m.kind, m.literal = likePrefix, one(0)
	case len(parts) == 2 && empty(0):
		m.kind, m.literal = likeSuffix, one(1)
	case len(parts) == 3 && empty(0) && empty(2):
		m.kind, m.literal = likeContains, one(1)
	default:
		m.kind = likeAny
	}
	if m.kind == likeAny {
		m.parts = parts
	}
	return m
}

func (m *likePattern) matches(s []byte) bool {
	switch m.kind {
	case likeEquals:
		return bytes.Equal(s, m.literal)
	case likePrefix:
		return bytes.HasPrefix(s, m.literal)
	case likeSuffix:
		return bytes.HasSuffix(s, m.literal)
	case likeContains:
		return bytes.Contains(s, m.literal)
	}
	// The first part is anchored at the start, the last one at the end; each
	// in between is taken at its leftmost place, which is never a worse choice.
	n := matchTokens(s, m.parts[0])
	if n < 0 {
		return false
	}
	s = s[n:]
	last := len(m.parts) - 1
	if last == 0 {
		return len(s) == 0
	}
	for _, part := range m.parts[1:last] {
		if len(part) == 0 {
			continue
		}
		found := false
		for at := 0; ; {
			if n := matchTokens(s[at:], part); n >= 0 {
				s, found = s[at+n:], true
				break
			}
			if at >= len(s) {
				break
			}
			_, size := utf8.DecodeRune(s[at:])
			at += size
		}
		if !found {
			return false
		}
	}
	return matchEnd(s, m.parts[last])
}

// matchTokens returns the length of the prefix of s that tokens match, or -1.
func matchTokens(s []byte, tokens []token) int {
	n := 0
	for _, t := range tokens {
		if t == nil {
			if n >= len(s) {
				return -1
			}
			_, size := utf8.DecodeRune(s[n:])
			n += size
			continue
		}
		if !bytes.HasPrefix(s[n:], t) {
			return -1
		}
		n += len(t)
	}
	return n
}

// matchEnd reports whether tokens match a suffix of s.
func matchEnd(s []byte, tokens []token) bool {
	for k := len(tokens) - 1; k >= 0; k-- {
		t := tokens[k]
		if t == nil {
			if len(s) == 0 {
				return false
			}
			_, size := utf8.DecodeLastRune(s)
			s = s[:len(s)-size]
			continue
		}
		if !bytes.HasSuffix(s, t) {
			return false
		}
		s = s[:len(s)-len(t)]
	}
	return true
}

// matchTimeout bounds one match of a pattern that needs backtracking.
const matchTimeout = 2 * time.Second

// pattern is a Java regular expression: run by Go's linear-time engine when
// the pattern means the same there, else by regexp2's backtracking one.
type pattern struct {
	text string
	fast *regexp.Regexp
	// slow is made at need when there is a fast one: for texts with line ends,
	// if the pattern is sensitive to them.
	slow      *regexp2.Regexp
	once      sync.Once
	onceErr   error
	sensitive bool
	literal   []byte // the pattern when it has no operators: not nil
}

// linear reports whether Go's engine gives Java's answer for s.
func (p *pattern) linear(s []byte) bool { return p.fast != nil && (!p.sensitive || !lineEnds(s)) }

func compiledPattern(kept *atomic.Pointer[pattern], text []byte) (*pattern, error) {
	if p := kept.Load(); p != nil && p.text == string(text) {
		return p, nil
	}
	p, err := compilePattern(string(text))
	if err != nil {
		return nil, err
	}
	kept.Store(p)
	return p, nil
}

func compilePattern(text string) (*pattern, error) {
	p := &pattern{text: text}
	switch {
	case len(text) == 2 && text[0] == '\\' && !isLetterOrDigit(text[1]) && text[1] < utf8.RuneSelf:
		p.literal = []byte(text[1:])
	case text != "" && !strings.ContainsAny(text, `\.[]{}()*+?^$|`):
		p.literal = []byte(text)
	}
	if sameInGo(text) {
		if re, err := regexp.Compile(text); err == nil {
			p.fast, p.sensitive = re, strings.ContainsAny(text, ".$")
			return p, nil
		}
	}
	if _, err := p.backtracking(); err != nil {
		return nil, err
	}
	return p, nil
}

// sameInGo reports whether Go's regexp reads a pattern as Java does: escapes
// both know, no possessive quantifiers, look-around or back-references (which Go
// refuses itself), no class intersections. That '.' and $ have another idea of
// a line end is looked after when matching.
func sameInGo(p string) bool {
	class := false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
			if i == len(p) || p[i] >= utf8.RuneSelf || isLetterOrDigit(p[i]) && !strings.ContainsRune("dDwWsbBtnrf", rune(p[i])) {
				return false
			}
		case class:
			if c == '[' || c == '&' && i+1 < len(p) && p[i+1] == '&' {
				return false
			}
			if c == ']' {
				class = false
			}
		case c == '[':
			class = true
			if i+1 < len(p) && p[i+1] == '^' {
				i++
			}
			if i+1 < len(p) && p[i+1] == ']' {
				return false
			}
		case c == '(' && i+1 < len(p) && p[i+1] == '?':
			if !strings.HasPrefix(p[i:], "(?:") && !strings.HasPrefix(p[i:], "(?i)") {
				return false
			}
		}
	}
	return true
}

func isLetterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func (p *pattern) failed(err error) error {
	return fault.Userf("matching %q: %w", p.text, err)
}

// lineEnds reports whether s has a character at which '.' and $ differ between
// Java and Go.
func lineEnds(s []byte) bool {
	return bytes.ContainsAny(s, "\r\n\u0085\u2028\u2029")
}

// backtracking returns the pattern for regexp2.
func (p *pattern) backtracking() (*regexp2.Regexp, error) {
	p.once.Do(func() {
		p.slow, p.onceErr = regexp2.Compile(fromJava(p.text))
		if p.onceErr != nil {
			p.onceErr = fault.Userf("%q is not a regular expression: %w", p.text, p.onceErr)
			return
		}
		p.slow.MatchTimeout = matchTimeout
	})
	return p.slow, p.onceErr
}

// matches is Java's Matcher.find.
func (p *pattern) matches(s []byte) (bool, error) {
	if p.linear(s) {
		return p.fast.Match(s), nil
	}
	re, err := p.backtracking()
	if err != nil {
		return false, err
	}
	ok, err := re.MatchString(string(s))
	if err != nil {
		return false, p.failed(err)
	}
	return ok, nil
}

// extract appends a group of the first match, or nothing.
func (p *pattern) extract(dst, s []byte, group int64) ([]byte, error) {
	if p.linear(s) {
		if group < 0 || group > int64(p.fast.NumSubexp()) {
			return dst, fault.Userf("regexp_extract: %q has %d groups, not %d", p.text, p.fast.NumSubexp(), group)
		}
		if m := p.fast.FindSubmatchIndex(s); m != nil && m[2*group] >= 0 {
			dst = append(dst, s[m[2*group]:m[2*group+1]]...)
		}
		return dst, nil
	}
	re, err := p.backtracking()
	if err != nil {
		return dst, err
	}
	m, err := re.FindStringMatch(string(s))
	if err != nil {
		return dst, p.failed(err)
	}
	if m == nil {
		return dst, nil
	}
	if group < 0 || group >= int64(m.GroupCount()) {
		return dst, fault.Userf("regexp_extract: %q has %d groups, not %d", p.text, m.GroupCount()-1, group)
	}
	return append(dst, m.GroupByNumber(int(group)).String()...), nil
}

// replaceAll is Java's Matcher.replaceAll: $n and \x in the replacement.
func (p *pattern) replaceAll(dst, s, by []byte) ([]byte, error) {
	expand := func(group func(n int) (string, bool)) error {
		for i := 0; i < len(by); i++ {
			switch {
			case by[i] == '\\' && i+1 < len(by):
				i++
				dst = append(dst, by[i])
			case by[i] == '$':
				if i+1 == len(by) || by[i+1] < '0' || by[i+1] > '9' {
					return fault.Userf("regexp_replace: no group number after $ in %q", by)
				}
				i++
				n := int(by[i] - '0')
				text, ok := group(n)
				if !ok {
					return fault.Userf("regexp_replace: %q has no group %d", p.text, n)
				}
				for i+1 < len(by) && by[i+1] >= '0' && by[i+1] <= '9' { // as many digits as name a group
					more, ok := group(n*10 + int(by[i+1]-'0'))
					if !ok {
						break
					}
					n, text = n*10+int(by[i+1]-'0'), more
					i++
				}
				dst = append(dst, text...)
			default:
				dst = append(dst, by[i])
			}
		}
		return nil
	}
	if p.linear(s) {
		at := 0
		for _, m := range p.fast.FindAllSubmatchIndex(s, -1) {
			dst = append(dst, s[at:m[0]]...)
			err := expand(func(n int) (string, bool) {
				if 2*n >= len(m) {
					return "", false
				}
				if m[2*n] < 0 {
					return "", true
				}
				return string(s[m[2*n]:m[2*n+1]]), true
			})
			if err != nil {
				return dst, err
			}
			at = m[1]
		}
		return append(dst, s[at:]...), nil
	}
	re, err := p.backtracking()
	if err != nil {
		return dst, err
	}
	runes := []rune(string(s))
	at := 0
	m, err := re.FindRunesMatch(runes)
	for m != nil && err == nil {
		dst = append(dst, string(runes[at:m.RuneIndex])...)
		if err := expand(func(n int) (string, bool) {
			if n >= m.GroupCount() {
				return "", false
			}
			return m.GroupByNumber(n).String(), true
		}); err != nil {
			return dst, err
		}
		at = m.RuneIndex + m.RuneLength
		m, err = re.FindNextMatch(m)
	}
	if err != nil {
		return dst, p.failed(err)
	}
	return append(dst, string(runes[at:])...), nil
}

// each calls f for the matches in s, one after the other.
func (p *pattern) each(s []byte, f func(from, to int)) error {
	if p.linear(s) {
		for _, m := range p.fast.FindAllIndex(s, -1) {
			f(m[0], m[1])
		}
		return nil
	}
	re, err := p.backtracking()
	if err != nil {
		return err
	}
	runes := []rune(string(s))
	at := make([]int, len(runes)+1) // bytes before each
	for i, r := range runes {
		at[i+1] = at[i] + utf8.RuneLen(r)
	}
	if at[len(runes)] != len(s) {
		return fault.Userf("%q is not UTF-8", s)
	}
	m, err := re.FindRunesMatch(runes)
	for m != nil && err == nil {
		f(at[m.RuneIndex], at[m.RuneIndex+m.RuneLength])
		m, err = re.FindNextMatch(m)
	}
	if err != nil {
		return p.failed(err)
	}
	return nil
}
