package function

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Cast returns the kernel of CAST(from AS to), and false when Hive has no such
// cast. A value that doesn't convert becomes NULL. Rules:
//   - integers wrap into a narrower type: cast(300 as tinyint) is 44; floats are
//     cut and saturate as in Java; decimals that don't fit are NULL;
//   - text is read as a cell of a text file is (schema.ParseText), blanks around
//     it aside; as boolean, the empty text, 0, false, no and off are false, all else is true;
//   - a timestamp is seconds as a number; an integer is milliseconds as a
//     timestamp, a float or decimal seconds (hive.int.timestamp.conversion.in.seconds
//     = false);
//   - arrays, maps, structs and unions part by part, structs by position;
//   - booleans are TRUE and FALSE as text, decimals keep their scale, an instant is
//     shown and read in the session's zone.
func Cast(from, to schema.Type) (Kernel, bool) {
	k := castKernel(from, to)
	if k == nil {
		return nil, false
	}
	return lift(k, false), true
}

func castKernel(from, to schema.Type) Kernel {
	same := func(_ *Context, _ int, args []Vector) (Vector, error) { return args[0], nil }
	switch {
	case from.Equal(to):
		return same
	case from.Kind == schema.Void:
		return func(*Context, int, []Vector) (Vector, error) { return nullOf(to), nil }
	case to.Kind == schema.Void:
		return func(*Context, int, []Vector) (Vector, error) { return nullOf(to), nil }
	case to.Kind == schema.String && from.IsText():
		return same // char is stored without its padding
	case to.Kind == schema.String && from.Kind == schema.Binary, to.Kind == schema.Binary && from.IsText():
		return recast(to)
	case from.IsNested() && to.IsNested():
		return castNested(from, to)
	case from.IsText():
		if to.Kind == schema.Boolean {
			return textToBoolean
		}
		if to.Kind == schema.TimestampTZ {
			return parseInstant(to)
		}
		if isInterval(to) {
			return parseInterval(to)
		}
		if to.IsText() || to.IsPrimitive() && to.Kind != schema.Binary {
			return parseText(to)
		}
		return nil
	case to.IsText() && (from.IsPrimitive() || isInterval(from)):
		return toText(from, to)
	}
	switch to.Kind {
	case schema.Boolean:
		return toBoolean(from)
	case schema.TinyInt:
		return toInteger[int8](from, to)
	case schema.SmallInt:
		return toInteger[int16](from, to)
	case schema.Int:
		return toInteger[int32](from, to)
	case schema.BigInt:
		return toInteger[int64](from, to)
	case schema.Float:
		return toFloat[float32](from, to)
	case schema.Double:
		return toFloat[float64](from, to)
	case schema.Decimal:
		return toDecimal(from, to)
	case schema.Date:
		return toDate(from, to)
	case schema.Timestamp, schema.TimestampTZ:
		return toTimestamp(from, to)
	}
	return nil
}

// castNested casts the parts of a nested value.
func castNested(from, to schema.Type) Kernel {
	if from.Kind != to.Kind || from.Parts() != to.Parts() {
		return nil
	}
	parts := make([]Kernel, from.Parts())
	for k := range parts {
		if parts[k] = castKernel(from.Part(k), to.Part(k)); parts[k] == nil {
			return nil
		}
	}
	part := func(c *Context, k int, a arrow.Array) (arrow.Array, error) {
		v, err := parts[k](c, a.Len(), []Vector{{Array: a}})
		if err != nil {
			return nil, err
		}
		return batch.Plain(v.Rows(a.Len())), nil
	}
	return func(c *Context, n int, args []Vector) (Vector, error) {
		a := args[0].Array
		valid := batch.Validity(a)
		if from.Kind == schema.Struct || from.Kind == schema.Union {
			var fields []arrow.Array
			if from.Kind == schema.Union {
				fields = append(fields, batch.FieldOf(a, 0))
			}
			for k, first := 0, len(fields); k < len(parts); k++ {
				f, err := part(c, k, batch.FieldOf(a, k+first))
				if err != nil {
					return Vector{}, err
				}
				fields = append(fields, f)
			}
			return Vector{Array: batch.NewStruct(to.Arrow(), n, fields, valid)}, nil
		}
		offsets, values := batch.ListOf(a)
		if from.Kind == schema.Array {
			child, err := part(c, 0, values)
			if err != nil {
				return Vector{}, err
			}
			return Vector{Array: batch.NewList(to.Arrow(), offsets, child, valid)}, nil
		}
		keys, err := part(c, 0, batch.FieldOf(values, 0))
		if err != nil {
			return Vector{}, err
		}
		items, err := part(c, 1, batch.FieldOf(values, 1))
		if err != nil {
			return Vector{}, err
		}
		return Vector{Array: newMap(to, offsets, keys, items, valid)}, nil
	}
}

// recast gives the same bytes another type.
func recast(to schema.Type) Kernel {
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		a := batch.Plain(args[0].Array)
		valid := batch.Validity(a)
		t := batch.TextOf(a)
		offsets, data := make([]int32, n+1), make([]byte, 0, t.Size(n))
		for i := range n {
			data = append(data, t.Bytes(i)...)
			offsets[i+1] = int32(len(data))
		}
		return Vector{Array: batch.NewText(to.Arrow(), offsets, data, valid)}, nil
	}
}

// parseText reads text as schema.ParseText does, with blanks around it cut for
// everything but text itself.
func parseText(to schema.Type) Kernel {
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(to), nil
		}
		x := textsOf(args[0])
		var data []byte
		cells := make([]schema.Cell, n)
		for i := range cells {
			if valid != nil && !batch.BitSet(valid, i) {
				cells[i].Len = -1
				continue
			}
			s := x.at(i)
			if !to.IsText() {
				s = trimJava(s)
			}
			cells[i] = schema.Cell{Start: int32(len(data)), Len: int32(len(s))}
			data = append(data, s...)
		}
		a := schema.NewPlainAppender(to, n)
		a.AppendCells(data, cells, nil)
		return Vector{Array: a.Finish()}, nil
	}
}

// trimJava cuts what Java's String.trim does.
func trimJava(s []byte) []byte {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

func textToBoolean(c *Context, n int, args []Vector) (Vector, error) {
	return eachBool(func(_ *Context, args []Vector) (func(int) (bool, bool), error) {
		x := textsOf(args[0])
		return func(i int) (bool, bool) {
			switch s := x.at(i); len(s) {
			case 0:
				return false, true
			case 1:
				return s[0] != '0', true
			case 2:
				return !foldEqual(s, "no"), true
			case 3:
				return !foldEqual(s, "off"), true
			case 5:
				return !foldEqual(s, "false"), true
			}
			return true, true
		}, nil
	})(c, n, args)
}

// foldEqual compares ASCII, ignoring case; lower must be lower-case letters.
func foldEqual(s []byte, lower string) bool {
	for i := range s {
		if s[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

func toText(from, to schema.Type) Kernel {
	cut := to.Kind != schema.String
	return eachText(to, func(c *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
		a, mask := args[0].Array, args[0].mask()
		render := func(dst []byte, i int) []byte { return schema.AppendText(dst, from, a, i) }
		switch from.Kind {
		case schema.TimestampTZ:
			x := batch.Values[num](a)
			render = func(dst []byte, i int) []byte { return appendInstant(dst, x[i], zone(c)) }
		case schema.Boolean:
			bits := batch.Bits(a)
			render = func(dst []byte, i int) []byte {
				if batch.BitSet(bits, i) {
					return append(dst, "TRUE"...)
				}
				return append(dst, "FALSE"...)
			}
		case schema.TinyInt, schema.SmallInt, schema.Int, schema.BigInt:
			x := integers(args[0])
			render = func(dst []byte, i int) []byte { return strconv.AppendInt(dst, x(i), 10) }
		}
		return func(dst []byte, i int) ([]byte, bool) {
			start := len(dst)
			dst = render(dst, i&mask)
			if cut {
				end := start + len(firstRunes(dst[start:], int(to.Length)))
				for to.Kind == schema.Char && end > start && dst[end-1] == ' ' {
					end--
				}
				dst = dst[:end]
			}
			return dst, true
		}, nil
	})
}

// appendInstant shows an instant in a zone: always a fraction, then the zone.
func appendInstant(dst []byte, x num, zone *time.Location) []byte {
	s, nanos, ok := schema.SecondsOf(x)
	if !ok {
		return schema.AppendTimestamp(dst, x)
	}
	_, offset := time.Unix(s, 0).In(zone).Zone()
	dst = schema.AppendTimestamp(dst, schema.NanosOf(s+int64(offset), nanos))
	if nanos == 0 {
		dst = append(dst, ".0"...)
	}
	return append(append(dst, ' '), zoneName(zone)...)
}

// parseInstant reads a text as a time in the zone that it names, or else the session's.
func parseInstant(to schema.Type) Kernel {
	return eachValid(to, func(c *Context, args []Vector) (func(int) (num, bool), error) {
		x := textsOf(args[0])
		return func(i int) (num, bool) {
			s := trimJava(x.at(i))
			local, wall := zone(c), s
			if k := bytes.LastIndexByte(s, ' '); k > 10 {
				if z, ok := ParseZone(string(s[k+1:])); ok {
					local, wall = z, trimJava(s[:k])
				}
			}
			d, ok := schema.ParseText(schema.TimestampType, wall)
			if !ok {
				return num{}, false
			}
			// A text with an offset is that instant; otherwise both readings are the same.
			if at, zoned := schema.ParseText(schema.TimestampTZType, wall); zoned && at.D != d.D {
				return at.D, true
			}
			if n := len(wall); n > 0 && (wall[n-1] == 'Z' || wall[n-1] == 'z') {
				return d.D, true
			}
			sec, nanos, ok := schema.SecondsOf(d.D)
			_, guess := time.Unix(sec, 0).In(local).Zone()
			_, offset := time.Unix(sec-int64(guess), 0).In(local).Zone()
			return schema.NanosOf(sec-int64(offset), nanos), ok
		}, nil
	})
}

// appendStripped is HiveDecimal.toString: no trailing zeros after the point.
func appendStripped(dst []byte, d num, scale int) []byte {
	dst = schema.AppendDecimal(dst, d, scale)
	if scale == 0 {
		return dst
	}
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	if dst[len(dst)-1] == '.' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

func toBoolean(from schema.Type) Kernel {
	zero := func(n int, args []Vector, isZero func(i int) bool) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(schema.BooleanType), nil
		}
		return Vector{Array: batch.NewBoolean(packBits(n, func(i int) bool { return !isZero(i) }), n, valid)}, nil
	}
	switch {
	case from.IsInteger():
		return func(_ *Context, n int, args []Vector) (Vector, error) {
			x := integers(args[0])
			return zero(n, args, func(i int) bool { return x(i) == 0 })
		}
	case from.Kind == schema.Float:
		return func(_ *Context, n int, args []Vector) (Vector, error) {
			x := columnOf[float32](args[0])
			return zero(n, args, func(i int) bool { return x.at(i) == 0 })
		}
	case from.Kind == schema.Double:
		return func(_ *Context, n int, args []Vector) (Vector, error) {
			x := columnOf[float64](args[0])
			return zero(n, args, func(i int) bool { return x.at(i) == 0 })
		}
	case from.Kind == schema.Decimal, from.Kind == schema.Timestamp:
		return func(_ *Context, n int, args []Vector) (Vector, error) {
			x := columnOf[num](args[0])
			return zero(n, args, func(i int) bool { return x.at(i) == num{} })
		}
	}
	return nil
}

// fromBoolean makes numbers of booleans.
func fromBoolean[R batch.Fixed](to schema.Type, one R) Kernel {
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(to), nil
		}
		bits := batch.Bits(args[0].Array)
		out := make([]R, n)
		for i := range out {
			if batch.BitSet(bits, i) {
				out[i] = one
			}
		}
		return Vector{Array: batch.NewFixed(to.Arrow(), out, valid)}, nil
	}
}

func toInteger[R int8 | int16 | int32 | int64](from, to schema.Type) Kernel {
	switch from.Kind {
	case schema.Boolean:
		return fromBoolean[R](to, 1)
	case schema.TinyInt:
		return fixed1(to, func(x int8) R { return R(x) })
	case schema.SmallInt:
		return fixed1(to, func(x int16) R { return R(x) })
	case schema.Int:
		return fixed1(to, func(x int32) R { return R(x) })
	case schema.BigInt:
		return fixed1(to, func(x int64) R { return R(x) })
	case schema.Float:
		return fixed1(to, func(x float32) R { return javaInteger[R](float64(x)) })
	case schema.Double:
		return fixed1(to, javaInteger[R])
	case schema.Decimal:
		scale := int(from.Scale)
		return fixed1n(to, func(x num) (R, bool) {
			hi, lo, negative := magnitude(x)
			for k := scale; k > 0; k -= 19 {
				hi, lo, _ = div128(hi, lo, pow10(min(k, 19)).LowBits())
			}
			x = fromMagnitude(hi, lo, negative)
			v := int64(x.LowBits())
			return R(v), is64(x) && int64(R(v)) == v
		})
	case schema.Timestamp, schema.TimestampTZ:
		return fixed1n(to, func(x num) (R, bool) {
			s, _, ok := schema.SecondsOf(x)
			return R(s), ok
		})
	}
	return nil
}

// javaInteger is Java's narrowing of a double: NaN is 0, what is too large
// saturates at int or long, and narrower types wrap from int.
func javaInteger[R int8 | int16 | int32 | int64](x float64) R {
	var r R
	if _, long := any(r).(int64); long {
		switch {
		case x != x:
			return 0
		case x >= math.MaxInt64:
			v := int64(math.MaxInt64)
			return R(v)
		case x <= math.MinInt64:
			v := int64(math.MinInt64)
			return R(v)
		}
		return R(int64(x))
	}
	switch {
	case x != x:
		return 0
	case x >= math.MaxInt32:
		v := int32(math.MaxInt32)
		return R(v)
	case x <= math.MinInt32:
		v := int32(math.MinInt32)
		return R(v)
	}
	return R(int32(x))
}

func toFloat[R float32 | float64](from, to schema.Type) Kernel {
	switch from.Kind {
	case schema.Boolean:
		return fromBoolean[R](to, 1)
	case schema.TinyInt:
		return fixed1(to, func(x int8) R { return R(x) })
	case schema.SmallInt:
		return fixed1(to, func(x int16) R { return R(x) })
	case schema.Int:
		return fixed1(to, func(x int32) R { return R(x) })
	case schema.BigInt:
		return fixed1(to, func(x int64) R { return R(x) })
	case schema.Float:
		return fixed1(to, func(x float32) R { return R(x) })
	case schema.Double:
		return fixed1(to, func(x float64) R { return R(x) })
	case schema.Decimal:
		scale := int(from.Scale)
		return fixed1(to, func(x num) R { return R(decimalFloat(x, scale)) })
	case schema.Timestamp, schema.TimestampTZ:
		return fixed1(to, func(x num) R { return R(decimalFloat(x, 9)) })
	}
	return nil
}

// decimalFloat returns the double nearest to a decimal.
func decimalFloat(x num, scale int) float64 {
	hi, lo, negative := magnitude(x)
	if hi == 0 && lo < 1<<53 && scale <= 22 { // both exact, so one rounding
		f := float64(lo) / math.Pow10(scale)
		if negative {
			return -f
		}
		return f
	}
	var room [64]byte
	f, err := strconv.ParseFloat(string(schema.AppendDecimal(room[:0], x, scale)), 64)
	if err != nil {
		return math.NaN() // not reached: the text is a number in range
	}
	return f
}

// decimalOf returns the decimal nearest to a float's shortest text, as
// HiveDecimal.create(Double.toString(x)) does.
func decimalOf(text []byte, t schema.Type) (num, bool) {
	return schema.ParseDecimal(text, int(t.Precision), int(t.Scale))
}

func toDecimal(from, to schema.Type) Kernel {
	p, s := int(to.Precision), int(to.Scale)
	fromInt := func(x int64) (num, bool) { return rescale(decimal128.FromI64(x), 0, s, p) }
	switch from.Kind {
	case schema.Boolean:
		one, ok := fromInt(1)
		if !ok { // decimal(n,n): 1 doesn't fit
			return fromBooleanChecked(to)
		}
		return fromBoolean(to, one)
	case schema.TinyInt:
		return fixed1n(to, func(x int8) (num, bool) { return fromInt(int64(x)) })
	case schema.SmallInt:
		return fixed1n(to, func(x int16) (num, bool) { return fromInt(int64(x)) })
	case schema.Int:
		return fixed1n(to, func(x int32) (num, bool) { return fromInt(int64(x)) })
	case schema.BigInt:
		return fixed1n(to, fromInt)
	case schema.Float:
		return fixed1n(to, func(x float32) (num, bool) {
			var room [32]byte
			return decimalOf(schema.AppendFloat(room[:0], x), to)
		})
	case schema.Double:
		return fixed1n(to, func(x float64) (num, bool) {
			var room [32]byte
			return decimalOf(schema.AppendDouble(room[:0], x), to)
		})
	case schema.Decimal:
		fs := int(from.Scale)
		return fixed1n(to, func(x num) (num, bool) { return rescale(x, fs, s, p) })
	case schema.Timestamp, schema.TimestampTZ:
		return fixed1n(to, func(x num) (num, bool) { return rescale(x, 9, s, p) })
	}
	return nil
}

func fromBooleanChecked(to schema.Type) Kernel {
	return eachValid(to, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
		bits := batch.Bits(args[0].Array)
		return func(i int) (num, bool) { return num{}, !batch.BitSet(bits, i) }, nil
	})
}

func toDate(from, to schema.Type) Kernel {
	switch from.Kind {
	case schema.Timestamp:
		return fixed1n(to, func(x num) (int32, bool) {
			s, _, ok := schema.SecondsOf(x)
			return int32(floorDiv(s, secondsADay)), ok
		})
	case schema.TimestampTZ:
		return eachValid(to, func(c *Context, args []Vector) (func(int) (int32, bool), error) {
			x := columnOf[num](args[0])
			return func(i int) (int32, bool) {
				s, _, ok := schema.SecondsOf(x.at(i))
				return int32(floorDiv(s+offsetAt(c, s), secondsADay)), ok
			}, nil
		})
	}
	return nil
}

func toTimestamp(from, to schema.Type) Kernel {
	zoned := to.Kind == schema.TimestampTZ
	// local turns a wall clock into what the target type holds.
	local := func(c *Context, seconds int64, nanos int) num {
		if zoned {
			seconds = instantOf(c, seconds)
		}
		return schema.NanosOf(seconds, nanos)
	}
	switch from.Kind {
	case schema.Date:
		return eachValid(to, func(c *Context, args []Vector) (func(int) (num, bool), error) {
			x := columnOf[int32](args[0])
			return func(i int) (num, bool) { return local(c, int64(x.at(i))*secondsADay, 0), true }, nil
		})
	case schema.Timestamp, schema.TimestampTZ:
		return eachValid(to, func(c *Context, args []Vector) (func(int) (num, bool), error) {
			x := columnOf[num](args[0])
			return func(i int) (num, bool) {
				s, n, ok := schema.SecondsOf(x.at(i))
				if zoned {
					return local(c, s, n), ok
				}
				return schema.NanosOf(s+offsetAt(c, s), n), ok
			}, nil
		})
	case schema.TinyInt, schema.SmallInt, schema.Int, schema.BigInt:
		return eachValid(to, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
			x := integers(args[0])
			return func(i int) (num, bool) {
				ms := x(i)
				s := floorDiv(ms, 1000)
				return schema.NanosOf(s, int(ms-s*1000)*1e6), true
			}, nil
		})
	case schema.Float, schema.Double:
		return eachValid(to, func(_ *Context, args []Vector) (func(int) (num, bool), error) {
			at := floats(args[0])
			return func(i int) (num, bool) {
				f := at(i)
				if math.IsNaN(f) || math.Abs(f) > 1e15 {
					return num{}, false
				}
				var room [32]byte
				return schema.ParseDecimal(schema.AppendDouble(room[:0], f), maxPrecision, 9)
			}, nil
		})
	case schema.Decimal:
		scale := int(from.Scale)
		return fixed1n(to, func(x num) (num, bool) { return rescale(x, scale, 9, 29) })
	}
	return nil
}

// floats reads a float or double argument.
func floats(v Vector) func(i int) float64 {
	mask := v.mask()
	if v.Array.DataType().ID() == arrow.FLOAT32 {
		x := batch.Values[float32](v.Array)
		return func(i int) float64 { return float64(x[i&mask]) }
	}
	x := batch.Values[float64](v.Array)
	return func(i int) float64 { return x[i&mask] }
}
