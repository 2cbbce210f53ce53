package parser

import (
	"strings"

	"github.com/skepdb/skep/sql/ast"
)

// alter reads ALTER TABLE|VIEW|DATABASE; nil, without an error, for what it
// doesn't know.
func (p *parser) alter(stmt ast.Stmt) ast.Statement {
	switch {
	case p.accept("ALTER", "DATABASE"), p.accept("ALTER", "SCHEMA"):
		return p.alterDatabase(stmt)
	case p.accept("ALTER", "TABLE"):
		s := &ast.AlterTable{Stmt: stmt, Table: p.name("a table name")}
		s.Partition = p.partitionClause(specMixed)
		s.Action = p.alterAction(stmt, s)
		return s
	case p.accept("ALTER", "VIEW"):
		s := &ast.AlterTable{Stmt: stmt, View: true, Table: p.name("a view name")}
		switch t := p.peek(); {
		case p.accept("AS"):
			s.Action = p.alterQuery()
		case t.is("SELECT"), t.is("WITH"):
			s.Action = p.alterQuery()
		default:
			s.Action = p.alterAction(stmt, s)
		}
		return s
	}
	return nil
}

func (p *parser) alterQuery() ast.AlterAction {
	start := p.i
	q := p.query()
	return &ast.AlterQuery{Query: q, Text: p.textBetween(start)}
}

func (p *parser) alterDatabase(stmt ast.Stmt) ast.Statement {
	s := &ast.AlterDatabase{Stmt: stmt, Name: p.databaseName()}
	p.expect("SET")
	text := func(what string) *string {
		t := p.str(what)
		return &t
	}
	switch {
	case p.accept("DBPROPERTIES"):
		s.Properties = p.properties()
	case p.accept("OWNER"):
		s.OwnerType, s.Owner = p.owner()
	case p.accept("LOCATION"):
		s.Location = text("a place in quotes")
	case p.accept("MANAGEDLOCATION"):
		s.ManagedLocation = text("a place in quotes")
	default:
		p.unexpected("DBPROPERTIES, OWNER, LOCATION or MANAGEDLOCATION")
	}
	return s
}

func (p *parser) owner() (kind, name string) {
	for _, kind := range []string{"USER", "ROLE", "GROUP"} {
		if p.accept(kind) {
			return kind, p.ident("the name of the owner").Name
		}
	}
	p.unexpected("USER, ROLE or GROUP")
	return "", ""
}

// alterAction reads what an ALTER TABLE or VIEW does.
func (p *parser) alterAction(stmt ast.Stmt, s *ast.AlterTable) ast.AlterAction {
	t := p.peek()
	switch {
	case p.accept("RENAME", "TO", "PARTITION"):
		return &ast.AlterRenamePartition{To: p.partitionSpec(specConstants)}
	case p.accept("RENAME", "TO"):
		return &ast.AlterRename{To: p.name("a table name")}
	case p.at("ADD", "COLUMNS"), p.at("REPLACE", "COLUMNS"):
		a := &ast.AlterColumns{Replace: p.next().is("REPLACE")}
		p.next()
		a.Columns = p.columnDefs(false)
		p.cascade()
		return a
	case p.accept("UPDATE", "COLUMNS"):
		p.cascade()
		return &ast.AlterNothing{What: "UPDATE COLUMNS"}
	case p.accept("CHANGE"):
		return p.alterChange()
	case p.accept("PARTITION", "COLUMN"):
		p.expect("(")
		a := &ast.AlterPartitionColumn{Column: p.columnDef(false)}
		p.expect(")")
		return a
	case p.at("ADD", "PARTITION"), p.at("ADD", "IF"):
		return p.addPartitions()
	case p.at("DROP", "PARTITION"), p.at("DROP", "IF"):
		p.next()
		a := &ast.AlterDropPartitions{IfExists: p.ifExists()}
		for p.err == nil {
			p.expect("PARTITION")
			a.Specs = append(a.Specs, p.partitionSpec(specSearch))
			if !p.accept(",") {
				break
			}
		}
		p.accept("PURGE")
		return a
	case p.accept("EXCHANGE", "PARTITION"):
		a := &ast.AlterExchange{Values: p.partitionSpec(specConstants)}
		p.expect("WITH", "TABLE")
		a.With = p.name("a table name")
		return a
	case p.accept("ADD"):
		c := p.constraint()
		return &ast.AlterConstraint{Add: &c}
	case p.accept("DROP", "CONSTRAINT"):
		name := p.ident("a constraint name")
		return &ast.AlterConstraint{Drop: &name}
	case p.at("UNSET"):
		p.next()
		a := &ast.AlterProperties{Unset: true}
		if a.Serde = p.accept("SERDEPROPERTIES"); !a.Serde {
			p.expect("TBLPROPERTIES")
		}
		a.IfExists = p.ifExists()
		a.Properties = p.propertyKeys()
		return a
	case p.accept("SET"):
		return p.alterSet(stmt)
	case p.at("CLUSTERED", "BY"):
		return &ast.AlterClustered{Clustered: p.clustered()}
	case p.accept("NOT", "CLUSTERED"):
		return &ast.AlterClustered{NotClustered: true}
	case p.accept("NOT", "SORTED"):
		return &ast.AlterClustered{NotSorted: true}
	case p.accept("INTO"):
		a := &ast.AlterClustered{Buckets: p.number("a number of buckets", maxBuckets)}
		p.expect("BUCKETS")
		return a
	case p.at("SKEWED", "BY"):
		return &ast.AlterSkewed{Skewed: p.skewed()}
	case p.accept("NOT", "SKEWED"):
		return &ast.AlterSkewed{}
	case p.accept("NOT", "STORED", "AS", "DIRECTORIES"):
		return &ast.AlterSkewed{NotDirectories: true}
	case p.accept("TOUCH"):
		if spec := p.partitionClause(specMixed); spec != nil {
			s.Partition = spec
			for p.at("PARTITION", "(") {
				p.partitionClause(specMixed)
			}
		}
		return &ast.AlterNothing{What: "TOUCH"}
	case p.accept("CONCATENATE"):
		return &ast.AlterNothing{What: "CONCATENATE"}
	case p.accept("COMPACT"):
		p.str("the kind of the compaction in quotes")
		p.i = len(p.toks) - 1
		return &ast.AlterNothing{What: "COMPACT"}
	case p.at("UPDATE", "STATISTICS"):
		p.i = len(p.toks) - 1
		return &ast.AlterNothing{What: "UPDATE STATISTICS"}
	case t.is("ARCHIVE"), t.is("UNARCHIVE"):
		p.fail(reasonError(t.pos, "ALTER TABLE .. "+t.upper, "partitions are no folders of files that could be packed"))
	case t.is("CONVERT"), t.is("EXECUTE"), p.at("CREATE", "BRANCH"), p.at("CREATE", "TAG"), p.at("DROP", "BRANCH"), p.at("DROP", "TAG"):
		p.unsupported(t.pos, "ALTER TABLE .. "+t.upper+" (of Iceberg tables)")
	default:
		p.unexpected("what to alter, such as RENAME TO, ADD COLUMNS, ADD PARTITION, CHANGE or SET TBLPROPERTIES")
	}
	return nil
}

func (p *parser) cascade() {
	if !p.accept("CASCADE") {
		p.accept("RESTRICT")
	}
}

// alterChange reads CHANGE [COLUMN] a b type .. [FIRST|AFTER c] [CASCADE|RESTRICT].
func (p *parser) alterChange() ast.AlterAction {
	if p.at("COLUMN") {
		p.next()
	}
	a := &ast.AlterChange{From: p.ident("a column name"), To: p.columnDef(false)}
	switch {
	case p.accept("FIRST"):
		a.First = true
	case p.accept("AFTER"):
		after := p.ident("a column name")
		a.After = &after
	}
	p.cascade()
	return a
}

// addPartitions reads ADD [IF NOT EXISTS] PARTITION (..) [LOCATION 'l'] ...
func (p *parser) addPartitions() ast.AlterAction {
	p.expect("ADD")
	a := &ast.AlterAddPartitions{IfNotExists: p.ifNotExists()}
	for first := true; p.err == nil && (first || p.at("PARTITION") || p.accept(",")); first = false {
		d := ast.PartitionDef{Pos: p.peek().pos}
		p.expect("PARTITION")
		d.Values = p.partitionSpec(specConstants)
		if p.accept("LOCATION") {
			d.Location = p.str("a place in quotes")
		}
		a.Parts = append(a.Parts, d)
	}
	return a
}

// alterSet reads what follows SET.
func (p *parser) alterSet(stmt ast.Stmt) ast.AlterAction {
	t := p.peek()
	switch {
	case p.accept("TBLPROPERTIES"):
		return &ast.AlterProperties{Properties: p.properties()}
	case p.accept("SERDEPROPERTIES"):
		return &ast.AlterProperties{Serde: true, Properties: p.properties()}
	case p.accept("SERDE"):
		a := &ast.AlterSerde{Pos: t.pos, Serde: p.str("the name of a SerDe in quotes")}
		if p.accept("WITH", "SERDEPROPERTIES") {
			a.Properties = p.properties()
		}
		return a
	case p.accept("FILEFORMAT"):
		a := &ast.AlterFormat{Stored: ast.Stored{Pos: t.pos}}
		if p.accept("INPUTFORMAT") {
			a.Stored.Input = p.str("the name of an input format in quotes")
			p.expect("OUTPUTFORMAT")
			a.Stored.Output = p.str("the name of an output format in quotes")
			if p.accept("SERDE") {
				p.str("the name of a SerDe in quotes")
			}
			if p.accept("INPUTDRIVER") {
				p.str("the name of a driver in quotes")
				p.expect("OUTPUTDRIVER")
				p.str("the name of a driver in quotes")
			}
			return a
		}
		a.Stored.As = p.ident("a format name").Name
		return a
	case p.accept("LOCATION"):
		return &ast.AlterLocation{Location: p.str("a place in quotes")}
	case p.accept("OWNER"):
		_, name := p.owner()
		return &ast.AlterOwner{Owner: name}
	case p.accept("SKEWED", "LOCATION"):
		p.i = len(p.toks) - 1
		return &ast.AlterNothing{What: "SET SKEWED LOCATION"}
	case t.is("PARTITION"):
		p.unsupported(t.pos, "ALTER TABLE .. SET PARTITION SPEC")
	default:
		p.unexpected("TBLPROPERTIES, SERDEPROPERTIES, SERDE, FILEFORMAT, LOCATION or OWNER")
	}
	return nil
}

// propertyKeys reads ('a', 'b'), or ('a'='x', ..) whose values don't count.
func (p *parser) propertyKeys() []ast.Property {
	var out []ast.Property
	p.expect("(")
	for p.err == nil {
		prop := ast.Property{Pos: p.peek().pos, Key: p.str("a property name in quotes")}
		if p.accept("=") {
			p.str("a property value in quotes")
		}
		out = append(out, prop)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return out
}

// properties reads ('k'='v', ..).
func (p *parser) properties() []ast.Property {
	out := []ast.Property{}
	p.expect("(")
	for p.err == nil {
		prop := ast.Property{Pos: p.peek().pos, Key: p.str("a property name in quotes")}
		if p.accept("=") {
			prop.Value = p.str("a property value in quotes")
		} else if !p.at(",") && !p.at(")") {
			p.unexpected("'='")
		}
		out = append(out, prop)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return out
}

// createView reads CREATE [OR REPLACE] VIEW.
func (p *parser) createView(stmt ast.Stmt) ast.Statement {
	p.expect("CREATE")
	s := &ast.CreateView{Stmt: stmt, OrReplace: p.accept("OR", "REPLACE")}
	p.expect("VIEW")
	s.IfNotExists = p.ifNotExists()
	s.Name = p.name("a view name")
	if p.at("(") {
		s.Columns = p.columnDefs(true)
		for _, c := range s.Columns {
			if c.Type.Line > 0 || c.Constraints != nil {
				p.fail(syntaxError(c.Pos, "the columns of a view have names and comments; their types are the query's"))
			}
		}
	}
	for p.err == nil {
		switch {
		case p.accept("COMMENT"):
			s.Comment = p.str("a comment in quotes")
			continue
		case p.accept("PARTITIONED", "ON"):
			s.PartitionOn = p.identList("a column name")
			continue
		case p.accept("TBLPROPERTIES"):
			s.Properties = append(s.Properties, p.properties()...)
			continue
		}
		break
	}
	p.expect("AS")
	start := p.i
	s.Query = p.query()
	s.QueryText = p.textBetween(start)
	return s
}

func (p *parser) createDatabase(stmt ast.Stmt) ast.Statement {
	p.i += 2
	s := &ast.CreateDatabase{Stmt: stmt, IfNotExists: p.ifNotExists(), Name: p.databaseName()}
	for p.err == nil && p.peek().kind != tokEOF {
		switch {
		case p.accept("COMMENT"):
			s.Comment = p.str("a comment in quotes")
		case p.accept("WITH", "DBPROPERTIES"):
			s.Properties = p.properties()
		case p.accept("LOCATION"):
			s.Location = p.str("a place in quotes")
		case p.accept("MANAGEDLOCATION"):
			s.ManagedLocation = p.str("a place in quotes")
		default:
			p.unexpected("COMMENT, LOCATION, MANAGEDLOCATION, WITH DBPROPERTIES or end of statement")
		}
	}
	return s
}

// reasonError refuses what will never be, with the reason.
func reasonError(pos ast.Pos, what, reason string) error {
	return unsupportedError(pos, strings.TrimSuffix(what, " ")+": "+reason)
}
