package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/node"
	"github.com/skepdb/skep/sql/parser"
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

// oldFolder makes a data folder, with a table birds, whose clock stopped in 2001.
func oldFolder(dir string) (err error) {
	ctx := context.Background()
	n, err := node.Open(ctx, node.Options{Data: []string{dir}, Now: func() time.Time { return time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	s, err := n.Session(ctx, frontend.Options{})
	if err != nil {
		return err
	}
	for _, piece := range parser.Split("CREATE TABLE birds (id int); INSERT INTO birds VALUES (1)") {
		op := s.Start(ctx, piece)
		if err := errors.Join(op.Wait(ctx), op.Close()); err != nil {
			return err
		}
	}
	return nil
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
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"old-folder": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(oldFolder(ts.MkAbs(args[0]))) },
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
