package function

import (
	"math"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addCalendar registers the less common functions of dates and times.
func addCalendar(r *Registry) {
	r.add("months_between", bindMonthsBetween)
	r.add("next_day", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
			return Signature{}, err
		}
		t, err := momentType(args[0])
		if err != nil {
			return Signature{}, err
		}
		if !args[1].IsText() && args[1].Kind != schema.Void {
			return Signature{}, fault.Userf("argument 2 must be the name of a day, not %s", args[1])
		}
		return Signature{Args: []schema.Type{t, schema.StringType}, Result: schema.StringType,
			Kernel: dateText(t, 1, func(m moment, args []texts, i int) (int64, bool) {
				want, ok := dayOfWeek(string(args[0].at(i)))
				return m.days + int64((want-weekday(m.days)+6)%7+1), ok
			})}, nil
	})
	r.addConstant("trunc", bindTrunc)
	r.addConstant("cast_format", bindCastFormat)
	for _, unit := range []string{"year", "quarter", "month", "week", "day", "hour", "minute", "second"} {
		r.add("floor_"+unit, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 1, 1); err != nil {
				return Signature{}, err
			}
			t := schema.TimestampType
			if args[0].Kind == schema.TimestampTZ {
				t = args[0]
			} else if !isDateTime(args[0]) && !args[0].IsText() && args[0].Kind != schema.Void {
				return Signature{}, fault.Userf("it takes a timestamp, not %s", args[0])
			}
			return Signature{Args: []schema.Type{t}, Result: t,
				Kernel: eachValid(t, func(c *Context, args []Vector) (func(int) (num, bool), error) {
					at := moments(c, t, args[0])
					return func(i int) (num, bool) {
						m := at(i)
						days, second := floorTo(unit, m.days, m.second)
						wall := days*secondsADay + second
						if t.Kind == schema.TimestampTZ {
							wall = instantOf(c, wall)
						}
						return schema.NanosOf(wall, 0), m.ok
					}, nil
				})}, nil
		})
	}
	r.add("to_epoch_milli", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		t, err := momentType(args[0])
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{t}, Result: schema.BigIntType,
			Kernel: eachValid(schema.BigIntType, func(c *Context, args []Vector) (func(int) (int64, bool), error) {
				at := moments(c, t, args[0])
				return func(i int) (int64, bool) {
					m := at(i)
					wall := m.days*secondsADay + m.second
					if t.Kind == schema.TimestampTZ {
						wall = instantOf(c, wall)
					}
					return wall*1000 + int64(m.nanos/1e6), m.ok
				}, nil
			})}, nil
	})
	for name, toUTC := range map[string]bool{"from_utc_timestamp": false, "to_utc_timestamp": true} {
		zones := &zoneCache{}
		r.add(name, func(args []schema.Type) (Signature, error) { return bindUTC(args, toUTC, zones) })
	}
	r.add("datetime_legacy_hybrid_calendar", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		switch t := args[0]; t.Kind {
		case schema.Date:
			return Signature{Args: args, Result: t, Kernel: fixed1n(t, func(d int32) (int32, bool) {
				days, ok := asJulian(int64(d))
				return int32(days), ok
			})}, nil
		case schema.Timestamp:
			return Signature{Args: args, Result: t, Kernel: fixed1n(t, func(x num) (num, bool) {
				s, nanos, ok := schema.SecondsOf(x)
				days := floorDiv(s, secondsADay)
				julian, ok2 := asJulian(days)
				return schema.NanosOf(s+(julian-days)*secondsADay, nanos), ok && ok2
			})}, nil
		}
		return Signature{}, fault.Userf("it takes a date or a timestamp, not %s", args[0])
	})
	r.add("tumbling_window", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 3); err != nil {
			return Signature{}, err
		}
		interval := schema.Type{Kind: schema.IntervalDayTime}
		if args[1].Kind != interval.Kind {
			return Signature{}, fault.Userf("the length of the window must be a day-time interval, not %s", args[1])
		}
		want := []schema.Type{schema.TimestampType, interval}
		if len(args) > 2 {
			want = append(want, schema.TimestampType)
		}
		for i, t := range args {
			if i != 1 && !isDateTime(t) {
				return Signature{}, fault.Userf("argument %d must be a timestamp, not %s", i+1, t)
			}
		}
		return Signature{Args: want, Result: schema.TimestampType,
			Kernel: eachValid(schema.TimestampType, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
				x, length := columnOf[num](args[0]), columnOf[num](args[1])
				var origin *column[num]
				if len(args) > 2 {
					o := columnOf[num](args[2])
					origin = &o
				}
				return func(i int) (num, bool) {
					var from num
					if origin != nil {
						from = origin.at(i)
					}
					size := length.at(i)
					if size.Sign() <= 0 {
						return num{}, false
					}
					d := x.at(i).Sub(from)
					_, rem := d.Div(size)
					if rem.Sign() < 0 {
						rem = rem.Add(size)
					}
					return x.at(i).Sub(rem), true
				}, nil
			})}, nil
	})
	r.addConstant("internal_interval", func(args []schema.Type, constants []*schema.Datum) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
			return Signature{}, err
		}
		if constants[0] == nil || !args[0].IsText() {
			return Signature{}, fault.Userf("its first argument must be a constant unit: YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
		}
		if !args[1].IsNumeric() && !args[1].IsText() && args[1].Kind != schema.Void {
			return Signature{}, fault.Userf("the number of units must be an integer or text, not %s", args[1])
		}
		return bindInterval(constants[0].S, args)
	})
}

// bindInterval makes intervals of a number of units.
func bindInterval(unit string, args []schema.Type) (Signature, error) {
	unit = strings.TrimSuffix(strings.ToUpper(unit), "S")
	months, seconds := int32(0), int64(0)
	switch unit {
	case "YEAR":
		months = 12
	case "QUARTER":
		months = 3
	case "MONTH":
		months = 1
	case "WEEK":
		seconds = 7 * secondsADay
	case "DAY":
		seconds = secondsADay
	case "HOUR":
		seconds = 3600
	case "MINUTE":
		seconds = 60
	case "SECOND":
		seconds = 1
	default:
		return Signature{}, fault.Userf("%q is no unit of an interval: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND", unit)
	}
	if months > 0 {
		t := schema.Type{Kind: schema.IntervalYearMonth}
		return Signature{Args: []schema.Type{args[0], schema.IntType}, Result: t,
			Kernel: eachValid(t, func(_ *Context, args []Vector) (func(int) (int32, bool), error) {
				x := columnOf[int32](args[1])
				return func(i int) (int32, bool) { return months * x.at(i), true }, nil
			})}, nil
	}
	t := schema.Type{Kind: schema.IntervalDayTime}
	fraction := schema.DecimalType(29, 9)
	return Signature{Args: []schema.Type{args[0], fraction}, Result: t,
		Kernel: eachValid(t, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
			x := columnOf[num](args[1])
			unit := decimal128.FromI64(seconds)
			return func(i int) (num, bool) { return x.at(i).Mul(unit), true }, nil
		})}, nil
}

// dateText is a kernel of a date and texts that gives a date as text.
func dateText(t schema.Type, n int, f func(m moment, args []texts, i int) (int64, bool)) Kernel {
	return eachText(schema.StringType, func(c *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
		at := moments(c, t, args[0])
		rest := make([]texts, n)
		for k := range rest {
			rest[k] = textsOf(args[k+1])
		}
		return func(dst []byte, i int) ([]byte, bool) {
			m := at(i)
			if !m.ok {
				return dst, false
			}
			days, ok := f(m, rest, i)
			if !ok {
				return dst, false
			}
			return schema.AppendDate(dst, days), true
		}, nil
	})
}

// dayOfWeek reads MO, MON or MONDAY in any case; 0 is Sunday.
func dayOfWeek(s string) (int, bool) {
	for k, name := range dayNames {
		if strings.EqualFold(s, name) || strings.EqualFold(s, name[:3]) || strings.EqualFold(s, name[:2]) {
			return k, true
		}
	}
	return 0, false
}

// bindMonthsBetween is months_between(later, earlier[, round]): whole months when both
// are the same day of a month or the last one, else a part of 31 days more, by default rounded
// to eight digits.
func bindMonthsBetween(args []schema.Type) (Signature, error) {
	if err := arity(args, 2, 3); err != nil {
		return Signature{}, err
	}
	a, err := momentType(args[0])
	if err != nil {
		return Signature{}, err
	}
	b, err := momentType(args[1])
	if err != nil {
		return Signature{}, err
	}
	want := []schema.Type{a, b}
	if len(args) > 2 {
		if err := booleans(args[2:]); err != nil {
			return Signature{}, err
		}
		want = append(want, schema.BooleanType)
	}
	return Signature{Args: want, Result: schema.DoubleType,
		Kernel: eachValid(schema.DoubleType, func(c *Context, args []Vector) (func(int) (float64, bool), error) {
			x, y := moments(c, a, args[0]), moments(c, b, args[1])
			rounded := func(int) bool { return true }
			if len(args) > 2 {
				bits, mask := batch.Bits(args[2].Array), args[2].mask()
				rounded = func(i int) bool { return batch.BitSet(bits, i&mask) }
			}
			return func(i int) (float64, bool) {
				m, n := x(i), y(i)
				if !m.ok || !n.ok {
					return 0, false
				}
				if m.partial { // counts as no time
					m.second = 0
				}
				if n.partial {
					n.second = 0
				}
				my, mm, md := schema.CivilOf(m.days)
				ny, nm, nd := schema.CivilOf(n.days)
				months := float64((my-ny)*12 + mm - nm)
				lastDay := func(y, mo, d int) bool { _, ok := schema.DaysOf(y, mo, d+1); return !ok }
				if md == nd || lastDay(my, mm, md) && lastDay(ny, nm, nd) {
					return months, true
				}
				seconds := int64(md-nd)*secondsADay + m.second - n.second
				v := months + float64(seconds)/(31*secondsADay)
				if rounded(i) {
					v = roundDouble(v, 8, false, 64)
				}
				return v, true
			}, nil
		})}, nil
}

// floorTo cuts a moment to a unit; weeks begin on Monday.
func floorTo(unit string, days, second int64) (int64, int64) {
	y, mo, _ := schema.CivilOf(days)
	first := func(month int) int64 { d, _ := schema.DaysOf(y, month, 1); return d }
	switch unit {
	case "year":
		return first(1), 0
	case "quarter":
		return first((mo-1)/3*3 + 1), 0
	case "month":
		return first(mo), 0
	case "week":
		return days - int64((weekday(days)+6)%7), 0
	case "day":
		return days, 0
	case "hour":
		return days, second / 3600 * 3600
	case "minute":
		return days, second / 60 * 60
	}
	return days, second
}

// bindTrunc is trunc(date, unit) as text, or trunc(number[, places]) towards zero.
func bindTrunc(args []schema.Type, constants []*schema.Datum) (Signature, error) {
	if err := arity(args, 1, 2); err != nil {
		return Signature{}, err
	}
	if args[0].IsNumeric() {
		return bindTruncNumber(args, constants)
	}
	if len(args) < 2 {
		return Signature{}, fault.Userf("of a date it needs a unit: trunc(date, 'MM')")
	}
	t, err := momentType(args[0])
	if err != nil {
		return Signature{}, err
	}
	if !args[1].IsText() && args[1].Kind != schema.Void {
		return Signature{}, fault.Userf("the unit must be text, not %s", args[1])
	}
	return Signature{Args: []schema.Type{t, schema.StringType}, Result: schema.StringType,
		Kernel: dateText(t, 1, func(m moment, args []texts, i int) (int64, bool) {
			unit := ""
			switch strings.ToUpper(string(args[0].at(i))) {
			case "MONTH", "MON", "MM":
				unit = "month"
			case "QUARTER", "Q":
				unit = "quarter"
			case "YEAR", "YYYY", "YY":
				unit = "year"
			default:
				return 0, false
			}
			d, _ := floorTo(unit, m.days, 0)
			return d, true
		})}, nil
}

func bindTruncNumber(args []schema.Type, constants []*schema.Datum) (Signature, error) {
	if len(args) == 2 {
		if _, err := integer(args[1:]); err != nil {
			return Signature{}, err
		}
	}
	t := args[0]
	result := t
	want := []schema.Type{t}
	if t.Kind == schema.Decimal { // the scale is the places' when they are known
		scale := 0
		if len(args) == 2 {
			scale = int(t.Scale)
			if c := constants[1]; c != nil && !c.Null {
				scale = int(min(max(c.I, 0), int64(t.Scale)))
			}
		}
		result = schema.DecimalType(max(t.Precision-t.Scale+uint8(scale), 1), uint8(scale))
	}
	if len(args) == 2 {
		want = append(want, schema.IntType)
	}
	places := func(args []Vector) func(i int) int {
		if len(args) < 2 {
			return func(int) int { return 0 }
		}
		x := columnOf[int32](args[1])
		return func(i int) int { return int(x.at(i)) }
	}
	// cut drops digits of an unscaled number beyond places.
	cut := func(x num, scale, places int) num {
		drop := scale - places
		if drop <= 0 {
			return x
		}
		if drop > maxPrecision {
			return num{}
		}
		q, _ := x.Div(pow10(drop))
		return q.Mul(pow10(drop))
	}
	s := Signature{Args: want, Result: result}
	switch {
	case t.Kind == schema.Decimal:
		from, to := int(t.Scale), int(result.Scale)
		s.Kernel = eachValid(result, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
			x, p := columnOf[num](args[0]), places(args)
			return func(i int) (num, bool) {
				return rescale(cut(x.at(i), from, min(p(i), to)), from, to, int(result.Precision))
			}, nil
		})
	case t.Kind == schema.Float:
		s.Kernel = eachValid(result, func(_ *Context, args []Vector) (func(int) (float32, bool), error) {
			x, p := columnOf[float32](args[0]), places(args)
			return func(i int) (float32, bool) {
				return float32(truncDouble(string(schema.AppendFloat(nil, x.at(i))), float64(x.at(i)), p(i))), true
			}, nil
		})
	case t.Kind == schema.Double:
		s.Kernel = eachValid(result, func(_ *Context, args []Vector) (func(int) (float64, bool), error) {
			x, p := columnOf[float64](args[0]), places(args)
			return func(i int) (float64, bool) {
				return truncDouble(string(schema.AppendDouble(nil, x.at(i))), x.at(i), p(i)), true
			}, nil
		})
	default:
		whole := func(args []Vector) func(i int) int64 {
			x, p := integers(args[0]), places(args)
			return func(i int) int64 { return int64(cut(decimal128.FromI64(x(i)), 0, p(i)).LowBits()) }
		}
		s.Kernel = byWidth(t, truncInts[int8](t, whole), truncInts[int16](t, whole), truncInts[int32](t, whole), truncInts[int64](t, whole))
	}
	if k := s.Kernel; len(args) == 2 { // NULL places are none, in Hive
		zero := Vector{Array: batch.NewFixed(schema.IntType.Arrow(), []int32{0}, nil), Const: true}
		s.Kernel = func(c *Context, n int, args []Vector) (Vector, error) {
			if args[1].Const && !args[1].isNull() || args[1].Array.NullN() == 0 {
				return k(c, n, args)
			}
			which, known := make([]int32, n), validBits(n, args[1])
			for i := range which {
				which[i] = 1 - int32(known[i>>3]>>(uint(i)&7)&1)
			}
			return k(c, n, []Vector{args[0], Select(schema.IntType, which, []Vector{args[1], zero})})
		}
	}
	return s, nil
}

func truncInts[T int8 | int16 | int32 | int64](t schema.Type, whole func([]Vector) func(int) int64) Kernel {
	return eachValid(t, func(_ *Context, args []Vector) (func(int) (T, bool), error) {
		f := whole(args)
		return func(i int) (T, bool) { return T(f(i)), true }, nil
	})
}

// truncDouble cuts the decimal text of x.
func truncDouble(text string, x float64, places int) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) || places > 300 || x == 0 {
		return x
	}
	r := rationalOf(text)
	if r == nil {
		return x
	}
	scaled := scaleRational(r, places)
	q := scaled.Num()
	q.Quo(q, scaled.Denom())
	f, _ := scaleRational(ratOfInt(q), -places).Float64()
	return f
}

// bindUTC is from_utc_timestamp and to_utc_timestamp.
func bindUTC(args []schema.Type, toUTC bool, zones *zoneCache) (Signature, error) {
	if err := arity(args, 2, 2); err != nil {
		return Signature{}, err
	}
	if !args[0].IsPrimitive() && args[0].Kind != schema.Void || castKernel(args[0], schema.TimestampType) == nil {
		return Signature{}, fault.Userf("it takes a timestamp, not %s", args[0])
	}
	if !args[1].IsText() && args[1].Kind != schema.Void {
		return Signature{}, fault.Userf("the zone must be text, not %s", args[1])
	}
	t := schema.TimestampType
	return Signature{Args: []schema.Type{t, schema.StringType}, Result: t,
		Kernel: eachValid(t, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
			x, name := columnOf[num](args[0]), textsOf(args[1])
			return func(i int) (num, bool) {
				zone, ok := zones.get(string(name.at(i)))
				if !ok { // as java.util.TimeZone has it
					zone = time.UTC
				}
				s, nanos, ok := schema.SecondsOf(x.at(i))
				_, offset := time.Unix(s, 0).In(zone).Zone()
				if !toUTC {
					return schema.NanosOf(s+int64(offset), nanos), ok
				}
				_, offset = time.Unix(s-int64(offset), 0).In(zone).Zone()
				return schema.NanosOf(s-int64(offset), nanos), ok
			}, nil
		})}, nil
}

// asJulian returns the day of the proleptic Gregorian calendar that has the year, month
// and day by which the old calendar calls a day before 1582-10-15.
func asJulian(days int64) (int64, bool) {
	if days >= -141427 {
		return days, true
	}
	// Julian day number to Julian calendar: Richards' algorithm without its Gregorian step.
	f := days + 2440588 + 1401
	e := 4*f + 3
	g := (e - floorDiv(e, 1461)*1461) / 4
	h := 5*g + 2
	day := h%153/5 + 1
	month := (h/153+2)%12 + 1
	year := floorDiv(e, 1461) - 4716 + (12+2-month)/12
	return schema.DaysOf(int(year), int(month), int(day))
}
