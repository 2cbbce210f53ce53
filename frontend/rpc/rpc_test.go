package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/skepdb/skep/batch"
	clusterrpc "github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/frontend/rpc"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/node"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/sql/parser"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a node behind a listener, and a client of it.
type served struct {
	node   *node.Node
	server *rpc.Server
	listen *clusterrpc.Server
	conn   *clusterrpc.Conn
	client *rpc.Client
	dir    string
	dial   func(ctx context.Context, address string) (net.Conn, error)
	wrap   func(net.Conn) net.Conn
}

var identity = clusterrpc.Identity{Version: "test", Role: "master"}

// connect makes a new connection for the client.
func (s *served) connect(t *testing.T) {
	t.Helper()
	if s.conn != nil {
		if err := s.conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if s.conn, err = clusterrpc.NewConn("server:1", clusterrpc.DialOptions{Identity: identity, Dialer: s.dial}); err != nil {
		t.Fatal(err)
	}
	s.client = rpc.NewClient(s.conn, coding.NewRegistry(), clusterrpc.Translator{})
}

func serve(t *testing.T, o rpc.ServerOptions) *served {
	t.Helper()
	s := &served{dir: filepath.Join(t.TempDir(), "uploads")}
	var err error
	if s.node, err = node.Open(t.Context(), node.Options{FS: vfs.NewMem(), Data: []string{"data"}, Slots: 2}); err != nil {
		t.Fatal(err)
	}
	codec := coding.NewRegistry()
	o.Session, o.Load, o.Codec, o.Dir = s.node.Session, s.node.Load, codec, s.dir
	if s.server, err = rpc.NewServer(o); err != nil {
		t.Fatal(err)
	}
	s.listen = clusterrpc.NewServer(clusterrpc.ServerOptions{Identity: identity})
	s.server.Register(s.listen)
	l := bufconn.Listen(64 << 10)
	s.listen.Start(l)
	s.dial = func(ctx context.Context, _ string) (net.Conn, error) {
		c, err := l.DialContext(ctx)
		if err == nil && s.wrap != nil {
			c = s.wrap(c)
		}
		return c, err
	}
	s.connect(t)
	t.Cleanup(func() {
		if err := errors.Join(s.conn.Close(), s.server.Close(), s.listen.Close(), s.node.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("files of clients are left: %v", err)
		}
	})
	return s
}

func (s *served) open(t *testing.T, o frontend.Options) *rpc.Session {
	t.Helper()
	session, err := s.client.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return session
}

// operation is what the operations at both ends have in common.
type operation interface {
	Wait(context.Context) error
	Fields() []schema.Field
	Affected() *int64
	Notes() []string
	Next(context.Context) (*batch.Batch, error)
	Close() error
	Caret(script string, line, column int) string
	Text() string
}

// outcome is everything that a statement says, as text.
func outcome(t *testing.T, op operation, script string) string {
	t.Helper()
	var out strings.Builder
	err := op.Wait(t.Context())
	if err != nil {
		line, column := fault.PlaceOf(err)
		fmt.Fprintf(&out, "error %s %s %d:%d %v\n%s\n", fault.ClassOf(err), fault.StateOf(err), line, column, err, op.Caret(script, line, column))
	}
	fmt.Fprintf(&out, "text %s\n", op.Text())
	if n := op.Affected(); n != nil {
		fmt.Fprintf(&out, "affected %d\n", *n)
	}
	fmt.Fprintf(&out, "notes %q\n", op.Notes())
	if op.Fields() != nil {
		fmt.Fprintf(&out, "fields %v\n", op.Fields())
	}
	for {
		b, err := op.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows() {
			if b.Sel != nil {
				i = int(b.Sel[i])
			}
			for c, f := range op.Fields() {
				if d := schema.FromArrow(b.Columns[c], i, f.Type); d.Null {
					out.WriteString("NULL|")
				} else {
					out.WriteString(d.Text() + "|")
				}
			}
			out.WriteByte('\n')
		}
	}
	if err := op.Close(); err != nil {
		t.Error(err)
	}
	return out.String()
}

// A script says the same over the wire as in the process: rows of all types, notes,
// errors with their place, variables.
func TestSameAsEmbedded(t *testing.T) {
	s := serve(t, rpc.ServerOptions{})
	file := filepath.Join(t.TempDir(), "rows.txt")
	if err := os.WriteFile(file, []byte("1\tone\n2\ttwo\nx\tthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `SELECT 1, cast(2 as tinyint), 1.5, 2.5e0, 'text', true, cast(null as int), date '2024-02-29', timestamp '2024-02-29 12:00:00.123', cast(1.25 as decimal(10,2));
CREATE DATABASE db$N; USE db$N; CREATE TABLE t (id int, name string) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t';
LOAD DATA LOCAL INPATH '` + file + `' INTO TABLE t;
SELECT * FROM t ORDER BY name;
SELECT name FROM t WHERE false;
SET x=id;
SELECT ${hiveconf:x}, count(*) FROM t GROUP BY ${hiveconf:x} ORDER BY 1;
SELECT ${hiveconf:x} FROM
  nowhere;
SELECT ${v} FROM t;
SELECT nme FROM t;
SELEC 1;
INSERT INTO t VALUES (7, 'seven');
LOAD DATA LOCAL INPATH '/there/is/nothing' INTO TABLE t;
SHOW TABLES; DESCRIBE t; USE nowhere`
	options := frontend.Options{HiveVar: map[string]string{"v": "name"}}
	remote := s.open(t, options)
	local, err := s.node.Session(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	one, two := strings.ReplaceAll(script, "$N", "1"), strings.ReplaceAll(script, "$N", "2")
	pieces := parser.Split(one)
	for i, piece := range parser.Split(two) {
		got := outcome(t, remote.Start(t.Context(), pieces[i]), one)
		want := outcome(t, local.Start(t.Context(), piece), two)
		if got := strings.ReplaceAll(got, "db1", "db2"); got != want {
			t.Errorf("%s\nremote: %s\nembedded: %s", piece.Text, got, want)
		}
		if got, want := remote.Database(), strings.ReplaceAll(local.Database(), "db2", "db1"); got != want {
			t.Errorf("%s: the database is %s, want %s", piece.Text, got, want)
		}
	}
	got, err := remote.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"t", "id", "name"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	if _, err := s.client.Open(t.Context(), frontend.Options{Database: "nowhere"}); fault.ClassOf(err) != fault.User {
		t.Errorf("a session in a database that isn't there: %v", err)
	}
}

// numbersTable makes a table of n rows, 0 to n-1.
func numbersTable(t *testing.T, s *served, n int) {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\ttext number %d\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "numbers.txt")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	session := s.open(t, frontend.Options{})
	for _, p := range parser.Split("CREATE TABLE n (id int, name string) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\\t'; LOAD DATA LOCAL INPATH '" + file + "' INTO TABLE n") {
		op := session.Start(t.Context(), p)
		if err := op.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := op.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// fragile is a connection that breaks after some bytes.
type fragile struct {
	net.Conn
	left *atomic.Int64
}

func (f fragile) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if f.left.Add(-int64(n)) < 0 {
		_ = f.Conn.Close()
		return 0, errors.New("connection reset by peer")
	}
	return n, err
}

// Large results come page by page, each row once, also over a connection that breaks
// now and then.
func TestPages(t *testing.T) {
	const rows = 100_000
	s := serve(t, rpc.ServerOptions{PageBytes: 200 << 10})
	numbersTable(t, s, rows)
	for _, breaks := range []bool{false, true} {
		var conns atomic.Int64
		if breaks {
			s.wrap = func(c net.Conn) net.Conn {
				conns.Add(1)
				left := new(atomic.Int64)
				left.Store(400 << 10)
				return fragile{c, left}
			}
			s.connect(t)
		}
		session := s.open(t, frontend.Options{})
		op := session.Start(t.Context(), parser.Split("SELECT id, name FROM n ORDER BY id")[0])
		if err := op.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := int32(0)
		for {
			b, err := op.Next(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range batch.Values[int32](b.Columns[0]) {
				if v != next {
					t.Fatalf("row %d is %d", next, v)
				}
				next++
			}
		}
		if next != rows {
			t.Errorf("%d rows, want %d", next, rows)
		}
		if err := op.Close(); err != nil {
			t.Error(err)
		}
		if breaks && conns.Load() < 2 {
			t.Error("the connection never broke")
		}
	}
}

// Files of a load are sent, rows that are left out come back, and errors name the
// files as the client does.
func TestLoad(t *testing.T) {
	s := serve(t, rpc.ServerOptions{})
	ctx := t.Context()
	session := s.open(t, frontend.Options{})
	op := session.Start(ctx, parser.Split("CREATE TABLE t (id int, name string) ROW KEY (id)")[0])
	if err := errors.Join(op.Wait(ctx), op.Close()); err != nil {
		t.Fatal(err)
	}
	table, err := s.node.Catalog().Table(ctx, "default", "t")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	good, bad, reject := filepath.Join(dir, "good.tsv"), filepath.Join(dir, "bad.tsv"), filepath.Join(dir, "reject")
	for file, text := range map[string]string{good: "1\tone\n2\ttwo\n", bad: "3\tthree\nfour\tfour\n5\tfive\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := sql.Load{Table: table, Name: "a load", Files: sql.Files{Paths: []string{good, bad}, Columns: table.Columns, Delimiter: "\t", OnError: sql.Abort}}
	_, err = session.Load(ctx, l, nil)
	if fault.ClassOf(err) != fault.User || !strings.Contains(err.Error(), bad+":2") && !strings.Contains(err.Error(), bad+", line 2") || strings.Contains(err.Error(), s.dir) {
		t.Errorf("a bad row: %v", err)
	}
	l.Files.OnError, l.Files.Reject = sql.Skip, reject
	seen := false
	status, err := session.Load(ctx, l, func(j frontend.Job) { seen = true })
	if err != nil || status.Summary.Rows != 4 || !seen {
		t.Errorf("%d rows, %v; want 4", status.Summary.Rows, err)
	}
	if b, err := os.ReadFile(reject); err != nil || string(b) != "four\tfour\n" {
		t.Errorf("rejected %q, %v", b, err)
	}
	l.Files.Paths = []string{filepath.Join(dir, "nothing")}
	if _, err := session.Load(ctx, l, nil); fault.ClassOf(err) != fault.User || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a file that isn't there: %v", err)
	}
	if got := outcome(t, session.Start(ctx, parser.Split("SELECT count(*) FROM t")[0]), ""); !strings.Contains(got, "\n4|\n") {
		t.Errorf("after it all: %s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*", "*", "*")); left != nil {
		t.Errorf("files are left: %v", left)
	}
}

const endless = "SELECT count(*) FROM n a CROSS JOIN n b CROSS JOIN n c WHERE a.id + b.id + c.id = -1"

// started waits until a statement's job runs.
func started(t *testing.T, op *rpc.Operation) {
	t.Helper()
	for {
		if st, ok := op.Status(); ok && slices.ContainsFunc(st.Stages, func(s jobs.StageStatus) bool { return s.Running > 0 }) {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("it doesn't start")
		case <-time.After(time.Millisecond):
		}
	}
}

// Cancelling ends a statement at the server, and its session goes on; so does the end
// of the context, of the operation or of the session.
func TestCancel(t *testing.T) {
	s := serve(t, rpc.ServerOptions{Every: time.Millisecond})
	numbersTable(t, s, 3000)
	session := s.open(t, frontend.Options{})
	piece := parser.Split(endless)[0]
	ends := map[string]func(*rpc.Operation, context.CancelFunc){
		"cancel":  func(o *rpc.Operation, _ context.CancelFunc) { o.Cancel() },
		"context": func(_ *rpc.Operation, cancel context.CancelFunc) { cancel() },
		"close": func(o *rpc.Operation, _ context.CancelFunc) {
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		},
	}
	for name, end := range ends {
		ctx, cancel := context.WithCancel(t.Context())
		op := session.Start(ctx, piece)
		started(t, op)
		if err := session.Start(t.Context(), piece).Wait(t.Context()); fault.ClassOf(err) != fault.User {
			t.Errorf("%s: a second statement: %v", name, err)
		}
		end(op, cancel)
		if err := op.Wait(t.Context()); !errors.Is(err, context.Canceled) || fault.StateOf(err) != "57014" {
			t.Errorf("%s: it ended with %v", name, err)
		}
		if err := op.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if got := outcome(t, session.Start(t.Context(), parser.Split("SELECT count(*) FROM n")[0]), ""); !strings.Contains(got, "\n3000|\n") {
			t.Errorf("%s: afterwards: %s", name, got)
		}
	}
	op := session.Start(t.Context(), piece)
	started(t, op)
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if err := op.Wait(t.Context()); err == nil {
		t.Error("a statement of a closed session succeeded")
	}
	if err := op.Close(); err != nil {
		t.Error(err)
	}
}

// A session whose client is gone expires, with what it runs; one whose client is idle
// does not.
func TestExpiry(t *testing.T) {
	s := serve(t, rpc.ServerOptions{Idle: 800 * time.Millisecond, Every: time.Millisecond})
	numbersTable(t, s, 3000)
	idle := s.open(t, frontend.Options{})
	conn, err := clusterrpc.NewConn("server:1", clusterrpc.DialOptions{Identity: identity, Dialer: s.dial})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := rpc.NewClient(conn, coding.NewRegistry(), clusterrpc.Translator{}).Open(t.Context(), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	op := gone.Start(t.Context(), parser.Split(endless)[0])
	started(t, op)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for { // until the other's statement has ended
		if st := s.jobs(t); len(st) > 0 && st[len(st)-1].State.String() == "killed" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got := outcome(t, idle.Start(t.Context(), parser.Split("SELECT 1")[0]), ""); !strings.Contains(got, "\n1|\n") {
		t.Errorf("the idle session: %s", got)
	}
	if err := op.Wait(t.Context()); err == nil {
		t.Error("a statement without a connection succeeded")
	}
	_ = errors.Join(op.Close(), gone.Close()) // nobody hears it
}

// A server that ends takes its statements with it: an error that says to try again.
func TestServerEnds(t *testing.T) {
	s := serve(t, rpc.ServerOptions{Every: time.Millisecond})
	numbersTable(t, s, 3000)
	session := s.open(t, frontend.Options{})
	op := session.Start(t.Context(), parser.Split(endless)[0])
	started(t, op)
	if err := errors.Join(s.server.Close(), s.listen.Close()); err != nil {
		t.Error(err)
	}
	if err := op.Wait(t.Context()); err == nil {
		t.Error("a statement outlived its server")
	}
	if err := op.Close(); err != nil {
		t.Error(err)
	}
	if err := session.Start(t.Context(), parser.Split("SELECT 1")[0]).Wait(t.Context()); fault.ClassOf(err) != fault.Retryable {
		t.Errorf("without a server: %v", err)
	}
}

func (s *served) jobs(t *testing.T) []jobs.Status {
	t.Helper()
	all, err := s.node.JobList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}
