package segment

import (
	"context"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Reader is an open segment. Safe for concurrent use; Close it once no scan
// of it runs any more.
type Reader struct{}

// Open opens the segment at path with the Meta that its Writer returned. key
// is the table's row key (empty: implicit row ids).
func Open(fs vfs.FS, path string, m Meta, key []storage.KeyColumn) (*Reader, error) {
	return nil, fault.Bugf("segment: not built yet")
}

// Meta returns what Open was given.
func (r *Reader) Meta() *Meta { return nil }

// Scan starts a scan.
func (r *Reader) Scan(o ScanOptions) (*Scanner, error) {
	return nil, fault.Bugf("segment: not built yet")
}

// Lookup returns all versions of some keys (ascending, unique), in row order,
// with Keys, Begin and Deleted. The chunk may be empty, and longer than
// batch.MaxRows if there are more keys or versions than that.
func (r *Reader) Lookup(ctx context.Context, keys []storage.Key, columns schema.Columns) (*Chunk, error) {
	return nil, fault.Bugf("segment: not built yet")
}

// Verify reads the whole file against its sidecar and the footer against Meta.
func (r *Reader) Verify(ctx context.Context) error { return fault.Bugf("segment: not built yet") }

// Close closes the files.
func (r *Reader) Close() error { return nil }

// Scanner is a scan in progress. Not safe for concurrent use.
type Scanner struct{}

// Next returns the next chunk with at least one row, or io.EOF. At the end it
// checks that Pruned + Clipped + Filtered + Emitted are the file's rows.
func (s *Scanner) Next(ctx context.Context) (*Chunk, error) {
	return nil, fault.Bugf("segment: not built yet")
}

// Stats returns what the scan has done so far.
func (s *Scanner) Stats() storage.ScanStats { return storage.ScanStats{} }

// Close ends the scan; safe at any time, twice.
func (s *Scanner) Close() error { return nil }

// Filter is a predicate bound to columns, for rows that don't come from a
// segment, or come from one but need version work before. Not safe for
// concurrent use: it remembers what it found out about dictionaries.
type Filter struct{}

// NewFilter binds p to columns; all of p's columns must be among them, or are
// read as NULL.
func NewFilter(p storage.Predicate, columns schema.Columns) (*Filter, error) {
	return nil, fault.Bugf("segment: not built yet")
}

// Select returns the positions among b's rows that p accepts, nil when it
// accepts all of a batch without a selection.
func (f *Filter) Select(b *batch.Batch) ([]int32, error) {
	return nil, fault.Bugf("segment: not built yet")
}
