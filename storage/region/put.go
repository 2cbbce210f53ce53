package region

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// rowLatches are striped by row key. A put of some columns holds its rows'
// exclusively from reading the rows until their new versions are applied; other
// writes hold them shared, since they need no row to stay as it is.
type rowLatches [256]sync.RWMutex

// lock locks the stripes of some keys, always in ascending order.
func (l *rowLatches) lock(keys []storage.Key, exclusive bool) (unlock func()) {
	var set [len(rowLatches{})]bool
	for _, k := range keys {
		set[xxhash.Sum64(k)%uint64(len(set))] = true
	}
	for i, in := range set {
		switch {
		case in && exclusive:
			l[i].Lock()
		case in:
			l[i].RLock()
		}
	}
	return func() {
		for i, in := range set {
			switch {
			case in && exclusive:
				l[i].Unlock()
			case in:
				l[i].RUnlock()
			}
		}
	}
}

// putRows is a checked put: its rows by key, one a key.
type putRows struct {
	table   *storage.Table
	from    []int // for each column of the table: its position in cols, or -1
	columns schema.Columns
	cols    []column
	keys    []storage.Key
	rows    []int32 // position in the batch of each key's row
	absent  schema.Columns
}

// Put implements storage.Server. Among rows with one key the last wins.
func (s *Server) Put(ctx context.Context, id storage.RegionID, columns schema.Columns, b *batch.Batch) (storage.Timestamp, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return 0, err
	}
	p, err := r.checkPut(columns, b)
	if err != nil {
		return 0, fmt.Errorf("put into %s: %w", r.table.Name, err)
	}
	ts, err := s.put(ctx, r, p)
	if err != nil {
		return 0, fmt.Errorf("put into %s: %w", r.table.Name, err)
	}
	s.wrote(r)
	return ts, nil
}

// checkPut checks what is put and brings it in key order.
func (r *region) checkPut(columns schema.Columns, b *batch.Batch) (*putRows, error) {
	t := r.table
	if !t.Keyed() {
		return nil, fault.Userf("the table has no row key, so rows can't be put by key; load or insert them")
	}
	ids, arrays, err := partitionIDs(t, b)
	if err != nil {
		return nil, err
	}
	if len(columns) != len(arrays) {
		return nil, fault.Bugf("%d columns are named, the batch has %d", len(columns), len(arrays))
	}
	p := &putRows{table: t, columns: columns, cols: make([]column, len(columns)), from: make([]int, len(t.Columns))}
	for i := range p.from {
		p.from[i] = -1
	}
	for i, c := range columns {
		at := t.Columns.ByID(c.ID)
		if at < 0 {
			return nil, fault.Userf("the table has no column %s (id %d)", c.Name, c.ID)
		}
		own := t.Columns[at]
		if p.from[at] >= 0 {
			return nil, fault.Userf("column %s is named twice", own.Name)
		}
		if err := checkArray(own, c.Type, arrays[i], b.Len); err != nil {
			return nil, err
		}
		p.from[at] = i
		p.cols[i] = openColumn(own.Type, arrays[i])
	}
	keyCols := ids
	for _, k := range r.keys {
		at := p.from[t.Columns.ByID(k.ID)]
		if at < 0 {
			return nil, fault.Userf("the row-key column %s is missing", k.Name)
		}
		keyCols = append(keyCols, arrays[at])
	}
	for i, c := range t.Columns {
		if p.from[i] < 0 {
			p.absent = append(p.absent, c)
		}
	}
	n := b.Rows()
	p.keys, p.rows = make([]storage.Key, n), make([]int32, n)
	bound, err := r.enc.Bind(keyCols)
	if err != nil {
		return nil, err
	}
	var data []byte
	for i := range n {
		row := int32(i)
		if b.Sel != nil {
			row = b.Sel[i]
		}
		start := len(data)
		data = bound.Append(data, int(row))
		// data may move as it grows; earlier keys then keep the old memory.
		p.keys[i], p.rows[i] = data[start:len(data):len(data)], row
		if !r.rng.Contains(p.keys[i]) {
			return nil, storage.RegionGone(r.id)
		}
		for ci := range t.Columns {
			if at := p.from[ci]; at >= 0 && t.Columns[ci].NotNull && p.cols[at].isNull(int(row)) {
				return nil, fault.Userf("row %d: column %s is NOT NULL", i+1, t.Columns[ci].Name)
			}
		}
	}
	p.sort()
	return p, nil
}

// checkArray checks that an array can be a column's values.
func checkArray(c schema.Column, t schema.Type, a arrow.Array, n int) error {
	if !c.Type.IsPrimitive() && !c.Type.IsNested() {
		return fault.Unsupportedf("values of type %s (column %s)", c.Type, c.Name)
	}
	if !t.Equal(c.Type) {
		return fault.Userf("column %s is %s, the values are %s", c.Name, c.Type, t)
	}
	coded := c.Type.IsText() && batch.IsDictionary(a)
	if !coded && !arrow.TypeEqual(a.DataType(), c.Type.Arrow()) {
		return fault.Bugf("column %s is %s, its array %s", c.Name, c.Type, a.DataType())
	}
	if a.Len() != n {
		return fault.Bugf("column %s has %d values, the batch %d", c.Name, a.Len(), n)
	}
	return nil
}

// partitionIDs takes the column of partition ids, if the table has them, off a
// batch's columns. There must be one for each row, and none may be 0.
func partitionIDs(t *storage.Table, b *batch.Batch) (ids, rest []arrow.Array, err error) {
	if !t.Partitioned {
		return nil, b.Columns, nil
	}
	if len(b.Columns) == 0 || b.Columns[0].DataType().ID() != arrow.INT32 || b.Columns[0].Len() != b.Len || b.Columns[0].NullN() > 0 {
		return nil, nil, fault.Bugf("table %s is partitioned, but the batch doesn't begin with a column of partition ids", t.Name)
	}
	for i, id := range batch.Values[int32](b.Columns[0]) {
		if id == 0 && (b.Sel == nil || slices.Contains(b.Sel, int32(i))) {
			return nil, nil, fault.Bugf("row %d of table %s has no partition id", i, t.Name)
		}
	}
	return b.Columns[:1:1], b.Columns[1:], nil
}

// sort orders rows by key and keeps the last of each key.
func (p *putRows) sort() {
	order := make([]int32, len(p.keys))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return bytes.Compare(p.keys[a], p.keys[b]) })
	keys, rows := make([]storage.Key, 0, len(order)), make([]int32, 0, len(order))
	for _, i := range order {
		if n := len(keys); n > 0 && bytes.Equal(keys[n-1], p.keys[i]) {
			rows[n-1] = p.rows[i]
			continue
		}
		keys, rows = append(keys, p.keys[i]), append(rows, p.rows[i])
	}
	p.keys, p.rows = keys, rows
}

// put writes checked rows.
func (s *Server) put(ctx context.Context, r *region, p *putRows) (storage.Timestamp, error) {
	for {
		if len(p.absent) > 0 {
			// What is decided must be seen by the read below; edits can't be
			// made once the latch is held.
			if err := s.settle(ctx, r, storage.MaxTimestamp); err != nil {
				return 0, err
			}
		}
		ts, again, err := s.tryPut(ctx, r, p)
		if err != nil || !again {
			return ts, err
		}
	}
}

// tryPut asks for another try when a transaction committed below the put's
// timestamp while its outcome wasn't applied yet.
func (s *Server) tryPut(ctx context.Context, r *region, p *putRows) (ts storage.Timestamp, again bool, err error) {
	r.latch.RLock()
	defer r.latch.RUnlock()
	partial := len(p.absent) > 0
	defer r.rows.lock(p.keys, partial)()
	ts, err = s.begin(ctx, r)
	if err != nil {
		return 0, false, err
	}
	old := &oldRows{}
	if partial {
		unsettled, err := s.unsettled(ctx, r, ts)
		if err != nil || unsettled {
			return 0, unsettled, err
		}
		if old, err = r.oldRows(ctx, p, ts); err != nil {
			return 0, false, err
		}
	}
	gen, err := r.liveGeneration()
	if err != nil {
		return 0, false, err
	}
	b, err := r.st.newBatch()
	if err != nil {
		return 0, false, err
	}
	var key, value []byte
	for i, k := range p.keys {
		key = appendDeltaKey(key[:0], gen, k, ts)
		value = p.appendRow(value[:0], i, old)
		if err == nil {
			err = b.Set(key, value, nil)
		}
	}
	return ts, false, r.write(b, len(p.keys), err)
}

// begin takes a write's timestamp, with the latch held.
func (s *Server) begin(ctx context.Context, r *region) (storage.Timestamp, error) {
	if r.gone {
		return 0, storage.RegionGone(r.id)
	}
	ts, err := s.o.Authority.Timestamp(ctx)
	if err != nil {
		return 0, fmt.Errorf("timestamp: %w", err)
	}
	return ts, nil
}

// liveGeneration returns where writes go, with the latch held: a rotation
// takes the latch exclusively.
func (r *region) liveGeneration() (uint64, error) {
	m, err := r.current()
	if err != nil {
		return 0, err
	}
	return m.live().id, nil
}

// write applies a batch of delta rows and counts them.
func (r *region) write(b *pebble.Batch, rows int, err error) error {
	if err != nil {
		return errors.Join(err, b.Close())
	}
	size := b.Len()
	if err := r.st.apply(b); err != nil {
		return err
	}
	r.deltaRows.Add(int64(rows))
	r.deltaBytes.Add(int64(size))
	return nil
}

// oldRows has the current values of the columns that a put doesn't give.
type oldRows struct {
	cols []column // as putRows.absent
	at   []int    // for each key of the put: its row, or -1
}

// oldRows reads them. The rows' latches are held, so nobody changes them.
func (r *region) oldRows(ctx context.Context, p *putRows, ts storage.Timestamp) (*oldRows, error) {
	v, err := r.view(ts)
	if err != nil {
		return nil, err
	}
	found, err := v.get(ctx, p.keys, p.absent)
	if closeErr := v.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	old := &oldRows{cols: make([]column, len(p.absent)), at: make([]int, len(p.keys))}
	for i, c := range p.absent {
		if found.Len > 0 {
			old.cols[i] = openColumn(c.Type, found.Columns[i])
		}
	}
	next := 0
	for i, k := range p.keys {
		old.at[i] = -1
		if next < found.Len && bytes.Equal(found.Keys.At(next), k) {
			old.at[i] = next
			next++
		}
	}
	for i, c := range p.absent {
		for k, at := range old.at {
			if c.NotNull && (at < 0 || old.cols[i].isNull(at)) {
				return nil, fault.Userf("column %s is NOT NULL and isn't given for the new row with key %s", c.Name, r.keyText(p.keys[k]))
			}
		}
	}
	return old, nil
}

// keyText renders a key's values for messages.
func (r *region) keyText(k storage.Key) string {
	values, err := r.enc.Decode(k)
	if err != nil {
		return fmt.Sprintf("%x", []byte(k))
	}
	var out []byte
	for i, v := range values {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, v.String()...)
	}
	return "(" + string(out) + ")"
}

// appendRow appends the record of row i: what is put, over what was there.
func (p *putRows) appendRow(dst []byte, i int, old *oldRows) []byte {
	dst = append(dst, rowVersion, 0)
	dst = binary.AppendUvarint(dst, uint64(len(p.table.Columns)))
	absent := 0
	for ci := range p.table.Columns {
		c := &p.table.Columns[ci]
		dst = binary.AppendUvarint(dst, uint64(c.ID))
		switch at := p.from[ci]; {
		case at >= 0:
			dst = p.cols[at].appendValue(dst, c.Type, int(p.rows[i]))
		case old.at[i] >= 0:
			dst = old.cols[absent].appendValue(dst, c.Type, old.at[i])
			absent++
		default:
			dst = append(dst, byte(schema.Void))
			absent++
		}
	}
	return dst
}

// Delete implements storage.Server.
func (s *Server) Delete(ctx context.Context, id storage.RegionID, keys []storage.Key) (storage.Timestamp, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return 0, err
	}
	ts, err := s.delete(ctx, r, keys)
	if err != nil {
		return 0, fmt.Errorf("delete from %s: %w", r.table.Name, err)
	}
	s.wrote(r)
	return ts, nil
}

func (s *Server) delete(ctx context.Context, r *region, keys []storage.Key) (storage.Timestamp, error) {
	if !r.table.Keyed() {
		return 0, fault.Userf("the table has no row key, so rows can't be deleted by key")
	}
	keys = sortKeys(keys)
	values := make([][]byte, len(keys))
	for i, k := range keys {
		if !r.rng.Contains(k) {
			return 0, storage.RegionGone(r.id)
		}
		key, err := r.enc.Decode(k)
		if err != nil {
			return 0, fmt.Errorf("key %x: %w", []byte(k), err)
		}
		values[i] = appendTombstone(nil, r.keys, key[len(key)-len(r.keys):]) // without a partition id
	}
	r.latch.RLock()
	defer r.latch.RUnlock()
	defer r.rows.lock(keys, false)()
	ts, err := s.begin(ctx, r)
	if err != nil {
		return 0, err
	}
	gen, err := r.liveGeneration()
	if err != nil {
		return 0, err
	}
	b, err := r.st.newBatch()
	if err != nil {
		return 0, err
	}
	for i, k := range keys {
		if err == nil {
			err = b.Set(appendDeltaKey(nil, gen, k, ts), values[i], nil)
		}
	}
	return ts, r.write(b, len(keys), err)
}

// sortKeys returns the keys in order, each once.
func sortKeys(keys []storage.Key) []storage.Key {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b storage.Key) int { return bytes.Compare(a, b) })
	return slices.CompactFunc(keys, func(a, b storage.Key) bool { return bytes.Equal(a, b) })
}

// Get implements storage.Server.
func (s *Server) Get(ctx context.Context, id storage.RegionID, keys []storage.Key, at storage.Timestamp, columns schema.Columns) (*batch.Batch, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	r, err := s.region(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := s.get(ctx, r, keys, at, columns)
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", r.table.Name, err)
	}
	return &c.Batch, nil
}

func (s *Server) get(ctx context.Context, r *region, keys []storage.Key, at storage.Timestamp, columns schema.Columns) (*segment.Chunk, error) {
	if !r.table.Keyed() {
		return nil, fault.Userf("the table has no row key, so rows can't be read by key")
	}
	if len(keys) > batch.MaxRows {
		return nil, fault.Bugf("%d keys, at most %d are answered with one batch", len(keys), batch.MaxRows)
	}
	keys = sortKeys(keys)
	for _, k := range keys {
		if !r.rng.Contains(k) {
			return nil, storage.RegionGone(r.id)
		}
	}
	v, err := s.read(ctx, r, at)
	if err != nil {
		return nil, err
	}
	c, err := v.get(ctx, keys, columns)
	if closeErr := v.close(); err == nil {
		err = closeErr
	}
	return c, err
}
