package segment

import "github.com/skepdb/skep/internal/fault"

// Writer writes one segment. Not safe for concurrent use.
type Writer struct{}

// Create starts a segment.
func Create(o Options) (*Writer, error) { return nil, fault.Bugf("segment: not built yet") }

// Append adds rows. Rows out of key order are an error of class Bug.
func (w *Writer) Append(r Rows) error { return fault.Bugf("segment: not built yet") }

// SetRuns says which implicit row ids the rows have, in row order; before Finish.
func (w *Writer) SetRuns(runs []Run) {}

// Rows returns the rows appended so far; Bytes those written and an estimate
// of those buffered.
func (w *Writer) Rows() int64  { return 0 }
func (w *Writer) Bytes() int64 { return 0 }

// Finish writes footer and sidecar and syncs both and their directory. A
// segment without rows is an error.
func (w *Writer) Finish() (Meta, error) { return Meta{}, fault.Bugf("segment: not built yet") }

// Abort closes and removes the files; safe after Finish or an error.
func (w *Writer) Abort() error { return nil }
