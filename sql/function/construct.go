package function

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addConstructors registers the functions that make nested values.
func addConstructors(r *Registry) {
	r.add("array", func(args []schema.Type) (Signature, error) {
		if len(args) == 0 {
			t := schema.ArrayType(schema.StringType)
			return Signature{Result: t, Kernel: func(*Context, int, []Vector) (Vector, error) {
				return Vector{Array: batch.NewList(t.Arrow(), []int32{0, 0}, batch.EmptyOf(arrow.BinaryTypes.String), nil), Const: true}, nil
			}}, nil
		}
		element, err := element(args)
		if err != nil {
			return Signature{}, err
		}
		t := schema.ArrayType(element)
		return Signature{Args: repeated(element, len(args)), Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
			values, offsets := interleave(n, args)
			return Vector{Array: batch.NewList(t.Arrow(), offsets, values, nil)}, nil
		}}, nil
	})
	r.add("map", func(args []schema.Type) (Signature, error) {
		if len(args)%2 != 0 {
			return Signature{}, fault.Userf("it takes keys and values in turn, not %d arguments", len(args))
		}
		var of [2]schema.Type
		for k := range of {
			var types []schema.Type
			for i := k; i < len(args); i += 2 {
				types = append(types, args[i])
			}
			var err error
			if of[k], err = element(types); err != nil {
				return Signature{}, err
			}
		}
		if of[0].IsNested() {
			return Signature{}, fault.Userf("a map's keys must be primitive, not %s", of[0])
		}
		t := schema.MapType(of[0], of[1])
		want := make([]schema.Type, len(args))
		for i := range want {
			want[i] = of[i%2]
		}
		return Signature{Args: want, Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
			if len(args) == 0 {
				empty := newMap(t, []int32{0, 0}, batch.EmptyOf(of[0].Arrow()), batch.EmptyOf(of[1].Arrow()), nil)
				return Vector{Array: empty, Const: true}, nil
			}
			var parts [2][]Vector
			for i, v := range args {
				parts[i%2] = append(parts[i%2], v)
			}
			keys, offsets := interleave(n, parts[0])
			items, _ := interleave(n, parts[1])
			return Vector{Array: mapOfEntries(t, offsets, keys, items, nil)}, nil
		}}, nil
	})
	r.add("struct", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, -1); err != nil {
			return Signature{}, err
		}
		names := make([]string, len(args))
		for i := range names {
			names[i] = fmt.Sprintf("col%d", i+1)
		}
		return structSignature(names, args, func(args []Vector) []Vector { return args }, args), nil
	})
	r.addConstant("named_struct", func(args []schema.Type, constants []*schema.Datum) (Signature, error) {
		if len(args) == 0 || len(args)%2 != 0 {
			return Signature{}, fault.Userf("it takes names and values in turn, not %d arguments", len(args))
		}
		var names []string
		var types []schema.Type
		for i := 0; i < len(args); i += 2 {
			if !args[i].IsText() || constants[i] == nil || constants[i].Null {
				return Signature{}, fault.Userf("argument %d must be a constant name", i+1)
			}
			names, types = append(names, strings.ToLower(constants[i].S)), append(types, args[i+1])
		}
		return structSignature(names, types, func(args []Vector) []Vector {
			out := make([]Vector, 0, len(args)/2)
			for i := 1; i < len(args); i += 2 {
				out = append(out, args[i])
			}
			return out
		}, args), nil
	})
	r.addConstant("create_union", func(args []schema.Type, _ []*schema.Datum) (Signature, error) {
		if err := arity(args, 2, 128); err != nil {
			return Signature{}, err
		}
		if _, err := integer(args[:1]); err != nil {
			return Signature{}, err
		}
		want := append([]schema.Type{schema.IntType}, args[1:]...)
		for i := range want {
			want[i] = valued(want[i])
		}
		t := schema.UnionType(want[1:])
		return Signature{Args: want, Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
			tag := columnOf[int32](args[0])
			known := validBits(n, args[0])
			m := nullable{n: n}
			tags := make([]int8, n)
			at := make([][]int32, len(args)-1)
			for k := range at {
				at[k] = make([]int32, n)
			}
			for i := range tags {
				k := -1
				if batch.BitSet(known, i) {
					k = int(tag.at(i))
				}
				if k < 0 || k >= len(at) {
					m.clear(i)
					k = -1
				} else {
					tags[i] = int8(k)
				}
				for j := range at {
					at[j][i] = -1
					if j == k {
						at[j][i] = int32(i & args[j+1].mask())
					}
				}
			}
			fields := []arrow.Array{batch.NewFixed(arrow.PrimitiveTypes.Int8, tags, nil)}
			for j := range at {
				fields = append(fields, batch.Plain(batch.Gather(args[j+1].Array, at[j])))
			}
			return Vector{Array: batch.NewStruct(t.Arrow(), n, fields, m.valid)}, nil
		}}, nil
	})
	r.addConstant("extract_union", bindExtractUnion)
	r.add("typeof", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		name := args[0].String()
		return Signature{Args: args, Result: schema.StringType, Kernel: func(*Context, int, []Vector) (Vector, error) {
			return Vector{Array: batch.NewStrings([]string{name}), Const: true}, nil
		}}, nil
	})
}

// element returns the type that holds all of these values.
func element(types []schema.Type) (schema.Type, error) {
	t, ok := common(UnionType, types)
	if !ok {
		return t, fault.Userf("the types have nothing in common; cast them to one type")
	}
	return t, nil
}

// interleave returns row 0's values of all arguments, then row 1's, and so on.
func interleave(n int, args []Vector) (values arrow.Array, offsets []int32) {
	parts, base := make([]arrow.Array, len(args)), make([]int32, len(args))
	size := int32(0)
	for k, v := range args {
		parts[k], base[k] = batch.Plain(v.Array), size
		size += int32(v.Array.Len())
	}
	at := make([]int32, 0, n*len(args))
	offsets = make([]int32, n+1)
	for i := range n {
		for k, v := range args {
			at = append(at, base[k]+int32(i&v.mask()))
		}
		offsets[i+1] = int32(len(at))
	}
	return batch.Gather(batch.Concat(parts), at), offsets
}

// mapOfEntries makes maps; of equal keys of one map the last value counts, at the
// place of the first, as in Java's LinkedHashMap.
func mapOfEntries(t schema.Type, offsets []int32, keys, items arrow.Array, valid []byte) arrow.Array {
	key := t.Part(0)
	var keyAt, itemAt []int32
	cut := make([]int32, 1, len(offsets))
	doubles := false
	var seen map[string]int
	var room []byte
	for i := range len(offsets) - 1 {
		from, to := offsets[i], offsets[i+1]
		if to-from > 1 && seen == nil {
			seen = make(map[string]int)
		}
		clear(seen)
		for j := from; j < to; j++ {
			if to-from > 1 {
				room = schema.AppendKey(room[:0], key, keys, int(j))
				if k, ok := seen[string(room)]; ok {
					itemAt[k] = j
					doubles = true
					continue
				}
				seen[string(room)] = len(keyAt)
			}
			keyAt, itemAt = append(keyAt, j), append(itemAt, j)
		}
		cut = append(cut, int32(len(keyAt)))
	}
	if doubles {
		offsets, keys, items = cut, batch.Gather(keys, keyAt), batch.Gather(items, itemAt)
	}
	return newMap(t, offsets, keys, items, valid)
}

// structSignature makes structs of the values that pick takes from the arguments.
func structSignature(names []string, types []schema.Type, pick func([]Vector) []Vector, args []schema.Type) Signature {
	fields := make([]schema.Field, len(names))
	for i, name := range names {
		fields[i] = schema.Field{Name: name, Type: types[i]}
	}
	t := schema.StructType(fields)
	return Signature{Args: args, Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
		values := pick(args)
		columns := make([]arrow.Array, len(values))
		for i, v := range values {
			columns[i] = batch.Plain(v.Rows(n))
		}
		return Vector{Array: batch.NewStruct(t.Arrow(), n, columns, nil)}, nil
	}}
}

// bindExtractUnion is extract_union(union): a struct of its alternatives, tag_0 and so
// on, all NULL but the tag's; or extract_union(union, n): alternative n, NULL unless it is
// the tag's. Unions inside other nested values are turned into structs too.
func bindExtractUnion(args []schema.Type, constants []*schema.Datum) (Signature, error) {
	if err := arity(args, 1, 2); err != nil {
		return Signature{}, err
	}
	t := args[0]
	if len(args) == 2 {
		if t.Kind != schema.Union {
			return Signature{}, fault.Userf("it takes a union, not %s", t)
		}
		if constants[1] == nil || constants[1].Null || !args[1].IsInteger() {
			return Signature{}, fault.Userf("the tag must be a constant integer")
		}
		k := constants[1].I
		if k < 0 || k >= int64(t.Parts()) {
			return Signature{}, fault.Userf("%s has no alternative %d", t, k)
		}
		return Signature{Args: []schema.Type{t, args[1]}, Result: t.Part(int(k)), Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
			return Vector{Array: unionFields(args[0].Rows(n))[k]}, nil
		}}, nil
	}
	result, changed := withoutUnions(t)
	if !changed {
		return Signature{}, fault.Userf("it takes a union, not %s", t)
	}
	return Signature{Args: args, Result: result, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
		return Vector{Array: extractUnions(t, result, args[0].Rows(n))}, nil
	}}, nil
}

// unionFields returns the alternatives of a union array, NULL where the union is.
func unionFields(a arrow.Array) []arrow.Array { return structFields(a)[1:] }

func withoutUnions(t schema.Type) (schema.Type, bool) {
	if !t.IsNested() {
		return t, false
	}
	changed := t.Kind == schema.Union
	fields := make([]schema.Field, t.Parts())
	for k, f := range t.Nested.Fields {
		inner, c := withoutUnions(f.Type)
		fields[k] = schema.Field{Name: f.Name, Type: inner}
		if t.Kind == schema.Union {
			fields[k].Name = fmt.Sprintf("tag_%d", k)
		}
		changed = changed || c
	}
	kind := t.Kind
	if kind == schema.Union {
		kind = schema.Struct
	}
	return schema.Type{Kind: kind, Nested: &schema.Nested{Fields: fields}}, changed
}

func extractUnions(from, to schema.Type, a arrow.Array) arrow.Array {
	if from.Equal(to) {
		return a
	}
	n, valid := a.Len(), batch.Validity(a)
	switch from.Kind {
	case schema.Union, schema.Struct:
		first := 0
		if from.Kind == schema.Union {
			first = 1
		}
		fields := make([]arrow.Array, from.Parts())
		for k := range fields {
			fields[k] = extractUnions(from.Part(k), to.Part(k), batch.FieldOf(a, k+first))
		}
		return batch.NewStruct(to.Arrow(), n, fields, valid)
	case schema.Array:
		offsets, values := batch.ListOf(a)
		return batch.NewList(to.Arrow(), offsets, extractUnions(from.Part(0), to.Part(0), values), valid)
	default:
		offsets, values := batch.ListOf(a)
		return newMap(to, offsets, batch.FieldOf(values, 0), extractUnions(from.Part(1), to.Part(1), batch.FieldOf(values, 1)), valid)
	}
}
