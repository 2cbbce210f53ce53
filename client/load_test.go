package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGuessColumns(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tsv := write("a.tsv", "\ufeffId\tZip\tRatio\tSure\tNone\tBig\tMixed\n1\t007\t1.5\ttrue\t\t12345678901234567890\t1\n-20\t100\t1e5\tFALSE\t\t1\tx\n\t\t\t\t\t\t\n")
	got, err := LoadOptions{Files: []string{tsv}, Header: true}.GuessColumns()
	if err != nil {
		t.Fatal(err)
	}
	want := []Column{{"id", "bigint"}, {"zip", "string"}, {"ratio", "double"}, {"sure", "boolean"}, {"none", "string"}, {"big", "string"}, {"mixed", "string"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	csv := write("b.csv", "name,\"n,1\"\n\"a \"\"b\"\"\",2\n")
	got, err = LoadOptions{Files: []string{csv}, Header: true}.GuessColumns()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Column{{"name", "string"}, {"n,1", "bigint"}}, got); d != "" {
		t.Error(d)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty.tsv": {"", "it is empty"},
		"twice.tsv": {"a\tA\n", `two columns are named "A"`},
		"blank.tsv": {"a\t\n", "column 2 has no name"},
	} {
		_, err := LoadOptions{Files: []string{write(name, c.text)}, Header: true}.GuessColumns()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestLoadOptionsValidate(t *testing.T) {
	err := LoadOptions{Format: "xml", Delimiter: "ab", OnError: "pray", Reject: "x"}.Validate()
	for _, want := range []string{"no file", `"xml"`, `"ab"`, `"pray"`, "needs on-error skip"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	if err := (LoadOptions{Files: []string{"f"}, OnError: "skip"}).Validate(); err == nil {
		t.Error("skip without a file for rejected rows")
	}
	if err := (LoadOptions{Files: []string{"f"}}).Validate(); err != nil {
		t.Error(err)
	}
}
