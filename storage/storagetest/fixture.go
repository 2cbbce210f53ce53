package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Fixture is a table on a server, with the authority that both share.
type Fixture struct {
	TB      testing.TB
	Server  storage.Server
	Auth    *Authority
	Table   *storage.Table
	columns schema.Columns
}

// NewFixture makes a table of one region, or of more cut at the given keys.
func NewFixture(tb testing.TB, server storage.Server, auth *Authority, t *storage.Table, cuts ...storage.Key) *Fixture {
	tb.Helper()
	f := &Fixture{TB: tb, Server: server, Auth: auth, Table: t, columns: t.Columns}
	start := storage.Key(nil)
	for _, end := range append(slices.Clone(cuts), nil) {
		id, err := auth.NewRegionID(context.Background())
		f.ok(err)
		r := storage.Region{ID: id, Table: t.ID, Range: storage.KeyRange{Start: start, End: end}, Worker: "w1"}
		f.ok(server.CreateRegion(context.Background(), t, r))
		auth.AddRegions(r)
		start = end
	}
	return f
}

func (f *Fixture) ok(err error) {
	f.TB.Helper()
	if err != nil {
		f.TB.Fatal(err)
	}
}

// Regions returns the table's regions by key.
func (f *Fixture) Regions() []storage.Region {
	rs, err := f.Auth.Regions(context.Background(), f.Table.ID)
	f.ok(err)
	return rs
}

// Region returns the region of a key.
func (f *Fixture) Region(k storage.Key) storage.RegionID {
	for _, r := range f.Regions() {
		if r.Range.Contains(k) {
			return r.ID
		}
	}
	f.TB.Fatalf("no region has key %x", []byte(k))
	return 0
}

// Put puts whole rows, all in one region, and returns their timestamp.
func (f *Fixture) Put(rows ...string) storage.Timestamp {
	f.TB.Helper()
	return f.PutColumns(f.columns, rows...)
}

// PutColumns puts rows of some columns, whose first ones are the key's.
func (f *Fixture) PutColumns(columns schema.Columns, rows ...string) storage.Timestamp {
	f.TB.Helper()
	var key string
	n := 0
	for i, c := range rows[0] {
		if c == '|' {
			if n++; n == len(Written(f.Table, f.Table.KeyColumns())) {
				key = rows[0][:i]
				break
			}
		}
	}
	if key == "" {
		key = rows[0]
	}
	ts, err := f.Server.Put(context.Background(), f.Region(Key(f.Table, key)), columns, Rows(Written(f.Table, columns), rows...))
	f.ok(err)
	return ts
}

// Delete deletes keys, all in one region.
func (f *Fixture) Delete(keys ...string) storage.Timestamp {
	f.TB.Helper()
	ks := Keys(f.Table, keys...)
	ts, err := f.Server.Delete(context.Background(), f.Region(ks[0]), ks)
	f.ok(err)
	return ts
}

// Flush flushes all regions.
func (f *Fixture) Flush() {
	f.TB.Helper()
	for _, r := range f.Regions() {
		f.ok(f.Server.Flush(context.Background(), r.ID))
	}
}

// Stage stages rows in a transaction as one attempt.
func (f *Fixture) Stage(o storage.StageOptions, rows ...string) storage.Staged {
	f.TB.Helper()
	st, err := f.TryStage(o, rows...)
	f.ok(err)
	return st
}

// TryStage is Stage with an error.
func (f *Fixture) TryStage(o storage.StageOptions, rows ...string) (storage.Staged, error) {
	w, err := f.Server.Stage(context.Background(), f.Table, f.Regions(), o)
	if err != nil {
		return storage.Staged{}, err
	}
	// In several batches, so that order across them matters.
	for part := range slices.Chunk(rows, max(3, len(rows)/50)) {
		if err := w.Write(context.Background(), Rows(Written(f.Table, f.columns), part...)); err != nil {
			return storage.Staged{}, errors.Join(err, w.Abort())
		}
	}
	st, err := w.Finish(context.Background())
	if err != nil {
		return st, errors.Join(err, w.Abort())
	}
	return st, nil
}

// Load stages rows and commits.
func (f *Fixture) Load(rows ...string) storage.Timestamp {
	f.TB.Helper()
	txn := f.Auth.Begin()
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "load"}, rows...)
	return f.Auth.Commit(txn, "load")
}

// Truncate ends the rows in some ranges, or all, and commits.
func (f *Fixture) Truncate(ranges ...storage.KeyRange) storage.Timestamp {
	f.TB.Helper()
	txn := f.Auth.Begin()
	f.StageTruncate(txn, ranges...)
	return f.Auth.Commit(txn)
}

// StageTruncate stages the end of the rows in some ranges, or of all.
func (f *Fixture) StageTruncate(txn storage.TxnID, ranges ...storage.KeyRange) {
	f.TB.Helper()
	if len(ranges) == 0 {
		ranges = []storage.KeyRange{storage.Whole()}
	}
	for _, r := range f.Regions() {
		f.ok(f.Server.StageTruncate(context.Background(), r.ID, txn, ranges...))
	}
}

// Scan returns the rows of a scan over all regions, region by region, and what
// the scans counted.
func (f *Fixture) Scan(s storage.Scan) ([]string, storage.ScanStats) {
	f.TB.Helper()
	out, st, err := f.TryScan(s)
	f.ok(err)
	return out, st
}

// TryScan is Scan with an error.
func (f *Fixture) TryScan(s storage.Scan) (out []string, st storage.ScanStats, err error) {
	if s.At == 0 {
		s.At = f.Auth.Now()
	}
	if s.Columns == nil {
		s.Columns = f.columns
	}
	for _, r := range f.Regions() {
		if _, ok := r.Range.Intersect(s.Range); !ok {
			continue
		}
		s.Region = r.ID
		sr, err := f.Server.Scan(context.Background(), s)
		if err != nil {
			return out, st, err
		}
		rows, err := Read(context.Background(), s.Columns, sr)
		if err != nil {
			return out, st, err
		}
		out = append(out, rows...)
		st.Add(sr.Stats())
	}
	return out, st, nil
}

// Rows checks the rows visible at at (0: now), ordered by their text, by every
// way of reading: scan, ordered scan, get.
func (f *Fixture) Rows(at storage.Timestamp, want ...string) {
	f.TB.Helper()
	if at == 0 {
		at = f.Auth.Now()
	}
	want = Sorted(want)
	got, _ := f.Scan(storage.Scan{At: at})
	f.equal(fmt.Sprintf("rows at %d", at), Sorted(got), want)
	ordered, _ := f.Scan(storage.Scan{At: at, Ordered: true})
	f.equal(fmt.Sprintf("rows by key at %d", at), Sorted(ordered), want)
	if !f.Table.Keyed() {
		return
	}
	var last storage.Key
	for _, row := range ordered {
		k := f.keyOf(row)
		if string(k) <= string(last) {
			f.TB.Errorf("ordered scan at %d: %s is out of order", at, row)
		}
		last = k
		b, err := f.Server.Get(context.Background(), f.Region(k), []storage.Key{k}, at, f.columns)
		f.ok(err)
		f.equal("get", Text(f.columns, b), []string{row})
	}
}

// keyOf returns the key of a row as text; the key's columns come first.
func (f *Fixture) keyOf(row string) storage.Key {
	values := parse(f.columns, row)
	var cells string
	for i, k := range f.Table.Key {
		if i > 0 {
			cells += "|"
		}
		cells += string(values[f.columns.ByID(k.Column)].AppendTo(nil))
	}
	return Key(f.Table, cells)
}

// Check fails the test if the server finds a problem in any region.
func (f *Fixture) Check() {
	f.TB.Helper()
	for _, r := range f.Regions() {
		problems, err := f.Server.Check(context.Background(), r.ID)
		f.ok(err)
		for _, p := range problems {
			f.TB.Errorf("check: %s", p)
		}
	}
}

func (f *Fixture) equal(what string, got, want []string) {
	f.TB.Helper()
	if !slices.Equal(got, want) {
		f.TB.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// SetColumns completes a Fixture that was not made by NewFixture.
func (f *Fixture) SetColumns() { f.columns = f.Table.Columns }
