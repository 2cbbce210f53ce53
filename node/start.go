package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/scheduler"
	storagewire "github.com/skepdb/skep/storage/wire"
)

// DefaultListen is where a master listens unless told otherwise. A worker takes any
// free port.
const DefaultListen = "127.0.0.1:7070"

// StartOptions say how a process takes part in a cluster.
type StartOptions struct {
	Options
	Role   string // RoleAll, RoleMaster or RoleWorker; "": RoleAll
	Listen string // HOST:PORT, on loopback; "": DefaultListen, or a free port for a worker
	// Join are addresses of processes of the cluster, for a worker: the first one that
	// answers tells where the master is.
	Join []string
	Rack string
	// Hostname is what the process calls its machine; "": the operating system's name.
	Hostname string

	// What tests set; zero values are right otherwise.

	// Listener takes connections in Listen's place; Dialer makes them.
	Listener net.Listener
	Dialer   func(ctx context.Context, address string) (net.Conn, error)
	// Lease is how long a worker may be silent. 0: 10 s.
	Lease     time.Duration
	Scheduler scheduler.Options
	// Version replaces Version().
	Version string
	// AttemptEnded hears of each attempt's end before it is reported.
	AttemptEnded func(jobs.AttemptID)
}

func (o StartOptions) validate() (StartOptions, error) {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Role == "" {
		o.Role = RoleAll
	}
	switch o.Role {
	case RoleAll, RoleMaster, RoleWorker:
	default:
		wrong("role: %q is none of all, master, worker", o.Role)
	}
	if o.Listen == "" {
		o.Listen = DefaultListen
		if o.Role == RoleWorker {
			o.Listen = "127.0.0.1:0"
		}
	}
	if o.Listener == nil {
		if err := loopback(o.Listen); err != nil {
			wrong("listen: %w", err)
		}
	}
	if o.Role == RoleWorker && len(o.Join) == 0 {
		wrong("join: a worker needs the address of a process of its cluster")
	}
	if o.Role != RoleWorker && len(o.Join) > 0 {
		wrong("join: a %s joins nobody, workers join it", o.Role)
	}
	for _, a := range o.Join {
		if _, _, err := net.SplitHostPort(a); err != nil {
			wrong("join: %q is not HOST:PORT", a)
		}
	}
	if o.Hostname == "" {
		o.Hostname, _ = os.Hostname() // without a name the machine is the loopback address's
	}
	if o.Version == "" {
		o.Version = Version()
	}
	if err := o.Options.Validate(); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return o, fault.Userf("start: %w", errors.Join(faults...))
	}
	return o, nil
}

// loopback refuses addresses that other machines can reach: there is neither
// encryption nor a password yet.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT", address)
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(strings.TrimSpace(host)); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address: until connections are encrypted, skep is for one machine", address)
	}
	return nil
}

func (o StartOptions) listen() (net.Listener, error) {
	if o.Listener != nil {
		return o.Listener, nil
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fault.Userf("listen on %s: %w", o.Listen, err)
	}
	return l, nil
}

// network is what both roles need to talk.
func (o StartOptions) network() (rpc.Identity, rpc.DialOptions) {
	id := rpc.Identity{Version: o.Version, Role: o.Role, Name: fmt.Sprintf("%s/%d", o.Hostname, os.Getpid())}
	return id, rpc.DialOptions{Identity: id, Errors: storagewire.Errors(), Dialer: o.Dialer}
}

// identify fills in what a worker of this process says of itself.
func (o StartOptions) identify(w *cluster.Worker, address string) {
	w.Host, w.Rack, w.Address = cluster.NormalHost(o.Hostname), o.Rack, address
}

// Process is a running process of a cluster.
type Process struct {
	// Node is the engine of a master; nil in a worker.
	Node *Node
	w    *workerProcess
}

// Start starts a process of a cluster and returns when it answers: a worker, when its
// master has accepted it.
func Start(ctx context.Context, o StartOptions) (*Process, error) {
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	if o.Role == RoleWorker {
		w, err := startWorker(ctx, o)
		if err != nil {
			return nil, err
		}
		return &Process{w: w}, nil
	}
	n, err := startMaster(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Process{Node: n}, nil
}

// Address returns where the process listens.
func (p *Process) Address() string {
	if p.w != nil {
		return p.w.rpc.Address()
	}
	return p.Node.cluster.rpc.Address()
}

// Cluster returns the id of the cluster.
func (p *Process) Cluster() string {
	if p.w != nil {
		return p.w.rpc.Identity().Cluster
	}
	return p.Node.cluster.id
}

// Done is closed when the process can't go on: a worker that its master refuses. Err
// says why.
func (p *Process) Done() <-chan struct{} {
	if p.w != nil {
		return p.w.over
	}
	return nil
}

// Err returns why the process can't go on, after Done.
func (p *Process) Err() error {
	if p.w != nil {
		return p.w.failed
	}
	return nil
}

// Close ends the process in order: jobs that a journal keeps go on when it starts again.
func (p *Process) Close() error {
	if p.w != nil {
		return p.w.Close()
	}
	return p.Node.Close()
}
