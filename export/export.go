// Package export makes files of query results for others to fetch: on demand and
// on a schedule, zipped, with a manifest that says what they are. Definitions and
// runs are durable; a run's file appears when it is complete, or not at all.
//
// # On disk
//
// A folder for each export, see docs/format/export.md: definition.json, runs/ID.json
// and data/ID.zip. Each file is written aside, synced and renamed. A run's record
// says succeeded only after its zip is in place and durable.
package export

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat/text"
	"github.com/skepdb/skep/schema"
)

// Definition says what an export is.
type Definition struct {
	Name string `json:"name"`
	// Query is a SELECT. Table, with Columns (none: all) and a condition Where, is a
	// short form of one; give either.
	Query   string   `json:"query"`
	Table   string   `json:"table,omitempty"`
	Columns []string `json:"columns,omitempty"`
	Where   string   `json:"where,omitempty"`
	// Database is the one that names without one are looked up in.
	Database string     `json:"database,omitempty"`
	Format   text.Style `json:"format"` // "" is csv
	NoHeader bool       `json:"no_header,omitempty"`
	Schedule *Schedule  `json:"schedule,omitempty"` // nil: on demand only
	// Keep is how many successful runs stay; 0 is DefaultKeep. KeepDays, unless 0, drops
	// those that are older, but never the last one.
	Keep     int       `json:"keep,omitempty"`
	KeepDays int       `json:"keep_days,omitempty"`
	Created  time.Time `json:"created"`
	// Through is the time up to which the schedule was followed: later times are
	// still to come, or were missed.
	Through time.Time `json:"through,omitzero"`
	// Number counts the runs on demand.
	Number int `json:"number,omitempty"`
}

// DefaultKeep is how many successful runs stay unless the definition says.
const DefaultKeep = 10

func (d *Definition) keep() int {
	if d.Keep > 0 {
		return d.Keep
	}
	return DefaultKeep
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// check validates d and fills in what it leaves out; it names every fault.
func (d *Definition) check() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(d.Name) {
		bad("the name %q: want lower-case letters, digits, - and _", d.Name)
	}
	switch {
	case d.Table == "" && strings.TrimSpace(d.Query) == "":
		bad("no query and no table")
	case d.Table != "" && d.Query != "":
		bad("a query and a table: give one of them")
	case d.Table == "" && (d.Where != "" || len(d.Columns) > 0):
		bad("columns and a condition go with a table")
	}
	if d.Format == "" {
		d.Format = text.CSV
	}
	if _, err := text.ParseStyle(string(d.Format)); err != nil {
		bad("%w", err)
	}
	if d.Keep < 0 || d.KeepDays < 0 {
		bad("keep %d runs, %d days: neither may be negative", d.Keep, d.KeepDays)
	}
	if d.Schedule != nil {
		if _, err := d.Schedule.parse(); err != nil {
			bad("%w", err)
		}
	}
	if len(faults) > 0 {
		return fault.Userf("export %s: %w", d.Name, errors.Join(faults...))
	}
	if d.Table != "" {
		d.Query = d.tableQuery()
	}
	return nil
}

// tableQuery is the query that table, columns and condition stand for.
func (d *Definition) tableQuery() string {
	quote := func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
	columns := "*"
	if len(d.Columns) > 0 {
		quoted := make([]string, len(d.Columns))
		for i, c := range d.Columns {
			quoted[i] = quote(c)
		}
		columns = strings.Join(quoted, ", ")
	}
	table := quote(d.Table)
	if db, t, ok := strings.Cut(d.Table, "."); ok {
		table = quote(db) + "." + quote(t)
	}
	q := "SELECT " + columns + " FROM " + table
	if d.Where != "" {
		q += " WHERE (" + d.Where + "\n)" // the line break ends a comment
	}
	return q
}

// State of a run.
type State string

// The states. Queued -> Running -> Succeeded, Failed or Cancelled. A run whose process
// ended is Interrupted until it is tried again.
const (
	Queued      State = "queued"
	Running     State = "running"
	Interrupted State = "interrupted"
	Succeeded   State = "succeeded"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
)

// Over reports whether a run in this state stays in it.
func (s State) Over() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Run is one making of an export.
type Run struct {
	Export string `json:"export"`
	// ID is "run-7" for the seventh on demand, "20261201T0300Z" for one that was due then.
	ID        string    `json:"id"`
	State     State     `json:"state"`
	Scheduled time.Time `json:"scheduled,omitzero"` // zero: on demand
	Queued    time.Time `json:"queued"`
	Started   time.Time `json:"started,omitzero"` // the last attempt
	Ended     time.Time `json:"ended,omitzero"`
	Attempts  int       `json:"attempts"`
	Error     string    `json:"error,omitempty"`
	Manifest  *Manifest `json:"manifest,omitempty"` // of a run that succeeded
	// Rows so far, of one that runs.
	Rows int64 `json:"rows,omitempty"`
}

// Manifest says what an exported file is. It is in the zip, too, without what
// only the whole zip can say.
type Manifest struct {
	Export       string    `json:"export"`
	Run          string    `json:"run"`
	Query        string    `json:"query"`
	Snapshot     uint64    `json:"snapshot"`      // the rows are those at this timestamp
	SnapshotTime time.Time `json:"snapshot_time"` // its clock, in UTC
	Format       string    `json:"format"`
	Header       bool      `json:"header"`
	Columns      []Column  `json:"columns"`
	Rows         int64     `json:"rows"`
	DataFile     string    `json:"data_file"` // its name in the zip
	DataBytes    int64     `json:"data_bytes"`
	DataSHA256   string    `json:"data_sha256"` // hexadecimal
	ZipBytes     int64     `json:"zip_bytes,omitempty"`
	ZipSHA256    string    `json:"zip_sha256,omitempty"`
}

// Column is a column of the data.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Engine answers queries; a node is one.
type Engine interface {
	// Check compiles a query and returns its columns; it refuses everything but a
	// SELECT.
	Check(ctx context.Context, database, query string) ([]schema.Field, error)
	// Query runs a query over one snapshot. It ends when ctx does.
	Query(ctx context.Context, database, query string) (Result, error)
}

// Result is the rows of a query. It must be closed.
type Result interface {
	Fields() []schema.Field
	// Snapshot is the timestamp at which the rows were read: milliseconds since 1970 << 20
	// and a counter.
	Snapshot() uint64
	// Next returns the next rows, or io.EOF.
	Next(ctx context.Context) (*batch.Batch, error)
	Close() error
}
