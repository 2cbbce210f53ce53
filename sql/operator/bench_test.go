package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// table is 1 M rows: name (50,000 distinct, coded), country (200, coded), year
// (nullable int), x (double), id (bigint, unique), note (plain text).
func table() *reader {
	rng := rand.New(rand.NewPCG(7, 7))
	dict := func(prefix string, n int) *array.Data {
		v := make([]string, n)
		for i := range v {
			v[i] = fmt.Sprint(prefix, i)
		}
		return batch.NewStrings(v).Data().(*array.Data)
	}
	names, countries := dict("Species number ", 50_000), dict("C", 200)
	r := &reader{fields: []schema.Field{{Name: "name", Type: schema.StringType}, {Name: "country", Type: schema.StringType},
		{Name: "year", Type: schema.IntType}, {Name: "x", Type: schema.DoubleType}, {Name: "id", Type: schema.BigIntType}, {Name: "note", Type: schema.StringType}}}
	for at := 0; at < 1<<20; at += batch.MaxRows {
		n := batch.MaxRows
		name, country, year, x, id := make([]int32, n), make([]int32, n), make([]int32, n), make([]float64, n), make([]int64, n)
		valid := make([]byte, n/8)
		notes := make([]string, n)
		for i := range n {
			name[i], country[i] = int32(rng.IntN(50_000)), int32(rng.IntN(200))
			year[i], x[i], id[i] = int32(1900+rng.IntN(120)), rng.Float64(), int64(at+i)*7919%(1<<40)
			if rng.IntN(10) > 0 {
				valid[i/8] |= 1 << (i % 8)
			}
			notes[i] = fmt.Sprint("n", rng.IntN(1000))
		}
		r.batches = append(r.batches, &batch.Batch{Len: n, Columns: []arrow.Array{batch.NewDictionary(name, nil, names),
			batch.NewDictionary(country, nil, countries), batch.NewFixed(arrow.PrimitiveTypes.Int32, year, valid),
			batch.NewFixed(arrow.PrimitiveTypes.Float64, x, nil), batch.NewFixed(arrow.PrimitiveTypes.Int64, id, nil), batch.NewStrings(notes)}})
	}
	return r
}

func BenchmarkOperators(b *testing.B) {
	r := table()
	in := &plan.Input{Out: r.fields}
	right := &plan.Input{Index: 1, Out: r.fields}
	col := func(i int) plan.Expr { return &plan.Column{Index: i, Name: r.fields[i].Name, T: r.fields[i].Type} }
	bt := schema.BooleanType
	count := plan.Agg{Name: "count", T: schema.BigIntType, State: []schema.Type{schema.BigIntType}}
	avg := plan.Agg{Name: "avg", Args: []plan.Expr{col(3)}, T: schema.DoubleType, State: []schema.Type{schema.DoubleType, schema.BigIntType}}
	group := func(keys ...int) plan.Node {
		n := &plan.Aggregate{Input: in, Aggs: []plan.Agg{count, avg}}
		for _, k := range keys {
			n.Keys = append(n.Keys, col(k))
			n.KeyNames = append(n.KeyNames, r.fields[k].Name)
		}
		return n
	}
	counted := func(n plan.Node) plan.Node { return &plan.Aggregate{Input: n, Aggs: []plan.Agg{count}} }
	order := func(limit int64, keys ...int) plan.Node {
		n := &plan.Sort{Input: in, Limit: limit}
		for _, k := range keys {
			n.Keys = append(n.Keys, plan.SortKey{Expr: col(k)})
		}
		return n
	}
	for _, c := range []struct {
		name string
		n    plan.Node
	}{
		{"filter name = const", counted(&plan.Filter{Input: in, Cond: call("=", bt, col(0), text("Species number 77"))})},
		{"filter country like", counted(&plan.Filter{Input: in, Cond: call("like", bt, col(1), text("%1"))})},
		{"filter x < 0.5", counted(&plan.Filter{Input: in, Cond: call("<", bt, col(3), &plan.Literal{Value: schema.Datum{Type: schema.DoubleType, F: 0.5}})})},
		{"filter year = 2000", counted(&plan.Filter{Input: in, Cond: call("=", bt, col(2), integer(2000))})},
		{"filter note = const (plain)", counted(&plan.Filter{Input: in, Cond: call("=", bt, col(5), text("n77"))})},
		{"group by country", group(1)},
		{"group by name", group(0)},
		{"group by year", group(2)},
		{"group by id (unique)", group(4)},
		{"group by country, year", group(1, 2)},
		{"group by note (plain)", group(5)},
		{"no group", group()},
		{"join 1M x 1M by id", counted(&plan.Join{Left: in, Right: right, LeftKeys: []plan.Expr{col(4)}, RightKeys: []plan.Expr{col(4)}})},
		{"join 1M x 50k by name", counted(&plan.Join{Left: in, Right: &plan.Aggregate{Input: right, Keys: []plan.Expr{col(0)}, KeyNames: []string{"n"}},
			LeftKeys: []plan.Expr{col(0)}, RightKeys: []plan.Expr{&plan.Column{Index: 0, T: schema.StringType}}})},
		{"sort by x", counted(order(-1, 3))},
		{"sort by name, x", counted(order(-1, 0, 3))},
		{"top 10 by x", order(10, 3)},
		{"top 10 by name, x", order(10, 0, 3)},
		{"project upper(country)", counted(&plan.Project{Input: in, Exprs: []plan.Expr{call("upper", schema.StringType, col(1))}, Names: []string{"u"}})},
		{"project x * 2 + year", counted(&plan.Project{Input: in, Names: []string{"v"}, Exprs: []plan.Expr{call("+", schema.DoubleType,
			call("*", schema.DoubleType, col(3), &plan.Literal{Value: schema.Datum{Type: schema.DoubleType, F: 2}}), &plan.Cast{Arg: col(2), T: schema.DoubleType})}})},
	} {
		b.Run(c.name, func(b *testing.B) {
			reg := function.Builtin()
			for b.Loop() {
				x, err := Execute(context.Background(), reg, c.n, []batch.Reader{&reader{r.fields, r.batches}, &reader{r.fields, r.batches}}, nil, 0)
				for err == nil {
					_, err = x.Next(context.Background())
				}
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*(1<<20)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
