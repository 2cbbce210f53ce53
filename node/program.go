package node

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/lines"
	inputregion "github.com/skepdb/skep/inputformat/region"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/jobs/builtin"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/jobs/mapreduce/engine"
	"github.com/skepdb/skep/outputformat"
	outputtable "github.com/skepdb/skep/outputformat/table"
	outputtext "github.com/skepdb/skep/outputformat/text"
	"github.com/skepdb/skep/scheduler/server"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/sql/parser"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage"
)

// ProgramRequest asks for a run of a map/reduce program.
type ProgramRequest struct {
	// Program is the name of a built-in program, or of one in the Artifact.
	Program  string
	Artifact string // from PutArtifact
	// Files are the input of programs that read lines: files, folders and
	// patterns, relative ones from the current folder.
	Files []string
	// Table is the input of programs that read rows, [database.]table; Where, if
	// not "", a HiveQL condition that picks rows.
	Table string
	Where string
	// One of Dir and Into, or neither: then the rows come back in Rows.
	Dir    string // a directory of text files that is made
	Style  outputtext.Style
	Header bool
	Into   string // a table that exists; its columns by name
	// Overwrite replaces what is in Dir or Into.
	Overwrite bool
	Reduces   int // 0: one a slot
	// Attempts is how often a task may fail before the job does; 0: 4.
	Attempts int
	Params   map[string]string
	Limits   engine.Limits
}

// ProgramRun is a program that runs, or has run. It must be closed.
type ProgramRun struct {
	*server.Handle
	Fields []schema.Field // of its output
	node   *Node
	sink   outputformat.Spec // nil: the output is a table or files
	pin    catalog.Pin
}

// Rows reads the output of a run that has ended, if it is neither a table nor
// files.
func (r *ProgramRun) Rows() (batch.Reader, error) {
	if r.sink == nil {
		return nil, fault.Bugf("the output of job %s is not rows", r.ID())
	}
	return r.node.Cursor(r.sink)
}

// Close kills the job if it runs, waits for its end and frees its rows and its
// snapshot.
func (r *ProgramRun) Close() error {
	r.Kill(nil)
	<-r.Done()
	if r.sink != nil {
		r.node.Drop(r.sink)
	}
	r.pin.Release()
	return nil
}

// BuiltinPrograms describes the map/reduce programs that are part of Skep, by
// name.
func BuiltinPrograms() []mapreduce.Description {
	var out []mapreduce.Description
	for _, p := range builtin.Programs() {
		if d, err := p.Describe(); err == nil { // Open has checked them
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b mapreduce.Description) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Program describes the program of a request.
func (n *Node) Program(ctx context.Context, r ProgramRequest) (mapreduce.Description, error) {
	return n.programOf(ctx, r.Program, r.Artifact)
}

func (n *Node) builtin(name string) (mapreduce.Description, error) {
	p := n.programs[name]
	if p == nil {
		return mapreduce.Description{}, noProgram(fmt.Sprintf("there is no program %q", name), name, n.programs.Names())
	}
	return p.Describe()
}

func noProgram(message, name string, known []string) error {
	return &fault.Error{Class: fault.User, SQLState: fault.StateBadData, Message: message, Hint: nearest.Hint(name, known)}
}

// RunProgram starts a program. The job is killed when ctx ends.
func (n *Node) RunProgram(ctx context.Context, r ProgramRequest) (_ *ProgramRun, err error) {
	d, err := n.Program(ctx, r)
	if err != nil {
		return nil, err
	}
	pin, err := n.catalog.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			pin.Release()
		}
	}()
	run := &ProgramRun{node: n, pin: pin, Fields: d.Fields}
	request := engine.Request{Program: d, Artifact: r.Artifact, Params: r.Params, Formats: n.inputs, Slots: n.Slots(), Reduces: r.Reduces, MaxAttempts: r.Attempts, Limits: r.Limits}
	if request.Input, err = n.programInput(ctx, d, r, pin); err != nil {
		return nil, err
	}
	request.Name = d.Name + " of " + request.Input.Describe()
	if err := n.programOutput(ctx, d, r, run, &request); err != nil {
		return nil, err
	}
	job, err := engine.Build(ctx, request)
	if err == nil {
		run.Handle, err = n.scheduler.Submit(ctx, job)
	}
	if err != nil && run.sink != nil {
		n.Drop(run.sink)
	}
	if err != nil {
		return nil, err
	}
	return run, nil
}

// programInput returns what the program reads.
func (n *Node) programInput(ctx context.Context, d mapreduce.Description, r ProgramRequest, pin catalog.Pin) (inputformat.Spec, error) {
	if d.Input == mapreduce.InputLines {
		if r.Table != "" || r.Where != "" {
			return nil, fault.Userf("program %s reads lines of text files, not a table", d.Name)
		}
		if len(r.Files) == 0 {
			return nil, fault.Userf("program %s reads text files: name some", d.Name)
		}
		files := make([]string, len(r.Files))
		for i, f := range r.Files {
			var err error
			if files[i], err = filepath.Abs(f); err != nil {
				return nil, err
			}
		}
		return lines.Spec{Paths: files}, nil
	}
	if len(r.Files) > 0 || r.Table == "" {
		return nil, fault.Userf("program %s reads the rows of a table: name one", d.Name)
	}
	return n.tableInput(ctx, d, r, pin)
}

// tableInput is the scan of a table with the program's columns and the condition.
func (n *Node) tableInput(ctx context.Context, d mapreduce.Description, r ProgramRequest, pin catalog.Pin) (inputformat.Spec, error) {
	t, err := n.tableOf(ctx, r.Table)
	if err != nil {
		return nil, err
	}
	if t.Kind == catalog.View {
		return nil, fault.Unsupportedf("%s is a view: select its rows into a table first", t.Name)
	}
	all := t.AllColumns()
	var columns schema.Columns
	if d.Columns == nil {
		columns = all
	}
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	for _, name := range d.Columns {
		i := all.Index(name)
		if i < 0 {
			return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnknownCol, Hint: nearest.Hint(name, known),
				Message: fmt.Sprintf("program %s reads column %s, which table %s doesn't have", d.Name, name, t.Name)}
		}
		columns = append(columns, all[i])
	}
	if r.Where == "" && t.Kind == catalog.Managed && !t.Partitioned {
		return inputregion.Spec{Table: &t.Table, At: pin.At(), Columns: columns}, nil
	}
	return n.filtered(ctx, t, columns, r.Where, pin)
}

func (n *Node) tableOf(ctx context.Context, name string) (*catalog.Table, error) {
	database, table, ok := strings.Cut(strings.ToLower(name), ".")
	if !ok {
		database, table = catalog.DefaultDatabase, database
	}
	return n.catalog.Table(ctx, database, table)
}

// filtered is a scan with a condition: compiled as a query, so that it goes into the scan as
// far as it can.
func (n *Node) filtered(ctx context.Context, t *catalog.Table, columns schema.Columns, where string, pin catalog.Pin) (inputformat.Spec, error) {
	quote := func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
	names := []string{"1"} // a query has a column
	if len(columns) > 0 {
		names = nil
	}
	for _, c := range columns {
		names = append(names, quote(c.Name))
	}
	// The line break ends a comment in the condition.
	text := "SELECT " + strings.Join(names, ", ") + " FROM " + quote(t.Database) + "." + quote(t.TableName)
	if where != "" {
		text += " WHERE (" + where + "\n)"
	}
	pieces := parser.Split(text)
	if len(pieces) != 1 {
		return nil, fault.Userf("condition %q: want one expression", where)
	}
	stmt, err := parser.ParsePiece(pieces[0])
	if err != nil {
		return nil, fmt.Errorf("condition %q: %w", where, err)
	}
	env := n.Env()
	env.At = pin.At()
	env.Sink = n.discard
	compiled, err := sql.Compile(ctx, stmt, env)
	if err != nil {
		return nil, fmt.Errorf("condition %q: %w", where, err)
	}
	q, ok := compiled.(*sql.Query)
	if !ok {
		return nil, fault.Userf("condition %q: want one expression", where)
	}
	return scanOf(q.Plan, inputregion.Spec{Table: &t.Table, At: pin.At(), Columns: columns}, where)
}

// discard stands for the sink of a query that is compiled only.
func (n *Node) discard([]schema.Field) outputformat.Spec { return nil }

// scanOf returns the scan that a plan consists of, when nothing is left to be done
// after it.
func scanOf(root plan.Node, whole inputregion.Spec, where string) (inputformat.Spec, error) {
	for {
		switch n := root.(type) {
		case *plan.Write:
			root = n.Input
		case *plan.Project:
			root = n.Input
		case *plan.Scan:
			spec, ok := n.Spec.(inputregion.Spec)
			if !ok {
				return n.Spec, nil // of files
			}
			spec.Columns = whole.Columns
			return spec, nil
		case *plan.Values:
			whole.Ranges = []storage.KeyRange{} // the condition is never true
			return whole, nil
		default:
			return nil, fault.Unsupportedf("the condition %q can't be evaluated by the scan itself: compare columns with constants, or select the rows into a table first", where)
		}
	}
}

// programOutput says where the program's rows go.
func (n *Node) programOutput(ctx context.Context, d mapreduce.Description, r ProgramRequest, run *ProgramRun, request *engine.Request) error {
	switch {
	case r.Dir != "" && r.Into != "":
		return fault.Userf("the output goes to a directory or into a table, not both")
	case r.Dir != "":
		dir, err := filepath.Abs(r.Dir)
		if err != nil {
			return err
		}
		style := r.Style
		if style == "" {
			style = outputtext.TSV
		}
		request.Output = outputtext.Spec{Dir: dir, Style: style, Header: r.Header, Overwrite: r.Overwrite}
		return nil
	case r.Into != "":
		t, err := n.tableOf(ctx, r.Into)
		if err != nil {
			return err
		}
		if t.Kind != catalog.Managed || t.Partitioned {
			return fault.Unsupportedf("%s is partitioned, a view or external: write into a plain table, and insert its rows from there", t.Name)
		}
		for _, k := range t.KeyColumns() {
			if !slices.ContainsFunc(d.Fields, func(f schema.Field) bool { return f.Name == k.Name }) {
				return fault.Userf("program %s has no column %s, which is part of the row key of %s", d.Name, k.Name, t.Name)
			}
		}
		request.Output = outputtable.Spec{Table: &t.Table, Overwrite: r.Overwrite}
		for _, c := range t.Columns {
			request.Columns = append(request.Columns, schema.Field{Name: c.Name, Type: c.Type})
		}
		run.Fields = request.Columns
		return nil
	}
	run.sink = n.Sink(d.Fields)
	request.Output = run.sink
	return nil
}
