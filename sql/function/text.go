package function

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// maxTextBytes bounds the text of one result array, so that repeat and its like
// can't fill the memory.
const maxTextBytes = 1 << 28

func tooMuchText() error {
	return fault.Userf("the text of one batch of rows exceeds %d MiB", maxTextBytes>>20)
}

// rowText computes a text from row i of text and integer arguments.
type rowText func(dst []byte, t []texts, n []func(int) int64, i int) ([]byte, bool)

// addTextFunction registers a strict function with a string result. shape has a
// letter an argument: t for text (numbers and dates are cast), n for an
// integer; optional ones come after a '?'.
func addTextFunction(r *Registry, names, shape string, f rowText) {
	r.add(names, func(args []schema.Type) (Signature, error) {
		want, err := shaped(shape, args)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: want, Result: schema.StringType,
			Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				t, n := shapedArgs(want, args)
				return func(dst []byte, i int) ([]byte, bool) { return f(dst, t, n, i) }, nil
			})}, nil
	})
}

// addIntFunction is addTextFunction for an int result.
func addIntFunction(r *Registry, names, shape string, f func(t []texts, n []func(int) int64, i int) (int32, bool)) {
	r.add(names, func(args []schema.Type) (Signature, error) {
		want, err := shaped(shape, args)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: want, Result: schema.IntType,
			Kernel: eachValid(schema.IntType, func(_ *Context, args []Vector) (func(int) (int32, bool), error) {
				t, n := shapedArgs(want, args)
				return func(i int) (int32, bool) { return f(t, n, i) }, nil
			})}, nil
	})
}

// shaped returns the argument types that a shape wants.
func shaped(shape string, args []schema.Type) ([]schema.Type, error) {
	least, most := len(shape), len(shape)
	if k := bytes.IndexByte([]byte(shape), '?'); k >= 0 {
		least, most = k, most-1
		shape = shape[:k] + shape[k+1:]
	}
	if err := arity(args, least, most); err != nil {
		return nil, err
	}
	want := make([]schema.Type, len(args))
	for i, t := range args {
		switch {
		case shape[i] == 't' && t.IsText():
			want[i] = t
		case shape[i] == 't' && (t.IsPrimitive() || t.Kind == schema.Void):
			want[i] = schema.StringType
		case shape[i] == 'n' && (t.IsInteger() || t.Kind == schema.Void):
			want[i] = t
			if t.Kind == schema.Void {
				want[i] = schema.IntType
			}
		case shape[i] == 'n':
			return nil, fault.Userf("argument %d must be an integer, not %s", i+1, t)
		default:
			return nil, fault.Userf("argument %d must be text, not %s", i+1, t)
		}
	}
	return want, nil
}

func shapedArgs(want []schema.Type, args []Vector) (t []texts, n []func(int) int64) {
	for i, v := range args {
		if want[i].IsText() {
			t = append(t, textsOf(v))
		} else {
			n = append(n, integers(v))
		}
	}
	return t, n
}

func addText(r *Registry) {
	addTextFunction(r, "upper ucase", "t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		return mapCase(dst, t[0].at(i), 'a', 'z', unicode.ToUpper), true
	})
	addTextFunction(r, "lower lcase", "t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		return mapCase(dst, t[0].at(i), 'A', 'Z', unicode.ToLower), true
	})
	addTextFunction(r, "initcap", "t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		start := true
		for _, c := range string(t[0].at(i)) {
			if start {
				dst = utf8.AppendRune(dst, unicode.ToUpper(c))
			} else {
				dst = utf8.AppendRune(dst, unicode.ToLower(c))
			}
			start = unicode.IsSpace(c)
		}
		return dst, true
	})
	addTextFunction(r, "substr substring mid", "tn?n", func(dst []byte, t []texts, n []func(int) int64, i int) ([]byte, bool) {
		length := int64(1) << 40
		if len(n) > 1 {
			length = n[1](i)
		}
		return append(dst, substring(t[0].at(i), n[0](i), length)...), true
	})
	addTextFunction(r, "trim", "t?t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		if len(t) > 1 {
			return append(dst, bytes.Trim(t[0].at(i), string(t[1].at(i)))...), true
		}
		return append(dst, bytes.Trim(t[0].at(i), " ")...), true
	})
	addTextFunction(r, "ltrim", "t?t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		if len(t) > 1 {
			return append(dst, bytes.TrimLeft(t[0].at(i), string(t[1].at(i)))...), true
		}
		return append(dst, bytes.TrimLeft(t[0].at(i), " ")...), true
	})
	addTextFunction(r, "rtrim", "t?t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		if len(t) > 1 {
			return append(dst, bytes.TrimRight(t[0].at(i), string(t[1].at(i)))...), true
		}
		return append(dst, bytes.TrimRight(t[0].at(i), " ")...), true
	})
	addTextFunction(r, "replace", "ttt", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		s, old, by := t[0].at(i), t[1].at(i), t[2].at(i)
		if len(old) == 0 {
			return append(dst, s...), true
		}
		for {
			k := bytes.Index(s, old)
			if k < 0 {
				return append(dst, s...), true
			}
			dst = append(append(dst, s[:k]...), by...)
			s = s[k+len(old):]
		}
	})
	addTextFunction(r, "reverse", "t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		for s := t[0].at(i); len(s) > 0; {
			_, size := utf8.DecodeLastRune(s)
			dst = append(dst, s[len(s)-size:]...)
			s = s[:len(s)-size]
		}
		return dst, true
	})
	addTextFunction(r, "repeat", "tn", func(dst []byte, t []texts, n []func(int) int64, i int) ([]byte, bool) {
		s := t[0].at(i)
		for k := n[0](i); k > 0 && len(s) > 0 && len(dst) <= maxTextBytes; k-- {
			dst = append(dst, s...)
		}
		return dst, true
	})
	addTextFunction(r, "space", "n", func(dst []byte, _ []texts, n []func(int) int64, i int) ([]byte, bool) {
		for k := n[0](i); k > 0 && len(dst) <= maxTextBytes; k-- {
			dst = append(dst, ' ')
		}
		return dst, true
	})
	addTextFunction(r, "chr", "n", func(dst []byte, _ []texts, n []func(int) int64, i int) ([]byte, bool) {
		k := n[0](i)
		if k < 0 {
			return dst, true
		}
		return utf8.AppendRune(dst, rune(k%256)), true
	})
	addTextFunction(r, "substring_index", "ttn", func(dst []byte, t []texts, n []func(int) int64, i int) ([]byte, bool) {
		return append(dst, substringIndex(t[0].at(i), t[1].at(i), n[0](i))...), true
	})
	addTextFunction(r, "translate", "ttt", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		from, to := []rune(string(t[1].at(i))), []rune(string(t[2].at(i)))
	next:
		for _, c := range string(t[0].at(i)) {
			for k, f := range from {
				if f == c {
					if k < len(to) {
						dst = utf8.AppendRune(dst, to[k])
					}
					continue next
				}
			}
			dst = utf8.AppendRune(dst, c)
		}
		return dst, true
	})
	r.add("length", func(args []schema.Type) (Signature, error) {
		if len(args) == 1 && args[0].Kind == schema.Binary {
			return Signature{Args: args, Result: schema.IntType, Kernel: byteLength}, nil
		}
		return r.scalars["char_length"](args)
	})
	addIntFunction(r, "char_length character_length", "t", func(t []texts, _ []func(int) int64, i int) (int32, bool) {
		return int32(utf8.RuneCount(t[0].at(i))), true
	})
	addIntFunction(r, "octet_length", "t", func(t []texts, _ []func(int) int64, i int) (int32, bool) {
		return int32(len(t[0].at(i))), true
	})
	addIntFunction(r, "ascii", "t", func(t []texts, _ []func(int) int64, i int) (int32, bool) {
		s := t[0].at(i)
		if len(s) == 0 {
			return 0, true
		}
		return int32(s[0]), true
	})
	addIntFunction(r, "instr", "tt?nn", func(t []texts, n []func(int) int64, i int) (int32, bool) {
		from, which := int64(1), int64(1)
		if len(n) > 0 {
			from = n[0](i)
		}
		if len(n) > 1 {
			which = n[1](i)
		}
		return occurrence(t[0].at(i), t[1].at(i), from, which)
	})
	addIntFunction(r, "locate", "tt?n", func(t []texts, n []func(int) int64, i int) (int32, bool) {
		from := int64(1)
		if len(n) > 0 {
			from = n[0](i)
		}
		return position(t[1].at(i), t[0].at(i), from), true
	})
	locate := r.scalars["locate"]
	r.add("locate position", func(args []schema.Type) (Signature, error) {
		given := append([]schema.Type(nil), args...)
		if len(args) == 3 && args[2].IsText() { // a start may be text
			given[2] = schema.IntType
		}
		s, err := locate(given)
		if err != nil || len(args) < 3 {
			return s, err
		}
		k, zero := s.Kernel, Vector{Array: batch.NewFixed(schema.IntType.Arrow(), []int32{0}, nil), Const: true}
		s.Args[2] = schema.IntType
		s.Kernel = func(c *Context, n int, args []Vector) (Vector, error) { // of a NULL start it is 0
			which, known := make([]int32, n), validBits(n, args[2])
			for i := range which {
				which[i] = 1 - int32(known[i>>3]>>(uint(i)&7)&1)
			}
			return k(c, n, []Vector{args[0], args[1], Select(schema.IntType, which, []Vector{args[2], zero})})
		}
		return s, nil
	})
	r.add("concat ||", bindConcat)
	r.add("concat_ws", bindConcatWS)
	addTextFunction(r, "lpad", "tn?t", func(dst []byte, t []texts, n []func(int) int64, i int) ([]byte, bool) {
		return padded(dst, t[0].at(i), n[0](i), padOf(t, i), true)
	})
	addTextFunction(r, "rpad", "tn?t", func(dst []byte, t []texts, n []func(int) int64, i int) ([]byte, bool) {
		return padded(dst, t[0].at(i), n[0](i), padOf(t, i), false)
	})
}

func byteLength(_ *Context, n int, args []Vector) (Vector, error) {
	return eachValid(schema.IntType, func(_ *Context, args []Vector) (func(int) (int32, bool), error) {
		x := textsOf(args[0])
		return func(i int) (int32, bool) { return int32(len(x.at(i))), true }, nil
	})(nil, n, args)
}

// mapCase changes letters from..to by 0x20, others by f.
func mapCase(dst, s []byte, from, to byte, f func(rune) rune) []byte {
	start := len(dst)
	for _, c := range s {
		if c >= utf8.RuneSelf {
			dst = dst[:start]
			for _, r := range string(s) {
				dst = utf8.AppendRune(dst, f(r))
			}
			return dst
		}
		if c >= from && c <= to {
			c ^= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// firstRunes returns the first n code points of s.
func firstRunes(s []byte, n int) []byte {
	if len(s) <= n {
		return s
	}
	i := 0
	for ; n > 0 && i < len(s); n-- {
		_, size := utf8.DecodeRune(s[i:])
		i += size
	}
	return s[:i]
}

// substring is UDFSubstr: 1-based, 0 counts as 1, negative from the end, by
// code point; a start outside the text gives the empty text.
func substring(s []byte, pos, length int64) []byte {
	if length <= 0 {
		return nil
	}
	n := int64(utf8.RuneCount(s))
	if pos > n || pos < -n {
		return nil
	}
	start := int64(0)
	switch {
	case pos > 0:
		start = pos - 1
	case pos < 0:
		start = n + pos
	}
	length = min(length, n-start)
	if n == int64(len(s)) { // one byte each
		return s[start : start+length]
	}
	s = s[len(firstRunes(s, int(start))):]
	return firstRunes(s, int(length))
}

// position returns where sub starts in s, at or after code point from (1-based),
// or 0.
func position(s, sub []byte, from int64) int32 {
	if from < 1 || from > int64(len(s))+1 {
		return 0
	}
	skipped := firstRunes(s, int(from-1))
	if utf8.RuneCount(skipped) < int(from-1) {
		return 0
	}
	k := bytes.Index(s[len(skipped):], sub)
	if k < 0 {
		return 0
	}
	return int32(utf8.RuneCount(s[:len(skipped)+k])) + 1
}

// padded is lpad and rpad: to exactly length code points, cut if longer; an
// empty pad or negative length gives NULL.
func padded(dst, s []byte, length int64, pad []byte, left bool) ([]byte, bool) {
	if length < 0 || len(pad) == 0 {
		return dst, false
	}
	length = min(length, maxTextBytes)
	n := int64(utf8.RuneCount(s))
	if n >= length {
		return append(dst, firstRunes(s, int(length))...), true
	}
	if !left {
		dst = append(dst, s...)
	}
	missing, width := length-n, int64(utf8.RuneCount(pad))
	for missing > 0 {
		if missing < width {
			pad = firstRunes(pad, int(missing))
		}
		dst = append(dst, pad...)
		missing -= width
	}
	if left {
		dst = append(dst, s...)
	}
	return dst, true
}

func substringIndex(s, sep []byte, count int64) []byte {
	if len(sep) == 0 || count == 0 {
		return nil
	}
	if count > 0 {
		at := 0
		for ; count > 0; count-- {
			k := bytes.Index(s[at:], sep)
			if k < 0 {
				return s
			}
			at += k + len(sep)
		}
		return s[:at-len(sep)]
	}
	at := len(s)
	for ; count < 0; count++ {
		k := bytes.LastIndex(s[:at], sep)
		if k < 0 {
			return s
		}
		at = k
	}
	return s[at+len(sep):]
}

// padOf is the text that lpad and rpad fill with: blanks unless given.
func padOf(t []texts, i int) []byte {
	if len(t) < 2 {
		return []byte{' '}
	}
	return t[1].at(i)
}

// occurrence returns where sub starts in s for the n-th time, from code point from on;
// from the end backwards when from is negative. NULL when n isn't positive.
func occurrence(s, sub []byte, from, n int64) (int32, bool) {
	if n <= 0 {
		return 0, false
	}
	if from == 0 {
		return 0, true
	}
	if from > 0 {
		for at := from; ; {
			k := position(s, sub, at)
			if n--; k == 0 || n == 0 {
				return k, true
			}
			at = int64(k) + 1
		}
	}
	// The last start that counts is code point length+from+1.
	length := int64(utf8.RuneCount(s))
	last := length + from + 1
	for at := last; at >= 1; at-- {
		if position(s, sub, at) == int32(at) {
			if n--; n == 0 {
				return int32(at), true
			}
		}
	}
	return 0, true
}
