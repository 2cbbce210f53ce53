package parser

import (
	"github.com/skepdb/skep/sql/ast"
)

// insertOrQuery reads [WITH ..] then INSERT, FROM .. INSERT .. or a query.
func (p *parser) insertOrQuery(stmt ast.Stmt) ast.Statement {
	start := p.i
	var with []ast.CTE
	if p.at("WITH") {
		with = p.with()
	}
	switch {
	case p.at("INSERT"):
		s := p.insert(stmt)
		if s.Query != nil {
			s.Query.With = append(with, s.Query.With...)
		}
		return s
	case p.at("FROM"):
		p.next()
		from := p.from()
		if p.at("INSERT") {
			return p.multiInsert(stmt, with, from)
		}
	}
	if p.err != nil {
		return nil
	}
	p.i = start
	return &ast.QueryStatement{Stmt: stmt, Query: p.query()}
}

// multiInsert reads the inserts behind FROM.
func (p *parser) multiInsert(stmt ast.Stmt, with []ast.CTE, from ast.TableRef) ast.Statement {
	s := &ast.MultiInsert{Stmt: stmt}
	for p.err == nil && p.at("INSERT") {
		first := p.peek()
		in := p.insert(ast.Stmt{Pos: first.pos, Text: p.textFrom(first)})
		if p.err != nil {
			break
		}
		sel, ok := in.Query.Body.(*ast.Select)
		if !ok {
			p.fail(syntaxError(in.Query.Pos, "after FROM .. INSERT, a SELECT without FROM is expected"))
			break
		}
		if !grafted(&sel.From, from) {
			p.fail(syntaxError(sel.From.Position(), "the rows come from the FROM at the start: this SELECT can't have one"))
			break
		}
		in.Query.With = with
		s.Inserts = append(s.Inserts, in)
	}
	return s
}

// grafted puts from below the lateral views of a SELECT without FROM; false: it has one.
func grafted(at *ast.TableRef, from ast.TableRef) bool {
	for *at != nil {
		v, ok := (*at).(*ast.LateralView)
		if !ok {
			return false
		}
		at = &v.Source
	}
	*at = from
	return true
}

// insert reads INSERT INTO|OVERWRITE [TABLE] t [PARTITION (..)] [(columns)]
// query, or INSERT OVERWRITE [LOCAL] DIRECTORY.
func (p *parser) insert(stmt ast.Stmt) *ast.Insert {
	p.expect("INSERT")
	s := &ast.Insert{Stmt: stmt}
	if s.Overwrite = p.accept("OVERWRITE"); !s.Overwrite {
		if !p.accept("INTO") {
			p.unexpected("INTO or OVERWRITE")
		}
	}
	if s.Overwrite && (p.at("DIRECTORY") || p.at("LOCAL", "DIRECTORY")) {
		s.Directory = p.directory()
	} else {
		p.accept("TABLE")
		s.Table = p.name("a table name")
		s.Partition = p.partitionClause(specMixed)
		if s.IfNotExists = p.ifNotExists(); s.IfNotExists && s.Partition == nil {
			p.unexpected("PARTITION before IF NOT EXISTS")
		}
		if p.at("(") && isName(p.peekAt(1)) {
			s.Columns = p.identList("a column name")
		} else if p.at("(", ")") {
			p.unexpected("a column name")
		}
	}
	switch t := p.peek(); {
	case t.is("SELECT"), t.is("VALUES"), t.is("WITH"), t.is("("), t.is("FROM"), t.is("MAP"), t.is("REDUCE"):
		s.Query = p.query()
	case t.is("TABLE"):
		p.next()
		name := &ast.TableName{Pos: p.peek().pos, Name: p.name("a table name")}
		s.Query = &ast.Query{Pos: t.pos, Body: &ast.Select{Pos: t.pos, From: name,
			Items: []ast.SelectItem{{Pos: t.pos, X: &ast.Star{Pos: t.pos}}}}}
	default:
		p.unexpected("VALUES or SELECT")
	}
	return s
}

func (p *parser) directory() *ast.Directory {
	d := &ast.Directory{Local: p.accept("LOCAL")}
	p.expect("DIRECTORY")
	d.Pos = p.peek().pos
	d.Path = p.str("a path in quotes")
	if p.at("ROW", "FORMAT") {
		d.RowFormat = p.rowFormat()
	}
	if p.at("STORED") {
		d.StoredAs = p.stored().As
	}
	return d
}

// load reads LOAD DATA [LOCAL] INPATH 'p' [OVERWRITE] INTO TABLE t [PARTITION (..)].
func (p *parser) load(stmt ast.Stmt) ast.Statement {
	p.expect("LOAD", "DATA")
	s := &ast.Load{Stmt: stmt, Local: p.accept("LOCAL")}
	p.expect("INPATH")
	s.PathPos = p.peek().pos
	s.Path = p.str("a path in quotes")
	s.Overwrite = p.accept("OVERWRITE")
	p.expect("INTO", "TABLE")
	s.Table = p.name("a table name")
	s.Partition = p.partitionClause(specMixed)
	if t := p.peek(); t.is("INPUTFORMAT") {
		p.unsupported(t.pos, "LOAD DATA .. INPUTFORMAT")
	}
	return s
}

// specKind says what may stand in PARTITION (..).
type specKind uint8

const (
	specConstants specKind = iota // name = constant
	specMixed                     // or only the name
	specSearch                    // name op constant
)

// partitionClause reads PARTITION (..) if it comes next; nil: it doesn't.
func (p *parser) partitionClause(kind specKind) []ast.PartitionValue {
	if !p.at("PARTITION", "(") {
		return nil
	}
	p.next()
	return p.partitionSpec(kind)
}

// searchOperators are those of ALTER TABLE .. DROP PARTITION.
var searchOperators = []string{"=", "==", "<>", "!=", "<=", ">=", "<", ">"}

// partitionSpec reads (a='x', b, ..).
func (p *parser) partitionSpec(kind specKind) []ast.PartitionValue {
	out := []ast.PartitionValue{}
	p.expect("(")
	for p.err == nil {
		v := ast.PartitionValue{Pos: p.peek().pos, Name: p.ident("the name of a partition column")}
		switch {
		case p.at("=") || kind == specSearch:
			for _, op := range searchOperators {
				if p.accept(op) {
					v.Op = op
					break
				}
			}
			switch v.Op {
			case "":
				if kind == specSearch && p.accept("LIKE") {
					v.Op = "like"
				} else {
					p.unexpected("'=' or another comparison")
				}
			case "==":
				v.Op = "="
			case "!=":
				v.Op = "<>"
			}
			v.X, v.Text = p.partitionConstant()
		case kind == specConstants:
			p.unexpected("'=' and a value")
		}
		out = append(out, v)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return out
}

// partitionConstant reads a constant and its text as written.
func (p *parser) partitionConstant() (ast.Expr, string) {
	start := p.i
	t := p.peek()
	if t.kind == tokWord && !t.is("NULL") && !t.is("TRUE") && !t.is("FALSE") && isName(t) && (p.peekAt(1).is(")") || p.peekAt(1).is(",")) {
		// A bare word is its text, as in Hive's older grammar.
		p.next()
		return &ast.Literal{Pos: t.pos, Value: stringDatum(t.text)}, t.text
	}
	if t.is("-") || t.is("+") {
		p.next()
	}
	switch t = p.peek(); {
	case t.kind == tokString:
		return p.primaryConstant(start), t.text
	case t.kind == tokNumber, t.is("NULL"), t.is("TRUE"), t.is("FALSE"), t.is("DATE"), t.is("TIMESTAMP"), t.is("INTERVAL"), t.is("CURRENT_DATE"), t.is("CURRENT_TIMESTAMP"):
		x := p.primaryConstant(start)
		return x, p.textBetween(start)
	}
	p.unexpected("a constant")
	return nil, ""
}

// primaryConstant reads an expression from token start on.
func (p *parser) primaryConstant(start int) ast.Expr {
	p.i = start
	return p.expr()
}
