package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/skepdb/skep/catalog"
	catalogserver "github.com/skepdb/skep/catalog/server"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/cluster/rpc"
	frontendrpc "github.com/skepdb/skep/frontend/rpc"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/outputformat/resultset"
	outputtable "github.com/skepdb/skep/outputformat/table"
	"github.com/skepdb/skep/scheduler/server"
	"github.com/skepdb/skep/shuffle"
	shuffleclient "github.com/skepdb/skep/shuffle/client"
	shuffleserver "github.com/skepdb/skep/shuffle/server"
	"github.com/skepdb/skep/storage"
	storageserver "github.com/skepdb/skep/storage/server"
	storagewire "github.com/skepdb/skep/storage/wire"
)

// jobHistory is how many ended jobs a master remembers.
const jobHistory = 100

// tidyEvery is how often a master looks for what is left to tidy.
const tidyEvery = 30 * time.Second

// master is what a node has that others join.
type master struct {
	o       StartOptions
	id      string // of the cluster
	codec   wire.Codec
	dial    rpc.DialOptions
	rpc     *rpc.Server
	address string

	node     *Node
	exchange *shuffleclient.Service
	frontend *frontendrpc.Server
	journal  *server.Journal
	workers  *server.Workers
	// kept are transactions of restored jobs.
	mu   sync.Mutex
	kept map[storage.TxnID]bool

	tidy    chan struct{}
	stop    context.CancelFunc
	tidying sync.WaitGroup
	started time.Time
}

// startMaster starts a process that others join.
func startMaster(ctx context.Context, o StartOptions) (_ *Node, err error) {
	identity, dial := o.network()
	m := &master{
		o: o, dial: dial, codec: wire.Codec{Registry: Registry()},
		rpc:  rpc.NewServer(rpc.ServerOptions{Identity: identity, Errors: storagewire.Errors(), Logger: o.Logger}),
		kept: map[storage.TxnID]bool{}, tidy: make(chan struct{}, 1),
		started: o.Options.withDefaults().Now(),
	}
	l, err := o.listen()
	if err != nil {
		return nil, err
	}
	m.address = l.Addr().String()
	n, err := open(ctx, o.Options, m)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	catalogserver.Register(m.rpc, n.catalog, m.codec.Registry)
	var ids []cluster.WorkerID
	var local []server.Member
	union := unionServer{}
	for i, w := range n.workers {
		ids = append(ids, w.Identity().ID)
		local = append(local, server.Member{Worker: w.Identity(), Folders: len(n.own[i].folders)})
		union = append(union, n.regions[w.Identity().ID])
	}
	if len(union) > 0 {
		storageserver.Register(m.rpc, union, m.codec.Registry)
	}
	shuffleserver.New(n.shuffle, ids...).Register(m.rpc)
	m.workers = server.NewWorkers(n.scheduler, server.WorkersOptions{
		Codec: m.codec, Lease: o.Lease, Local: local, Changed: m.membersChanged,
		Self: func() server.Self { return m.self(local) },
	})
	server.Register(m.rpc, n.scheduler, m.workers, m.codec)
	if m.frontend, err = frontendrpc.NewServer(frontendrpc.ServerOptions{
		Session: n.Session, Load: n.Load, Codec: m.codec.Registry, Errors: storagewire.Errors(), Dir: n.uploads(), Logger: n.o.Logger,
	}); err != nil {
		return nil, errors.Join(err, l.Close(), n.Close())
	}
	m.frontend.Register(m.rpc)
	m.rpc.Know(func(i *rpc.Identity) { i.ID, i.Cluster, i.Master = m.id, m.id, m.address })
	for _, own := range n.own {
		for _, f := range own.folders {
			if err := f.Serving(m.address); err != nil {
				return nil, errors.Join(err, l.Close(), n.Close())
			}
		}
	}
	m.rpc.Start(l)
	tidyCtx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.tidying.Go(func() { m.tidyUp(tidyCtx) })
	return n, nil
}

// join makes the node's parts those of a cluster's master.
func (m *master) join(n *Node, results *resultset.Options, so *server.Options) (shuffle.Service, error) {
	m.node = n
	var own []cluster.WorkerID
	for _, o := range n.own {
		if o.worker != "" {
			own = append(own, o.worker)
		}
	}
	m.exchange = shuffleclient.New(shuffleclient.Options{Local: n.shuffle, Workers: own,
		Connect: shuffleConnect(m.dial)})
	results.Exchange, results.Address, results.Start = m.exchange, m.address, uuid.NewString()[:8]
	if len(own) > 0 {
		results.Worker = own[0]
	}
	results.Drop = func(job string) {
		n.shuffle.Drop(job)
		m.workers.Drop(job)
	}
	first := n.own[0].folders[0]
	var lost []jobs.ID
	var err error
	if m.journal, lost, err = server.OpenJournal(n.o.FS, first.Dir(), m.codec, m.o.Version, jobHistory); err != nil {
		return nil, err
	}
	for _, id := range lost {
		n.o.Logger.Warn("job of another version does not go on", "job", string(id))
	}
	for _, out := range m.journal.Outputs() {
		if spec, ok := out.(outputtable.Spec); ok {
			m.kept[spec.Txn] = true
		}
	}
	so.Journal = m.journal
	so.Scheduler = m.o.Scheduler
	so.History = jobHistory
	so.Durable = func(s outputformat.Spec) bool { return s.Format() != resultset.Name }
	if m.o.Lease > 0 {
		so.RestoreGrace = m.o.Lease + m.o.Lease/2
	}
	so.Ended = func(j *jobs.Job) {
		if spec, ok := j.Output.(outputtable.Spec); ok {
			m.mu.Lock()
			delete(m.kept, spec.Txn)
			m.mu.Unlock()
			m.wake()
		}
	}
	return m.exchange, nil
}

func (m *master) identify(w *cluster.Worker) { m.o.identify(w, m.address) }

// self describes this process.
func (m *master) self(local []server.Member) server.Self {
	s := server.Self{Role: m.o.Role}
	s.Worker = cluster.Worker{ID: cluster.WorkerID(m.id), Name: m.rpc.Identity().Name}
	m.identify(&s.Worker)
	for _, w := range m.node.workers {
		s.Running += w.Running()
	}
	for _, l := range local {
		s.ID = l.ID
		s.Folders += l.Folders
		s.Slots += l.Slots
	}
	return s
}

func (m *master) membersChanged(now []server.Member) {
	out := make([]member, len(now))
	for i, w := range now {
		out[i] = member{Worker: w.Worker, folders: w.Folders}
	}
	m.node.directory.set(out)
	m.wake()
}

func (m *master) wake() {
	select {
	case m.tidy <- struct{}{}:
	default:
	}
}

// keeping is a catalogue that forgets no transaction when it is published: only when
// the journal knows that the job has ended may it be forgotten, or else a job that
// publishes again after a crash would be told that it was aborted.
type keeping struct{ catalog.Store }

// Forget implements catalog.Store. The master forgets later.
func (keeping) Forget(context.Context, storage.TxnID) error { return nil }

// tidyUp finishes transactions and drops the data of dropped tables, whenever
// workers come or jobs end. What needs a worker that isn't there stays for later.
func (m *master) tidyUp(ctx context.Context) {
	for {
		err := m.tidyOnce(ctx)
		if err != nil && ctx.Err() == nil {
			m.node.o.Logger.Warn("something is left to tidy", "error", err.Error())
		}
		timer := time.NewTimer(tidyEvery)
		select {
		case <-m.tidy:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (m *master) tidyOnce(ctx context.Context) error {
	n := m.node
	open, err := n.catalog.Open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, txn := range open {
		m.mu.Lock()
		kept := m.kept[txn.ID]
		m.mu.Unlock()
		// One that is undecided and began before this process is nobody's, unless a
		// restored job's. Others are somebody's until they are decided; a job's
		// is decided before the journal knows that it has ended.
		if kept || txn.Outcome.State == storage.Undecided && !txn.Started.Before(m.started) || m.live(txn.ID) {
			continue
		}
		if err := n.settle(ctx, txn); err != nil && !errors.Is(err, fault.ErrUnavailable) {
			errs = append(errs, fmt.Errorf("transaction %d (%s): %w", txn.ID, txn.Kind, err))
		}
	}
	dropped, err := n.catalog.Dropped(ctx)
	if err != nil || len(dropped) == 0 {
		return errors.Join(append(errs, err)...)
	}
	if err := n.dropRegions(ctx, dropped); err != nil && !errors.Is(err, fault.ErrUnavailable) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// live reports whether a job that has not ended owns a transaction.
func (m *master) live(txn storage.TxnID) bool {
	for _, out := range m.node.scheduler.Outputs() {
		if spec, ok := out.(outputtable.Spec); ok && spec.Txn == txn {
			return true
		}
	}
	return false
}

// quiet ends what the master does on its own, and the workers' lines.
func (m *master) quiet() {
	if m.frontend != nil {
		if err := m.frontend.Close(); err != nil {
			m.node.o.Logger.Warn("files of clients not removed", "error", err.Error())
		}
	}
	if m.stop != nil {
		m.stop()
		m.tidying.Wait()
	}
}

// close ends the rest, after the scheduler.
func (m *master) close() error {
	if m.workers != nil {
		m.workers.Close()
	}
	var errs []error
	if m.exchange != nil {
		errs = append(errs, m.exchange.Close())
	}
	errs = append(errs, m.rpc.Close())
	if m.journal != nil {
		errs = append(errs, m.journal.Close())
	}
	return errors.Join(errs...)
}

// shuffleWindow bounds what is on its way of a stream of map output.
const shuffleWindow = 256 << 10

// shuffleConnect returns how map output's connections are made.
func shuffleConnect(dial rpc.DialOptions) func(address string) (shuffleclient.Conn, error) {
	dial.Window = shuffleWindow
	return func(address string) (shuffleclient.Conn, error) { return rpc.NewConn(address, dial) }
}
