package ast

// Select statements, DML and session statements.
type (
	// QueryStatement is a query at the top.
	QueryStatement struct {
		Stmt
		Query *Query
	}
	// Insert is INSERT INTO|OVERWRITE [TABLE] t [PARTITION (..)] [(columns)] query,
	// or INSERT OVERWRITE [LOCAL] DIRECTORY 'p' query.
	Insert struct {
		Stmt
		Overwrite bool
		Table     Name
		// Partition is of PARTITION (a='x', b); nil: not said.
		Partition   []PartitionValue
		IfNotExists bool
		Columns     []Ident
		Directory   *Directory // instead of Table
		Query       *Query
	}
	// Directory is where INSERT OVERWRITE DIRECTORY writes files.
	Directory struct {
		Pos
		Local     bool
		Path      string
		RowFormat *RowFormat
		StoredAs  string
	}
	// MultiInsert is FROM source INSERT .. SELECT .. INSERT .. SELECT ..; each
	// Query has the source as its From.
	MultiInsert struct {
		Stmt
		Inserts []*Insert
	}
	// PartitionValue is a part of PARTITION (..): name, name = constant, or name
	// op constant where partitions are searched for.
	PartitionValue struct {
		Pos
		Name Ident
		Op   string // "": only the name; "=", "<>", "<", "<=", ">", ">="
		X    Expr
		Text string // of X, as written but for quotes
	}
	// Load is LOAD DATA [LOCAL] INPATH 'p' [OVERWRITE] INTO TABLE t [PARTITION (..)].
	Load struct {
		Stmt
		Local     bool
		Path      string
		PathPos   Pos
		Overwrite bool
		Table     Name
		Partition []PartitionValue
	}
	// Explain is EXPLAIN [mode] statement.
	Explain struct {
		Stmt
		Mode      string // "", "extended", "analyze", "vectorization only detail", ...
		Statement Statement
	}
	// Set is SET key=value; only SET: all; no value: show one.
	Set struct {
		Stmt
		Key   string
		Value string
		Show  bool // SET, SET -v, SET key
	}
	// Reset is RESET [keys]: settings go back to what they were at first.
	Reset struct {
		Stmt
		Keys []string // none: all
	}
	// Use is USE database.
	Use struct {
		Stmt
		Database Ident
	}
	// Unsupported is a statement of Hive's that the engine doesn't have; the
	// parser recognises it by its first words.
	Unsupported struct {
		Stmt
		What   string // "MERGE"
		Reason string // why it never will be; "": not yet
	}
)

// Data definition.
type (
	// CreateTable is CREATE [TEMPORARY] [EXTERNAL] TABLE [IF NOT EXISTS] t (..) ...
	CreateTable struct {
		Stmt
		Temporary   bool
		External    bool
		IfNotExists bool
		Table       Name
		Columns     []ColumnDef
		// Key is the row key: of ROW KEY (..), or of an enforced PRIMARY KEY.
		Key []KeyColumn
		// KeyPos is the place of the key clause.
		KeyPos      Pos
		Constraints []Constraint
		SplitInto   int // SPLIT INTO n; 0 = not said
		Comment     string
		// PartitionedBy has columns; with AS SELECT they may be without types.
		PartitionedBy []ColumnDef
		Clustered     *Clustered
		Skewed        *Skewed
		RowFormat     *RowFormat
		Stored        Stored
		Location      *string
		Properties    []Property
		Like          *Name
		As            *Query
	}
	// Stored is STORED AS f, STORED AS INPUTFORMAT .. OUTPUTFORMAT .. or STORED BY.
	Stored struct {
		Pos
		As                string
		Input, Output     string
		By                string
		HandlerProperties []Property
	}
	// Clustered is CLUSTERED BY (..) [SORTED BY (..)] INTO n BUCKETS.
	Clustered struct {
		Pos
		Columns []Ident
		Sorted  []KeyColumn
		Buckets int
	}
	// Skewed is SKEWED BY (..) ON (..) [STORED AS DIRECTORIES].
	Skewed struct {
		Pos
		Columns     []Ident
		Values      [][]string
		Directories bool
	}
	// Constraint is a constraint of a table or a column.
	Constraint struct {
		Pos
		Kind       string // "primary key", "unique", "foreign key", "not null", "default", "check"
		Name       string
		Columns    []Ident
		X          Expr   // of default and check
		Text       string // of X
		RefTable   Name
		RefColumns []Ident
		Disabled   bool // DISABLE, NOT ENFORCED
		Validate   bool
		Rely       bool
	}
	// ColumnDef is name type [COMMENT 'c'] [constraints].
	ColumnDef struct {
		Pos
		Name        Ident
		Type        TypeName // zero: not said
		Comment     string
		HasComment  bool
		Constraints []Constraint
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
	// CreateView is CREATE [OR REPLACE] VIEW v [(columns)] ... AS query.
	CreateView struct {
		Stmt
		OrReplace   bool
		IfNotExists bool
		Name        Name
		Columns     []ColumnDef // without types
		Comment     string
		PartitionOn []Ident
		Properties  []Property
		Query       *Query
		QueryText   string
	}
	// CreateDatabase is CREATE DATABASE|SCHEMA [IF NOT EXISTS] d.
	CreateDatabase struct {
		Stmt
		IfNotExists     bool
		Name            Ident
		Comment         string
		Location        string
		ManagedLocation string
		Properties      []Property
	}
	// AlterDatabase is ALTER DATABASE d SET ...; what isn't said is nil.
	AlterDatabase struct {
		Stmt
		Name            Ident
		Properties      []Property
		OwnerType       string // USER, ROLE or GROUP; "": not said
		Owner           string
		Location        *string
		ManagedLocation *string
	}
	// DropTable is DROP TABLE|VIEW [IF EXISTS] t [PURGE].
	DropTable struct {
		Stmt
		View     bool
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
	// Truncate is TRUNCATE [TABLE] t [PARTITION (..)].
	Truncate struct {
		Stmt
		Table     Name
		Partition []PartitionValue
	}
	// Analyze is ANALYZE TABLE t [PARTITION (..)] COMPUTE STATISTICS ...
	Analyze struct {
		Stmt
		Table     Name
		Partition []PartitionValue
		Columns   []Ident // FOR COLUMNS a, b
	}
	// Msck is MSCK [REPAIR] TABLE t [ADD|DROP|SYNC PARTITIONS].
	Msck struct {
		Stmt
		Repair bool
		Table  Name
	}
)

// ALTER TABLE and ALTER VIEW.
type (
	// AlterTable is ALTER TABLE|VIEW t [PARTITION (..)] action.
	AlterTable struct {
		Stmt
		View      bool
		Table     Name
		Partition []PartitionValue
		Action    AlterAction
	}
	// AlterAction is what an AlterTable does: one of the Alter types below.
	AlterAction interface{ isAlterAction() }

	// AlterRename is RENAME TO t.
	AlterRename struct{ To Name }
	// AlterColumns is ADD|REPLACE COLUMNS (..).
	AlterColumns struct {
		Replace bool
		Columns []ColumnDef
	}
	// AlterChange is CHANGE [COLUMN] a b type [COMMENT 'c'] [FIRST|AFTER c].
	AlterChange struct {
		From  Ident
		To    ColumnDef
		First bool
		After *Ident
	}
	// AlterPartitionColumn is PARTITION COLUMN (c type).
	AlterPartitionColumn struct{ Column ColumnDef }
	// AlterProperties is SET|UNSET TBLPROPERTIES|SERDEPROPERTIES.
	AlterProperties struct {
		Unset      bool
		IfExists   bool
		Serde      bool
		Properties []Property
	}
	// AlterSerde is SET SERDE 's' [WITH SERDEPROPERTIES (..)].
	AlterSerde struct {
		Serde      string
		Properties []Property
		Pos        Pos
	}
	// AlterFormat is SET FILEFORMAT f.
	AlterFormat struct{ Stored Stored }
	// AlterLocation is SET LOCATION 'l'.
	AlterLocation struct{ Location string }
	// AlterOwner is SET OWNER USER|ROLE|GROUP o.
	AlterOwner struct{ Owner string }
	// AlterClustered is CLUSTERED BY .., NOT CLUSTERED, NOT SORTED or INTO n BUCKETS.
	AlterClustered struct {
		Clustered    *Clustered
		NotClustered bool
		NotSorted    bool
		Buckets      int
	}
	// AlterSkewed is SKEWED BY .., NOT SKEWED or NOT STORED AS DIRECTORIES.
	AlterSkewed struct {
		Skewed         *Skewed
		NotDirectories bool
	}
	// AlterAddPartitions is ADD [IF NOT EXISTS] PARTITION (..) [LOCATION 'l'] ...
	AlterAddPartitions struct {
		IfNotExists bool
		Parts       []PartitionDef
	}
	// PartitionDef is a partition to add.
	PartitionDef struct {
		Pos
		Values   []PartitionValue
		Location string
	}
	// AlterDropPartitions is DROP [IF EXISTS] PARTITION (..), ... [PURGE].
	AlterDropPartitions struct {
		IfExists bool
		Specs    [][]PartitionValue
	}
	// AlterRenamePartition is RENAME TO PARTITION (..).
	AlterRenamePartition struct{ To []PartitionValue }
	// AlterExchange is EXCHANGE PARTITION (..) WITH TABLE t.
	AlterExchange struct {
		Values []PartitionValue
		With   Name
	}
	// AlterConstraint adds a constraint, or drops the one named Drop.
	AlterConstraint struct {
		Add  *Constraint
		Drop *Ident
	}
	// AlterQuery is ALTER VIEW v AS query.
	AlterQuery struct {
		Query *Query
		Text  string
	}
	// AlterNothing is what Hive does to its files or statistics and regions don't need: TOUCH,
	// CONCATENATE, COMPACT, UPDATE STATISTICS.
	AlterNothing struct{ What string }
)

func (*AlterRename) isAlterAction()          {}
func (*AlterColumns) isAlterAction()         {}
func (*AlterChange) isAlterAction()          {}
func (*AlterPartitionColumn) isAlterAction() {}
func (*AlterProperties) isAlterAction()      {}
func (*AlterSerde) isAlterAction()           {}
func (*AlterFormat) isAlterAction()          {}
func (*AlterLocation) isAlterAction()        {}
func (*AlterOwner) isAlterAction()           {}
func (*AlterClustered) isAlterAction()       {}
func (*AlterSkewed) isAlterAction()          {}
func (*AlterAddPartitions) isAlterAction()   {}
func (*AlterDropPartitions) isAlterAction()  {}
func (*AlterRenamePartition) isAlterAction() {}
func (*AlterExchange) isAlterAction()        {}
func (*AlterConstraint) isAlterAction()      {}
func (*AlterQuery) isAlterAction()           {}
func (*AlterNothing) isAlterAction()         {}

// Looking at the catalogue.
type (
	// Describe is DESCRIBE [FORMATTED|EXTENDED] t [PARTITION (..)] [column[.field]...].
	Describe struct {
		Stmt
		Mode      string // "", "formatted", "extended"
		Table     Name
		Partition []PartitionValue
		Column    *Ident   // nil: the table
		Path      []string // fields below Column
	}
	// DescribeDatabase is DESCRIBE DATABASE [EXTENDED] d.
	DescribeDatabase struct {
		Stmt
		Extended bool
		Name     Ident
	}
	// DescribeFunction is DESCRIBE FUNCTION [EXTENDED] f.
	DescribeFunction struct {
		Stmt
		Extended bool
		Name     Ident
	}
	// Show is SHOW what [FROM|IN place] [[LIKE] 'pattern'].
	Show struct {
		Stmt
		// What is "tables", "views", "materialized views", "databases", "columns", "create table",
		// "create database", "functions", "tblproperties", "partitions", "table extended", "conf", "locks",
		// "transactions", "compactions".
		What      string
		Extended  bool // SHOW EXTENDED TABLES
		Sorted    bool // SHOW SORTED COLUMNS
		In        Name // database; table for columns, create table, tblproperties, partitions
		Pattern   *string
		Partition []PartitionValue
		Where     Expr // of partitions
		OrderBy   []OrderItem
		Limit     int        // of partitions; 0: none
		Filter    []Property // of tables: WHERE `table_type` = 'x'
	}
)
