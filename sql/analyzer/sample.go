package analyzer

import (
	"context"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// sample keeps a part of a table's rows: TABLESAMPLE.
func (a *Analyzer) sample(ctx context.Context, n plan.Node, s *scope, t *ast.Sample) (plan.Node, error) {
	b := &binder{a: a, ctx: ctx, scope: s, what: "TABLESAMPLE"}
	switch t.Kind {
	case "rows":
		return &plan.Limit{Input: n, Count: int64(t.N)}, nil
	case "bucket":
		return b.bucket(n, t)
	}
	share := t.N / 100
	if t.Kind == "percent" && t.N > 100 {
		return nil, errorAt(t.Pos, fault.StateSyntax, "TABLESAMPLE wants at most 100 percent")
	}
	if t.Kind == "bytes" {
		share = 1
		if scan, ok := n.(*plan.Scan); ok && a.o.Bytes != nil {
			if all := a.o.Bytes(scan); all > 0 {
				share = t.N / float64(all)
			}
		}
	}
	if share >= 1 {
		return n, nil
	}
	random, err := b.function(t.Pos, "rand")
	if err != nil {
		return nil, err
	}
	cond, err := b.function(t.Pos, "<", random, &plan.Literal{Value: schema.Datum{Type: schema.DoubleType, F: share}})
	if err != nil {
		return nil, err
	}
	return &plan.Filter{Input: n, Cond: cond}, nil
}

// bucket keeps the rows whose hash falls into one of so many buckets: Hive's
// (hash & max int) % of = bucket - 1.
func (b *binder) bucket(n plan.Node, t *ast.Sample) (plan.Node, error) {
	if t.N < 1 || t.Of < 1 || int64(t.N) > t.Of {
		return nil, errorAt(t.Pos, fault.StateSyntax, "TABLESAMPLE (BUCKET %d OUT OF %d): buckets are numbered from 1 to %d", int64(t.N), t.Of, t.Of)
	}
	on, err := b.bindAll(t.On)
	if err != nil {
		return nil, err
	}
	if on == nil {
		on = b.buckets(n)
	}
	if len(on) == 1 {
		if c, ok := on[0].(*plan.Call); ok && c.Name == "rand" && len(c.Args) == 0 {
			on = nil
		}
	}
	var hash plan.Expr
	if len(on) == 0 { // rand()
		random, err := b.function(t.Pos, "rand")
		if err != nil {
			return nil, err
		}
		scaled, err := b.function(t.Pos, "*", random, &plan.Literal{Value: schema.Datum{Type: schema.DoubleType, F: 1 << 30}})
		if err != nil {
			return nil, err
		}
		hash = castTo(scaled, schema.IntType)
	} else {
		name := "murmur_hash"
		if !b.a.o.Functions.Has(name) {
			name = "hash"
		}
		if hash, err = b.function(t.Pos, name, on...); err != nil {
			return nil, err
		}
	}
	integer := func(n int64) plan.Expr { return &plan.Literal{Value: schema.Datum{Type: schema.IntType, I: n}} }
	e, err := b.function(t.Pos, "&", hash, integer(1<<31-1))
	if err != nil {
		return nil, err
	}
	if e, err = b.function(t.Pos, "%", e, integer(t.Of)); err != nil {
		return nil, err
	}
	if e, err = b.function(t.Pos, "=", e, integer(int64(t.N)-1)); err != nil {
		return nil, err
	}
	return &plan.Filter{Input: n, Cond: e}, nil
}

// buckets are the columns that a table is clustered by; else all of them.
func (b *binder) buckets(n plan.Node) []plan.Expr {
	var out []plan.Expr
	if scan, ok := n.(*plan.Scan); ok && b.a.o.BucketColumns != nil {
		for _, i := range b.a.o.BucketColumns(scan) {
			out = append(out, columnOf(n, i))
		}
	}
	if out == nil {
		out = columnsOf(n, len(n.Fields()))
	}
	return out
}
