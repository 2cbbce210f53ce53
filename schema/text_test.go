package schema

import (
	"math"
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

func TestJavaDoubleText(t *testing.T) {
	// From the documentation of java.lang.Double.toString and Java's own tests.
	for want, f := range map[string]float64{
		"1.0": 1, "-1.0": -1, "0.0": 0, "-0.0": math.Copysign(0, -1), "100.0": 100, "1.0E10": 1e10, "1.0E-5": 1e-5,
		"0.001": 1e-3, "9.999E-4": 9.999e-4, "9999999.0": 9999999, "1.0E7": 1e7, "1.2345678E7": 12345678,
		"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "1.7976931348623157E308": math.MaxFloat64,
		"4.9E-324": math.SmallestNonzeroFloat64, "2.2250738585072014E-308": 0x1p-1022, "2.0E23": 2e23, "0.1": 0.1,
		"3.141592653589793": math.Pi, "123456.789": 123456.789, "1.0E100": 1e100,
	} {
		if got := (Datum{Type: DoubleType, F: f}).Text(); got != want {
			t.Errorf("double %g: %q, want %q", f, got, want)
		}
	}
	for want, f := range map[string]float32{
		"1.0": 1, "3.4028235E38": math.MaxFloat32, "1.4E-45": math.SmallestNonzeroFloat32, "0.1": 0.1, "1.1754944E-38": 0x1p-126,
		"1.6777216E7": 1 << 24, "3.14": 3.14,
	} {
		if got := (Datum{Type: FloatType, F: float64(f)}).Text(); got != want {
			t.Errorf("float %g: %q, want %q", f, got, want)
		}
	}
}

func TestDatumText(t *testing.T) {
	max38 := decimal128.GetMaxValue(38)
	for _, c := range []struct {
		d    Datum
		want string
	}{
		{NullOf(IntType), "NULL"},
		{Datum{Type: BooleanType, I: 1}, "true"},
		{Datum{Type: BooleanType}, "false"},
		{Datum{Type: BigIntType, I: math.MinInt64}, "-9223372036854775808"},
		{Datum{Type: DecimalType(5, 2), D: decimal128.FromI64(1000)}, "10.00"},
		{Datum{Type: DecimalType(5, 2), D: decimal128.FromI64(-1)}, "-0.01"},
		{Datum{Type: DecimalType(5, 0), D: decimal128.FromI64(-12345)}, "-12345"},
		{Datum{Type: DecimalType(38, 0), D: max38}, "99999999999999999999999999999999999999"},
		{Datum{Type: DecimalType(38, 38), D: max38.Negate()}, "-0.99999999999999999999999999999999999999"},
		{Datum{Type: DecimalType(38, 10), D: decimal128.New(1, 0)}, "1844674407.3709551616"}, // 2^64
		{Datum{Type: DateType, I: 0}, "1970-01-01"},
		{Datum{Type: DateType, I: -1}, "1969-12-31"},
		{Datum{Type: DateType, I: 11016}, "2000-02-29"},
		{Datum{Type: DateType, I: -719162}, "0001-01-01"},
		{Datum{Type: DateType, I: 2932896}, "9999-12-31"},
		{Datum{Type: TimestampType, D: NanosOf(0, 0)}, "1970-01-01 00:00:00"},
		{Datum{Type: TimestampType, D: NanosOf(-1, 999_999_999)}, "1969-12-31 23:59:59.999999999"},
		{Datum{Type: TimestampType, D: NanosOf(1577880000, 500_000_000)}, "2020-01-01 12:00:00.5"},
		{Datum{Type: TimestampType, D: NanosOf(253402300799, 123_450_000)}, "9999-12-31 23:59:59.12345"},
		{Datum{Type: TimestampTZType, D: NanosOf(1577880000, 0)}, "2020-01-01 12:00:00.0 UTC"},
		{Datum{Type: CharType(5), S: "ab"}, "ab   "},
		{Datum{Type: CharType(4), S: "é"}, "é   "},
		{Datum{Type: VarcharType(5), S: "ab"}, "ab"},
		{Datum{Type: BinaryType, S: "\x00\xff"}, "\x00\xff"},
		{Datum{Type: Type{Kind: IntervalYearMonth}, I: -14}, "-1-2"},
		{Datum{Type: Type{Kind: IntervalDayTime}, D: NanosOf(86400+2*3600+3*60+4, 5)}, "1 02:03:04.000000005"},
	} {
		if got := c.d.Text(); got != c.want {
			t.Errorf("%s: %q, want %q", c.d.Type, got, c.want)
		}
		a := ArrayOf(c.d.Type, []Datum{NullOf(c.d.Type), c.d})
		if got := string(AppendText(nil, c.d.Type, a, 1)); got != c.want {
			t.Errorf("%s in an array: %q, want %q", c.d.Type, got, c.want)
		}
		if got := string(AppendText(nil, c.d.Type, a, 0)); got != "NULL" {
			t.Errorf("%s: NULL is %q", c.d.Type, got)
		}
		if got := FromArrow(a, 1, c.d.Type); !reflect.DeepEqual(got, c.d) && !c.d.Null {
			t.Errorf("%s: datum %+v came back as %+v", c.d.Type, c.d, got)
		}
	}
	if got := (Datum{Type: StringType, S: `it's \`}).String(); got != `'it\'s \\'` {
		t.Errorf("literal: %s", got)
	}
}

func TestParseText(t *testing.T) {
	const bad = "bad"
	for _, c := range []struct {
		t    Type
		cell string
		want string
	}{
		{IntType, "42", "42"}, {IntType, "+42", "42"}, {IntType, "-42", "-42"}, {IntType, "1.5", "1"}, {IntType, "-1.9", "-1"},
		{IntType, "1.", "1"}, {IntType, ".5", "0"}, {IntType, "007", "7"}, {IntType, "2147483647", "2147483647"}, {IntType, "-2147483648", "-2147483648"},
		{IntType, "2147483648", bad}, {IntType, "-2147483649", bad}, {IntType, "", bad}, {IntType, "-", bad}, {IntType, ".", bad},
		{IntType, " 1", bad}, {IntType, "1 ", bad}, {IntType, "1e3", bad}, {IntType, "1.5.2", bad}, {IntType, "1.x", bad}, {IntType, "--1", bad},
		{TinyIntType, "127", "127"}, {TinyIntType, "128", bad}, {TinyIntType, "-128", "-128"}, {SmallIntType, "32768", bad}, {SmallIntType, "-32768", "-32768"},
		{BigIntType, "9223372036854775807", "9223372036854775807"}, {BigIntType, "-9223372036854775808", "-9223372036854775808"},
		{BigIntType, "9223372036854775808", bad}, {BigIntType, "-9223372036854775809", bad}, {BigIntType, "18446744073709551616", bad},
		{BigIntType, "99999999999999999999999999", bad}, {BigIntType, "00000000000000000000000001", "1"},
		{BooleanType, "true", "true"}, {BooleanType, "FaLsE", "false"}, {BooleanType, "t", bad}, {BooleanType, "1", bad}, {BooleanType, "trux", bad},
		{DoubleType, "1", "1.0"}, {DoubleType, "1e10", "1.0E10"}, {DoubleType, "-0.5", "-0.5"}, {DoubleType, "NaN", "NaN"}, {DoubleType, "-Infinity", "-Infinity"},
		{DoubleType, "nan", bad}, {DoubleType, "inf", bad}, {DoubleType, "1d", "1.0"}, {DoubleType, " 1.5 ", "1.5"}, {DoubleType, "1_0", bad},
		{DoubleType, "5.", "5.0"}, {DoubleType, ".5", "0.5"}, {DoubleType, ".", bad}, {DoubleType, "", bad}, {DoubleType, "1e400", "Infinity"}, {DoubleType, "0x1p3", "8.0"},
		{DoubleType, "0.1234567890123456789", "0.12345678901234568"}, {DoubleType, "36.123456", "36.123456"}, {DoubleType, "--1", bad}, {DoubleType, "+-1", bad}, {DoubleType, "e5", bad},
		{FloatType, "3.4028235e38", "3.4028235E38"}, {FloatType, "0.1", "0.1"}, {FloatType, "16777217", "1.6777216E7"}, {FloatType, "1f", "1.0"},
		{DecimalType(5, 2), "10", "10.00"}, {DecimalType(5, 2), "1.005", "1.01"}, {DecimalType(5, 2), "-1.005", "-1.01"}, {DecimalType(5, 2), "1.004", "1.00"},
		{DecimalType(5, 2), "999.99", "999.99"}, {DecimalType(5, 2), "999.995", bad}, {DecimalType(5, 2), "1000", bad}, {DecimalType(5, 2), "1e2", "100.00"},
		{DecimalType(5, 2), "12345e-3", "12.35"}, {DecimalType(5, 2), "0.004", "0.00"}, {DecimalType(5, 2), "0.005", "0.01"}, {DecimalType(5, 2), "5e-10", "0.00"},
		{DecimalType(5, 2), "", bad}, {DecimalType(5, 2), ".", bad}, {DecimalType(5, 2), "1e", bad}, {DecimalType(5, 2), "abc", bad}, {DecimalType(5, 2), " 1.5 ", "1.50"},
		{DecimalType(38, 0), "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"},
		{DecimalType(38, 0), "100000000000000000000000000000000000000", bad}, {DecimalType(38, 0), "1e1000000000", bad}, {DecimalType(38, 0), "0e1000000000", "0"},
		{DecimalType(38, 38), "0.99999999999999999999999999999999999999", "0.99999999999999999999999999999999999999"}, {DecimalType(2, 1), "9.96", bad}, {DecimalType(2, 0), "00000000000000000000000000000000000000000099", "99"},
		{DateType, "2020-02-29", "2020-02-29"}, {DateType, "2020-2-9", "2020-02-09"}, {DateType, "2021-02-29", bad}, {DateType, "2021-13-01", bad},
		{DateType, "0000-00-00", bad}, {DateType, "2020-01-01 10:00:00", "2020-01-01"}, {DateType, "2020-01-01x", bad}, {DateType, "2020", bad}, {DateType, "2020-01", bad},
		{DateType, "1900-02-29", bad}, {DateType, "2000-02-29", "2000-02-29"}, {DateType, "0001-01-01", "0001-01-01"}, {DateType, "99999999-01-01", bad},
		{TimestampType, "2020-01-01 12:34:56", "2020-01-01 12:34:56"}, {TimestampType, "2020-01-01 12:34:56.100", "2020-01-01 12:34:56.1"},
		{TimestampType, "2020-01-01", "2020-01-01 00:00:00"}, {TimestampType, "1999-07-15T02:00Z", "1999-07-15 02:00:00"}, {TimestampType, "2020-01-01 1:2:3", "2020-01-01 01:02:03"},
		{TimestampType, "2020-01-01 24:00:00", bad}, {TimestampType, "2020-01-01 12:60:00", bad}, {TimestampType, "2020-01-01 12", bad},
		{TimestampType, "2020-01-01 12:34:56.123456789123", "2020-01-01 12:34:56.123456789"}, {TimestampType, "1969-12-31 23:59:59.5", "1969-12-31 23:59:59.5"},
		{TimestampType, "0001-01-01 00:00:00.000000001", "0001-01-01 00:00:00.000000001"}, {TimestampType, "9999-12-31 23:59:59.999999999", "9999-12-31 23:59:59.999999999"},
		{TimestampType, "2020-01-01 10:00:00 Mars", bad}, {TimestampTZType, "2020-01-01 12:00:00+02:00", "2020-01-01 10:00:00.0 UTC"},
		{TimestampTZType, "2020-01-01 12:00:00 GMT-5", "2020-01-01 17:00:00.0 UTC"},
		{VarcharType(3), "äöüß", "äöü"}, {VarcharType(3), "ab  ", "ab "}, {CharType(3), "abcd", "abc"}, {CharType(3), "a  b", "a  "}, {StringType, "", ""}, {StringType, "a\x00\xffb", "a\x00\xffb"},
		{VarcharType(10), "0123456789ab", "0123456789"}, {VarcharType(10), "01234567é9ab", "01234567é9"},
		{BinaryType, "aGVsbG8=", "hello"}, {BinaryType, "hello", "hello"}, {BinaryType, "", ""}, {BinaryType, "a!cd", "a!cd"},
		{VoidType, "x", bad},
	} {
		d, ok := ParseText(c.t, []byte(c.cell))
		got := bad
		if ok {
			got = d.Text()
		}
		if got != c.want {
			t.Errorf("%s %q: %q, want %q", c.t, c.cell, got, c.want)
		}
		if d.Null == ok {
			t.Errorf("%s %q: ok = %v but Null = %v", c.t, c.cell, ok, d.Null)
		}
		// A column builder reads the same.
		a := NewAppender(c.t, 1)
		if a.AppendText([]byte(c.cell)) != ok {
			t.Errorf("%s %q: the appender disagrees", c.t, c.cell)
		}
		if arr := a.Finish(); ok && string(AppendText(nil, c.t, arr, 0)) != c.want || FromArrow(arr, 0, c.t).Null == ok {
			t.Errorf("%s %q: the appender's value is %q", c.t, c.cell, AppendText(nil, c.t, arr, 0))
		}
	}
}

func FuzzParseText(f *testing.F) {
	for _, s := range []string{"1.5", "-9223372036854775808", "1e-400", "2020-01-01T10:00:00.5+01:00", "0x1p-3f", "99999999999999999999.5e-3", "true", "aGk="} {
		f.Add([]byte(s))
	}
	types := []Type{BooleanType, TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType, DecimalType(10, 3), DecimalType(38, 38), DecimalType(38, 0),
		StringType, CharType(3), VarcharType(4), BinaryType, DateType, TimestampType, TimestampTZType}
	f.Fuzz(func(t *testing.T, cell []byte) {
		for _, typ := range types {
			d, ok := ParseText(typ, cell)
			if !ok {
				continue
			}
			// What is printed reads back as the same value.
			if typ.Kind == Binary {
				continue
			}
			text := d.Text()
			again, ok := ParseText(typ, []byte(text))
			if !ok || Compare(d, again) != 0 {
				t.Fatalf("%s %q prints as %q, which reads as %v (%v)", typ, cell, text, again, ok)
			}
			a := NewAppender(typ, 1)
			if !a.AppendText(cell) || Compare(FromArrow(a.Finish(), 0, typ), d) != 0 {
				t.Fatalf("%s %q: the appender reads another value", typ, cell)
			}
		}
	})
}

func TestCalendar(t *testing.T) {
	for days := int64(-800_000); days < 3_000_000; days += 37 {
		y, m, d := CivilOf(days)
		if back, ok := DaysOf(y, m, d); !ok || back != days {
			t.Fatalf("day %d is %d-%d-%d, which is day %d (%v)", days, y, m, d, back, ok)
		}
	}
	for _, s := range []int64{0, -1, 1, math.MaxInt64, math.MinInt64 + 1, 253402300799} {
		if sec, ns, ok := SecondsOf(NanosOf(s, 7)); !ok || sec != s || ns != 7 {
			t.Errorf("%d s + 7 ns came back as %d, %d, %v", s, sec, ns, ok)
		}
	}
}

func TestParseType(t *testing.T) {
	for text, want := range map[string]string{
		"INT": "int", "integer": "int", " decimal ( 10 , 2 ) ": "decimal(10,2)", "decimal": "decimal(10,0)", "numeric(5)": "decimal(5,0)",
		"double precision": "double", "double": "double", "varchar(20)": "varchar(20)", "timestamp with local time zone": "timestamp with local time zone",
		"timestamp": "timestamp", "array< map<string , array<int>>>": "array<map<string,array<int>>>", "struct<A:int,b_2:decimal(3,1)>": "struct<a:int,b_2:decimal(3,1)>",
		"uniontype<int,string>": "uniontype<int,string>",
	} {
		got, err := ParseType(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
			continue
		}
		if again, err := ParseType(got.String()); err != nil || !again.Equal(got) {
			t.Errorf("%s doesn't read back: %v", got, err)
		}
	}
	for text, want := range map[string]string{
		"bigit":         `unknown type "bigit" (did you mean "bigint"?)`,
		"decimal(39,0)": `type "decimal(39,0)": expected a precision from 1 to 38 at position 9`,
		"decimal(5,6)":  `type "decimal(5,6)": expected a scale from 0 to 5 at position 11`,
		"varchar":       `type "varchar": expected "(" and the length of varchar at position 8`,
		"char(256)":     `type "char(256)": expected a length from 1 to 255 at position 6`,
		"int int":       `type "int int": expected nothing after the type at position 5`,
		"array<int":     `type "array<int": expected ">" at position 10`,
		"map<int>":      `type "map<int>": expected "," at position 8`,
		"":              `type "": expected a type at position 1`,
	} {
		if _, err := ParseType(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
