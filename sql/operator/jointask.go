package operator

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/spill"
	"github.com/skepdb/skep/sql/function"
)

// joinPart is two sides to join: those of the join, or the rows of them with one hash.
type joinPart struct {
	left, right batch.Reader
	runs        []*spill.Run // that they read
	level       int          // how often they have been cut
}

// joinTask joins the sides of a part, of which the right one is built, whole or
// in blocks.
type joinTask struct {
	j     *join
	part  joinPart
	built *build
	probe *probe
	// Built in blocks: the left side is kept, and what is known of its rows so far.
	blocks bool
	last   bool         // this is the last block
	ahead  *batch.Batch // the first right rows of the next one
	tee    *spill.Writer
	kept   *spill.Run
	flags  []byte // by left row: isMatched, isUnknown
	base   int    // number of the batch's first row

	drained bool // the left side has ended
	emitted int  // of the built rows that nobody matched
}

const (
	isMatched = 1
	isUnknown = 2
)

// begin builds the right side of a part. If it had to be cut further, there is
// no task, but more parts.
func (j *join) begin(ctx context.Context, part joinPart) (*joinTask, error) {
	t := &joinTask{j: j, part: part}
	b, err := t.build(ctx, nil)
	if err != nil || t.built != nil {
		return t, err
	}
	return nil, t.cut(ctx, b)
}

// build reads the right side, after the rows in ahead. It ends with t.built, or, if
// the rest should be cut by hash, with what it has read.
func (t *joinTask) build(ctx context.Context, ahead *batch.Batch) (*builder, error) {
	j := t.j
	b, err := newBuilder(j)
	if err != nil {
		return nil, err
	}
	for {
		in := ahead
		if ahead = nil; in == nil {
			if in, err = t.part.right.Next(ctx); errors.Is(err, io.EOF) {
				t.last = true
				break
			}
			if err != nil {
				return nil, err
			}
		}
		if b.store.rows+in.Rows() > math.MaxInt32/2 || !j.mem.hold(b.bytes()+int64(len(t.flags))) && b.store.rows > 0 {
			if !t.blocks && !b.keysOnly && j.partitionable() > 0 && t.part.level <= deepest {
				return b, b.add(batch.Compact(in))
			}
			t.blocks, t.ahead = true, in
			break
		}
		if err := b.add(batch.Compact(in)); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	t.built, err = b.finish()
	t.emitted, t.drained, t.base = 0, false, 0
	return nil, err
}

// cut scatters both sides by a hash of the keys.
func (t *joinTask) cut(ctx context.Context, b *builder) error {
	j := t.j
	k := j.partitionable()
	piece := j.mem.b.pieces(b.store.bytes, b.store.rows)
	space := j.mem.b.spills()
	right := newScatter(space, j.right.Fields(), 0, t.part.level, piece)
	right.hash.keys = j.rightKeys[:k]
	total := int64(b.store.rows)
	for _, in := range b.store.batches {
		if err := right.add(in); err != nil {
			return err
		}
	}
	*b = builder{}
	more, err := scatterAll(ctx, right, t.part.right)
	if err != nil {
		return err
	}
	total += more
	j.mem.hold(0)
	left := newScatter(space, j.left.Fields(), 0, t.part.level, piece)
	left.hash.keys = j.leftKeys[:k]
	if _, err := scatterAll(ctx, left, t.part.left); err != nil {
		return err
	}
	if err := t.remove(); err != nil {
		return err
	}
	rights, err := right.finish()
	if err != nil {
		return err
	}
	lefts, err := left.finish()
	if err != nil {
		return err
	}
	for p := range rights {
		l, r := lefts[p], rights[p]
		if l == nil && (r == nil || !j.keepsRight()) || r == nil && j.needsMatch() {
			for _, x := range []*spill.Run{l, r} {
				if x != nil {
					if err := x.Remove(); err != nil {
						return err
					}
				}
			}
			continue
		}
		part := joinPart{left: none{j.left}, right: none{j.right}, level: t.part.level + 1}
		if l != nil {
			part.left, part.runs = l.Open(), append(part.runs, l)
		}
		if r != nil {
			part.right, part.runs = r.Open(), append(part.runs, r)
			if r.Rows > total-total/fanIn { // one key has nearly all rows: cutting doesn't help
				part.level = deepest + 1
			}
		}
		j.parts = append(j.parts, part)
	}
	return nil
}

// none is a side without rows.
type none struct{ batch.Reader }

func (none) Next(context.Context) (*batch.Batch, error) { return nil, io.EOF }

// scatterAll scatters all rows of in and returns their number.
func scatterAll(ctx context.Context, s *scatter, in batch.Reader) (int64, error) {
	n := int64(0)
	for {
		b, err := in.Next(ctx)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		n += int64(b.Rows())
		if err := s.add(batch.Compact(b)); err != nil {
			return n, err
		}
	}
}

// next returns the next output, or nil, and whether the part is done.
func (t *joinTask) next(ctx context.Context) (*batch.Batch, bool, error) {
	if !t.drained {
		if t.probe == nil {
			if t.built.n == 0 && t.j.needsMatch() {
				t.drained = true // nothing can match, so no need to read the left side
				return nil, false, nil
			}
			return nil, false, t.read(ctx)
		}
		out, done, err := t.probe.step()
		if err != nil {
			return nil, false, err
		}
		if done {
			t.probe.keep()
			t.base += t.probe.n
			t.probe = nil
		}
		return out, false, nil
	}
	if out := t.unmatched(); out != nil {
		return out, false, nil
	}
	if t.last {
		return nil, true, nil
	}
	t.built = nil
	_, err := t.build(ctx, t.ahead)
	return nil, false, err
}

// read takes up the next batch of the left side.
func (t *joinTask) read(ctx context.Context) error {
	b, err := t.part.left.Next(ctx)
	if errors.Is(err, io.EOF) {
		t.drained = true
		return t.rewind()
	}
	if err != nil {
		return err
	}
	if t.blocks && t.kept == nil {
		if t.tee == nil {
			if t.tee, err = t.j.mem.b.spills().Create(t.j.left.Fields()); err != nil {
				return err
			}
		}
		b = batch.Compact(b)
		if err := t.tee.Write(b); err != nil {
			return err
		}
		t.flags = append(t.flags, make([]byte, b.Len)...)
	}
	t.probe, err = t.newProbe(b)
	return err
}

// rewind makes the left side begin again for the next block.
func (t *joinTask) rewind() error {
	if !t.blocks {
		return nil
	}
	if t.kept == nil {
		if t.tee == nil {
			t.part.left = none{t.j.left}
			return nil
		}
		var err error
		if t.kept, err = t.tee.Finish(); err != nil {
			return err
		}
		t.part.runs = append(t.part.runs, t.kept)
	}
	t.part.left = t.kept.Open()
	return nil
}

// remove frees what the part has on disk.
func (t *joinTask) remove() error {
	var errs []error
	for _, r := range t.part.runs {
		errs = append(errs, r.Remove())
	}
	t.part.runs = nil
	return errors.Join(errs...)
}

// unmatched returns the next of the built rows that no left row matched.
func (t *joinTask) unmatched() *batch.Batch {
	j := t.j
	if !j.keepsRight() {
		return nil
	}
	var at []int32
	for ; t.emitted < t.built.n && len(at) < batch.MaxRows; t.emitted++ {
		if !t.built.matched[t.emitted] {
			at = append(at, int32(t.emitted))
		}
	}
	if len(at) == 0 {
		return nil
	}
	out := &batch.Batch{Len: len(at), Columns: make([]arrow.Array, 0, len(j.fields))}
	for _, f := range j.left.Fields() {
		if j.need != nil && !j.need[len(out.Columns)] {
			out.Columns = append(out.Columns, array.NewNull(len(at)))
			continue
		}
		out.Columns = append(out.Columns, function.NullArray(f.Type, len(at)))
	}
	for _, c := range t.built.columns {
		out.Columns = append(out.Columns, j.column(len(out.Columns), c, at))
	}
	return out
}
