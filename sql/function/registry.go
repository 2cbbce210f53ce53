package function

import (
	"slices"
	"sort"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
)

// binder binds a scalar function to argument types, or says why it can't.
type binder func(args []schema.Type) (Signature, error)

// aggregateBinder binds an aggregate function.
type aggregateBinder func(args []schema.Type) (AggregateSignature, error)

// Registry has functions by name. It is immutable once built and safe for
// concurrent use; so are the signatures it gives out.
type Registry struct {
	scalars    map[string]binder
	aggregates map[string]aggregateBinder
}

// Builtin returns a registry of all built-in functions.
func Builtin() *Registry {
	r := &Registry{scalars: make(map[string]binder), aggregates: make(map[string]aggregateBinder)}
	for _, add := range []func(*Registry){
		addComparisons, addLogic, addArithmetic, addConditions, addText, addPatterns, addMath, addDates, addHashes,
		addAggregates,
	} {
		add(r)
	}
	return r
}

func (r *Registry) add(names string, b binder) {
	for name := range strings.FieldsSeq(names) {
		r.scalars[name] = b
	}
}

func (r *Registry) addAggregate(names string, b aggregateBinder) {
	for name := range strings.FieldsSeq(names) {
		r.aggregates[name] = b
	}
}

// Resolve binds the scalar function (or operator) called name to arguments of
// these types; VOID stands for a NULL literal. The caller casts each argument
// whose type differs from the signature's. Errors are the user's: an unknown
// name, a wrong number of arguments, types that fit no form of the function.
func (r *Registry) Resolve(name string, args []schema.Type) (Signature, error) {
	name = strings.ToLower(name)
	bind, ok := r.scalars[name]
	if !ok {
		if r.IsAggregate(name) {
			return Signature{}, fault.Userf("%s is an aggregate function and can't be used here", name)
		}
		return Signature{}, r.unknown(name)
	}
	s, err := bind(args)
	if err != nil {
		return Signature{}, describe(name, args, err)
	}
	s.Kernel = lift(s.Kernel, s.Volatile)
	return s, nil
}

// ResolveAggregate binds an aggregate function; no arguments is count(*).
// With distinct, min and max are bound as without it, and a distinct count of
// several arguments counts the distinct rows of them.
func (r *Registry) ResolveAggregate(name string, args []schema.Type, distinct bool) (AggregateSignature, error) {
	name = strings.ToLower(name)
	bind, ok := r.aggregates[name]
	if !ok {
		if _, scalar := r.scalars[name]; scalar {
			return AggregateSignature{}, fault.Userf("%s is not an aggregate function", name)
		}
		return AggregateSignature{}, r.unknown(name)
	}
	if distinct && len(args) == 0 {
		return AggregateSignature{}, fault.Userf("%s(DISTINCT *) needs columns: %s(DISTINCT a, b)", name, name)
	}
	s, err := bind(args)
	if err != nil {
		return AggregateSignature{}, describe(name, args, err)
	}
	return s, nil
}

// Has reports whether there is a scalar function called name.
func (r *Registry) Has(name string) bool {
	_, ok := r.scalars[strings.ToLower(name)]
	return ok
}

// IsAggregate reports whether there is an aggregate function called name.
func (r *Registry) IsAggregate(name string) bool {
	_, ok := r.aggregates[strings.ToLower(name)]
	return ok
}

// Names returns the names of all functions and operators, sorted.
func (r *Registry) Names() []string {
	out := make([]string, 0, len(r.scalars)+len(r.aggregates))
	for name := range r.scalars {
		out = append(out, name)
	}
	for name := range r.aggregates {
		out = append(out, name)
	}
	sort.Strings(out)
	return slices.Compact(out)
}

func (r *Registry) unknown(name string) error {
	hint := ""
	if n := nearest.Name(name, r.Names()); n != "" {
		hint = "did you mean " + n + "?"
	}
	return &fault.Error{Class: fault.User, SQLState: fault.StateSyntax, Message: "there is no function called " + name, Hint: hint}
}

// describe puts the call in front of what a binder says of it.
func describe(name string, args []schema.Type, err error) error {
	parts := make([]string, len(args))
	for i, t := range args {
		parts[i] = t.String()
	}
	return &fault.Error{Class: fault.User, SQLState: fault.StateSyntax,
		Message: name + "(" + strings.Join(parts, ", ") + ")", Cause: err}
}

// lift wraps a kernel so that it never sees constants only: it computes them
// once, as one row, and the result is a constant.
func lift(k Kernel, volatile bool) Kernel {
	if volatile {
		return k
	}
	return func(c *Context, n int, args []Vector) (Vector, error) {
		for _, a := range args {
			if !a.Const {
				return k(c, n, args)
			}
		}
		one := make([]Vector, len(args))
		for i, a := range args {
			one[i] = Vector{Array: a.Array}
		}
		v, err := k(c, 1, one)
		v.Const = true
		return v, err
	}
}

// arity checks the number of arguments; most < 0 means no upper bound.
func arity(args []schema.Type, least, most int) error {
	n := len(args)
	switch {
	case least == most && n != least:
		return fault.Userf("it takes %d argument%s, not %d", least, plural(least), n)
	case n < least:
		return fault.Userf("it takes at least %d argument%s, not %d", least, plural(least), n)
	case most >= 0 && n > most:
		return fault.Userf("it takes at most %d argument%s, not %d", most, plural(most), n)
	}
	return nil
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
