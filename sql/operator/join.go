package operator

import (
	"context"
	"errors"
	"io"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// join is a hash join of any kind: the right side is built, the left one probes
// in its order; the matches of a row come in the order of the right side. Without
// keys every right row is a candidate of every left row.
//
// A right side that doesn't fit in memory is cut by a hash of the keys, and so is the left
// one: a Grace join. Where that doesn't help, because there are no keys or all rows
// have one, it is built in blocks, and the left side read once for each: a block nested
// loop.
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

	parts []joinPart // what is still to do
	task  *joinTask  // what is being done
}

func newJoin(c *compiler, n *plan.Join, left, right batch.Reader, b *budget) (*join, error) {
	j := &join{left: left, right: right, fields: n.Fields(), kind: n.Kind, nullAware: n.NullAware, mem: account{b: b, operator: "JOIN"}}
	j.parts = []joinPart{{left: left, right: right}}
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
	for {
		if j.task == nil {
			last := len(j.parts) - 1
			if last < 0 {
				j.mem.hold(0)
				return nil, io.EOF
			}
			part := j.parts[last]
			j.parts = j.parts[:last]
			var err error
			if j.task, err = j.begin(ctx, part); err != nil {
				return nil, err
			}
			continue
		}
		out, done, err := j.task.next(ctx)
		if err != nil {
			return nil, err
		}
		if done {
			if err := j.task.remove(); err != nil {
				return nil, err
			}
			j.task = nil
		}
		if out != nil {
			return out, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// partitionable is the number of keys by whose hash both sides can be cut.
func (j *join) partitionable() int {
	if j.nullAware {
		return len(j.rightKeys) - 1
	}
	return len(j.rightKeys)
}
