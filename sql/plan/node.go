package plan

import (
	"time"

	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
)

// Node is a relational operator. The kinds are *Scan, *Values, *Filter,
// *Project, *Aggregate, *Join, *Union, *Expand, *Generate, *Window, *Sort, *Limit,
// *Exchange, *Write and *Input.
type Node interface {
	// Fields are the output columns.
	Fields() []schema.Field
	Children() []Node
	// WithChildren returns a copy with other children, as many as before.
	WithChildren(children []Node) Node
}

// Scan reads an input. What was pushed into it is part of Spec, which knows
// how to describe itself; Fields are the Spec's.
type Scan struct {
	Spec inputformat.Spec
	// Rows is an estimate, for the optimizer; < 0 = unknown.
	Rows int64
}

// Values is a table of constant expressions (INSERT ... VALUES, SELECT without FROM).
type Values struct {
	Rows [][]Expr // no columns referenced; each as long as Out
	Out  []schema.Field
}

// Filter keeps the rows for which Cond is true.
type Filter struct {
	Input Node
	Cond  Expr
}

// Project computes columns.
type Project struct {
	Input Node
	Exprs []Expr
	Names []string
}

// Phase of an aggregation. Partial output: the keys, then each aggregate's
// intermediate columns; Final reads that.
type Phase uint8

// The phases.
const (
	Single Phase = iota
	Partial
	Final
)

// Aggregate groups rows by Keys; without keys it yields exactly one row (in
// phase Partial: one row a task).
type Aggregate struct {
	Input Node
	Phase Phase
	// Keys are expressions over the input; in phase Final, the first columns.
	Keys     []Expr
	KeyNames []string
	Aggs     []Agg
}

// Agg is an aggregate function call. In phase Final its Args are columns that
// hold the intermediate state.
type Agg struct {
	Name     string // "count", "sum", "avg", ...
	Args     []Expr // none: count(*)
	Distinct bool   // only in phase Single
	T        schema.Type
	State    []schema.Type // intermediate types
	// Within says how the values of WITHIN GROUP (ORDER BY ..), the last Args, are ordered.
	Within []function.Direction
	// Filter, if not nil, picks the rows that count: FILTER (WHERE ..). Not in phase Final.
	Filter Expr
	// Bound are the argument types of the function's signature, in every phase:
	// from State alone phase Final couldn't tell decimal(10,2) from (20,2).
	Bound   []schema.Type
	OutName string
}

// JoinKind is the kind of a join.
type JoinKind uint8

// The kinds of joins.
const (
	Inner JoinKind = iota
	LeftOuter
	RightOuter
	FullOuter
	LeftSemi
	LeftAnti
	// LeftMark yields every left row with one boolean more: whether there is a
	// match; with NullAware, NULL where x IN (right) would be.
	LeftMark
	// LeftSingle is LeftOuter that fails, with a user error, when a left row has more
	// than one match: a scalar sub-query.
	LeftSingle
)

// Join matches rows whose keys are equal and not NULL and for which Residual is
// true. LeftKeys and RightKeys are expressions over the respective child, pairwise
// of one type; without keys every pair of rows is looked at. Residual, over left columns
// then right columns, may be nil. The right side is built, the left one probes. Output:
// left columns, then right columns; of LeftSemi and LeftAnti, the left ones only; of
// LeftMark, the left ones and Mark.
//
// A task must have all right rows that can match its left ones. So either both sides
// are exchanged by hash of the keys (of a NullAware join, of the keys but the last;
// so with one key, both to one task), or the right side is broadcast to tasks that each
// have part of the left one. RightOuter and FullOuter must not be broadcast, unless to one
// task: every task would yield the right rows that none of its own left rows match.
type Join struct {
	// NullAware makes the last key that of x [NOT] IN (right), for LeftAnti and LeftMark:
	// among the right rows whose other keys match (and Residual holds), a NULL
	// in the last key on either side makes "no match" unknown: LeftAnti drops the row,
	// LeftMark gives NULL. No right rows: never unknown.
	NullAware bool
	// Mark names the boolean column of LeftMark.
	Mark        string
	Left, Right Node
	Kind        JoinKind
	LeftKeys    []Expr
	RightKeys   []Expr
	Residual    Expr
}

// Union is UNION ALL: the rows of all inputs, which have the same column types, in
// any order. The names are the first input's.
type Union struct{ Inputs []Node }

// Expand yields, for each input row, one row a projection: GROUPING SETS. All
// projections have the same types.
type Expand struct {
	Input       Node
	Projections [][]Expr
	Names       []string
}

// Generate applies a table-generating function to each row. Output: the input's
// columns, then Out, for each row that the function makes; with Outer, a row for which
// it makes none gives one with NULLs in Out.
type Generate struct {
	Input Node
	Name  string
	Args  []Expr // cast to the types of the function's signature
	Bound []schema.Type
	Outer bool
	Out   []schema.Field
}

// Window computes window functions over partitions of its input, which it sorts
// itself. All rows of a partition must reach one task. Output: the input's columns, then one for each call.
type Window struct {
	Input       Node
	PartitionBy []Expr
	OrderBy     []SortKey
	Calls       []WindowCall
}

// WindowCall is a window or aggregate function over the window's frame.
type WindowCall struct {
	Name        string
	Args        []Expr
	Bound       []schema.Type // argument types of the signature
	Distinct    bool
	IgnoreNulls bool
	Frame       Frame // the default frame spelled out
	T           schema.Type
	OutName     string
}

// Frame is the rows, around the current one, that a window call looks at.
type Frame struct {
	Range      bool // RANGE: by value of the one order key; else by rows
	Start, End Bound
}

// Bound is an end of a frame.
type Bound struct {
	Kind BoundKind
	// N is how far, for Preceding and Following: a literal; rows as a bigint, or for
	// RANGE a value to subtract from or add to the order key (by N.Type()).
	N *Literal
}

// BoundKind is the kind of a Bound.
type BoundKind uint8

// The kinds, from first to last.
const (
	UnboundedPreceding BoundKind = iota
	Preceding
	CurrentRow // for RANGE: the row and its peers
	Following
	UnboundedFollowing
)

// SortKey is one key of an order.
type SortKey struct {
	Expr      Expr
	Desc      bool
	NullsLast bool
}

// Sort orders its input; with Limit >= 0 it keeps only the first Offset+Limit
// rows and drops Offset of them (top-N).
type Sort struct {
	Input  Node
	Keys   []SortKey
	Limit  int64 // -1: none
	Offset int64
}

// Limit keeps Count rows after Offset.
type Limit struct {
	Input  Node
	Count  int64
	Offset int64
}

// Distribution says how an Exchange spreads rows over the tasks of the next stage.
type Distribution uint8

// The distributions.
const (
	ToOne     Distribution = iota // all rows to one task
	ByHash                        // by hash of Keys
	Broadcast                     // all rows to every task
	ByRegion                      // rows of a table write, by target region (Keys unused; see Write)
)

// Exchange moves rows between stages: the plan is cut here.
type Exchange struct {
	Input Node
	How   Distribution
	Keys  []Expr
	// Cuts, for ByRegion: ascending encoded row keys between partitions; row
	// keys are made of KeyColumns of the input.
	Cuts       [][]byte
	KeyColumns []KeyColumn
}

// KeyColumn is a row-key column of rows on their way to a table.
type KeyColumn struct {
	Index int
	Desc  bool
}

// Write sends rows to the job's output. Fields: none.
type Write struct {
	Input Node
	Spec  outputformat.Spec
}

func (n *Scan) Fields() []schema.Field   { return n.Spec.Fields() }
func (n *Values) Fields() []schema.Field { return n.Out }
func (n *Filter) Fields() []schema.Field { return n.Input.Fields() }
func (n *Project) Fields() []schema.Field {
	out := make([]schema.Field, len(n.Exprs))
	for i, e := range n.Exprs {
		out[i] = schema.Field{Name: n.Names[i], Type: e.Type()}
	}
	return out
}
func (n *Aggregate) Fields() []schema.Field {
	var out []schema.Field
	for i, k := range n.Keys {
		out = append(out, schema.Field{Name: n.KeyNames[i], Type: k.Type()})
	}
	for _, a := range n.Aggs {
		if n.Phase == Partial {
			for _, t := range a.State {
				out = append(out, schema.Field{Name: a.OutName, Type: t})
			}
			continue
		}
		out = append(out, schema.Field{Name: a.OutName, Type: a.T})
	}
	return out
}
func (n *Join) Fields() []schema.Field {
	l := n.Left.Fields()
	switch n.Kind {
	case LeftSemi, LeftAnti:
		return l
	case LeftMark:
		return append(l[:len(l):len(l)], schema.Field{Name: n.Mark, Type: schema.BooleanType})
	}
	r := n.Right.Fields()
	return append(append(make([]schema.Field, 0, len(l)+len(r)), l...), r...)
}
func (n *Union) Fields() []schema.Field { return n.Inputs[0].Fields() }
func (n *Expand) Fields() []schema.Field {
	out := make([]schema.Field, len(n.Names))
	for i, e := range n.Projections[0] {
		out[i] = schema.Field{Name: n.Names[i], Type: e.Type()}
	}
	return out
}
func (n *Generate) Fields() []schema.Field {
	in := n.Input.Fields()
	return append(in[:len(in):len(in)], n.Out...)
}
func (n *Window) Fields() []schema.Field {
	in := n.Input.Fields()
	out := in[:len(in):len(in)]
	for _, c := range n.Calls {
		out = append(out, schema.Field{Name: c.OutName, Type: c.T})
	}
	return out
}
func (n *Sort) Fields() []schema.Field     { return n.Input.Fields() }
func (n *Limit) Fields() []schema.Field    { return n.Input.Fields() }
func (n *Exchange) Fields() []schema.Field { return n.Input.Fields() }
func (n *Write) Fields() []schema.Field    { return nil }

func (n *Scan) Children() []Node      { return nil }
func (n *Values) Children() []Node    { return nil }
func (n *Filter) Children() []Node    { return []Node{n.Input} }
func (n *Project) Children() []Node   { return []Node{n.Input} }
func (n *Aggregate) Children() []Node { return []Node{n.Input} }
func (n *Join) Children() []Node      { return []Node{n.Left, n.Right} }
func (n *Union) Children() []Node     { return n.Inputs }
func (n *Expand) Children() []Node    { return []Node{n.Input} }
func (n *Generate) Children() []Node  { return []Node{n.Input} }
func (n *Window) Children() []Node    { return []Node{n.Input} }
func (n *Sort) Children() []Node      { return []Node{n.Input} }
func (n *Limit) Children() []Node     { return []Node{n.Input} }
func (n *Exchange) Children() []Node  { return []Node{n.Input} }
func (n *Write) Children() []Node     { return []Node{n.Input} }

func (n *Scan) WithChildren([]Node) Node        { return n }
func (n *Values) WithChildren([]Node) Node      { return n }
func (n *Filter) WithChildren(c []Node) Node    { m := *n; m.Input = c[0]; return &m }
func (n *Project) WithChildren(c []Node) Node   { m := *n; m.Input = c[0]; return &m }
func (n *Aggregate) WithChildren(c []Node) Node { m := *n; m.Input = c[0]; return &m }
func (n *Join) WithChildren(c []Node) Node      { m := *n; m.Left, m.Right = c[0], c[1]; return &m }
func (n *Union) WithChildren(c []Node) Node     { return &Union{Inputs: c} }
func (n *Expand) WithChildren(c []Node) Node    { m := *n; m.Input = c[0]; return &m }
func (n *Generate) WithChildren(c []Node) Node  { m := *n; m.Input = c[0]; return &m }
func (n *Window) WithChildren(c []Node) Node    { m := *n; m.Input = c[0]; return &m }
func (n *Sort) WithChildren(c []Node) Node      { m := *n; m.Input = c[0]; return &m }
func (n *Limit) WithChildren(c []Node) Node     { m := *n; m.Input = c[0]; return &m }
func (n *Exchange) WithChildren(c []Node) Node  { m := *n; m.Input = c[0]; return &m }
func (n *Write) WithChildren(c []Node) Node     { m := *n; m.Input = c[0]; return &m }

// Fragment is the work of a stage: a tree whose leaves are a Scan (the task's
// split), Values, or Inputs (shuffle inputs), and whose root is an Exchange
// (shuffle output) or a Write. Kind is "sql".
type Fragment struct {
	Root Node
	// Now and Location are the statement's time and time zone; zero means the
	// task's clock and UTC.
	Now      time.Time
	Location *time.Location
	// Settings are the session's variables that functions heed.
	Settings map[string]string
}

// Kind implements jobs.Work.
func (*Fragment) Kind() string { return "sql" }

// Input is a leaf of a Fragment: the task's Index-th shuffle input.
type Input struct {
	Index int
	Out   []schema.Field
}

func (n *Input) Fields() []schema.Field   { return n.Out }
func (n *Input) Children() []Node         { return nil }
func (n *Input) WithChildren([]Node) Node { return n }
