package function

import (
	"encoding/binary"
	"slices"
	"sort"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cespare/xxhash/v2"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addCollecting registers the aggregates that keep values.
func addCollecting(r *Registry) {
	for name, set := range map[string]bool{"collect_list": false, "collect_set": true} {
		r.addAggregate(name, func(args []schema.Type) (AggregateSignature, error) {
			if err := arity(args, 1, 1); err != nil {
				return AggregateSignature{}, err
			}
			t := valued(args[0])
			return AggregateSignature{Args: []schema.Type{t}, Result: schema.ArrayType(t), State: stateTypes(t), New: func() Accumulator {
				a := &collector{valueLists: newValueLists(1, t), t: t}
				if set {
					a.seen = make(map[string]struct{})
				}
				return a
			}}, nil
		})
	}
	r.addAggregate("percentile", func(args []schema.Type) (AggregateSignature, error) {
		if err := arity(args, 2, 2); err != nil {
			return AggregateSignature{}, err
		}
		return bindPercentile(args, false, false)
	})
	r.addAggregate("approx_distinct", func(args []schema.Type) (AggregateSignature, error) {
		if err := arity(args, 1, 1); err != nil {
			return AggregateSignature{}, err
		}
		t := valued(args[0])
		return AggregateSignature{Args: []schema.Type{t}, Result: schema.BigIntType, State: []schema.Type{schema.BinaryType},
			New: func() Accumulator { return &distinctHashes{t: t} }}, nil
	})
	r.addAggregate("ngrams", func(args []schema.Type) (AggregateSignature, error) { return bindNGrams(args, false) })
	r.addAggregate("context_ngrams", func(args []schema.Type) (AggregateSignature, error) { return bindNGrams(args, true) })
}

// collector is collect_list and, with seen, collect_set.
type collector struct {
	*valueLists
	t    schema.Type
	seen map[string]struct{} // group and key
	room []byte
}

func (a *collector) fresh(g int32, values arrow.Array, i int) bool {
	a.room = schema.AppendKey(binary.LittleEndian.AppendUint32(a.room[:0], uint32(g)), a.t, values, i)
	if _, ok := a.seen[string(a.room)]; ok {
		return false
	}
	a.seen[string(a.room)] = struct{}{}
	return true
}

func (a *collector) Update(groups, sel []int32, args []Vector, n int) error {
	if a.seen == nil {
		return a.add(groups, sel, args, n, nil)
	}
	mask := args[0].mask()
	return a.add(groups, sel, args, n, func(g int32, i int) bool { return a.fresh(g, args[0].Array, i&mask) })
}

func (a *collector) Merge(groups []int32, states []arrow.Array) error {
	if a.seen == nil {
		return a.merge(groups, states, nil)
	}
	return a.merge(groups, states, func(g int32, columns []Vector, i int) bool { return a.fresh(g, columns[0].Array, i) })
}

func (a *collector) Result(from, to int) arrow.Array { return a.list(0, from, to, nil) }

// distinctHashes is approx_distinct: it counts distinct 64-bit hashes, so that two values in
// some billions may be taken for one.
type distinctHashes struct {
	t    schema.Type
	sets []map[uint64]struct{}
	room []byte
}

func (a *distinctHashes) Grow(n int) { a.sets = grown(a.sets, n) }

func (a *distinctHashes) put(g int32, h uint64) {
	if a.sets[g] == nil {
		a.sets[g] = make(map[uint64]struct{})
	}
	a.sets[g][h] = struct{}{}
}

func (a *distinctHashes) Update(groups, sel []int32, args []Vector, n int) error {
	eachRow(groups, sel, args[0], n, func(g int32, i int) {
		a.room = schema.AppendKey(a.room[:0], a.t, args[0].Array, i)
		a.put(g, xxhash.Sum64(a.room))
	})
	return nil
}

func (a *distinctHashes) Merge(groups []int32, states []arrow.Array) error {
	x := batch.TextOf(states[0])
	eachState(groups, states[0], func(g int32, i int) {
		for b := x.Bytes(i); len(b) >= 8; b = b[8:] {
			a.put(g, binary.LittleEndian.Uint64(b))
		}
	})
	return nil
}

func (a *distinctHashes) State(from, to int) []arrow.Array {
	offsets, data := make([]int32, to-from+1), []byte(nil)
	for i, set := range a.sets[from:to] {
		hashes := make([]uint64, 0, len(set))
		for h := range set {
			hashes = append(hashes, h)
		}
		slices.Sort(hashes)
		for _, h := range hashes {
			data = binary.LittleEndian.AppendUint64(data, h)
		}
		offsets[i+1] = int32(len(data))
	}
	return []arrow.Array{batch.NewText(arrow.BinaryTypes.Binary, offsets, data, nil)}
}

func (a *distinctHashes) Result(from, to int) arrow.Array {
	out := make([]int64, to-from)
	for i, set := range a.sets[from:to] {
		out[i] = int64(len(set))
	}
	return batch.NewFixed(arrow.PrimitiveTypes.Int64, out, nil)
}

// bindNGrams is ngrams(sentences, n, k[, precision]): the k most frequent sequences of n words;
// context_ngrams(sentences, words, k[, precision]): the most frequent ways of filling in the NULLs
// among words. sentences is an array of arrays of words, or one such array. Frequencies are exact
// here, whatever the precision.
func bindNGrams(args []schema.Type, context bool) (AggregateSignature, error) {
	if err := arity(args, 3, 4); err != nil {
		return AggregateSignature{}, err
	}
	words := schema.ArrayType(schema.StringType)
	sentences := schema.ArrayType(words)
	t := args[0]
	if t.Kind != schema.Array || t.Part(0).Kind != schema.Array && !t.Part(0).IsText() {
		return AggregateSignature{}, fault.Userf("its first argument must be an array of texts or of arrays of texts, not %s", t)
	}
	if t.Part(0).Kind == schema.Array {
		t = sentences
	} else {
		t = words
	}
	second := schema.IntType
	if context {
		second = words
		if args[1].Kind != schema.Array {
			return AggregateSignature{}, fault.Userf("its second argument must be an array of words and NULLs, not %s", args[1])
		}
	} else if _, err := integer(args[1:2]); err != nil {
		return AggregateSignature{}, err
	}
	if _, err := integer(args[2:]); err != nil {
		return AggregateSignature{}, err
	}
	want := append([]schema.Type{t, second}, repeated(schema.IntType, len(args)-2)...)
	result := schema.ArrayType(schema.StructType([]schema.Field{{Name: "ngram", Type: words}, {Name: "estfrequency", Type: schema.DoubleType}}))
	return AggregateSignature{Args: want, Result: result,
		State: []schema.Type{schema.ArrayType(schema.StringType), schema.ArrayType(schema.BigIntType), schema.IntType},
		New: func() Accumulator {
			return &ngrams{result: result, nested: t.Part(0).Kind == schema.Array, context: context}
		}}, nil
}

// wordJoin separates the words of an n-gram in its key.
const wordJoin = "\x00"

type ngrams struct {
	result          schema.Type
	nested, context bool
	counts          []map[string]int64
	k               []int32
}

func (a *ngrams) Grow(n int) { a.counts, a.k = grown(a.counts, n), grown(a.k, n) }

func (a *ngrams) put(g int32, key string, n int64) {
	if a.counts[g] == nil {
		a.counts[g] = make(map[string]int64)
	}
	a.counts[g][key] += n
}

func (a *ngrams) Update(groups, sel []int32, args []Vector, n int) error {
	args = spreadFirst(args, n)
	outer := listOf(args[0])
	inner := outer
	if a.nested {
		inner = listOf(Vector{Array: outer.values})
	}
	words := batch.TextOf(inner.values)
	present := batch.Validity(inner.values)
	k := columnOf[int32](args[2])
	var size column[int32]
	var pattern list
	var patternWords batch.Text
	if a.context {
		pattern = listOf(args[1])
		patternWords = batch.TextOf(pattern.values)
	} else {
		size = columnOf[int32](args[1])
	}
	var failed error
	eachRow(groups, sel, args[0], n, func(g int32, i int) {
		a.k[g] = k.at(i)
		var fill []string // "" with a hole in holes
		var holes []bool
		length := 0
		if a.context {
			for j, end := pattern.span(i); j < end; j++ {
				hole := pattern.values.IsNull(j)
				holes = append(holes, hole)
				w := ""
				if !hole {
					w = patternWords.String(j)
				}
				fill = append(fill, w)
			}
			length = len(fill)
		} else {
			length = int(size.at(i))
		}
		if length < 1 || a.k[g] < 1 {
			failed = fault.Userf("an n-gram must have words and k must be positive")
			return
		}
		sentence := func(from, to int) {
			for s := from; s+length <= to; s++ {
				var key []string
				ok := true
				for w := range length {
					if present != nil && !batch.BitSet(present, s+w) {
						ok = false
						break
					}
					word := words.String(s + w)
					switch {
					case holes == nil || holes[w]:
						key = append(key, word)
					case word != fill[w]:
						ok = false
					}
				}
				if ok {
					a.put(g, strings.Join(key, wordJoin), 1)
				}
			}
		}
		from, to := outer.span(i)
		if !a.nested {
			sentence(from, to)
			return
		}
		for j := from; j < to; j++ {
			sentence(inner.span(j))
		}
	})
	return failed
}

func (a *ngrams) Merge(groups []int32, states []arrow.Array) error {
	keys, counts, k := listOf(Vector{Array: states[0]}), listOf(Vector{Array: states[1]}), batch.Values[int32](states[2])
	text, n := batch.TextOf(keys.values), batch.Values[int64](counts.values)
	for i, g := range groups {
		a.k[g] = max(a.k[g], k[i])
		from, to := keys.span(i)
		at, _ := counts.span(i)
		for j := from; j < to; j++ {
			a.put(g, text.String(j), n[at+j-from])
		}
	}
	return nil
}

// top returns a group's n-grams, the most frequent first.
func (a *ngrams) top(g int) []string {
	out := make([]string, 0, len(a.counts[g]))
	for key := range a.counts[g] {
		out = append(out, key)
	}
	sort.Slice(out, func(i, j int) bool {
		x, y := a.counts[g][out[i]], a.counts[g][out[j]]
		return x > y || x == y && out[i] < out[j]
	})
	return out
}

func (a *ngrams) State(from, to int) []arrow.Array {
	keys := newTextLists(to - from)
	var counts []int64
	for g := from; g < to; g++ {
		for _, key := range a.top(g) {
			keys.add([]byte(key))
			counts = append(counts, a.counts[g][key])
		}
		keys.end()
	}
	return []arrow.Array{batch.NewList(schema.ArrayType(schema.StringType).Arrow(), keys.offsets, keys.values(), nil),
		batch.NewList(schema.ArrayType(schema.BigIntType).Arrow(), keys.offsets, batch.NewFixed(arrow.PrimitiveTypes.Int64, counts, nil), nil),
		batch.NewFixed(arrow.PrimitiveTypes.Int32, append([]int32(nil), a.k[from:to]...), nil)}
}

func (a *ngrams) Result(from, to int) arrow.Array {
	words := newTextLists(to - from)
	var frequencies []float64
	offsets := make([]int32, 1, to-from+1)
	m := nullable{n: to - from}
	for g := from; g < to; g++ {
		top := a.top(g)
		for _, key := range top[:min(len(top), int(a.k[g]))] {
			for w := range strings.SplitSeq(key, wordJoin) {
				words.add([]byte(w))
			}
			words.end()
			frequencies = append(frequencies, float64(a.counts[g][key]))
		}
		if len(top) == 0 {
			m.clear(g - from)
		}
		offsets = append(offsets, int32(len(frequencies)))
	}
	grams := batch.NewList(schema.ArrayType(schema.StringType).Arrow(), words.offsets, words.values(), nil)
	structs := batch.NewStruct(a.result.Part(0).Arrow(), len(frequencies),
		[]arrow.Array{grams, batch.NewFixed(arrow.PrimitiveTypes.Float64, frequencies, nil)}, nil)
	return batch.NewList(a.result.Arrow(), offsets, structs, m.valid)
}
