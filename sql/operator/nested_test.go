package operator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

func nestedType(kind schema.Kind, fields ...schema.Type) schema.Type {
	n := &schema.Nested{}
	for i, f := range fields {
		n.Fields = append(n.Fields, schema.Field{Name: string(rune('a' + i)), Type: f})
	}
	return schema.Type{Kind: kind, Nested: n}
}

// nestedSample has columns array<string>, struct<a:int,b:array<double>>, map<string,int>,
// array<struct<a:int,b:string>> and a number.
func nestedSample(n int, nulls float64, rng *rand.Rand) relation {
	at := nestedType(schema.Array, schema.StringType)
	inner := nestedType(schema.Array, schema.DoubleType)
	st := nestedType(schema.Struct, schema.IntType, inner)
	mt := nestedType(schema.Map, schema.StringType, schema.IntType)
	pair := nestedType(schema.Struct, schema.IntType, schema.StringType)
	pt := nestedType(schema.Array, pair)
	rel := relation{fields: []schema.Field{{Name: "a", Type: at}, {Name: "s", Type: st}, {Name: "m", Type: mt}, {Name: "p", Type: pt}, {Name: "k", Type: schema.IntType}}}
	null := func(d schema.Datum) schema.Datum {
		if rng.Float64() < nulls {
			return schema.NullOf(d.Type)
		}
		return d
	}
	word := func() schema.Datum {
		return null(schema.Datum{Type: schema.StringType, S: []string{"", "x", "y"}[rng.IntN(3)]})
	}
	number := func() schema.Datum { return null(schema.Datum{Type: schema.IntType, I: int64(rng.IntN(2))}) }
	double := func() schema.Datum {
		return null(schema.Datum{Type: schema.DoubleType, F: []float64{0, 1, math.NaN()}[rng.IntN(3)]})
	}
	list := func(t schema.Type, most int, f func() schema.Datum) schema.Datum {
		d := schema.Datum{Type: t}
		for range rng.IntN(most + 1) {
			d.List = append(d.List, f())
		}
		return null(d)
	}
	for i := range n {
		m := schema.Datum{Type: mt}
		for _, k := range []string{"k", "l"} {
			if rng.IntN(2) == 0 {
				m.List = append(m.List, schema.Datum{Type: schema.StringType, S: k}, number())
			}
		}
		rel.rows = append(rel.rows, row{list(at, 2, word),
			null(schema.Datum{Type: st, List: []schema.Datum{number(), list(inner, 2, double)}}), null(m),
			list(pt, 2, func() schema.Datum {
				return null(schema.Datum{Type: pair, List: []schema.Datum{number(), word()}})
			}), {Type: schema.IntType, I: int64(i)}})
	}
	return rel
}

func TestNestedKeys(t *testing.T) {
	for _, nulls := range []float64{0, 0.3, 1} {
		rng := rand.New(rand.NewPCG(31, uint64(nulls*10)))
		rel := nestedSample(80, nulls, rng)
		other := nestedSample(20, nulls/2, rng)
		for _, e := range []encoding{{size: 1, text: "plain"}, {size: 7, sel: true, text: "plain"}, {size: 100, text: "plain", sliced: true}} {
			for _, names := range [][]string{{"a"}, {"s"}, {"m"}, {"p"}, {"m", "a"}} {
				group := &plan.Aggregate{Input: input(0, rel), KeyNames: names, Aggs: []plan.Agg{{Name: "count", T: schema.BigIntType, State: []schema.Type{schema.BigIntType}}}}
				join := &plan.Join{Left: input(0, rel), Right: input(1, other), Kind: plan.FullOuter}
				sort := &plan.Sort{Input: input(0, rel), Limit: -1}
				var at []int
				for _, k := range names {
					c := column(rel, k)
					at = append(at, c.Index)
					group.Keys = append(group.Keys, c)
					join.LeftKeys, join.RightKeys = append(join.LeftKeys, c), append(join.RightKeys, c)
					sort.Keys = append(sort.Keys, plan.SortKey{Expr: c, Desc: rng.IntN(2) == 0, NullsLast: rng.IntN(2) == 0})
				}
				order, groups := naiveGroups(rel, at)
				var want []string
				for _, k := range order {
					want = append(want, fmt.Sprintf("%s|%d", k, len(groups[k])))
				}
				check(t, rowsOf(t, group, e.encode(rel, rng)), want, true)

				want, _ = naiveJoin(rel, other, join, nil)
				check(t, rowsOf(t, join, e.encode(rel, rng), e.encode(other, rng)), want, false)

				if slices.Contains(names, "m") {
					continue // maps have no order of their own
				}
				o := &windowOracle{n: &plan.Window{OrderBy: sort.Keys}}
				rs := slices.Clone(rel.rows)
				slices.SortStableFunc(rs, func(a, b row) int { return o.compare(sort.Keys, a, b) })
				want = nil
				for _, r := range rs {
					want = append(want, r.text())
				}
				check(t, rowsOf(t, sort, e.encode(rel, rng)), want, true)
			}
		}
	}
}

func TestMember(t *testing.T) {
	for _, nulls := range []float64{0, 0.3} {
		rng := rand.New(rand.NewPCG(32, uint64(nulls*10)))
		rel := nestedSample(60, nulls, rng)
		s, p := column(rel, "s"), column(rel, "p")
		n := &plan.Project{Input: input(0, rel), Names: []string{"a", "b", "pb"}, Exprs: []plan.Expr{
			&plan.Member{Base: s, Index: 0, Name: "a", T: schema.IntType},
			&plan.Member{Base: s, Index: 1, Name: "b", T: s.T.Nested.Fields[1].Type},
			&plan.Member{Base: p, Index: 1, Name: "b", T: nestedType(schema.Array, schema.StringType)}}}
		var want []string
		for _, r := range rel.rows {
			a, b := "NULL", "NULL"
			if !r[1].Null {
				a, b = r[1].List[0].Text(), r[1].List[1].Text()
			}
			list := schema.Datum{Type: nestedType(schema.Array, schema.StringType), Null: r[3].Null}
			for _, x := range r[3].List {
				y := schema.NullOf(schema.StringType)
				if !x.Null {
					y = x.List[1]
				}
				list.List = append(list.List, y)
			}
			want = append(want, a+"|"+b+"|"+list.Text())
		}
		for _, e := range []encoding{{size: 1, text: "plain"}, {size: 7, sel: true, text: "plain"}, {size: 100, text: "plain", sliced: true}} {
			check(t, rowsOf(t, n, e.encode(rel, rng)), want, true)
		}
	}
}

func TestGenerate(t *testing.T) {
	for _, nulls := range []float64{0, 0.3, 1} {
		rng := rand.New(rand.NewPCG(33, uint64(nulls*10)))
		rel := nestedSample(60, nulls, rng)
		for _, outer := range []bool{false, true} {
			a := column(rel, "a")
			n := &plan.Generate{Input: input(0, rel), Name: "posexplode", Args: []plan.Expr{a}, Outer: outer,
				Out: []schema.Field{{Name: "pos", Type: schema.IntType}, {Name: "val", Type: schema.StringType}}}
			var want []string
			for _, r := range rel.rows {
				for k, x := range r[0].List {
					if !r[0].Null {
						want = append(want, fmt.Sprintf("%s|%d|%s", r.text(), k, x.Text()))
					}
				}
				if outer && (r[0].Null || len(r[0].List) == 0) {
					want = append(want, r.text()+"|NULL|NULL")
				}
			}
			for _, e := range []encoding{{size: 1, text: "plain"}, {size: 7, sel: true, text: "plain"}, {size: 100, text: "plain", sliced: true}} {
				check(t, rowsOf(t, n, e.encode(rel, rng)), want, true)
			}
		}
	}
	// More rows than a batch has.
	long := schema.Datum{Type: nestedType(schema.Array, schema.StringType)}
	for range 30_001 {
		long.List = append(long.List, schema.Datum{Type: schema.StringType, S: "x"})
	}
	rel := relation{fields: []schema.Field{{Name: "a", Type: long.Type}}, rows: []row{{long}}}
	n := &plan.Aggregate{Input: &plan.Generate{Input: input(0, rel), Name: "explode", Args: []plan.Expr{column(rel, "a")}, Out: []schema.Field{{Name: "col", Type: schema.StringType}}},
		Aggs: []plan.Agg{{Name: "count", T: schema.BigIntType, State: []schema.Type{schema.BigIntType}}}}
	check(t, rowsOf(t, n, encoding{size: 1, text: "plain"}.encode(rel, nil)), []string{"30001"}, true)
}
