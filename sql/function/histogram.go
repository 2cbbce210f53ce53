package function

import (
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addHistograms registers histogram_numeric and percentile_approx: Ben-Haim and Tom-Tov, "A
// Streaming Parallel Decision Tree Algorithm" (2010), with Hive's way of breaking ties.
func addHistograms(r *Registry) {
	d := schema.DoubleType
	r.addAggregate("histogram_numeric", func(args []schema.Type) (AggregateSignature, error) {
		if err := arity(args, 2, 2); err != nil {
			return AggregateSignature{}, err
		}
		if err := numeric(args[:1]); err != nil {
			return AggregateSignature{}, err
		}
		if _, err := integer(args[1:]); err != nil {
			return AggregateSignature{}, err
		}
		result := schema.ArrayType(schema.StructType([]schema.Field{{Name: "x", Type: d}, {Name: "y", Type: d}}))
		return AggregateSignature{Args: []schema.Type{d, schema.IntType}, Result: result, State: stateTypes(d),
			New: func() Accumulator {
				return &histogramBins{histograms: histograms{binsArg: 1}, result: result}
			}}, nil
	})
	r.addAggregate("percentile_approx", func(args []schema.Type) (AggregateSignature, error) {
		if err := arity(args, 2, 3); err != nil {
			return AggregateSignature{}, err
		}
		if err := numeric(args[:1]); err != nil {
			return AggregateSignature{}, err
		}
		fraction, result := d, d
		if args[1].Kind == schema.Array {
			fraction, result = schema.ArrayType(d), schema.ArrayType(d)
			if !args[1].Part(0).IsNumeric() {
				return AggregateSignature{}, fault.Userf("the fractions must be numbers, not %s", args[1])
			}
		} else if err := numeric(args[1:2]); err != nil {
			return AggregateSignature{}, err
		}
		want := []schema.Type{d, fraction}
		bins := -1
		if len(args) == 3 {
			if _, err := integer(args[2:]); err != nil {
				return AggregateSignature{}, err
			}
			want, bins = append(want, schema.IntType), 2
		}
		return AggregateSignature{Args: want, Result: result, State: stateTypes(d, d), New: func() Accumulator {
			return &approximate{histograms: histograms{binsArg: bins}, many: result.Kind == schema.Array}
		}}, nil
	})
}

// bin is a place and how many values are there.
type bin struct{ x, y float64 }

type histogram struct {
	most int
	bins []bin
	rng  javaRandom
}

func newHistogram(most int) *histogram { return &histogram{most: most, rng: newJavaRandom(31183)} }

func (h *histogram) add(x float64) {
	k := sort.Search(len(h.bins), func(i int) bool { return h.bins[i].x >= x })
	if k < len(h.bins) && h.bins[k].x == x {
		h.bins[k].y++
		return
	}
	h.bins = append(h.bins, bin{})
	copy(h.bins[k+1:], h.bins[k:])
	h.bins[k] = bin{x, 1}
	h.trim()
}

// trim joins the closest bins until there are at most as many as wanted.
func (h *histogram) trim() {
	for len(h.bins) > h.most {
		best, at, ties := h.bins[1].x-h.bins[0].x, 0, 1
		for i := 1; i+1 < len(h.bins); i++ {
			d := h.bins[i+1].x - h.bins[i].x
			if d < best {
				best, at, ties = d, i, 1
			} else if d == best {
				if ties++; h.rng.float64() <= 1/float64(ties) {
					at = i
				}
			}
		}
		a, b := h.bins[at], h.bins[at+1]
		y := a.y + b.y
		h.bins[at] = bin{a.x*(a.y/y) + b.x*(b.y/y), y}
		h.bins = append(h.bins[:at+1], h.bins[at+2:]...)
	}
}

// merge adds the bins of another histogram.
func (h *histogram) merge(other []bin) {
	h.bins = append(h.bins, other...)
	sort.SliceStable(h.bins, func(i, j int) bool { return h.bins[i].x < h.bins[j].x })
	h.trim()
}

func (h *histogram) quantile(q float64) float64 {
	total, below := 0.0, 0.0
	for _, b := range h.bins {
		total += b.y
	}
	for i, b := range h.bins {
		below += b.y
		if below/total >= q {
			if i == 0 {
				return b.x
			}
			below -= b.y
			last := h.bins[i-1].x
			return last + (q*total-below)*(b.x-last)/b.y
		}
	}
	return -1
}

// javaRandom is java.util.Random, whose algorithm its documentation fixes.
type javaRandom uint64

func newJavaRandom(seed int64) javaRandom {
	return javaRandom((uint64(seed) ^ 0x5deece66d) & (1<<48 - 1))
}

// bits returns the next k bits.
func (r *javaRandom) bits(k uint) uint64 {
	*r = (*r*0x5deece66d + 0xb) & (1<<48 - 1)
	return uint64(*r) >> (48 - k)
}

func (r *javaRandom) float64() float64 { return float64(r.bits(26)<<27+r.bits(27)) / (1 << 53) }

// spreadFirst makes n rows of a constant first argument, so that eachRow tells rows.
func spreadFirst(args []Vector, n int) []Vector {
	if !args[0].Const {
		return args
	}
	return append([]Vector{{Array: args[0].Rows(n)}}, args[1:]...)
}

// histograms keeps one for each group. Its state is [most, x, y, x, y, ...].
type histograms struct {
	binsArg int // the argument with the number of bins, or -1
	of      []*histogram
}

func (a *histograms) Grow(n int) { a.of = grown(a.of, n) }

func (a *histograms) update(groups, sel []int32, args []Vector, n int, also func(g int32, i int)) error {
	args = spreadFirst(args, n)
	x := batch.Values[float64](args[0].Array)
	var bins column[int32]
	if a.binsArg >= 0 {
		bins = columnOf[int32](args[a.binsArg])
	}
	var failed error
	eachRow(groups, sel, args[0], n, func(g int32, i int) {
		if a.of[g] == nil {
			most := 10000
			if a.binsArg >= 0 {
				most = int(bins.at(i))
			}
			if most < 2 {
				failed = fault.Userf("a histogram needs at least two bins, not %d", most)
				return
			}
			a.of[g] = newHistogram(most)
			if also != nil {
				also(g, i)
			}
		}
		a.of[g].add(x[i])
	})
	return failed
}

func (a *histograms) merge(groups []int32, state arrow.Array) {
	l := listOf(Vector{Array: state})
	x := batch.Values[float64](l.values)
	for i, g := range groups {
		from, to := l.span(i)
		if from == to {
			continue
		}
		if a.of[g] == nil {
			a.of[g] = newHistogram(int(x[from]))
		}
		var other []bin
		for j := from + 1; j < to; j += 2 {
			other = append(other, bin{x[j], x[j+1]})
		}
		a.of[g].merge(other)
	}
}

func (a *histograms) state(from, to int) arrow.Array {
	var x []float64
	offsets := make([]int32, 1, to-from+1)
	for _, h := range a.of[from:to] {
		if h != nil {
			x = append(x, float64(h.most))
			for _, b := range h.bins {
				x = append(x, b.x, b.y)
			}
		}
		offsets = append(offsets, int32(len(x)))
	}
	return batch.NewList(schema.ArrayType(schema.DoubleType).Arrow(), offsets, batch.NewFixed(arrow.PrimitiveTypes.Float64, x, nil), nil)
}

type histogramBins struct {
	histograms
	result schema.Type
}

func (a *histogramBins) Update(groups, sel []int32, args []Vector, n int) error {
	return a.update(groups, sel, args, n, nil)
}

func (a *histogramBins) Merge(groups []int32, states []arrow.Array) error {
	a.merge(groups, states[0])
	return nil
}

func (a *histogramBins) State(from, to int) []arrow.Array { return []arrow.Array{a.state(from, to)} }

func (a *histogramBins) Result(from, to int) arrow.Array {
	var x, y []float64
	offsets := make([]int32, 1, to-from+1)
	m := nullable{n: to - from}
	for i, h := range a.of[from:to] {
		if h == nil {
			m.clear(i)
		} else {
			for _, b := range h.bins {
				x, y = append(x, b.x), append(y, b.y)
			}
		}
		offsets = append(offsets, int32(len(x)))
	}
	structs := batch.NewStruct(a.result.Part(0).Arrow(), len(x), []arrow.Array{batch.NewFixed(arrow.PrimitiveTypes.Float64, x, nil),
		batch.NewFixed(arrow.PrimitiveTypes.Float64, y, nil)}, nil)
	return batch.NewList(a.result.Arrow(), offsets, structs, m.valid)
}

type approximate struct {
	histograms
	many      bool
	fractions [][]float64
}

func (a *approximate) Grow(n int) {
	a.histograms.Grow(n)
	a.fractions = grown(a.fractions, n)
}

func (a *approximate) Update(groups, sel []int32, args []Vector, n int) error {
	args = spreadFirst(args, n)
	return a.update(groups, sel, args, n, func(g int32, i int) {
		if a.many {
			l := listOf(args[1])
			x := batch.Values[float64](l.values)
			from, to := l.span(i)
			a.fractions[g] = append([]float64(nil), x[from:to]...)
			return
		}
		p := columnOf[float64](args[1])
		a.fractions[g] = []float64{p.at(i)}
	})
}

func (a *approximate) Merge(groups []int32, states []arrow.Array) error {
	a.merge(groups, states[0])
	l := listOf(Vector{Array: states[1]})
	x := batch.Values[float64](l.values)
	for i, g := range groups {
		if from, to := l.span(i); from < to {
			a.fractions[g] = append([]float64(nil), x[from:to]...)
		}
	}
	return nil
}

func (a *approximate) State(from, to int) []arrow.Array {
	var x []float64
	offsets := make([]int32, 1, to-from+1)
	for _, p := range a.fractions[from:to] {
		x = append(x, p...)
		offsets = append(offsets, int32(len(x)))
	}
	return []arrow.Array{a.state(from, to),
		batch.NewList(schema.ArrayType(schema.DoubleType).Arrow(), offsets, batch.NewFixed(arrow.PrimitiveTypes.Float64, x, nil), nil)}
}

func (a *approximate) Result(from, to int) arrow.Array {
	var out []float64
	offsets := make([]int32, 1, to-from+1)
	m := nullable{n: to - from}
	for g := from; g < to; g++ {
		h := a.of[g]
		switch {
		case h == nil:
			m.clear(g - from)
			if !a.many {
				out = append(out, 0)
			}
		default:
			for _, p := range a.fractions[g] {
				out = append(out, h.quantile(p))
			}
		}
		offsets = append(offsets, int32(len(out)))
	}
	values := batch.NewFixed(arrow.PrimitiveTypes.Float64, out, nil)
	if a.many {
		return batch.NewList(schema.ArrayType(schema.DoubleType).Arrow(), offsets, values, m.valid)
	}
	return batch.NewFixed(arrow.PrimitiveTypes.Float64, out, m.valid)
}
