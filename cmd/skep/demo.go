package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/examples/occurrence"
	"github.com/skepdb/skep/frontend/render"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/node"
	"github.com/skepdb/skep/sql/parser"
	"github.com/spf13/cobra"
)

// demoFolder is where the demo leaves its data.
const demoFolder = "skep-demo"

func (a *app) demo() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Load real data into four regions and query it, saying what each step cost",
		Long: "Starts one master and two workers in this process, with a data folder each, loads 1,534 occurrence\n" +
			"records that are part of this program, runs a filtered and a grouped query, a map/reduce job and an export. It\n" +
			"leaves the data for you to try more. Running it again makes the table anew.",
		Example: "  skep demo\n  skep demo --data /tmp/demo",
		Args:    arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := a.interruptible(c.Context())
			defer stop()
			return a.runDemo(ctx, dir)
		},
	}
	c.Flags().StringVar(&dir, "data", demoFolder, "the `folder` that the two data folders go into")
	return c
}

func (a *app) runDemo(ctx context.Context, dir string) (err error) {
	start := time.Now()
	if err := node.WriteFolders(nil, dir, []string{"disk1", "disk2"}); err != nil {
		return err
	}
	db, err := client.Open(ctx, client.Options{Data: []string{dir}, Workers: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	d := &demo{app: a, db: db, dir: dir}
	a.heading("A master and two workers in this process, each with a data folder: %s, %s",
		filepath.Join(dir, "disk1"), filepath.Join(dir, "disk2"))
	for _, step := range []func(context.Context) error{d.load, d.regions, d.filter, d.group, d.mapReduce, d.export} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	a.heading("Done in %.1f s. The data stays in %s; try:", time.Since(start).Seconds(), dir)
	for _, c := range demoCommands(dir) {
		fmt.Fprintf(a.out, "  %s\n", c)
	}
	return nil
}

// demoCommands are what the demo proposes to run on the data that it leaves.
func demoCommands(dir string) []string {
	program := "skep"
	if len(os.Args) > 0 && strings.ContainsRune(os.Args[0], filepath.Separator) {
		program = shellWord(os.Args[0])
	}
	data := shellWord(dir)
	return []string{
		program + " sql --data " + data + " --format table -e 'SELECT family, count(*) AS records FROM occurrence GROUP BY family ORDER BY records DESC LIMIT 5'",
		program + " table get --data " + data + " occurrence 212301446 --columns gbifid,scientificname,elevation",
		program + " table scan --data " + data + ` occurrence --where "scientificname LIKE 'Poa %' AND month = 6" --columns gbifid,scientificname,eventdate --limit 5`,
	}
}

// shellWord quotes a word for a shell, if it must be.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (a *app) heading(format string, args ...any) {
	fmt.Fprintf(a.out, "\n"+format+"\n", args...)
}

// demo is a demo that runs.
type demo struct {
	app   *app
	db    *client.Client
	dir   string
	table *client.Table
}

// load makes the table anew and loads the records.
func (d *demo) load(ctx context.Context) error {
	file := filepath.Join(d.dir, "occurrence.tsv")
	if err := os.WriteFile(file, []byte(occurrence.TSV()), 0o644); err != nil {
		return fmt.Errorf("write the example data: %w", err)
	}
	if _, err := d.db.Exec(ctx, "DROP TABLE IF EXISTS occurrence"); err != nil {
		return err
	}
	o := client.LoadOptions{Files: []string{file}, Header: true}
	columns, err := o.GuessColumns()
	if err != nil {
		return err
	}
	d.table, err = d.db.CreateTable(ctx, client.TableDefinition{Name: "occurrence", Columns: columns, Key: []string{occurrence.Key}, Regions: 4})
	if err != nil {
		return err
	}
	start := time.Now()
	r, err := d.table.Load(ctx, o)
	if err != nil {
		return err
	}
	d.app.heading("Load %s into table occurrence, row key %s:", file, occurrence.Key)
	fmt.Fprintf(d.app.out, "  %d rows x %d columns in %.3f s, %s\n", r.Rows, len(columns), time.Since(start).Seconds(), count(int64(r.Tasks), "task"))
	return nil
}

// regions shows where the rows are.
func (d *demo) regions(ctx context.Context) error {
	regions, err := d.table.Regions(ctx)
	if err != nil {
		return err
	}
	d.app.heading("Its %d regions:", len(regions))
	return d.app.printRegions(regions)
}

func (d *demo) filter(ctx context.Context) error {
	return d.query(ctx, "A filtered query: the condition is evaluated inside of the scans of the regions",
		"SELECT scientificname, elevation, decimallatitude FROM occurrence\nWHERE family = 'Poaceae' AND elevation >= 2000 ORDER BY elevation DESC, scientificname LIMIT 5", true)
}

func (d *demo) group(ctx context.Context) error {
	return d.query(ctx, "A grouped query: each task groups its region, the results are merged by group",
		"SELECT month, count(*) AS records, count(DISTINCT family) AS families, avg(elevation) AS mean_elevation\nFROM occurrence GROUP BY month ORDER BY records DESC", false)
}

// query runs a query and says what it cost.
func (d *demo) query(ctx context.Context, title, sql string, explain bool) error {
	s, err := d.db.Session(ctx, client.SessionOptions{})
	if err != nil {
		return err
	}
	d.app.heading("%s:", title)
	fmt.Fprintf(d.app.out, "  %s\n", strings.ReplaceAll(sql, "\n", "\n  "))
	if explain {
		lines, err := d.explain(ctx, s, sql)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.app.out, "EXPLAIN says:\n")
		for _, l := range lines {
			fmt.Fprintf(d.app.out, "  %s\n", l)
		}
	}
	start := time.Now()
	op := s.Start(ctx, parser.Split(sql)[0])
	defer op.Close()
	if err := op.Wait(ctx); err != nil {
		return err
	}
	took := time.Since(start)
	w, err := render.NewWriter(d.app.out, op.Fields(), render.Options{Format: render.Table})
	if err != nil {
		return err
	}
	rows, err := copyRows(ctx, w, op, nil)
	if err != nil {
		return err
	}
	if err := w.End(); err != nil {
		return err
	}
	return d.cost(ctx, op, rows, took)
}

// mapReduce runs a map/reduce job over the table's text.
func (d *demo) mapReduce(ctx context.Context) error {
	file := filepath.Join(d.dir, "occurrence.tsv")
	d.app.heading("A map/reduce job, the built-in word count, over %s:", file)
	start := time.Now()
	job, err := d.db.Run(ctx, client.Program{Name: "wordcount", Files: []string{file}, Dir: filepath.Join(d.dir, "words"), Overwrite: true})
	if err != nil {
		return err
	}
	defer job.Close()
	status, err := job.Wait(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.app.out, "  %d words, %d different ones, in %s; %s\n", status.Counters[mapreduce.CounterMapOutput], status.Summary.Rows,
		filepath.Join(d.dir, "words"), d.jobCost(status, time.Since(start)))
	return err
}

// jobCost says what a job took.
func (d *demo) jobCost(s client.JobStatus, took time.Duration) string {
	tasks := 0
	for _, st := range s.Stages {
		tasks += st.Tasks
	}
	return fmt.Sprintf("%.3f s, %s in %s, read %s", took.Seconds(), count(int64(tasks), "task"), count(int64(len(s.Stages)), "stage"),
		bytesText(s.Counters[jobs.CounterBytesRead]))
}

// export makes an export and fetches it.
func (d *demo) export(ctx context.Context) error {
	const name = "grasses"
	d.app.heading("An export, zipped CSV of a filtered table with a manifest:")
	if all, err := d.db.Exports(); err != nil {
		return err
	} else if slices.ContainsFunc(all, func(x client.Export) bool { return x.Name == name }) {
		if err := d.db.DeleteExport(name, ""); err != nil {
			return err
		}
	}
	start := time.Now()
	if _, err := d.db.CreateExport(ctx, client.Export{Name: name, Table: "occurrence", Where: "family = 'Poaceae'"}); err != nil {
		return err
	}
	r, err := d.db.RunExport(ctx, name)
	if err != nil {
		return err
	}
	file := filepath.Join(d.dir, name+".zip")
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := d.db.DownloadExport(ctx, name, r.ID, file, client.DownloadOptions{}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.app.out, "  %s, %s of csv, %s in %s, its SHA-256 checked, in %.3f s\n", count(r.Manifest.Rows, "row"), bytesText(r.Manifest.DataBytes),
		bytesText(r.Manifest.ZipBytes), file, time.Since(start).Seconds())
	return err
}

// explain returns the lines of EXPLAIN about the scan and what is pushed into it.
func (d *demo) explain(ctx context.Context, s client.Session, sql string) ([]string, error) {
	op := s.Start(ctx, parser.Split("EXPLAIN " + sql)[0])
	defer op.Close()
	if err := op.Wait(ctx); err != nil {
		return nil, err
	}
	var out strings.Builder
	w, err := render.NewWriter(&out, op.Fields(), render.Options{Format: render.TSV})
	if err != nil {
		return nil, err
	}
	if _, err := copyRows(ctx, w, op, nil); err != nil {
		return nil, err
	}
	if err := w.End(); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), nil
}

// cost says what a query took: rows, time, tasks, locality, bytes.
func (d *demo) cost(ctx context.Context, op client.Operation, rows int64, took time.Duration) error {
	status, ok := op.Status()
	if !ok {
		return fmt.Errorf("the query ran without a job")
	}
	var tasks, placed, local int
	for _, st := range status.Stages {
		tasks += st.Tasks
		placed += st.Placed
		local += st.Local
	}
	regions, err := d.table.Regions(ctx)
	if err != nil {
		return err
	}
	var inTable int64
	for _, r := range regions {
		inTable += r.Bytes
	}
	_, err = fmt.Fprintf(d.app.out, "%s in %.3f s; %s in %s; %d of %d scan tasks ran on the worker that has the region; read %s of the table's %s\n",
		count(rows, "row"), took.Seconds(), count(int64(tasks), "task"), count(int64(len(status.Stages)), "stage"), local, placed,
		bytesText(status.Counters[jobs.CounterBytesRead]), bytesText(inTable))
	return err
}
