package function

import (
	"math/big"
	"testing"
	"time"
)

// What Java's documentation of Pattern says of each.
func TestJavaRegexp(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{`a++b`, "aab", true}, {`a++ab`, "aaab", false}, {`(ab)*+c`, "ababc", true}, {`x{1,2}+x`, "xx", false},
		{`\Qa.b\E`, "a.b", true}, {`\Qa.b\E`, "axb", false}, {`\Q(\E+`, "((", true},
		{`^\p{Alpha}+$`, "abcX", true}, {`^\p{Alpha}+$`, "ab1", false}, {`^\P{Digit}+$`, "ab1", false}, {`^[\p{Punct}x]+$`, "!x?", true},
		{`^[a-z&&[^aeiou]]+$`, "xyz", true}, {`^[a-z&&[^aeiou]]+$`, "xay", false}, {`^[a-z&&[def]]+$`, "fed", true}, {`^[a-z&&[def]]+$`, "abc", false},
		{`^[a-z&&def]+$`, "fed", true}, {`^[a[0-9]]+$`, "a7", true}, {`^(?=a)\d*a`, "a", true}, {`^(?=.)\d+$`, "٣", false}, {`^(?=.)\w+$`, "ä", false},
		{`(?<y>\d)\k<y>`, "33", true}, {`\x{41}(?!b)`, "Ac", true}, {`\0101(?!b)`, "A", true}, {`(?=x)[\]x]`, "x", true}, {`a{2}(?!c)`, "aab", true},
		{`(?:a|b)++c`, "abac", true}, {`^\h+(?=x)x`, "\t x", true}, {`a\R(?=b)b`, "a\r\nb", true},
	} {
		p, err := compilePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got, err := p.matches([]byte(c.text)); err != nil || got != c.want {
			t.Errorf("%s in %q: %t, %v", c.pattern, c.text, got, err)
		}
	}
}

// What the documentation of DateTimeFormatter, or of SimpleDateFormat, says.
func TestTimePatterns(t *testing.T) {
	at := clockTime{days: 16533, second: 13*3600 + 5*60 + 9, nanos: 120e6, zone: time.UTC} // 2015-04-08, a Wednesday
	for pattern, want := range map[string]string{
		"yyyy-MM-dd HH:mm:ss.SSS": "2015-04-08 13:05:09.120", "yy M d": "15 4 8", "EEE, d MMM yyyy": "Wed, 8 Apr 2015", "EEEE MMMM": "Wednesday April",
		"h a K k": "1 PM 1 13", "DDD": "098", "''yy''": "'15'", "'at' HH": "at 13", "Q": "2", "[yyyy][ HH]": "2015 13", "w": "15", "Z XXX X": "+0000 Z Z", "G": "AD",
	} {
		p, err := compileTimePattern(pattern, false)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		if got := string(p.format(nil, at)); got != want {
			t.Errorf("%s gives %q, want %q", pattern, got, want)
		}
	}
	day := int64(16533)
	for _, c := range []struct {
		pattern, text string
		simple, ok    bool
		days, second  int64
	}{
		{"yyyy-MM-dd", "2015-04-08", false, true, day, 0}, {"yyyyMMdd", "20150408", false, true, day, 0}, {"yyyy-MM-dd", "2015-4-8", false, false, 0, 0},
		{"yyyy-M-d", "2015-4-8", false, true, day, 0}, {"yyyy-MM-dd", "2015-4-8", true, true, day, 0}, {"yyyy-MM-dd", "2015-04-08 x", true, true, day, 0},
		{"yyyy-MM-dd", "2015-04-08 x", false, false, 0, 0}, {"dd/MMM/yy", "08/apr/15", false, true, day, 0}, {"yyyy-MM-dd hh:mm a", "2015-04-08 01:05 PM", false, true, day, 47100},
		{"yyyy-MM-dd", "2015-02-30", true, true, 16496, 0}, {"yyyy-MM-dd", "2015-02-30", false, true, 16494, 0}, {"yyyy-MM-dd HH", "2015-04-08 24", false, false, 0, 0},
		{"MM/dd/yyyy HH:mm:ss", "04/08/2015 13:05:09", false, true, day, 47109},
	} {
		p, err := compileTimePattern(c.pattern, c.simple)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := p.parse(c.text)
		if ok != c.ok || ok && (got.days != c.days || got.second != c.second) {
			t.Errorf("%s of %q: day %d second %d, %t", c.pattern, c.text, got.days, got.second, ok)
		}
	}
	for _, bad := range []string{"'open", "yyyy]", "b", "{"} {
		if _, err := compileTimePattern(bad, false); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

// What DecimalFormat gives.
func TestNumberPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, x, want string }{
		{"#,##0.00", "1234567.891", "1,234,567.89"}, {"0000.0", "1.25", "0001.2"}, {"#.##", "0.5", ".5"}, {"#", "0", "0"}, {"0.###", "2.5", "2.5"},
		{"##0.0%", "0.1234", "12.3%"}, {"'n'0", "7", "n7"}, {"#,##0", "-1234.5", "-1,234"},
	} {
		p, ok := parseNumberPattern(c.pattern)
		x, _ := new(big.Rat).SetString(c.x)
		if got := string(p.format(nil, x)); !ok || got != c.want {
			t.Errorf("%s of %s is %q, want %q", c.pattern, c.x, got, c.want)
		}
	}
}

func FuzzTimePattern(f *testing.F) {
	f.Add("yyyy-MM-dd[ HH:mm:ss]", "2015-04-08 13:05:09")
	f.Add("'x''y'EEE", "a")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		for _, simple := range []bool{false, true} {
			p, err := compileTimePattern(pattern, simple)
			if err != nil {
				continue
			}
			p.format(nil, clockTime{days: 100, second: 5})
			if at, ok := p.parse(text); ok {
				at.instant(time.UTC)
			}
		}
	})
}

func FuzzTexts(f *testing.F) {
	f.Add(`{"a":[1,{"b":2}]}`, "$.a[1].b", "http://u@h:1/p?q=1#r")
	f.Fuzz(func(t *testing.T, json, path, url string) {
		compileJSONPath(path).extract(nil, json)
		if u, ok := parseJavaURL(url); ok {
			u.part("FILE")
		}
		fromJava(path)
		if p, ok := parseNumberPattern(path); ok && p.least < 100 && p.most < 100 {
			p.format(nil, big.NewRat(12345, 7))
		}
		splitSentences(json, func([]string) {})
	})
}

// What SQL:2016's templates mean.
func TestSQLPatterns(t *testing.T) {
	m := moment{days: 16533, second: 13*3600 + 5*60 + 9, nanos: 120e6, ok: true} // 2015-04-08, a Wednesday
	for pattern, want := range map[string]string{
		"YYYY-MM-DD HH24:MI:SS.FF3": "2015-04-08 13:05:09.120", "Month DD, YYYY": "April     08, 2015", "FMMonth FMDD": "April 8", "DY Mon yy": "WED Apr 15",
		"HH12 am": "01 pm", "SSSSS": "47109", "DDD": "098", "\"at\" HH": "at 01", "IYYY IW ID": "2015 15 3", "P.M.": "P.M.", "FF": "12", "Q": "2",
	} {
		p, err := compileSQLPattern(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		if got := string(formatSQL(nil, p, m)); got != want {
			t.Errorf("%s gives %q, want %q", pattern, got, want)
		}
	}
	for _, c := range []struct {
		pattern, text string
		ok            bool
		second        int64
	}{
		{"YYYY-MM-DD", "2015-04-08", true, 0}, {"YYYY-MM-DD", "2015/4/8", true, 0}, {"FXYYYY-MM-DD", "2015-4-08", false, 0}, {"YYYYMMDD", "20150408", true, 0},
		{"DD MON RR HH12:MI PM", "8 apr 15 1:05 PM", true, 47100}, {"YYYY-MM-DD", "2015-02-30", false, 0}, {"YYYY-MM-DD", "2015-04-08x", false, 0},
		{"YYYY DDD SSSSS", "2015 098 47109", true, 47109},
	} {
		p, err := compileSQLPattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := parseSQL(p, c.text)
		if ok != c.ok || ok && (got.days != 16533 || got.second != c.second) {
			t.Errorf("%s of %q: day %d second %d, %t", c.pattern, c.text, got.days, got.second, ok)
		}
	}
}
