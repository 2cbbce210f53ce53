package operator

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// newWindowCall binds a call of a window or aggregate function.
func newWindowCall(c *compiler, call *plan.WindowCall, n *plan.Window, input []schema.Field) (windowCall, error) {
	args := func(types []schema.Type) ([]compiled, error) {
		if len(types) != len(call.Args) {
			return nil, fault.Bugf("%d arguments in the plan, %d in the signature", len(call.Args), len(types))
		}
		out := make([]compiled, len(types))
		for i, e := range call.Args {
			if !e.Type().Equal(types[i]) {
				e = &plan.Cast{Arg: e, T: types[i]}
			}
			var err error
			if out[i], err = c.compile(e, input); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	bound := call.Bound
	if bound == nil {
		for _, e := range call.Args {
			bound = append(bound, e.Type())
		}
	}
	if f, ok := rankings[call.Name]; ok {
		if call.Name == "ntile" && len(call.Args) == 1 {
			x, err := args([]schema.Type{schema.BigIntType})
			if err != nil {
				return nil, err
			}
			return &ntile{call.T, x[0]}, nil
		}
		return &ranking{call.T, f}, nil
	}
	switch call.Name {
	case "lead", "lag", "first_value", "last_value", "nth_value":
		s, err := c.registry.ResolveWindow(call.Name, bound)
		if err != nil {
			return nil, err
		}
		x, err := args(s.Args)
		if err != nil {
			return nil, err
		}
		if len(x) == 0 {
			return nil, fault.Bugf("no arguments")
		}
		if call.Name == "lead" || call.Name == "lag" {
			return &shift{back: call.Name == "lag", args: x, ignoreNulls: call.IgnoreNulls}, nil
		}
		return &pickValue{name: call.Name, args: x, frame: call.Frame, ignoreNulls: call.IgnoreNulls}, nil
	}
	s, err := c.registry.ResolveAggregate(call.Name, bound, call.Distinct)
	if err != nil {
		return nil, err
	}
	x, err := args(s.Args)
	if err != nil {
		return nil, err
	}
	return &windowAggregate{signature: s, args: x, distinct: call.Distinct, frame: call.Frame, name: call.Name}, nil
}

// rankings are the functions of a row's place alone. They give a whole number, or,
// as percent_rank and cume_dist, a share.
var rankings = map[string]func(p *partitions, i int) (whole int64, share float64){
	"row_number": func(p *partitions, i int) (int64, float64) { return int64(i) - int64(p.start(i)) + 1, 0 },
	"rank":       func(p *partitions, i int) (int64, float64) { return int64(p.peerStart(i)-p.start(i)) + 1, 0 },
	"dense_rank": func(p *partitions, i int) (int64, float64) {
		return int64(p.peerOf[i]-p.peerOf[p.start(i)]) + 1, 0
	},
	"percent_rank": func(p *partitions, i int) (int64, float64) {
		n := p.end(i) - p.start(i)
		if n == 1 {
			return 0, 0
		}
		return 0, float64(p.peerStart(i)-p.start(i)) / float64(n-1)
	},
	"cume_dist": func(p *partitions, i int) (int64, float64) {
		return 0, float64(p.peerEnd(i)-p.start(i)) / float64(p.end(i)-p.start(i))
	},
	"ntile": nil,
}

type ranking struct {
	t schema.Type
	f func(p *partitions, i int) (int64, float64)
}

func (r *ranking) compute(p *partitions) (arrow.Array, error) {
	whole, share := make([]int64, p.n), make([]float64, p.n)
	for i := range p.n {
		whole[i], share[i] = r.f(p, i)
	}
	if r.t.Kind == schema.Double {
		return batch.NewFixed(r.t.Arrow(), share, nil), nil
	}
	return wholeNumbers(r.t, whole, nil)
}

// wholeNumbers makes an array of an integer type.
func wholeNumbers(t schema.Type, v []int64, valid []byte) (arrow.Array, error) {
	switch t.Kind {
	case schema.BigInt:
		return batch.NewFixed(t.Arrow(), v, valid), nil
	case schema.Int:
		out := make([]int32, len(v))
		for i, x := range v {
			out[i] = int32(x)
		}
		return batch.NewFixed(t.Arrow(), out, valid), nil
	}
	return nil, fault.Bugf("a ranking of type %s", t)
}

// ntile deals the rows of a partition into buckets, the first ones one larger.
type ntile struct {
	t       schema.Type
	buckets compiled
}

func (n *ntile) compute(p *partitions) (arrow.Array, error) {
	v, err := n.buckets.eval(rows{p.columns, p.n})
	if err != nil {
		return nil, err
	}
	a := materialise(v, p.n)
	buckets, valid := batch.Values[int64](a), batch.Validity(a)
	out := make([]int64, p.n)
	for k := range p.count {
		from, end := p.bounds[k], p.bounds[k+1]
		b := buckets[from]
		if valid != nil && !batch.BitSet(valid, int(from)) || b <= 0 {
			return nil, fault.Userf("ntile needs a number of buckets above 0")
		}
		size, larger := int64(end-from)/b, int64(end-from)%b
		for i := range int64(end - from) {
			if i < larger*(size+1) {
				out[int64(from)+i] = i/(size+1) + 1
			} else {
				out[int64(from)+i] = larger + (i-larger*(size+1))/size + 1
			}
		}
	}
	return wholeNumbers(n.t, out, nil)
}

// shift is lead and lag: the value so many rows on or back, else the default.
type shift struct {
	back, ignoreNulls bool
	args              []compiled // value, distance, default
}

func (s *shift) compute(p *partitions) (arrow.Array, error) {
	vs, err := evalAll(s.args, rows{p.columns, p.n})
	if err != nil {
		return nil, err
	}
	values := materialise(vs[0], p.n)
	distance := int64(1)
	if len(vs) > 1 {
		if n := vs[1].Array; n.Len() > 0 && n.NullN() == 0 && n.DataType().ID() != arrow.NULL {
			distance = integers64(n)[0]
		}
	}
	if distance < 0 {
		return nil, fault.Userf("lead and lag need a distance from 0 on, not %d", distance)
	}
	at := make([]int32, p.n)
	if s.ignoreNulls {
		s.overNulls(p, values, distance, at)
	} else {
		step := distance
		if s.back {
			step = -step
		}
		for i := range at {
			at[i] = -1
			if to := int64(i) + step; to >= int64(p.start(i)) && to < int64(p.end(i)) {
				at[i] = int32(to)
			}
		}
	}
	if len(vs) < 3 {
		return batch.Gather(values, at), nil
	}
	for i, k := range at {
		if k < 0 {
			at[i] = int32(p.n + i)
		}
	}
	return batch.Gather(batch.Concat([]arrow.Array{values, typed(materialise(vs[2], p.n), s.args[0].t)}), at), nil
}

// typed returns a, or NULLs of type t if it has none.
func typed(a arrow.Array, t schema.Type) arrow.Array {
	if a.DataType().ID() == arrow.NULL && t.Kind != schema.Void {
		return function.NullArray(t, a.Len())
	}
	return a
}

// overNulls finds the rows that many values on or back, not counting NULLs.
func (s *shift) overNulls(p *partitions, values arrow.Array, distance int64, at []int32) {
	full := fullRows(values)
	before := int32(0) // number of full rows before row i
	for i := range at {
		at[i] = -1
		self := int(before) < len(full) && full[before] == int32(i)
		k := int64(before)
		switch {
		case distance == 0:
			k = -1
			if self {
				k = int64(before)
			}
		case s.back:
			k -= distance
		case self:
			k += distance
		default:
			k += distance - 1
		}
		if k >= 0 && k < int64(len(full)) && full[k] >= p.start(i) && full[k] < p.end(i) {
			at[i] = full[k]
		}
		if self {
			before++
		}
	}
}

// fullRows lists the rows that aren't NULL.
func fullRows(a arrow.Array) []int32 {
	valid := batch.Validity(a)
	out := make([]int32, 0, a.Len())
	for i := range a.Len() {
		if valid == nil || batch.BitSet(valid, i) {
			out = append(out, int32(i))
		}
	}
	return out
}

// pickValue is first_value, last_value and nth_value of a frame.
type pickValue struct {
	name        string
	args        []compiled // value; the number of nth_value, or whether to ignore NULLs
	frame       plan.Frame
	ignoreNulls bool
}

func (v *pickValue) compute(p *partitions) (arrow.Array, error) {
	vs, err := evalAll(v.args, rows{p.columns, p.n})
	if err != nil {
		return nil, err
	}
	f, err := p.frames(v.frame)
	if err != nil {
		return nil, err
	}
	values := materialise(vs[0], p.n)
	nth, ignore := int64(1), v.ignoreNulls
	if len(vs) > 1 {
		switch a := vs[1].Array; {
		case a.Len() == 0 || a.NullN() > 0 || a.DataType().ID() == arrow.NULL:
		case a.DataType().ID() == arrow.BOOL:
			ignore = ignore || batch.BitSet(batch.Bits(a), 0)
		default:
			nth = integers64(a)[0]
		}
	}
	if nth < 1 {
		return nil, fault.Userf("nth_value needs a number from 1 on, not %d", nth)
	}
	at := make([]int32, p.n)
	// Among the rows to look at, list[first:] is the frame.
	list, index := []int32(nil), []int32(nil)
	if ignore && values.NullN() > 0 {
		list = fullRows(values)
		index = make([]int32, p.n+1) // number of them before row i
		for _, i := range list {
			index[i+1]++
		}
		for i := range p.n {
			index[i+1] += index[i]
		}
	}
	for i := range at {
		lo, hi := f.lo[i], f.hi[i]
		if index != nil {
			lo, hi = index[lo], index[hi]
		}
		k := int64(lo) + nth - 1
		if v.name == "last_value" {
			k = int64(hi) - 1
		}
		switch {
		case k < int64(lo) || k >= int64(hi):
			at[i] = -1
		case list != nil:
			at[i] = list[k]
		default:
			at[i] = int32(k)
		}
	}
	return batch.Gather(values, at), nil
}
