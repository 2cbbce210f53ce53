package region

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/storage/region/segment"
)

// sorter keeps rows with their keys and gives them back in key order.
type sorter struct {
	batches []*batch.Batch // without selections
	keys    segment.Keys   // of all rows
	rows    int
	bytes   int64
	sorted  bool // so far each key is above the one before
}

// add keeps the rows of b, which has keys.
func (s *sorter) add(b *batch.Batch, keys segment.Keys) {
	b = batch.Compact(b)
	if s.rows == 0 {
		s.sorted = true
		s.keys.Offsets = append(s.keys.Offsets[:0], 0)
		s.keys.Data = s.keys.Data[:0]
	}
	base := uint32(len(s.keys.Data))
	for i, o := range keys.Offsets[1:] {
		s.keys.Offsets = append(s.keys.Offsets, base+o)
		if i > 0 && s.sorted && bytes.Compare(keys.At(i-1), keys.At(i)) >= 0 {
			s.sorted = false
		}
	}
	s.keys.Data = append(s.keys.Data, keys.Data...)
	if s.sorted && s.rows > 0 && bytes.Compare(s.keys.At(s.rows-1), keys.At(0)) >= 0 {
		s.sorted = false
	}
	s.batches = append(s.batches, b)
	s.rows += b.Len
	s.bytes += int64(len(keys.Data)) + 20*int64(b.Len)
	for _, c := range b.Columns {
		s.bytes += batch.Bytes(c)
	}
}

// sortItem is a row to sort, with the first eight bytes of its key that are not
// the same in all keys: mostly they decide.
type sortItem struct {
	prefix uint64
	row    uint32
}

// order returns the rows by key, and how many were left out because a later
// row has the same key.
func (s *sorter) order() (rows []int32, duplicates int64) {
	same := s.common()
	items := make([]sortItem, s.rows)
	for i := range items {
		var p [8]byte
		copy(p[:], s.keys.At(i)[same:])
		items[i] = sortItem{binary.BigEndian.Uint64(p[:]), uint32(i)}
	}
	items = radixSort(items)
	rows = make([]int32, 0, len(items))
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].prefix == items[0].prefix {
			n++
		}
		tied := items[:n]
		items = items[n:]
		if n > 1 {
			slices.SortFunc(tied, func(a, b sortItem) int {
				if c := bytes.Compare(s.keys.At(int(a.row)), s.keys.At(int(b.row))); c != 0 {
					return c
				}
				return cmp.Compare(a.row, b.row)
			})
		}
		for i, it := range tied {
			if i+1 < n && bytes.Equal(s.keys.At(int(it.row)), s.keys.At(int(tied[i+1].row))) {
				duplicates++
				continue
			}
			rows = append(rows, int32(it.row))
		}
	}
	return rows, duplicates
}

// common returns how many bytes all keys begin with alike.
func (s *sorter) common() int {
	first := s.keys.At(0)
	n := len(first)
	for i := 1; i < s.rows; i++ {
		k := s.keys.At(i)
		n = min(n, len(k))
		if bytes.Equal(k[:n], first[:n]) {
			continue
		}
		for j := range n {
			if k[j] != first[j] {
				n = j
				break
			}
		}
	}
	return n
}

// radixSort sorts by prefix, keeping the order of equals: least significant
// byte first, without the bytes that all have alike. It returns the result,
// which may be another slice.
func radixSort(items []sortItem) []sortItem {
	var counts [8][256]int
	for _, it := range items {
		for b := range 8 {
			counts[b][byte(it.prefix>>(8*b))]++
		}
	}
	other := make([]sortItem, len(items))
	for b := range 8 {
		c := &counts[b]
		if len(items) > 0 && c[byte(items[0].prefix>>(8*b))] == len(items) {
			continue
		}
		at := 0
		for i, n := range c {
			c[i] = at
			at += n
		}
		for _, it := range items {
			d := byte(it.prefix >> (8 * b))
			other[c[d]] = it
			c[d]++
		}
		items, other = other, items
	}
	return items
}

// drain calls f with all rows in key order, the last of each key, and forgets
// them. It returns how many rows were hidden by a later one.
func (s *sorter) drain(ctx context.Context, f func(*batch.Batch, segment.Keys) error) (duplicates int64, err error) {
	if s.rows == 0 {
		return 0, nil
	}
	defer func() { *s = sorter{} }()
	if s.sorted {
		from := 0
		for _, b := range s.batches {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := f(b, segment.Keys{Offsets: s.keys.Offsets[from : from+b.Len+1], Data: s.keys.Data}); err != nil {
				return 0, err
			}
			from += b.Len
		}
		return 0, nil
	}
	rows, duplicates := s.order()
	columns := make([]arrow.Array, len(s.batches[0].Columns))
	for c := range columns {
		parts := make([]arrow.Array, len(s.batches))
		for i, b := range s.batches {
			parts[i] = b.Columns[c]
		}
		columns[c] = batch.Concat(parts)
	}
	s.batches = nil
	for len(rows) > 0 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n := min(len(rows), batch.MaxRows)
		b := &batch.Batch{Columns: make([]arrow.Array, len(columns)), Len: n}
		for c := range columns {
			b.Columns[c] = batch.Gather(columns[c], rows[:n])
		}
		size := 0
		for _, row := range rows[:n] {
			size += len(s.keys.At(int(row)))
		}
		keys := segment.Keys{Offsets: make([]uint32, 1, n+1), Data: make([]byte, 0, size)}
		for _, row := range rows[:n] {
			keys.Append(s.keys.At(int(row)))
		}
		if err := f(b, keys); err != nil {
			return 0, err
		}
		rows = rows[n:]
	}
	return duplicates, nil
}
