package metastore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Tables implements catalog.Store.
func (s *Store) Tables(ctx context.Context, database string) ([]*catalog.Table, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	database = strings.ToLower(database)
	if _, err := s.database(database); err != nil {
		return nil, err
	}
	var ids []storage.TableID
	prefix := nameKey(database, "")
	err := s.each(prefix, func(_, value []byte) error {
		id, ok := decodeUint64(value)
		if !ok {
			return fault.Bugf("catalogue: a name of database %s has no table id", database)
		}
		ids = append(ids, storage.TableID(id))
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]*catalog.Table, len(ids))
	for i, id := range ids {
		if out[i], err = s.tableByID(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Store) tableNames(database string) ([]string, error) {
	var names []string
	err := s.each(nameKey(database, ""), func(key, _ []byte) error {
		names = append(names, string(key))
		return nil
	})
	return names, err
}

// Table implements catalog.Store.
func (s *Store) Table(ctx context.Context, database, name string) (*catalog.Table, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	database, name = strings.ToLower(database), strings.ToLower(name)
	value, err := s.read(nameKey(database, name))
	if err != nil {
		return nil, err
	}
	if value == nil {
		if _, err := s.database(database); err != nil {
			return nil, err
		}
		names, err := s.tableNames(database)
		if err != nil {
			return nil, err
		}
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnknownTable,
			Message: "table " + database + "." + name + " does not exist", Hint: nearest.Hint(name, names)}
	}
	id, ok := decodeUint64(value)
	if !ok {
		return nil, fault.Bugf("catalogue: table %s.%s has no id", database, name)
	}
	return s.tableByID(storage.TableID(id))
}

// TableByID implements catalog.Store.
func (s *Store) TableByID(ctx context.Context, id storage.TableID) (*catalog.Table, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.tableByID(id)
}

// tableByID reads a table once; mu is held for writing.
func (s *Store) tableByID(id storage.TableID) (*catalog.Table, error) {
	if t, ok := s.tables[id]; ok {
		return t, nil
	}
	value, err := s.read(tableKey(id))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnknownTable, Message: fault.Userf("table %d does not exist (any more)", id).Error()}
	}
	var r tableRecord
	if err := parseRecord(tableKey(id), value, &r); err != nil {
		return nil, err
	}
	t, err := r.table(id)
	if err != nil {
		return nil, fault.Bugf("catalogue: table %d: %w", id, err)
	}
	s.tables[id] = t
	return t, nil
}

// CreateTable implements catalog.Store. Columns are numbered from 1 in their
// order, and t.Key names them by those numbers.
func (s *Store) CreateTable(ctx context.Context, t catalog.Table, place func(*catalog.Table) ([]storage.Region, error)) (*catalog.Table, error) {
	t.Database, t.TableName = strings.ToLower(t.Database), strings.ToLower(t.TableName)
	if t.Database == "" {
		t.Database = catalog.DefaultDatabase
	}
	if err := prepareTable(&t); err != nil {
		return nil, err
	}
	if !t.Temporary {
		if err := s.checkFree(ctx, t.Database, t.TableName); err != nil {
			return nil, err
		}
	}
	id, err := s.ids.take()
	if err != nil {
		return nil, err
	}
	t.ID, t.Name, t.Version = storage.TableID(id), t.Database+"."+t.TableName, 1
	if t.Created.IsZero() {
		t.Created = s.clock.now()
	}
	t.Created = t.Created.UTC()
	// place may take long (it makes the regions): not under the lock.
	var regions []storage.Region
	if place != nil {
		if regions, err = place(&t); err != nil {
			return nil, err
		}
		if err := checkRegions(t.ID, regions); err != nil {
			return nil, fault.Bugf("create table %s: %w", t.Name, err)
		}
	}

	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	name := temporaryKey(t.ID)
	if !t.Temporary {
		if err := s.free(t.Database, t.TableName); err != nil {
			return nil, err
		}
		name = nameKey(t.Database, t.TableName)
	}
	b := s.db.NewBatch()
	err = errors.Join(
		setRecord(b, tableKey(t.ID), recordOfTable(&t)),
		b.Set(name, appendUint64(nil, id), nil))
	for _, r := range regions {
		err = errors.Join(err, setRecord(b, regionKey(t.ID, r.ID), recordOfRegion(r)))
	}
	if err != nil {
		return nil, err
	}
	if err := s.apply(b); err != nil {
		return nil, err
	}
	s.tables[t.ID] = &t
	s.regions[t.ID] = sortRegions(regions)
	return &t, nil
}

// prepareTable checks a definition and numbers its columns.
func prepareTable(t *catalog.Table) error {
	for i := range t.Columns {
		if c := t.Columns[i]; c.ID != 0 && c.ID != schema.ColumnID(i+1) {
			return fault.Bugf("table %s: column %s has number %d, its position is %d", t.TableName, c.Name, c.ID, i+1)
		}
	}
	if len(t.Columns) == 0 {
		return fault.Userf("table %s: it has no columns", t.TableName)
	}
	t.NextColumnID = 1
	t.PartitionColumns = slices.Clone(t.PartitionColumns)
	t.Columns = slices.Clone(t.Columns)
	for i := range t.PartitionColumns {
		t.PartitionColumns[i].ID = 0
	}
	for i := range t.Columns {
		t.Columns[i].ID = 0
	}
	return completeTable(t)
}

// completeTable checks a definition and numbers the columns without id.
func completeTable(t *catalog.Table) error {
	if err := checkName("table", t.TableName); err != nil {
		return err
	}
	if len(t.Columns) == 0 {
		return fault.Userf("table %s: it has no columns", t.TableName)
	}
	t.Columns, t.PartitionColumns = slices.Clone(t.Columns), slices.Clone(t.PartitionColumns)
	t.Key, t.Properties = slices.Clone(t.Key), maps.Clone(t.Properties)
	seen := make(map[string]bool, len(t.Columns))
	number := func(c *schema.Column) error {
		c.Name = strings.ToLower(c.Name)
		switch {
		case c.Name == "":
			return fault.Userf("table %s: a column has no name", t.TableName)
		case seen[c.Name]:
			return fault.Userf("table %s: there are two columns %s", t.TableName, c.Name)
		case c.ID == 0:
			c.ID = t.NextColumnID
			t.NextColumnID++
		case c.ID >= t.NextColumnID:
			return fault.Bugf("table %s: column %s has number %d, which was never given", t.TableName, c.Name, c.ID)
		}
		seen[c.Name] = true
		return nil
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if err := number(c); err != nil {
			return err
		}
		if !c.Type.Storable() && t.Kind != catalog.View {
			return fault.Unsupportedf("table %s, column %s: columns of type %s", t.TableName, c.Name, c.Type)
		}
	}
	for i := range t.PartitionColumns {
		c := &t.PartitionColumns[i]
		if err := number(c); err != nil {
			return err
		}
		if !c.Type.IsPrimitive() {
			return fault.Userf("table %s: partition column %s has type %s: it must be a primitive one", t.TableName, c.Name, c.Type)
		}
	}
	t.Partitioned = len(t.PartitionColumns) > 0 && t.Kind != catalog.View
	keys := map[schema.ColumnID]bool{}
	for _, k := range t.Key {
		i := t.Columns.ByID(k.Column)
		switch {
		case i < 0:
			return fault.Bugf("table %s: the row key names column %d of %d", t.TableName, k.Column, len(t.Columns))
		case keys[k.Column]:
			return fault.Userf("table %s: column %s is twice in the row key", t.TableName, t.Columns[i].Name)
		}
		keys[k.Column] = true
	}
	return nil
}

func (s *Store) checkFree(ctx context.Context, database, name string) error {
	if err := s.rlock(ctx); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	return s.free(database, name)
}

// free reports that a table can have this name.
func (s *Store) free(database, name string) error {
	if _, err := s.database(database); err != nil {
		return err
	}
	value, err := s.read(nameKey(database, name))
	if err != nil {
		return err
	}
	if value != nil {
		return &fault.Error{Class: fault.User, SQLState: fault.StateTableExists, Message: "table " + database + "." + name + " exists already"}
	}
	return nil
}

// DropTable implements catalog.Store.
func (s *Store) DropTable(ctx context.Context, id storage.TableID) ([]storage.Region, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	t, err := s.tableByID(id)
	if err != nil {
		return nil, err
	}
	regions, err := s.regionsOf(id)
	if err != nil {
		return nil, err
	}
	b := s.db.NewBatch()
	name := nameKey(t.Database, t.TableName)
	if t.Temporary {
		name = temporaryKey(id)
	}
	err = errors.Join(b.Delete(tableKey(id), nil), b.Delete(name, nil))
	if t.Partitioned {
		err = errors.Join(err, b.DeleteRange(partitionPrefix(id), after(partitionPrefix(id)), nil))
	}
	for _, r := range regions {
		rec := recordOfRegion(r)
		rec.Table = uint64(id)
		err = errors.Join(err, b.Delete(regionKey(id, r.ID), nil), setRecord(b, droppedKey(r.ID), rec))
	}
	if err != nil {
		return nil, err
	}
	if err := s.apply(b); err != nil {
		return nil, err
	}
	delete(s.tables, id)
	delete(s.regions, id)
	delete(s.partitions, id)
	return slices.Clone(regions), nil
}

// Dropped implements catalog.Store.
func (s *Store) Dropped(ctx context.Context) ([]storage.Region, error) {
	if err := s.rlock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	var out []storage.Region
	err := s.each(prefixDropped, func(key, value []byte) error {
		id, ok := decodeUint64(key)
		if !ok {
			return fault.Bugf("catalogue: a dropped region has key %x", key)
		}
		var r regionRecord
		if err := parseRecord(key, value, &r); err != nil {
			return err
		}
		out = append(out, r.region(storage.TableID(r.Table), storage.RegionID(id)))
		return nil
	})
	return out, err
}

// ForgetDropped implements catalog.Store.
func (s *Store) ForgetDropped(ctx context.Context, ids []storage.RegionID) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	b := s.db.NewBatch()
	for _, id := range ids {
		if err := b.Delete(droppedKey(id), nil); err != nil {
			return err
		}
	}
	return s.apply(b)
}
