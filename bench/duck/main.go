// Command duck is the peer of the benchmarks: it runs SQL on DuckDB. Each line
// of standard input is a statement; for each, a line of JSON answers with the
// milliseconds that execution and reading all rows took, the number of rows
// and the text of the first ones.
//
//	duck -db FILE -threads N [-tpc]
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

type answer struct {
	Millis float64    `json:"ms"`
	Rows   int        `json:"rows"`
	First  [][]string `json:"first,omitempty"`
	Error  string     `json:"error,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "duck:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("db", "", "database file; none: in memory")
	threads := flag.Int("threads", 1, "threads of a query")
	tpc := flag.Bool("tpc", false, "with the generators and queries of TPC-H and TPC-DS")
	flag.Parse()
	ctx := context.Background()
	connector, err := duckdb.NewConnector(*file, nil)
	if err != nil {
		return err
	}
	if *tpc {
		if err := loadTPC(connector); err != nil {
			return err
		}
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, fmt.Sprintf("SET threads = %d", *threads)); err != nil {
		return err
	}
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if err := out.Encode(execute(ctx, db, in.Text())); err != nil {
			return err
		}
	}
	return in.Err()
}

func execute(ctx context.Context, db *sql.DB, statement string) (a answer) {
	start := time.Now()
	defer func() { a.Millis = float64(time.Since(start).Microseconds()) / 1e3 }()
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return answer{Error: err.Error()}
	}
	values, targets := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	for ; rows.Next(); a.Rows++ {
		if err := rows.Scan(targets...); err != nil {
			return answer{Error: err.Error()}
		}
		if a.Rows < 3 {
			cells := make([]string, len(values))
			for i, v := range values {
				cells[i] = fmt.Sprint(v)
			}
			a.First = append(a.First, cells)
		}
	}
	if err := rows.Err(); err != nil {
		return answer{Error: err.Error()}
	}
	return a
}
