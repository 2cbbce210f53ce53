package segment

import (
	"bytes"
	"hash/maphash"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
)

// Limits of a column chunk's dictionary. Beyond them the values are stored
// plain: the codes would save nothing.
const (
	maxDictBytes = 16 << 20
	maxDictInts  = 4096 // distinct integers
	// A chunk that turns out (nearly) unique is given up early: after so many
	// rows, with so many distinct values in 100.
	uniqueCheckA, uniqueShareA = 64 << 10, 90
	uniqueCheckB, uniqueShareB = 256 << 10, 60
)

// textDict codes the text values of one row group's column: an open-addressing
// table from the value's hash to its code. Codes are in order of appearance.
type textDict struct {
	seed    maphash.Seed
	slots   []textSlot // a power of two of them, at most half full
	offsets []int32    // value i is data[offsets[i]:offsets[i+1]]
	data    []byte
}

type textSlot struct {
	hash uint32
	code int32 // plus 1; 0 is empty
}

func (d *textDict) reset() {
	if d.slots == nil {
		d.seed = maphash.MakeSeed()
		d.slots = make([]textSlot, 1024)
		d.offsets = append(d.offsets, 0)
	}
	clear(d.slots)
	d.offsets = d.offsets[:1]
	d.data = d.data[:0]
}

func (d *textDict) len() int { return len(d.offsets) - 1 }

func (d *textDict) value(code int32) []byte { return d.data[d.offsets[code]:d.offsets[code+1]] }

// code returns the code of v, a new one if need be.
func (d *textDict) code(v []byte) int32 {
	h := uint32(maphash.Bytes(d.seed, v))
	mask := uint32(len(d.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := d.slots[i]
		if s.code == 0 {
			return d.add(h, i, v)
		}
		if s.hash == h && bytes.Equal(d.value(s.code-1), v) {
			return s.code - 1
		}
	}
}

func (d *textDict) add(h, slot uint32, v []byte) int32 {
	d.data = append(d.data, v...)
	d.offsets = append(d.offsets, int32(len(d.data)))
	n := d.len()
	d.slots[slot] = textSlot{h, int32(n)}
	if 2*n > len(d.slots) {
		old := d.slots
		d.slots = make([]textSlot, 4*len(old))
		mask := uint32(len(d.slots) - 1)
		for _, s := range old {
			if s.code == 0 {
				continue
			}
			i := s.hash & mask
			for d.slots[i].code != 0 {
				i = (i + 1) & mask
			}
			d.slots[i] = s
		}
	}
	return int32(n - 1)
}

// codeText codes a column's pieces into codes, one for each row (0 for null
// rows), or reports that they are better stored plain.
func (d *textDict) codeText(pieces []arrow.Array, codes []int32) bool {
	d.reset()
	row, values, plain := 0, 0, 0 // plain: bytes of the values stored plain
	for _, a := range pieces {
		t, valid := batch.TextOf(a), batch.Validity(a)
		var remap []int32 // codes of the piece's own dictionary
		if t.Codes != nil {
			remap = make([]int32, batch.DictionaryOf(a).Len())
			for i := range remap {
				remap[i] = -1
			}
		}
		own := t
		own.Codes = nil
		for i := range a.Len() {
			if valid != nil && !batch.BitSet(valid, i) {
				codes[row+i] = 0
				continue
			}
			values++
			if remap != nil {
				c := t.Codes[i]
				if remap[c] < 0 {
					remap[c] = d.code(own.Bytes(int(c)))
				}
				codes[row+i] = remap[c]
				plain += 4 + int(d.offsets[remap[c]+1]-d.offsets[remap[c]])
				continue
			}
			v := own.Bytes(i)
			plain += 4 + len(v)
			codes[row+i] = d.code(v)
		}
		row += a.Len()
		n := d.len()
		if len(d.data)+4*n > maxDictBytes ||
			values >= uniqueCheckA && values < uniqueCheckB && n*100 > values*uniqueShareA ||
			values >= uniqueCheckB && n*100 > values*uniqueShareB {
			return false
		}
	}
	// About two bytes a code, as they are packed and compressed.
	return d.len() > 0 && len(d.data)+4*d.len()+2*values < plain*3/4
}

// intDict does the same for integers.
type intDict struct {
	slots  []int32 // codes plus 1
	values []int64
}

const intSlots = 4 * maxDictInts

func (d *intDict) reset() {
	if d.slots == nil {
		d.slots = make([]int32, intSlots)
	}
	clear(d.slots)
	d.values = d.values[:0]
}

// code returns the code of v, or -1 when there are too many values.
func (d *intDict) code(v int64) int32 {
	h := uint64(v) * 0x9E3779B97F4A7C15 >> 32
	for i := h % intSlots; ; i = (i + 1) % intSlots {
		s := d.slots[i]
		if s == 0 {
			if len(d.values) == maxDictInts {
				return -1
			}
			d.values = append(d.values, v)
			d.slots[i] = int32(len(d.values))
			return int32(len(d.values) - 1)
		}
		if d.values[s-1] == v {
			return s - 1
		}
	}
}

// codeInts codes a column's pieces, as codeText does.
func (d *intDict) codeInts(pieces []arrow.Array, phys physical, codes []int32) bool {
	d.reset()
	row, rows := 0, 0
	for _, a := range pieces {
		rows += a.Len()
	}
	var wide []int64
	for _, a := range pieces {
		valid := batch.Validity(a)
		var err error
		if wide, err = integers(a, wide[:0]); err != nil {
			return false // the plain way reports it
		}
		for i, v := range wide {
			if valid != nil && !batch.BitSet(valid, i) {
				codes[row+i] = 0
				continue
			}
			if codes[row+i] = d.code(v); codes[row+i] < 0 {
				return false
			}
		}
		row += a.Len()
	}
	width := 8
	if phys == physInt32 {
		width = 4
	}
	return len(d.values) > 0 && (len(d.values)+rows/4)*width < rows*width
}

// flatRows is how many rows flatCodes looks at.
const flatRows = uniqueCheckA

// flatCodes reports whether a column is going to be stored as codes that a
// codec doesn't shrink, with a dictionary that is smaller than they are: then
// pages are read faster without one. It looks at the first rows, and says no
// when these leave in doubt whether there will be codes at all.
func (e *columnEncoder) flatCodes(c *column, pieces []arrow.Array, rows int) bool {
	n := 0
	var some []arrow.Array
	for _, a := range pieces {
		if n+a.Len() > flatRows {
			a = batch.Slice(a, 0, flatRows-n)
		}
		some = append(some, a)
		if n += a.Len(); n == flatRows {
			break
		}
	}
	if cap(e.codes) < n {
		e.codes = make([]int32, max(n, rows))
	}
	codes := e.codes[:n]
	var size, entries int
	if c.phys == physBytes {
		if !e.text.codeText(some, codes) || e.text.len()*100 > n*uniqueShareB {
			return false
		}
		entries = e.text.len()
		size = len(e.text.data) + 4*entries
	} else {
		if !e.ints.codeInts(some, c.phys, codes) {
			return false
		}
		entries = len(e.ints.values)
		size = 8 * entries
	}
	width := bits.Len(uint(max(entries-1, 1)))
	// Rows that are NULL have no code in the file.
	at := 0
	var values []int32
	for _, a := range some {
		valid := batch.Validity(a)
		for i := 0; i < a.Len() && len(values) < stripeRows; i++ {
			if valid == nil || batch.BitSet(valid, i) {
				values = append(values, codes[at+i])
			}
		}
		at += a.Len()
	}
	return size <= rows*width/8 && stays(packed(values, width))
}

// packed returns codes as Parquet packs them.
func packed(codes []int32, width int) []byte {
	out := make([]byte, 0, len(codes)*width/8+8)
	var have uint64
	n := 0
	for _, code := range codes {
		have |= uint64(code) << n
		for n += width; n >= 8; n -= 8 {
			out = append(out, byte(have))
			have >>= 8
		}
	}
	return append(out, byte(have))
}
