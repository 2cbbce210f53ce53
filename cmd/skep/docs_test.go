package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// TestFunctionList holds docs/functions.md against the registry: each function has an example.
func TestFunctionList(t *testing.T) {
	r := function.Builtin()
	documented := map[string]bool{}
	sections := map[string][]function.Example{}
	kinds := []string{"Operators", "Functions", "Aggregates", "Window functions", "Table-generating functions"}
	for _, e := range function.Examples() {
		kind := "Functions"
		switch n := e.Names[0]; {
		case r.IsWindow(n):
			kind = "Window functions"
		case r.IsTable(n):
			kind = "Table-generating functions"
		case r.IsAggregate(n):
			kind = "Aggregates"
		case strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || strings.Contains(e.Usage, " "+n+" "):
			kind = "Operators"
		}
		sections[kind] = append(sections[kind], e)
		for _, n := range e.Names {
			if documented[n] {
				t.Errorf("%s is documented twice", n)
			}
			documented[n] = true
		}
	}
	for _, n := range r.Names() {
		if !documented[n] {
			t.Errorf("%s has no example in sql/function/examples.txt", n)
		}
		delete(documented, n)
	}
	for n := range documented {
		t.Errorf("%s in sql/function/examples.txt is no function", n)
	}
	var text strings.Builder
	text.WriteString("# Functions and operators\n\nWritten by `make gen` from the registry. Each example is run by a test and gives the value beside it, " +
		"as the command line prints it. In the examples of aggregates and window functions `t` has a column `x` with 1, 2, 3 and 4.\n")
	for _, kind := range kinds {
		fmt.Fprintf(&text, "\n## %s\n\n| names | use | what it gives | example | value |\n|---|---|---|---|---|\n", kind)
		for _, e := range sections[kind] {
			query := strings.TrimPrefix(strings.Replace(e.Query, "(select explode(array(1, 2, 3, 4)) as x) t", "t", 1), "SELECT ")
			cells := []string{"`" + strings.Join(e.Names, "` `") + "`", "`" + e.Usage + "`", e.What, "`" + query + "`", "`" + e.Value + "`"}
			for i, c := range cells {
				cells[i] = strings.ReplaceAll(strings.ReplaceAll(c, "|", "\\|"), "\t", " ")
			}
			fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
		}
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

// TestFunctionExamples runs the example of each function.
func TestFunctionExamples(t *testing.T) {
	dir := t.TempDir()
	var script strings.Builder
	examples := function.Examples()
	for _, e := range examples {
		script.WriteString(e.Query + ";\n")
	}
	file := filepath.Join(dir, "examples.sql")
	if err := os.WriteFile(file, []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, diagnostics bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &diagnostics}
	a.run(context.Background(), []string{"sql", "--data", filepath.Join(dir, "data"), "--force", "--format", "json", "-f", file})
	d := json.NewDecoder(&out)
	for _, e := range examples {
		var result struct {
			Rows  [][]*string
			Error *struct{ Message string }
		}
		if err := d.Decode(&result); err != nil {
			t.Fatalf("%s: %v; %s", e.Query, err, diagnostics.String())
		}
		if result.Error != nil {
			t.Errorf("%s: %s", e.Query, result.Error.Message)
			continue
		}
		var rows []string
		for _, row := range result.Rows {
			var cells []string
			for _, c := range row {
				if c == nil {
					c = new("NULL")
				}
				cells = append(cells, *c)
			}
			rows = append(rows, strings.Join(cells, "\t"))
		}
		if got := strings.Join(rows, "\n"); got != e.Value {
			t.Errorf("%s gives %s, not %s", e.Query, got, e.Value)
		}
	}
}
