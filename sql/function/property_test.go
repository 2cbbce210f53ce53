package function

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// halfUp rounds a rational to so many places, away from zero on a tie, as an
// unscaled number: the definition, by big integers.
func halfUp(r *big.Rat, places int) *big.Int {
	x := new(big.Rat).Mul(r, new(big.Rat).SetInt(bigPow10(places)))
	num, den := new(big.Int).Abs(x.Num()), x.Denom()
	q := new(big.Int).Mul(num, big.NewInt(2))
	q.Add(q, den)
	q.Quo(q, new(big.Int).Mul(den, big.NewInt(2)))
	if x.Sign() < 0 {
		q.Neg(q)
	}
	return q
}

func TestDecimalAgainstRationals(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	random := func() (num, schema.Type, *big.Rat) {
		p := 1 + rng.IntN(38)
		s := rng.IntN(p + 1)
		digits := 1 + rng.IntN(p)
		b := new(big.Int)
		for range digits {
			b.Mul(b, big.NewInt(10)).Add(b, big.NewInt(int64(rng.IntN(10))))
		}
		if rng.IntN(2) == 0 {
			b.Neg(b)
		}
		return decimal128.FromBigInt(b), schema.DecimalType(uint8(p), uint8(s)), new(big.Rat).SetFrac(b, bigPow10(s))
	}
	limit := bigPow10(38)
	for range 20_000 {
		a, ta, ra := random()
		b, tb, rb := random()
		for _, op := range []string{"+", "-", "*", "/"} {
			typ := decimalResult(op, ta, tb)
			want := new(big.Rat)
			var f decimalOp
			switch op {
			case "+":
				want.Add(ra, rb)
				f = decimalAdd(ta, tb, typ, false)
			case "-":
				want.Sub(ra, rb)
				f = decimalAdd(ta, tb, typ, true)
			case "*":
				want.Mul(ra, rb)
				f = decimalMul(ta, tb, typ)
			default:
				f = decimalDiv(ta, tb, typ)
				if rb.Sign() == 0 {
					if _, ok := f(a, b); ok {
						t.Fatal("a division by zero has a value")
					}
					continue
				}
				want.Quo(ra, rb)
			}
			got, ok := f(a, b)
			w := halfUp(want, int(typ.Scale))
			fits := new(big.Int).Abs(w).Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(typ.Precision)), nil)) < 0 &&
				new(big.Int).Abs(w).Cmp(limit) < 0
			if ok != fits || ok && got.BigInt().Cmp(w) != 0 {
				t.Fatalf("%s %s %s as %s: got %s, %t; want %s, %t", ra, op, rb, typ, got.BigInt(), ok, w, fits)
			}
		}
		to := rng.IntN(39)
		w := halfUp(ra, to)
		got, ok := rescale(a, int(ta.Scale), to, 38)
		if fits := new(big.Int).Abs(w).Cmp(limit) < 0; ok != fits || ok && got.BigInt().Cmp(w) != 0 {
			t.Fatalf("%s rescaled to %d: got %s, %t; want %s", ra, to, got.BigInt(), ok, w)
		}
	}
}

func TestCompareAgainstOneRule(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Float64frombits(0xfff8000000000001), math.Inf(1), math.Inf(-1), 5e-324}
	rng := rand.New(rand.NewPCG(11, 2))
	const n = 77
	a, b := make([]float64, n), make([]float64, n)
	for i := range a {
		a[i], b[i] = special[rng.IntN(len(special))], special[rng.IntN(len(special))]
	}
	va, vb := Vector{Array: batch.NewFixed(schema.DoubleType.Arrow(), a, nil)}, Vector{Array: batch.NewFixed(schema.DoubleType.Arrow(), b, nil)}
	for _, op := range []comparison{eq, ne, lt, le, gt, ge} {
		got := compareBits(op, schema.DoubleType, n, va, vb)
		for i := range n {
			if batch.BitSet(got, i) != op.of(schema.CompareFloat(a[i], b[i])) {
				t.Errorf("%v %s %v is %t", a[i], op.name(), b[i], batch.BitSet(got, i))
			}
		}
		for _, c := range special {
			vc := Vector{Array: batch.NewFixed(schema.DoubleType.Arrow(), []float64{c}, nil), Const: true}
			right, left := compareBits(op, schema.DoubleType, n, va, vc), compareBits(op, schema.DoubleType, n, vc, va)
			for i := range n {
				if batch.BitSet(right, i) != op.of(schema.CompareFloat(a[i], c)) || batch.BitSet(left, i) != op.of(schema.CompareFloat(c, a[i])) {
					t.Errorf("%v %s constant %v is wrong on one side", a[i], op.name(), c)
				}
			}
		}
	}
	// What compares equal has equal bits, and only that.
	bits := Bits64(schema.DoubleType, va.Array, nil)
	for i := range a {
		for j := range a {
			if (bits[i] == bits[j]) != (schema.CompareFloat(a[i], a[j]) == 0) {
				t.Errorf("%v and %v as keys", a[i], a[j])
			}
		}
	}
}

func TestLikeAgainstRegexp(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 3))
	random := func(letters []string, most int) string {
		var b strings.Builder
		for range rng.IntN(most + 1) {
			b.WriteString(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	for range 20_000 {
		p, s := random([]string{"a", "b", "ä", "%", "_", `\%`, `\_`}, 6), random([]string{"a", "b", "ä", "%", "_", "\n"}, 8)
		var re strings.Builder
		re.WriteString(`(?s)\A`)
		for i := 0; i < len(p); i++ {
			switch {
			case p[i] == '\\':
				i++
				re.WriteString(regexp.QuoteMeta(p[i : i+1]))
			case p[i] == '%':
				re.WriteString(".*")
			case p[i] == '_':
				re.WriteString(".")
			default:
				re.WriteByte(p[i])
			}
		}
		re.WriteString(`\z`)
		want := regexp.MustCompile(re.String()).MatchString(s)
		if got := compileLike([]byte(p), []byte(`\`)).matches([]byte(s)); got != want {
			t.Fatalf("%q like %q is %t", s, p, got)
		}
	}
}

// Every function binds or refuses any one or two argument types, and what it
// binds it computes for NULL and for a value, in columns and constants.
func TestEveryFunctionTakesWhatItBinds(t *testing.T) {
	r := Builtin()
	types := []schema.Type{schema.VoidType, schema.BooleanType, schema.TinyIntType, schema.SmallIntType, schema.IntType, schema.BigIntType,
		schema.FloatType, schema.DoubleType, schema.DecimalType(10, 2), schema.StringType, schema.CharType(4), schema.VarcharType(4),
		schema.BinaryType, schema.DateType, schema.TimestampType, schema.TimestampTZType,
		{Kind: schema.IntervalYearMonth}, {Kind: schema.IntervalDayTime}}
	value := func(t schema.Type) schema.Datum {
		return schema.Datum{Type: t, Null: t.Kind == schema.Void, I: 1, F: 1, S: "1", D: decimal128.FromI64(100)}
	}
	compute := func(name string, k Kernel, result schema.Type, args []schema.Type) {
		t.Helper()
		for _, mode := range []string{"constants", "columns", "nulls", "mixed"} {
			vs := make([]Vector, len(args))
			for i, a := range args {
				d := value(a)
				vs[i] = Vector{Array: schema.ArrayOf(a, []schema.Datum{d, schema.NullOf(a), d})}
				switch {
				case mode == "constants" || mode == "mixed" && i == 1 || a.Kind == schema.Void:
					vs[i] = Vector{Array: schema.ArrayOf(a, []schema.Datum{d}), Const: true}
				case mode == "nulls":
					vs[i] = Vector{Array: NullArray(a, 3)}
				}
			}
			v, err := k(testContext, 3, vs)
			if err != nil {
				if fault.ClassOf(err) != fault.User {
					t.Errorf("%s of %v, %s: %v", name, args, mode, err)
				}
				continue
			}
			if want := map[bool]int{true: 1, false: 3}[v.Const]; v.Array.Len() != want {
				t.Errorf("%s of %v, %s: %d values, constant %t", name, args, mode, v.Array.Len(), v.Const)
			}
			a := batch.Plain(v.Array)
			if got, want := a.DataType(), result.Arrow(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s of %v, %s: an array of %s for %s", name, args, mode, got, result)
			}
			for i := range a.Len() {
				schema.AppendText(nil, result, a, i)
			}
		}
	}
	call := func(name string, args []schema.Type) {
		if r.IsAggregate(name) {
			s, err := r.ResolveAggregate(name, args, false)
			if err != nil {
				return
			}
			acc := s.New()
			acc.Grow(2)
			vs := make([]Vector, len(s.Args))
			for i, a := range s.Args {
				vs[i] = Vector{Array: schema.ArrayOf(a, []schema.Datum{value(a), schema.NullOf(a)})}
			}
			if err := acc.Update([]int32{0, 1}, nil, vs, 2); err != nil {
				if fault.ClassOf(err) != fault.User {
					t.Errorf("%s of %v: %v", name, args, err)
				}
				return
			}
			states := acc.State(0, 2)
			other := s.New()
			other.Grow(2)
			if err := other.Merge([]int32{0, 1}, states); err != nil {
				t.Errorf("%s of %v: %v", name, args, err)
			}
			for i := range states {
				if got, want := fmt.Sprint(states[i].DataType()), fmt.Sprint(s.State[i].Arrow()); got != want {
					t.Errorf("%s of %v: state %d is %s, not %s", name, args, i, got, want)
				}
			}
			for i := range 2 {
				x, y := schema.FromArrow(acc.Result(0, 2), i, s.Result), schema.FromArrow(other.Result(0, 2), i, s.Result)
				if x.Text() != y.Text() {
					t.Errorf("%s of %v: %s, by its state %s", name, args, x.Text(), y.Text())
				}
			}
			return
		}
		s, err := r.Resolve(name, args)
		if err != nil {
			return
		}
		// The operator binds again, to the types that the analyzer has cast to.
		again, err := r.Resolve(name, s.Args)
		if err != nil || !again.Result.Equal(s.Result) {
			t.Errorf("%s of %v is bound to %v, which gives %v, %v", name, args, s.Args, again.Result, err)
		}
		for i := range again.Args {
			if !again.Args[i].Equal(s.Args[i]) {
				t.Errorf("%s of %v is bound to %v, that to %v", name, args, s.Args, again.Args)
			}
		}
		for i, a := range args {
			if _, ok := Cast(a, s.Args[i]); !ok {
				t.Errorf("%s of %v wants %v, which can't be cast", name, args, s.Args)
				return
			}
		}
		compute(name, s.Kernel, s.Result, s.Args)
	}
	for _, name := range r.Names() {
		call(name, nil)
		for _, a := range types {
			call(name, []schema.Type{a})
			for _, b := range types {
				call(name, []schema.Type{a, b})
				call(name, []schema.Type{a, b, b})
				call(name, []schema.Type{schema.BooleanType, a, b})
			}
		}
	}
	for _, a := range types {
		for _, b := range types {
			if k, ok := Cast(a, b); ok {
				compute("cast to "+b.String(), k, b, []schema.Type{a})
			}
		}
	}
}
