package function

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addWithin registers the aggregates of WITHIN GROUP (ORDER BY ...).
func addWithin(r *Registry) {
	for _, disc := range []bool{false, true} {
		name := "percentile_cont"
		if disc {
			name = "percentile_disc"
		}
		r.within[name] = func(args, order []schema.Type, dirs []Direction) (AggregateSignature, error) {
			if len(args) != 1 || len(order) != 1 {
				return AggregateSignature{}, fault.Userf("it takes one fraction and WITHIN GROUP (ORDER BY one value)")
			}
			s, err := bindPercentile([]schema.Type{order[0], args[0]}, disc, len(dirs) > 0 && dirs[0].Desc)
			if err != nil {
				return AggregateSignature{}, err
			}
			s.Args = []schema.Type{s.Args[1], s.Args[0]} // direct arguments first
			made := s.New
			s.New = func() Accumulator { return &swapped{made()} }
			return s, nil
		}
	}
	for _, name := range []string{"rank", "dense_rank", "percent_rank", "cume_dist"} {
		r.within[name] = func(args, order []schema.Type, dirs []Direction) (AggregateSignature, error) {
			return bindHypothetical(name, args, order, dirs)
		}
	}
}

// swapped gives its two arguments to another accumulator the other way round.
type swapped struct{ Accumulator }

func (a *swapped) Update(groups, sel []int32, args []Vector, n int) error {
	return a.Accumulator.Update(groups, sel, []Vector{args[1], args[0]}, n)
}

// bindPercentile is percentile(value, fraction or array of fractions): of the
// sorted values the one at (n-1)*fraction, interpolated, or with disc the next one.
func bindPercentile(args []schema.Type, disc, desc bool) (AggregateSignature, error) {
	if err := numeric(args[:1]); err != nil {
		return AggregateSignature{}, err
	}
	d := schema.DoubleType
	fraction, result := d, d
	if args[1].Kind == schema.Array {
		fraction, result = schema.ArrayType(d), schema.ArrayType(d)
		if p := args[1].Part(0); !p.IsNumeric() && !p.IsText() {
			return AggregateSignature{}, fault.Userf("the fractions must be numbers, not %s", args[1])
		}
	} else if err := numeric(args[1:2]); err != nil {
		return AggregateSignature{}, err
	}
	types := []schema.Type{d, fraction}
	return AggregateSignature{Args: types, Result: result, State: stateTypes(types...), New: func() Accumulator {
		return &percentile{valueLists: newValueLists(1, types...), disc: disc, desc: desc, many: result.Kind == schema.Array}
	}}, nil
}

type percentile struct {
	*valueLists
	disc, desc, many bool
}

// Update checks the fractions.
func (a *percentile) Update(groups, sel []int32, args []Vector, n int) error {
	f := args[1].Array
	if a.many {
		_, f = batch.ListOf(f)
	}
	for i, p := range batch.Values[float64](f) {
		if f.IsValid(i) && !(p >= 0 && p <= 1) {
			return fault.Userf("a percentile's fraction must be from 0 to 1, not %v", p)
		}
	}
	return a.valueLists.Update(groups, sel, args, n)
}

// percentileOf returns the value at a fraction of sorted values.
func percentileOf(sorted []float64, p float64, disc bool) float64 {
	position := float64(len(sorted)-1) * p
	low, high := int(math.Floor(position)), int(math.Ceil(position))
	switch {
	case low == high || sorted[low] == sorted[high]:
		return sorted[low]
	case disc:
		return sorted[high]
	}
	return (float64(high)-position)*sorted[low] + (position-float64(low))*sorted[high]
}

func (a *percentile) Result(from, to int) arrow.Array {
	a.arrange()
	x := batch.Values[float64](a.whole[0])
	var out []float64
	offsets := make([]int32, 1, to-from+1)
	m := nullable{n: to - from}
	var sorted []float64
	var fractions list
	var single []float64
	if a.many {
		fractions = listOf(Vector{Array: a.whole[1]})
		single = batch.Values[float64](fractions.values)
	} else {
		single = batch.Values[float64](a.whole[1])
	}
	for g := from; g < to; g++ {
		rows := a.rows(g)
		if len(rows) == 0 || a.whole[1].IsNull(int(rows[0])) {
			m.clear(g - from)
			if !a.many {
				out = append(out, 0)
			}
			offsets = append(offsets, int32(len(out)))
			continue
		}
		sorted = sorted[:0]
		for _, i := range rows {
			sorted = append(sorted, x[i])
		}
		slices.SortFunc(sorted, schema.CompareFloat)
		if a.desc {
			slices.Reverse(sorted)
		}
		if a.many {
			for j, end := fractions.span(int(rows[0])); j < end; j++ {
				out = append(out, percentileOf(sorted, single[j], a.disc))
			}
		} else {
			out = append(out, percentileOf(sorted, single[rows[0]], a.disc))
		}
		offsets = append(offsets, int32(len(out)))
	}
	values := batch.NewFixed(schema.DoubleType.Arrow(), out, nil)
	if a.many {
		return batch.NewList(schema.ArrayType(schema.DoubleType).Arrow(), offsets, values, m.valid)
	}
	return batch.NewFixed(schema.DoubleType.Arrow(), out, m.valid)
}

// bindHypothetical is rank(values) WITHIN GROUP (ORDER BY columns) and its like: what the
// function would give for a row with these values among the group's.
func bindHypothetical(name string, args, order []schema.Type, dirs []Direction) (AggregateSignature, error) {
	if len(args) == 0 || len(args) != len(order) {
		return AggregateSignature{}, fault.Userf("it takes as many values as WITHIN GROUP (ORDER BY ...) has columns")
	}
	var types []schema.Type
	for k := range args {
		t, ok := common(CommonType, []schema.Type{args[k], order[k]})
		if !ok || !ordered(t) {
			return AggregateSignature{}, fault.Userf("%s can't be compared with %s", args[k], order[k])
		}
		types = append(types, t)
	}
	result := schema.IntType
	if name == "percent_rank" || name == "cume_dist" {
		result = schema.DoubleType
	}
	both := append(append([]schema.Type(nil), types...), types...)
	dirs = append([]Direction(nil), dirs...)
	return AggregateSignature{Args: both, Result: result, State: stateTypes(both...), New: func() Accumulator {
		l := newValueLists(0, both...)
		return &hypothetical{valueLists: l, name: name, keys: types, dirs: dirs, result: result}
	}}, nil
}

type hypothetical struct {
	*valueLists
	name   string
	keys   []schema.Type
	dirs   []Direction
	result schema.Type
}

// compare orders row i's columns against row j's from column base on.
func (a *hypothetical) compare(base int, i, j int32, otherBase int) int {
	for k, t := range a.keys {
		var d Direction
		if k < len(a.dirs) {
			d = a.dirs[k]
		}
		x, y := a.whole[base+k], a.whole[otherBase+k]
		xn, yn := x.IsNull(int(i)), y.IsNull(int(j))
		switch {
		case xn && yn:
			continue
		case xn != yn:
			// Hive turns the whole order round for DESC, NULLs included.
			if xn == (d.NullsLast != d.Desc) {
				return 1
			}
			return -1
		}
		if c := schema.CompareAt(t, x, int(i), y, int(j)); c != 0 {
			if d.Desc {
				return -c
			}
			return c
		}
	}
	return 0
}

func (a *hypothetical) Result(from, to int) arrow.Array {
	a.arrange()
	columns := len(a.keys)
	ints, floats := make([]int32, to-from), make([]float64, to-from)
	for g := from; g < to; g++ {
		rows := a.rows(g)
		before, equal := 0, 0
		var smaller []int32
		for _, i := range rows {
			switch c := a.compare(columns, i, rows[0], 0); {
			case c < 0:
				before++
				smaller = append(smaller, i)
			case c == 0:
				equal++
			}
		}
		n := float64(len(rows))
		switch a.name {
		case "rank":
			ints[g-from] = int32(before) + 1
		case "dense_rank":
			slices.SortFunc(smaller, func(i, j int32) int { return a.compare(columns, i, j, columns) })
			smaller = slices.CompactFunc(smaller, func(i, j int32) bool { return a.compare(columns, i, j, columns) == 0 })
			ints[g-from] = int32(len(smaller)) + 1
		case "percent_rank":
			if n > 0 {
				floats[g-from] = float64(before) / n
			}
		default: // cume_dist counts the hypothetical row itself
			floats[g-from] = float64(before+equal+1) / (n + 1)
		}
	}
	if a.result.Kind == schema.Int {
		return batch.NewFixed(a.result.Arrow(), ints, nil)
	}
	return batch.NewFixed(a.result.Arrow(), floats, nil)
}
