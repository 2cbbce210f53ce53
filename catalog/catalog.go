// Package catalog has what Skep knows of databases, tables and transactions,
// and the Store interface over it. catalog/metastore keeps it in Pebble.
package catalog

import (
	"context"
	"time"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// DefaultDatabase always exists.
const DefaultDatabase = "default"

// Database is a namespace of tables.
type Database struct {
	Name       string
	Comment    string
	Properties map[string]string
	Created    time.Time
}

// RowFormat is how a table's text files look: ROW FORMAT DELIMITED. It is used
// by LOAD DATA; the zero value is Hive's default (fields by ^A, \N is NULL).
type RowFormat struct {
	FieldDelimiter  string // one byte; "" = \x01
	Escape          string // one byte; "" = none
	LineDelimiter   string // only "\n"
	CollectionDelim string
	MapKeyDelim     string
	NullText        string // "" = \N
	CSV             bool   // OpenCSVSerde: quotes
}

// Table is a table's definition.
type Table struct {
	storage.Table
	Database     string
	TableName    string // without the database
	Comment      string
	Properties   map[string]string // TBLPROPERTIES; keys as written
	RowFormat    RowFormat
	StoredAs     string // as written, a hint; "" = TEXTFILE
	WantRegions  int    // SPLIT INTO n: cut at sampled quantiles at the first load; 0 = 1
	Owner        string
	Created      time.Time
	NextColumnID schema.ColumnID
}

// TxnKind says what a transaction is for, for people.
type TxnKind string

// Kinds of transactions.
const (
	TxnLoad   TxnKind = "load"
	TxnInsert TxnKind = "insert"
)

// Pin keeps the history at and above At readable until Release.
type Pin interface {
	At() storage.Timestamp
	Release()
}

// Store is the catalogue. Names are lower case. All methods are safe for
// concurrent use; every change is durable when its method returns. Errors of
// names that don't exist or exist already are user errors that name the
// nearest existing name.
type Store interface {
	storage.Authority

	Databases(ctx context.Context) ([]Database, error)
	Database(ctx context.Context, name string) (Database, error)
	CreateDatabase(ctx context.Context, d Database) error
	// DropDatabase drops an empty database.
	DropDatabase(ctx context.Context, name string) error

	// Tables returns the tables of a database by name.
	Tables(ctx context.Context, database string) ([]*Table, error)
	Table(ctx context.Context, database, name string) (*Table, error)
	TableByID(ctx context.Context, id storage.TableID) (*Table, error)
	// CreateTable gives ids to table and columns and makes it known together
	// with its regions, in one step. The returned table is the definition to use.
	// place says where the regions live; ranges must tile.
	CreateTable(ctx context.Context, t Table, place func(*Table) ([]storage.Region, error)) (*Table, error)
	// DropTable forgets table and regions in one step and returns the regions
	// whose data can now be dropped. They are also listed by Dropped until
	// ForgetDropped, so that a crash in between leaves no orphan.
	DropTable(ctx context.Context, id storage.TableID) ([]storage.Region, error)
	Dropped(ctx context.Context) ([]storage.Region, error)
	ForgetDropped(ctx context.Context, ids []storage.RegionID) error

	// Pin issues a snapshot timestamp T that means "everything committed
	// before I asked", and keeps its history until released.
	Pin(ctx context.Context) (Pin, error)

	// Begin opens a transaction's record, before the first staged byte.
	Begin(ctx context.Context, kind TxnKind, tables []storage.TableID) (storage.TxnID, error)
	// Commit decides for the named attempts with one compare-and-set and
	// returns the commit timestamp; a retried commit returns the same one. It
	// fails when the transaction was aborted.
	Commit(ctx context.Context, txn storage.TxnID, winners []string) (storage.Timestamp, error)
	// Abort decides against it, durably; it fails when it was committed.
	Abort(ctx context.Context, txn storage.TxnID) error
	// Forget drops a decided record once every region has applied it.
	Forget(ctx context.Context, txn storage.TxnID) error
	// Open lists transactions whose records still exist.
	Open(ctx context.Context) ([]TxnInfo, error)

	Close() error
}

// TxnInfo is a transaction's record.
type TxnInfo struct {
	ID      storage.TxnID
	Kind    TxnKind
	Tables  []storage.TableID
	Outcome storage.Outcome
	Started time.Time
}
