package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/catalog/metastore"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/csv"
	"github.com/skepdb/skep/inputformat/lines"
	inputregion "github.com/skepdb/skep/inputformat/region"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/artifact"
	"github.com/skepdb/skep/jobs/mapreduce/engine"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/outputformat/resultset"
	outputtable "github.com/skepdb/skep/outputformat/table"
	outputtext "github.com/skepdb/skep/outputformat/text"
	"github.com/skepdb/skep/scheduler/server"
	"github.com/skepdb/skep/shuffle"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/operator"
	"github.com/skepdb/skep/storage"
	storageclient "github.com/skepdb/skep/storage/client"
	"github.com/skepdb/skep/storage/region"
	"github.com/skepdb/skep/worker"
)

// catalogDir is the catalogue's folder inside of the first data folder.
const catalogDir = "catalog"

// shuffleDir has files of the shuffle, inside of each data folder.
const shuffleDir = "shuffle"

// spillDir is the folder, inside of a worker's first data folder, of what tasks
// can't hold in memory.
const spillDir = "spill"

// Node is an open embedded engine. Its methods are safe for concurrent use.
type Node struct {
	o         Options
	cluster   *master // nil: embedded
	own       []ownFolders
	catalog   *metastore.Store
	regions   map[cluster.WorkerID]*lazyServer
	directory *directory
	store     storage.Store
	functions *function.Registry
	results   *resultset.Format
	tables    *outputtable.Format
	inputs    inputformat.Formats
	outputs   outputformat.Formats
	shuffle   *shuffle.Local
	workers   []*worker.Worker
	scheduler *server.Server
	programs  engine.Programs
	artifacts *artifact.Store
	children  *launcher
	logs      taskLogs
	exports   exports
	slots     int // of all workers
	history   history
	recalling sync.WaitGroup // jobs that are being written to history

	closing sync.Once
	closed  error
}

// Open opens data folders and the engine over them. It finishes what a crash
// left half done: open transactions are resolved, dropped tables' data goes.
func Open(ctx context.Context, o Options) (*Node, error) { return open(ctx, o, nil) }

// open opens the engine; with a cluster, that of a master.
func open(ctx context.Context, o Options, c *master) (_ *Node, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n := &Node{o: o.withDefaults(), cluster: c, functions: function.Builtin(), regions: map[cluster.WorkerID]*lazyServer{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if err := n.openFolders(); err != nil {
		return nil, err
	}
	first := n.own[0].folders[0]
	if n.catalog, err = metastore.Open(metastore.Options{FS: n.o.FS, Dir: first.Path(catalogDir), Now: n.o.Now, AcceptClockJump: n.o.AcceptClockJump, Logger: n.o.Logger}); err != nil {
		return nil, err
	}
	if n.o.AcceptClockJump {
		// It counts once: now, not when a statement happens to need the time.
		if _, err := n.catalog.Timestamp(ctx); err != nil {
			return nil, err
		}
	}
	n.openStore()
	if err := n.startWorkers(); err != nil {
		return nil, err
	}
	if c != nil {
		return n, nil // the master tidies when workers have come
	}
	if err := n.recover(ctx); err != nil {
		return nil, fmt.Errorf("finish what a crash left: %w", err)
	}
	return n, nil
}

// openStore puts the region servers, unopened, behind a store.
func (n *Node) openStore() {
	n.directory = newDirectory(nil, rpc.DialOptions{})
	if n.cluster != nil {
		n.directory = newDirectory(n.cluster.codec.Registry, n.cluster.dial)
	}
	for _, own := range n.own {
		if own.worker == "" {
			continue // a master's folder without regions
		}
		s := &lazyServer{worker: own.worker, open: func() (regionServer, error) {
			return region.Open(context.Background(), region.Options{Folders: own.folders, Worker: own.worker, Authority: n.catalog, Logger: n.o.Logger})
		}}
		n.regions[own.worker] = s
		n.directory.add(own.worker, s, len(own.folders))
	}
	n.store = storageclient.Over(n.catalog, n.directory)
}

// startWorkers builds the registries and the workers, and the scheduler over them.
func (n *Node) startWorkers() error {
	var dirs []string
	for _, own := range n.own {
		for _, f := range own.folders {
			dirs = append(dirs, f.Path(shuffleDir))
		}
	}
	var err error
	if n.shuffle, err = shuffle.NewLocal(shuffle.LocalOptions{Memory: n.o.ShuffleMemory, Dirs: dirs, FS: n.o.FS}); err != nil {
		return err
	}
	var exchange shuffle.Service = n.shuffle
	results := resultset.Options{Exchange: n.shuffle}
	so := server.Options{Logger: n.o.Logger}
	var catalog catalog.Store = n.catalog
	if c := n.cluster; c != nil {
		if exchange, err = c.join(n, &results, &so); err != nil {
			return err
		}
		catalog = keeping{n.catalog}
	} else { // a master has a journal
		so.Ended = func(j *jobs.Job) { n.recalling.Go(func() { n.remember(j.ID) }) }
	}
	n.history = history{fsys: n.o.FS, dir: n.own[0].folders[0].Path(historyDir)}
	n.results = resultset.New(results)
	n.inputs = inputformat.Formats{"region": inputregion.New(n.store), "text": text.New(), "csv": csv.New(), "lines": lines.New()}
	n.tables = outputtable.New(catalog, n.store)
	n.tables.Logger = n.o.Logger
	n.outputs = outputformat.Formats{"table": n.tables, "resultset": n.results, "text": outputtext.New()}
	so.Outputs = n.outputs
	n.scheduler = server.New(so)
	programs, err := n.openPrograms()
	if err != nil {
		return err
	}
	runners := jobs.Runners{"sql": operator.NewRunner(n.functions), engine.Kind: programs}
	slots := n.o.slotsOf(len(n.own))
	for i, own := range n.own {
		if own.worker == "" {
			continue
		}
		identity := cluster.Worker{ID: own.worker, Name: fmt.Sprintf("worker%d", i+1), Host: "localhost", Slots: slots}
		if n.cluster != nil {
			n.cluster.identify(&identity)
		}
		w, err := worker.New(worker.Options{
			Worker:  identity,
			Runners: runners,
			Inputs:  n.inputs, Outputs: n.outputs, Shuffle: exchange,
			Memory: n.o.Memory * int64(slots), SpillFolder: own.folders[0].Path(spillDir), Logger: n.o.Logger,
		})
		if err != nil {
			return err
		}
		n.workers = append(n.workers, w)
		n.scheduler.AddWorker(identity, w)
		n.slots += slots
	}
	return nil
}

// Slots returns how many attempts can run at once now.
func (n *Node) Slots() int { return max(1, n.slots+n.directory.slots()) }

// recover resolves transactions that are open or not yet applied everywhere,
// and drops the data of dropped tables.
func (n *Node) recover(ctx context.Context) error {
	open, err := n.catalog.Open(ctx)
	if err != nil {
		return err
	}
	for _, txn := range open {
		if err := n.settle(ctx, txn); err != nil {
			return fmt.Errorf("transaction %d (%s): %w", txn.ID, txn.Kind, err)
		}
	}
	// Sessions end with the process, and so do their tables.
	temporaries, err := n.catalog.Temporaries(ctx)
	if err != nil {
		return err
	}
	for _, t := range temporaries {
		if _, err := n.catalog.DropTable(ctx, t.ID); err != nil {
			return err
		}
	}
	dropped, err := n.catalog.Dropped(ctx)
	if err != nil || len(dropped) == 0 {
		return err
	}
	return n.dropRegions(ctx, dropped)
}

// settle aborts an undecided transaction, whose process is gone, and applies
// the outcome in all regions.
func (n *Node) settle(ctx context.Context, txn catalog.TxnInfo) error {
	if txn.Outcome.State == storage.Undecided {
		if err := n.catalog.Abort(ctx, txn.ID); err != nil {
			return err
		}
	}
	for _, id := range txn.Tables {
		t, err := n.catalog.TableByID(ctx, id)
		if fault.StateOf(err) == fault.StateUnknownTable {
			continue // dropped since: its regions go with what they hold
		}
		if err != nil {
			return err
		}
		if err := n.store.Resolve(ctx, &t.Table, txn.ID); err != nil {
			return err
		}
	}
	return n.catalog.Forget(ctx, txn.ID)
}

func (n *Node) dropRegions(ctx context.Context, regions []storage.Region) error {
	if err := n.store.DropRegions(ctx, regions); err != nil {
		return err
	}
	ids := make([]storage.RegionID, len(regions))
	for i, r := range regions {
		ids[i] = r.ID
	}
	return n.catalog.ForgetDropped(ctx, ids)
}

// Close ends all jobs, closes the parts in the order in which they depend on
// each other, and gives the folders up. It may be called twice.
func (n *Node) Close() error {
	n.closing.Do(func() {
		var errs []error
		if n.cluster != nil {
			n.cluster.quiet()
		}
		errs = append(errs, n.exports.close())
		if n.scheduler != nil {
			errs = append(errs, n.scheduler.Close())
		}
		n.recalling.Wait()
		for _, w := range n.workers {
			errs = append(errs, w.Close())
		}
		if n.shuffle != nil {
			errs = append(errs, n.shuffle.Close())
		}
		for _, own := range n.own {
			if s := n.regions[own.worker]; s != nil {
				errs = append(errs, s.Close())
			}
		}
		if n.directory != nil {
			errs = append(errs, n.directory.Close())
		}
		if n.cluster != nil {
			errs = append(errs, n.cluster.close())
		}
		if n.catalog != nil {
			errs = append(errs, n.catalog.Close())
		}
		for _, own := range n.own {
			for _, f := range own.folders {
				errs = append(errs, f.Close())
			}
		}
		n.closed = errors.Join(errs...)
	})
	return n.closed
}

// Catalog returns the catalogue.
func (n *Node) Catalog() catalog.Store { return n.catalog }

// Store returns the region store.
func (n *Node) Store() storage.Store { return n.store }

// Session returns a session on this node.
func (n *Node) Session(ctx context.Context, o frontend.Options) (*frontend.Session, error) {
	return frontend.New(ctx, n, o)
}

// FolderOf returns the path of the data folder that a region lives in.
func (n *Node) FolderOf(r storage.Region) string {
	for _, own := range n.own {
		if own.worker == r.Worker && r.Folder < len(own.folders) {
			return own.folders[r.Folder].Dir()
		}
	}
	return fmt.Sprintf("folder %d of worker %s", r.Folder, r.Worker)
}
