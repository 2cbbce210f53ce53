package parser

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/skepdb/skep/sql/ast"
	"github.com/xwb1989/sqlparser"
)

// TestAgainstSQLParser parses random queries with another parser, of MySQL's language, and
// compares the trees. The queries keep to what both languages mean alike: no || and ^,
// no chains of comparisons, whose ranks differ.
func TestAgainstSQLParser(t *testing.T) {
	for seed := range uint64(3000) {
		g := &generator{rand.New(rand.NewPCG(seed, 1))}
		text := g.query(2)
		theirs, err := sqlparser.Parse(text)
		if err != nil {
			t.Fatalf("seed %d: the other parser refuses %s: %v", seed, text, err)
		}
		stmts, err := Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		got, want := ownQuery(stmts[0].(*ast.QueryStatement).Query), theirQuery(theirs.(sqlparser.SelectStatement))
		if got != want {
			t.Fatalf("seed %d: %s\n got %s\nwant %s", seed, text, got, want)
		}
	}
}

// generator makes text of queries.
type generator struct{ *rand.Rand }

func (g *generator) pick(words ...string) string { return words[g.IntN(len(words))] }

func (g *generator) query(depth int) string {
	q := "select " + g.pick("", "distinct ") + g.value(depth) + g.pick("", " as n") + ", " + g.value(depth-1) + " from " + g.source(depth)
	if g.IntN(2) == 0 {
		q += " where " + g.condition(depth)
	}
	if g.IntN(3) == 0 {
		q += " group by " + g.value(0) + ", " + g.value(1)
		if g.IntN(2) == 0 {
			q += " having " + g.condition(1)
		}
	}
	if g.IntN(3) == 0 {
		q += " order by " + g.value(1) + g.pick("", " asc", " desc") + ", b"
	}
	if g.IntN(3) == 0 {
		q += " limit " + g.pick("5", "2, 7", "7 offset 2")
	}
	return q
}

func (g *generator) source(depth int) string {
	s := g.pick("t", "d.t", "t as u", "t u")
	if depth > 0 && g.IntN(4) == 0 {
		s = "(" + g.query(depth-1) + ") as s"
	}
	if g.IntN(3) == 0 {
		s += g.pick(" join ", " left join ", " right join ", " left outer join ") + "v on " + g.condition(depth-1)
	}
	return s
}

// value is an operand of a comparison: arithmetic, calls and CASE.
func (g *generator) value(depth int) string {
	if depth <= 0 {
		return g.pick("a", "b", "t.c", "1", "25", "'x y'", "2.5", "null", "`d e`")
	}
	switch g.IntN(8) {
	case 0:
		return "(" + g.value(depth-1) + ")"
	case 1:
		return "f(" + g.value(depth-1) + ", " + g.value(depth-1) + ")"
	case 2:
		return "case when " + g.condition(depth-1) + " then " + g.value(depth-1) + " else " + g.value(0) + " end"
	case 3:
		return "-" + g.pick("a", "t.c", "f(b)")
	case 4:
		return "count(distinct " + g.value(0) + ")"
	}
	return g.value(depth-1) + g.pick(" + ", " - ", " * ", " / ", " % ", " & ", " | ", " div ") + g.value(depth-1)
}

func (g *generator) condition(depth int) string {
	if depth > 0 && g.IntN(2) == 0 {
		return g.condition(depth-1) + g.pick(" and ", " or ") + g.pick("", "not ") + g.condition(depth-1)
	}
	v := g.value(max(depth, 0))
	switch g.IntN(7) {
	case 0:
		return v + " between " + g.value(0) + " and " + g.value(1)
	case 1:
		return v + g.pick(" in ", " not in ") + "(1, 'b', " + g.value(0) + ")"
	case 2:
		return v + g.pick(" like ", " not like ") + "'a%'"
	case 3:
		return g.value(0) + g.pick(" is null", " is not null")
	case 4:
		return "(" + g.condition(depth-1) + ")"
	case 5:
		if depth > 0 {
			return "exists (" + g.query(depth-1) + ")"
		}
	}
	return v + g.pick(" = ", " < ", " > ", " <= ", " >= ", " <> ", " != ", " <=> ") + g.value(max(depth-1, 0))
}

func ownQuery(q *ast.Query) string {
	s := q.Body.(*ast.Select)
	var b strings.Builder
	fmt.Fprintf(&b, "select distinct=%t", s.Distinct)
	for _, it := range s.Items {
		fmt.Fprintf(&b, " %s:%s", own(it.X), it.Alias)
	}
	fmt.Fprintf(&b, " from %s", ownSource(s.From))
	if s.Where != nil {
		b.WriteString(" where " + own(s.Where))
	}
	for _, e := range s.GroupBy {
		b.WriteString(" group " + own(e))
	}
	if s.Having != nil {
		b.WriteString(" having " + own(s.Having))
	}
	for _, o := range q.OrderBy {
		fmt.Fprintf(&b, " order %s %t", own(o.X), o.Desc)
	}
	if q.Limit != nil {
		b.WriteString(" limit " + own(q.Limit))
	}
	if q.Offset != nil {
		b.WriteString(" offset " + own(q.Offset))
	}
	return b.String()
}

func ownSource(r ast.TableRef) string {
	switch r := r.(type) {
	case *ast.TableName:
		parts := make([]string, len(r.Name.Parts))
		for i, p := range r.Name.Parts {
			parts[i] = p.Name
		}
		return strings.Join(parts, ".") + ":" + r.Alias
	case *ast.Derived:
		return "(" + ownQuery(r.Query) + "):" + r.Alias
	case *ast.Join:
		return fmt.Sprintf("[%s %s %s on %s]", ownSource(r.L), r.Kind, ownSource(r.R), own(r.On))
	}
	return fmt.Sprintf("%T", r)
}

func own(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Column:
		return e.Name
	case *ast.Field:
		return own(e.Base) + "." + e.Name
	case *ast.Literal:
		return e.Value.Text()
	case *ast.Unary:
		return "(" + e.Op + " " + own(e.X) + ")"
	case *ast.Binary:
		return "(" + own(e.L) + " " + e.Op + " " + own(e.R) + ")"
	case *ast.Between:
		return fmt.Sprintf("(%s between %s %s)", own(e.X), own(e.Low), own(e.High))
	case *ast.In:
		return fmt.Sprintf("(%s in not=%t %s)", own(e.X), e.Not, owns(e.List))
	case *ast.Like:
		return fmt.Sprintf("(%s like not=%t %s)", own(e.X), e.Not, owns(e.Patterns))
	case *ast.Is:
		return fmt.Sprintf("(%s is not=%t %s)", own(e.X), e.Not, e.What)
	case *ast.Exists:
		return "exists(" + ownQuery(e.Query) + ")"
	case *ast.Case:
		out := "case"
		for _, w := range e.Whens {
			out += " " + own(w.Cond) + ":" + own(w.Then)
		}
		return out + " else " + own(e.Else)
	case *ast.Call:
		return fmt.Sprintf("%s(distinct=%t %s)", e.Name.Name, e.Distinct, owns(e.Args))
	}
	return fmt.Sprintf("%T", e)
}

func owns(es []ast.Expr) string {
	parts := make([]string, len(es))
	for i, e := range es {
		parts[i] = own(e)
	}
	return strings.Join(parts, ", ")
}

func theirQuery(q sqlparser.SelectStatement) string {
	s, ok := q.(*sqlparser.Select)
	if !ok {
		return fmt.Sprintf("%T", q)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "select distinct=%t", s.Distinct != "")
	for _, it := range s.SelectExprs {
		a := it.(*sqlparser.AliasedExpr)
		fmt.Fprintf(&b, " %s:%s", their(a.Expr), a.As.String())
	}
	fmt.Fprintf(&b, " from %s", theirSource(s.From[0]))
	if s.Where != nil {
		b.WriteString(" where " + their(s.Where.Expr))
	}
	for _, e := range s.GroupBy {
		b.WriteString(" group " + their(e))
	}
	if s.Having != nil {
		b.WriteString(" having " + their(s.Having.Expr))
	}
	for _, o := range s.OrderBy {
		fmt.Fprintf(&b, " order %s %t", their(o.Expr), o.Direction == "desc")
	}
	if s.Limit != nil {
		b.WriteString(" limit " + their(s.Limit.Rowcount))
		if s.Limit.Offset != nil {
			b.WriteString(" offset " + their(s.Limit.Offset))
		}
	}
	return b.String()
}

func theirSource(t sqlparser.TableExpr) string {
	switch t := t.(type) {
	case *sqlparser.AliasedTableExpr:
		if n, ok := t.Expr.(sqlparser.TableName); ok {
			name := n.Name.String()
			if q := n.Qualifier.String(); q != "" {
				name = q + "." + name
			}
			return name + ":" + t.As.String()
		}
		if q, ok := t.Expr.(*sqlparser.Subquery); ok {
			return "(" + theirQuery(q.Select) + "):" + t.As.String()
		}
	case *sqlparser.JoinTableExpr:
		kind := strings.TrimSpace(strings.TrimSuffix(t.Join, "join"))
		if kind == "" {
			kind = "inner"
		}
		return fmt.Sprintf("[%s %s %s on %s]", theirSource(t.LeftExpr), kind, theirSource(t.RightExpr), their(t.Condition.On))
	}
	return fmt.Sprintf("%T", t)
}

func their(e sqlparser.Expr) string {
	switch e := e.(type) {
	case *sqlparser.ColName:
		if q := e.Qualifier.Name.String(); q != "" {
			return q + "." + e.Name.String()
		}
		return e.Name.String()
	case *sqlparser.SQLVal:
		return string(e.Val)
	case *sqlparser.NullVal:
		return "NULL"
	case *sqlparser.ParenExpr:
		return their(e.Expr)
	case *sqlparser.UnaryExpr:
		return "(" + strings.TrimSpace(e.Operator) + " " + their(e.Expr) + ")"
	case *sqlparser.BinaryExpr:
		return "(" + their(e.Left) + " " + e.Operator + " " + their(e.Right) + ")"
	case *sqlparser.AndExpr:
		return "(" + their(e.Left) + " and " + their(e.Right) + ")"
	case *sqlparser.OrExpr:
		return "(" + their(e.Left) + " or " + their(e.Right) + ")"
	case *sqlparser.NotExpr:
		return "(not " + their(e.Expr) + ")"
	case *sqlparser.RangeCond:
		return fmt.Sprintf("(%s between %s %s)", their(e.Left), their(e.From), their(e.To))
	case *sqlparser.IsExpr:
		return fmt.Sprintf("(%s is not=%t null)", their(e.Expr), e.Operator == sqlparser.IsNotNullStr)
	case *sqlparser.ExistsExpr:
		return "exists(" + theirQuery(e.Subquery.Select) + ")"
	case *sqlparser.ComparisonExpr:
		switch e.Operator {
		case sqlparser.InStr, sqlparser.NotInStr:
			list := e.Right.(sqlparser.ValTuple)
			parts := make([]string, len(list))
			for i, x := range list {
				parts[i] = their(x)
			}
			return fmt.Sprintf("(%s in not=%t %s)", their(e.Left), e.Operator == sqlparser.NotInStr, strings.Join(parts, ", "))
		case sqlparser.LikeStr, sqlparser.NotLikeStr:
			return fmt.Sprintf("(%s like not=%t %s)", their(e.Left), e.Operator == sqlparser.NotLikeStr, their(e.Right))
		}
		op := e.Operator
		if op == "!=" {
			op = "<>"
		}
		return "(" + their(e.Left) + " " + op + " " + their(e.Right) + ")"
	case *sqlparser.CaseExpr:
		out := "case"
		for _, w := range e.Whens {
			out += " " + their(w.Cond) + ":" + their(w.Val)
		}
		return out + " else " + their(e.Else)
	case *sqlparser.FuncExpr:
		parts := make([]string, len(e.Exprs))
		for i, x := range e.Exprs {
			parts[i] = their(x.(*sqlparser.AliasedExpr).Expr)
		}
		return fmt.Sprintf("%s(distinct=%t %s)", e.Name.String(), e.Distinct, strings.Join(parts, ", "))
	}
	return fmt.Sprintf("%T", e)
}
