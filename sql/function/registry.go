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

// constantBinder binds a scalar function whose result type, or number of columns,
// depends on the values of constant arguments; constants[i] is nil where argument i
// isn't one.
type constantBinder func(args []schema.Type, constants []*schema.Datum) (Signature, error)

// aggregateBinder binds an aggregate function.
type aggregateBinder func(args []schema.Type) (AggregateSignature, error)

// withinBinder binds an aggregate with WITHIN GROUP (ORDER BY order).
type withinBinder func(args, order []schema.Type, dirs []Direction) (AggregateSignature, error)

// tableBinder binds a table-generating function.
type tableBinder func(args []schema.Type, constants []*schema.Datum) (TableSignature, error)

// windowBinder binds a window function.
type windowBinder func(args []schema.Type) (WindowSignature, error)

// Registry has functions by name. It is immutable once built and safe for
// concurrent use; so are the signatures it gives out.
type Registry struct {
	scalars    map[string]binder
	constants  map[string]constantBinder // scalars too
	aggregates map[string]aggregateBinder
	within     map[string]withinBinder
	tables     map[string]tableBinder
	windows    map[string]windowBinder
}

// Builtin returns a registry of all built-in functions.
func Builtin() *Registry {
	r := &Registry{scalars: make(map[string]binder), constants: make(map[string]constantBinder),
		aggregates: make(map[string]aggregateBinder), within: make(map[string]withinBinder),
		tables: make(map[string]tableBinder), windows: make(map[string]windowBinder)}
	for _, add := range []func(*Registry){
		addComparisons, addLogic, addArithmetic, addConditions, addText, addStrings, addPatterns, addMath, addNumbers, addDates, addCalendar, addSession, addHashes, addCiphers, addJSON, addMasks, addPrintf, addXPath,
		addArrays, addConstructors, addHiveHashes, addAggregates, addCollecting, addHistograms, addBivariate, addWithin, addTables, addWindows,
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

func (r *Registry) addConstant(names string, b constantBinder) {
	for name := range strings.FieldsSeq(names) {
		r.constants[name] = b
	}
}

func (r *Registry) addTable(name string, b tableBinder) { r.tables[name] = b }

func (r *Registry) addWindow(names string, b windowBinder) {
	for name := range strings.FieldsSeq(names) {
		r.windows[name] = b
	}
}

func (r *Registry) addAggregate(names string, b aggregateBinder) {
	for name := range strings.FieldsSeq(names) {
		r.aggregates[name] = b
	}
}

// Resolve binds the scalar function (or operator) called name to arguments of
// these types; VOID stands for a NULL literal. The caller casts each argument
// whose type differs from the signature's. Of a few functions the result type depends
// on constants (the names in named_struct, the places of round): constants, if any,
// has an element for each argument, nil where it isn't a literal. Errors are the user's:
// an unknown name, a wrong number of arguments, types that fit no form of the function.
func (r *Registry) Resolve(name string, args []schema.Type, constants ...*schema.Datum) (Signature, error) {
	name = strings.ToLower(name)
	bind, ok := r.scalars[name]
	withConstants, ok2 := r.constants[name]
	var s Signature
	var err error
	switch {
	case ok2:
		s, err = withConstants(args, perArgument(args, constants))
	case ok:
		s, err = bind(args)
	case r.IsAggregate(name):
		return Signature{}, fault.Userf("%s is an aggregate function and can't be used here", name)
	case r.IsTable(name):
		return Signature{}, fault.Userf("%s makes rows: use it alone in the select list or in LATERAL VIEW", name)
	case r.IsWindow(name):
		return Signature{}, fault.Userf("%s is a window function and needs OVER (...)", name)
	default:
		return Signature{}, r.unknown(name)
	}
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
		if _, within := r.within[name]; within {
			return AggregateSignature{}, fault.Userf("%s needs WITHIN GROUP (ORDER BY ...)", name)
		}
		if r.Has(name) {
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

// perArgument returns one entry for each argument.
func perArgument(args []schema.Type, constants []*schema.Datum) []*schema.Datum {
	if len(constants) == len(args) {
		return constants
	}
	return make([]*schema.Datum, len(args))
}

// ResolveTable binds a table-generating function; see Resolve about constants.
func (r *Registry) ResolveTable(name string, args []schema.Type, constants ...*schema.Datum) (TableSignature, error) {
	name = strings.ToLower(name)
	bind, ok := r.tables[name]
	if !ok {
		if r.Has(name) || r.IsAggregate(name) {
			return TableSignature{}, fault.Userf("%s is not a table-generating function", name)
		}
		return TableSignature{}, r.unknown(name)
	}
	s, err := bind(args, perArgument(args, constants))
	if err != nil {
		return TableSignature{}, describe(name, args, err)
	}
	return s, nil
}

// ResolveWindow binds a window function that is no aggregate.
func (r *Registry) ResolveWindow(name string, args []schema.Type) (WindowSignature, error) {
	name = strings.ToLower(name)
	bind, ok := r.windows[name]
	if !ok {
		return WindowSignature{}, r.unknown(name)
	}
	s, err := bind(args)
	if err != nil {
		return WindowSignature{}, describe(name, args, err)
	}
	return s, nil
}

// ResolveWithinGroup binds name(args) WITHIN GROUP (ORDER BY order): percentile_cont and
// percentile_disc, and rank, dense_rank, percent_rank and cume_dist of a hypothetical row.
// The signature's Args are args, then order.
func (r *Registry) ResolveWithinGroup(name string, args, order []schema.Type, dirs []Direction) (AggregateSignature, error) {
	name = strings.ToLower(name)
	bind, ok := r.within[name]
	if !ok {
		if r.Has(name) || r.IsAggregate(name) || r.IsWindow(name) {
			return AggregateSignature{}, fault.Userf("%s doesn't take WITHIN GROUP (ORDER BY ...)", name)
		}
		return AggregateSignature{}, r.unknown(name)
	}
	s, err := bind(args, order, dirs)
	if err != nil {
		return AggregateSignature{}, describe(name, args, err)
	}
	return s, nil
}

// Has reports whether there is a scalar function called name.
func (r *Registry) Has(name string) bool {
	name = strings.ToLower(name)
	_, ok := r.scalars[name]
	_, ok2 := r.constants[name]
	return ok || ok2
}

// IsTable reports whether there is a table-generating function called name.
func (r *Registry) IsTable(name string) bool {
	_, ok := r.tables[strings.ToLower(name)]
	return ok
}

// IsWindow reports whether there is a window function, that is no aggregate, called name.
func (r *Registry) IsWindow(name string) bool {
	_, ok := r.windows[strings.ToLower(name)]
	return ok
}

// IsAggregate reports whether there is an aggregate function called name.
func (r *Registry) IsAggregate(name string) bool {
	name = strings.ToLower(name)
	_, ok := r.aggregates[name]
	_, ok2 := r.within[name]
	return ok || ok2 && !r.IsWindow(name)
}

// Names returns the names of all functions and operators, sorted.
func (r *Registry) Names() []string {
	out := make([]string, 0, len(r.scalars)+len(r.aggregates))
	for name := range r.scalars {
		out = append(out, name)
	}
	for name := range r.constants {
		out = append(out, name)
	}
	for name := range r.aggregates {
		out = append(out, name)
	}
	for name := range r.within {
		out = append(out, name)
	}
	for name := range r.tables {
		out = append(out, name)
	}
	for name := range r.windows {
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
