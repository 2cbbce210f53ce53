package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
)

// tpcds runs the 99 queries of TPC-DS on Skep and on DuckDB, over the same rows,
// which DuckDB generates, and compares answers and times. The texts are the ones that
// DuckDB carries, asked for as it runs.
type tpcds struct {
	on bool
	t  *tpch // scale factor, queries and threads are given by the same flags
}

func tpcdsFlags(t *tpch) *tpcds {
	d := &tpcds{t: t}
	flag.BoolVar(&d.on, "tpcds", false, "run TPC-DS")
	return d
}

func (t *tpcds) run(ctx context.Context, b *bench) (err error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("tpcds-%v", t.t.sf))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	program, err := buildDuck(b.dir)
	if err != nil {
		return fmt.Errorf("build the DuckDB peer: %w", err)
	}
	d, err := startDuck(program, filepath.Join(dir, "duck.db"), t.t.slots, "-tpc")
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
	c, err := client.Open(ctx, client.Options{Data: []string{data}, Slots: t.t.slots, MustExist: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return t.compare(ctx, b, c, d, dir)
}

// load makes the rows in DuckDB, writes them as text and loads that into Skep.
func (t *tpcds) load(ctx context.Context, d *duck, dir, data string) (err error) {
	if a, err := d.query("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'store_sales'"); err != nil {
		return err
	} else if a.First[0][0] == "0" {
		if _, err := d.query(fmt.Sprintf("CALL dsdgen(sf=%v)", t.t.sf)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	c, err := client.Open(ctx, client.Options{Data: []string{data}, Slots: t.t.slots})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	tables, err := d.query("SELECT string_agg(table_name, ' ') FROM duckdb_tables()")
	if err != nil {
		return err
	}
	types := map[string]string{"INTEGER": "int", "VARCHAR": "string"}
	for _, table := range strings.Fields(tables.First[0][0]) {
		list, err := d.query(fmt.Sprintf("SELECT string_agg(column_name || ' ' || data_type, ';' ORDER BY column_index) FROM duckdb_columns() WHERE table_name = '%s'", table))
		if err != nil {
			return err
		}
		var columns []string
		for _, column := range strings.Split(list.First[0][0], ";") {
			name, kind, _ := strings.Cut(column, " ")
			if own := types[kind]; own != "" {
				kind = own
			}
			columns = append(columns, name+" "+strings.ToLower(kind))
		}
		file := filepath.Join(dir, table+".tsv")
		if _, err := d.query(fmt.Sprintf("COPY %s TO '%s' (FORMAT csv, DELIMITER '\t', HEADER false, QUOTE '', ESCAPE '', NULLSTR '\\N')", table, file)); err != nil {
			return err
		}
		for _, sql := range []string{
			fmt.Sprintf("CREATE TABLE %s (%s) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t'", table, strings.Join(columns, ", ")),
			fmt.Sprintf("LOAD DATA LOCAL INPATH '%s' INTO TABLE %s", file, table),
		} {
			if _, err := c.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// compare runs the queries in turn on both. Rows are compared without their order, which
// the queries leave open where they sort by columns that tie.
func (t *tpcds) compare(ctx context.Context, b *bench, c *client.Client, d *duck, dir string) error {
	right, failed := 0, 0
	var own, its time.Duration
	fmt.Printf("%-5s %12s %12s  %s\n", "query", "Skep", "DuckDB", "answer")
	for q := 1; q <= 99; q++ {
		if t.t.only != "" && !slices.Contains(strings.Split(t.t.only, ","), strconv.Itoa(q)) {
			continue
		}
		peer, err := d.query(fmt.Sprintf("SELECT query FROM tpcds_queries() WHERE query_nr = %d", q))
		if err != nil {
			return err
		}
		peerSQL := oneLine(peer.First[0][0])
		// What is different in HiveQL is only how a name is quoted.
		text := strings.ReplaceAll(strings.TrimRight(peerSQL, "; "), `"`, "`")
		want, err := t.t.rows(d, peerSQL, filepath.Join(dir, "answer.tsv"))
		if err != nil {
			return err
		}
		a, err := d.query(peerSQL)
		if err != nil {
			return err
		}
		took, rows, err := querySkep(ctx, c, text)
		verdict := "right"
		if err != nil {
			verdict = strings.Join(strings.Fields(err.Error()), " ")
		} else {
			sortRows(rows, func(v any) string { return cellText(v) })
			sortRows(want, func(s string) string { return cellText(s) })
			verdict = sameRows(rows, want)
		}
		if verdict == "right" {
			right++
			own, its = own+took, its+a.elapsed()
		} else {
			failed++
		}
		fmt.Printf("%-5d %9.1f ms %9.1f ms  %.200s\n", q, took.Seconds()*1e3, a.elapsed().Seconds()*1e3, verdict)
	}
	fmt.Printf("\n%d right, %d not; %.1f s, DuckDB %.1f s, %d threads each; peak memory %s\n", right, failed, own.Seconds(), its.Seconds(), t.t.slots, peakMemory())
	if failed > 0 {
		return fmt.Errorf("%d queries failed", failed)
	}
	return nil
}

// oneLine is a statement without its comments, line breaks and semicolon.
func oneLine(sql string) string {
	var words []string
	for line := range strings.Lines(sql) {
		code, _, _ := strings.Cut(line, "--")
		words = append(words, strings.Fields(code)...)
	}
	return strings.TrimSuffix(strings.Join(words, " "), ";")
}

// cellText is a cell for sorting: numbers in one form, whatever their scale.
func cellText(v any) string {
	text := fmt.Sprint(v)
	switch x := v.(type) {
	case nil:
		return "NULL"
	case time.Time:
		text = x.Format(time.DateOnly)
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(f, 'g', 5, 64)
	}
	return text
}

func sortRows[T any](rows [][]T, text func(T) string) {
	slices.SortFunc(rows, func(a, b []T) int {
		for i := range min(len(a), len(b)) {
			if c := strings.Compare(text(a[i]), text(b[i])); c != 0 {
				return c
			}
		}
		return 0
	})
}
