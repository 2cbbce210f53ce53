package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/outputformat/resultset"
	outputtable "github.com/skepdb/skep/outputformat/table"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/storage"
)

// What a session needs of its node.
var _ frontend.Engine = (*Node)(nil)

// Env implements frontend.Engine.
func (n *Node) Env() *sql.Env {
	return &sql.Env{
		Catalog: n.catalog, Functions: n.functions, Stats: n.store,
		Specs: sql.NewSpecs(n.catalog, n.store), Slots: n.Slots(),
	}
}

// Job implements frontend.Engine.
func (n *Node) Job(ctx context.Context, q *sql.Query, env *sql.Env) (*jobs.Job, error) {
	return q.Job(ctx, env, n.inputs)
}

// Submit implements frontend.Engine.
func (n *Node) Submit(ctx context.Context, job *jobs.Job) (frontend.Job, error) {
	h, err := n.scheduler.Submit(ctx, job)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Sink implements frontend.Engine.
func (n *Node) Sink(fields []schema.Field) outputformat.Spec { return n.results.Spec(fields) }

// Cursor implements frontend.Engine.
func (n *Node) Cursor(sink outputformat.Spec) (batch.Reader, error) {
	spec, ok := sink.(resultset.Spec)
	if !ok {
		return nil, fault.Bugf("cursor: %T is not a result set", sink)
	}
	return n.results.Cursor(spec), nil
}

// Drop implements frontend.Engine.
func (n *Node) Drop(sink outputformat.Spec) {
	if spec, ok := sink.(resultset.Spec); ok {
		n.results.Drop(spec)
	}
}

// CreateTable implements frontend.Engine. The regions are made first: a crash
// in between leaves empty regions that nothing names. The row ids of a keyless
// table begin with a stripe, so its regions are known before its rows are; a
// keyed one is cut at its first load.
func (n *Node) CreateTable(ctx context.Context, t catalog.Table) (*catalog.Table, error) {
	if t.Kind != catalog.Managed {
		return n.catalog.CreateTable(ctx, t, nil)
	}
	return n.catalog.CreateTable(ctx, t, func(t *catalog.Table) ([]storage.Region, error) {
		var cuts []storage.Key
		if !t.Keyed() && !t.Partitioned && t.WantRegions > 1 {
			cuts = outputtable.Stripes(t.WantRegions)
		}
		return n.store.CreateTable(ctx, &t.Table, cuts)
	})
}

// DropTable implements frontend.Engine. Once the catalogue has forgotten the
// table its data goes, at the latest when the folders are next opened.
func (n *Node) DropTable(ctx context.Context, t *catalog.Table) error {
	regions, err := n.catalog.DropTable(ctx, t.ID)
	if err != nil {
		return err
	}
	return n.dropRegions(ctx, regions)
}

// Truncate implements frontend.Engine.
func (n *Node) Truncate(ctx context.Context, t *catalog.Table, partitions []*catalog.Partition, drop bool) error {
	var ids []storage.PartitionID
	if partitions != nil {
		ids = partitionIDs(partitions)
	}
	return n.tables.Truncate(ctx, &t.Table, ids, drop)
}

func partitionIDs(partitions []*catalog.Partition) []storage.PartitionID {
	ids := make([]storage.PartitionID, len(partitions))
	for i, p := range partitions {
		ids[i] = p.ID
	}
	return ids
}

// Begin implements frontend.Engine.
func (n *Node) Begin(ctx context.Context, tables []*catalog.Table) (frontend.Transaction, error) {
	var stored []*storage.Table
	for _, t := range tables {
		stored = append(stored, &t.Table)
	}
	id, err := n.tables.BeginShared(ctx, catalog.TxnInsert, stored)
	if err != nil {
		return nil, err
	}
	return &transaction{n, id}, nil
}

// transaction implements frontend.Transaction.
type transaction struct {
	node *Node
	id   storage.TxnID
}

func (t *transaction) Join(q *sql.Query, part int) error { return q.Join(t.id, part) }

func (t *transaction) Drop(ctx context.Context, table *catalog.Table, partitions []*catalog.Partition) error {
	ids := partitionIDs(partitions)
	ranges := make([]storage.KeyRange, len(ids))
	for i, id := range ids {
		ranges[i] = id.Range()
	}
	if err := t.node.store.StageTruncate(ctx, &table.Table, t.id, ranges...); err != nil {
		return err
	}
	return t.node.catalog.DropPartitions(ctx, t.id, table.ID, ids)
}

func (t *transaction) Commit(ctx context.Context) error { return t.node.tables.CommitShared(ctx, t.id) }

func (t *transaction) Abort(ctx context.Context) error { return t.node.tables.AbortShared(ctx, t.id) }

// Load loads files into a table and returns how the job ended. progress, if
// not nil, gets its handle. Lines of rows that were skipped are in l.Files.Reject
// when the load has succeeded.
func (n *Node) Load(ctx context.Context, l sql.Load, progress func(frontend.Job)) (jobs.Status, error) {
	status, err := n.load(ctx, l, progress)
	if l.Files.Reject == "" {
		return status, err
	}
	if err != nil {
		return status, errors.Join(err, text.DropRejects(l.Files.Reject))
	}
	_, err = text.CollectRejects(l.Files.Reject)
	return status, err
}

func (n *Node) load(ctx context.Context, l sql.Load, progress func(frontend.Job)) (jobs.Status, error) {
	pin, err := n.catalog.Pin(ctx)
	if err != nil {
		return jobs.Status{}, err
	}
	defer pin.Release()
	env := n.Env()
	env.At = pin.At()
	q, err := sql.LoadPlan(ctx, env, l)
	if err != nil {
		return jobs.Status{}, err
	}
	job, err := n.Job(ctx, q, env)
	if err != nil {
		return jobs.Status{}, err
	}
	h, err := n.scheduler.Submit(ctx, job)
	if err != nil {
		return jobs.Status{}, err
	}
	if progress != nil {
		progress(h)
	}
	return h.Wait(context.WithoutCancel(ctx))
}

// uploads is the directory for files that clients send. Formats read them from the
// operating system's file system, whatever the data folders are on.
func (n *Node) uploads() string {
	if n.o.FS == vfs.Default {
		return n.own[0].folders[0].Path("uploads")
	}
	return filepath.Join(os.TempDir(), "skep-uploads-"+uuid.NewString())
}
