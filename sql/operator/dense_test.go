package operator

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
)

// However numbers lie, a table of one whole-number column gives each its own group.
func TestDenseKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 1))
	for name, next := range map[string]func(i int) int64{
		"ascending":   func(i int) int64 { return int64(i) * 3 },
		"descending":  func(i int) int64 { return -int64(i) * 5 },
		"random":      func(int) int64 { return rng.Int64N(100_000) - 50_000 },
		"wide":        func(int) int64 { return rng.Int64N(200_000) },
		"then sparse": func(i int) int64 { return int64(i) * int64(i) * int64(i) },
		"ends":        func(i int) int64 { return []int64{math.MinInt64, math.MaxInt64, 0, 1}[rng.IntN(4)] },
		"near an end": func(i int) int64 { return math.MaxInt64 - int64(i) },
		"the other":   func(i int) int64 { return math.MinInt64 + int64(i) },
	} {
		table, err := newKeyTable([]schema.Type{schema.BigIntType})
		if err != nil {
			t.Fatal(err)
		}
		groupOf := map[int64]int32{}
		nullGroup := int32(-1)
		n := int32(0)
		for from := 0; from < 40_000; from += 1000 {
			values, valid := make([]int64, 1000), make([]byte, 125)
			for i := range values {
				values[i] = next(from + i)
				if rng.IntN(100) > 0 {
					valid[i>>3] |= 1 << (i & 7)
				}
			}
			a := []function.Vector{{Array: batch.NewFixed(arrow.PrimitiveTypes.Int64, values, valid)}}
			got := table.groups(nil, a, len(values), true)
			again := table.groups(nil, a, len(values), false)
			for i, v := range values {
				var want int32
				var known bool
				if batch.BitSet(valid, i) {
					if want, known = groupOf[v]; !known {
						want = n
						groupOf[v] = n
						n++
					}
					if again[i] != want {
						t.Fatalf("%s: %d is looked up as group %d, not %d", name, v, again[i], want)
					}
				} else {
					if nullGroup < 0 {
						nullGroup = n
						n++
					}
					if want = nullGroup; again[i] != -1 {
						t.Fatalf("%s: NULL is looked up as group %d", name, again[i])
					}
				}
				if got[i] != want {
					t.Fatalf("%s: %d has group %d, not %d", name, v, got[i], want)
				}
			}
		}
		if name == "then sparse" && table.dense != nil || (name == "ascending" || name == "wide") && table.dense == nil {
			t.Errorf("%s: dense is %t", name, table.dense != nil)
		}
		keys := batch.Values[int64](table.columns(0, table.len())[0])
		for v, g := range groupOf {
			if keys[g] != v {
				t.Fatalf("%s: group %d is %d, not %d", name, g, keys[g], v)
			}
		}
		unknown := []function.Vector{{Array: batch.NewFixed(arrow.PrimitiveTypes.Int64, []int64{123_456_789_012}, nil)}}
		if g := table.groups(nil, unknown, 1, false); g[0] != -1 {
			t.Errorf("%s: an unknown number has group %d", name, g[0])
		}
	}
}
