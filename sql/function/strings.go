package function

import (
	"bytes"
	"encoding/base64"
	"math/bits"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addStrings registers the less common functions of text.
func addStrings(r *Registry) {
	r.add("elt", bindElt)
	r.add("field", bindField)
	addIntFunction(r, "find_in_set", "tt", func(t []texts, _ []func(int) int64, i int) (int32, bool) {
		s, list := t[0].at(i), t[1].at(i)
		if bytes.IndexByte(s, ',') >= 0 {
			return 0, true
		}
		for k := int32(1); ; k++ {
			head, rest, more := bytes.Cut(list, []byte{','})
			if bytes.Equal(head, s) {
				return k, true
			}
			if !more {
				return 0, true
			}
			list = rest
		}
	})
	addIntFunction(r, "levenshtein", "tt", func(t []texts, _ []func(int) int64, i int) (int32, bool) {
		return levenshtein([]rune(string(t[0].at(i))), []rune(string(t[1].at(i)))), true
	})
	addTextFunction(r, "soundex", "t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		return soundex(dst, t[0].at(i)), true
	})
	addTextFunction(r, "quote", "t", func(dst []byte, t []texts, _ []func(int) int64, i int) ([]byte, bool) {
		dst = append(dst, '\'')
		for _, c := range t[0].at(i) {
			if c == '\'' {
				dst = append(dst, '\\')
			}
			dst = append(dst, c)
		}
		return append(dst, '\''), true
	})
	r.add("conv", func(args []schema.Type) (Signature, error) {
		want, err := shaped("tnn", args)
		if err != nil {
			return Signature{}, err
		}
		want[1], want[2] = schema.IntType, schema.IntType
		return Signature{Args: want, Result: schema.StringType,
			Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				s, from, to := textsOf(args[0]), columnOf[int32](args[1]), columnOf[int32](args[2])
				return func(dst []byte, i int) ([]byte, bool) { return convert(dst, s.at(i), int(from.at(i)), int(to.at(i))) }, nil
			})}, nil
	})
	binaryResult := func(name string, f func(dst, s []byte) ([]byte, bool)) {
		r.add(name, func(args []schema.Type) (Signature, error) {
			want, err := shaped("t", args)
			if err != nil {
				return Signature{}, err
			}
			return Signature{Args: want, Result: schema.BinaryType,
				Kernel: eachText(schema.BinaryType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
					x := textsOf(args[0])
					return func(dst []byte, i int) ([]byte, bool) { return f(dst, x.at(i)) }, nil
				})}, nil
		})
	}
	binaryResult("unhex", func(dst, s []byte) ([]byte, bool) {
		high := -1
		if len(s)%2 == 1 {
			high = 0
		}
		for _, c := range s {
			d := hexDigit(c)
			switch {
			case d < 0:
				return dst, false
			case high < 0:
				high = d
			default:
				dst, high = append(dst, byte(high<<4|d)), -1
			}
		}
		return dst, true
	})
	binaryResult("unbase64", func(dst, s []byte) ([]byte, bool) {
		// Characters that aren't base64 are passed over, as commons-codec does.
		clean := make([]byte, 0, len(s))
		for _, c := range s {
			switch {
			case c == '-':
				c = '+'
			case c == '_':
				c = '/'
			case c == '=':
			}
			if isLetterOrDigit(c) || c == '+' || c == '/' {
				clean = append(clean, c)
			}
		}
		if len(clean)%4 == 1 {
			clean = clean[:len(clean)-1]
		}
		dst, err := base64.RawStdEncoding.AppendDecode(dst, clean)
		return dst, err == nil || len(dst) > 0
	})
	r.add("encode", func(args []schema.Type) (Signature, error) {
		want, err := shaped("tt", args)
		if err != nil {
			return Signature{}, err
		}
		return charsetSignature(want, schema.BinaryType, func(charset string, dst, s []byte) ([]byte, bool) {
			return encodeText(charset, dst, s)
		}), nil
	})
	r.add("decode", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
			return Signature{}, err
		}
		if args[0].Kind != schema.Binary && args[0].Kind != schema.Void && !args[0].IsText() || !args[1].IsText() && args[1].Kind != schema.Void {
			return Signature{}, fault.Userf("it takes binary and the name of a character set, not %s and %s", args[0], args[1])
		}
		return charsetSignature([]schema.Type{schema.BinaryType, schema.StringType}, schema.StringType, func(charset string, dst, s []byte) ([]byte, bool) {
			return decodeText(charset, dst, s)
		}), nil
	})
	r.add("split", bindSplit)
	r.add("str_to_map", bindStrToMap)
	r.add("sentences", bindSentences)
	r.add("parse_url", func(args []schema.Type) (Signature, error) {
		want, err := shaped("tt?t", args)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: want, Result: schema.StringType,
			Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				t, _ := shapedArgs(want, args)
				return func(dst []byte, i int) ([]byte, bool) {
					u, ok := parseJavaURL(string(t[0].at(i)))
					if !ok {
						return dst, false
					}
					part := string(t[1].at(i))
					s, ok := u.part(part)
					if len(t) > 2 {
						if part != "QUERY" || !ok {
							return dst, false
						}
						s, ok = queryValue(u.query, string(t[2].at(i)))
					}
					return append(dst, s...), ok
				}, nil
			})}, nil
	})
	for _, any := range []bool{true, false} {
		name := "likeall"
		if any {
			name = "likeany"
		}
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 2, -1); err != nil {
				return Signature{}, err
			}
			for i, t := range args {
				if !t.IsText() && t.Kind != schema.Void {
					return Signature{}, fault.Userf("argument %d must be text, not %s", i+1, t)
				}
			}
			kernels := make([]Kernel, len(args)-1)
			for k := range kernels {
				kernels[k] = lift(likeKernel(), false)
			}
			return Signature{Args: repeated(schema.StringType, len(args)), Result: schema.BooleanType,
				Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
					valid, null := validity(n, args) // NULL when any pattern is, as in Hive
					if null {
						return nullOf(schema.BooleanType), nil
					}
					var out Vector
					for k, p := range args[1:] {
						v, err := kernels[k](c, n, []Vector{args[0], p})
						if err != nil {
							return Vector{}, err
						}
						if k == 0 {
							out = v
						} else {
							out = logic(n, out, v, !any)
						}
					}
					if valid == nil {
						return out, nil
					}
					yes, _ := truth(n, out)
					return Vector{Array: batch.NewBoolean(yes, n, valid)}, nil
				}}, nil
		})
	}
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// bindElt is elt(n, values...): the n-th value as text.
func bindElt(args []schema.Type) (Signature, error) {
	if err := arity(args, 2, -1); err != nil {
		return Signature{}, err
	}
	for i, t := range args {
		if !t.IsPrimitive() && t.Kind != schema.Void {
			return Signature{}, fault.Userf("argument %d must be primitive, not %s", i+1, t)
		}
	}
	if _, err := integer(args[:1]); err != nil && !args[0].IsText() {
		return Signature{}, err
	}
	want := append([]schema.Type{schema.IntType}, repeated(schema.StringType, len(args)-1)...)
	null := nullOf(schema.StringType)
	return Signature{Args: want, Result: schema.StringType, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
		at, known := columnOf[int32](args[0]), validBits(n, args[0])
		arms := append([]Vector{null}, args[1:]...)
		which := make([]int32, n)
		for i := range which {
			if k := at.at(i); batch.BitSet(known, i) && k > 0 && int(k) < len(arms) {
				which[i] = k
			}
		}
		return Select(schema.StringType, which, arms), nil
	}}, nil
}

// bindField is field(x, values...): which value, from 1, x is first; 0 for none and for
// NULL.
func bindField(args []schema.Type) (Signature, error) {
	if err := arity(args, 2, -1); err != nil {
		return Signature{}, err
	}
	want := append([]schema.Type(nil), args...)
	kernels := make([]Kernel, len(args))
	for k, t := range args {
		if !t.IsPrimitive() && t.Kind != schema.Void {
			return Signature{}, fault.Userf("argument %d must be primitive, not %s", k+1, t)
		}
	}
	// A value of another family than x's never equals it: text 66 isn't the number 66.
	all := args[:1:1]
	for _, t := range args[1:] {
		if sameKind(args[0], t) {
			all = append(all, t)
		}
	}
	t, ok := common(CommonType, all)
	if !ok {
		return Signature{}, fault.Userf("the values can't be compared with %s", args[0])
	}
	if args[0].Kind != schema.Void {
		want[0] = t
	}
	for k := range args[1:] {
		if sameKind(args[0], args[k+1]) {
			want[k+1] = t
			kernels[k+1] = lift(compareKernel(eq, t), false)
		}
	}
	return Signature{Args: want, Result: schema.IntType, Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
		out := make([]int32, n)
		for k := len(args) - 1; k > 0; k-- {
			if kernels[k] == nil {
				continue
			}
			v, err := kernels[k](c, n, []Vector{args[0], args[k]})
			if err != nil {
				return Vector{}, err
			}
			yes, _ := truth(n, v)
			for i := range out {
				if batch.BitSet(yes, i) {
					out[i] = int32(k)
				}
			}
		}
		return Vector{Array: batch.NewFixed(schema.IntType.Arrow(), out, nil)}, nil
	}}, nil
}

// sameKind reports whether two types are both text, both numbers or one type.
func sameKind(a, b schema.Type) bool {
	return a.IsText() && b.IsText() || a.IsNumeric() && b.IsNumeric() || a.Equal(b) && a.Kind != schema.Void
}

func levenshtein(a, b []rune) int32 {
	row := make([]int32, len(b)+1)
	for j := range row {
		row[j] = int32(j)
	}
	for i, x := range a {
		diagonal := row[0]
		row[0] = int32(i + 1)
		for j, y := range b {
			cost := diagonal
			if x != y {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// soundex is American Soundex as commons-codec has it: a letter and three digits; H and
// W don't separate equal codes, vowels do. Text without letters gives the empty text.
func soundex(dst, s []byte) []byte {
	const codes = "01230120022455012623010202"
	code := func(c byte) byte { return codes[c-'A'] }
	var letters []byte
	for _, r := range string(s) {
		if !unicode.IsLetter(r) {
			continue
		}
		r = unicode.ToUpper(r)
		if r < 'A' || r > 'Z' { // commons-codec refuses letters it has no code for
			return dst
		}
		letters = append(letters, byte(r))
	}
	if len(letters) == 0 {
		return dst
	}
	dst = append(dst, letters[0])
	last, n := code(letters[0]), 1
	for _, c := range letters[1:] {
		if n == 4 {
			break
		}
		if c == 'H' || c == 'W' {
			continue
		}
		d := code(c)
		if d != '0' && d != last {
			dst = append(dst, d)
			n++
		}
		last = d
	}
	for ; n < 4; n++ {
		dst = append(dst, '0')
	}
	return dst
}

// convert is conv(number, from, to), which is MySQL's: 64 bits, unsigned unless the new
// base is negative; what follows the last good digit is ignored; too much is 2^64-1.
func convert(dst, s []byte, from, to int) ([]byte, bool) {
	base := to
	if base < 0 {
		base = -base
	}
	if from < 2 || from > 36 || base < 2 || base > 36 || len(s) == 0 {
		return dst, false
	}
	negative := s[0] == '-'
	if negative {
		s = s[1:]
	}
	var v uint64
	for _, c := range s {
		d := 99
		switch {
		case c >= '0' && c <= '9':
			d = int(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			d = int(c|0x20-'a') + 10
		}
		if d >= from {
			break
		}
		hi, lo := bits.Mul64(v, uint64(from))
		lo, carry := bits.Add64(lo, uint64(d), 0)
		if hi+carry != 0 {
			v = 1<<64 - 1
			break
		}
		v = lo
	}
	if negative && to > 0 {
		if int64(v) < 0 {
			v = 1<<64 - 1
		} else {
			v = -v
		}
	}
	if to < 0 && int64(v) < 0 {
		v, negative = -v, true
	}
	if negative && to < 0 {
		dst = append(dst, '-')
	}
	start := len(dst)
	dst = strconv.AppendUint(dst, v, base)
	copy(dst[start:], bytes.ToUpper(dst[start:]))
	return dst, true
}

// charsetSignature is a function of bytes and the name of a character set.
func charsetSignature(want []schema.Type, result schema.Type, f func(charset string, dst, s []byte) ([]byte, bool)) Signature {
	return Signature{Args: want, Result: result,
		Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
			var failed error
			v, err := eachText(result, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				s, names := textsOf(args[0]), textsOf(args[1])
				return func(dst []byte, i int) ([]byte, bool) {
					name := strings.ToUpper(string(names.at(i)))
					if !knownCharset(name) {
						failed = fault.Userf("there is no character set %q here; known are US-ASCII, ISO-8859-1, UTF-8, UTF-16, UTF-16BE and UTF-16LE", name)
						return dst, false
					}
					return f(name, dst, s.at(i))
				}, nil
			})(c, n, args)
			if failed != nil {
				return Vector{}, failed
			}
			return v, err
		}}
}

func knownCharset(name string) bool {
	switch name {
	case "UTF-8", "UTF8", "US-ASCII", "ASCII", "ISO-8859-1", "LATIN1", "UTF-16", "UTF-16BE", "UTF-16LE":
		return true
	}
	return false
}

// encodeText encodes UTF-8 text; what the character set lacks makes it NULL, as Java's
// strict encoder does.
func encodeText(charset string, dst, s []byte) ([]byte, bool) {
	switch charset {
	case "UTF-8", "UTF8":
		return append(dst, s...), true
	case "US-ASCII", "ASCII", "ISO-8859-1", "LATIN1":
		most := rune(0x7f)
		if charset == "ISO-8859-1" || charset == "LATIN1" {
			most = 0xff
		}
		for _, c := range string(s) {
			if c > most {
				return dst, false
			}
			dst = append(dst, byte(c))
		}
		return dst, true
	}
	if charset == "UTF-16" {
		dst = append(dst, 0xfe, 0xff)
	}
	for _, u := range utf16.Encode([]rune(string(s))) {
		if charset == "UTF-16LE" {
			dst = append(dst, byte(u), byte(u>>8))
		} else {
			dst = append(dst, byte(u>>8), byte(u))
		}
	}
	return dst, true
}

// decodeText is the inverse of encodeText; malformed bytes make it NULL.
func decodeText(charset string, dst, s []byte) ([]byte, bool) {
	switch charset {
	case "UTF-8", "UTF8":
		return append(dst, s...), utf8.Valid(s)
	case "US-ASCII", "ASCII", "ISO-8859-1", "LATIN1":
		for _, c := range s {
			if c >= 0x80 && (charset == "US-ASCII" || charset == "ASCII") {
				return dst, false
			}
			dst = utf8.AppendRune(dst, rune(c))
		}
		return dst, true
	}
	little := charset == "UTF-16LE"
	if charset == "UTF-16" && len(s) >= 2 {
		switch {
		case s[0] == 0xfe && s[1] == 0xff:
			s = s[2:]
		case s[0] == 0xff && s[1] == 0xfe:
			s, little = s[2:], true
		}
	}
	if len(s)%2 != 0 {
		return dst, false
	}
	units := make([]uint16, 0, len(s)/2)
	for k := 0; k < len(s); k += 2 {
		u := uint16(s[k])<<8 | uint16(s[k+1])
		if little {
			u = uint16(s[k+1])<<8 | uint16(s[k])
		}
		units = append(units, u)
	}
	for _, c := range utf16.Decode(units) {
		if c == utf8.RuneError {
			return dst, false
		}
		dst = utf8.AppendRune(dst, c)
	}
	return dst, true
}

// textLists collects arrays of texts row by row.
type textLists struct {
	offsets, text []int32
	data          []byte
}

func newTextLists(n int) *textLists {
	return &textLists{offsets: make([]int32, 1, n+1), text: []int32{0}}
}

func (l *textLists) add(s []byte) {
	l.data = append(l.data, s...)
	l.text = append(l.text, int32(len(l.data)))
}

func (l *textLists) end() { l.offsets = append(l.offsets, int32(len(l.text)-1)) }

func (l *textLists) values() arrow.Array {
	return batch.NewText(arrow.BinaryTypes.String, l.text, l.data, nil)
}

// bindSentences is sentences(text[, language[, country]]): its sentences, each its words.
func bindSentences(args []schema.Type) (Signature, error) {
	want, err := shaped("t?tt", args)
	if err != nil {
		return Signature{}, err
	}
	inner := schema.ArrayType(schema.StringType)
	t := schema.ArrayType(inner)
	return Signature{Args: want, Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args[:1])
		if null {
			return nullOf(t), nil
		}
		x := textsOf(args[0])
		words := newTextLists(n)
		offsets := make([]int32, 1, n+1)
		for i := range n {
			if valid == nil || batch.BitSet(valid, i) {
				splitSentences(string(x.at(i)), func(sentence []string) {
					for _, w := range sentence {
						words.add([]byte(w))
					}
					words.end()
				})
			}
			offsets = append(offsets, int32(len(words.offsets)-1))
		}
		lists := batch.NewList(inner.Arrow(), words.offsets, words.values(), nil)
		return Vector{Array: batch.NewList(t.Arrow(), offsets, lists, valid)}, nil
	}}, nil
}

// splitSentences cuts text after . ? or ! followed by blanks and no lower-case
// letter (the gist of Unicode's sentence boundaries, UAX 29), and each sentence into
// words: letters and digits, with an apostrophe, point or comma between such.
func splitSentences(s string, emit func(words []string)) {
	runes := []rune(s)
	var words []string
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_' }
	flush := func() {
		if len(words) > 0 {
			emit(words)
		}
		words = nil
	}
	for i := 0; i < len(runes); {
		r := runes[i]
		switch {
		case inWord(r):
			j := i
			for j < len(runes) && (inWord(runes[j]) || j+1 < len(runes) && inWord(runes[j+1]) && wordJoint(runes[j-1], runes[j], runes[j+1])) {
				j++
			}
			words = append(words, string(runes[i:j]))
			i = j
		case r == '.' || r == '?' || r == '!':
			j := i + 1
			for j < len(runes) && strings.ContainsRune(`.?!)"'`, runes[j]) {
				j++
			}
			k := j
			for k < len(runes) && unicode.IsSpace(runes[k]) {
				k++
			}
			if k == len(runes) || k > j && !unicode.IsLower(runes[k]) || r != '.' {
				flush()
			}
			i = max(k, i+1)
		case r == '\u2029' || r == '\u0085':
			flush()
			i++
		default:
			i++
		}
	}
	flush()
}

// wordJoint reports whether c joins a and b into one word: it's, 3.14, a.b.
func wordJoint(a, c, b rune) bool {
	switch c {
	case '\'', '’', '.':
		return unicode.IsLetter(a) == unicode.IsLetter(b)
	case ',', ';':
		return unicode.IsDigit(a) && unicode.IsDigit(b)
	case ':':
		return unicode.IsLetter(a) && unicode.IsLetter(b)
	}
	return false
}
