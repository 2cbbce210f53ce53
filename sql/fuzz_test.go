package sql

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/parser"
)

// FuzzCompile: whatever parses compiles or is refused with a user error; it
// never panics, and no error says that Skep is at fault. The seeds are the
// statements of the scripts.
func FuzzCompile(f *testing.F) {
	const tables = `create table t (id bigint not null, name string, country string, year int, lat double, price decimal(10,2), seen date, at timestamp, ok boolean, c char(3), v varchar(4), f float, b binary, primary key (id));
		create table n (name string, family string)`
	paths, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(paths) == 0 {
		f.Fatalf("scripts: %v (%v)", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n----\n") {
			if _, script, ok := strings.Cut(block, "\n\n"); ok {
				_, script, _ = strings.Cut(script, "\n")
				f.Add(strings.NewReplacer(" occ", " t", " names", " n").Replace(script))
			}
		}
	}
	f.Fuzz(func(t *testing.T, script string) {
		ctx := context.Background()
		w := newWorld(t)
		if _, err := w.run(ctx, tables); err != nil {
			t.Fatal(err)
		}
		stmts, _ := parser.Parse(script)
		for _, s := range stmts {
			if e, ok := s.(*ast.Explain); ok {
				s = e.Statement
			}
			c, err := Compile(ctx, s, w.env)
			if err != nil {
				if fault.ClassOf(err) != fault.User {
					t.Fatalf("%s\n%s error: %v", s.Source(), fault.ClassOf(err), err)
				}
				continue
			}
			if q, ok := c.(*Query); ok {
				if _, err := PlanString(q.Plan); err != nil {
					t.Fatalf("%s\n%v", s.Source(), err)
				}
			}
		}
	})
}
