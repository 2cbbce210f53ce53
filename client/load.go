package client

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
)

// LoadOptions say which files are loaded, and how they are written.
type LoadOptions struct {
	Files []string // UTF-8 text, a row a line
	// Format is "tsv" (nothing is quoted or escaped), "csv" (RFC 4180) or "text"
	// (Hive's: fields separated by ^A, backslash escapes, \N for NULL); "": csv
	// for files named so, else tsv. \N is NULL in all of them; in tsv and csv so is
	// an empty field (in csv "" is the empty string).
	Format    string
	Delimiter string // one byte; "": the format's
	// Header: the first line of each file names the columns that it has, in
	// their order; columns of the table that aren't named become NULL. Without
	// it a line has all columns in the table's order.
	Header bool
	// OnError is what becomes of a row that can't be read: "abort" (or "")
	// stops the load and leaves the table as it was, "null" makes the bad cells
	// NULL, "skip" leaves the row out and writes its line to Reject.
	OnError string
	Reject  string
	// Progress, if not nil, hears now and then which share is done.
	Progress func(share float64)
}

// LoadResult is what a load did.
type LoadResult struct {
	Rows       int64 // that the table got: without duplicates and bad rows
	Duplicates int64 // rows whose key a later row of the load had, too
	BadCells   int64 // cells that became NULL
	BadRows    int64 // rows that were left out
	Tasks      int
}

// Validate names every fault at once.
func (o LoadOptions) Validate() error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(o.Files) == 0 {
		wrong("no file to load")
	}
	switch o.Format {
	case "", "tsv", "csv", "text":
	default:
		wrong("format %q: want tsv, csv or text", o.Format)
	}
	if len(o.Delimiter) > 1 {
		wrong("delimiter %q: want one byte", o.Delimiter)
	}
	switch o.OnError {
	case "", "abort", "null", "skip":
	default:
		wrong("on-error %q: want abort, null or skip", o.OnError)
	}
	if o.Reject != "" && o.OnError != "skip" {
		wrong("a file for rejected rows needs on-error skip")
	}
	if o.OnError == "skip" && o.Reject == "" {
		wrong("on-error skip needs a file for the rejected rows")
	}
	if len(faults) == 0 {
		return nil
	}
	return fault.Userf("load: %w", errors.Join(faults...))
}

// format returns the format of the files, filled in.
func (o LoadOptions) format() string {
	if o.Format != "" || len(o.Files) == 0 {
		return o.Format
	}
	if strings.EqualFold(filepath.Ext(o.Files[0]), ".csv") {
		return "csv"
	}
	return "tsv"
}

func (o LoadOptions) delimiter() string {
	switch {
	case o.Delimiter != "":
		return o.Delimiter
	case o.format() == "csv":
		return ","
	case o.format() == "text":
		return "\x01"
	}
	return "\t"
}

// sample returns the cells of the first lines of a file, at most n.
func (o LoadOptions) sample(file string, n int) (out [][]string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fault.Userf("load: %w", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	if o.format() == "csv" {
		r := csv.NewReader(in)
		r.Comma, r.LazyQuotes, r.FieldsPerRecord = rune(o.delimiter()[0]), true, -1
		for len(out) < n {
			cells, err := r.Read()
			if err == io.EOF {
				return out, nil
			}
			if err != nil {
				return nil, fault.Userf("load: %s: %w", file, err)
			}
			out = append(out, cells)
		}
		return out, nil
	}
	for len(out) < n {
		line, err := in.ReadString('\n')
		if err != nil && err != io.EOF {
			return nil, fault.Userf("load: %w", err)
		}
		if line != "" {
			line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
			out = append(out, strings.Split(line, o.delimiter()))
		}
		if err == io.EOF {
			break
		}
	}
	return out, nil
}

// header returns the column names in the first line of a file.
func (o LoadOptions) header(file string) ([]string, error) {
	lines, err := o.sample(file, 1)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, fault.Userf("load: %s: it is empty, but should have a header line", file)
	}
	names := lines[0]
	if len(names) > 0 {
		names[0] = strings.TrimPrefix(names[0], "\ufeff")
	}
	seen := map[string]bool{}
	for i, n := range names {
		switch {
		case n == "":
			return nil, fault.Userf("load: %s, line 1: column %d has no name", file, i+1)
		case !utf8.ValidString(n):
			return nil, fault.Userf("load: %s, line 1: the name of column %d is not UTF-8", file, i+1)
		case seen[strings.ToLower(n)]:
			return nil, fault.Userf("load: %s, line 1: two columns are named %q", file, n)
		}
		seen[strings.ToLower(n)] = true
	}
	return names, nil
}

// GuessColumns returns the columns of the first file's header, with a type
// guessed from its first thousand rows: bigint, double or boolean where every
// value is plainly one, else string. Values that look like numbers but would
// change as one, such as 007, are strings.
func (o LoadOptions) GuessColumns() ([]Column, error) {
	if len(o.Files) == 0 || !o.Header {
		return nil, fault.Userf("load: the columns can't be guessed without a file that has a header")
	}
	names, err := o.header(o.Files[0])
	if err != nil {
		return nil, err
	}
	rows, err := o.sample(o.Files[0], 1001)
	if err != nil {
		return nil, err
	}
	double := regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?$`)
	kinds := []struct {
		typ   string
		looks func(string) bool
	}{
		{"bigint", regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`).MatchString},
		{"double", func(s string) bool { return len(s) <= 15 && double.MatchString(s) }}, // 15 digits fit a double
		{"boolean", regexp.MustCompile(`^(true|false|TRUE|FALSE)$`).MatchString},
	}
	out := make([]Column, len(names))
	for i, n := range names {
		out[i] = Column{Name: strings.ToLower(n), Type: "string"}
		for _, k := range kinds {
			values, fit := 0, 0
			for _, r := range rows[1:] {
				if i >= len(r) || r[i] == "" {
					continue
				}
				values++
				if k.looks(r[i]) {
					fit++
				}
			}
			if values > 0 && fit == values {
				out[i].Type = k.typ
				break
			}
		}
	}
	return out, nil
}

// Load loads text files: all their rows become visible at once, or none. A row
// replaces the one that has its key, and among rows of one load with the same
// key the last one wins: files count in their order.
func (t *Table) Load(ctx context.Context, o LoadOptions) (LoadResult, error) {
	if err := o.Validate(); err != nil {
		return LoadResult{}, err
	}
	files := sql.Files{
		Paths: o.Files, CSV: o.format() == "csv", Columns: t.def.Columns, Delimiter: o.delimiter(),
		EmptyIsNull: o.format() != "text", OnError: sql.Abort, Reject: o.Reject,
	}
	if o.format() == "text" {
		files.Escape = `\`
	}
	switch o.OnError {
	case "null":
		files.OnError = sql.Null
	case "skip":
		files.OnError = sql.Skip
	}
	if o.Header {
		files.SkipHeader = 1
		var err error
		if files.Columns, err = t.headerColumns(o); err != nil {
			return LoadResult{}, err
		}
	}
	l := sql.Load{Table: t.def, Files: files, Name: "load " + strings.Join(o.Files, ", ") + " into " + t.Name()}
	status, err := t.client.engine.Load(ctx, l, func(j frontend.Job) {
		if o.Progress != nil {
			reportProgress(ctx, j, o.Progress)
		}
	})
	if err != nil {
		return LoadResult{}, fmt.Errorf("load into %s: %w", t.Name(), err)
	}
	r := LoadResult{Rows: status.Summary.Rows, Duplicates: status.Summary.Duplicates,
		BadCells: status.Counters[jobs.CounterBadCells], BadRows: status.Counters[jobs.CounterBadRows]}
	for _, st := range status.Stages {
		r.Tasks += st.Tasks
	}
	return r, nil
}

// reportProgress tells f now and then how far a job is, until it ends.
func reportProgress(ctx context.Context, j frontend.Job, f func(float64)) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = j.Wait(ctx) // the caller waits for the outcome itself
	}()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			var done, all float64
			for _, st := range j.Status().Stages {
				done += st.Progress
				all++
			}
			if all > 0 {
				f(done / all)
			}
		}
	}
}

// headerColumns returns the file's columns in its order, as the headers name
// them; all files must have the same.
func (t *Table) headerColumns(o LoadOptions) (schema.Columns, error) {
	var first []string
	var out schema.Columns
	var known []string
	for _, c := range t.def.Columns {
		known = append(known, c.Name)
	}
	for _, file := range o.Files {
		names, err := o.header(file)
		if err != nil {
			return nil, err
		}
		if first != nil {
			if strings.Join(names, "\x00") != strings.Join(first, "\x00") {
				return nil, fault.Userf("load: %s, line 1: its columns are not those of %s", file, o.Files[0])
			}
			continue
		}
		first = names
		for i, n := range names {
			at := t.def.Columns.Index(n)
			if at < 0 {
				return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnknownCol, Hint: nearest.Hint(n, known),
					Message: fmt.Sprintf("load: %s, line 1: column %d is named %q, which table %s doesn't have", file, i+1, n, t.Name())}
			}
			out = append(out, t.def.Columns[at])
		}
	}
	return out, nil
}

// IsUnknownTable reports whether an error says that there is no such table.
func IsUnknownTable(err error) bool {
	return err != nil && fault.StateOf(err) == fault.StateUnknownTable
}
