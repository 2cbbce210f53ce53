// Package plan has the bound, typed tree that the analyzer makes, the
// optimizer rewrites, sql/stage cuts at its Exchange nodes and sql/operator
// runs. Nodes and expressions are immutable: rewriting makes new ones.
package plan

import (
	"fmt"
	"strings"

	"github.com/skepdb/skep/schema"
)

// Expr is a bound expression over the columns of a node's input. The kinds are
// *Column, *Literal, *Call, *Cast, *Member and *Case.
type Expr interface {
	Type() schema.Type
	// String is the text that EXPLAIN shows.
	String() string
	isExpr()
}

// Column is the input's column at Index.
type Column struct {
	Index int
	Name  string
	T     schema.Type
}

// Literal is a constant.
type Literal struct{ Value schema.Datum }

// Call applies a scalar function of the registry; operators are functions
// named as in SHOW FUNCTIONS ("=", "+", "and", "isnull", "in", "like"). The
// analyzer has cast Args to types of one of the function's signatures.
type Call struct {
	Name string
	Args []Expr
	T    schema.Type
}

// Cast converts; a value that does not convert is NULL, as in Hive.
type Cast struct {
	Arg Expr
	T   schema.Type
}

// Member is a field of a struct.
type Member struct {
	Base  Expr
	Index int // of the field
	Name  string
	T     schema.Type
}

// Case is a searched CASE: the value of the first Then whose When is true.
type Case struct {
	Whens []When
	Else  Expr // never nil; a NULL literal when absent
	T     schema.Type
}

// When is an arm of a Case.
type When struct{ Cond, Then Expr }

func (e *Column) Type() schema.Type  { return e.T }
func (e *Literal) Type() schema.Type { return e.Value.Type }
func (e *Call) Type() schema.Type    { return e.T }
func (e *Cast) Type() schema.Type    { return e.T }
func (e *Member) Type() schema.Type  { return e.T }
func (e *Case) Type() schema.Type    { return e.T }

func (*Column) isExpr()  {}
func (*Literal) isExpr() {}
func (*Call) isExpr()    {}
func (*Cast) isExpr()    {}
func (*Member) isExpr()  {}
func (*Case) isExpr()    {}

func (e *Column) String() string { return e.Name }

func (e *Literal) String() string { return e.Value.String() }

func (e *Call) String() string {
	infix := len(e.Args) == 2 && (strings.ContainsAny(e.Name, "=<>+-*/%&|^") || e.Name == "and" || e.Name == "or" ||
		e.Name == "div" || e.Name == "like" || e.Name == "rlike")
	switch {
	case infix:
		return fmt.Sprintf("(%s %s %s)", e.Args[0], strings.ToUpper(e.Name), e.Args[1])
	case e.Name == "not" && len(e.Args) == 1:
		return fmt.Sprintf("(NOT %s)", e.Args[0])
	case e.Name == "isnull":
		return fmt.Sprintf("(%s IS NULL)", e.Args[0])
	case e.Name == "isnotnull":
		return fmt.Sprintf("(%s IS NOT NULL)", e.Args[0])
	case e.Name == "in" && len(e.Args) > 1:
		return fmt.Sprintf("(%s IN (%s))", e.Args[0], joinExprs(e.Args[1:]))
	}
	return e.Name + "(" + joinExprs(e.Args) + ")"
}

func (e *Cast) String() string { return fmt.Sprintf("CAST(%s AS %s)", e.Arg, e.T) }

func (e *Member) String() string { return e.Base.String() + "." + e.Name }

func (e *Case) String() string {
	var b strings.Builder
	b.WriteString("CASE")
	for _, w := range e.Whens {
		fmt.Fprintf(&b, " WHEN %s THEN %s", w.Cond, w.Then)
	}
	fmt.Fprintf(&b, " ELSE %s END", e.Else)
	return b.String()
}

func joinExprs(es []Expr) string {
	parts := make([]string, len(es))
	for i, e := range es {
		parts[i] = e.String()
	}
	return strings.Join(parts, ", ")
}

// Constants returns the values of those expressions that are literals, cast or not, and
// nil for the others: what a function whose type depends on a constant is bound with.
func Constants(es []Expr) []*schema.Datum {
	out := make([]*schema.Datum, len(es))
	for i, e := range es {
		for {
			c, ok := e.(*Cast)
			if !ok || !c.Arg.Type().IsInteger() && !c.Arg.Type().IsText() || c.Arg.Type().IsText() != c.T.IsText() {
				break
			}
			e = c.Arg
		}
		if l, ok := e.(*Literal); ok {
			out[i] = &l.Value
		}
	}
	return out
}
