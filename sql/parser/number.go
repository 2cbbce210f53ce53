package parser

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
)

// numberLiteral returns the literal of a number's text, which may have a sign
// and a suffix. Without suffix: int, else bigint, else decimal; with a point
// decimal; with an exponent double.
func (p *parser) numberLiteral(pos ast.Pos, text string) ast.Expr {
	upper := strings.ToUpper(text)
	lit := func(d schema.Datum) ast.Expr { return &ast.Literal{Pos: pos, Value: d} }
	switch {
	case strings.HasSuffix(upper, "BD"):
		return p.decimalLiteral(pos, upper[:len(upper)-2], text)
	case strings.HasSuffix(upper, "D"):
		return p.doubleLiteral(pos, upper[:len(upper)-1], text)
	}
	for _, s := range [...]struct {
		suffix string
		bits   int
		t      schema.Type
	}{{"Y", 8, schema.TinyIntType}, {"S", 16, schema.SmallIntType}, {"L", 64, schema.BigIntType}} {
		digits, ok := strings.CutSuffix(upper, s.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, s.bits)
		if err != nil {
			p.fail(syntaxError(pos, "%s is not a %s", text, s.t))
			return none(pos)
		}
		return lit(schema.Datum{Type: s.t, I: n})
	}
	if strings.ContainsRune(upper, 'E') {
		return p.doubleLiteral(pos, upper, text)
	}
	if n, err := strconv.ParseInt(upper, 10, 64); err == nil {
		if int64(int32(n)) == n {
			return lit(schema.Datum{Type: schema.IntType, I: n})
		}
		return lit(schema.Datum{Type: schema.BigIntType, I: n})
	}
	if d, ok := ParseDecimal(upper); ok {
		return lit(d)
	}
	return p.doubleLiteral(pos, upper, text) // more digits than a decimal has
}

func (p *parser) decimalLiteral(pos ast.Pos, digits, text string) ast.Expr {
	d, ok := ParseDecimal(digits)
	if !ok {
		p.fail(syntaxError(pos, "%s is not a decimal of at most 38 digits", clip(text)))
		return none(pos)
	}
	return &ast.Literal{Pos: pos, Value: d}
}

func (p *parser) doubleLiteral(pos ast.Pos, digits, text string) ast.Expr {
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		p.fail(syntaxError(pos, "%s is not a double", clip(text)))
		return none(pos)
	}
	return &ast.Literal{Pos: pos, Value: schema.Datum{Type: schema.DoubleType, F: f}}
}

// ParseDecimal reads digits with an optional sign and point into the smallest
// decimal type that holds them: 12.50 is decimal(3,1), Hive trims zeros. It
// reports whether they fit 38 digits.
func ParseDecimal(s string) (schema.Datum, bool) {
	s, power, scientific := strings.Cut(strings.ToUpper(s), "E")
	exponent := 0
	if scientific {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil || exponent > 400 || exponent < -400 {
			return schema.Datum{}, false
		}
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if whole+fraction == "" || len(whole)+len(fraction) > 400 || strings.ContainsAny(fraction, "+-") {
		return schema.Datum{}, false
	}
	if scientific { // move the point
		for ; exponent > 0; exponent-- {
			if fraction == "" {
				fraction = "0"
			}
			whole, fraction = whole+fraction[:1], fraction[1:]
		}
		sign := ""
		if whole != "" && (whole[0] == '-' || whole[0] == '+') {
			sign, whole = whole[:1], whole[1:]
		}
		for ; exponent < 0; exponent++ {
			if whole == "" {
				whole = "0"
			}
			whole, fraction = whole[:len(whole)-1], whole[len(whole)-1:]+fraction
		}
		whole = sign + whole
	}
	if fraction = strings.TrimRight(fraction, "0"); whole+fraction == "" {
		whole = "0"
	}
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return schema.Datum{}, false
	}
	digits := len(new(big.Int).Abs(n).String())
	precision := max(digits, len(fraction), 1)
	if precision > 38 {
		return schema.Datum{}, false
	}
	return schema.Datum{Type: schema.DecimalType(uint8(precision), uint8(len(fraction))), D: decimal128.FromBigInt(n)}, true
}
