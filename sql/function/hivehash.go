package function

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// addHiveHashes registers hash and murmur_hash, whose values are Hive's to the bit
// (ObjectInspectorUtils.hashCode and hashCodeMurmur): bucketed data of Hive relies on
// them.
func addHiveHashes(r *Registry) {
	for name, murmur := range map[string]bool{"hash": false, "murmur_hash": true} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 1, -1); err != nil {
				return Signature{}, err
			}
			types := append([]schema.Type(nil), args...)
			return Signature{Args: types, Result: schema.IntType, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
				out := make([]int32, n)
				for k, v := range args {
					h, mask := hiveHashes(types[k], v.Array, murmur), v.mask()
					for i := range out {
						out[i] = out[i]*31 + h[i&mask]
					}
				}
				return Vector{Array: batch.NewFixed(schema.IntType.Arrow(), out, nil)}, nil
			}}, nil
		})
	}
}

// HiveHash returns, for rows of columns, what Hive's hash(columns...) or, with murmur,
// murmur_hash(columns...) gives: bucket numbers come from it.
func HiveHash(types []schema.Type, columns []arrow.Array, murmur bool) []int32 {
	var out []int32
	for k, a := range columns {
		h := hiveHashes(types[k], a, murmur)
		if k == 0 {
			out = h
			continue
		}
		for i := range out {
			out[i] = out[i]*31 + h[i]
		}
	}
	return out
}

// hiveHashes returns the hash of each element; NULL's is 0.
func hiveHashes(t schema.Type, a arrow.Array, murmur bool) []int32 {
	out := make([]int32, a.Len())
	switch {
	case t.Kind == schema.Void:
		return out
	case isBytes(t):
		hashTexts(t, a, murmur, out)
	case is128(t):
		for i, x := range batch.Values[num](a) {
			out[i] = hash128(t, x, murmur)
		}
	case t.IsNested():
		hashNested(t, a, murmur, out)
	default:
		hashWords(t, a, murmur, out)
	}
	if valid := batch.Validity(a); valid != nil {
		for i := range out {
			if !batch.BitSet(valid, i) {
				out[i] = 0
			}
		}
	}
	return out
}

func fold64(x uint64) int32 { return int32(uint32(x>>32) ^ uint32(x)) }

func hashWords(t schema.Type, a arrow.Array, murmur bool, out []int32) {
	var b [8]byte
	of32 := func(x uint32) int32 {
		binary.BigEndian.PutUint32(b[:], x)
		return murmur3(b[:4])
	}
	of64 := func(x uint64) int32 {
		binary.BigEndian.PutUint64(b[:], x)
		return murmur3(b[:8])
	}
	switch t.Kind {
	case schema.Boolean:
		set := batch.Bits(a)
		for i := range out {
			out[i] = int32(set[i>>3] >> (uint(i) & 7) & 1)
		}
	case schema.TinyInt:
		for i, x := range batch.Values[int8](a) {
			out[i] = int32(x)
		}
	case schema.SmallInt:
		for i, x := range batch.Values[int16](a) {
			if out[i] = int32(x); murmur {
				binary.BigEndian.PutUint16(b[:], uint16(x))
				out[i] = murmur3(b[:2])
			}
		}
	case schema.Int, schema.Date, schema.IntervalYearMonth:
		for i, x := range batch.Values[int32](a) {
			if out[i] = x; murmur {
				out[i] = of32(uint32(x))
			}
		}
	case schema.BigInt:
		for i, x := range batch.Values[int64](a) {
			if murmur {
				out[i] = of64(uint64(x))
			} else {
				out[i] = fold64(uint64(x))
			}
		}
	case schema.Float:
		for i, x := range batch.Values[float32](a) {
			if x != x {
				x = float32(math.NaN())
			}
			w := math.Float32bits(x)
			if out[i] = int32(w); murmur { // the bits as a number, written as a float
				out[i] = of32(math.Float32bits(float32(int32(w))))
			}
		}
	case schema.Double:
		for i, x := range batch.Values[float64](a) {
			w := math.Float64bits(x)
			if x != x {
				w = 0x7ff8000000000000
			}
			if murmur {
				out[i] = of64(math.Float64bits(float64(int64(w))))
			} else {
				out[i] = fold64(w)
			}
		}
	}
}

// hash128 hashes decimals, timestamps and day-time intervals.
func hash128(t schema.Type, x num, murmur bool) int32 {
	if t.Kind == schema.Decimal {
		return hashDecimal(x, int(t.Scale), murmur)
	}
	seconds, nanos, _ := schema.SecondsOf(x)
	if t.Kind == schema.IntervalDayTime {
		h := (int32(17*37)+int32(seconds^seconds>>32))*37 + int32(nanos)
		if murmur {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], uint32(h))
			return murmur3(b[:])
		}
		return h
	}
	if murmur {
		return murmur3(timestampBytes(seconds, nanos))
	}
	return fold64(uint64(seconds<<30 | int64(nanos)))
}

// hashDecimal hashes a decimal without its trailing zeros as Java's BigDecimal does.
func hashDecimal(x num, scale int, murmur bool) int32 {
	for scale > 0 {
		hi, lo, negative := magnitude(x)
		qhi, qlo, rem := div128(hi, lo, 10)
		if rem != 0 {
			break
		}
		x = fromMagnitude(qhi, qlo, negative)
		scale--
	}
	if murmur {
		b := make([]byte, 16)
		binary.BigEndian.PutUint64(b, uint64(x.HighBits()))
		binary.BigEndian.PutUint64(b[8:], x.LowBits())
		for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) { // BigInteger.toByteArray
			b = b[1:]
		}
		return murmur3(b)
	}
	hi, lo, negative := magnitude(x)
	h := int32(0)
	for _, w := range []uint32{uint32(hi >> 32), uint32(hi), uint32(lo >> 32), uint32(lo)} {
		h = 31*h + int32(w)
	}
	if negative {
		h = -h
	}
	return 31*h + int32(scale)
}

// timestampBytes is the form in which Hive stores a timestamp (TimestampWritableV2): 31
// bits of seconds below a flag, the nanoseconds' digits backwards and the seconds'
// higher bits as Hadoop's variable-length numbers.
func timestampBytes(seconds int64, nanos int) []byte {
	decimal := 0
	if nanos != 0 {
		for range 9 {
			decimal = decimal*10 + nanos%10
			nanos /= 10
		}
	}
	high := seconds < 0 || seconds > math.MaxInt32
	first := uint32(seconds) &^ (1 << 31)
	if decimal != 0 || high {
		first |= 1 << 31
	}
	b := binary.BigEndian.AppendUint32(nil, first)
	if high {
		b = appendHadoopVInt(b, int64(-decimal-1))
		return appendHadoopVInt(b, seconds>>31)
	}
	if decimal != 0 {
		b = appendHadoopVInt(b, int64(decimal))
	}
	return b
}

// appendHadoopVInt is Hadoop's WritableUtils.writeVLong.
func appendHadoopVInt(b []byte, x int64) []byte {
	if x >= -112 && x <= 127 {
		return append(b, byte(x))
	}
	lead := -112
	if x < 0 {
		x = ^x
		lead = -120
	}
	n := (bits.Len64(uint64(x)) + 7) / 8
	b = append(b, byte(lead-n))
	for k := n - 1; k >= 0; k-- {
		b = append(b, byte(x>>(8*k)))
	}
	return b
}

func hashTexts(t schema.Type, a arrow.Array, murmur bool, out []int32) {
	x, valid := batch.TextOf(a), batch.Validity(a)
	start := int32(1) // Text.hashCode
	if t.Kind == schema.String {
		start = 0
	}
	var entries []int32 // by dictionary entry
	var done []bool
	if d := batch.DictionaryOf(a); d != nil && d.Len() <= len(out) {
		entries, done = make([]int32, d.Len()), make([]bool, d.Len())
	}
	for i := range out {
		if valid != nil && !batch.BitSet(valid, i) {
			continue
		}
		if entries != nil && done[x.Codes[i]] {
			out[i] = entries[x.Codes[i]]
			continue
		}
		s := x.Bytes(i)
		if murmur {
			out[i] = murmur3(s)
		} else {
			h := start
			for _, c := range s {
				h = h*31 + int32(int8(c))
			}
			out[i] = h
		}
		if entries != nil {
			entries[x.Codes[i]], done[x.Codes[i]] = out[i], true
		}
	}
}

func hashNested(t schema.Type, a arrow.Array, murmur bool, out []int32) {
	switch t.Kind {
	case schema.Array:
		l := listOf(Vector{Array: a})
		h := hiveHashes(t.Part(0), l.values, murmur)
		for i := range out {
			for j, end := l.span(i); j < end; j++ {
				out[i] = 31*out[i] + h[j]
			}
		}
	case schema.Map:
		l := listOf(Vector{Array: a})
		keys := hiveHashes(t.Part(0), batch.FieldOf(l.values, 0), murmur)
		values := hiveHashes(t.Part(1), batch.FieldOf(l.values, 1), false)
		for i := range out {
			for j, end := l.span(i); j < end; j++ {
				out[i] += keys[j] ^ values[j]
			}
		}
	case schema.Struct:
		for k := range t.Parts() {
			for i, h := range hiveHashes(t.Part(k), batch.FieldOf(a, k), murmur) {
				out[i] = 31*out[i] + h
			}
		}
	default:
		tags := batch.Values[int8](batch.FieldOf(a, 0))
		for k := range t.Parts() {
			for i, h := range hiveHashes(t.Part(k), batch.FieldOf(a, k+1), murmur) {
				if int(tags[i]) == k {
					out[i] = h
				}
			}
		}
	}
}

// murmur3 is MurmurHash3_x86_32 (Austin Appleby, public domain) with Hive's seed.
func murmur3(b []byte) int32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	h := uint32(104729)
	n := len(b)
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * c1
		h ^= bits.RotateLeft32(k, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	var k uint32
	for i := len(b) - 1; i >= 0; i-- {
		k = k<<8 | uint32(b[i])
	}
	if len(b) > 0 {
		h ^= bits.RotateLeft32(k*c1, 15) * c2
	}
	h ^= uint32(n)
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return int32(h ^ h>>16)
}
