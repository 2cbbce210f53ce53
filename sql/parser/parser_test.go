package parser

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql/ast"
)

// TestScripts parses each "parse" block and prints the trees as text in which
// every operator has its parentheses; an error with its place and the caret
// below it. What is printed must parse to the same tree again.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "split" {
				var b strings.Builder
				for _, p := range Split(d.Input) {
					fmt.Fprintf(&b, "%d:%d terminated=%t %q\n", p.Pos.Line, p.Pos.Column, p.Terminated, p.Text)
				}
				return b.String()
			}
			stmts, err := Parse(d.Input)
			var b strings.Builder
			for _, s := range stmts {
				text := ast.Print(s)
				switch s.(type) {
				case *ast.QueryStatement, *ast.Insert, *ast.Explain, *ast.Unsupported:
					b.WriteString(text + "\n")
				default: // printed as they are written: show the tree
					b.WriteString(dump(s) + "\n")
				}
				checkRoundTrip(t, text)
			}
			if err != nil {
				line, column := fault.PlaceOf(err)
				fmt.Fprintf(&b, "error %s %d:%d: %v\n%s\n", fault.StateOf(err), line, column, err, Caret(d.Input, line, column))
			}
			return b.String()
		})
	})
}

// dump shows a statement's tree: names of types and of fields that are not
// zero, without places. Expressions and queries are shown as they are printed.
func dump(s ast.Statement) string {
	var b strings.Builder
	dumpValue(&b, reflect.ValueOf(s))
	return b.String()
}

func dumpValue(b *strings.Builder, v reflect.Value) {
	switch x := v.Interface().(type) {
	case *ast.Query:
		b.WriteString("{" + ast.Print(&ast.QueryStatement{Query: x}) + "}")
		return
	case ast.Expr:
		b.WriteString(ast.Print(&ast.QueryStatement{Query: &ast.Query{Body: &ast.Select{Items: []ast.SelectItem{{X: x}}}}})[len("SELECT "):])
		return
	case ast.Ident:
		b.WriteString(x.Name)
		return
	case ast.TypeName:
		b.WriteString(x.Type.String())
		return
	case string:
		fmt.Fprintf(b, "%q", x)
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		dumpValue(b, v.Elem())
	case reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteString(", ")
			}
			dumpValue(b, v.Index(i))
		}
		b.WriteByte(']')
	case reflect.Struct:
		b.WriteString(v.Type().Name() + "(")
		first := true
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Type == reflect.TypeFor[ast.Pos]() || f.Type == reflect.TypeFor[ast.Stmt]() || v.Field(i).IsZero() {
				continue
			}
			if !first {
				b.WriteString(", ")
			}
			first = false
			b.WriteString(f.Name + ": ")
			dumpValue(b, v.Field(i))
		}
		b.WriteByte(')')
	default:
		fmt.Fprint(b, v.Interface())
	}
}

// checkRoundTrip parses printed text and prints it again.
func checkRoundTrip(t *testing.T, text string) {
	t.Helper()
	again, err := Parse(text)
	if err != nil {
		t.Errorf("what was printed does not parse: %v\n%s", err, text)
		return
	}
	if len(again) != 1 {
		t.Errorf("what was printed is %d statements: %s", len(again), text)
		return
	}
	if got := ast.Print(again[0]); got != text {
		t.Errorf("printed, parsed and printed again:\n got %s\nwant %s", got, text)
	}
}

// TestDepth: deep and long input ends in an error, at once, and not in a full stack.
func TestDepth(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"parentheses", "select " + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000), "nests deeper than"},
		{"not", "select " + strings.Repeat("not ", 20000) + "a", "nests deeper than"},
		{"minus", "select " + strings.Repeat("- ", 20000) + "a", "nests deeper than"},
		{"case", "select " + strings.Repeat("case when ", 20000), "nests deeper than"},
		{"sub-queries", "select * from " + strings.Repeat("(select * from ", 20000), "nests deeper than"},
		{"sources", "select * from " + strings.Repeat("(", 20000) + "t", "nests deeper than"},
		{"types", "select cast(a as " + strings.Repeat("array<", 20000), "nests deeper than"},
		{"explain", strings.Repeat("explain ", 20000) + "select 1", "nests deeper than"},
		{"terms", "select a" + strings.Repeat(" or a", 20000), "more than 10000 operators"},
		{"index", "select a" + strings.Repeat("[1]", 20000), "more than 10000 operators"},
		{"fields", "select a" + strings.Repeat(".a", 20000), "more than 10000 operators"},
		{"joins", "select 1 from a" + strings.Repeat(" join a", 20000), "more than 500 joins"},
		{"commas", "select 1 from a" + strings.Repeat(", a", 20000), "more than 500 joins"},
		{"unions", "select 1" + strings.Repeat(" union all select 1", 20000), "more than 500 set operations"},
	} {
		_, err := Parse(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
	// Within the limits all is well.
	if _, err := Parse("select a" + strings.Repeat(" or a", 9999)); err != nil {
		t.Error(err)
	}
	if _, err := Parse("select " + strings.Repeat("(", 150) + "1" + strings.Repeat(")", 150)); err != nil {
		t.Error(err)
	}
}

// FuzzParse: no input makes the parser panic or hang; what parses prints to
// text that parses to the same; errors are the user's and have a place.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"select a, b.c, count(*) n from t x join u y on x.a = y.b where not a = 1 group by a having count(*) > 1 order by n desc nulls last limit 5, 10",
		"create table if not exists d.t (id bigint not null, `a b` string comment 'x', primary key (id)) split into 4 row format delimited fields terminated by '\\t' tblproperties('a'='b')",
		"with q as (select 1) select case when a then 'b' 'c' else -1.5e3 end, cast(x as decimal(3,1)) from (select * from q) t lateral view explode(a) e as b",
		"insert overwrite table t (a, b) values (1, null), (2BD, 3Y); load data local inpath 'x' into table t; set a=b; show tables like 'x*'",
		"select sum(a) over (partition by b order by c rows between 1 preceding and current row), interval '1-2' year to month, a[1].b, x in (select 1)",
		"select '\\u0041\\101\\%\\'', \"x\", .5, 1abc, 100L --c\n/* d */", "'", "`", "/*", "select 1 union all (select 2 order by 1)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		stmts, err := Parse(text)
		if err != nil {
			line, column := fault.PlaceOf(err)
			if fault.ClassOf(err) != fault.User || line < 1 || column < 1 {
				t.Fatalf("error %v has class %s and place %d:%d", err, fault.ClassOf(err), line, column)
			}
			Caret(text, line, column)
		}
		for _, s := range stmts {
			switch s.(type) {
			case *ast.Unsupported, *ast.Set: // printed as they came
			default:
				checkRoundTrip(t, ast.Print(s))
			}
		}
	})
}
