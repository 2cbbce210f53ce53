package occurrence

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "cut occurrence.tsv from the whole download again")

// wholeFile is the download that occurrence.tsv was cut from. It isn't part of
// the repository.
var wholeFile = filepath.Join("..", "..", "..", "shared", "data", "occurrence.tsv")

// cut drops the columns in which no record has a value. Nothing else changes.
func cut(whole string) string {
	lines := strings.Split(strings.TrimSuffix(whole, "\n"), "\n")
	rows := make([][]string, len(lines))
	for i, l := range lines {
		rows[i] = strings.Split(l, "\t")
	}
	keep := make([]bool, len(rows[0]))
	for _, r := range rows[1:] {
		for i, cell := range r {
			keep[i] = keep[i] || cell != ""
		}
	}
	var out strings.Builder
	for _, r := range rows {
		first := true
		for i, cell := range r {
			if !keep[i] {
				continue
			}
			if !first {
				out.WriteByte('\t')
			}
			out.WriteString(cell)
			first = false
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestCut(t *testing.T) {
	whole, err := os.ReadFile(wholeFile)
	if os.IsNotExist(err) {
		t.Skipf("%s is not here: nothing to compare with", wholeFile)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := cut(string(whole))
	if *rewrite {
		if err := os.WriteFile("occurrence.tsv", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if TSV() != want {
		t.Error("occurrence.tsv is not the download without its empty columns; run this test with -rewrite")
	}
}

// The counts are those that the download's own description states.
func TestFacts(t *testing.T) {
	header := Header()
	column := func(name string) int {
		for i, h := range header {
			if h == name {
				return i
			}
		}
		t.Fatalf("no column %s", name)
		return -1
	}
	name, family, month, key := column("scientificName"), column("family"), column("month"), column(Key)
	lines := strings.Split(strings.TrimSuffix(TSV(), "\n"), "\n")[1:]
	counts, keys := map[string]int{}, map[string]bool{}
	for i, l := range lines {
		cells := strings.Split(l, "\t")
		if len(cells) != len(header) {
			t.Fatalf("line %d has %d fields, the header %d", i+2, len(cells), len(header))
		}
		counts["name "+cells[name]]++
		counts["family "+cells[family]]++
		counts["month "+cells[month]]++
		keys[cells[key]] = true
	}
	for what, want := range map[string]int{"name Poa bulbosa L.": 24, "family Asteraceae": 198, "family Poaceae": 182,
		"month 7": 912, "month 8": 427, "month 6": 195} {
		if counts[what] != want {
			t.Errorf("%s: %d records, want %d", what, counts[what], want)
		}
	}
	if len(lines) != Rows || len(keys) != Rows || len(header) != 46 {
		t.Errorf("%d records with %d keys in %d columns, want %d, %d, 46", len(lines), len(keys), len(header), Rows, Rows)
	}
}
