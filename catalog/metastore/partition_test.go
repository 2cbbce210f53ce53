package metastore

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

func logs(t *testing.T, s *Store) *catalog.Table {
	t.Helper()
	table, err := s.CreateTable(context.Background(), catalog.Table{TableName: "logs",
		Table:            storage.Table{Columns: schema.Columns{{Name: "line", Type: schema.StringType}}},
		PartitionColumns: schema.Columns{{Name: "DS", Type: schema.StringType}, {Name: "hr", Type: schema.IntType}},
	}, onePlace(s))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// vals makes values of (ds, hr); hr < 0 is NULL.
func vals(ds string, hr int64) []schema.Datum {
	v := []schema.Datum{{Type: schema.StringType, S: ds}, {Type: schema.IntType, I: hr}}
	if hr < 0 {
		v[1] = schema.NullOf(schema.IntType)
	}
	return v
}

func names(t *testing.T, s *Store, table *catalog.Table, at storage.Timestamp) []string {
	t.Helper()
	parts, err := s.Partitions(context.Background(), table.ID, at)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, p := range parts {
		out = append(out, table.PartitionName(p.Values))
	}
	return out
}

func wantNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, append([]string{}, want...)) {
		t.Errorf("partitions %q, want %q", got, want)
	}
}

func begin(t *testing.T, s *Store, table *catalog.Table) storage.TxnID {
	t.Helper()
	txn, err := s.Begin(context.Background(), catalog.TxnInsert, []storage.TableID{table.ID})
	if err != nil {
		t.Fatal(err)
	}
	return txn
}

func wantIDs(t *testing.T, s *Store, txn storage.TxnID, table *catalog.Table, values ...[]schema.Datum) []storage.PartitionID {
	t.Helper()
	out, err := s.PartitionIDs(context.Background(), txn, table.ID, values)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A write's partitions are there from its commit on, not before, and not after
// an abort; two writes that want one share its id.
func TestPartitionsOfWrites(t *testing.T) {
	ctx, fs, clock := context.Background(), vfs.NewMem(), newClock()
	s := open(t, fs, clock)
	table := logs(t, s)
	if !table.Partitioned || table.PartitionColumns[0].Name != "ds" || table.PartitionColumns[0].ID != 2 || table.NextColumnID != 4 {
		t.Errorf("made %+v", table)
	}
	a, b := begin(t, s, table), begin(t, s, table)
	one := wantIDs(t, s, a, table, vals("2008-04-08", 12), vals("2008-04-08", 9), vals("2008-04-08", 12), vals("x/y", -1))
	if one[0] != one[2] || one[0] == one[1] {
		t.Errorf("ids %v", one)
	}
	if two := wantIDs(t, s, b, table, vals("2008-04-08", 9)); two[0] != one[1] {
		t.Errorf("another transaction got id %v, the first %v", two, one[1])
	}
	wantNames(t, names(t, s, table, storage.MaxTimestamp))
	if err := s.Abort(ctx, b); err != nil {
		t.Fatal(err)
	}
	before, err := s.Timestamp(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, a, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"ds=2008-04-08/hr=9", "ds=2008-04-08/hr=12", "ds=x%2Fy/hr=__HIVE_DEFAULT_PARTITION__"}
	wantNames(t, names(t, s, table, storage.MaxTimestamp), want...)
	wantNames(t, names(t, s, table, before))
	c := begin(t, s, table)
	wantIDs(t, s, c, table, vals("gone", 1))
	if err := s.Abort(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs, clock)
	defer s.Close()
	wantNames(t, names(t, s, table, storage.MaxTimestamp), want...)
	wantNames(t, names(t, s, table, before))
	if set := s.partitions[table.ID]; len(set.byID) != 3 {
		t.Errorf("%d partitions are kept, an aborted one's must not be", len(set.byID))
	}
	if n := count(t, s, prefixWrites); n != 0 {
		t.Errorf("%d notes of ended transactions are left", n)
	}
}

func count(t *testing.T, s *Store, prefix []byte) (n int) {
	t.Helper()
	if err := s.each(prefix, func(_, _ []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDroppingPartitions(t *testing.T) {
	ctx, clock := context.Background(), newClock()
	s := open(t, vfs.NewMem(), clock)
	defer s.Close()
	table := logs(t, s)
	if err := s.AddPartitions(ctx, table.ID, []catalog.Partition{{Values: vals("a", 1)}, {Values: vals("b", 1), Properties: map[string]string{"k": "v"}}}, false); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.AddPartitions(ctx, table.ID, []catalog.Partition{{Values: vals("c", 1)}, {Values: vals("a", 1)}}, false),
		fault.User, "42000", "partition ds=a/hr=1 of table default.logs exists already")
	wantNames(t, names(t, s, table, storage.MaxTimestamp), "ds=a/hr=1", "ds=b/hr=1")
	if err := s.AddPartitions(ctx, table.ID, []catalog.Partition{{Values: vals("a", 1)}, {Values: vals("c", 1)}}, true); err != nil {
		t.Fatal(err)
	}
	parts, err := s.Partitions(ctx, table.ID, storage.MaxTimestamp)
	if err != nil || len(parts) != 3 || parts[1].Properties["k"] != "v" {
		t.Fatalf("partitions %+v, %v", parts, err)
	}
	pin, err := s.Pin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	writer, dropper := begin(t, s, table), begin(t, s, table)
	old := wantIDs(t, s, writer, table, vals("a", 1))
	if err := s.DropPartitions(ctx, dropper, table.ID, []storage.PartitionID{parts[0].ID}); err != nil {
		t.Fatal(err)
	}
	wantNames(t, names(t, s, table, storage.MaxTimestamp), "ds=a/hr=1", "ds=b/hr=1", "ds=c/hr=1")
	if _, err := s.Commit(ctx, dropper, nil); err != nil {
		t.Fatal(err)
	}
	wantNames(t, names(t, s, table, storage.MaxTimestamp), "ds=b/hr=1", "ds=c/hr=1")
	wantNames(t, names(t, s, table, pin.At()), "ds=a/hr=1", "ds=b/hr=1", "ds=c/hr=1")
	_, err = s.Commit(ctx, writer, nil)
	wantError(t, err, fault.Retryable, "40001", "a partition of default.logs was dropped or renamed while it was written: run the statement again")
	if err := s.Abort(ctx, writer); err != nil {
		t.Fatal(err)
	}
	again := begin(t, s, table)
	if fresh := wantIDs(t, s, again, table, vals("a", 1)); fresh[0] == old[0] {
		t.Errorf("the id of a dropped partition came back")
	}

	// A rename under a writer's feet.
	writer = begin(t, s, table)
	wantIDs(t, s, writer, table, vals("b", 1))
	renamed := *parts[1]
	renamed.Values = vals("c", 1)
	wantError(t, s.AlterPartitions(ctx, table.ID, []catalog.Partition{renamed}), fault.User, "42000", "partition ds=c/hr=1 of table default.logs exists already")
	renamed.Values = vals("d", 2)
	if err := s.AlterPartitions(ctx, table.ID, []catalog.Partition{renamed}); err != nil {
		t.Fatal(err)
	}
	wantNames(t, names(t, s, table, storage.MaxTimestamp), "ds=c/hr=1", "ds=d/hr=2")
	if _, err = s.Commit(ctx, writer, nil); fault.ClassOf(err) != fault.Retryable {
		t.Errorf("commit into a renamed partition: %v", err)
	}

	// Once nobody can see it, an ended partition is forgotten.
	pin.Release()
	clock.t = clock.t.Add(time.Minute)
	if _, err := s.Timestamp(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Floor(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.AddPartitions(ctx, table.ID, []catalog.Partition{{Values: vals("e", 1)}}, false); err != nil {
		t.Fatal(err)
	}
	if set := s.partitions[table.ID]; set.ended != 0 {
		t.Errorf("%d ended partitions are kept", set.ended)
	}
	if _, err := s.DropTable(ctx, table.ID); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, prefixPartition); n != 0 {
		t.Errorf("%d partitions of a dropped table are left", n)
	}
}

func TestAlterTable(t *testing.T) {
	ctx, fs, clock := context.Background(), vfs.NewMem(), newClock()
	s := open(t, fs, clock)
	made, err := s.CreateTable(ctx, occurrence(), onePlace(s))
	if err != nil {
		t.Fatal(err)
	}
	change := *made
	change.TableName = "Records"
	change.Columns = append(schema.Columns{}, made.Columns[:3]...) // drops code, whose id is 4
	change.Columns = append(change.Columns, schema.Column{Name: "Code", Type: schema.StringType})
	change.Constraints = []catalog.Constraint{{Kind: catalog.ForeignKey, Name: "f", Columns: []string{"code"}, RefTable: "default.x", RefColumns: []string{"y"}, Rely: true}}
	change.Buckets = catalog.Buckets{N: 4, Columns: []string{"code"}, Sorted: []catalog.SortColumn{{Name: "price", Desc: true}}}
	change.Skew = catalog.Skew{Columns: []string{"code"}, Values: [][]string{{"a"}}}
	got, err := s.AlterTable(ctx, change)
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != 2 || got.Name != "default.records" || got.Columns[3].ID != 5 || got.NextColumnID != 6 {
		t.Errorf("altered %+v", got)
	}
	_, err = s.AlterTable(ctx, change)
	wantError(t, err, fault.Retryable, "40001", "table default.records was changed by somebody else meanwhile: run the statement again")
	if _, err := s.CreateTable(ctx, occurrence(), onePlace(s)); err != nil {
		t.Errorf("the old name is not free: %v", err)
	}
	back := *got
	back.TableName = "occurrence"
	_, err = s.AlterTable(ctx, back)
	wantError(t, err, fault.User, "42S01", "table default.occurrence exists already")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs, clock)
	defer s.Close()
	again, err := s.Table(ctx, "default", "records")
	if err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("after reopening\n%+v, was\n%+v (%v)", again, got, err)
	}
}

func TestTemporaryTables(t *testing.T) {
	ctx, fs, clock := context.Background(), vfs.NewMem(), newClock()
	s := open(t, fs, clock)
	temporary := occurrence()
	temporary.Temporary = true
	made, err := s.CreateTable(ctx, temporary, onePlace(s))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateTable(ctx, occurrence(), onePlace(s)); err != nil {
		t.Errorf("a temporary table takes the name: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs, clock)
	defer s.Close()
	all, err := s.Temporaries(ctx)
	if err != nil || len(all) != 1 || all[0].ID != made.ID {
		t.Errorf("temporary tables %v, %v", all, err)
	}
	if _, err := s.DropTable(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	if all, err = s.Temporaries(ctx); err != nil || len(all) != 0 {
		t.Errorf("temporary tables %v, %v", all, err)
	}
	if _, err := s.Table(ctx, "default", "occurrence"); err != nil {
		t.Error(err)
	}
}

// Reading ten thousand partitions of a catalogue that has just been opened is
// part of planning a query.
func BenchmarkPartitions(b *testing.B) {
	ctx, fs, clock := context.Background(), vfs.NewMem(), newClock()
	s := open(b, fs, clock)
	table, err := s.CreateTable(ctx, catalog.Table{TableName: "logs",
		Table:            storage.Table{Columns: schema.Columns{{Name: "line", Type: schema.StringType}}},
		PartitionColumns: schema.Columns{{Name: "ds", Type: schema.StringType}, {Name: "hr", Type: schema.IntType}},
	}, onePlace(s))
	if err != nil {
		b.Fatal(err)
	}
	var parts []catalog.Partition
	for i := range 50_000 {
		parts = append(parts, catalog.Partition{Values: vals(fmt.Sprintf("2008-%05d", i/24), int64(i%24))})
	}
	if err := s.AddPartitions(ctx, table.ID, parts, false); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		clear(s.partitions)
		if _, err := s.Partitions(ctx, table.ID, storage.MaxTimestamp); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
