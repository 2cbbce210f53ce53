package parser

import "testing"

// The values follow from arithmetic; 12.50 has Hive's type of it.
func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]string{
		"12.50": "decimal(3,1) 12.5", "20E2": "decimal(4,0) 2000", "1.5e-3": "decimal(4,4) 0.0015", "-1.25E1": "decimal(3,1) -12.5",
		"0E-3": "decimal(1,0) 0", "1E99": "", "1E-40": "", "5e36": "decimal(37,0) 5000000000000000000000000000000000000", "1e": "", "e5": "",
		"0.001": "decimal(3,3) 0.001", "100": "decimal(3,0) 100", "1.5": "decimal(2,1) 1.5",
	} {
		d, ok := ParseDecimal(text)
		got := ""
		if ok {
			got = d.Type.String() + " " + d.Text()
		}
		if got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}
