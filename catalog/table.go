package catalog

import (
	"slices"
	"time"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Database is a namespace of tables.
type Database struct {
	Name       string
	Comment    string
	Properties map[string]string
	// Location and ManagedLocation are as written, for people: rows live in regions.
	Location        string
	ManagedLocation string
	Owner           string
	OwnerType       string // USER, ROLE or GROUP; "": USER
	Created         time.Time
}

// TableKind says where a table's rows are.
type TableKind string

// The kinds of tables.
const (
	// Managed: in regions.
	Managed TableKind = ""
	// External: in text files under Location, of the table or of a partition.
	External TableKind = "external"
	// View: in a query.
	View TableKind = "view"
)

// RowFormat is how a table's text files look: ROW FORMAT DELIMITED. It is used
// by LOAD DATA and for the files of external tables; the zero value is Hive's default
// (fields by ^A, items of collections by ^B, keys of maps by ^C, \N is NULL).
type RowFormat struct {
	FieldDelimiter  string // one byte; "" = \x01
	Escape          string // one byte; "" = none
	LineDelimiter   string // only "\n"
	CollectionDelim string
	MapKeyDelim     string
	NullText        string // "" = \N
	CSV             bool   // OpenCSVSerde: quotes
}

// Table is a table's definition. It is immutable: a change makes a new one.
type Table struct {
	storage.Table
	Kind      TableKind
	Database  string
	TableName string // without the database
	Comment   string
	// PartitionColumns are not among Columns. Their ids are from the same
	// sequence; their values belong to the partitions.
	PartitionColumns schema.Columns
	Properties       map[string]string // TBLPROPERTIES; keys as written
	RowFormat        RowFormat
	// Serde and SerdeProperties are what ROW FORMAT SERDE named; "" for
	// DELIMITED and the default.
	Serde           string
	SerdeProperties map[string]string
	StoredAs        string // as written, a hint; "" = TEXTFILE
	Location        string // as written; External tables have their files there
	// ViewText is a View's query, as written but for names: those that the
	// statement left open are looked up in ViewDatabase.
	ViewText     string
	ViewDatabase string
	Buckets      Buckets
	Skew         Skew
	Constraints  []Constraint
	// Temporary tables belong to one session and end with it.
	Temporary    bool
	WantRegions  int // SPLIT INTO n: cut at sampled quantiles at the first load; 0 = 1
	Owner        string
	Created      time.Time
	Modified     time.Time // of the definition; zero: as created
	NextColumnID schema.ColumnID
}

// AllColumns returns columns and partition columns, as SELECT * shows them.
func (t *Table) AllColumns() schema.Columns {
	if len(t.PartitionColumns) == 0 {
		return t.Columns
	}
	return slices.Concat(t.Columns, t.PartitionColumns)
}

// Buckets is CLUSTERED BY (..) [SORTED BY (..)] INTO n BUCKETS.
type Buckets struct {
	N       int // 0: none
	Columns []string
	Sorted  []SortColumn
}

// SortColumn is a column of SORTED BY.
type SortColumn struct {
	Name string
	Desc bool
}

// Skew is SKEWED BY (..) ON (..). It is a hint.
type Skew struct {
	Columns []string
	Values  [][]string
	// StoredAsDirectories is as written.
	StoredAsDirectories bool
}

// ConstraintKind is the kind of a constraint.
type ConstraintKind string

// The kinds of constraints.
const (
	PrimaryKey ConstraintKind = "primary key"
	Unique     ConstraintKind = "unique"
	ForeignKey ConstraintKind = "foreign key"
	NotNull    ConstraintKind = "not null"
	Default    ConstraintKind = "default"
	Check      ConstraintKind = "check"
)

// Constraint is a constraint of a table. Enforced ones of kind NotNull, Default
// and Check are kept by writes; the others inform.
type Constraint struct {
	Kind       ConstraintKind
	Name       string
	Columns    []string // lower case
	Text       string   // of Default and Check: the expression
	RefTable   string   // of ForeignKey: database.table
	RefColumns []string
	Enforced   bool
	Validated  bool
	Rely       bool
}

// Partition is one of the partitions of a table.
type Partition struct {
	ID storage.PartitionID
	// Values are those of Table.PartitionColumns, of their types. NULL is the
	// default partition, which Hive writes __HIVE_DEFAULT_PARTITION__.
	Values     []schema.Datum
	Properties map[string]string
	Location   string // of an External table's partition
	Created    time.Time
	// It is there at T iff Begin <= T < End.
	Begin, End storage.Timestamp
}

// DefaultPartition is how NULL is written as a partition's value.
const DefaultPartition = "__HIVE_DEFAULT_PARTITION__"
