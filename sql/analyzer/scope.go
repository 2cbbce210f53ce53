package analyzer

import (
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// scope has the columns that names can mean, in the order of the node's output.
type scope struct {
	cols   []scopeColumn
	byName map[string][]int // lower case -> positions; made when first asked
}

type scopeColumn struct {
	database, table string // lower case; table is the alias if there is one
	name            string // lower case
	t               schema.Type
	// merged: a column of JOIN .. USING stands before it for both sides; this one
	// answers to its qualified name only.
	merged bool
}

func (s *scope) add(database, table, name string, t schema.Type) {
	s.cols = append(s.cols, scopeColumn{database: strings.ToLower(database), table: strings.ToLower(table), name: strings.ToLower(name), t: t})
	s.byName = nil
}

// find returns the positions of the columns with a name; table and database
// restrict it unless empty.
func (s *scope) find(database, table, name string) []int {
	if s.byName == nil {
		s.byName = make(map[string][]int, len(s.cols))
		for i, c := range s.cols {
			s.byName[c.name] = append(s.byName[c.name], i)
		}
	}
	var out []int
	for _, i := range s.byName[strings.ToLower(name)] {
		c := &s.cols[i]
		if table == "" && !c.merged || table != "" && c.in(database, table) {
			out = append(out, i)
		}
	}
	return out
}

func (c *scopeColumn) in(database, table string) bool {
	return strings.EqualFold(c.table, table) && (database == "" || strings.EqualFold(c.database, database))
}

// hasTable reports whether some column belongs to the table.
func (s *scope) hasTable(database, table string) bool {
	for i := range s.cols {
		if s.cols[i].in(database, table) {
			return true
		}
	}
	return false
}

// tables returns the aliases, once each.
func (s *scope) tables() []string {
	var out []string
	seen := map[string]bool{}
	for _, c := range s.cols {
		if c.table != "" && !seen[c.table] {
			seen[c.table] = true
			out = append(out, c.table)
		}
	}
	return out
}

func (s *scope) names(database, table string) []string {
	var out []string
	for i := range s.cols {
		if table == "" || s.cols[i].in(database, table) {
			out = append(out, s.cols[i].name)
		}
	}
	return out
}

// column returns the expression of the column at i.
func (s *scope) column(i int) *plan.Column {
	return &plan.Column{Index: i, Name: s.cols[i].name, T: s.cols[i].t}
}

// resolve finds the one column of a name.
func (s *scope) resolve(pos ast.Pos, database, table, name string) (*plan.Column, error) {
	found := s.find(database, table, name)
	switch len(found) {
	case 1:
		return s.column(found[0]), nil
	case 0:
		if table == "" {
			return nil, unknownColumn(pos, name, s.names("", ""), "")
		}
		return nil, unknownColumn(pos, name, s.names(database, table), table)
	}
	var in []string
	for _, i := range found {
		in = append(in, s.cols[i].table)
	}
	return nil, errorAt(pos, fault.StateUnknownCol, "column %s is ambiguous: it is in %s", name, strings.Join(in, " and in "))
}

func unknownColumn(pos ast.Pos, name string, candidates []string, where string) error {
	e := errorAt(pos, fault.StateUnknownCol, "unknown column %s", name)
	if where != "" {
		e.Message += " of " + where
	}
	e.Hint = nearest.Hint(name, candidates)
	return e
}

func unknownTable(pos ast.Pos, name string, candidates []string) error {
	e := errorAt(pos, fault.StateUnknownTable, "unknown table or alias %s", name)
	e.Hint = nearest.Hint(name, candidates)
	return e
}

// outerQuery is the enclosing query of a sub-query: where names are looked up that the
// sub-query does not have. exprs are what it uses of it, over the enclosing query's input.
type outerQuery struct {
	b     *binder // of the clause that the sub-query stands in
	exprs []plan.Expr
	same  *identity
	at    map[int]int // identity -> position in exprs
}

func newOuter(b *binder) *outerQuery {
	return &outerQuery{b: b, same: newIdentity(), at: map[int]int{}}
}

// use returns the column that stands for an expression of the enclosing query.
func (o *outerQuery) use(e plan.Expr, name string) *plan.Column {
	id := o.same.of(e)
	j, ok := o.at[id]
	if !ok {
		j = len(o.exprs)
		o.at[id] = j
		o.exprs = append(o.exprs, e)
	}
	return &plan.Column{Index: outerBase + j, Name: name, T: e.Type()}
}
