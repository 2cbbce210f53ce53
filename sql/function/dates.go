package function

import (
	"bytes"
	"time"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

const secondsADay = 86400

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func zone(c *Context) *time.Location {
	if c == nil || c.Location == nil {
		return time.UTC
	}
	return c.Location
}

// offsetAt returns the session zone's offset from UTC at an instant.
func offsetAt(c *Context, seconds int64) int64 {
	_, offset := time.Unix(seconds, 0).In(zone(c)).Zone()
	return int64(offset)
}

// instantOf returns the instant at which the session zone's clocks show a wall
// clock time, given as if it were UTC.
func instantOf(c *Context, wall int64) int64 {
	guess := wall - offsetAt(c, wall)
	return wall - offsetAt(c, guess)
}

// moment is a date or timestamp taken apart.
type moment struct {
	days        int64
	second      int64 // of the day
	nanos       int
	hasTime, ok bool
	partial     bool // a text's time without seconds
}

// moments reads a date, timestamp or text argument ("2020-01-31", with or
// without a time; unreadable text is not ok).
func moments(c *Context, t schema.Type, v Vector) func(i int) moment {
	fromSeconds := func(s int64, nanos int, ok bool) moment {
		d := floorDiv(s, secondsADay)
		return moment{days: d, second: s - d*secondsADay, nanos: nanos, hasTime: true, ok: ok}
	}
	switch {
	case t.Kind == schema.Date:
		x := columnOf[int32](v)
		return func(i int) moment { return moment{days: int64(x.at(i)), ok: true} }
	case t.IsText():
		x := textsOf(v)
		return func(i int) moment {
			s := trimJava(x.at(i))
			if d, ok := schema.ParseText(schema.TimestampType, s); ok {
				sec, nanos, ok := schema.SecondsOf(d.D)
				m := fromSeconds(sec, nanos, ok)
				m.hasTime, m.partial = len(s) > 10, bytes.Count(s, []byte{':'}) < 2
				return m
			}
			if d, ok := schema.ParseText(schema.DateType, s); ok {
				return moment{days: d.I, ok: true}
			}
			return moment{}
		}
	case t.Kind == schema.TimestampTZ:
		x := columnOf[num](v)
		return func(i int) moment {
			s, nanos, ok := schema.SecondsOf(x.at(i))
			return fromSeconds(s+offsetAt(c, s), nanos, ok)
		}
	}
	x := columnOf[num](v)
	return func(i int) moment { return fromSeconds(schema.SecondsOf(x.at(i))) }
}

// momentType returns the type in which a date-like argument is taken.
func momentType(t schema.Type) (schema.Type, error) {
	switch {
	case t.Kind == schema.Void:
		return schema.DateType, nil
	case isDateTime(t) || t.IsText():
		return t, nil
	}
	return t, fault.Userf("it takes a date, a timestamp or text, not %s", t)
}

// addPart registers a function of a moment with an int result.
func addPart(r *Registry, names string, f func(m moment) int) {
	r.add(names, func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		t, err := momentType(args[0])
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{t}, Result: schema.IntType,
			Kernel: eachValid(schema.IntType, func(c *Context, args []Vector) (func(int) (int32, bool), error) {
				at := moments(c, t, args[0])
				return func(i int) (int32, bool) {
					m := at(i)
					if !m.ok {
						return 0, false
					}
					return int32(f(m)), true
				}, nil
			})}, nil
	})
}

// addClockPart is addPart for parts of the time of day: a text may be a time alone, and a
// day-time interval has them too.
func addClockPart(r *Registry, names string, f func(m moment) int) {
	addPart(r, names, f)
	plain := r.scalars[names]
	r.add(names, func(args []schema.Type) (Signature, error) {
		if len(args) == 1 && args[0].Kind == schema.IntervalDayTime {
			return Signature{Args: args, Result: schema.IntType, Kernel: fixed1n(schema.IntType, func(x num) (int32, bool) {
				negative := x.Sign() < 0
				s, _, ok := schema.SecondsOf(x.Abs())
				v := int32(f(moment{second: s % secondsADay}))
				if negative {
					v = -v
				}
				return v, ok
			})}, nil
		}
		s, err := plain(args)
		if err != nil || !s.Args[0].IsText() {
			return s, err
		}
		t := s.Args[0]
		s.Kernel = eachValid(schema.IntType, func(c *Context, args []Vector) (func(int) (int32, bool), error) {
			at, x := moments(c, t, args[0]), textsOf(args[0])
			var room []byte
			return func(i int) (int32, bool) {
				m := at(i)
				if !m.ok {
					room = append(append(room[:0], "1970-01-01 "...), trimJava(x.at(i))...)
					d, ok := schema.ParseText(schema.TimestampType, room)
					if !ok {
						return 0, false
					}
					m.second, _, _ = schema.SecondsOf(d.D)
				}
				return int32(f(m)), true
			}, nil
		})
		return s, nil
	})
}

func addDates(r *Registry) {
	addPart(r, "year", func(m moment) int { y, _, _ := schema.CivilOf(m.days); return y })
	addPart(r, "month", func(m moment) int { _, mo, _ := schema.CivilOf(m.days); return mo })
	addPart(r, "day dayofmonth", func(m moment) int { _, _, d := schema.CivilOf(m.days); return d })
	addPart(r, "quarter", func(m moment) int { _, mo, _ := schema.CivilOf(m.days); return (mo + 2) / 3 })
	addPart(r, "dayofweek", func(m moment) int { return int((m.days%7+7+4)%7) + 1 }) // 1970-01-01 was a Thursday: 5
	addClockPart(r, "hour", func(m moment) int { return int(m.second / 3600) })
	addClockPart(r, "minute", func(m moment) int { return int(m.second / 60 % 60) })
	addClockPart(r, "second", func(m moment) int { return int(m.second % 60) })
	addPart(r, "weekofyear week", func(m moment) int { // ISO 8601: the week that has the year's first Thursday is 1
		_, w := time.Unix(m.days*secondsADay, 0).UTC().ISOWeek()
		return w
	})
	r.add("to_date", func(args []schema.Type) (Signature, error) {
		return dateFunction(args, 0, func(m moment, _ int64) (int64, bool) { return m.days, true })
	})
	r.add("date_add", func(args []schema.Type) (Signature, error) {
		return dateFunction(args, 1, func(m moment, n int64) (int64, bool) { return m.days + n, true })
	})
	r.add("date_sub", func(args []schema.Type) (Signature, error) {
		return dateFunction(args, 1, func(m moment, n int64) (int64, bool) { return m.days - n, true })
	})
	r.add("last_day", func(args []schema.Type) (Signature, error) {
		return dateFunction(args, 0, func(m moment, _ int64) (int64, bool) {
			y, mo, _ := schema.CivilOf(m.days)
			return addMonths(y, mo, 1, 1) - 1, true
		})
	})
	r.add("add_months", func(args []schema.Type) (Signature, error) {
		if len(args) == 3 {
			return bindAddMonthsFormatted(args)
		}
		return dateFunction(args, 1, func(m moment, n int64) (int64, bool) {
			y, mo, d := schema.CivilOf(m.days)
			if addMonths(y, mo, 1, 1)-1 == m.days { // the last day stays the last day
				d = 31
			}
			return addMonths(y, mo, d, n), n > -120000 && n < 120000
		})
	})
	r.add("datediff", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
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
		return Signature{Args: []schema.Type{a, b}, Result: schema.IntType,
			Kernel: eachValid(schema.IntType, func(c *Context, args []Vector) (func(int) (int32, bool), error) {
				x, y := moments(c, a, args[0]), moments(c, b, args[1])
				return func(i int) (int32, bool) {
					m, n := x(i), y(i)
					return int32(m.days - n.days), m.ok && n.ok
				}, nil
			})}, nil
	})
	r.add("current_date", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 0, 0); err != nil {
			return Signature{}, err
		}
		return Signature{Result: schema.DateType, Kernel: func(c *Context, _ int, _ []Vector) (Vector, error) {
			s := c.Now.Unix()
			d := int32(floorDiv(s+offsetAt(c, s), secondsADay))
			return Vector{Array: batch.NewFixed(schema.DateType.Arrow(), []int32{d}, nil), Const: true}, nil
		}}, nil
	})
	r.add("current_timestamp", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 0, 0); err != nil {
			return Signature{}, err
		}
		return Signature{Result: schema.TimestampType, Kernel: func(c *Context, _ int, _ []Vector) (Vector, error) {
			s := c.Now.Unix()
			d := schema.NanosOf(s+offsetAt(c, s), c.Now.Nanosecond()/1e6*1e6)
			return Vector{Array: batch.NewFixed(schema.TimestampType.Arrow(), []num{d}, nil), Const: true}, nil
		}}, nil
	})
	r.add("unix_timestamp to_unix_timestamp", bindUnixTimestamp)
	r.add("from_unixtime", bindFromUnixtime)
	r.add("date_format", bindDateFormat)
}

// addMonths returns the day n months after a month's day d, or that month's
// last day if it is shorter.
func addMonths(year, month, d int, n int64) int64 {
	total := int64(year)*12 + int64(month) - 1 + n
	y, mo := floorDiv(total, 12), int(total-floorDiv(total, 12)*12)+1
	for ; ; d-- {
		if days, ok := schema.DaysOf(int(y), mo, d); ok {
			return days
		}
	}
}

// dateFunction is a function of a date and perhaps an integer that gives a date.
func dateFunction(args []schema.Type, ints int, f func(m moment, n int64) (int64, bool)) (Signature, error) {
	if err := arity(args, 1+ints, 1+ints); err != nil {
		return Signature{}, err
	}
	t, err := momentType(args[0])
	if err != nil {
		return Signature{}, err
	}
	want := []schema.Type{t}
	if ints > 0 {
		if _, err := integer(args[1:]); err != nil {
			return Signature{}, err
		}
		want = append(want, schema.IntType)
	}
	return Signature{Args: want, Result: schema.DateType,
		Kernel: eachValid(schema.DateType, func(c *Context, args []Vector) (func(int) (int32, bool), error) {
			at := moments(c, t, args[0])
			n := func(int) int64 { return 0 }
			if ints > 0 {
				n = integers(args[1])
			}
			return func(i int) (int32, bool) {
				m := at(i)
				if !m.ok {
					return 0, false
				}
				d, ok := f(m, n(i))
				return int32(d), ok
			}, nil
		})}, nil
}

// bindDateArithmetic is + and - of dates, timestamps and intervals.
func bindDateArithmetic(op string, args []schema.Type) (Signature, error) {
	a, b := args[0], args[1]
	if isInterval(a) && !isInterval(b) && op == "+" { // interval + date: the other way round
		s, err := bindDateArithmetic(op, []schema.Type{b, a})
		if err != nil {
			return Signature{}, err
		}
		k := s.Kernel
		s.Args = []schema.Type{s.Args[1], s.Args[0]}
		s.Kernel = func(c *Context, n int, args []Vector) (Vector, error) { return k(c, n, []Vector{args[1], args[0]}) }
		return s, nil
	}
	sign := int64(1)
	if op == "-" {
		sign = -1
	}
	if b.Kind == schema.Void {
		b = a
	}
	if a.Kind == schema.Void {
		a = b
	}
	if a.IsText() && isDateTime(b) || isInterval(b) && a.IsText() {
		a = schema.TimestampType
	}
	if b.IsText() && isDateTime(a) {
		b = schema.TimestampType
	}
	want := []schema.Type{a, b}
	switch {
	case a.Kind == schema.IntervalYearMonth && b.Kind == a.Kind:
		return Signature{Args: want, Result: a, Kernel: fixed2n(a, func(x, y int32) (int32, bool) { return x + int32(sign)*y, true })}, nil
	case a.Kind == schema.IntervalDayTime && b.Kind == a.Kind:
		return Signature{Args: want, Result: a, Kernel: fixed2n(a, func(x, y num) (num, bool) {
			if sign < 0 {
				y = y.Negate()
			}
			return x.Add(y), true
		})}, nil
	case a.Kind == schema.Date && b.Kind == schema.IntervalYearMonth:
		return Signature{Args: want, Result: a, Kernel: fixed2n(a, func(x, y int32) (int32, bool) {
			yr, mo, d := schema.CivilOf(int64(x))
			return int32(addMonths(yr, mo, d, sign*int64(y))), true
		})}, nil
	case a.Kind == schema.Timestamp && b.Kind == schema.IntervalYearMonth:
		return Signature{Args: want, Result: a, Kernel: fixed2n(a, func(x num, y int32) (num, bool) {
			s, nanos, ok := schema.SecondsOf(x)
			days := floorDiv(s, secondsADay)
			yr, mo, d := schema.CivilOf(days)
			return schema.NanosOf(addMonths(yr, mo, d, sign*int64(y))*secondsADay+s-days*secondsADay, nanos), ok
		})}, nil
	case isDateTime(a) && b.Kind == schema.IntervalDayTime:
		t := a
		if a.Kind == schema.Date {
			t = schema.TimestampType
		}
		return Signature{Args: []schema.Type{t, b}, Result: t, Kernel: fixed2n(t, func(x, y num) (num, bool) {
			if sign < 0 {
				y = y.Negate()
			}
			return x.Add(y), true
		})}, nil
	case op == "-" && isDateTime(a) && isDateTime(b):
		t := schema.TimestampType
		if a.Kind == schema.TimestampTZ && b.Kind == a.Kind {
			t = a
		}
		result := schema.Type{Kind: schema.IntervalDayTime}
		return Signature{Args: []schema.Type{t, t}, Result: result,
			Kernel: fixed2n(result, func(x, y num) (num, bool) { return x.Sub(y), true })}, nil
	case a.Kind == schema.Date && b.IsInteger():
		return Signature{Args: []schema.Type{a, schema.IntType}, Result: a,
			Kernel: fixed2n(a, func(x, y int32) (int32, bool) { return x + int32(sign)*y, true })}, nil
	}
	return Signature{}, fault.Userf("%s %s %s makes no sense", args[0], op, args[1])
}

// bindUnixTimestamp is unix_timestamp([time[, pattern]]): seconds since 1970.
func bindUnixTimestamp(args []schema.Type) (Signature, error) {
	if err := arity(args, 0, 2); err != nil {
		return Signature{}, err
	}
	if len(args) == 0 {
		return Signature{Result: schema.BigIntType, Kernel: func(c *Context, _ int, _ []Vector) (Vector, error) {
			return Vector{Array: batch.NewFixed(schema.BigIntType.Arrow(), []int64{c.Now.Unix()}, nil), Const: true}, nil
		}}, nil
	}
	t, err := momentType(args[0])
	if err != nil {
		return Signature{}, err
	}
	want := []schema.Type{t}
	if len(args) == 2 {
		if !args[1].IsText() {
			return Signature{}, fault.Userf("the pattern must be text, not %s", args[1])
		}
		want = append(want, args[1])
	}
	return Signature{Args: want, Result: schema.BigIntType,
		Kernel: eachValid(schema.BigIntType, func(c *Context, args []Vector) (func(int) (int64, bool), error) {
			if len(args) == 2 && t.IsText() {
				s, p := textsOf(args[0]), textsOf(args[1])
				patterns := newTimePatterns(c)
				if args[1].Const { // a bad pattern is an error, not a column of NULLs
					if _, err := patterns.get(p.at(0)); err != nil {
						return nil, err
					}
				}
				return func(i int) (int64, bool) {
					pattern, err := patterns.get(p.at(i))
					if err != nil {
						return 0, false
					}
					at, ok := pattern.parse(string(s.at(i)))
					return at.instant(zone(c)), ok
				}, nil
			}
			at := moments(c, t, args[0])
			return func(i int) (int64, bool) {
				m := at(i)
				return instantOf(c, m.days*secondsADay+m.second), m.ok
			}, nil
		})}, nil
}

func bindFromUnixtime(args []schema.Type) (Signature, error) {
	if err := arity(args, 1, 2); err != nil {
		return Signature{}, err
	}
	if _, err := integer(args[:1]); err != nil {
		return Signature{}, err
	}
	want := []schema.Type{schema.BigIntType}
	if len(args) == 2 {
		want = append(want, schema.StringType)
	}
	return Signature{Args: want, Result: schema.StringType,
		Kernel: eachText(schema.StringType, func(c *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
			x := columnOf[int64](args[0])
			pattern := func(int) []byte { return []byte("yyyy-MM-dd HH:mm:ss") }
			if len(args) == 2 {
				p := textsOf(args[1])
				pattern = p.at
			}
			patterns := newTimePatterns(c)
			return func(dst []byte, i int) ([]byte, bool) {
				p, err := patterns.get(pattern(i))
				if err != nil {
					return dst, false
				}
				wall := x.at(i) + offsetAt(c, x.at(i))
				days := floorDiv(wall, secondsADay)
				return p.format(dst, clockTime{days, int(wall - days*secondsADay), 0, zone(c)}), true
			}, nil
		})}, nil
}

func bindDateFormat(args []schema.Type) (Signature, error) {
	if err := arity(args, 2, 2); err != nil {
		return Signature{}, err
	}
	t, err := momentType(args[0])
	if err != nil {
		return Signature{}, err
	}
	return Signature{Args: []schema.Type{t, schema.StringType}, Result: schema.StringType,
		Kernel: eachText(schema.StringType, func(c *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
			at, pattern, patterns := moments(c, t, args[0]), textsOf(args[1]), newTimePatterns(c)
			return func(dst []byte, i int) ([]byte, bool) {
				m := at(i)
				p, err := patterns.get(pattern.at(i))
				if !m.ok || err != nil {
					return dst, false
				}
				return p.format(dst, clockTime{m.days, int(m.second), m.nanos, zone(c)}), true
			}, nil
		})}, nil
}

// bindAddMonthsFormatted is add_months(date, n, pattern): the date as text.
func bindAddMonthsFormatted(args []schema.Type) (Signature, error) {
	t, err := momentType(args[0])
	if err != nil {
		return Signature{}, err
	}
	if _, err := integer(args[1:2]); err != nil {
		return Signature{}, err
	}
	if !args[2].IsText() && args[2].Kind != schema.Void {
		return Signature{}, fault.Userf("the pattern must be text, not %s", args[2])
	}
	return Signature{Args: []schema.Type{t, schema.IntType, schema.StringType}, Result: schema.StringType,
		Kernel: eachText(schema.StringType, func(c *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
			at, months, pattern, patterns := moments(c, t, args[0]), columnOf[int32](args[1]), textsOf(args[2]), newTimePatterns(c)
			return func(dst []byte, i int) ([]byte, bool) {
				m, n := at(i), int64(months.at(i))
				p, err := patterns.get(pattern.at(i))
				if !m.ok || err != nil || n <= -120000 || n >= 120000 {
					return dst, false
				}
				y, mo, d := schema.CivilOf(m.days)
				if addMonths(y, mo, 1, 1)-1 == m.days {
					d = 31
				}
				return p.format(dst, clockTime{addMonths(y, mo, d, n), int(m.second), m.nanos, zone(c)}), true
			}, nil
		})}, nil
}
