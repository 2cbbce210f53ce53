package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// The tests compare operators with naive ones over rows, for every way of
// cutting and encoding the same rows: no way may change an answer.

type row []schema.Datum

type relation struct {
	fields []schema.Field
	rows   []row
}

// encoding is a way of cutting rows into batches.
type encoding struct {
	size   int // rows a batch
	sel    bool
	text   string // plain, dict (one dictionary), changing, mixed
	sliced bool   // arrays start in the middle of larger ones
}

func (e encoding) String() string {
	return fmt.Sprintf("size=%d,sel=%t,text=%s,sliced=%t", e.size, e.sel, e.text, e.sliced)
}

func encodings() []encoding {
	var out []encoding
	for _, size := range []int{1, 3, 8192} {
		for _, sel := range []bool{false, true} {
			for _, text := range []string{"plain", "dict", "changing", "mixed"} {
				if size == 1 && (text == "mixed" || text == "dict") {
					continue
				}
				out = append(out, encoding{size, sel, text, len(out)%3 == 0})
			}
		}
	}
	return out
}

// reader yields batches.
type reader struct {
	fields  []schema.Field
	batches []*batch.Batch
}

func (r *reader) Fields() []schema.Field { return r.fields }
func (r *reader) Close() error           { return nil }
func (r *reader) Next(context.Context) (*batch.Batch, error) {
	if len(r.batches) == 0 {
		return nil, io.EOF
	}
	b := r.batches[0]
	r.batches = r.batches[1:]
	return b, nil
}

// encode cuts a relation into batches; with selections, rows of garbage lie
// between the real ones.
func (e encoding) encode(rel relation, rng *rand.Rand) *reader {
	r := &reader{fields: rel.fields}
	shared := make([]*array.Data, len(rel.fields))
	for from := 0; from < len(rel.rows); from += e.size {
		part := rel.rows[from:min(from+e.size, len(rel.rows))]
		var values []row
		var sel []int32
		for _, x := range part {
			for e.sel && rng.IntN(2) == 0 {
				values = append(values, rel.rows[rng.IntN(len(rel.rows))])
			}
			sel = append(sel, int32(len(values)))
			values = append(values, x)
		}
		b := &batch.Batch{Len: len(values)}
		if e.sel {
			b.Sel = sel
		}
		for c, f := range rel.fields {
			column := make([]schema.Datum, len(values))
			for i, v := range values {
				column[i] = v[c]
			}
			b.Columns = append(b.Columns, e.column(f.Type, column, rel, c, &shared[c], from, rng))
		}
		r.batches = append(r.batches, b)
	}
	return r
}

func (e encoding) column(t schema.Type, values []schema.Datum, rel relation, c int, shared **array.Data, from int, rng *rand.Rand) arrow.Array {
	if e.sliced {
		padded := append([]schema.Datum{schema.NullOf(t), values[0], schema.NullOf(t)}, values...)
		e.sliced = false
		a := e.column(t, padded, rel, c, shared, from, rng)
		if batch.IsDictionary(a) {
			return batch.Slice(a, 3, len(padded))
		}
		return array.NewSlice(a, 3, int64(len(padded)))
	}
	text := e.text
	if text == "mixed" {
		text = []string{"plain", "dict", "changing"}[rng.IntN(3)]
	}
	if !t.IsText() || text == "plain" {
		return schema.ArrayOf(t, values)
	}
	var all []string
	seen := map[string]int32{}
	for _, r := range rel.rows[:min(len(rel.rows), 1000)] { // of more rows, the first have all values
		if d := r[c]; !d.Null {
			if _, ok := seen[d.S]; !ok {
				seen[d.S] = 0
				all = append(all, d.S)
			}
		}
	}
	all = append(all, "an entry nobody has")
	dict := *shared
	if text == "changing" || dict == nil {
		if text == "changing" {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		dict = batch.NewStrings(all).Data().(*array.Data)
	}
	if text == "dict" {
		*shared = dict
	}
	x := batch.TextOfData(dict)
	for i := range dict.Len() {
		seen[x.String(i)] = int32(i)
	}
	codes := make([]int32, len(values))
	valid := make([]byte, (len(values)+7)/8)
	for i, d := range values {
		codes[i] = 1 << 30 // arbitrary under NULL
		if !d.Null {
			codes[i] = seen[d.S]
			valid[i>>3] |= 1 << (i & 7)
		}
	}
	return batch.NewDictionary(codes, valid, dict)
}

// rowsOf runs a plan over encoded inputs and returns its rows as text.
func rowsOf(t *testing.T, n plan.Node, inputs ...batch.Reader) []string {
	t.Helper()
	r, err := Execute(context.Background(), function.Builtin(), n, inputs, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, r)
}

func drain(t *testing.T, r batch.Reader) []string {
	t.Helper()
	var out []string
	for {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Rows() == 0 || b.Len > 2*batch.MaxRows+10 {
			t.Fatalf("a batch of %d rows, %d values", b.Rows(), b.Len)
		}
		out = append(out, texts(t, b, r.Fields())...)
	}
}

func texts(t *testing.T, b *batch.Batch, fields []schema.Field) []string {
	t.Helper()
	if len(b.Columns) != len(fields) {
		t.Fatalf("%d columns for %d fields", len(b.Columns), len(fields))
	}
	b = batch.Compact(b)
	out := make([]string, b.Len)
	for i := range out {
		var line []byte
		for c, f := range fields {
			if b.Columns[c].Len() != b.Len {
				t.Fatalf("column %d has %d values of %d", c, b.Columns[c].Len(), b.Len)
			}
			if c > 0 {
				line = append(line, '|')
			}
			line = schema.AppendText(line, f.Type, b.Columns[c], i)
		}
		out[i] = string(line)
	}
	return out
}

func (r row) text() string {
	parts := make([]string, len(r))
	for i, d := range r {
		parts[i] = d.Text()
	}
	return strings.Join(parts, "|")
}

func check(t *testing.T, got, want []string, ordered bool) {
	t.Helper()
	if !ordered {
		got, want = slices.Clone(got), slices.Clone(want)
		sort.Strings(got)
		sort.Strings(want)
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d\ngot  %.300q\nwant %.300q", len(got), len(want), got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("row %d: got %q, want %q", i, got[i], want[i])
		}
	}
}

// sample returns n rows of text, text, int, double, decimal, bool, date with few distinct
// values; nulls is the share of NULLs.
func sample(n int, nulls float64, rng *rand.Rand) relation {
	rel := relation{fields: []schema.Field{{Name: "s", Type: schema.StringType}, {Name: "u", Type: schema.StringType},
		{Name: "i", Type: schema.IntType}, {Name: "d", Type: schema.DoubleType}, {Name: "m", Type: schema.DecimalType(10, 2)},
		{Name: "b", Type: schema.BooleanType}, {Name: "t", Type: schema.DateType}}}
	words := []string{"", "a", "ab", "abc", "b", "Zürich", "a\x00b", "a\x00", strings.Repeat("long", 9)}
	floats := []float64{0, math.Copysign(0, -1), 1.5, -1.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, 3}
	for range n {
		r := row{
			{Type: schema.StringType, S: words[rng.IntN(len(words))]},
			{Type: schema.StringType, S: fmt.Sprint("u", rng.IntN(20))},
			{Type: schema.IntType, I: int64(rng.IntN(11) - 5)},
			{Type: schema.DoubleType, F: floats[rng.IntN(len(floats))]},
			{Type: schema.DecimalType(10, 2), D: decimal128.FromI64(int64(rng.IntN(7)-3) * 125)},
			{Type: schema.BooleanType, I: int64(rng.IntN(2))},
			{Type: schema.DateType, I: int64(rng.IntN(5) - 2)},
		}
		for i := range r {
			if rng.Float64() < nulls {
				r[i] = schema.NullOf(r[i].Type)
			}
		}
		rel.rows = append(rel.rows, r)
	}
	return rel
}

// everyWay calls f for samples of several shapes in every encoding.
func everyWay(t *testing.T, f func(t *testing.T, rel relation, e encoding, rng *rand.Rand)) {
	for _, shape := range []struct {
		n     int
		nulls float64
	}{{1, 0}, {12, 1}, {100, 0.3}, {40, 0}} {
		rng := rand.New(rand.NewPCG(1, uint64(shape.n)))
		rel := sample(shape.n, shape.nulls, rng)
		for _, e := range encodings() {
			t.Run(fmt.Sprintf("n=%d,nulls=%v,%s", shape.n, shape.nulls, e), func(t *testing.T) { f(t, rel, e, rng) })
		}
	}
}

func column(rel relation, name string) *plan.Column {
	for i, f := range rel.fields {
		if f.Name == name {
			return &plan.Column{Index: i, Name: name, T: f.Type}
		}
	}
	panic(name)
}

func call(name string, t schema.Type, args ...plan.Expr) *plan.Call {
	return &plan.Call{Name: name, Args: args, T: t}
}

func text(s string) *plan.Literal {
	return &plan.Literal{Value: schema.Datum{Type: schema.StringType, S: s}}
}

func integer(i int64) *plan.Literal {
	return &plan.Literal{Value: schema.Datum{Type: schema.IntType, I: i}}
}

func input(i int, rel relation) *plan.Input { return &plan.Input{Index: i, Out: rel.fields} }

func TestFilter(t *testing.T) {
	b := schema.BooleanType
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		s, u, i, d := column(rel, "s"), column(rel, "u"), column(rel, "i"), column(rel, "d")
		for _, c := range []struct {
			cond plan.Expr
			keep func(r row) bool
		}{
			{call("=", b, s, text("ab")), func(r row) bool { return !r[0].Null && r[0].S == "ab" }},
			{call("<>", b, text("ab"), s), func(r row) bool { return !r[0].Null && r[0].S != "ab" }},
			{call("isnull", b, s), func(r row) bool { return r[0].Null }},
			{call("=", b, call("coalesce", schema.StringType, s, text("z")), text("z")), func(r row) bool { return r[0].Null }},
			{call("like", b, s, text("a%")), func(r row) bool { return !r[0].Null && strings.HasPrefix(r[0].S, "a") }},
			{call("=", b, s, u), func(r row) bool { return !r[0].Null && !r[1].Null && r[0].S == r[1].S }},
			{call("and", b, call(">", b, i, integer(0)), call("<>", b, s, text("a"))), func(r row) bool {
				return !r[2].Null && r[2].I > 0 && !r[0].Null && r[0].S != "a"
			}},
			{call("and", b, call("=", b, u, text("u3")), call("and", b, call("<", b, i, integer(4)), call("isnotnull", b, d))), func(r row) bool {
				return !r[1].Null && r[1].S == "u3" && !r[2].Null && r[2].I < 4 && !r[3].Null
			}},
			{call("or", b, call("=", b, i, integer(2)), call("=", b, s, text(""))), func(r row) bool {
				return !r[2].Null && r[2].I == 2 || !r[0].Null && r[0].S == ""
			}},
			{call("in", b, s, text("a"), text("b"), text("nobody")), func(r row) bool { return !r[0].Null && (r[0].S == "a" || r[0].S == "b") }},
			{&plan.Literal{Value: schema.Datum{Type: b, I: 1}}, func(row) bool { return true }},
			{&plan.Literal{Value: schema.NullOf(b)}, func(row) bool { return false }},
			{call(">", b, d, &plan.Literal{Value: schema.Datum{Type: schema.DoubleType, F: 2}}), func(r row) bool {
				return !r[3].Null && schema.CompareFloat(r[3].F, 2) > 0
			}},
		} {
			var want []string
			for _, r := range rel.rows {
				if c.keep(r) {
					want = append(want, r.text())
				}
			}
			got := rowsOf(t, &plan.Filter{Input: input(0, rel), Cond: c.cond}, e.encode(rel, rng))
			check(t, got, want, true)
		}
	})
}

func TestProject(t *testing.T) {
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		s, i := column(rel, "s"), column(rel, "i")
		n := &plan.Project{Input: input(0, rel), Names: []string{"s", "a", "b", "c", "d", "e"}, Exprs: []plan.Expr{
			s,
			call("upper", schema.StringType, s),
			call("length", schema.IntType, call("upper", schema.StringType, s)),
			call("+", schema.IntType, i, integer(1)),
			&plan.Case{Whens: []plan.When{{Cond: call(">", schema.BooleanType, i, integer(0)), Then: text("pos")},
				{Cond: call("=", schema.BooleanType, i, integer(0)), Then: &plan.Literal{Value: schema.NullOf(schema.StringType)}}},
				Else: text("rest"), T: schema.StringType},
			text("k"),
		}}
		var want []string
		for _, r := range rel.rows {
			upper, length, plus, sign := "NULL", "NULL", "NULL", "rest"
			if !r[0].Null {
				upper = strings.ToUpper(r[0].S)
				length = fmt.Sprint(len([]rune(upper)))
			}
			if !r[2].Null {
				plus = fmt.Sprint(r[2].I + 1)
				if r[2].I > 0 {
					sign = "pos"
				} else if r[2].I == 0 {
					sign = "NULL"
				}
			}
			want = append(want, strings.Join([]string{r[0].Text(), upper, length, plus, sign, "k"}, "|"))
		}
		check(t, rowsOf(t, n, e.encode(rel, rng)), want, true)
	})
}

// naiveGroups groups rows by the text of some columns; -0 is 0.
func naiveGroups(rel relation, keys []int) (order []string, groups map[string][]row) {
	groups = map[string][]row{}
	for _, r := range rel.rows {
		k := make(row, len(keys))
		for i, c := range keys {
			k[i] = r[c]
			if k[i].F == 0 {
				k[i].F = 0 + k[i].F*0
				if math.Signbit(k[i].F) {
					k[i].F = 0
				}
			}
		}
		if _, ok := groups[k.text()]; !ok {
			order = append(order, k.text())
		}
		groups[k.text()] = append(groups[k.text()], r)
	}
	return order, groups
}

func aggregates(rel relation) []plan.Agg {
	i, s, m, d := column(rel, "i"), column(rel, "s"), column(rel, "m"), column(rel, "d")
	reg := function.Builtin()
	mk := func(name string, args ...plan.Expr) plan.Agg {
		var types []schema.Type
		for _, a := range args {
			types = append(types, a.Type())
		}
		sig, err := reg.ResolveAggregate(name, types, false)
		if err != nil {
			panic(err)
		}
		for k := range args {
			if !args[k].Type().Equal(sig.Args[k]) {
				args[k] = &plan.Cast{Arg: args[k], T: sig.Args[k]}
			}
		}
		return plan.Agg{Name: name, Args: args, T: sig.Result, State: sig.State, Bound: sig.Args, OutName: name}
	}
	return []plan.Agg{mk("count"), mk("count", i), mk("sum", i), mk("avg", i), mk("min", s), mk("max", s), mk("sum", m), mk("avg", m),
		mk("max", d), mk("min", column(rel, "b")), mk("max", column(rel, "t")), mk("var_pop", i)}
}

func naiveAggregates(rs []row) string {
	var n, sum, count int64
	var dec decimal128.Num
	var decs int64
	var mean float64
	none := "NULL"
	out := make([]string, 12)
	for i := range out {
		out[i] = none
	}
	better := func(k, c int, r row, sign int, best map[int]schema.Datum) {
		if r[c].Null {
			return
		}
		if b, ok := best[k]; !ok || schema.Compare(r[c], b)*sign > 0 {
			best[k] = r[c]
		}
	}
	best := map[int]schema.Datum{}
	for _, r := range rs {
		count++
		if !r[2].Null {
			n++
			sum += r[2].I
		}
		if !r[4].Null {
			dec = dec.Add(r[4].D)
			decs++
		}
		better(4, 0, r, -1, best)
		better(5, 0, r, 1, best)
		better(8, 3, r, 1, best)
		better(9, 5, r, -1, best)
		better(10, 6, r, 1, best)
	}
	out[0], out[1] = fmt.Sprint(count), fmt.Sprint(n)
	if n > 0 {
		out[2] = fmt.Sprint(sum)
		mean = float64(sum) / float64(n)
		out[3] = schema.Datum{Type: schema.DoubleType, F: mean}.Text()
		m2 := 0.0
		for _, r := range rs {
			if !r[2].Null {
				m2 += (float64(r[2].I) - mean) * (float64(r[2].I) - mean)
			}
		}
		out[11] = fmt.Sprintf("%.6f", m2/float64(n))
	}
	if decs > 0 {
		out[6] = schema.Datum{Type: schema.DecimalType(20, 2), D: dec}.Text()
		// half up at 6 places: (2*x*10^4 + n) / 2n on the magnitude
		x := dec.Abs().LowBits()
		q := int64((2*x*10000 + uint64(decs)) / (2 * uint64(decs)))
		if dec.Sign() < 0 {
			q = -q
		}
		out[7] = schema.Datum{Type: schema.DecimalType(14, 6), D: decimal128.FromI64(q)}.Text()
	}
	for k, d := range best {
		if d.F == 0 {
			d.F = 0
		}
		out[k] = d.Text()
	}
	return strings.Join(out, "|")
}

// rounded rewrites the last column, a double, to six places.
func rounded(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		k := strings.LastIndexByte(l, '|')
		var f float64
		out[i] = l
		if _, err := fmt.Sscan(l[k+1:], &f); err == nil {
			out[i] = fmt.Sprintf("%s|%.6f", l[:k], f)
		}
		out[i] = strings.ReplaceAll(out[i], "|-0.0|", "|0.0|")
	}
	return out
}

func TestAggregate(t *testing.T) {
	keySets := [][]string{{}, {"s"}, {"i"}, {"d"}, {"b"}, {"m"}, {"s", "u"}, {"i", "s"}, {"b", "t", "i"}, {"m", "s", "d", "i"}}
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		aggs := aggregates(rel)
		for _, names := range keySets {
			n := &plan.Aggregate{Input: input(0, rel), KeyNames: names, Aggs: aggs}
			var at []int
			for _, k := range names {
				c := column(rel, k)
				at = append(at, c.Index)
				n.Keys = append(n.Keys, c)
			}
			order, groups := naiveGroups(rel, at)
			var want []string
			for _, k := range order {
				line := naiveAggregates(groups[k])
				if len(names) > 0 {
					line = k + "|" + line
				}
				want = append(want, strings.ReplaceAll(line, "|-0.0|", "|0.0|"))
			}
			check(t, rounded(rowsOf(t, n, e.encode(rel, rng))), want, true)

			// In two phases, over two halves.
			partial := *n
			partial.Phase = plan.Partial
			var states []*batch.Batch
			for _, half := range [][]row{rel.rows[:len(rel.rows)/3], rel.rows[len(rel.rows)/3:]} {
				r, err := Execute(context.Background(), function.Builtin(), &partial, []batch.Reader{e.encode(relation{rel.fields, half}, rng)}, nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				for {
					b, err := r.Next(context.Background())
					if err != nil {
						break
					}
					states = append(states, b)
				}
			}
			fields := partial.Fields()
			final := &plan.Aggregate{Input: &plan.Input{Out: fields}, Phase: plan.Final, KeyNames: names}
			k := 0
			next := func() plan.Expr {
				k++
				return &plan.Column{Index: k - 1, T: fields[k-1].Type}
			}
			for range names {
				final.Keys = append(final.Keys, next())
			}
			for _, a := range aggs {
				a.Args = nil
				for range a.State {
					a.Args = append(a.Args, next())
				}
				final.Aggs = append(final.Aggs, a)
			}
			check(t, rounded(rowsOf(t, final, &reader{fields, states})), want, true)
		}
	})
}

func TestAggregateDistinct(t *testing.T) {
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		count := func(args ...plan.Expr) plan.Agg {
			return plan.Agg{Name: "count", Args: args, Distinct: true, T: schema.BigIntType, State: []schema.Type{schema.BigIntType}}
		}
		n := &plan.Aggregate{Input: input(0, rel), Keys: []plan.Expr{column(rel, "b")}, KeyNames: []string{"b"},
			Aggs: []plan.Agg{count(column(rel, "s")), count(column(rel, "i"), column(rel, "u")),
				{Name: "sum", Args: []plan.Expr{column(rel, "i")}, Distinct: true, T: schema.BigIntType, State: []schema.Type{schema.BigIntType}}}}
		order, groups := naiveGroups(rel, []int{5})
		var want []string
		for _, k := range order {
			s, iu, i := map[string]bool{}, map[string]bool{}, map[int64]bool{}
			for _, r := range groups[k] {
				if !r[0].Null {
					s[r[0].S] = true
				}
				if !r[2].Null {
					i[r[2].I] = true
					if !r[1].Null {
						iu[fmt.Sprint(r[2].I, r[1].S)] = true
					}
				}
			}
			sum, total := "NULL", int64(0)
			for x := range i {
				total += x
				sum = ""
			}
			if sum == "" {
				sum = fmt.Sprint(total)
			}
			want = append(want, fmt.Sprintf("%s|%d|%d|%s", k, len(s), len(iu), sum))
		}
		check(t, rowsOf(t, n, e.encode(rel, rng)), want, true)
	})
}

func TestAggregateOfNothing(t *testing.T) {
	rel := sample(1, 0, rand.New(rand.NewPCG(1, 1)))
	empty := relation{fields: rel.fields}
	e := encoding{size: 10, text: "plain"}
	n := &plan.Aggregate{Input: input(0, empty), Aggs: aggregates(rel)}
	want := []string{"0|0|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL"}
	check(t, rowsOf(t, n, e.encode(empty, nil)), want, true)
	n.Keys, n.KeyNames = []plan.Expr{column(rel, "s")}, []string{"s"}
	check(t, rowsOf(t, n, e.encode(empty, nil)), nil, true)
}

// A partial aggregation that doesn't reduce passes rows through.
func TestPartialPassesThrough(t *testing.T) {
	fields := []schema.Field{{Name: "k", Type: schema.BigIntType}, {Name: "s", Type: schema.StringType}}
	var batches []*batch.Batch
	const n = 200_000
	for from := 0; from < n; from += batch.MaxRows {
		var k []int64
		var s []string
		for i := from; i < min(n, from+batch.MaxRows); i++ {
			k = append(k, int64(i%150_000))
			s = append(s, fmt.Sprint("x", i%7))
		}
		batches = append(batches, &batch.Batch{Len: len(k), Columns: []arrow.Array{batch.NewFixed(arrow.PrimitiveTypes.Int64, k, nil), batch.NewStrings(s)}})
	}
	agg := plan.Agg{Name: "count", T: schema.BigIntType, State: []schema.Type{schema.BigIntType}, OutName: "c"}
	mx := plan.Agg{Name: "max", Args: []plan.Expr{&plan.Column{Index: 1, T: schema.StringType}}, T: schema.StringType,
		State: []schema.Type{schema.StringType}, Bound: []schema.Type{schema.StringType}, OutName: "m"}
	key := &plan.Column{Index: 0, T: schema.BigIntType}
	partial := &plan.Aggregate{Input: &plan.Input{Out: fields}, Phase: plan.Partial, Keys: []plan.Expr{key}, KeyNames: []string{"k"}, Aggs: []plan.Agg{agg, mx}}
	agg.Args = []plan.Expr{&plan.Column{Index: 1, T: schema.BigIntType}}
	mx.Args = []plan.Expr{&plan.Column{Index: 2, T: schema.StringType}}
	final := &plan.Aggregate{Input: partial, Phase: plan.Final, Keys: []plan.Expr{key}, KeyNames: []string{"k"}, Aggs: []plan.Agg{agg, mx}}
	reg := function.Builtin()
	r, err := Execute(context.Background(), reg, partial, []batch.Reader{&reader{fields, batches}}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(drain(t, r)); got <= 150_000 || got > n {
		t.Fatalf("%d partial groups: nothing passed through", got)
	}
	got := rowsOf(t, final, &reader{fields, batches})
	if len(got) != 150_000 || got[0] != "0|2|x4" || got[149_999] != "149999|1|x3" {
		t.Fatalf("%d groups, %q, %q", len(got), got[0], got[len(got)-1])
	}
}

func TestJoin(t *testing.T) {
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		right := sample(30, 0.2, rng)
		both := relation{fields: append(slices.Clone(rel.fields), right.fields...)}
		residual := call("<", schema.BooleanType, &plan.Column{Index: 2, T: schema.IntType}, &plan.Column{Index: len(rel.fields) + 2, T: schema.IntType})
		for _, names := range [][]string{{"s"}, {"i"}, {"u", "i"}, {"m"}, {"d", "s"}, {}} {
			for _, res := range []plan.Expr{nil, residual} {
				n := &plan.Join{Left: input(0, rel), Right: input(1, right), Residual: res}
				for _, k := range names {
					n.LeftKeys = append(n.LeftKeys, column(rel, k))
					n.RightKeys = append(n.RightKeys, column(right, k))
				}
				var want []string
				for _, l := range rel.rows {
				right:
					for _, r := range right.rows {
						for _, k := range names {
							c := column(rel, k).Index
							if l[c].Null || r[c].Null || schema.Compare(l[c], r[c]) != 0 {
								continue right
							}
						}
						if res != nil && (l[2].Null || r[2].Null || l[2].I >= r[2].I) {
							continue
						}
						want = append(want, append(slices.Clone(l), r...).text())
					}
				}
				other := e
				other.text = []string{"plain", "dict", "changing", "mixed"}[rng.IntN(4)]
				got := rowsOf(t, n, e.encode(rel, rng), other.encode(right, rng))
				check(t, got, want, true)
				_ = both
			}
		}
	})
}

func TestSort(t *testing.T) {
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		for _, names := range [][]string{{"i"}, {"s"}, {"d"}, {"m"}, {"b", "s"}, {"u", "d", "i"}, {"t", "m"}} {
			for _, limit := range []int64{-1, 0, 1, 7} {
				n := &plan.Sort{Input: input(0, rel), Limit: limit, Offset: max(0, limit/3)}
				if limit < 0 {
					n.Offset = 0
				}
				for _, k := range names {
					n.Keys = append(n.Keys, plan.SortKey{Expr: column(rel, k), Desc: rng.IntN(2) == 0, NullsLast: rng.IntN(2) == 0})
				}
				rows := slices.Clone(rel.rows)
				slices.SortStableFunc(rows, func(a, b row) int {
					for _, k := range n.Keys {
						c := k.Expr.(*plan.Column).Index
						x, y := a[c], b[c]
						switch {
						case x.Null && y.Null:
							continue
						case x.Null || y.Null:
							if x.Null == k.NullsLast {
								return 1
							}
							return -1
						}
						if o := schema.Compare(x, y); o != 0 {
							if k.Desc {
								return -o
							}
							return o
						}
					}
					return 0
				})
				if limit >= 0 {
					rows = rows[min(int(n.Offset), len(rows)):min(int(n.Offset+limit), len(rows))]
				}
				var want []string
				for _, r := range rows {
					want = append(want, r.text())
				}
				check(t, rowsOf(t, n, e.encode(rel, rng)), want, true)
			}
		}
	})
}

// A top-N over many batches trims and cuts on the way.
func TestTopNTrims(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	rel := relation{fields: []schema.Field{{Name: "s", Type: schema.StringType}, {Name: "i", Type: schema.IntType}, {Name: "o", Type: schema.IntType}}}
	for k := range 120_000 {
		r := row{{Type: schema.StringType, S: fmt.Sprint("w", rng.IntN(50))}, {Type: schema.IntType, I: int64(rng.IntN(1000))}, {Type: schema.IntType, I: int64(k)}}
		if rng.IntN(50) == 0 {
			r[1] = schema.NullOf(schema.IntType)
		}
		rel.rows = append(rel.rows, r)
	}
	for _, keys := range [][]int{{1}, {0, 1}} {
		for _, text := range []string{"plain", "changing"} {
			n := &plan.Sort{Input: input(0, rel), Limit: 20, Offset: 5}
			for _, k := range keys {
				n.Keys = append(n.Keys, plan.SortKey{Expr: &plan.Column{Index: k, T: rel.fields[k].Type}, NullsLast: true})
			}
			full := *n
			full.Limit, full.Offset = -1, 0
			e := encoding{size: 8000, text: text}
			want := rowsOf(t, &full, e.encode(rel, rng))[5:25]
			check(t, rowsOf(t, n, e.encode(rel, rng)), want, true)
		}
	}
}

// Enough rows for radix sorting give the order that comparing gives.
func TestRadixOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	rel := sample(3*radixRows, 0.2, rng)
	for _, names := range [][]string{{"i"}, {"d"}, {"s"}, {"s", "d"}, {"b", "i", "t"}, {"u", "s", "d"}} {
		for try := range 4 {
			var keys []arrow.Array
			var orders []sortOrder
			r := encoding{size: len(rel.rows), text: "changing", sliced: try == 3}.encode(rel, rng)
			for _, n := range names {
				c := column(rel, n)
				keys = append(keys, r.batches[0].Columns[c.Index])
				orders = append(orders, sortOrder{c.T, rng.IntN(2) == 0, rng.IntN(2) == 0})
			}
			got := radixOrder(keys, orders, len(rel.rows))
			if want := encodeKeys(keys, orders, len(rel.rows), true).sorted(); !slices.Equal(got, want) {
				t.Fatalf("%v %v: radix sorting has another order", names, orders)
			}
			if want := encodeKeys(keys, orders, len(rel.rows), false).sorted(); !slices.Equal(got, want) {
				t.Fatalf("%v %v: ranks have another order than texts", names, orders)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	everyWay(t, func(t *testing.T, rel relation, e encoding, rng *rand.Rand) {
		for _, l := range []plan.Limit{{Count: 0}, {Count: 5}, {Count: 5, Offset: 3}, {Count: 1000, Offset: 99}, {Count: 1, Offset: 1000}} {
			l.Input = input(0, rel)
			var want []string
			for _, r := range rel.rows[min(int(l.Offset), len(rel.rows)):min(int(l.Offset+l.Count), len(rel.rows))] {
				want = append(want, r.text())
			}
			check(t, rowsOf(t, &l, e.encode(rel, rng)), want, true)
		}
	})
}

func TestValues(t *testing.T) {
	n := &plan.Values{Out: []schema.Field{{Name: "a", Type: schema.BigIntType}, {Name: "b", Type: schema.StringType}},
		Rows: [][]plan.Expr{{integer(1), text("x")}, {call("+", schema.IntType, integer(1), integer(1)), &plan.Literal{Value: schema.NullOf(schema.StringType)}}}}
	check(t, rowsOf(t, n), []string{"1|x", "2|NULL"}, true)
}
