package metastore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// testClock is a clock that a test sets.
type testClock struct{ t time.Time }

func (c *testClock) now() time.Time { return c.t }

func newClock() *testClock { return &testClock{time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func open(t testing.TB, fs vfs.FS, c *testClock) *Store {
	t.Helper()
	s, err := Open(Options{FS: fs, Dir: "data/catalog", Now: c.now, Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onePlace puts a table in regions cut at the given keys.
func onePlace(s *Store, cuts ...string) func(*catalog.Table) ([]storage.Region, error) {
	return func(t *catalog.Table) ([]storage.Region, error) {
		var out []storage.Region
		start := ""
		for i := 0; i <= len(cuts); i++ {
			end := ""
			if i < len(cuts) {
				end = cuts[i]
			}
			id, err := s.NewRegionID(context.Background())
			if err != nil {
				return nil, err
			}
			out = append(out, storage.Region{ID: id, Table: t.ID, Range: storage.KeyRange{Start: storage.Key(start), End: storage.Key(end)}, Worker: "w1", Folder: i % 2})
			start = end
		}
		return out, nil
	}
}

func occurrence() catalog.Table {
	return catalog.Table{TableName: "Occurrence", Comment: "records", WantRegions: 4, Properties: map[string]string{"Skip.Header": "1"},
		RowFormat: catalog.RowFormat{FieldDelimiter: "\t"},
		Table: storage.Table{
			Columns: schema.Columns{{Name: "gbifID", Type: schema.BigIntType, NotNull: true}, {Name: "scientificName", Type: schema.StringType, Comment: "full"},
				{Name: "price", Type: schema.DecimalType(10, 2)}, {Name: "code", Type: schema.CharType(3)}},
			Key: []storage.KeyColumn{{Column: 1, Desc: true}},
		}}
}

func wantError(t *testing.T, err error, class fault.Class, state, message string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", message)
	}
	if err.Error() != message || fault.ClassOf(err) != class || fault.StateOf(err) != state {
		t.Errorf("error %q (%s, %s)\nwant  %q (%s, %s)", err, fault.ClassOf(err), fault.StateOf(err), message, class, state)
	}
}

func TestTablesSurviveReopening(t *testing.T) {
	ctx, fs, clock := context.Background(), vfs.NewMem(), newClock()
	s := open(t, fs, clock)
	made, err := s.CreateTable(ctx, occurrence(), onePlace(s, "b", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != "default.occurrence" || made.Columns[0].Name != "gbifid" || made.Columns[3].ID != 4 || made.NextColumnID != 5 || made.Version != 1 {
		t.Errorf("made %+v", made)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs, clock)
	defer s.Close()
	got, err := s.Table(ctx, "DEFAULT", "OCCURRENCE")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, made) {
		t.Errorf("after reopening\n%+v, was\n%+v", got, made)
	}
	regions, err := s.Regions(ctx, got.ID)
	if err != nil || len(regions) != 3 || string(regions[1].Range.Start) != "b" || string(regions[1].Range.End) != "c" || regions[1].Folder != 1 {
		t.Errorf("regions %+v, %v", regions, err)
	}
	_, err = s.Table(ctx, "default", "ocurrence")
	wantError(t, err, fault.User, "42S02", `table default.ocurrence does not exist (did you mean "occurrence"?)`)
	_, err = s.Table(ctx, "defualt", "x")
	wantError(t, err, fault.User, "42000", `database defualt does not exist (did you mean "default"?)`)
	_, err = s.CreateTable(ctx, occurrence(), onePlace(s))
	wantError(t, err, fault.User, "42S01", "table default.occurrence exists already")
}

func TestDefinitionsThatAreRefused(t *testing.T) {
	ctx := context.Background()
	s := open(t, vfs.NewMem(), newClock())
	defer s.Close()
	for _, c := range []struct {
		change func(*catalog.Table)
		want   string
	}{
		{func(t *catalog.Table) { t.TableName = "" }, "the name of the table is empty"},
		{func(t *catalog.Table) { t.TableName = "a.b" }, `the name of the table has a dot, a slash or a zero byte: "a.b"`},
		{func(t *catalog.Table) { t.Columns = nil }, "table occurrence: it has no columns"},
		{func(t *catalog.Table) { t.Columns[1].Name = "GBIFid" }, "table occurrence: there are two columns gbifid"},
		{func(t *catalog.Table) { t.Key = append(t.Key, t.Key[0]) }, "table occurrence: column gbifid is twice in the row key"},
		{func(t *catalog.Table) { t.Database = "nix" }, "database nix does not exist"},
	} {
		def := occurrence()
		c.change(&def)
		if _, err := s.CreateTable(ctx, def, onePlace(s)); err == nil || err.Error() != c.want || fault.ClassOf(err) != fault.User {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	gap := func(t *catalog.Table) ([]storage.Region, error) {
		return []storage.Region{{ID: 9, Table: t.ID, Worker: "w", Range: storage.KeyRange{Start: storage.Key("a")}}}, nil
	}
	if _, err := s.CreateTable(ctx, occurrence(), gap); err == nil || fault.ClassOf(err) != fault.Bug {
		t.Errorf("regions that don't tile were taken: %v", err)
	}
	if tables, err := s.Tables(ctx, "default"); err != nil || len(tables) != 0 {
		t.Errorf("tables %v, %v", tables, err)
	}
}

func TestDatabases(t *testing.T) {
	ctx := context.Background()
	s := open(t, vfs.NewMem(), newClock())
	defer s.Close()
	if err := s.CreateDatabase(ctx, catalog.Database{Name: "Flora", Comment: "plants"}); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.CreateDatabase(ctx, catalog.Database{Name: "flora"}), fault.User, "42000", "database flora exists already")
	def := occurrence()
	def.Database = "flora"
	made, err := s.CreateTable(ctx, def, onePlace(s))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, s.DropDatabase(ctx, "flora"), fault.User, "42000", "database flora is not empty: it has table occurrence (drop its tables first)")
	wantError(t, s.DropDatabase(ctx, "default"), fault.User, "42000", "database default can't be dropped")
	dropped, err := s.DropTable(ctx, made.ID)
	if err != nil || len(dropped) != 1 {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	if again, err := s.Dropped(ctx); err != nil || len(again) != 1 || again[0].ID != dropped[0].ID || again[0].Table != made.ID {
		t.Errorf("Dropped lists %v (%v), want %v", again, err, dropped)
	}
	if _, err := s.TableByID(ctx, made.ID); fault.StateOf(err) != fault.StateUnknownTable {
		t.Errorf("the dropped table: %v", err)
	}
	if _, err := s.Regions(ctx, made.ID); fault.StateOf(err) != fault.StateUnknownTable {
		t.Errorf("the dropped table's regions: %v", err)
	}
	if err := s.ForgetDropped(ctx, []storage.RegionID{dropped[0].ID}); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Dropped(ctx); err != nil || len(again) != 0 {
		t.Errorf("Dropped lists %v (%v) after ForgetDropped", again, err)
	}
	if err := s.DropDatabase(ctx, "flora"); err != nil {
		t.Error(err)
	}
	all, err := s.Databases(ctx)
	if err != nil || len(all) != 1 || all[0].Name != "default" {
		t.Errorf("databases %v, %v", all, err)
	}
}

func TestReplaceRegions(t *testing.T) {
	ctx := context.Background()
	s := open(t, vfs.NewMem(), newClock())
	defer s.Close()
	made, err := s.CreateTable(ctx, occurrence(), onePlace(s, "m"))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := s.Regions(ctx, made.ID)
	part := func(id storage.RegionID, start, end string) storage.Region {
		return storage.Region{ID: id, Table: made.ID, Worker: "w1", Range: storage.KeyRange{Start: storage.Key(start), End: storage.Key(end)}}
	}
	if err := s.ReplaceRegions(ctx, made.ID, []storage.RegionID{before[0].ID}, []storage.Region{part(101, "", "c"), part(102, "d", "m")}); err == nil {
		t.Error("a gap was accepted")
	}
	if now, _ := s.Regions(ctx, made.ID); !reflect.DeepEqual(now, before) {
		t.Error("a refused change changed the map")
	}
	if err := s.ReplaceRegions(ctx, made.ID, []storage.RegionID{before[0].ID}, []storage.Region{part(101, "", "d"), part(102, "d", "m")}); err != nil {
		t.Fatal(err)
	}
	err = s.ReplaceRegions(ctx, made.ID, []storage.RegionID{before[0].ID}, []storage.Region{part(103, "", "m")})
	if !errors.Is(err, storage.ErrRegionGone) || fault.ClassOf(err) != fault.Retryable {
		t.Errorf("replacing a region that is gone: %v", err)
	}
	now, _ := s.Regions(ctx, made.ID)
	if len(now) != 3 || now[0].ID != 101 || now[1].ID != 102 || now[2].ID != before[1].ID {
		t.Errorf("regions %+v", now)
	}
}

func TestTransactions(t *testing.T) {
	ctx := context.Background()
	fs, clock := vfs.NewMem(), newClock()
	s := open(t, fs, clock)
	made, err := s.CreateTable(ctx, occurrence(), onePlace(s))
	if err != nil {
		t.Fatal(err)
	}
	txn, err := s.Begin(ctx, catalog.TxnLoad, []storage.TableID{made.ID})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := s.Outcome(ctx, txn); err != nil || o.State != storage.Undecided {
		t.Errorf("before: %+v, %v", o, err)
	}
	if err := s.Forget(ctx, txn); err == nil {
		t.Error("an undecided transaction was forgotten")
	}
	before, _ := s.Timestamp(ctx)
	at, err := s.Commit(ctx, txn, []string{"a0", "a1"})
	if err != nil || at <= before {
		t.Fatalf("commit at %d after %d, %v", at, before, err)
	}
	if again, err := s.Commit(ctx, txn, []string{"a0", "a1"}); err != nil || again != at {
		t.Errorf("retried commit: %d, %v, want %d", again, err, at)
	}
	if _, err := s.Commit(ctx, txn, []string{"a0", "a2"}); err == nil {
		t.Error("a commit with other winners was accepted")
	}
	if err := s.Abort(ctx, txn); err == nil {
		t.Error("a committed transaction was aborted")
	}
	other, _ := s.Begin(ctx, catalog.TxnInsert, nil)
	if err := errors.Join(s.Abort(ctx, other), s.Abort(ctx, other)); err != nil {
		t.Error(err)
	}
	if _, err := s.Commit(ctx, other, nil); err == nil || fault.ClassOf(err) != fault.Retryable {
		t.Errorf("commit after abort: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs, clock)
	defer s.Close()
	o, err := s.Outcome(ctx, txn)
	if err != nil || !reflect.DeepEqual(o, storage.Outcome{State: storage.Committed, At: at, Winners: []string{"a0", "a1"}}) {
		t.Errorf("after reopening: %+v, %v", o, err)
	}
	list, err := s.Open(ctx)
	if err != nil || len(list) != 2 || list[0].ID != txn || list[0].Tables[0] != made.ID || list[1].Outcome.State != storage.Aborted {
		t.Errorf("open: %+v, %v", list, err)
	}
	if err := errors.Join(s.Forget(ctx, txn), s.Forget(ctx, txn), s.Forget(ctx, other)); err != nil {
		t.Error(err)
	}
	if o, _ := s.Outcome(ctx, txn); o.State != storage.Aborted {
		t.Errorf("a forgotten transaction: %+v", o)
	}
}

func TestClock(t *testing.T) {
	ctx, fs, clock := context.Background(), vfs.NewMem(), newClock()
	s := open(t, fs, clock)
	take := func() storage.Timestamp {
		t.Helper()
		ts, err := s.Timestamp(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return ts
	}
	first := take()
	if want := clock.t.UnixMilli(); first.Millis() != want {
		t.Errorf("first timestamp is of %d ms, the clock says %d", first.Millis(), want)
	}
	if next := take(); next != first+1 {
		t.Errorf("in the same millisecond: %d after %d", next, first)
	}
	last := first + 1
	for _, jump := range []time.Duration{time.Millisecond, -40 * 365 * 24 * time.Hour, 0, 40 * 365 * 24 * time.Hour, time.Hour, -time.Hour, 300 * 24 * time.Hour} {
		clock.t = clock.t.Add(jump)
		ts := take()
		if ts <= last {
			t.Fatalf("after a jump of %v: %d, before %d", jump, ts, last)
		}
		last = ts
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A clean close gives reserved time back.
	s = open(t, fs, clock)
	if ts := take(); ts != last+1 {
		t.Errorf("after reopening: %d, want %d", ts, last+1)
	}
	clock.t = clock.t.Add(40 * 365 * 24 * time.Hour)
	_, err := s.Timestamp(ctx)
	wantError(t, err, fault.Retryable, "40001", "the clock says 2067-09-16 12:00:00, but the catalogue's last timestamp is of 2027-09-26 12:00:00: a jump of more than 366 days is refused, since later timestamps could never go back (set the clock right; if it is right, open the folder once with --accept-clock-jump)")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A folder may lie about for years, not for forty.
	s = open(t, fs, clock)
	if _, err := s.Timestamp(ctx); err == nil {
		t.Error("a jump of forty years was taken")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(Options{FS: fs, Dir: "data/catalog", Now: clock.now, AcceptClockJump: true})
	if err != nil {
		t.Fatal(err)
	}
	if ts := take(); ts.Millis() != clock.t.UnixMilli() {
		t.Errorf("accepted jump: %d ms", ts.Millis())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Timestamp(ctx); err == nil {
		t.Error("a timestamp of a closed catalogue")
	}
}

func TestPinsHoldTheFloor(t *testing.T) {
	ctx, fs, clock := context.Background(), vfs.NewCrashableMem(), newClock()
	s := open(t, fs, clock)
	p, err := s.Pin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	clock.t = clock.t.Add(time.Hour)
	if _, err := s.Timestamp(ctx); err != nil {
		t.Fatal(err)
	}
	floor, err := s.Floor(ctx)
	if err != nil || floor >= p.At() {
		t.Errorf("floor %d at or above the pin %d (%v)", floor, p.At(), err)
	}
	p.Release()
	p.Release()
	floor, err = s.Floor(ctx)
	if err != nil || floor < p.At() {
		t.Errorf("floor %d below the released pin %d (%v)", floor, p.At(), err)
	}
	q, _ := s.Pin(ctx)
	if q.At() <= floor {
		t.Errorf("pin %d at or below the floor %d", q.At(), floor)
	}
	// The floor doesn't go back in a crash.
	s = open(t, fs.CrashClone(vfs.CrashCloneCfg{}), newClock())
	defer s.Close()
	if again, err := s.Floor(ctx); err != nil || again < floor {
		t.Errorf("floor %d after a crash, %d before (%v)", again, floor, err)
	}
	if r, err := s.Pin(ctx); err != nil || r.At() <= floor {
		t.Errorf("pin %d after a crash, floor %d (%v)", r.At(), floor, err)
	}
}

// TestCrash makes random changes, crashes at a random point with a random
// part of the unsynced data, and checks that all that was acknowledged is there
// and that no timestamp or id comes twice.
func TestCrash(t *testing.T) {
	ctx := context.Background()
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		fs, clock := vfs.NewCrashableMem(), newClock()
		var last storage.Timestamp
		var lastID storage.RegionID
		tables := map[string]storage.TableID{}
		outcomes := map[storage.TxnID]storage.Outcome{}
		for life := range 4 {
			s := open(t, fs, clock)
			for name, id := range tables {
				got, err := s.Table(ctx, "default", name)
				if err != nil || got.ID != id {
					t.Fatalf("seed %d, life %d: table %s: %v, %v", seed, life, name, got, err)
				}
				if r, err := s.Regions(ctx, id); err != nil || checkRegions(id, r) != nil {
					t.Fatalf("seed %d: regions of %s: %v, %v", seed, name, r, err)
				}
			}
			if all, err := s.Tables(ctx, "default"); err != nil || len(all) != len(tables) {
				t.Fatalf("seed %d: %d tables, want %d (%v)", seed, len(all), len(tables), err)
			}
			for txn, want := range outcomes {
				if got, err := s.Outcome(ctx, txn); err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: transaction %d: %+v, want %+v (%v)", seed, txn, got, want, err)
				}
			}
			for range rng.IntN(40) {
				clock.t = clock.t.Add(time.Duration(rng.IntN(4000)-1000) * time.Millisecond)
				switch rng.IntN(6) {
				case 0:
					name := fmt.Sprintf("t%d_%d", life, rng.IntN(20))
					if id, ok := tables[name]; ok {
						if _, err := s.DropTable(ctx, id); err != nil {
							t.Fatal(err)
						}
						delete(tables, name)
						break
					}
					def := occurrence()
					def.TableName = name
					made, err := s.CreateTable(ctx, def, onePlace(s, "k"))
					if err != nil {
						t.Fatal(err)
					}
					tables[name] = made.ID
				case 1:
					txn, err := s.Begin(ctx, catalog.TxnInsert, nil)
					if err != nil {
						t.Fatal(err)
					}
					if _, twice := outcomes[txn]; twice {
						t.Fatalf("seed %d: transaction id %d came twice", seed, txn)
					}
					outcomes[txn] = storage.Outcome{}
				case 2, 3:
					for txn, o := range outcomes {
						if o.State != storage.Undecided {
							continue
						}
						if rng.IntN(3) == 0 {
							if err := s.Abort(ctx, txn); err != nil {
								t.Fatal(err)
							}
							outcomes[txn] = storage.Outcome{State: storage.Aborted}
							break
						}
						at, err := s.Commit(ctx, txn, []string{"w"})
						if err != nil || at <= last {
							t.Fatalf("seed %d: commit at %d after %d (%v)", seed, at, last, err)
						}
						last = at
						outcomes[txn] = storage.Outcome{State: storage.Committed, At: at, Winners: []string{"w"}}
						break
					}
				case 4:
					id, err := s.NewRegionID(ctx)
					if err != nil || id <= lastID {
						t.Fatalf("seed %d: region id %d after %d (%v)", seed, id, lastID, err)
					}
					lastID = id
				default:
					at, err := s.Timestamp(ctx)
					if err != nil || at <= last {
						t.Fatalf("seed %d: timestamp %d after %d (%v)", seed, at, last, err)
					}
					last = at
				}
			}
			next := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			if rng.IntN(4) == 0 { // a clean close now and then
				next = fs
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			fs = next
		}
	}
}

func TestAFailedWriteIsAnError(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewCrashableMem()
	s := open(t, mem, newClock())
	txn, err := s.Begin(ctx, catalog.TxnLoad, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	on := errorfs.Toggle{Injector: errorfs.ErrInjected.If(errorfs.Writes)}
	s = open(t, errorfs.Wrap(mem, &on), newClock())
	on.On()
	if _, err := s.Commit(ctx, txn, nil); err == nil {
		t.Error("a commit that could not be written was acknowledged")
	}
	on.Off()
	if _, err := s.Commit(ctx, txn, nil); err == nil {
		t.Error("a broken catalogue went on")
	}
	_ = s.Close() // must return; the error is the first one
	s = open(t, mem.CrashClone(vfs.CrashCloneCfg{}), newClock())
	defer s.Close()
	if o, err := s.Outcome(ctx, txn); err != nil || o.State != storage.Undecided {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Pin(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
