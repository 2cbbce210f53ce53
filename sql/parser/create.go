package parser

import (
	"strings"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
)

// maxRegions is the most SPLIT INTO may ask for.
const maxRegions = 65536

// maxBuckets is the most CLUSTERED BY may ask for.
const maxBuckets = 1 << 30

// createTable reads CREATE [TEMPORARY] [EXTERNAL] TABLE.
func (p *parser) createTable(stmt ast.Stmt) ast.Statement {
	p.expect("CREATE")
	s := &ast.CreateTable{Stmt: stmt}
	for !p.at("TABLE") {
		switch p.next().upper {
		case "TEMPORARY":
			s.Temporary = true
		case "EXTERNAL":
			s.External = true
		}
	}
	p.expect("TABLE")
	s.IfNotExists = p.ifNotExists()
	s.Table = p.name("a table name")
	if p.accept("LIKE") {
		if t := p.peek(); p.accept("FILE") {
			p.unsupported(t.pos, "CREATE TABLE .. LIKE FILE")
		}
		like := p.name("the name of a table or view")
		s.Like = &like
	} else if p.at("(") && !p.peekAt(1).is("SELECT") && !p.peekAt(1).is("WITH") {
		p.expect("(")
		for p.err == nil {
			if p.at("CONSTRAINT") || p.at("PRIMARY", "KEY") || p.at("FOREIGN", "KEY") || p.at("UNIQUE", "(") || p.at("CHECK", "(") {
				p.tableConstraint(s)
			} else {
				s.Columns = append(s.Columns, p.columnDef(false))
			}
			if !p.accept(",") {
				break
			}
		}
		if len(s.Columns) == 0 && len(s.Constraints) == 0 {
			p.unexpected("a column")
		}
		p.expect(")")
	}
	for p.err == nil && p.peek().kind != tokEOF {
		p.tableOption(s)
	}
	p.columnKeys(s)
	return s
}

// columnKeys takes over the constraints written at columns.
func (p *parser) columnKeys(s *ast.CreateTable) {
	for _, c := range s.Columns {
		for _, k := range c.Constraints {
			p.addConstraint(s, k)
		}
	}
}

// addConstraint keeps a constraint; an enforced primary key is the row key.
func (p *parser) addConstraint(s *ast.CreateTable, c ast.Constraint) {
	if c.Kind == "primary key" && !c.Disabled {
		key := make([]ast.KeyColumn, len(c.Columns))
		for i, n := range c.Columns {
			key[i] = ast.KeyColumn{Pos: n.Pos, Name: n.Name}
		}
		p.setKey(s, c.Pos, key)
	}
	s.Constraints = append(s.Constraints, c)
}

func (p *parser) setKey(s *ast.CreateTable, pos ast.Pos, key []ast.KeyColumn) {
	if s.Key != nil {
		p.fail(syntaxError(pos, "the row key is given twice: a table has one ROW KEY or one enforced PRIMARY KEY"))
		return
	}
	s.Key, s.KeyPos = key, pos
}

// tableConstraint reads a constraint between columns.
func (p *parser) tableConstraint(s *ast.CreateTable) { p.addConstraint(s, p.constraint()) }

// constraint reads [CONSTRAINT n] PRIMARY KEY (..)|UNIQUE (..)|FOREIGN KEY ..|CHECK (..).
func (p *parser) constraint() ast.Constraint {
	c := ast.Constraint{Pos: p.peek().pos}
	if p.accept("CONSTRAINT") {
		c.Name = p.ident("a constraint name").Name
		c.Pos = p.peek().pos
	}
	switch {
	case p.accept("PRIMARY", "KEY"):
		c.Kind = "primary key"
		c.Columns = p.identList("a column name")
	case p.accept("UNIQUE"):
		c.Kind = "unique"
		c.Columns = p.identList("a column name")
	case p.accept("FOREIGN", "KEY"):
		c.Kind = "foreign key"
		c.Columns = p.identList("a column name")
		p.references(&c)
	case p.accept("CHECK"):
		c.Kind = "check"
		p.check(&c)
	default:
		p.unexpected("PRIMARY KEY, UNIQUE, FOREIGN KEY or CHECK")
	}
	p.enforcement(&c)
	return c
}

func (p *parser) references(c *ast.Constraint) {
	p.expect("REFERENCES")
	c.RefTable = p.name("a table name")
	if p.at("(") {
		c.RefColumns = p.identList("a column name")
	}
}

func (p *parser) check(c *ast.Constraint) {
	p.expect("(")
	start := p.i
	c.X = p.expr()
	c.Text = p.textBetween(start)
	p.expect(")")
}

// enforcement reads what may follow a constraint.
func (p *parser) enforcement(c *ast.Constraint) {
	for {
		switch {
		case p.accept("DISABLE"), p.accept("NOT", "ENFORCED"):
			c.Disabled = true
		case p.accept("ENABLE"), p.accept("ENFORCED"):
		case p.accept("NOVALIDATE"):
		case p.accept("VALIDATE"):
			c.Validate = true
		case p.accept("RELY"):
			c.Rely = true
		case p.accept("NORELY"):
		default:
			return
		}
	}
}

// columnDef reads name type [constraints] [COMMENT 'c']. Without a type where
// that may be left out.
func (p *parser) columnDef(typeOptional bool) ast.ColumnDef {
	c := ast.ColumnDef{Pos: p.peek().pos, Name: p.ident("a column name")}
	if t := p.peek(); !typeOptional || !t.is(",") && !t.is(")") && !t.is("COMMENT") {
		c.Type = p.typeName()
	}
	for p.err == nil {
		k := ast.Constraint{Columns: []ast.Ident{c.Name}}
		if p.accept("CONSTRAINT") {
			k.Name = p.ident("a constraint name").Name
		}
		k.Pos = p.peek().pos
		switch {
		case k.Name == "" && p.accept("COMMENT"):
			c.Comment, c.HasComment = p.str("a comment in quotes"), true
			continue
		case p.accept("NOT", "NULL"):
			k.Kind = "not null"
		case p.accept("PRIMARY", "KEY"):
			k.Kind = "primary key"
		case p.accept("UNIQUE"):
			k.Kind = "unique"
		case p.at("REFERENCES"):
			k.Kind = "foreign key"
			p.references(&k)
		case p.accept("DEFAULT"):
			k.Kind = "default"
			start := p.i
			k.X = p.expr()
			k.Text = p.textBetween(start)
		case p.accept("CHECK"):
			k.Kind = "check"
			p.check(&k)
		default:
			if k.Name != "" {
				p.unexpected("NOT NULL, PRIMARY KEY, UNIQUE, REFERENCES, DEFAULT or CHECK")
			}
			return c
		}
		p.enforcement(&k)
		c.Constraints = append(c.Constraints, k)
	}
	return c
}

// columnDefs reads (a int, b string, ..).
func (p *parser) columnDefs(typeOptional bool) []ast.ColumnDef {
	var out []ast.ColumnDef
	p.expect("(")
	for p.err == nil {
		out = append(out, p.columnDef(typeOptional))
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return out
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
	case p.accept("PARTITIONED", "BY"):
		if p.at("SPEC") {
			p.unsupported(t.pos, "PARTITIONED BY SPEC")
		}
		s.PartitionedBy = p.columnDefs(true)
	case p.at("CLUSTERED", "BY"):
		s.Clustered = p.clustered()
	case p.at("SKEWED", "BY"):
		s.Skewed = p.skewed()
	case p.at("ROW", "FORMAT"):
		s.RowFormat = p.rowFormat()
	case t.is("STORED"):
		s.Stored = p.stored()
	case p.accept("LOCATION"):
		text := p.str("a place in quotes")
		s.Location = &text
	case p.accept("TBLPROPERTIES"):
		s.Properties = append(s.Properties, p.properties()...)
	case p.accept("WITH", "SERDEPROPERTIES"):
		props := p.properties()
		if s.RowFormat == nil {
			s.RowFormat = &ast.RowFormat{Pos: t.pos}
		}
		s.RowFormat.SerdeProperties = append(s.RowFormat.SerdeProperties, props...)
	case p.accept("AS"):
		s.As = p.query()
	case t.is("SELECT"), t.is("WITH"), t.is("("), t.is("VALUES"):
		s.As = p.query()
	default:
		p.unexpected("COMMENT, PARTITIONED BY, CLUSTERED BY, ROW KEY, SPLIT INTO, ROW FORMAT, STORED AS, LOCATION, TBLPROPERTIES, AS or end of statement")
	}
}

// clustered reads CLUSTERED BY (..) [SORTED BY (..)] INTO n BUCKETS.
func (p *parser) clustered() *ast.Clustered {
	c := &ast.Clustered{Pos: p.peek().pos}
	p.expect("CLUSTERED", "BY")
	c.Columns = p.identList("a column name")
	if p.accept("SORTED", "BY") {
		c.Sorted = p.rowKey()
	}
	p.expect("INTO")
	c.Buckets = p.number("a number of buckets", maxBuckets)
	if c.Buckets == 0 && p.err == nil {
		p.fail(syntaxError(c.Pos, "CLUSTERED BY wants at least one bucket"))
	}
	p.expect("BUCKETS")
	return c
}

// skewed reads SKEWED BY (..) ON (..) [STORED AS DIRECTORIES].
func (p *parser) skewed() *ast.Skewed {
	s := &ast.Skewed{Pos: p.peek().pos}
	p.expect("SKEWED", "BY")
	s.Columns = p.identList("a column name")
	p.expect("ON")
	p.expect("(")
	for p.err == nil {
		var values []string
		if p.accept("(") {
			for p.err == nil {
				_, text := p.partitionConstant()
				values = append(values, text)
				if !p.accept(",") {
					break
				}
			}
			p.expect(")")
		} else {
			_, text := p.partitionConstant()
			values = []string{text}
		}
		s.Values = append(s.Values, values)
		if p.err == nil && len(values) != len(s.Columns) {
			p.fail(syntaxError(s.Pos, "SKEWED BY has %d columns, but values for %d", len(s.Columns), len(values)))
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	s.Directories = p.accept("STORED", "AS", "DIRECTORIES")
	return s
}

// stored reads STORED AS f, STORED AS INPUTFORMAT .. OUTPUTFORMAT .. or STORED BY.
func (p *parser) stored() ast.Stored {
	s := ast.Stored{Pos: p.peek().pos}
	p.expect("STORED")
	switch {
	case p.accept("BY"):
		if p.peek().kind == tokString {
			s.By = p.str("the name of a storage handler in quotes")
		} else {
			s.By = p.ident("the name of a storage handler").Name
		}
		if p.accept("WITH", "SERDEPROPERTIES") {
			s.HandlerProperties = p.properties()
		}
	case p.accept("AS", "INPUTFORMAT"):
		s.Input = p.str("the name of an input format in quotes")
		p.expect("OUTPUTFORMAT")
		s.Output = p.str("the name of an output format in quotes")
		if p.accept("INPUTDRIVER") {
			p.str("the name of a driver in quotes")
			p.expect("OUTPUTDRIVER")
			p.str("the name of a driver in quotes")
		}
	default:
		p.expect("AS")
		s.As = p.ident("a format name").Name
	}
	return s
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
		out.Type = schema.ArrayType(p.typeName().Type)
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
		out.Type = schema.MapType(key.Type, value.Type)
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
