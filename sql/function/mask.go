package function

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// masking is what the mask functions put in place of characters, digits and parts of
// dates; -1 keeps them.
type masking struct {
	upper, lower, digit, other, number, day, month, year int64
	// shows reports whether character i of n stays.
	shows func(i, n int) bool
}

// addMasks registers mask and its like.
func addMasks(r *Registry) {
	for name, shows := range map[string]func(count int) func(i, n int) bool{
		"mask":              func(int) func(int, int) bool { return func(int, int) bool { return false } },
		"mask_first_n":      func(c int) func(int, int) bool { return func(i, _ int) bool { return i >= c } },
		"mask_last_n":       func(c int) func(int, int) bool { return func(i, n int) bool { return i < n-c } },
		"mask_show_first_n": func(c int) func(int, int) bool { return func(i, _ int) bool { return i < c } },
		"mask_show_last_n":  func(c int) func(int, int) bool { return func(i, n int) bool { return i >= n-c } },
	} {
		r.addConstant(name, func(args []schema.Type, constants []*schema.Datum) (Signature, error) {
			m, err := parseMasking(args, constants, name != "mask", shows)
			if err != nil {
				return Signature{}, err
			}
			return maskSignature(args, m)
		})
	}
	r.add("mask_hash", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		if !args[0].IsText() { // there is no hash of anything else
			t := valued(args[0])
			return Signature{Args: args, Result: t, Kernel: func(*Context, int, []Vector) (Vector, error) { return nullOf(t), nil }}, nil
		}
		return Signature{Args: args, Result: schema.StringType,
			Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				x := textsOf(args[0])
				return func(dst []byte, i int) ([]byte, bool) {
					h := sha256.Sum256(x.at(i))
					return hex.AppendEncode(dst, h[:]), true
				}, nil
			})}, nil
	})
}

func parseMasking(args []schema.Type, constants []*schema.Datum, counted bool, shows func(int) func(int, int) bool) (masking, error) {
	m := masking{upper: 'X', lower: 'x', digit: 'n', other: -1, number: 1, day: 1, month: 0, year: 0}
	if err := arity(args, 1, 10); err != nil {
		return m, err
	}
	if !args[0].IsPrimitive() && args[0].Kind != schema.Void {
		return m, fault.Userf("it takes a primitive value, not %s", args[0])
	}
	rest := constants[1:]
	for i, c := range rest {
		if c == nil && args[i+1].Kind != schema.Void {
			return m, fault.Userf("argument %d must be constant", i+2)
		}
	}
	count := int64(4)
	number := func(c *schema.Datum, to *int64, character bool) {
		switch {
		case c == nil || c.Null:
		case c.Type.IsInteger():
			*to = c.I
		case character && c.S != "":
			first, _ := utf8.DecodeRuneInString(c.S)
			*to = int64(first)
		case c.S != "":
			if n, err := strconv.ParseInt(c.S, 10, 32); err == nil {
				*to = n
			}
		}
	}
	if counted {
		if len(rest) > 0 {
			number(rest[0], &count, false)
			rest = rest[1:]
		}
		count = max(count, 0)
	}
	for k, to := range []*int64{&m.upper, &m.lower, &m.digit, &m.other, &m.number, &m.day, &m.month, &m.year} {
		if k < len(rest) {
			number(rest[k], to, k < 4)
		}
	}
	if m.number < 0 || m.number > 9 {
		m.number = 1
	}
	if m.day != -1 && (m.day < 1 || m.day > 31) {
		m.day = 1
	}
	if m.month != -1 && (m.month < 0 || m.month > 11) {
		m.month = 0
	}
	m.shows = shows(int(count))
	return m, nil
}

func (m *masking) character(c rune) rune {
	by := m.other
	switch {
	case unicode.IsUpper(c):
		by = m.upper
	case unicode.IsLower(c):
		by = m.lower
	case unicode.IsDigit(c):
		by = m.digit
	}
	if by == -1 {
		return c
	}
	return rune(by)
}

// integer masks the digits of a number.
func (m *masking) integer(v int64) int64 {
	negative := v < 0
	text := strconv.FormatInt(v, 10)
	if negative {
		text = text[1:]
	}
	var out int64
	for i, c := range []byte(text) {
		d := int64(c - '0')
		if !m.shows(i, len(text)) {
			d = m.number
		}
		out = out*10 + d
	}
	if negative {
		return -out
	}
	return out
}

func maskSignature(args []schema.Type, m masking) (Signature, error) {
	t := valued(args[0])
	s := Signature{Args: append([]schema.Type{t}, args[1:]...), Result: t}
	switch {
	case t.IsText():
		width := 0
		if t.Kind == schema.Char {
			width = int(t.Length)
			s.Result = schema.CharType(255)
		}
		s.Kernel = textOfFirst(s.Result, func(dst, text []byte) []byte {
			runes := []rune(string(text))
			for len(runes) < width { // the blanks of a char count
				runes = append(runes, ' ')
			}
			for i, c := range runes {
				if !m.shows(i, len(runes)) {
					c = m.character(c)
				}
				dst = utf8.AppendRune(dst, c)
			}
			for width > 0 && len(dst) > 0 && dst[len(dst)-1] == ' ' {
				dst = dst[:len(dst)-1]
			}
			return dst
		})
	case t.IsInteger():
		s.Kernel = byWidth(t, maskInts[int8](t, m), maskInts[int16](t, m), maskInts[int32](t, m), maskInts[int64](t, m))
	case t.Kind == schema.Date:
		s.Kernel = firstOnly(fixed1n(t, func(x int32) (int32, bool) {
			y, mo, d := schema.CivilOf(int64(x))
			if m.year != -1 {
				y = int(m.year)
			}
			if m.month != -1 {
				mo = int(m.month) + 1
			}
			if m.day != -1 {
				d = int(m.day)
			}
			days, ok := schema.DaysOf(y, mo, d)
			return int32(days), ok
		}))
	default: // nothing else can be masked
		s.Kernel = func(*Context, int, []Vector) (Vector, error) { return nullOf(t), nil }
	}
	return s, nil
}

// firstOnly leaves a kernel its first argument: the others were seen at binding.
func firstOnly(k Kernel) Kernel {
	return func(c *Context, n int, args []Vector) (Vector, error) { return lift(k, false)(c, n, args[:1]) }
}

func maskInts[T int8 | int16 | int32 | int64](t schema.Type, m masking) Kernel {
	return firstOnly(fixed1(t, func(x T) T { return T(m.integer(int64(x))) }))
}

// textOfFirst is a text function of the first argument.
func textOfFirst(result schema.Type, f func(dst, s []byte) []byte) Kernel {
	return firstOnly(eachText(result, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
		x := textsOf(args[0])
		var room []byte
		return func(dst []byte, i int) ([]byte, bool) {
			room = f(room[:0], x.at(i))
			return append(dst, room...), true
		}, nil
	}))
}
