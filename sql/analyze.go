package sql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// Analyzed is EXPLAIN ANALYZE: a query that runs, whose rows are dropped, and whose
// plan is then shown with what happened.
type Analyzed struct {
	Query *Query
	plan  plan.Node // with the optimizer's scans, which know what was pushed
}

func (*Analyzed) isCompiled() {}

// explainAnalyze compiles the query to be run. Statements that write are refused: explaining
// one shouldn't change anything.
func (c *compiler) explainAnalyze(ctx context.Context, s *ast.Explain) (Compiled, error) {
	query, ok := s.Statement.(*ast.QueryStatement)
	if !ok {
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnsupported, Line: s.Line, Column: s.Column,
			Message: "not supported yet: EXPLAIN ANALYZE of anything but a query", Hint: "EXPLAIN shows its plan and runs nothing"}
	}
	q, n, err := c.job(ctx, query)
	if err != nil {
		return nil, err
	}
	q.Plan = lower(n, c.env.Specs)
	return &Analyzed{Query: q, plan: n}, nil
}

// Rows shows the plan and what happened: the job's last status, and the error that it
// failed with, or nil.
func (a *Analyzed) Rows(status jobs.Status, failed error) (*Rows, error) {
	text, err := planString(a.plan, status.Stages)
	if err != nil {
		return nil, err
	}
	out := texts("Explain")
	if failed != nil {
		out.add("Failed: " + strings.Join(strings.Fields(failed.Error()), " "))
	}
	for line := range strings.Lines(text) {
		out.add(strings.TrimRight(line, "\n"))
	}
	return out, nil
}

// happened describes a stage that has run, in a line.
func happened(s jobs.StageStatus) string {
	parts := []string{fmt.Sprintf("%s in %s", count(int64(s.Done), "task"), s.Elapsed.Round(100*time.Microsecond))}
	if s.State != jobs.Succeeded {
		parts[0] = fmt.Sprintf("%s: %d of %s", s.State, s.Done, count(int64(s.Tasks), "task"))
	}
	if s.Placed > 0 {
		parts = append(parts, fmt.Sprintf("%d%% local", 100*s.Local/s.Placed))
	}
	if n := s.Counters[jobs.CounterRowsRead]; n > 0 {
		parts = append(parts, count(n, "row")+" read")
	}
	if n := s.Counters[jobs.CounterBytesRead]; n > 0 {
		parts = append(parts, count(n, "byte")+" read")
	}
	parts = append(parts, count(s.Counters[jobs.CounterRowsOut], "row")+" out")
	if n := s.Counters[jobs.CounterShuffleBytes]; n > 0 {
		parts = append(parts, count(n, "byte")+" shuffled")
	}
	if s.Failed > 0 {
		parts = append(parts, count(int64(s.Failed), "attempt")+" failed")
	}
	return "  ran: " + strings.Join(parts, ", ") + "\n"
}
