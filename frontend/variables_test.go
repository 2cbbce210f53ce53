package frontend

import "testing"

func TestSubstitute(t *testing.T) {
	t.Setenv("SKEP_TEST_X", "from env")
	v := Variables{
		HiveVar:  map[string]string{"t": "birds", "which": "t", "a": "${hivevar:t}", "loop": "${loop}"},
		HiveConf: map[string]string{"x.y": "1"},
	}
	for in, want := range map[string]string{
		"select 1":                     "select 1",
		"select * from ${hivevar:t}":   "select * from birds",
		"${t} ${hiveconf:x.y}":         "birds 1",
		"${env:SKEP_TEST_X}":           "from env",
		"${nobody} ${hiveconf:nobody}": "${nobody} ${hiveconf:nobody}",
		"${a}":                         "birds",
		"${${which}}":                  "birds",
		"${open":                       "${open",
	} {
		if got, err := v.Substitute(in); err != nil || got != want {
			t.Errorf("Substitute(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	if _, err := v.Substitute("${loop}"); err == nil {
		t.Error("a variable that names itself must be an error")
	}
}
