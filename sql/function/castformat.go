package function

import (
	"strconv"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// sqlToken is a part of a pattern of CAST(x AS t FORMAT 'pattern'), in SQL:2016's language:
// one of sqlTokens in the case in which it was written, or literal text.
type sqlToken struct {
	kind string // "" for a literal
	text string
}

// sqlTokens, longer ones before those that they begin with.
var sqlTokens = []string{"YYYY", "YYY", "YY", "Y", "RRRR", "RR", "MONTH", "MON", "MM", "MI", "DDD", "DAY", "DD", "DY", "D", "HH24", "HH12", "HH",
	"SSSSS", "SS", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FF7", "FF8", "FF9", "FF", "A.M.", "P.M.", "AM", "PM", "TZH", "TZM", "Q", "WW", "W",
	"IYYY", "IW", "ID", "FM", "FX"}

func compileSQLPattern(p string) ([]sqlToken, error) {
	var out []sqlToken
next:
	for i := 0; i < len(p); {
		if p[i] == '"' {
			end := strings.IndexByte(p[i+1:], '"')
			if end < 0 {
				return nil, fault.Userf("the pattern %q has an open quote", p)
			}
			out = append(out, sqlToken{text: p[i+1 : i+1+end]})
			i += end + 2
			continue
		}
		for _, k := range sqlTokens {
			if len(p)-i >= len(k) && strings.EqualFold(p[i:i+len(k)], k) {
				out = append(out, sqlToken{kind: k, text: p[i : i+len(k)]})
				i += len(k)
				continue next
			}
		}
		if strings.IndexByte("-./,';: TZ", p[i]) < 0 {
			return nil, fault.Userf("the pattern %q has %q, which stands for nothing", p, p[i:])
		}
		out = append(out, sqlToken{text: p[i : i+1]})
		i++
	}
	return out, nil
}

// bindCastFormat is cast_format('type', value, 'pattern'): CAST(value AS type FORMAT 'pattern')
// between text and a date or timestamp.
func bindCastFormat(args []schema.Type, constants []*schema.Datum) (Signature, error) {
	if err := arity(args, 3, 3); err != nil {
		return Signature{}, err
	}
	for _, i := range []int{0, 2} {
		if constants[i] == nil || constants[i].Null || !args[i].IsText() {
			return Signature{}, fault.Userf("argument %d must be a constant text", i+1)
		}
	}
	to, err := schema.ParseType(constants[0].S)
	if err != nil {
		return Signature{}, err
	}
	pattern, err := compileSQLPattern(constants[2].S)
	if err != nil {
		return Signature{}, err
	}
	from := args[1]
	want := []schema.Type{args[0], from, args[2]}
	switch {
	case from.Kind == schema.Void:
		return Signature{Args: want, Result: to, Kernel: func(*Context, int, []Vector) (Vector, error) { return nullOf(to), nil }}, nil
	case isDateTime(from) && to.IsText():
		return Signature{Args: want, Result: to, Kernel: eachText(to, func(c *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
			at := moments(c, from, args[1])
			return func(dst []byte, i int) ([]byte, bool) {
				m := at(i)
				start := len(dst)
				dst = formatSQL(dst, pattern, m)
				if to.Kind != schema.String {
					dst = dst[:start+len(firstRunes(dst[start:], int(to.Length)))]
				}
				return dst, m.ok
			}, nil
		})}, nil
	case from.IsText() && to.Kind == schema.Date:
		return Signature{Args: want, Result: to, Kernel: eachValid(to, func(c *Context, args []Vector) (func(int) (int32, bool), error) {
			x := textsOf(args[1])
			return func(i int) (int32, bool) {
				t, ok := parseSQL(pattern, string(trimJava(x.at(i))))
				return int32(t.days), ok
			}, nil
		})}, nil
	case from.IsText() && (to.Kind == schema.Timestamp || to.Kind == schema.TimestampTZ):
		return Signature{Args: want, Result: to, Kernel: eachValid(to, func(c *Context, args []Vector) (func(int) (num, bool), error) {
			x := textsOf(args[1])
			return func(i int) (num, bool) {
				t, ok := parseSQL(pattern, string(trimJava(x.at(i))))
				wall := t.days*secondsADay + t.second
				if t.hasOffset {
					wall -= int64(t.offset)
				}
				if to.Kind == schema.TimestampTZ && !t.hasOffset {
					wall = instantOf(c, wall)
				}
				return schema.NanosOf(wall, t.nanos), ok
			}, nil
		})}, nil
	}
	return Signature{}, fault.Userf("FORMAT is for casts between text and a date or timestamp, not from %s to %s", from, to)
}

// inCaseOf gives a name the case of the token: MONTH, Month or month.
func inCaseOf(token, name string) string {
	switch {
	case token == strings.ToLower(token):
		return strings.ToLower(name)
	case len(token) > 1 && token[1] >= 'a':
		return name
	}
	return strings.ToUpper(name)
}

func formatSQL(dst []byte, pattern []sqlToken, m moment) []byte {
	year, month, day := schema.CivilOf(m.days)
	first, _ := schema.DaysOf(year, 1, 1)
	fill := true // FM: the next part without zeros or blanks
	number := func(v, width int) {
		s := strconv.Itoa(v)
		for k := len(s); k < width && fill; k++ {
			dst = append(dst, '0')
		}
		dst = append(dst, s...)
	}
	name := func(t sqlToken, s string, width int) {
		s = inCaseOf(t.text, s)
		dst = append(dst, s...)
		for k := len(s); k < width && fill; k++ {
			dst = append(dst, ' ')
		}
	}
	second := int(m.second)
	for _, t := range pattern {
		switch t.kind {
		case "FM":
			fill = false
			continue
		case "FX":
			continue
		case "":
			dst = append(dst, t.text...)
		case "YYYY", "RRRR":
			number(year, 4)
		case "YYY":
			number(year%1000, 3)
		case "YY", "RR":
			number(year%100, 2)
		case "Y":
			number(year%10, 1)
		case "IYYY":
			y, _ := isoWeek(m.days)
			number(y, 4)
		case "IW":
			_, w := isoWeek(m.days)
			number(w, 2)
		case "ID":
			number((weekday(m.days)+6)%7+1, 1)
		case "Q":
			number((month+2)/3, 1)
		case "MM":
			number(month, 2)
		case "MONTH":
			name(t, monthNames[month-1], 9)
		case "MON":
			name(t, monthNames[month-1][:3], 3)
		case "WW":
			number(int(m.days-first)/7+1, 2)
		case "W":
			number((day-1)/7+1, 1)
		case "DDD":
			number(int(m.days-first)+1, 3)
		case "DD":
			number(day, 2)
		case "D":
			number(weekday(m.days)+1, 1)
		case "DAY":
			name(t, dayNames[weekday(m.days)], 9)
		case "DY":
			name(t, dayNames[weekday(m.days)][:3], 3)
		case "HH24":
			number(second/3600, 2)
		case "HH", "HH12":
			number((second/3600+11)%12+1, 2)
		case "MI":
			number(second/60%60, 2)
		case "SS":
			number(second%60, 2)
		case "SSSSS":
			number(second, 5)
		case "AM", "PM", "A.M.", "P.M.":
			s := [...]string{"AM", "PM"}[second/43200]
			if len(t.kind) == 4 {
				s = s[:1] + ".M."
			}
			dst = append(dst, inCaseOf(t.text, s)...)
		case "TZH":
			dst = append(dst, "+00"...)
		case "TZM":
			dst = append(dst, "00"...)
		default: // FF, FF1 to FF9
			digits := strconv.Itoa(1_000_000_000 + m.nanos)[1:]
			n := 9
			if len(t.kind) == 3 {
				n = int(t.kind[2] - '0')
			} else if digits = strings.TrimRight(digits, "0"); digits == "" {
				digits = "0"
			}
			dst = append(dst, digits[:min(n, len(digits))]...)
		}
		fill = true
	}
	return dst
}

// isoWeek returns the year and week of ISO 8601.
func isoWeek(days int64) (year, week int) {
	thursday := days - int64((weekday(days)+6)%7) + 3
	year, _, _ = schema.CivilOf(thursday)
	first, _ := schema.DaysOf(year, 1, 1)
	return year, int(thursday-first)/7 + 1
}

// parseSQL reads a text; any run of separators matches any other.
func parseSQL(pattern []sqlToken, s string) (parsedTime, bool) {
	const separators = "-./,';: "
	f := timeFields{month: -1, day: -1, dayOfYear: -1, quarter: -1, hour: -1, hour12: -1, ampm: -1}
	seconds := -1
	var exact bool
	for k := 0; k < len(pattern); k++ {
		t := pattern[k]
		number := func(most int) (v, n int, ok bool) {
			for n < len(s) && n < most && s[n] >= '0' && s[n] <= '9' {
				v = v*10 + int(s[n]-'0')
				n++
			}
			s = s[n:]
			return v, n, n > 0 && (!exact || n == most)
		}
		var ok bool
		var v, n int
		switch t.kind {
		case "FX":
			exact, ok = true, true
		case "FM":
			ok = true
		case "":
			if len(t.text) == 1 && strings.Contains(separators, t.text) && !exact {
				rest := strings.TrimLeft(s, separators)
				if rest == s {
					return parsedTime{}, false
				}
				if k+1 < len(pattern) && pattern[k+1].kind == "TZH" && rest != "" && s[len(s)-len(rest)-1] == '-' {
					rest = "-" + rest
				}
				s, ok = rest, true
				for k+1 < len(pattern) && pattern[k+1].kind == "" && len(pattern[k+1].text) == 1 && strings.Contains(separators, pattern[k+1].text) {
					k++
				}
				break
			}
			if len(s) >= len(t.text) && strings.EqualFold(s[:len(t.text)], t.text) {
				s, ok = s[len(t.text):], true
			}
		case "YYYY", "RRRR", "IYYY":
			v, n, ok = number(4)
			if t.kind == "RRRR" && n <= 2 {
				v = roundYear(v)
			}
			f.year, f.hasYear = v, true
		case "YYY":
			v, _, ok = number(3)
			f.year, f.hasYear = 2000+v, true
		case "YY":
			v, _, ok = number(2)
			f.year, f.hasYear = 2000+v, true
		case "RR":
			v, _, ok = number(2)
			f.year, f.hasYear = roundYear(v), true
		case "Y":
			v, _, ok = number(1)
			f.year, f.hasYear = 2020+v, true
		case "MM":
			f.month, _, ok = number(2)
		case "MONTH", "MON":
			v, s, ok = cutName(s, monthNames[:], t.kind == "MONTH", false)
			f.month = v + 1
			if t.kind == "MONTH" {
				s = strings.TrimLeft(s, " ")
			}
		case "DD":
			f.day, _, ok = number(2)
		case "DDD":
			f.dayOfYear, _, ok = number(3)
		case "DAY", "DY":
			_, s, ok = cutName(s, dayNames[:], t.kind == "DAY", false)
		case "HH24":
			f.hour, _, ok = number(2)
		case "HH", "HH12":
			v, _, ok = number(2)
			ok = ok && v >= 1 && v <= 12
			f.hour12 = v % 12
		case "MI":
			f.minute, _, ok = number(2)
		case "SS":
			f.second, _, ok = number(2)
		case "SSSSS":
			seconds, _, ok = number(5)
		case "AM", "PM", "A.M.", "P.M.":
			if n = len(t.kind); len(s) >= n {
				switch s[0] | 0x20 {
				case 'a':
					f.ampm, ok = 0, true
				case 'p':
					f.ampm, ok = 1, true
				}
				s = s[n:]
			}
		case "TZH":
			negative := false
			if s != "" && (s[0] == '-' || s[0] == '+') {
				negative = s[0] == '-'
				s = s[1:]
			}
			v, _, ok = number(2)
			if f.offset, f.hasOffset = v*3600, true; negative {
				f.offset = -f.offset
			}
		case "TZM":
			v, _, ok = number(2)
			if f.offset < 0 {
				v = -v
			}
			f.offset += v * 60
		default:
			if strings.HasPrefix(t.kind, "FF") {
				most := 9
				if len(t.kind) == 3 {
					most = int(t.kind[2] - '0')
				}
				v, n, ok = number(most)
				for ; n < 9; n++ {
					v *= 10
				}
				f.nanos = v
			}
		}
		if !ok {
			return parsedTime{}, false
		}
	}
	if s != "" {
		return parsedTime{}, false
	}
	if seconds >= 0 {
		f.hour, f.minute, f.second = seconds/3600, seconds/60%60, seconds%60
	}
	t, ok := f.resolve(false)
	if _, _, day := schema.CivilOf(t.days); ok && f.dayOfYear < 0 && f.day > 0 && day != f.day {
		return t, false // February 30
	}
	return t, ok
}

// roundYear is SQL's RR: 00 to 49 are of this century, 50 to 99 of the last.
func roundYear(v int) int {
	if v < 50 {
		return 2000 + v
	}
	return 1900 + v
}
