package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skepdb/skep/sql/function"
)

// command is a command of a document and what it says comes back.
type command struct {
	line int
	text string
	want []string // a "..." stands for anything, a line of it for any lines
}

// consoleBlocks returns the commands in the ```console blocks of a document:
// lines after "$ ", each followed by what is printed.
func consoleBlocks(text string) (out []command) {
	inside := false
	for i, l := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(l, "```"):
			inside = !inside && strings.TrimSpace(l) == "```console"
		case !inside:
		case strings.HasPrefix(l, "$ "):
			out = append(out, command{line: i + 1, text: l[2:]})
		case strings.HasPrefix(l, "> ") && len(out) > 0 && len(out[len(out)-1].want) == 0:
			out[len(out)-1].text += "\n" + l[2:]
		case len(out) > 0:
			out[len(out)-1].want = append(out[len(out)-1].want, l)
		}
	}
	return out
}

// matchOutput reports whether got is what a document says.
func matchOutput(want []string, got string) bool {
	var pattern strings.Builder
	for _, l := range want {
		if l == "..." {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		parts := strings.Split(l, "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern.WriteString(strings.Join(parts, ".*") + `\n`)
	}
	ok, err := regexp.MatchString(`^`+pattern.String()+`$`, got)
	return err == nil && ok
}

// TestDocs runs every command in the documents, in their order, in a folder
// that looks like the repository after make build.
func TestDocs(t *testing.T) {
	root := repository(t)
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs = append(docs, filepath.Join(root, "README.md"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Commands have a home of their own, but build with what is built already.
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.Fields(string(caches))
	ran := 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, doc)
		if err != nil {
			t.Fatal(err)
		}
		commands := consoleBlocks(string(text))
		ran += len(commands)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, link := range [][2]string{{filepath.Join(root, "examples"), "examples"}, {self, "bin/skep"}} {
				path := filepath.Join(dir, link[1])
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(link[0], path); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range commands {
				cmd := exec.Command("sh", "-c", c.text)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "HOME="+dir, "GOCACHE="+cache[0], "GOMODCACHE="+cache[1])
				got, err := cmd.CombinedOutput()
				if exit, failed := err.(*exec.ExitError); failed && exit.ExitCode() != exitFailed || err != nil && !failed {
					t.Fatalf("%s:%d: $ %s\n%v\n%s", name, c.line, c.text, err, got)
				}
				if !matchOutput(c.want, string(got)) {
					t.Errorf("%s:%d: $ %s\nprinted\n%swant\n%s\n", name, c.line, c.text, got, strings.Join(c.want, "\n"))
				}
			}
		})
	}
	if ran == 0 {
		t.Error("no command found in the documents")
	}
}

func TestMatchOutput(t *testing.T) {
	for _, c := range []struct {
		want, got string
		match     bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a\nb", "a\nc\n", false},
		{"a\nb", "a\n", false},
		{"a ... z\n...", "a 1 2 z\nx\ny\n", true},
		{"...\nend", "end\n", true},
		{"(x)", "x\n", false},
	} {
		if got := matchOutput(strings.Split(c.want, "\n"), c.got); got != c.match {
			t.Errorf("matchOutput(%q, %q) = %v", c.want, c.got, got)
		}
	}
}

var rewrite = flag.Bool("rewrite", false, "write docs/functions.md again")

//go:generate go test . -run ^TestFunctionList$ -rewrite

// TestFunctionList holds docs/functions.md against the registry.
func TestFunctionList(t *testing.T) {
	r := function.Builtin()
	var text strings.Builder
	text.WriteString("# Functions and operators\n\nWritten by `make gen` from the registry.\n")
	for _, kind := range []struct {
		title string
		has   func(name string) bool
	}{
		{"Aggregates", r.IsAggregate},
		{"Operators", func(n string) bool { return strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" }},
		{"Functions", func(n string) bool {
			return !r.IsAggregate(n) && strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
		}},
	} {
		var names []string
		for _, n := range r.Names() {
			if kind.has(n) {
				names = append(names, "`"+n+"`")
			}
		}
		fmt.Fprintf(&text, "\n## %s\n\n%s\n", kind.title, strings.Join(names, "\n"))
	}
	path := filepath.Join(repository(t), "docs", "functions.md")
	if *rewrite {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != text.String() {
		t.Error("docs/functions.md is not what the registry has: run make gen")
	}
}
