package region

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/schema"
)

// A nested value in the delta is a length and so many bytes, in which a part is
// a kind and its bytes, as a column's value is:
//
//	array:   number of elements, uvarint | elements...
//	map:     number of pairs, uvarint | key | value | key | value...
//	struct:  number of fields, uvarint | fields...
//	union:   tag, byte | value

// appendNested appends the bytes of a nested value that isn't NULL, after its kind.
func appendNested(dst []byte, v schema.Datum) []byte {
	var body []byte
	n := len(v.List)
	switch v.Type.Kind {
	case schema.Union:
		body = append(body, byte(v.I))
	case schema.Map:
		body = binary.AppendUvarint(body, uint64(n/2))
	default:
		body = binary.AppendUvarint(body, uint64(n))
	}
	for _, part := range v.List {
		body = appendDatum(body, part)
	}
	return appendBytes(dst, body)
}

// decodeNested decodes a nested value of a type.
func decodeNested(t schema.Type, b []byte, depth int) (schema.Datum, error) {
	d := &decoder{b: b}
	out := schema.Datum{Type: t}
	if depth > maxNesting {
		return out, fmt.Errorf("a value is nested more than %d deep", maxNesting)
	}
	part := func(t schema.Type) error {
		v, err := d.part(t, depth)
		out.List = append(out.List, v)
		return err
	}
	fields := t.Nested.Fields
	switch t.Kind {
	case schema.Array, schema.Map:
		for range d.count(len(fields)) {
			for _, f := range fields {
				if err := part(f.Type); err != nil {
					return out, err
				}
			}
		}
	case schema.Struct:
		if n := d.count(1); n != len(fields) && d.err == nil {
			return out, fmt.Errorf("a struct of %d fields, the type has %d", n, len(fields))
		}
		for _, f := range fields {
			if err := part(f.Type); err != nil {
				return out, err
			}
		}
	default:
		out.I = int64(d.byte())
		if int(out.I) >= len(fields) {
			return out, fmt.Errorf("a union of alternative %d, the type has %d", out.I, len(fields))
		}
		if err := part(fields[out.I].Type); err != nil {
			return out, err
		}
	}
	return out, d.end()
}

// part decodes a part of a nested value.
func (d *decoder) part(t schema.Type, depth int) (schema.Datum, error) {
	var v value
	if d.value(&v); d.err != nil {
		return schema.Datum{}, d.err
	}
	if v.kind == schema.Void {
		return schema.NullOf(t), nil
	}
	if v.kind != t.Kind || v.kind == schema.Decimal && v.scale != t.Scale {
		return schema.Datum{}, fmt.Errorf("a %s where the type has a %s", schema.Type{Kind: v.kind, Scale: v.scale, Precision: t.Precision}, t)
	}
	le, out := binary.LittleEndian, schema.Datum{Type: t}
	switch t.Kind {
	case schema.Boolean, schema.TinyInt:
		out.I = int64(int8(v.b[0]))
	case schema.SmallInt:
		out.I = int64(int16(le.Uint16(v.b)))
	case schema.Int, schema.Date:
		out.I = int64(int32(le.Uint32(v.b)))
	case schema.BigInt:
		out.I = int64(le.Uint64(v.b))
	case schema.Float:
		out.F = float64(math.Float32frombits(le.Uint32(v.b)))
	case schema.Double:
		out.F = math.Float64frombits(le.Uint64(v.b))
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		out.D = decimal128.New(int64(le.Uint64(v.b[8:])), le.Uint64(v.b))
	case schema.String, schema.Char, schema.Varchar, schema.Binary:
		out.S = string(v.b)
	default:
		return decodeNested(t, v.b, depth+1)
	}
	return out, nil
}
