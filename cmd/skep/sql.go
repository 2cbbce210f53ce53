package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/frontend/render"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql/parser"
	"github.com/spf13/cobra"
)

// sqlFlags are the flags of `skep sql`.
type sqlFlags struct {
	statements []string
	file       string
	init       string
	place      placeFlags
	database   string
	hiveconf   []string
	hivevar    []string
	format     string
	header     bool
	force      bool
	silent     bool
	verbose    bool
}

func (a *app) sql() *cobra.Command {
	var f sqlFlags
	c := &cobra.Command{
		Use:   "sql",
		Short: "Run HiveQL statements, or a shell on a terminal",
		Long: "Runs statements given by -e, in a file, or piped in; on a terminal it is a shell.\n" +
			"Rows go to standard output as `hive -e` prints them (tab-separated, NULL, no header),\n" +
			"everything else to standard error. Exit codes: 0 fine, 1 a statement failed, 2 usage,\n" +
			"130 interrupted.",
		Example: "  skep sql                                    a shell\n" +
			"  skep sql -e 'SELECT 1'\n" +
			"  skep sql --data skep-demo -e 'SHOW TABLES' --format table\n" +
			"  skep sql --server 127.0.0.1:7070 -e 'SHOW TABLES'\n" +
			"  skep sql -f load.sql --hivevar day=2024-05-01\n" +
			"  echo 'SELECT 1; SELECT 2;' | skep sql --format json",
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return a.runSQL(c.Context(), f) },
	}
	fl := c.Flags()
	fl.StringArrayVarP(&f.statements, "execute", "e", nil, "run these `statements`; may be repeated")
	fl.StringVarP(&f.file, "file", "f", "", "run the statements in this `file` (- is standard input)")
	fl.StringVarP(&f.init, "init", "i", "", "run the statements in this `file` first")
	f.place.add(c)
	fl.StringVar(&f.database, "database", "", "the `database` to start in")
	fl.StringArrayVar(&f.hiveconf, "hiveconf", nil, "set a variable, `k=v`; may be repeated")
	fl.StringArrayVar(&f.hivevar, "hivevar", nil, "set a variable for ${hivevar:k} and ${k}, `k=v`; may be repeated")
	fl.StringVar(&f.format, "format", "", "how rows are printed: "+formatNames()+" (default: tsv; table in a shell)")
	fl.BoolVar(&f.header, "header", false, "print the names of the columns (tsv and csv)")
	fl.BoolVar(&f.force, "force", false, "go on after a statement that failed; the exit code is still 1")
	fl.BoolVarP(&f.silent, "silent", "S", false, "print rows and errors only")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "print each statement, and what running it took, to standard error")
	return c
}

func formatNames() string {
	var names []string
	for _, f := range render.Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// script is a text of statements and where it came from.
type script struct {
	name string // a file's; "" for -e and pipes
	text string
}

// runSQL runs `skep sql`.
func (a *app) runSQL(ctx context.Context, f sqlFlags) (err error) {
	hiveconf, err := pairs("--hiveconf", f.hiveconf)
	if err != nil {
		return err
	}
	hivevar, err := pairs("--hivevar", f.hivevar)
	if err != nil {
		return err
	}
	if len(f.statements) > 0 && f.file != "" {
		return usagef("-e and -f exclude each other")
	}
	shell := len(f.statements) == 0 && f.file == "" && a.inTTY
	format := render.TSV
	if shell {
		format = render.Table
	}
	if f.format != "" {
		if format, err = render.ParseFormat(f.format); err != nil {
			return usagef("--format: %w", err)
		}
	}
	var scripts []script
	if f.init != "" {
		s, err := a.readScript(f.init)
		if err != nil {
			return err
		}
		scripts = append(scripts, s)
	}
	switch {
	case len(f.statements) > 0:
		for _, e := range f.statements {
			scripts = append(scripts, script{text: e})
		}
	case f.file != "":
		s, err := a.readScript(f.file)
		if err != nil {
			return err
		}
		scripts = append(scripts, s)
	case !shell:
		text, err := io.ReadAll(a.in)
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		scripts = append(scripts, script{text: string(text)})
	}

	c, err := f.place.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	session, err := c.Session(ctx, client.SessionOptions{Database: f.database, HiveConf: hiveconf, HiveVar: hivevar})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	r := &runner{app: a, session: session, format: format, header: f.header, force: f.force,
		silent: f.silent, verbose: f.verbose}
	for _, s := range scripts {
		ctx, stop := a.interruptible(ctx)
		err := r.script(ctx, s)
		stop()
		if err != nil {
			return err
		}
	}
	if shell {
		if err := a.shell(ctx, r); err != nil {
			return err
		}
	}
	if r.failed {
		return &failure{exitFailed}
	}
	return nil
}

func (a *app) readScript(name string) (script, error) {
	if name == "-" {
		text, err := io.ReadAll(a.in)
		return script{text: string(text)}, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return script{}, fault.Userf("read script: %w", err)
	}
	return script{name: name, text: string(text)}, nil
}

func pairs(flag string, values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, usagef("%s %q: want key=value", flag, v)
		}
		out[key] = value
	}
	return out, nil
}

// runner runs scripts in a session and prints what comes back.
type runner struct {
	app             *app
	session         client.Session
	format          render.Format
	header          bool
	force           bool
	silent, verbose bool
	footer          bool // the shell's line after each result

	number int  // statements so far
	failed bool // one of them
}

// script runs the statements of a script. It returns an error only when the
// program must end: after an error without --force, after Ctrl-C, or when
// nothing can be printed any more.
func (r *runner) script(ctx context.Context, s script) error {
	for _, piece := range parser.Split(s.text) {
		err := r.statement(ctx, s, piece)
		if err == nil {
			continue
		}
		return err
	}
	return nil
}

func (r *runner) statement(ctx context.Context, s script, piece parser.Piece) error {
	r.number++
	if r.verbose {
		fmt.Fprintln(r.app.err, piece.Text)
	}
	start := time.Now()
	op := r.session.Start(ctx, piece)
	defer op.Close()
	stopProgress := r.app.progress(op, r.silent)
	err := op.Wait(ctx)
	stopProgress()
	rows, err := r.print(ctx, op, piece, err, start)
	var broken *brokenOutput
	if errors.As(err, &broken) {
		return broken.err
	}
	elapsed := time.Since(start)
	if !r.silent {
		for _, note := range op.Notes() {
			fmt.Fprintf(r.app.err, "skep: %s\n", note)
		}
	}
	if err == nil {
		r.foot(op, rows, elapsed)
		return nil
	}
	r.failed = true
	interrupted := ctx.Err() != nil
	switch {
	case interrupted:
		fmt.Fprintln(r.app.err, "skep: interrupted")
	case r.format != render.JSON || !r.silent:
		r.app.printStatementError(s, op, err)
	}
	switch {
	case interrupted:
		return &failure{exitInterrupted}
	case r.force:
		return nil
	}
	return &failure{exitFailed}
}

// brokenOutput says that rows could not be printed.
type brokenOutput struct{ err error }

func (b *brokenOutput) Error() string { return b.err.Error() }

// print prints the rows of an operation that has run, or failed with err, and
// returns their number and what the statement failed with at last.
func (r *runner) print(ctx context.Context, op client.Operation, piece parser.Piece, err error, start time.Time) (int64, error) {
	if r.format == render.JSON {
		w := render.NewStatement(r.app.out, r.number, piece.Text, op.Fields())
		rows, err := copyRows(ctx, w, op, err)
		if end := w.End(op.Affected(), err, time.Since(start)); end != nil {
			return rows, &brokenOutput{fmt.Errorf("write output: %w", end)}
		}
		return rows, err
	}
	if err != nil || op.Fields() == nil {
		return 0, err
	}
	w, err := render.NewWriter(r.app.out, op.Fields(), render.Options{Format: r.format, Header: r.header})
	if err != nil {
		return 0, &brokenOutput{err}
	}
	rows, err := copyRows(ctx, w, op, nil)
	if end := w.End(); end != nil {
		return rows, &brokenOutput{fmt.Errorf("write output: %w", end)}
	}
	return rows, err
}

// copyRows writes all rows of an operation, unless it failed already.
func copyRows(ctx context.Context, w interface{ Write(*client.Batch) error }, op client.Operation, failed error) (rows int64, err error) {
	if failed != nil || op.Fields() == nil {
		return 0, failed
	}
	for {
		b, err := op.Next(ctx)
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		if err := w.Write(b); err != nil {
			return rows, &brokenOutput{fmt.Errorf("write output: %w", err)}
		}
		rows += int64(b.Rows())
	}
}

// foot prints what the shell, or --verbose, says after a statement.
func (r *runner) foot(op client.Operation, rows int64, elapsed time.Duration) {
	if !r.footer && !r.verbose {
		return
	}
	switch affected := op.Affected(); {
	case op.Fields() != nil:
		fmt.Fprintf(r.app.err, "%s selected (%.3f seconds)\n", count(rows, "row"), elapsed.Seconds())
	case affected != nil:
		fmt.Fprintf(r.app.err, "%s affected (%.3f seconds)\n", count(*affected, "row"), elapsed.Seconds())
	default:
		fmt.Fprintf(r.app.err, "done (%.3f seconds)\n", elapsed.Seconds())
	}
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printStatementError prints an error with the line of the statement it is
// about and a caret below the place.
func (a *app) printStatementError(s script, op client.Operation, err error) {
	where := ""
	line, column := fault.PlaceOf(err)
	if line > 0 {
		where = fmt.Sprintf("line %d:%d: ", line, column)
		if s.name != "" {
			where = fmt.Sprintf("%s:%d:%d: ", s.name, line, column)
		}
	}
	fmt.Fprintf(a.err, "skep: %s%v\n", where, err)
	if text := op.Caret(s.text, line, column); text != "" {
		fmt.Fprintln(a.err, text)
	}
	if fault.ClassOf(err) == fault.Bug {
		fmt.Fprintln(a.err, "skep: this is a fault in skep or in its surroundings, not in the statement")
	}
}
