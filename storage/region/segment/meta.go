package segment

import (
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Meta is what a region's manifest keeps of a segment.
type Meta struct {
	Rows          int64
	Bytes         int64 // of the file, without the sidecar
	SchemaVersion int
	Columns       []schema.ColumnID
	FirstKey      storage.Key       // of the first row
	LastKey       storage.Key       // of the last row
	MinBegin      storage.Timestamp // zero without Versions
	MaxBegin      storage.Timestamp
	Versions      bool // rows have begin timestamps of their own
	MultiVersion  bool // some key has more than one version
	Tombstones    int64
	Runs          []Run // implicit row ids, in row order
	RowGroups     []RowGroup
}

// RowGroup is a row group of a segment.
type RowGroup struct {
	FirstKey storage.Key
	FirstRow int64 // position in the file
	Rows     int64
	Bytes    int64 // in the file
}

// Overlaps reports whether some row's key may lie in r.
func (m *Meta) Overlaps(r storage.KeyRange) bool {
	if m.Rows == 0 {
		return false
	}
	return (len(r.Start) == 0 || string(m.LastKey) >= string(r.Start)) && (len(r.End) == 0 || string(m.FirstKey) < string(r.End))
}
