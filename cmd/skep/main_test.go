package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"skep": func() {
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, os.Interrupt)
		a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, interrupts: interrupts}
		os.Exit(a.run(context.Background(), os.Args[1:]))
	}})
}

// repository returns the root of the repository.
func repository(t testing.TB) string {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestScript runs the scripts in testdata/script: what a person types, and what
// must come back. $OCC is the example file, $WHOLE the download that it was cut
// from; a script that needs the latter says [!whole] skip.
func TestScript(t *testing.T) {
	root := repository(t)
	whole := filepath.Join(root, "..", "shared", "data", "occurrence.tsv")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("OCC", filepath.Join(root, "examples", "occurrence", "occurrence.tsv"))
			e.Setenv("WHOLE", whole)
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "whole" {
				_, err := os.Stat(whole)
				return err == nil, nil
			}
			return false, nil
		},
	})
}
