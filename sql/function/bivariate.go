package function

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// addBivariate registers the aggregates of pairs: corr, covar_* and regr_*.
func addBivariate(r *Registry) {
	for name, f := range map[string]func(p pairMoments) (float64, bool){
		"corr": func(p pairMoments) (float64, bool) {
			return p.cxy / math.Sqrt(p.m2x) / math.Sqrt(p.m2y), p.n >= 2 && p.m2x != 0 && p.m2y != 0
		},
		"covar_pop":  func(p pairMoments) (float64, bool) { return p.cxy / p.n, p.n > 0 },
		"covar_samp": func(p pairMoments) (float64, bool) { return p.cxy / (p.n - 1), p.n > 1 },
		// regr_slope(y, x): y depends on x; here the first argument is x in the moments.
		"regr_slope": func(p pairMoments) (float64, bool) { return p.cxy / p.m2y, p.n > 1 && p.m2y != 0 },
		"regr_intercept": func(p pairMoments) (float64, bool) {
			return p.meanX - p.cxy/p.m2y*p.meanY, p.n > 1 && p.m2y != 0
		},
		"regr_r2": func(p pairMoments) (float64, bool) {
			if p.m2x == 0 {
				return 1, p.n > 1 && p.m2y != 0
			}
			return p.cxy * p.cxy / (p.m2x * p.m2y), p.n > 1 && p.m2y != 0
		},
		"regr_avgx": func(p pairMoments) (float64, bool) { return p.meanY, p.n > 0 },
		"regr_avgy": func(p pairMoments) (float64, bool) { return p.meanX, p.n > 0 },
		"regr_sxx":  func(p pairMoments) (float64, bool) { return p.m2y, p.n > 0 },
		"regr_syy":  func(p pairMoments) (float64, bool) { return p.m2x, p.n > 0 },
		"regr_sxy":  func(p pairMoments) (float64, bool) { return p.cxy, p.n > 0 },
	} {
		r.addAggregate(name, func(args []schema.Type) (AggregateSignature, error) {
			if err := arity(args, 2, 2); err != nil {
				return AggregateSignature{}, err
			}
			if err := summable(args); err != nil {
				return AggregateSignature{}, err
			}
			if k, ok := map[string]int{"regr_avgx": 1, "regr_avgy": 0}[name]; ok && args[k].Kind == schema.Decimal {
				return averageOfPairs(args, k)
			}
			d := schema.DoubleType
			return AggregateSignature{Args: []schema.Type{d, d}, Result: d, State: repeated(d, 6),
				New: func() Accumulator { return &pairs{result: f} }}, nil
		})
	}
	r.addAggregate("regr_count", func(args []schema.Type) (AggregateSignature, error) {
		if err := arity(args, 2, 2); err != nil {
			return AggregateSignature{}, err
		}
		if err := summable(args); err != nil {
			return AggregateSignature{}, err
		}
		t := schema.BigIntType
		return AggregateSignature{Args: args, Result: t, State: []schema.Type{t}, New: func() Accumulator { return &counter{} }}, nil
	})
}

// pairMoments are count, means, sums of squared differences and of their products.
type pairMoments struct{ n, meanX, meanY, m2x, m2y, cxy float64 }

// pairs keeps moments as moments2 does.
type pairs struct {
	of     []pairMoments
	result func(p pairMoments) (float64, bool)
}

func (a *pairs) Grow(n int) { a.of = grown(a.of, n) }

func (a *pairs) Update(groups, sel []int32, args []Vector, n int) error {
	valid, null := validity(n, args)
	if null {
		return nil
	}
	x, y := columnOf[float64](args[0]), columnOf[float64](args[1])
	add := func(g int32, i int) {
		if valid != nil && !batch.BitSet(valid, i) {
			return
		}
		p := &a.of[g]
		p.n++
		dx, dy := x.at(i)-p.meanX, y.at(i)-p.meanY
		p.meanX += dx / p.n
		p.meanY += dy / p.n
		p.m2x += dx * (x.at(i) - p.meanX)
		p.m2y += dy * (y.at(i) - p.meanY)
		p.cxy += dx * (y.at(i) - p.meanY)
	}
	if sel != nil {
		for k, i := range sel {
			add(groups[k], int(i))
		}
		return nil
	}
	for i, g := range groups[:n] {
		add(g, i)
	}
	return nil
}

func (a *pairs) Merge(groups []int32, states []arrow.Array) error {
	var c [6][]float64
	for k := range c {
		c[k] = batch.Values[float64](states[k])
	}
	for i, g := range groups {
		q := pairMoments{c[0][i], c[1][i], c[2][i], c[3][i], c[4][i], c[5][i]}
		if q.n == 0 {
			continue
		}
		p := &a.of[g]
		n := p.n + q.n
		dx, dy := q.meanX-p.meanX, q.meanY-p.meanY
		w := p.n * q.n / n
		p.m2x += q.m2x + dx*dx*w
		p.m2y += q.m2y + dy*dy*w
		p.cxy += q.cxy + dx*dy*w
		p.meanX += dx * q.n / n
		p.meanY += dy * q.n / n
		p.n = n
	}
	return nil
}

func (a *pairs) State(from, to int) []arrow.Array {
	out := make([]arrow.Array, 6)
	for k := range out {
		v := make([]float64, to-from)
		for i, p := range a.of[from:to] {
			v[i] = [...]float64{p.n, p.meanX, p.meanY, p.m2x, p.m2y, p.cxy}[k]
		}
		out[k] = batch.NewFixed(arrow.PrimitiveTypes.Float64, v, nil)
	}
	return out
}

func (a *pairs) Result(from, to int) arrow.Array {
	out := make([]float64, to-from)
	m := nullable{n: to - from}
	for i, p := range a.of[from:to] {
		v, ok := a.result(p)
		if !ok {
			m.clear(i)
			continue
		}
		out[i] = v
	}
	return batch.NewFixed(arrow.PrimitiveTypes.Float64, out, m.valid)
}

// averageOfPairs is regr_avgx and regr_avgy of decimals: avg of one column where neither is
// NULL.
func averageOfPairs(args []schema.Type, k int) (AggregateSignature, error) {
	s, err := bindAvg(args[k : k+1])
	if err != nil {
		return s, err
	}
	made := s.New
	s.Args = args
	s.New = func() Accumulator { return &oneOfPair{made(), k} }
	return s, nil
}

type oneOfPair struct {
	Accumulator
	k int
}

func (a *oneOfPair) Update(groups, sel []int32, args []Vector, n int) error {
	valid, null := validity(n, args)
	if null {
		return nil
	}
	v := args[a.k]
	if valid != nil {
		at := make([]int32, n)
		for i := range at {
			at[i] = -1
			if batch.BitSet(valid, i) {
				at[i] = int32(i & v.mask())
			}
		}
		v = Vector{Array: batch.Gather(v.Array, at)}
	}
	return a.Accumulator.Update(groups, sel, []Vector{v}, n)
}
