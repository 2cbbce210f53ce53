package operator

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
)

// rows are the input of an expression: n dense values in each column that it
// refers to.
type rows struct {
	cols []arrow.Array
	n    int
}

// expression is a compiled plan.Expr of one task: it keeps what it has computed
// of a dictionary. Not safe for concurrent use.
type expression interface {
	eval(r rows) (function.Vector, error)
}

// compiler compiles expressions of one operator tree.
type compiler struct {
	registry *function.Registry
	context  *function.Context
}

// compiled is an expression with what its operator must know of it.
type compiled struct {
	expression
	t        schema.Type
	columns  []int // of the input that it refers to, unique
	volatile bool
}

// columnIndex returns the input column that the expression is, or -1.
func (c *compiled) columnIndex() int {
	if e, ok := c.expression.(columnExpr); ok {
		return int(e)
	}
	return -1
}

func (c *compiler) compile(e plan.Expr, input []schema.Field) (compiled, error) {
	out := compiled{t: e.Type()}
	seen := map[int]bool{}
	var err error
	plan.Walk(e, func(x plan.Expr) {
		if col, ok := x.(*plan.Column); ok {
			if col.Index < 0 || col.Index >= len(input) {
				err = fault.Bugf("expression %s: column %d of %d", e, col.Index, len(input))
				return
			}
			if !seen[col.Index] {
				seen[col.Index] = true
				out.columns = append(out.columns, col.Index)
			}
		}
	})
	if err != nil {
		return out, err
	}
	out.expression, out.volatile, err = c.build(e)
	if err != nil {
		return out, fmt.Errorf("expression %s: %w", e, err)
	}
	return out, nil
}

func (c *compiler) compileAll(es []plan.Expr, input []schema.Field) ([]compiled, error) {
	out := make([]compiled, len(es))
	for i, e := range es {
		var err error
		if out[i], err = c.compile(e, input); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) build(e plan.Expr) (x expression, volatile bool, err error) {
	switch e := e.(type) {
	case *plan.Column:
		return columnExpr(e.Index), false, nil
	case *plan.Literal:
		return constant(e.Value), false, nil
	case *plan.Cast:
		k, ok := function.Cast(e.Arg.Type(), e.T)
		if !ok {
			return nil, false, fault.Userf("%s can't be cast to %s", e.Arg.Type(), e.T)
		}
		return c.apply(k, []plan.Expr{e.Arg}, e.T, false)
	case *plan.Call:
		types := make([]schema.Type, len(e.Args))
		for i, a := range e.Args {
			types[i] = a.Type()
		}
		s, err := c.registry.Resolve(e.Name, types, plan.Constants(e.Args)...)
		if err != nil {
			return nil, false, err
		}
		args := make([]plan.Expr, len(e.Args))
		for i, a := range e.Args {
			args[i] = a
			if !a.Type().Equal(s.Args[i]) {
				args[i] = &plan.Cast{Arg: a, T: s.Args[i]}
			}
		}
		if !s.Result.Equal(e.T) {
			// The plan's idea of the type rules: what is above was bound to it.
			inner, volatile, err := c.apply(s.Kernel, args, s.Result, s.Volatile)
			if err != nil {
				return nil, false, err
			}
			k, ok := function.Cast(s.Result, e.T)
			if !ok {
				return nil, false, fault.Bugf("%s gives %s, the plan says %s", e.Name, s.Result, e.T)
			}
			return &applyExpr{c: c, kernel: k, args: []expression{inner}, result: e.T, lone: 0, volatile: volatile}, volatile, nil
		}
		return c.apply(s.Kernel, args, e.T, s.Volatile)
	case *plan.Case:
		return c.buildCase(e)
	case *plan.Member:
		return c.buildMember(e)
	}
	return nil, false, fault.Bugf("unknown expression %T", e)
}

// apply makes a call of a kernel; one with constant arguments only is computed
// here and now.
func (c *compiler) apply(k function.Kernel, args []plan.Expr, result schema.Type, volatile bool) (expression, bool, error) {
	x := &applyExpr{c: c, kernel: k, result: result, lone: -1}
	variable := 0
	for i, a := range args {
		arg, v, err := c.build(a)
		if err != nil {
			return nil, false, err
		}
		volatile = volatile || v
		if _, ok := arg.(*literalExpr); !ok {
			variable++
			x.lone = i
		}
		x.args = append(x.args, arg)
	}
	x.volatile = volatile
	if variable != 1 || volatile {
		x.lone = -1
	}
	if variable == 0 && !volatile {
		v, err := x.eval(rows{n: 1})
		if err != nil {
			return nil, false, err
		}
		v.Const = true
		return &literalExpr{v}, false, nil
	}
	return x, volatile, nil
}

type columnExpr int

func (e columnExpr) eval(r rows) (function.Vector, error) {
	return function.Vector{Array: r.cols[e]}, nil
}

type literalExpr struct{ v function.Vector }

func (e *literalExpr) eval(rows) (function.Vector, error) { return e.v, nil }

func constant(d schema.Datum) *literalExpr {
	return &literalExpr{function.Vector{Array: schema.ArrayOf(d.Type, []schema.Datum{d}), Const: true}}
}

// applyExpr calls a kernel. When one argument alone varies and comes
// dictionary-coded, the kernel computes each dictionary entry once; text
// results stay coded.
type applyExpr struct {
	c        *compiler
	kernel   function.Kernel
	args     []expression
	result   schema.Type
	lone     int // the one argument that isn't constant, or -1
	volatile bool

	dict     *array.Data // the dictionary whose entries were computed last
	perEntry entryResults
	seen     *array.Data // a dictionary not computed yet
	seenRows int         // rows that had it so far
}

// entryResults are a kernel's results of the entries of a dictionary and, at
// the end, of NULL.
type entryResults struct {
	values arrow.Array
	truth  []uint8     // boolean results: 1 where true
	out    *array.Data // text results: the dictionary of the results
	codes  []int32     // text results: code by entry, -1 NULL
	same   bool        // codes[i] == i for every entry, none NULL
}

func (e *applyExpr) eval(r rows) (function.Vector, error) {
	vs, viaDictionary, err := e.arguments(r)
	switch {
	case err != nil:
		return function.Vector{}, err
	case viaDictionary:
		return e.spread(vs[e.lone].Array), nil
	}
	return e.kernel(e.c.context, r.n, vs)
}

// arguments computes the arguments; viaDictionary means that perEntry has the
// results for them.
func (e *applyExpr) arguments(r rows) (vs []function.Vector, viaDictionary bool, err error) {
	vs = make([]function.Vector, len(e.args))
	for i, a := range e.args {
		if vs[i], err = a.eval(r); err != nil {
			return nil, false, err
		}
	}
	if e.lone < 0 || !e.viaDictionary(vs[e.lone], r.n) {
		return vs, false, nil
	}
	return vs, true, e.compute(vs)
}

// viaDictionary decides whether computing the dictionary pays: at once when
// it is small, else when as many rows have had it as half its size, which
// at worst doubles the work.
func (e *applyExpr) viaDictionary(v function.Vector, n int) bool {
	if v.Const {
		return false
	}
	d := batch.DictionaryOf(v.Array)
	if d == nil || d.Len() == 0 {
		return false
	}
	if d == e.dict || d.Len() <= max(64, n) {
		return true
	}
	if d != e.seen {
		e.seen, e.seenRows = d, 0
	}
	e.seenRows += n
	return e.seenRows >= d.Len()/2
}

// compute fills perEntry for the dictionary of the lone argument.
func (e *applyExpr) compute(vs []function.Vector) error {
	d := batch.DictionaryOf(vs[e.lone].Array)
	if d == e.dict {
		return nil
	}
	n := d.Len()
	args := append([]function.Vector(nil), vs...)
	args[e.lone] = function.Vector{Array: array.MakeFromData(d)}
	of, err := e.kernel(e.c.context, n, args)
	if err != nil {
		return err
	}
	args[e.lone] = function.Vector{Array: function.NullArray(schema.StringType, 1)}
	ofNull, err := e.kernel(e.c.context, 1, args)
	if err != nil {
		return err
	}
	var p entryResults
	values := batch.Concat([]arrow.Array{materialise(of, n), materialise(ofNull, 1)})
	switch {
	case e.result.IsText():
		p.codes, p.out, p.same = recode(values)
	default:
		p.values = values
		if e.result.Kind == schema.Boolean {
			p.truth = make([]uint8, n+1)
			bits, valid := batch.Bits(values), batch.Validity(values)
			for i := range p.truth {
				if batch.BitSet(bits, i) && (valid == nil || batch.BitSet(valid, i)) {
					p.truth[i] = 1
				}
			}
		}
	}
	e.dict, e.perEntry = d, p
	return nil
}

// recode makes a dictionary of text values, which may repeat and be null.
func recode(values arrow.Array) (codes []int32, out *array.Data, same bool) {
	values = batch.Plain(values)
	valid := batch.Validity(values)
	t := batch.TextOf(values)
	var d batch.Dictionary
	codes = make([]int32, values.Len())
	same = true
	for i := range codes {
		if valid != nil && !batch.BitSet(valid, i) {
			codes[i] = -1
			same = same && i == len(codes)-1
			continue
		}
		codes[i] = d.Add(t.String(i))
		same = same && int(codes[i]) == i && i < len(codes)-1
	}
	return codes, d.Data(), same
}

// spread gives each row the result of its entry.
func (e *applyExpr) spread(a arrow.Array) function.Vector {
	codes, valid := batch.Values[int32](a), batch.Validity(a)
	p := &e.perEntry
	if p.same && e.result.IsText() {
		return function.Vector{Array: batch.NewDictionary(codes, valid, p.out)}
	}
	at := codes
	if valid != nil { // codes of nulls are arbitrary
		null := int32(e.dict.Len())
		at = make([]int32, len(codes))
		for i, c := range codes {
			if batch.BitSet(valid, i) {
				at[i] = c
			} else {
				at[i] = null
			}
		}
	}
	if !e.result.IsText() {
		return function.Vector{Array: batch.Gather(p.values, at)}
	}
	out := make([]int32, len(at))
	var bits []byte
	for i, k := range at {
		c := p.codes[k]
		if c < 0 {
			if bits == nil {
				bits = allOnes(len(at))
			}
			bits[i>>3] &^= 1 << (uint(i) & 7)
			c = 0
		}
		out[i] = c
	}
	if p.out.Len() == 0 {
		return function.Vector{Array: function.NullArray(e.result, len(at))}
	}
	return function.Vector{Array: batch.NewDictionary(out, bits, p.out)}
}

func allOnes(n int) []byte {
	out := make([]byte, (n+7)/8)
	for i := range out {
		out[i] = 0xff
	}
	return out
}

// materialise returns n values of v.
func materialise(v function.Vector, n int) arrow.Array {
	if !v.Const {
		return v.Array
	}
	if n == 1 {
		return v.Array
	}
	if v.Array.NullN() == 0 && v.Array.DataType().ID() == arrow.STRING { // coded: n small numbers
		var d batch.Dictionary
		t := batch.TextOf(v.Array)
		d.Add(t.String(0))
		return batch.NewDictionary(make([]int32, n), nil, d.Data())
	}
	return batch.Gather(v.Array, make([]int32, n))
}

// caseExpr is a searched CASE: all arms are computed, then selected from.
type caseExpr struct {
	t     schema.Type
	conds []expression
	arms  []expression // one more than conds: ELSE
	// When all arms are text literals, the result is coded with one dictionary
	// for all batches.
	codes []int32 // by arm, -1 NULL
	dict  *array.Data
}

func (c *compiler) buildCase(e *plan.Case) (expression, bool, error) {
	x := &caseExpr{t: e.T}
	volatile, literals := false, e.T.IsText()
	arm := func(y plan.Expr) error {
		if !y.Type().Equal(e.T) {
			y = &plan.Cast{Arg: y, T: e.T}
		}
		z, v, err := c.build(y)
		if err != nil {
			return err
		}
		_, ok := z.(*literalExpr)
		literals, volatile = literals && ok, volatile || v
		x.arms = append(x.arms, z)
		return nil
	}
	for _, w := range e.Whens {
		cond, v, err := c.build(w.Cond)
		if err != nil {
			return nil, false, err
		}
		volatile = volatile || v
		x.conds = append(x.conds, cond)
		if err := arm(w.Then); err != nil {
			return nil, false, err
		}
	}
	if err := arm(e.Else); err != nil {
		return nil, false, err
	}
	if literals {
		parts := make([]arrow.Array, len(x.arms))
		for i, a := range x.arms {
			parts[i] = a.(*literalExpr).v.Array
		}
		x.codes, x.dict, _ = recode(batch.Concat(parts))
	}
	return x, volatile, nil
}

func (e *caseExpr) eval(r rows) (function.Vector, error) {
	which := make([]int32, r.n)
	for i := range which {
		which[i] = int32(len(e.conds))
	}
	for k := len(e.conds) - 1; k >= 0; k-- { // the first true one has the last word
		v, err := e.conds[k].eval(r)
		if err != nil {
			return function.Vector{}, err
		}
		for _, i := range appendTrue(nil, v, r.n) {
			which[i] = int32(k)
		}
	}
	if e.dict != nil && e.dict.Len() > 0 {
		codes := make([]int32, r.n)
		var valid []byte
		for i, k := range which {
			if codes[i] = e.codes[k]; codes[i] < 0 {
				if valid == nil {
					valid = allOnes(r.n)
				}
				valid[i>>3] &^= 1 << (uint(i) & 7)
				codes[i] = 0
			}
		}
		return function.Vector{Array: batch.NewDictionary(codes, valid, e.dict)}, nil
	}
	arms := make([]function.Vector, len(e.arms))
	for k, a := range e.arms {
		var err error
		if arms[k], err = a.eval(r); err != nil {
			return function.Vector{}, err
		}
	}
	return function.Select(e.t, which, arms), nil
}

// dense returns the selected rows of b with only the columns that are needed,
// gathered if b has a selection.
func dense(b *batch.Batch, exprs ...[]compiled) rows {
	if b.Sel == nil {
		return rows{b.Columns, b.Len}
	}
	return pick(b.Columns, b.Sel, exprs...)
}

// pick gathers the columns that expressions refer to.
func pick(cols []arrow.Array, at []int32, exprs ...[]compiled) rows {
	r := rows{cols: make([]arrow.Array, len(cols)), n: len(at)}
	for _, list := range exprs {
		for _, e := range list {
			for _, i := range e.columns {
				if r.cols[i] == nil {
					r.cols[i] = batch.Gather(cols[i], at)
				}
			}
		}
	}
	return r
}

func evalAll(list []compiled, r rows) ([]function.Vector, error) {
	out := make([]function.Vector, len(list))
	for i := range list {
		var err error
		if out[i], err = list[i].eval(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Eval computes an expression over the rows of a batch with these fields: one
// value for each selected row, in order. reg binds its calls.
func Eval(reg *function.Registry, e plan.Expr, b *batch.Batch, fields []schema.Field, fc *function.Context) (arrow.Array, error) {
	c := compiler{reg, contextOf(fc)}
	x, err := c.compile(e, fields)
	if err != nil {
		return nil, err
	}
	r := dense(b, []compiled{x})
	v, err := x.eval(r)
	if err != nil {
		return nil, err
	}
	return materialise(v, r.n), nil
}

// Evaluator computes constant expressions, for instance for the optimizer.
type Evaluator struct{ c compiler }

// NewEvaluator returns an evaluator; fc is the statement's context, nil for
// the zero time in UTC.
func NewEvaluator(reg *function.Registry, fc *function.Context) *Evaluator {
	return &Evaluator{compiler{reg, contextOf(fc)}}
}

// Eval returns the value of an expression without columns.
func (v *Evaluator) Eval(e plan.Expr) (schema.Datum, error) {
	x, err := v.c.compile(e, nil)
	if err != nil {
		return schema.Datum{}, err
	}
	r, err := x.eval(rows{n: 1})
	if err != nil {
		return schema.Datum{}, err
	}
	a := batch.Plain(r.Array)
	if a.DataType().ID() == arrow.NULL {
		return schema.NullOf(e.Type()), nil
	}
	return schema.FromArrow(a, 0, e.Type()), nil
}

func contextOf(fc *function.Context) *function.Context {
	if fc == nil {
		return &function.Context{}
	}
	return fc
}
