package storage

import "testing"

func TestCheckTiling(t *testing.T) {
	r := func(a, b string) KeyRange { return KeyRange{Key(a), Key(b)} }
	for _, c := range []struct {
		parts []KeyRange
		want  string
	}{
		{[]KeyRange{r("", "")}, ""},
		{[]KeyRange{r("", "b"), r("b", "c"), r("c", "")}, ""},
		{nil, "no region covers [lowest, highest)"},
		{[]KeyRange{r("a", "")}, "the first region begins at 61, not at the lowest key"},
		{[]KeyRange{r("", "a"), r("b", "")}, "no region covers [61, 62)"},
		{[]KeyRange{r("", "b"), r("a", "")}, "regions [lowest, 62) and [61, highest) overlap"},
		{[]KeyRange{r("", ""), r("a", "")}, "regions [lowest, highest) and [61, highest) overlap"},
		{[]KeyRange{r("", "a"), r("a", "b")}, "the last region ends at 62, not at the highest key"},
	} {
		got := ""
		if err := CheckTiling(Whole(), c.parts); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.parts, got, c.want)
		}
	}
}
