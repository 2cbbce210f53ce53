package ast

// Query is a select statement or sub-query with all that may stand around it.
type Query struct {
	Pos
	With         []CTE
	Body         Body
	OrderBy      []OrderItem
	SortBy       []OrderItem
	DistributeBy []Expr
	ClusterBy    []Expr
	Limit        Expr // nil: none
	Offset       Expr
}

// CTE is a named query of WITH.
type CTE struct {
	Pos
	Name    Ident
	Columns []Ident
	Query   *Query
}

// Body is what a Query computes: *Select, *SetOp, *ValuesBody or a *Query in
// parentheses.
type Body interface {
	Node
	isBody()
}

// Select is one SELECT.
type Select struct {
	Pos
	Distinct    bool
	Items       []SelectItem
	From        TableRef // nil: SELECT without FROM
	Where       Expr
	GroupBy     []Expr
	GroupingSet string   // "", "rollup", "cube", "sets"
	Sets        [][]Expr // of GROUPING SETS
	Having      Expr
	Qualify     Expr
	Windows     []Window
}

// SelectItem is an expression with an optional alias, or a Star.
type SelectItem struct {
	Pos
	X       Expr
	Alias   string
	Aliases []Ident // of a table-generating function: AS (a, b)
}

// SetOp is left UNION|INTERSECT|EXCEPT [ALL] right.
type SetOp struct {
	Pos         // of the operator
	Op   string // "union", "intersect", "except"
	All  bool
	L, R Body
}

// ValuesBody is VALUES (..), (..).
type ValuesBody struct {
	Pos
	Rows [][]Expr
	// Names are what the first row calls its columns, VALUES (1 AS a, 2); "": nothing.
	Names []string
}

func (*Select) isBody()     {}
func (*SetOp) isBody()      {}
func (*ValuesBody) isBody() {}
func (*Query) isBody()      {}

// TableRef is a source of rows: *TableName, *Derived, *Join, *LateralView or
// *TableFunction.
type TableRef interface {
	Node
	isTableRef()
}

// TableName is a table, view or CTE.
type TableName struct {
	Pos
	Name  Name
	Alias string
	// Columns are new names for the columns: t AS a (x, y).
	Columns []Ident
	AsOf    *AsOf
	Sample  *Sample
}

// Sample is TABLESAMPLE (..).
type Sample struct {
	Pos
	Kind string // "bucket", "percent", "rows", "bytes"
	// N is how many percent, rows or bytes; the bucket, from 1, of Of.
	N  float64
	Of int64
	On []Expr // what is hashed; none: the whole row, or the table's bucket columns
}

// TableFunction is f(ON source PARTITION BY .. ORDER BY ..): a function of a table.
type TableFunction struct {
	Pos
	Name   Ident
	Source TableRef
	Alias  string
}

// AsOf is FOR SYSTEM_TIME|SYSTEM_VERSION AS OF x.
type AsOf struct {
	Pos
	Version bool
	X       Expr
}

// Derived is (query) [AS] alias [(columns)].
type Derived struct {
	Pos
	Query   *Query
	Alias   string
	Columns []Ident
}

// Join is left KIND JOIN right ON|USING. A comma is a cross join.
type Join struct {
	Pos         // of the JOIN, or comma
	Kind string // "inner", "cross", "left", "right", "full", "left semi", "left anti"
	L, R TableRef
	On   Expr
	// Using lists the columns of USING (..).
	Using []Ident
}

// LateralView is source LATERAL VIEW [OUTER] call table AS columns.
type LateralView struct {
	Pos
	Source  TableRef
	Outer   bool
	Call    *Call
	Alias   string
	Columns []Ident
}

func (*TableName) isTableRef()   {}
func (*Derived) isTableRef()     {}
func (*Join) isTableRef()        {}
func (*LateralView) isTableRef() {}

func (*TableFunction) isTableRef() {}
