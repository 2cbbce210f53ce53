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
	if p.at("WITH") {
		q.With = p.with()
	}
	q.Body = p.body()
	p.ordering(q)
	if t := p.peek(); t.is("UNION") || t.is("INTERSECT") || t.is("EXCEPT") || t.is("MINUS") {
		// SELECT .. LIMIT 5 UNION ..: what came so far is an operand
		outer := &ast.Query{Pos: q.Pos}
		outer.With, q.With = q.With, nil
		outer.Body = p.setOperations(q)
		p.ordering(outer)
		return outer
	}
	return q
}

// ordering reads ORDER BY and its kin, and LIMIT.
func (p *parser) ordering(q *ast.Query) {
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
}

// with reads WITH a AS (query), ...
func (p *parser) with() []ast.CTE {
	var out []ast.CTE
	p.expect("WITH")
	for {
		c := ast.CTE{Pos: p.peek().pos, Name: p.ident("the name of a common table expression")}
		if p.at("(") {
			c.Columns = p.identList("a column name")
		}
		p.expect("AS", "(")
		c.Query = p.query()
		p.expect(")")
		out = append(out, c)
		if !p.accept(",") {
			return out
		}
	}
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
func (p *parser) body() ast.Body { return p.setOperations(p.bodyTerm()) }

// setOperations reads the set operators behind left, and their right sides.
func (p *parser) setOperations(left ast.Body) ast.Body {
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
	case t.is("FROM"): // FROM x SELECT ..
		p.next()
		return p.selectAfter(p.from())
	case t.is("TABLE"): // TABLE t is SELECT * FROM t
		p.next()
		s := &ast.Select{Pos: t.pos, Items: []ast.SelectItem{{Pos: t.pos, X: &ast.Star{Pos: t.pos}}}}
		s.From = &ast.TableName{Pos: p.peek().pos, Name: p.name("a table name")}
		return s
	case t.is("("):
		p.next()
		q := p.query()
		p.expect(")")
		return q
	default:
		p.unexpected("SELECT, FROM, VALUES or a query in parentheses")
	}
	return &ast.Select{Pos: p.peek().pos}
}

// namedList reads expressions of which some may have a name behind them: 1 AS a, 2 b.
func (p *parser) namedList() (list []ast.Expr, names []string) {
	for n := 0; ; n++ {
		list = append(list, p.expr())
		if name := p.alias(); name != "" {
			for len(names) < n {
				names = append(names, "")
			}
			names = append(names, name)
		}
		if !p.accept(",") {
			return list, names
		}
	}
}

func (p *parser) valuesBody() ast.Body {
	v := &ast.ValuesBody{Pos: p.peek().pos}
	p.expect("VALUES")
	for {
		var row []ast.Expr
		if p.at("(") {
			p.next()
			var names []string
			row, names = p.namedList()
			p.expect(")")
			if len(v.Rows) == 0 {
				v.Names = names
			}
		} else {
			row = []ast.Expr{p.expr()}
		}
		v.Rows = append(v.Rows, row)
		if !p.accept(",") {
			return v
		}
	}
}

func (p *parser) selectBody() ast.Body { return p.selectAfter(nil) }

// selectAfter reads a SELECT; from, if not nil, stood before it.
func (p *parser) selectAfter(from ast.TableRef) ast.Body {
	s := &ast.Select{Pos: p.peek().pos, From: from}
	if t := p.peek(); t.is("MAP") || t.is("REDUCE") {
		p.unsupported(t.pos, t.upper+" .. USING")
	}
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
	if from == nil && p.accept("FROM") {
		s.From = p.from()
	}
	// FROM t SELECT .. LATERAL VIEW ..; of FROM t INSERT .. SELECT .. LATERAL VIEW .., the
	// source is put in later.
	for (from != nil || s.From == nil || isLateral(s.From)) && p.at("LATERAL", "VIEW") {
		s.From = p.lateralView(s.From)
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
			w.PartitionBy, w.OrderBy, w.Frame, w.Name, w.Base = spec.PartitionBy, spec.OrderBy, spec.Frame, name, spec.Name
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
		t.is("UNION"), t.is("INTERSECT"), t.is("EXCEPT"), t.is("MINUS"), t.is("INSERT"):
	case s.From == nil && s.Where == nil:
		p.unexpected("',', FROM or end of statement")
	case s.Where == nil && s.GroupBy == nil && s.Having == nil:
		p.unexpected("',', a join, WHERE, GROUP BY, ORDER BY, LIMIT or end of statement")
	default:
		p.unexpected("AND, OR, GROUP BY, HAVING, ORDER BY, LIMIT or end of statement")
	}
	return s
}

func isLateral(r ast.TableRef) bool {
	_, ok := r.(*ast.LateralView)
	return ok
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

// groupBy reads what follows GROUP BY: a list with WITH ROLLUP|CUBE or GROUPING
// SETS behind it, or elements of which some are ROLLUP(..), CUBE(..), GROUPING
// SETS(..) or (): their product is written out as grouping sets.
func (p *parser) groupBy(s *ast.Select) {
	if !p.groupingAhead() {
		s.GroupBy = p.exprList()
		switch {
		case p.accept("WITH", "ROLLUP"):
			s.GroupingSet = "rollup"
		case p.accept("WITH", "CUBE"):
			s.GroupingSet = "cube"
		case p.at("GROUPING", "SETS"):
			s.GroupingSet = "sets"
			s.Sets = p.groupingSets()
		}
		return
	}
	pos := p.peek().pos
	sets := [][]ast.Expr{nil}
	for {
		var element [][]ast.Expr
		switch t := p.peek(); {
		case p.accept("(", ")"):
			element = [][]ast.Expr{nil}
		case p.at("GROUPING", "SETS"):
			element = p.groupingSets()
		case (t.is("ROLLUP") || t.is("CUBE")) && p.peekAt(1).is("("):
			p.i += 2
			list := p.exprList()
			p.expect(")")
			if t.is("CUBE") && len(list) > maxCube {
				p.fail(syntaxError(t.pos, "CUBE of more than %d expressions", maxCube))
				return
			}
			element = prefixes(list, t.is("CUBE"))
		default:
			element = [][]ast.Expr{{p.expr()}}
		}
		if len(sets)*len(element) > maxSets {
			p.fail(syntaxError(pos, "more than %d grouping sets", maxSets))
			return
		}
		sets = crossed(sets, element)
		if !p.accept(",") {
			break
		}
	}
	s.GroupingSet, s.Sets = "sets", sets
	seen := map[string]bool{}
	for _, set := range sets {
		for _, e := range set {
			if text := ast.Print(e); !seen[text] {
				seen[text] = true
				s.GroupBy = append(s.GroupBy, e)
			}
		}
	}
}

const (
	maxCube = 12   // expressions of a CUBE
	maxSets = 4096 // grouping sets of a SELECT
)

// groupingAhead reports whether one of the elements of the GROUP BY list here is
// more than an expression.
func (p *parser) groupingAhead() bool {
	depth := 0
	start := true
	for n := 0; ; n++ {
		t := p.peekAt(n)
		if t.kind == tokEOF || depth == 0 && !start && (t.is(")") || t.is("HAVING") || t.is("ORDER") || t.is("WITH") || t.is("WINDOW") || t.is("LIMIT")) {
			return false
		}
		if depth == 0 && start {
			next := p.peekAt(n + 1)
			if (t.is("ROLLUP") || t.is("CUBE")) && next.is("(") || t.is("GROUPING") && next.is("SETS") || t.is("(") && next.is(")") {
				return true
			}
		}
		start = false
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		case t.is(",") && depth == 0:
			start = true
		}
	}
}

// groupingSets reads GROUPING SETS (..).
func (p *parser) groupingSets() [][]ast.Expr {
	var sets [][]ast.Expr
	p.expect("GROUPING", "SETS", "(")
	for {
		var set []ast.Expr
		switch {
		case p.accept("(", ")"):
		case p.at("("):
			// (a, b) is a set; (a) + b, an expression that begins with a parenthesis, too
			e := p.expr()
			if t, ok := e.(*ast.Tuple); ok {
				set = t.Parts
			} else {
				set = []ast.Expr{e}
			}
		default:
			set = []ast.Expr{p.expr()}
		}
		sets = append(sets, set)
		if len(sets) > maxSets {
			p.fail(syntaxError(p.peek().pos, "more than %d grouping sets", maxSets))
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return sets
}

// prefixes are the grouping sets of ROLLUP(list), or all subsets: CUBE(list). A
// part in parentheses, (a, b), counts as one.
func prefixes(list []ast.Expr, cube bool) [][]ast.Expr {
	parts := make([][]ast.Expr, len(list))
	for i, e := range list {
		parts[i] = []ast.Expr{e}
		if t, ok := e.(*ast.Tuple); ok {
			parts[i] = t.Parts
		}
	}
	var out [][]ast.Expr
	if !cube {
		for n := len(parts); n >= 0; n-- {
			var set []ast.Expr
			for _, part := range parts[:n] {
				set = append(set, part...)
			}
			out = append(out, set)
		}
		return out
	}
	for mask := 1<<len(parts) - 1; mask >= 0; mask-- {
		var set []ast.Expr
		for i, part := range parts {
			if mask&(1<<(len(parts)-1-i)) != 0 {
				set = append(set, part...)
			}
		}
		out = append(out, set)
	}
	return out
}

// crossed returns each set of a with each of b behind it.
func crossed(a, b [][]ast.Expr) [][]ast.Expr {
	var out [][]ast.Expr
	for _, x := range a {
		for _, y := range b {
			out = append(out, append(append([]ast.Expr(nil), x...), y...))
		}
	}
	return out
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
	if p.accept("CLUSTER", "BY") {
		w.PartitionBy = p.exprList()
		for _, x := range w.PartitionBy {
			w.OrderBy = append(w.OrderBy, ast.OrderItem{Pos: x.Position(), X: x})
		}
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
