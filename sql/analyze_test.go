package sql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/sql/parser"
)

// TestExplainAnalyze: what happened stands at its stage, and why it failed on top; only
// queries are run.
func TestExplainAnalyze(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	if _, err := w.run(ctx, "create table t (a int, b string)"); err != nil {
		t.Fatal(err)
	}
	compile := func(text string) (Compiled, error) {
		stmts, err := parser.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return Compile(ctx, stmts[0], w.env)
	}
	c, err := compile("explain analyze select a, count(*) from t group by a")
	if err != nil {
		t.Fatal(err)
	}
	status := jobs.Status{Stages: []jobs.StageStatus{
		{State: jobs.Succeeded, Tasks: 4, Done: 4, Placed: 4, Local: 3, Elapsed: 1500 * time.Microsecond,
			Counters: jobs.Counters{jobs.CounterRowsRead: 100, jobs.CounterRowsOut: 7, jobs.CounterBytesRead: 1, jobs.CounterShuffleBytes: 64}},
		{State: jobs.Failed, Tasks: 2, Done: 1, Failed: 4, Counters: jobs.Counters{}},
	}}
	rows, err := c.(*Analyzed).Rows(status, errors.New("no\nluck"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range rows.Data {
		lines = append(lines, r[0].S)
	}
	got := strings.Join(lines, "\n")
	for _, want := range []string{
		"Failed: no luck\nStage 0:\n  ran: 4 tasks in 1.5ms, 75% local, 100 rows read, 1 byte read, 7 rows out, 64 bytes shuffled\n",
		"Stage 1 (after 0):\n  ran: failed: 1 of 2 tasks, 0 rows out, 4 attempts failed\n  Write: the result\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
	if _, err := compile("explain analyze insert into t values (1, 'a')"); err == nil || !strings.Contains(err.Error(), "anything but a query") {
		t.Errorf("EXPLAIN ANALYZE INSERT: %v", err)
	}
}
