package segment

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/storage"
)

// mask is a bitmap of rows: bit i of word i/64. Bits past the last row are 0.
type mask []uint64

func maskOf(buf mask, n int) mask {
	w := (n + 63) / 64
	if cap(buf) < w {
		buf = make(mask, w, max(w, stripeRows/64))
	}
	return buf[:w]
}

func (m mask) fill(n int) {
	for i := range m {
		m[i] = ^uint64(0)
	}
	m.trim(n)
}

// trim clears the bits from n on.
func (m mask) trim(n int) {
	if r := n & 63; r != 0 && len(m) > 0 {
		m[len(m)-1] &= 1<<r - 1
	}
}

func (m mask) count() int {
	n := 0
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

func (m mask) and(o mask) {
	for i := range m {
		m[i] &= o[i]
	}
}

func (m mask) or(o mask) {
	for i := range m {
		m[i] |= o[i]
	}
}

func (m mask) not() {
	for i := range m {
		m[i] = ^m[i]
	}
}

// clip clears all bits outside [from, to).
func (m mask) clip(from, to int) {
	for i := range m {
		lo, hi := from-64*i, to-64*i
		switch {
		case hi <= 0 || lo >= 64:
			m[i] = 0
		default:
			if lo > 0 {
				m[i] &= ^uint64(0) << lo
			}
			if hi < 64 {
				m[i] &= 1<<hi - 1
			}
		}
	}
}

// appendTo appends the positions of the set bits.
func (m mask) appendTo(sel []int32) []int32 {
	for i, w := range m {
		for ; w != 0; w &= w - 1 {
			sel = append(sel, int32(64*i+bits.TrailingZeros64(w)))
		}
	}
	return sel
}

// andBits keeps the bits that are set in a bitmap of n bits.
func (m mask) andBits(b []byte, n int) {
	for i := range m {
		m[i] &= word(b, i)
	}
	m.trim(n)
}

// word returns 64 bits of a bitmap, which may end within them.
func word(b []byte, i int) uint64 {
	b = b[min(8*i, len(b)):]
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var w uint64
	for j, x := range b {
		w |= uint64(x) << (8 * j)
	}
	return w
}

// The loops below set the bit of each value for which a comparison holds. They
// build words in a register; the compiler makes the bodies free of branches.

func maskEq[T int32 | int64 | float32 | float64](m mask, v []T, x T) {
	found := 0 // blocks of 64 with a value equal to x
	for i := range m {
		var w uint64
		part := v[64*i : min(64*i+64, len(v))]
		j := 0
		// While hits are rare it is faster to look for one with branches, which are
		// then foretold well.
		if 4*found <= i {
			for ; j+8 <= len(part); j += 8 {
				p := (*[8]T)(part[j:])
				if p[0] == x || p[1] == x || p[2] == x || p[3] == x || p[4] == x || p[5] == x || p[6] == x || p[7] == x {
					found++
					break
				}
			}
		}
		for ; j+8 <= len(part); j += 8 {
			p := (*[8]T)(part[j:])
			w |= (bit(p[0] == x) | bit(p[1] == x)<<1 | bit(p[2] == x)<<2 | bit(p[3] == x)<<3 |
				bit(p[4] == x)<<4 | bit(p[5] == x)<<5 | bit(p[6] == x)<<6 | bit(p[7] == x)<<7) << j
		}
		for ; j < len(part); j++ {
			w |= bit(part[j] == x) << j
		}
		m[i] = w
	}
}

func maskLt[T int32 | int64 | float32 | float64](m mask, v []T, x T) {
	for i := range m {
		var w uint64
		part := v[64*i : min(64*i+64, len(v))]
		j := 0
		for ; j+8 <= len(part); j += 8 {
			p := (*[8]T)(part[j:])
			w |= (bit(p[0] < x) | bit(p[1] < x)<<1 | bit(p[2] < x)<<2 | bit(p[3] < x)<<3 |
				bit(p[4] < x)<<4 | bit(p[5] < x)<<5 | bit(p[6] < x)<<6 | bit(p[7] < x)<<7) << j
		}
		for ; j < len(part); j++ {
			w |= bit(part[j] < x) << j
		}
		m[i] = w
	}
}

func maskLe[T int32 | int64 | float32 | float64](m mask, v []T, x T) {
	for i := range m {
		var w uint64
		part := v[64*i : min(64*i+64, len(v))]
		j := 0
		for ; j+8 <= len(part); j += 8 {
			p := (*[8]T)(part[j:])
			w |= (bit(p[0] <= x) | bit(p[1] <= x)<<1 | bit(p[2] <= x)<<2 | bit(p[3] <= x)<<3 |
				bit(p[4] <= x)<<4 | bit(p[5] <= x)<<5 | bit(p[6] <= x)<<6 | bit(p[7] <= x)<<7) << j
		}
		for ; j < len(part); j++ {
			w |= bit(part[j] <= x) << j
		}
		m[i] = w
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// maskNumbers compares numbers, with NaN equal to itself and above all.
func maskNumbers[T int32 | int64 | float32 | float64](m mask, v []T, op storage.Op, x T) {
	negate := false
	switch op {
	case storage.Ne:
		op, negate = storage.Eq, true
	case storage.Gt:
		op, negate = storage.Le, true
	case storage.Ge:
		op, negate = storage.Lt, true
	}
	switch nan := x != x; {
	case op == storage.Le && nan:
		m.fill(len(v))
	case op == storage.Eq && !nan:
		maskEq(m, v, x)
	case op == storage.Lt && !nan:
		maskLt(m, v, x)
	case op == storage.Le:
		maskLe(m, v, x)
	default: // = NaN, < NaN
		for i := range m {
			var w uint64
			for j, y := range v[64*i : min(64*i+64, len(v))] {
				w |= bit(y != y) << j
			}
			m[i] = w
		}
		if op == storage.Lt {
			m.not()
		}
	}
	if negate {
		m.not()
	}
	m.trim(len(v))
}

// holds reports whether a comparison that came out as c (-1, 0, 1) satisfies op.
func holds(op storage.Op, c int) bool {
	switch op {
	case storage.Eq:
		return c == 0
	case storage.Ne:
		return c != 0
	case storage.Lt:
		return c < 0
	case storage.Le:
		return c <= 0
	case storage.Gt:
		return c > 0
	}
	return c >= 0
}

func maskWide(m mask, v []decimal128.Num, op storage.Op, x decimal128.Num) {
	clear(m)
	for i, y := range v {
		m[i/64] |= bit(holds(op, y.Cmp(x))) << (i & 63)
	}
}

// maskText compares text; trim leaves trailing blanks out, as char does.
func maskText(m mask, offsets []int32, data []byte, op storage.Op, x []byte, trim bool) {
	clear(m)
	n := len(offsets) - 1
	if !trim && (op == storage.Eq || op == storage.Ne) {
		for i := range n {
			if int(offsets[i+1]-offsets[i]) == len(x) && bytes.Equal(data[offsets[i]:offsets[i+1]], x) {
				m[i/64] |= 1 << (i & 63)
			}
		}
		if op == storage.Ne {
			m.not()
			m.trim(n)
		}
		return
	}
	for i := range n {
		y := data[offsets[i]:offsets[i+1]]
		if trim {
			y = bytes.TrimRight(y, " ")
		}
		m[i/64] |= bit(holds(op, bytes.Compare(y, x))) << (i & 63)
	}
}

// maskCodes looks codes up in a table with a bit for each.
func maskCodes(m mask, codes []int32, table mask) {
	for i := range m {
		var w uint64
		for j, c := range codes[64*i : min(64*i+64, len(codes))] {
			w |= table[c>>6] >> (c & 63) & 1 << j
		}
		m[i] = w
	}
}
