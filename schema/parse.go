package schema

import (
	"encoding/base64"
	"math"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// ParseText reads a cell of a text file as Hive's LazySimpleSerDe does, after
// escapes have been undone and the NULL text has been looked for; ok is false,
// and the datum NULL, when it can't be read:
//   - integers: an optional sign and digits, perhaps a fraction, which is cut; no
//     blanks; out of range is unreadable;
//   - float and double as Java reads them ("NaN", "1e5", "1.5f", blanks around);
//   - decimals rounded half up to the scale; too many integer digits are
//     unreadable;
//   - booleans: TRUE and FALSE in any case;
//   - date yyyy-M-d; timestamp yyyy-M-d[ H:m[:s[.fraction]]], T for the blank is
//     fine, so is a zone, which only timestamp with local time zone heeds;
//   - char and varchar are cut to their length in code points; char loses
//     trailing blanks;
//   - nested values have Hive's default separators (see CellForm for others);
//   - binary is base64 if it is well-formed base64, else the bytes themselves.
func ParseText(t Type, cell []byte) (d Datum, ok bool) {
	d = Datum{Type: t}
	switch t.Kind {
	case Boolean:
		var b bool
		if b, ok = parseBool(cell); b {
			d.I = 1
		}
	case TinyInt:
		d.I, ok = parseInt(cell, math.MinInt8, math.MaxInt8)
	case SmallInt:
		d.I, ok = parseInt(cell, math.MinInt16, math.MaxInt16)
	case Int:
		d.I, ok = parseInt(cell, math.MinInt32, math.MaxInt32)
	case BigInt:
		d.I, ok = parseInt(cell, math.MinInt64, math.MaxInt64)
	case Float:
		d.F, ok = parseFloat(cell, 32)
	case Double:
		d.F, ok = parseFloat(cell, 64)
	case Decimal:
		d.D, ok = parseDecimal(cell, int(t.Precision), int(t.Scale))
	case Date:
		d.I, ok = parseDate(cell)
	case Timestamp, TimestampTZ:
		d.D, ok = parseTimestamp(cell, t.Kind == TimestampTZ)
	case String, Char, Varchar:
		d.S, ok = string(cutText(t, cell)), true
	case Binary:
		d.S, ok = string(parseBinary(cell)), true
	case Array, Map, Struct, Union:
		return ParseNested(t, cell, NewCellForm(2, 3, 0, `\N`))
	}
	if !ok {
		return NullOf(t), false
	}
	return d, true
}

func parseBool(s []byte) (v, ok bool) {
	switch len(s) {
	case 4:
		return true, s[0]|0x20 == 't' && s[1]|0x20 == 'r' && s[2]|0x20 == 'u' && s[3]|0x20 == 'e'
	case 5:
		return false, s[0]|0x20 == 'f' && s[1]|0x20 == 'a' && s[2]|0x20 == 'l' && s[3]|0x20 == 's' && s[4]|0x20 == 'e'
	}
	return false, false
}

// parseInt follows LazyLong.parseLong: what comes after a point must be digits
// and is cut.
func parseInt(s []byte, least, most int64) (int64, bool) {
	i, n := 0, len(s)
	if n == 0 {
		return 0, false
	}
	negative := s[0] == '-'
	if negative || s[0] == '+' {
		i = 1
	}
	first := i
	var v uint64
	for ; i < n; i++ {
		c := uint64(s[i]) - '0'
		if c > 9 {
			break
		}
		if i-first >= 18 { // 18 digits can't overflow
			if v > math.MaxUint64/10 {
				return 0, false
			}
			v *= 10
			if v > math.MaxUint64-c {
				return 0, false
			}
			v += c
			continue
		}
		v = v*10 + c
	}
	digits := i - first
	if i < n {
		if s[i] != '.' {
			return 0, false
		}
		for i++; i < n; i++ {
			if s[i]-'0' > 9 {
				return 0, false
			}
			digits++
		}
	}
	if digits == 0 {
		return 0, false
	}
	if negative {
		if v > uint64(-(least+1))+1 {
			return 0, false
		}
		return -int64(v), true
	}
	if v > uint64(most) {
		return 0, false
	}
	return int64(v), true
}

// cutText applies the length of char and varchar.
func cutText(t Type, cell []byte) []byte {
	switch t.Kind {
	case Char:
		return trimRightBlanks(cutRunes(cell, int(t.Length)))
	case Varchar:
		return cutRunes(cell, int(t.Length))
	}
	return cell
}

func parseBinary(cell []byte) []byte {
	if len(cell) == 0 || len(cell)%4 != 0 {
		return cell
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(cell)))
	n, err := base64.StdEncoding.Decode(out, cell)
	if err != nil {
		return cell
	}
	return out[:n]
}

// ParseDecimal reads a decimal as ParseText does, for callers that have no Type.
func ParseDecimal(s []byte, precision, scale int) (decimal128.Num, bool) {
	return parseDecimal(s, precision, scale)
}
