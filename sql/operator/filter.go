package operator

import (
	"context"
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// filter narrows the selection of its input's batches. The parts of a
// conjunction run one after the other, each on what the earlier ones left.
type filter struct {
	input batch.Reader
	conds []compiled
}

func newFilter(c *compiler, n *plan.Filter, input batch.Reader) (*filter, error) {
	conds, err := c.conditions(n.Cond, input.Fields())
	if err != nil {
		return nil, err
	}
	return &filter{input: input, conds: conds}, nil
}

// conditions compiles the parts of a conjunction.
func (c *compiler) conditions(e plan.Expr, input []schema.Field) ([]compiled, error) {
	if call, ok := e.(*plan.Call); ok && call.Name == "and" {
		var out []compiled
		for _, a := range call.Args {
			part, err := c.conditions(a, input)
			if err != nil {
				return nil, err
			}
			out = append(out, part...)
		}
		return out, nil
	}
	if k := e.Type().Kind; k != schema.Boolean && k != schema.Void {
		return nil, fault.Bugf("condition %s is %s", e, e.Type())
	}
	x, err := c.compile(e, input)
	return []compiled{x}, err
}

func (f *filter) Fields() []schema.Field { return f.input.Fields() }
func (f *filter) Close() error           { return f.input.Close() }

func (f *filter) Next(ctx context.Context) (*batch.Batch, error) {
	for {
		b, err := f.input.Next(ctx)
		if err != nil {
			return nil, err
		}
		sel, all, err := narrow(f.conds, b)
		if err != nil {
			return nil, err
		}
		if all {
			return b, nil
		}
		if len(sel) > 0 {
			return &batch.Batch{Columns: b.Columns, Len: b.Len, Sel: sel}, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// sparse is the share (one in so many) of selected rows below which gathering
// them costs less than computing rows that nobody wants.
const sparse = 4

// narrow returns the rows of b for which all conditions are true; all means
// every one, and sel is b's own then.
func narrow(conds []compiled, b *batch.Batch) (sel []int32, all bool, err error) {
	sel = b.Sel
	for i := range conds {
		if sel != nil && len(sel) == 0 {
			break
		}
		if sel, err = narrowOne(&conds[i], b, sel); err != nil {
			return nil, false, err
		}
	}
	if sel == nil || b.Sel != nil && len(sel) == len(b.Sel) {
		return b.Sel, true, nil
	}
	return sel, false, nil
}

// narrowOne returns the part of sel (nil: all rows) for which cond is true; nil
// again when sel is nil and all are.
func narrowOne(cond *compiled, b *batch.Batch, sel []int32) ([]int32, error) {
	if sel != nil && (cond.volatile || len(sel)*sparse < b.Len) {
		r := pick(b.Columns, sel, []compiled{*cond})
		hits, err := trueRows(cond, r)
		if err != nil || hits == nil {
			return sel, err
		}
		out := make([]int32, len(hits))
		for k, i := range hits {
			out[k] = sel[i]
		}
		return out, nil
	}
	r := rows{b.Columns, b.Len}
	if sel == nil {
		return trueRows(cond, r)
	}
	v, lut, err := cond.truth(r)
	if err != nil {
		return nil, err
	}
	if lut != nil {
		return lutSel(lut, v.Array, sel), nil
	}
	if v.Const {
		if isTrue(v) {
			return sel, nil
		}
		return []int32{}, nil
	}
	t := trueBits(v, r.n)
	out := make([]int32, 0, len(sel))
	for _, i := range sel {
		if batch.BitSet(t, int(i)) {
			out = append(out, i)
		}
	}
	return out, nil
}

// trueRows returns the rows of r for which cond is true, nil for all.
func trueRows(cond *compiled, r rows) ([]int32, error) {
	v, lut, err := cond.truth(r)
	if err != nil {
		return nil, err
	}
	var out []int32
	switch {
	case lut != nil:
		out = lutRows(lut, v.Array)
	case !v.Const:
		out = appendTrue(make([]int32, 0, 64), v, r.n)
	case isTrue(v):
		return nil, nil
	default:
		return []int32{}, nil
	}
	if len(out) == r.n {
		return nil, nil
	}
	return out, nil
}

// truth computes a condition. When it is a function of one dictionary-coded
// column, lut is its truth by code (NULL's last) and v is that column; else lut
// is nil and v the condition's values.
func (c *compiled) truth(r rows) (v function.Vector, lut []uint8, err error) {
	e, ok := c.expression.(*applyExpr)
	if !ok {
		v, err = c.eval(r)
		return v, nil, err
	}
	vs, viaDictionary, err := e.arguments(r)
	if err != nil {
		return v, nil, err
	}
	if !viaDictionary {
		v, err = e.kernel(e.c.context, r.n, vs)
		return v, nil, err
	}
	return vs[e.lone], e.perEntry.truth, nil
}

// lutRows returns the rows whose code is true in lut, without a branch on the
// outcome: a row is always written, and counts if it is true.
func lutRows(lut []uint8, a arrow.Array) []int32 {
	codes, valid := batch.Values[int32](a), batch.Validity(a)
	out := make([]int32, len(codes)+1)
	k := 0
	if valid == nil {
		for i, c := range codes {
			out[k] = int32(i)
			k += int(lut[c])
		}
		return out[:k]
	}
	null := int(lut[len(lut)-1])
	for i, c := range codes {
		out[k] = int32(i)
		if batch.BitSet(valid, i) {
			k += int(lut[c])
		} else {
			k += null
		}
	}
	return out[:k]
}

func lutSel(lut []uint8, a arrow.Array, sel []int32) []int32 {
	codes, valid := batch.Values[int32](a), batch.Validity(a)
	out := make([]int32, len(sel)+1)
	k := 0
	null := int(lut[len(lut)-1])
	for _, i := range sel {
		out[k] = i
		if valid == nil || batch.BitSet(valid, int(i)) {
			k += int(lut[codes[i]])
		} else {
			k += null
		}
	}
	return out[:k]
}

func isTrue(v function.Vector) bool {
	return v.Array.DataType().ID() == arrow.BOOL && v.Array.NullN() == 0 && batch.BitSet(batch.Bits(v.Array), 0)
}

// trueBits returns a bitmap of the rows that are true.
func trueBits(v function.Vector, n int) []byte {
	if v.Const {
		if isTrue(v) {
			return allOnes(n)
		}
		return make([]byte, (n+7)/8)
	}
	if v.Array.DataType().ID() != arrow.BOOL {
		return make([]byte, (n+7)/8)
	}
	t, valid := batch.Bits(v.Array), batch.Validity(v.Array)
	if valid == nil {
		return t
	}
	out := make([]byte, (n+7)/8)
	for i := range out {
		out[i] = t[i] & valid[i]
	}
	return out
}

// appendTrue appends the numbers of the rows that are true.
func appendTrue(dst []int32, v function.Vector, n int) []int32 {
	t := trueBits(v, n)
	i := 0
	for ; i+64 <= n; i += 64 {
		w := *(*uint64)(unsafe.Pointer(&t[i/8]))
		for w != 0 {
			dst = append(dst, int32(i+bits.TrailingZeros64(w)))
			w &= w - 1
		}
	}
	for ; i < n; i++ {
		if batch.BitSet(t, i) {
			dst = append(dst, int32(i))
		}
	}
	return dst
}
