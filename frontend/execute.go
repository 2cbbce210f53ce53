package frontend

import (
	"context"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
)

// Engine is what a session needs of the node that it runs on. All methods are
// safe for concurrent use.
type Engine interface {
	Catalog() catalog.Store
	// Env returns a new environment to compile a statement in. The session fills
	// in database, settings, snapshot and sink.
	Env() *sql.Env
	// Job cuts a compiled statement into a job.
	Job(ctx context.Context, q *sql.Query, env *sql.Env) (*jobs.Job, error)
	// Submit starts a job; it is killed when ctx ends.
	Submit(ctx context.Context, job *jobs.Job) (Job, error)
	// Sink returns a new place for the rows of a query.
	Sink(fields []schema.Field) outputformat.Spec
	// Cursor reads the rows in a sink, once the job that filled it has ended.
	Cursor(sink outputformat.Spec) (batch.Reader, error)
	// Drop frees a sink, filled or not.
	Drop(sink outputformat.Spec)
	// CreateTable makes a table with its regions; DropTable drops both. Either is
	// done or not, also after a crash.
	CreateTable(ctx context.Context, t catalog.Table) (*catalog.Table, error)
	DropTable(ctx context.Context, t *catalog.Table) error
	// Truncate ends the rows of a table, or (partitions not nil) of some of its
	// partitions, which with drop end, too.
	Truncate(ctx context.Context, t *catalog.Table, partitions []*catalog.Partition, drop bool) error
	// Begin opens a transaction of several jobs that write to these tables.
	Begin(ctx context.Context, tables []*catalog.Table) (Transaction, error)
}

// Transaction is several jobs whose output appears in one step.
type Transaction interface {
	// Join makes a query, before it runs, the part-th of the transaction.
	Join(q *sql.Query, part int) error
	// Drop ends partitions in the same step.
	Drop(ctx context.Context, t *catalog.Table, partitions []*catalog.Partition) error
	// Commit makes what the jobs wrote visible.
	Commit(ctx context.Context) error
	// Abort drops it.
	Abort(ctx context.Context) error
}

// execute compiles and runs a statement over one snapshot.
func (s *Session) execute(ctx context.Context, o *Operation, stmt ast.Statement) error {
	pin, err := s.engine.Catalog().Pin(ctx)
	if err != nil {
		return err
	}
	defer pin.Release()
	env := s.engine.Env()
	env.Catalog = s.catalog()
	env.Database = s.database
	env.Settings = s.vars.HiveConf
	env.Local = s.local
	env.At = pin.At()
	o.snapshot = uint64(pin.At())
	if env.Context, err = s.context(); err != nil {
		return err
	}
	var sink outputformat.Spec
	env.Sink = func(fields []schema.Field) outputformat.Spec {
		sink = s.engine.Sink(fields)
		o.release = append(o.release, func() { s.engine.Drop(sink) })
		return sink
	}
	compiled, err := sql.Compile(ctx, stmt, env)
	if err != nil {
		return err
	}
	switch c := compiled.(type) {
	case *sql.Query:
		return s.query(ctx, o, c, env, sink)
	case *sql.Analyzed:
		return s.analyze(ctx, o, c, env, sink)
	case *sql.Rows:
		o.fields, o.cursor = c.Fields, c.Reader()
		return nil
	case *sql.Use:
		s.database = c.Database
		return nil
	case *sql.Set:
		return s.set(o, c)
	case *sql.Reset:
		s.reset(c)
		return nil
	case *sql.Nothing:
		return nil
	case *sql.Transaction:
		return s.transaction(ctx, o, c, env)
	case *sql.CreateTable:
		return s.createTable(ctx, o, c, env)
	}
	return s.define(ctx, compiled)
}

// context is the time and the time zone of a statement.
func (s *Session) context() (function.Context, error) {
	c := function.Context{Now: time.Now(), Location: time.Local, Database: s.database, Settings: map[string]string{}}
	if u, err := user.Current(); err == nil {
		c.User = u.Username
	}
	for _, name := range function.Settings() {
		if v, ok := s.vars.HiveConf[name]; ok {
			c.Settings[name] = v
		}
	}
	zone := s.vars.HiveConf["hive.local.time.zone"]
	if zone == "" || strings.EqualFold(zone, "local") {
		return c, nil
	}
	l, ok := function.ParseZone(zone)
	if !ok {
		return c, &fault.Error{Class: fault.User, SQLState: fault.StateBadData,
			Message: fmt.Sprintf("hive.local.time.zone = %s: no such time zone", zone)}
	}
	c.Location = l
	return c, nil
}

// query runs a job to its end and opens the cursor over its rows.
func (s *Session) query(ctx context.Context, o *Operation, q *sql.Query, env *sql.Env, sink outputformat.Spec) error {
	job, err := s.engine.Job(ctx, q, env)
	if err != nil {
		return err
	}
	running, err := s.engine.Submit(ctx, job)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.job = running
	o.mu.Unlock()
	// The job ends soon after ctx does; its slots are free when it has ended.
	status, err := running.Wait(context.WithoutCancel(ctx))
	o.mu.Lock()
	o.status = &status
	o.mu.Unlock()
	if err != nil {
		return err
	}
	o.notes = notes(status)
	if q.Kind != sql.KindSelect {
		o.affected = &status.Summary.Rows
		return nil
	}
	if o.cursor, err = s.engine.Cursor(sink); err != nil {
		return err
	}
	if o.fields = q.Fields; o.fields == nil {
		o.fields = []schema.Field{}
	}
	return nil
}

// analyze runs a query and shows what happened, also if it fails.
func (s *Session) analyze(ctx context.Context, o *Operation, c *sql.Analyzed, env *sql.Env, sink outputformat.Spec) error {
	failed := s.query(ctx, o, c.Query, env, sink)
	status, ran := o.Status()
	if ctx.Err() != nil || failed != nil && !ran {
		return failed
	}
	if o.cursor != nil {
		if err := o.cursor.Close(); err != nil {
			return err
		}
	}
	rows, err := c.Rows(status, failed)
	if err != nil {
		return err
	}
	o.fields, o.cursor, o.notes = rows.Fields, rows.Reader(), nil
	return nil
}

// notes are what a person should know of a job that succeeded.
func notes(s jobs.Status) []string {
	var out []string
	if n := s.Counters[jobs.CounterBadCells]; n > 0 {
		verb := "are"
		if n == 1 {
			verb = "is"
		}
		out = append(out, fmt.Sprintf("%s could not be read and %s NULL", plural(n, "cell"), verb))
	}
	if n := s.Counters[jobs.CounterBadRows]; n > 0 {
		out = append(out, fmt.Sprintf("%s could not be read and %s left out", plural(n, "row"), map[bool]string{true: "was", false: "were"}[n == 1]))
	}
	if n := s.Summary.Duplicates; n > 0 {
		out = append(out, fmt.Sprintf("%s had the key of a later row, which replaced it", plural(n, "row")))
	}
	return out
}

// define makes a change of the catalogue.
func (s *Session) define(ctx context.Context, compiled sql.Compiled) error {
	cat := s.catalog()
	switch c := compiled.(type) {
	case *sql.DropTable:
		if c.Table == nil {
			return nil
		}
		return s.dropTable(ctx, c.Table)
	case *sql.AlterTable:
		t, err := cat.AlterTable(ctx, c.Table)
		if err == nil && t.Temporary {
			s.renameTemporary(t)
		}
		return err
	case *sql.AddPartitions:
		return cat.AddPartitions(ctx, c.Table.ID, c.Partitions, c.IfNotExists)
	case *sql.AlterPartitions:
		return cat.AlterPartitions(ctx, c.Table.ID, c.Partitions)
	case *sql.DropPartitions:
		if len(c.Partitions) == 0 {
			return nil
		}
		return s.engine.Truncate(ctx, c.Table, c.Partitions, true)
	case *sql.Truncate:
		return s.engine.Truncate(ctx, c.Table, c.Partitions, false)
	case *sql.AlterDatabase:
		return cat.AlterDatabase(ctx, c.Database)
	case *sql.CreateDatabase:
		if _, err := cat.Database(ctx, c.Database.Name); err == nil && c.IfNotExists {
			return nil
		}
		return cat.CreateDatabase(ctx, c.Database)
	case *sql.DropDatabase:
		return s.dropDatabase(ctx, c)
	}
	return fault.Bugf("frontend: unknown compiled statement %T", compiled)
}

func (s *Session) dropDatabase(ctx context.Context, c *sql.DropDatabase) error {
	cat := s.engine.Catalog()
	if c.IfExists {
		all, err := cat.Databases(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(d catalog.Database) bool { return d.Name == c.Name }) {
			return nil
		}
	}
	if c.Cascade {
		tables, err := cat.Tables(ctx, c.Name)
		if err != nil {
			return err
		}
		for _, t := range tables {
			if t.Temporary {
				continue // it hides one of the database's, maybe
			}
			if err := s.engine.DropTable(ctx, t); err != nil {
				return err
			}
		}
	}
	if err := cat.DropDatabase(ctx, c.Name); err != nil {
		return err
	}
	if s.database == c.Name {
		s.database = catalog.DefaultDatabase
	}
	return nil
}
