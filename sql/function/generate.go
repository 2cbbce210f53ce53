package function

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// maxGenerated bounds the rows that one batch of rows may become.
const maxGenerated = 1 << 26

// addTables registers the table-generating functions.
func addTables(r *Registry) {
	r.addTable("explode", func(args []schema.Type, _ []*schema.Datum) (TableSignature, error) {
		if err := arity(args, 1, 1); err != nil {
			return TableSignature{}, err
		}
		switch t := args[0]; t.Kind {
		case schema.Array:
			return TableSignature{Args: args, Out: []schema.Field{{Name: "col", Type: t.Part(0)}}, Kernel: explode(false)}, nil
		case schema.Map:
			return TableSignature{Args: args, Out: []schema.Field{{Name: "key", Type: t.Part(0)}, {Name: "value", Type: t.Part(1)}},
				Kernel: explode(false)}, nil
		}
		return TableSignature{}, fault.Userf("it takes an array or a map, not %s", args[0])
	})
	r.addTable("posexplode", func(args []schema.Type, _ []*schema.Datum) (TableSignature, error) {
		if err := arity(args, 1, 1); err != nil {
			return TableSignature{}, err
		}
		t := args[0]
		if t.Kind != schema.Array {
			return TableSignature{}, fault.Userf("it takes an array, not %s", t)
		}
		return TableSignature{Args: args, Out: []schema.Field{{Name: "pos", Type: schema.IntType}, {Name: "val", Type: t.Part(0)}},
			Kernel: explode(true)}, nil
	})
	r.addTable("inline", func(args []schema.Type, _ []*schema.Datum) (TableSignature, error) {
		if err := arity(args, 1, 1); err != nil {
			return TableSignature{}, err
		}
		t := args[0]
		if t.Kind != schema.Array || t.Part(0).Kind != schema.Struct {
			return TableSignature{}, fault.Userf("it takes an array of structs, not %s", t)
		}
		return TableSignature{Args: args, Out: append([]schema.Field(nil), t.Part(0).Nested.Fields...), Kernel: inline}, nil
	})
	r.addTable("stack", bindStack)
	r.addTable("json_tuple", func(args []schema.Type, _ []*schema.Datum) (TableSignature, error) {
		return bindTuple(args, jsonTuple)
	})
	r.addTable("parse_url_tuple", func(args []schema.Type, _ []*schema.Datum) (TableSignature, error) {
		return bindTuple(args, urlTuple)
	})
	r.addTable("replicate_rows", func(args []schema.Type, _ []*schema.Datum) (TableSignature, error) {
		if err := arity(args, 2, -1); err != nil {
			return TableSignature{}, err
		}
		if _, err := integer(args[:1]); err != nil {
			return TableSignature{}, err
		}
		want := append([]schema.Type{schema.BigIntType}, args[1:]...)
		return TableSignature{Args: want, Out: numbered("col", want), Kernel: replicateRows}, nil
	})
}

func numbered(prefix string, types []schema.Type) []schema.Field {
	out := make([]schema.Field, len(types))
	for i, t := range types {
		out[i] = schema.Field{Name: fmt.Sprintf("%s%d", prefix, i), Type: t}
	}
	return out
}

// explode makes a row of each element of an array or entry of a map.
func explode(position bool) TableKernel {
	return func(_ *Context, n int, args []Vector) ([]int32, []arrow.Array, error) {
		l := listOf(args[0])
		var from, at, positions []int32
		for i := range n {
			start, end := l.span(i)
			for j := start; j < end; j++ {
				from, at = append(from, int32(i)), append(at, int32(j))
				positions = append(positions, int32(j-start))
			}
			if len(at) > maxGenerated {
				return nil, nil, tooManyRows()
			}
		}
		var columns []arrow.Array
		switch {
		case args[0].Array.DataType().ID() == arrow.MAP:
			columns = []arrow.Array{batch.Gather(batch.FieldOf(l.values, 0), at), batch.Gather(batch.FieldOf(l.values, 1), at)}
		case position:
			columns = []arrow.Array{batch.NewFixed(arrow.PrimitiveTypes.Int32, positions, nil), batch.Gather(l.values, at)}
		default:
			columns = []arrow.Array{batch.Gather(l.values, at)}
		}
		return from, columns, nil
	}
}

func tooManyRows() error {
	return fault.Userf("a batch of rows would become more than %d rows", maxGenerated)
}

// inline makes a row of each struct of an array; a NULL struct gives NULLs.
func inline(_ *Context, n int, args []Vector) ([]int32, []arrow.Array, error) {
	from, columns, err := explode(false)(nil, n, args)
	if err != nil {
		return nil, nil, err
	}
	return from, structFields(columns[0]), nil
}

// structFields returns the fields of a struct array, NULL where the struct is.
func structFields(a arrow.Array) []arrow.Array {
	out := make([]arrow.Array, len(a.Data().Children()))
	valid := batch.Validity(a)
	var at []int32
	if valid != nil {
		at = make([]int32, a.Len())
		for i := range at {
			at[i] = int32(i)
			if !batch.BitSet(valid, i) {
				at[i] = -1
			}
		}
	}
	for k := range out {
		out[k] = batch.FieldOf(a, k)
		if at != nil {
			out[k] = batch.Gather(out[k], at)
		}
	}
	return out
}

// Member returns field k of a struct: NULL where the struct is.
func Member(v Vector, k int) Vector {
	f := batch.FieldOf(v.Array, k)
	if valid := batch.Validity(v.Array); valid != nil {
		at := make([]int32, f.Len())
		for i := range at {
			at[i] = int32(i)
			if !batch.BitSet(valid, i) {
				at[i] = -1
			}
		}
		f = batch.Gather(f, at)
	}
	return Vector{Array: f, Const: v.Const}
}

// bindStack is stack(n, values...): n rows of the values, one after the other.
func bindStack(args []schema.Type, constants []*schema.Datum) (TableSignature, error) {
	if err := arity(args, 2, -1); err != nil {
		return TableSignature{}, err
	}
	if !args[0].IsInteger() || constants[0] == nil || constants[0].Null {
		return TableSignature{}, fault.Userf("its first argument must be a constant integer: the number of rows")
	}
	values := len(args) - 1
	rows := int(max(min(constants[0].I, int64(values)), 0))
	if constants[0].I < 1 {
		return TableSignature{}, fault.Userf("the number of rows must be at least 1, not %d", constants[0].I)
	}
	total := int(min(constants[0].I, maxGenerated))
	columns := (values + total - 1) / total
	want := append([]schema.Type{schema.IntType}, args[1:]...)
	var types []schema.Type
	for c := range columns {
		var of []schema.Type
		for row := range rows {
			if k := row*columns + c; k < values {
				of = append(of, args[1+k])
			}
		}
		t, ok := common(UnionType, of)
		if !ok {
			return TableSignature{}, fault.Userf("the values of column %d have no common type", c+1)
		}
		for row := range rows {
			if k := row*columns + c; k < values {
				want[1+k] = t
			}
		}
		types = append(types, t)
	}
	return TableSignature{Args: want, Out: numbered("col", types), Kernel: func(_ *Context, n int, args []Vector) ([]int32, []arrow.Array, error) {
		if n*total > maxGenerated {
			return nil, nil, tooManyRows()
		}
		from := make([]int32, 0, n*total)
		for i := range n {
			for range total {
				from = append(from, int32(i))
			}
		}
		out := make([]arrow.Array, columns)
		for c := range out {
			arms := []Vector{nullOf(types[c])}
			for row := range rows {
				if k := row*columns + c; k < values {
					arms = append(arms, args[1+k])
				}
			}
			parts, base := make([]arrow.Array, len(arms)), make([]int32, len(arms))
			size := int32(0)
			for a, v := range arms {
				parts[a], base[a] = batch.Plain(v.Array), size
				size += int32(v.Array.Len())
			}
			at := make([]int32, 0, n*total)
			for i := range n {
				for row := range total {
					a := row + 1
					if a >= len(arms) {
						a = 0
					}
					at = append(at, base[a]+int32(i&arms[a].mask()))
				}
			}
			out[c] = batch.Gather(batch.Concat(parts), at)
		}
		return from, out, nil
	}}, nil
}

// replicateRows is replicate_rows(n, columns...): each row n times.
func replicateRows(_ *Context, n int, args []Vector) ([]int32, []arrow.Array, error) {
	times := columnOf[int64](args[0])
	valid := validBits(n, args[0])
	var from []int32
	for i := range n {
		if !batch.BitSet(valid, i) {
			continue
		}
		k := times.at(i)
		if k > maxGenerated-int64(len(from)) {
			return nil, nil, tooManyRows()
		}
		for range k {
			from = append(from, int32(i))
		}
	}
	out := make([]arrow.Array, len(args))
	for c, v := range args {
		out[c] = batch.Gather(v.Rows(n), from)
	}
	return from, out, nil
}

// bindTuple binds a function of texts that gives one row, a column for each argument but the
// first.
func bindTuple(args []schema.Type, f func(first string, ok bool, names []string, known []bool, emit func(k int, value []byte, ok bool))) (TableSignature, error) {
	if err := arity(args, 2, -1); err != nil {
		return TableSignature{}, err
	}
	for i, t := range args {
		if !t.IsText() && t.Kind != schema.Void {
			return TableSignature{}, fault.Userf("argument %d must be text, not %s", i+1, t)
		}
	}
	want := repeated(schema.StringType, len(args))
	return TableSignature{Args: want, Out: numbered("c", want[1:]), Kernel: func(_ *Context, n int, args []Vector) ([]int32, []arrow.Array, error) {
		from := make([]int32, n)
		t, valid := make([]texts, len(args)), make([][]byte, len(args))
		for k, v := range args {
			t[k], valid[k] = textsOf(v), validBits(n, v)
		}
		columns := len(args) - 1
		offsets, data := make([][]int32, columns), make([][]byte, columns)
		masks := make([]nullable, columns)
		for k := range columns {
			offsets[k] = make([]int32, 1, n+1)
			masks[k].n = n
		}
		names, known := make([]string, columns), make([]bool, columns)
		for i := range n {
			from[i] = int32(i)
			for k := range columns {
				if known[k] = batch.BitSet(valid[k+1], i); known[k] {
					names[k] = string(t[k+1].at(i))
				}
			}
			first, ok := "", batch.BitSet(valid[0], i)
			if ok {
				first = string(t[0].at(i))
			}
			f(first, ok, names, known, func(k int, value []byte, ok bool) {
				if !ok {
					masks[k].clear(i)
				}
				data[k] = append(data[k], value...)
			})
			for k := range columns {
				offsets[k] = append(offsets[k], int32(len(data[k])))
			}
		}
		out := make([]arrow.Array, columns)
		for k := range out {
			out[k] = batch.NewText(arrow.BinaryTypes.String, offsets[k], data[k], masks[k].valid)
		}
		return from, out, nil
	}}, nil
}

// jsonTuple is json_tuple(json, names...): the members of an object as texts.
func jsonTuple(first string, ok bool, names []string, known []bool, emit func(k int, value []byte, ok bool)) {
	var v jsonValue
	if ok {
		v, ok = parseJSON(first)
	}
	ok = ok && v.kind == jsonObject
	for k, name := range names {
		var m *jsonValue
		if ok && known[k] {
			m = v.member(name)
		}
		if m == nil || m.kind == jsonNull {
			emit(k, nil, false)
			continue
		}
		emit(k, m.appendText(nil), true)
	}
}

// urlTuple is parse_url_tuple(url, parts...), QUERY:name being one value of the query.
func urlTuple(first string, ok bool, names []string, known []bool, emit func(k int, value []byte, ok bool)) {
	var u javaURL
	if ok {
		u, ok = parseJavaURL(first)
	}
	for k, name := range names {
		if !ok || !known[k] {
			emit(k, nil, false)
			continue
		}
		s, found := u.tuplePart(name)
		emit(k, []byte(s), found)
	}
}
