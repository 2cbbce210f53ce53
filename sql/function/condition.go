package function

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func addConditions(r *Registry) {
	r.add("if", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 3, 3); err != nil {
			return Signature{}, err
		}
		if err := booleans(args[:1]); err != nil {
			return Signature{}, err
		}
		t, err := union(args[1:])
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{schema.BooleanType, t, t}, Result: t,
			Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
				yes, _ := truth(n, args[0])
				which := make([]int32, n)
				for i := range which {
					which[i] = 1 - int32(yes[i>>3]>>(uint(i)&7)&1)
				}
				return Select(t, which, args[1:]), nil
			}}, nil
	})
	coalesce := func(least, most int) binder {
		return func(args []schema.Type) (Signature, error) {
			if err := arity(args, least, most); err != nil {
				return Signature{}, err
			}
			t, err := union(args)
			if err != nil {
				return Signature{}, err
			}
			return Signature{Args: repeated(t, len(args)), Result: t,
				Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
					if !args[0].Const && args[0].Array.NullN() == 0 {
						return args[0], nil
					}
					which := make([]int32, n)
					open := ones(n)
					for k, v := range args {
						valid := validBits(n, v)
						for i := range which {
							if batch.BitSet(open, i) && batch.BitSet(valid, i) {
								which[i] = int32(k)
								open[i>>3] &^= 1 << (uint(i) & 7)
							}
						}
					}
					return Select(t, which, args), nil
				}}, nil
		}
	}
	r.add("coalesce", coalesce(1, -1))
	r.add("nvl ifnull", coalesce(2, 2))
	r.add("nullif", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
			return Signature{}, err
		}
		t, err := comparable2(args)
		if err != nil {
			return Signature{}, err
		}
		first := args[0]
		if first.Kind == schema.Void {
			first = t
		}
		if castKernel(first, t) == nil {
			return Signature{}, fault.Userf("%s can't be compared with %s; cast one of them", args[0], args[1])
		}
		equal := lift(compareKernel(eq, t), false)
		toCommon := lift(castKernel(first, t), false)
		null := nullOf(first)
		return Signature{Args: []schema.Type{first, t}, Result: first,
			Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
				a, err := toCommon(c, n, args[:1])
				if err != nil {
					return Vector{}, err
				}
				v, err := equal(c, n, []Vector{a, args[1]})
				if err != nil {
					return Vector{}, err
				}
				yes, _ := truth(n, v)
				which := make([]int32, n)
				for i := range which {
					which[i] = int32(yes[i>>3] >> (uint(i) & 7) & 1)
				}
				return Select(first, which, []Vector{args[0], null}), nil
			}}, nil
	})
	for name, op := range map[string]comparison{"greatest": gt, "least": lt} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 2, -1); err != nil {
				return Signature{}, err
			}
			t, err := union(args)
			if err != nil {
				return Signature{}, err
			}
			if !ordered(t) {
				return Signature{}, fault.Userf("%s has no order", t)
			}
			return Signature{Args: repeated(t, len(args)), Result: t,
				Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
					valid, null := validity(n, args)
					if null {
						return nullOf(t), nil
					}
					best := args[0]
					for _, v := range args[1:] {
						better := compareBits(op, t, n, v, best)
						which := make([]int32, n)
						for i := range which {
							which[i] = int32(better[i>>3] >> (uint(i) & 7) & 1)
						}
						best = Select(t, which, []Vector{best, v})
					}
					if valid == nil {
						return best, nil
					}
					which := make([]int32, n) // NULL when one of them is
					for i := range which {
						which[i] = 1 - int32(valid[i>>3]>>(uint(i)&7)&1)
					}
					return Select(t, which, []Vector{best, nullOf(t)}), nil
				}}, nil
		})
	}
	r.add("assert_true", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		if err := booleans(args); err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{schema.BooleanType}, Result: schema.VoidType, Volatile: true,
			Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
				yes, _ := truth(n, args[0])
				if batch.CountBits(yes, n) < n {
					return Vector{}, fault.Userf("assert_true: the condition is not true")
				}
				return nullOf(schema.VoidType), nil
			}}, nil
	})
}

// union returns the type of a column that holds values of all the types.
func union(args []schema.Type) (schema.Type, error) {
	t, ok := common(UnionType, args)
	if !ok {
		return t, fault.Userf("the types have nothing in common; cast them to one type")
	}
	return t, nil
}

// Select returns, for each row i, row i of arms[which[i]], all of type t: the
// end of CASE, IF and COALESCE.
func Select(t schema.Type, which []int32, arms []Vector) Vector {
	n := len(which)
	if len(arms) == 1 && !arms[0].Const {
		return arms[0]
	}
	valid := selectValidity(n, which, arms)
	dt := t.Arrow()
	switch dt.ID() {
	case arrow.NULL:
		return nullOf(t)
	case arrow.BOOL:
		out := make([]byte, bytesFor(n))
		for k, v := range arms {
			yes, _ := truth(n, v)
			for i, w := range which {
				if int(w) == k {
					out[i>>3] |= yes[i>>3] & (1 << (uint(i) & 7))
				}
			}
		}
		return Vector{Array: batch.NewBoolean(out, n, valid)}
	case arrow.INT8:
		return selectFixed[int8](dt, which, arms, valid)
	case arrow.INT16:
		return selectFixed[int16](dt, which, arms, valid)
	case arrow.INT32, arrow.DATE32:
		return selectFixed[int32](dt, which, arms, valid)
	case arrow.INT64:
		return selectFixed[int64](dt, which, arms, valid)
	case arrow.FLOAT32:
		return selectFixed[float32](dt, which, arms, valid)
	case arrow.FLOAT64:
		return selectFixed[float64](dt, which, arms, valid)
	case arrow.DECIMAL128:
		return selectFixed[decimal128.Num](dt, which, arms, valid)
	case arrow.STRING, arrow.BINARY:
		return selectText(t, which, arms, valid)
	case arrow.LIST, arrow.MAP, arrow.STRUCT:
		return selectNested(which, arms)
	}
	panic(fmt.Sprintf("function: no selection of %s", t))
}

func selectValidity(n int, which []int32, arms []Vector) []byte {
	some := false
	valids := make([][]byte, len(arms))
	for _, v := range arms {
		some = some || v.Array.NullN() > 0
	}
	if !some {
		return nil
	}
	for k, v := range arms {
		valids[k] = validBits(n, v)
	}
	return packBits(n, func(i int) bool { return batch.BitSet(valids[which[i]], i) })
}

func selectFixed[T batch.Fixed](dt arrow.DataType, which []int32, arms []Vector, valid []byte) Vector {
	cols := make([]column[T], len(arms))
	for k, v := range arms {
		cols[k] = columnOf[T](v)
	}
	out := make([]T, len(which))
	for i, w := range which {
		out[i] = cols[w].at(i)
	}
	return Vector{Array: batch.NewFixed(dt, out, valid)}
}

// selectText keeps text coded when all arms are constants.
func selectText(t schema.Type, which []int32, arms []Vector, valid []byte) Vector {
	coded := t.IsText()
	for _, v := range arms {
		coded = coded && v.Const
	}
	if coded {
		var d batch.Dictionary
		codes := make([]int32, len(arms))
		for k, v := range arms {
			if !v.isNull() {
				x := batch.TextOf(v.Array)
				codes[k] = d.Add(x.String(0))
			}
		}
		out := make([]int32, len(which))
		for i, w := range which {
			out[i] = codes[w]
		}
		if d.Len() == 0 {
			return nullOf(t)
		}
		return Vector{Array: batch.NewDictionary(out, valid, d.Data())}
	}
	cols := make([]texts, len(arms))
	for k, v := range arms {
		cols[k] = textsOf(v)
	}
	offsets := make([]int32, len(which)+1)
	var data []byte
	for i, w := range which {
		if valid == nil || batch.BitSet(valid, i) {
			data = append(data, cols[w].at(i)...)
		}
		offsets[i+1] = int32(len(data))
	}
	return Vector{Array: batch.NewText(t.Arrow(), offsets, data, valid)}
}

// selectNested puts the arms side by side and picks from them.
func selectNested(which []int32, arms []Vector) Vector {
	parts, from := make([]arrow.Array, len(arms)), make([]int32, len(arms))
	total := int32(0)
	for k, v := range arms {
		parts[k], from[k] = batch.Plain(v.Array), total
		total += int32(v.Array.Len())
	}
	at := make([]int32, len(which))
	for i, w := range which {
		at[i] = from[w] + int32(i&arms[w].mask())
	}
	return Vector{Array: batch.Gather(batch.Concat(parts), at)}
}
