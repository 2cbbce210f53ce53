package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/skepdb/skep/schema"
)

// scanWhere is Scan with an expression: a query, whose filter is pushed into
// the regions as far as it goes.
func (t *Table) scanWhere(ctx context.Context, columns schema.Columns, o ScanOptions) (*Rows, error) {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoteName(c.Name))
	}
	// The line break ends a comment in the expression.
	fmt.Fprintf(&b, " FROM %s.%s WHERE (%s\n)", quoteName(t.def.Database), quoteName(t.def.TableName), o.Where)
	for _, bound := range []struct {
		key   Key
		start bool
	}{{o.Start, true}, {o.End, false}} {
		if bound.key == nil {
			continue
		}
		condition, err := t.bound(bound.key, bound.start)
		if err != nil {
			return nil, err
		}
		b.WriteString(" AND " + condition)
	}
	for i, c := range t.def.KeyColumns() {
		if i == 0 {
			b.WriteString(" ORDER BY ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(quoteName(c.Name))
		if t.def.Key[i].Desc {
			b.WriteString(" DESC NULLS LAST")
		} else {
			b.WriteString(" NULLS FIRST")
		}
	}
	if o.Limit > 0 {
		fmt.Fprintf(&b, " LIMIT %d", o.Limit)
	}
	rows, err := t.client.Query(ctx, b.String())
	if err != nil {
		return nil, fmt.Errorf("scan %s where %s: %w", t.Name(), o.Where, err)
	}
	return rows, nil
}

// bound returns the condition that a row's key is at or after start, or
// before end.
func (t *Table) bound(key Key, start bool) (string, error) {
	if _, err := t.encode(key, false); err != nil {
		return "", err
	}
	columns := t.def.KeyColumns()
	// The last value's comparison, then outwards: a > x OR (a = x AND inner).
	inner := ""
	for i := len(key) - 1; i >= 0; i-- {
		name := quoteName(columns[i].Name)
		d, err := datumOf(columns[i].Type, key[i])
		if err != nil {
			return "", err
		}
		op := "<"
		if start != t.def.Key[i].Desc {
			op = ">"
		}
		last := i == len(key)-1
		var beyond, equal string
		switch {
		case d.Null && op == ">":
			equal, beyond = name+" IS NULL", name+" IS NOT NULL"
		case d.Null:
			equal, beyond = name+" IS NULL", "false"
		case op == "<": // NULL is lower than every value
			equal = name + " = " + literalOf(d)
			beyond = fmt.Sprintf("(%s < %s OR %s IS NULL)", name, literalOf(d), name)
		default:
			equal, beyond = name+" = "+literalOf(d), name+" > "+literalOf(d)
		}
		switch {
		case last && start:
			inner = fmt.Sprintf("(%s OR %s)", beyond, equal)
		case last:
			inner = fmt.Sprintf("(%s)", beyond)
		default:
			inner = fmt.Sprintf("(%s OR (%s AND %s))", beyond, equal, inner)
		}
	}
	return inner, nil
}

// literalOf returns a value as an expression of its type.
func literalOf(d schema.Datum) string {
	text := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, ";", `\;`).Replace(d.Text()) + "'"
	if d.Type.Kind == schema.String {
		return text
	}
	return fmt.Sprintf("CAST(%s AS %s)", text, d.Type)
}
