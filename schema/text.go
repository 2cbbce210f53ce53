package schema

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// nullText is how Hive's command line shows NULL.
const nullText = "NULL"

// String returns d as SQL would write it, for EXPLAIN: 'text', 42, NULL.
func (d Datum) String() string {
	if d.Null {
		return nullText
	}
	switch d.Type.Kind {
	case String, Char, Varchar:
		return "'" + strings.ReplaceAll(strings.ReplaceAll(d.S, `\`, `\\`), "'", `\'`) + "'"
	}
	return d.Text()
}

// Text returns d in Hive's rendering: 1.0E10, 2020-01-01 00:00:00; NULL is "NULL".
func (d Datum) Text() string { return string(d.AppendTo(nil)) }

// AppendTo appends d's Text to dst.
func (d Datum) AppendTo(dst []byte) []byte {
	if d.Null {
		return append(dst, nullText...)
	}
	switch d.Type.Kind {
	case Float:
		return AppendFloat(dst, float32(d.F))
	case Double:
		return AppendDouble(dst, d.F)
	case Decimal:
		return AppendDecimal(dst, d.D, int(d.Type.Scale))
	case Timestamp:
		return AppendTimestamp(dst, d.D)
	case TimestampTZ:
		return appendTimestampTZ(dst, d.D)
	case IntervalDayTime:
		return appendIntervalDayTime(dst, d.D)
	case String, Varchar, Binary:
		return append(dst, d.S...)
	case Char:
		return appendChar(dst, d.S, int(d.Type.Length))
	case Array, Map, Struct, Union:
		return appendJSONDatum(dst, d)
	}
	return appendIntegral(dst, d.Type.Kind, d.I)
}

// AppendText appends element i of an array of type t in Hive's rendering, as
// the Hive command line prints it; NULL is "NULL". The array may be
// dictionary-coded text. Decimals keep their column's scale, char is padded,
// binary is raw, nested values are JSON, an instant (timestamp with local time zone) is shown in UTC.
func AppendText(dst []byte, t Type, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(dst, nullText...)
	}
	switch a := a.(type) {
	case *array.String:
		if t.Kind == Char {
			return appendChar(dst, a.Value(i), int(t.Length))
		}
		return append(dst, a.Value(i)...)
	case *array.Dictionary:
		return AppendText(dst, t, a.Dictionary(), a.GetValueIndex(i))
	case *array.Binary:
		return append(dst, a.Value(i)...)
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i))
	case *array.Int8:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int16:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int32:
		return appendIntegral(dst, t.Kind, int64(a.Value(i)))
	case *array.Int64:
		return strconv.AppendInt(dst, a.Value(i), 10)
	case *array.Float32:
		return AppendFloat(dst, a.Value(i))
	case *array.Float64:
		return AppendDouble(dst, a.Value(i))
	case *array.Date32:
		return AppendDate(dst, int64(a.Value(i)))
	case *array.Decimal128:
		v := a.Value(i)
		switch t.Kind {
		case Timestamp:
			return AppendTimestamp(dst, v)
		case TimestampTZ:
			return appendTimestampTZ(dst, v)
		case IntervalDayTime:
			return appendIntervalDayTime(dst, v)
		}
		return AppendDecimal(dst, v, int(t.Scale))
	case *array.List, *array.Map, *array.Struct:
		return appendJSON(dst, t, a, i)
	}
	return FromArrow(a, i, t).AppendTo(dst)
}

func appendIntegral(dst []byte, k Kind, v int64) []byte {
	switch k {
	case Boolean:
		return strconv.AppendBool(dst, v != 0)
	case Date:
		return AppendDate(dst, v)
	case IntervalYearMonth:
		return appendIntervalYearMonth(dst, v)
	}
	return strconv.AppendInt(dst, v, 10)
}

func appendChar(dst []byte, s string, length int) []byte {
	dst = append(dst, s...)
	for n := utf8.RuneCountInString(s); n < length; n++ {
		dst = append(dst, ' ')
	}
	return dst
}

// trimBlanks drops what Java's String.trim does: everything up to U+0020 at
// both ends.
func trimBlanks(s []byte) []byte {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// cutRunes returns the first n code points of s; a byte that isn't part of
// valid UTF-8 counts as one.
func cutRunes(s []byte, n int) []byte {
	if len(s) <= n {
		return s
	}
	// Eight bytes at a time while they are ASCII.
	i := 0
	for n >= 8 && i+8 <= len(s) && binary.LittleEndian.Uint64(s[i:])&0x8080808080808080 == 0 {
		i, n = i+8, n-8
	}
	for ; n > 0 && i < len(s); n-- {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, size := utf8.DecodeRune(s[i:])
		i += size
	}
	return s[:i]
}

func trimRightBlanks(s []byte) []byte {
	for len(s) > 0 && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}
