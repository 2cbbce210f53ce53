package table_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/catalog/metastore"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/inputformat"
	inputregion "github.com/skepdb/skep/inputformat/region"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/outputformat/table"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/client"
	"github.com/skepdb/skep/storage/folder"
	"github.com/skepdb/skep/storage/region"
	"github.com/skepdb/skep/storage/storagetest"
)

// engine is a catalogue, two workers with two folders each, and a store over them.
type engine struct {
	t     *testing.T
	ctx   context.Context
	cat   *metastore.Store
	store *client.Store
	out   *table.Format
	in    *inputregion.Format
}

func newEngine(t *testing.T, fs vfs.FS) *engine {
	t.Helper()
	e := &engine{t: t, ctx: context.Background()}
	var err error
	if e.cat, err = metastore.Open(metastore.Options{FS: fs, Dir: "cat"}); err != nil {
		t.Fatal(err)
	}
	servers := map[cluster.WorkerID]storage.Server{}
	var places []client.Place
	for _, id := range []cluster.WorkerID{"w1", "w2"} {
		var folders []*folder.Folder
		for i := range 2 {
			f, err := folder.Open(fs, fmt.Sprintf("%s-%d", id, i), folder.Options{})
			if err != nil {
				t.Fatal(err)
			}
			folders = append(folders, f)
			places = append(places, client.Place{Worker: id, Folder: i})
		}
		s, err := region.Open(e.ctx, region.Options{Folders: folders, Worker: id, Authority: e.cat, RowGroupRows: 500})
		if err != nil {
			t.Fatal(err)
		}
		servers[id] = s
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			for _, f := range folders {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	e.store = client.New(e.cat, servers, places)
	e.out, e.in = table.New(e.cat, e.store), inputregion.New(e.store)
	return e
}

func (e *engine) ok(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *engine) create(keyed bool, regions int) *catalog.Table {
	e.t.Helper()
	def := catalog.Table{TableName: "t", WantRegions: regions, Table: storage.Table{Columns: schema.Columns{{Name: "id", Type: schema.IntType}, {Name: "name", Type: schema.StringType}}}}
	if keyed {
		def.Key = []storage.KeyColumn{{Column: 1}}
	}
	made, err := e.cat.CreateTable(e.ctx, def, func(t *catalog.Table) ([]storage.Region, error) { return e.store.CreateTable(e.ctx, &t.Table, nil) })
	e.ok(err)
	return made
}

// rows makes a batch of ids [from, to) with a name each.
func rows(t *catalog.Table, from, to int, name string) *batch.Batch {
	ids, names := schema.NewAppender(schema.IntType, to-from), schema.NewAppender(schema.StringType, to-from)
	for i := from; i < to; i++ {
		ids.AppendDatum(schema.Datum{Type: schema.IntType, I: int64(i)})
		names.AppendDatum(schema.Datum{Type: schema.StringType, S: name})
	}
	b := &batch.Batch{Len: to - from}
	b.Columns = append(b.Columns, ids.Finish(), names.Finish())
	return b
}

var fields = []schema.Field{{Name: "id", Type: schema.IntType}, {Name: "name", Type: schema.StringType}}

// attempt writes one attempt's batches.
func (e *engine) attempt(s outputformat.Spec, task int, name string, batches ...*batch.Batch) outputformat.Manifest {
	e.t.Helper()
	w, err := e.out.Open(e.ctx, s, fields, task, name)
	e.ok(err)
	for _, b := range batches {
		e.ok(w.Write(e.ctx, b))
	}
	m, err := w.Finish(e.ctx)
	e.ok(err)
	return m
}

// scan reads a table through the input format, with so many splits.
func (e *engine) scan(t *catalog.Table, parallelism int, ranges []storage.KeyRange) (ids []int, splits int) {
	e.t.Helper()
	p, err := e.cat.Pin(e.ctx)
	e.ok(err)
	defer p.Release()
	spec := inputregion.Spec{Table: &t.Table, At: p.At(), Ranges: ranges, Columns: t.Columns[:1]}
	for sp, err := range e.in.Splits(e.ctx, spec, inputformat.Want{Parallelism: parallelism}) {
		e.ok(err)
		splits++
		if len(sp.Hosts) != 1 || !strings.HasPrefix(sp.Label, "default.t region ") {
			e.t.Errorf("split %+v", sp)
		}
		r, err := e.in.Open(e.ctx, spec, sp)
		e.ok(err)
		for {
			b, err := r.Next(e.ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			e.ok(err)
			b = batch.Compact(b)
			for i := range b.Len {
				ids = append(ids, int(schema.FromArrow(b.Columns[0], i, schema.IntType).I))
			}
		}
		e.ok(r.Close())
	}
	slices.Sort(ids)
	return ids, splits
}

func (e *engine) wantIDs(got []int, from, to int) {
	e.t.Helper()
	if len(got) != to-from {
		e.t.Fatalf("%d rows, want %d", len(got), to-from)
	}
	for i, id := range got {
		if id != from+i {
			e.t.Fatalf("row %d has id %d, want %d", i, id, from+i)
		}
	}
}

// per is how many rows a task writes: more than a row group.
const per = 20_000

func batches(t *catalog.Table, from, to int) (out []*batch.Batch) {
	for ; from < to; from += 5000 {
		out = append(out, rows(t, from, from+5000, "x"))
	}
	return out
}

func TestPublish(t *testing.T) {
	for _, keyed := range []bool{true, false} {
		t.Run(fmt.Sprintf("keyed=%v", keyed), func(t *testing.T) {
			e := newEngine(t, vfs.NewMem())
			tab := e.create(keyed, 4)
			cuts, err := table.Cuts(e.ctx, e.cat, e.store, tab, &sample{b: rows(tab, 0, 4*per, "")}, 4*per, 40*per)
			e.ok(err)
			if keyed && len(cuts) != 3 || !keyed && cuts != nil {
				t.Errorf("%d cuts", len(cuts))
			}
			stats, err := e.store.Regions(e.ctx, &tab.Table)
			e.ok(err)
			places := map[string]bool{}
			for _, r := range stats {
				places[fmt.Sprint(r.Worker, r.Folder)] = true
			}
			if len(stats) != 4 || len(places) != 4 {
				t.Errorf("%d regions in %d folders, want 4 in 4", len(stats), len(places))
			}
			s, err := e.out.Begin(e.ctx, table.Spec{Table: &tab.Table, Kind: catalog.TxnLoad})
			e.ok(err)
			var won []outputformat.Manifest
			for task := range 4 {
				won = append(won, e.attempt(s, task, fmt.Sprint("a", task), batches(tab, task*per, (task+1)*per)...))
			}
			e.attempt(s, 2, "loser", rows(tab, 5*per, 5*per+100, "y"))
			if ids, _ := e.scan(tab, 1, nil); len(ids) != 0 {
				t.Errorf("%d rows are visible before the publish", len(ids))
			}
			sum, err := e.out.Publish(e.ctx, s, won)
			e.ok(err)
			if sum.Rows != 4*per {
				t.Errorf("summary %+v", sum)
			}
			again, err := e.out.Publish(e.ctx, s, won)
			if err != nil || again != sum {
				t.Errorf("again: %+v, %v", again, err)
			}
			if err := e.out.Abandon(e.ctx, s); err != nil && fault.ClassOf(err) != fault.Bug {
				t.Errorf("abandon after publish: %v", err)
			}
			for _, n := range []int{1, 4, 9} {
				ids, splits := e.scan(tab, n, nil)
				e.wantIDs(ids, 0, 4*per)
				if splits < min(n, 8) {
					t.Errorf("%d splits, wanted %d", splits, n)
				}
			}
			if open, err := e.cat.Open(e.ctx); err != nil || len(open) != 0 {
				t.Errorf("open transactions %+v, %v", open, err)
			}
			// Overwrite replaces all of it in one step.
			s, err = e.out.Begin(e.ctx, table.Spec{Table: &tab.Table, Overwrite: true})
			e.ok(err)
			m := e.attempt(s, 0, "o", rows(tab, 100, 200, "z"))
			ids, _ := e.scan(tab, 1, nil)
			e.wantIDs(ids, 0, 4*per)
			_, err = e.out.Publish(e.ctx, s, []outputformat.Manifest{m})
			e.ok(err)
			ids, _ = e.scan(tab, 1, nil)
			e.wantIDs(ids, 100, 200)
			// What is abandoned leaves nothing.
			s, err = e.out.Begin(e.ctx, table.Spec{Table: &tab.Table, Overwrite: true})
			e.ok(err)
			m = e.attempt(s, 0, "p", rows(tab, 0, 50, "z"))
			e.ok(e.out.Abandon(e.ctx, s))
			if _, err := e.out.Publish(e.ctx, s, []outputformat.Manifest{m}); fault.ClassOf(err) != fault.Retryable {
				t.Errorf("publish after abandon: %v", err)
			}
			ids, _ = e.scan(tab, 1, nil)
			e.wantIDs(ids, 100, 200)
			problems, err := e.store.Check(e.ctx, &tab.Table)
			if err != nil || len(problems) > 0 {
				t.Errorf("check: %v, %v", problems, err)
			}
		})
	}
}

// sample is one batch.
type sample struct{ b *batch.Batch }

func (s *sample) Fields() []schema.Field { return fields }
func (s *sample) Next(context.Context) (*batch.Batch, error) {
	if s.b == nil {
		return nil, io.EOF
	}
	b := s.b
	s.b = nil
	return b, nil
}
func (s *sample) Close() error { return nil }

func TestKeyRangesAndSplits(t *testing.T) {
	e := newEngine(t, vfs.NewMem())
	tab := e.create(true, 3)
	_, err := table.Cuts(e.ctx, e.cat, e.store, tab, &sample{b: rows(tab, 0, 3000, "")}, 3000, 3000)
	e.ok(err)
	e.ok(e.store.Put(e.ctx, &tab.Table, tab.Columns, rows(tab, 0, 3000, "p")))
	key := func(id int) storage.Key { return storagetest.Key(&tab.Table, fmt.Sprint(id)) }
	regions, err := e.store.Regions(e.ctx, &tab.Table)
	e.ok(err)
	if len(regions) != 3 {
		t.Fatalf("%d regions", len(regions))
	}
	ranges := []storage.KeyRange{{Start: key(10), End: key(20)}, {Start: key(990), End: key(1010)}}
	ids, splits := e.scan(tab, 1, ranges)
	if len(ids) != 30 || ids[0] != 10 || ids[29] != 1009 || splits != 2 {
		t.Errorf("%d ids in %d splits: %v", len(ids), splits, ids)
	}
	kept, total, err := e.in.Pruned(e.ctx, inputregion.Spec{Table: &tab.Table, Ranges: ranges})
	if err != nil || kept != 2 || total != 3 {
		t.Errorf("%d of %d regions, %v", kept, total, err)
	}
	if ids, splits := e.scan(tab, 1, []storage.KeyRange{}); len(ids) != 0 || splits != 0 {
		t.Errorf("no keys: %d rows, %d splits", len(ids), splits)
	}
	// A split of the job stays valid when its region is split in between.
	p, err := e.cat.Pin(e.ctx)
	e.ok(err)
	defer p.Release()
	spec := inputregion.Spec{Table: &tab.Table, At: p.At(), Columns: tab.Columns}
	var all []inputformat.Split
	for sp, err := range e.in.Splits(e.ctx, spec, inputformat.Want{}) {
		e.ok(err)
		all = append(all, sp)
	}
	_, err = e.store.Split(e.ctx, &tab.Table, regions[1].ID, key(1500))
	e.ok(err)
	n := 0
	for _, sp := range all {
		r, err := e.in.Open(e.ctx, spec, sp)
		e.ok(err)
		for {
			b, err := r.Next(e.ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			e.ok(err)
			n += b.Rows()
		}
		e.ok(r.Close())
	}
	if n != 3000 {
		t.Errorf("%d rows after the split, want 3000", n)
	}
	if _, err := e.store.Split(e.ctx, &tab.Table, 12345, nil); err == nil || err.Error() != "table default.t has no region 12345" {
		t.Errorf("split of no region: %v", err)
	}
	// Get and Delete over regions.
	keys := []storage.Key{key(2999), key(5), key(1400), key(1600), key(5), key(777777)}
	at, err := e.cat.Timestamp(e.ctx)
	e.ok(err)
	b, err := e.store.Get(e.ctx, &tab.Table, keys, at, tab.Columns[:1])
	e.ok(err)
	got := storagetest.Text(tab.Columns[:1], b)
	slices.Sort(got)
	if !slices.Equal(got, []string{"1400", "1600", "2999", "5"}) {
		t.Errorf("get: %v", got)
	}
	e.ok(e.store.Delete(e.ctx, &tab.Table, keys))
	if ids, _ := e.scan(tab, 1, nil); len(ids) != 2996 {
		t.Errorf("%d rows after the delete, want 2996", len(ids))
	}
	// Spreading is for empty tables only.
	if done, err := e.store.SpreadEmpty(e.ctx, &tab.Table, []storage.Key{key(7)}); done || err != nil {
		t.Errorf("spread: %v, %v", done, err)
	}
	// Limits hold over regions.
	r, err := e.store.Scan(e.ctx, &tab.Table, storage.Scan{At: at, Columns: tab.Columns[:1], Limit: 1234})
	e.ok(err)
	n = 0
	for {
		b, err := r.Next(e.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		e.ok(err)
		n += b.Rows()
	}
	e.ok(r.Close())
	if n != 1234 {
		t.Errorf("%d rows of a scan with limit 1234", n)
	}
	regionsNow, err := e.cat.DropTable(e.ctx, tab.ID)
	e.ok(err)
	e.ok(e.store.DropRegions(e.ctx, regionsNow))
}

// TestSpreadWhilePutting: a put that comes while the table is cut is not lost.
func TestSpreadWhilePutting(t *testing.T) {
	e := newEngine(t, vfs.NewMem())
	for range 20 {
		tab := e.create(true, 2)
		done := make(chan error, 1)
		go func() {
			for i := range 20 {
				if err := e.store.Put(e.ctx, &tab.Table, tab.Columns, rows(tab, i*10, i*10+10, "p")); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		_, err := e.store.SpreadEmpty(e.ctx, &tab.Table, []storage.Key{storagetest.Key(&tab.Table, "100")})
		e.ok(err)
		e.ok(<-done)
		ids, _ := e.scan(tab, 1, nil)
		e.wantIDs(ids, 0, 200)
		regions, err := e.cat.DropTable(e.ctx, tab.ID)
		e.ok(err)
		e.ok(e.store.DropRegions(e.ctx, regions))
	}
}

func TestKeylessTablesRefuseKeys(t *testing.T) {
	e := newEngine(t, vfs.NewMem())
	tab := e.create(false, 1)
	err := e.store.Put(e.ctx, &tab.Table, tab.Columns, rows(tab, 0, 1, ""))
	want := "table default.t has no row key: rows can't be put, got or deleted by key"
	if err == nil || err.Error() != want || fault.ClassOf(err) != fault.User {
		t.Errorf("%v, want %s", err, want)
	}
	if err := e.store.Delete(e.ctx, &tab.Table, nil); err == nil {
		t.Error("a delete by key was taken")
	}
}
