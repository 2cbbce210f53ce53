package operator

import (
	"math/rand/v2"
	"testing"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

func TestUnion(t *testing.T) {
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		other := sample(7, 0.2, rng)
		var want []string
		for _, r := range append(append(append([]row{}, rel.rows...), other.rows...), rel.rows...) {
			want = append(want, r.text())
		}
		n := &plan.Union{Inputs: []plan.Node{input(0, rel), input(1, other), input(2, rel)}}
		check(t, rowsOf(t, n, e.encode(rel, rng), e.encode(other, rng), e.encode(rel, rng)), want, true)
	})
}

// GROUPING SETS ((s, i), (s), ()) as the planner makes them.
func TestExpand(t *testing.T) {
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		s, i := column(rel, "s"), column(rel, "i")
		null := func(t schema.Type) plan.Expr { return &plan.Literal{Value: schema.NullOf(t)} }
		n := &plan.Expand{Input: input(0, rel), Names: []string{"s", "i", "set"}, Projections: [][]plan.Expr{
			{s, i, integer(0)}, {s, null(schema.IntType), integer(1)}, {null(schema.StringType), null(schema.IntType), integer(3)}}}
		var want []string
		for _, r := range rel.rows {
			want = append(want, r[0].Text()+"|"+r[2].Text()+"|0", r[0].Text()+"|NULL|1", "NULL|NULL|3")
		}
		check(t, rowsOf(t, n, e.encode(rel, rng)), want, false)
	})
}

func TestAggregateFilter(t *testing.T) {
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		s, i, b := column(rel, "s"), column(rel, "i"), schema.BooleanType
		bt := []schema.Type{schema.BigIntType}
		n := &plan.Aggregate{Input: input(0, rel), KeyNames: []string{"b"}, Keys: []plan.Expr{column(rel, "b")}, Aggs: []plan.Agg{
			{Name: "count", T: bt[0], State: bt, Filter: call(">", b, i, integer(0))},
			{Name: "count", T: bt[0], State: bt, Args: []plan.Expr{s}, Distinct: true, Filter: call("<>", b, s, text("a"))},
			{Name: "sum", T: bt[0], State: bt, Args: []plan.Expr{i}, Distinct: true, Filter: call("isnotnull", b, s)},
			{Name: "count", T: bt[0], State: bt}}}
		order, groups := naiveGroups(rel, []int{5})
		var want []string
		for _, k := range order {
			count, names, sum, ints := int64(0), map[string]bool{}, int64(0), map[int64]bool{}
			for _, r := range groups[k] {
				if !r[2].Null && r[2].I > 0 {
					count++
				}
				if !r[0].Null && r[0].S != "a" {
					names[r[0].S] = true
				}
				if !r[0].Null && !r[2].Null && !ints[r[2].I] {
					ints[r[2].I] = true
					sum += r[2].I
				}
			}
			big := func(n int64) string { return schema.Datum{Type: bt[0], I: n}.Text() }
			total := big(sum)
			if len(ints) == 0 {
				total = "NULL"
			}
			want = append(want, k+"|"+big(count)+"|"+big(int64(len(names)))+"|"+total+"|"+big(int64(len(groups[k]))))
		}
		check(t, rowsOf(t, n, e.encode(rel, rng)), want, true)
	})
}
