package parser

import (
	"math"
	"strconv"
	"strings"

	"github.com/skepdb/skep/sql/ast"
)

// joinKinds in the order they are tried.
var joinKinds = []struct {
	words []string
	kind  string
}{
	{[]string{"JOIN"}, "inner"}, {[]string{"INNER", "JOIN"}, "inner"}, {[]string{"CROSS", "JOIN"}, "cross"},
	{[]string{"LEFT", "JOIN"}, "left"}, {[]string{"LEFT", "OUTER", "JOIN"}, "left"},
	{[]string{"RIGHT", "JOIN"}, "right"}, {[]string{"RIGHT", "OUTER", "JOIN"}, "right"},
	{[]string{"FULL", "JOIN"}, "full"}, {[]string{"FULL", "OUTER", "JOIN"}, "full"},
	{[]string{"LEFT", "SEMI", "JOIN"}, "left semi"}, {[]string{"LEFT", "ANTI", "JOIN"}, "left anti"},
}

// from reads the sources of FROM, from left to right: a comma is a join like
// the others, of the same precedence.
func (p *parser) from() ast.TableRef {
	left := p.source()
next:
	for n := 0; p.err == nil; n++ {
		pos := p.peek().pos
		if n >= maxNesting {
			p.fail(syntaxError(pos, "more than %d joins in one FROM", maxNesting))
			break
		}
		if p.at("LATERAL", "VIEW") {
			left = p.lateralView(left)
			continue
		}
		if p.at(",", "LATERAL", "TABLE") || p.at("LATERAL", "TABLE") {
			p.accept(",")
			left = p.lateralTable(left)
			continue
		}
		if p.accept(",") {
			left = &ast.Join{Pos: pos, Kind: "cross", L: left, R: p.source()}
			continue
		}
		for _, k := range joinKinds {
			if !p.accept(k.words...) {
				continue
			}
			j := &ast.Join{Pos: pos, Kind: k.kind, L: left, R: p.source()}
			switch {
			case p.accept("ON"):
				j.On = p.expr()
			case p.accept("USING"):
				j.Using = p.identList("a column name")
			}
			left = j
			continue next
		}
		break
	}
	return left
}

func (p *parser) lateralView(source ast.TableRef) ast.TableRef {
	v := &ast.LateralView{Pos: p.peek().pos, Source: source}
	p.expect("LATERAL", "VIEW")
	v.Outer = p.accept("OUTER")
	t := p.peek()
	call, ok := p.expr().(*ast.Call)
	if !ok {
		p.fail(syntaxError(t.pos, "LATERAL VIEW wants a call of a table-generating function"))
		return v
	}
	v.Call = call
	if isName(p.peek()) {
		v.Alias = p.next().text
	}
	if p.accept("AS") {
		for {
			v.Columns = append(v.Columns, p.ident("a column name"))
			if !p.accept(",") {
				break
			}
		}
	}
	return v
}

// source reads a table, a sub-query or sources in parentheses.
func (p *parser) source() ast.TableRef {
	t := p.peek()
	if !p.enter() {
		return &ast.TableName{Pos: t.pos}
	}
	defer p.leave()
	if t.is("VALUES") {
		return p.valuesSource()
	}
	if p.at("TABLE", "(", "VALUES") {
		p.next()
		return p.valuesSource()
	}
	if !t.is("(") {
		if t.is("UNIQUEJOIN") {
			p.unsupported(t.pos, "UNIQUEJOIN")
		}
		if isName(t) && p.peekAt(1).is("(") && p.peekAt(2).is("ON") {
			return p.tableFunction()
		}
		s := &ast.TableName{Pos: t.pos, Name: p.name("a table name")}
		switch u := p.peek(); {
		case p.at("FOR", "SYSTEM_TIME"), p.at("FOR", "SYSTEM_VERSION"):
			s.AsOf = &ast.AsOf{Pos: u.pos, Version: p.peekAt(1).is("SYSTEM_VERSION")}
			p.i += 2
			p.expect("AS", "OF")
			s.AsOf.X = p.expr()
		}
		if p.at("TABLESAMPLE") {
			s.Sample = p.sample()
		}
		s.Alias = p.alias()
		if s.Alias != "" && p.at("(") && isName(p.peekAt(1)) {
			s.Columns = p.identList("a column name")
		}
		if s.Sample == nil && p.at("TABLESAMPLE") {
			s.Sample = p.sample()
		}
		return s
	}
	// Either a query or sources: ((select ..) union ..) t, (a join b on ..).
	deep := 0
	for deep <= maxNesting && p.peekAt(deep).is("(") {
		deep++
	}
	if first := p.peekAt(deep); !first.is("SELECT") && !first.is("WITH") && !first.is("VALUES") && !first.is("FROM") || p.sourcesInside() {
		p.next()
		inner := p.from()
		p.expect(")")
		return inner
	}
	p.next()
	d := &ast.Derived{Pos: t.pos, Query: p.query()}
	p.expect(")")
	d.Alias = p.alias()
	if _, values := d.Query.Body.(*ast.ValuesBody); d.Alias == "" && p.err == nil && !values {
		p.fail(syntaxError(t.pos, "a sub-query in FROM needs an alias: (SELECT ..) t"))
	}
	if p.at("(") {
		d.Columns = p.identList("a column name")
	}
	return d
}

// sourcesInside reports whether the parenthesis here holds sources that begin
// with a sub-query, ((select ..) a join b), and not a query: what follows the
// inner closing parenthesis tells.
func (p *parser) sourcesInside() bool {
	if !p.at("(", "(") {
		return false
	}
	depth := 0
	for n := 1; ; n++ {
		switch t := p.peekAt(n); {
		case t.kind == tokEOF:
			return false
		case t.is("("):
			depth++
		case t.is(")"):
			if depth--; depth == 0 {
				after := p.peekAt(n + 1)
				return after.is("AS") || isName(after) && !isClauseWord(after.upper)
			}
		}
	}
}

// alias reads [AS] alias, or "".
func (p *parser) alias() string {
	if p.accept("AS") {
		return p.ident("an alias name").Name
	}
	if t := p.peek(); isName(t) && !(t.kind == tokWord && isClauseWord(t.upper)) {
		return p.next().text
	}
	return ""
}

// valuesSource reads VALUES (..), .. or (VALUES ..), with an alias and column
// names behind it, as a source.
func (p *parser) valuesSource() ast.TableRef {
	t := p.peek()
	d := &ast.Derived{Pos: t.pos, Query: &ast.Query{Pos: t.pos}}
	if p.accept("(") {
		d.Query.Body = p.valuesBody()
		p.expect(")")
	} else {
		d.Query.Body = p.valuesBody()
	}
	d.Alias = p.alias()
	if d.Alias != "" && p.at("(") {
		d.Columns = p.identList("a column name")
	}
	return d
}

// lateralTable reads LATERAL TABLE(VALUES (..), ..) AS t(a, b), whose values may use
// columns of the source before it: a lateral view of inline(array(struct(..), ..)).
func (p *parser) lateralTable(source ast.TableRef) ast.TableRef {
	v := &ast.LateralView{Pos: p.peek().pos, Source: source}
	p.expect("LATERAL", "TABLE", "(")
	pos := p.peek().pos
	call := func(name string, args []ast.Expr) *ast.Call {
		return &ast.Call{Pos: pos, Name: ast.Ident{Pos: pos, Name: name}, Args: args}
	}
	values, ok := p.valuesBody().(*ast.ValuesBody)
	p.expect(")")
	if !ok || p.err != nil {
		return v
	}
	var rows []ast.Expr
	for _, row := range values.Rows {
		rows = append(rows, call("struct", row))
	}
	v.Call = call("inline", []ast.Expr{call("array", rows)})
	v.Alias = p.alias()
	if p.at("(") {
		v.Columns = p.identList("a column name")
	}
	return v
}

// tableFunction reads f(ON source PARTITION BY .. ORDER BY ..) alias. How its input
// is partitioned and sorted means nothing to the functions that there are.
func (p *parser) tableFunction() ast.TableRef {
	f := &ast.TableFunction{Pos: p.peek().pos, Name: p.ident("a function name")}
	p.expect("(", "ON")
	if p.at("(") {
		p.next()
		d := &ast.Derived{Pos: f.Pos, Query: p.query()}
		p.expect(")")
		d.Alias = p.alias()
		f.Source = d
	} else {
		f.Source = p.source()
	}
	for p.err == nil && !p.at(")") {
		switch {
		case p.accept("PARTITION", "BY"), p.accept("DISTRIBUTE", "BY"), p.accept("CLUSTER", "BY"):
			p.exprList()
		case p.accept("ORDER", "BY"), p.accept("SORT", "BY"):
			p.orderItems()
		default:
			p.unsupported(p.peek().pos, "arguments of table function "+f.Name.Name)
		}
	}
	p.expect(")")
	f.Alias = p.alias()
	return f
}

// sample reads TABLESAMPLE (..).
func (p *parser) sample() *ast.Sample {
	s := &ast.Sample{Pos: p.peek().pos}
	p.expect("TABLESAMPLE", "(")
	if p.accept("BUCKET") {
		s.Kind = "bucket"
		s.N = float64(p.number("a bucket number", 1<<30))
		p.expect("OUT", "OF")
		s.Of = int64(p.number("a number of buckets", 1<<30))
		if p.accept("ON") {
			s.On = p.exprList()
		}
		p.expect(")")
		return s
	}
	t := p.peek()
	if n, unit := byteLength(t.text); t.kind == tokWord && n > 0 {
		p.next()
		s.Kind, s.N = "bytes", float64(n)*unit
		p.expect(")")
		return s
	}
	n, err := strconv.ParseFloat(t.text, 64)
	if t.kind != tokNumber || err != nil || math.IsInf(n, 0) {
		p.unexpected("a number of ROWS or PERCENT, a size such as 10M, or BUCKET")
		return s
	}
	p.next()
	s.N = n
	switch {
	case p.accept("PERCENT"):
		s.Kind = "percent"
	case p.accept("ROWS"):
		s.Kind = "rows"
		if n != math.Trunc(n) || n > 1<<53 {
			p.fail(syntaxError(t.pos, "%s is not a number of rows", t.text))
		}
	default:
		p.unexpected("PERCENT or ROWS")
	}
	p.expect(")")
	return s
}

// byteLength reads 100b, 10k, 5M, 1g: a number and its unit; 0 if it is none.
func byteLength(text string) (n int64, unit float64) {
	if len(text) < 2 {
		return 0, 0
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 53)
	shift := strings.IndexByte("bkmg", text[len(text)-1]|0x20)
	if err != nil || shift < 0 {
		return 0, 0
	}
	return n, float64(int64(1) << (10 * shift))
}
