// Command bench measures Skep on a generated table of 5 M rows x 10 columns:
// the load of a text file, a filter and a group-by, beside DuckDB on the same
// file in the same run. It prints medians and ratios.
//
//	go run ./bench -tpch [-sf 1] [-query N,...] [-runs N] [-dir DIR] [-keep] [-cpuprofile FILE]
//	go run ./bench -tpcds [-sf 0.01] [-query N,...] [-dir DIR] [-keep]
//	go run ./bench [-rows N] [-names N] [-skewed] [-runs N] [-dir DIR] [-no-duck] [-keep] [-cpuprofile FILE]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
)

func main() {
	b := &bench{}
	flag.IntVar(&b.data.Rows, "rows", 5_000_000, "rows of the table")
	flag.IntVar(&b.data.Names, "names", 50_000, "distinct scientific names")
	flag.IntVar(&b.data.Country, "countries", 200, "distinct countries")
	flag.BoolVar(&b.data.Skewed, "skewed", false, "names by Zipf's law instead of uniform")
	flag.Uint64Var(&b.data.Seed, "seed", 1, "seed of the generator")
	flag.IntVar(&b.runs, "runs", 7, "runs of each query")
	flag.IntVar(&b.loads, "loads", 3, "runs of each load")
	flag.StringVar(&b.dir, "dir", filepath.Join(os.TempDir(), "skep-bench"), "where the file and the data go")
	flag.StringVar(&b.profile, "cpuprofile", "", "write a processor profile of the queries to this file")
	flag.BoolVar(&b.keep, "keep", false, "measure queries on the tables of the run before, without loads")
	noDuck := flag.Bool("no-duck", false, "measure Skep alone")
	tpch := tpchFlags()
	tpcds := tpcdsFlags(tpch)
	flag.Parse()
	if tpcds.on {
		if err := tpcds.run(context.Background(), b); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if tpch.on {
		if err := tpch.run(context.Background(), b); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	b.withDuck = !*noDuck
	if err := b.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the benchmark.
type bench struct {
	data        generated
	runs, loads int
	dir         string
	withDuck    bool
	profile     string
	keep        bool

	file string
	size int64
}

// result is a line of the report: times of both, and how much a run did.
type result struct {
	what       string
	rows       int
	cores      int
	skep, duck []time.Duration
}

func (b *bench) run(ctx context.Context) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	start := time.Now()
	file, err := b.data.write(b.dir)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	b.file, b.size = file, info.Size()
	fmt.Printf("%s: %d rows, %.1f MB, made in %.1f s\n%s %s/%s, %d processors\n\n", filepath.Base(file), b.data.Rows,
		float64(b.size)/1e6, time.Since(start).Seconds(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	var duckProgram string
	if b.withDuck {
		if duckProgram, err = buildDuck(b.dir); err != nil {
			return fmt.Errorf("build the DuckDB peer (-no-duck goes without): %w", err)
		}
	}
	var loads []result
	if !b.keep {
		if loads, err = b.measureLoads(ctx, duckProgram); err != nil {
			return err
		}
	}
	if b.profile != "" {
		f, err := os.Create(b.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	queries, err := b.measureQueries(ctx, duckProgram)
	if err != nil {
		return err
	}
	report(append(loads, queries...))
	return nil
}

// duckFile is DuckDB's database; skepFolder a data folder of Skep's.
func (b *bench) duckFile() string              { return filepath.Join(b.dir, "duck.db") }
func (b *bench) skepFolder(kind string) string { return filepath.Join(b.dir, "skep-"+kind) }

// measureLoads loads the file with all processors: into a table keyed by the
// unique string, into a keyless one, and into DuckDB, in turn.
func (b *bench) measureLoads(ctx context.Context, duckProgram string) ([]result, error) {
	cores := runtime.NumCPU()
	keyed := result{what: "load, keyed by the unique string", rows: b.data.Rows, cores: cores}
	keyless := result{what: "load, keyless", rows: b.data.Rows, cores: cores}
	for range b.loads {
		for kind, r := range map[string]*result{"keyed": &keyed, "keyless": &keyless} {
			t, err := b.loadSkep(ctx, kind)
			if err != nil {
				return nil, fmt.Errorf("load into Skep, %s: %w", kind, err)
			}
			r.skep = append(r.skep, t)
		}
		if duckProgram == "" {
			continue
		}
		t, err := b.loadDuck(duckProgram, cores)
		if err != nil {
			return nil, fmt.Errorf("load into DuckDB: %w", err)
		}
		keyed.duck, keyless.duck = append(keyed.duck, t), append(keyless.duck, t)
	}
	return []result{keyed, keyless}, nil
}

func (b *bench) loadSkep(ctx context.Context, kind string) (t time.Duration, err error) {
	folder := b.skepFolder(kind)
	if err := os.RemoveAll(folder); err != nil {
		return 0, err
	}
	c, err := client.Open(ctx, client.Options{Data: []string{folder}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	def := client.TableDefinition{Name: "occurrence"}
	for _, col := range columns {
		def.Columns = append(def.Columns, client.Column{Name: col.name, Type: col.typ})
	}
	if kind == "keyed" {
		def.Key = []string{"occurrence_id"}
	}
	table, err := c.CreateTable(ctx, def)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	r, err := table.Load(ctx, client.LoadOptions{Files: []string{b.file}, Header: true})
	if err != nil {
		return 0, err
	}
	if r.Rows != int64(b.data.Rows) {
		return 0, fmt.Errorf("%d rows loaded, want %d", r.Rows, b.data.Rows)
	}
	return time.Since(start), nil
}

func (b *bench) loadDuck(program string, threads int) (t time.Duration, err error) {
	for _, suffix := range []string{"", ".wal"} {
		if err := os.RemoveAll(b.duckFile() + suffix); err != nil {
			return 0, err
		}
	}
	d, err := startDuck(program, b.duckFile(), threads)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	types := map[string]string{"string": "VARCHAR", "int": "INTEGER", "double": "DOUBLE"}
	var cols []string
	for _, c := range columns {
		cols = append(cols, fmt.Sprintf("'%s': '%s'", c.name, types[c.typ]))
	}
	load := fmt.Sprintf("CREATE TABLE occurrence AS SELECT * FROM read_csv('%s', delim='\t', header=true, quote='', escape='', auto_detect=false, columns={%s})",
		strings.ReplaceAll(b.file, "'", "''"), strings.Join(cols, ", "))
	for _, sql := range []string{load, "CHECKPOINT"} {
		a, err := d.query(sql)
		if err != nil {
			return 0, err
		}
		t += a.elapsed()
	}
	return t, nil
}

// measureQueries runs the queries on one processor, in turn with DuckDB on one
// thread. The first run of each isn't counted: it warms the caches of both.
func (b *bench) measureQueries(ctx context.Context, duckProgram string) ([]result, error) {
	runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(runtime.NumCPU())
	c, err := client.Open(ctx, client.Options{Data: []string{b.skepFolder("keyed")}, Slots: 1})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var d *duck
	if duckProgram != "" {
		if d, err = startDuck(duckProgram, b.duckFile(), 1); err != nil {
			return nil, err
		}
		defer d.close()
	}
	middle := name(b.data.Names / 2)
	if b.data.Skewed {
		middle = name(20)
	}
	var results []result
	for _, q := range []struct{ what, sql string }{
		{"count(*) where scientific_name = 'x'", "SELECT count(*) FROM occurrence WHERE scientific_name = '" + middle + "'"},
		{"group by country, count and avg", "SELECT country, count(*), avg(latitude) FROM occurrence GROUP BY country ORDER BY country"},
	} {
		r := result{what: q.what, rows: b.data.Rows, cores: 1}
		for i := range b.runs + 1 {
			took, rows, err := querySkep(ctx, c, q.sql)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", q.sql, err)
			}
			if i > 0 {
				r.skep = append(r.skep, took)
			}
			if d == nil {
				continue
			}
			a, err := d.query(q.sql)
			if err != nil {
				return nil, err
			}
			if err := sameAnswer(rows, a); err != nil {
				return nil, fmt.Errorf("%s: %w", q.sql, err)
			}
			if i > 0 {
				r.duck = append(r.duck, a.elapsed())
			}
		}
		results = append(results, r)
	}
	return results, nil
}

func querySkep(ctx context.Context, c *client.Client, sql string) (time.Duration, [][]any, error) {
	start := time.Now()
	rows, err := c.Query(ctx, sql)
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close()
	var out [][]any
	for r, err := range rows.All(ctx) {
		if err != nil {
			return 0, nil, err
		}
		out = append(out, r)
	}
	return time.Since(start), out, nil
}

// sameAnswer compares the number of rows and the counts in the first ones.
func sameAnswer(rows [][]any, a answer) error {
	if len(rows) != a.Rows {
		return fmt.Errorf("%d rows in Skep, %d in DuckDB", len(rows), a.Rows)
	}
	for i, first := range a.First {
		for j, cell := range first {
			if _, isFloat := rows[i][j].(float64); isFloat {
				continue // summed in another order
			}
			if got := fmt.Sprint(rows[i][j]); got != cell {
				return fmt.Errorf("row %d, column %d: %s in Skep, %s in DuckDB", i+1, j+1, got, cell)
			}
		}
	}
	return nil
}

func median(ts []time.Duration) time.Duration {
	if len(ts) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(ts))
	return s[len(s)/2]
}

func report(results []result) {
	fmt.Printf("%-38s %6s  %20s %20s %12s\n", "", "cores", "Skep (median)", "DuckDB (median)", "Skep/DuckDB")
	for _, r := range results {
		line := fmt.Sprintf("%-38s %6d  %20s", r.what, r.cores, rate(r.rows, median(r.skep)))
		if len(r.duck) > 0 {
			line += fmt.Sprintf(" %20s %10.2f x", rate(r.rows, median(r.duck)), median(r.duck).Seconds()/median(r.skep).Seconds())
		}
		fmt.Println(line)
		fmt.Printf("%-38s %6s  %20s", "", "", spread(r.skep))
		if len(r.duck) > 0 {
			fmt.Printf(" %20s", spread(r.duck))
		}
		fmt.Println()
	}
	fmt.Println("\nSkep/DuckDB: rows per second, above 1 Skep is faster.")
}

func rate(rows int, t time.Duration) string {
	return fmt.Sprintf("%.2f M rows/s", float64(rows)/1e6/t.Seconds())
}

// spread is the least and the most time of the runs.
func spread(ts []time.Duration) string {
	if len(ts) == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f..%.1f ms", slices.Min(ts).Seconds()*1e3, slices.Max(ts).Seconds()*1e3)
}
