package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/outputformat/text"
	"github.com/spf13/cobra"
)

// export is the parent of the export verbs.
func (a *app) export() *cobra.Command {
	c := &cobra.Command{
		Use:   "export",
		Short: "Exports: files of query results for others to fetch, on demand or on a schedule",
		Example: "  skep export create birds --table occurrence --where \"family = 'Paridae'\"\n" +
			"  skep export run birds\n" +
			"  skep export download birds",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf(" (did you mean %q?)", near[0])
			}
			return usagef("unknown verb %q%s\ntry 'skep export --help'", args[0], hint)
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(a.exportCreate(), a.exportList(), a.exportShow(), a.exportRun(), a.exportCancel(), a.exportDownload(), a.exportDelete(), a.exportSchedule())
	return c
}

// exportVerb makes an export verb: flags, and a client that is open while it runs.
func (a *app) exportVerb(c *cobra.Command, run func(ctx context.Context, db *client.Client, f *tableFlags, args []string) error) *cobra.Command {
	f := &tableFlags{}
	addDataFlag(c, &f.place.data)
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *asJSON {
			f.format = "json"
		}
		ctx, stop := a.interruptible(c.Context())
		defer stop()
		db, err := client.Open(ctx, client.Options{Data: f.place.data, MustExist: true})
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, db, f, args), db.Close())
	}
	return c
}

// scheduleFlags are the flags that say when an export runs.
type scheduleFlags struct{ cron, zone, missed string }

func (s *scheduleFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&s.cron, "cron", "", "run at these times: `'minute hour day month weekday'`, or @hourly, @daily, @weekly, @monthly")
	fl.StringVar(&s.zone, "zone", "", "the time zone of these times, as `Europe/Berlin` (default UTC)")
	fl.StringVar(&s.missed, "missed", "", "what becomes of times at which no server ran: `once|all|skip` (default once: the last of them is made up for)")
}

func (s *scheduleFlags) schedule() (*client.ExportSchedule, error) {
	if s.cron == "" {
		if s.zone != "" || s.missed != "" {
			return nil, usagef("--zone and --missed go with --cron")
		}
		return nil, nil
	}
	out := &client.ExportSchedule{Cron: s.cron, Zone: s.zone}
	switch s.missed {
	case "", "once":
		out.Missed = "once"
	case "all":
		out.Missed = "all"
	case "skip":
		out.Missed = "skip"
	default:
		return nil, usagef("--missed %q: want once, all or skip", s.missed)
	}
	return out, nil
}

func (a *app) exportCreate() *cobra.Command {
	var d client.Export
	var columns, format string
	var s scheduleFlags
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Say what an export is: a query, or a table with a filter",
		Example: "  skep export create birds --table occurrence --where \"family = 'Paridae'\" --columns gbifid,scientificname\n" +
			"  skep export create counts --query 'SELECT family, count(*) AS n FROM occurrence GROUP BY family' --format tsv\n" +
			"  skep export create nightly --table occurrence --cron '30 2 * * *' --zone Europe/Berlin --keep 7",
		Args: arguments(cobra.ExactArgs(1)),
	}
	fl := c.Flags()
	fl.StringVar(&d.Query, "query", "", "a `SELECT`")
	fl.StringVar(&d.Table, "table", "", "or a `table`")
	fl.StringVar(&d.Where, "where", "", "only rows for which this HiveQL `expression` is true, with --table")
	fl.StringVar(&columns, "columns", "", "only these `columns`, comma-separated, with --table")
	fl.StringVar(&d.Database, "database", "", "the `database` that names without one mean (default default)")
	fl.StringVar(&format, "format", "csv", "how the data is written: `csv|tsv`")
	fl.BoolVar(&d.NoHeader, "no-header", false, "leave out the line of column names")
	fl.IntVar(&d.Keep, "keep", 0, "keep the files of the last `n` runs (default 10)")
	fl.IntVar(&d.KeepDays, "keep-days", 0, "drop files that are older than `n` days, but not the last one (default never)")
	s.add(c)
	return a.exportVerb(c, func(ctx context.Context, db *client.Client, f *tableFlags, args []string) (err error) {
		d.Name, d.Columns, d.Format = args[0], list(columns), text.Style(format)
		if d.Schedule, err = s.schedule(); err != nil {
			return err
		}
		made, err := db.CreateExport(ctx, d)
		if err != nil {
			return err
		}
		if f.format == "json" {
			return a.json(made)
		}
		fmt.Fprintf(a.out, "made export %s\n", made.Name)
		return a.printNext(made)
	})
}

// printNext says when a schedule fires next.
func (a *app) printNext(d client.Export) error {
	if d.Schedule == nil {
		return nil
	}
	next, err := d.Schedule.Next(time.Now(), 3)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "while a server runs (skep start), it runs at:\n")
	for _, t := range next {
		fmt.Fprintf(a.out, "  %s\n", t.Format("2006-01-02 15:04 Mon -07:00"))
	}
	return nil
}

func (a *app) exportList() *cobra.Command {
	return a.exportVerb(&cobra.Command{
		Use: "list", Short: "List the exports", Example: "  skep export list\n  skep export list --json", Args: arguments(cobra.NoArgs),
	}, func(_ context.Context, db *client.Client, f *tableFlags, _ []string) error {
		all, err := db.Exports()
		if err != nil {
			return err
		}
		g := newGrid("export", "format", "schedule", "last run", "rows", "bytes")
		g.right(4, 5)
		for _, d := range all {
			_, runs, err := db.Export(d.Name)
			if err != nil {
				return err
			}
			if f.format == "json" {
				if err := a.json(map[string]any{"export": d, "runs": len(runs)}); err != nil {
					return err
				}
				continue
			}
			schedule, last, rows, size := "on demand", "never", "", ""
			if d.Schedule != nil {
				schedule = d.Schedule.String()
			}
			if len(runs) > 0 {
				last = fmt.Sprintf("%s, %s", runs[0].ID, runs[0].State)
				if m := runs[0].Manifest; m != nil {
					rows, size = strconv.FormatInt(m.Rows, 10), bytesText(m.ZipBytes)
				}
			}
			g.add(d.Name, string(d.Format), schedule, last, rows, size)
		}
		if f.format == "json" {
			return nil
		}
		return g.write(a.out)
	})
}

func (a *app) exportShow() *cobra.Command {
	return a.exportVerb(&cobra.Command{
		Use: "show NAME [RUN]", Short: "Show an export and its runs, or one run with its manifest",
		Example: "  skep export show birds\n  skep export show birds run-1",
		Args:    arguments(cobra.RangeArgs(1, 2)),
	}, func(_ context.Context, db *client.Client, f *tableFlags, args []string) error {
		d, runs, err := db.Export(args[0])
		if err != nil {
			return err
		}
		if len(args) == 2 {
			for _, r := range runs {
				if r.ID == args[1] {
					return a.json(r)
				}
			}
			return fmt.Errorf("export %s has no run %q", args[0], args[1])
		}
		if f.format == "json" {
			return a.json(map[string]any{"export": d, "runs": runs})
		}
		fmt.Fprintf(a.out, "export %s, %s, keeps the last %d\n%s\n", d.Name, d.Format, max(d.Keep, 1), d.Query)
		if d.Schedule != nil {
			fmt.Fprintf(a.out, "runs at %s (missed times: %s)\n", d.Schedule, d.Schedule.Missed)
		}
		g := newGrid("run", "state", "rows", "bytes", "sha256 of the zip")
		g.right(2, 3)
		for _, r := range runs {
			if m := r.Manifest; m != nil {
				g.add(r.ID, string(r.State), strconv.FormatInt(m.Rows, 10), bytesText(m.ZipBytes), m.ZipSHA256)
			} else {
				g.add(r.ID, string(r.State), "", "", r.Error)
			}
		}
		return g.write(a.out)
	})
}

func (a *app) exportRun() *cobra.Command {
	return a.exportVerb(&cobra.Command{
		Use: "run NAME", Short: "Make an export now and wait for its end; Ctrl-C cancels it", Example: "  skep export run birds",
		Args: arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, db *client.Client, f *tableFlags, args []string) error {
		r, err := db.RunExport(ctx, args[0])
		if err != nil {
			return err
		}
		if f.format == "json" {
			return a.json(r)
		}
		m := r.Manifest
		_, err = fmt.Fprintf(a.out, "run %s: %s, %s of %s, zipped %s\nsha256 of the data %s\nsha256 of the zip  %s\n", r.ID, count(m.Rows, "row"),
			bytesText(m.DataBytes), m.Format, bytesText(m.ZipBytes), m.DataSHA256, m.ZipSHA256)
		return err
	})
}

func (a *app) exportCancel() *cobra.Command {
	return a.exportVerb(&cobra.Command{
		Use: "cancel NAME RUN", Short: "Cancel a run that waits, was interrupted or is being made", Example: "  skep export cancel birds run-3",
		Args: arguments(cobra.ExactArgs(2)),
	}, func(_ context.Context, db *client.Client, f *tableFlags, args []string) error {
		if err := db.CancelExport(args[0], args[1]); err != nil {
			return err
		}
		return a.say(f, map[string]any{"cancelled": args}, "cancelled run %s of export %s", args[1], args[0])
	})
}

func (a *app) exportDelete() *cobra.Command {
	return a.exportVerb(&cobra.Command{
		Use: "delete NAME [RUN]", Short: "Drop an export with all its files, or one run", Example: "  skep export delete birds run-3\n  skep export delete birds",
		Args: arguments(cobra.RangeArgs(1, 2)),
	}, func(_ context.Context, db *client.Client, f *tableFlags, args []string) error {
		if err := db.DeleteExport(args[0], strings.Join(args[1:], "")); err != nil {
			return err
		}
		return a.say(f, map[string]any{"deleted": args}, "deleted %s", strings.Join(args, " "))
	})
}

func (a *app) exportSchedule() *cobra.Command {
	var s scheduleFlags
	var off bool
	c := &cobra.Command{
		Use: "schedule NAME", Short: "Change when an export runs by itself",
		Example: "  skep export schedule birds --cron '30 2 * * *' --zone Europe/Berlin\n  skep export schedule birds --off",
		Args:    arguments(cobra.ExactArgs(1)),
	}
	s.add(c)
	c.Flags().BoolVar(&off, "off", false, "on demand only")
	return a.exportVerb(c, func(_ context.Context, db *client.Client, f *tableFlags, args []string) error {
		schedule, err := s.schedule()
		if err != nil {
			return err
		}
		if (schedule == nil) != off {
			return usagef("want --cron or --off")
		}
		d, err := db.ScheduleExport(args[0], schedule)
		if err != nil {
			return err
		}
		if f.format == "json" {
			return a.json(d)
		}
		if off {
			fmt.Fprintf(a.out, "export %s runs on demand\n", d.Name)
		}
		return a.printNext(d)
	})
}

func (a *app) exportDownload() *cobra.Command {
	var out, server string
	var data []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "download NAME [RUN]",
		Short: "Fetch the file of a run (default the newest) and check its SHA-256",
		Long: "Fetches the file from the data folder, or with --http from a server. A transfer that breaks is resumed; what has\n" +
			"come stays in a file that ends in .part, where the same command goes on later.",
		Example: "  skep export download birds\n" +
			"  skep export download birds run-3 -o /tmp/birds.zip\n" +
			"  skep export download birds --http 127.0.0.1:8080",
		Args: arguments(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, args []string) (err error) {
			ctx, stop := a.interruptible(c.Context())
			defer stop()
			name, run := args[0], strings.Join(args[1:], "")
			o := client.DownloadOptions{Progress: a.downloadProgress()}
			var r client.ExportRun
			if server != "" {
				if !strings.Contains(server, "://") {
					server = "http://" + server
				}
				r, err = client.DownloadURL(ctx, server, name, run, out, o)
			} else {
				var db *client.Client
				if db, err = client.Open(ctx, client.Options{Data: data, MustExist: true}); err != nil {
					return err
				}
				r, err = db.DownloadExport(ctx, name, run, out, o)
				err = errors.Join(err, db.Close())
			}
			if a.errTTY {
				fmt.Fprint(a.err, "\r\x1b[K")
			}
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(r)
			}
			_, err = fmt.Fprintf(a.out, "run %s of %s: %s, %s, sha256 %s as the manifest says\n", r.ID, r.Export, count(r.Manifest.Rows, "row"),
				bytesText(r.Manifest.ZipBytes), r.Manifest.ZipSHA256)
			return err
		},
	}
	addDataFlag(c, &data)
	fl := c.Flags()
	fl.StringVarP(&out, "output", "o", ".", "the `file`, or a folder in which it is named after export and run")
	fl.StringVar(&server, "http", "", "fetch from the server at `HOST:PORT` (skep start --http)")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// downloadProgress draws how much has come, on a terminal.
func (a *app) downloadProgress() func(have, all int64) {
	if !a.errTTY {
		return nil
	}
	var drawn time.Time
	return func(have, all int64) {
		if now := time.Now(); now.Sub(drawn) > 200*time.Millisecond {
			drawn = now
			fmt.Fprintf(a.err, "\r\x1b[K%s of %s", bytesText(have), bytesText(all))
		}
	}
}
