package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/catalog/metastore"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/optimizer"
	"github.com/skepdb/skep/sql/parser"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// world is a catalogue without data, for compiling against. Regions of its
// tables are made up by the scripts.
type world struct {
	env     *Env
	store   *metastore.Store
	regions map[string][]storage.RegionStats
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := metastore.Open(metastore.Options{FS: vfs.NewMem(), Dir: "catalog", Now: func() time.Time { return time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w := &world{store: store, regions: map[string][]storage.RegionStats{}}
	w.env = &Env{Catalog: store, Functions: function.Builtin(), Stats: w, Specs: w, At: storage.MaxTimestamp, Settings: map[string]string{}, Slots: 4,
		Sink: func([]schema.Field) outputformat.Spec { return resultSink{} }, Base: t.TempDir()}
	return w
}

func (w *world) Regions(_ context.Context, t *storage.Table) ([]storage.RegionStats, error) {
	if r, ok := w.regions[t.Name]; ok {
		return r, nil
	}
	return []storage.RegionStats{{}}, nil
}

// fileSpec and tableSpec are specs that only say what they are.
type fileSpec struct{ f Files }

func (s fileSpec) Format() string { return "text" }
func (s fileSpec) Fields() []schema.Field {
	var out []schema.Field
	for _, c := range s.f.Out {
		out = append(out, schema.Field{Name: c.Name, Type: c.Type})
	}
	return out
}
func (s fileSpec) Describe() string {
	f := s.f
	return fmt.Sprintf("%d files csv=%t columns=%d out=%d delimiter=%q escape=%q null=%q emptynull=%t skip=%d onerror=%d",
		len(f.Paths), f.CSV, len(f.Columns), len(f.Out), f.Delimiter, f.Escape, f.NullText, f.EmptyIsNull, f.SkipHeader, f.OnError)
}

type tableSpec struct {
	name      string
	overwrite bool
	kind      catalog.TxnKind
}

func (s tableSpec) Format() string { return "table" }
func (s tableSpec) Describe() string {
	return fmt.Sprintf("%s kind=%s overwrite=%t", s.name, s.kind, s.overwrite)
}

func (w *world) Region(s *optimizer.Source) inputformat.Spec { return s }
func (w *world) Files(f Files) (inputformat.Spec, error)     { return fileSpec{f}, nil }
func (w *world) Table(wr Write) outputformat.Spec {
	return tableSpec{wr.Table.Name, wr.Overwrite, wr.Kind}
}
func (w *world) Cuts(_ context.Context, t *catalog.Table, _ *Files, _ int64) ([][]byte, error) {
	var cuts [][]byte
	for _, r := range w.regions[t.Name] {
		if len(r.Range.Start) > 0 {
			cuts = append(cuts, r.Range.Start)
		}
	}
	return cuts, nil
}

// run compiles the statements of a script; changes of the catalogue are made.
func (w *world) run(ctx context.Context, script string) (string, error) {
	var b strings.Builder
	err := w.each(ctx, script, func(c Compiled) error { return w.apply(ctx, c, &b) })
	return b.String(), err
}

// each compiles statements and hands each on before it compiles the next.
func (w *world) each(ctx context.Context, script string, f func(Compiled) error) error {
	stmts, failed := parser.Parse(script)
	for _, s := range stmts {
		c, err := Compile(ctx, s, w.env)
		if err == nil {
			err = f(c)
		}
		if err != nil {
			return err
		}
	}
	return failed
}

func (w *world) apply(ctx context.Context, c Compiled, b *strings.Builder) error {
	switch c := c.(type) {
	case *Rows:
		for _, row := range c.Data {
			for i, d := range row {
				if i > 0 {
					b.WriteString(" | ")
				}
				if !d.Null {
					b.WriteString(d.Text())
				}
			}
			text := strings.TrimRight(b.String(), " |")
			b.Reset()
			b.WriteString(text + "\n")
		}
	case *Query:
		text, err := PlanString(c.Plan)
		fmt.Fprintf(b, "%s %v\n%s", c.Kind, fieldsString(c.Fields), text)
		return err
	case *CreateTable:
		_, err := w.store.CreateTable(ctx, c.Table, nil)
		fmt.Fprintf(b, "create table %s if-not-exists=%t\n", c.Table.Name, c.IfNotExists)
		if err == nil && c.Fill != nil {
			t, err := w.store.Table(ctx, c.Table.Database, c.Table.TableName)
			if err != nil {
				return err
			}
			q, err := c.Fill(ctx, t)
			if err != nil {
				return err
			}
			return w.apply(ctx, q, b)
		}
		return err
	case *CreateDatabase:
		fmt.Fprintf(b, "create database %s if-not-exists=%t\n", c.Database.Name, c.IfNotExists)
		return w.store.CreateDatabase(ctx, c.Database)
	case *DropTable:
		if c.Table == nil {
			b.WriteString("drop nothing\n")
			return nil
		}
		fmt.Fprintf(b, "drop table %s\n", c.Table.Name)
		_, err := w.store.DropTable(ctx, c.Table.ID)
		return err
	case *DropDatabase:
		fmt.Fprintf(b, "drop database %s if-exists=%t cascade=%t\n", c.Name, c.IfExists, c.Cascade)
	case *AlterTable:
		fmt.Fprintf(b, "alter table %s\n", c.Table.Name)
		_, err := w.store.AlterTable(ctx, c.Table)
		return err
	case *AddPartitions:
		for _, p := range c.Partitions {
			fmt.Fprintf(b, "add partition %s to %s\n", c.Table.PartitionName(p.Values), c.Table.Name)
		}
		return w.store.AddPartitions(ctx, c.Table.ID, c.Partitions, c.IfNotExists)
	case *AlterPartitions:
		for _, p := range c.Partitions {
			fmt.Fprintf(b, "alter partition %s of %s\n", c.Table.PartitionName(p.Values), c.Table.Name)
		}
		return w.store.AlterPartitions(ctx, c.Table.ID, c.Partitions)
	case *DropPartitions:
		for _, p := range c.Partitions {
			fmt.Fprintf(b, "drop partition %s of %s\n", c.Table.PartitionName(p.Values), c.Table.Name)
		}
	case *Truncate:
		fmt.Fprintf(b, "truncate %s", c.Table.Name)
		for _, p := range c.Partitions {
			fmt.Fprintf(b, " %s", c.Table.PartitionName(p.Values))
		}
		b.WriteByte('\n')
	case *Transaction:
		b.WriteString("in one transaction:\n")
		for _, q := range c.Queries {
			if err := w.apply(ctx, q, b); err != nil {
				return err
			}
		}
		if c.Drop != nil {
			return w.apply(ctx, c.Drop, b)
		}
	case *Nothing:
		b.WriteString("nothing\n")
	case *Reset:
		fmt.Fprintf(b, "reset %v\n", c.Keys)
	case *Use:
		w.env.Database = c.Database
		fmt.Fprintf(b, "use %s\n", c.Database)
	case *Set:
		if !c.Show {
			w.env.Settings[c.Key] = c.Value
		}
		fmt.Fprintf(b, "set %q=%q show=%t\n", c.Key, c.Value, c.Show)
	}
	return nil
}

func fieldsString(fields []schema.Field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.Name + " " + f.Type.String()
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// errorString shows all that a person or program gets of an error.
func errorString(err error) string {
	if err == nil {
		return ""
	}
	err = hidePaths(err)
	line, column := fault.PlaceOf(err)
	text := fmt.Sprintf("error %s %s %d:%d: %v\n", fault.ClassOf(err), fault.StateOf(err), line, column, err)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Message == "" {
		text += "(without a message of its own)\n"
	}
	return text
}

// hidePaths is for errors that name a temporary folder.
func hidePaths(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		if i := strings.Index(e.Message, " (looked for "); i > 0 {
			short := *e
			short.Message = e.Message[:i]
			return &short
		}
	}
	return err
}

// TestCompile runs the scripts in testdata/plans. Each "sql" block is compiled and
// shown; each "explain" block is the EXPLAIN of its query. The plans are argued
// for in the comments above them.
func TestCompile(t *testing.T) {
	datadriven.Walk(t, "testdata/plans", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			ctx := context.Background()
			switch d.Cmd {
			case "sql":
				out, err := w.run(ctx, d.Input)
				return out + errorString(err)
			case "explain":
				out, err := w.run(ctx, "EXPLAIN "+d.Input)
				return out + errorString(err)
			case "regions":
				return w.cut(t, d)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// cut gives a table regions cut at the first key column's values, of so many
// rows each: regions table=default.t rows=1000, values a line each.
func (w *world) cut(t *testing.T, d *datadriven.TestData) string {
	var name string
	var rows int64
	d.ScanArgs(t, "table", &name)
	d.ScanArgs(t, "rows", &rows)
	database, table, _ := strings.Cut(name, ".")
	def, err := w.store.Table(context.Background(), database, table)
	if err != nil {
		t.Fatal(err)
	}
	var start storage.Key
	var out []storage.RegionStats
	add := func(end storage.Key) {
		out = append(out, storage.RegionStats{Region: storage.Region{ID: storage.RegionID(len(out) + 1), Range: storage.KeyRange{Start: start, End: end}}, Rows: rows})
		start = end
	}
	for value := range strings.FieldsSeq(d.Input) {
		v, ok := schema.ParseText(def.KeyColumns()[0].Type, []byte(value))
		if !ok {
			t.Fatalf("%s is no key", value)
		}
		key, err := rowkey.NewEncoder([]rowkey.Column{{Type: v.Type, Desc: def.Key[0].Desc}}).AppendDatums(nil, []schema.Datum{v})
		if err != nil {
			t.Fatal(err)
		}
		add(key)
	}
	add(nil)
	w.regions[name] = out
	return ""
}
