// Package rowkey encodes row keys so that the order of the bytes is the order
// of the rows, and no key is a prefix of another. docs/format/row-key.md has
// the encoding byte by byte.
//
// The technique (sign-flipped big-endian numbers, a zero byte escaped in
// text, the complement for descending columns) is the usual one of ordered
// key-value stores; see for instance HBase's OrderedBytes.
package rowkey

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Column is a row-key column. NULLs come first ascending, last descending.
type Column struct {
	Type schema.Type
	Desc bool
}

// The first byte of each column. Descending columns have its complement, like
// that of all other bytes.
const (
	markNull  = 0x00
	markValue = 0x01
)

// In text and binary values a zero byte is followed by one of these.
const (
	afterZeroEnd    = 0x00 // the value ends
	afterZeroEscape = 0xFF // the zero is part of the value
)

// Encoder encodes keys of some columns. Safe for concurrent use.
type Encoder struct {
	columns     []Column
	partitioned bool // a partition id comes before the columns
}

// NewEncoder returns an encoder of keys with these columns, each of a
// primitive type.
func NewEncoder(columns []Column) *Encoder { return &Encoder{columns: columns} }

// ForTable returns an encoder of a table's row keys. If the table is
// partitioned, the partition id counts as a first key column of type int: its
// array, without nulls, comes before those of the others, its value too. Of a
// keyless table the encoder makes that prefix alone.
func ForTable(t *storage.Table) *Encoder {
	return &Encoder{columns: ColumnsOf(t), partitioned: t.Partitioned}
}

// ColumnsOf returns the declared key columns of a table.
func ColumnsOf(t *storage.Table) []Column {
	out := make([]Column, len(t.Key))
	for i, c := range t.KeyColumns() {
		out[i] = Column{Type: c.Type, Desc: t.Key[i].Desc}
	}
	return out
}

// AppendPartition appends a partition id as row keys begin with it.
func AppendPartition(dst []byte, id storage.PartitionID) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(id))
}

// Partition returns the partition id that a key of a partitioned table begins
// with; false if it is too short.
func Partition(key storage.Key) (storage.PartitionID, bool) {
	if len(key) < 4 {
		return 0, false
	}
	return storage.PartitionID(binary.BigEndian.Uint32(key)), true
}

// Append appends to dst the key of a row: cols are the key columns' arrays,
// text ones plain or dictionary-coded. For many rows of the same arrays, Bind
// once. On an error dst comes back as it was.
func (e *Encoder) Append(dst []byte, cols []arrow.Array, row int) ([]byte, error) {
	var b Binding
	if err := b.bind(e, cols); err != nil {
		return dst, err
	}
	return b.Append(dst, row), nil
}

// AppendDatums appends to dst the key of these values, which must have the
// key columns' types. On an error dst comes back as it was.
func (e *Encoder) AppendDatums(dst []byte, values []schema.Datum) ([]byte, error) {
	out := dst
	if e.partitioned {
		if len(values) == 0 || values[0].Null || values[0].Type.Kind != schema.Int {
			return dst, fault.Bugf("row key: no partition id before the values %v", values)
		}
		out = AppendPartition(out, storage.PartitionID(values[0].I))
		values = values[1:]
	}
	if len(values) != len(e.columns) {
		return dst, fault.Bugf("row key: %d values for %d key columns", len(values), len(e.columns))
	}
	for i, c := range e.columns {
		v := values[i]
		if v.Null {
			out = append(out, mark(markNull, c.Desc))
			continue
		}
		if v.Type.Kind != c.Type.Kind || v.Type.Scale != c.Type.Scale {
			return dst, fault.Bugf("row key: a %s for key column %d of type %s", v.Type, i+1, c.Type)
		}
		start := len(out)
		out = append(out, markValue)
		switch c.Type.Kind {
		case schema.Boolean, schema.TinyInt:
			if c.Type.Kind == schema.Boolean {
				out = append(out, byte(v.I&1))
			} else {
				out = append(out, byte(v.I)^0x80)
			}
		case schema.SmallInt:
			out = binary.BigEndian.AppendUint16(out, uint16(v.I)^0x8000)
		case schema.Int, schema.Date:
			out = binary.BigEndian.AppendUint32(out, uint32(v.I)^1<<31)
		case schema.BigInt:
			out = binary.BigEndian.AppendUint64(out, uint64(v.I)^1<<63)
		case schema.Float:
			out = binary.BigEndian.AppendUint32(out, floatBits(float32(v.F)))
		case schema.Double:
			out = binary.BigEndian.AppendUint64(out, doubleBits(v.F))
		case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
			out = binary.BigEndian.AppendUint64(out, uint64(v.D.HighBits())^1<<63)
			out = binary.BigEndian.AppendUint64(out, v.D.LowBits())
		case schema.String, schema.Varchar, schema.Binary:
			out = appendText(out, v.S)
		case schema.Char:
			out = appendText(out, strings.TrimRight(v.S, " "))
		default:
			return dst, fault.Bugf("row key: key column %d has type %s, which can't be in a row key", i+1, c.Type)
		}
		if c.Desc {
			complement(out[start:])
		}
	}
	return out, nil
}

func mark(m byte, desc bool) byte {
	if desc {
		return ^m
	}
	return m
}

func complement(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// floatBits and doubleBits order floats as unsigned integers: NaN (made one)
// above all, -0 equal to 0.
func floatBits(f float32) uint32 {
	if f != f {
		return 0xFFC00000 // the quiet NaN 7FC00000 with its sign flipped
	}
	b := math.Float32bits(f + 0) // -0 + 0 = 0
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

func doubleBits(f float64) uint64 {
	if f != f {
		return 0xFFF8000000000000
	}
	b := math.Float64bits(f + 0)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// appendText appends a text or binary value, escaped and ended.
func appendText[T string | []byte](dst []byte, s T) []byte {
	for {
		i := indexZero(s)
		if i < 0 {
			dst = append(dst, s...)
			return append(dst, 0, afterZeroEnd)
		}
		dst = append(dst, s[:i]...)
		dst = append(dst, 0, afterZeroEscape)
		s = s[i+1:]
	}
}

// ImplicitLen is the length of an implicit row id.
const ImplicitLen = 22

// Implicit returns the row id of a row of a keyless table. The stripe spreads
// loads over the regions: with n regions the table is cut at i*65536/n.
func Implicit(stripe uint16, load uint64, task uint32, ordinal uint64) storage.Key {
	return AppendImplicit(make([]byte, 0, ImplicitLen), stripe, load, task, ordinal)
}

// AppendImplicit appends an implicit row id to dst.
func AppendImplicit(dst []byte, stripe uint16, load uint64, task uint32, ordinal uint64) []byte {
	dst = binary.BigEndian.AppendUint16(dst, stripe)
	dst = binary.BigEndian.AppendUint64(dst, load)
	dst = binary.BigEndian.AppendUint32(dst, task)
	return binary.BigEndian.AppendUint64(dst, ordinal)
}

// Stripe returns the stripe for the rows that a task loads into a partition: of
// few tasks as of many it spreads them evenly.
func Stripe(task int) uint16 { return bits.Reverse16(uint16(task)) }

// ParseImplicit is the inverse of Implicit; false for other keys.
func ParseImplicit(key storage.Key) (stripe uint16, load uint64, task uint32, ordinal uint64, ok bool) {
	if len(key) != ImplicitLen {
		return 0, 0, 0, 0, false
	}
	return binary.BigEndian.Uint16(key), binary.BigEndian.Uint64(key[2:]), binary.BigEndian.Uint32(key[10:]),
		binary.BigEndian.Uint64(key[14:]), true
}
