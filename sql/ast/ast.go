// Package ast has the syntax tree of HiveQL: what was written, before any name
// is looked up. Every node knows its place in the text. The tree holds the
// whole of Hive's query grammar; what the engine cannot run yet is refused by
// the analyzer, not by the tree.
package ast

import "github.com/skepdb/skep/schema"

// Pos is a place in SQL text.
type Pos struct {
	Line   int // 1-based
	Column int // 1-based, in runes
	Offset int // in bytes, 0-based
}

// Position returns p itself: embedding Pos makes a type a Node.
func (p Pos) Position() Pos { return p }

// Node is anything with a place.
type Node interface{ Position() Pos }

// Ident is one name. Names are kept as written; they compare without case.
type Ident struct {
	Pos
	Name string
}

// Name is a dotted name: [database.]table.
type Name struct {
	Pos
	Parts []Ident
}

// Last returns the last part's text, or "".
func (n Name) Last() string {
	if len(n.Parts) == 0 {
		return ""
	}
	return n.Parts[len(n.Parts)-1].Name
}

// TypeName is a type as written; the parser has resolved it.
type TypeName struct {
	Pos
	Type schema.Type
}

// Statement is one statement. Source is its text without the final semicolon.
type Statement interface {
	Node
	Source() string
	isStatement()
}

// Stmt is the part that all statements share.
type Stmt struct {
	Pos
	Text string
}

// Source implements Statement.
func (s Stmt) Source() string { return s.Text }

func (Stmt) isStatement() {}

// Property is 'key'='value' of TBLPROPERTIES and its kin.
type Property struct {
	Pos
	Key, Value string
}
