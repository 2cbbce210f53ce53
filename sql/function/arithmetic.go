package function

import (
	"math"
	"strconv"
	"strings"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func addArithmetic(r *Registry) {
	for _, op := range []string{"+", "-", "*", "/", "%", "pmod"} {
		names := op
		if op == "%" {
			names = "% mod"
		}
		r.addConstant(names, func(args []schema.Type, constants []*schema.Datum) (Signature, error) {
			return bindArithmetic(op, exactConstants(args, constants))
		})
	}
	r.add("div", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
			return Signature{}, err
		}
		if err := numeric(args); err != nil {
			return Signature{}, err
		}
		t := schema.BigIntType
		return Signature{Args: []schema.Type{t, t}, Result: t, Kernel: fixed2n(t, func(a, b int64) (int64, bool) {
			if b == 0 {
				return 0, false
			}
			return a / b, true // MinInt64 / -1 wraps
		})}, nil
	})
	r.add("negative", func(args []schema.Type) (Signature, error) { return bindSign(args, true) })
	r.add("positive", func(args []schema.Type) (Signature, error) { return bindSign(args, false) })
	for _, op := range []string{"&", "|", "^"} {
		r.add(op, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 2, 2); err != nil {
				return Signature{}, err
			}
			t, err := integer(args)
			if err != nil {
				return Signature{}, err
			}
			return Signature{Args: []schema.Type{t, t}, Result: t, Kernel: byWidth(t, bitwise[int8](op, t),
				bitwise[int16](op, t), bitwise[int32](op, t), bitwise[int64](op, t))}, nil
		})
	}
	r.add("~", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		t, err := integer(args)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{t}, Result: t, Kernel: byWidth(t,
			fixed1(t, func(x int8) int8 { return ^x }), fixed1(t, func(x int16) int16 { return ^x }),
			fixed1(t, func(x int32) int32 { return ^x }), fixed1(t, func(x int64) int64 { return ^x }))}, nil
	})
}

// exactConstants makes an integer constant beside a decimal a decimal of its own digits: 100
// is decimal(3,0) there, not the decimal(10,0) of any int.
func exactConstants(args []schema.Type, constants []*schema.Datum) []schema.Type {
	if len(args) != 2 {
		return args
	}
	for i, t := range args {
		if c := constants[i]; args[1-i].Kind == schema.Decimal && t.IsInteger() && c != nil && !c.Null && c.Type.Equal(t) {
			digits := len(strings.TrimPrefix(strconv.FormatInt(c.I, 10), "-"))
			out := append([]schema.Type(nil), args...)
			out[i] = schema.DecimalType(uint8(digits), 0)
			return out
		}
	}
	return args
}

// byWidth picks the kernel of an integer type.
func byWidth(t schema.Type, k8, k16, k32, k64 Kernel) Kernel {
	switch t.Kind {
	case schema.TinyInt:
		return k8
	case schema.SmallInt:
		return k16
	case schema.Int:
		return k32
	default:
		return k64
	}
}

func bitwise[T int8 | int16 | int32 | int64](op string, t schema.Type) Kernel {
	return fixed2n(t, func(a, b T) (T, bool) {
		switch op {
		case "&":
			return a & b, true
		case "|":
			return a | b, true
		default:
			return a ^ b, true
		}
	})
}

// numeric refuses what arithmetic can't take. Text counts as a number.
func numeric(args []schema.Type) error {
	for _, t := range args {
		if !t.IsNumeric() && !t.IsText() && t.Kind != schema.Void {
			return fault.Userf("it takes numbers, not %s", t)
		}
	}
	return nil
}

// integer returns the common integer type of args.
func integer(args []schema.Type) (schema.Type, error) {
	for _, t := range args {
		if !t.IsInteger() && t.Kind != schema.Void {
			return t, fault.Userf("it takes integers, not %s", t)
		}
	}
	t, _ := common(CommonType, args)
	if !t.IsInteger() { // NULLs only
		t = schema.IntType
	}
	return t, nil
}

// arithmeticType returns the type that + - * % compute in: exact numbers in
// their common type, anything with text, float and decimal in double, as
// GenericUDFBaseNumeric does.
func arithmeticType(a, b schema.Type) schema.Type {
	switch {
	case a.Kind == schema.Void && b.Kind == schema.Void:
		return schema.DoubleType
	case a.Kind == schema.Void:
		return arithmeticType(b, b)
	case b.Kind == schema.Void:
		return arithmeticType(a, a)
	case a.IsText() || b.IsText():
		return schema.DoubleType
	}
	t := commonNumeric(a, b)
	if t.Kind == schema.Float && (a.Kind == schema.Decimal || b.Kind == schema.Decimal) {
		return schema.DoubleType
	}
	return t
}

func bindArithmetic(op string, args []schema.Type) (Signature, error) {
	if err := arity(args, 2, 2); err != nil {
		return Signature{}, err
	}
	if (op == "+" || op == "-") && (isDateTime(args[0]) || isDateTime(args[1]) || isInterval(args[0]) || isInterval(args[1])) {
		return bindDateArithmetic(op, args)
	}
	if err := numeric(args); err != nil {
		return Signature{}, err
	}
	t := arithmeticType(args[0], args[1])
	if t.Kind == schema.Decimal {
		a, b := args[0], args[1]
		if a.Kind == schema.Void {
			a = b
		}
		if b.Kind == schema.Void {
			b = a
		}
		a, b = asDecimal(a), asDecimal(b)
		t = decimalResult(op, a, b)
		var f decimalOp
		switch op {
		case "+", "-":
			f = decimalAdd(a, b, t, op == "-")
		case "*":
			f = decimalMul(a, b, t)
		case "/":
			f = decimalDiv(a, b, t)
		default:
			f = decimalMod(a, b, t, op == "pmod")
		}
		kernel := fixed2n(t, f)
		if op == "+" || op == "-" || op == "*" {
			kernel = decimalKernel(op, a, b, t, f)
		}
		return Signature{Args: []schema.Type{a, b}, Result: t, Kernel: kernel}, nil
	}
	if op == "/" {
		t = schema.DoubleType
	}
	var k Kernel
	switch t.Kind {
	case schema.Float:
		k = floatArithmetic[float32](op, t)
	case schema.Double:
		k = floatArithmetic[float64](op, t)
	default:
		k = byWidth(t, intArithmetic[int8](op, t), intArithmetic[int16](op, t), intArithmetic[int32](op, t), intArithmetic[int64](op, t))
	}
	return Signature{Args: []schema.Type{t, t}, Result: t, Kernel: k}, nil
}

func intArithmetic[T int8 | int16 | int32 | int64](op string, t schema.Type) Kernel {
	switch op {
	case "%":
		return fixed2n(t, func(a, b T) (T, bool) {
			if b == 0 {
				return 0, false
			}
			return a % b, true
		})
	case "pmod": // ((a % b) + b) % b
		return fixed2n(t, func(a, b T) (T, bool) {
			if b == 0 {
				return 0, false
			}
			return (a%b + b) % b, true
		})
	}
	return ringKernel[T](op, t)
}

func floatArithmetic[T float32 | float64](op string, t schema.Type) Kernel {
	switch op {
	case "/":
		return fixed2n(t, func(a, b T) (T, bool) { return a / b, b != 0 })
	case "%":
		return fixed2n(t, func(a, b T) (T, bool) { return T(math.Mod(float64(a), float64(b))), b != 0 })
	case "pmod":
		return fixed2n(t, func(a, b T) (T, bool) {
			x, y := float64(a), float64(b)
			return T(math.Mod(math.Mod(x, y)+y, y)), b != 0
		})
	}
	return ringKernel[T](op, t)
}

// ringKernel is + - *: never NULL of itself, integers wrap at their width.
func ringKernel[T orderedNumber](op string, t schema.Type) Kernel {
	dt := t.Arrow()
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(t), nil
		}
		a, b := batch.Values[T](args[0].Array), batch.Values[T](args[1].Array)
		out := make([]T, n)
		ac, bc := args[0].Const, args[1].Const
		if ac && op != "-" {
			a, b, ac, bc = b, a, false, true
		}
		switch {
		case ac:
			c := a[0]
			for i, y := range b {
				out[i] = c - y
			}
		case bc:
			c := b[0]
			switch op {
			case "+":
				for i, x := range a {
					out[i] = x + c
				}
			case "-":
				for i, x := range a {
					out[i] = x - c
				}
			default:
				for i, x := range a {
					out[i] = x * c
				}
			}
		default:
			b, out := b[:len(a)], out[:len(a)]
			switch op {
			case "+":
				for i, x := range a {
					out[i] = x + b[i]
				}
			case "-":
				for i, x := range a {
					out[i] = x - b[i]
				}
			default:
				for i, x := range a {
					out[i] = x * b[i]
				}
			}
		}
		return Vector{Array: batch.NewFixed(dt, out, valid)}, nil
	}
}

func bindSign(args []schema.Type, negative bool) (Signature, error) {
	if err := arity(args, 1, 1); err != nil {
		return Signature{}, err
	}
	t := args[0]
	if t.IsText() || t.Kind == schema.Void {
		t = schema.DoubleType
	}
	if !t.IsNumeric() && !isInterval(t) {
		return Signature{}, fault.Userf("it takes a number, not %s", t)
	}
	s := Signature{Args: []schema.Type{t}, Result: t}
	if !negative {
		s.Kernel = func(_ *Context, _ int, args []Vector) (Vector, error) { return args[0], nil }
		return s, nil
	}
	switch t.Kind {
	case schema.Float:
		s.Kernel = fixed1(t, func(x float32) float32 { return -x })
	case schema.Double:
		s.Kernel = fixed1(t, func(x float64) float64 { return -x })
	case schema.Decimal, schema.IntervalDayTime:
		s.Kernel = fixed1(t, func(x num) num { return x.Negate() })
	case schema.IntervalYearMonth:
		s.Kernel = fixed1(t, func(x int32) int32 { return -x })
	default:
		s.Kernel = byWidth(t, fixed1(t, func(x int8) int8 { return -x }), fixed1(t, func(x int16) int16 { return -x }),
			fixed1(t, func(x int32) int32 { return -x }), fixed1(t, func(x int64) int64 { return -x }))
	}
	return s, nil
}
