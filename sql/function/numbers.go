package function

import (
	"math"
	"math/big"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func rationalOf(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

func ratOfInt(x *big.Int) *big.Rat { return new(big.Rat).SetInt(x) }

// scaleRational returns r * 10^places.
func scaleRational(r *big.Rat, places int) *big.Rat {
	scale := new(big.Rat).SetInt(bigPow10(abs(places)))
	if places < 0 {
		scale.Inv(scale)
	}
	return new(big.Rat).Mul(r, scale)
}

// addNumbers registers format_number and width_bucket.
func addNumbers(r *Registry) {
	r.add("format_number", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
			return Signature{}, err
		}
		t := args[0]
		if t.Kind == schema.Void {
			t = schema.DoubleType
		}
		if !t.IsNumeric() {
			return Signature{}, fault.Userf("it takes a number, not %s", t)
		}
		if !args[1].IsText() && !args[1].IsInteger() && args[1].Kind != schema.Void {
			return Signature{}, fault.Userf("argument 2 must be a number of places or a pattern, not %s", args[1])
		}
		want := []schema.Type{t, schema.IntType}
		if args[1].IsText() {
			want[1] = schema.StringType
		}
		return Signature{Args: want, Result: schema.StringType,
			Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				exact := exactNumbers(t, args[0])
				var pattern func(i int) (numberPattern, bool)
				if want[1].IsText() {
					p := textsOf(args[1])
					pattern = func(i int) (numberPattern, bool) { return parseNumberPattern(string(p.at(i))) }
				} else {
					places := columnOf[int32](args[1])
					pattern = func(i int) (numberPattern, bool) {
						d := int(places.at(i))
						return numberPattern{least: 1, group: 3, fraction: d, most: d}, d >= 0
					}
				}
				return func(dst []byte, i int) ([]byte, bool) {
					p, ok := pattern(i)
					if !ok {
						return dst, false
					}
					x, special := exact(i)
					if special != "" {
						return append(dst, special...), true
					}
					return p.format(dst, x), true
				}, nil
			})}, nil
	})
	r.add("width_bucket", bindWidthBucket)
}

// exactNumbers reads any number as a rational; special is the text of NaN and
// infinities.
func exactNumbers(t schema.Type, v Vector) func(i int) (x *big.Rat, special string) {
	switch {
	case t.IsInteger():
		x := integers(v)
		return func(i int) (*big.Rat, string) { return new(big.Rat).SetInt64(x(i)), "" }
	case t.Kind == schema.Decimal:
		x := columnOf[num](v)
		scale := bigPow10(int(t.Scale))
		return func(i int) (*big.Rat, string) { return new(big.Rat).SetFrac(x.at(i).BigInt(), scale), "" }
	}
	x := floats(v)
	return func(i int) (*big.Rat, string) {
		f := x(i)
		switch {
		case math.IsNaN(f):
			return nil, "NaN"
		case math.IsInf(f, 1):
			return nil, "∞"
		case math.IsInf(f, -1):
			return nil, "-∞"
		}
		return new(big.Rat).SetFloat64(f), ""
	}
}

// numberPattern is a pattern of Java's DecimalFormat: #,##0.00 with a prefix and a suffix.
type numberPattern struct {
	prefix, suffix string
	least          int // integer digits
	group          int // digits between separators; 0: none
	fraction, most int // fraction digits, at least and at most
	percent        int // places to shift: 2 for %, 3 for per mille
}

func parseNumberPattern(s string) (p numberPattern, ok bool) {
	positive, _, _ := strings.Cut(s, ";")
	var prefix, suffix strings.Builder
	phase := 0 // prefix, integer part, fraction, suffix
	sinceComma := -1
	quoted := false
	for _, c := range positive {
		if c == '\'' {
			quoted = !quoted
			continue
		}
		digit := !quoted && (c == '#' || c == '0' || c == ',' || c == '.')
		if digit && phase == 0 {
			phase = 1
		}
		if !digit && (phase == 1 || phase == 2) {
			phase = 3
		}
		switch {
		case !digit:
			if !quoted && c == '%' {
				p.percent = 2
			} else if !quoted && c == '\u2030' {
				p.percent = 3
			}
			if phase == 0 {
				prefix.WriteRune(c)
			} else {
				suffix.WriteRune(c)
			}
		case phase == 3:
			return p, false
		case phase == 1 && c == ',':
			sinceComma = 0
		case phase == 1 && c == '.':
			phase = 2
		case phase == 1:
			if c == '0' {
				p.least++
			} else if p.least > 0 {
				return p, false
			}
			if sinceComma >= 0 {
				sinceComma++
			}
		case c == '0':
			if p.most > p.fraction {
				return p, false
			}
			p.fraction++
			p.most++
		case c == '#':
			p.most++
		default:
			return p, false
		}
	}
	if sinceComma > 0 {
		p.group = sinceComma
	}
	if phase == 1 && p.least == 0 && p.most == 0 {
		p.least = 0
	}
	p.prefix, p.suffix = prefix.String(), suffix.String()
	return p, true
}

// format appends x, rounded half to even.
func (p numberPattern) format(dst []byte, x *big.Rat) []byte {
	digits := roundRat(scaleRational(x, p.most+p.percent), true)
	if x.Sign() < 0 && (digits.Sign() < 0 || digits.Sign() == 0) { // DecimalFormat keeps the sign of what became zero
		dst = append(dst, '-')
	}
	dst = append(dst, p.prefix...)
	text := new(big.Int).Abs(digits).String()
	for len(text) < p.most+p.least || len(text) <= p.most {
		text = "0" + text
	}
	whole, fraction := text[:len(text)-p.most], text[len(text)-p.most:]
	if p.least == 0 && whole == "0" && strings.Trim(fraction, "0") != "" {
		whole = ""
	}
	for len(fraction) > p.fraction && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	for i := range len(whole) {
		if i > 0 && p.group > 0 && (len(whole)-i)%p.group == 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, whole[i])
	}
	if fraction != "" {
		dst = append(append(dst, '.'), fraction...)
	}
	return append(dst, p.suffix...)
}

// bindWidthBucket is width_bucket(x, least, most, buckets): which of equally wide
// buckets x falls into, 0 and buckets+1 being below and above.
func bindWidthBucket(args []schema.Type) (Signature, error) {
	if err := arity(args, 4, 4); err != nil {
		return Signature{}, err
	}
	if err := numeric(args[:3]); err != nil {
		return Signature{}, err
	}
	if _, err := integer(args[3:]); err != nil {
		return Signature{}, err
	}
	d := schema.DoubleType
	return Signature{Args: []schema.Type{d, d, d, schema.IntType}, Result: schema.IntType,
		Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
			var failed error
			v, err := eachValid(schema.IntType, func(_ *Context, args []Vector) (func(int) (int32, bool), error) {
				x, low, high, count := columnOf[float64](args[0]), columnOf[float64](args[1]), columnOf[float64](args[2]), columnOf[int32](args[3])
				return func(i int) (int32, bool) {
					v, a, b, k := x.at(i), low.at(i), high.at(i), count.at(i)
					switch {
					case k <= 0:
						failed = fault.Userf("width_bucket: the number of buckets must be positive, not %d", k)
						return 0, false
					case a == b:
						failed = fault.Userf("width_bucket: the bounds must differ, both are %v", a)
						return 0, false
					case a < b && v < a, a > b && v > a:
						return 0, true
					case a < b && v >= b, a > b && v <= b:
						return k + 1, true
					}
					return int32(math.Floor(float64(k)*(v-a)/(b-a))) + 1, true
				}, nil
			})(c, n, args)
			if failed != nil {
				return Vector{}, failed
			}
			return v, err
		}}, nil
}
