package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
	"github.com/spf13/cobra"
)

func (a *app) tableLoad() *cobra.Command {
	var o client.LoadOptions
	var create bool
	var key string
	var regions int
	var json bool
	c := &cobra.Command{
		Use:   "load TABLE FILE ...",
		Short: "Load text files: all rows become visible at once, or none",
		Long: "Loads text files into a table. All rows become visible at once, or none. A row whose key is there\n" +
			"already replaces it; among rows of one load with the same key the last one wins. An empty field is\n" +
			"NULL. By default a row that can't be read stops the load and leaves the table as it was.",
		Example: "  skep table load birds birds.tsv --header\n" +
			"  skep table load birds birds.csv --header --create --key id --regions 4\n" +
			"  skep table load birds a.tsv b.tsv --on-error skip --reject bad.tsv",
		Args: arguments(cobra.MinimumNArgs(2)),
	}
	fl := c.Flags()
	fl.StringVar(&o.Format, "format", "", "how the files are written: `tsv|csv|text` (default by the name: .csv is csv, everything else tsv)")
	fl.BoolVar(&json, "json", false, "print what was done as JSON")
	fl.BoolVar(&o.Header, "header", false, "the first line names the columns, in the file's order")
	fl.StringVar(&o.Delimiter, "delimiter", "", "the `character` between fields")
	fl.StringVar(&o.OnError, "on-error", "abort", "what to do with a row that can't be read: `abort|null|skip`")
	fl.StringVar(&o.Reject, "reject", "", "with --on-error skip, write the skipped rows to this `file` (default TABLE.rejected)")
	fl.BoolVar(&create, "create", false, "make the table if it doesn't exist, with the header's columns; needs --header")
	fl.StringVar(&key, "key", "", "with --create, the row key's `columns`, comma-separated")
	fl.IntVar(&regions, "regions", 0, "with --create, cut the table into `n` regions at this load")
	return a.verb(c, func(ctx context.Context, db *client.Client, f *tableFlags, args []string) error {
		o.Files = args[1:]
		if (key != "" || regions != 0) && !create {
			return usagef("--key and --regions say what --create makes: give --create, too")
		}
		if create && !o.Header {
			return usagef("--create takes the columns from the header: give --header, too")
		}
		if o.OnError == "skip" && o.Reject == "" {
			o.Reject = strings.ToLower(args[0]) + ".rejected"
		}
		if err := o.Validate(); err != nil {
			return &usageError{err}
		}
		t, err := a.loadTarget(ctx, db, args[0], create, list(key), regions, o)
		if err != nil {
			return err
		}
		o.Progress = a.loadProgress()
		start := time.Now()
		r, err := t.Load(ctx, o)
		if o.Progress != nil {
			fmt.Fprint(a.err, "\r\x1b[K")
		}
		if err != nil {
			return err
		}
		if json {
			f.format = "json"
		}
		return a.sayLoad(f, t, o, r, time.Since(start))
	})
}

// loadTarget returns the table, made from the files' header if it may be.
func (a *app) loadTarget(ctx context.Context, db *client.Client, name string, create bool, key []string, regions int, o client.LoadOptions) (*client.Table, error) {
	t, err := db.Table(ctx, name)
	if err == nil || !create || !client.IsUnknownTable(err) {
		if client.IsUnknownTable(err) {
			err = fmt.Errorf("%w; --create makes it from the header of the file", err)
		}
		return t, err
	}
	columns, err := o.GuessColumns()
	if err != nil {
		return nil, err
	}
	t, err = db.CreateTable(ctx, client.TableDefinition{Name: name, Columns: columns, Key: key, Regions: regions})
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, c := range columns {
		if c.Type != "string" {
			texts = append(texts, c.Name+" "+c.Type)
		}
	}
	fmt.Fprintf(a.err, "skep: made table %s with %s", t.Name(), count(int64(len(columns)), "column"))
	if len(texts) > 0 {
		fmt.Fprintf(a.err, ", of type string but for %s", strings.Join(texts, ", "))
	}
	if len(key) > 0 {
		fmt.Fprintf(a.err, "; row key %s", strings.Join(key, ", "))
	}
	fmt.Fprintln(a.err)
	return t, nil
}

// loadProgress draws a bar on a terminal; nil elsewhere.
func (a *app) loadProgress() func(share float64) {
	if !a.errTTY {
		return nil
	}
	start := time.Now()
	return func(share float64) {
		const width = 30
		filled := int(min(max(share, 0), 1) * width)
		fmt.Fprintf(a.err, "\r\x1b[Kloading [%s%s] %3.0f %% %.0f s", strings.Repeat("=", filled), strings.Repeat(" ", width-filled),
			share*100, time.Since(start).Seconds())
	}
}

func (a *app) sayLoad(f *tableFlags, t *client.Table, o client.LoadOptions, r client.LoadResult, took time.Duration) error {
	if f.format == "json" {
		return a.json(map[string]any{"table": t.Name(), "rows": r.Rows, "duplicates": r.Duplicates, "bad_cells": r.BadCells,
			"skipped_rows": r.BadRows, "seconds": took.Seconds(), "tasks": r.Tasks})
	}
	_, err := fmt.Fprintf(a.out, "loaded %s into %s in %.3f s (%s rows/s)\n", count(r.Rows, "row"), t.Name(), took.Seconds(),
		perSecond(r.Rows, took))
	var notes []error
	note := func(n int64, format string, args ...any) {
		if n > 0 {
			_, err := fmt.Fprintf(a.err, "skep: "+format+"\n", args...)
			notes = append(notes, err)
		}
	}
	note(r.Duplicates, "%s had the key of a later row of this load, which replaced it", count(r.Duplicates, "row"))
	note(r.BadCells, "%s could not be read and %s NULL", count(r.BadCells, "cell"), isAre(r.BadCells))
	note(r.BadRows, "%s could not be read: see %s", count(r.BadRows, "row"), o.Reject)
	return errors.Join(append(notes, err)...)
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func perSecond(n int64, took time.Duration) string {
	rate := float64(n) / max(took.Seconds(), 1e-9)
	if rate >= 1e6 {
		return fmt.Sprintf("%.2f M", rate/1e6)
	}
	return fmt.Sprintf("%.0f", rate)
}
