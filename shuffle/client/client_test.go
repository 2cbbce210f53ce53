package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	shufflepb "github.com/skepdb/skep/api/shuffle"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
	"github.com/skepdb/skep/shuffle/client"
	"github.com/skepdb/skep/shuffle/server"
	"github.com/skepdb/skep/shuffle/shuffletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var identity = rpc.Identity{Version: "test", Role: "worker"}

// network is processes in memory: worker wN listens at wN:1.
type network struct {
	t *testing.T

	mu     sync.Mutex
	places map[string]*process
	// wrap changes the reader's connections.
	wrap func(net.Conn) net.Conn
}

type process struct {
	local  *shuffle.Local
	server *rpc.Server
	listen *bufconn.Listener
}

func newNetwork(t *testing.T) *network { return &network{t: t, places: map[string]*process{}} }

// start starts a process; register adds its services.
func (n *network) start(name string, register func(grpc.ServiceRegistrar)) *process {
	p := &process{server: rpc.NewServer(rpc.ServerOptions{Identity: identity}), listen: bufconn.Listen(64 << 10)}
	register(p.server)
	p.server.Start(p.listen)
	n.mu.Lock()
	n.places[name] = p
	n.mu.Unlock()
	n.t.Cleanup(func() { p.stop(n.t) })
	return p
}

func (p *process) stop(t *testing.T) {
	if err := p.server.Close(); err != nil {
		t.Error(err)
	}
}

// worker starts a worker's process with this much shuffle memory.
func (n *network) worker(name string, memory int64) *process {
	l, err := shuffle.NewLocal(shuffle.LocalOptions{Memory: memory, Dirs: []string{name}, FS: vfs.NewMem()})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			n.t.Error(err)
		}
	})
	p := n.start(name, func(r grpc.ServiceRegistrar) { server.New(l, cluster.WorkerID(name)).Register(r) })
	p.local = l
	return p
}

const window = 64 << 10

// client returns the shuffle of a process whose own worker is "me".
func (n *network) client(o client.Options) *client.Service {
	if o.Local == nil {
		o.Local = shuffle.NewMemory()
	}
	o.Workers = []cluster.WorkerID{"me"}
	if o.Backoff == 0 {
		o.Backoff = time.Microsecond
	}
	o.Connect = func(address string) (client.Conn, error) {
		return rpc.NewConn(address, rpc.DialOptions{Identity: identity, Window: window, Dialer: func(ctx context.Context, address string) (net.Conn, error) {
			name, _, _ := net.SplitHostPort(address)
			n.mu.Lock()
			p, wrap := n.places[name], n.wrap
			n.mu.Unlock()
			if p == nil {
				return nil, errors.New("connection refused")
			}
			c, err := p.listen.DialContext(ctx)
			if err == nil && wrap != nil {
				c = wrap(c)
			}
			return c, err
		}})
	}
	s := client.New(o)
	n.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			n.t.Error(err)
		}
	})
	return s
}

func source(worker string, task int) shuffle.Source {
	return shuffle.Source{Attempt: shuffle.Attempt{Job: "job", Task: task}, Worker: cluster.WorkerID(worker), Address: worker + ":1"}
}

func TestService(t *testing.T) {
	for name, memory := range map[string]int64{"from memory": 1 << 30, "from disk": 1} {
		t.Run(name, func(t *testing.T) {
			shuffletest.Test(t, func(t *testing.T) shuffletest.Setup {
				n := newNetwork(t)
				own := shuffle.NewMemory()
				me := n.client(client.Options{Local: own})
				setup := shuffletest.Setup{Read: me, Write: []shuffle.Service{n.worker("w0", memory).local, n.worker("w1", memory).local, me},
					Source: func(a shuffle.Attempt, producer int) shuffle.Source {
						s := shuffle.Source{Attempt: a, Worker: "me"}
						if producer < 2 {
							s.Worker = cluster.WorkerID(fmt.Sprint("w", producer))
							s.Address = fmt.Sprintf("w%d:1", producer)
						}
						return s
					}}
				return setup
			})
		})
	}
}

var fields = []schema.Field{{Name: "n", Type: schema.BigIntType}}

// scrambled is a batch of numbers that don't compress.
func scrambled(from int64) *batch.Batch {
	v := make([]int64, batch.MaxRows)
	for i := range v {
		v[i] = (from + int64(i)) * 0x5DEECE66D1234567
	}
	return &batch.Batch{Columns: []arrow.Array{batch.NewFixed(schema.BigIntType.Arrow(), v, nil)}, Len: len(v)}
}

// produce writes batches of 64 KiB as the output of a task.
func produce(t *testing.T, s shuffle.Service, task, batches int) {
	t.Helper()
	w, err := s.Writer(t.Context(), shuffle.Attempt{Job: "job", Task: task}, fields, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range batches {
		if err := w.Write(t.Context(), 0, scrambled(int64(task)<<32+int64(i*batch.MaxRows))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// verify reads outputs and compares every row.
func verify(ctx context.Context, s shuffle.Service, from []shuffle.Source, batches int) error {
	r, err := s.Reader(ctx, fields, 0, from)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, src := range from {
		for k := int64(0); k < int64(batches*batch.MaxRows); {
			b, err := r.Next(ctx)
			if err != nil {
				return err
			}
			for _, v := range batch.Values[int64](b.Columns[0]) {
				if want := (int64(src.Task)<<32 + k) * 0x5DEECE66D1234567; v != want {
					return fmt.Errorf("row %d of task %d is %d, want %d", k, src.Task, v, want)
				}
				k++
			}
		}
	}
	if _, err := r.Next(ctx); err != io.EOF {
		return fmt.Errorf("after the last row: %w", err)
	}
	return nil
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

// A stream that breaks is taken up where it broke, as often as it must be.
func TestBrokenStreams(t *testing.T) {
	for name, memory := range map[string]int64{"from memory": 1 << 30, "from disk": 1} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			var breaks atomic.Int64
			n.wrap = func(c net.Conn) net.Conn {
				breaks.Add(1)
				left := new(atomic.Int64)
				left.Store(700 << 10)
				return fragile{c, left}
			}
			w0, w1 := n.worker("w0", memory), n.worker("w1", memory)
			var from []shuffle.Source
			for task := range 6 {
				produce(t, []*process{w0, w1}[task%2].local, task, 20)
				from = append(from, source(fmt.Sprint("w", task%2), task))
			}
			if err := verify(t.Context(), n.client(client.Options{Retries: 50}), from, 20); err != nil {
				t.Fatal(err)
			}
			// 7.8 MB by pieces of at most 0.7 MB.
			if breaks.Load() < 11 {
				t.Errorf("only %d connections were made", breaks.Load())
			}
		})
	}
}

// goneTasks returns which tasks an error says are gone.
func goneTasks(t *testing.T, err error) []int {
	t.Helper()
	e, ok := errors.AsType[*shuffle.GoneError](err)
	if !ok {
		t.Fatalf("error %v, want that output is gone", err)
	}
	var tasks []int
	for _, a := range e.From {
		tasks = append(tasks, a.Task)
	}
	return tasks
}

// The output of a process that has died is gone, all of it that was not read;
// that of others is not.
func TestProducerDies(t *testing.T) {
	n := newNetwork(t)
	w0, w1 := n.worker("w0", 1<<30), n.worker("w1", 1<<30)
	for task, p := range []*process{w0, w1, w1, w0, w1} {
		produce(t, p.local, task, 40)
	}
	from := []shuffle.Source{source("w0", 0), source("w1", 1), source("w1", 2), source("w0", 3), source("w1", 4)}
	me := n.client(client.Options{Buffer: 1, Retries: 2})
	r, err := me.Reader(t.Context(), fields, 0, from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	delete(n.places, "w1")
	n.mu.Unlock()
	w1.stop(t)
	for err == nil {
		_, err = r.Next(t.Context())
	}
	if got := goneTasks(t, err); !slices.Equal(got, []int{1, 2, 4}) {
		t.Errorf("gone are %v, want 1, 2 and 4", got)
	}
	if !strings.Contains(err.Error(), "w1:1") {
		t.Errorf("the error doesn't name the place: %v", err)
	}
	if err := verify(t.Context(), me, []shuffle.Source{source("w0", 0), source("w0", 3)}, 40); err != nil {
		t.Error(err)
	}
	// Its address may be another worker's now, or its own after a restart.
	again := n.worker("w9", 1<<30)
	n.mu.Lock()
	n.places["w1"] = again
	n.mu.Unlock()
	if got := goneTasks(t, verify(t.Context(), me, from[1:3], 40)); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("at another worker gone are %v, want 1 and 2", got)
	}
	n.worker("w1", 1<<30)
	produce(t, n.places["w1"].local, 2, 1)
	me = n.client(client.Options{})
	if got := goneTasks(t, verify(t.Context(), me, []shuffle.Source{source("w1", 1), source("w1", 2), source("w1", 4)}, 40)); !slices.Equal(got, []int{1, 4}) {
		t.Errorf("after a restart gone are %v, want 1 and 4", got)
	}
	// A worker of which nobody knows where it is.
	if got := goneTasks(t, verify(t.Context(), me, []shuffle.Source{{Attempt: source("w1", 2).Attempt, Worker: "w5"}}, 1)); !slices.Equal(got, []int{2}) {
		t.Errorf("without an address gone are %v, want 2", got)
	}
}

// counted counts the bytes that arrive.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// However much there is to fetch, a reader that isn't read holds no more than its
// buffer and a window and a message of each process; many readers don't block
// one another.
func TestBoundedMemory(t *testing.T) {
	n := newNetwork(t)
	var arrived atomic.Int64
	n.wrap = func(c net.Conn) net.Conn { return counted{c, &arrived} }
	const workers, batches = 3, 80 // 5 MB each
	var from []shuffle.Source
	for k := range workers {
		produce(t, n.worker(fmt.Sprint("w", k), 1<<30).local, k, batches)
		from = append(from, source(fmt.Sprint("w", k), k))
	}
	const buffer = 1 << 20
	me := n.client(client.Options{Buffer: buffer})
	r, err := me.Reader(t.Context(), fields, 0, from)
	if err != nil {
		t.Fatal(err)
	}
	// The last worker's output is read last; once one batch of the first two is
	// through, that of the third has had the time to fill what it can.
	const most = buffer + workers*(window+2*(frame.MaxRaw+1<<10)) + 1<<10
	read := 0
	for range batches + batches/2 {
		b, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		read += b.Len * 8
		if ahead := arrived.Load() - int64(read); ahead > most+int64(read)/50 { // framing
			t.Fatalf("%d bytes were fetched ahead, want at most %d", ahead, most)
		}
	}
	// While that reader rests, others read.
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := verify(t.Context(), me, from, batches); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// faulty is a server that sends what it is told.
type faulty struct {
	shufflepb.UnimplementedShuffleServer
	fetch func(*shufflepb.FetchRequest, grpc.ServerStreamingServer[shufflepb.Chunk]) error
}

func (f faulty) Fetch(req *shufflepb.FetchRequest, out grpc.ServerStreamingServer[shufflepb.Chunk]) error {
	return f.fetch(req, out)
}

// Frames that were damaged on the way are fetched again; a process that sends
// nonsense doesn't get through with it.
func TestDamage(t *testing.T) {
	l := shuffle.NewMemory()
	produce(t, l, 0, 20)
	good := server.New(l, "w0")
	for name, c := range map[string]struct {
		change func(call int, c *shufflepb.Chunk) *shufflepb.Chunk
		gone   bool // or read; neither: another error
		read   bool
	}{
		"a flipped bit, once": {read: true, change: func(call int, c *shufflepb.Chunk) *shufflepb.Chunk {
			if call == 0 {
				c.Frames[len(c.Frames)/2] ^= 1
			}
			return c
		}},
		"a flipped bit, always": {gone: true, change: func(_ int, c *shufflepb.Chunk) *shufflepb.Chunk {
			c.Frames[len(c.Frames)/2] ^= 1
			return c
		}},
		"half a frame": {gone: true, change: func(_ int, c *shufflepb.Chunk) *shufflepb.Chunk {
			c.Frames = c.Frames[:len(c.Frames)/2]
			return c
		}},
		"a missing frame": {gone: true, change: func(_ int, c *shufflepb.Chunk) *shufflepb.Chunk {
			if c.Last {
				c.Frames = nil
			}
			return c
		}},
		"a missing row": {gone: true, change: func(_ int, c *shufflepb.Chunk) *shufflepb.Chunk {
			c.Rows++
			return c
		}},
		"another output": {change: func(_ int, c *shufflepb.Chunk) *shufflepb.Chunk {
			c.Source = 7
			return c
		}},
		"a strange loss": {change: func(_ int, c *shufflepb.Chunk) *shufflepb.Chunk {
			return &shufflepb.Chunk{Gone: []int32{7}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			var calls atomic.Int64
			n.start("w0", func(r grpc.ServiceRegistrar) {
				shufflepb.RegisterShuffleServer(r, faulty{fetch: func(req *shufflepb.FetchRequest, out grpc.ServerStreamingServer[shufflepb.Chunk]) error {
					return good.Fetch(req, changed{out, int(calls.Add(1)) - 1, c.change})
				}})
			})
			err := verify(t.Context(), n.client(client.Options{Retries: 2}), []shuffle.Source{source("w0", 0)}, 20)
			switch {
			case c.read != (err == nil):
				t.Errorf("error %v", err)
			case c.gone != errors.Is(err, shuffle.ErrGone):
				t.Errorf("error %v, gone: %t", err, c.gone)
			}
		})
	}
}

type changed struct {
	grpc.ServerStreamingServer[shufflepb.Chunk]
	call   int
	change func(int, *shufflepb.Chunk) *shufflepb.Chunk
}

func (c changed) Send(m *shufflepb.Chunk) error {
	return c.ServerStreamingServer.Send(c.change(c.call, m))
}

// Closing a reader, or the end of its context, ends what it fetches.
func TestCloseEndsFetching(t *testing.T) {
	n := newNetwork(t)
	produce(t, n.worker("w0", 1<<30).local, 0, 60)
	me := n.client(client.Options{Buffer: 1})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := me.Reader(ctx, fields, 0, []shuffle.Source{source("w0", 0)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	for err == nil {
		_, err = r.Next(t.Context())
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r, err = me.Reader(t.Context(), fields, 0, []shuffle.Source{source("w0", 0)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil { // goleak sees what stays
		t.Error(err)
	}
}
