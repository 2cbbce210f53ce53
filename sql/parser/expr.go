package parser

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
)

// Binding strengths, loose to tight (HiveParser.g, precedence*Expression): the
// operators of a level bind tighter than those of the levels before it.
const (
	levelOr = iota + 1
	levelAnd
	levelNot
	levelIs
	levelEqual
	levelCompare
	levelBitOr
	levelBitAnd
	levelConcat
	levelPlus
	levelTimes
	levelXor
	levelUnary
)

// binaryOps gives the level and name of infix operators.
var binaryOps = map[string]struct {
	level int
	op    string
}{
	"OR": {levelOr, "or"}, "AND": {levelAnd, "and"},
	"=": {levelEqual, "="}, "==": {levelEqual, "="}, "<=>": {levelEqual, "<=>"}, "<>": {levelEqual, "<>"}, "!=": {levelEqual, "<>"},
	"<": {levelCompare, "<"}, "<=": {levelCompare, "<="}, ">": {levelCompare, ">"}, ">=": {levelCompare, ">="},
	"|": {levelBitOr, "|"}, "&": {levelBitAnd, "&"}, "||": {levelConcat, "||"},
	"+": {levelPlus, "+"}, "-": {levelPlus, "-"},
	"*": {levelTimes, "*"}, "/": {levelTimes, "/"}, "%": {levelTimes, "%"}, "DIV": {levelTimes, "div"}, "MOD": {levelTimes, "%"},
	"^": {levelXor, "^"},
}

// none stands for an expression that could not be read.
func none(pos ast.Pos) ast.Expr { return &ast.Literal{Pos: pos, Value: schema.NullOf(schema.VoidType)} }

// expr reads an expression.
func (p *parser) expr() ast.Expr {
	outer := p.terms
	p.terms = 0
	e := p.binary(levelOr)
	p.terms = outer
	return e
}

func (p *parser) exprList() []ast.Expr {
	out := []ast.Expr{p.expr()}
	for p.accept(",") {
		out = append(out, p.expr())
	}
	return out
}

// term counts an operator of the expression.
func (p *parser) term(pos ast.Pos) {
	if p.terms++; p.terms > maxTerms {
		p.fail(syntaxError(pos, "the expression has more than %d operators", maxTerms))
	}
}

// binary reads an expression whose infix operators are of at least this level
// (operator precedence, Pratt 1973).
func (p *parser) binary(level int) ast.Expr {
	if !p.enter() {
		return none(p.peek().pos)
	}
	defer p.leave()
	var left ast.Expr
	if t := p.peek(); level <= levelNot && (t.is("NOT") || t.is("!")) && !p.at("NOT", "EXISTS") {
		p.next()
		p.term(t.pos)
		left = &ast.Unary{Pos: t.pos, Op: "not", X: p.binary(levelNot)}
	} else {
		left = p.unary()
	}
	for p.err == nil {
		t := p.peek()
		next, ok := p.infix(left, t, level)
		if !ok {
			return left
		}
		p.term(t.pos)
		left = next
	}
	return left
}

// infix reads one operator behind left, if it is of at least this level.
func (p *parser) infix(left ast.Expr, t token, level int) (ast.Expr, bool) {
	if t.kind != tokOp && t.kind != tokWord {
		return nil, false
	}
	if t.is("IS") {
		return p.is(left, t, level)
	}
	not := t.is("NOT")
	word := t
	if not {
		word = p.peekAt(1)
	}
	if word.is("LIKE") || word.is("RLIKE") || word.is("REGEXP") || word.is("IN") || word.is("BETWEEN") {
		if level > levelCompare {
			return nil, false
		}
		if not {
			p.next()
		}
		p.next()
		return p.condition(left, word, not), true
	}
	key := t.text
	if t.kind == tokWord {
		key = t.upper
	}
	op, ok := binaryOps[key]
	if !ok || op.level < level {
		return nil, false
	}
	if t.is("MOD") && p.peekAt(1).is("(") { // mod(a, b) as an alias would be odd, but x mod (..) is no Hive either
		return nil, false
	}
	p.next()
	if q := p.peek(); op.level >= levelEqual && op.level <= levelCompare &&
		(q.is("ANY") || q.is("SOME") || q.is("ALL")) && p.peekAt(1).is("(") {
		p.i += 2
		out := &ast.Quantified{Pos: t.pos, Op: op.op, X: left, All: q.is("ALL"), Query: p.query()}
		p.expect(")")
		return out, true
	}
	return &ast.Binary{Pos: t.pos, Op: op.op, L: left, R: p.binary(op.level + 1)}, true
}

// is reads IS [NOT] NULL|TRUE|FALSE|UNKNOWN|DISTINCT FROM x.
func (p *parser) is(left ast.Expr, t token, level int) (ast.Expr, bool) {
	distinct := p.at("IS", "DISTINCT", "FROM") || p.at("IS", "NOT", "DISTINCT", "FROM")
	if distinct && level > levelEqual || !distinct && level > levelIs {
		return nil, false
	}
	p.next()
	not := p.accept("NOT")
	if p.accept("DISTINCT", "FROM") {
		return &ast.Distinct{Pos: t.pos, L: left, R: p.binary(levelEqual + 1), Not: not}, true
	}
	for _, what := range [...]string{"NULL", "TRUE", "FALSE", "UNKNOWN"} {
		if p.accept(what) {
			return &ast.Is{Pos: t.pos, X: left, What: strings.ToLower(what), Not: not}, true
		}
	}
	p.unexpected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
	return left, true
}

// condition reads what follows [NOT] LIKE, RLIKE, IN or BETWEEN.
func (p *parser) condition(left ast.Expr, word token, not bool) ast.Expr {
	switch word.upper {
	case "BETWEEN":
		low := p.binary(levelBitOr)
		if !p.accept("AND") {
			p.unexpected("AND and the upper bound of BETWEEN")
		}
		return &ast.Between{Pos: word.pos, X: left, Low: low, High: p.binary(levelBitOr), Not: not}
	case "IN":
		in := &ast.In{Pos: word.pos, X: left, Not: not}
		p.expect("(")
		if p.queryAhead() {
			in.Query = p.query()
		} else {
			in.List = p.exprList()
		}
		p.expect(")")
		return in
	}
	like := &ast.Like{Pos: word.pos, Op: "like", X: left, Not: not}
	if !word.is("LIKE") {
		like.Op = "rlike"
	}
	if q := p.peek(); like.Op == "like" && (q.is("ANY") || q.is("SOME") || q.is("ALL")) && p.peekAt(1).is("(") {
		p.i += 2
		like.Quantifier = "any"
		if q.is("ALL") {
			like.Quantifier = "all"
		}
		like.Patterns = p.exprList()
		p.expect(")")
		return like
	}
	like.Patterns = []ast.Expr{p.binary(levelBitOr)}
	return like
}

// unary reads signs and ~ before an operand.
func (p *parser) unary() ast.Expr {
	t := p.peek()
	if !t.is("-") && !t.is("+") && !t.is("~") {
		return p.postfix()
	}
	if !p.enter() {
		return none(t.pos)
	}
	defer p.leave()
	p.next()
	p.term(t.pos)
	if n := p.peek(); t.is("-") && n.kind == tokNumber { // -128Y: the sign belongs to the number
		p.next()
		return p.postfixOf(p.numberLiteral(t.pos, "-"+n.text))
	}
	return &ast.Unary{Pos: t.pos, Op: t.text, X: p.unary()}
}

func (p *parser) postfix() ast.Expr { return p.postfixOf(p.primary()) }

// postfixOf reads .name and [index] behind an operand.
func (p *parser) postfixOf(e ast.Expr) ast.Expr {
	for p.err == nil {
		switch t := p.peek(); {
		case t.is("."):
			p.next()
			if p.at("*") {
				p.next()
				q, ok := qualifier(e)
				if !ok {
					p.fail(syntaxError(t.pos, "syntax error at '.*': expected a table alias before it"))
				}
				return &ast.Star{Pos: e.Position(), Qualifier: q}
			}
			p.term(t.pos)
			name := p.member()
			e = &ast.Field{Pos: name.Pos, Base: e, Name: name.Name}
		case t.is("["):
			p.next()
			p.term(t.pos)
			e = &ast.Index{Pos: t.pos, Base: e, Index: p.expr()}
			p.expect("]")
		default:
			return e
		}
	}
	return e
}

// member reads the name behind a point; there, reserved words are names too.
func (p *parser) member() ast.Ident {
	if t := p.peek(); t.kind == tokWord {
		p.next()
		return ast.Ident{Pos: t.pos, Name: t.text}
	}
	return p.ident("a column or field name")
}

// qualifier returns the parts of a dotted name.
func qualifier(e ast.Expr) ([]ast.Ident, bool) {
	switch e := e.(type) {
	case *ast.Column:
		return []ast.Ident{{Pos: e.Pos, Name: e.Name}}, true
	case *ast.Field:
		q, ok := qualifier(e.Base)
		return append(q, ast.Ident{Pos: e.Pos, Name: e.Name}), ok
	}
	return nil, false
}

// primary reads an operand.
func (p *parser) primary() ast.Expr {
	t := p.peek()
	switch t.kind {
	case tokString:
		l := &ast.Literal{Pos: t.pos, Value: schema.Datum{Type: schema.StringType, S: p.str("")}}
		if p.unitAhead() {
			return p.intervalOf(t.pos, l)
		}
		return l
	case tokNumber:
		p.next()
		l := p.numberLiteral(t.pos, t.text)
		if p.unitAhead() {
			return p.intervalOf(t.pos, l)
		}
		return l
	case tokQuoted:
		p.next()
		if p.at("(") {
			return p.call(t)
		}
		return &ast.Column{Pos: t.pos, Name: t.text, Quoted: true}
	case tokWord:
		return p.primaryWord(t)
	}
	switch {
	case p.accept("("):
		return p.parenthesis(t)
	case p.accept("*"):
		return &ast.Star{Pos: t.pos}
	case p.accept("?"):
		return &ast.Param{Pos: t.pos}
	}
	p.unexpected("an expression")
	return none(t.pos)
}

// queryAhead reports whether a query comes next, behind any parentheses: what
// follows those tells (a) + .. and (SELECT ..), 1 from a query.
func (p *parser) queryAhead() bool {
	n := 0
	for n <= maxNesting && p.peekAt(n).is("(") {
		n++
	}
	if t := p.peekAt(n); !t.is("SELECT") && !t.is("WITH") && !t.is("FROM") && !t.is("VALUES") {
		return false
	}
	if n == 0 {
		return true
	}
	for depth := 0; ; n++ { // the end of the inner parentheses
		switch t := p.peekAt(n); {
		case t.kind == tokEOF:
			return true
		case t.is("("):
			depth++
		case t.is(")"):
			if depth--; depth < 0 {
				next := p.peekAt(n + 1)
				return next.is(")") || next.is("UNION") || next.is("INTERSECT") || next.is("EXCEPT") || next.is("MINUS") ||
					next.is("ORDER") || next.is("LIMIT") || next.kind == tokEOF
			}
		}
	}
}

func (p *parser) parenthesis(t token) ast.Expr {
	if p.at("SELECT") || p.at("WITH") || p.at("FROM") || p.at("VALUES") {
		q := p.query()
		p.expect(")")
		return &ast.Subquery{Pos: t.pos, Query: q}
	}
	list := p.exprList()
	p.expect(")")
	if len(list) == 1 {
		if l, ok := list[0].(*ast.Literal); ok && p.unitAhead() {
			return p.intervalOf(t.pos, l)
		}
		return list[0]
	}
	return &ast.Tuple{Pos: t.pos, Parts: list}
}

// primaryWord reads an operand that begins with a word.
func (p *parser) primaryWord(t token) ast.Expr {
	second := p.peekAt(1)
	switch t.upper {
	case "NULL":
		p.next()
		return none(t.pos)
	case "TRUE", "FALSE":
		p.next()
		d := schema.Datum{Type: schema.BooleanType}
		if t.upper == "TRUE" {
			d.I = 1
		}
		return &ast.Literal{Pos: t.pos, Value: d}
	case "CASE":
		return p.caseExpr()
	case "CAST":
		if second.is("(") {
			return p.cast()
		}
	case "EXISTS":
		p.next()
		p.expect("(")
		e := &ast.Exists{Pos: t.pos, Query: p.query()}
		p.expect(")")
		return e
	case "NOT":
		p.next()
		return &ast.Unary{Pos: t.pos, Op: "not", X: p.primary()}
	case "DATE", "TIMESTAMP", "TIMESTAMPLOCALTZ":
		if second.kind == tokString {
			return p.timeLiteral(t)
		}
		if p.at("TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE") && p.peekAt(5).kind == tokString {
			p.i += 4
			t.upper = "TIMESTAMPLOCALTZ"
			return p.timeLiteral(t)
		}
	case "INTERVAL":
		return p.interval()
	case "EXTRACT":
		if second.is("(") {
			return p.extract()
		}
	case "CURRENT_DATE", "CURRENT_TIMESTAMP":
		if !second.is("(") {
			p.next()
			return &ast.Call{Pos: t.pos, Name: ast.Ident{Pos: t.pos, Name: t.text}}
		}
	}
	if second.is("(") && (!isReserved(t.upper) || isFunctionWord(t.upper)) {
		p.next()
		return p.call(t)
	}
	if isReserved(t.upper) {
		p.unexpected("an expression")
		return none(t.pos)
	}
	p.next()
	return &ast.Column{Pos: t.pos, Name: t.text}
}

// call reads the arguments and the OVER of a function; the name is read.
func (p *parser) call(name token) ast.Expr {
	c := &ast.Call{Pos: name.pos, Name: ast.Ident{Pos: name.pos, Name: name.text}}
	p.expect("(")
	if c.Distinct = p.accept("DISTINCT"); !c.Distinct && !p.at("ALL", "(") {
		p.accept("ALL")
	}
	if !p.at(")") {
		if p.wordArguments(c, name) {
			return c
		}
		if name.is("FLOOR") && p.accept("TO") { // FLOOR(ts TO DAY) is floor_day(ts)
			unit := p.ident("a time unit")
			c.Name.Name = "floor_" + strings.ToLower(unit.Name)
		}
	}
	nulls := func() {
		switch {
		case p.accept("IGNORE", "NULLS"):
			c.IgnoreNulls = true
		case p.accept("RESPECT", "NULLS"):
		}
	}
	nulls()
	p.expect(")")
	if p.accept("WITHIN", "GROUP") {
		p.expect("(", "ORDER", "BY")
		c.Within = p.orderItems()
		p.expect(")")
	}
	if p.accept("FILTER", "(") {
		p.expect("WHERE")
		c.Filter = p.expr()
		p.expect(")")
	}
	nulls()
	if p.accept("OVER") {
		c.Over = p.window()
	}
	return c
}

// wordArguments reads the arguments of a call. It returns true if the call has words between
// them, and is read whole: TRIM(BOTH a FROM b), SUBSTRING(a FROM 1 FOR 2), POSITION(a IN b).
func (p *parser) wordArguments(c *ast.Call, name token) bool {
	trims := map[string]string{"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
	switch name.upper {
	case "TRIM":
		side := p.peek()
		if trims[side.upper] == "" || side.kind != tokWord {
			break
		}
		p.next()
		c.Name.Name = trims[side.upper]
		if !p.accept("FROM") {
			c.Args = []ast.Expr{p.expr()}
			p.expect("FROM")
		}
		c.Args = append([]ast.Expr{p.expr()}, c.Args...)
		p.expect(")")
		return true
	case "POSITION":
		mark := p.i
		if x := p.binary(levelBitOr); p.err == nil && p.accept("IN") {
			c.Name.Name = "locate"
			c.Args = []ast.Expr{x, p.expr()}
			p.expect(")")
			return true
		}
		if p.err == nil {
			p.i = mark
		}
	case "STRUCT":
		var names []string
		c.Args, names = p.namedList()
		if names != nil {
			p.nameFields(c, names)
		}
		return false
	}
	c.Args = p.exprList()
	switch {
	case (name.is("SUBSTRING") || name.is("SUBSTR")) && len(c.Args) == 1 && p.accept("FROM"):
		c.Args = append(c.Args, p.expr())
		if p.accept("FOR") {
			c.Args = append(c.Args, p.expr())
		}
	case name.is("TRIM") && len(c.Args) == 1 && p.accept("FROM"):
		c.Args = []ast.Expr{p.expr(), c.Args[0]}
	}
	return false
}

// nameFields makes STRUCT(a AS x, b) a NAMED_STRUCT.
func (p *parser) nameFields(c *ast.Call, names []string) {
	var args []ast.Expr
	for i, x := range c.Args {
		name := fmt.Sprintf("col%d", i+1)
		if i < len(names) && names[i] != "" {
			name = names[i]
		} else if f, ok := x.(*ast.Field); ok {
			name = f.Name
		} else if f, ok := x.(*ast.Column); ok {
			name = f.Name
		}
		args = append(args, &ast.Literal{Pos: x.Position(), Value: schema.Datum{Type: schema.StringType, S: name}}, x)
	}
	c.Name.Name, c.Args = "named_struct", args
}

func (p *parser) caseExpr() ast.Expr {
	t := p.next()
	c := &ast.Case{Pos: t.pos}
	if !p.at("WHEN") {
		c.Operand = p.expr()
	}
	if !p.at("WHEN") {
		p.unexpected("WHEN")
	}
	for p.accept("WHEN") {
		w := ast.When{Cond: p.expr()}
		p.expect("THEN")
		w.Then = p.expr()
		c.Whens = append(c.Whens, w)
	}
	if p.accept("ELSE") {
		c.Else = p.expr()
	}
	if !p.accept("END") {
		p.unexpected("WHEN, ELSE or END")
	}
	return c
}

func (p *parser) cast() ast.Expr {
	t := p.next()
	p.expect("(")
	c := &ast.Cast{Pos: t.pos, X: p.expr()}
	p.expect("AS")
	c.To = p.typeName()
	if p.accept("FORMAT") {
		c.Format = p.str("a date format in quotes")
	}
	p.expect(")")
	return c
}

// timeLiteral reads DATE '..' and TIMESTAMP '..'.
func (p *parser) timeLiteral(t token) ast.Expr {
	p.next()
	text := p.str("")
	typ, example := schema.DateType, "2020-01-31"
	switch t.upper {
	case "TIMESTAMP":
		typ, example = schema.TimestampType, "2020-01-31 23:59:59.5"
	case "TIMESTAMPLOCALTZ":
		typ, example = schema.TimestampTZType, "2020-01-31 23:59:59 Europe/Rome"
	}
	d, ok := schema.ParseText(typ, []byte(text))
	if !ok {
		p.fail(syntaxError(t.pos, "'%s' is not a %s: write it as '%s'", clip(text), typ, example))
		return none(t.pos)
	}
	return &ast.Literal{Pos: t.pos, Value: d}
}

// intervalUnits are the units of INTERVAL, singular.
var intervalUnits = map[string]bool{"YEAR": true, "MONTH": true, "DAY": true, "HOUR": true, "MINUTE": true, "SECOND": true, "WEEK": true, "QUARTER": true}

func (p *parser) interval() ast.Expr {
	t := p.next()
	switch u := p.peek(); {
	case p.accept("("):
		x := p.expr()
		p.expect(")")
		return p.intervalOf(t.pos, x)
	case u.kind == tokString:
		return p.intervalOf(t.pos, &ast.Literal{Pos: u.pos, Value: schema.Datum{Type: schema.StringType, S: p.str("")}})
	case u.kind == tokNumber:
		p.next()
		return p.intervalOf(t.pos, p.numberLiteral(u.pos, u.text))
	}
	return p.intervalOf(t.pos, p.binary(levelTimes))
}

// intervalOf reads the unit behind a value.
func (p *parser) intervalOf(pos ast.Pos, x ast.Expr) ast.Expr {
	v := &ast.Interval{Pos: pos, Value: x}
	v.Unit = p.intervalUnit()
	if p.accept("TO") {
		v.Unit += " TO " + p.intervalUnit()
	}
	return v
}

// unitAhead reports whether a unit of time follows a constant: 60 days is an
// interval without the word. One that is a function's or a column's name is none.
func (p *parser) unitAhead() bool {
	t := p.peek()
	return t.kind == tokWord && intervalUnits[strings.TrimSuffix(t.upper, "S")] && !p.peekAt(1).is("(")
}

func (p *parser) intervalUnit() string {
	t := p.peek()
	unit := strings.TrimSuffix(t.upper, "S")
	if t.kind != tokWord || !intervalUnits[unit] {
		p.unexpected("YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
		return ""
	}
	p.next()
	return unit
}

// extract reads EXTRACT(unit FROM x): a call of unit(x).
func (p *parser) extract() ast.Expr {
	t := p.next()
	p.expect("(")
	unit := p.peek()
	if unit.kind != tokWord {
		p.unexpected("a time unit")
	}
	p.next()
	p.expect("FROM")
	name := strings.ToLower(unit.text)
	if name == "week" {
		name = "weekofyear"
	}
	c := &ast.Call{Pos: t.pos, Name: ast.Ident{Pos: unit.pos, Name: name}, Args: []ast.Expr{p.expr()}}
	p.expect(")")
	return c
}
