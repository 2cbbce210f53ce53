package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/skepdb/skep/catalog"
	catalogclient "github.com/skepdb/skep/catalog/client"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/frontend"
	frontendrpc "github.com/skepdb/skep/frontend/rpc"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
	schedulerclient "github.com/skepdb/skep/scheduler/client"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/storage"
	storageclient "github.com/skepdb/skep/storage/client"
	storagewire "github.com/skepdb/skep/storage/wire"
)

// DialOptions say how a client connects to a master. The zero value is right.
type DialOptions struct {
	Logger *slog.Logger // nil: none
	// Version and Dialer are as in StartOptions.
	Version string
	Dialer  func(ctx context.Context, address string) (net.Conn, error)
}

// Remote is a master elsewhere, with the same methods as a Node. Its methods are
// safe for concurrent use.
type Remote struct {
	conn      *rpc.Conn
	catalog   *catalogclient.Store
	directory *clientDirectory
	store     storage.Store
	frontend  *frontendrpc.Client
	scheduler *schedulerclient.Client
}

// Dial connects to the master at address. What isn't there, isn't a master, or is
// of another version is an error that says what to do.
func Dial(ctx context.Context, address string, o DialOptions) (*Remote, error) {
	if o.Version == "" {
		o.Version = Version()
	}
	dial := rpc.DialOptions{
		Identity: rpc.Identity{Version: o.Version, Role: "client", Name: fmt.Sprintf("client/%d", os.Getpid())},
		Errors:   storagewire.Errors(), Dialer: o.Dialer,
	}
	conn, err := rpc.Dial(ctx, address, dial)
	if err != nil {
		if errors.Is(err, fault.ErrUnavailable) && ctx.Err() == nil {
			err = &fault.Error{Class: fault.Retryable, SQLState: "08001", Message: "no server answers at " + address, Cause: err,
				Hint: "start one with `skep start --listen " + address + "`, or open its data folder with --data while it isn't running"}
		}
		return nil, err
	}
	if p := conn.Peer(); p.Role != RoleAll && p.Role != RoleMaster {
		err := &fault.Error{Class: fault.User, SQLState: "08001", Message: fmt.Sprintf("the process at %s is a %s: it takes no statements", address, p.Role),
			Hint: "ask its master, which is the process that it joined"}
		if p.Master != "" {
			err.Hint = "ask its master: --server " + p.Master
		}
		return nil, errors.Join(err, conn.Close())
	}
	registry := Registry()
	r := &Remote{
		conn: conn, catalog: catalogclient.New(conn, registry),
		frontend:  frontendrpc.NewClient(conn, registry, storagewire.Errors()),
		scheduler: schedulerclient.New(conn, wire.Codec{Registry: registry}),
	}
	r.directory = &clientDirectory{directory: newDirectory(registry, dial), scheduler: r.scheduler}
	r.store = storageclient.Over(r.catalog, r.directory)
	return r, nil
}

// Close ends the connections. Sessions that are open expire.
func (r *Remote) Close() error { return errors.Join(r.directory.Close(), r.conn.Close()) }

// Catalog returns the master's catalogue.
func (r *Remote) Catalog() catalog.Store { return r.catalog }

// Store returns the regions of the cluster.
func (r *Remote) Store() storage.Store { return r.store }

// Session returns a session on the master. It must be closed.
func (r *Remote) Session(ctx context.Context, o frontend.Options) (*frontendrpc.Session, error) {
	return r.frontend.Open(ctx, o)
}

// Load is Node.Load of files of this process, which are sent to the master.
func (r *Remote) Load(ctx context.Context, l sql.Load, progress func(frontend.Job)) (jobs.Status, error) {
	s, err := r.frontend.Open(ctx, frontend.Options{})
	if err != nil {
		return jobs.Status{}, err
	}
	status, err := s.Load(ctx, l, progress)
	return status, errors.Join(err, s.Close())
}

// FolderOf names the data folder that a region lives in.
func (r *Remote) FolderOf(x storage.Region) string {
	return fmt.Sprintf("folder %d of worker %s", x.Folder, x.Worker)
}

// JobList is Node.JobList.
func (r *Remote) JobList(ctx context.Context) ([]jobs.Status, error) { return r.scheduler.List(ctx) }

// JobStatus is Node.JobStatus.
func (r *Remote) JobStatus(ctx context.Context, id jobs.ID) (jobs.Status, error) {
	s, _, err := r.scheduler.Status(ctx, id)
	return s, err
}

// KillJob is Node.KillJob.
func (r *Remote) KillJob(ctx context.Context, id jobs.ID, reason string) error {
	return r.scheduler.Kill(ctx, id, reason)
}

// Logs calls f with what the attempts of a job have written; with follow, until the job
// has ended.
func (r *Remote) Logs(ctx context.Context, id jobs.ID, follow bool, f func(a jobs.AttemptID, text []byte, dropped int64) error) error {
	return r.scheduler.Logs(ctx, id, follow, f)
}

// clientDirectory asks the master now and then where regions are served.
type clientDirectory struct {
	*directory
	scheduler *schedulerclient.Client

	mu   sync.Mutex
	last time.Time // when it was asked
}

// fresh is how long an answer of the master is taken for true.
const fresh = 2 * time.Second

func (d *clientDirectory) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.last) < fresh {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	nodes, err := d.scheduler.Nodes(ctx)
	if err != nil {
		return // what was known may still be true
	}
	var members []member
	for _, n := range nodes {
		if n.ID != "" && n.State != "lost" {
			members = append(members, member{Worker: n.Worker, folders: n.Folders})
		}
	}
	d.set(members)
	d.last = time.Now()
}

// Server implements storage/client's Directory.
func (d *clientDirectory) Server(id cluster.WorkerID) (storage.Server, bool) {
	d.refresh()
	return d.directory.Server(id)
}

// Places implements storage/client's Directory.
func (d *clientDirectory) Places() []storageclient.Place {
	d.refresh()
	return d.directory.Places()
}
