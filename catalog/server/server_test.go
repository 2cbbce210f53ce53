package server_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/catalog/client"
	"github.com/skepdb/skep/catalog/metastore"
	"github.com/skepdb/skep/catalog/server"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t *testing.T) (near *metastore.Store, far *client.Store) {
	t.Helper()
	near, err := metastore.Open(metastore.Options{FS: vfs.NewMem(), Dir: "catalog", Now: func() time.Time { return time.Unix(1e9, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	r := coding.NewRegistry()
	wire.Register(r)
	id := rpc.Identity{Version: "test"}
	srv := rpc.NewServer(rpc.ServerOptions{Identity: id, Errors: wire.Errors()})
	server.Register(srv, near, r)
	l := bufconn.Listen(1 << 16)
	srv.Start(l)
	conn, err := rpc.Dial(t.Context(), "m:1", rpc.DialOptions{Identity: id, Errors: wire.Errors(),
		Dialer: func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), srv.Close(), near.Close()); err != nil {
			t.Error(err)
		}
	})
	return near, client.New(conn, r)
}

// What is done from afar is what is seen from near, and the other way round.
func TestFarIsNear(t *testing.T) {
	near, far := setup(t)
	ctx := t.Context()
	check := func(what string, want any, got any, errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b decimal128.Num) bool { return a == b })); diff != "" {
			t.Errorf("%s (-near +far):\n%s", what, diff)
		}
	}
	check("create database", nil, nil, far.CreateDatabase(ctx, catalog.Database{Name: "d", Comment: "c", Properties: map[string]string{"a": "b"}}))
	a, err1 := near.Database(ctx, "d")
	b, err2 := far.Database(ctx, "d")
	check("database", a, b, err1, err2)
	all, err1 := near.Databases(ctx)
	farAll, err2 := far.Databases(ctx)
	check("databases", all, farAll, err1, err2)

	made, err := far.CreateTable(ctx, catalog.Table{Database: "d", TableName: "t", Comment: "x",
		Table:            storage.Table{Columns: schema.Columns{{Name: "a", Type: schema.DecimalType(10, 2), NotNull: true}, {Name: "b", Type: schema.StringType}}, Key: []storage.KeyColumn{{Column: 1, Desc: true}}},
		PartitionColumns: schema.Columns{{Name: "p", Type: schema.IntType}},
	}, func(t *catalog.Table) ([]storage.Region, error) {
		id, err := far.NewRegionID(ctx)
		return []storage.Region{{ID: id, Table: t.ID, Worker: "w", Folder: 1}}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err1 := near.Table(ctx, "d", "t")
	f, err2 := far.Table(ctx, "d", "t")
	check("table", n, f, err1, err2)
	check("made", n, made)
	n, err1 = near.TableByID(ctx, made.ID)
	f, err2 = far.TableByID(ctx, made.ID)
	check("by id", n, f, err1, err2)
	r1, err1 := near.Regions(ctx, made.ID)
	r2, err2 := far.Regions(ctx, made.ID)
	check("regions", r1, r2, err1, err2)
	with := r1[0]
	if with.ID, err = far.NewRegionID(ctx); err != nil {
		t.Fatal(err)
	}
	check("replace", nil, nil, far.ReplaceRegions(ctx, made.ID, []storage.RegionID{r1[0].ID}, []storage.Region{with}))

	txn, err := far.Begin(ctx, catalog.TxnLoad, []storage.TableID{made.ID})
	if err != nil {
		t.Fatal(err)
	}
	o1, err1 := near.Open(ctx)
	o2, err2 := far.Open(ctx)
	check("open", o1, o2, err1, err2)
	ids, err := far.PartitionIDs(ctx, txn, made.ID, [][]schema.Datum{{{Type: schema.IntType, I: 5}}})
	again, err2 := near.PartitionIDs(ctx, txn, made.ID, [][]schema.Datum{{{Type: schema.IntType, I: 5}}})
	check("partition ids", again, ids, err, err2)
	at, err := far.Commit(ctx, txn, []string{"x", "y"})
	out1, err1 := near.Outcome(ctx, txn)
	out2, err2 := far.Outcome(ctx, txn)
	check("outcome", out1, out2, err, err1, err2)
	if out2.State != storage.Committed || out2.At != at || len(out2.Winners) != 2 {
		t.Errorf("committed at %v: %+v", at, out2)
	}
	p1, err1 := near.Partitions(ctx, made.ID, storage.MaxTimestamp)
	p2, err2 := far.Partitions(ctx, made.ID, storage.MaxTimestamp)
	check("partitions", p1, p2, err1, err2)
	check("forget", nil, nil, far.Forget(ctx, txn))
	if err := far.Abort(ctx, txn); (err == nil) != (near.Abort(ctx, txn) == nil) {
		t.Errorf("abort of a forgotten one: %v", err)
	}
	made.Comment = "y"
	changed, err := far.AlterTable(ctx, *made)
	if err != nil || changed.Comment != "y" || changed.Version <= made.Version {
		t.Errorf("altered: %+v, %v", changed, err)
	}
	t1, err1 := near.Tables(ctx, "d")
	t2, err2 := far.Tables(ctx, "d")
	check("tables", t1, t2, err1, err2)
	gone, err := far.DropTable(ctx, made.ID)
	d1, err1 := near.Dropped(ctx)
	d2, err2 := far.Dropped(ctx)
	check("dropped", d1, d2, err, err1, err2)
	check("forget dropped", nil, nil, far.ForgetDropped(ctx, []storage.RegionID{gone[0].ID}))
	check("drop database", nil, nil, far.DropDatabase(ctx, "d"))

	ts1, err1 := near.Timestamp(ctx)
	ts2, err2 := far.Timestamp(ctx)
	if err := errors.Join(err1, err2); err != nil || ts2 <= ts1 {
		t.Errorf("timestamps %v, %v, %v", ts1, ts2, err)
	}
	_, want := near.Table(ctx, "default", "nope")
	if _, err := far.Table(ctx, "default", "nope"); err == nil || err.Error() != want.Error() || fault.StateOf(err) != fault.StateOf(want) {
		t.Errorf("an unknown table: %v, want %v", err, want)
	}
}

func TestCreateFailsWithPlace(t *testing.T) {
	near, far := setup(t)
	wrong := errors.New("no room")
	_, err := far.CreateTable(t.Context(), catalog.Table{TableName: "t", Table: storage.Table{Columns: schema.Columns{{Name: "a", Type: schema.IntType}}}},
		func(*catalog.Table) ([]storage.Region, error) { return nil, wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("no place: %v", err)
	}
	if ts, err := near.Tables(t.Context(), "default"); err != nil || len(ts) != 0 {
		t.Errorf("tables: %v, %v", ts, err)
	}
}

// A pin holds the history until it is released, whatever becomes of the context
// that it was asked for with.
func TestPin(t *testing.T) {
	near, far := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	pin, err := far.Pin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	floor, err := near.Floor(t.Context())
	if err != nil || floor >= pin.At() {
		t.Errorf("floor %v at a pin of %v, %v", floor, pin.At(), err)
	}
	pin.Release()
	pin.Release()
}
