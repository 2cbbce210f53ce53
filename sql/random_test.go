package sql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// conditions makes random conditions over the columns of the table r.
type conditions struct{ *rand.Rand }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (c conditions) number() string {
	return pick(c.Rand, "0", "1", "2", "-1", "1.5", "2.0", "0.5D", "1e0", "3Y", "2S", "1L", "'1'", "'x'", "1000", "300", "null", "9007199254740993", "0.1", "1.25BD")
}

func (c conditions) numeric() string {
	return pick(c.Rand, "ti", "i", "bi", "f", "d", "dc", "i + 1", "-d", "bi % 2", "length(s)", "dc * 2")
}

func (c conditions) text() string {
	return pick(c.Rand, "'a'", "'b'", "'ab'", "''", "null", "1", "'1'", "'abc'", "'B'")
}

func (c conditions) string() string { return pick(c.Rand, "s", "v", "ch", "upper(s)", "concat(s, v)") }

func (c conditions) compare() string {
	return pick(c.Rand, "=", "<>", "<", "<=", ">", ">=", "<=>")
}

// atom returns a condition without AND, OR and NOT.
func (c conditions) atom() string {
	switch c.IntN(12) {
	case 0, 1, 2:
		return fmt.Sprintf("%s %s %s", c.numeric(), c.compare(), c.number())
	case 3:
		return fmt.Sprintf("%s %s %s", c.number(), c.compare(), c.numeric())
	case 4, 5:
		return fmt.Sprintf("%s %s %s", c.string(), c.compare(), c.text())
	case 6:
		return fmt.Sprintf("%s %sin (%s, %s, %s)", c.numeric(), pick(c.Rand, "", "not "), c.number(), c.number(), c.number())
	case 7:
		return fmt.Sprintf("%s %sbetween %s and %s", c.numeric(), pick(c.Rand, "", "not "), c.number(), c.number())
	case 8:
		return fmt.Sprintf("%s %slike '%s'", c.string(), pick(c.Rand, "", "not "), pick(c.Rand, "a%", "%b", "a", "_", "", "%", "a\\\\%", "ab%%"))
	case 9:
		return fmt.Sprintf("%s is %snull", pick(c.Rand, c.numeric(), c.string(), "b", "dt"), pick(c.Rand, "", "not "))
	case 10:
		return pick(c.Rand, "b", "not b", "b = true", "b is true", "b is not false", "b <=> null")
	}
	return fmt.Sprintf("dt %s %s", c.compare(), pick(c.Rand, "'2020-01-01'", "date '2020-01-02'", "null", "'x'"))
}

func (c conditions) condition(depth int) string {
	if depth == 0 || c.IntN(3) == 0 {
		return c.atom()
	}
	l, r := c.condition(depth-1), c.condition(depth-1)
	switch c.IntN(4) {
	case 0:
		return "not (" + l + ")"
	case 1:
		return "(" + l + " or " + r + ")"
	}
	return "(" + l + " and " + r + ")"
}

// TestPushedConditions: WHERE cond, most of which goes into scans and key
// ranges, keeps exactly the rows for which cond, computed as a column by the
// operators, is true; NOT cond those for which it is false.
func TestPushedConditions(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, 7, 3)
	e.batchRows = 3
	rng := rand.New(rand.NewPCG(1, 2))
	c := conditions{rng}
	var rows []string
	for id := range 60 {
		cell := func(values ...string) string { return pick(rng, append(values, "null")...) }
		rows = append(rows, fmt.Sprintf("(%d, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", id,
			cell("1", "2", "-1", "44"), cell("0", "1", "2", "1000"), cell("1", "2", "9007199254740993", "9007199254740992", "-1"),
			cell("0.5", "1", "0.1"), cell("0.5", "1.5", "-0.0D", "2"), cell("1.25", "1", "0.1", "300"),
			cell("'a'", "'b'", "'ab'", "'abc'", "''", "'1'"), cell("'a'", "'ab'", "'B'"), cell("'a'", "'b'"), cell("true", "false"),
			cell("'2020-01-01'", "'2020-01-02'")))
	}
	setup := `create table r (id bigint, ti tinyint, i int, bi bigint, f float, d double, dc decimal(6,2), s string, v varchar(3), ch char(4), b boolean, dt date)
		row key (i, s desc, id); insert into r values ` + strings.Join(rows, ", ")
	if out := e.runScript(ctx, setup); strings.Contains(out, "error") {
		t.Fatal(out)
	}
	ids := func(query string) []string {
		out := e.runScript(ctx, query)
		if strings.Contains(out, "error") {
			t.Fatalf("%s\n%s", query, out)
		}
		return strings.Split(strings.TrimSpace(out), "\n")[1:]
	}
	for range 400 {
		cond := c.condition(3)
		var isTrue, isFalse []string
		for _, line := range ids("select id, " + cond + " from r") {
			id, value, _ := strings.Cut(line, "\t")
			switch value {
			case "true":
				isTrue = append(isTrue, id)
			case "false":
				isFalse = append(isFalse, id)
			}
		}
		if got := ids("select id from r where " + cond); !slices.Equal(got, isTrue) {
			t.Errorf("where %s\n got %v\nwant %v", cond, got, isTrue)
		}
		if got := ids("select id from r where not (" + cond + ")"); !slices.Equal(got, isFalse) {
			t.Errorf("where not (%s)\n got %v\nwant %v", cond, got, isFalse)
		}
		if t.Failed() {
			return
		}
	}
}
