package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func addAggregates(r *Registry) {
	r.addAggregate("count", func(args []schema.Type) (AggregateSignature, error) {
		t := []schema.Type{schema.BigIntType}
		return AggregateSignature{Args: args, Result: schema.BigIntType, State: t,
			New: func() Accumulator { return &counter{} }}, nil
	})
	r.addAggregate("sum", bindSum)
	r.addAggregate("$sum0", func(args []schema.Type) (AggregateSignature, error) {
		s, err := bindSum(args)
		if err != nil {
			return s, err
		}
		made, t := s.New, s.Result
		s.New = func() Accumulator { return &sumOrZero{made(), t} }
		return s, nil
	})
	r.addAggregate("avg", bindAvg)
	r.addAggregate("min", func(args []schema.Type) (AggregateSignature, error) { return bindExtreme(args, lt) })
	r.addAggregate("max", func(args []schema.Type) (AggregateSignature, error) { return bindExtreme(args, gt) })
	for names, f := range map[string]func(n int64, m2 float64) (float64, bool){
		"variance var_pop":      func(n int64, m2 float64) (float64, bool) { return m2 / float64(n), n > 0 },
		"var_samp":              func(n int64, m2 float64) (float64, bool) { return m2 / float64(n-1), n > 1 },
		"stddev stddev_pop std": func(n int64, m2 float64) (float64, bool) { return sqrt(m2 / float64(n)), n > 0 },
		"stddev_samp":           func(n int64, m2 float64) (float64, bool) { return sqrt(m2 / float64(n-1)), n > 1 },
	} {
		r.addAggregate(names, func(args []schema.Type) (AggregateSignature, error) {
			if err := arity(args, 1, 1); err != nil {
				return AggregateSignature{}, err
			}
			if err := summable(args); err != nil {
				return AggregateSignature{}, err
			}
			return AggregateSignature{Args: []schema.Type{schema.DoubleType}, Result: schema.DoubleType,
				State: []schema.Type{schema.BigIntType, schema.DoubleType, schema.DoubleType},
				New:   func() Accumulator { return &moments2{result: f} }}, nil
		})
	}
}

// grown returns s with at least n elements, new ones zero.
func grown[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n > cap(s) {
		next := make([]T, n, max(2*cap(s), n, 64))
		copy(next, s)
		return next
	}
	return s[:n]
}

// eachRow calls f for the rows to add whose value is not NULL.
func eachRow(groups, sel []int32, v Vector, n int, f func(g int32, i int)) {
	if v.isNull() || v.Array.DataType().ID() == arrow.NULL {
		return
	}
	var valid []byte
	if !v.Const {
		valid = batch.Validity(v.Array)
	}
	mask := v.mask()
	switch {
	case sel != nil:
		for k, i := range sel {
			if valid == nil || batch.BitSet(valid, int(i)) {
				f(groups[k], int(i)&mask)
			}
		}
	case valid != nil:
		for i, g := range groups[:n] {
			if batch.BitSet(valid, i) {
				f(g, i)
			}
		}
	default:
		for i, g := range groups[:n] {
			f(g, i&mask)
		}
	}
}

// eachState calls f for the groups of intermediate states whose first column
// is not NULL.
func eachState(groups []int32, state arrow.Array, f func(g int32, i int)) {
	eachRow(groups, nil, Vector{Array: state}, len(groups), f)
}

// seenValid returns the validity of groups [from, to) by their counts.
func seenValid(counts []int64, from, to int) []byte {
	return packBits(to-from, func(i int) bool { return counts[from+i] > 0 })
}

// counter is count: rows without arguments, else rows in which none is NULL.
type counter struct{ n []int64 }

func (a *counter) Grow(n int) { a.n = grown(a.n, n) }

func (a *counter) Update(groups, sel []int32, args []Vector, n int) error {
	k := n
	if sel != nil {
		k = len(sel)
	}
	valid, null := validity(n, args)
	switch {
	case null:
	case valid == nil:
		for _, g := range groups[:k] {
			a.n[g]++
		}
	case sel != nil:
		for k, i := range sel {
			a.n[groups[k]] += int64(valid[i>>3] >> (uint(i) & 7) & 1)
		}
	default:
		for i, g := range groups[:n] {
			a.n[g] += int64(valid[i>>3] >> (uint(i) & 7) & 1)
		}
	}
	return nil
}

func (a *counter) Merge(groups []int32, states []arrow.Array) error {
	for i, x := range batch.Values[int64](states[0]) {
		a.n[groups[i]] += x
	}
	return nil
}

func (a *counter) State(from, to int) []arrow.Array { return []arrow.Array{a.Result(from, to)} }

func (a *counter) Result(from, to int) arrow.Array {
	return batch.NewFixed(arrow.PrimitiveTypes.Int64, append([]int64(nil), a.n[from:to]...), nil)
}

func bindSum(args []schema.Type) (AggregateSignature, error) {
	if err := arity(args, 1, 1); err != nil {
		return AggregateSignature{}, err
	}
	if err := summable(args); err != nil {
		return AggregateSignature{}, err
	}
	switch t := args[0]; {
	case t.IsInteger():
		s := AggregateSignature{Args: []schema.Type{t}, Result: schema.BigIntType, State: []schema.Type{schema.BigIntType}}
		switch t.Kind { // read in its own width: no cast of a column
		case schema.TinyInt:
			s.New = func() Accumulator { return &sum[int8, int64]{dt: arrow.PrimitiveTypes.Int64} }
		case schema.SmallInt:
			s.New = func() Accumulator { return &sum[int16, int64]{dt: arrow.PrimitiveTypes.Int64} }
		case schema.Int:
			s.New = func() Accumulator { return &sum[int32, int64]{dt: arrow.PrimitiveTypes.Int64} }
		default:
			s.New = func() Accumulator { return &sum[int64, int64]{dt: arrow.PrimitiveTypes.Int64} }
		}
		return s, nil
	case t.Kind == schema.Decimal:
		r := schema.DecimalType(min(maxPrecision, t.Precision+10), t.Scale)
		return AggregateSignature{Args: []schema.Type{t}, Result: r, State: []schema.Type{r, schema.BigIntType},
			New: func() Accumulator { return &decimalSum{t: r} }}, nil
	case t.Kind == schema.Float:
		d := schema.DoubleType
		return AggregateSignature{Args: []schema.Type{t}, Result: d, State: []schema.Type{d},
			New: func() Accumulator { return &sum[float32, float64]{dt: arrow.PrimitiveTypes.Float64} }}, nil
	}
	d := schema.DoubleType
	return numbersOfText(args[0], AggregateSignature{Args: []schema.Type{d}, Result: d, State: []schema.Type{d},
		New: func() Accumulator { return &sum[float64, float64]{dt: arrow.PrimitiveTypes.Float64} }}), nil
}

func bindAvg(args []schema.Type) (AggregateSignature, error) {
	if err := arity(args, 1, 1); err != nil {
		return AggregateSignature{}, err
	}
	if err := summable(args); err != nil {
		return AggregateSignature{}, err
	}
	if t := args[0]; t.Kind == schema.Decimal {
		total := schema.DecimalType(min(maxPrecision, t.Precision+10), t.Scale)
		scale := min(maxScale, t.Scale+4)
		result := schema.DecimalType(min(maxPrecision, t.Precision-t.Scale+scale), scale)
		return AggregateSignature{Args: []schema.Type{t}, Result: result, State: []schema.Type{total, schema.BigIntType},
			New: func() Accumulator {
				return &decimalSum{t: total, avg: decimalDiv(total, schema.DecimalType(19, 0), result), avgType: result}
			}}, nil
	}
	d := schema.DoubleType
	return numbersOfText(args[0], AggregateSignature{Args: []schema.Type{d}, Result: d, State: []schema.Type{d, schema.BigIntType},
		New: func() Accumulator {
			return &sum[float64, float64]{dt: arrow.PrimitiveTypes.Float64, avg: true}
		}}), nil
}

// sum is sum and avg of machine numbers: integers wrap, as Java's do.
type sum[T int8 | int16 | int32 | int64 | float32 | float64, S int64 | float64] struct {
	dt    arrow.DataType
	total []S
	n     []int64
	avg   bool
}

func (a *sum[T, S]) Grow(n int) { a.total, a.n = grown(a.total, n), grown(a.n, n) }

func (a *sum[T, S]) Update(groups, sel []int32, args []Vector, n int) error {
	v := args[0]
	if v.isNull() {
		return nil
	}
	x := batch.Values[T](v.Array)
	if sel == nil && !v.Const && v.Array.NullN() == 0 {
		total, count := a.total, a.n
		groups = groups[:len(x)]
		for i, y := range x {
			g := groups[i]
			total[g] += S(y)
			count[g]++
		}
		return nil
	}
	eachRow(groups, sel, v, n, func(g int32, i int) {
		a.total[g] += S(x[i])
		a.n[g]++
	})
	return nil
}

func (a *sum[T, S]) Merge(groups []int32, states []arrow.Array) error {
	x := batch.Values[S](states[0])
	if a.avg {
		n := batch.Values[int64](states[1])
		for i, g := range groups {
			a.total[g] += x[i]
			a.n[g] += n[i]
		}
		return nil
	}
	eachState(groups, states[0], func(g int32, i int) {
		a.total[g] += x[i]
		a.n[g]++
	})
	return nil
}

func (a *sum[T, S]) State(from, to int) []arrow.Array {
	total := append([]S(nil), a.total[from:to]...)
	if a.avg {
		return []arrow.Array{batch.NewFixed(a.dt, total, nil),
			batch.NewFixed(arrow.PrimitiveTypes.Int64, append([]int64(nil), a.n[from:to]...), nil)}
	}
	return []arrow.Array{batch.NewFixed(a.dt, total, seenValid(a.n, from, to))}
}

func (a *sum[T, S]) Result(from, to int) arrow.Array {
	out := append([]S(nil), a.total[from:to]...)
	if a.avg {
		for i := range out {
			if n := a.n[from+i]; n > 0 {
				out[i] /= S(n)
			}
		}
	}
	return batch.NewFixed(a.dt, out, seenValid(a.n, from, to))
}

// decimalSum is sum and avg of decimals. A sum of more than 38 digits is NULL:
// its total in the state is NULL while its count is not 0.
type decimalSum struct {
	t        schema.Type
	avg      decimalOp
	avgType  schema.Type
	total    []num
	n        []int64
	overflow []bool
}

func (a *decimalSum) Grow(n int) {
	a.total, a.n, a.overflow = grown(a.total, n), grown(a.n, n), grown(a.overflow, n)
}

func (a *decimalSum) add(g int32, x num, n int64) {
	t := a.total[g].Add(x)
	a.total[g] = t
	a.n[g] += n
	if !is64(t) && !schema.FitsPrecision(t, maxPrecision) {
		a.overflow[g] = true
		a.total[g] = num{}
	}
}

func (a *decimalSum) Update(groups, sel []int32, args []Vector, n int) error {
	x := batch.Values[num](args[0].Array)
	if sel == nil && !args[0].Const && args[0].Array.NullN() == 0 && args[0].Array.DataType().ID() == arrow.DECIMAL128 {
		a.addAll(groups, x[:n])
		return nil
	}
	eachRow(groups, sel, args[0], n, func(g int32, i int) { a.add(g, x[i], 1) })
	return nil
}

func (a *decimalSum) Merge(groups []int32, states []arrow.Array) error {
	n := batch.Values[int64](states[1])
	x := batch.Values[num](states[0])
	valid := batch.Validity(states[0])
	for i, g := range groups {
		if valid != nil && !batch.BitSet(valid, i) {
			a.n[g] += n[i]
			a.overflow[g] = a.overflow[g] || n[i] > 0
			continue
		}
		a.add(g, x[i], n[i])
	}
	return nil
}

func (a *decimalSum) valid(from, to int) []byte {
	return packBits(to-from, func(i int) bool { return a.n[from+i] > 0 && !a.overflow[from+i] })
}

func (a *decimalSum) State(from, to int) []arrow.Array {
	return []arrow.Array{batch.NewFixed(a.t.Arrow(), append([]num(nil), a.total[from:to]...), a.valid(from, to)),
		batch.NewFixed(arrow.PrimitiveTypes.Int64, append([]int64(nil), a.n[from:to]...), nil)}
}

func (a *decimalSum) Result(from, to int) arrow.Array {
	out := append([]num(nil), a.total[from:to]...)
	m := nullable{n: to - from, valid: a.valid(from, to)}
	t := a.t
	if a.avg != nil {
		t = a.avgType
	}
	for i := range out {
		ok := batch.BitSet(m.valid, i)
		if ok && a.avg != nil {
			out[i], ok = a.avg(out[i], decimal128.FromI64(a.n[from+i]))
		} else if ok {
			ok = schema.FitsPrecision(out[i], int(t.Precision))
		}
		if !ok {
			m.clear(i)
		}
	}
	return batch.NewFixed(t.Arrow(), out, m.valid)
}

// moments2 keeps count, mean and the sum of squared differences from it:
// Welford's update, and Chan, Golub and LeVeque's merge ("Updating formulae and
// a pairwise algorithm for computing sample variances", 1979).
type moments2 struct {
	n      []int64
	mean   []float64
	m2     []float64
	result func(n int64, m2 float64) (float64, bool)
}

func (a *moments2) Grow(n int) { a.n, a.mean, a.m2 = grown(a.n, n), grown(a.mean, n), grown(a.m2, n) }

func (a *moments2) Update(groups, sel []int32, args []Vector, n int) error {
	x := batch.Values[float64](args[0].Array)
	eachRow(groups, sel, args[0], n, func(g int32, i int) {
		a.n[g]++
		d := x[i] - a.mean[g]
		a.mean[g] += d / float64(a.n[g])
		a.m2[g] += d * (x[i] - a.mean[g])
	})
	return nil
}

func (a *moments2) Merge(groups []int32, states []arrow.Array) error {
	n, mean, m2 := batch.Values[int64](states[0]), batch.Values[float64](states[1]), batch.Values[float64](states[2])
	for i, g := range groups {
		if n[i] == 0 {
			continue
		}
		total := a.n[g] + n[i]
		d := mean[i] - a.mean[g]
		a.mean[g] += d * float64(n[i]) / float64(total)
		a.m2[g] += m2[i] + d*d*float64(a.n[g])*float64(n[i])/float64(total)
		a.n[g] = total
	}
	return nil
}

func (a *moments2) State(from, to int) []arrow.Array {
	return []arrow.Array{batch.NewFixed(arrow.PrimitiveTypes.Int64, append([]int64(nil), a.n[from:to]...), nil),
		batch.NewFixed(arrow.PrimitiveTypes.Float64, append([]float64(nil), a.mean[from:to]...), nil),
		batch.NewFixed(arrow.PrimitiveTypes.Float64, append([]float64(nil), a.m2[from:to]...), nil)}
}

func (a *moments2) Result(from, to int) arrow.Array {
	out := make([]float64, to-from)
	m := nullable{n: to - from}
	for i := range out {
		var ok bool
		if out[i], ok = a.result(a.n[from+i], a.m2[from+i]); !ok {
			out[i] = 0
			m.clear(i)
		}
	}
	return batch.NewFixed(arrow.PrimitiveTypes.Float64, out, m.valid)
}

func bindExtreme(args []schema.Type, op comparison) (AggregateSignature, error) {
	if err := arity(args, 1, 1); err != nil {
		return AggregateSignature{}, err
	}
	t := args[0]
	if t.Kind == schema.Void {
		t = schema.StringType
	}
	s := AggregateSignature{Args: []schema.Type{t}, Result: t, State: []schema.Type{t}}
	dt := t.Arrow()
	switch {
	case isBytes(t):
		s.New = func() Accumulator { return &textExtreme{t: t, op: op} }
	case t.Kind == schema.Boolean:
		s.New = func() Accumulator {
			return &boolExtreme{extreme[int8]{op: op, dt: arrow.PrimitiveTypes.Int8, compare: compareOf[int8]}}
		}
	case t.Kind == schema.TinyInt:
		s.New = func() Accumulator { return &extreme[int8]{op: op, dt: dt, compare: compareOf[int8]} }
	case t.Kind == schema.SmallInt:
		s.New = func() Accumulator { return &extreme[int16]{op: op, dt: dt, compare: compareOf[int16]} }
	case t.Kind == schema.Int, t.Kind == schema.Date, t.Kind == schema.IntervalYearMonth:
		s.New = func() Accumulator { return &extreme[int32]{op: op, dt: dt, compare: compareOf[int32]} }
	case t.Kind == schema.BigInt:
		s.New = func() Accumulator { return &extreme[int64]{op: op, dt: dt, compare: compareOf[int64]} }
	case t.Kind == schema.Float:
		s.New = func() Accumulator { return &extreme[float32]{op: op, dt: dt, compare: compareOf[float32]} }
	case t.Kind == schema.Double:
		s.New = func() Accumulator { return &extreme[float64]{op: op, dt: dt, compare: compareOf[float64]} }
	case is128(t):
		s.New = func() Accumulator { return &extreme[num]{op: op, dt: dt, compare: compare128} }
	case t.IsNested() && ordered(t):
		s.New = func() Accumulator { return &nestedExtreme{t: t, op: op} }
	default:
		return s, fault.Userf("%s has no order", t)
	}
	return s, nil
}

// sumOrZero is a sum that is 0 of no values.
type sumOrZero struct {
	Accumulator
	t schema.Type
}

func (a *sumOrZero) Result(from, to int) arrow.Array {
	out := a.Accumulator.Result(from, to)
	if out.NullN() == 0 {
		return out
	}
	zero := Vector{Array: schema.ArrayOf(a.t, []schema.Datum{{Type: a.t}}), Const: true}
	which := make([]int32, out.Len())
	for i := range which {
		if out.IsNull(i) {
			which[i] = 1
		}
	}
	return Select(a.t, which, []Vector{{Array: out}, zero}).Array
}

// summable is numeric for aggregates, to which a timestamp is its seconds.
func summable(args []schema.Type) error {
	for _, t := range args {
		if t.Kind != schema.Timestamp && t.Kind != schema.TimestampTZ {
			if err := numeric([]schema.Type{t}); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbersOfText makes sum and avg take text: what isn't a number counts as 0, in Hive.
func numbersOfText(t schema.Type, s AggregateSignature) AggregateSignature {
	if !t.IsText() {
		return s
	}
	made, parse := s.New, lift(parseText(schema.DoubleType), false)
	s.Args = []schema.Type{t}
	s.New = func() Accumulator { return &textNumbers{made(), parse} }
	return s
}

type textNumbers struct {
	Accumulator
	parse Kernel
}

func (a *textNumbers) Update(groups, sel []int32, args []Vector, n int) error {
	if args[0].isNull() {
		return nil
	}
	v, err := a.parse(nil, n, []Vector{{Array: batch.Plain(args[0].Array), Const: args[0].Const}})
	if err != nil {
		return err
	}
	if v.Array.NullN() > args[0].Array.NullN() { // unreadable: 0 is what the parser left there
		v.Array = batch.NewFixed(arrow.PrimitiveTypes.Float64, batch.Values[float64](v.Array), batch.Validity(args[0].Array))
	}
	return a.Accumulator.Update(groups, sel, []Vector{v}, n)
}
