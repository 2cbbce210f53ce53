package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
)

// tpch runs the 22 queries of TPC-H on Skep and on DuckDB, over the same rows,
// which DuckDB generates, and compares answers and times.
type tpch struct {
	on    bool
	sf    float64
	only  string
	slots int
}

func tpchFlags() *tpch {
	t := &tpch{}
	flag.BoolVar(&t.on, "tpch", false, "run TPC-H")
	flag.Float64Var(&t.sf, "sf", 1, "TPC-H: scale factor")
	flag.StringVar(&t.only, "query", "", "TPC-H: numbers of the queries to run; all")
	flag.IntVar(&t.slots, "slots", runtime.NumCPU(), "TPC-H: threads, of both")
	return t
}

//go:embed tpch/*.sql
var tpchQueries embed.FS

var tpchTables = []struct{ name, columns string }{
	{"region", "r_regionkey int, r_name string, r_comment string"},
	{"nation", "n_nationkey int, n_name string, n_regionkey int, n_comment string"},
	{"supplier", "s_suppkey bigint, s_name string, s_address string, s_nationkey int, s_phone string, s_acctbal decimal(15,2), s_comment string"},
	{"customer", "c_custkey bigint, c_name string, c_address string, c_nationkey int, c_phone string, c_acctbal decimal(15,2), c_mktsegment string, c_comment string"},
	{"part", "p_partkey bigint, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, p_container string, p_retailprice decimal(15,2), p_comment string"},
	{"partsupp", "ps_partkey bigint, ps_suppkey bigint, ps_availqty bigint, ps_supplycost decimal(15,2), ps_comment string"},
	{"orders", "o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2), o_orderdate date, o_orderpriority string, o_clerk string, o_shippriority int, o_comment string"},
	{"lineitem", "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber bigint, l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), " +
		"l_returnflag string, l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, l_comment string"},
}

func (t *tpch) run(ctx context.Context, b *bench) (err error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("tpch-%v", t.sf))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	program, err := buildDuck(b.dir)
	if err != nil {
		return fmt.Errorf("build the DuckDB peer: %w", err)
	}
	d, err := startDuck(program, filepath.Join(dir, "duck.db"), t.slots, "-tpc")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	data := filepath.Join(dir, "skep")
	if !b.keep {
		if err := t.load(ctx, d, dir, data); err != nil {
			return err
		}
	}
	c, err := client.Open(ctx, client.Options{Data: []string{data}, Slots: t.slots, MustExist: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
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
	return t.compare(ctx, b, c, d, dir)
}

// load makes the rows in DuckDB, writes them as text and loads that into Skep.
func (t *tpch) load(ctx context.Context, d *duck, dir, data string) (err error) {
	if a, err := d.query("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'lineitem'"); err != nil {
		return err
	} else if a.First[0][0] == "0" {
		if _, err := d.query(fmt.Sprintf("CALL dbgen(sf=%v)", t.sf)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	c, err := client.Open(ctx, client.Options{Data: []string{data}, Slots: t.slots})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, table := range tpchTables {
		file := filepath.Join(dir, table.name+".tsv")
		if _, err := d.query(fmt.Sprintf("COPY %s TO '%s' (FORMAT csv, DELIMITER '\t', HEADER false, QUOTE '', ESCAPE '')", table.name, file)); err != nil {
			return err
		}
		start := time.Now()
		for _, sql := range []string{
			fmt.Sprintf("CREATE TABLE %s (%s) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t'", table.name, table.columns),
			fmt.Sprintf("LOAD DATA LOCAL INPATH '%s' INTO TABLE %s", file, table.name),
		} {
			if _, err := c.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		fmt.Printf("%-10s loaded in %6.2f s\n", table.name, time.Since(start).Seconds())
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// compare runs the queries in turn on both.
func (t *tpch) compare(ctx context.Context, b *bench, c *client.Client, d *duck, dir string) error {
	var ratios []float64
	failed := 0
	fmt.Printf("\n%-5s %12s %12s %9s %11s %11s  %s\n", "query", "Skep", "DuckDB", "ratio", "Skep's CPU", "DuckDB's", "answer")
	for q := 1; q <= 22; q++ {
		if t.only != "" && !slices.Contains(strings.Split(t.only, ","), strconv.Itoa(q)) {
			continue
		}
		text, err := tpchQueries.ReadFile(fmt.Sprintf("tpch/q%02d.sql", q))
		if err != nil {
			return err
		}
		// The fraction of query 11 goes with the scale factor.
		sql := strings.ReplaceAll(strings.TrimSpace(string(text)), "${fraction}", strconv.FormatFloat(0.0001/t.sf, 'f', -1, 64))
		peer, err := d.query(fmt.Sprintf("SELECT query FROM tpch_queries() WHERE query_nr = %d", q))
		if err != nil {
			return err
		}
		peerSQL := strings.TrimSuffix(strings.Join(strings.Fields(peer.First[0][0]), " "), ";")
		peerSQL = strings.ReplaceAll(peerSQL, "0.0001000000", strconv.FormatFloat(0.0001/t.sf, 'f', -1, 64))
		want, err := t.rows(d, peerSQL, filepath.Join(dir, "answer.tsv"))
		if err != nil {
			return err
		}
		var own, its []time.Duration
		var ownCPU, itsCPU time.Duration
		verdict := "right"
		for i := range b.runs + 1 {
			before := processorTime("self")
			took, rows, err := querySkep(ctx, c, sql)
			if err != nil {
				verdict = strings.Join(strings.Fields(err.Error()), " ")
				break
			}
			if i == 0 { // warms the caches of both
				if verdict = sameRows(rows, want); verdict != "right" {
					break
				}
			} else {
				own = append(own, took)
				ownCPU += processorTime("self") - before
			}
			before = processorTime(d.process())
			a, err := d.query(peerSQL)
			if err != nil {
				return err
			}
			if i > 0 {
				its = append(its, a.elapsed())
				itsCPU += processorTime(d.process()) - before
			}
		}
		if len(own) == 0 {
			failed++
			fmt.Printf("%-5d %12s %12s %9s  %.200s\n", q, "-", "-", "-", verdict)
			continue
		}
		ratio := median(own).Seconds() / median(its).Seconds()
		ratios = append(ratios, ratio)
		n := float64(len(own))
		fmt.Printf("%-5d %9.1f ms %9.1f ms %8.2fx %9.2f s %9.2f s  %s\n", q, median(own).Seconds()*1e3, median(its).Seconds()*1e3, ratio,
			ownCPU.Seconds()/n, itsCPU.Seconds()/n, verdict)
	}
	sum := 0.0
	for _, r := range ratios {
		sum += math.Log(r)
	}
	fmt.Printf("\n%d right, %d not; geometric mean %.2fx, worst %.2fx of DuckDB's time, %d threads each; peak memory %s\n", len(ratios), failed,
		math.Exp(sum/float64(max(len(ratios), 1))), slices.Max(append(ratios, 0)), t.slots, peakMemory())
	if failed > 0 {
		return fmt.Errorf("%d queries failed", failed)
	}
	return nil
}

// rows returns DuckDB's answer as text.
func (t *tpch) rows(d *duck, sql, file string) ([][]string, error) {
	if _, err := d.query(fmt.Sprintf("COPY (%s) TO '%s' (FORMAT csv, DELIMITER '\t', HEADER false, QUOTE '', ESCAPE '', NULLSTR 'NULL')", sql, file)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out [][]string
	for line := range strings.Lines(string(text)) {
		out = append(out, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return out, os.Remove(file)
}

// sameRows compares answers in order: numbers within a millionth, since DuckDB's
// averages of decimals are doubles and ours are decimals of six places.
func sameRows(got [][]any, want [][]string) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows, not %d", len(got), len(want))
	}
	for i, row := range got {
		if len(row) != len(want[i]) {
			return fmt.Sprintf("row %d has %d columns, not %d", i+1, len(row), len(want[i]))
		}
		for k, v := range row {
			cell := fmt.Sprint(v)
			switch x := v.(type) {
			case nil:
				cell = "NULL"
			case time.Time:
				cell = x.Format(time.DateOnly)
			}
			if cell == want[i][k] {
				continue
			}
			x, err1 := strconv.ParseFloat(cell, 64)
			y, err2 := strconv.ParseFloat(want[i][k], 64)
			if err1 != nil || err2 != nil || math.Abs(x-y) > 1e-6*math.Max(1, math.Abs(y)) {
				return fmt.Sprintf("row %d, column %d: %s, not %s", i+1, k+1, cell, want[i][k])
			}
		}
	}
	return "right"
}

// processorTime is what a process has used of the processors, in ticks of 10 ms; 0
// where there is no /proc. On a busy machine it says more than the clock.
func processorTime(process string) time.Duration {
	text, err := os.ReadFile("/proc/" + process + "/stat")
	if err != nil {
		return 0
	}
	// The name, in parentheses, may have blanks; utime and stime are fields 14 and 15.
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// peakMemory is the most memory that this process has had.
func peakMemory() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(kb)
		}
	}
	return "unknown"
}
