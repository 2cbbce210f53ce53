package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/frontend/render"
	"github.com/skepdb/skep/internal/fault"
	"github.com/spf13/cobra"
)

// annotationRows marks a verb whose --format may be any that `skep sql` has.
const annotationRows = "rows"

func rowFormats(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{annotationRows: "yes"}
	return c
}

func (a *app) tablePut() *cobra.Command {
	return a.withTable(&cobra.Command{
		Use:   "put TABLE [COLUMN=VALUE ...]",
		Short: "Write a row, or rows of JSON from standard input",
		Long: "Writes a row: a new one, or other values for some columns of one that exists. The columns of the\n" +
			"row key must be given. COLUMN= puts the empty string (NULL where the type has none). Without\n" +
			"COLUMN=VALUE, each line of standard input is a row as a JSON object; null is NULL.",
		Example: "  skep table put birds id=42 name='Turdus merula'\n" +
			"  printf '{\"id\":43,\"name\":null}\\n{\"id\":44,\"name\":\"Parus major\"}\\n' | skep table put birds",
		Args: arguments(cobra.MinimumNArgs(1)),
	}, func(ctx context.Context, t *client.Table, f *tableFlags, args []string) error {
		if len(args) == 0 {
			n, err := a.putLines(ctx, t)
			if err != nil {
				return err
			}
			return a.say(f, map[string]any{"put": n}, "put %s", count(n, "row"))
		}
		row := client.Row{}
		types := map[string]string{}
		for _, c := range t.Columns() {
			types[c.Name] = c.Type
		}
		for _, arg := range args {
			name, value, ok := strings.Cut(arg, "=")
			name = strings.ToLower(name)
			if !ok || name == "" {
				return usagef("%q: want column=value", arg)
			}
			if _, twice := row[name]; twice {
				return usagef("column %s is given twice", name)
			}
			row[name] = value
			if typ := types[name]; value == "" && typ != "" && typ != "string" && typ != "binary" &&
				!strings.HasPrefix(typ, "char") && !strings.HasPrefix(typ, "varchar") {
				row[name] = nil
			}
		}
		if err := t.Put(ctx, row); err != nil {
			return err
		}
		return a.say(f, map[string]any{"put": 1}, "put 1 row")
	})
}

// putLines puts the rows on standard input, some thousand at a time.
func (a *app) putLines(ctx context.Context, t *client.Table) (total int64, err error) {
	const atOnce = 4096
	in := bufio.NewReaderSize(a.in, 1<<20)
	var rows []client.Row
	put := func() error {
		err := t.Put(ctx, rows...)
		if err == nil {
			total += int64(len(rows))
		}
		rows = rows[:0]
		return err
	}
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return total, fmt.Errorf("read standard input: %w", err)
		}
		if trimmed := strings.TrimSpace(string(text)); trimmed != "" {
			row, bad := parseRow(trimmed)
			if bad != nil {
				return total, fault.Userf("standard input, line %d: %w", line, bad)
			}
			rows = append(rows, row)
		}
		if len(rows) == atOnce || err == io.EOF && len(rows) > 0 {
			if err := put(); err != nil {
				return total, fmt.Errorf("standard input, up to line %d (%d rows before are put): %w", line, total, err)
			}
		}
		if err == io.EOF {
			return total, nil
		}
	}
}

// parseRow reads a JSON object: an array for an array, an object for a map, a
// struct, or {"tag": value} for a union.
func parseRow(text string) (client.Row, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("want one JSON object on a line")
	}
	row := client.Row{}
	for name, v := range object {
		row[strings.ToLower(name)] = v
	}
	return row, nil
}

func (a *app) tableGet() *cobra.Command {
	var columns string
	c := rowFormats(&cobra.Command{
		Use: "get TABLE KEY ...", Short: "Print the row with this key; exit code 1 when there is none",
		Example: "  skep table get birds 42\n  skep table get obs 7 '2024-05-01 12:00:00' --columns value --format json",
		Args:    arguments(cobra.MinimumNArgs(2)),
	})
	c.Flags().StringVar(&columns, "columns", "", "print these `columns`, comma-separated (default all)")
	return a.withTable(c, func(ctx context.Context, t *client.Table, f *tableFlags, args []string) error {
		rows, err := t.GetRows(ctx, keyOf(args), list(columns)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		format := render.Vertical
		if f.format != "" {
			format = render.Format(f.format)
		}
		n, err := a.printRows(ctx, rows, format, false)
		if err == nil && n == 0 {
			fmt.Fprintf(a.err, "skep: %s has no row with the key %s\n", t.Name(), strings.Join(args, ", "))
			return &failure{exitFailed}
		}
		return err
	})
}

// printRows prints rows; json means an object a row here.
func (a *app) printRows(ctx context.Context, rows *client.Rows, format render.Format, header bool) (n int64, err error) {
	if format == render.JSON {
		format = render.JSONL
	}
	w, err := render.NewWriter(a.out, rows.Fields(), render.Options{Format: format, Header: header})
	if err != nil {
		return 0, err
	}
	for b, err := range rows.Batches(ctx) {
		if err != nil {
			return n, errors.Join(err, w.End())
		}
		if err := w.Write(b); err != nil {
			return n, fmt.Errorf("write output: %w", err)
		}
		n += int64(b.Rows())
	}
	if n == 0 && format == render.Vertical {
		return 0, nil
	}
	if err := w.End(); err != nil {
		return n, fmt.Errorf("write output: %w", err)
	}
	return n, nil
}

func (a *app) tableDelete() *cobra.Command {
	return a.withTable(&cobra.Command{
		Use: "delete TABLE KEY ...", Short: "Delete the row with this key",
		Example: "  skep table delete birds 42\n  skep table delete obs 7 '2024-05-01 12:00:00'",
		Args:    arguments(cobra.MinimumNArgs(2)),
	}, func(ctx context.Context, t *client.Table, f *tableFlags, args []string) error {
		if err := t.Delete(ctx, keyOf(args)); err != nil {
			return err
		}
		return a.say(f, map[string]any{"deleted": args}, "deleted %s", strings.Join(args, ", "))
	})
}

func (a *app) tableScan() *cobra.Command {
	var columns, where string
	var limit int64
	var start, end []string
	var header bool
	c := rowFormats(&cobra.Command{
		Use:   "scan TABLE",
		Short: "Print rows in the order of their keys",
		Example: "  skep table scan birds --limit 10\n" +
			"  skep table scan birds --start 100 --end 200 --columns id,name\n" +
			"  skep table scan birds --where \"name like 'Turdus%'\" --format csv --header",
		Args: arguments(cobra.ExactArgs(1)),
	})
	fl := c.Flags()
	fl.StringVar(&columns, "columns", "", "print these `columns`, comma-separated (default all)")
	fl.StringVar(&where, "where", "", "only rows for which this HiveQL `expression` is true")
	fl.Int64Var(&limit, "limit", 0, "at most `n` rows")
	fl.StringArrayVar(&start, "start", nil, "from this `value` of the first row-key column on; repeat it for the next columns")
	fl.StringArrayVar(&end, "end", nil, "before this `value`; repeat it for the next columns")
	fl.BoolVar(&header, "header", false, "print the names of the columns (tsv and csv)")
	return a.withTable(c, func(ctx context.Context, t *client.Table, f *tableFlags, _ []string) error {
		if limit < 0 {
			return usagef("--limit %d is negative", limit)
		}
		rows, err := t.Scan(ctx, client.ScanOptions{Columns: list(columns), Where: where, Start: keyOf(start), End: keyOf(end), Limit: limit})
		if err != nil {
			return err
		}
		defer rows.Close()
		format := render.TSV
		if f.format != "" {
			format = render.Format(f.format)
		}
		_, err = a.printRows(ctx, rows, format, header)
		return err
	})
}
