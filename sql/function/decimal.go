package function

import (
	"math/big"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/schema"
)

// Arithmetic on unscaled 128-bit decimals: exact, rounded half up (away from
// zero), NULL on more than 38 digits. 64-bit operands stay in machine words;
// only what may exceed 128 bits on the way goes through big integers.

type num = decimal128.Num

func pow10(n int) num { return decimal128.GetScaleMultiplier(n) }

// bigPow10 returns 10^n for any n >= 0.
func bigPow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func is64(n num) bool { return n.HighBits() == int64(n.LowBits())>>63 }

func magnitude(n num) (hi, lo uint64, negative bool) {
	hi, lo = uint64(n.HighBits()), n.LowBits()
	if negative = n.HighBits() < 0; negative {
		lo = -lo
		hi = ^hi
		if lo == 0 {
			hi++
		}
	}
	return hi, lo, negative
}

func fromMagnitude(hi, lo uint64, negative bool) num {
	n := decimal128.New(int64(hi), lo)
	if negative {
		return n.Negate()
	}
	return n
}

// div128 divides by a non-zero 64-bit number.
func div128(hi, lo, d uint64) (qhi, qlo, rem uint64) {
	qhi, rem = hi/d, hi%d
	qlo, rem = bits.Div64(rem, lo, d)
	return qhi, qlo, rem
}

// scaleDown divides by 10^k, k > 0, half up. Two truncating steps round
// right, since half of the last divisor is a whole number.
func scaleDown(n num, k int) num {
	hi, lo, negative := magnitude(n)
	for k > 19 {
		hi, lo, _ = div128(hi, lo, 1e19)
		k -= 19
	}
	d := pow10(k).LowBits()
	hi, lo, rem := div128(hi, lo, d)
	if rem >= d-rem {
		var carry uint64
		lo, carry = bits.Add64(lo, 1, 0)
		hi += carry
	}
	return fromMagnitude(hi, lo, negative)
}

// rescale changes the scale; false when the value needs more digits than
// precision.
func rescale(n num, from, to, precision int) (num, bool) {
	switch {
	case to > from:
		if !schema.FitsPrecision(n, maxPrecision-(to-from)) {
			return num{}, false
		}
		n = n.Mul(pow10(to - from))
	case to < from:
		n = scaleDown(n, from-to)
	}
	return n, schema.FitsPrecision(n, precision)
}

// fromBig rounds a big unscaled value from one scale to another.
func fromBig(b *big.Int, from int, t schema.Type) (num, bool) {
	if k := from - int(t.Scale); k > 0 {
		b = divideHalfUp(b, bigPow10(k))
	} else if k < 0 {
		b = new(big.Int).Mul(b, bigPow10(-k))
	}
	if b.BitLen() > 127 {
		return num{}, false
	}
	n := decimal128.FromBigInt(b)
	return n, schema.FitsPrecision(n, int(t.Precision))
}

func divideHalfUp(a, b *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Lsh(r, 1).CmpAbs(b) >= 0 {
		if a.Sign()*b.Sign() < 0 {
			return q.Sub(q, big.NewInt(1))
		}
		return q.Add(q, big.NewInt(1))
	}
	return q
}

// decimalOp computes a op b; types fix the scales.
type decimalOp func(a, b num) (num, bool)

func decimalAdd(ta, tb, t schema.Type, subtract bool) decimalOp {
	scale := max(int(ta.Scale), int(tb.Scale))
	ua, ub := scale-int(ta.Scale), scale-int(tb.Scale)
	ma, mb := pow10(ua), pow10(ub)
	small := ua <= 18 && ub <= 18
	return func(a, b num) (num, bool) {
		if small && is64(a) && is64(b) { // below 2^63 * 10^18 each
			a, b = a.Mul(ma), b.Mul(mb)
			if subtract {
				a = a.Sub(b)
			} else {
				a = a.Add(b)
			}
			return rescale(a, scale, int(t.Scale), int(t.Precision))
		}
		x := new(big.Int).Mul(a.BigInt(), bigPow10(ua))
		y := new(big.Int).Mul(b.BigInt(), bigPow10(ub))
		if subtract {
			x.Sub(x, y)
		} else {
			x.Add(x, y)
		}
		return fromBig(x, scale, t)
	}
}

func decimalMul(ta, tb, t schema.Type) decimalOp {
	scale := int(ta.Scale) + int(tb.Scale)
	return func(a, b num) (num, bool) {
		if is64(a) && is64(b) {
			return rescale(a.Mul(b), scale, int(t.Scale), int(t.Precision))
		}
		return fromBig(new(big.Int).Mul(a.BigInt(), b.BigInt()), scale, t)
	}
}

func decimalDiv(ta, tb, t schema.Type) decimalOp {
	// a/10^sa / (b/10^sb) = a * 10^(scale+sb-sa) / b / 10^scale
	shift := int(t.Scale) + int(tb.Scale) - int(ta.Scale)
	return func(a, b num) (num, bool) {
		if b.Sign() == 0 {
			return num{}, false
		}
		if shift >= 0 && shift <= 37 && is64(b) && schema.FitsPrecision(a, maxPrecision-shift) {
			hi, lo, na := magnitude(a.Mul(pow10(shift)))
			_, d, nb := magnitude(b)
			hi, lo, rem := div128(hi, lo, d)
			if rem >= d-rem {
				var carry uint64
				lo, carry = bits.Add64(lo, 1, 0)
				hi += carry
			}
			n := fromMagnitude(hi, lo, na != nb)
			return n, schema.FitsPrecision(n, int(t.Precision))
		}
		x, y := a.BigInt(), b.BigInt()
		if shift >= 0 {
			x = new(big.Int).Mul(x, bigPow10(shift))
		} else {
			y = new(big.Int).Mul(y, bigPow10(-shift))
		}
		return fromBig(divideHalfUp(x, y), int(t.Scale), t)
	}
}

func decimalMod(ta, tb, t schema.Type, positive bool) decimalOp {
	scale := max(int(ta.Scale), int(tb.Scale))
	ma, mb := bigPow10(scale-int(ta.Scale)), bigPow10(scale-int(tb.Scale))
	return func(a, b num) (num, bool) {
		if b.Sign() == 0 {
			return num{}, false
		}
		x, y := new(big.Int).Mul(a.BigInt(), ma), new(big.Int).Mul(b.BigInt(), mb)
		r := new(big.Int).Rem(x, y)
		if positive {
			r.Add(r, y)
			r.Rem(r, y)
		}
		return fromBig(r, scale, t)
	}
}

// decimalResult returns the result type of an operator on decimals
// (GenericUDFOPPlus, Minus, Multiply, Divide, Mod: deriveResultDecimalTypeInfo).
func decimalResult(op string, a, b schema.Type) schema.Type {
	p1, s1, p2, s2 := int(a.Precision), int(a.Scale), int(b.Precision), int(b.Scale)
	switch op {
	case "*":
		return adjusted(p1+p2+1, s1+s2)
	case "/":
		scale := max(6, s1+p2+1)
		return adjusted(p1-s1+s2+scale, scale)
	case "%", "pmod":
		scale := max(s1, s2)
		return adjusted(min(p1-s1, p2-s2)+scale, scale)
	default:
		scale := max(s1, s2)
		return adjusted(max(p1-s1, p2-s2)+scale+1, scale)
	}
}
