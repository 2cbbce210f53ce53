package parser

import (
	"strings"

	"github.com/skepdb/skep/sql/ast"
)

// query reads [WITH ..] body [ORDER BY ..] [LIMIT ..]: all but the parentheses
// around it.
func (p *parser) query() *ast.Query {
	q := &ast.Query{Pos: p.peek().pos}
	if !p.enter() {
		return q
	}
	defer p.leave()
	if p.accept("WITH") {
		for {
			c := ast.CTE{Pos: p.peek().pos, Name: p.ident("the name of a common table expression")}
			if p.at("(") {
				c.Columns = p.identList("a column name")
			}
			p.expect("AS", "(")
			c.Query = p.query()
			p.expect(")")
			q.With = append(q.With, c)
			if !p.accept(",") {
				break
			}
		}
	}
	q.Body = p.body()
	if p.accept("ORDER", "BY") {
		q.OrderBy = p.orderItems()
	}
	if p.accept("CLUSTER", "BY") {
		q.ClusterBy = p.exprList()
	}
	if p.accept("DISTRIBUTE", "BY") {
		q.DistributeBy = p.exprList()
	}
	if p.accept("SORT", "BY") {
		q.SortBy = p.orderItems()
	}
	if p.accept("LIMIT") {
		q.Limit = p.expr()
		switch {
		case p.accept(","):
			q.Offset, q.Limit = q.Limit, p.expr()
		case p.accept("OFFSET"):
			q.Offset = p.expr()
		}
	}
	return q
}

// setOperator reads UNION|INTERSECT|EXCEPT|MINUS [ALL|DISTINCT].
func (p *parser) setOperator() (op string, all, ok bool) {
	switch {
	case p.accept("UNION"):
		op = "union"
	case p.accept("INTERSECT"):
		op = "intersect"
	case p.accept("EXCEPT"), p.accept("MINUS"):
		op = "except"
	default:
		return "", false, false
	}
	if all = p.accept("ALL"); !all {
		p.accept("DISTINCT")
	}
	return op, all, true
}

// body reads selects joined by set operators: all of one precedence, from left
// to right.
func (p *parser) body() ast.Body {
	left := p.bodyTerm()
	for terms := 0; p.err == nil; terms++ {
		pos := p.peek().pos
		op, all, ok := p.setOperator()
		if !ok {
			return left
		}
		if terms >= maxNesting {
			p.fail(syntaxError(pos, "more than %d set operations in one query", maxNesting))
			break
		}
		left = &ast.SetOp{Pos: pos, Op: op, All: all, L: left, R: p.bodyTerm()}
	}
	return left
}

func (p *parser) bodyTerm() ast.Body {
	switch t := p.peek(); {
	case t.is("SELECT"):
		return p.selectBody()
	case t.is("VALUES"):
		return p.valuesBody()
	case t.is("TABLE"):
		p.unsupported(t.pos, "TABLE as a query")
	case t.is("("):
		p.next()
		q := p.query()
		p.expect(")")
		return q
	default:
		p.unexpected("SELECT, VALUES or a query in parentheses")
	}
	return &ast.Select{Pos: p.peek().pos}
}

func (p *parser) valuesBody() ast.Body {
	v := &ast.ValuesBody{Pos: p.peek().pos}
	p.expect("VALUES")
	for {
		var row []ast.Expr
		if p.at("(") {
			p.next()
			row = p.exprList()
			p.expect(")")
		} else {
			row = []ast.Expr{p.expr()}
		}
		v.Rows = append(v.Rows, row)
		if !p.accept(",") {
			return v
		}
	}
}

func (p *parser) selectBody() ast.Body {
	s := &ast.Select{Pos: p.peek().pos}
	p.expect("SELECT")
	if s.Distinct = p.accept("DISTINCT"); !s.Distinct {
		p.accept("ALL")
	}
	if p.at("TRANSFORM", "(") {
		p.unsupported(p.peek().pos, "SELECT TRANSFORM")
	}
	for {
		s.Items = append(s.Items, p.selectItem())
		if !p.accept(",") {
			break
		}
	}
	if p.accept("FROM") {
		s.From = p.from()
	}
	if p.accept("WHERE") {
		s.Where = p.expr()
	}
	if p.accept("GROUP", "BY") {
		p.groupBy(s)
	}
	if p.accept("HAVING") {
		s.Having = p.expr()
	}
	for p.accept("WINDOW") {
		for {
			w := ast.Window{Pos: p.peek().pos}
			name := p.ident("a window name").Name
			p.expect("AS")
			spec := p.window()
			w.PartitionBy, w.OrderBy, w.Frame, w.Name = spec.PartitionBy, spec.OrderBy, spec.Frame, name
			s.Windows = append(s.Windows, w)
			if !p.accept(",") {
				break
			}
		}
	}
	if p.accept("QUALIFY") {
		s.Qualify = p.expr()
	}
	switch t := p.peek(); {
	case p.err != nil, t.kind == tokEOF, t.is(")"), t.is("ORDER"), t.is("LIMIT"), t.is("SORT"), t.is("CLUSTER"), t.is("DISTRIBUTE"),
		t.is("UNION"), t.is("INTERSECT"), t.is("EXCEPT"), t.is("MINUS"):
	case s.From == nil && s.Where == nil:
		p.unexpected("',', FROM or end of statement")
	case s.Where == nil && s.GroupBy == nil && s.Having == nil:
		p.unexpected("',', a join, WHERE, GROUP BY, ORDER BY, LIMIT or end of statement")
	default:
		p.unexpected("AND, OR, GROUP BY, HAVING, ORDER BY, LIMIT or end of statement")
	}
	return s
}

func (p *parser) selectItem() ast.SelectItem {
	item := ast.SelectItem{Pos: p.peek().pos, X: p.expr()}
	if p.accept("AS") {
		switch {
		case p.at("("):
			item.Aliases = p.identList("a column name")
		default:
			item.Alias = p.ident("an alias name").Name
		}
		return item
	}
	if t := p.peek(); isName(t) && !(t.kind == tokWord && isClauseWord(t.upper)) {
		item.Alias = p.next().text
	}
	return item
}

func (p *parser) groupBy(s *ast.Select) {
	if p.at("ROLLUP", "(") || p.at("CUBE", "(") {
		s.GroupingSet = strings.ToLower(p.next().upper)
		p.expect("(")
		s.GroupBy = p.exprList()
		p.expect(")")
		return
	}
	if p.at("(", ")") {
		p.unsupported(p.peek().pos, "GROUP BY ()")
		return
	}
	s.GroupBy = p.exprList()
	switch {
	case p.accept("WITH", "ROLLUP"):
		s.GroupingSet = "rollup"
	case p.accept("WITH", "CUBE"):
		s.GroupingSet = "cube"
	case p.accept("GROUPING", "SETS"):
		s.GroupingSet = "sets"
		p.expect("(")
		for {
			var set []ast.Expr
			switch {
			case p.accept("(", ")"):
			case p.accept("("):
				set = p.exprList()
				p.expect(")")
			default:
				set = []ast.Expr{p.expr()}
			}
			s.Sets = append(s.Sets, set)
			if !p.accept(",") {
				break
			}
		}
		p.expect(")")
	}
}

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
	if !t.is("(") {
		if t.is("TABLE") || t.is("UNIQUEJOIN") {
			p.unsupported(t.pos, "FROM "+t.upper)
		}
		s := &ast.TableName{Pos: t.pos, Name: p.name("a table name")}
		switch u := p.peek(); {
		case u.is("TABLESAMPLE"):
			p.unsupported(u.pos, "TABLESAMPLE")
		case p.at("FOR", "SYSTEM_TIME"), p.at("FOR", "SYSTEM_VERSION"):
			s.AsOf = &ast.AsOf{Pos: u.pos, Version: p.peekAt(1).is("SYSTEM_VERSION")}
			p.i += 2
			p.expect("AS", "OF")
			s.AsOf.X = p.expr()
		}
		s.Alias = p.alias()
		return s
	}
	// Either a query or sources: ((select ..) union ..) t, (a join b on ..).
	deep := 0
	for deep <= maxNesting && p.peekAt(deep).is("(") {
		deep++
	}
	if first := p.peekAt(deep); !first.is("SELECT") && !first.is("WITH") && !first.is("VALUES") || p.sourcesInside() {
		p.next()
		inner := p.from()
		p.expect(")")
		return inner
	}
	p.next()
	d := &ast.Derived{Pos: t.pos, Query: p.query()}
	p.expect(")")
	d.Alias = p.alias()
	if d.Alias == "" && p.err == nil {
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

func (p *parser) orderItems() []ast.OrderItem {
	var out []ast.OrderItem
	for {
		o := ast.OrderItem{Pos: p.peek().pos, X: p.expr()}
		if o.Desc = p.accept("DESC"); !o.Desc {
			p.accept("ASC")
		}
		if p.accept("NULLS") {
			first := p.accept("FIRST")
			if !first {
				if !p.accept("LAST") {
					p.unexpected("FIRST or LAST")
				}
			}
			o.NullsFirst = &first
		}
		out = append(out, o)
		if !p.accept(",") {
			return out
		}
	}
}

// window reads what follows OVER: a name or (..).
func (p *parser) window() *ast.Window {
	w := &ast.Window{Pos: p.peek().pos}
	if !p.at("(") {
		w.Name = p.ident("a window name").Name
		return w
	}
	p.next()
	if t := p.peek(); isName(t) && !t.is("DISTRIBUTE") && !t.is("SORT") && !t.is("CLUSTER") {
		w.Name = p.next().text
	}
	if p.accept("PARTITION", "BY") || p.accept("DISTRIBUTE", "BY") {
		w.PartitionBy = p.exprList()
	}
	if p.accept("ORDER", "BY") || p.accept("SORT", "BY") {
		w.OrderBy = p.orderItems()
	}
	if t := p.peek(); t.is("ROWS") || t.is("RANGE") {
		p.next()
		f := &ast.Frame{Pos: t.pos, Unit: strings.ToLower(t.upper)}
		if p.accept("BETWEEN") {
			f.Start = p.bound()
			p.expect("AND")
			f.End = p.bound()
		} else {
			f.Start = p.bound()
			f.End = ast.Bound{Kind: "current row"}
		}
		w.Frame = f
	}
	p.expect(")")
	return w
}

func (p *parser) bound() ast.Bound {
	switch {
	case p.accept("UNBOUNDED", "PRECEDING"):
		return ast.Bound{Kind: "unbounded preceding"}
	case p.accept("UNBOUNDED", "FOLLOWING"):
		return ast.Bound{Kind: "unbounded following"}
	case p.accept("CURRENT", "ROW"):
		return ast.Bound{Kind: "current row"}
	}
	b := ast.Bound{N: p.binary(levelBitOr)}
	switch {
	case p.accept("PRECEDING"):
		b.Kind = "preceding"
	case p.accept("FOLLOWING"):
		b.Kind = "following"
	default:
		p.unexpected("PRECEDING or FOLLOWING")
	}
	return b
}
