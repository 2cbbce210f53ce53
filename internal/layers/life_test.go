package layers

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Every package and every exported name that docs/life-of-a-query.md mentions exists.
func TestLifeOfAQuery(t *testing.T) {
	text, err := os.ReadFile("../../docs/life-of-a-query.md")
	if err != nil {
		t.Fatal(err)
	}
	packages := list(t)
	byName := map[string][]string{} // last element of the path to paths
	for p := range packages {
		byName[path.Base(p)] = append(byName[path.Base(p)], p)
	}
	mentioned := 0
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(text), -1) {
		word := m[1]
		if regexp.MustCompile(`^[a-z]+(/[a-z]+)*$`).MatchString(word) {
			if _, ok := packages[word]; !ok {
				t.Errorf("there is no package %s", word)
			}
			mentioned++
			continue
		}
		name, symbol, ok := strings.Cut(word, ".")
		if !ok || !regexp.MustCompile(`^[a-z]+\.[A-Z][A-Za-z]+$`).MatchString(word) {
			continue
		}
		mentioned++
		found := false
		for _, p := range byName[name] {
			found = found || exec.Command("go", "doc", module+p, symbol).Run() == nil
		}
		if !found {
			t.Errorf("there is no %s", word)
		}
	}
	if mentioned < 30 {
		t.Errorf("only %d names were found", mentioned)
	}
}
