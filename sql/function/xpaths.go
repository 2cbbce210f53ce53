package function

import (
	"math"
	"sync/atomic"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/xpath"
	"github.com/skepdb/skep/schema"
)

// xpathCall is a document and a compiled expression of one row.
type xpathRows struct {
	kept *atomic.Pointer[compiledXPath]
	s, p texts
	// The last document, for several expressions over one.
	text string
	root *xpath.Node
}

type compiledXPath struct {
	text string
	expr *xpath.Expr
}

// evaluate returns the value of row i; ok is false for an empty text.
func (x *xpathRows) evaluate(i int) (v xpath.Value, ok bool, err error) {
	s, p := x.s.at(i), x.p.at(i)
	if len(s) == 0 || len(p) == 0 {
		return v, false, nil
	}
	c := x.kept.Load()
	if c == nil || c.text != string(p) {
		e, err := xpath.Compile(string(p))
		if err != nil {
			return v, false, fault.Userf("%w", err)
		}
		c = &compiledXPath{string(p), e}
		x.kept.Store(c)
	}
	if x.root == nil || x.text != string(s) {
		root, err := xpath.Parse(string(s))
		if err != nil {
			return v, false, fault.Userf("%q: %w", s, err)
		}
		x.root, x.text = root, string(s)
	}
	if v, err = c.expr.Evaluate(x.root); err != nil {
		return v, false, fault.Userf("%s: %w", p, err)
	}
	return v, true, nil
}

// addXPath registers the xpath functions. A document that isn't well-formed, or an
// expression that isn't one, is an error, as in Hive.
func addXPath(r *Registry) {
	number := func(names string, result schema.Type, kernel func(want []schema.Type, kept *atomic.Pointer[compiledXPath]) Kernel) {
		r.add(names, func(args []schema.Type) (Signature, error) {
			want, err := shaped("tt", args)
			if err != nil {
				return Signature{}, err
			}
			return Signature{Args: want, Result: result, Kernel: kernel(want, &atomic.Pointer[compiledXPath]{})}, nil
		})
	}
	number("xpath_double xpath_number", schema.DoubleType, xpathNumber(schema.DoubleType, func(f float64) float64 { return f }))
	number("xpath_float", schema.FloatType, xpathNumber(schema.FloatType, func(f float64) float32 { return float32(f) }))
	number("xpath_long", schema.BigIntType, xpathNumber(schema.BigIntType, javaInteger[int64]))
	number("xpath_int", schema.IntType, xpathNumber(schema.IntType, javaInteger[int32]))
	number("xpath_short", schema.SmallIntType, xpathNumber(schema.SmallIntType, javaInteger[int16]))
	number("xpath_boolean", schema.BooleanType, func(_ []schema.Type, kept *atomic.Pointer[compiledXPath]) Kernel {
		return func(c *Context, n int, args []Vector) (Vector, error) {
			var failed error
			v, err := eachBool(func(_ *Context, args []Vector) (func(int) (bool, bool), error) {
				x := xpathRows{kept: kept, s: textsOf(args[0]), p: textsOf(args[1])}
				return func(i int) (bool, bool) {
					v, ok, err := x.evaluate(i)
					if err != nil {
						failed = err
					}
					return ok && v.ToBool(), true
				}, nil
			})(c, n, args)
			if failed != nil {
				return Vector{}, failed
			}
			return v, err
		}
	})
	number("xpath_string", schema.StringType, func(_ []schema.Type, kept *atomic.Pointer[compiledXPath]) Kernel {
		return func(c *Context, n int, args []Vector) (Vector, error) {
			var failed error
			v, err := eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				x := xpathRows{kept: kept, s: textsOf(args[0]), p: textsOf(args[1])}
				return func(dst []byte, i int) ([]byte, bool) {
					v, ok, err := x.evaluate(i)
					if err != nil {
						failed = err
					}
					if !ok {
						return dst, false
					}
					return append(dst, v.ToString()...), true
				}, nil
			})(c, n, args)
			if failed != nil {
				return Vector{}, failed
			}
			return v, err
		}
	})
	list := schema.ArrayType(schema.StringType)
	number("xpath", list, func(_ []schema.Type, kept *atomic.Pointer[compiledXPath]) Kernel {
		return func(_ *Context, n int, args []Vector) (Vector, error) {
			valid, null := validity(n, args)
			if null {
				return nullOf(list), nil
			}
			x := xpathRows{kept: kept, s: textsOf(args[0]), p: textsOf(args[1])}
			l := newTextLists(n)
			m := nullable{n: n, valid: valid}
			for i := range n {
				if valid == nil || batch.BitSet(valid, i) {
					v, ok, err := x.evaluate(i)
					if err != nil {
						return Vector{}, err
					}
					if !ok {
						m.clear(i)
					}
					for _, node := range v.Nodes {
						// Of an element Hive shows its node value, which it hasn't got.
						if node.Kind == xpath.Text || node.Kind == xpath.Attribute || node.Kind == xpath.Comment {
							l.add([]byte(node.Data))
						}
					}
				}
				l.end()
			}
			return Vector{Array: batch.NewList(list.Arrow(), l.offsets, l.values(), m.valid)}, nil
		}
	})
}

// xpathNumber makes a kernel with a number as result; 0 for an empty text and NaN as an
// integer.
func xpathNumber[R batch.Fixed](t schema.Type, to func(float64) R) func([]schema.Type, *atomic.Pointer[compiledXPath]) Kernel {
	return func(_ []schema.Type, kept *atomic.Pointer[compiledXPath]) Kernel {
		return func(c *Context, n int, args []Vector) (Vector, error) {
			var failed error
			v, err := eachValid(t, func(_ *Context, args []Vector) (func(int) (R, bool), error) {
				x := xpathRows{kept: kept, s: textsOf(args[0]), p: textsOf(args[1])}
				return func(i int) (R, bool) {
					v, ok, err := x.evaluate(i)
					if err != nil {
						failed = err
					}
					f := math.NaN()
					if ok {
						f = v.ToNumber()
					}
					return to(f), ok
				}, nil
			})(c, n, args)
			if failed != nil {
				return Vector{}, failed
			}
			return v, err
		}
	}
}
