package node

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/storage"
	storageclient "github.com/skepdb/skep/storage/client"
)

// directory knows where regions are served: in this process, or by members of the
// cluster. It implements storage/client's Directory.
type directory struct {
	codec *coding.Registry
	dial  rpc.DialOptions

	mu      sync.Mutex
	local   map[cluster.WorkerID]storage.Server
	places  []storageclient.Place // local ones
	members map[cluster.WorkerID]*memberServer
}

// memberServer is a member's regions. Its connection stays while its address does.
type memberServer struct {
	address string
	folders int
	slots   int
	conn    *rpc.Conn
	server  storage.Server
}

func newDirectory(codec *coding.Registry, dial rpc.DialOptions) *directory {
	return &directory{codec: codec, dial: dial, local: map[cluster.WorkerID]storage.Server{}, members: map[cluster.WorkerID]*memberServer{}}
}

// add makes a server of this process known.
func (d *directory) add(id cluster.WorkerID, s storage.Server, folders int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.local[id] = s
	for i := range folders {
		d.places = append(d.places, storageclient.Place{Worker: id, Folder: i})
	}
}

// member is a worker that the cluster says is there.
type member struct {
	cluster.Worker
	folders int
}

// set replaces the members.
func (d *directory) set(members []member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.members
	d.members = map[cluster.WorkerID]*memberServer{}
	for _, m := range members {
		if d.local[m.ID] != nil || m.Address == "" {
			continue
		}
		s := old[m.ID]
		if s == nil || s.address != m.Address {
			conn, err := rpc.NewConn(m.Address, d.dial)
			if err != nil {
				continue // an address that is none: the worker can't be reached
			}
			s = &memberServer{address: m.Address, conn: conn, server: storageclient.NewRemote(conn, d.codec)}
		}
		s.folders, s.slots = m.folders, m.Slots
		d.members[m.ID] = s
	}
	for id, s := range old {
		if d.members[id] != s {
			_ = s.conn.Close() // calls on it fail as unavailable, which is what the worker is
		}
	}
}

// Server implements storage/client's Directory.
func (d *directory) Server(id cluster.WorkerID) (storage.Server, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.local[id]; s != nil {
		return s, true
	}
	if m := d.members[id]; m != nil {
		return m.server, true
	}
	return nil, false
}

// Places implements storage/client's Directory.
func (d *directory) Places() []storageclient.Place {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := slices.Clone(d.places)
	for id, m := range d.members {
		for i := range m.folders {
			out = append(out, storageclient.Place{Worker: id, Folder: i})
		}
	}
	slices.SortFunc(out, func(a, b storageclient.Place) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Folder, b.Folder))
	})
	return out
}

// slots are those of the members.
func (d *directory) slots() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, m := range d.members {
		n += m.slots
	}
	return n
}

// Close ends the connections.
func (d *directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, m := range d.members {
		errs = append(errs, m.conn.Close())
	}
	clear(d.members)
	return errors.Join(errs...)
}
