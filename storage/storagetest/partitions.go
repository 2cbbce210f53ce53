package storagetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// inPartition returns the row keys of a partition.
func inPartition(id int) storage.KeyRange {
	return storage.KeyRange{
		Start: rowkey.AppendPartition(nil, storage.PartitionID(id)),
		End:   rowkey.AppendPartition(nil, storage.PartitionID(id+1)),
	}
}

// partition checks the rows of a partition, however they are read.
func (f *Fixture) partition(at storage.Timestamp, id int, want ...string) {
	f.TB.Helper()
	what := fmt.Sprintf("partition %d at %d", id, at)
	got, _ := f.Scan(storage.Scan{At: at, Range: inPartition(id)})
	f.equal(what, Sorted(got), Sorted(want))
	got, _ = f.Scan(storage.Scan{At: at, Range: inPartition(id), Ordered: true})
	f.equal(what+", ordered", Sorted(got), Sorted(want))
	_, st := f.Scan(storage.Scan{At: at, Range: inPartition(id), Columns: schema.Columns{}})
	if st.Emitted != int64(len(want)) {
		f.TB.Errorf("%s: %d rows counted, want %d", what, st.Emitted, len(want))
	}
}

func testPartitionedKeyed(t *testing.T, open Factory) {
	auth, table := NewAuthority(), People()
	table.Partitioned = true
	// Regions begin within a partition, with one, and where none is.
	f := NewFixture(t, open(t, auth, 0), auth, table, Keys(table, "2|5", "7|-100", "900|0")...)
	f.Load("1|1|a|1|X", "2|1|b|1|X", "2|9|c|1|X", "7|1|d|1|X", "300|1|e|1|X", "1|2|f|1|X", "2|1|g|2|X")
	// A key is unique within its partition.
	f.partition(0, 1, "1|a|1|X", "2|f|1|X")
	f.partition(0, 2, "1|g|2|X", "9|c|1|X")
	f.partition(0, 7, "1|d|1|X")
	f.partition(0, 300, "1|e|1|X")
	f.partition(0, 3)
	first := f.Auth.Now()
	f.Put("2|1|put|3|X")
	f.Put("2|10|new|3|X")
	f.PutColumns(schema.Columns{table.Columns[0], table.Columns[3]}, "7|1|Graz")
	f.Delete("1|1")
	check := func() {
		t.Helper()
		f.partition(0, 1, "2|f|1|X")
		f.partition(0, 2, "1|put|3|X", "9|c|1|X", "10|new|3|X")
		f.partition(0, 7, "1|d|1|Graz")
		f.partition(first, 2, "1|g|2|X", "9|c|1|X")
		f.Check()
	}
	check()
	k := Key(table, "2|1")
	b, err := f.Server.Get(context.Background(), f.Region(k), []storage.Key{k}, f.Auth.Now(), table.Columns)
	f.ok(err)
	f.equal("get", Text(table.Columns, b), []string{"1|put|3|X"})
	f.Flush()
	check()
	_, err = f.Server.Split(context.Background(), f.Regions()[0].ID, nil)
	f.ok(err)
	check()
	f.Truncate(inPartition(2))
	f.partition(0, 1, "2|f|1|X")
	f.partition(0, 2)
	f.partition(0, 7, "1|d|1|Graz")
	f.Check()
}

// testPartitionedKeyless: several tasks stage rows of several hundred
// partitions in any order; each has one file a region, sorted by partition.
func testPartitionedKeyless(t *testing.T, open Factory) {
	auth, table := NewAuthority(), Events()
	table.Partitioned = true
	const parts, tasks = 300, 3
	f := NewFixture(t, open(t, auth, 64), auth, table, inPartition(100).Start, append(inPartition(200).Start, 0x80, 0))
	r := rand.New(rand.NewPCG(1, 2))
	want := map[int][]string{}
	txn := auth.Begin()
	var names []string
	segments := 0
	for task := range tasks {
		var rows []string
		for i := range 1500 {
			id, row := 1+r.IntN(parts), fmt.Sprintf("t%d|%d", task, i)
			want[id] = append(want[id], row)
			rows = append(rows, fmt.Sprintf("%d|%s", id, row))
		}
		name := fmt.Sprintf("a%d", task)
		names = append(names, name)
		st := f.Stage(storage.StageOptions{Txn: txn, Attempt: name, Task: task}, rows...)
		if st.Rows != int64(len(rows)) {
			t.Errorf("%d rows staged, want %d", st.Rows, len(rows))
		}
		segments += len(st.Regions)
	}
	f.partition(0, 17)
	f.Check()
	at := auth.Commit(txn, names...)
	check := func(at storage.Timestamp) {
		t.Helper()
		for _, id := range []int{1, 2, 99, 100, 101, 150, 199, 200, 201, 299, 300, 301} {
			f.partition(at, id, want[id]...)
		}
		got, st := f.Scan(storage.Scan{At: at})
		if len(got) != 1500*tasks || len(f.Regions()) == 3 && st.Clipped != 0 {
			t.Errorf("%d rows in all, stats %+v", len(got), st)
		}
		f.Check()
	}
	check(at)
	n := 0
	for _, reg := range f.Regions() {
		st, err := f.Server.Stats(context.Background(), reg.ID)
		f.ok(err)
		n += st.Segments
	}
	if n != segments || n > tasks*3 {
		t.Errorf("%d segments, %d staged, for %d tasks and 3 regions", n, segments, tasks)
	}
	// Whatever is cut where, all rows stay.
	var keys []storage.Key
	for _, reg := range f.Regions() {
		cut, sizes, err := f.Server.CutKeys(context.Background(), reg.ID, storage.Whole(), f.Auth.Now(), 4)
		f.ok(err)
		if len(sizes) != len(cut)+1 {
			t.Errorf("%d parts for %d keys", len(sizes), len(cut))
		}
		keys = append(keys, cut...)
	}
	if len(keys) < 3 {
		t.Errorf("cut at %d keys only", len(keys))
	}
	total, start := 0, storage.Key(nil)
	for _, k := range append(keys, nil) {
		got, _ := f.Scan(storage.Scan{At: at, Range: storage.KeyRange{Start: start, End: k}})
		total, start = total+len(got), k
	}
	if total != 1500*tasks {
		t.Errorf("%d rows in all parts", total)
	}
	_, err := f.Server.Split(context.Background(), f.Regions()[1].ID, nil)
	f.ok(err)
	check(at)
	// INSERT OVERWRITE of two partitions, with DROP of a third.
	txn = auth.Begin()
	f.StageTruncate(txn, inPartition(100), inPartition(150), inPartition(299))
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "o"}, "150|new|1", "100|new|2", "150|new|3")
	auth.Commit(txn, "o")
	check(at)
	want[100], want[150], want[299] = []string{"new|2"}, []string{"new|1", "new|3"}, nil
	for _, id := range []int{99, 100, 101, 149, 150, 151, 298, 299, 300} {
		f.partition(0, id, want[id]...)
	}
	f.Check()
	auth.SetFloor(auth.Now())
	f.Truncate(inPartition(300))
	f.partition(0, 150, want[150]...)
	f.partition(0, 300)
	f.Check()
}

// testPartitionedInOrder: rows that come by partition keep their order in it.
func testPartitionedInOrder(t *testing.T, open Factory) {
	auth, table := NewAuthority(), Events()
	table.Partitioned = true
	f := NewFixture(t, open(t, auth, 0), auth, table, inPartition(5).Start)
	txn := auth.Begin()
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "sorted"}, "1|a|1", "1|a|2", "4|a|3", "5|a|4", "5|a|5", "9|a|6")
	// In order at first, then not.
	f.Stage(storage.StageOptions{Txn: txn, Attempt: "mixed", Task: 1}, "1|b|1", "5|b|2", "5|b|3", "9|b|4", "4|b|5", "5|b|6", "1|b|7", "9|b|8")
	auth.Commit(txn, "sorted", "mixed")
	for id, want := range map[int][]string{1: {"a|1", "a|2", "b|1", "b|7"}, 4: {"a|3", "b|5"}, 5: {"a|4", "a|5", "b|2", "b|3", "b|6"}, 9: {"a|6", "b|4", "b|8"}} {
		got, _ := f.Scan(storage.Scan{Range: inPartition(id), Ordered: true})
		f.equal(fmt.Sprintf("partition %d, ordered", id), got, want)
		f.partition(0, id, want...)
	}
	f.Check()
}

func testPartitionedRefusals(t *testing.T, open Factory) {
	auth, table := NewAuthority(), People()
	table.Partitioned = true
	f := NewFixture(t, open(t, auth, 0), auth, table)
	id := f.Regions()[0].ID
	ctx := context.Background()
	_, err := f.Server.Put(ctx, id, table.Columns, Rows(table.Columns, "1|a|1|X"))
	wantError(t, err, fault.Bug, "partition ids")
	_, err = f.Server.Put(ctx, id, table.Columns, Rows(Written(table, table.Columns), "0|1|a|1|X"))
	wantError(t, err, fault.Bug, "no partition id")
	_, err = f.Server.Put(ctx, id, table.Columns, Rows(Written(table, table.Columns), "NULL|1|a|1|X"))
	wantError(t, err, fault.Bug, "partition ids")
	w, err := f.Server.Stage(ctx, table, f.Regions(), storage.StageOptions{Txn: auth.Begin(), Attempt: "a"})
	f.ok(err)
	wantError(t, w.Write(ctx, Rows(table.Columns, "1|a|1|X")), fault.Bug, "partition ids")
	f.ok(w.Abort())
	_, err = f.Server.Delete(ctx, id, []storage.Key{{1, 2}})
	wantError(t, err, fault.Bug, "too short")
}
