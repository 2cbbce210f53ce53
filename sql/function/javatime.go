package function

import (
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// timePattern is a compiled date pattern of Java: of java.time's DateTimeFormatter or, when
// hive.datetime.formatter is SIMPLE, of SimpleDateFormat. Texts are English.
type timePattern struct {
	text   string
	simple bool
	items  []timeItem
}

// timeItem is a run of one letter, or literal text when letter is 0.
type timeItem struct {
	letter   byte
	n        int
	text     string
	optional int // for '[': how many items the section has, its ']' included
}

// compileTimePattern reads a pattern; errors are the user's.
func compileTimePattern(p string, simple bool) (*timePattern, error) {
	t := &timePattern{text: p, simple: simple}
	literal := func(s string) {
		if k := len(t.items) - 1; k >= 0 && t.items[k].letter == 0 {
			t.items[k].text += s
			return
		}
		t.items = append(t.items, timeItem{text: s})
	}
	var open []int
	for i := 0; i < len(p); {
		c := p[i]
		switch {
		case c == '\'':
			i++
			if i < len(p) && p[i] == '\'' {
				literal("'")
				i++
				break
			}
			for {
				k := strings.IndexByte(p[i:], '\'')
				if k < 0 {
					return nil, fault.Userf("the date pattern %q has an open quote", p)
				}
				literal(p[i : i+k])
				i += k + 1
				if i < len(p) && p[i] == '\'' { // '' inside quotes
					literal("'")
					i++
					continue
				}
				break
			}
		case isLetterOrDigit(c) && (c < '0' || c > '9'):
			n := 1
			for i+n < len(p) && p[i+n] == c {
				n++
			}
			letters := "GuyDMLdQqYwWEecFahKkHmsSAnNVzOXxZ"
			if simple {
				letters = "GyYMLwWDdFEuaHkKhmsSzZX"
			}
			if strings.IndexByte(letters, c) < 0 {
				return nil, fault.Userf("the date pattern %q has the letter %c, which stands for nothing", p, c)
			}
			t.items = append(t.items, timeItem{letter: c, n: n})
			i += n
		case c == '[' && !simple:
			open = append(open, len(t.items))
			t.items = append(t.items, timeItem{letter: '['})
			i++
		case c == ']' && !simple:
			if len(open) == 0 {
				return nil, fault.Userf("the date pattern %q has a ] too much", p)
			}
			t.items = append(t.items, timeItem{letter: ']'})
			start := open[len(open)-1]
			open = open[:len(open)-1]
			t.items[start].optional = len(t.items) - start - 1
			i++
		case !simple && (c == '{' || c == '}' || c == '#'):
			return nil, fault.Userf("the date pattern %q has a %c, which Java reserves", p, c)
		default:
			_, size := utf8.DecodeRuneInString(p[i:])
			literal(p[i : i+size])
			i += size
		}
	}
	for _, start := range open { // sections left open end with the pattern
		t.items[start].optional = len(t.items) - start - 1
	}
	return t, nil
}

// timePatterns keeps the last pattern compiled.
type timePatterns struct {
	simple bool
	last   *timePattern
	err    error
	failed string
}

func newTimePatterns(c *Context) *timePatterns {
	return &timePatterns{simple: c != nil && strings.EqualFold(c.Settings["hive.datetime.formatter"], "SIMPLE")}
}

func (c *timePatterns) get(p []byte) (*timePattern, error) {
	if c.last != nil && c.last.text == string(p) {
		return c.last, nil
	}
	if c.err != nil && c.failed == string(p) {
		return nil, c.err
	}
	t, err := compileTimePattern(string(p), c.simple)
	if err != nil {
		c.err, c.failed = err, string(p)
		return nil, err
	}
	c.last = t
	return t, nil
}

// clockTime is a local date and time with its zone: what is formatted.
type clockTime struct {
	days   int64
	second int // of the day
	nanos  int
	zone   *time.Location
}

// at returns the offset from UTC and the zone's name then.
func (t clockTime) at() (offset int, name string) {
	zone := t.zone
	if zone == nil {
		zone = time.UTC
	}
	wall := t.days*secondsADay + int64(t.second)
	_, guess := time.Unix(wall, 0).In(zone).Zone()
	name, offset = time.Unix(wall-int64(guess), 0).In(zone).Zone()
	return offset, shortZoneName(zone, name)
}

// shortZoneNames are Java's names of zones that the time zone database gives none.
var shortZoneNames = map[string]string{
	"Asia/Bangkok": "ICT", "Asia/Ho_Chi_Minh": "ICT", "Asia/Saigon": "ICT", "Asia/Dubai": "GST", "Asia/Singapore": "SGT", "Asia/Dhaka": "BDT",
	"Asia/Kathmandu": "NPT", "Asia/Tehran": "IRST", "Asia/Kabul": "AFT", "Asia/Tashkent": "UZT", "Asia/Almaty": "ALMT", "Asia/Yangon": "MMT",
	"Asia/Colombo": "IST", "Asia/Baku": "AZT", "Asia/Tbilisi": "GET", "Asia/Yerevan": "AMT", "Asia/Kuala_Lumpur": "MYT", "Europe/Istanbul": "TRT",
	"America/Sao_Paulo": "BRT", "America/Argentina/Buenos_Aires": "ART", "America/Bogota": "COT", "America/Lima": "PET", "America/Caracas": "VET",
	"America/Santiago": "CLT", "America/Montevideo": "UYT", "Atlantic/Azores": "AZOT", "Pacific/Fiji": "FJT", "Pacific/Tongatapu": "TOT",
}

// shortZoneName is the name that Java shows: of times before a zone had one, that of
// its standard time now.
func shortZoneName(zone *time.Location, name string) string {
	if name == "LMT" {
		name, _ = time.Date(2020, 1, 15, 0, 0, 0, 0, time.UTC).In(zone).Zone()
	}
	if name != "" && (name[0] == '+' || name[0] == '-') {
		if short, ok := shortZoneNames[zone.String()]; ok {
			return short
		}
	}
	return name
}

var (
	monthNames = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
		"October", "November", "December"}
	dayNames = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// weekday is 0 for Sunday.
func weekday(days int64) int { return int((days%7 + 7 + 4) % 7) }

// usWeek returns week and week-based year as in the USA: weeks start on Sunday, the
// one with January 1 is the first.
func usWeek(days int64) (year, week int) {
	y, _, _ := schema.CivilOf(days)
	start := func(y int) int64 {
		d, _ := schema.DaysOf(y, 1, 1)
		return d - int64(weekday(d))
	}
	if days >= start(y+1) {
		return y + 1, 1
	}
	return y, int((days-start(y))/7) + 1
}

// format appends t; false when the pattern has something that can't be formatted.
func (p *timePattern) format(dst []byte, t clockTime) []byte {
	year, month, day := schema.CivilOf(t.days)
	number := func(v, width int) {
		if v < 0 {
			dst = append(dst, '-')
			v = -v
		}
		s := strconv.Itoa(v)
		for k := len(s); k < width; k++ {
			dst = append(dst, '0')
		}
		dst = append(dst, s...)
	}
	short := func(name string, n int) {
		switch {
		case n == 5 && !p.simple:
			name = name[:1]
		case n < 4:
			name = name[:3]
		}
		dst = append(dst, name...)
	}
	for _, it := range p.items {
		n := it.n
		switch it.letter {
		case 0:
			dst = append(dst, it.text...)
		case 'G':
			era := "AD"
			if year <= 0 {
				era = "BC"
			}
			if n == 4 && !p.simple {
				era = map[string]string{"AD": "Anno Domini", "BC": "Before Christ"}[era]
			}
			dst = append(dst, era...)
		case 'u', 'y', 'Y':
			y := year
			switch {
			case it.letter == 'Y':
				y, _ = usWeek(t.days)
			case it.letter == 'u' && p.simple: // day of the week, Monday is 1
				number((weekday(t.days)+6)%7+1, n)
				continue
			case it.letter == 'y' && y <= 0:
				y = 1 - y
			}
			if n == 2 {
				number(((y%100)+100)%100, 2)
			} else {
				if y > 9999 && n >= 4 && !p.simple {
					dst = append(dst, '+')
				}
				number(y, n)
			}
		case 'M', 'L':
			if n >= 3 {
				short(monthNames[month-1], n)
			} else {
				number(month, n)
			}
		case 'd':
			number(day, n)
		case 'D':
			first, _ := schema.DaysOf(year, 1, 1)
			number(int(t.days-first)+1, n)
		case 'Q', 'q':
			q := (month + 2) / 3
			switch {
			case n <= 2:
				number(q, n)
			case n == 3:
				dst = append(dst, 'Q', byte('0'+q))
			default:
				dst = append(dst, [...]string{"1st", "2nd", "3rd", "4th"}[q-1]+" quarter"...)
			}
		case 'w':
			_, w := usWeek(t.days)
			number(w, n)
		case 'W':
			first, _ := schema.DaysOf(year, month, 1)
			number((day+weekday(first)-1)/7+1, n)
		case 'F':
			number((day-1)/7+1, n)
		case 'E':
			short(dayNames[weekday(t.days)], n)
		case 'e', 'c':
			if n <= 2 {
				number(weekday(t.days)+1, n)
			} else {
				short(dayNames[weekday(t.days)], n)
			}
		case 'a':
			dst = append(dst, [...]string{"AM", "PM"}[t.second/43200]...)
		case 'H':
			number(t.second/3600, n)
		case 'k':
			number((t.second/3600+23)%24+1, n)
		case 'K':
			number(t.second/3600%12, n)
		case 'h':
			number((t.second/3600+11)%12+1, n)
		case 'm':
			number(t.second/60%60, n)
		case 's':
			number(t.second%60, n)
		case 'S':
			if p.simple {
				number(t.nanos/1e6, n)
				continue
			}
			digits := strconv.Itoa(1_000_000_000 + t.nanos)[1:]
			for len(digits) < n {
				digits += "0"
			}
			dst = append(dst, digits[:n]...)
		case 'A':
			number(t.second*1000+t.nanos/1e6, n)
		case 'n':
			number(t.nanos, n)
		case 'N':
			dst = append(dst, strconv.FormatInt(int64(t.second)*1e9+int64(t.nanos), 10)...)
		case 'V':
			dst = append(dst, zoneName(t.zone)...)
		case 'z':
			_, name := t.at()
			if n == 4 {
				name = zoneName(t.zone)
			}
			dst = append(dst, name...)
		case 'O', 'X', 'x', 'Z':
			offset, _ := t.at()
			dst = appendOffset(dst, it.letter, n, offset, p.simple)
		}
	}
	return dst
}

func zoneName(l *time.Location) string {
	if l == nil {
		return "UTC"
	}
	return l.String()
}

func appendOffset(dst []byte, letter byte, n, offset int, simple bool) []byte {
	sign := byte('+')
	seconds := offset
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	two := func(v int) { dst = append(dst, byte('0'+v/10), byte('0'+v%10)) }
	h, m := seconds/3600, seconds/60%60
	switch {
	case letter == 'O', letter == 'Z' && n == 4 && !simple:
		dst = append(dst, "GMT"...)
		if offset == 0 {
			return dst
		}
		dst = append(dst, sign)
		if n == 1 {
			dst = strconv.AppendInt(dst, int64(h), 10)
			if m != 0 {
				dst = append(dst, ':')
				two(m)
			}
			return dst
		}
		two(h)
		dst = append(dst, ':')
		two(m)
		return dst
	case letter == 'X' && offset == 0, letter == 'Z' && n == 5 && offset == 0:
		return append(dst, 'Z')
	}
	dst = append(dst, sign)
	two(h)
	if letter != 'Z' && n == 1 && (m == 0 || simple) {
		return dst
	}
	if letter != 'Z' && n%2 == 1 && n > 1 || letter == 'Z' && n == 5 {
		dst = append(dst, ':')
	}
	two(m)
	return dst
}

// javaZones are the short names that Java knows (ZoneId.SHORT_IDS and TimeZone's own).
var javaZones = map[string]string{
	"ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
	"AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
	"CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis",
	"IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
	"PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
	"VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00", "PDT": "America/Los_Angeles", "EDT": "America/New_York",
	"CDT": "America/Chicago", "MDT": "America/Denver", "EST5EDT": "America/New_York", "PST8PDT": "America/Los_Angeles",
}

// zoneCache keeps zones by name: loading one reads a file.
type zoneCache struct {
	mu    sync.Mutex
	zones map[string]*time.Location
}

func (z *zoneCache) get(name string) (*time.Location, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if l, ok := z.zones[name]; ok {
		return l, l != nil
	}
	l, ok := ParseZone(name)
	if z.zones == nil || len(z.zones) > 1000 {
		z.zones = make(map[string]*time.Location)
	}
	if !ok {
		l = nil
	}
	z.zones[name] = l
	return l, ok
}

// ParseZone reads a time zone as Java does: "Europe/Paris", "PST", "UTC", "Z", "+01:00",
// "GMT+8", "UTC-3".
func ParseZone(name string) (*time.Location, bool) {
	switch name {
	case "Z", "UTC", "GMT", "UT", "UCT", "Zulu", "Etc/UTC", "Etc/GMT":
		return time.UTC, true
	case "", "Local":
		return nil, false
	}
	if full, ok := javaZones[name]; ok {
		name = full
	}
	text := name
	for _, prefix := range []string{"UTC", "GMT", "UT"} {
		if rest, ok := strings.CutPrefix(text, prefix); ok && rest != "" {
			text = rest
			break
		}
	}
	if text[0] == '+' || text[0] == '-' {
		offset, rest, ok := cutOffset(text)
		if !ok || rest != "" {
			return nil, false
		}
		return time.FixedZone(name, offset), true
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, false
	}
	return l, true
}

// cutOffset reads +h, +hh, +hhmm, +hh:mm or +hh:mm:ss at the start of s.
func cutOffset(s string) (offset int, rest string, ok bool) {
	if s == "" || s[0] != '+' && s[0] != '-' {
		return 0, s, false
	}
	sign := 1
	if s[0] == '-' {
		sign = -1
	}
	digits := func(s string) int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n
	}
	s = s[1:]
	var h, m, sec int
	switch n := digits(s); {
	case n == 1 || n == 2:
		h, _ = strconv.Atoi(s[:n])
		s = s[n:]
		for _, to := range []*int{&m, &sec} {
			if len(s) < 3 || s[0] != ':' || digits(s[1:]) < 2 {
				break
			}
			*to, _ = strconv.Atoi(s[1:3])
			s = s[3:]
		}
	case n == 4 || n == 6:
		h, _ = strconv.Atoi(s[:2])
		m, _ = strconv.Atoi(s[2:4])
		if n == 6 {
			sec, _ = strconv.Atoi(s[4:6])
		}
		s = s[n:]
	default:
		return 0, s, false
	}
	if h > 18 || m > 59 || sec > 59 {
		return 0, s, false
	}
	return sign * (h*3600 + m*60 + sec), s, true
}
