package region

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// deltaIter yields the delta rows of a key range, by key and, within a key,
// newest first, whichever generation they are in.
type deltaIter struct {
	gens []genIter
	cur  int // the generation of the current row, -1 before the first
}

// genIter is one generation's rows. key is a copy, valid until its next move.
type genIter struct {
	id  uint64
	it  *pebble.Iterator
	key storage.Key
	ts  storage.Timestamp
	ok  bool
}

// newDeltaIter opens an iterator over the rows of some generations in r.
func newDeltaIter(from pebble.Reader, gens []generation, r storage.KeyRange) (*deltaIter, error) {
	d := &deltaIter{cur: -1}
	for _, g := range gens {
		clip, ok := g.clip.Intersect(r)
		if !ok {
			continue
		}
		lower, upper := deltaBounds(g.id, clip)
		it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read delta: %w", err), d.close())
		}
		d.gens = append(d.gens, genIter{id: g.id, it: it})
	}
	return d, nil
}

func (g *genIter) load() error {
	if !g.ok {
		if err := g.it.Error(); err != nil {
			return fmt.Errorf("read delta: %w", err)
		}
		return nil
	}
	var err error
	g.key, g.ts, err = decodeDeltaKey(g.key[:0], g.it.Key())
	return err
}

// seek moves to the first row with a key at or above key; next then returns it.
func (d *deltaIter) seek(key storage.Key) error {
	d.cur = -1
	for i := range d.gens {
		g := &d.gens[i]
		g.ok = g.it.SeekGE(appendEscaped(deltaPrefix(g.id), key))
		if err := g.load(); err != nil {
			return err
		}
	}
	d.pick()
	return nil
}

func (d *deltaIter) first() error {
	d.cur = -1
	for i := range d.gens {
		g := &d.gens[i]
		g.ok = g.it.First()
		if err := g.load(); err != nil {
			return err
		}
	}
	d.pick()
	return nil
}

// next moves to the following row.
func (d *deltaIter) next() error {
	g := &d.gens[d.cur]
	g.ok = g.it.Next()
	if err := g.load(); err != nil {
		return err
	}
	d.pick()
	return nil
}

// pick finds the generation whose row comes first.
func (d *deltaIter) pick() {
	d.cur = -1
	for i := range d.gens {
		g := &d.gens[i]
		if !g.ok {
			continue
		}
		if d.cur >= 0 {
			b := &d.gens[d.cur]
			if c := bytes.Compare(g.key, b.key); c > 0 || (c == 0 && g.ts < b.ts) {
				continue
			}
		}
		d.cur = i
	}
}

func (d *deltaIter) valid() bool           { return d.cur >= 0 }
func (d *deltaIter) key() storage.Key      { return d.gens[d.cur].key }
func (d *deltaIter) ts() storage.Timestamp { return d.gens[d.cur].ts }
func (d *deltaIter) value() ([]byte, error) {
	v, err := d.gens[d.cur].it.ValueAndErr()
	if err != nil {
		return nil, fmt.Errorf("read delta: %w", err)
	}
	return v, nil
}

func (d *deltaIter) close() error {
	var errs []error
	for i := range d.gens {
		errs = append(errs, d.gens[i].it.Close())
	}
	d.gens, d.cur = nil, -1
	return errors.Join(errs...)
}

// deltaSource turns delta rows into chunks, as a segment's scanner does.
type deltaSource struct {
	it      *deltaIter
	columns schema.Columns
	at      storage.Timestamp // newer versions are left out
	rows    *rowBuilder
	started bool
}

func newDeltaSource(it *deltaIter, columns schema.Columns, at storage.Timestamp) *deltaSource {
	return &deltaSource{it: it, columns: columns, at: at, rows: newRowBuilder(columns)}
}

// Next returns the next rows, or io.EOF.
func (s *deltaSource) Next(ctx context.Context) (*segment.Chunk, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !s.started {
		s.started = true
		if err := s.it.first(); err != nil {
			return nil, err
		}
	}
	c := &segment.Chunk{}
	for s.it.valid() && s.rows.n < batch.MaxRows && s.rows.bytes < 4<<20 {
		if s.it.ts() <= s.at {
			if err := addDeltaRow(s.it, s.rows, c); err != nil {
				return nil, err
			}
		}
		if err := s.it.next(); err != nil {
			return nil, err
		}
	}
	if s.rows.n == 0 {
		return nil, io.EOF
	}
	s.rows.finish(c)
	return c, nil
}

func (s *deltaSource) Close() error { return s.it.close() }

// addDeltaRow adds the iterator's row to a builder and its key and version to c.
func addDeltaRow(it *deltaIter, rows *rowBuilder, c *segment.Chunk) error {
	v, err := it.value()
	if err != nil {
		return err
	}
	deleted, err := rows.add(v)
	if err != nil {
		return fmt.Errorf("key %x: %w", []byte(it.key()), err)
	}
	c.Keys.Append(it.key())
	c.Begin = append(c.Begin, it.ts())
	c.Deleted = append(c.Deleted, deleted)
	return nil
}

// rowBuilder collects delta rows into arrays.
type rowBuilder struct {
	columns schema.Columns
	cols    []columnBuilder
	n       int
	bytes   int
}

// columnBuilder is one column's values so far.
type columnBuilder struct {
	t       schema.Type
	valid   []byte
	nulls   int
	last    int // one more than the row that has a value; rows in between are NULL
	bits    []byte
	i8      []int8
	i16     []int16
	i32     []int32
	i64     []int64
	f32     []float32
	f64     []float64
	d128    []decimal128.Num
	offsets []int32
	data    []byte
	nested  []schema.Datum
}

func newRowBuilder(columns schema.Columns) *rowBuilder {
	b := &rowBuilder{columns: columns}
	b.reset()
	return b
}

func (b *rowBuilder) reset() {
	b.cols = make([]columnBuilder, len(b.columns))
	for i, c := range b.columns {
		b.cols[i].t = c.Type
	}
	b.n, b.bytes = 0, 0
}

// add adds a row from its record. Columns that the record lacks are NULL.
func (b *rowBuilder) add(record []byte) (deleted bool, err error) {
	r, err := openRow(record)
	if err != nil {
		return false, err
	}
	hint := 0
	for {
		v, ok, err := r.next()
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		// Records list columns in the table's order, mostly that of b.
		i := -1
		if hint < len(b.columns) && b.columns[hint].ID == v.column {
			i = hint
		} else if i = b.columns.ByID(v.column); i < 0 {
			continue
		}
		hint = i + 1
		if v.kind == schema.Void {
			continue
		}
		c := &b.cols[i]
		if v.kind != c.t.Kind || (v.kind == schema.Decimal && v.scale != c.t.Scale) {
			return false, fmt.Errorf("column %s is %s, the row has a %s", b.columns[i].Name, c.t, schema.Type{Kind: v.kind, Scale: v.scale, Precision: c.t.Precision})
		}
		c.pad(b.n)
		if c.last > b.n {
			return false, fmt.Errorf("column %s has two values", b.columns[i].Name)
		}
		if err := c.append(v.b); err != nil {
			return false, fmt.Errorf("column %s: %w", b.columns[i].Name, err)
		}
		b.bytes += len(v.b)
	}
	b.n++
	b.bytes += 16
	return r.deleted, nil
}

// pad adds NULLs until n rows are there.
func (c *columnBuilder) pad(n int) {
	for ; c.last < n; c.last++ {
		c.nulls++
		c.grow(false)
		switch c.t.Kind {
		case schema.TinyInt:
			c.i8 = append(c.i8, 0)
		case schema.SmallInt:
			c.i16 = append(c.i16, 0)
		case schema.Int, schema.Date:
			c.i32 = append(c.i32, 0)
		case schema.BigInt:
			c.i64 = append(c.i64, 0)
		case schema.Float:
			c.f32 = append(c.f32, 0)
		case schema.Double:
			c.f64 = append(c.f64, 0)
		case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
			c.d128 = append(c.d128, decimal128.Num{})
		case schema.String, schema.Char, schema.Varchar, schema.Binary:
			c.offsets = append(c.offsets, int32(len(c.data)))
		case schema.Array, schema.Map, schema.Struct, schema.Union:
			c.nested = append(c.nested, schema.NullOf(c.t))
		}
	}
}

// grow adds a row's bit to the validity bitmap.
func (c *columnBuilder) grow(valid bool) {
	if c.last%8 == 0 {
		c.valid = append(c.valid, 0)
		if c.t.Kind == schema.Boolean {
			c.bits = append(c.bits, 0)
		}
	}
	if valid {
		c.valid[c.last/8] |= 1 << (c.last % 8)
	}
}

func (c *columnBuilder) append(b []byte) error {
	if c.t.IsNested() {
		v, err := decodeNested(c.t, b, 0)
		if err != nil {
			return err
		}
		c.nested = append(c.nested, v)
	}
	c.grow(true)
	le := binary.LittleEndian
	switch c.t.Kind {
	case schema.Boolean:
		if b[0] != 0 {
			c.bits[c.last/8] |= 1 << (c.last % 8)
		}
	case schema.TinyInt:
		c.i8 = append(c.i8, int8(b[0]))
	case schema.SmallInt:
		c.i16 = append(c.i16, int16(le.Uint16(b)))
	case schema.Int, schema.Date:
		c.i32 = append(c.i32, int32(le.Uint32(b)))
	case schema.BigInt:
		c.i64 = append(c.i64, int64(le.Uint64(b)))
	case schema.Float:
		c.f32 = append(c.f32, math.Float32frombits(le.Uint32(b)))
	case schema.Double:
		c.f64 = append(c.f64, math.Float64frombits(le.Uint64(b)))
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		c.d128 = append(c.d128, decimal128.New(int64(le.Uint64(b[8:])), le.Uint64(b)))
	case schema.String, schema.Char, schema.Varchar, schema.Binary:
		c.offsets = append(c.offsets, int32(len(c.data)))
		c.data = append(c.data, b...)
	}
	c.last++
	return nil
}

func (c *columnBuilder) array(n int) arrow.Array {
	c.pad(n)
	valid, dt := c.valid, c.t.Arrow()
	if c.nulls == 0 {
		valid = nil
	}
	switch c.t.Kind {
	case schema.Boolean:
		return batch.NewBoolean(c.bits, n, valid)
	case schema.TinyInt:
		return batch.NewFixed(dt, c.i8, valid)
	case schema.SmallInt:
		return batch.NewFixed(dt, c.i16, valid)
	case schema.Int, schema.Date:
		return batch.NewFixed(dt, c.i32, valid)
	case schema.BigInt:
		return batch.NewFixed(dt, c.i64, valid)
	case schema.Float:
		return batch.NewFixed(dt, c.f32, valid)
	case schema.Double:
		return batch.NewFixed(dt, c.f64, valid)
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		return batch.NewFixed(dt, c.d128, valid)
	case schema.String, schema.Char, schema.Varchar, schema.Binary:
		return batch.NewText(dt, append(c.offsets, int32(len(c.data))), c.data, valid)
	}
	if c.t.IsNested() {
		return schema.ArrayOf(c.t, c.nested)
	}
	return array.NewNull(n)
}

// finish moves the rows into c and starts anew.
func (b *rowBuilder) finish(c *segment.Chunk) {
	c.Len = b.n
	c.Columns = make([]arrow.Array, len(b.cols))
	for i := range b.cols {
		c.Columns[i] = b.cols[i].array(b.n)
	}
	b.reset()
}
