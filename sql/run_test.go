package sql

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/datadriven"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
	"github.com/skepdb/skep/sql/operator"
	"github.com/skepdb/skep/sql/optimizer"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// engine runs compiled jobs over tables that are lists of rows, with the real
// operators and shuffle: it shows that plans mean what the statement says.
// Its scans evaluate pushed predicates a row at a time, as the contract of
// storage.Predicate words them.
type engine struct {
	*world
	runner    *operator.Runner
	rows      map[storage.TableID][][]schema.Datum
	splitRows int // rows a split
	batchRows int // rows a batch
}

func newEngine(t *testing.T, splitRows, batchRows int) *engine {
	e := &engine{world: newWorld(t), rows: map[storage.TableID][][]schema.Datum{}, splitRows: splitRows, batchRows: batchRows}
	e.runner = operator.NewRunner(e.env.Functions)
	e.env.Specs = e
	e.env.Sink = func(fields []schema.Field) outputformat.Spec { return &resultSpec{fields: fields} }
	return e
}

type resultSpec struct {
	resultSink
	fields []schema.Field
}

type rowsSpec struct {
	tableSpec
	table *catalog.Table
}

func (e *engine) Table(wr Write) outputformat.Spec {
	t, overwrite, kind := wr.Table, wr.Overwrite, wr.Kind
	return &rowsSpec{tableSpec{t.Name, overwrite, kind}, t}
}

// Splits implements inputformat.Format.
func (e *engine) Splits(_ context.Context, spec inputformat.Spec, _ inputformat.Want) iter.Seq2[inputformat.Split, error] {
	return func(yield func(inputformat.Split, error) bool) {
		n := len(e.rows[spec.(*optimizer.Source).Table.ID])
		for from := 0; from < n; from += e.splitRows {
			if !yield(inputformat.Split{Body: [2]int{from, min(from+e.splitRows, n)}}, nil) {
				return
			}
		}
	}
}

// Open implements inputformat.Format.
func (e *engine) Open(_ context.Context, spec inputformat.Spec, sp inputformat.Split) (inputformat.Reader, error) {
	s, part := spec.(*optimizer.Source), sp.Body.([2]int)
	out := &Rows{Fields: s.Fields()}
	for _, row := range e.rows[s.Table.ID][part[0]:part[1]] {
		if s.Filter != nil && !holds(s.Filter, s.Table, row) {
			continue
		}
		if s.Ranges != nil && !inRanges(s, row) {
			continue
		}
		picked := make([]schema.Datum, len(s.Columns))
		for i, c := range s.Columns {
			picked[i] = row[s.Table.Columns.ByID(c.ID)]
		}
		out.Data = append(out.Data, picked)
	}
	return &splitReader{out, e.batchRows, 0}, nil
}

// inRanges reports whether the row's key is in the scan's ranges. A range that
// is too narrow loses rows, which shows in the answer.
func inRanges(s *optimizer.Source, row []schema.Datum) bool {
	var columns []rowkey.Column
	var values []schema.Datum
	for i, c := range s.Table.KeyColumns() {
		columns = append(columns, rowkey.Column{Type: c.Type, Desc: s.Table.Key[i].Desc})
		values = append(values, row[s.Table.Columns.ByID(c.ID)])
	}
	key, err := rowkey.NewEncoder(columns).AppendDatums(nil, values)
	if err != nil {
		panic(err)
	}
	return slices.ContainsFunc(s.Ranges, func(r storage.KeyRange) bool {
		return bytes.Compare(key, r.Start) >= 0 && (len(r.End) == 0 || bytes.Compare(key, r.End) < 0)
	})
}

// holds evaluates a predicate: NULL refuses, like false.
func holds(p storage.Predicate, t *storage.Table, row []schema.Datum) bool {
	value := func(id schema.ColumnID) schema.Datum { return row[t.Columns.ByID(id)] }
	switch p := p.(type) {
	case *storage.Compare:
		v := value(p.Column)
		if v.Null {
			return false
		}
		c := schema.Compare(v, p.Value)
		return [...]bool{c == 0, c != 0, c < 0, c <= 0, c > 0, c >= 0}[p.Op]
	case *storage.In:
		v := value(p.Column)
		return !v.Null && slices.ContainsFunc(p.Values, func(d schema.Datum) bool { return schema.Compare(v, d) == 0 })
	case *storage.IsNull:
		return value(p.Column).Null != p.Not
	case storage.And:
		return !slices.ContainsFunc(p, func(q storage.Predicate) bool { return !holds(q, t, row) })
	case storage.Or:
		return slices.ContainsFunc(p, func(q storage.Predicate) bool { return holds(q, t, row) })
	}
	panic("unknown predicate")
}

type splitReader struct {
	rows  *Rows
	batch int
	at    int
}

func (r *splitReader) Fields() []schema.Field   { return r.rows.Fields }
func (r *splitReader) Close() error             { return nil }
func (r *splitReader) Stats() inputformat.Stats { return inputformat.Stats{} }
func (r *splitReader) Next(context.Context) (*batch.Batch, error) {
	n := min(r.batch, len(r.rows.Data)-r.at)
	if n == 0 {
		return nil, io.EOF
	}
	b := &batch.Batch{Len: n, Columns: make([]arrow.Array, len(r.rows.Fields))}
	for c, f := range r.rows.Fields {
		values := make([]schema.Datum, n)
		for i := range values {
			values[i] = r.rows.Data[r.at+i][c]
		}
		b.Columns[c] = schema.ArrayOf(f.Type, values)
	}
	r.at += n
	return b, nil
}

// collector takes the rows of a job's output.
type collector struct {
	types []schema.Type
	rows  [][]schema.Datum
}

func (c *collector) Write(_ context.Context, b *batch.Batch) error {
	add := func(i int) error {
		row := make([]schema.Datum, len(b.Columns))
		for k, a := range b.Columns {
			row[k] = schema.FromArrow(a, i, c.types[k])
		}
		c.rows = append(c.rows, row)
		return nil
	}
	if len(b.Columns) != len(c.types) {
		return fmt.Errorf("a batch of %d columns, want %d", len(b.Columns), len(c.types))
	}
	if b.Sel != nil {
		for _, i := range b.Sel {
			if err := add(int(i)); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range b.Len {
		if err := add(i); err != nil {
			return err
		}
	}
	return nil
}

// shuffled writes a map attempt's output.
type shuffled struct{ w shuffle.Writer }

func (s shuffled) Write(ctx context.Context, partition int, b *batch.Batch) error {
	return s.w.Write(ctx, partition, b)
}

// execute runs a job, stage by stage, task by task.
func (e *engine) execute(ctx context.Context, q *Query) ([][]schema.Datum, error) {
	formats := inputformat.Formats{"region": e}
	job, err := q.Job(ctx, e.env, formats)
	if err != nil {
		return nil, err
	}
	job.ID = "job"
	if err := job.Validate(); err != nil {
		return nil, err
	}
	memory := shuffle.NewMemory()
	defer memory.Drop(string(job.ID))
	out := &collector{}
	switch spec := job.Output.(type) {
	case *resultSpec:
		for _, f := range spec.fields {
			out.types = append(out.types, f.Type)
		}
	case *rowsSpec:
		for _, c := range spec.table.Columns {
			out.types = append(out.types, c.Type)
		}
	}
	for _, s := range job.Stages {
		for i := range s.Tasks {
			if err := e.attempt(ctx, job, s, &s.Tasks[i], memory, formats, out); err != nil {
				return nil, fmt.Errorf("stage %d: %w", s.ID, err)
			}
		}
	}
	if spec, ok := job.Output.(*rowsSpec); ok {
		if spec.overwrite {
			e.rows[spec.table.ID] = nil
		}
		e.rows[spec.table.ID] = append(e.rows[spec.table.ID], out.rows...)
	}
	return out.rows, nil
}

func (e *engine) attempt(ctx context.Context, job *jobs.Job, s *jobs.Stage, task *jobs.Task, memory shuffle.Service, formats inputformat.Formats, out *collector) error {
	c := &jobs.Context{ID: jobs.AttemptID{Job: job.ID, Stage: s.ID, Task: task.Index}, Stage: s, Task: task, Work: s.Work, Formats: formats, Counters: jobs.Counters{}}
	for i, in := range s.Inputs {
		var from []shuffle.Source
		for t := range job.Stages[in].Tasks {
			from = append(from, shuffle.Source{Attempt: shuffle.Attempt{Job: string(job.ID), Stage: in, Task: t}})
		}
		partition := task.Index
		if s.Broadcast[i] {
			partition = 0
		}
		r, err := memory.Reader(ctx, job.Stages[in].Fields, partition, from)
		if err != nil {
			return err
		}
		defer r.Close()
		c.Inputs = append(c.Inputs, r)
	}
	if s.Partitions == 0 {
		c.Output = out
		return e.runner.Run(ctx, c)
	}
	w, err := memory.Writer(ctx, shuffle.Attempt{Job: string(job.ID), Stage: s.ID, Task: task.Index}, s.Fields, s.Partitions)
	if err != nil {
		return err
	}
	c.Shuffle = shuffled{w}
	if err := e.runner.Run(ctx, c); err != nil {
		w.Abort()
		return err
	}
	_, err = w.Finish(ctx)
	return err
}

// runScript runs statements; the rows of queries are shown a line each, sorted
// unless the query orders them.
func (e *engine) runScript(ctx context.Context, script string) string {
	var b strings.Builder
	err := e.each(ctx, script, func(c Compiled) error {
		q, ok := c.(*Query)
		if !ok {
			return e.apply(ctx, c, &b)
		}
		rows, err := e.execute(ctx, q)
		if err != nil {
			return err
		}
		if q.Kind != KindSelect {
			fmt.Fprintf(&b, "%d rows\n", len(rows))
			return nil
		}
		lines := make([]string, len(rows))
		for i, row := range rows {
			cells := make([]string, len(row))
			for k, d := range row {
				cells[k] = d.Text()
			}
			lines[i] = strings.Join(cells, "\t")
		}
		if !strings.Contains(strings.ToLower(q.Name), "order by") {
			slices.Sort(lines)
		}
		b.WriteString(fieldsString(q.Fields) + "\n")
		for _, l := range lines {
			b.WriteString(l + "\n")
		}
		return nil
	})
	return b.String() + errorString(err)
}

// TestRun runs testdata/run with several sizes of splits and batches: the
// answers are the same. The values are argued for in the scripts.
func TestRun(t *testing.T) {
	for _, size := range []struct{ split, batch int }{{1000, 1000}, {1, 1}, {3, 2}} {
		t.Run(fmt.Sprintf("split=%d,batch=%d", size.split, size.batch), func(t *testing.T) {
			datadriven.Walk(t, "testdata/run", func(t *testing.T, path string) {
				e := newEngine(t, size.split, size.batch)
				datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
					return e.runScript(context.Background(), d.Input)
				})
			})
		})
	}
}
