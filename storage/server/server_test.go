package server_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/coding/codingtest"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/client"
	"github.com/skepdb/skep/storage/folder"
	"github.com/skepdb/skep/storage/region"
	"github.com/skepdb/skep/storage/server"
	"github.com/skepdb/skep/storage/storagetest"
	"github.com/skepdb/skep/storage/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func registry() *coding.Registry {
	r := coding.NewRegistry()
	wire.Register(r)
	return r
}

// network is a listener whose connections a test can cut.
type network struct {
	l  *bufconn.Listener
	mu sync.Mutex
	up []net.Conn
}

func (n *network) dial(ctx context.Context, _ string) (net.Conn, error) {
	c, err := n.l.DialContext(ctx)
	if err == nil {
		n.mu.Lock()
		n.up = append(n.up, c)
		n.mu.Unlock()
	}
	return c, err
}

// cut breaks all connections.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.up {
		_ = c.Close()
	}
	n.up = nil
}

// over returns s as seen through the network.
func over(tb testing.TB, s storage.Server) (*client.Remote, *network) {
	tb.Helper()
	id := rpc.Identity{Version: "test"}
	srv := rpc.NewServer(rpc.ServerOptions{Identity: id, Errors: wire.Errors()})
	server.Register(srv, s, registry())
	n := &network{l: bufconn.Listen(1 << 16)}
	srv.Start(n.l)
	conn, err := rpc.Dial(context.Background(), "w:1", rpc.DialOptions{Identity: id, Errors: wire.Errors(), Dialer: n.dial})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(conn.Close(), srv.Close()); err != nil {
			tb.Error(err)
		}
	})
	return client.NewRemote(conn, registry()), n
}

func open(tb testing.TB, a storage.Authority, maxRowGroup int64) *region.Server {
	tb.Helper()
	f, err := folder.Open(vfs.NewMem(), "data", folder.Options{PID: 1, Command: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := region.Open(context.Background(), region.Options{Folders: []*folder.Folder{f}, Worker: "w1", Authority: a, RowGroupRows: maxRowGroup, CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(s.Close(), f.Close()); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Whatever a store does, it does over the network.
func TestSuite(t *testing.T) {
	storagetest.Run(t, func(tb testing.TB, a *storagetest.Authority, maxRowGroup int64) storage.Server {
		r, _ := over(tb, open(tb, a, maxRowGroup))
		return r
	})
}

// All that is asked and answered comes through whole.
func TestCoding(t *testing.T) {
	f := codingtest.NewFiller(5, registry())
	codingtest.Maker(f, func(r *rand.Rand) decimal128.Num { return decimal128.New(r.Int64(), r.Uint64()) })
	codingtest.All(t, f, 20, cmp.Comparer(func(a, b decimal128.Num) bool { return a == b }))
}

// count has n batches of one row each: 0, 1, 2 ...; its scan waits before each row
// for a token, if there are any.
type count struct {
	storage.Server
	n     int
	token chan struct{}
	stats storage.ScanStats
	stage *staged
}

var columns = schema.Columns{{ID: 1, Name: "n", Type: schema.BigIntType}}

func row(i int) *batch.Batch {
	return &batch.Batch{Len: 1, Columns: []arrow.Array{schema.ArrayOf(schema.BigIntType, []schema.Datum{{Type: schema.BigIntType, I: int64(i)}})}}
}

func (c *count) Scan(_ context.Context, s storage.Scan) (storage.ScanReader, error) {
	return &counting{c: c}, nil
}

type counting struct {
	c  *count
	at int
}

func (r *counting) Fields() []schema.Field { return wire.Fields(columns) }

func (r *counting) Next(ctx context.Context) (*batch.Batch, error) {
	if r.c.token != nil {
		select {
		case <-r.c.token:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if r.at == r.c.n {
		return nil, io.EOF
	}
	r.at++
	return row(r.at - 1), nil
}

func (r *counting) Stats() storage.ScanStats { return r.c.stats }
func (r *counting) Close() error             { return nil }

// A scan in key order goes on where its connection broke, without a row twice or
// missing; one in no order fails in a way that says that it may be tried again.
func TestScanGoesOn(t *testing.T) {
	const n = 20
	for k := range n {
		for _, ordered := range []bool{true, false} {
			c := &count{n: n, token: make(chan struct{}), stats: storage.ScanStats{Emitted: n, Pruned: 7}}
			tokens, stop := context.WithCancel(t.Context())
			give := make(chan struct{})
			go func() {
				defer close(give)
				for tokens.Err() == nil {
					select {
					case c.token <- struct{}{}:
					case <-tokens.Done():
					}
				}
			}()
			remote, net := over(t, c)
			r, err := remote.Scan(t.Context(), storage.Scan{Columns: columns, Ordered: ordered})
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if i == k {
					net.cut()
				}
				b, err := r.Next(t.Context())
				if err != nil {
					if ordered || !errors.Is(err, fault.ErrUnavailable) || fault.ClassOf(err) != fault.Retryable {
						t.Fatalf("cut at %d of %d, ordered %v: %v", i, n, ordered, err)
					}
					break
				}
				if got := schema.FromArrow(b.Columns[0], 0, schema.BigIntType).I; got != int64(i) || b.Rows() != 1 {
					t.Fatalf("cut at %d: row %d is %d", k, i, got)
				}
				if i == n-1 {
					if _, err := r.Next(t.Context()); err != io.EOF {
						t.Fatalf("cut at %d: after the last row: %v", k, err)
					}
					if r.Stats() != c.stats {
						t.Errorf("statistics %+v", r.Stats())
					}
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			stop()
			<-give
		}
	}
}

// staged is a stage writer that notes what becomes of it.
type staged struct{ ended chan string }

func (c *count) Stage(context.Context, *storage.Table, []storage.Region, storage.StageOptions) (storage.StageWriter, error) {
	return c.stage, nil
}

func (s *staged) Write(context.Context, *batch.Batch) error { return nil }
func (s *staged) Finish(context.Context) (storage.Staged, error) {
	return storage.Staged{Attempt: "a", Rows: 1}, nil
}
func (s *staged) Abort() error { s.ended <- "abort"; return nil }

func TestStageEnds(t *testing.T) {
	table := &storage.Table{ID: 1, Name: "d.t", Columns: columns}
	for name, end := range map[string]func(storage.StageWriter, *network, context.CancelFunc) error{
		"abort":  func(w storage.StageWriter, _ *network, _ context.CancelFunc) error { return w.Abort() },
		"cut":    func(_ storage.StageWriter, n *network, _ context.CancelFunc) error { n.cut(); return nil },
		"cancel": func(_ storage.StageWriter, _ *network, c context.CancelFunc) error { c(); return nil },
		"finish, then abort": func(w storage.StageWriter, _ *network, _ context.CancelFunc) error {
			_, err := w.Finish(context.Background())
			return errors.Join(err, w.Abort())
		},
	} {
		c := &count{stage: &staged{ended: make(chan string, 1)}}
		remote, net := over(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		w, err := remote.Stage(ctx, table, nil, storage.StageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(ctx, row(1)); err != nil {
			t.Fatal(err)
		}
		if err := end(w, net, cancel); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		<-c.stage.ended
		cancel()
	}
	// Finished is finished: what comes after keeps it.
	c := &count{stage: &staged{ended: make(chan string, 1)}}
	remote, net := over(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := remote.Stage(ctx, table, nil, storage.StageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := w.Finish(ctx); err != nil || st.Rows != 1 || st.Attempt != "a" {
		t.Errorf("finished: %+v, %v", st, err)
	}
	cancel()
	net.cut()
	t.Cleanup(func() {
		if len(c.stage.ended) > 0 {
			t.Error("what was finished was dropped")
		}
	})
}
