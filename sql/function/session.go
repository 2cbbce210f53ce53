package function

import (
	"crypto/rand"
	"fmt"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addSession registers functions that tell of the session, and those that check.
func addSession(r *Registry) {
	say := func(names string, f func(c *Context) string) {
		r.add(names, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 0, 0); err != nil {
				return Signature{}, err
			}
			return Signature{Result: schema.StringType, Kernel: func(c *Context, _ int, _ []Vector) (Vector, error) {
				return Vector{Array: batch.NewStrings([]string{f(c)}), Const: true}, nil
			}}, nil
		})
	}
	say("current_database current_schema", func(c *Context) string {
		if c.Database == "" {
			return "default"
		}
		return c.Database
	})
	say("current_catalog", func(*Context) string { return "hive" })
	say("current_user logged_in_user", func(c *Context) string { return c.User })
	say("version buildversion", func(*Context) string { return "skep" })
	r.add("uuid", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 0, 0); err != nil {
			return Signature{}, err
		}
		return Signature{Result: schema.StringType, Volatile: true, Kernel: func(_ *Context, n int, _ []Vector) (Vector, error) {
			raw := make([]byte, 16*n)
			if _, err := rand.Read(raw); err != nil {
				return Vector{}, err
			}
			offsets, data := make([]int32, n+1), make([]byte, 0, 36*n)
			for i := range n {
				b := raw[16*i : 16*i+16]
				b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // version 4, RFC 9562
				data = fmt.Appendf(data, "%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
				offsets[i+1] = int32(len(data))
			}
			return Vector{Array: batch.NewText(schema.StringType.Arrow(), offsets, data, nil)}, nil
		}}, nil
	})
	// What Hive puts into plans to check a scalar sub-query's rows.
	r.add("sq_count_check", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, 1); err != nil {
			return Signature{}, err
		}
		if _, err := integer(args); err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{schema.BigIntType}, Result: schema.BooleanType, Volatile: true,
			Kernel: eachBool(func(_ *Context, args []Vector) (func(int) (bool, bool), error) {
				x := columnOf[int64](args[0])
				for i := range args[0].Array.Len() {
					if args[0].Array.IsValid(i) && x.at(i) > 1 {
						return nil, fault.Userf("a scalar sub-query has more than one row")
					}
				}
				return func(i int) (bool, bool) { return x.at(i) == 1, true }, nil
			})}, nil
	})
	r.add("enforce_constraint", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 1, -1); err != nil {
			return Signature{}, err
		}
		if err := booleans(args); err != nil {
			return Signature{}, err
		}
		return Signature{Args: repeated(schema.BooleanType, len(args)), Result: schema.BooleanType, Volatile: true,
			Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
				for _, v := range args {
					if _, no := truth(n, v); batch.CountBits(no, n) > 0 || v.Array.NullN() > 0 {
						return Vector{}, fault.Userf("a NOT NULL or CHECK constraint is violated")
					}
				}
				return Vector{Array: batch.NewBoolean(ones(n), n, nil)}, nil
			}}, nil
	})
	for names, t := range map[string]schema.Type{"udftoboolean": schema.BooleanType, "udftobyte": schema.TinyIntType, "udftoshort": schema.SmallIntType,
		"udftointeger": schema.IntType, "udftolong": schema.BigIntType, "udftofloat": schema.FloatType, "udftodouble": schema.DoubleType} {
		r.add(names, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 1, 1); err != nil {
				return Signature{}, err
			}
			k := castKernel(args[0], t)
			if k == nil {
				return Signature{}, fault.Userf("%s can't be cast to %s", args[0], t)
			}
			return Signature{Args: args, Result: t, Kernel: k}, nil
		})
	}
}
