package function

import (
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// decimalKernel is + - * of decimals. Columns whose values all fit 64 bits, nearly
// all there are, are computed a column at a time in machine words, if the types rule
// out that a result overflows or must be rounded; others by f.
func decimalKernel(op string, ta, tb, t schema.Type, f decimalOp) Kernel {
	slow := fixed2n(t, f)
	scale := max(int(ta.Scale), int(tb.Scale))
	ua, ub := scale-int(ta.Scale), scale-int(tb.Scale)
	exact := int(t.Scale) == scale && int(t.Precision) > max(int(ta.Precision)+ua, int(tb.Precision)+ub) && ua <= 18 && ub <= 18
	narrow := exact && int(ta.Precision)+ua <= 18 && int(tb.Precision)+ub <= 18 // also the result fits 64 bits
	if op == "*" {
		// A product of two 64-bit numbers has at most 38 digits.
		exact = int(t.Scale) == int(ta.Scale)+int(tb.Scale) && int(t.Precision) >= min(maxPrecision, int(ta.Precision)+int(tb.Precision))
	}
	if !exact {
		return slow
	}
	ma, mb := int64(1), int64(1)
	if op != "*" {
		ma, mb = int64(pow10(ua).LowBits()), int64(pow10(ub).LowBits())
	}
	dt := t.Arrow()
	return func(c *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(t), nil
		}
		a, b := halves(args[0].Array), halves(args[1].Array)
		if n == 0 || !all64(a) || !all64(b) {
			return slow(c, n, args)
		}
		out := make([]num, n)
		o := unsafe.Slice((*[2]uint64)(unsafe.Pointer(&out[0])), n)
		am, bm := args[0].mask(), args[1].mask()
		switch {
		case op == "*":
			multiply64(o, a, b, am, bm)
		case narrow && op == "+":
			for i := range o {
				x := int64(a[i&am][0])*ma + int64(b[i&bm][0])*mb
				o[i] = [2]uint64{uint64(x), uint64(x >> 63)}
			}
		case narrow:
			for i := range o {
				x := int64(a[i&am][0])*ma - int64(b[i&bm][0])*mb
				o[i] = [2]uint64{uint64(x), uint64(x >> 63)}
			}
		default:
			for i := range o {
				xhi, xlo := signedMul(int64(a[i&am][0]), ma)
				yhi, ylo := signedMul(int64(b[i&bm][0]), mb)
				var carry uint64
				if op == "+" {
					xlo, carry = bits.Add64(xlo, ylo, 0)
					xhi, _ = bits.Add64(xhi, yhi, carry)
				} else {
					xlo, carry = bits.Sub64(xlo, ylo, 0)
					xhi, _ = bits.Sub64(xhi, yhi, carry)
				}
				o[i] = [2]uint64{xlo, xhi}
			}
		}
		return Vector{Array: batch.NewFixed(dt, out, valid)}, nil
	}
}

func multiply64(o, a, b [][2]uint64, am, bm int) {
	for i := range o {
		hi, lo := signedMul(int64(a[i&am][0]), int64(b[i&bm][0]))
		o[i] = [2]uint64{lo, hi}
	}
}

// signedMul returns the 128-bit product.
func signedMul(x, y int64) (hi, lo uint64) {
	hi, lo = bits.Mul64(uint64(x), uint64(y))
	hi -= uint64(x>>63)&uint64(y) + uint64(y>>63)&uint64(x)
	return hi, lo
}

// halves views 128-bit values as pairs of their low and high words.
func halves(a arrow.Array) [][2]uint64 {
	v := batch.Values[decimal128.Num](a)
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*[2]uint64)(unsafe.Pointer(&v[0])), len(v))
}

// all64 reports whether all values fit 64 bits.
func all64(v [][2]uint64) bool {
	wrong := uint64(0)
	for _, x := range v {
		wrong |= x[1] ^ uint64(int64(x[0])>>63)
	}
	return wrong == 0
}

// farFromOverflow: sums with such a high word have less than 38 digits.
const farFromOverflow = 0x4B3B4CA85A86C479

// addAll adds x, of which no value is NULL, to the groups.
func (a *decimalSum) addAll(groups []int32, x []num) {
	if len(x) == 0 {
		return
	}
	total, n := a.total, a.n
	for i, v := range unsafe.Slice((*[2]uint64)(unsafe.Pointer(&x[0])), len(x)) {
		g := groups[i]
		t := (*[2]uint64)(unsafe.Pointer(&total[g]))
		lo, carry := bits.Add64(t[0], v[0], 0)
		hi, _ := bits.Add64(t[1], v[1], carry)
		if hi+farFromOverflow >= 2*farFromOverflow {
			a.add(g, x[i], 1)
			continue
		}
		t[0], t[1] = lo, hi
		n[g]++
	}
}
