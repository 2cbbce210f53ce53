package operator

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
)

// radixRows is how many rows radix sorting needs to beat comparing.
const radixRows = 512

// pair is a row on its way through a radix sort.
type pair struct {
	word uint64
	row  int32
}

// radixOrder returns the rows in the order of their keys, equal ones as they
// came; nil when a key has no one-word form or the rows are few. Keys are sorted
// one after the other, the last one first, each by a stable radix sort: the
// first key has the last word.
func radixOrder(keys []arrow.Array, orders []sortOrder, n int) []int32 {
	if n < radixRows || len(keys) == 0 {
		return nil
	}
	for _, a := range keys {
		switch a.DataType().ID() {
		case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.DATE32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DICTIONARY:
		default:
			return nil
		}
	}
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	from, to := make([]pair, n), make([]pair, n)
	nulls := make([]int32, 0, 64)
	for k := len(keys) - 1; k >= 0; k-- {
		words := orderedWords(keys[k], orders[k], true)
		valid := batch.Validity(keys[k])
		// NULLs keep their order and go to one end.
		nulls = nulls[:0]
		part := from[:0]
		for _, r := range order {
			if valid != nil && !batch.BitSet(valid, int(r)) {
				nulls = append(nulls, r)
				continue
			}
			part = append(part, pair{words[r], r})
		}
		part = radixSort(part, to[:len(part)])
		out := order[:0]
		if !orders[k].nullsAfter {
			out = append(out, nulls...)
		}
		for _, p := range part {
			out = append(out, p.row)
		}
		if orders[k].nullsAfter {
			out = append(out, nulls...)
		}
		order = out
	}
	return order
}

// radixSort sorts stably by word, a byte at a time from the lowest, skipping
// bytes that are the same everywhere. The result is in a or in spare.
func radixSort(a, spare []pair) []pair {
	var counts [8][256]int32
	for _, p := range a {
		w := p.word
		counts[0][byte(w)]++
		counts[1][byte(w>>8)]++
		counts[2][byte(w>>16)]++
		counts[3][byte(w>>24)]++
		counts[4][byte(w>>32)]++
		counts[5][byte(w>>40)]++
		counts[6][byte(w>>48)]++
		counts[7][byte(w>>56)]++
	}
	for digit := range 8 {
		shift := uint(digit) * 8
		c := &counts[digit]
		if len(a) == 0 || int(c[byte(a[0].word>>shift)]) == len(a) {
			continue
		}
		sum := int32(0)
		for i := range c {
			c[i], sum = sum, sum+c[i]
		}
		for _, p := range a {
			d := byte(p.word >> shift)
			spare[c[d]] = p
			c[d]++
		}
		a, spare = spare, a
	}
	return a
}
