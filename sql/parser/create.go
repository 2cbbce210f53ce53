package parser

import (
	"strings"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
)

// maxRegions is the most SPLIT INTO may ask for.
const maxRegions = 65536

// createTable reads CREATE TABLE.
func (p *parser) createTable(stmt ast.Stmt) ast.Statement {
	p.expect("CREATE", "TABLE")
	s := &ast.CreateTable{Stmt: stmt, IfNotExists: p.ifNotExists(), Table: p.name("a table name")}
	switch t := p.peek(); {
	case t.is("LIKE"):
		p.unsupported(t.pos, "CREATE TABLE .. LIKE")
		return s
	case t.is("AS"):
		p.unsupported(t.pos, "CREATE TABLE .. AS SELECT")
		return s
	}
	p.expect("(")
	for p.err == nil {
		if p.at("CONSTRAINT") || p.at("PRIMARY", "KEY") || p.at("FOREIGN", "KEY") || p.at("UNIQUE", "(") || p.at("CHECK", "(") {
			p.tableConstraint(s)
		} else {
			s.Columns = append(s.Columns, p.columnDef())
		}
		if !p.accept(",") {
			break
		}
	}
	if len(s.Columns) == 0 {
		p.unexpected("a column")
	}
	p.expect(")")
	for p.err == nil && p.peek().kind != tokEOF {
		p.tableOption(s)
	}
	p.columnKeys(s)
	return s
}

// columnKeys takes over PRIMARY KEY written at a column.
func (p *parser) columnKeys(s *ast.CreateTable) {
	for _, c := range s.Columns {
		switch {
		case !c.PrimaryKey:
		case c.Informal:
			s.Informal = append(s.Informal, c.Name)
		default:
			p.setKey(s, c.Pos, []ast.KeyColumn{{Pos: c.Pos, Name: c.Name.Name}})
		}
	}
}

func (p *parser) setKey(s *ast.CreateTable, pos ast.Pos, key []ast.KeyColumn) {
	if s.Key != nil {
		p.fail(syntaxError(pos, "the row key is given twice: a table has one ROW KEY or one enforced PRIMARY KEY"))
		return
	}
	s.Key, s.KeyPos = key, pos
}

// tableConstraint reads [CONSTRAINT n] PRIMARY KEY (..) ... between columns.
func (p *parser) tableConstraint(s *ast.CreateTable) {
	if p.accept("CONSTRAINT") {
		p.ident("a constraint name")
	}
	t := p.peek()
	if !p.accept("PRIMARY", "KEY") {
		switch {
		case t.is("FOREIGN"), t.is("UNIQUE"), t.is("CHECK"):
			p.unsupported(t.pos, t.upper+" constraints")
		default:
			p.unexpected("PRIMARY KEY")
		}
		return
	}
	names := p.identList("a column name")
	if p.informal() {
		s.Informal = append(s.Informal, names...)
		return
	}
	key := make([]ast.KeyColumn, len(names))
	for i, n := range names {
		key[i] = ast.KeyColumn{Pos: n.Pos, Name: n.Name}
	}
	p.setKey(s, t.pos, key)
}

// informal reads what may follow a constraint and reports whether it says that
// nobody enforces it.
func (p *parser) informal() bool {
	informal := false
	for {
		switch {
		case p.accept("DISABLE"), p.accept("NOT", "ENFORCED"):
			informal = true
		case p.accept("ENABLE"), p.accept("ENFORCED"), p.accept("NOVALIDATE"), p.accept("VALIDATE"), p.accept("RELY"), p.accept("NORELY"):
		default:
			return informal
		}
	}
}

// columnDef reads name type [constraints] [COMMENT 'c'].
func (p *parser) columnDef() ast.ColumnDef {
	c := ast.ColumnDef{Pos: p.peek().pos, Name: p.ident("a column name"), Type: p.typeName()}
	for p.err == nil {
		switch t := p.peek(); {
		case p.accept("COMMENT"):
			c.Comment = p.str("a comment in quotes")
		case p.accept("CONSTRAINT"):
			p.ident("a constraint name")
		case p.accept("NOT", "NULL"):
			c.NotNull = !p.informal()
		case p.accept("PRIMARY", "KEY"):
			c.PrimaryKey = true
			c.Informal = p.informal()
		case t.is("DEFAULT"), t.is("CHECK"), t.is("UNIQUE"), t.is("REFERENCES"):
			p.unsupported(t.pos, t.upper+" constraints")
		default:
			return c
		}
	}
	return c
}

// tableOption reads one of the clauses after the columns, in any order.
func (p *parser) tableOption(s *ast.CreateTable) {
	switch t := p.peek(); {
	case p.accept("COMMENT"):
		s.Comment = p.str("a comment in quotes")
	case p.accept("ROW", "KEY"):
		p.setKey(s, t.pos, p.rowKey())
	case p.accept("SPLIT", "INTO"):
		s.SplitInto = p.number("a number of regions from 1 to 65536", maxRegions)
		if s.SplitInto == 0 && p.err == nil {
			p.fail(syntaxError(t.pos, "SPLIT INTO wants a number of regions from 1 to %d", maxRegions))
		}
		if !p.accept("REGIONS") {
			p.accept("REGION")
		}
	case p.at("ROW", "FORMAT"):
		s.RowFormat = p.rowFormat()
	case p.at("STORED", "BY"), p.at("STORED", "AS", "INPUTFORMAT"):
		p.unsupported(t.pos, "STORED BY and STORED AS INPUTFORMAT")
	case p.accept("STORED", "AS"):
		s.StoredAs = p.ident("a format name").Name
	case p.accept("TBLPROPERTIES"):
		s.Properties = append(s.Properties, p.properties()...)
	case t.is("PARTITIONED"), t.is("CLUSTERED"), t.is("SKEWED"), t.is("LOCATION"):
		p.unsupported(t.pos, "CREATE TABLE .. "+t.upper)
	case t.is("AS"):
		p.unsupported(t.pos, "CREATE TABLE .. AS SELECT")
	default:
		p.unexpected("COMMENT, ROW KEY, SPLIT INTO, ROW FORMAT, STORED AS, TBLPROPERTIES or end of statement")
	}
}

// rowKey reads (a, b DESC).
func (p *parser) rowKey() []ast.KeyColumn {
	var out []ast.KeyColumn
	p.expect("(")
	for {
		k := ast.KeyColumn{Pos: p.peek().pos, Name: p.ident("a column name").Name}
		if k.Desc = p.accept("DESC"); !k.Desc {
			p.accept("ASC")
		}
		out = append(out, k)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return out
}

// rowFormat reads ROW FORMAT DELIMITED .. or SERDE '..'.
func (p *parser) rowFormat() *ast.RowFormat {
	f := &ast.RowFormat{Pos: p.peek().pos}
	p.expect("ROW", "FORMAT")
	if p.accept("SERDE") {
		f.Serde = p.str("the name of a SerDe in quotes")
		if p.accept("WITH", "SERDEPROPERTIES") {
			f.SerdeProperties = p.properties()
		}
		return f
	}
	if !p.accept("DELIMITED") {
		p.unexpected("DELIMITED or SERDE")
		return f
	}
	for p.err == nil {
		switch {
		case p.accept("FIELDS", "TERMINATED", "BY"):
			f.Fields = p.str("a delimiter in quotes")
			if p.accept("ESCAPED", "BY") {
				f.Escape = p.str("an escape character in quotes")
			}
		case p.accept("COLLECTION", "ITEMS", "TERMINATED", "BY"):
			f.Collection = p.str("a delimiter in quotes")
		case p.accept("MAP", "KEYS", "TERMINATED", "BY"):
			f.MapKeys = p.str("a delimiter in quotes")
		case p.accept("LINES", "TERMINATED", "BY"):
			f.Lines = p.str("a delimiter in quotes")
		case p.accept("NULL", "DEFINED", "AS"):
			text := p.str("the text of NULL in quotes")
			f.Null = &text
		default:
			return f
		}
	}
	return f
}

var simpleTypes = map[string]schema.Type{
	"TINYINT": schema.TinyIntType, "SMALLINT": schema.SmallIntType, "INT": schema.IntType, "INTEGER": schema.IntType,
	"BIGINT": schema.BigIntType, "BOOLEAN": schema.BooleanType, "FLOAT": schema.FloatType, "REAL": schema.FloatType,
	"STRING": schema.StringType, "BINARY": schema.BinaryType, "DATE": schema.DateType, "VOID": schema.VoidType,
	"TIMESTAMPLOCALTZ": schema.TimestampTZType,
}

// typeName reads a type.
func (p *parser) typeName() ast.TypeName {
	t := p.peek()
	out := ast.TypeName{Pos: t.pos}
	if !p.enter() {
		return out
	}
	defer p.leave()
	if t.kind != tokWord {
		p.unexpected("a type")
		return out
	}
	p.next()
	if simple, ok := simpleTypes[t.upper]; ok {
		out.Type = simple
		return out
	}
	switch t.upper {
	case "DOUBLE":
		p.accept("PRECISION")
		out.Type = schema.DoubleType
	case "TIMESTAMP":
		out.Type = schema.TimestampType
		if p.accept("WITH", "LOCAL", "TIME", "ZONE") {
			out.Type = schema.TimestampTZType
		}
	case "DECIMAL", "DEC", "NUMERIC":
		out.Type = schema.DecimalType(10, 0)
		if p.accept("(") {
			precision, scale := p.number("a precision from 1 to 38", 38), 0
			if p.accept(",") {
				scale = p.number("a scale from 0 to 38", 38)
			}
			p.expect(")")
			if p.err == nil && (precision < 1 || scale > precision) {
				p.fail(syntaxError(t.pos, "decimal(%d,%d): the precision is 1 to 38, the scale at most the precision", precision, scale))
			}
			out.Type = schema.DecimalType(uint8(precision), uint8(scale))
		}
	case "CHAR", "CHARACTER":
		out.Type = schema.CharType(p.typeLength(t, 255))
	case "VARCHAR":
		out.Type = schema.VarcharType(p.typeLength(t, 65535))
	case "ARRAY":
		p.expect("<")
		out.Type = schema.Type{Kind: schema.Array, Nested: &schema.Nested{Fields: []schema.Field{{Name: "item", Type: p.typeName().Type}}}}
		p.closeAngle()
	case "MAP":
		p.expect("<")
		key := p.typeName()
		p.expect(",")
		value := p.typeName()
		p.closeAngle()
		if p.err == nil && !key.Type.IsPrimitive() {
			p.fail(syntaxError(key.Pos, "the key of a map must be a primitive type"))
		}
		out.Type = schema.Type{Kind: schema.Map, Nested: &schema.Nested{Fields: []schema.Field{{Name: "key", Type: key.Type}, {Name: "value", Type: value.Type}}}}
	case "STRUCT", "UNIONTYPE":
		out.Type = schema.Type{Kind: schema.Struct, Nested: &schema.Nested{}}
		if t.upper == "UNIONTYPE" {
			out.Type.Kind = schema.Union
		}
		p.expect("<")
		for p.err == nil {
			var f schema.Field
			if out.Type.Kind == schema.Struct {
				f.Name = strings.ToLower(p.ident("a field name").Name)
				p.expect(":")
			}
			f.Type = p.typeName().Type
			if out.Type.Kind == schema.Struct && p.accept("COMMENT") {
				p.str("a comment in quotes")
			}
			out.Type.Nested.Fields = append(out.Type.Nested.Fields, f)
			if !p.accept(",") {
				break
			}
		}
		p.closeAngle()
	default:
		p.i--
		p.unexpected("a type such as string, int, bigint, double, decimal(10,2), date or timestamp")
	}
	return out
}

func (p *parser) typeLength(t token, most int) uint16 {
	p.expect("(")
	n := p.number("a length", most)
	p.expect(")")
	if n == 0 && p.err == nil {
		p.fail(syntaxError(t.pos, "the length of %s is 1 to %d", strings.ToLower(t.text), most))
	}
	return uint16(n)
}

// closeAngle reads > at the end of a nested type; the lexer may have joined it
// to an operator that follows.
func (p *parser) closeAngle() {
	t := p.peek()
	if t.kind == tokOp && len(t.text) > 1 && t.text[0] == '>' {
		t.text = t.text[1:]
		t.pos.Column++
		t.pos.Offset++
		p.toks[p.i] = t
		return
	}
	p.expect(">")
}
