package nearest

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"saturday", "sunday", 3},
		{"teh", "the", 1}, {"ca", "abc", 3}, {"größe", "grösse", 2}, {"same", "same", 0},
	} {
		if got := Distance(c.a, c.b, 10); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a, 10); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
	if got := Distance("kitten", "sitting", 2); got != 3 {
		t.Errorf("over the limit: %d, want 3", got)
	}
}

func TestName(t *testing.T) {
	names := []string{"gbifid", "scientificname", "family", "genus", "month"}
	for name, want := range map[string]string{
		"scientificnam": "scientificname", "Famly": "family", "gneus": "genus", "mnth": "month", "MONTH": "month", "zzz": "", "": "", "x": "",
	} {
		if got := Name(name, names); got != want {
			t.Errorf("Name(%q) = %q, want %q", name, got, want)
		}
	}
	if got := Hint("famly", names); got != `did you mean "family"?` {
		t.Errorf("Hint = %q", got)
	}
	if got := Hint("qqqqqq", names); got != "" {
		t.Errorf("Hint = %q, want none", got)
	}
}
