package schema

import "strings"

// ColumnID names a column of a table for ever: the Parquet field id. Never
// reused within a table, so DROP + ADD of one name doesn't resurrect data.
type ColumnID int32

// Column is a column of a table.
type Column struct {
	ID      ColumnID
	Name    string // lower case, as Hive folds it
	Type    Type
	NotNull bool
	Comment string
}

// Columns is an ordered column list.
type Columns []Column

// Index returns the position of the column with this name (case-insensitive),
// or -1.
func (c Columns) Index(name string) int {
	for i := range c {
		if strings.EqualFold(c[i].Name, name) {
			return i
		}
	}
	return -1
}

// ByID returns the position of the column with this id, or -1.
func (c Columns) ByID(id ColumnID) int {
	for i := range c {
		if c[i].ID == id {
			return i
		}
	}
	return -1
}
