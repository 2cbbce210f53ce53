package node

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/parser"
	"github.com/skepdb/skep/storage"
)

func openNode(t *testing.T, fsys vfs.FS, workers int, data ...string) *Node {
	t.Helper()
	n, err := Open(t.Context(), Options{FS: fsys, Data: data, Workers: workers, Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// run runs statements and returns the rows of the last one, cells joined by
// blanks, rows by semicolons.
func run(t *testing.T, n *Node, script string) string {
	t.Helper()
	s, err := n.Session(t.Context(), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, piece := range parser.Split(script) {
		rows = nil
		op := s.Start(t.Context(), piece)
		if err := op.Wait(t.Context()); err != nil {
			t.Fatalf("%s: %v", piece.Text, err)
		}
		for {
			b, err := op.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Rows() {
				if b.Sel != nil {
					i = int(b.Sel[i])
				}
				var cells []string
				for c, f := range op.Fields() {
					cells = append(cells, schema.FromArrow(b.Columns[c], i, f.Type).Text())
				}
				rows = append(rows, strings.Join(cells, " "))
			}
		}
		if err := op.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(rows, ";")
}

const someRows = `CREATE TABLE t (id int, name string) ROW KEY (id);
INSERT INTO t VALUES (1, 'a'), (2, 'b')`

func TestReopen(t *testing.T) {
	fsys := vfs.NewMem()
	n := openNode(t, fsys, 2, "one", "two")
	run(t, n, someRows+"; CREATE TABLE u (x double) SPLIT INTO 4; INSERT INTO u VALUES (1.5), (NULL)")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = openNode(t, fsys, 1, "one", "two")
	if got := run(t, n, "SELECT * FROM t ORDER BY id"); got != "1 a;2 b" {
		t.Errorf("rows %q", got)
	}
	if got := run(t, n, "SELECT count(*), sum(x) FROM u"); got != "2 1.5" {
		t.Errorf("rows %q", got)
	}
	u, err := n.Catalog().Table(t.Context(), "default", "u")
	if err != nil {
		t.Fatal(err)
	}
	regions, err := n.Store().Regions(t.Context(), &u.Table)
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]int{}
	for _, r := range regions {
		folders[n.FolderOf(r.Region)]++
	}
	if folders["one"] != 2 || folders["two"] != 2 {
		t.Errorf("the regions of a keyless table of four: %v, want two in each folder", folders)
	}
}

// A crash loses nothing that was acknowledged, and leaves no half of anything.
func TestCrash(t *testing.T) {
	ctx := context.Background()
	fsys := vfs.NewCrashableMem()
	n := openNode(t, fsys, 1, "data")
	run(t, n, someRows+"; CREATE TABLE gone (x int); INSERT INTO gone VALUES (1)")
	table, err := n.Catalog().Table(ctx, "default", "t")
	if err != nil {
		t.Fatal(err)
	}
	// A load whose process ends before it commits.
	txn, err := n.Catalog().Begin(ctx, catalog.TxnLoad, []storage.TableID{table.ID})
	if err != nil {
		t.Fatal(err)
	}
	w, err := n.Store().Stage(ctx, &table.Table, storage.StageOptions{Txn: txn, Attempt: "lost"})
	if err != nil {
		t.Fatal(err)
	}
	row := &batch.Batch{Len: 1, Columns: []arrow.Array{
		schema.ArrayOf(schema.IntType, []schema.Datum{{Type: schema.IntType, I: 7}}),
		schema.ArrayOf(schema.StringType, []schema.Datum{{Type: schema.StringType, S: "half"}})}}
	if err := w.Write(ctx, row); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	// A table that the catalogue has dropped, but the store not yet.
	gone, err := n.Catalog().Table(ctx, "default", "gone")
	if err != nil {
		t.Fatal(err)
	}
	dropped, err := n.Catalog().DropTable(ctx, gone.ID)
	if err != nil || len(dropped) == 0 {
		t.Fatalf("dropped %v, %v", dropped, err)
	}

	after := openNode(t, fsys.CrashClone(vfs.CrashCloneCfg{}), 1, "data")
	if got := run(t, after, "SELECT * FROM t ORDER BY id"); got != "1 a;2 b" {
		t.Errorf("after the crash: %q", got)
	}
	if open, err := after.Catalog().Open(ctx); err != nil || len(open) != 0 {
		t.Errorf("open transactions: %v, %v", open, err)
	}
	if left, err := after.Catalog().Dropped(ctx); err != nil || len(left) != 0 {
		t.Errorf("dropped regions: %v, %v", left, err)
	}
	if problems, err := after.Store().Check(ctx, &table.Table); err != nil || len(problems) != 0 {
		t.Errorf("check: %v, %v", problems, err)
	}
}

// A statement that touches no table opens no region server.
func TestRegionsOpenLate(t *testing.T) {
	n := openNode(t, vfs.NewMem(), 1, "data")
	if got := run(t, n, "SELECT 1"); got != "1" {
		t.Errorf("rows %q", got)
	}
	for _, s := range n.regions {
		if s.server != nil {
			t.Error("the region server is open")
		}
	}
}

// Cancelling a statement ends its job and frees the slots.
func TestCancel(t *testing.T) {
	n := openNode(t, vfs.NewMem(), 1, "data")
	run(t, n, "CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
	s, err := n.Session(t.Context(), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	op := s.Start(ctx, parser.Split("SELECT count(*) FROM t")[0])
	if err := op.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled statement ended with %v", err)
	}
	if err := op.Close(); err != nil {
		t.Error(err)
	}
	if got := run(t, n, "SELECT count(*) FROM t"); got != "8" {
		t.Errorf("rows %q", got)
	}
}
