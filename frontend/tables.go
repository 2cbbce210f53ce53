package frontend

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql"
)

// overlay is the catalogue as a session sees it: with its temporary tables,
// which hide others of their names.
type overlay struct {
	catalog.Store
	session *Session
}

// catalog returns the catalogue with the session's temporary tables.
func (s *Session) catalog() catalog.Store { return overlay{s.engine.Catalog(), s} }

// temporary returns a temporary table as it is now; nil: there is none.
func (s *Session) temporary(ctx context.Context, database, name string) (*catalog.Table, error) {
	for _, t := range s.temporaries {
		if t.Database == database && t.TableName == name {
			return s.engine.Catalog().TableByID(ctx, t.ID)
		}
	}
	return nil, nil
}

// Table implements catalog.Store.
func (o overlay) Table(ctx context.Context, database, name string) (*catalog.Table, error) {
	t, err := o.session.temporary(ctx, strings.ToLower(database), strings.ToLower(name))
	if t != nil || err != nil {
		return t, err
	}
	return o.Store.Table(ctx, database, name)
}

// Tables implements catalog.Store.
func (o overlay) Tables(ctx context.Context, database string) ([]*catalog.Table, error) {
	out, err := o.Store.Tables(ctx, database)
	if err != nil {
		return nil, err
	}
	for _, t := range o.session.temporaries {
		if t.Database != strings.ToLower(database) {
			continue
		}
		now, err := o.Store.TableByID(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		out = slices.DeleteFunc(slices.Clone(out), func(x *catalog.Table) bool { return x.TableName == t.TableName })
		out = append(out, now)
	}
	slices.SortFunc(out, func(a, b *catalog.Table) int { return strings.Compare(a.TableName, b.TableName) })
	return out, nil
}

func (s *Session) renameTemporary(t *catalog.Table) {
	for i := range s.temporaries {
		if s.temporaries[i].ID == t.ID {
			s.temporaries[i] = t
		}
	}
}

func (s *Session) dropTable(ctx context.Context, t *catalog.Table) error {
	if err := s.engine.DropTable(ctx, t); err != nil {
		return err
	}
	s.temporaries = slices.DeleteFunc(s.temporaries, func(x *catalog.Table) bool { return x.ID == t.ID })
	return nil
}

// Close drops the session's temporary tables.
func (s *Session) Close(ctx context.Context) error {
	var errs []error
	for _, t := range slices.Clone(s.temporaries) {
		errs = append(errs, s.dropTable(ctx, t))
	}
	return errors.Join(errs...)
}

// createTable makes a table or a view. One that is filled by a query is made under no
// name and gets its name once it is full: it is there with all its rows or not at all.
func (s *Session) createTable(ctx context.Context, o *Operation, c *sql.CreateTable, env *sql.Env) error {
	there, err := s.exists(ctx, &c.Table)
	switch {
	case err != nil:
		return err
	case c.Replace != nil:
		return s.replaceView(ctx, c)
	case there && c.IfNotExists:
		return nil
	case there:
		return &fault.Error{Class: fault.User, SQLState: fault.StateTableExists, Message: "table " + c.Table.Database + "." + c.Table.TableName + " exists already"}
	}
	if c.Fill == nil {
		t, err := s.engine.CreateTable(ctx, c.Table)
		if c.IfNotExists && fault.StateOf(err) == fault.StateTableExists {
			return nil // somebody else was faster
		}
		if err == nil && t.Temporary {
			s.temporaries = append(s.temporaries, t)
		}
		return err
	}
	hidden := c.Table
	hidden.Temporary = true
	t, err := s.engine.CreateTable(ctx, hidden)
	if err != nil {
		return err
	}
	if err = s.fill(ctx, o, c, env, t); err != nil {
		return errors.Join(err, s.engine.DropTable(context.WithoutCancel(ctx), t))
	}
	return nil
}

func (s *Session) fill(ctx context.Context, o *Operation, c *sql.CreateTable, env *sql.Env, t *catalog.Table) error {
	q, err := c.Fill(ctx, t)
	if err != nil {
		return err
	}
	if err := s.query(ctx, o, q, env, nil); err != nil {
		return err
	}
	if c.Table.Temporary {
		s.temporaries = append(s.temporaries, t)
		return nil
	}
	named := *t
	named.Temporary = false
	_, err = s.engine.Catalog().AlterTable(ctx, named)
	return err
}

// exists reports whether the session sees a table of this name; a new temporary
// one may hide one that is not.
func (s *Session) exists(ctx context.Context, t *catalog.Table) (bool, error) {
	old, err := s.catalog().Table(ctx, t.Database, t.TableName)
	switch {
	case err == nil:
		return !t.Temporary || old.Temporary, nil
	case fault.StateOf(err) == fault.StateUnknownTable:
		return false, nil
	}
	return false, err
}

func (s *Session) replaceView(ctx context.Context, c *sql.CreateTable) error {
	next := *c.Replace
	next.Columns, next.PartitionColumns = c.Table.Columns, c.Table.PartitionColumns
	next.ViewText, next.ViewDatabase = c.Table.ViewText, c.Table.ViewDatabase
	next.Comment, next.Properties = c.Table.Comment, c.Table.Properties
	_, err := s.engine.Catalog().AlterTable(ctx, next)
	return err
}

// transaction runs several jobs over one snapshot and publishes them in one step.
func (s *Session) transaction(ctx context.Context, o *Operation, c *sql.Transaction, env *sql.Env) error {
	var tables []*catalog.Table
	for _, q := range c.Queries {
		if q.Table != nil {
			tables = append(tables, q.Table)
		}
	}
	if c.Drop != nil {
		tables = append(tables, c.Drop.Table)
	}
	txn, err := s.engine.Begin(ctx, tables)
	if err != nil {
		return err
	}
	rows, err := s.parts(ctx, o, c, env, txn)
	if err == nil {
		err = txn.Commit(ctx)
	}
	if err != nil {
		return errors.Join(err, txn.Abort(context.WithoutCancel(ctx)))
	}
	o.affected = &rows
	return nil
}

func (s *Session) parts(ctx context.Context, o *Operation, c *sql.Transaction, env *sql.Env, txn Transaction) (rows int64, err error) {
	for i, q := range c.Queries {
		if err := txn.Join(q, i); err != nil {
			return 0, err
		}
		if err := s.query(ctx, o, q, env, nil); err != nil {
			return 0, err
		}
		if o.affected != nil {
			rows += *o.affected
		}
	}
	if c.Drop != nil {
		return rows, txn.Drop(ctx, c.Drop.Table, c.Drop.Partitions)
	}
	return rows, nil
}
