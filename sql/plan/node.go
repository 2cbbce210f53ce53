package plan

import (
	"time"

	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
)

// Node is a relational operator. The kinds are *Scan, *Values, *Filter,
// *Project, *Aggregate, *Join, *Sort, *Limit, *Exchange, *Write and *Input.
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
	// Bound are the argument types of the function's signature, in every phase:
	// from State alone phase Final couldn't tell decimal(10,2) from (20,2).
	Bound   []schema.Type
	OutName string
}

// JoinKind is the kind of a join.
type JoinKind uint8

// Inner is an inner equi-join.
const (
	Inner JoinKind = iota
)

// Join matches rows whose keys are equal and not NULL; LeftKeys and RightKeys are expressions over the
// respective child, pairwise of one type. Residual, over left columns then right
// columns, may be nil. The right side is built, the left one probes. Output:
// left columns, then right columns.
type Join struct {
	Left, Right Node
	Kind        JoinKind
	LeftKeys    []Expr
	RightKeys   []Expr
	Residual    Expr
}

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
	l, r := n.Left.Fields(), n.Right.Fields()
	return append(append(make([]schema.Field, 0, len(l)+len(r)), l...), r...)
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
