package metastore

import (
	"context"
	"errors"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// AlterTable implements catalog.Store.
func (s *Store) AlterTable(ctx context.Context, t catalog.Table) (*catalog.Table, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	old, err := s.tableByID(t.ID)
	if err != nil {
		return nil, err
	}
	if t.Version != old.Version {
		return nil, fault.Retryablef("table %s was changed by somebody else meanwhile: run the statement again", old.Name)
	}
	t.Database, t.TableName = strings.ToLower(t.Database), strings.ToLower(t.TableName)
	t.Kind, t.Temporary, t.Created, t.NextColumnID = old.Kind, old.Temporary && t.Temporary, old.Created, old.NextColumnID
	if len(t.PartitionColumns) != len(old.PartitionColumns) && t.Kind != catalog.View {
		return nil, fault.Bugf("table %s: its partition columns can't be added or dropped", old.Name)
	}
	if err := completeTable(&t); err != nil {
		return nil, err
	}
	t.Name, t.Version, t.Modified = t.Database+"."+t.TableName, old.Version+1, s.clock.now().UTC()
	b := s.db.NewBatch()
	err = setRecord(b, tableKey(t.ID), recordOfTable(&t))
	if t.Name != old.Name && !t.Temporary || old.Temporary && !t.Temporary {
		if err := s.free(t.Database, t.TableName); err != nil {
			return nil, err
		}
		before := nameKey(old.Database, old.TableName)
		if old.Temporary {
			before = temporaryKey(old.ID)
		}
		err = errors.Join(err, b.Delete(before, nil),
			b.Set(nameKey(t.Database, t.TableName), appendUint64(nil, uint64(t.ID)), nil))
	}
	if err != nil {
		return nil, err
	}
	retyped := false
	for i, c := range t.PartitionColumns {
		if !t.Partitioned {
			break
		}
		retyped = retyped || !c.Type.Equal(old.PartitionColumns[i].Type)
	}
	if retyped {
		set, err := s.readPartitions(t.ID, t.PartitionColumns)
		if err != nil {
			return nil, err
		}
		if err := set.unique(&t); err != nil {
			return nil, err
		}
	}
	if err := s.apply(b); err != nil {
		return nil, err
	}
	if retyped {
		delete(s.partitions, t.ID)
	}
	s.tables[t.ID] = &t
	return &t, nil
}

// Temporaries implements catalog.Store.
func (s *Store) Temporaries(ctx context.Context) ([]*catalog.Table, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []*catalog.Table
	var ids []storage.TableID
	err := s.each(prefixTemporary, func(key, _ []byte) error {
		id, ok := decodeUint64(key)
		if !ok {
			return fault.Bugf("catalogue: a temporary table has key %x", key)
		}
		ids = append(ids, storage.TableID(id))
		return nil
	})
	for _, id := range ids {
		t, readErr := s.tableByID(id)
		if readErr != nil {
			return nil, errors.Join(err, readErr)
		}
		out = append(out, t)
	}
	return out, err
}
