package node

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/sql/parser"
)

// fails runs one statement and wants it to fail with this in its message.
func fails(t *testing.T, n *Node, sql, want string) {
	t.Helper()
	s, err := n.Session(t.Context(), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	op := s.Start(t.Context(), parser.Split(sql)[0])
	if err := op.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", sql, err, want)
	}
	if err := op.Close(); err != nil {
		t.Error(err)
	}
}

const twoDays = `CREATE TABLE src (k int, v string);
	INSERT INTO src VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, 'c');
	CREATE TABLE p (k int) PARTITIONED BY (ds string, hr int);
	INSERT INTO p PARTITION (ds='d1', hr) SELECT k, k % 2 FROM src;
	INSERT INTO p PARTITION (ds='d2', hr=7) SELECT k FROM src WHERE k > 2;
	`

func TestPartitions(t *testing.T) {
	n := openNode(t, vfs.NewMem(), 2, "a", "b")
	for _, c := range []struct{ sql, want string }{
		{twoDays + `SELECT ds, hr, count(*), sum(k) FROM p GROUP BY ds, hr ORDER BY ds, hr`, "d1 0 2 6;d1 1 2 4;d2 7 2 7"},
		{`SHOW PARTITIONS p`, "ds=d1/hr=0;ds=d1/hr=1;ds=d2/hr=7"},
		{`SELECT k FROM p WHERE ds = concat('d', '1') AND hr = 1 ORDER BY k`, "1;3"},
		{`SELECT count(*) FROM p`, "6"},
		// Only partitions that get rows are overwritten; it reads what it overwrites.
		{`INSERT OVERWRITE TABLE p PARTITION (ds='d1', hr) SELECT k * 10, hr FROM p WHERE ds = 'd1' AND hr = 1;
		  SELECT ds, hr, sum(k) FROM p GROUP BY ds, hr ORDER BY ds, hr`, "d1 0 6;d1 1 40;d2 7 7"},
		// A named partition is made, and emptied, without any row.
		{`INSERT OVERWRITE TABLE p PARTITION (ds='d2', hr=7) SELECT k FROM src WHERE k > 99;
		  SELECT count(*) FROM p WHERE ds = 'd2'`, "0"},
		{`SHOW PARTITIONS p PARTITION (ds='d2')`, "ds=d2/hr=7"},
		{`ALTER TABLE p PARTITION (ds='d1', hr=0) RENAME TO PARTITION (ds='d9', hr=9); SELECT ds, hr, sum(k) FROM p GROUP BY ds, hr ORDER BY ds`, "d1 1 40;d9 9 6"},
		{`ALTER TABLE p DROP PARTITION (ds >= 'd9'), PARTITION (hr = 7); SELECT * FROM p ORDER BY k`, "10 d1 1;30 d1 1"},
		// A partition that comes back is empty.
		{`ALTER TABLE p ADD PARTITION (ds='d9', hr=9); SELECT count(*) FROM p WHERE ds = 'd9'`, "0"},
		{`INSERT INTO p PARTITION (ds, hr) VALUES (5, NULL, 1), (6, '', NULL); SELECT k, ds, hr FROM p WHERE k < 10 ORDER BY k`,
			"5 __HIVE_DEFAULT_PARTITION__ 1;6 __HIVE_DEFAULT_PARTITION__ NULL"},
		{`CREATE TABLE q LIKE p; ALTER TABLE q EXCHANGE PARTITION (ds='__HIVE_DEFAULT_PARTITION__') WITH TABLE p; SELECT k FROM q ORDER BY k`, "5;6"},
		{`SELECT count(*) FROM p`, "2"},
		{`TRUNCATE TABLE p PARTITION (ds='d1'); SELECT count(*) FROM p`, "0"},
		{`CREATE TABLE kp (id int, v string) PARTITIONED BY (d int) ROW KEY (id);
		  INSERT INTO kp PARTITION (d=1) VALUES (1, 'x'), (2, 'y'); INSERT INTO kp PARTITION (d) VALUES (1, 'z', 1), (1, 'w', 2);
		  SELECT * FROM kp ORDER BY d, id`, "1 z 1;2 y 1;1 w 2"},
	} {
		if got := run(t, n, c.sql); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.sql, got, c.want)
		}
	}
}

// What fails leaves nothing behind, whatever it had already done.
func TestAllOrNothing(t *testing.T) {
	n := openNode(t, vfs.NewMem(), 1, "a")
	run(t, n, twoDays)
	before := run(t, n, `SELECT ds, hr, k FROM p ORDER BY ds, hr, k`)
	boom := `CASE WHEN k = 4 THEN assert_true(k < 4) ELSE NULL END IS NULL`
	fails(t, n, `FROM src INSERT OVERWRITE TABLE p PARTITION (ds='d1', hr=0) SELECT k INSERT INTO p PARTITION (ds='d3', hr=0) SELECT k WHERE `+boom, "assert_true: the condition is not true")
	fails(t, n, `INSERT OVERWRITE TABLE p PARTITION (ds, hr) SELECT k, v, k FROM src WHERE `+boom, "assert_true: the condition is not true")
	fails(t, n, `CREATE TABLE made AS SELECT k FROM src WHERE `+boom, "assert_true: the condition is not true")
	if after := run(t, n, `SELECT ds, hr, k FROM p ORDER BY ds, hr, k`); after != before {
		t.Errorf("failed statements left %s, before %s", after, before)
	}
	if got := run(t, n, `SHOW PARTITIONS p`); got != "ds=d1/hr=0;ds=d1/hr=1;ds=d2/hr=7" {
		t.Errorf("failed statements left partitions %s", got)
	}
	if got := run(t, n, `SHOW TABLES`); got != "p;src" {
		t.Errorf("failed statements left tables %s", got)
	}
	for _, list := range []func() (int, error){
		func() (int, error) { x, err := n.Catalog().Open(t.Context()); return len(x), err },
		func() (int, error) { x, err := n.Catalog().Temporaries(t.Context()); return len(x), err },
		func() (int, error) { x, err := n.Catalog().Dropped(t.Context()); return len(x), err },
	} {
		if left, err := list(); err != nil || left != 0 {
			t.Errorf("failed statements left %d records (%v)", left, err)
		}
	}
	// Too many partitions by values of rows are refused, too.
	fails(t, n, `INSERT INTO p PARTITION (ds, hr) SELECT a.k, 'x', a.k * 1000 + b.k * 100 + c.k * 10 + d.k FROM src a, src b, src c, src d`, "hive.exec.max.dynamic.partitions")
}

func TestViewsAndTemporaryTables(t *testing.T) {
	n := openNode(t, vfs.NewMem(), 1, "a")
	got := run(t, n, `CREATE DATABASE d1; USE d1; CREATE TABLE t (k int, v string); INSERT INTO t VALUES (1, 'x'), (2, 'y');
		CREATE VIEW v (a, b) AS SELECT v, k FROM t WHERE k > 1; CREATE TEMPORARY TABLE tmp AS SELECT a FROM v;
		USE default; SELECT a, b FROM d1.v`)
	if got != "y 2" {
		t.Errorf("the view gives %s", got)
	}
	// A temporary table hides another one, and only in its session.
	if got := run(t, n, `USE d1; CREATE TEMPORARY TABLE t (z int); INSERT INTO t VALUES (9); SELECT * FROM t`); got != "9" {
		t.Errorf("the temporary table gives %s", got)
	}
	if got := run(t, n, `USE d1; SELECT count(*) FROM t; SHOW TABLES`); got != "t;v" {
		t.Errorf("another session sees %s", got)
	}
	s, err := n.Session(t.Context(), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	op := s.Start(t.Context(), parser.Split(`CREATE TEMPORARY TABLE gone (a int)`)[0])
	if err := op.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := n.Catalog().Temporaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := n.Catalog().Temporaries(t.Context())
	if err != nil || len(after) != len(before)-1 {
		t.Errorf("%d temporary tables before the session ended, %d after (%v)", len(before), len(after), err)
	}
}

func TestFilesInAndOut(t *testing.T) {
	n := openNode(t, vfs.NewMem(), 1, "a")
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "in.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	fmt.Fprint(z, "1,x\n2,\\N\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, n, fmt.Sprintf(`CREATE TABLE t (k int, v string) PARTITIONED BY (d string) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',';
		LOAD DATA LOCAL INPATH '%s/in.gz' INTO TABLE t PARTITION (d='one');
		INSERT OVERWRITE LOCAL DIRECTORY '%s/out' ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' NULL DEFINED AS '-' SELECT * FROM t`, dir, dir))
	text, err := os.ReadFile(filepath.Join(dir, "out", "part-00000.txt"))
	if err != nil || string(text) != "1|x|one\n2|-|one\n" {
		t.Errorf("the directory has %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.orc"), []byte("ORC and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, n, fmt.Sprintf(`LOAD DATA LOCAL INPATH '%s/x.orc' INTO TABLE t PARTITION (d='two')`, dir), "loading ORC files")
}
