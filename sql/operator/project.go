package operator

import (
	"context"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// project computes columns. Plain columns pass by reference, selection and all;
// batches of which few rows are selected are compacted first.
type project struct {
	input    batch.Reader
	fields   []schema.Field
	exprs    []compiled
	computes bool
	volatile bool
}

func newProject(c *compiler, n *plan.Project, input batch.Reader) (*project, error) {
	p := &project{input: input, fields: n.Fields()}
	var err error
	if p.exprs, err = c.compileAll(n.Exprs, input.Fields()); err != nil {
		return nil, err
	}
	for i := range p.exprs {
		p.computes = p.computes || p.exprs[i].columnIndex() < 0
		p.volatile = p.volatile || p.exprs[i].volatile
	}
	return p, nil
}

func (p *project) Fields() []schema.Field { return p.fields }
func (p *project) Close() error           { return p.input.Close() }

func (p *project) Next(ctx context.Context) (*batch.Batch, error) {
	b, err := p.input.Next(ctx)
	if err != nil {
		return nil, err
	}
	return p.apply(b)
}

// apply computes the columns for one batch.
func (p *project) apply(b *batch.Batch) (*batch.Batch, error) {
	r, sel := rows{b.Columns, b.Len}, b.Sel
	if sel != nil && p.computes && (p.volatile || len(sel)*sparse < b.Len) {
		r, sel = dense(b, p.exprs), nil
	}
	out := &batch.Batch{Columns: make([]arrow.Array, len(p.exprs)), Len: r.n, Sel: sel}
	for i := range p.exprs {
		v, err := p.exprs[i].eval(r)
		if err != nil {
			return nil, err
		}
		out.Columns[i] = materialise(v, r.n)
	}
	return out, nil
}

// values yields the rows of a plan.Values.
type values struct {
	fields []schema.Field
	rows   [][]plan.Expr
	c      *compiler
}

func (v *values) Fields() []schema.Field { return v.fields }
func (v *values) Close() error           { return nil }

func (v *values) Next(ctx context.Context) (*batch.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if len(v.rows) == 0 {
		return nil, io.EOF
	}
	n := min(len(v.rows), batch.MaxRows)
	part := v.rows[:n]
	columns := make([]*schema.Appender, len(v.fields))
	for i, f := range v.fields {
		columns[i] = schema.NewAppender(f.Type, n)
	}
	eval := &Evaluator{*v.c}
	for _, row := range part {
		for i, e := range row {
			if !e.Type().Equal(v.fields[i].Type) {
				e = &plan.Cast{Arg: e, T: v.fields[i].Type}
			}
			d, err := eval.Eval(e)
			if err != nil {
				return nil, err
			}
			columns[i].AppendDatum(d)
		}
	}
	v.rows = v.rows[n:]
	b := &batch.Batch{Len: n, Columns: make([]arrow.Array, len(columns))}
	for i, a := range columns {
		b.Columns[i] = a.Finish()
	}
	return b, nil
}

// limit passes Count rows after Offset.
type limit struct {
	input         batch.Reader
	offset, count int64
}

func (l *limit) Fields() []schema.Field { return l.input.Fields() }
func (l *limit) Close() error           { return l.input.Close() }

func (l *limit) Next(ctx context.Context) (*batch.Batch, error) {
	for l.count > 0 {
		b, err := l.input.Next(ctx)
		if err != nil {
			return nil, err
		}
		n := int64(b.Rows())
		if l.offset >= n {
			l.offset -= n
			continue
		}
		b = slice(b, int(l.offset), int(min(n, l.offset+l.count)))
		l.count -= int64(b.Rows())
		l.offset = 0
		return b, nil
	}
	return nil, io.EOF
}

// slice returns rows [from, to) of b.
func slice(b *batch.Batch, from, to int) *batch.Batch {
	if from == 0 && to == b.Rows() {
		return b
	}
	if b.Sel != nil {
		return &batch.Batch{Columns: b.Columns, Len: b.Len, Sel: b.Sel[from:to:to]}
	}
	out := &batch.Batch{Columns: make([]arrow.Array, len(b.Columns)), Len: to - from}
	for i, c := range b.Columns {
		out.Columns[i] = batch.Slice(c, from, to)
	}
	return out
}
