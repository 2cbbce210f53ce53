package function

import (
	"strings"
	"time"

	"github.com/skepdb/skep/schema"
)

// timeFields are what a parse found; -1 where nothing did.
type timeFields struct {
	year, month, day, dayOfYear, quarter      int
	hour, hour12, minute, second, nanos, ampm int
	era                                       int // 1 BC
	hasYear, hasOffset                        bool
	offset                                    int
	zone                                      *time.Location
}

// parsedTime is the moment that a text names: a wall clock in zone, or one with an
// offset.
type parsedTime struct {
	days      int64
	second    int64 // of the day
	nanos     int
	offset    int
	hasOffset bool
	zone      *time.Location
}

// parse reads a text; false when it doesn't match the pattern. What the pattern lacks is
// taken from 1970-01-01 00:00:00.
func (p *timePattern) parse(s string) (parsedTime, bool) {
	f := timeFields{month: -1, day: -1, dayOfYear: -1, quarter: -1, hour: -1, hour12: -1, ampm: -1}
	rest, ok := p.parseItems(&f, p.items, s)
	if !ok || rest != "" && !p.simple { // SimpleDateFormat ignores what follows
		return parsedTime{}, false
	}
	return f.resolve(p.simple)
}

func (p *timePattern) parseItems(f *timeFields, items []timeItem, s string) (string, bool) {
	for i := 0; i < len(items); i++ {
		it := items[i]
		if it.letter == '[' {
			saved := *f
			if rest, ok := p.parseItems(f, items[i+1:i+1+it.optional], s); ok {
				s = rest
			} else {
				*f = saved
			}
			i += it.optional
			continue
		}
		var ok bool
		if s, ok = p.parseItem(f, items, i, s); !ok {
			return s, false
		}
	}
	return s, true
}

// numeric reports whether an item is a number, and its least and most digits.
func (p *timePattern) numeric(it timeItem) (least, most int, ok bool) {
	switch it.letter {
	case 'u', 'y', 'Y':
		switch {
		case it.n == 2:
			return 2, 2, true
		case it.n < 4:
			return it.n, 19, true
		}
		return it.n, 19, true
	case 'M', 'L', 'Q', 'q', 'e', 'c':
		if it.n >= 3 {
			return 0, 0, false
		}
	case 'd', 'D', 'w', 'W', 'F', 'H', 'k', 'K', 'h', 'm', 's', 'A', 'n', 'N':
	case 'S':
		return it.n, it.n, true
	default:
		return 0, 0, false
	}
	if it.n == 1 {
		return 1, 19, true
	}
	return it.n, it.n, true
}

func (p *timePattern) parseItem(f *timeFields, items []timeItem, i int, s string) (string, bool) {
	it := items[i]
	if it.letter == 0 {
		if p.simple {
			s, ok := strings.CutPrefix(s, it.text)
			return s, ok
		}
		if len(s) < len(it.text) || !strings.EqualFold(s[:len(it.text)], it.text) {
			return s, false
		}
		return s[len(it.text):], true
	}
	if least, most, ok := p.numeric(it); ok {
		return p.parseNumber(f, items, i, s, least, most)
	}
	switch it.letter {
	case 'M', 'L':
		k, rest, ok := cutName(s, monthNames[:], it.n >= 4, p.simple)
		f.month = k + 1
		return rest, ok
	case 'E', 'e', 'c':
		_, rest, ok := cutName(s, dayNames[:], it.n >= 4, p.simple)
		return rest, ok
	case 'a':
		if len(s) < 2 {
			return s, false
		}
		switch strings.ToUpper(s[:2]) {
		case "AM":
			f.ampm = 0
		case "PM":
			f.ampm = 1
		default:
			return s, false
		}
		return s[2:], true
	case 'G':
		if len(s) < 2 {
			return s, false
		}
		switch strings.ToUpper(s[:2]) {
		case "AD":
		case "BC":
			f.era = 1
		default:
			return s, false
		}
		return s[2:], true
	case 'X', 'x', 'Z', 'O':
		if s != "" && (s[0] == 'Z' || s[0] == 'z') {
			f.hasOffset = true
			return s[1:], true
		}
		text := s
		if rest, ok := strings.CutPrefix(s, "GMT"); ok {
			text = rest
			if text == "" || text[0] != '+' && text[0] != '-' {
				f.hasOffset = true
				return text, true
			}
		}
		offset, rest, ok := cutOffset(text)
		f.offset, f.hasOffset = offset, ok
		return rest, ok
	case 'z', 'V':
		end := 0
		for end < len(s) && (isLetterOrDigit(s[end]) || strings.IndexByte("/_+-:", s[end]) >= 0) {
			end++
		}
		for ; end > 0; end-- {
			if zone, ok := ParseZone(s[:end]); ok {
				f.zone = zone
				return s[end:], true
			}
		}
		return s, false
	}
	return s, false
}

func (p *timePattern) parseNumber(f *timeFields, items []timeItem, i int, s string, least, most int) (string, bool) {
	it := items[i]
	if p.simple {
		s = strings.TrimLeft(s, " \t")
		least, most = 1, 19
		if i+1 < len(items) { // a number follows at once: exactly so many digits
			if _, _, ok := p.numeric(items[i+1]); ok {
				most = it.n
			}
		}
	} else if most > least {
		// What follows at once and has a fixed width keeps its digits.
		reserved := 0
		for _, next := range items[i+1:] {
			a, b, ok := p.numeric(next)
			if !ok || a != b {
				break
			}
			reserved += b
		}
		if reserved > 0 {
			digits := 0
			for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
				digits++
			}
			most = min(most, max(digits-reserved, least))
		} else if strings.IndexByte("yuY", it.letter) >= 0 && it.n >= 4 && (s == "" || s[0] != '+') {
			most = max(it.n, 4)
		}
	}
	negative := false
	if s != "" && (s[0] == '-' || s[0] == '+') && (p.simple || strings.IndexByte("yuY", it.letter) >= 0) {
		negative = s[0] == '-'
		s = s[1:]
	}
	v, n := 0, 0
	for n < len(s) && n < most && s[n] >= '0' && s[n] <= '9' {
		if v < 1e15 {
			v = v*10 + int(s[n]-'0')
		}
		n++
	}
	if n < least || n == 0 {
		return s, false
	}
	if negative {
		v = -v
	}
	s = s[n:]
	switch it.letter {
	case 'u', 'y', 'Y':
		if it.letter == 'u' && p.simple {
			return s, true // the day of the week tells nothing
		}
		if it.n == 2 && (n == 2 || !p.simple) || it.n == 1 && p.simple && n == 2 {
			v += 2000
			if p.simple && v > 2044 { // SimpleDateFormat: within 80 years before and 20 after now
				v -= 100
			}
		}
		f.year, f.hasYear = v, true
	case 'M', 'L':
		f.month = v
	case 'd':
		f.day = v
	case 'D':
		f.dayOfYear = v
	case 'Q', 'q':
		f.quarter = v
	case 'H':
		f.hour = v
	case 'k':
		f.hour = v % 24
	case 'h':
		f.hour12 = v % 12
		if v > 12 && !p.simple {
			return s, false
		}
	case 'K':
		f.hour12 = v
	case 'm':
		f.minute = v
	case 's':
		f.second = v
	case 'S':
		if p.simple {
			f.nanos = v * 1e6
			break
		}
		for ; n < 9; n++ {
			v *= 10
		}
		for ; n > 9; n-- {
			v /= 10
		}
		f.nanos = v
	case 'n':
		f.nanos = v
	case 'A':
		f.hour, f.minute, f.second, f.nanos = v/3600000, v/60000%60, v/1000%60, v%1000*1e6
	}
	return s, true
}

// cutName reads one of the names, or its first three letters; simple takes either form.
func cutName(s string, names []string, full, simple bool) (k int, rest string, ok bool) {
	for k, name := range names {
		if (full || simple) && len(s) >= len(name) && strings.EqualFold(s[:len(name)], name) {
			return k, s[len(name):], true
		}
	}
	if !full || simple {
		for k, name := range names {
			if len(s) >= 3 && strings.EqualFold(s[:3], name[:3]) {
				return k, s[3:], true
			}
		}
	}
	return 0, s, false
}

// resolve makes a moment of the fields. SimpleDateFormat is lenient: February 30 is
// March 1 or 2. DateTimeFormatter resolves smartly: day 31 of a shorter month is its last
// day, but not a day 32.
func (f *timeFields) resolve(lenient bool) (parsedTime, bool) {
	t := parsedTime{offset: f.offset, hasOffset: f.hasOffset, zone: f.zone, nanos: f.nanos}
	year, month, day := f.year, f.month, f.day
	if !f.hasYear {
		year = 1970
	}
	if f.era == 1 {
		year = 1 - year
	}
	if f.quarter > 0 && month < 0 {
		month = f.quarter*3 - 2
	}
	if month < 0 {
		month = 1
	}
	if day < 0 {
		day = 1
	}
	hour := f.hour
	if hour < 0 {
		hour = 0
		if f.hour12 >= 0 {
			hour = f.hour12
		}
		if f.ampm == 1 {
			hour += 12
		}
	}
	if year > 5_000_000 || year < -5_000_000 {
		return t, false
	}
	switch {
	case lenient:
		m := int64(year)*12 + int64(month) - 1
		first, _ := schema.DaysOf(int(floorDiv(m, 12)), int(m-floorDiv(m, 12)*12)+1, 1)
		seconds := int64(hour)*3600 + int64(f.minute)*60 + int64(f.second)
		t.days = first + int64(day) - 1 + floorDiv(seconds, secondsADay)
		t.second = seconds - floorDiv(seconds, secondsADay)*secondsADay
		if f.dayOfYear > 0 {
			first, _ = schema.DaysOf(year, 1, 1)
			t.days = first + int64(f.dayOfYear) - 1
		}
		return t, true
	case hour > 23 || f.minute > 59 || f.second > 59 || day < 1 || day > 31 || month < 1 || month > 12:
		return t, false
	}
	t.second = int64(hour*3600 + f.minute*60 + f.second)
	if f.dayOfYear > 0 {
		first, _ := schema.DaysOf(year, 1, 1)
		t.days = first + int64(f.dayOfYear) - 1
		return t, f.dayOfYear <= 366
	}
	for ; ; day-- {
		if days, ok := schema.DaysOf(year, month, day); ok {
			t.days = days
			return t, true
		}
	}
}

// instant returns the seconds since 1970 that t is, in a zone unless it has its own.
func (t *parsedTime) instant(zone *time.Location) int64 {
	wall := t.days*secondsADay + t.second
	if t.hasOffset {
		return wall - int64(t.offset)
	}
	if t.zone != nil {
		zone = t.zone
	}
	_, guess := time.Unix(wall, 0).In(zone).Zone()
	_, offset := time.Unix(wall-int64(guess), 0).In(zone).Zone()
	return wall - int64(offset)
}
