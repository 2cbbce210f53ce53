package storage

import "github.com/skepdb/skep/schema"

// Predicate is a condition on columns that a scan evaluates. Rows for which it
// is NULL are refused, like rows for which it is false. The kinds are
// *Compare, *In, *IsNull, And and Or.
type Predicate interface{ isPredicate() }

// Op is a comparison.
type Op uint8

// The comparisons.
const (
	Eq Op = iota
	Ne
	Lt
	Le
	Gt
	Ge
)

// String returns the operator as SQL writes it.
func (o Op) String() string { return [...]string{"=", "<>", "<", "<=", ">", ">="}[o] }

// Compare is column OP value; value is not NULL and of the column's type.
type Compare struct {
	Column schema.ColumnID
	Op     Op
	Value  schema.Datum
}

// In is column IN (values), at least one, none NULL, all of the column's type.
type In struct {
	Column schema.ColumnID
	Values []schema.Datum
}

// IsNull is column IS NULL, or IS NOT NULL when Not.
type IsNull struct {
	Column schema.ColumnID
	Not    bool
}

// And and Or are the conjunction and disjunction of at least one part.
type (
	And []Predicate
	Or  []Predicate
)

func (*Compare) isPredicate() {}
func (*In) isPredicate()      {}
func (*IsNull) isPredicate()  {}
func (And) isPredicate()      {}
func (Or) isPredicate()       {}
