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
	for i := range m.Runs {
		r := &m.Runs[i]
		if row < r.Count {
			return r.appendKey(dst, row)
		}
		row -= r.Count
	}
	return dst
}

// appendKey appends the row id of the run's row i to dst.
func (r *Run) appendKey(dst []byte, i int64) []byte {
	if r.Partition != 0 {
		dst = rowkey.AppendPartition(dst, r.Partition)
	}
	return rowkey.AppendImplicit(dst, r.Stripe, r.Load, r.Task, r.Ordinal+uint64(i))
}

// setImplicitKeys completes the keys of a keyless table's segment from Runs,
// which must ascend and count all rows.
func (m *Meta) setImplicitKeys() error {
	var rows int64
	var last []byte
	for i := range m.Runs {
		r := &m.Runs[i]
		if r.Count <= 0 || r.Ordinal+uint64(r.Count-1) < r.Ordinal {
			return fault.Bugf("a run of %d row ids from ordinal %d", r.Count, r.Ordinal)
		}
		first := r.appendKey(nil, 0)
		if last != nil && bytes.Compare(last, first) >= 0 {
			return fault.Bugf("row id runs out of order: %x comes after %x", first, last)
		}
		last = r.appendKey(nil, r.Count-1)
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
	var buf []byte
	for i := range m.Runs {
		r := &m.Runs[i]
		if buf = r.appendKey(buf[:0], r.Count-1); bytes.Compare(buf, key) >= 0 {
			return row + int64(sort.Search(int(r.Count-1), func(i int) bool {
				buf = r.appendKey(buf[:0], int64(i))
				return bytes.Compare(buf, key) >= 0
			}))
		}
		row += r.Count
	}
	return row
}

// runCursor gives the implicit ids of rows that are asked for in order.
type runCursor struct {
	runs  []Run
	first int64 // row of the file where runs[0] begins
}

func (c *runCursor) appendKey(dst []byte, row int64) []byte {
	for len(c.runs) > 0 && row >= c.first+c.runs[0].Count {
		c.first += c.runs[0].Count
		c.runs = c.runs[1:]
	}
	if len(c.runs) == 0 {
		return dst
	}
	return c.runs[0].appendKey(dst, row-c.first)
}
