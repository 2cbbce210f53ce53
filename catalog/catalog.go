// Package catalog has what Skep knows of databases, tables, partitions, views and transactions,
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

// TxnKind says what a transaction is for, for people.
type TxnKind string

// Kinds of transactions.
const (
	TxnLoad      TxnKind = "load"
	TxnInsert    TxnKind = "insert"
	TxnTruncate  TxnKind = "truncate"
	TxnPartition TxnKind = "drop partition"
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
	// AlterDatabase replaces all of a database but its name and its time.
	AlterDatabase(ctx context.Context, d Database) error
	// DropDatabase drops an empty database.
	DropDatabase(ctx context.Context, name string) error

	// Tables returns the tables of a database by name.
	Tables(ctx context.Context, database string) ([]*Table, error)
	Table(ctx context.Context, database, name string) (*Table, error)
	TableByID(ctx context.Context, id storage.TableID) (*Table, error)
	// CreateTable gives ids to table and columns and makes it known together
	// with its regions, in one step. The returned table is the definition to use.
	// place says where the regions live; ranges must tile. nil: the table has no
	// rows of its own (a view, an external table).
	//
	// A Temporary table takes no name: Tables and Table don't know it. Its
	// session finds it by id; it is listed by Temporaries until it is dropped.
	CreateTable(ctx context.Context, t Table, place func(*Table) ([]storage.Region, error)) (*Table, error)
	// AlterTable replaces a table's definition by t in one step and returns it
	// with its new Version. t is a changed copy of what Table returned: when
	// somebody else has changed the table since (t.Version is not the current one) it
	// fails with a retryable error. Columns without id are new ones and get ids that
	// were never used; row key, partition columns (but for their types, names and
	// comments), kind and the time it was made stay. Another Database or TableName renames it; a Temporary table that is no
	// longer one gets its name with that.
	AlterTable(ctx context.Context, t Table) (*Table, error)
	// Temporaries returns the tables that belong to sessions.
	Temporaries(ctx context.Context) ([]*Table, error)
	// DropTable forgets table, partitions and regions in one step and returns the regions
	// whose data can now be dropped. They are also listed by Dropped until
	// ForgetDropped, so that a crash in between leaves no orphan.
	DropTable(ctx context.Context, id storage.TableID) ([]storage.Region, error)
	Dropped(ctx context.Context) ([]storage.Region, error)
	ForgetDropped(ctx context.Context, ids []storage.RegionID) error

	// Partitions returns the partitions of a table that are there at a snapshot
	// (storage.MaxTimestamp: now), by their values, NULL first. They are shared
	// and not to be changed.
	Partitions(ctx context.Context, table storage.TableID, at storage.Timestamp) ([]*Partition, error)
	// PartitionIDs returns the ids of the partitions with these values, one each,
	// for rows that txn is going to stage. A partition that is not there
	// appears, for readers, when txn commits. Asking again, also by other
	// transactions, gives the same ids.
	PartitionIDs(ctx context.Context, txn storage.TxnID, table storage.TableID, values [][]schema.Datum) ([]storage.PartitionID, error)
	// DropPartitions ends partitions when txn commits. Their rows are the caller's to
	// end in the same transaction (storage.Store.StageTruncate). A transaction that has staged rows for one
	// of them and commits later fails with a retryable error.
	DropPartitions(ctx context.Context, txn storage.TxnID, table storage.TableID, ids []storage.PartitionID) error
	// AddPartitions makes empty partitions in one step; one that is there
	// already is an error, or left as it is with ifNotExists. ID, Begin and End are ignored.
	AddPartitions(ctx context.Context, table storage.TableID, parts []Partition, ifNotExists bool) error
	// AlterPartitions replaces values (a rename), properties and locations of partitions in one step.
	AlterPartitions(ctx context.Context, table storage.TableID, parts []Partition) error

	// Pin issues a snapshot timestamp T that means "everything committed
	// before I asked", and keeps its history until released.
	Pin(ctx context.Context) (Pin, error)

	// Begin opens a transaction's record, before the first staged byte.
	Begin(ctx context.Context, kind TxnKind, tables []storage.TableID) (storage.TxnID, error)
	// Commit decides for the named attempts with one compare-and-set and
	// returns the commit timestamp; a retried commit returns the same one. It
	// fails when the transaction was aborted, and, with a retryable error, when a
	// partition that it wrote to was dropped or renamed meanwhile.
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
