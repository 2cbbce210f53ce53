package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func TestGenerate(t *testing.T) {
	file := func(seed uint64, skewed bool) string {
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		generated{Rows: 20_000, Names: 500, Country: 200, Skewed: skewed, Seed: seed}.rows(w)
		w.Flush()
		return b.String()
	}
	a := file(1, false)
	if a != file(1, false) || a == file(2, false) {
		t.Error("the file must depend on the seed, and on nothing else")
	}
	lines := strings.Split(strings.TrimSuffix(a, "\n"), "\n")[1:]
	ids, names, countries, noYear := map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	for _, l := range lines {
		cells := strings.Split(l, "\t")
		if len(cells) != len(columns) {
			t.Fatalf("%d cells in %q", len(cells), l)
		}
		ids[cells[0]], names[cells[1]], countries[cells[3]] = true, true, true
		if cells[4] == "" {
			noYear++
		}
	}
	if len(lines) != 20_000 || len(ids) != 20_000 || len(names) != 500 || len(countries) != 200 {
		t.Errorf("%d rows, %d ids, %d names, %d countries", len(lines), len(ids), len(names), len(countries))
	}
	if noYear < 1_800 || noYear > 2_200 {
		t.Errorf("%d of 20,000 rows have no year, want about a tenth", noYear)
	}
	counts := map[string]int{}
	for _, l := range strings.Split(file(1, true), "\n")[1:] {
		if cells := strings.Split(l, "\t"); len(cells) > 1 {
			counts[cells[1]]++
		}
	}
	if most := counts[name(0)]; most < 1_000 {
		t.Errorf("the most frequent of the skewed names has %d rows", most)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for i := range 50_000 {
		seen[name(i)] = true
	}
	if len(seen) != 50_000 {
		t.Errorf("%d distinct names of 50,000", len(seen))
	}
}
