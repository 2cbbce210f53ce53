// Package segment has the immutable columnar files of a region: Parquet,
// sorted by row key, with a checksum sidecar. docs/format/segment.md describes
// every byte that is ours.
//
// A Writer makes one file with its sidecar and returns a Meta, which the
// region keeps in its manifest; a Reader needs that Meta to open the file
// again. Segments know nothing of regions, manifests or visibility: they give
// rows with their keys and versions, and the region decides which ones count.
//
// Everything goes through a pebble vfs.FS, so that crash and fault tests see
// every byte.
package segment

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// SidecarSuffix is what a sidecar's path has after that of its file.
const SidecarSuffix = ".crc"

// Keys are encoded row keys, flat: key i is Data[Offsets[i]:Offsets[i+1]].
// The zero Keys has no keys.
type Keys struct {
	Offsets []uint32
	Data    []byte
}

// Len returns the number of keys.
func (k Keys) Len() int {
	if len(k.Offsets) == 0 {
		return 0
	}
	return len(k.Offsets) - 1
}

// At returns key i, without copying it.
func (k Keys) At(i int) storage.Key { return k.Data[k.Offsets[i]:k.Offsets[i+1]:k.Offsets[i+1]] }

// Append adds a key, copying it.
func (k *Keys) Append(key storage.Key) {
	if len(k.Offsets) == 0 {
		k.Offsets = append(k.Offsets, 0)
	}
	k.Data = append(k.Data, key...)
	k.Offsets = append(k.Offsets, uint32(len(k.Data)))
}

// Run is a run of implicit row ids: Base (see rowkey.Implicit) and those that
// follow it, Count in all.
type Run struct {
	Partition storage.PartitionID `json:",omitempty"` // 0: the table isn't partitioned
	Stripe    uint16
	Load      uint64
	Task      uint32
	Ordinal   uint64 // of the first row
	Count     int64
}

// Options say what a Writer writes.
type Options struct {
	FS   vfs.FS
	Path string // of the file, which must not exist; the sidecar is Path + ".crc"
	// Columns are the table's, in the order in which Append gets them.
	Columns       schema.Columns
	SchemaVersion int
	// Key is the declared row key. Empty: row ids are implicit, Append gets
	// no keys and Finish needs the runs set by SetRuns.
	Key []storage.KeyColumn
	// Partitioned: row keys begin with a partition id, so that Append can't make
	// them of the key columns.
	Partitioned bool
	// Versions: each row has a begin timestamp of its own, and a key may have
	// several versions, newest first. Otherwise one timestamp, kept outside
	// the file, serves all rows: a staged load doesn't know its commit time.
	Versions bool
	// Tombstones: rows may be deletions. Needs Versions.
	Tombstones bool

	// RowGroupRows and RowGroupBytes cap a row group; 0 means 1 Mi rows and
	// 256 MiB of arrays, before encoding.
	RowGroupRows  int64
	RowGroupBytes int64
	// Codec: "" means snappy; also "none", "zstd".
	Codec string
}

// Rows are rows to append, in ascending key order, within a key newest first.
type Rows struct {
	// Batch has the columns of Options.Columns; its selection is honoured. A
	// tombstone has its key columns set and NULL elsewhere.
	Batch *batch.Batch
	// Keys, Begin and Deleted have one entry for each selected row.
	Keys    Keys                // zero: computed from the key columns, unless Options.Partitioned
	Begin   []storage.Timestamp // with Options.Versions
	Deleted []bool              // with Options.Tombstones; nil: none
}

// ScanOptions say what a scan wants.
type ScanOptions struct {
	// Columns are the output, in order. A column id that the file doesn't
	// have reads as NULL. None: chunks carry row counts only.
	Columns schema.Columns
	// Filter is applied to rows as they are in the file, tombstones included;
	// who has to sort out versions scans without and filters after (Filter).
	Filter storage.Predicate
	Range  storage.KeyRange
	// NeedKeys and NeedVersions ask for Chunk.Keys, and Begin and Deleted.
	NeedKeys     bool
	NeedVersions bool
}

// Chunk is a batch of a segment's rows with what a region needs besides. The
// arrays are immutable and may be kept, as in package batch.
type Chunk struct {
	batch.Batch
	// Row is the position in the file of value 0 of the columns; -1 for
	// counts and lookups.
	Row int64
	// Positions has, in what Lookup returns, the position in the file of each
	// row.
	Positions []int64
	// Keys, Begin and Deleted have Len entries each, like the columns:
	// index them by the selection. Keys of rows that aren't selected may be
	// empty. Begin is nil when the file has one
	// timestamp for all rows, Deleted when it has no tombstones.
	Keys    Keys
	Begin   []storage.Timestamp
	Deleted []bool
}
