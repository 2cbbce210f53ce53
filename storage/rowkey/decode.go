package rowkey

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Decode returns the values of a key. It accepts exactly the keys that Append
// makes; of a partitioned table's the partition id comes first. A char comes without its trailing blanks, -0 as 0.
func (e *Encoder) Decode(key storage.Key) ([]schema.Datum, error) {
	out := make([]schema.Datum, 0, 1+len(e.columns))
	rest := []byte(key)
	if e.partitioned {
		id, ok := Partition(key)
		if !ok {
			return nil, fault.Bugf("row key %x: too short for a partition id", []byte(key))
		}
		out = append(out, schema.Datum{Type: schema.IntType, I: int64(int32(id))})
		rest = rest[4:]
	}
	for i, c := range e.columns {
		d, after, ok := decodeColumn(c, rest)
		out, rest = append(out, d), after
		if !ok {
			return nil, fault.Bugf("row key %x: byte %d isn't part of a %s (key column %d)", []byte(key), len(key)-len(rest), c.Type, i+1)
		}
	}
	if len(rest) > 0 {
		return nil, fault.Bugf("row key %x: %d bytes after the last of %d key columns", []byte(key), len(rest), len(e.columns))
	}
	return out, nil
}

// decodeColumn takes one column's value off b. When it fails, rest starts
// with the value it failed at.
func decodeColumn(c Column, b []byte) (d schema.Datum, rest []byte, ok bool) {
	if len(b) == 0 {
		return d, b, false
	}
	var flip byte // descending bytes are complemented
	if c.Desc {
		flip = 0xFF
	}
	d.Type = c.Type
	switch b[0] ^ flip {
	case markNull:
		d.Null = true
		return d, b[1:], true
	case markValue:
	default:
		return d, b, false
	}
	if c.Type.IsText() || c.Type.Kind == schema.Binary {
		s, n, ok := decodeText(b[1:], flip)
		if !ok || c.Type.Kind == schema.Char && len(s) > 0 && s[len(s)-1] == ' ' {
			return d, b, false
		}
		d.S = string(s)
		return d, b[1+n:], true
	}
	width := fixedWidth(c.Type.Kind)
	if width == 0 || len(b) < 1+width {
		return d, b, false
	}
	var v [16]byte
	for i := range width {
		v[i] = b[1+i] ^ flip
	}
	rest = b[1+width:]
	switch c.Type.Kind {
	case schema.Boolean:
		d.I = int64(v[0])
		if v[0] > 1 {
			return d, b, false
		}
	case schema.TinyInt:
		d.I = int64(int8(v[0] ^ 0x80))
	case schema.SmallInt:
		d.I = int64(int16(binary.BigEndian.Uint16(v[:]) ^ 0x8000))
	case schema.Int, schema.Date:
		d.I = int64(int32(binary.BigEndian.Uint32(v[:]) ^ 1<<31))
	case schema.BigInt:
		d.I = int64(binary.BigEndian.Uint64(v[:]) ^ 1<<63)
	case schema.Float:
		u := binary.BigEndian.Uint32(v[:])
		f := math.Float32frombits(unorder32(u))
		d.F = float64(f)
		if floatBits(f) != u {
			return d, b, false
		}
	case schema.Double:
		u := binary.BigEndian.Uint64(v[:])
		d.F = math.Float64frombits(unorder64(u))
		if doubleBits(d.F) != u {
			return d, b, false
		}
	default: // Decimal, Timestamp, TimestampTZ
		d.D = decimal128.New(int64(binary.BigEndian.Uint64(v[:])^1<<63), binary.BigEndian.Uint64(v[8:]))
	}
	return d, rest, true
}

// fixedWidth returns the bytes of a value of fixed width; 0 for other kinds.
func fixedWidth(k schema.Kind) int {
	switch k {
	case schema.Boolean, schema.TinyInt:
		return 1
	case schema.SmallInt:
		return 2
	case schema.Int, schema.Date, schema.Float:
		return 4
	case schema.BigInt, schema.Double:
		return 8
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		return 16
	}
	return 0
}

// unorder32 and unorder64 undo floatBits and doubleBits.
func unorder32(u uint32) uint32 {
	if u>>31 != 0 {
		return u &^ (1 << 31)
	}
	return ^u
}

func unorder64(u uint64) uint64 {
	if u>>63 != 0 {
		return u &^ (1 << 63)
	}
	return ^u
}

// decodeText returns the value at the start of b and the bytes it takes there.
func decodeText(b []byte, flip byte) (value []byte, n int, ok bool) {
	for i := 0; i < len(b); i++ {
		c := b[i] ^ flip
		if c != 0 {
			value = append(value, c)
			continue
		}
		i++
		if i == len(b) {
			return nil, 0, false
		}
		switch b[i] ^ flip {
		case afterZeroEnd:
			return value, i + 1, true
		case afterZeroEscape:
			value = append(value, 0)
		default:
			return nil, 0, false
		}
	}
	return nil, 0, false
}
