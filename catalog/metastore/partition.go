package metastore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// statePartition is the SQLSTATE that Hive gives for a partition that is not
// there, or there already.
const statePartition = "42000"

// partitionSet is what is known of a table's partitions.
type partitionSet struct {
	byID map[storage.PartitionID]*catalog.Partition
	// byValues has those that haven't ended, reserved ones (Begin = 0) included;
	// by valuesKey.
	byValues map[string]*catalog.Partition
	// sorted has all of them by their values; nil: to be sorted again.
	sorted []*catalog.Partition
	ended  int
}

func (p *partitionSet) set(part *catalog.Partition) {
	if old := p.byID[part.ID]; old != nil {
		if old.End == 0 {
			delete(p.byValues, valuesKey(old.Values))
		} else {
			p.ended--
		}
	}
	p.byID[part.ID] = part
	if part.End == 0 {
		p.byValues[valuesKey(part.Values)] = part
	} else {
		p.ended++
	}
	p.sorted = nil
}

func (p *partitionSet) drop(id storage.PartitionID) {
	old := p.byID[id]
	if old == nil {
		return
	}
	delete(p.byID, id)
	if old.End == 0 {
		delete(p.byValues, valuesKey(old.Values))
	} else {
		p.ended--
	}
	p.sorted = nil
}

// unique reports that no two partitions that are there have the same values.
func (p *partitionSet) unique(t *catalog.Table) error {
	live := 0
	for _, part := range p.byID {
		if part.End == 0 {
			live++
		}
	}
	if live != len(p.byValues) {
		return fault.Userf("table %s: with these types two partitions would have the same values", t.Name)
	}
	return nil
}

// at returns the partitions that are there at a snapshot.
func (p *partitionSet) at(at storage.Timestamp) []*catalog.Partition {
	if p.sorted == nil {
		p.sorted = slices.SortedFunc(maps.Values(p.byID), func(a, b *catalog.Partition) int { return compareValues(a.Values, b.Values) })
	}
	out := make([]*catalog.Partition, 0, len(p.sorted))
	for _, part := range p.sorted {
		if part.Begin != 0 && part.Begin <= at && (part.End == 0 || at < part.End) {
			out = append(out, part)
		}
	}
	return out
}

func compareValues(a, b []schema.Datum) int {
	for i := range a {
		switch {
		case a[i].Null && b[i].Null:
		case a[i].Null:
			return -1
		case b[i].Null:
			return 1
		default:
			if c := schema.Compare(a[i], b[i]); c != 0 {
				return c
			}
		}
	}
	return 0
}

// valuesKey is a text of values that differs for different ones.
func valuesKey(values []schema.Datum) string { return string(appendValues(nil, values)) }

// appendValues appends each value as uvarint length + 1 and text; 0 is NULL.
func appendValues(dst []byte, values []schema.Datum) []byte {
	for _, v := range values {
		if v.Null {
			dst = append(dst, 0)
			continue
		}
		text := v.AppendTo(nil)
		dst = binary.AppendUvarint(dst, uint64(len(text))+1)
		dst = append(dst, text...)
	}
	return dst
}

// partitionExtra is the rare rest of a partition's record.
type partitionExtra struct {
	Properties map[string]string `json:"properties,omitempty"`
	Location   string            `json:"location,omitempty"`
}

// encodePartition: see docs/format/catalog.md. It isn't JSON since a table may
// have very many partitions, and all are read to plan a query.
func encodePartition(p *catalog.Partition) ([]byte, error) {
	out := []byte{recordVersion}
	out = binary.AppendUvarint(out, uint64(p.Begin))
	out = binary.AppendUvarint(out, uint64(p.End))
	out = binary.AppendVarint(out, p.Created.UnixMilli())
	out = binary.AppendUvarint(out, uint64(len(p.Values)))
	out = appendValues(out, p.Values)
	if p.Location == "" && len(p.Properties) == 0 {
		return out, nil
	}
	text, err := json.Marshal(partitionExtra{p.Properties, p.Location})
	return append(out, text...), err
}

var errPartitionRecord = errors.New("its record is cut short")

// decodePartition reads a record; its values are read as the columns' types.
func decodePartition(id storage.PartitionID, value []byte, columns schema.Columns) (*catalog.Partition, error) {
	if len(value) == 0 || value[0] != recordVersion {
		return nil, fault.Userf("its record has another version than %d: use a newer skep", recordVersion)
	}
	value = value[1:]
	failed := false
	next := func() uint64 {
		v, n := binary.Uvarint(value)
		if n <= 0 {
			failed, value = true, nil
			return 0
		}
		value = value[n:]
		return v
	}
	p := &catalog.Partition{ID: id, Begin: storage.Timestamp(next()), End: storage.Timestamp(next())}
	created, n := binary.Varint(value)
	if n <= 0 {
		return nil, errPartitionRecord
	}
	value = value[n:]
	p.Created = time.UnixMilli(created).UTC()
	count := next()
	if failed || count != uint64(len(columns)) {
		return nil, errPartitionRecord
	}
	p.Values = make([]schema.Datum, count)
	for i, c := range columns {
		length := next()
		if failed || length > uint64(len(value))+1 {
			return nil, errPartitionRecord
		}
		p.Values[i] = schema.NullOf(c.Type)
		if length == 0 {
			continue
		}
		text := value[:length-1]
		value = value[length-1:]
		d, ok := schema.ParseText(c.Type, text)
		if !ok {
			return nil, fault.Userf("its value %q of column %s is no %s", text, c.Name, c.Type)
		}
		p.Values[i] = d
	}
	if len(value) > 0 {
		var extra partitionExtra
		if err := json.Unmarshal(value, &extra); err != nil {
			return nil, err
		}
		p.Properties, p.Location = extra.Properties, extra.Location
	}
	return p, nil
}

// partitionsOf reads a table's partitions once; mu is held for writing.
func (s *Store) partitionsOf(t *catalog.Table) (*partitionSet, error) {
	if set, ok := s.partitions[t.ID]; ok {
		return set, nil
	}
	set, err := s.readPartitions(t.ID, t.PartitionColumns)
	if err == nil {
		s.partitions[t.ID] = set
	}
	return set, err
}

func (s *Store) readPartitions(table storage.TableID, columns schema.Columns) (*partitionSet, error) {
	set := &partitionSet{byID: map[storage.PartitionID]*catalog.Partition{}, byValues: map[string]*catalog.Partition{}}
	err := s.each(partitionPrefix(table), func(key, value []byte) error {
		if len(key) != 4 {
			return fault.Bugf("catalogue: a partition of table %d has key %x", table, key)
		}
		id := storage.PartitionID(binary.BigEndian.Uint32(key))
		p, err := decodePartition(id, value, columns)
		if err != nil {
			return fmt.Errorf("partition %d of table %d: %w", id, table, err)
		}
		set.set(p)
		return nil
	})
	return set, err
}

// partitioned returns a table that has partitions.
func (s *Store) partitioned(id storage.TableID) (*catalog.Table, *partitionSet, error) {
	t, err := s.tableByID(id)
	if err != nil {
		return nil, nil, err
	}
	if len(t.PartitionColumns) == 0 {
		return nil, nil, &fault.Error{Class: fault.User, SQLState: statePartition, Message: "table " + t.Name + " is not partitioned"}
	}
	set, err := s.partitionsOf(t)
	return t, set, err
}

// Partitions implements catalog.Store.
func (s *Store) Partitions(ctx context.Context, table storage.TableID, at storage.Timestamp) ([]*catalog.Partition, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	_, set, err := s.partitioned(table)
	if err != nil {
		return nil, err
	}
	return set.at(at), nil
}

// setPartition adds a partition's record to a batch.
func setPartition(b *pebble.Batch, table storage.TableID, p *catalog.Partition) error {
	value, err := encodePartition(p)
	if err != nil {
		return fmt.Errorf("write partition %d of table %d: %w", p.ID, table, err)
	}
	return b.Set(partitionKey(table, p.ID), value, nil)
}

func (s *Store) newPartitionID() (storage.PartitionID, error) {
	id, err := s.ids.take()
	if err != nil {
		return 0, err
	}
	if id > math.MaxUint32 {
		return 0, fault.Userf("the catalogue has given out its last partition id")
	}
	return storage.PartitionID(id), nil
}

func checkValues(t *catalog.Table, values []schema.Datum) error {
	if len(values) != len(t.PartitionColumns) {
		return fault.Bugf("table %s: %d values for %d partition columns", t.Name, len(values), len(t.PartitionColumns))
	}
	for i, c := range t.PartitionColumns {
		if !values[i].Type.Equal(c.Type) {
			return fault.Bugf("table %s: a %s for partition column %s of type %s", t.Name, values[i].Type, c.Name, c.Type)
		}
	}
	return nil
}

// PartitionIDs implements catalog.Store.
func (s *Store) PartitionIDs(ctx context.Context, txn storage.TxnID, table storage.TableID, values [][]schema.Datum) ([]storage.PartitionID, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	t, set, err := s.partitioned(table)
	if err != nil {
		return nil, err
	}
	if err := s.checkOpen(txn); err != nil {
		return nil, err
	}
	b := s.db.NewBatch()
	var fresh []*catalog.Partition
	made := map[string]*catalog.Partition{}
	out := make([]storage.PartitionID, len(values))
	for i, v := range values {
		if err := checkValues(t, v); err != nil {
			return nil, err
		}
		key := valuesKey(v)
		p := set.byValues[key]
		if p == nil {
			p = made[key]
		}
		if p == nil {
			id, err := s.newPartitionID()
			if err != nil {
				return nil, err
			}
			p = &catalog.Partition{ID: id, Values: slices.Clone(v), Created: s.clock.now().UTC()}
			if err := setPartition(b, table, p); err != nil {
				return nil, err
			}
			made[key] = p
			fresh = append(fresh, p)
		}
		out[i] = p.ID
		if err := b.Set(writesKey(txn, table, p.ID), append([]byte{writesRows}, key...), nil); err != nil {
			return nil, err
		}
	}
	if err := s.apply(b); err != nil {
		return nil, err
	}
	for _, p := range fresh {
		set.set(p)
	}
	return out, nil
}

func (s *Store) checkOpen(txn storage.TxnID) error {
	r, known, err := s.txn(txn)
	switch {
	case err != nil:
		return err
	case !known || r.State != stateUndecided:
		return fault.Retryablef("transaction %d has ended", txn)
	}
	return nil
}

// DropPartitions implements catalog.Store.
func (s *Store) DropPartitions(ctx context.Context, txn storage.TxnID, table storage.TableID, ids []storage.PartitionID) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	t, set, err := s.partitioned(table)
	if err != nil {
		return err
	}
	if err := s.checkOpen(txn); err != nil {
		return err
	}
	b := s.db.NewBatch()
	for _, id := range ids {
		p := set.byID[id]
		if p == nil || p.End != 0 || p.Begin == 0 {
			return fault.Retryablef("table %s: a partition that is to be dropped is gone", t.Name)
		}
		if err := b.Set(writesKey(txn, table, id), append([]byte{writesEnd}, valuesKey(p.Values)...), nil); err != nil {
			return err
		}
	}
	return s.apply(b)
}

// AddPartitions implements catalog.Store.
func (s *Store) AddPartitions(ctx context.Context, table storage.TableID, parts []catalog.Partition, ifNotExists bool) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	t, set, err := s.partitioned(table)
	if err != nil {
		return err
	}
	b := s.db.NewBatch()
	s.clock.mu.Lock()
	at, err := s.clock.take()
	s.clock.mu.Unlock()
	if err != nil {
		return err
	}
	var changed []*catalog.Partition
	seen := map[string]bool{}
	for _, p := range parts {
		if err := checkValues(t, p.Values); err != nil {
			return err
		}
		key := valuesKey(p.Values)
		old := set.byValues[key]
		if seen[key] || old != nil && old.Begin != 0 {
			if ifNotExists {
				continue
			}
			return &fault.Error{Class: fault.User, SQLState: statePartition, Message: "partition " + t.PartitionName(p.Values) + " of table " + t.Name + " exists already"}
		}
		seen[key] = true
		p.Values, p.Properties = slices.Clone(p.Values), maps.Clone(p.Properties)
		p.Begin, p.End, p.Created = at, 0, s.clock.now().UTC()
		if old != nil { // reserved by a transaction that is still open: they share the id
			p.ID = old.ID
		} else if p.ID, err = s.newPartitionID(); err != nil {
			return err
		}
		if err := setPartition(b, table, &p); err != nil {
			return err
		}
		changed = append(changed, &p)
	}
	gone, err := s.sweep(b, table, set)
	if err != nil {
		return err
	}
	if err := s.apply(b); err != nil {
		return err
	}
	set.install(changed, gone)
	return nil
}

func (p *partitionSet) install(changed []*catalog.Partition, gone []storage.PartitionID) {
	for _, c := range changed {
		p.set(c)
	}
	for _, id := range gone {
		p.drop(id)
	}
}

// sweep forgets partitions that no snapshot sees any more.
func (s *Store) sweep(b *pebble.Batch, table storage.TableID, set *partitionSet) (gone []storage.PartitionID, err error) {
	if set.ended == 0 {
		return nil, nil
	}
	s.clock.mu.Lock()
	floor := s.clock.floor
	s.clock.mu.Unlock()
	for id, p := range set.byID {
		if p.End != 0 && p.End <= floor {
			gone = append(gone, id)
			err = errors.Join(err, b.Delete(partitionKey(table, id), nil))
		}
	}
	return gone, err
}

// AlterPartitions implements catalog.Store.
func (s *Store) AlterPartitions(ctx context.Context, table storage.TableID, parts []catalog.Partition) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	t, set, err := s.partitioned(table)
	if err != nil {
		return err
	}
	b := s.db.NewBatch()
	var changed []*catalog.Partition
	for _, p := range parts {
		if err := checkValues(t, p.Values); err != nil {
			return err
		}
		old := set.byID[p.ID]
		if old == nil || old.End != 0 || old.Begin == 0 {
			return fault.Retryablef("table %s: partition %s is gone", t.Name, t.PartitionName(p.Values))
		}
		if other := set.byValues[valuesKey(p.Values)]; other != nil && other.ID != p.ID {
			return &fault.Error{Class: fault.User, SQLState: statePartition, Message: "partition " + t.PartitionName(p.Values) + " of table " + t.Name + " exists already"}
		}
		p.Values, p.Properties = slices.Clone(p.Values), maps.Clone(p.Properties)
		p.Begin, p.End, p.Created = old.Begin, old.End, old.Created
		if err := setPartition(b, table, &p); err != nil {
			return err
		}
		changed = append(changed, &p)
	}
	if err := s.apply(b); err != nil {
		return err
	}
	set.install(changed, nil)
	return nil
}

// What a transaction does to a partition.
const (
	writesRows = 1
	writesEnd  = 2
)

// partitionWrite is what a transaction does to a partition of a table.
type partitionWrite struct {
	table  storage.TableID
	id     storage.PartitionID
	what   byte
	values string // valuesKey at the time
}

// writesOf returns what a transaction does to partitions.
func (s *Store) writesOf(txn storage.TxnID) ([]partitionWrite, error) {
	var out []partitionWrite
	err := s.each(writesPrefix(txn), func(key, value []byte) error {
		if len(key) != 12 || len(value) == 0 {
			return fault.Bugf("catalogue: transaction %d has a partition with key %x", txn, key)
		}
		out = append(out, partitionWrite{storage.TableID(binary.BigEndian.Uint64(key)), storage.PartitionID(binary.BigEndian.Uint32(key[8:])), value[0], string(value[1:])})
		return nil
	})
	return out, err
}

// checkWrites reports that the partitions a transaction wrote to are still
// what they were.
func (s *Store) checkWrites(writes []partitionWrite) error {
	for _, w := range writes {
		t, set, err := s.partitioned(w.table)
		if err != nil {
			return fault.Retryablef("a table that the transaction wrote to has changed: %w", err)
		}
		p := set.byID[w.id]
		if p == nil || p.End != 0 || valuesKey(p.Values) != w.values {
			return fault.Retryablef("a partition of %s was dropped or renamed while it was written: run the statement again", t.Name)
		}
	}
	return nil
}

// commitWrites adds to a batch what a commit at C does to partitions; installed
// is called when it is durable.
func (s *Store) commitWrites(b *pebble.Batch, txn storage.TxnID, writes []partitionWrite, at storage.Timestamp) (installed func(), err error) {
	changed := map[storage.TableID][]*catalog.Partition{}
	gone := map[storage.TableID][]storage.PartitionID{}
	for _, w := range writes {
		_, set, err := s.partitioned(w.table)
		if err != nil {
			return nil, err
		}
		p := *set.byID[w.id]
		switch {
		case w.what == writesEnd:
			p.End = at
		case p.Begin == 0:
			p.Begin = at
		default:
			continue
		}
		if err := setPartition(b, w.table, &p); err != nil {
			return nil, err
		}
		changed[w.table] = append(changed[w.table], &p)
		if gone[w.table] == nil {
			if gone[w.table], err = s.sweep(b, w.table, set); err != nil {
				return nil, err
			}
		}
	}
	if len(writes) > 0 {
		if err := b.DeleteRange(writesPrefix(txn), after(writesPrefix(txn)), nil); err != nil {
			return nil, err
		}
	}
	return func() {
		for table, parts := range changed {
			s.partitions[table].install(parts, gone[table])
		}
	}, nil
}

// abortWrites adds to a batch what an abort does: partitions that nobody else
// wants were never there.
func (s *Store) abortWrites(b *pebble.Batch, txn storage.TxnID) (installed func(), err error) {
	writes, err := s.writesOf(txn)
	if err != nil || len(writes) == 0 {
		return func() {}, err
	}
	type name struct {
		table storage.TableID
		id    storage.PartitionID
	}
	wanted := map[name]bool{}
	own := appendUint64(nil, uint64(txn))
	err = s.each(prefixWrites, func(key, _ []byte) error {
		if len(key) == 20 && string(key[:8]) != string(own) {
			wanted[name{storage.TableID(binary.BigEndian.Uint64(key[8:])), storage.PartitionID(binary.BigEndian.Uint32(key[16:]))}] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	gone := map[storage.TableID][]storage.PartitionID{}
	for _, w := range writes {
		_, set, err := s.partitioned(w.table)
		if err != nil {
			continue // the table was dropped
		}
		if p := set.byID[w.id]; p != nil && p.Begin == 0 && !wanted[name{w.table, w.id}] {
			gone[w.table] = append(gone[w.table], w.id)
			if err := b.Delete(partitionKey(w.table, w.id), nil); err != nil {
				return nil, err
			}
		}
	}
	if err := b.DeleteRange(writesPrefix(txn), after(writesPrefix(txn)), nil); err != nil {
		return nil, err
	}
	return func() {
		for table, ids := range gone {
			s.partitions[table].install(nil, ids)
		}
	}, nil
}
