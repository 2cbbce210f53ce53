package ast

// Select statements, DML and session statements.
type (
	// QueryStatement is a query at the top.
	QueryStatement struct {
		Stmt
		Query *Query
	}
	// Insert is INSERT INTO|OVERWRITE [TABLE] t [(columns)] query.
	Insert struct {
		Stmt
		Overwrite bool
		Table     Name
		Columns   []Ident
		Query     *Query
	}
	// Load is LOAD DATA [LOCAL] INPATH 'p' [OVERWRITE] INTO TABLE t.
	Load struct {
		Stmt
		Local     bool
		Path      string
		PathPos   Pos
		Overwrite bool
		Table     Name
	}
	// Explain is EXPLAIN [mode] statement.
	Explain struct {
		Stmt
		Mode      string // "", "extended", "analyze", ...
		Statement Statement
	}
	// Set is SET key=value; only SET: all; no value: show one.
	Set struct {
		Stmt
		Key   string
		Value string
		Show  bool // SET, SET -v, SET key
	}
	// Use is USE database.
	Use struct {
		Stmt
		Database Ident
	}
	// Unsupported is a statement of Hive's that the parser recognises by its
	// first words only.
	Unsupported struct {
		Stmt
		What string // "ALTER TABLE", "MERGE"
	}
)

// Data definition.
type (
	// CreateTable is CREATE TABLE [IF NOT EXISTS] t (..) ...
	CreateTable struct {
		Stmt
		IfNotExists bool
		Table       Name
		Columns     []ColumnDef
		// Key is the row key: of ROW KEY (..), or of an enforced PRIMARY KEY.
		Key []KeyColumn
		// KeyPos is the place of the key clause.
		KeyPos     Pos
		Informal   []Ident // PRIMARY KEY (..) DISABLE NOVALIDATE
		SplitInto  int     // SPLIT INTO n; 0 = not said
		Comment    string
		RowFormat  *RowFormat
		StoredAs   string
		Properties []Property
	}
	// ColumnDef is name type [COMMENT 'c'] [NOT NULL].
	ColumnDef struct {
		Pos
		Name       Ident
		Type       TypeName
		Comment    string
		NotNull    bool
		PrimaryKey bool
		// Informal says that the PrimaryKey is DISABLE NOVALIDATE.
		Informal bool
	}
	// KeyColumn is a column of ROW KEY: name [ASC|DESC].
	KeyColumn struct {
		Pos
		Name string
		Desc bool
	}
	// RowFormat is ROW FORMAT DELIMITED .., or SERDE '..'.
	RowFormat struct {
		Pos
		Serde           string // "": DELIMITED
		SerdeProperties []Property
		Fields          string
		Escape          string
		Collection      string
		MapKeys         string
		Lines           string
		Null            *string
	}
	// CreateDatabase is CREATE DATABASE|SCHEMA [IF NOT EXISTS] d.
	CreateDatabase struct {
		Stmt
		IfNotExists bool
		Name        Ident
		Comment     string
		Properties  []Property
	}
	// DropTable is DROP TABLE [IF EXISTS] t [PURGE].
	DropTable struct {
		Stmt
		IfExists bool
		Table    Name
	}
	// DropDatabase is DROP DATABASE [IF EXISTS] d [RESTRICT|CASCADE].
	DropDatabase struct {
		Stmt
		IfExists bool
		Cascade  bool
		Name     Ident
	}
)

// Looking at the catalogue.
type (
	// Describe is DESCRIBE [FORMATTED|EXTENDED] t [column].
	Describe struct {
		Stmt
		Mode   string // "", "formatted", "extended"
		Table  Name
		Column *Ident // nil: the table
	}
	// DescribeDatabase is DESCRIBE DATABASE [EXTENDED] d.
	DescribeDatabase struct {
		Stmt
		Extended bool
		Name     Ident
	}
	// Show is SHOW what [FROM|IN place] [[LIKE] 'pattern'].
	Show struct {
		Stmt
		What    string // "tables", "databases", "columns", "create table", "functions", "tblproperties"
		In      Name   // database; table for columns, create table, tblproperties
		Pattern *string
	}
)
