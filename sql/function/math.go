package function

import (
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func addMath(r *Registry) {
	for names, f := range map[string]func(float64) float64{
		"exp": math.Exp, "sin": math.Sin, "cos": math.Cos, "tan": math.Tan,
		"atan": math.Atan, "sinh": math.Sinh, "cosh": math.Cosh, "tanh": math.Tanh, "cbrt": math.Cbrt,
		"degrees": func(x float64) float64 { return x * 180 / math.Pi },
		"radians": func(x float64) float64 { return x / 180 * math.Pi },
	} {
		addDouble(r, names, func(x float64) (float64, bool) { return f(x), true })
	}
	for names, f := range map[string]func(float64) float64{"asin": math.Asin, "acos": math.Acos} {
		addDouble(r, names, func(x float64) (float64, bool) { y := f(x); return y, y == y })
	}
	// Logarithms of what isn't positive and roots of negatives are NULL.
	for names, f := range map[string]func(float64) float64{"ln": math.Log, "log10": math.Log10, "log2": math.Log2} {
		addDouble(r, names, func(x float64) (float64, bool) { return f(x), x > 0 })
	}
	addDouble(r, "sqrt", func(x float64) (float64, bool) { return math.Sqrt(x), x >= 0 })
	r.add("log", func(args []schema.Type) (Signature, error) {
		if len(args) == 1 {
			return r.scalars["ln"](args)
		}
		return doubles(args, 2, fixed2n(schema.DoubleType, func(base, x float64) (float64, bool) {
			return math.Log(x) / math.Log(base), base > 1 && x > 0
		}))
	})
	r.add("pow power", func(args []schema.Type) (Signature, error) {
		return doubles(args, 2, fixed2n(schema.DoubleType, func(x, y float64) (float64, bool) { return math.Pow(x, y), true }))
	})
	for name, v := range map[string]float64{"pi": math.Pi, "e": math.E} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 0, 0); err != nil {
				return Signature{}, err
			}
			return Signature{Result: schema.DoubleType, Kernel: func(*Context, int, []Vector) (Vector, error) {
				return Vector{Array: batch.NewFixed(schema.DoubleType.Arrow(), []float64{v}, nil), Const: true}, nil
			}}, nil
		})
	}
	r.add("rand", bindRand)
	for name, even := range map[string]bool{"round": false, "bround": true} {
		r.addConstant(name, func(args []schema.Type, constants []*schema.Datum) (Signature, error) {
			return bindRound(args, constants, even)
		})
	}
	r.add("floor", func(args []schema.Type) (Signature, error) { return bindFloor(args, math.Floor, -1) })
	r.add("ceil ceiling", func(args []schema.Type) (Signature, error) { return bindFloor(args, math.Ceil, 1) })
	r.add("abs", bindAbs)
	r.add("sign", bindSignum)
	for name, shift := range map[string]func(x int64, k, width uint) int64{
		"shiftleft":  func(x int64, k, width uint) int64 { return x << (k & (width - 1)) },
		"shiftright": func(x int64, k, width uint) int64 { return x >> (k & (width - 1)) },
		"shiftrightunsigned": func(x int64, k, width uint) int64 {
			if width == 32 {
				return int64(int32(uint32(x) >> (k & 31)))
			}
			return int64(uint64(x) >> (k & 63))
		},
	} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 2, 2); err != nil {
				return Signature{}, err
			}
			if _, err := integer(args); err != nil {
				return Signature{}, err
			}
			if args[0].Kind == schema.BigInt {
				t := schema.BigIntType
				return Signature{Args: []schema.Type{t, schema.IntType}, Result: t,
					Kernel: fixed2n(t, func(x int64, k int32) (int64, bool) { return shift(x, uint(k), 64), true })}, nil
			}
			t := schema.IntType
			return Signature{Args: []schema.Type{t, t}, Result: t,
				Kernel: fixed2n(t, func(x, k int32) (int32, bool) { return int32(shift(int64(x), uint(k), 32)), true })}, nil
		})
	}
	r.add("factorial", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		if _, err := integer(args); err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{schema.IntType}, Result: schema.BigIntType,
			Kernel: fixed1n(schema.BigIntType, func(x int32) (int64, bool) {
				if x < 0 || x > 20 {
					return 0, false
				}
				f := int64(1)
				for k := int64(2); k <= int64(x); k++ {
					f *= k
				}
				return f, true
			})}, nil
	})
}

// doubles is the signature of n double arguments.
func doubles(args []schema.Type, n int, k Kernel) (Signature, error) {
	if err := arity(args, n, n); err != nil {
		return Signature{}, err
	}
	if err := numeric(args); err != nil {
		return Signature{}, err
	}
	return Signature{Args: repeated(schema.DoubleType, n), Result: schema.DoubleType, Kernel: k}, nil
}

func addDouble(r *Registry, names string, f func(float64) (float64, bool)) {
	r.add(names, func(args []schema.Type) (Signature, error) { return doubles(args, 1, fixed1n(schema.DoubleType, f)) })
}

// bindRand is rand([seed]): uniform in [0, 1). A seed makes the sequence of
// each batch repeatable.
func bindRand(args []schema.Type) (Signature, error) {
	if err := arity(args, 0, 1); err != nil {
		return Signature{}, err
	}
	if _, err := integer(args); err != nil {
		return Signature{}, err
	}
	return Signature{Args: repeated(schema.BigIntType, len(args)), Result: schema.DoubleType, Volatile: true,
		Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
			next := rand.Float64
			if len(args) > 0 && n > 0 && args[0].Array.Len() > 0 && args[0].Array.NullN() == 0 {
				next = rand.New(rand.NewPCG(uint64(batch.Values[int64](args[0].Array)[0]), 0)).Float64
			}
			out := make([]float64, n)
			for i := range out {
				out[i] = next()
			}
			return Vector{Array: batch.NewFixed(schema.DoubleType.Arrow(), out, nil)}, nil
		}}, nil
}

// bindRound is round(x[, places]) half up and bround half even. Integers with
// places >= 0 stay as they are; a decimal's new scale is that of a constant places;
// otherwise the scale stays, and digits below places become zero.
func bindRound(args []schema.Type, constants []*schema.Datum, even bool) (Signature, error) {
	if err := arity(args, 1, 2); err != nil {
		return Signature{}, err
	}
	if err := numeric(args[:1]); err != nil {
		return Signature{}, err
	}
	if len(args) == 2 {
		if _, err := integer(args[1:]); err != nil {
			return Signature{}, err
		}
	}
	t := args[0]
	if t.IsText() || t.Kind == schema.Void {
		t = schema.DoubleType
	}
	result := t
	known, scale := len(args) == 1, int64(0)
	if len(args) == 2 && constants[1] != nil && !constants[1].Null {
		known, scale = true, constants[1].I
	}
	if t.Kind == schema.Decimal && known {
		digits := t.Precision - t.Scale
		if scale < int64(t.Scale) { // rounding may carry into one digit more
			digits++
		}
		to := uint8(min(max(scale, 0), maxScale))
		result = schema.DecimalType(max(min(maxPrecision, digits+to), 1), min(to, maxPrecision))
	}
	want := []schema.Type{t}
	if len(args) == 2 {
		want = append(want, schema.IntType)
	}
	places := func(args []Vector) func(i int) int {
		if len(args) < 2 {
			return func(int) int { return 0 }
		}
		n := integers(args[1])
		return func(i int) int { return int(n(i)) }
	}
	s := Signature{Args: want, Result: result}
	switch {
	case t.Kind == schema.Float:
		s.Kernel = eachValid(result, func(_ *Context, args []Vector) (func(int) (float32, bool), error) {
			x, p := columnOf[float32](args[0]), places(args)
			return func(i int) (float32, bool) { return float32(roundDouble(float64(x.at(i)), p(i), even, 32)), true }, nil
		})
	case t.Kind == schema.Double:
		s.Kernel = eachValid(result, func(_ *Context, args []Vector) (func(int) (float64, bool), error) {
			x, p := columnOf[float64](args[0]), places(args)
			return func(i int) (float64, bool) { return roundDouble(x.at(i), p(i), even, 64), true }, nil
		})
	case t.Kind == schema.Decimal:
		s.Kernel = eachValid(result, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
			x, p := columnOf[num](args[0]), places(args)
			return func(i int) (num, bool) { return roundDecimal(x.at(i), t, result, p(i), even) }, nil
		})
	default:
		s.Kernel = byWidth(t, roundInts[int8](t, places, even), roundInts[int16](t, places, even),
			roundInts[int32](t, places, even), roundInts[int64](t, places, even))
	}
	return s, nil
}

func roundInts[T int8 | int16 | int32 | int64](t schema.Type, places func([]Vector) func(int) int, even bool) Kernel {
	return eachValid(t, func(_ *Context, args []Vector) (func(int) (T, bool), error) {
		x, p := columnOf[T](args[0]), places(args)
		return func(i int) (T, bool) {
			v, k := int64(x.at(i)), p(i)
			if k >= 0 {
				return T(v), true
			}
			if k < -19 {
				return 0, true
			}
			n, ok := roundDecimal(decimal128.FromI64(v), schema.DecimalType(19, 0), schema.DecimalType(maxPrecision, 0), k, even)
			return T(n.LowBits()), ok
		}, nil
	})
}

// roundDouble rounds the shortest decimal text of x, as BigDecimal.valueOf(x)
// does in Hive's RoundUtils.
func roundDouble(x float64, places int, even bool, bits int) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) || places > 330 || x == 0 {
		return x
	}
	if places < -330 {
		return 0
	}
	if places == 0 && math.Abs(x) < 1<<52 && bits == 64 {
		whole, rest := math.Modf(x)
		switch {
		case math.Abs(rest) > 0.5, math.Abs(rest) == 0.5 && (!even || math.Mod(whole, 2) != 0):
			whole += math.Copysign(1, x)
		}
		return whole + 0
	}
	var room [40]byte
	text := room[:0]
	if bits == 32 {
		text = schema.AppendFloat(text, float32(x))
	} else {
		text = schema.AppendDouble(text, x)
	}
	r, ok := new(big.Rat).SetString(string(text))
	if !ok {
		return x
	}
	scale := new(big.Rat).SetInt(bigPow10(abs(places)))
	if places < 0 {
		scale.Inv(scale)
	}
	r.Mul(r, scale)
	r.Quo(new(big.Rat).SetInt(roundRat(r, even)), scale)
	f, _ := r.Float64()
	return f
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

func roundRat(r *big.Rat, even bool) *big.Int {
	q, rem := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	c := rem.Lsh(rem, 1).CmpAbs(r.Denom())
	if c > 0 || c == 0 && (!even || q.Bit(0) == 1) {
		q.Add(q, big.NewInt(int64(r.Sign())))
	}
	return q
}

func roundDecimal(x num, t, result schema.Type, places int, even bool) (num, bool) {
	if places >= int(t.Scale) {
		return rescale(x, int(t.Scale), int(result.Scale), int(result.Precision))
	}
	drop := int(t.Scale) - places
	if drop > maxPrecision {
		return num{}, true
	}
	var q *big.Int
	if d := bigPow10(drop); even {
		q = roundRat(new(big.Rat).SetFrac(x.BigInt(), d), true)
	} else {
		q = divideHalfUp(x.BigInt(), d)
	}
	q.Mul(q, bigPow10(drop))
	return fromBig(q, int(t.Scale), result)
}

// bindFloor is floor and ceil: bigint, or a decimal without scale.
func bindFloor(args []schema.Type, f func(float64) float64, up int) (Signature, error) {
	if err := arity(args, 1, 1); err != nil {
		return Signature{}, err
	}
	if err := numeric(args); err != nil {
		return Signature{}, err
	}
	t := args[0]
	switch {
	case t.IsInteger():
		return Signature{Args: []schema.Type{schema.BigIntType}, Result: schema.BigIntType,
			Kernel: fixed1(schema.BigIntType, func(x int64) int64 { return x })}, nil
	case t.Kind == schema.Decimal:
		digits := t.Precision - t.Scale
		if t.Scale > 0 {
			digits++
		}
		result := schema.DecimalType(min(maxPrecision, digits), 0)
		d := bigPow10(int(t.Scale))
		return Signature{Args: []schema.Type{t}, Result: result, Kernel: fixed1n(result, func(x num) (num, bool) {
			q, rem := new(big.Int).QuoRem(x.BigInt(), d, new(big.Int))
			if rem.Sign() == up {
				q.Add(q, big.NewInt(int64(up)))
			}
			return fromBig(q, 0, result)
		})}, nil
	}
	return Signature{Args: []schema.Type{schema.DoubleType}, Result: schema.BigIntType,
		Kernel: fixed1(schema.BigIntType, func(x float64) int64 { return javaInteger[int64](f(x)) })}, nil
}

func bindAbs(args []schema.Type) (Signature, error) {
	if err := arity(args, 1, 1); err != nil {
		return Signature{}, err
	}
	if err := numeric(args); err != nil {
		return Signature{}, err
	}
	t := args[0]
	switch t.Kind {
	case schema.TinyInt, schema.SmallInt, schema.Int:
		t = schema.IntType
		return Signature{Args: []schema.Type{t}, Result: t, Kernel: fixed1(t, func(x int32) int32 { return max(x, -x) })}, nil
	case schema.BigInt:
		return Signature{Args: []schema.Type{t}, Result: t, Kernel: fixed1(t, func(x int64) int64 { return max(x, -x) })}, nil
	case schema.Decimal:
		return Signature{Args: []schema.Type{t}, Result: t, Kernel: fixed1(t, func(x num) num { return x.Abs() })}, nil
	}
	return doubles(args, 1, fixed1(schema.DoubleType, math.Abs))
}

func bindSignum(args []schema.Type) (Signature, error) {
	if len(args) == 1 && args[0].Kind == schema.Decimal {
		return Signature{Args: args, Result: schema.IntType,
			Kernel: fixed1(schema.IntType, func(x num) int32 { return int32(x.Sign()) })}, nil
	}
	if len(args) == 1 && !args[0].IsNumeric() && !args[0].IsText() && args[0].Kind != schema.Void {
		return Signature{}, fault.Userf("it takes a number, not %s", args[0])
	}
	return doubles(args, 1, fixed1(schema.DoubleType, func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return x
	}))
}
