package xpath

import "testing"

// The values follow from XPath 1.0's text.
func TestEvaluate(t *testing.T) {
	const doc = `<?xml version="1.0"?><a x="1"><b class="odd">1</b><b class="even">2</b><b class="odd">4</b><c>8<d>e&amp;f</d></c></a>`
	root, err := Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string]string{
		"a/b": "1", "/a/b[2]": "2", "//b[last()]": "4", "a/b[@class='even']": "2", "sum(a/b)": "7", "count(//b)": "3",
		"sum(a/b[@class=\"odd\"])": "5", "a/@x": "1", "a/b[1] + 1": "2", "a = 10": "false", "2 * 3 - 1": "5", "7 mod 3": "1",
		"8 div 2": "4", "concat('x', //d)": "xe&f", "name(//d/..)": "c", "a/c/text()": "8", "//b[position()=3]/@class": "odd",
		"count(a/*)": "4", "not(a/z)": "true", "a/b[2]/following-sibling::b": "4", "substring('12345', 2, 3)": "234",
		"string-length('äb')": "2", "-(3)": "-3", "a/b | a/c": "1", "count(a/b | a/b)": "3", "a/b > 3": "true", "a/b < 1": "false",
		"translate('bar','abc','AB')": "BAr", "normalize-space('  a  b ')": "a b", "(//b)[2]": "2", "count(/descendant-or-self::node())": "12",
	} {
		e, err := Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		v, err := e.Evaluate(root)
		if got := v.ToString(); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", expr, got, err, want)
		}
	}
	slow, err := Compile("//node()[//node()[//node()[//node()[//node()[//node()[//node()[//z]]]]]]]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Evaluate(root); err == nil {
		t.Error("an evaluation without end")
	}
	for _, bad := range []string{"", "a/", "a[", "f(x)", "'open", "a b", "1 +", "unknown::a", "//", "a//", "count()"} {
		if _, err := Compile(bad); err == nil {
			t.Errorf("%q compiles", bad)
		}
	}
	for _, bad := range []string{"", "x", "<a>", "<a></b>", "<a/><b/>", "<a/>x", "</a>"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is a document", bad)
		}
	}
}

func FuzzEvaluate(f *testing.F) {
	f.Add("<a><b>1</b></a>", "sum(a/b[1])")
	f.Add("<a/>", "//*[last()]/@x | /a")
	f.Fuzz(func(t *testing.T, doc, expr string) {
		e, err := Compile(expr)
		if err != nil {
			return
		}
		root, err := Parse(doc)
		if err != nil || len(doc) > 200 || len(expr) > 60 {
			return
		}
		v, err := e.Evaluate(root)
		if err != nil {
			return
		}
		v.ToString()
		v.ToNumber()
	})
}
