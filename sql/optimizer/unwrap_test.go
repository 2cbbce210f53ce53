package optimizer

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

func TestUnwrapDate(t *testing.T) {
	day := decimal128.FromI64(24 * 60 * 60 * 1_000_000_000)
	compare := func(op string, c int) bool {
		return map[string]bool{"<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]
	}
	d := &plan.Column{Name: "d", T: schema.DateType}
	for _, op := range []string{"<", "<=", ">", ">="} {
		for _, literalFirst := range []bool{false, true} {
			for _, days := range []int64{-3, 0, 2} {
				for _, nanos := range []int64{0, 1, 5_000_000_000} {
					ts := decimal128.FromI64(days).Mul(day).Add(decimal128.FromI64(nanos))
					lit := &plan.Literal{Value: schema.Datum{Type: schema.TimestampType, D: ts}}
					cast := &plan.Cast{Arg: d, T: schema.TimestampType}
					c := &plan.Call{Name: op, Args: []plan.Expr{cast, lit}, T: schema.BooleanType}
					if literalFirst {
						c.Args = []plan.Expr{lit, cast}
					}
					got, ok := unwrapDate(c).(*plan.Call)
					if !ok || got.Args[0] != plan.Expr(d) {
						t.Fatalf("%s became %v", c, got)
					}
					bound := got.Args[1].(*plan.Literal).Value
					for v := int64(-6); v < 6; v++ {
						whole := decimal128.FromI64(v).Mul(day).Cmp(ts)
						if literalFirst {
							whole = -whole
						}
						if want := compare(op, whole); compare(got.Name, int(v-bound.I)) != want {
							t.Fatalf("%s: day %d gives %t; it became %s", c, v, !want, got)
						}
					}
				}
			}
		}
	}
	for _, c := range []*plan.Call{
		{Name: "=", Args: []plan.Expr{&plan.Cast{Arg: d, T: schema.TimestampType}, &plan.Literal{Value: schema.Datum{Type: schema.TimestampType}}}},
		{Name: "<", Args: []plan.Expr{&plan.Cast{Arg: d, T: schema.StringType}, &plan.Literal{Value: schema.Datum{Type: schema.StringType}}}},
		{Name: "<", Args: []plan.Expr{d, &plan.Literal{Value: schema.Datum{Type: schema.DateType}}}},
	} {
		if got := unwrapDate(c); got != nil {
			t.Errorf("%s became %s", c, got)
		}
	}
}
