package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/optimizer"
	"github.com/skepdb/skep/sql/plan"
)

// explain shows what a statement would do. Hive's modes that show its plan in
// another form all show this one.
func (c *compiler) explain(ctx context.Context, s *ast.Explain) (Compiled, error) {
	if slices.Contains(strings.Fields(s.Mode), "analyze") {
		return c.explainAnalyze(ctx, s)
	}
	env := *c.env
	env.Sink = func([]schema.Field) outputformat.Spec { return resultSink{} }
	env.Specs = explainSpecs{env.Specs, env.Catalog}
	inner := &compiler{env: &env, database: c.database}
	plans, what, err := inner.explained(ctx, s.Statement)
	if err != nil {
		return nil, err
	}
	out := texts("Explain")
	switch s.Mode {
	case "dependency":
		text, err := dependencies(plans)
		if err != nil {
			return nil, err
		}
		out.add(text)
		return out, nil
	case "locks":
		return out, nil // a statement reads a snapshot, it locks nothing
	case "ast":
		out.add(ast.Print(s.Statement))
		return out, nil
	}
	if what != "" {
		out.add(what)
	}
	for _, n := range plans {
		text, err := PlanString(n)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			out.add(strings.TrimRight(line, "\n"))
		}
	}
	return out, nil
}

// explained returns the plans of a statement's jobs, and a line about what else it does.
func (c *compiler) explained(ctx context.Context, stmt ast.Statement) ([]plan.Node, string, error) {
	switch s := stmt.(type) {
	case *ast.QueryStatement, *ast.Insert, *ast.Load:
		_, n, err := c.job(ctx, stmt)
		return []plan.Node{n}, "", err
	case *ast.MultiInsert:
		var out []plan.Node
		for _, in := range s.Inserts {
			_, n, err := c.insert(ctx, in)
			if err != nil {
				return nil, "", err
			}
			out = append(out, n)
		}
		return out, "In one transaction", nil
	case *ast.Explain, *ast.Set, *ast.Reset:
		return nil, "", failAt(stmt.Position(), "there is nothing to explain in this statement")
	}
	compiled, err := Compile(ctx, stmt, c.env)
	if err != nil {
		return nil, "", err
	}
	what := strings.TrimPrefix(fmt.Sprintf("%T", compiled), "*sql.")
	var query *ast.Query
	switch s := stmt.(type) {
	case *ast.CreateTable:
		query = s.As
	case *ast.CreateView:
		query = s.Query
	}
	if query == nil {
		return nil, "Change of the catalogue: " + what, nil
	}
	_, n, err := c.job(ctx, &ast.QueryStatement{Stmt: ast.Stmt{Pos: query.Pos}, Query: query})
	return []plan.Node{n}, "Change of the catalogue: " + what, err
}

// dependencies lists the tables and partitions that plans read, as JSON.
func dependencies(plans []plan.Node) (string, error) {
	type table struct {
		Name string `json:"tablename"`
		Type string `json:"tabletype"`
	}
	type partition struct {
		Name string `json:"partitionName"`
	}
	out := struct {
		Tables     []table     `json:"input_tables"`
		Partitions []partition `json:"input_partitions"`
	}{[]table{}, []partition{}}
	seen := map[string]bool{}
	var walk func(n plan.Node)
	walk = func(n plan.Node) {
		if scan, ok := n.(*plan.Scan); ok {
			if s, ok := scan.Spec.(*optimizer.Source); ok {
				name := strings.Replace(s.Table.Name, ".", "@", 1)
				if !seen[name] {
					seen[name] = true
					out.Tables = append(out.Tables, table{name, "MANAGED_TABLE"})
				}
				for _, p := range s.Partitions {
					parts := make([]string, len(p.Values))
					for i, v := range p.Values {
						parts[i] = s.PartitionColumns[i].Name + "=" + v.Text()
					}
					if full := name + "@" + strings.Join(parts, "/"); !seen[full] {
						seen[full] = true
						out.Partitions = append(out.Partitions, partition{full})
					}
				}
			}
		}
		for _, child := range n.Children() {
			walk(child)
		}
	}
	for _, n := range plans {
		walk(n)
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fault.Bugf("explain: %w", err)
	}
	return string(text), nil
}
