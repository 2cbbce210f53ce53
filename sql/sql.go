// Package sql compiles HiveQL statements: text has been parsed by sql/parser;
// Compile looks up names, optimizes, and returns what the frontend then runs: a
// plan, a change of the catalogue, or rows that are known at once.
package sql

import (
	"context"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/outputformat/table"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/optimizer"
	"github.com/skepdb/skep/sql/parser"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/sql/stage"
	"github.com/skepdb/skep/storage"
)

// Env is what a statement is compiled in. It is read only.
type Env struct {
	Catalog   catalog.Store
	Database  string // current; "" = default
	Functions *function.Registry
	// Context is the statement's time and zone, for constant folding.
	Context function.Context
	// Stats tells figures of a table's regions, for estimates and EXPLAIN; a
	// storage.Store does. nil: nothing is known.
	Stats interface {
		Regions(ctx context.Context, t *storage.Table) ([]storage.RegionStats, error)
	}
	// Specs makes the specs of the formats at both ends of a job.
	Specs Specs
	// At is the statement's snapshot: a pin's timestamp. The frontend keeps
	// the pin until the job has ended.
	At       storage.Timestamp
	Settings map[string]string // SET key=value
	Slots    int               // of the cluster; 0 = 1
	// Sink says where the rows of a query go.
	Sink func(fields []schema.Field) outputformat.Spec
	// Base is the folder that relative paths of LOAD DATA start from.
	Base string
	// Local brings the files that LOAD DATA LOCAL names, which are the client's;
	// nil: the client's files are this process's.
	Local func(ctx context.Context, path string) ([]string, error)
}

// Specs makes the specs that a job begins and ends with. NewSpecs has those of
// the formats in this repository.
type Specs interface {
	// Region is a scan of a region table.
	Region(s *optimizer.Source) inputformat.Spec
	// Files is a scan of text files that yields f.Out.
	Files(f Files) (inputformat.Spec, error)
	// Table is a write of whole rows to a table, in one transaction.
	Table(w Write) outputformat.Spec
	// Cuts returns the ascending row keys between the parts in which rows of
	// a keyed table are written; none for a keyless one. files, if not nil, is
	// what will be loaded. It may change the table: the first load into one that
	// wants several regions makes them, cut at the load's quantiles. rows is
	// an estimate for other inputs; < 0 = unknown.
	Cuts(ctx context.Context, t *catalog.Table, files *Files, rows int64) ([][]byte, error)
}

// Compiled is a statement that is ready to run: *Query, *Transaction, *Rows,
// *Nothing or one of the changes of the catalogue or the session below.
type Compiled interface{ isCompiled() }

// Write says how rows are written to a table: its columns, then its partition
// columns.
type Write struct {
	Table     *catalog.Table
	Overwrite bool
	Kind      catalog.TxnKind
	// Static are the values of the first partition columns, if the statement has them.
	Static []schema.Datum
	// Most and MostOfTask bound the partitions that the rows' values name; 0: no bound.
	Most, MostOfTask int
}

// The kinds of a Query.
const (
	KindSelect = "select"
	KindInsert = "insert"
	KindLoad   = "load"
)

// Query is a job: a query, an insert or a load.
type Query struct {
	Kind string
	// Plan's root is a Write.
	Plan plan.Node
	// Fields are the columns of the result; nil for insert and load.
	Fields []schema.Field
	// Table is the one that an insert or load writes.
	Table *catalog.Table
	Name  string // the statement's text, for job lists
}

// Job cuts the plan into a job's stages. It looks at the inputs.
func (q *Query) Job(ctx context.Context, env *Env, inputs inputformat.Formats) (*jobs.Job, error) {
	return stage.Cut(ctx, q.Plan, stage.Options{Inputs: inputs, Slots: env.Slots, Name: q.Name, Now: env.Context.Now, Location: env.Context.Location, Settings: env.Context.Settings})
}

// Transaction is several jobs that are published in one step, or not at all.
type Transaction struct {
	Queries []*Query
	// Drop are partitions that end in the same step; nil: none.
	Drop *DropPartitions
}

// Join makes a query a part of a transaction of several. One that writes a directory
// stays on its own: files are in place when its job ends.
func (q *Query) Join(txn storage.TxnID, part int) error {
	w, ok := q.Plan.(*plan.Write)
	if !ok {
		return fault.Bugf("sql: the plan of a write is a %T", q.Plan)
	}
	if q.Table == nil {
		return nil
	}
	spec, ok := w.Spec.(table.Spec)
	if !ok {
		return fault.Bugf("sql: %T can't be part of a transaction", w.Spec)
	}
	spec.Shared, spec.Txn, spec.FirstTask = true, txn, part<<20
	q.Plan = &plan.Write{Input: w.Input, Spec: spec}
	return nil
}

// Nothing is a statement that has no effect here: ANALYZE, for instance.
type Nothing struct{}

// Changes of the catalogue, which the frontend makes.
type (
	// CreateTable creates a table and its regions, or a view. Table has no ids but those
	// of its columns (1, 2, ..), which the key refers to.
	CreateTable struct {
		Table       catalog.Table
		IfNotExists bool
		// Replace is a view that this one replaces; nil: none.
		Replace *catalog.Table
		// Fill returns the job that fills the table, once it has been made under no name;
		// nil: it stays empty.
		Fill func(ctx context.Context, t *catalog.Table) (*Query, error)
	}
	// CreateDatabase creates a database.
	CreateDatabase struct {
		Database    catalog.Database
		IfNotExists bool
	}
	// AlterDatabase replaces a database's definition.
	AlterDatabase struct{ Database catalog.Database }
	// DropTable drops a table or view; nil: IF EXISTS, and there is none.
	DropTable struct{ Table *catalog.Table }
	// DropDatabase drops a database, with its tables if Cascade.
	DropDatabase struct {
		Name     string
		IfExists bool
		Cascade  bool
	}
	// AlterTable replaces a table's definition.
	AlterTable struct{ Table catalog.Table }
	// AddPartitions adds empty partitions.
	AddPartitions struct {
		Table       *catalog.Table
		Partitions  []catalog.Partition
		IfNotExists bool
	}
	// AlterPartitions replaces partitions' values, properties and locations.
	AlterPartitions struct {
		Table      *catalog.Table
		Partitions []catalog.Partition
	}
	// DropPartitions ends partitions and their rows.
	DropPartitions struct {
		Table      *catalog.Table
		Partitions []*catalog.Partition
	}
	// Truncate ends the rows of a table (Partitions nil), or of some partitions.
	Truncate struct {
		Table      *catalog.Table
		Partitions []*catalog.Partition
	}
	// Use changes the session's database, which exists.
	Use struct{ Database string }
	// Set keeps Key=Value in the session, or shows one setting (Show and a
	// Key) or all of them (Show and no Key).
	Set struct {
		Key, Value string
		Show       bool
	}
	// Reset takes back what SET has set, of these keys or (none) all.
	Reset struct{ Keys []string }
)

func (*Query) isCompiled()           {}
func (*Transaction) isCompiled()     {}
func (*Rows) isCompiled()            {}
func (*Nothing) isCompiled()         {}
func (*CreateTable) isCompiled()     {}
func (*CreateDatabase) isCompiled()  {}
func (*AlterDatabase) isCompiled()   {}
func (*DropTable) isCompiled()       {}
func (*DropDatabase) isCompiled()    {}
func (*AlterTable) isCompiled()      {}
func (*AddPartitions) isCompiled()   {}
func (*AlterPartitions) isCompiled() {}
func (*DropPartitions) isCompiled()  {}
func (*Truncate) isCompiled()        {}
func (*Use) isCompiled()             {}
func (*Set) isCompiled()             {}
func (*Reset) isCompiled()           {}

// Compile compiles a statement. User errors have their place in the text.
func Compile(ctx context.Context, stmt ast.Statement, env *Env) (Compiled, error) {
	c := &compiler{env: env, database: strings.ToLower(env.Database)}
	if c.database == "" {
		c.database = catalog.DefaultDatabase
	}
	switch s := stmt.(type) {
	case *ast.QueryStatement, *ast.Insert, *ast.Load:
		if in, ok := stmt.(*ast.Insert); ok {
			if there, err := c.insertIsThere(ctx, in); err != nil || there {
				return &Nothing{}, err
			}
		}
		q, n, err := c.job(ctx, stmt)
		if err != nil {
			return nil, err
		}
		q.Plan = lower(n, env.Specs)
		return q, nil
	case *ast.MultiInsert:
		return c.multiInsert(ctx, s)
	case *ast.Explain:
		return c.explain(ctx, s)
	case *ast.CreateTable:
		return c.createTable(ctx, s)
	case *ast.CreateView:
		return c.createView(ctx, s)
	case *ast.CreateDatabase:
		return c.createDatabase(s)
	case *ast.AlterDatabase:
		return c.alterDatabase(ctx, s)
	case *ast.AlterTable:
		return c.alterTable(ctx, s)
	case *ast.DropTable:
		return c.dropTable(ctx, s)
	case *ast.DropDatabase:
		return &DropDatabase{Name: strings.ToLower(s.Name.Name), IfExists: s.IfExists, Cascade: s.Cascade}, nil
	case *ast.Truncate:
		return c.truncate(ctx, s)
	case *ast.Analyze:
		return c.analyze(ctx, s)
	case *ast.Msck:
		return c.msck(ctx, s)
	case *ast.Use:
		d, err := env.Catalog.Database(ctx, strings.ToLower(s.Database.Name))
		if err != nil {
			return nil, analyzer.At(s.Database.Pos, err)
		}
		return &Use{Database: d.Name}, nil
	case *ast.Set:
		return &Set{Key: s.Key, Value: s.Value, Show: s.Show}, nil
	case *ast.Reset:
		return &Reset{Keys: s.Keys}, nil
	case *ast.Show:
		return c.show(ctx, s)
	case *ast.Describe:
		return c.describe(ctx, s)
	case *ast.DescribeDatabase:
		return c.describeDatabase(ctx, s)
	case *ast.DescribeFunction:
		return c.describeFunction(s)
	case *ast.Unsupported:
		message := "not supported yet: " + s.What
		if s.Reason != "" {
			message = "not supported: " + s.What + ": " + s.Reason
		}
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnsupported, Message: message, Line: s.Line, Column: s.Column}
	}
	return nil, fault.Bugf("sql: unknown statement %T", stmt)
}

// compiler compiles one statement.
type compiler struct {
	env      *Env
	database string
}

func (c *compiler) analyzer() *analyzer.Analyzer {
	set := c.env.Settings
	return analyzer.New(analyzer.Options{
		Table:           c.env.Catalog.Table,
		Scan:            c.scan,
		Parse:           parseQuery,
		Functions:       c.env.Functions,
		Database:        c.database,
		GroupByPosition: analyzer.Bool(set, "hive.groupby.position.alias", false),
		OrderByConstant: !analyzer.Bool(set, "hive.orderby.position.alias", true),
		NullsFirst:      !analyzer.Bool(set, "hive.default.nulls.last", true),
		RegexColumns:    strings.EqualFold(set["hive.support.quoted.identifiers"], "none"),
		Constant: func(e plan.Expr) (schema.Datum, bool) {
			if !constant(e) || c.evaluator().isVolatile(e) {
				return schema.Datum{}, false
			}
			d, err := c.evaluator().Eval(e)
			return d, err == nil
		},
		Bytes: scanBytes,
	})
}

func (c *compiler) evaluator() *evaluator {
	return &evaluator{functions: c.env.Functions, context: c.env.Context}
}

// constant reports whether e has no columns.
func constant(e plan.Expr) bool {
	found := false
	plan.Walk(e, func(x plan.Expr) {
		_, ok := x.(*plan.Column)
		found = found || ok
	})
	return !found
}

// scanBytes is how large the regions of a scan's table are.
func scanBytes(n *plan.Scan) int64 {
	s, ok := n.Spec.(*optimizer.Source)
	if !ok {
		return 0
	}
	bytes := int64(0)
	for _, r := range s.Regions {
		bytes += r.Bytes + r.DeltaBytes
	}
	return bytes
}

// parseQuery parses the query of a view.
func parseQuery(text string) (*ast.Query, error) {
	stmt, err := parser.ParsePiece(parser.Piece{Text: text, Pos: ast.Pos{Line: 1, Column: 1}})
	if err != nil {
		return nil, err
	}
	q, ok := stmt.(*ast.QueryStatement)
	if !ok {
		return nil, fault.Bugf("the text of a view is no query: %.80s", text)
	}
	return q.Query, nil
}

func (c *compiler) optimize(n plan.Node) (plan.Node, error) {
	return optimizer.Optimize(n, optimizer.Options{Evaluator: c.evaluator(), Volatile: c.evaluator().volatile})
}

// job compiles what becomes a job. The plan's region scans still have the
// optimizer's Source as their spec.
func (c *compiler) job(ctx context.Context, stmt ast.Statement) (*Query, plan.Node, error) {
	q := &Query{Name: stmt.Source()}
	switch s := stmt.(type) {
	case *ast.QueryStatement:
		n, err := c.analyzer().Query(ctx, s.Query)
		if err != nil {
			return nil, nil, err
		}
		q.Kind, q.Fields = KindSelect, n.Fields()
		if n, err = c.optimize(n); err != nil {
			return nil, nil, analyzer.At(joinPlace(s.Query), err)
		}
		return q, &plan.Write{Input: n, Spec: c.env.Sink(q.Fields)}, nil
	case *ast.Insert:
		return c.insert(ctx, s)
	case *ast.Load:
		l, err := c.load(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		n, err := loadPlan(ctx, c.env, l)
		if err != nil {
			return nil, nil, err
		}
		q.Kind, q.Table = KindLoad, l.Table
		return q, n, nil
	}
	return nil, nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnsupported, Message: "not supported yet: EXPLAIN of this statement", Line: stmt.Position().Line, Column: stmt.Position().Column}
}

// joinPlace is where an error of joining points: the plan has no places, but
// the last join of the query is mostly the one.
func joinPlace(q *ast.Query) ast.Pos {
	if sel, ok := q.Body.(*ast.Select); ok {
		switch from := sel.From.(type) {
		case *ast.Join:
			return from.Pos
		case *ast.Derived:
			return joinPlace(from.Query)
		}
	}
	return q.Pos
}

// table looks up a table.
func (c *compiler) table(ctx context.Context, n ast.Name) (*catalog.Table, error) {
	database, name, err := c.analyzer().Qualify(n)
	if err != nil {
		return nil, err
	}
	t, err := c.env.Catalog.Table(ctx, database, name)
	if err != nil {
		return nil, analyzer.At(n.Pos, err)
	}
	return t, nil
}

// lower gives region scans the spec of their input format. A scan whose ranges
// are empty reads nothing: it becomes no rows.
func lower(n plan.Node, specs Specs) plan.Node {
	return plan.RewriteNode(n, func(n plan.Node) plan.Node {
		scan, ok := n.(*plan.Scan)
		if !ok {
			return n
		}
		s, ok := scan.Spec.(*optimizer.Source)
		if !ok {
			return n
		}
		if s.Ranges != nil && len(s.Ranges) == 0 || s.Table.Partitioned && len(s.Partitions) == 0 {
			return &plan.Values{Out: s.Fields()}
		}
		return &plan.Scan{Spec: specs.Region(s), Rows: scan.Rows}
	})
}

// byRegion sends the rows of a keyed table to one task a part of its keys. A
// keyless table takes its rows anywhere, a single task writes to all regions.
func byRegion(ctx context.Context, env *Env, t *catalog.Table, n plan.Node, files *Files) (plan.Node, error) {
	if t.Partitioned && t.Keyed() {
		return byPartition(t, n), nil
	}
	if files == nil && !optimizer.Parallel(n) || !t.Keyed() && t.WantRegions < 2 {
		return n, nil
	}
	cuts, err := env.Specs.Cuts(ctx, t, files, optimizer.Rows(n))
	if err != nil {
		return nil, err
	}
	if !t.Keyed() {
		return n, nil
	}
	if len(cuts) == 0 {
		return &plan.Exchange{Input: n, How: plan.ToOne}, nil
	}
	e := &plan.Exchange{Input: n, How: plan.ByRegion, Cuts: cuts}
	for _, k := range t.Key {
		e.KeyColumns = append(e.KeyColumns, plan.KeyColumn{Index: t.Columns.ByID(k.Column), Desc: k.Desc})
	}
	return e, nil
}

// byPartition sends rows of one key in one partition to one task: which rows go to
// which region is known only when the partitions have ids.
func byPartition(t *catalog.Table, n plan.Node) plan.Node {
	if !optimizer.Parallel(n) {
		return n
	}
	e := &plan.Exchange{Input: n, How: plan.ByHash}
	fields := n.Fields()
	add := func(i int) {
		e.Keys = append(e.Keys, &plan.Column{Index: i, Name: fields[i].Name, T: fields[i].Type})
	}
	for _, k := range t.Key {
		add(t.Columns.ByID(k.Column))
	}
	for i := range t.PartitionColumns {
		add(len(t.Columns) + i)
	}
	return e
}
