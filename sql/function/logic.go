package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func addLogic(r *Registry) {
	for _, conj := range []bool{true, false} {
		name := "or"
		if conj {
			name = "and"
		}
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 2, -1); err != nil {
				return Signature{}, err
			}
			if err := booleans(args); err != nil {
				return Signature{}, err
			}
			return Signature{Args: repeated(schema.BooleanType, len(args)), Result: schema.BooleanType,
				Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
					v := args[0]
					for _, w := range args[1:] {
						v = logic(n, v, w, conj)
					}
					return v, nil
				}}, nil
		})
	}
	r.add("not !", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		if err := booleans(args); err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{schema.BooleanType}, Result: schema.BooleanType,
			Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
				a := args[0].Array
				return Vector{Array: batch.NewBoolean(invert(batch.Bits(a)), n, batch.Validity(a))}, nil
			}}, nil
	})
	for name, null := range map[string]bool{"isnull": true, "isnotnull": false} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 1, 1); err != nil {
				return Signature{}, err
			}
			return Signature{Args: args, Result: schema.BooleanType,
				Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
					bits := validBits(n, args[0])
					if null {
						bits = invert(bits)
					}
					return Vector{Array: batch.NewBoolean(bits, n, nil)}, nil
				}}, nil
		})
	}
	for name, f := range map[string]func(value, valid byte) byte{
		"istrue":     func(x, v byte) byte { return x & v },
		"isnottrue":  func(x, v byte) byte { return ^(x & v) },
		"isfalse":    func(x, v byte) byte { return ^x & v },
		"isnotfalse": func(x, v byte) byte { return ^(^x & v) },
	} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 1, 1); err != nil {
				return Signature{}, err
			}
			if err := booleans(args); err != nil {
				return Signature{}, err
			}
			return Signature{Args: []schema.Type{schema.BooleanType}, Result: schema.BooleanType,
				Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
					values, valid := batch.Bits(args[0].Array), validBits(n, args[0])
					out := make([]byte, bytesFor(n))
					for i := range out {
						out[i] = f(values[i], valid[i])
					}
					return Vector{Array: batch.NewBoolean(out, n, nil)}, nil
				}}, nil
		})
	}
}

func booleans(args []schema.Type) error {
	for _, t := range args {
		if t.Kind != schema.Boolean && t.Kind != schema.Void {
			return fault.Userf("it takes boolean arguments, not %s", t)
		}
	}
	return nil
}

// truth returns which rows are true and which are false (the rest is NULL).
func truth(n int, v Vector) (yes, no []byte) {
	yes, no = make([]byte, bytesFor(n)), make([]byte, bytesFor(n))
	if v.Const {
		if v.Array.DataType().ID() == arrow.BOOL && v.Array.NullN() == 0 {
			if batch.Bits(v.Array)[0]&1 != 0 {
				return ones(n), no
			}
			return yes, ones(n)
		}
		return yes, no
	}
	values, valid := batch.Bits(v.Array), validBits(n, v)
	and(yes, values, valid)
	andNot(no, valid, values)
	return yes, no
}

// logic is a AND b, or a OR b, in three-valued logic, a word at a time.
func logic(n int, a, b Vector, conj bool) Vector {
	ay, an := truth(n, a)
	by, bn := truth(n, b)
	if conj {
		and(ay, ay, by)
		or(an, an, bn)
	} else {
		or(ay, ay, by)
		and(an, an, bn)
	}
	or(an, an, ay) // known
	return Vector{Array: batch.NewBoolean(ay, n, an)}
}
