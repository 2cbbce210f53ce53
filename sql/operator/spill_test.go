package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// spillRun runs a plan within a budget and returns its rows, the most that was held
// and how much was written.
func spillRun(t *testing.T, n plan.Node, memory int64, inputs ...batch.Reader) (rows []string, peak, written int64) {
	t.Helper()
	r, err := Execute(context.Background(), function.Builtin(), n, inputs, nil, memory)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, texts(t, b, r.Fields())...)
	}
	b := r.(*executed).budget
	if b.space != nil {
		written, _ = b.space.Bytes()
	}
	if b.used > memory/share && memory > 0 {
		t.Errorf("%d bytes are still held at the end", b.used)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return rows, b.peak, written
}

// wide is rows with keys of all sorts: u has many values, i few; payload is text.
func wide(n, distinct int, nulls float64, rng *rand.Rand) relation {
	rel := sample(n, nulls, rng)
	for i := range rel.rows {
		k := rng.IntN(distinct)
		if i < distinct { // the first rows have every value: dictionaries are made of them
			k = i
			rel.rows[i][1].Null = false
		}
		if !rel.rows[i][1].Null {
			rel.rows[i][1].S = fmt.Sprint("key number ", k)
		}
	}
	return rel
}

func TestSpilling(t *testing.T) {
	const memory = 25_000
	rng := rand.New(rand.NewPCG(41, 1))
	l, r := wide(1200, 350, 0.05, rng), wide(900, 350, 0.05, rng)
	one := wide(700, 1, 0, rng) // one key
	bt := []schema.Type{schema.BigIntType}
	count := func(distinct bool, args ...plan.Expr) plan.Agg {
		return plan.Agg{Name: "count", Distinct: distinct, Args: args, T: bt[0], State: bt}
	}
	type testCase struct {
		name    string
		n       plan.Node
		ordered bool
		l, r    relation
		memory  int64 // 0: memory
	}
	var cases []testCase
	order := func(limit int64, keys ...string) plan.Node {
		n := &plan.Sort{Input: input(0, l), Limit: limit, Offset: max(0, limit/4)}
		for i, k := range keys {
			n.Keys = append(n.Keys, plan.SortKey{Expr: column(l, k), Desc: i == 1, NullsLast: i == 0})
		}
		return n
	}
	cases = append(cases, testCase{name: "sort", n: order(-1, "u", "d"), ordered: true}, testCase{name: "sort by one word", n: order(-1, "i"), ordered: true},
		testCase{name: "large top-N", n: order(1000, "s", "m", "u"), ordered: true})
	for _, keys := range [][]string{{"u"}, {"u", "i", "d"}, {}} {
		n := &plan.Aggregate{Input: input(0, l), KeyNames: keys, Aggs: []plan.Agg{count(false), count(true, column(l, "u")), count(true, column(l, "u"), column(l, "i")),
			{Name: "sum", Distinct: true, Args: []plan.Expr{column(l, "i")}, T: bt[0], State: bt},
			{Name: "min", Args: []plan.Expr{column(l, "s")}, T: schema.StringType, State: []schema.Type{schema.StringType}}}}
		for _, k := range keys {
			n.Keys = append(n.Keys, column(l, k))
		}
		cases = append(cases, testCase{name: fmt.Sprint("group by ", keys), n: n})
	}
	for _, c := range joinCases() {
		if c.kind == plan.LeftSingle || len(c.keys) > 0 && c.keys[0] != "u" && !(c.keys[0] == "i" && c.nullAware) {
			continue
		}
		a, b := l, r
		if len(c.keys) < 2 {
			a, b = relation{l.fields, l.rows[:60]}, relation{r.fields, r.rows[:800]}
			if len(c.keys) == 0 && !c.residual {
				continue
			}
		}
		if len(c.keys) == 2 {
			c.keys = []string{"u"}
		}
		n, _ := c.plan(a, b)
		least := int64(0)
		if c.kind >= plan.LeftSemi { // these hold little
			least = 2_000
		}
		cases = append(cases, testCase{name: fmt.Sprintf("join %+v", c), n: n, l: a, r: b, memory: least})
		if len(c.keys) == 1 && c.keys[0] == "u" && c.residual {
			n, _ := c.plan(relation{one.fields, one.rows[:60]}, one)
			cases = append(cases, testCase{name: fmt.Sprintf("join of one key %+v", c), n: n, l: relation{one.fields, one.rows[:60]}, r: one, memory: least})
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.l.fields == nil {
				c.l, c.r = l, r
			}
			memory := int64(memory)
			if c.memory > 0 {
				memory = c.memory
			}
			e := encoding{size: 200, text: "plain"}
			want, _, written := spillRun(t, c.n, 0, e.encode(c.l, rng), e.encode(c.r, rng))
			if written != 0 {
				t.Fatal("spilled without a limit")
			}
			e = encoding{size: 100, text: "changing", sel: true}
			got, peak, written := spillRun(t, c.n, memory, e.encode(c.l, rng), e.encode(c.r, rng))
			if !c.ordered {
				slices.Sort(got)
				slices.Sort(want)
			}
			if len(got) != len(want) {
				t.Fatalf("%d rows, want %d", len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("row %d is %s, not %s", i, got[i], want[i])
				}
			}
			if written == 0 {
				t.Error("nothing was spilled")
			}
			if most := memory + 45_000; peak > most {
				t.Errorf("%d bytes were held, more than %d", peak, most)
			}
		})
	}
}

// Nothing stays on disk, whether a task ends well, fails or is cancelled.
func TestSpillingLeavesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	rel := wide(3000, 3000, 0, rng)
	n := &plan.Exchange{How: plan.ToOne, Input: &plan.Sort{Input: input(0, rel), Limit: -1, Keys: []plan.SortKey{{Expr: column(rel, "u")}}}}
	for name, write := range map[string]func() error{
		"done":   func() error { return nil },
		"failed": func() error { return fault.Userf("no more") },
		"panic":  func() error { panic("in the shuffle") },
	} {
		dir := t.TempDir()
		c := &jobs.Context{Stage: &jobs.Stage{Partitions: 1}, Task: &jobs.Task{}, Work: &plan.Fragment{Root: n}, Counters: jobs.Counters{}, Memory: 50_000, SpillFolder: dir,
			Inputs: []batch.Reader{encoding{size: 100, text: "plain"}.encode(rel, rng)}, Shuffle: writeFunc(write)}
		err := NewRunner(function.Builtin()).Run(context.Background(), c)
		if (err == nil) != (name == "done") {
			t.Errorf("%s: %v", name, err)
		}
		if name != "panic" && c.Counters[jobs.CounterSpillBytes] == 0 {
			t.Errorf("%s: nothing was spilled", name)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %d files left, %v", name, len(left), err)
		}
	}
}

type writeFunc func() error

func (f writeFunc) Write(context.Context, int, *batch.Batch) error { return f() }
