package operator

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// join is a hash join of any kind: the right side is built, the left one probes
// in its order; the matches of a row come in the order of the right side. Without
// keys every right row is a candidate of every left row, which makes it a block
// nested loop.
type join struct {
	left, right batch.Reader
	fields      []schema.Field
	kind        plan.JoinKind
	nullAware   bool
	leftKeys    []compiled
	rightKeys   []compiled
	residual    []compiled
	// need says which output columns somebody looks at; nil: all.
	need []bool
	mem  account

	built   *build
	probe   *probe
	drained bool // the left side has ended
	emitted int  // of the built rows that nobody matched
}

func newJoin(c *compiler, n *plan.Join, left, right batch.Reader, b *budget) (*join, error) {
	j := &join{left: left, right: right, fields: n.Fields(), kind: n.Kind, nullAware: n.NullAware, mem: account{b: b, operator: "JOIN"}}
	if n.Kind > plan.LeftSingle {
		return nil, fault.Bugf("join of kind %d", n.Kind)
	}
	if n.NullAware && (n.Kind != plan.LeftAnti && n.Kind != plan.LeftMark || len(n.LeftKeys) == 0) {
		return nil, fault.Bugf("a null-aware join of kind %d with %d keys", n.Kind, len(n.LeftKeys))
	}
	if len(n.LeftKeys) != len(n.RightKeys) {
		return nil, fault.Bugf("join with %d left keys and %d right ones", len(n.LeftKeys), len(n.RightKeys))
	}
	for i := range n.LeftKeys {
		if !n.LeftKeys[i].Type().Equal(n.RightKeys[i].Type()) {
			return nil, fault.Bugf("join key %d is %s on the left, %s on the right", i+1, n.LeftKeys[i].Type(), n.RightKeys[i].Type())
		}
	}
	var err error
	if j.leftKeys, err = c.compileAll(n.LeftKeys, left.Fields()); err != nil {
		return nil, err
	}
	if j.rightKeys, err = c.compileAll(n.RightKeys, right.Fields()); err != nil {
		return nil, err
	}
	if n.Residual != nil {
		both := append(append([]schema.Field(nil), left.Fields()...), right.Fields()...)
		if j.residual, err = c.conditions(n.Residual, both); err != nil {
			return nil, err
		}
	}
	return j, nil
}

func (j *join) Fields() []schema.Field { return j.fields }
func (j *join) Close() error           { return errors.Join(j.left.Close(), j.right.Close()) }

// keepsLeft: left rows without a match are yielded; keepsRight: right ones.
func (j *join) keepsLeft() bool {
	switch j.kind {
	case plan.LeftOuter, plan.FullOuter, plan.LeftSingle:
		return true
	}
	return false
}

func (j *join) keepsRight() bool { return j.kind == plan.RightOuter || j.kind == plan.FullOuter }

// yieldsPairs: the output has right columns.
func (j *join) yieldsPairs() bool {
	switch j.kind {
	case plan.LeftSemi, plan.LeftAnti, plan.LeftMark:
		return false
	}
	return true
}

// needsMatch: a left row without a match yields nothing.
func (j *join) needsMatch() bool {
	switch j.kind {
	case plan.Inner, plan.RightOuter, plan.LeftSemi:
		return true
	}
	return false
}

func (j *join) Next(ctx context.Context) (*batch.Batch, error) {
	if j.built == nil {
		if err := j.build(ctx); err != nil {
			return nil, err
		}
	}
	for !j.drained {
		if j.probe == nil {
			if j.built.n == 0 && j.needsMatch() {
				j.drained = true // nothing can match, so no need to read the left side
				break
			}
			b, err := j.left.Next(ctx)
			if errors.Is(err, io.EOF) {
				j.drained = true
				break
			}
			if err != nil {
				return nil, err
			}
			if j.probe, err = j.begin(b); err != nil {
				return nil, err
			}
		}
		out, done, err := j.probe.step()
		if err != nil {
			return nil, err
		}
		if done {
			j.probe = nil
		}
		if out != nil {
			return out, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	if out := j.unmatched(); out != nil {
		return out, nil
	}
	return nil, io.EOF
}

// build reads the right side.
func (j *join) build(ctx context.Context) error {
	b, err := newBuilder(j)
	if err != nil {
		return err
	}
	for {
		in, err := j.right.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := b.add(batch.Compact(in)); err != nil {
			return err
		}
		if err := j.mem.set(b.bytes()); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	if b.store.rows > math.MaxInt32 {
		return fault.Userf("JOIN: the right side has %d rows for one task, more than %d", b.store.rows, math.MaxInt32)
	}
	j.built, err = b.finish()
	return err
}

// unmatched returns the next of the built rows that no left row matched.
func (j *join) unmatched() *batch.Batch {
	if !j.keepsRight() {
		return nil
	}
	var at []int32
	for ; j.emitted < j.built.n && len(at) < batch.MaxRows; j.emitted++ {
		if !j.built.matched[j.emitted] {
			at = append(at, int32(j.emitted))
		}
	}
	if len(at) == 0 {
		return nil
	}
	out := &batch.Batch{Len: len(at), Columns: make([]arrow.Array, 0, len(j.fields))}
	for _, f := range j.left.Fields() {
		out.Columns = append(out.Columns, function.NullArray(f.Type, len(at)))
	}
	for _, c := range j.built.columns {
		out.Columns = append(out.Columns, batch.Gather(c, at))
	}
	return out
}
