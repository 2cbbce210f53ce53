package optimizer

import (
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// exchanged is the comparison with its sides exchanged.
var exchanged = map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<="}

// unwrapDate turns a comparison of a date, converted to a timestamp, with a constant
// (d <= date '1998-12-01' - interval '90' day) into one of dates, which is cheaper and
// can be pushed into scans. nil: c is none such.
func unwrapDate(c *plan.Call) plan.Expr {
	if len(c.Args) != 2 {
		return nil
	}
	op, left, right := c.Name, c.Args[0], c.Args[1]
	if _, ok := left.(*plan.Literal); ok {
		op, left, right = exchanged[op], right, left
	}
	cast, ok := left.(*plan.Cast)
	l, ok2 := right.(*plan.Literal)
	if !ok || !ok2 || exchanged[op] == "" || cast.T.Kind != schema.Timestamp || cast.Arg.Type().Kind != schema.Date ||
		l.Value.Null || l.Value.Type.Kind != schema.Timestamp {
		return nil
	}
	const nanosOfDay = 24 * 60 * 60 * 1_000_000_000
	day, rest := l.Value.D.Div(decimal128.FromI64(nanosOfDay))
	if rest.Sign() < 0 { // to the day before
		day, rest = day.Sub(decimal128.FromI64(1)), rest.Add(decimal128.FromI64(nanosOfDay))
	}
	if rest.Sign() != 0 { // within the day: its midnight is before
		switch op {
		case "<":
			op = "<="
		case ">=":
			op = ">"
		}
	}
	d := &plan.Literal{Value: schema.Datum{Type: schema.DateType, I: int64(day.LowBits())}}
	return &plan.Call{Name: op, Args: []plan.Expr{cast.Arg, d}, T: c.T}
}
