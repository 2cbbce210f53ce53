package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
)

// Decimal is a decimal number as text: "12.50".
type Decimal string

// goValue returns the Go value of a datum; see Rows.All.
func goValue(d schema.Datum) any {
	if d.Null {
		return nil
	}
	switch d.Type.Kind {
	case schema.Boolean:
		return d.I != 0
	case schema.TinyInt:
		return int8(d.I)
	case schema.SmallInt:
		return int16(d.I)
	case schema.Int:
		return int32(d.I)
	case schema.BigInt:
		return d.I
	case schema.Float:
		return float32(d.F)
	case schema.Double:
		return d.F
	case schema.Decimal:
		return Decimal(d.Text())
	case schema.Binary:
		return []byte(d.S)
	case schema.Date:
		return time.Unix(d.I*86400, 0).UTC()
	case schema.Timestamp, schema.TimestampTZ:
		if seconds, nanos, ok := schema.SecondsOf(d.D); ok {
			return time.Unix(seconds, int64(nanos)).UTC()
		}
	}
	return d.Text()
}

// datumOf returns v as a value of type t. It takes what goValue returns, all
// of Go's numbers, text as a file would have it, and nothing that would lose
// something on the way: a number that doesn't fit is an error.
func datumOf(t schema.Type, v any) (schema.Datum, error) {
	bad := func() (schema.Datum, error) {
		return schema.Datum{}, fault.Userf("%s is no value of type %s", show(v), t)
	}
	switch v := v.(type) {
	case nil:
		return schema.NullOf(t), nil
	case string:
		return textDatum(t, v)
	case Decimal:
		return textDatum(t, string(v))
	case json.Number:
		return textDatum(t, string(v))
	case []byte:
		if t.Kind != schema.Binary && !t.IsText() {
			return bad()
		}
		return schema.Datum{Type: t, S: string(v)}, nil
	case bool:
		if t.Kind != schema.Boolean {
			return bad()
		}
		return textDatum(t, strconv.FormatBool(v))
	case time.Time:
		switch t.Kind {
		case schema.Date:
			days := v.UTC().Unix() / 86400
			if v.UTC().Unix()%86400 < 0 {
				days--
			}
			return schema.Datum{Type: t, I: days}, nil
		case schema.Timestamp, schema.TimestampTZ:
			return schema.Datum{Type: t, D: schema.NanosOf(v.Unix(), v.Nanosecond())}, nil
		}
		return bad()
	case float32:
		return floatDatum(t, float64(v), 32)
	case float64:
		return floatDatum(t, v, 64)
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		if !t.IsNumeric() {
			return bad()
		}
		return textDatum(t, fmt.Sprint(v))
	case []any:
		if t.Kind == schema.Array {
			return listDatum(t, v)
		}
	case map[string]any:
		if t.IsNested() && t.Kind != schema.Array {
			return objectDatum(t, v)
		}
	}
	return bad()
}

// listDatum returns an array.
func listDatum(t schema.Type, values []any) (schema.Datum, error) {
	out := schema.Datum{Type: t}
	for i, v := range values {
		d, err := datumOf(t.Nested.Fields[0].Type, v)
		if err != nil {
			return out, fmt.Errorf("element %d: %w", i, err)
		}
		out.List = append(out.List, d)
	}
	return out, nil
}

// objectDatum returns a map, a struct, of which fields that aren't given are
// NULL, or a union: {"0": value} is of its first alternative.
func objectDatum(t schema.Type, object map[string]any) (schema.Datum, error) {
	out := schema.Datum{Type: t}
	fields := t.Nested.Fields
	add := func(name string, t schema.Type, v any) error {
		d, err := datumOf(t, v)
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		out.List = append(out.List, d)
		return nil
	}
	names := slices.Sorted(maps.Keys(object))
	switch t.Kind {
	case schema.Map:
		for _, name := range names {
			if err := add(name, fields[0].Type, name); err != nil {
				return out, err
			}
			if err := add(name, fields[1].Type, object[name]); err != nil {
				return out, err
			}
		}
	case schema.Struct:
		known := make([]string, len(fields))
		for i, f := range fields {
			known[i] = f.Name
			if err := add(f.Name, f.Type, object[f.Name]); err != nil {
				return out, err
			}
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				return out, &fault.Error{Class: fault.User, SQLState: fault.StateBadData,
					Message: fmt.Sprintf("%s has no field %q", t, name), Hint: nearest.Hint(name, known)}
			}
		}
	default:
		if len(names) != 1 {
			return out, fault.Userf("an object of %d members for a %s: want one, the number of an alternative", len(names), t)
		}
		i, err := strconv.Atoi(names[0])
		if err != nil || i < 0 || i >= len(fields) {
			return out, fault.Userf("%q is none of the alternatives of %s: they are numbered from 0 to %d", names[0], t, len(fields)-1)
		}
		out.I = int64(i)
		if err := add(names[0], fields[i].Type, object[names[0]]); err != nil {
			return out, err
		}
	}
	return out, nil
}

func floatDatum(t schema.Type, v float64, bits int) (schema.Datum, error) {
	switch {
	case t.Kind == schema.Float || t.Kind == schema.Double:
		if t.Kind == schema.Float {
			v = float64(float32(v))
		}
		return schema.Datum{Type: t, F: v}, nil
	case t.IsInteger() && (math.IsNaN(v) || v != math.Trunc(v)):
		return schema.Datum{}, fault.Userf("%v is no value of type %s", v, t)
	case t.IsNumeric():
		return textDatum(t, strconv.FormatFloat(v, 'f', -1, bits))
	}
	return schema.Datum{}, fault.Userf("%v is no value of type %s", v, t)
}

// textDatum reads text as a cell of a file, but takes no fraction for an
// integer.
func textDatum(t schema.Type, s string) (schema.Datum, error) {
	d, ok := schema.ParseText(t, []byte(s))
	if !ok || t.IsInteger() && strings.Contains(s, ".") {
		return schema.Datum{}, fault.Userf("%s is no value of type %s", show(s), t)
	}
	return d, nil
}

func show(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) > 80 {
			return strconv.Quote(v[:80]) + "..."
		}
		return strconv.Quote(v)
	}
	return fmt.Sprintf("%v (a %T)", v, v)
}
