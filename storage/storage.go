// Package storage is the contract of the region store. storage/region keeps
// regions in data folders; storage/client finds the server that holds a key
// range; storage/storagetest is the suite that every Server must pass.
//
// Everything speaks batches. Rows are versioned: a version is visible at T iff
// begin <= T < end, where end is the begin of its key's next newer version,
// wherever that is stored. Newer means timestamp, never layer.
package storage

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/schema"
)

type (
	// TableID, RegionID and TxnID are given out by the catalogue, never reused.
	TableID  uint64
	RegionID uint64
	TxnID    uint64

	// Timestamp is milliseconds since 1970 << 20 | a counter, from the
	// catalogue's oracle alone. Timestamps of commits and puts never tie.
	Timestamp uint64

	// Key is an encoded row key (package storage/rowkey): order-preserving,
	// and no key is a prefix of another.
	Key []byte
)

// MaxTimestamp is later than every timestamp the oracle gives.
const MaxTimestamp = Timestamp(1<<64 - 1)

// Millis returns the wall-clock part of t: milliseconds since 1970.
func (t Timestamp) Millis() int64 { return int64(t >> 20) }

// KeyRange is [Start, End); an empty Start is the lowest key, an empty End
// is above the highest.
type KeyRange struct{ Start, End Key }

// KeyColumn is one row-key column. NULLs come first ascending, last
// descending.
type KeyColumn struct {
	Column schema.ColumnID
	Desc   bool
}

// Table is what the store knows of a table. The catalogue owns it; it is
// immutable, a change makes a new one with a higher Version.
type Table struct {
	ID      TableID
	Name    string // database.table, for messages
	Version int
	Columns schema.Columns
	Key     []KeyColumn // empty: a keyless table, whose row ids are implicit
	// Partitioned says that every row key begins with the row's partition id, a
	// PartitionID as 4 bytes big endian; the row-key columns, or the implicit row
	// id, follow. Partition columns are not among Columns: their values belong to
	// the id, in the catalogue. Staged batches of such a table begin with a column
	// of type int, the partition id of each row, before the table's own.
	Partitioned bool
}

// PartitionID names a partition of a table for ever; 0 is none.
type PartitionID uint32

// Range returns the row keys of a partition.
func (p PartitionID) Range() KeyRange {
	r := KeyRange{Start: binary.BigEndian.AppendUint32(nil, uint32(p))}
	if p < math.MaxUint32 {
		r.End = binary.BigEndian.AppendUint32(nil, uint32(p)+1)
	}
	return r
}

// In returns a range of what follows the partition id in row keys as a range of row keys of partition p.
func (r KeyRange) In(p PartitionID) KeyRange {
	all := p.Range()
	out := KeyRange{Start: append(all.Start[:4:4], r.Start...), End: all.End}
	if len(r.End) > 0 {
		out.End = append(all.Start[:4:4], r.End...)
	}
	return out
}

// Partition is a partition of a table and the values that its rows have in the
// partition columns, which are not stored with them.
type Partition struct {
	ID     PartitionID
	Values []schema.Datum
}

// Keyed reports whether rows have a declared key: put, get and delete work.
func (t *Table) Keyed() bool { return len(t.Key) > 0 }

// KeyColumns returns the columns of the row key, in key order.
func (t *Table) KeyColumns() schema.Columns {
	out := make(schema.Columns, len(t.Key))
	for i, k := range t.Key {
		out[i] = t.Columns[t.Columns.ByID(k.Column)]
	}
	return out
}

// Region is a contiguous key range of a table and the place where it lives.
type Region struct {
	ID     RegionID
	Table  TableID
	Range  KeyRange
	Worker cluster.WorkerID
	Folder int // which of the worker's data folders
}

// RegionStats are a region's figures, for planning and people. Hints: a
// missing or stale figure never changes an answer.
type RegionStats struct {
	Region
	Rows        int64 // versions in segments, plus an estimate of the delta's
	Bytes       int64 // segment files
	DeltaBytes  int64
	Segments    int
	Generations int
}

// Outcome is what became of a transaction.
type Outcome struct {
	State   TxnState
	At      Timestamp // commit timestamp, when Committed
	Winners []string  // attempts whose staged rows count, when Committed
}

// TxnState: Undecided -> Committed | Aborted, once.
type TxnState uint8

const (
	// Undecided means: if it ever commits, then at a timestamp above all
	// that have been issued before the question.
	Undecided TxnState = iota
	Committed
	Aborted
)

// Authority is what the store needs of the catalogue.
type Authority interface {
	// Timestamp returns a new timestamp, above all earlier ones.
	Timestamp(ctx context.Context) (Timestamp, error)
	// Floor returns the history floor: no reader will ask for a snapshot at
	// below it: versions that ended at or before Floor may go.
	Floor(ctx context.Context) (Timestamp, error)
	// Outcome returns what became of a transaction. An unknown one was aborted.
	Outcome(ctx context.Context, txn TxnID) (Outcome, error)
	// Regions returns the live regions of a table, by key; they tile.
	Regions(ctx context.Context, table TableID) ([]Region, error)
	// NewRegionID returns a fresh id.
	NewRegionID(ctx context.Context) (RegionID, error)
	// ReplaceRegions swaps regions of a table for others that cover the same
	// keys, in one step. It fails, changing nothing, when one of old is gone.
	ReplaceRegions(ctx context.Context, table TableID, old []RegionID, new []Region) error
}

// Scan asks for rows of one region (of the part of it that Range covers).
type Scan struct {
	Region RegionID
	// Range, clipped to the region. A split is a key range at a snapshot: it
	// stays valid when the region is split; storage/client then visits all.
	Range KeyRange
	At    Timestamp
	// Columns are the output columns in order; their types are those of the
	// snapshot's table version. None: batches carry row counts only.
	Columns schema.Columns
	Filter  Predicate // nil: all rows
	Limit   int64     // 0: none; a scan may stop after so many rows
	Ordered bool      // rows in key order
}

// ScanStats count what a scan did. At the end of a whole scan, for each segment
// read, Pruned + Clipped + Superseded + Filtered + Emitted = rows in its footer;
// otherwise the scan fails.
type ScanStats struct {
	Pruned     int64 // rows skipped by zone map, bloom, dictionary, without decoding
	Clipped    int64 // rows outside the key range
	Superseded int64 // versions not visible at the snapshot, or deleted
	Filtered   int64 // rows the predicate refused
	Emitted    int64
	BytesRead  int64 // of files, before decompression
	RowGroups  int64 // opened
}

// Add adds b to a.
func (a *ScanStats) Add(b ScanStats) {
	a.Pruned += b.Pruned
	a.Clipped += b.Clipped
	a.Superseded += b.Superseded
	a.Filtered += b.Filtered
	a.Emitted += b.Emitted
	a.BytesRead += b.BytesRead
	a.RowGroups += b.RowGroups
}

// ScanReader is a scan in progress.
type ScanReader interface {
	batch.Reader
	// Stats may be called at any time from the reader's goroutine.
	Stats() ScanStats
}

// Staged is what one attempt has staged in a transaction, durably.
type Staged struct {
	Attempt    string
	Rows       int64
	Bytes      int64 // of files
	Duplicates int64 // rows hidden by a later row of the same key in this load
	// Partitions are those of the rows, once each. The writer of a partitioned table's
	// rows (package outputformat/table) fills it in.
	Partitions []PartitionID
	Regions    []RegionID
}

// StageOptions say how rows of a load are staged.
type StageOptions struct {
	Txn     TxnID
	Attempt string // unique; the same name may not stage twice
	Task    int    // number of the task: part of implicit row ids
	// Sorted promises ascending row keys with no duplicates.
	Sorted bool
}

// StageWriter takes the rows of one attempt. Rows of a keyed table may come in
// any order and are sorted per region; among equal keys the last one wins.
type StageWriter interface {
	// Write stages rows whose columns are the table's, in its order.
	Write(ctx context.Context, b *batch.Batch) error
	// Finish makes them durable and pending; nothing is visible before the
	// transaction commits.
	Finish(ctx context.Context) (Staged, error)
	// Abort drops what was staged. Safe after Finish or an error.
	Abort() error
}

// CheckProblem is what `skep table check` reports: one fault found.
type CheckProblem struct {
	Region RegionID
	File   string // relative to the data folder; may be empty
	Detail string
}

func (p CheckProblem) String() string {
	if p.File == "" {
		return fmt.Sprintf("region %d: %s", p.Region, p.Detail)
	}
	return fmt.Sprintf("region %d: %s: %s", p.Region, p.File, p.Detail)
}

// Server is one worker's regions: what a region server offers, in this process
// or over the network. All methods are safe for concurrent use.
type Server interface {
	// CreateRegion makes an empty region; idempotent.
	CreateRegion(ctx context.Context, t *Table, r Region) error
	// DropRegion forgets a region; its files go once no reader needs them.
	DropRegion(ctx context.Context, id RegionID) error
	// Stats returns the figures of a region.
	Stats(ctx context.Context, id RegionID) (RegionStats, error)
	// CutKeys returns up to n-1 ascending keys strictly inside the range (and
	// the region) that cut it in parts of about equal work, at row-group
	// bounds; with the estimated rows and bytes of each part (one more than keys).
	CutKeys(ctx context.Context, id RegionID, r KeyRange, at Timestamp, n int) ([]Key, []RegionStats, error)

	// Scan opens a scan. It first waits for every write below s.At.
	Scan(ctx context.Context, s Scan) (ScanReader, error)
	// Get returns the rows with these keys (unique) that are visible at at, in no promised
	// order, with the given columns.
	Get(ctx context.Context, id RegionID, keys []Key, at Timestamp, columns schema.Columns) (*batch.Batch, error)

	// Put writes rows: columns (which include the key's) of b, which begins with
	// the partition ids if the table is partitioned. Columns that
	// are absent keep the value of the row's current version, NULL in a new
	// row. It returns once durable. The whole batch is atomic in this region.
	Put(ctx context.Context, id RegionID, columns schema.Columns, b *batch.Batch) (Timestamp, error)
	// Delete deletes rows by key; deleting what isn't there is fine.
	Delete(ctx context.Context, id RegionID, keys []Key) (Timestamp, error)

	// Stage opens a writer of staged rows for regions of this server.
	Stage(ctx context.Context, t *Table, regions []Region, o StageOptions) (StageWriter, error)
	// StageTruncate lists pending range tombstones: at commit time C they end
	// every version that began before C with a key in one of the ranges (clipped
	// to the region; the zero range has all keys). Rows staged in the same
	// transaction begin at C, so they live. Calls add up; asking again is fine;
	// without a range it does nothing.
	StageTruncate(ctx context.Context, id RegionID, txn TxnID, ranges ...KeyRange) error
	// Resolve applies the outcome of a transaction to all regions that hold a
	// part of it; idempotent. An undecided one is left alone.
	Resolve(ctx context.Context, txn TxnID) error

	// Flush writes the delta of a region to a segment.
	Flush(ctx context.Context, id RegionID) error
	// Split cuts a region in two at a key, or at its data median when at is
	// empty, and returns the two.
	Split(ctx context.Context, id RegionID, at Key) ([2]Region, error)
	// ReplaceEmpty swaps a region without rows for others, already made, that
	// cover the same keys, in the catalogue and here. It returns false, changing
	// nothing, when the region has rows or may get some from an open transaction.
	ReplaceEmpty(ctx context.Context, id RegionID, with []Region) (bool, error)
	// Check verifies manifest, files and checksums of a region.
	Check(ctx context.Context, id RegionID) ([]CheckProblem, error)
}

// Store is a table-level view of all servers: it finds the regions of a key
// range, follows splits and moves, and cuts batches by region.
type Store interface {
	// CreateTable makes the table's first regions, one or len(cuts)+1, empty, on
	// servers of its choice, and returns them for the catalogue: this is the
	// place function of catalog.Store.CreateTable.
	CreateTable(ctx context.Context, t *Table, cuts []Key) ([]Region, error)
	// DropRegions drops the data of regions that the catalogue no longer lists
	// (what catalog.Store.DropTable returned); idempotent.
	DropRegions(ctx context.Context, regions []Region) error
	Regions(ctx context.Context, t *Table) ([]RegionStats, error)
	// Scan reads a key range across regions, in key order of the regions.
	// Scan.Region is ignored.
	Scan(ctx context.Context, t *Table, s Scan) (ScanReader, error)
	Get(ctx context.Context, t *Table, keys []Key, at Timestamp, columns schema.Columns) (*batch.Batch, error)
	Put(ctx context.Context, t *Table, columns schema.Columns, b *batch.Batch) error
	Delete(ctx context.Context, t *Table, keys []Key) error
	// Stage opens a writer over all regions of the table.
	Stage(ctx context.Context, t *Table, o StageOptions) (StageWriter, error)
	// StageTruncate ends, at commit, all rows with keys in one of the ranges; the
	// zero range is the whole table. See Server.StageTruncate.
	StageTruncate(ctx context.Context, t *Table, txn TxnID, ranges ...KeyRange) error
	// Resolve applies a decided transaction everywhere.
	Resolve(ctx context.Context, t *Table, txn TxnID) error
	Flush(ctx context.Context, t *Table) error
	Split(ctx context.Context, t *Table, region RegionID, at Key) ([2]Region, error)
	// SpreadEmpty turns a table of one empty region into one of len(cuts)+1
	// regions, placed anew; false, changing nothing, when it isn't one.
	SpreadEmpty(ctx context.Context, t *Table, cuts []Key) (bool, error)
	// CutKeys: see Server.CutKeys.
	CutKeys(ctx context.Context, t *Table, region RegionID, r KeyRange, at Timestamp, n int) ([]Key, []RegionStats, error)
	// Check proves that the ranges of the table tile and checks each region.
	Check(ctx context.Context, t *Table) ([]CheckProblem, error)
}
