package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	catalogclient "github.com/skepdb/skep/catalog/client"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/csv"
	"github.com/skepdb/skep/inputformat/lines"
	inputregion "github.com/skepdb/skep/inputformat/region"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	artifactclient "github.com/skepdb/skep/jobs/artifact/client"
	"github.com/skepdb/skep/jobs/mapreduce/engine"
	"github.com/skepdb/skep/jobs/wire"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/outputformat/resultset"
	outputtable "github.com/skepdb/skep/outputformat/table"
	outputtext "github.com/skepdb/skep/outputformat/text"
	"github.com/skepdb/skep/shuffle"
	shuffleclient "github.com/skepdb/skep/shuffle/client"
	shuffleserver "github.com/skepdb/skep/shuffle/server"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/operator"
	storageclient "github.com/skepdb/skep/storage/client"
	"github.com/skepdb/skep/storage/region"
	storageserver "github.com/skepdb/skep/storage/server"
	storagewire "github.com/skepdb/skep/storage/wire"
	"github.com/skepdb/skep/worker"
	workerserver "github.com/skepdb/skep/worker/server"
)

// workerProcess is a process of role worker: it serves the regions of its folders
// and runs attempts.
type workerProcess struct {
	o         StartOptions
	own       []ownFolders
	rpc       *rpc.Server
	master    *rpc.Conn // for the catalogue; the line has connections of its own
	regions   *lazyServer
	directory *directory
	shuffle   *shuffle.Local
	exchange  *shuffleclient.Service
	worker    *worker.Worker
	line      *workerserver.Line

	stop    context.CancelFunc
	running sync.WaitGroup
	over    chan struct{} // closed when the line has ended for good
	failed  error         // why

	closing sync.Once
	closed  error
}

func startWorker(ctx context.Context, o StartOptions) (_ *workerProcess, err error) {
	w := &workerProcess{o: o, over: make(chan struct{})}
	w.o.Options = o.Options.withDefaults()
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	// A worker that can't work where it is should say so before it asks anybody.
	if w.own, err = openFolders(w.o.Options); err != nil {
		return nil, err
	}
	if len(w.own) != 1 {
		return nil, fault.Userf("the data folders are those of %d workers: start a process for each", len(w.own))
	}
	id, err := checkRole(w.own, RoleWorker)
	if err != nil {
		return nil, err
	}
	identity, dial := o.network()
	identity.ID = string(w.own[0].worker)
	dial.Identity = identity
	masterAddress, peer, err := findMaster(ctx, o.Join, dial)
	if err != nil {
		return nil, err
	}
	if id != "" && peer.Cluster != id {
		return nil, fault.Userf("data folder %s belongs to cluster %s, the master at %s is of cluster %s", w.own[0].folders[0].Dir(), id, masterAddress, peer.Cluster)
	}
	if err := claim(w.own, peer.Cluster, RoleWorker); err != nil {
		return nil, err
	}
	identity.Cluster, identity.Master = peer.Cluster, masterAddress
	return w, w.start(ctx, identity, dial, masterAddress)
}

// findMaster asks the processes at addresses, one after the other, where the master is.
func findMaster(ctx context.Context, addresses []string, dial rpc.DialOptions) (string, rpc.Identity, error) {
	var errs []error
	asked := map[string]bool{}
	for len(addresses) > 0 {
		a := addresses[0]
		addresses = addresses[1:]
		if asked[a] {
			continue
		}
		asked[a] = true
		conn, err := rpc.Dial(ctx, a, dial)
		if err != nil {
			errs = append(errs, err)
			if fault.ClassOf(err) == fault.User {
				break // another version, or no Skep: worth knowing at once
			}
			continue
		}
		peer := conn.Peer()
		if err := conn.Close(); err != nil {
			errs = append(errs, err)
		}
		if peer.Role == RoleMaster || peer.Role == RoleAll {
			return a, peer, nil
		}
		if peer.Master != "" {
			addresses = append([]string{peer.Master}, addresses...)
		} else {
			errs = append(errs, fault.Retryablef("the %s at %s doesn't know where its master is", peer.Role, a))
		}
	}
	return "", rpc.Identity{}, fmt.Errorf("find the master: %w", errors.Join(errs...))
}

func (w *workerProcess) start(ctx context.Context, identity rpc.Identity, dial rpc.DialOptions, masterAddress string) (err error) {
	o, own := w.o, w.own[0]
	codec := wire.Codec{Registry: Registry()}
	w.rpc = rpc.NewServer(rpc.ServerOptions{Identity: identity, Errors: storagewire.Errors(), Logger: o.Logger})
	l, err := o.listen()
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if w.master, err = rpc.NewConn(masterAddress, dial); err != nil {
		return errors.Join(err, l.Close())
	}
	catalog := catalogclient.New(w.master, codec.Registry)
	w.regions = &lazyServer{worker: own.worker, open: func() (regionServer, error) {
		return region.Open(context.Background(), region.Options{Folders: own.folders, Worker: own.worker, Authority: catalog, Logger: o.Logger})
	}}
	w.directory = newDirectory(codec.Registry, dial)
	w.directory.add(own.worker, w.regions, len(own.folders))
	store := storageclient.Over(catalog, w.directory)
	var dirs []string
	for _, f := range own.folders {
		dirs = append(dirs, f.Path(shuffleDir))
	}
	if w.shuffle, err = shuffle.NewLocal(shuffle.LocalOptions{Memory: o.ShuffleMemory, Dirs: dirs, FS: o.FS}); err != nil {
		return errors.Join(err, l.Close())
	}
	w.exchange = shuffleclient.New(shuffleclient.Options{Local: w.shuffle, Workers: []cluster.WorkerID{own.worker},
		Connect: shuffleConnect(dial)})
	programs, err := newPrograms(own.folders[0])
	if err != nil {
		return errors.Join(err, l.Close())
	}
	programs.artifacts.Fetch = artifactclient.New(w.master).Fetch
	me := cluster.Worker{ID: own.worker, Name: identity.Name, Slots: o.slotsOf(1)}
	o.identify(&me, address)
	tables := outputtable.New(catalog, store)
	tables.Logger = o.Logger
	w.worker, err = worker.New(worker.Options{
		Worker:  me,
		Runners: jobs.Runners{"sql": operator.NewRunner(function.Builtin()), engine.Kind: programs.Runner},
		Inputs:  inputformat.Formats{"region": inputregion.New(store), "text": text.New(), "csv": csv.New(), "lines": lines.New()},
		Outputs: outputformat.Formats{"table": tables, "text": outputtext.New(),
			"resultset": resultset.New(resultset.Options{Exchange: w.exchange, Worker: own.worker, Address: address})},
		Shuffle: w.exchange, Memory: o.Memory * int64(me.Slots), SpillFolder: own.folders[0].Path(spillDir), Logger: o.Logger,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	storageserver.Register(w.rpc, w.regions, codec.Registry)
	shuffleserver.New(w.shuffle, own.worker).Register(w.rpc)
	w.rpc.Start(l)
	w.line = workerserver.New(workerserver.Options{
		Worker: w.worker, Folders: len(own.folders), Incarnation: uuid.NewString(), Codec: codec,
		Connect: func(ctx context.Context) (workerserver.Conn, error) {
			return w.connect(ctx, masterAddress, identity, dial)
		},
		Members: func(all []workerserver.Member) {
			out := make([]member, len(all))
			for i, m := range all {
				out[i] = member{Worker: m.Worker, folders: m.Folders}
			}
			w.directory.set(out)
		},
		Kept:   func(kept []string) { w.dropOthers(kept) },
		Ended:  o.AttemptEnded,
		Logger: o.Logger,
	})
	lineCtx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.running.Go(func() {
		defer close(w.over)
		w.failed = w.line.Run(lineCtx)
	})
	select {
	case <-w.line.Up():
		return nil
	case <-w.over:
		return w.failed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect connects to the master, which must be the one of this worker's cluster.
func (w *workerProcess) connect(ctx context.Context, address string, me rpc.Identity, dial rpc.DialOptions) (workerserver.Conn, error) {
	conn, err := rpc.Dial(ctx, address, dial)
	if err != nil {
		return nil, err
	}
	if p := conn.Peer(); p.Cluster != me.Cluster {
		err := fault.Userf("the master at %s is of cluster %s now, this worker is of %s", address, p.Cluster, me.Cluster)
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// dropOthers forgets the map output of jobs that nobody will ask for, and the rows
// of results whose master is gone.
func (w *workerProcess) dropOthers(kept []string) {
	for _, job := range w.shuffle.Jobs() {
		if !slices.Contains(kept, job) && !strings.HasPrefix(job, "result_") {
			w.shuffle.Drop(job)
		}
	}
}

// Close ends the worker: attempts are cancelled, regions closed.
func (w *workerProcess) Close() error {
	w.closing.Do(func() {
		var errs []error
		if w.stop != nil {
			w.stop()
			w.running.Wait()
		}
		if w.worker != nil {
			errs = append(errs, w.worker.Close())
		}
		if w.exchange != nil {
			errs = append(errs, w.exchange.Close())
		}
		if w.rpc != nil {
			errs = append(errs, w.rpc.Close())
		}
		if w.shuffle != nil {
			errs = append(errs, w.shuffle.Close())
		}
		if w.regions != nil {
			errs = append(errs, w.regions.Close())
		}
		if w.directory != nil {
			errs = append(errs, w.directory.Close())
		}
		if w.master != nil {
			errs = append(errs, w.master.Close())
		}
		for _, own := range w.own {
			for _, f := range own.folders {
				errs = append(errs, f.Close())
			}
		}
		w.closed = errors.Join(errs...)
	})
	return w.closed
}
