package region_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region"
	"github.com/skepdb/skep/storage/storagetest"
)

var crashSeeds = flag.Int("crash.seeds", 64, "crash points that TestCrash tries")
var crashFirst = flag.Uint64("crash.first", 1, "first seed of TestCrash")

// state is the visible rows of a table: its people by id, without the id.
type state map[int]string

// moment is what was visible from a timestamp on.
type moment struct {
	at   storage.Timestamp
	rows state
}

// staged is what an open transaction would do.
type staged struct {
	id       storage.TxnID
	truncate [][2]int         // ids, the second excluded
	attempts []map[int]string // only those that finished
	names    []string
}

// run is a seeded run of a store against a model: what the store acknowledged
// must be there after a crash at any write, what it didn't may be, wholly.
type run struct {
	t    *testing.T
	rng  *rand.Rand
	fs   *vfs.MemFS
	auth *storagetest.Authority
	f    *storagetest.Fixture
	stop func() error
	open []*staged
	n    int

	mu      sync.Mutex // the model is copied from inside file operations
	history []moment
	doing   string
	regions []storage.Region   // that the catalogue had when it began
	made    []storage.RegionID // all that ever were
	maybe   state              // visible if the operation under way counts; nil: it can't matter
	crashes []crash
	odds    int // one in so many file operations is a crash point; 0: none
	points  int // how many are wanted
	clones  *rand.Rand
}

// crash is a point where the machine went down.
type crash struct {
	fs      *vfs.MemFS
	auth    *storagetest.Authority
	history []moment
	maybe   state
	made    []storage.RegionID
	doing   string
	kind    string // of what was under way
	op      string
}

// MaybeError implements errorfs.Injector: it takes crash clones.
func (r *run) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileRead, errorfs.OpFileReadAt, errorfs.OpOpen, errorfs.OpOpenDir, errorfs.OpList, errorfs.OpStat, errorfs.OpFileStat, errorfs.OpFileClose, errorfs.OpGetDiskUsage, errorfs.OpFilePreallocate:
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	odds := r.odds
	kind, _, _ := strings.Cut(r.doing, " ")
	switch kind {
	case "reopen", "close":
		odds *= 8 // they write much, and little that matters
	case "split", "replace":
		if now, _ := r.auth.Regions(context.Background(), r.f.Table.ID); len(now) != len(r.regions) {
			kind += ", decided"
			odds = min(odds, 1)
		} else if kind == "split" {
			odds = min(odds, 2)
		}
	case "resolve", "truncate", "verify":
		odds = min(odds, 2) // steps that are few, and matter much
	}
	if odds == 0 || len(r.crashes) == r.points || r.clones.IntN(odds) != 0 {
		return nil
	}
	r.crashes = append(r.crashes, crash{
		fs:   r.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 0, 50, 100}[r.clones.IntN(4)], RNG: r.clones}),
		auth: r.auth.Clone(), history: slices.Clone(r.history), maybe: r.maybe, made: slices.Clone(r.made), doing: r.doing, kind: kind, op: fmt.Sprintf("%v %s", op.Kind, op.Path),
	})
	return nil
}

func (r *run) String() string { return "crash" }

func crashTable() *storage.Table {
	t := storagetest.People()
	t.Columns = t.Columns[:3]
	return t
}

const ids = 60

func (r *run) start() {
	s, stop, err := tryOpen(errorfs.Wrap(r.fs, r), r.auth, func(o *region.Options) { o.FlushBytes, o.StageBytes, o.MemTableBytes = 1500, 400, 256<<10 })
	if err != nil {
		r.t.Fatal(err)
	}
	r.stop = stop
	if r.f == nil {
		table := crashTable()
		r.f = storagetest.NewFixture(r.t, s, r.auth, table, storagetest.Keys(table, "20", "40")...)
	}
	r.f.Server = s
}

// begin says what is about to be done, and what is visible if it counts.
func (r *run) begin(maybe state, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doing, r.maybe = fmt.Sprintf(format, args...), maybe
	r.regions, _ = r.auth.Regions(context.Background(), r.f.Table.ID)
	for _, x := range r.regions {
		if !slices.Contains(r.made, x.ID) {
			r.made = append(r.made, x.ID)
		}
	}
}

// done says that it is acknowledged; at is its timestamp.
func (r *run) done(at storage.Timestamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.maybe != nil {
		r.history = append(r.history, moment{at, r.maybe})
	}
	r.doing, r.maybe = "", nil
}

func (r *run) now() state { return r.history[len(r.history)-1].rows }

func (r *run) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", r.doing, err)
	}
}

// value returns a row without its id, never the same twice.
func (r *run) value() string {
	r.n++
	return fmt.Sprintf("v%d|%d", r.n, r.n)
}

func row(id int, value string) string { return fmt.Sprintf("%d|%s", id, value) }

func (r *run) key(id int) storage.Key { return storagetest.Key(r.f.Table, fmt.Sprint(id)) }

// some returns a few ids, all in one region if one is true.
func (r *run) some(most int, one bool) []int {
	first := r.rng.IntN(ids)
	out := []int{first}
	for range r.rng.IntN(most) {
		id := r.rng.IntN(ids)
		if !one || r.f.Region(r.key(id)) == r.f.Region(r.key(first)) {
			out = append(out, id)
		}
	}
	return out
}

func (r *run) step() {
	ctx := context.Background()
	next := maps.Clone(r.now())
	switch r.rng.IntN(24) {
	case 0, 1, 2, 3, 4: // put whole rows
		var rows []string
		for _, id := range r.some(6, true) {
			next[id] = r.value()
			rows = append(rows, row(id, next[id]))
		}
		r.begin(next, "put %q", rows)
		r.done(r.f.Put(rows...))
	case 5, 6: // put some columns
		cols := r.f.Table.Columns
		id := r.rng.IntN(ids)
		name, _, had := strings.Cut(next[id], "|")
		if !had {
			name = "NULL"
		}
		r.n++
		next[id] = fmt.Sprintf("%s|%d", name, r.n)
		r.begin(next, "put age of %d", id)
		r.done(r.f.PutColumns(schema.Columns{cols[0], cols[2]}, fmt.Sprintf("%d|%d", id, r.n)))
	case 7, 8: // delete
		var keys []string
		for _, id := range r.some(4, true) {
			delete(next, id)
			keys = append(keys, fmt.Sprint(id))
		}
		r.begin(next, "delete %q", keys)
		r.done(r.f.Delete(keys...))
	case 9, 10: // flush
		rs := r.f.Regions()
		id := rs[r.rng.IntN(len(rs))].ID
		r.begin(nil, "flush %d", id)
		r.ok(r.f.Server.Flush(ctx, id))
		r.done(0)
	case 11: // begin a transaction
		if len(r.open) < 3 {
			r.open = append(r.open, &staged{id: r.auth.Begin()})
		}
	case 12, 13, 14: // stage an attempt
		if len(r.open) == 0 {
			return
		}
		x := r.open[r.rng.IntN(len(r.open))]
		r.n++
		o := storage.StageOptions{Txn: x.id, Attempt: fmt.Sprintf("a%d", r.n), Sorted: r.rng.IntN(2) == 0}
		some := r.some(12, false)
		if o.Sorted {
			slices.Sort(some)
			some = slices.Compact(some)
		}
		values := map[int]string{}
		var rows []string
		for _, id := range some {
			values[id] = r.value()
			rows = append(rows, row(id, values[id]))
		}
		r.begin(nil, "stage %d", x.id)
		r.f.Stage(o, rows...)
		r.done(0)
		x.attempts, x.names = append(x.attempts, values), append(x.names, o.Attempt)
	case 15: // stage a truncate
		if len(r.open) == 0 {
			return
		}
		x := r.open[r.rng.IntN(len(r.open))]
		span := [2]int{0, ids}
		ranges := []storage.KeyRange{storage.Whole()}
		if r.rng.IntN(3) > 0 {
			span[0] = r.rng.IntN(ids)
			span[1] = span[0] + 1 + r.rng.IntN(ids-span[0])
			ranges[0] = storage.KeyRange{Start: r.key(span[0]), End: r.key(span[1])}
		}
		r.begin(nil, "truncate %d", x.id)
		for _, reg := range r.f.Regions() {
			r.ok(r.f.Server.StageTruncate(ctx, reg.ID, x.id, ranges...))
		}
		r.done(0)
		x.truncate = append(x.truncate, span)
	case 16, 17: // commit, with one attempt less if there are several, or abort
		if len(r.open) == 0 {
			return
		}
		i := r.rng.IntN(len(r.open))
		x := r.open[i]
		r.open = slices.Delete(r.open, i, i+1)
		if r.rng.IntN(4) == 0 {
			r.auth.Abort(x.id)
			return
		}
		if n := len(x.attempts); n > 1 && r.rng.IntN(2) == 0 {
			x.attempts, x.names = x.attempts[:n-1], x.names[:n-1]
		}
		for _, t := range x.truncate {
			maps.DeleteFunc(next, func(id int, _ string) bool { return t[0] <= id && id < t[1] })
		}
		for _, a := range x.attempts {
			maps.Copy(next, a)
		}
		// No file is touched, so no crash falls between commit and history.
		r.begin(next, "commit %d", x.id)
		r.done(r.auth.Commit(x.id, x.names...))
		if r.rng.IntN(2) == 0 {
			r.begin(nil, "resolve %d", x.id)
			r.ok(r.f.Server.Resolve(ctx, x.id))
			r.done(0)
		}
	case 18: // split
		rs := r.f.Regions()
		reg := rs[r.rng.IntN(len(rs))]
		at := r.key(r.rng.IntN(ids))
		if len(rs) > 7 || !reg.Range.Contains(at) || bytes.Equal(at, reg.Range.Start) {
			return
		}
		r.begin(nil, "split %d", reg.ID)
		_, err := r.f.Server.Split(ctx, reg.ID, at)
		r.ok(err)
		r.done(0)
	case 19: // give a writer up
		if len(r.open) == 0 {
			return
		}
		r.n++
		r.begin(nil, "drop what was staged")
		w, err := r.f.Server.Stage(ctx, r.f.Table, r.f.Regions(), storage.StageOptions{Txn: r.open[0].id, Attempt: fmt.Sprintf("a%d", r.n)})
		r.ok(err)
		r.ok(w.Write(ctx, storagetest.Rows(r.f.Table.Columns, row(1, "lost|1"), row(50, "lost|2"))))
		if r.rng.IntN(2) == 0 {
			_, err = w.Finish(ctx)
			r.ok(err)
		}
		r.ok(w.Abort())
		r.done(0)
	case 22, 23: // an empty region becomes two
		rs := r.f.Regions()
		reg := rs[r.rng.IntN(len(rs))]
		at := r.key(r.rng.IntN(ids))
		if len(rs) > 7 || !reg.Range.Contains(at) || bytes.Equal(at, reg.Range.Start) {
			return
		}
		halves := []storage.Region{reg, reg}
		halves[0].Range.End, halves[1].Range.Start = at, at
		r.begin(nil, "replace %d", reg.ID)
		for i := range halves {
			id, err := r.auth.NewRegionID(ctx)
			r.ok(err)
			halves[i].ID = id
			r.mu.Lock()
			r.made = append(r.made, id)
			r.mu.Unlock()
			r.ok(r.f.Server.CreateRegion(ctx, r.f.Table, halves[i]))
		}
		done, err := r.f.Server.ReplaceEmpty(ctx, reg.ID, halves)
		r.ok(err)
		if !done {
			for _, h := range halves {
				r.ok(r.f.Server.DropRegion(ctx, h.ID))
			}
		}
		r.done(0)
	case 20: // history goes
		if r.rng.IntN(3) == 0 {
			r.auth.SetFloor(r.auth.Now())
		}
	case 21: // close and open
		r.begin(nil, "reopen")
		r.ok(r.stop())
		r.start()
		r.done(0)
	}
}

// visible reads the table at a timestamp.
func visible(f *storagetest.Fixture, at storage.Timestamp) (state, error) {
	rows, _, err := f.TryScan(storage.Scan{At: at})
	if err != nil {
		return nil, err
	}
	out := state{}
	for _, row := range rows {
		id, value, _ := strings.Cut(row, "|")
		var n int
		if _, err := fmt.Sscan(id, &n); err != nil {
			return nil, err
		}
		if _, twice := out[n]; twice {
			return nil, fmt.Errorf("row %d is there twice", n)
		}
		out[n] = value
	}
	return out, nil
}

func diff(got, want state) string {
	var out []string
	for id := range ids {
		if got[id] != want[id] {
			out = append(out, fmt.Sprintf("row %d is %q, want %q", id, got[id], want[id]))
		}
	}
	return strings.Join(out, "; ")
}

// verify checks that what a server shows agrees with a model. It returns which
// of the two allowed states is there.
func verify(f *storagetest.Fixture, history []moment, maybe state) (state, error) {
	got, err := visible(f, f.Auth.Now())
	if err != nil {
		return nil, err
	}
	last := history[len(history)-1]
	now := last.rows
	if !maps.Equal(got, now) {
		if maybe == nil || !maps.Equal(got, maybe) {
			return nil, fmt.Errorf("rows now: %s", diff(got, now))
		}
		now = maybe
	}
	// However the rows are read, they are the same.
	at := f.Auth.Now()
	if rows, _, err := f.TryScan(storage.Scan{At: at, Ordered: true}); err != nil || len(rows) != len(now) {
		return nil, fmt.Errorf("%d rows by key, %v; want %d", len(rows), err, len(now))
	}
	count, _, err := f.TryScan(storage.Scan{At: at, Columns: schema.Columns{}})
	if err != nil || len(count) != len(now) {
		return nil, fmt.Errorf("%d rows counted, %v; want %d", len(count), err, len(now))
	}
	floor, _ := f.Auth.Floor(context.Background())
	for i, m := range history {
		if i+1 < len(history) && history[i+1].at <= floor || m.at < floor && i == len(history)-1 {
			continue
		}
		got, err := visible(f, max(m.at, floor))
		if err != nil {
			return nil, err
		}
		if !maps.Equal(got, m.rows) {
			return nil, fmt.Errorf("rows at %d: %s", m.at, diff(got, m.rows))
		}
	}
	var ranges []storage.KeyRange
	for _, reg := range f.Regions() {
		ranges = append(ranges, reg.Range)
		problems, err := f.Server.Check(context.Background(), reg.ID)
		if err != nil {
			return nil, err
		}
		if len(problems) > 0 {
			return nil, fmt.Errorf("check: %v", problems)
		}
	}
	return now, storage.CheckTiling(storage.KeyRange{}, ranges)
}

// recover opens what a crash left.
func (c *crash) recover(t *testing.T, more bool) error {
	s, stop, err := tryOpen(c.fs, c.auth)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	f := &storagetest.Fixture{TB: t, Server: s, Auth: c.auth, Table: crashTable()}
	f.SetColumns()
	now, err := verify(f, c.history, c.maybe)
	if err == nil {
		err = c.noStrays(s)
	}
	if err == nil && more {
		// It must go on as if nothing had been.
		now = maps.Clone(now)
		now[5] = "after|1"
		f.Put(row(5, now[5]))
		f.Flush()
		txn := c.auth.Begin()
		f.Stage(storage.StageOptions{Txn: txn, Attempt: "after"}, row(6, "after|2"), row(55, "after|3"))
		c.auth.Commit(txn, "after")
		now[6], now[55] = "after|2", "after|3"
		c.history = append(c.history, moment{c.auth.Now(), now})
		_, err = verify(f, c.history, nil)
	}
	if closeErr := stop(); err == nil {
		err = closeErr
	}
	if err != nil || !more {
		return err
	}
	if f.Server, stop, err = tryOpen(c.fs, c.auth); err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	_, err = verify(f, c.history, nil)
	if closeErr := stop(); err == nil {
		err = closeErr
	}
	return err
}

// noStrays checks that the server has no region that the catalogue doesn't know.
func (c *crash) noStrays(s *region.Server) error {
	live, _ := c.auth.Regions(context.Background(), crashTable().ID)
	for _, id := range c.made {
		if slices.ContainsFunc(live, func(r storage.Region) bool { return r.ID == id }) {
			continue
		}
		if _, err := s.Stats(context.Background(), id); !errors.Is(err, storage.ErrRegionGone) {
			return fmt.Errorf("region %d, which the catalogue doesn't know, is still there: %v", id, err)
		}
	}
	return nil
}

// TestCrash crashes seeded runs at random writes, under Pebble, segments and
// sidecars alike, and compares what is found afterwards with a model.
func TestCrash(t *testing.T) {
	noLeaks(t)
	const perRun, steps = 16, 60
	kinds := map[string]int{}
	total := 0
	for seed := *crashFirst; total < *crashSeeds; seed++ {
		auth := storagetest.NewAuthority()
		r := &run{t: t, rng: rand.New(rand.NewPCG(seed, 1)), clones: rand.New(rand.NewPCG(seed, 2)), fs: vfs.NewCrashableMem(), auth: auth, points: min(perRun, *crashSeeds-total)}
		r.start()
		r.history = []moment{{auth.Now(), state{}}}
		r.mu.Lock()
		r.odds = []int{4, 10, 25, 60}[r.clones.IntN(4)]
		r.mu.Unlock()
		for i := range steps {
			r.step()
			if i%20 == 19 {
				r.begin(nil, "verify")
				if _, err := verify(r.f, r.history, nil); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, i, err)
				}
				r.done(0)
			}
		}
		r.begin(nil, "close")
		r.ok(r.stop())
		for i, c := range r.crashes {
			total++
			kinds[c.kind]++
			if err := c.recover(t, i%4 == 0); err != nil {
				t.Fatalf("seed %d, crash %d (%s, before %s): %v", seed, i, c.doing, c.op, err)
			}
		}
	}
	t.Logf("%d crash points, by what was under way: %v", total, kinds)
	// Each kind of step has its crashes: before and after the catalogue decided a
	// split or the end of an empty region, while outcomes are applied by Resolve
	// or by a read (verify), in each kind of write.
	least := *crashSeeds / 100
	for _, kind := range []string{"put", "delete", "flush", "stage", "truncate", "resolve", "verify", "split", "split, decided", "replace", "replace, decided", "drop"} {
		if kinds[kind] < least {
			t.Errorf("only %d crash points in step %q, want %d", kinds[kind], kind, least)
		}
	}
}
