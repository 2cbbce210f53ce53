package segment

import (
	"bytes"
	"sort"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// Meta is what a region's manifest keeps of a segment.
type Meta struct {
	Rows          int64
	Bytes         int64  // of the file, without the sidecar
	Checksum      uint32 // of the sidecar: its last four bytes
	SchemaVersion int
	Columns       []schema.ColumnID
	FirstKey      storage.Key       // of the first row
	LastKey       storage.Key       // of the last row
	MinBegin      storage.Timestamp // zero without Versions
	MaxBegin      storage.Timestamp
	Versions      bool  // rows have begin timestamps of their own
	MultiVersion  bool  // some key has more than one version
	Tombstones    int64 // rows that are deletions
	Runs          []Run // implicit row ids, in row order
	RowGroups     []RowGroup
}

// RowGroup is a row group of a segment.
type RowGroup struct {
	FirstKey storage.Key // of its first row
	FirstRow int64       // position in the file
	Rows     int64
	Bytes    int64 // in the file
}

// Overlaps reports whether some row's key may lie in r.
func (m *Meta) Overlaps(r storage.KeyRange) bool {
	return m.Rows > 0 && (len(r.Start) == 0 || bytes.Compare(m.LastKey, r.Start) >= 0) &&
		(len(r.End) == 0 || bytes.Compare(m.FirstKey, r.End) < 0)
}

// ImplicitKey appends to dst the row id of the row at a position. The
// position must be below Rows and the segment of a keyless table.
func (m *Meta) ImplicitKey(dst []byte, row int64) []byte {
	for _, r := range m.Runs {
		if row < r.Count {
			return rowkey.AppendImplicit(dst, r.Stripe, r.Load, r.Task, r.Ordinal+uint64(row))
		}
		row -= r.Count
	}
	return dst
}

// setImplicitKeys completes the keys of a keyless table's segment from Runs,
// which must ascend and count all rows.
func (m *Meta) setImplicitKeys() error {
	var rows int64
	var last []byte
	for _, r := range m.Runs {
		if r.Count <= 0 || r.Ordinal+uint64(r.Count-1) < r.Ordinal {
			return fault.Bugf("a run of %d row ids from ordinal %d", r.Count, r.Ordinal)
		}
		first := rowkey.Implicit(r.Stripe, r.Load, r.Task, r.Ordinal)
		if last != nil && bytes.Compare(last, first) >= 0 {
			return fault.Bugf("row id runs out of order: %x comes after %x", []byte(first), last)
		}
		last = rowkey.Implicit(r.Stripe, r.Load, r.Task, r.Ordinal+uint64(r.Count-1))
		rows += r.Count
	}
	if rows != m.Rows {
		return fault.Bugf("row id runs of %d rows for %d rows", rows, m.Rows)
	}
	m.FirstKey = m.ImplicitKey(nil, 0)
	m.LastKey = last
	for i := range m.RowGroups {
		m.RowGroups[i].FirstKey = m.ImplicitKey(nil, m.RowGroups[i].FirstRow)
	}
	return nil
}

// searchImplicit returns the first row whose implicit id is at least key.
func (m *Meta) searchImplicit(key storage.Key) int64 {
	var row int64
	for _, r := range m.Runs {
		if bytes.Compare(rowkey.Implicit(r.Stripe, r.Load, r.Task, r.Ordinal+uint64(r.Count-1)), key) >= 0 {
			return row + int64(sort.Search(int(r.Count-1), func(i int) bool {
				return bytes.Compare(rowkey.Implicit(r.Stripe, r.Load, r.Task, r.Ordinal+uint64(i)), key) >= 0
			}))
		}
		row += r.Count
	}
	return row
}
