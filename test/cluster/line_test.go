package cluster

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/node"
)

// cutter is a dialer whose connections a test can break.
type cutter struct {
	net *network
	mu  sync.Mutex
	up  []net.Conn
}

func (d *cutter) dial(ctx context.Context, at string) (net.Conn, error) {
	c, err := d.net.dial(ctx, at)
	if err == nil {
		d.mu.Lock()
		d.up = append(d.up, c)
		d.mu.Unlock()
	}
	return c, err
}

func (d *cutter) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.up {
		_ = c.Close()
	}
	d.up = nil
}

// Lines that break again and again cost nothing: within its lease a worker is there, and no
// attempt is lost or counted as failed.
func TestBrokenLines(t *testing.T) {
	c := newCluster(t, node.RoleMaster)
	d := &cutter{net: c.net}
	for _, w := range []string{"w1", "w2"} {
		c.startWorker(w, func(o *node.StartOptions) { o.Dialer = d.dial })
	}
	c.run(people)
	for range 6 {
		d.cut()
		if got := c.run("SELECT count(*), sum(id) FROM people"); got != "6 21" {
			t.Errorf("rows %q", got)
		}
	}
	for _, st := range c.master.Node.Jobs() {
		for _, stage := range st.Stages {
			if stage.Failed > 0 {
				t.Errorf("%s: %d attempts count as failed", st.Name, stage.Failed)
			}
		}
	}
}

// What can't be is refused, and says why.
func TestRefused(t *testing.T) {
	c := newCluster(t, node.RoleMaster, "w1")
	try := func(what, want string, class fault.Class, change func(*node.StartOptions)) {
		t.Helper()
		o := options(c, node.RoleWorker, "new-"+strings.ReplaceAll(what, " ", "-"), "")
		o.Join = []string{"master:1"}
		change(&o)
		p, err := node.Start(t.Context(), o)
		if err == nil {
			_ = p.Close()
		}
		_ = o.Listener.Close()
		if fault.ClassOf(err) != class || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q in it", what, err, want)
		}
	}
	try("another version", "this node of v0", fault.User, func(o *node.StartOptions) { o.Version = "v0" })
	try("nobody there", "can't be reached", fault.Retryable, func(o *node.StartOptions) { o.Join = []string{"nowhere:1"} })
	try("a folder in use", "in use", fault.User, func(o *node.StartOptions) { o.Data = []string{"w1"} })
	try("a master's folder", "in use", fault.User, func(o *node.StartOptions) { o.Data = []string{"master"} })
	try("no master named", "join:", fault.User, func(o *node.StartOptions) { o.Join = nil })
}
