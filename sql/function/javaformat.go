package function

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addPrintf registers printf: java.util.Formatter.
func addPrintf(r *Registry) {
	r.add("printf", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, -1); err != nil {
			return Signature{}, err
		}
		if !args[0].IsText() && args[0].Kind != schema.Void {
			return Signature{}, fault.Userf("its first argument must be a format, not %s", args[0])
		}
		want := append([]schema.Type{schema.StringType}, args[1:]...)
		for i, t := range args[1:] {
			if t.IsNested() {
				return Signature{}, fault.Userf("argument %d must be primitive, not %s", i+2, t)
			}
		}
		return Signature{Args: want, Result: schema.StringType, Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
			valid, null := validity(n, args[:1])
			if null {
				return nullOf(schema.StringType), nil
			}
			x := textsOf(args[0])
			offsets, data := make([]int32, n+1), []byte(nil)
			for i := range n {
				if valid == nil || batch.BitSet(valid, i) {
					f := formatter{dst: data, args: args[1:], types: want[1:], row: i}
					if err := f.run(string(x.at(i))); err != nil {
						return Vector{}, err
					}
					data = f.dst
				}
				if len(data) > maxTextBytes {
					return Vector{}, tooMuchText()
				}
				offsets[i+1] = int32(len(data))
			}
			return Vector{Array: batch.NewText(schema.StringType.Arrow(), offsets, data, valid)}, nil
		}}, nil
	})
}

// formatter formats one row.
type formatter struct {
	dst   []byte
	args  []Vector
	types []schema.Type
	row   int
	next  int // the argument that comes next
	last  int
}

// conversion is %[index$][flags][width][.precision]letter.
type conversion struct {
	flags            string
	width, precision int // -1: none
	letter           byte
}

func (c *conversion) has(flag byte) bool { return strings.IndexByte(c.flags, flag) >= 0 }

func (f *formatter) run(s string) error {
	for i := 0; i < len(s); {
		if s[i] != '%' {
			f.dst = append(f.dst, s[i])
			i++
			continue
		}
		start := i
		i++
		number := func() int {
			from := i
			for i < len(s) && s[i] >= '0' && s[i] <= '9' {
				i++
			}
			n, err := strconv.Atoi(s[from:i])
			if err != nil {
				return -1
			}
			return n
		}
		c := conversion{width: -1, precision: -1}
		index := -1
		saved := i
		if n := number(); n > 0 && i < len(s) && s[i] == '$' {
			index = n - 1
			i++
		} else {
			i = saved
		}
		if i < len(s) && s[i] == '<' {
			index = f.last
			i++
		}
		from := i
		for i < len(s) && strings.IndexByte("-#+ 0,(", s[i]) >= 0 {
			i++
		}
		c.flags = s[from:i]
		c.width = number()
		if i < len(s) && s[i] == '.' {
			i++
			if c.precision = number(); c.precision < 0 {
				return f.bad(s[start:i])
			}
		}
		if i == len(s) || c.width > 1<<20 || c.precision > 1<<16 {
			return f.bad(s[start:i])
		}
		c.letter = s[i]
		i++
		switch c.letter {
		case '%':
			f.pad(&c, "%")
			continue
		case 'n':
			f.dst = append(f.dst, '\n')
			continue
		}
		if index < 0 {
			index = f.next
			f.next++
		}
		f.last = index
		if index >= len(f.args) {
			return fault.Userf("printf: there is no argument for %q", s[start:i])
		}
		if err := f.convert(&c, index, s[start:i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *formatter) bad(text string) error {
	return fault.Userf("printf: %q is no conversion of java.util.Formatter", text)
}

// pad appends text with the width's blanks.
func (f *formatter) pad(c *conversion, text string) {
	if c.letter >= 'A' && c.letter <= 'Z' {
		text = strings.ToUpper(text)
	}
	missing := c.width - utf8.RuneCountInString(text)
	if c.has('-') {
		f.dst = append(f.dst, text...)
	}
	for ; missing > 0; missing-- {
		f.dst = append(f.dst, ' ')
	}
	if !c.has('-') {
		f.dst = append(f.dst, text...)
	}
}

func (f *formatter) convert(c *conversion, index int, text string) error {
	v, t := f.args[index], f.types[index]
	i := f.row & v.mask()
	null := v.Array.DataType().ID() == arrow.NULL || v.Array.IsNull(i)
	cut := func(s string) string {
		if c.precision >= 0 && utf8.RuneCountInString(s) > c.precision {
			return string([]rune(s)[:c.precision])
		}
		return s
	}
	lower := c.letter | 0x20
	if lower == 'b' {
		s := "true"
		switch {
		case null:
			s = "false"
		case t.Kind == schema.Boolean:
			s = strconv.FormatBool(batch.BitSet(batch.Bits(v.Array), i))
		}
		f.pad(c, cut(s))
		return nil
	}
	if null {
		f.pad(c, cut("null"))
		return nil
	}
	var d schema.Datum
	switch {
	case t.IsText():
		x := batch.TextOf(v.Array)
		d = schema.Datum{Type: t, S: x.String(i)}
	default:
		d = schema.FromArrow(v.Array, i, t)
	}
	wrong := func() error { return fault.Userf("printf: %q can't format a %s", text, t) }
	switch lower {
	case 's':
		s := d.Text()
		switch t.Kind {
		case schema.Binary: // BytesWritable
			var b strings.Builder
			for k := range len(d.S) {
				if k > 0 {
					b.WriteByte(' ')
				}
				const digits = "0123456789abcdef"
				b.WriteByte(digits[d.S[k]>>4])
				b.WriteByte(digits[d.S[k]&15])
			}
			s = b.String()
		case schema.Decimal:
			s = string(appendStripped(nil, d.D, int(t.Scale)))
		}
		f.pad(c, cut(s))
	case 'h':
		f.pad(c, cut(strconv.FormatUint(uint64(uint32(javaHash(d))), 16)))
	case 'c':
		switch {
		case t.IsInteger():
			if d.I < 0 || d.I > utf8.MaxRune {
				return wrong()
			}
			f.pad(c, string(rune(d.I)))
		case t.IsText() && utf8.RuneCountInString(d.S) == 1:
			f.pad(c, d.S)
		default:
			return wrong()
		}
	case 'd':
		if !t.IsInteger() {
			return wrong()
		}
		digits := strconv.FormatUint(uint64(max(d.I, -d.I)), 10)
		f.number(c, d.I < 0, digits, "")
	case 'x', 'o':
		if !t.IsInteger() {
			return wrong()
		}
		u := uint64(d.I)
		switch t.Kind {
		case schema.TinyInt:
			u = uint64(uint8(u))
		case schema.SmallInt:
			u = uint64(uint16(u))
		case schema.Int:
			u = uint64(uint32(u))
		}
		base, prefix := 16, "0x"
		if lower == 'o' {
			base, prefix = 8, "0"
		}
		s := strconv.FormatUint(u, base)
		if !c.has('#') {
			prefix = ""
		}
		for c.has('0') && len(s)+len(prefix) < c.width {
			s = "0" + s
		}
		f.pad(c, prefix+s)
	case 'f', 'e', 'g', 'a':
		x, special := numberOf(d)
		if x == nil && special == "" {
			return wrong()
		}
		f.real(c, d, x, special)
	default:
		return f.bad(text)
	}
	return nil
}

// numberOf returns a float or decimal exactly.
func numberOf(d schema.Datum) (*big.Rat, string) {
	switch d.Type.Kind {
	case schema.Decimal:
		return new(big.Rat).SetFrac(d.D.BigInt(), bigPow10(int(d.Type.Scale))), ""
	case schema.Float, schema.Double:
		switch {
		case math.IsNaN(d.F):
			return nil, "NaN"
		case math.IsInf(d.F, 0):
			return nil, "Infinity"
		}
		// Java formats the shortest decimal that is this number.
		if d.Type.Kind == schema.Float {
			return rationalOf(string(schema.AppendFloat(nil, float32(d.F)))), ""
		}
		return rationalOf(string(schema.AppendDouble(nil, d.F))), ""
	}
	return nil, ""
}

// number appends sign, digits (with separators if asked) and a rest.
func (f *formatter) number(c *conversion, negative bool, whole, rest string) {
	if c.has(',') {
		for k := len(whole) - 3; k > 0; k -= 3 {
			whole = whole[:k] + "," + whole[k:]
		}
	}
	before, after := "", ""
	switch {
	case negative && c.has('('):
		before, after = "(", ")"
	case negative:
		before = "-"
	case c.has('+'):
		before = "+"
	case c.has(' '):
		before = " "
	}
	for c.has('0') && len(before)+len(whole)+len(rest)+len(after) < c.width {
		whole = "0" + whole
	}
	f.pad(c, before+whole+rest+after)
}

func (f *formatter) real(c *conversion, d schema.Datum, x *big.Rat, special string) {
	if special != "" {
		plain := *c
		plain.flags = strings.ReplaceAll(c.flags, "0", "")
		negative := d.F < 0
		f.number(&plain, negative, special, "")
		return
	}
	negative := x.Sign() < 0 || x.Sign() == 0 && math.Signbit(d.F)
	x = new(big.Rat).Abs(x)
	precision := c.precision
	if precision < 0 {
		precision = 6
	}
	switch c.letter | 0x20 {
	case 'f':
		whole, rest := fixedPoint(x, precision)
		f.number(c, negative, whole, rest)
	case 'e':
		whole, rest := scientific(x, precision)
		f.number(c, negative, whole, rest)
	case 'g':
		precision = max(precision, 1)
		if x.Sign() == 0 {
			whole, rest := fixedPoint(x, precision-1)
			f.number(c, negative, whole, rest)
			return
		}
		_, exponent := significant(x, precision)
		if exponent < -4 || exponent >= precision {
			whole, rest := scientific(x, precision-1)
			f.number(c, negative, whole, rest)
			return
		}
		whole, rest := fixedPoint(x, precision-1-exponent)
		f.number(c, negative, whole, rest)
	default: // a: hexadecimal
		v := math.Abs(d.F)
		if d.Type.Kind == schema.Decimal {
			v, _ = x.Float64()
		}
		s := strconv.FormatFloat(v, 'x', c.precision, 64)
		// Go writes 0x1.002p+08, Java 0x1.002p8, and always a digit after the point.
		mantissa, exponent, _ := strings.Cut(s, "p")
		n, _ := strconv.Atoi(exponent)
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		f.number(c, negative, mantissa+"p"+strconv.Itoa(n), "")
	}
}

// fixedPoint returns x >= 0 rounded half up: the digits before the point and the rest.
func fixedPoint(x *big.Rat, places int) (whole, rest string) {
	text := roundRat(scaleRational(x, places), false).String()
	for len(text) <= places {
		text = "0" + text
	}
	whole, rest = text[:len(text)-places], text[len(text)-places:]
	if places > 0 {
		rest = "." + rest
	}
	return whole, rest
}

// significant returns the first digits of x > 0, rounded half up, and the exponent of the
// first one.
func significant(x *big.Rat, digits int) (string, int) {
	exponent := len(x.Num().String()) - len(x.Denom().String())
	for _, e := range []int{exponent + 1, exponent, exponent - 1} { // the estimate is off by one at most
		text := roundRat(scaleRational(x, digits-1-e), false).String()
		if len(text) == digits {
			return text, e
		}
		if len(text) == digits+1 { // rounded up to a power of ten
			return text[:digits], e + 1
		}
	}
	return strings.Repeat("0", digits), 0
}

func scientific(x *big.Rat, places int) (whole, rest string) {
	text, exponent := strings.Repeat("0", places+1), 0
	if x.Sign() > 0 {
		text, exponent = significant(x, places+1)
	}
	if places > 0 {
		rest = "." + text[1:]
	}
	sign := "+"
	if exponent < 0 {
		sign, exponent = "-", -exponent
	}
	e := strconv.Itoa(exponent)
	if len(e) < 2 {
		e = "0" + e
	}
	return text[:1], rest + "e" + sign + e
}

// javaHash is Object.hashCode of the value that Hive hands to the formatter.
func javaHash(d schema.Datum) int32 {
	switch d.Type.Kind {
	case schema.Boolean:
		if d.I != 0 {
			return 1231
		}
		return 1237
	case schema.TinyInt, schema.SmallInt, schema.Int, schema.Date:
		return int32(d.I)
	case schema.BigInt:
		return fold64(uint64(d.I))
	case schema.Float:
		return int32(math.Float32bits(float32(d.F)))
	case schema.Double:
		return fold64(math.Float64bits(d.F))
	case schema.Decimal:
		return hashDecimal(d.D, int(d.Type.Scale), false)
	}
	h := int32(0)
	for _, c := range d.Text() {
		if c > 0xffff { // as two UTF-16 units
			c -= 0x10000
			h = h*31 + (0xd800 + c>>10)
			c = 0xdc00 + c&0x3ff
		}
		h = h*31 + c
	}
	return h
}
