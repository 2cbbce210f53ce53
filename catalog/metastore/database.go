package metastore

import (
	"context"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
)

// stateDatabase is the SQLSTATE that Hive gives for an unknown database.
const stateDatabase = "42000"

// Databases implements catalog.Store.
func (s *Store) Databases(ctx context.Context) ([]catalog.Database, error) {
	if err := s.rlock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	return s.databases()
}

func (s *Store) databases() ([]catalog.Database, error) {
	var out []catalog.Database
	err := s.each(prefixDatabase, func(key, value []byte) error {
		var r databaseRecord
		if err := parseRecord(key, value, &r); err != nil {
			return err
		}
		out = append(out, r.database(string(key)))
		return nil
	})
	return out, err
}

// Database implements catalog.Store.
func (s *Store) Database(ctx context.Context, name string) (catalog.Database, error) {
	if err := s.rlock(ctx); err != nil {
		return catalog.Database{}, err
	}
	defer s.mu.RUnlock()
	return s.database(strings.ToLower(name))
}

// database returns a database or an error that suggests a name.
func (s *Store) database(name string) (catalog.Database, error) {
	value, err := s.read(databaseKey(name))
	if err != nil {
		return catalog.Database{}, err
	}
	if value == nil {
		all, err := s.databases()
		if err != nil {
			return catalog.Database{}, err
		}
		names := make([]string, len(all))
		for i, d := range all {
			names[i] = d.Name
		}
		return catalog.Database{}, &fault.Error{Class: fault.User, SQLState: stateDatabase,
			Message: "database " + name + " does not exist", Hint: nearest.Hint(name, names)}
	}
	var r databaseRecord
	if err := parseRecord(databaseKey(name), value, &r); err != nil {
		return catalog.Database{}, err
	}
	return r.database(name), nil
}

// CreateDatabase implements catalog.Store.
func (s *Store) CreateDatabase(ctx context.Context, d catalog.Database) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	d.Name = strings.ToLower(d.Name)
	if err := checkName("database", d.Name); err != nil {
		return err
	}
	if value, err := s.read(databaseKey(d.Name)); err != nil {
		return err
	} else if value != nil {
		return &fault.Error{Class: fault.User, SQLState: stateDatabase, Message: "database " + d.Name + " exists already"}
	}
	if d.Created.IsZero() {
		d.Created = s.clock.now()
	}
	b := s.db.NewBatch()
	if err := setRecord(b, databaseKey(d.Name), recordOfDatabase(d)); err != nil {
		return err
	}
	return s.apply(b)
}

// AlterDatabase implements catalog.Store.
func (s *Store) AlterDatabase(ctx context.Context, d catalog.Database) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	old, err := s.database(strings.ToLower(d.Name))
	if err != nil {
		return err
	}
	d.Created = old.Created
	b := s.db.NewBatch()
	if err := setRecord(b, databaseKey(old.Name), recordOfDatabase(d)); err != nil {
		return err
	}
	return s.apply(b)
}

// DropDatabase implements catalog.Store.
func (s *Store) DropDatabase(ctx context.Context, name string) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	name = strings.ToLower(name)
	if _, err := s.database(name); err != nil {
		return err
	}
	if name == catalog.DefaultDatabase {
		return &fault.Error{Class: fault.User, SQLState: stateDatabase, Message: "database default can't be dropped"}
	}
	names, err := s.tableNames(name)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return &fault.Error{Class: fault.User, SQLState: stateDatabase,
			Message: "database " + name + " is not empty: it has table " + names[0], Hint: "drop its tables first"}
	}
	b := s.db.NewBatch()
	if err := b.Delete(databaseKey(name), nil); err != nil {
		return err
	}
	return s.apply(b)
}

const maxName = 128 // as Hive's metastore

// checkName refuses what can't be a name. Any other text is fine: SQL may quote it.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fault.Userf("the name of the %s is empty", what)
	case len(name) > maxName:
		return fault.Userf("the name of the %s is longer than %d bytes: %.40s...", what, maxName, name)
	case strings.ContainsAny(name, "\x00./"):
		return fault.Userf("the name of the %s has a dot, a slash or a zero byte: %q", what, name)
	}
	return nil
}
