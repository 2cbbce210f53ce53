package sql

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/sql/optimizer"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/sql/stage"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// resultSink stands for the result set in EXPLAIN, which makes none.
type resultSink struct{}

func (resultSink) Format() string   { return "resultset" }
func (resultSink) Describe() string { return "the result" }

// PlanString shows a plan: its stages, first to last, and in each the tree of
// operators that a task runs, outermost first.
func PlanString(root plan.Node) (string, error) { return planString(root, nil) }

// planString shows a plan; after, if not nil, tells what happened in each stage.
func planString(root plan.Node, after []jobs.StageStatus) (string, error) {
	fragments, err := stage.Fragments(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, f := range fragments {
		fmt.Fprintf(&b, "Stage %d", i)
		if len(f.Inputs) > 0 {
			parts := make([]string, len(f.Inputs))
			for k, in := range f.Inputs {
				parts[k] = fmt.Sprint(in)
			}
			fmt.Fprintf(&b, " (after %s)", strings.Join(parts, ", "))
		}
		b.WriteString(":\n")
		if i < len(after) {
			b.WriteString(happened(after[i]))
		}
		p := printer{&b, f}
		p.node(f.Root, 1)
	}
	return b.String(), nil
}

type printer struct {
	b *strings.Builder
	f *stage.Fragment
}

func (p *printer) line(depth int, format string, args ...any) {
	p.b.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(p.b, format, args...)
	p.b.WriteByte('\n')
}

func (p *printer) node(n plan.Node, depth int) {
	switch n := n.(type) {
	case *plan.Scan:
		p.scan(n, depth)
	case *plan.Values:
		p.line(depth, "Values: %s", count(int64(len(n.Rows)), "row"))
	case *plan.Filter:
		p.line(depth, "Filter: %s", n.Cond)
	case *plan.Project:
		parts := make([]string, len(n.Exprs))
		for i, e := range n.Exprs {
			parts[i] = e.String()
			if n.Names[i] != parts[i] {
				parts[i] += " AS " + n.Names[i]
			}
		}
		p.line(depth, "Project: %s", list(parts))
	case *plan.Aggregate:
		p.aggregate(n, depth)
	case *plan.Join:
		p.join(n, depth)
	case *plan.Union:
		p.line(depth, "Union: %s", count(int64(len(n.Inputs)), "input"))
	case *plan.Expand:
		p.line(depth, "Expand: %s a row", count(int64(len(n.Projections)), "row"))
	case *plan.Generate:
		args := make([]string, len(n.Args))
		for i, e := range n.Args {
			args[i] = e.String()
		}
		outer := ""
		if n.Outer {
			outer = " outer"
		}
		p.line(depth, "Generate%s: %s(%s)", outer, n.Name, list(args))
	case *plan.Window:
		p.window(n, depth)
	case *plan.Sort:
		p.line(depth, "%s: %s%s", sortName(n), sortKeys(n.Keys), offset(n.Offset))
	case *plan.Limit:
		p.line(depth, "Limit: %d%s", n.Count, offset(n.Offset))
	case *plan.Exchange:
		p.exchange(n, depth)
	case *plan.Write:
		p.line(depth, "Write: %s", n.Spec.Describe())
	case *plan.Input:
		in := p.f.Inputs[n.Index]
		how := ""
		if p.f.Broadcast[n.Index] {
			how = ", all of it in every task"
		}
		p.line(depth, "Rows of stage %d%s", in, how)
	}
	for _, c := range n.Children() {
		p.node(c, depth+1)
	}
}

var joinNames = map[plan.JoinKind]string{plan.Inner: "inner", plan.LeftOuter: "left outer", plan.RightOuter: "right outer", plan.FullOuter: "full outer",
	plan.LeftSemi: "left semi", plan.LeftAnti: "left anti", plan.LeftMark: "mark", plan.LeftSingle: "single"}

func (p *printer) join(n *plan.Join, depth int) {
	keys := make([]string, len(n.LeftKeys))
	for i := range keys {
		keys[i] = n.LeftKeys[i].String() + " = " + n.RightKeys[i].String()
	}
	on := strings.Join(keys, " AND ")
	if len(keys) == 0 {
		on = "every pair of rows"
	}
	aware := ""
	if n.NullAware {
		aware = ", NULL aware"
	}
	p.line(depth, "Join (%s%s): %s", joinNames[n.Kind], aware, on)
	if n.Residual != nil {
		p.line(depth+1, "and: %s", n.Residual)
	}
}

func (p *printer) window(n *plan.Window, depth int) {
	calls := make([]string, len(n.Calls))
	for i, c := range n.Calls {
		args := make([]string, len(c.Args))
		for k, e := range c.Args {
			args[k] = e.String()
		}
		calls[i] = c.Name + "(" + list(args) + ")"
	}
	by := make([]string, len(n.PartitionBy))
	for i, e := range n.PartitionBy {
		by[i] = e.String()
	}
	text := list(calls)
	if len(by) > 0 {
		text += " partition by " + list(by)
	}
	if len(n.OrderBy) > 0 {
		text += " order by " + sortKeys(n.OrderBy)
	}
	p.line(depth, "Window: %s", text)
}

func (p *printer) scan(n *plan.Scan, depth int) {
	s, ok := n.Spec.(*optimizer.Source)
	if !ok {
		p.line(depth, "Scan: %s", n.Spec.Describe())
		return
	}
	p.line(depth, "Scan: %s", s.Table.Name)
	names := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		names[i] = c.Name
	}
	columns, all := "", len(s.Table.Columns)+len(s.PartitionColumns)
	if len(names) > 0 {
		columns = " (" + list(names) + ")"
	}
	p.line(depth+1, "columns: %d of %d%s", len(s.Columns), all, columns)
	if s.Filter != nil {
		p.line(depth+1, "pushed: %s", optimizer.PredicateString(s.Table, s.Filter))
	}
	if s.Table.Partitioned {
		p.line(depth+1, "partitions: %d of %d", len(s.Partitions), s.AllPartitions)
	}
	if s.Ranges != nil {
		p.line(depth+1, "key ranges: %s", ranges(s.Table, s.Ranges))
	}
	if s.Regions != nil {
		kept, total := s.Kept()
		p.line(depth+1, "regions: %d of %d", len(kept), total)
	}
	if s.Limit > 0 {
		p.line(depth+1, "limit: %d", s.Limit)
	}
	if rows := optimizer.Rows(n); rows >= 0 {
		p.line(depth+1, "estimated rows: %d", rows)
	}
}

func (p *printer) aggregate(n *plan.Aggregate, depth int) {
	aggs := make([]string, len(n.Aggs))
	for i, a := range n.Aggs {
		aggs[i] = a.OutName
	}
	phase := map[plan.Phase]string{plan.Single: "", plan.Partial: " (partial)", plan.Final: " (final)"}[n.Phase]
	name, text := "Aggregate", list(aggs)
	if len(aggs) == 0 {
		name, text = "Distinct", ""
	}
	if len(n.Keys) > 0 {
		keys := make([]string, len(n.Keys))
		for i, k := range n.Keys {
			keys[i] = k.String()
		}
		if text != "" {
			text += " "
		}
		text += "by " + list(keys)
	}
	p.line(depth, "%s%s: %s", name, phase, text)
}

func (p *printer) exchange(n *plan.Exchange, depth int) {
	switch n.How {
	case plan.ByHash:
		keys := make([]string, len(n.Keys))
		for i, k := range n.Keys {
			keys[i] = k.String()
		}
		p.line(depth, "Send by hash of %s", list(keys))
	case plan.Broadcast:
		p.line(depth, "Send to all tasks")
	case plan.ByRegion:
		p.line(depth, "Send by row key to %s", count(int64(len(n.Cuts)+1), "part"))
	default:
		p.line(depth, "Send to one task")
	}
}

func sortName(s *plan.Sort) string {
	if s.Limit >= 0 {
		return fmt.Sprintf("Top %d", s.Limit)
	}
	return "Sort"
}

func sortKeys(keys []plan.SortKey) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = k.Expr.String()
		if k.Desc {
			parts[i] += " DESC"
		}
		if k.NullsLast == k.Desc { // not the default of its direction
			parts[i] += map[bool]string{true: " NULLS LAST", false: " NULLS FIRST"}[k.NullsLast]
		}
	}
	return strings.Join(parts, ", ")
}

func offset(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" after %d", n)
}

// list joins at most a dozen parts.
func list(parts []string) string {
	const most = 12
	if len(parts) > most {
		parts = append(append([]string(nil), parts[:most]...), fmt.Sprintf("and %d more", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}

func ranges(t *storage.Table, rs []storage.KeyRange) string {
	if len(rs) == 0 {
		return "none: no row can match"
	}
	const most = 4
	var parts []string
	for i, r := range rs {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(rs)-most))
			break
		}
		parts = append(parts, rowkey.RangeText(rowkey.ColumnsOf(t), r))
	}
	return strings.Join(parts, ", ")
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
