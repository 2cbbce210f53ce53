package operator

import (
	"math"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

func wideValues(a arrow.Array) []decimal128.Num { return batch.Values[decimal128.Num](a) }

func bits64(t schema.Type, a arrow.Array) []uint64 {
	return function.Bits64(t, a, make([]uint64, 0, a.Len()))
}

// frames are the rows [lo[i], hi[i]) that row i looks at; lo <= hi, both within
// its partition.
type frames struct{ lo, hi []int32 }

func (p *partitions) frames(f plan.Frame) (frames, error) {
	out := frames{make([]int32, p.n), make([]int32, p.n)}
	if err := p.bound(out.lo, f.Start, f.Range, true); err != nil {
		return out, err
	}
	if err := p.bound(out.hi, f.End, f.Range, false); err != nil {
		return out, err
	}
	for i, lo := range out.lo {
		out.hi[i] = max(lo, out.hi[i])
	}
	return out, nil
}

// bound fills in one end of the frames: the first row, or the one after the last.
func (p *partitions) bound(out []int32, b plan.Bound, byValue, first bool) error {
	switch b.Kind {
	case plan.UnboundedPreceding:
		for i := range out {
			out[i] = p.start(i)
		}
		return nil
	case plan.UnboundedFollowing:
		for i := range out {
			out[i] = p.end(i)
		}
		return nil
	case plan.CurrentRow:
		for i := range out {
			switch {
			case !byValue && first:
				out[i] = int32(i)
			case !byValue:
				out[i] = int32(i) + 1
			case first:
				out[i] = p.peerStart(i)
			default:
				out[i] = p.peerEnd(i)
			}
		}
		return nil
	}
	if b.N == nil || b.N.Value.Null {
		return fault.Userf("a frame needs a number of rows or a distance that isn't NULL")
	}
	if byValue {
		return p.valueBound(out, b, first)
	}
	if !b.N.Value.Type.IsInteger() || b.N.Value.I < 0 {
		return fault.Userf("ROWS %s: a frame's number of rows is a whole number from 0 on", b.N)
	}
	n := min(b.N.Value.I, math.MaxInt32)
	if b.Kind == plan.Preceding {
		n = -n
	}
	if !first {
		n++
	}
	for i := range out {
		out[i] = int32(min(max(int64(i)+n, int64(p.start(i))), int64(p.end(i))))
	}
	return nil
}

// valueBound finds the ends of RANGE frames with a distance. Rows whose key is NULL
// have only their peers within any distance.
func (p *partitions) valueBound(out []int32, b plan.Bound, first bool) error {
	if len(p.keys) != 1 {
		return fault.Userf("RANGE with a distance needs exactly one ORDER BY key, not %d", len(p.keys))
	}
	key, t := p.keys[0], p.order[0].Expr.Type()
	after := b.Kind == plan.Following
	if p.order[0].Desc { // the order runs from large to small
		after = !after
	}
	switch t.Kind {
	case schema.Float, schema.Double:
		d, ok := toFloat(b.N.Value)
		if !ok || d < 0 {
			return badDistance(b, t)
		}
		if !after {
			d = -d
		}
		x := floats(key)
		to := make([]float64, p.n)
		for i, v := range x {
			to[i] = v + d
		}
		search(p, key, x, to, schema.CompareFloat, first, out)
		return nil
	case schema.String, schema.Char, schema.Varchar: // Hive knows no distance of texts but none
		return p.bound(out, plan.Bound{Kind: plan.CurrentRow}, true, first)
	}
	x, to, ok := positions128(key, t, b.N.Value, after)
	if !ok {
		return badDistance(b, t)
	}
	search(p, key, x, to, func(a, b decimal128.Num) int { return a.Cmp(b) }, first, out)
	return nil
}

func badDistance(b plan.Bound, t schema.Type) error {
	return fault.Userf("RANGE %s: not a distance between values of type %s", b.N, t)
}

// search finds, for each row with a target, the first row of its partition that is
// not before it in the order, or, for the end of a frame, that is after it. Both
// ends move forward only while targets do, which they do in the order of the rows.
func search[T any](p *partitions, key arrow.Array, x, to []T, compare func(a, b T) int, first bool, out []int32) {
	valid := batch.Validity(key)
	desc := p.order[0].Desc
	for k := range p.count {
		from, end := p.bounds[k], p.bounds[k+1]
		// NULLs lie together at one end.
		lo, hi := from, end
		for lo < hi && valid != nil && !batch.BitSet(valid, int(lo)) {
			out[lo] = p.nullBound(int(lo), first)
			lo++
		}
		for lo < hi && valid != nil && !batch.BitSet(valid, int(hi-1)) {
			hi--
			out[hi] = p.nullBound(int(hi), first)
		}
		at := lo
		for i := lo; i < hi; i++ {
			for at < hi {
				c := compare(x[at], to[i])
				if desc {
					c = -c
				}
				if c > 0 || c == 0 && first {
					break
				}
				at++
			}
			out[i] = at
		}
	}
}

func (p *partitions) nullBound(i int, first bool) int32 {
	if first {
		return p.peerStart(i)
	}
	return p.peerEnd(i)
}

func floats(a arrow.Array) []float64 {
	if a.DataType().ID() == arrow.FLOAT32 {
		v := batch.Values[float32](a)
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
		return out
	}
	return batch.Values[float64](a)
}

func toFloat(d schema.Datum) (float64, bool) {
	switch {
	case d.Type.IsInteger():
		return float64(d.I), true
	case d.Type.Kind == schema.Float || d.Type.Kind == schema.Double:
		return d.F, d.F == d.F
	case d.Type.Kind == schema.Decimal:
		return d.D.ToFloat64(int32(d.Type.Scale)), true
	}
	return 0, false
}

const (
	nanosecond = 1
	second     = 1_000_000_000 * nanosecond
	day        = 24 * 60 * 60 * second
)

// positions128 places keys on a line of 128-bit numbers and gives for each the
// place at a distance from it.
func positions128(key arrow.Array, t schema.Type, d schema.Datum, after bool) (x, to []decimal128.Num, ok bool) {
	n := key.Len()
	x = make([]decimal128.Num, n)
	var distance decimal128.Num
	switch {
	case t.IsInteger() && d.Type.IsInteger():
		for i, v := range integers64(key) {
			x[i] = decimal128.FromI64(v)
		}
		distance = decimal128.FromI64(d.I)
	case t.IsInteger() && d.Type.Kind == schema.Decimal, t.Kind == schema.Decimal && (d.Type.Kind == schema.Decimal || d.Type.IsInteger()):
		scale := max(int(t.Scale), int(d.Type.Scale))
		if t.IsInteger() {
			for i, v := range integers64(key) {
				x[i] = decimal128.FromI64(v)
			}
		} else {
			copy(x, wideValues(key))
		}
		if up := scale - int(t.Scale); up > 0 {
			for i := range x {
				x[i] = x[i].IncreaseScaleBy(int32(up))
			}
		}
		distance = d.D
		if d.Type.IsInteger() {
			distance = decimal128.FromI64(d.I)
		}
		distance = distance.IncreaseScaleBy(int32(scale - int(d.Type.Scale)))
	case t.Kind == schema.Date, t.Kind == schema.Timestamp, t.Kind == schema.TimestampTZ:
		if t.Kind == schema.Date {
			for i, v := range batch.Values[int32](key) {
				x[i] = decimal128.FromI64(int64(v)).Mul(decimal128.FromI64(day))
			}
		} else {
			copy(x, wideValues(key))
		}
		switch {
		case d.Type.Kind == schema.IntervalYearMonth:
			return x, addMonths(x, d.I, after), d.I >= 0
		case d.Type.Kind == schema.IntervalDayTime:
			distance = d.D
		case d.Type.IsInteger() && t.Kind == schema.Date: // as Hive: days
			distance = decimal128.FromI64(d.I).Mul(decimal128.FromI64(day))
		case d.Type.IsInteger(): // as Hive: seconds
			distance = decimal128.FromI64(d.I).Mul(decimal128.FromI64(second))
		default:
			return nil, nil, false
		}
	default:
		return nil, nil, false
	}
	if distance.Sign() < 0 {
		return nil, nil, false
	}
	if !after {
		distance = distance.Negate()
	}
	to = make([]decimal128.Num, n)
	for i, v := range x {
		to[i] = v.Add(distance)
	}
	return x, to, true
}

func integers64(a arrow.Array) []int64 {
	switch a.DataType().ID() {
	case arrow.INT8:
		return widened(batch.Values[int8](a))
	case arrow.INT16:
		return widened(batch.Values[int16](a))
	case arrow.INT32, arrow.DATE32:
		return widened(batch.Values[int32](a))
	}
	return batch.Values[int64](a)
}

func widened[T int8 | int16 | int32](v []T) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// addMonths moves instants, counts of nanoseconds, by months; days that a month
// hasn't become its last one.
func addMonths(x []decimal128.Num, months int64, after bool) []decimal128.Num {
	if !after {
		months = -months
	}
	out := make([]decimal128.Num, len(x))
	for i, v := range x {
		days, rest := v.Div(decimal128.FromI64(day))
		if rest.Sign() < 0 {
			days, rest = days.Sub(decimal128.FromI64(1)), rest.Add(decimal128.FromI64(day))
		}
		t := time.Unix(0, 0).UTC().AddDate(0, 0, int(int64(days.LowBits())))
		y, m, d := t.Date()
		first := time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).AddDate(0, int(months), 0)
		last := first.AddDate(0, 1, -1).Day()
		at := first.AddDate(0, 0, min(d, last)-1).Unix() / (24 * 60 * 60)
		out[i] = decimal128.FromI64(at).Mul(decimal128.FromI64(day)).Add(rest)
	}
	return out
}

// whole reports whether all frames are the rows' whole partitions.
func (f *frames) whole(p *partitions) bool {
	for k := range p.count {
		from, end := p.bounds[k], p.bounds[k+1]
		for i := from; i < end; i++ {
			if f.lo[i] != from || f.hi[i] != end {
				return false
			}
		}
	}
	return true
}

// running reports whether all frames begin with their partition.
func (f *frames) running(p *partitions) bool {
	for i, lo := range f.lo {
		if lo != p.start(i) {
			return false
		}
	}
	return slices.IsSorted(f.hi)
}

// pairs is the number of rows in all frames.
func (f *frames) pairs() int64 {
	n := int64(0)
	for i, lo := range f.lo {
		n += int64(f.hi[i] - lo)
	}
	return n
}
