package function

import (
	"bytes"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

func sqrt(x float64) float64 { return math.Sqrt(x) }

// compareOf orders machine numbers, NaN greatest.
func compareOf[T orderedNumber](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	case a == a: // b is NaN
		return -1
	case b == b:
		return 1
	}
	return 0
}

// extreme is min and max of fixed-width values.
type extreme[T batch.Fixed] struct {
	op      comparison // lt for min, gt for max
	dt      arrow.DataType
	compare func(a, b T) int
	best    []T
	seen    []bool
}

func (a *extreme[T]) Grow(n int) { a.best, a.seen = grown(a.best, n), grown(a.seen, n) }

func (a *extreme[T]) add(groups, sel []int32, v Vector, x []T, n int) {
	min := a.op == lt
	eachRow(groups, sel, v, n, func(g int32, i int) {
		if !a.seen[g] {
			a.best[g], a.seen[g] = x[i], true
			return
		}
		if c := a.compare(x[i], a.best[g]); c != 0 && c < 0 == min {
			a.best[g] = x[i]
		}
	})
}

func (a *extreme[T]) Update(groups, sel []int32, args []Vector, n int) error {
	a.add(groups, sel, args[0], batch.Values[T](args[0].Array), n)
	return nil
}

func (a *extreme[T]) Merge(groups []int32, states []arrow.Array) error {
	a.add(groups, nil, Vector{Array: states[0]}, batch.Values[T](states[0]), len(groups))
	return nil
}

func (a *extreme[T]) State(from, to int) []arrow.Array { return []arrow.Array{a.Result(from, to)} }

func (a *extreme[T]) valid(from, to int) []byte {
	return packBits(to-from, func(i int) bool { return a.seen[from+i] })
}

func (a *extreme[T]) Result(from, to int) arrow.Array {
	return batch.NewFixed(a.dt, append([]T(nil), a.best[from:to]...), a.valid(from, to))
}

// boolExtreme is min and max of booleans, kept as bytes.
type boolExtreme struct{ extreme[int8] }

func (a *boolExtreme) Update(groups, sel []int32, args []Vector, n int) error {
	if args[0].isNull() {
		return nil
	}
	a.add(groups, sel, args[0], unpack(args[0]), n)
	return nil
}

func (a *boolExtreme) Merge(groups []int32, states []arrow.Array) error {
	v := Vector{Array: states[0]}
	a.add(groups, nil, v, unpack(v), len(groups))
	return nil
}

func (a *boolExtreme) State(from, to int) []arrow.Array { return []arrow.Array{a.Result(from, to)} }

func (a *boolExtreme) Result(from, to int) arrow.Array {
	bits := packBits(to-from, func(i int) bool { return a.best[from+i] != 0 })
	return batch.NewBoolean(bits, to-from, a.valid(from, to))
}

// textExtreme is min and max of text and binary.
type textExtreme struct {
	t    schema.Type
	op   comparison
	best [][]byte
	seen []bool
}

func (a *textExtreme) Grow(n int) { a.best, a.seen = grown(a.best, n), grown(a.seen, n) }

func (a *textExtreme) add(groups, sel []int32, v Vector, n int) {
	x := batch.TextOf(v.Array)
	min := a.op == lt
	eachRow(groups, sel, v, n, func(g int32, i int) {
		s := x.Bytes(i)
		if a.seen[g] {
			if c := bytes.Compare(s, a.best[g]); c == 0 || c < 0 != min {
				return
			}
		}
		a.best[g], a.seen[g] = append(a.best[g][:0], s...), true
	})
}

func (a *textExtreme) Update(groups, sel []int32, args []Vector, n int) error {
	a.add(groups, sel, args[0], n)
	return nil
}

func (a *textExtreme) Merge(groups []int32, states []arrow.Array) error {
	a.add(groups, nil, Vector{Array: states[0]}, len(groups))
	return nil
}

func (a *textExtreme) State(from, to int) []arrow.Array { return []arrow.Array{a.Result(from, to)} }

func (a *textExtreme) Result(from, to int) arrow.Array {
	offsets, data := make([]int32, to-from+1), []byte(nil)
	for i := range to - from {
		data = append(data, a.best[from+i]...)
		offsets[i+1] = int32(len(data))
	}
	return batch.NewText(a.t.Arrow(), offsets, data, packBits(to-from, func(i int) bool { return a.seen[from+i] }))
}

// nestedExtreme is min and max of nested values: it remembers where the best are.
type nestedExtreme struct {
	t    schema.Type
	op   comparison
	best []arrow.Array // of one value, by group; nil: none yet
}

func (a *nestedExtreme) Grow(n int) { a.best = grown(a.best, n) }

func (a *nestedExtreme) Update(groups, sel []int32, args []Vector, n int) error {
	x := batch.Plain(args[0].Array)
	at := make(map[int32]int) // the best of this batch
	eachRow(groups, sel, args[0], n, func(g int32, i int) {
		if k, ok := at[g]; ok {
			if a.op.of(schema.CompareAt(a.t, x, i, x, k)) {
				at[g] = i
			}
		} else if a.best[g] == nil || a.op.of(schema.CompareAt(a.t, x, i, a.best[g], 0)) {
			at[g] = i
		}
	})
	for g, i := range at {
		a.best[g] = batch.Gather(x, []int32{int32(i)})
	}
	return nil
}

func (a *nestedExtreme) Merge(groups []int32, states []arrow.Array) error {
	return a.Update(groups, nil, []Vector{{Array: states[0]}}, len(groups))
}

func (a *nestedExtreme) State(from, to int) []arrow.Array { return []arrow.Array{a.Result(from, to)} }

func (a *nestedExtreme) Result(from, to int) arrow.Array {
	if from == to {
		return batch.EmptyOf(a.t.Arrow())
	}
	parts := make([]arrow.Array, to-from)
	for i := range parts {
		if parts[i] = a.best[from+i]; parts[i] == nil {
			parts[i] = NullArray(a.t, 1)
		}
	}
	return batch.Concat(parts)
}
