package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// Row is a row, or some columns of one: names to values, as Rows.All has them.
type Row map[string]any

// Key is the values of a row key's columns, in their order; where a range
// begins or ends, some of the first ones.
type Key []any

// Table is a table as it was when it was asked for.
type Table struct {
	client *Client
	def    *catalog.Table
}

// Table returns the table with this name, [database.]table.
func (c *Client) Table(ctx context.Context, name string) (*Table, error) {
	database, table := splitName(name)
	def, err := c.engine.Catalog().Table(ctx, database, table)
	if err != nil {
		return nil, err
	}
	return &Table{client: c, def: def}, nil
}

func splitName(name string) (database, table string) {
	name = strings.ToLower(name)
	if d, t, ok := strings.Cut(name, "."); ok {
		return d, t
	}
	return catalog.DefaultDatabase, name
}

// Tables returns the tables of a database, by name.
func (c *Client) Tables(ctx context.Context, database string) ([]*Table, error) {
	if database == "" {
		database = catalog.DefaultDatabase
	}
	defs, err := c.engine.Catalog().Tables(ctx, strings.ToLower(database))
	if err != nil {
		return nil, err
	}
	out := make([]*Table, len(defs))
	for i, d := range defs {
		out[i] = &Table{client: c, def: d}
	}
	return out, nil
}

// Databases returns the names of the databases.
func (c *Client) Databases(ctx context.Context) ([]string, error) {
	all, err := c.engine.Catalog().Databases(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = d.Name
	}
	return out, nil
}

// TableDefinition says what a new table is like.
type TableDefinition struct {
	Name    string // [database.]table
	Columns []Column
	// Key names the columns of the row key, in order; "name desc" orders one
	// the other way. None: a keyless table, which takes loads and inserts only.
	Key []string
	// Regions is how many regions the first load cuts the table into; 0 = 1.
	Regions int
	Comment string
}

// CreateTable makes a table.
func (c *Client) CreateTable(ctx context.Context, d TableDefinition) (*Table, error) {
	if _, err := c.Exec(ctx, d.sql()); err != nil {
		return nil, fmt.Errorf("create table %s: %w", d.Name, err)
	}
	return c.Table(ctx, d.Name)
}

// sql returns the statement that makes the table.
func (d TableDefinition) sql() string {
	var b strings.Builder
	database, table := splitName(d.Name)
	fmt.Fprintf(&b, "CREATE TABLE %s.%s (", quoteName(database), quoteName(table))
	for i, c := range d.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", quoteName(c.Name), c.Type)
	}
	b.WriteString(")")
	if d.Comment != "" {
		fmt.Fprintf(&b, " COMMENT '%s'", strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(d.Comment))
	}
	for i, k := range d.Key {
		if i == 0 {
			b.WriteString(" ROW KEY (")
		} else {
			b.WriteString(", ")
		}
		name, order := k, ""
		if f := strings.Fields(k); len(f) == 2 {
			name, order = f[0], " "+f[1]
		}
		b.WriteString(quoteName(name) + order)
		if i == len(d.Key)-1 {
			b.WriteString(")")
		}
	}
	if d.Regions > 0 {
		fmt.Fprintf(&b, " SPLIT INTO %d", d.Regions)
	}
	return b.String()
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// DropTable drops a table and its data.
func (c *Client) DropTable(ctx context.Context, name string) error {
	database, table := splitName(name)
	_, err := c.Exec(ctx, "DROP TABLE "+quoteName(database)+"."+quoteName(table))
	return err
}

// Name returns database.table.
func (t *Table) Name() string { return t.def.Database + "." + t.def.TableName }

// Columns returns the columns.
func (t *Table) Columns() []Column {
	out := make([]Column, len(t.def.Columns))
	for i, c := range t.def.Columns {
		out[i] = Column{Name: c.Name, Type: c.Type.String()}
	}
	return out
}

// KeyColumns returns the names of the row key's columns, in order; none for a
// keyless table.
func (t *Table) KeyColumns() []string {
	var out []string
	for _, c := range t.def.KeyColumns() {
		out = append(out, c.Name)
	}
	return out
}

// columns returns the definitions of the named columns; all when none is named.
func (t *Table) columns(names []string) (schema.Columns, error) {
	if len(names) == 0 {
		return t.def.Columns, nil
	}
	var out schema.Columns
	for _, n := range names {
		i := t.def.Columns.Index(n)
		if i < 0 {
			return nil, t.noColumn(n)
		}
		out = append(out, t.def.Columns[i])
	}
	return out, nil
}

func (t *Table) noColumn(name string) error {
	var all []string
	for _, c := range t.def.Columns {
		all = append(all, c.Name)
	}
	return &fault.Error{Class: fault.User, SQLState: fault.StateUnknownCol,
		Message: fmt.Sprintf("table %s has no column %q", t.Name(), name), Hint: nearest.Hint(name, all)}
}

func (t *Table) keyed(verb string) error {
	if t.def.Keyed() {
		return nil
	}
	return fault.Userf("%s: table %s has no row key: its rows can't be named; give it one with ROW KEY (...) when it is made", verb, t.Name())
}

// Put writes rows: a new one, or other values for the given columns of the row
// with this key. Each row has the key's columns. What was put is durable and
// visible when Put returns; rows of one region appear together.
func (t *Table) Put(ctx context.Context, rows ...Row) error {
	if err := t.keyed("put"); err != nil {
		return err
	}
	// Rows that give the same columns go together, each batch in key order of
	// none: later rows of a key must win, so the order among them is kept.
	for start := 0; start < len(rows); {
		names := slices.Sorted(keysOf(rows[start]))
		end := start + 1
		for end < len(rows) && end-start < batch.MaxRows && slices.Equal(names, slices.Sorted(keysOf(rows[end]))) {
			end++
		}
		if err := t.putAlike(ctx, names, rows[start:end]); err != nil {
			return fmt.Errorf("put into %s: %w", t.Name(), err)
		}
		start = end
	}
	return nil
}

func keysOf(r Row) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range r {
			if !yield(k) {
				return
			}
		}
	}
}

func (t *Table) putAlike(ctx context.Context, names []string, rows []Row) error {
	columns, err := t.columns(names)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fault.Userf("a row has no columns")
	}
	for _, k := range t.def.KeyColumns() {
		if columns.ByID(k.ID) < 0 {
			return fault.Userf("the row has no value for %s, a column of the row key", k.Name)
		}
	}
	b := &batch.Batch{Len: len(rows), Columns: make([]arrow.Array, len(columns))}
	for c, name := range names {
		values := make([]schema.Datum, len(rows))
		for i, r := range rows {
			d, err := datumOf(columns[c].Type, r[name])
			if err != nil {
				return fmt.Errorf("row %d, column %s: %w", i+1, columns[c].Name, err)
			}
			if d.Null && columns[c].NotNull {
				return fault.Userf("row %d, column %s: NULL in a NOT NULL column", i+1, columns[c].Name)
			}
			values[i] = d
		}
		b.Columns[c] = schema.ArrayOf(columns[c].Type, values)
	}
	return t.client.engine.Store().Put(ctx, &t.def.Table, columns, b)
}

// encode returns the encoded row key of the values, or of the first few.
func (t *Table) encode(key Key, whole bool) (storage.Key, error) {
	columns := t.def.KeyColumns()
	if len(key) > len(columns) || whole && len(key) < len(columns) || len(key) == 0 {
		return nil, fault.Userf("the row key of %s is (%s): got %d values", t.Name(), strings.Join(t.KeyColumns(), ", "), len(key))
	}
	values, types := make([]schema.Datum, len(key)), make([]rowkey.Column, len(key))
	for i, v := range key {
		d, err := datumOf(columns[i].Type, v)
		if err != nil {
			return nil, fmt.Errorf("row key column %s: %w", columns[i].Name, err)
		}
		values[i], types[i] = d, rowkey.Column{Type: columns[i].Type, Desc: t.def.Key[i].Desc}
	}
	return rowkey.NewEncoder(types).AppendDatums(nil, values)
}

// Get returns the row with this key, or nil when there is none; with the
// named columns, or all.
func (t *Table) Get(ctx context.Context, key Key, columns ...string) (Row, error) {
	rows, err := t.GetRows(ctx, key, columns...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for values, err := range rows.All(ctx) {
		if err != nil {
			return nil, err
		}
		row := Row{}
		for i, f := range rows.fields {
			row[f.Name] = values[i]
		}
		return row, nil
	}
	return nil, nil
}

// GetRows is Get as rows: one, or none.
func (t *Table) GetRows(ctx context.Context, key Key, columns ...string) (*Rows, error) {
	if err := t.keyed("get"); err != nil {
		return nil, err
	}
	encoded, err := t.encode(key, true)
	if err != nil {
		return nil, err
	}
	wanted, err := t.columns(columns)
	if err != nil {
		return nil, err
	}
	pin, err := t.client.engine.Catalog().Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer pin.Release()
	b, err := t.client.engine.Store().Get(ctx, &t.def.Table, []storage.Key{encoded}, pin.At(), wanted)
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", t.Name(), err)
	}
	rows := &Rows{close: func() error { return nil }, next: func(context.Context) (*Batch, error) {
		if b == nil || b.Rows() == 0 {
			return nil, io.EOF
		}
		out := b
		b = nil
		return out, nil
	}}
	for _, c := range wanted {
		rows.fields = append(rows.fields, schema.Field{Name: c.Name, Type: c.Type})
	}
	return rows, nil
}

// Delete deletes the rows with these keys; keys that aren't there are fine.
func (t *Table) Delete(ctx context.Context, keys ...Key) error {
	if err := t.keyed("delete"); err != nil {
		return err
	}
	encoded := make([]storage.Key, len(keys))
	for i, k := range keys {
		var err error
		if encoded[i], err = t.encode(k, true); err != nil {
			return err
		}
	}
	if err := t.client.engine.Store().Delete(ctx, &t.def.Table, encoded); err != nil {
		return fmt.Errorf("delete from %s: %w", t.Name(), err)
	}
	return nil
}

// ScanOptions say which rows.
type ScanOptions struct {
	Columns []string // none: all
	// Start and End bound the rows: from Start on, before End. Either may be
	// nil, or have the first few of the key's columns.
	Start, End Key
	Limit      int64 // 0: no limit
	// Where is a HiveQL expression that must be true of a row; "": no filter.
	Where string
}

// Scan returns rows in the order of their keys, of one snapshot. They must be
// closed.
func (t *Table) Scan(ctx context.Context, o ScanOptions) (*Rows, error) {
	columns, err := t.columns(o.Columns)
	if err != nil {
		return nil, err
	}
	if o.Start != nil || o.End != nil {
		if err := t.keyed("scan with a start or an end"); err != nil {
			return nil, err
		}
	}
	if o.Where != "" {
		return t.scanWhere(ctx, columns, o)
	}
	var r storage.KeyRange
	if o.Start != nil {
		if r.Start, err = t.encode(o.Start, false); err != nil {
			return nil, fmt.Errorf("start: %w", err)
		}
	}
	if o.End != nil {
		if r.End, err = t.encode(o.End, false); err != nil {
			return nil, fmt.Errorf("end: %w", err)
		}
	}
	pin, err := t.client.engine.Catalog().Pin(ctx)
	if err != nil {
		return nil, err
	}
	scan, err := t.client.engine.Store().Scan(ctx, &t.def.Table,
		storage.Scan{Range: r, At: pin.At(), Columns: columns, Limit: o.Limit, Ordered: true})
	if err != nil {
		pin.Release()
		return nil, fmt.Errorf("scan %s: %w", t.Name(), err)
	}
	closed := false
	rows := &Rows{fields: scan.Fields(), close: func() error {
		if closed {
			return nil
		}
		closed = true
		pin.Release()
		return scan.Close()
	}}
	left := o.Limit
	rows.next = func(ctx context.Context) (*Batch, error) {
		if o.Limit > 0 && left <= 0 {
			return nil, io.EOF
		}
		b, err := scan.Next(ctx)
		if err != nil || o.Limit == 0 {
			return b, err
		}
		b = firstRows(b, left)
		left -= int64(b.Rows())
		return b, nil
	}
	return rows, nil
}

// firstRows returns the first n rows of b.
func firstRows(b *batch.Batch, n int64) *batch.Batch {
	if int64(b.Rows()) <= n {
		return b
	}
	if b.Sel != nil {
		return &batch.Batch{Columns: b.Columns, Len: b.Len, Sel: b.Sel[:n]}
	}
	sel := make([]int32, n)
	for i := range sel {
		sel[i] = int32(i)
	}
	return &batch.Batch{Columns: b.Columns, Len: b.Len, Sel: sel}
}
