package schema

import (
	"math/bits"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

const (
	secondsADay  = 86400
	nanosASecond = 1_000_000_000
)

// DaysOf returns the days from 1970-01-01 to a day of the proleptic Gregorian
// calendar; ok is false when there is no such day. Algorithm: Howard Hinnant,
// "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
func DaysOf(year, month, day int) (days int64, ok bool) {
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, false
	}
	y := int64(year)
	if month <= 2 {
		y--
	}
	era := floorDiv(y, 400)
	yearOfEra := y - era*400
	monthFromMarch := int64((month + 9) % 12)
	dayOfYear := (153*monthFromMarch+2)/5 + int64(day) - 1
	dayOfEra := yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear
	return era*146097 + dayOfEra - 719468, true
}

// CivilOf is the inverse of DaysOf (civil_from_days).
func CivilOf(days int64) (year, month, day int) {
	days += 719468
	era := floorDiv(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	mp := (5*dayOfYear + 2) / 153
	day = int(dayOfYear - (153*mp+2)/5 + 1)
	month = int(mp + 3)
	if month > 12 {
		month -= 12
	}
	year = int(yearOfEra + era*400)
	if month <= 2 {
		year++
	}
	return year, month, day
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// NanosOf returns seconds since 1970 and nanoseconds of a second as a 128-bit
// count of nanoseconds, the form of timestamps (docs/design/0001).
func NanosOf(seconds int64, nanos int) decimal128.Num {
	u, negative := uint64(seconds), seconds < 0
	if negative {
		u = -u
	}
	hi, lo := bits.Mul64(u, nanosASecond)
	d := decimal128.New(int64(hi), lo)
	if negative {
		d = d.Negate()
	}
	return d.Add(decimal128.FromI64(int64(nanos)))
}

// SecondsOf is the inverse of NanosOf: seconds since 1970, rounded down, and
// the nanoseconds above them. ok is false when the seconds exceed 64 bits,
// which no timestamp that Skep makes does.
func SecondsOf(d decimal128.Num) (seconds int64, nanos int, ok bool) {
	hi, lo := uint64(d.HighBits()), d.LowBits()
	negative := d.HighBits() < 0
	if negative {
		lo = -lo
		hi = ^hi
		if lo == 0 {
			hi++
		}
	}
	if hi >= nanosASecond {
		return 0, 0, false
	}
	q, r := bits.Div64(hi, lo, nanosASecond)
	if q>>63 != 0 {
		return 0, 0, false
	}
	seconds, nanos = int64(q), int(r)
	if negative {
		seconds = -seconds
		if nanos > 0 {
			seconds--
			nanos = nanosASecond - nanos
		}
	}
	return seconds, nanos, true
}

// AppendDate appends yyyy-MM-dd; years below 0 have a sign, above 9999 more digits.
func AppendDate(dst []byte, days int64) []byte {
	year, month, day := CivilOf(days)
	if year < 0 {
		dst = append(dst, '-')
		year = -year
	}
	dst = appendPadded(dst, year, 4)
	dst = append(dst, '-')
	dst = appendPadded(dst, month, 2)
	dst = append(dst, '-')
	return appendPadded(dst, day, 2)
}

// AppendTimestamp appends yyyy-MM-dd HH:mm:ss and, unless it is zero, the
// fraction without trailing zeros.
func AppendTimestamp(dst []byte, d decimal128.Num) []byte {
	seconds, nanos, ok := SecondsOf(d)
	if !ok {
		return append(AppendDecimal(dst, d, 9), " s"...)
	}
	days := floorDiv(seconds, secondsADay)
	dst = AppendDate(dst, days)
	dst = append(dst, ' ')
	dst = appendClock(dst, int(seconds-days*secondsADay))
	return appendFraction(dst, nanos)
}

// appendTimestampTZ appends an instant in UTC the way Hive prints timestamp
// with local time zone: always a fraction, then the zone.
func appendTimestampTZ(dst []byte, d decimal128.Num) []byte {
	dst = AppendTimestamp(dst, d)
	if _, nanos, ok := SecondsOf(d); ok && nanos == 0 {
		dst = append(dst, ".0"...)
	}
	return append(dst, " UTC"...)
}

// appendIntervalDayTime appends "1 02:03:04.000000000", as Hive does.
func appendIntervalDayTime(dst []byte, d decimal128.Num) []byte {
	if d.Sign() < 0 {
		dst = append(dst, '-')
		d = d.Negate()
	}
	seconds, nanos, ok := SecondsOf(d)
	if !ok {
		return append(AppendDecimal(dst, d, 9), " s"...)
	}
	dst = strconv.AppendInt(dst, seconds/secondsADay, 10)
	dst = append(dst, ' ')
	dst = appendClock(dst, int(seconds%secondsADay))
	dst = append(dst, '.')
	return appendPadded(dst, nanos, 9)
}

// appendIntervalYearMonth appends "1-2", as Hive does.
func appendIntervalYearMonth(dst []byte, months int64) []byte {
	if months < 0 {
		dst = append(dst, '-')
		months = -months
	}
	dst = strconv.AppendInt(dst, months/12, 10)
	dst = append(dst, '-')
	return strconv.AppendInt(dst, months%12, 10)
}

func appendClock(dst []byte, second int) []byte {
	dst = appendPadded(dst, second/3600, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, second/60%60, 2)
	dst = append(dst, ':')
	return appendPadded(dst, second%60, 2)
}

func appendFraction(dst []byte, nanos int) []byte {
	if nanos == 0 {
		return dst
	}
	dst = append(dst, '.')
	dst = appendPadded(dst, nanos, 9)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

func appendPadded(dst []byte, v, width int) []byte {
	var room [20]byte
	i := len(room)
	for v > 0 || width > 0 {
		i--
		room[i] = byte('0' + v%10)
		v /= 10
		width--
	}
	return append(dst, room[i:]...)
}

// parseDate reads yyyy-M-d; a time after a blank or T is ignored, as Hive's
// Date.valueOf does.
func parseDate(s []byte) (int64, bool) {
	s = trimBlanks(s)
	days, rest, ok := cutDate(s)
	if !ok || len(rest) > 0 && rest[0] != ' ' && rest[0] != 'T' {
		return 0, false
	}
	return days, true
}

// cutDate reads the date s begins with and returns what follows.
func cutDate(s []byte) (days int64, rest []byte, ok bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	// Days are 32 bits: years -5877641 to 5881580.
	year, s, ok := cutNumber(s, 7)
	if !ok || year > 5_800_000 || len(s) == 0 || s[0] != '-' {
		return 0, nil, false
	}
	month, s, ok := cutNumber(s[1:], 2)
	if !ok || len(s) == 0 || s[0] != '-' {
		return 0, nil, false
	}
	day, s, ok := cutNumber(s[1:], 2)
	if !ok {
		return 0, nil, false
	}
	if negative {
		year = -year
	}
	days, ok = DaysOf(year, month, day)
	return days, s, ok
}

// cutNumber reads 1 to most digits.
func cutNumber(s []byte, most int) (v int, rest []byte, ok bool) {
	i := 0
	for i < len(s) && i <= most && s[i] >= '0' && s[i] <= '9' {
		v = v*10 + int(s[i]-'0')
		i++
	}
	return v, s[i:], i > 0 && i <= most
}

// parseTimestamp reads a date, perhaps with a time H:m[:s[.fraction]] after a
// blank or T, perhaps with a zone. The zone is dropped unless useZone,
// when it shifts the result to UTC: Hive's timestamp has no zone, and a
// zoned text gives its local time. Fraction digits beyond nine are cut.
func parseTimestamp(s []byte, useZone bool) (decimal128.Num, bool) {
	s = trimBlanks(s)
	days, s, ok := cutDate(s)
	if !ok {
		return decimal128.Num{}, false
	}
	seconds, nanos := days*secondsADay, 0
	if len(s) > 0 && (s[0] == ' ' || s[0] == 'T') {
		var clock int
		clock, nanos, s, ok = cutClock(s[1:])
		if !ok {
			return decimal128.Num{}, false
		}
		seconds += int64(clock)
	}
	if len(s) > 0 {
		offset, ok := parseZone(trimBlanks(s))
		if !ok {
			return decimal128.Num{}, false
		}
		if useZone {
			seconds -= int64(offset)
		}
	}
	return NanosOf(seconds, nanos), true
}

func cutClock(s []byte) (second, nanos int, rest []byte, ok bool) {
	hour, s, ok := cutNumber(s, 2)
	if !ok || hour > 23 || len(s) == 0 || s[0] != ':' {
		return 0, 0, nil, false
	}
	minute, s, ok := cutNumber(s[1:], 2)
	if !ok || minute > 59 {
		return 0, 0, nil, false
	}
	sec := 0
	if len(s) > 0 && s[0] == ':' {
		if sec, s, ok = cutNumber(s[1:], 2); !ok || sec > 59 {
			return 0, 0, nil, false
		}
		if len(s) > 0 && s[0] == '.' {
			i := 1
			for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
				if i <= 9 {
					nanos = nanos*10 + int(s[i]-'0')
				}
			}
			for j := i; j <= 9; j++ {
				nanos *= 10
			}
			s = s[i:]
		}
	}
	return hour*3600 + minute*60 + sec, nanos, s, true
}

// parseZone reads Z, UTC, GMT or an offset +hh[:mm] in seconds. Names of places
// are not read: they would make the meaning of a file depend on a machine's
// zone tables.
func parseZone(s []byte) (offset int, ok bool) {
	switch string(s) {
	case "Z", "z", "UTC", "GMT":
		return 0, true
	}
	for _, prefix := range []string{"UTC", "GMT"} {
		if len(s) > 3 && string(s[:3]) == prefix {
			s = s[3:]
			break
		}
	}
	if len(s) < 2 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	sign := 1
	if s[0] == '-' {
		sign = -1
	}
	hour, rest, ok := cutNumber(s[1:], 2)
	if !ok || hour > 18 {
		return 0, false
	}
	minute := 0
	if len(rest) > 0 {
		if rest[0] == ':' {
			rest = rest[1:]
		}
		if minute, rest, ok = cutNumber(rest, 2); !ok || minute > 59 || len(rest) > 0 {
			return 0, false
		}
	}
	return sign * (hour*3600 + minute*60), true
}
