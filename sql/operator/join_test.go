package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

func nullRow(fields []schema.Field) row {
	out := make(row, len(fields))
	for i, f := range fields {
		out[i] = schema.NullOf(f.Type)
	}
	return out
}

// naiveJoin is the definition of the joins, a row at a time.
func naiveJoin(l, r relation, n *plan.Join, residual func(l, r row) bool) (out []string, tooMany bool) {
	key := func(e plan.Expr, x row) schema.Datum { return x[e.(*plan.Column).Index] }
	same := func(x, y row, keys int) bool {
		for k := range keys {
			a, b := key(n.LeftKeys[k], x), key(n.RightKeys[k], y)
			if a.Null || b.Null || schema.Compare(a, b) != 0 {
				return false
			}
		}
		return true
	}
	matched := make([]bool, len(r.rows))
	for _, x := range l.rows {
		matches, unknown := 0, false
		for k, y := range r.rows {
			if residual != nil && !residual(x, y) {
				continue
			}
			if same(x, y, len(n.LeftKeys)) {
				matches++
				matched[k] = true
				switch n.Kind {
				case plan.Inner, plan.LeftOuter, plan.RightOuter, plan.FullOuter, plan.LeftSingle:
					out = append(out, append(slices.Clone(x), y...).text())
				}
				continue
			}
			last := len(n.LeftKeys) - 1
			if n.NullAware && same(x, y, last) && (key(n.LeftKeys[last], x).Null || key(n.RightKeys[last], y).Null) {
				unknown = true
			}
		}
		switch n.Kind {
		case plan.LeftOuter, plan.FullOuter, plan.LeftSingle:
			if matches == 0 {
				out = append(out, append(slices.Clone(x), nullRow(r.fields)...).text())
			}
			tooMany = tooMany || n.Kind == plan.LeftSingle && matches > 1
		case plan.LeftSemi:
			if matches > 0 {
				out = append(out, x.text())
			}
		case plan.LeftAnti:
			if matches == 0 && !unknown {
				out = append(out, x.text())
			}
		case plan.LeftMark:
			mark := "false"
			if matches > 0 {
				mark = "true"
			} else if unknown {
				mark = "NULL"
			}
			out = append(out, x.text()+"|"+mark)
		}
	}
	if n.Kind == plan.RightOuter || n.Kind == plan.FullOuter {
		for k, y := range r.rows {
			if !matched[k] {
				out = append(out, append(nullRow(l.fields), y...).text())
			}
		}
	}
	return out, tooMany
}

type joinCase struct {
	kind      plan.JoinKind
	nullAware bool
	keys      []string
	residual  bool
}

func joinCases() []joinCase {
	var out []joinCase
	for kind := plan.Inner; kind <= plan.LeftSingle; kind++ {
		for _, aware := range []bool{false, true} {
			for _, keys := range [][]string{{}, {"s"}, {"i"}, {"u", "i"}, {"m"}, {"d", "s"}, {"b"}} {
				for _, residual := range []bool{false, true} {
					if aware && (len(keys) == 0 || kind != plan.LeftAnti && kind != plan.LeftMark) {
						continue
					}
					out = append(out, joinCase{kind, aware, keys, residual})
				}
			}
		}
	}
	return out
}

func (c joinCase) plan(l, r relation) (*plan.Join, func(l, r row) bool) {
	n := &plan.Join{Left: input(0, l), Right: input(1, r), Kind: c.kind, NullAware: c.nullAware, Mark: "mark"}
	for _, k := range c.keys {
		n.LeftKeys = append(n.LeftKeys, column(l, k))
		n.RightKeys = append(n.RightKeys, column(r, k))
	}
	if !c.residual {
		return n, nil
	}
	w := len(l.fields)
	n.Residual = call("and", schema.BooleanType,
		call("<", schema.BooleanType, &plan.Column{Index: 2, T: schema.IntType}, &plan.Column{Index: w + 2, T: schema.IntType}),
		call("<>", schema.BooleanType, &plan.Column{Index: 1, T: schema.StringType}, text("u7")))
	return n, func(x, y row) bool {
		return !x[2].Null && !y[2].Null && x[2].I < y[2].I && !x[1].Null && x[1].S != "u7"
	}
}

// run returns the rows of a plan as text, or its error.
func run(t *testing.T, n plan.Node, memory int64, inputs ...batch.Reader) ([]string, error) {
	t.Helper()
	r, err := Execute(context.Background(), function.Builtin(), n, inputs, nil, memory)
	if err != nil {
		return nil, err
	}
	var out []string
	for {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out, r.Close()
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		if b.Rows() == 0 {
			t.Fatal("an empty batch")
		}
		out = append(out, texts(t, b, r.Fields())...)
	}
}

func TestJoinKinds(t *testing.T) {
	for _, shape := range []struct {
		left, right   int
		nulls, nulls2 float64
	}{{60, 25, 0.2, 0.2}, {40, 30, 0.3, 0}, {20, 12, 1, 0.5}, {20, 12, 0.2, 1}, {30, 0, 0.1, 0}, {0, 20, 0, 0.1}, {1, 1, 0, 0}} {
		rng := rand.New(rand.NewPCG(11, uint64(shape.left*100+shape.right)))
		l, r := sample(shape.left, shape.nulls, rng), sample(shape.right, shape.nulls2, rng)
		for _, c := range joinCases() {
			n, residual := c.plan(l, r)
			want, tooMany := naiveJoin(l, r, n, residual)
			for k, e := range encodings() {
				if rng.IntN(8) != 0 && k > 0 { // some for each case, all of them over the cases
					continue
				}
				other := e
				other.text = []string{"plain", "dict", "changing", "mixed"}[rng.IntN(4)]
				name := fmt.Sprintf("%dx%d,%+v,%s", shape.left, shape.right, c, e)
				got, err := run(t, n, 0, e.encode(l, rng), other.encode(r, rng))
				if tooMany {
					if err == nil || !strings.Contains(err.Error(), "more than one row") {
						t.Fatalf("%s: %v", name, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				checkNamed(t, name, got, want)
			}
		}
	}
}

func checkNamed(t *testing.T, name string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\ngot  %d rows %.600q\nwant %d rows %.600q", name, len(got), got, len(want), want)
	}
}

// A right side whose keys are unique takes another way than one whose aren't.
func TestJoinUnique(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	l := sample(300, 0.1, rng)
	r := relation{fields: l.fields}
	for i := range 9 {
		x := sample(1, 0, rng).rows[0]
		x[2].I = int64(i - 4)
		r.rows = append(r.rows, x)
	}
	for _, c := range joinCases() {
		if len(c.keys) != 1 || c.keys[0] != "i" {
			continue
		}
		n, residual := c.plan(l, r)
		want, _ := naiveJoin(l, r, n, residual)
		for k, e := range encodings() {
			if rng.IntN(4) != 0 && k > 0 {
				continue
			}
			got, err := run(t, n, 0, e.encode(l, rng), e.encode(r, rng))
			if err != nil {
				t.Fatal(err)
			}
			checkNamed(t, fmt.Sprintf("%+v,%s", c, e), got, want)
		}
	}
}
