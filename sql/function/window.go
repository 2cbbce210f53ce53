package function

import (
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addWindows registers the window functions that are no aggregates: their types.
// Package operator computes them.
func addWindows(r *Registry) {
	ranking := func(result schema.Type) windowBinder {
		return func(args []schema.Type) (WindowSignature, error) {
			// Hive takes and ignores arguments of rank and its like in a window: they are those of ORDER BY.
			return WindowSignature{Args: args, Result: result}, nil
		}
	}
	r.addWindow("row_number rank dense_rank", ranking(schema.IntType))
	r.addWindow("percent_rank cume_dist", ranking(schema.DoubleType))
	r.addWindow("ntile", func(args []schema.Type) (WindowSignature, error) {
		if err := arity(args, 1, 1); err != nil {
			return WindowSignature{}, err
		}
		if _, err := integer(args); err != nil {
			return WindowSignature{}, err
		}
		return WindowSignature{Args: []schema.Type{schema.IntType}, Result: schema.IntType}, nil
	})
	r.addWindow("lead lag", func(args []schema.Type) (WindowSignature, error) {
		if err := arity(args, 1, 3); err != nil {
			return WindowSignature{}, err
		}
		t := valued(args[0])
		want := []schema.Type{t}
		if len(args) > 1 {
			if _, err := integer(args[1:2]); err != nil {
				return WindowSignature{}, err
			}
			want = append(want, schema.IntType)
		}
		if len(args) > 2 { // the default is converted to the value's type
			if castKernel(args[2], t) == nil {
				return WindowSignature{}, fault.Userf("the default must be %s, not %s", t, args[2])
			}
			want = append(want, t)
		}
		return WindowSignature{Args: want, Result: t}, nil
	})
	r.addWindow("first_value last_value", func(args []schema.Type) (WindowSignature, error) {
		if err := arity(args, 1, 2); err != nil {
			return WindowSignature{}, err
		}
		t := valued(args[0])
		want := []schema.Type{t}
		if len(args) > 1 { // whether to skip NULLs
			if err := booleans(args[1:]); err != nil {
				return WindowSignature{}, err
			}
			want = append(want, schema.BooleanType)
		}
		return WindowSignature{Args: want, Result: t}, nil
	})
	r.addWindow("nth_value", func(args []schema.Type) (WindowSignature, error) {
		if err := arity(args, 2, 2); err != nil {
			return WindowSignature{}, err
		}
		if _, err := integer(args[1:]); err != nil {
			return WindowSignature{}, err
		}
		t := valued(args[0])
		return WindowSignature{Args: []schema.Type{t, schema.IntType}, Result: t}, nil
	})
}

// valued is t, but string for a NULL literal.
func valued(t schema.Type) schema.Type {
	if t.Kind == schema.Void {
		return schema.StringType
	}
	return t
}
