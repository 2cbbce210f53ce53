package region

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// The delta's keys and values in Pebble; docs/format/delta.md describes each
// byte. A key is
//
//	keyDelta | generation, 8 bytes big endian | row key, escaped | ^timestamp, 8 bytes big endian
//
// so that a generation's rows come by key and, within a key, newest first. A
// row key is escaped (00 -> 00 FF, end 00 01) because the bounds of regions,
// clips and scans may be any bytes: only then does every key below a bound
// sort below it with its timestamp appended, and a range of Pebble keys is
// exactly a range of rows.

func deltaPrefix(gen uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyDelta}, gen)
}

// appendEscaped appends the escaped bytes of a row key without the end mark.
func appendEscaped(dst []byte, key storage.Key) []byte {
	for _, b := range key {
		dst = append(dst, b)
		if b == 0 {
			dst = append(dst, 0xFF)
		}
	}
	return dst
}

func appendDeltaKey(dst []byte, gen uint64, key storage.Key, ts storage.Timestamp) []byte {
	dst = append(dst, keyDelta)
	dst = binary.BigEndian.AppendUint64(dst, gen)
	dst = append(appendEscaped(dst, key), 0, 1)
	return binary.BigEndian.AppendUint64(dst, ^uint64(ts))
}

// deltaBounds returns the Pebble keys [lower, upper) of a generation's rows in r.
func deltaBounds(gen uint64, r storage.KeyRange) (lower, upper []byte) {
	lower = appendEscaped(deltaPrefix(gen), r.Start)
	if len(r.End) == 0 {
		// Generations are counted from 1 and never reach the highest number.
		return lower, deltaPrefix(gen + 1)
	}
	return lower, appendEscaped(deltaPrefix(gen), r.End)
}

// decodeDeltaKey appends the row key to dst.
func decodeDeltaKey(dst []byte, k []byte) (key storage.Key, ts storage.Timestamp, err error) {
	const head, tail = 9, 8
	if len(k) < head+2+tail || k[0] != keyDelta {
		return nil, 0, fmt.Errorf("delta key %x is cut short", k)
	}
	ts = storage.Timestamp(^binary.BigEndian.Uint64(k[len(k)-tail:]))
	b := k[head : len(k)-tail]
	for i := 0; i < len(b); i++ {
		if b[i] != 0 {
			dst = append(dst, b[i])
			continue
		}
		i++
		switch {
		case i < len(b) && b[i] == 0xFF:
			dst = append(dst, 0)
		case i == len(b)-1 && b[i] == 1:
			return dst, ts, nil
		default:
			return nil, 0, fmt.Errorf("delta key %x has a broken escape", k)
		}
	}
	return nil, 0, fmt.Errorf("delta key %x has no end mark", k)
}

// A value is
//
//	rowVersion | flags | number of values, uvarint | values...
//
// and each of the values
//
//	column id, uvarint | kind | for decimals: scale | the value's bytes
//
// NULL has kind Void and no bytes. A nested value is so many bytes, in which
// its parts are values without column ids (nested.go). All columns of the table are there, key
// columns too; a deletion has the key columns only.
const (
	rowVersion   = 1
	flagTombsone = 1
)

// column is an array opened for reading single values.
type column struct {
	valid []byte
	kind  schema.Kind
	i8    []int8
	i16   []int16
	i32   []int32
	i64   []int64
	f32   []float32
	f64   []float64
	d128  []decimal128.Num
	bits  []byte
	text  batch.Text
	array arrow.Array // of a nested type
	null  bool        // every row is NULL
}

func openColumn(t schema.Type, a arrow.Array) column {
	c := column{valid: batch.Validity(a), kind: t.Kind}
	switch t.Kind {
	case schema.Boolean:
		c.bits = batch.Bits(a)
	case schema.TinyInt:
		c.i8 = batch.Values[int8](a)
	case schema.SmallInt:
		c.i16 = batch.Values[int16](a)
	case schema.Int, schema.Date:
		c.i32 = batch.Values[int32](a)
	case schema.BigInt:
		c.i64 = batch.Values[int64](a)
	case schema.Float:
		c.f32 = batch.Values[float32](a)
	case schema.Double:
		c.f64 = batch.Values[float64](a)
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		c.d128 = batch.Values[decimal128.Num](a)
	case schema.String, schema.Char, schema.Varchar, schema.Binary:
		c.text = batch.TextOf(a)
	case schema.Array, schema.Map, schema.Struct, schema.Union:
		c.array = a
	}
	return c
}

func (c *column) isNull(row int) bool {
	return c.null || (c.valid != nil && !batch.BitSet(c.valid, row))
}

// appendValue appends kind and bytes of a value.
func (c *column) appendValue(dst []byte, t schema.Type, row int) []byte {
	if c.isNull(row) {
		return append(dst, byte(schema.Void))
	}
	dst = append(dst, byte(c.kind))
	switch c.kind {
	case schema.Boolean:
		return appendBool(dst, batch.BitSet(c.bits, row))
	case schema.TinyInt:
		return append(dst, byte(c.i8[row]))
	case schema.SmallInt:
		return binary.LittleEndian.AppendUint16(dst, uint16(c.i16[row]))
	case schema.Int, schema.Date:
		return binary.LittleEndian.AppendUint32(dst, uint32(c.i32[row]))
	case schema.BigInt:
		return binary.LittleEndian.AppendUint64(dst, uint64(c.i64[row]))
	case schema.Float:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(c.f32[row]))
	case schema.Double:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(c.f64[row]))
	case schema.Decimal:
		return appendNum(append(dst, t.Scale), c.d128[row])
	case schema.Timestamp, schema.TimestampTZ:
		return appendNum(dst, c.d128[row])
	case schema.Array, schema.Map, schema.Struct, schema.Union:
		return appendNested(dst, schema.FromArrow(c.array, row, t))
	default:
		return appendBytes(dst, c.text.Bytes(row))
	}
}

func appendNum(dst []byte, n decimal128.Num) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, n.LowBits())
	return binary.LittleEndian.AppendUint64(dst, uint64(n.HighBits()))
}

// appendDatum appends kind and bytes of a value.
func appendDatum(dst []byte, v schema.Datum) []byte {
	if v.Null {
		return append(dst, byte(schema.Void))
	}
	dst = append(dst, byte(v.Type.Kind))
	switch v.Type.Kind {
	case schema.Boolean, schema.TinyInt:
		return append(dst, byte(v.I))
	case schema.SmallInt:
		return binary.LittleEndian.AppendUint16(dst, uint16(v.I))
	case schema.Int, schema.Date:
		return binary.LittleEndian.AppendUint32(dst, uint32(v.I))
	case schema.BigInt:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.I))
	case schema.Float:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v.F)))
	case schema.Double:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.F))
	case schema.Decimal:
		return appendNum(append(dst, v.Type.Scale), v.D)
	case schema.Timestamp, schema.TimestampTZ:
		return appendNum(dst, v.D)
	case schema.Array, schema.Map, schema.Struct, schema.Union:
		return appendNested(dst, v)
	default:
		return appendString(dst, v.S)
	}
}

// appendTombstone appends the value of a deletion: the key columns' values.
func appendTombstone(dst []byte, key schema.Columns, values []schema.Datum) []byte {
	dst = append(dst, rowVersion, flagTombsone)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	for i, c := range key {
		dst = appendDatum(binary.AppendUvarint(dst, uint64(c.ID)), values[i])
	}
	return dst
}

// value is one decoded value. b shares the record's memory.
type value struct {
	column schema.ColumnID
	kind   schema.Kind // Void: NULL
	scale  uint8
	b      []byte // the bytes after kind, scale and length
}

// fixedSize returns the bytes of a value of a kind, 0 for text and binary.
func fixedSize(k schema.Kind) int {
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

// value reads kind and bytes of a value.
func (d *decoder) value(v *value) {
	v.kind = schema.Kind(d.byte())
	switch n := fixedSize(v.kind); {
	case v.kind == schema.Void:
	case v.kind == schema.Decimal:
		v.scale = d.byte()
		v.b = d.take(n)
	case n > 0:
		v.b = d.take(n)
	case v.kind >= schema.String && v.kind <= schema.Binary, v.kind >= schema.Array && v.kind <= schema.Union:
		v.b = d.bytes()
	default:
		d.fail("a value of unknown kind %d", v.kind)
	}
}

// rowReader reads the value of a delta row.
type rowReader struct {
	deleted bool
	d       decoder
	left    int
}

func openRow(b []byte) (r rowReader, err error) {
	r.d.b = b
	if v := r.d.byte(); r.d.err == nil && v != rowVersion {
		return r, fmt.Errorf("delta row of version %d, this program reads version %d", v, rowVersion)
	}
	flags := r.d.byte()
	if flags > flagTombsone {
		r.d.fail("unknown flags %#x", flags)
	}
	r.deleted = flags == flagTombsone
	r.left = r.d.count(2)
	if r.d.err != nil {
		return r, fmt.Errorf("delta row: %w", r.d.err)
	}
	return r, nil
}

// next returns the next value; ok is false at the end.
func (r *rowReader) next() (v value, ok bool, err error) {
	if r.left == 0 {
		if err := r.d.end(); err != nil {
			return v, false, fmt.Errorf("delta row: %w", err)
		}
		return v, false, nil
	}
	r.left--
	v.column = schema.ColumnID(r.d.uvarint())
	r.d.value(&v)
	if r.d.err != nil {
		return v, false, fmt.Errorf("delta row: %w", r.d.err)
	}
	return v, true, nil
}
