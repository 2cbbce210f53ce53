// Package function is the registry of scalar and aggregate functions: name and
// argument types to result type and vector kernel. The registry is a value,
// built once by Builtin and passed down.
package function

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/schema"
)

// Vector is an argument or result of a kernel: n values, or one constant
// value that stands for all n.
type Vector struct {
	Array arrow.Array // see package batch for encodings; length n, or 1 when Const
	Const bool
}

// Context is what a kernel may know of its query.
type Context struct {
	Now      time.Time // of the statement: current_timestamp
	Location *time.Location
	Database string            // current_database()
	User     string            // current_user()
	Settings map[string]string // the session's variables, for functions that heed one
}

// Settings returns the names of the variables in Context.Settings that functions heed.
func Settings() []string { return []string{"hive.datetime.formatter"} }

// Kernel computes n results from args, whose types are those of the
// signature. It never changes its arguments. Rows with a NULL argument are
// computed by the kernel too: it decides what NULL means.
type Kernel func(c *Context, n int, args []Vector) (Vector, error)

// Signature is a function bound to argument types.
type Signature struct {
	Args   []schema.Type // what each argument must be cast to
	Result schema.Type
	Kernel Kernel
	// Volatile functions are not folded (rand, current_timestamp is not one).
	Volatile bool
}

// AggregateSignature is an aggregate function bound to argument types.
type AggregateSignature struct {
	Args   []schema.Type
	Result schema.Type
	State  []schema.Type // intermediate columns, for two-phase aggregation
	// New makes the accumulators of all groups of one operator.
	New func() Accumulator
}

// Accumulator keeps the state of one aggregate for all groups of an operator,
// in columns indexed by group.
type Accumulator interface {
	// Grow makes room for groups [0, n).
	Grow(n int)
	// Update adds rows: groups[i] is the group of row i of args; sel, when not
	// nil, lists the rows to add and groups is parallel to it.
	Update(groups []int32, sel []int32, args []Vector, n int) error
	// Merge adds intermediate states: one array for each of State.
	Merge(groups []int32, states []arrow.Array) error
	// State returns the intermediate columns of groups [from, to).
	State(from, to int) []arrow.Array
	// Result returns the values of groups [from, to).
	Result(from, to int) arrow.Array
}

// Direction is how one value of WITHIN GROUP (ORDER BY ..) is ordered.
type Direction struct{ Desc, NullsLast bool }

// TableSignature is a table-generating function (explode, json_tuple, ..) bound to
// argument types.
type TableSignature struct {
	Args   []schema.Type
	Out    []schema.Field // with the names that the columns have by default
	Kernel TableKernel
}

// TableKernel computes the rows that n input rows make: output row i comes from input
// row from[i] (ascending; a row may make none), columns are Out's.
type TableKernel func(c *Context, n int, args []Vector) (from []int32, columns []arrow.Array, err error)

// WindowSignature is a window function that is no aggregate (row_number, rank,
// lead, ..) bound to argument types. sql/operator knows how each is computed.
type WindowSignature struct {
	Args   []schema.Type
	Result schema.Type
}
