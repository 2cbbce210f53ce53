package schema

import (
	"math/bits"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// MaxPrecision is the most digits a decimal has.
const MaxPrecision = 38

// pow10Of returns 10^n for n in [0, 38].
func pow10Of(n int) decimal128.Num { return decimal128.GetScaleMultiplier(n) }

// FitsPrecision reports whether |d| < 10^precision: whether the unscaled value
// d has at most so many digits.
func FitsPrecision(d decimal128.Num, precision int) bool {
	if precision >= MaxPrecision+1 {
		return true
	}
	return d.Abs().Cmp(pow10Of(precision)) < 0
}

// AppendDecimal appends the unscaled value d with all of scale's digits after
// the point: (1000, 2) is "10.00". It uses no big integers.
func AppendDecimal(dst []byte, d decimal128.Num, scale int) []byte {
	hi, lo := uint64(d.HighBits()), d.LowBits()
	if d.HighBits() < 0 {
		dst = append(dst, '-')
		lo = -lo
		hi = ^hi
		if lo == 0 {
			hi++
		}
	}
	var room [48]byte
	digits := appendUint128(room[:0], hi, lo)
	if scale == 0 {
		return append(dst, digits...)
	}
	if len(digits) <= scale {
		dst = append(dst, '0', '.')
		for i := len(digits); i < scale; i++ {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	dst = append(dst, '.')
	return append(dst, digits[len(digits)-scale:]...)
}

func appendUint128(dst []byte, hi, lo uint64) []byte {
	const e19 = 1e19
	if hi == 0 {
		return strconv.AppendUint(dst, lo, 10)
	}
	q1, r := hi/e19, hi%e19
	q0, r := bits.Div64(r, lo, e19)
	dst = appendUint128(dst, q1, q0)
	start := len(dst)
	for range 19 {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= start; i-- {
		dst[i] = byte('0' + r%10)
		r /= 10
	}
	return dst
}

// parseDecimal reads a decimal number, with an exponent if need be, and rounds
// it half up (away from zero) to scale. It refuses what has more than
// precision-scale integer digits then. Blanks around are fine.
func parseDecimal(s []byte, precision, scale int) (decimal128.Num, bool) {
	s = trimBlanks(s)
	i, n := 0, len(s)
	if n == 0 {
		return decimal128.Num{}, false
	}
	negative := s[0] == '-'
	if negative || s[0] == '+' {
		i = 1
	}
	// Where the digits are: [first, end), one of them perhaps a point.
	first, end, point, digits := i, n, -1, 0
	exponent := 0
scan:
	for ; i < n; i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.' && point < 0:
			point = i
		case c|0x20 == 'e' && digits > 0:
			end = i
			var ok bool
			if exponent, ok = parseExponent(s[i+1:]); !ok {
				return decimal128.Num{}, false
			}
			break scan
		default:
			return decimal128.Num{}, false
		}
	}
	if digits == 0 {
		return decimal128.Num{}, false
	}
	integer := digits + exponent // digits before the point
	if point >= 0 {
		integer = point - first + exponent
	}
	keep := integer + scale // digits to keep; the next one rounds
	var v uint128
	seen := 0
	roundUp := false
	for j := first; j < end; j++ {
		if s[j] == '.' {
			continue
		}
		d := uint64(s[j] - '0')
		if seen == keep {
			roundUp = d >= 5
			break
		}
		if keep < 0 {
			break
		}
		if !v.mulAdd(d) {
			return decimal128.Num{}, false
		}
		seen++
	}
	for ; seen < keep && (v.hi|v.lo) != 0; seen++ {
		if !v.mulAdd(0) {
			return decimal128.Num{}, false
		}
	}
	if roundUp {
		var carry uint64
		v.lo, carry = bits.Add64(v.lo, 1, 0)
		v.hi += carry
	}
	if v.hi>>63 != 0 {
		return decimal128.Num{}, false
	}
	d := decimal128.New(int64(v.hi), v.lo)
	if !FitsPrecision(d, precision) {
		return decimal128.Num{}, false
	}
	if negative {
		d = d.Negate()
	}
	return d, true
}

// parseExponent reads what follows the E of a number; beyond +-1,000,000 it is
// cut there, which no decimal can tell apart.
func parseExponent(s []byte) (int, bool) {
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative, s = s[0] == '-', s[1:]
	}
	if len(s) == 0 {
		return 0, false
	}
	e := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		e = min(e*10+int(c-'0'), 1_000_000)
	}
	if negative {
		e = -e
	}
	return e, true
}

type uint128 struct{ hi, lo uint64 }

// mulAdd makes v = 10 v + d; false: more than 127 bits.
func (v *uint128) mulAdd(d uint64) bool {
	carry, lo := bits.Mul64(v.lo, 10)
	over, hi := bits.Mul64(v.hi, 10)
	lo, c := bits.Add64(lo, d, 0)
	hi, c = bits.Add64(hi, carry, c)
	v.hi, v.lo = hi, lo
	return over == 0 && c == 0 && hi>>63 == 0
}
