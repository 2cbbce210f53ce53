package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/frontend/render"
	"github.com/spf13/cobra"
)

// tableFlags are the flags that all table verbs have.
type tableFlags struct {
	place  placeFlags
	format string
}

// table is the parent of the table verbs.
func (a *app) table() *cobra.Command {
	c := &cobra.Command{
		Use:   "table",
		Short: "Tables: make, load, put, get, scan, split, check",
		Example: "  skep table create birds 'id bigint, name string' --key id\n" +
			"  skep table load birds birds.tsv --header\n" +
			"  skep table get birds 42",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf(" (did you mean %q?)", near[0])
			}
			return usagef("unknown verb %q%s\ntry 'skep table --help'", args[0], hint)
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(a.tableCreate(), a.tableDrop(), a.tableList(), a.tableDescribe(), a.tableLoad(), a.tablePut(), a.tableGet(),
		a.tableDelete(), a.tableScan(), a.tableCount(), a.tableRegions(), a.tableSplit(), a.tableFlush(), a.tableCheck())
	return c
}

// verb makes a table verb: flags, and a client that is open while it runs.
func (a *app) verb(c *cobra.Command, run func(ctx context.Context, db *client.Client, f *tableFlags, args []string) error) *cobra.Command {
	f := &tableFlags{}
	f.place.add(c)
	if c.Flags().Lookup("format") == nil {
		usage := "print for programs: `json`"
		if c.Annotations[annotationRows] != "" {
			usage = "how rows are printed: `" + formatNames() + "`; json is an object a row"
		}
		c.Flags().StringVar(&f.format, "format", "", usage)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.format != "" && f.format != "json" {
			if c.Annotations[annotationRows] == "" {
				return usagef("--format %q: want json", f.format)
			}
			if _, err := render.ParseFormat(f.format); err != nil {
				return usagef("--format: %w", err)
			}
		}
		ctx, stop := a.interruptible(c.Context())
		defer stop()
		makes := c.Name() == "create" || c.Name() == "load" // the others need a table, so a folder
		db, err := f.place.open(ctx, !makes)
		if err != nil {
			return err
		}
		err = run(ctx, db, f, args)
		return errors.Join(err, db.Close())
	}
	return c
}

// withTable is a verb whose first argument is a table.
func (a *app) withTable(c *cobra.Command, run func(ctx context.Context, t *client.Table, f *tableFlags, args []string) error) *cobra.Command {
	return a.verb(c, func(ctx context.Context, db *client.Client, f *tableFlags, args []string) error {
		t, err := db.Table(ctx, args[0])
		if err != nil {
			return err
		}
		return run(ctx, t, f, args[1:])
	})
}

// json prints v as a line of JSON.
func (a *app) json(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// say prints a sentence, or with --format json the object.
func (a *app) say(f *tableFlags, object any, format string, args ...any) error {
	if f.format == "json" {
		return a.json(object)
	}
	_, err := fmt.Fprintf(a.out, format+"\n", args...)
	return err
}

func (a *app) tableCreate() *cobra.Command {
	var key, comment string
	var regions int
	c := &cobra.Command{
		Use:   "create TABLE 'COLUMN TYPE, ...'",
		Short: "Make a table",
		Example: "  skep table create birds 'id bigint, name string, seen date' --key id\n" +
			"  skep table create obs 'station int, at timestamp, value double' --key 'station, at desc' --regions 4",
		Args: arguments(cobra.ExactArgs(2)),
	}
	c.Flags().StringVar(&key, "key", "", "the row key's `columns`, comma-separated, each with an optional desc; none: a keyless table")
	c.Flags().IntVar(&regions, "regions", 0, "cut the table into `n` regions at its first load")
	c.Flags().StringVar(&comment, "comment", "", "a `text` for people")
	return a.verb(c, func(ctx context.Context, db *client.Client, f *tableFlags, args []string) error {
		columns, err := parseColumns(args[1])
		if err != nil {
			return err
		}
		t, err := db.CreateTable(ctx, client.TableDefinition{Name: args[0], Columns: columns, Key: list(key), Regions: regions, Comment: comment})
		if err != nil {
			return err
		}
		return a.say(f, map[string]any{"table": t.Name()}, "made table %s", t.Name())
	})
}

// parseColumns reads "name type, name type"; commas inside of parentheses and
// angle brackets belong to a type.
func parseColumns(text string) ([]client.Column, error) {
	var out []client.Column
	depth, start := 0, 0
	add := func(part string) error {
		name, typ, ok := strings.Cut(strings.TrimSpace(part), " ")
		if !ok {
			return usagef("column %q: want a name and a type", strings.TrimSpace(part))
		}
		out = append(out, client.Column{Name: strings.Trim(name, "`"), Type: strings.TrimSpace(typ)})
		return nil
	}
	for i, r := range text {
		switch {
		case r == '(' || r == '<':
			depth++
		case r == ')' || r == '>':
			depth--
		case r == ',' && depth == 0:
			if err := add(text[start:i]); err != nil {
				return nil, err
			}
			start = i + 1
		}
	}
	return out, add(text[start:])
}

// list splits a comma-separated list.
func list(text string) []string {
	var out []string
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func (a *app) tableDrop() *cobra.Command {
	return a.verb(&cobra.Command{
		Use: "drop TABLE", Short: "Drop a table and its data", Example: "  skep table drop birds",
		Args: arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, db *client.Client, f *tableFlags, args []string) error {
		if err := db.DropTable(ctx, args[0]); err != nil {
			return err
		}
		return a.say(f, map[string]any{"dropped": args[0]}, "dropped table %s", args[0])
	})
}

func (a *app) tableList() *cobra.Command {
	var database string
	c := &cobra.Command{
		Use: "list", Short: "List the tables of a database", Example: "  skep table list\n  skep table list --format json",
		Args: arguments(cobra.NoArgs),
	}
	c.Flags().StringVar(&database, "database", "", "the `database` (default default)")
	return a.verb(c, func(ctx context.Context, db *client.Client, f *tableFlags, _ []string) error {
		tables, err := db.Tables(ctx, database)
		if err != nil {
			return err
		}
		for _, t := range tables {
			key := "no key"
			if k := t.KeyColumns(); k != nil {
				key = "key " + strings.Join(k, ", ")
			}
			if err := a.say(f, map[string]any{"table": t.Name(), "columns": len(t.Columns()), "key": t.KeyColumns()},
				"%s\t%s\t%s", t.Name(), count(int64(len(t.Columns())), "column"), key); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) tableDescribe() *cobra.Command {
	return a.withTable(&cobra.Command{
		Use: "describe TABLE", Short: "Show columns, key and regions of a table", Example: "  skep table describe birds",
		Args: arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, t *client.Table, f *tableFlags, _ []string) error {
		regions, err := t.Regions(ctx)
		if err != nil {
			return err
		}
		if f.format == "json" {
			type column struct {
				Name string `json:"name"`
				Type string `json:"type"`
			}
			columns := []column{}
			for _, c := range t.Columns() {
				columns = append(columns, column(c))
			}
			return a.json(map[string]any{"table": t.Name(), "columns": columns, "key": t.KeyColumns(), "regions": len(regions)})
		}
		key := map[string]int{}
		for i, k := range t.KeyColumns() {
			key[k] = i + 1
		}
		g := newGrid("column", "type", "key")
		for _, c := range t.Columns() {
			n := ""
			if key[c.Name] > 0 {
				n = strconv.Itoa(key[c.Name])
			}
			g.add(c.Name, c.Type, n)
		}
		if err := g.write(a.out); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s, %s\n", t.Name(), count(int64(len(regions)), "region"))
		return err
	})
}

func (a *app) tableCount() *cobra.Command {
	return a.withTable(&cobra.Command{
		Use: "count TABLE", Short: "Count the rows of a table", Example: "  skep table count birds",
		Args: arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, t *client.Table, f *tableFlags, _ []string) error {
		n, err := t.Count(ctx)
		if err != nil {
			return err
		}
		return a.say(f, map[string]any{"table": t.Name(), "rows": n}, "%d", n)
	})
}

func (a *app) tableRegions() *cobra.Command {
	return a.withTable(&cobra.Command{
		Use: "regions TABLE", Short: "Show the regions of a table: key range, folder, rows, bytes",
		Example: "  skep table regions birds\n  skep table regions birds --format json",
		Args:    arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, t *client.Table, f *tableFlags, _ []string) error {
		regions, err := t.Regions(ctx)
		if err != nil {
			return err
		}
		if f.format == "json" {
			for _, r := range regions {
				if err := a.json(map[string]any{"region": r.ID, "start": r.Start, "end": r.End, "worker": r.Worker, "folder": r.Folder,
					"rows": r.Rows, "bytes": r.Bytes, "delta_bytes": r.Delta, "segments": r.Segments}); err != nil {
					return err
				}
			}
			return nil
		}
		return a.printRegions(regions)
	})
}

// printRegions prints a table of regions.
func (a *app) printRegions(regions []client.Region) error {
	g := newGrid("region", "from", "before", "folder", "rows", "bytes", "delta", "segments")
	g.right(0, 4, 5, 6, 7)
	for _, r := range regions {
		from, before := r.Start, r.End
		if from == "" {
			from = "(lowest)"
		}
		if before == "" {
			before = "(highest)"
		}
		g.add(strconv.FormatUint(r.ID, 10), from, before, r.Folder, strconv.FormatInt(r.Rows, 10), bytesText(r.Bytes),
			bytesText(r.Delta), strconv.Itoa(r.Segments))
	}
	return g.write(a.out)
}

func (a *app) tableSplit() *cobra.Command {
	var at []string
	c := &cobra.Command{
		Use: "split TABLE REGION", Short: "Cut a region in two, at a key or at the median of its data",
		Example: "  skep table split birds 3\n  skep table split birds 3 --at 5000",
		Args:    arguments(cobra.ExactArgs(2)),
	}
	c.Flags().StringArrayVar(&at, "at", nil, "the `value` of a row-key column; repeat it for a composite key")
	return a.withTable(c, func(ctx context.Context, t *client.Table, f *tableFlags, args []string) error {
		region, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return usagef("region %q: want a number, as `skep table regions` shows it", args[0])
		}
		two, err := t.Split(ctx, region, keyOf(at))
		if err != nil {
			return err
		}
		return a.say(f, map[string]any{"table": t.Name(), "split": region, "into": two}, "region %d is now regions %d and %d", region, two[0], two[1])
	})
}

// keyOf returns the values of a row key from arguments; nil for none.
func keyOf(values []string) client.Key {
	var key client.Key
	for _, v := range values {
		key = append(key, v)
	}
	return key
}

func (a *app) tableFlush() *cobra.Command {
	return a.withTable(&cobra.Command{
		Use: "flush TABLE", Short: "Write what was put to segment files", Example: "  skep table flush birds",
		Args: arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, t *client.Table, f *tableFlags, _ []string) error {
		if err := t.Flush(ctx); err != nil {
			return err
		}
		return a.say(f, map[string]any{"flushed": t.Name()}, "flushed %s", t.Name())
	})
}

func (a *app) tableCheck() *cobra.Command {
	return a.withTable(&cobra.Command{
		Use: "check TABLE", Short: "Verify ranges, files and checksums of a table; exit code 1 when something is wrong",
		Example: "  skep table check birds",
		Args:    arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, t *client.Table, f *tableFlags, _ []string) error {
		problems, err := t.Check(ctx)
		if err != nil {
			return err
		}
		if f.format == "json" {
			if problems == nil {
				problems = []string{}
			}
			if err := a.json(map[string]any{"table": t.Name(), "problems": problems}); err != nil {
				return err
			}
		} else {
			for _, p := range problems {
				fmt.Fprintln(a.out, p)
			}
			if len(problems) == 0 {
				fmt.Fprintf(a.out, "%s: no problem found\n", t.Name())
			} else {
				fmt.Fprintf(a.err, "skep: %s: %s found\n", t.Name(), count(int64(len(problems)), "problem"))
			}
		}
		if len(problems) > 0 {
			return &failure{exitFailed}
		}
		return nil
	})
}

// bytesText is a size for people.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for f >= unit && i < 4 {
		f /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[i])
}
