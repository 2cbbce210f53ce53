package operator

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage/rowkey"
)

// memorySpec reads batches that the test holds.
type memorySpec struct{ fields []schema.Field }

func (memorySpec) Format() string           { return "memory" }
func (s memorySpec) Fields() []schema.Field { return s.fields }
func (memorySpec) Describe() string         { return "memory" }

type memoryFormat struct{ open func() *reader }

func (memoryFormat) Splits(context.Context, inputformat.Spec, inputformat.Want) iter.Seq2[inputformat.Split, error] {
	return nil
}

func (f memoryFormat) Open(context.Context, inputformat.Spec, inputformat.Split) (inputformat.Reader, error) {
	return &memoryReader{reader: f.open()}, nil
}

type memoryReader struct {
	*reader
	rows int64
}

func (r *memoryReader) Next(ctx context.Context) (*batch.Batch, error) {
	b, err := r.reader.Next(ctx)
	if err == nil {
		r.rows += int64(b.Rows())
	}
	return b, err
}

func (r *memoryReader) Stats() inputformat.Stats {
	return inputformat.Stats{RowsRead: r.rows, BytesRead: 10}
}

// collected takes what a fragment writes.
type collected struct {
	t      *testing.T
	fields []schema.Field
	lines  [][]string
	sizes  [][]int
}

func (c *collected) Write(_ context.Context, p int, b *batch.Batch) error {
	for len(c.lines) <= p {
		c.lines, c.sizes = append(c.lines, nil), append(c.sizes, nil)
	}
	c.lines[p] = append(c.lines[p], texts(c.t, b, c.fields)...)
	c.sizes[p] = append(c.sizes[p], b.Rows())
	return nil
}

type collectedOutput struct{ *collected }

func (c collectedOutput) Write(ctx context.Context, b *batch.Batch) error {
	return c.collected.Write(ctx, 0, b)
}

// runExchange runs a fragment whose root is x over rel.
func runExchange(t *testing.T, rel relation, e encoding, rng *rand.Rand, partitions int, x *plan.Exchange) *collected {
	t.Helper()
	out := &collected{t: t, fields: rel.fields}
	x.Input = &plan.Scan{Spec: memorySpec{rel.fields}}
	counters := jobs.Counters{}
	last := 0.0
	err := NewRunner(function.Builtin()).Run(context.Background(), &jobs.Context{
		Stage: &jobs.Stage{Partitions: partitions}, Task: &jobs.Task{Split: &inputformat.Split{Rows: int64(len(rel.rows))}},
		Work:    &plan.Fragment{Root: x},
		Formats: inputformat.Formats{"memory": memoryFormat{func() *reader { return e.encode(rel, rng) }}},
		Shuffle: out, Counters: counters, Progress: func(p float64) { last = p },
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(len(rel.rows)); counters[jobs.CounterRowsOut] != n || counters[jobs.CounterRowsRead] != n || counters[jobs.CounterBytesRead] != 10 {
		t.Errorf("counters %v of %d rows", counters, n)
	}
	if last != 1 {
		t.Errorf("the last progress is %v", last)
	}
	return out
}

func lines(rel relation) []string {
	var out []string
	for _, r := range rel.rows {
		out = append(out, r.text())
	}
	return out
}

// A row's partition depends on its keys alone: not on encoding, batch or
// process. The sizes are fixed here so that a change of the hash is noticed:
// attempts of one stage may run in different versions.
func TestExchangeByHash(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	rel := sample(150, 0.1, rng)
	for _, names := range [][]string{{"s"}, {"i"}, {"u", "i"}, {"d"}, {"m", "b", "t"}} {
		var want [][]string
		for _, e := range encodings() {
			x := &plan.Exchange{How: plan.ByHash}
			for _, n := range names {
				x.Keys = append(x.Keys, column(rel, n))
			}
			got := runExchange(t, rel, e, rng, 5, x)
			if want == nil {
				want = got.lines
				var all []string
				for _, p := range want {
					all = append(all, p...)
				}
				check(t, all, lines(rel), false)
			}
			for p := range want {
				check(t, got.lines[p], want[p], true)
			}
		}
	}
	x := &plan.Exchange{How: plan.ByHash, Keys: []plan.Expr{column(rel, "u"), column(rel, "i")}}
	var sizes []int
	for _, p := range runExchange(t, rel, encoding{size: 50, text: "dict"}, rng, 5, x).lines {
		sizes = append(sizes, len(p))
	}
	if got := fmt.Sprint(sizes); got != "[36 21 32 28 33]" {
		t.Errorf("partitions of %s rows: the hash has changed", got)
	}
}

// Small pieces are joined before they go to the shuffle.
func TestExchangeCoalesces(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	rel := sample(9000, 0.1, rng)
	for _, text := range []string{"plain", "dict", "changing"} {
		got := runExchange(t, rel, encoding{size: 50, text: text, sel: true}, rng, 1, &plan.Exchange{How: plan.ToOne})
		check(t, got.lines[0], lines(rel), true)
		if len(got.sizes[0]) != 2 {
			t.Errorf("%s: batches of %v rows", text, got.sizes[0])
		}
	}
	got := runExchange(t, rel, encoding{size: 50, text: "dict"}, rng, 3, &plan.Exchange{How: plan.ByHash, Keys: []plan.Expr{column(rel, "i")}})
	for p, sizes := range got.sizes {
		if len(sizes) > 1 {
			t.Errorf("partition %d in %d batches", p, len(sizes))
		}
	}
}

func TestExchangeByRegion(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	rel := sample(300, 0.1, rng)
	enc := rowkey.NewEncoder([]rowkey.Column{{Type: schema.StringType}, {Type: schema.IntType, Desc: true}})
	cut := func(s string, i int64) []byte {
		k, err := enc.AppendDatums(nil, []schema.Datum{{Type: schema.StringType, S: s}, {Type: schema.IntType, I: i}})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	cuts := [][]byte{cut("a", 2), cut("ab", -1), cut("b", 0)}
	slices.SortFunc(cuts, func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
	want := make([][]string, 4)
	for _, r := range rel.rows {
		k, err := enc.AppendDatums(nil, []schema.Datum{r[0], r[2]})
		if err != nil {
			t.Fatal(err)
		}
		p := 0
		for p < len(cuts) && string(k) >= string(cuts[p]) {
			p++
		}
		want[p] = append(want[p], r.text())
	}
	for _, e := range encodings() {
		got := runExchange(t, rel, e, rng, 4, &plan.Exchange{How: plan.ByRegion, Cuts: cuts,
			KeyColumns: []plan.KeyColumn{{Index: 0}, {Index: 2, Desc: true}}})
		for p := range want {
			check(t, got.lines[p], want[p], true)
		}
	}
}

func TestWriteAndErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	rel := sample(30, 0.1, rng)
	e := encoding{size: 10, text: "dict", sel: true}
	out := &collected{t: t, fields: rel.fields}
	c := &jobs.Context{Stage: &jobs.Stage{}, Task: &jobs.Task{}, Work: &plan.Fragment{Root: &plan.Write{Input: input(0, rel)}},
		Inputs: []batch.Reader{e.encode(rel, rng)}, Output: collectedOutput{out}, Counters: jobs.Counters{}}
	r := NewRunner(function.Builtin())
	if err := r.Run(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	check(t, out.lines[0], lines(rel), true)

	ctx, cancel := context.WithCancelCause(context.Background())
	why := fmt.Errorf("killed by a person")
	cancel(why)
	c.Inputs = []batch.Reader{e.encode(rel, rng)}
	if err := r.Run(ctx, c); err != why {
		t.Errorf("after a cancel: %v", err)
	}
	c.Work = &plan.Fragment{Root: &plan.Write{Input: &plan.Input{Index: 3, Out: rel.fields}}}
	if err := r.Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), "input 3 of 1") {
		t.Errorf("of a missing input: %v", err)
	}
	// A scan without a split (an empty table) has no rows.
	c.Work = &plan.Fragment{Root: &plan.Write{Input: &plan.Scan{Spec: memorySpec{rel.fields}}}}
	out.lines = nil
	if err := r.Run(context.Background(), c); err != nil || len(out.lines) != 0 {
		t.Errorf("of an empty table: %v, %v", out.lines, err)
	}
}
