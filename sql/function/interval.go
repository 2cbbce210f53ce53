package function

import (
	"strconv"
	"strings"

	"github.com/skepdb/skep/schema"
)

// parseInterval reads "1-2" (years and months) or "1 02:03:04.5" (days and time), perhaps with
// a sign.
func parseInterval(to schema.Type) Kernel {
	if to.Kind == schema.IntervalYearMonth {
		return eachValid(to, func(_ *Context, args []Vector) (func(int) (int32, bool), error) {
			x := textsOf(args[0])
			return func(i int) (int32, bool) {
				s, negative := cutSign(string(trimJava(x.at(i))))
				years, months, ok := strings.Cut(s, "-")
				y, err := strconv.ParseUint(years, 10, 27)
				m, err2 := strconv.ParseUint(months, 10, 8)
				if !ok || err != nil || err2 != nil || m > 11 {
					return 0, false
				}
				n := int32(y*12 + m)
				if negative {
					n = -n
				}
				return n, true
			}, nil
		})
	}
	return eachValid(to, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
		x := textsOf(args[0])
		return func(i int) (num, bool) {
			s, negative := cutSign(string(trimJava(x.at(i))))
			days, clock, ok := strings.Cut(s, " ")
			d, err := strconv.ParseUint(days, 10, 31)
			parts := strings.Split(clock, ":")
			if !ok || err != nil || len(parts) != 3 {
				return num{}, false
			}
			var v [2]uint64
			for k, most := range []uint64{23, 59} {
				if v[k], err = strconv.ParseUint(parts[k], 10, 8); err != nil || v[k] > most {
					return num{}, false
				}
			}
			seconds, ok := schema.ParseDecimal([]byte(parts[2]), 11, 9)
			if !ok || parts[2] == "" || parts[2][0] == '-' || parts[2][0] == '+' {
				return num{}, false
			}
			n := seconds.Add(schema.NanosOf(int64(d)*secondsADay+int64(v[0]*3600+v[1]*60), 0))
			if negative {
				n = n.Negate()
			}
			return n, true
		}, nil
	})
}

func cutSign(s string) (rest string, negative bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[1:], s[0] == '-'
	}
	return s, false
}
