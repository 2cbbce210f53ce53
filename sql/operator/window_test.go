package operator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// windowOracle computes window calls a row at a time, by their definition.
type windowOracle struct {
	n    *plan.Window
	rows []row
}

func (o *windowOracle) key(k plan.Expr, r row) schema.Datum { return r[k.(*plan.Column).Index] }

func (o *windowOracle) compare(keys []plan.SortKey, a, b row) int {
	for _, k := range keys {
		x, y := o.key(k.Expr, a), o.key(k.Expr, b)
		switch {
		case x.Null && y.Null:
			continue
		case x.Null || y.Null:
			if x.Null == k.NullsLast {
				return 1
			}
			return -1
		}
		if c := schema.Compare(x, y); c != 0 {
			if k.Desc {
				return -c
			}
			return c
		}
	}
	return 0
}

// run returns the rows, in order, with the calls' values.
func (o *windowOracle) run() []string {
	var all []plan.SortKey
	for _, e := range o.n.PartitionBy {
		all = append(all, plan.SortKey{Expr: e})
	}
	parts := all[:len(all):len(all)]
	all = append(all, o.n.OrderBy...)
	rs := slices.Clone(o.rows)
	slices.SortStableFunc(rs, func(a, b row) int { return o.compare(all, a, b) })
	var out []string
	for from := 0; from < len(rs); {
		to := from
		for to < len(rs) && o.compare(parts, rs[from], rs[to]) == 0 {
			to++
		}
		for i := from; i < to; i++ {
			line := rs[i].text()
			for k := range o.n.Calls {
				line += "|" + o.value(&o.n.Calls[k], rs[from:to], i-from)
			}
			out = append(out, line)
		}
		from = to
	}
	return out
}

// in reports whether row k is in the frame of row i.
func (o *windowOracle) in(f plan.Frame, p []row, i, k int) bool {
	after := func(b plan.Bound, first bool) bool { // k is not before (after) the bound
		at := int64(k - i)
		peers := o.compare(o.n.OrderBy, p[k], p[i])
		switch b.Kind {
		case plan.UnboundedPreceding, plan.UnboundedFollowing:
			return true
		case plan.CurrentRow:
			if f.Range {
				at = int64(peers)
			}
			return first && at >= 0 || !first && at <= 0
		}
		n := float64(b.N.Value.I)
		if b.N.Value.Type.Kind == schema.Decimal {
			n = b.N.Value.D.ToFloat64(int32(b.N.Value.Type.Scale))
		} else if b.N.Value.Type.Kind == schema.Double {
			n = b.N.Value.F
		}
		if b.Kind == plan.Preceding {
			n = -n
		}
		if !f.Range {
			return first && float64(at) >= n || !first && float64(at) <= n
		}
		x, y := o.key(o.n.OrderBy[0].Expr, p[k]), o.key(o.n.OrderBy[0].Expr, p[i])
		if x.Null || y.Null {
			// Only NULLs are within a distance of NULL, and NULLs of nothing else.
			if x.Null && y.Null {
				return true
			}
			return first == (peers > 0)
		}
		number := func(d schema.Datum) float64 {
			switch d.Type.Kind {
			case schema.Decimal:
				return d.D.ToFloat64(int32(d.Type.Scale))
			case schema.Double:
				return d.F
			}
			return float64(d.I)
		}
		if o.n.OrderBy[0].Desc {
			n = -n
		}
		c := schema.CompareFloat(number(x), number(y)+n)
		if o.n.OrderBy[0].Desc {
			c = -c
		}
		return first && c >= 0 || !first && c <= 0
	}
	return after(f.Start, true) && after(f.End, false)
}

func (o *windowOracle) value(c *plan.WindowCall, p []row, i int) string {
	n := len(p)
	first := i // of the peers
	for first > 0 && o.compare(o.n.OrderBy, p[first-1], p[i]) == 0 {
		first--
	}
	last := i
	for last+1 < n && o.compare(o.n.OrderBy, p[last+1], p[i]) == 0 {
		last++
	}
	double := func(f float64) string { return schema.Datum{Type: schema.DoubleType, F: f}.Text() }
	arg := func(k int, r row) schema.Datum {
		if l, ok := c.Args[k].(*plan.Literal); ok {
			return l.Value
		}
		return o.key(c.Args[k], r)
	}
	var frame []int
	for k := range p {
		if o.in(c.Frame, p, i, k) {
			frame = append(frame, k)
		}
	}
	values := frame
	if c.IgnoreNulls {
		values = nil
		for _, k := range frame {
			if !arg(0, p[k]).Null {
				values = append(values, k)
			}
		}
	}
	switch c.Name {
	case "row_number":
		return strconv.Itoa(i + 1)
	case "rank":
		return strconv.Itoa(first + 1)
	case "dense_rank":
		d := 1
		for k := 1; k <= i; k++ {
			if o.compare(o.n.OrderBy, p[k-1], p[k]) != 0 {
				d++
			}
		}
		return strconv.Itoa(d)
	case "percent_rank":
		if n == 1 {
			return double(0)
		}
		return double(float64(first) / float64(n-1))
	case "cume_dist":
		return double(float64(last+1) / float64(n))
	case "ntile":
		b := int(arg(0, p[i]).I)
		k := 0
		for bucket := 1; ; bucket++ {
			size := n / b
			if bucket <= n%b {
				size++
			}
			if k += size; i < k {
				return strconv.Itoa(bucket)
			}
		}
	case "lead", "lag":
		step := 1
		if len(c.Args) > 1 {
			step = int(arg(1, p[i]).I)
		}
		dir := 1
		if c.Name == "lag" {
			dir = -1
		}
		k := i
		for step > 0 {
			k += dir
			if k < 0 || k >= n {
				break
			}
			if !c.IgnoreNulls || !arg(0, p[k]).Null {
				step--
			}
		}
		if k < 0 || k >= n {
			if len(c.Args) > 2 {
				return arg(2, p[i]).Text()
			}
			return "NULL"
		}
		return arg(0, p[k]).Text()
	case "first_value", "last_value", "nth_value":
		at := 0
		if c.Name == "nth_value" {
			at = int(arg(1, p[i]).I) - 1
		}
		if c.Name == "last_value" {
			at = len(values) - 1
		}
		if at < 0 || at >= len(values) {
			return "NULL"
		}
		return arg(0, p[values[at]]).Text()
	}
	// Aggregates: of an int column but for count.
	count, sum := int64(0), int64(0)
	lo, hi := schema.Datum{Null: true}, schema.Datum{Null: true}
	seen := map[string]bool{}
	list := ""
	for _, k := range frame {
		if len(c.Args) == 0 {
			count++
			continue
		}
		d := arg(0, p[k])
		if d.Null || c.Distinct && seen[d.Text()] {
			continue
		}
		seen[d.Text()] = true
		count++
		sum += d.I
		list += d.Text()
		if lo.Null || schema.Compare(d, lo) < 0 {
			lo = d
		}
		if hi.Null || schema.Compare(d, hi) > 0 {
			hi = d
		}
	}
	switch c.Name {
	case "count":
		return fmt.Sprint(count)
	case "min":
		return lo.Text()
	case "max":
		return hi.Text()
	}
	if count == 0 {
		return "NULL"
	}
	if c.Name == "avg" {
		return double(float64(sum) / float64(count))
	}
	return fmt.Sprint(sum)
}

func literal(t schema.Type, i int64) *plan.Literal {
	d := schema.Datum{Type: t, I: i, F: float64(i) / 2}
	if t.Kind == schema.Decimal {
		d.D = decimal128.FromI64(i)
	}
	return &plan.Literal{Value: d}
}

// randomFrame returns a frame for an order by the columns named.
func randomFrame(rng *rand.Rand, order []string) plan.Frame {
	bt := schema.BigIntType
	f := plan.Frame{Range: rng.IntN(2) == 0}
	if f.Range && len(order) == 1 {
		switch order[0] {
		case "i", "t":
			bt = schema.IntType
		case "m":
			bt = schema.DecimalType(5, 1)
		case "d":
			bt = schema.DoubleType
		}
	}
	distance := func() *plan.Literal { return literal(bt, int64(rng.IntN(4)*rng.IntN(4))) }
	most := 5
	starts := []plan.Bound{{Kind: plan.UnboundedPreceding}, {Kind: plan.UnboundedPreceding}, {Kind: plan.CurrentRow},
		{Kind: plan.Preceding, N: distance()}, {Kind: plan.Following, N: distance()}}
	ends := []plan.Bound{{Kind: plan.UnboundedFollowing}, {Kind: plan.CurrentRow}, {Kind: plan.CurrentRow},
		{Kind: plan.Following, N: distance()}, {Kind: plan.Preceding, N: distance()}}
	if f.Range && (len(order) != 1 || order[0] == "s" || order[0] == "b") {
		most = 3
	}
	f.Start, f.End = starts[rng.IntN(most)], ends[rng.IntN(most)]
	return f
}

func randomCalls(rng *rand.Rand, rel relation, order []string) []plan.WindowCall {
	i, s := column(rel, "i"), column(rel, "s")
	it, bt, dt := schema.IntType, schema.BigIntType, schema.DoubleType
	calls := []plan.WindowCall{{Name: "row_number", T: it}, {Name: "rank", T: it}, {Name: "dense_rank", T: it}, {Name: "percent_rank", T: dt},
		{Name: "cume_dist", T: dt}, {Name: "ntile", T: it, Args: []plan.Expr{integer(int64(1 + rng.IntN(6)))}},
		{Name: "lead", T: it, Args: []plan.Expr{i}}, {Name: "lag", T: schema.StringType, Args: []plan.Expr{s, integer(int64(rng.IntN(4)))}},
		{Name: "lag", T: it, Args: []plan.Expr{i, integer(2), integer(-99)}},
		{Name: "lead", T: it, Args: []plan.Expr{i, integer(int64(1 + rng.IntN(3))), i}, IgnoreNulls: true}, {Name: "lag", T: it, Args: []plan.Expr{i, integer(2)}, IgnoreNulls: true},
	}
	for _, ignore := range []bool{false, true} {
		calls = append(calls, plan.WindowCall{Name: "first_value", T: schema.StringType, Args: []plan.Expr{s}, IgnoreNulls: ignore},
			plan.WindowCall{Name: "last_value", T: it, Args: []plan.Expr{i}, IgnoreNulls: ignore})
	}
	for _, distinct := range []bool{false, true} {
		calls = append(calls, plan.WindowCall{Name: "count", T: bt, Args: []plan.Expr{s}, Distinct: distinct},
			plan.WindowCall{Name: "sum", T: bt, Args: []plan.Expr{i}, Distinct: distinct}, plan.WindowCall{Name: "avg", T: dt, Args: []plan.Expr{i}, Distinct: distinct})
	}
	calls = append(calls, plan.WindowCall{Name: "count", T: bt}, plan.WindowCall{Name: "min", T: schema.StringType, Args: []plan.Expr{s}},
		plan.WindowCall{Name: "max", T: it, Args: []plan.Expr{i}})
	for k := range calls {
		calls[k].Frame = randomFrame(rng, order)
		calls[k].OutName = calls[k].Name
	}
	return calls
}

func TestWindow(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(21, seed))
		rel := sample([]int{1, 30, 90, 200}[rng.IntN(4)], []float64{0, 0.3, 1}[rng.IntN(3)], rng)
		partition := [][]string{{}, {"s"}, {"b"}, {"u", "b"}}[rng.IntN(4)]
		order := [][]string{{}, {"i"}, {"t"}, {"d"}, {"m"}, {"s"}, {"b", "i"}}[rng.IntN(7)]
		n := &plan.Window{Input: input(0, rel)}
		for _, k := range partition {
			n.PartitionBy = append(n.PartitionBy, column(rel, k))
		}
		for _, k := range order {
			n.OrderBy = append(n.OrderBy, plan.SortKey{Expr: column(rel, k), Desc: rng.IntN(2) == 0, NullsLast: rng.IntN(2) == 0})
		}
		n.Calls = randomCalls(rng, rel, order)
		want := (&windowOracle{n, rel.rows}).run()
		for k, e := range encodings() {
			if k > 0 && rng.IntN(6) != 0 {
				continue
			}
			got, err := run(t, n, 0, e.encode(rel, rng))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for r := range min(len(got), len(want)) {
				if got[r] != want[r] {
					g, w := strings.Split(got[r], "|"), strings.Split(want[r], "|")
					for c := range g {
						if g[c] != w[c] && c >= len(rel.fields) {
							call := n.Calls[c-len(rel.fields)]
							t.Fatalf("seed %d, %s, partition by %v order by %v desc %v: row %d: %s%v is %s, not %s; frame %+v\n%s", seed, e, partition, order,
								len(order) > 0 && n.OrderBy[0].Desc, r, call.Name, call.Args, g[c], w[c], call.Frame, got[r])
						}
					}
				}
			}
			check(t, got, want, true)
		}
	}
}

// Large frames are merged from the states of blocks.
func TestWindowTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	rel := sample(600, 0.1, rng)
	n := &plan.Window{Input: input(0, rel), PartitionBy: []plan.Expr{column(rel, "b")}, OrderBy: []plan.SortKey{{Expr: column(rel, "i")}}}
	b := func(kind plan.BoundKind, k int64) plan.Bound {
		return plan.Bound{Kind: kind, N: literal(schema.BigIntType, k)}
	}
	for _, f := range []plan.Frame{{Start: b(plan.UnboundedPreceding, 0), End: b(plan.CurrentRow, 0)}, {Start: b(plan.Preceding, 100), End: b(plan.Following, 77)},
		{Start: b(plan.CurrentRow, 0), End: b(plan.UnboundedFollowing, 0)}, {Start: b(plan.Following, 3), End: b(plan.Following, 200)}} {
		n.Calls = append(n.Calls, plan.WindowCall{Name: "sum", T: schema.BigIntType, Args: []plan.Expr{column(rel, "i")}, Frame: f},
			plan.WindowCall{Name: "avg", T: schema.DoubleType, Args: []plan.Expr{column(rel, "i")}, Frame: f},
			plan.WindowCall{Name: "max", T: schema.StringType, Args: []plan.Expr{column(rel, "s")}, Frame: f},
			plan.WindowCall{Name: "count", T: schema.BigIntType, Distinct: true, Args: []plan.Expr{column(rel, "u")}, Frame: f})
	}
	want := (&windowOracle{n, rel.rows}).run()
	got, err := run(t, n, 0, encoding{size: 1000, text: "changing"}.encode(rel, rng))
	if err != nil {
		t.Fatal(err)
	}
	check(t, got, want, true)
}
