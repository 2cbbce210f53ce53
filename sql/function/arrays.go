package function

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addArrays registers the functions that take arrays apart.
func addArrays(r *Registry) {
	r.add("size", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		if t := args[0]; t.Kind != schema.Array && t.Kind != schema.Map && t.Kind != schema.Void {
			return Signature{}, fault.Userf("it takes an array or a map, not %s", t)
		}
		return Signature{Args: args, Result: schema.IntType, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
			out := make([]int32, n)
			if args[0].Array.DataType().ID() == arrow.NULL {
				for i := range out {
					out[i] = -1
				}
				return Vector{Array: batch.NewFixed(schema.IntType.Arrow(), out, nil)}, nil
			}
			l := listOf(args[0])
			for i := range out {
				from, to := l.span(i)
				out[i] = int32(to - from)
				if l.null(i) {
					out[i] = -1
				}
			}
			return Vector{Array: batch.NewFixed(schema.IntType.Arrow(), out, nil)}, nil
		}}, nil
	})
	r.add("index", bindIndex)
	for name, part := range map[string]int{"map_keys": 0, "map_values": 1} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 1, 1); err != nil {
				return Signature{}, err
			}
			if args[0].Kind != schema.Map {
				return Signature{}, fault.Userf("it takes a map, not %s", args[0])
			}
			t := schema.ArrayType(args[0].Part(part))
			return Signature{Args: args, Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
				l := listOf(args[0])
				// Of a NULL map Hive returns no keys and no values.
				g := newGathered(n)
				for i := range n {
					for j, end := l.span(i); j < end; j++ {
						g.add(j)
					}
					g.end()
				}
				return Vector{Array: g.array(t, batch.FieldOf(l.values, part), l.valid)}, nil
			}}, nil
		})
	}
	r.add("array_contains", func(args []schema.Type) (Signature, error) {
		want, err := arrayAndElement(args)
		if err != nil {
			return Signature{}, err
		}
		element := want[1]
		return Signature{Args: want, Result: schema.BooleanType, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
			l, x, mask := listOf(args[0]), args[1].Array, args[1].mask()
			return Vector{Array: batch.NewBoolean(packBits(n, func(i int) bool {
				if x.IsNull(i & mask) {
					return false
				}
				for j, end := l.span(i); j < end; j++ {
					if schema.CompareAt(element, l.values, j, x, i&mask) == 0 {
						return true
					}
				}
				return false
			}), n, nil)}, nil
		}}, nil
	})
	r.add("array_position", func(args []schema.Type) (Signature, error) {
		want, err := arrayAndElement(args)
		if err != nil {
			return Signature{}, err
		}
		element := want[1]
		return Signature{Args: want, Result: schema.IntType, Kernel: eachValid(schema.IntType, func(_ *Context, args []Vector) (func(int) (int32, bool), error) {
			l, x, mask := listOf(args[0]), args[1].Array, args[1].mask()
			return func(i int) (int32, bool) {
				from, to := l.span(i)
				for j := from; j < to; j++ {
					if schema.CompareAt(element, l.values, j, x, i&mask) == 0 {
						return int32(j-from) + 1, true
					}
				}
				return 0, true
			}, nil
		})}, nil
	})
	r.add("array_remove", func(args []schema.Type) (Signature, error) {
		want, err := arrayAndElement(args)
		if err != nil {
			return Signature{}, err
		}
		element := want[1]
		return Signature{Args: want, Result: want[0], Kernel: arrayKernel(want[0], 1, func(l *list, args []Vector, g *gathered, i int) bool {
			x, k := args[1].Array, i&args[1].mask()
			for j, end := l.span(i); j < end; j++ {
				if x.IsNull(k) || schema.CompareAt(element, l.values, j, x, k) != 0 {
					g.add(j)
				}
			}
			return true
		})}, nil
	})
	r.add("array_slice", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 3); err != nil {
			return Signature{}, err
		}
		if args[0].Kind != schema.Array {
			return Signature{}, fault.Userf("it takes an array, not %s", args[0])
		}
		if _, err := integer(args[1:]); err != nil {
			return Signature{}, err
		}
		want := append([]schema.Type{args[0]}, repeated(schema.IntType, len(args)-1)...)
		return Signature{Args: want, Result: args[0], Kernel: arrayKernel(args[0], len(args), func(l *list, args []Vector, g *gathered, i int) bool {
			from, to := l.span(i)
			start, n := integers(args[1])(i), int64(to-from)
			length := n
			if len(args) > 2 {
				length = integers(args[2])(i)
			}
			if start < 0 {
				start += n
			}
			if start < 0 || length < 0 || start >= n {
				return true
			}
			for j := int64(0); j < min(length, n-start); j++ {
				g.add(from + int(start+j))
			}
			return true
		})}, nil
	})
	r.add("array_distinct", func(args []schema.Type) (Signature, error) { return bindSetOperation(args, 1, arrayUnion) })
	r.add("array_union", func(args []schema.Type) (Signature, error) { return bindSetOperation(args, 2, arrayUnion) })
	r.add("array_except", func(args []schema.Type) (Signature, error) { return bindSetOperation(args, 2, arrayExcept) })
	r.add("array_intersect", func(args []schema.Type) (Signature, error) { return bindSetOperation(args, 2, arrayIntersect) })
	for name, op := range map[string]comparison{"array_min": lt, "array_max": gt} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := oneArray(args); err != nil {
				return Signature{}, err
			}
			t := args[0].Part(0)
			if t.Kind != schema.Void && !ordered(t) {
				return Signature{}, fault.Userf("%s has no order", t)
			}
			return Signature{Args: args, Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
				l := listOf(args[0])
				at := make([]int32, n)
				for i := range at {
					best := -1
					for j, end := l.span(i); j < end; j++ {
						if !l.values.IsNull(j) && (best < 0 || op.of(schema.CompareAt(t, l.values, j, l.values, best))) {
							best = j
						}
					}
					at[i] = int32(best)
				}
				return Vector{Array: batch.Gather(l.values, at)}, nil
			}}, nil
		})
	}
	r.add("array_join", bindArrayJoin)
	r.add("sort_array", func(args []schema.Type) (Signature, error) {
		if err := oneArray(args); err != nil {
			return Signature{}, err
		}
		t := args[0].Part(0)
		if t.Kind != schema.Void && !ordered(t) {
			return Signature{}, fault.Userf("%s has no order", t)
		}
		return Signature{Args: args, Result: args[0], Kernel: arrayKernel(args[0], 1, func(l *list, _ []Vector, g *gathered, i int) bool {
			start := len(g.at)
			for j, end := l.span(i); j < end; j++ {
				g.add(j)
			}
			slices.SortStableFunc(g.at[start:], func(a, b int32) int { return schema.CompareAt(t, l.values, int(a), l.values, int(b)) })
			return true
		})}, nil
	})
	r.addConstant("sort_array_by", bindSortArrayBy)
}

// oneArray checks for one array argument.
func oneArray(args []schema.Type) error {
	if err := arity(args, 1, 1); err != nil {
		return err
	}
	if args[0].Kind != schema.Array {
		return fault.Userf("it takes an array, not %s", args[0])
	}
	return nil
}

// arrayAndElement takes an array and a value of its elements' type.
func arrayAndElement(args []schema.Type) ([]schema.Type, error) {
	if err := arity(args, 2, 2); err != nil {
		return nil, err
	}
	if args[0].Kind != schema.Array {
		return nil, fault.Userf("its first argument must be an array, not %s", args[0])
	}
	t, ok := common(CommonType, []schema.Type{args[0].Part(0), args[1]})
	if !ok || !ordered(t) {
		return nil, fault.Userf("%s can't be an element of %s", args[1], args[0])
	}
	return []schema.Type{schema.ArrayType(t), t}, nil
}

// arrayKernel makes a kernel with a result of the first argument's type; f adds
// the elements of row i's result, false makes it NULL. It isn't called for rows where one
// of the first strict arguments is NULL.
func arrayKernel(t schema.Type, strict int, f func(l *list, args []Vector, g *gathered, i int) bool) Kernel {
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args[:strict])
		if null {
			return nullOf(t), nil
		}
		l, g := listOf(args[0]), newGathered(n)
		m := nullable{n: n, valid: valid}
		for i := range n {
			if (valid == nil || batch.BitSet(valid, i)) && !f(&l, args, g, i) {
				m.clear(i)
			}
			g.end()
		}
		return Vector{Array: g.array(t, l.values, m.valid)}, nil
	}
}

// setOperation adds positions of elements, in one child that has both arrays' elements.
type setOperation func(key func(j int) string, a, b [2]int, add func(j int))

func bindSetOperation(args []schema.Type, n int, f setOperation) (Signature, error) {
	if err := arity(args, n, n); err != nil {
		return Signature{}, err
	}
	for i, t := range args {
		if t.Kind != schema.Array {
			return Signature{}, fault.Userf("argument %d must be an array, not %s", i+1, t)
		}
	}
	t := args[0]
	if n == 2 {
		var ok bool
		if t, ok = common(UnionType, args); !ok {
			return Signature{}, fault.Userf("the elements have no common type")
		}
	}
	element := t.Part(0)
	return Signature{Args: repeated(t, n), Result: t, Kernel: func(_ *Context, rows int, args []Vector) (Vector, error) {
		valid, null := validity(rows, args)
		if null {
			return nullOf(t), nil
		}
		lists, parts := make([]list, n), make([]arrow.Array, n)
		for k, v := range args {
			lists[k] = listOf(v)
			parts[k] = lists[k].values
		}
		whole := batch.Concat(parts)
		var room []byte
		key := func(j int) string {
			room = schema.AppendKey(room[:0], element, whole, j)
			return string(room)
		}
		g := newGathered(rows)
		for i := range rows {
			if valid == nil || batch.BitSet(valid, i) {
				var spans [2][2]int
				base := 0
				for k := range lists {
					from, to := lists[k].span(i)
					spans[k] = [2]int{base + from, base + to}
					base += parts[k].Len()
				}
				f(key, spans[0], spans[1], g.add)
			}
			g.end()
		}
		return Vector{Array: g.array(t, whole, valid)}, nil
	}}, nil
}

func arrayUnion(key func(int) string, a, b [2]int, add func(int)) {
	seen := make(map[string]bool)
	for _, span := range [][2]int{a, b} {
		for j := span[0]; j < span[1]; j++ {
			if k := key(j); !seen[k] {
				seen[k] = true
				add(j)
			}
		}
	}
}

func arrayExcept(key func(int) string, a, b [2]int, add func(int)) {
	seen := make(map[string]bool)
	for j := b[0]; j < b[1]; j++ {
		seen[key(j)] = true
	}
	for j := a[0]; j < a[1]; j++ {
		if k := key(j); !seen[k] {
			seen[k] = true
			add(j)
		}
	}
}

func arrayIntersect(key func(int) string, a, b [2]int, add func(int)) {
	open := make(map[string]bool)
	for j := b[0]; j < b[1]; j++ {
		open[key(j)] = true
	}
	for j := a[0]; j < a[1]; j++ {
		if k := key(j); open[k] {
			delete(open, k)
			add(j)
		}
	}
}

// bindIndex is array[i] and map[key]: NULL when there is no such element.
func bindIndex(args []schema.Type) (Signature, error) {
	if err := arity(args, 2, 2); err != nil {
		return Signature{}, err
	}
	switch t := args[0]; t.Kind {
	case schema.Array:
		if !args[1].IsInteger() && args[1].Kind != schema.Void && !args[1].IsText() && !args[1].IsNumeric() {
			return Signature{}, fault.Userf("an array's index must be an integer, not %s", args[1])
		}
		return Signature{Args: []schema.Type{t, schema.IntType}, Result: t.Part(0), Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
			l, index, valid := listOf(args[0]), columnOf[int32](args[1]), validBits(n, args[1])
			at := make([]int32, n)
			for i := range at {
				from, to := l.span(i)
				at[i] = -1
				if k := index.at(i); batch.BitSet(valid, i) && k >= 0 && int(k) < to-from {
					at[i] = int32(from) + k
				}
			}
			return Vector{Array: batch.Gather(l.values, at)}, nil
		}}, nil
	case schema.Map:
		key := t.Part(0)
		if castKernel(args[1], key) == nil {
			return Signature{}, fault.Userf("the map's keys are %s, not %s", key, args[1])
		}
		return Signature{Args: []schema.Type{t, key}, Result: t.Part(1), Kernel: mapLookup(key)}, nil
	}
	return Signature{}, fault.Userf("[] is for arrays and maps, not for %s", args[0])
}

// mapLookup finds the value of a key.
func mapLookup(key schema.Type) Kernel {
	return func(_ *Context, n int, args []Vector) (Vector, error) {
		l := listOf(args[0])
		keys, values := batch.FieldOf(l.values, 0), batch.FieldOf(l.values, 1)
		wanted, mask, known := args[1].Array, args[1].mask(), validBits(n, args[1])
		at := make([]int32, n)
		equal := func(j, i int) bool { return schema.CompareAt(key, keys, j, wanted, i&mask) == 0 }
		if key.Kind == schema.String {
			x, y := batch.TextOf(keys), textsOf(args[1])
			equal = func(j, i int) bool { return string(x.Bytes(j)) == string(y.at(i)) }
		}
		for i := range at {
			at[i] = -1
			if !batch.BitSet(known, i) {
				continue
			}
			for j, end := l.span(i); j < end; j++ {
				if equal(j, i) {
					at[i] = int32(j)
					break
				}
			}
		}
		return Vector{Array: batch.Gather(values, at)}, nil
	}
}

// bindArrayJoin is array_join(array, delimiter[, text for NULL]).
func bindArrayJoin(args []schema.Type) (Signature, error) {
	if err := arity(args, 2, 3); err != nil {
		return Signature{}, err
	}
	if args[0].Kind != schema.Array {
		return Signature{}, fault.Userf("it takes an array, not %s", args[0])
	}
	element := args[0].Part(0)
	for i, t := range args[1:] {
		if !t.IsText() && t.Kind != schema.Void {
			return Signature{}, fault.Userf("argument %d must be text, not %s", i+2, t)
		}
	}
	want := append([]schema.Type{args[0]}, repeated(schema.StringType, len(args)-1)...)
	return Signature{Args: want, Result: schema.StringType, Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
		l, delimiter := listOf(args[0]), textsOf(args[1])
		return func(dst []byte, i int) ([]byte, bool) {
			first := true
			if from, to := l.span(i); from == to { // Hive: no elements, no text
				return dst, false
			}
			for j, end := l.span(i); j < end; j++ {
				null := l.values.IsNull(j)
				if null && len(args) < 3 {
					continue
				}
				if !first {
					dst = append(dst, delimiter.at(i)...)
				}
				first = false
				if null {
					x := textsOf(args[2])
					dst = append(dst, x.at(i)...)
				} else {
					dst = appendJava(dst, element, l.values, j)
				}
			}
			return dst, true
		}, nil
	})}, nil
}

// bindSortArrayBy is sort_array_by(array of structs, field..., ['ASC'|'DESC']).
func bindSortArrayBy(args []schema.Type, constants []*schema.Datum) (Signature, error) {
	if err := arity(args, 2, -1); err != nil {
		return Signature{}, err
	}
	t := args[0]
	if t.Kind != schema.Array || t.Part(0).Kind != schema.Struct {
		return Signature{}, fault.Userf("its first argument must be an array of structs, not %s", t)
	}
	fields := t.Part(0).Nested.Fields
	var order []int
	desc := false
	for i, c := range constants[1:] {
		if c == nil || !c.Type.IsText() || c.Null {
			return Signature{}, fault.Userf("argument %d must be the constant name of a field", i+2)
		}
		k := slices.IndexFunc(fields, func(f schema.Field) bool { return strings.EqualFold(f.Name, c.S) })
		if k < 0 && i == len(constants)-2 && i > 0 {
			switch strings.ToUpper(c.S) {
			case "ASC":
				continue
			case "DESC":
				desc = true
				continue
			}
			return Signature{}, fault.Userf("the last argument must be a field, ASC or DESC, not %q", c.S)
		}
		if k < 0 {
			return Signature{}, fault.Userf("the structs have no field %q", c.S)
		}
		order = append(order, k)
	}
	return Signature{Args: args, Result: t, Kernel: arrayKernel(t, 1, func(l *list, _ []Vector, g *gathered, i int) bool {
		start := len(g.at)
		for j, end := l.span(i); j < end; j++ {
			g.add(j)
		}
		columns := structFields(l.values)
		slices.SortStableFunc(g.at[start:], func(a, b int32) int {
			for _, k := range order {
				if c := schema.CompareAt(fields[k].Type, columns[k], int(a), columns[k], int(b)); c != 0 {
					if desc {
						return -c
					}
					return c
				}
			}
			return 0
		})
		return true
	})}, nil
}

// appendJava appends an element as Java's toString does: [a, b, null] for an array.
func appendJava(dst []byte, t schema.Type, a arrow.Array, i int) []byte {
	switch {
	case a.IsNull(i):
		return append(dst, "null"...)
	case t.Kind == schema.Decimal:
		return appendStripped(dst, batch.Values[num](a)[i], int(t.Scale))
	case t.Kind == schema.Array, t.Kind == schema.Struct:
		var parts []func(dst []byte) []byte
		if t.Kind == schema.Array {
			l := listOf(Vector{Array: a})
			for j, end := l.span(i); j < end; j++ {
				parts = append(parts, func(dst []byte) []byte { return appendJava(dst, t.Part(0), l.values, j) })
			}
		} else {
			for k := range t.Parts() {
				parts = append(parts, func(dst []byte) []byte { return appendJava(dst, t.Part(k), batch.FieldOf(a, k), i) })
			}
		}
		dst = append(dst, '[')
		for k, part := range parts {
			if k > 0 {
				dst = append(dst, ", "...)
			}
			dst = part(dst)
		}
		return append(dst, ']')
	}
	return schema.AppendText(dst, t, a, i)
}
