package sql

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestLarge compiles statements as programs generate them: long chains, long
// lists, many rows, wide tables. They must not take a time or stack that grows
// with the square of their length.
func TestLarge(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	var columns []string
	for i := range 2000 {
		columns = append(columns, fmt.Sprintf("c%d string", i))
	}
	for _, s := range []string{
		"create table wide (" + strings.Join(columns, ", ") + ")",
		"create table t (id bigint, name string, primary key (id))",
	} {
		if _, err := w.run(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	var terms, values, rows, sums []string
	for i := range 9000 {
		terms = append(terms, fmt.Sprintf("id = %d", i))
		sums = append(sums, "id")
	}
	for i := range 20000 {
		values = append(values, fmt.Sprint(i))
		rows = append(rows, fmt.Sprintf("(%d, 'name %d')", i, i))
	}
	// Things that double at each of many steps end in an error or stay small.
	between, caseOf, derived, ctes := "id", "id", "select id a from t", "with c0 as (select id from t)"
	for i := range 60 {
		between = "if(" + between + " between 1 and 2, 1, 2)"
		caseOf = "case " + caseOf + " when 1 then 2 when 2 then 3 end"
		derived = "select a + a a from (" + derived + ") x"
		ctes += fmt.Sprintf(", c%d as (select x.id from c%d x join c%d y on x.id = y.id)", i+1, i, i)
	}
	for _, test := range []struct{ s, want string }{
		{"select " + between + " from t", "too large"},
		{"select " + caseOf + " from t", "too large"},
		{ctes + " select * from c60", "more than 2000 tables"},
		{"select * from (" + derived + ") x where a > 1", ""},
		{"select count(*) from (select a from (" + derived + ") x group by a) y where a > 1", ""},
		{"select * from (" + strings.ReplaceAll(derived, "id a from t", "1 a") + ") x", ""},
		{"select * from (" + strings.ReplaceAll(derived, "id a from t", "rand() a") + ") x", ""},
	} {
		_, err := w.run(ctx, "explain "+test.s)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%.60s..: got %v, want an error with %q", test.s, err, test.want)
		}
	}
	for name, s := range map[string]string{
		"or":     "select * from t where " + strings.Join(terms[:4900], " or "),
		"and":    "select * from t where " + strings.Join(terms[:4900], " and "),
		"sum":    "select " + strings.Join(sums, " + ") + ", count(*) from t group by " + strings.Join(sums, " + "),
		"in":     "select * from t where id in (" + strings.Join(values, ", ") + ")",
		"insert": "insert into t values " + strings.Join(rows, ", "),
		"wide":   "select *, count(*) from (select * from wide a) x group by " + strings.ReplaceAll(strings.Join(columns, ", "), " string", ""),
		"concat": "select " + strings.Repeat("concat(", 200) + "name" + strings.Repeat(", 'x')", 200) + " from t",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := w.run(ctx, "explain "+s); err != nil {
				t.Fatal(err)
			}
		})
	}
}
