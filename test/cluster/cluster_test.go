// Package cluster tests clusters of several nodes: in one process over in-memory
// connections, and as processes on loopback.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/node"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/parser"
	"google.golang.org/grpc/test/bufconn"
)

// network is addresses in memory.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	next      int
}

type listener struct {
	*bufconn.Listener
	n       *network
	address string
}

type address string

func (a address) Network() string { return "memory" }
func (a address) String() string  { return string(a) }

func (l *listener) Addr() net.Addr { return address(l.address) }

func (l *listener) Close() error {
	l.n.mu.Lock()
	delete(l.n.listeners, l.address)
	l.n.mu.Unlock()
	return l.Listener.Close()
}

func newNetwork() *network { return &network{listeners: map[string]*listener{}} }

func (n *network) listen(at string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at == "" {
		n.next++
		at = fmt.Sprintf("node%d:1", n.next)
	}
	l := &listener{Listener: bufconn.Listen(1 << 18), n: n, address: at}
	n.listeners[at] = l
	return l
}

func (n *network) dial(ctx context.Context, at string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[at]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: connection refused", at)
	}
	return l.DialContext(ctx)
}

// cluster is nodes in this process.
type cluster struct {
	t       *testing.T
	net     *network
	fs      vfs.FS
	master  *node.Process
	workers map[string]*node.Process
}

func options(c *cluster, role, data, at string) node.StartOptions {
	return node.StartOptions{
		Options: node.Options{FS: c.fs, Data: []string{data}, Slots: 2}, Role: role, Hostname: "host-" + data,
		Listener: c.net.listen(at), Dialer: c.net.dial,
	}
}

func newCluster(t *testing.T, role string, workers ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, net: newNetwork(), fs: vfs.NewMem(), workers: map[string]*node.Process{}}
	c.startMaster(role)
	for _, w := range workers {
		c.startWorker(w)
	}
	t.Cleanup(func() {
		for name, w := range c.workers {
			if err := w.Close(); err != nil {
				t.Errorf("close %s: %v", name, err)
			}
		}
		if err := c.master.Close(); err != nil {
			t.Errorf("close master: %v", err)
		}
	})
	return c
}

func (c *cluster) startMaster(role string) {
	c.t.Helper()
	p, err := node.Start(c.t.Context(), options(c, role, "master", "master:1"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.master = p
}

func (c *cluster) startWorker(name string, change ...func(*node.StartOptions)) {
	c.t.Helper()
	o := options(c, node.RoleWorker, name, "")
	o.Join = []string{"master:1"}
	for _, f := range change {
		f(&o)
	}
	p, err := node.Start(c.t.Context(), o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.workers[name] = p
}

// run runs statements in a session of the master and returns the rows of the last one.
func (c *cluster) run(script string) string {
	c.t.Helper()
	rows, err := c.try(script)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.Join(rows, ";")
}

func (c *cluster) try(script string) (rows []string, err error) {
	ctx := c.t.Context()
	s, err := c.master.Node.Session(ctx, frontend.Options{})
	if err != nil {
		return nil, err
	}
	for _, piece := range parser.Split(script) {
		rows = nil
		op := s.Start(ctx, piece)
		if err := op.Wait(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", piece.Text, err), op.Close())
		}
		for {
			b, err := op.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			for i := range b.Rows() {
				if b.Sel != nil {
					i = int(b.Sel[i])
				}
				var cells []string
				for k, f := range op.Fields() {
					cells = append(cells, schema.FromArrow(b.Columns[k], i, f.Type).Text())
				}
				rows = append(rows, strings.Join(cells, " "))
			}
		}
		if err := op.Close(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

const people = `CREATE TABLE people (id int, name string, town string) ROW KEY (id) SPLIT INTO 4;
INSERT INTO people VALUES (1, 'ann', 'x'), (2, 'bob', 'y'), (3, 'cid', 'x'), (4, 'dan', 'z'), (5, 'eve', 'x'), (6, 'fay', 'y');`

// A master and two workers answer as one engine does.
func TestSelectOverWorkers(t *testing.T) {
	for _, role := range []string{node.RoleMaster, node.RoleAll} {
		t.Run(role, func(t *testing.T) {
			c := newCluster(t, role, "w1", "w2")
			c.run(people)
			for query, want := range map[string]string{
				"SELECT * FROM people ORDER BY id LIMIT 2":                                                   "1 ann x;2 bob y",
				"SELECT town, count(*) FROM people GROUP BY town ORDER BY town":                              "x 3;y 2;z 1",
				"SELECT a.name FROM people a JOIN people b ON a.id = b.id + 1 WHERE b.town = 'x' ORDER BY 1": "bob;dan;fay",
				"SELECT 1": "1",
			} {
				if got := c.run(query); got != want {
					t.Errorf("%s: %q, want %q", query, got, want)
				}
			}
			c.run("CREATE TABLE towns (town string, n bigint); INSERT INTO towns SELECT town, count(*) FROM people GROUP BY town")
			if got := c.run("SELECT n FROM towns ORDER BY n"); got != "1;2;3" {
				t.Errorf("towns: %q", got)
			}
			c.run("DROP TABLE people")
		})
	}
}
