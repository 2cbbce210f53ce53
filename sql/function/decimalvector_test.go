package function

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Column at a time or value by value, decimals give the same.
func TestDecimalKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	value := func(p uint8) num {
		digits := 1 + rng.IntN(int(p))
		n := num{}
		for range digits {
			n = n.Mul(decimal128.FromI64(10)).Add(decimal128.FromI64(int64(rng.IntN(10))))
		}
		if rng.IntN(2) == 0 {
			n = n.Negate()
		}
		return n
	}
	for range 3000 {
		pa, pb := uint8(1+rng.IntN(20)), uint8(1+rng.IntN(20))
		ta, tb := schema.DecimalType(pa, uint8(rng.IntN(int(pa)+1))), schema.DecimalType(pb, uint8(rng.IntN(int(pb)+1)))
		op := []string{"+", "-", "*"}[rng.IntN(3)]
		s, err := bindArithmetic(op, []schema.Type{ta, tb})
		if err != nil {
			t.Fatal(err)
		}
		f := decimalMul(ta, tb, s.Result)
		if op != "*" {
			f = decimalAdd(ta, tb, s.Result, op == "-")
		}
		const n = 10
		column := func(typ schema.Type) Vector {
			v := Vector{Const: rng.IntN(4) == 0}
			x := make([]num, n)
			for i := range x {
				x[i] = value(typ.Precision)
			}
			valid := []byte{byte(rng.IntN(256)), 0xff}
			if v.Const {
				x, valid = x[:1], nil
			}
			v.Array = batch.NewFixed(typ.Arrow(), x, valid)
			return v
		}
		args := []Vector{column(ta), column(tb)}
		if args[0].Const && args[1].Const {
			continue
		}
		got, err := s.Kernel(nil, n, args)
		if err != nil {
			t.Fatal(err)
		}
		want, err := fixed2n(s.Result, f)(nil, n, args)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if g, w := schema.FromArrow(got.Array, i, s.Result), schema.FromArrow(want.Array, i, s.Result); g.Text() != w.Text() {
				t.Fatalf("%s %s %s: row %d: %s, not %s", ta, op, tb, i, g.Text(), w.Text())
			}
		}
	}
}

// Sums near 38 digits and beyond it: NULL on overflow, however the rows come.
func TestDecimalSumOverflow(t *testing.T) {
	typ := schema.DecimalType(38, 0)
	near := decimal128.GetScaleMultiplier(37).Mul(decimal128.FromI64(9))
	one := decimal128.FromI64(1)
	top := decimal128.GetScaleMultiplier(38).Sub(one)
	for name, c := range map[string]struct {
		values []num
		want   string
	}{"fits": {[]num{top.Sub(one), one}, top.BigInt().String()}, "exceeds": {[]num{near, near, one}, "NULL"},
		"back again": {[]num{near, near.Negate(), one}, "1"}, "negative": {[]num{near.Negate(), near.Negate()}, "NULL"}} {
		for _, nulls := range []bool{false, true} {
			s, err := bindSum([]schema.Type{typ})
			if err != nil {
				t.Fatal(err)
			}
			var valid []byte
			x := c.values
			if nulls {
				x = append([]num{near}, x...)
				valid = []byte{0xfe}
			}
			a := s.New()
			a.Grow(1)
			v := []Vector{{Array: batch.NewFixed(typ.Arrow(), x, valid)}}
			if err := a.Update(make([]int32, len(x)), nil, v, len(x)); err != nil {
				t.Fatal(err)
			}
			var out arrow.Array = a.Result(0, 1)
			if got := schema.FromArrow(out, 0, s.Result).Text(); got != c.want {
				t.Errorf("%s, nulls %t: %s, not %s", name, nulls, got, c.want)
			}
		}
	}
}
