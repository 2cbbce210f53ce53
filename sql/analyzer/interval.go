package analyzer

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/schema"
)

// nanoseconds of the units of a day-time interval.
var unitNanos = map[string]int64{"SECOND": 1e9, "MINUTE": 60e9, "HOUR": 3600e9, "DAY": 86400e9, "WEEK": 7 * 86400e9}

// unitMonths are the months of the units of a year-month interval.
var unitMonths = map[string]int64{"MONTH": 1, "QUARTER": 3, "YEAR": 12}

// intervalOf reads an interval literal: "3" with a unit, "1-2" YEAR TO MONTH,
// "1 2:03:04.5" DAY TO SECOND.
func intervalOf(text, unit string) (schema.Datum, bool) {
	text = strings.TrimSpace(text)
	negative := strings.HasPrefix(text, "-")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	sign := int64(1)
	if negative {
		sign = -1
	}
	months := func(n int64, err error) (schema.Datum, bool) {
		return schema.Datum{Type: schema.Type{Kind: schema.IntervalYearMonth}, I: sign * n}, err == nil && n < 1<<31
	}
	nanos := func(n int64, ok bool) (schema.Datum, bool) {
		return schema.Datum{Type: schema.Type{Kind: schema.IntervalDayTime}, D: decimal128.FromI64(sign * n)}, ok
	}
	switch unit {
	case "YEAR TO MONTH":
		y, m, ok := strings.Cut(text, "-")
		years, err1 := strconv.ParseUint(y, 10, 20)
		month, err2 := strconv.ParseUint(m, 10, 8)
		if !ok || err1 != nil || err2 != nil || month > 11 {
			return schema.Datum{}, false
		}
		return months(int64(years*12+month), nil)
	case "DAY TO SECOND":
		d, clock, ok := strings.Cut(text, " ")
		parts := strings.Split(clock, ":")
		if !ok || len(parts) != 3 {
			return schema.Datum{}, false
		}
		total := int64(0)
		for i, unit := range [...]string{"DAY", "HOUR", "MINUTE", "SECOND"} {
			n, ok := scaled(append([]string{d}, parts...)[i], unitNanos[unit])
			if !ok {
				return schema.Datum{}, false
			}
			total += n
		}
		return nanos(total, true)
	}
	if m, ok := unitMonths[unit]; ok {
		n, err := strconv.ParseUint(text, 10, 20)
		return months(int64(n)*m, err)
	}
	if unitNanos[unit] == 0 {
		return schema.Datum{}, false
	}
	return nanos(scaled(text, unitNanos[unit]))
}

// scaled reads a number of units of so many nanoseconds; only seconds may have
// a fraction.
func scaled(text string, unit int64) (int64, bool) {
	whole, fraction, point := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 32)
	if err != nil || int64(n) > (1<<62)/unit || point && (unit != 1e9 || len(fraction) > 9 || fraction == "") {
		return 0, false
	}
	f := uint64(0)
	if point {
		if f, err = strconv.ParseUint(fraction+strings.Repeat("0", 9-len(fraction)), 10, 32); err != nil {
			return 0, false
		}
	}
	return int64(n)*unit + int64(f), true
}
