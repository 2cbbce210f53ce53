package function

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func addComparisons(r *Registry) {
	for _, op := range []comparison{eq, ne, lt, le, gt, ge} {
		r.addConstant(op.name(), func(args []schema.Type, constants []*schema.Datum) (Signature, error) {
			t, err := comparable2(withChars(args, constants))
			if err != nil {
				return Signature{}, err
			}
			return Signature{Args: []schema.Type{t, t}, Result: schema.BooleanType, Kernel: compareKernel(op, t)}, nil
		})
	}
	r.add("<=> is_not_distinct_from", func(args []schema.Type) (Signature, error) {
		t, err := comparable2(args)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{t, t}, Result: schema.BooleanType, Kernel: nullSafeEqual(t)}, nil
	})
	r.add("between", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 3, 3); err != nil {
			return Signature{}, err
		}
		t, ok := common(CommonType, args)
		if !ok || !ordered(t) {
			return Signature{}, fault.Userf("the types can't be compared")
		}
		from, to := compareKernel(ge, t), compareKernel(le, t)
		return Signature{Args: repeated(t, 3), Result: schema.BooleanType,
			Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
				a, err := lift(from, false)(c, n, args[:2])
				if err != nil {
					return Vector{}, err
				}
				b, err := lift(to, false)(c, n, []Vector{args[0], args[2]})
				if err != nil {
					return Vector{}, err
				}
				return logic(n, a, b, true), nil
			}}, nil
	})
	r.addConstant("in", func(args []schema.Type, constants []*schema.Datum) (Signature, error) {
		if err := arity(args, 2, -1); err != nil {
			return Signature{}, err
		}
		t, ok := common(CommonType, withChars(args, constants))
		if !ok || !ordered(t) {
			return Signature{}, fault.Userf("the types of the list can't be compared with the value's")
		}
		if t.Kind == schema.Struct {
			return Signature{Args: repeated(t, len(args)), Result: schema.BooleanType, Kernel: rowIn(t)}, nil
		}
		return Signature{Args: repeated(t, len(args)), Result: schema.BooleanType, Kernel: inKernel(t)}, nil
	})
}

// withChars makes text constants char where they meet char: 'a' equals a char(3), and so
// does 'a  '. Text that is no constant is compared as string.
func withChars(args []schema.Type, constants []*schema.Datum) []schema.Type {
	length := uint16(0)
	for i, t := range args {
		if t.Kind == schema.Char && constants[i] == nil {
			length = max(length, t.Length)
		}
	}
	if length == 0 {
		return args
	}
	out := append([]schema.Type(nil), args...)
	for i, t := range args {
		if c := constants[i]; c != nil && t.IsText() {
			n := len(strings.TrimRight(c.S, " "))
			out[i] = schema.CharType(uint16(min(max(n, int(length)), 255)))
			if n > 255 {
				return args
			}
		}
	}
	return out
}

// rowIn is (a, b) IN ((c, d), ...): rows are compared field by field, in three-valued logic.
func rowIn(t schema.Type) Kernel {
	fields := make([]Kernel, t.Parts())
	for k := range fields {
		f := t.Part(k)
		if f.Kind == schema.Void {
			f = schema.StringType
		}
		fields[k] = lift(compareKernel(eq, f), false)
	}
	return func(c *Context, n int, args []Vector) (Vector, error) {
		var out Vector
		for j, w := range args[1:] {
			var row Vector
			for k := range fields {
				v, err := fields[k](c, n, []Vector{Member(args[0], k), Member(w, k)})
				if err != nil {
					return Vector{}, err
				}
				if k == 0 {
					row = v
				} else {
					row = logic(n, row, v, true)
				}
			}
			if j == 0 {
				out = row
			} else {
				out = logic(n, out, row, false)
			}
		}
		return out, nil
	}
}

func repeated(t schema.Type, n int) []schema.Type {
	out := make([]schema.Type, n)
	for i := range out {
		out[i] = t
	}
	return out
}

// ordered reports whether values of t have an order here.
func ordered(t schema.Type) bool {
	if t.IsNested() {
		for k := range t.Parts() {
			if p := t.Part(k); p.Kind != schema.Void && !ordered(p) {
				return false
			}
		}
		return true
	}
	return t.IsPrimitive() || isInterval(t)
}

func comparable2(args []schema.Type) (schema.Type, error) {
	if err := arity(args, 2, 2); err != nil {
		return schema.Type{}, err
	}
	t, ok := common(CommonType, args)
	if !ok || !ordered(t) {
		return schema.Type{}, fault.Userf("%s can't be compared with %s; cast one of them", args[0], args[1])
	}
	return t, nil
}

type comparison uint8

const (
	eq comparison = iota
	ne
	lt
	le
	gt
	ge
)

func (op comparison) name() string { return [...]string{"=", "<>", "<", "<=", ">", ">="}[op] }

// of reports whether a three-way result satisfies op.
func (op comparison) of(c int) bool {
	switch op {
	case eq:
		return c == 0
	case ne:
		return c != 0
	case lt:
		return c < 0
	case le:
		return c <= 0
	case gt:
		return c > 0
	default:
		return c >= 0
	}
}

// compareKernel compares two arguments of type t: strict, boolean.
func compareKernel(op comparison, t schema.Type) Kernel {
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(schema.BooleanType), nil
		}
		return Vector{Array: batch.NewBoolean(compareBits(op, t, n, args[0], args[1]), n, valid)}, nil
	}
}

// compareBits compares without looking at nulls; bits of null rows are
// arbitrary.
func compareBits(op comparison, t schema.Type, n int, a, b Vector) []byte {
	switch t.Kind {
	case schema.Boolean:
		return compareOrdered(op, n, unpack(a), unpack(b), a.Const, b.Const)
	case schema.TinyInt:
		return compareOrdered(op, n, batch.Values[int8](a.Array), batch.Values[int8](b.Array), a.Const, b.Const)
	case schema.SmallInt:
		return compareOrdered(op, n, batch.Values[int16](a.Array), batch.Values[int16](b.Array), a.Const, b.Const)
	case schema.Int, schema.Date, schema.IntervalYearMonth:
		return compareOrdered(op, n, batch.Values[int32](a.Array), batch.Values[int32](b.Array), a.Const, b.Const)
	case schema.BigInt:
		return compareOrdered(op, n, batch.Values[int64](a.Array), batch.Values[int64](b.Array), a.Const, b.Const)
	case schema.Float:
		return compareOrdered(op, n, batch.Values[float32](a.Array), batch.Values[float32](b.Array), a.Const, b.Const)
	case schema.Double:
		return compareOrdered(op, n, batch.Values[float64](a.Array), batch.Values[float64](b.Array), a.Const, b.Const)
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ, schema.IntervalDayTime:
		x, y := columnOf[decimal128.Num](a), columnOf[decimal128.Num](b)
		return packBits(n, func(i int) bool { return op.of(compare128(x.at(i), y.at(i))) })
	case schema.Void:
		return make([]byte, bytesFor(n))
	case schema.Array, schema.Map, schema.Struct, schema.Union:
		am, bm := a.mask(), b.mask()
		return packBits(n, func(i int) bool { return op.of(schema.CompareAt(t, a.Array, i&am, b.Array, i&bm)) })
	default:
		return compareText(op, t, n, a, b)
	}
}

func compare128(a, b decimal128.Num) int {
	if c := cmp.Compare(a.HighBits(), b.HighBits()); c != 0 {
		return c
	}
	return cmp.Compare(a.LowBits(), b.LowBits())
}

// unpack turns a boolean argument into bytes 0 and 1.
func unpack(v Vector) []int8 {
	bits := batch.Bits(v.Array)
	out := make([]int8, v.Array.Len())
	for i := range out {
		out[i] = int8(bits[i>>3] >> (uint(i) & 7) & 1)
	}
	return out
}

type orderedNumber interface {
	int8 | int16 | int32 | int64 | float32 | float64
}

// compareOrdered reduces the six operators to = and <, on either side a
// constant. NaN is the greatest and equals itself, as schema.CompareFloat has it;
// for integers the NaN tests fold away.
func compareOrdered[T orderedNumber](op comparison, n int, a, b []T, aConst, bConst bool) []byte {
	if aConst && !bConst { // constant to the right: mirrored
		a, b, bConst = b, a, true
		switch op {
		case lt:
			op = gt
		case le:
			op = ge
		case gt:
			op = lt
		case ge:
			op = le
		}
	}
	out := make([]byte, bytesFor(n))
	flip := false
	switch op {
	case ne:
		op, flip = eq, true
	case ge:
		op, flip = lt, true
	case le:
		op, flip = gt, true
	}
	switch {
	case op == eq && bConst:
		c := b[0]
		if c != c {
			pack(out, a, func(x T) bool { return x != x })
		} else {
			equalConst(out, a, c)
		}
	case op == lt && bConst:
		c := b[0]
		if c != c {
			pack(out, a, func(x T) bool { return x == x })
		} else {
			lessConst(out, a, c)
		}
	case op == gt && bConst:
		c := b[0]
		if c == c {
			greaterConst(out, a, c)
		}
	case op == eq:
		b = b[:len(a)]
		for i, x := range a {
			y := b[i]
			out[i>>3] |= bit(x == y || x != x && y != y) << (uint(i) & 7)
		}
	case op == lt:
		b = b[:len(a)]
		for i, x := range a {
			y := b[i]
			out[i>>3] |= bit(x < y || y != y && x == x) << (uint(i) & 7)
		}
	default:
		b = b[:len(a)]
		for i, y := range a {
			x := b[i]
			out[i>>3] |= bit(x < y || y != y && x == x) << (uint(i) & 7)
		}
	}
	if flip {
		for i := range out {
			out[i] = ^out[i]
		}
	}
	return out
}

func bit(b bool) byte {
	var x byte
	if b {
		x = 1
	}
	return x
}

// equalConst and its like set bits eight rows at a time.
func equalConst[T orderedNumber](out []byte, a []T, c T) {
	for len(a) >= 8 {
		v := (*[8]T)(a)
		out[0] = bit(v[0] == c) | bit(v[1] == c)<<1 | bit(v[2] == c)<<2 | bit(v[3] == c)<<3 |
			bit(v[4] == c)<<4 | bit(v[5] == c)<<5 | bit(v[6] == c)<<6 | bit(v[7] == c)<<7
		a, out = a[8:], out[1:]
	}
	for i, x := range a {
		out[0] |= bit(x == c) << uint(i)
	}
}

func lessConst[T orderedNumber](out []byte, a []T, c T) {
	for len(a) >= 8 {
		v := (*[8]T)(a)
		out[0] = bit(v[0] < c) | bit(v[1] < c)<<1 | bit(v[2] < c)<<2 | bit(v[3] < c)<<3 |
			bit(v[4] < c)<<4 | bit(v[5] < c)<<5 | bit(v[6] < c)<<6 | bit(v[7] < c)<<7
		a, out = a[8:], out[1:]
	}
	for i, x := range a {
		out[0] |= bit(x < c) << uint(i)
	}
}

// greaterConst is x > c where NaN > c: not (x <= c).
func greaterConst[T orderedNumber](out []byte, a []T, c T) {
	for len(a) >= 8 {
		v := (*[8]T)(a)
		out[0] = ^(bit(v[0] <= c) | bit(v[1] <= c)<<1 | bit(v[2] <= c)<<2 | bit(v[3] <= c)<<3 |
			bit(v[4] <= c)<<4 | bit(v[5] <= c)<<5 | bit(v[6] <= c)<<6 | bit(v[7] <= c)<<7)
		a, out = a[8:], out[1:]
	}
	for i, x := range a {
		out[0] |= bit(!(x <= c)) << uint(i)
	}
}

func pack[T any](out []byte, a []T, f func(T) bool) {
	for i, x := range a {
		out[i>>3] |= bit(f(x)) << (uint(i) & 7)
	}
}

func compareText(op comparison, t schema.Type, n int, a, b Vector) []byte {
	x, y := textsOf(a), textsOf(b)
	skip := rowsToSkip(n, a, b)
	if t.Kind == schema.Char {
		return packBits(n, func(i int) bool {
			return !skip(i) && op.of(bytes.Compare(bytes.TrimRight(x.at(i), " "), bytes.TrimRight(y.at(i), " ")))
		})
	}
	switch op {
	case eq:
		return packBits(n, func(i int) bool { return !skip(i) && bytes.Equal(x.at(i), y.at(i)) })
	case ne:
		return packBits(n, func(i int) bool { return !skip(i) && !bytes.Equal(x.at(i), y.at(i)) })
	}
	return packBits(n, func(i int) bool { return !skip(i) && op.of(bytes.Compare(x.at(i), y.at(i))) })
}

// rowsToSkip says which rows are null in one of the vectors: their text must
// not be looked at.
func rowsToSkip(n int, vs ...Vector) func(i int) bool {
	valid, null := validity(n, vs)
	switch {
	case null:
		return func(int) bool { return true }
	case valid == nil:
		return func(int) bool { return false }
	}
	return func(i int) bool { return !batch.BitSet(valid, i) }
}

func nullSafeEqual(t schema.Type) Kernel {
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		va, vb := validBits(n, args[0]), validBits(n, args[1])
		out := make([]byte, bytesFor(n))
		if !args[0].isNull() && !args[1].isNull() {
			and(out, compareBits(eq, t, n, args[0], args[1]), va)
			and(out, out, vb)
		}
		for i := range out {
			out[i] |= ^(va[i] | vb[i])
		}
		return Vector{Array: batch.NewBoolean(out, n, nil)}, nil
	}
}

// validBits returns the validity of v as n bits, constants spread out.
func validBits(n int, v Vector) []byte {
	if v.Const {
		if v.isNull() {
			return make([]byte, bytesFor(n))
		}
		return ones(n)
	}
	if b := batch.Validity(v.Array); b != nil {
		return b
	}
	return ones(n)
}

// inKernel is x IN (list): true when one equals, else NULL when x or one of the
// list is NULL, else false. A list of constants becomes a set, kept from batch
// to batch.
func inKernel(t schema.Type) Kernel {
	equal := lift(compareKernel(eq, t), false)
	var kept atomic.Pointer[constantSet]
	return func(c *Context, n int, args []Vector) (Vector, error) {
		list := args[1:]
		for _, v := range list {
			if v.Const {
				continue
			}
			result, err := equal(c, n, args[:2])
			for _, w := range list[1:] {
				if err != nil {
					return Vector{}, err
				}
				var next Vector
				next, err = equal(c, n, []Vector{args[0], w})
				result = logic(n, result, next, false)
			}
			return result, err
		}
		set := kept.Load()
		if !set.isOf(list) {
			set = newConstantSet(t, list)
			kept.Store(set)
		}
		return set.contains(n, args[0]), nil
	}
}

// constantSet is the list of an IN.
type constantSet struct {
	list    []arrow.Array
	t       schema.Type
	hasNull bool
	numbers map[uint64]struct{}
	wide    map[decimal128.Num]struct{}
	text    map[string]struct{} // also the keys of nested values
}

func (s *constantSet) isOf(list []Vector) bool {
	if s == nil || len(s.list) != len(list) {
		return false
	}
	for i, v := range list {
		if s.list[i] != v.Array {
			return false
		}
	}
	return true
}

func newConstantSet(t schema.Type, list []Vector) *constantSet {
	s := &constantSet{t: t, numbers: map[uint64]struct{}{}, wide: map[decimal128.Num]struct{}{}, text: map[string]struct{}{}}
	for _, v := range list {
		s.list = append(s.list, v.Array)
		if v.Array.NullN() > 0 {
			s.hasNull = true
			continue
		}
		switch {
		case is128(t):
			s.wide[batch.Values[decimal128.Num](v.Array)[0]] = struct{}{}
		case isBytes(t):
			x := batch.TextOf(v.Array)
			s.text[string(s.trim(x.Bytes(0)))] = struct{}{}
		case t.IsNested():
			s.text[string(schema.AppendKey(nil, t, v.Array, 0))] = struct{}{}
		default:
			s.numbers[Bits64(t, v.Array, nil)[0]] = struct{}{}
		}
	}
	return s
}

func (s *constantSet) trim(b []byte) []byte {
	if s.t.Kind == schema.Char {
		return bytes.TrimRight(b, " ")
	}
	return b
}

func (s *constantSet) contains(n int, v Vector) Vector {
	valid, null := validity(n, []Vector{v})
	if null {
		return nullOf(schema.BooleanType)
	}
	n = v.Array.Len()
	out := make([]byte, bytesFor(n))
	set := func(i int, ok bool) { out[i>>3] |= bit(ok) << (uint(i) & 7) }
	switch {
	case is128(s.t):
		for i, x := range batch.Values[decimal128.Num](v.Array) {
			_, ok := s.wide[x]
			set(i, ok)
		}
	case isBytes(s.t):
		x := batch.TextOf(v.Array)
		for i := range n {
			if valid == nil || batch.BitSet(valid, i) {
				_, ok := s.text[string(s.trim(x.Bytes(i)))]
				set(i, ok)
			}
		}
	case s.t.IsNested():
		var key []byte
		for i := range n {
			key = schema.AppendKey(key[:0], s.t, v.Array, i)
			_, ok := s.text[string(key)]
			set(i, ok)
		}
	case len(s.numbers) <= 8:
		want := make([]uint64, 0, 8)
		for x := range s.numbers {
			want = append(want, x)
		}
		for i, x := range Bits64(s.t, v.Array, nil) {
			ok := false
			for _, w := range want {
				ok = ok || w == x
			}
			set(i, ok)
		}
	default:
		for i, x := range Bits64(s.t, v.Array, nil) {
			_, ok := s.numbers[x]
			set(i, ok)
		}
	}
	if s.hasNull { // what isn't found is unknown
		known := append([]byte(nil), out...)
		if valid != nil {
			and(known, known, valid)
		}
		valid = known
	}
	return Vector{Array: batch.NewBoolean(out, n, valid)}
}

func is128(t schema.Type) bool {
	return t.Kind == schema.Decimal || t.Kind == schema.Timestamp || t.Kind == schema.TimestampTZ || t.Kind == schema.IntervalDayTime
}

func isBytes(t schema.Type) bool { return t.IsText() || t.Kind == schema.Binary }

// Bits64 returns values of at most 64 bits as integers that are equal exactly
// when the values are: -0 becomes 0 and every NaN one NaN. It appends to dst
// and leaves nulls arbitrary. It serves hash tables and IN.
func Bits64(t schema.Type, a arrow.Array, dst []uint64) []uint64 {
	switch t.Kind {
	case schema.Boolean:
		bits := batch.Bits(a)
		for i := range a.Len() {
			dst = append(dst, uint64(bits[i>>3]>>(uint(i)&7)&1))
		}
	case schema.TinyInt:
		return appendBits(dst, batch.Values[int8](a))
	case schema.SmallInt:
		return appendBits(dst, batch.Values[int16](a))
	case schema.Int, schema.Date, schema.IntervalYearMonth:
		return appendBits(dst, batch.Values[int32](a))
	case schema.BigInt:
		return appendBits(dst, batch.Values[int64](a))
	case schema.Float:
		for _, x := range batch.Values[float32](a) {
			if x != x {
				x = float32(math.NaN())
			}
			dst = append(dst, uint64(math.Float32bits(x+0)))
		}
	case schema.Double:
		for _, x := range batch.Values[float64](a) {
			if x != x {
				x = math.NaN()
			}
			dst = append(dst, math.Float64bits(x+0)) // -0 + 0 = 0
		}
	}
	return dst
}

func appendBits[T int8 | int16 | int32 | int64](dst []uint64, v []T) []uint64 {
	for _, x := range v {
		dst = append(dst, uint64(x))
	}
	return dst
}
