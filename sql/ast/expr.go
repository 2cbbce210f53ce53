package ast

import "github.com/skepdb/skep/schema"

// Expr is an expression.
type Expr interface {
	Node
	isExpr()
}

// The kinds of expressions.
type (
	// Column is a bare name: a column, or the qualifier at the left end of a Field.
	Column struct {
		Pos
		Name string
		// Quoted: written `name`. With hive.support.quoted.identifiers=none it
		// is a regular expression over column names.
		Quoted bool
	}
	// Field is base.name: a column of a table alias, or a field of a struct.
	Field struct {
		Pos  // of the name
		Base Expr
		Name string
	}
	// Index is base[index].
	Index struct {
		Pos
		Base, Index Expr
	}
	// Star is * or qualifier.*: in a select list or count(*).
	Star struct {
		Pos
		Qualifier []Ident
	}
	// Literal is a constant: number, string, boolean, NULL, DATE '..', TIMESTAMP '..'.
	Literal struct {
		Pos
		Value schema.Datum
	}
	// Interval is INTERVAL value unit: INTERVAL '1-2' YEAR TO MONTH, (n) DAYS.
	Interval struct {
		Pos
		Value Expr
		Unit  string // upper case, singular: DAY, "YEAR TO MONTH"
	}
	// Unary is -x, +x, ~x, NOT x; Op in lower case.
	Unary struct {
		Pos
		Op string
		X  Expr
	}
	// Binary is x op y. Op is normalised: "=" for "==", "<>" for "!=", words in
	// lower case ("and", "or", "div").
	Binary struct {
		Pos  // of the operator
		Op   string
		L, R Expr
	}
	// Between is x [NOT] BETWEEN low AND high.
	Between struct {
		Pos
		X, Low, High Expr
		Not          bool
	}
	// In is x [NOT] IN (list), or (query) when Query is set.
	In struct {
		Pos
		X     Expr
		List  []Expr
		Query *Query
		Not   bool
	}
	// Like is x [NOT] LIKE|RLIKE|REGEXP pattern, or LIKE ANY|ALL (list).
	Like struct {
		Pos
		Op         string // "like", "rlike" (REGEXP is the same)
		X          Expr
		Patterns   []Expr
		Quantifier string // "", "any", "all"
		Not        bool
	}
	// Is is x IS [NOT] NULL|TRUE|FALSE|UNKNOWN; What in lower case.
	Is struct {
		Pos
		X    Expr
		What string
		Not  bool
	}
	// Distinct is x IS [NOT] DISTINCT FROM y.
	Distinct struct {
		Pos
		L, R Expr
		Not  bool
	}
	// Case is CASE [operand] WHEN .. THEN .. [ELSE ..] END.
	Case struct {
		Pos
		Operand Expr // nil: a searched CASE
		Whens   []When
		Else    Expr // nil: NULL
	}
	// Cast is CAST(x AS type [FORMAT 'f']).
	Cast struct {
		Pos
		X      Expr
		To     TypeName
		Format string
	}
	// Call is a function call, an aggregate or a window function.
	Call struct {
		Pos
		Name        Ident
		Args        []Expr // count(*): one Star
		Distinct    bool
		IgnoreNulls bool
		Within      []OrderItem // WITHIN GROUP (ORDER BY ..)
		Filter      Expr        // FILTER (WHERE ..); nil: none
		Over        *Window     // nil: not a window function
	}
	// Subquery is a query in parentheses, as a value.
	Subquery struct {
		Pos
		Query *Query
	}
	// Exists is EXISTS (query).
	Exists struct {
		Pos
		Query *Query
	}
	// Quantified is x op ANY|ALL (query).
	Quantified struct {
		Pos
		Op    string
		X     Expr
		All   bool
		Query *Query
	}
	// Tuple is (a, b, ..) with at least two parts.
	Tuple struct {
		Pos
		Parts []Expr
	}
	// Param is ? in PREPARE.
	Param struct {
		Pos
		Index int
	}
)

// When is an arm of a Case.
type When struct{ Cond, Then Expr }

// Window is OVER name or OVER (spec), or a definition in the WINDOW clause.
type Window struct {
	Pos
	Name string
	// Base is the window that a definition in the WINDOW clause builds on: w2 AS (w1 ROWS ..).
	Base        string
	PartitionBy []Expr
	OrderBy     []OrderItem
	Frame       *Frame
}

// Frame is ROWS|RANGE BETWEEN start AND end.
type Frame struct {
	Pos
	Unit       string // "rows", "range"
	Start, End Bound
}

// Bound is one end of a Frame.
type Bound struct {
	Kind string // "unbounded preceding", "preceding", "current row", "following", "unbounded following"
	N    Expr   // of preceding and following
}

// OrderItem is expr [ASC|DESC] [NULLS FIRST|LAST].
type OrderItem struct {
	Pos
	X          Expr
	Desc       bool
	NullsFirst *bool // nil: not said
}

func (*Column) isExpr()     {}
func (*Field) isExpr()      {}
func (*Index) isExpr()      {}
func (*Star) isExpr()       {}
func (*Literal) isExpr()    {}
func (*Interval) isExpr()   {}
func (*Unary) isExpr()      {}
func (*Binary) isExpr()     {}
func (*Between) isExpr()    {}
func (*In) isExpr()         {}
func (*Like) isExpr()       {}
func (*Is) isExpr()         {}
func (*Distinct) isExpr()   {}
func (*Case) isExpr()       {}
func (*Cast) isExpr()       {}
func (*Call) isExpr()       {}
func (*Subquery) isExpr()   {}
func (*Exists) isExpr()     {}
func (*Quantified) isExpr() {}
func (*Tuple) isExpr()      {}
func (*Param) isExpr()      {}
