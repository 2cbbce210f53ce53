package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"sort"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// Reader is an open segment. Safe for concurrent use; Close it once no scan
// of it runs any more.
type Reader struct {
	file    *checkedFile
	whole   []byte // the file, if it is small; else nil
	meta    Meta
	key     []storage.KeyColumn
	footer  format.FileMetaData
	columns []column // of the file, in its order
	byField map[int32]int
	index   []Keys // by row group; nil for implicit row ids
	nan     map[nanChunk]bool
	plain   int // leaf whose values are the keys, or -1
	encoder *rowkey.Encoder

	cache     *Cache
	forgotten bool // guarded by the cache

	mu       sync.Mutex
	offsets  map[[2]int][]format.PageLocation // by row group and leaf
	tail     []byte                           // the offset indexes, where they start at tailAt
	tailAt   int64
	closed   bool
	protocol thrift.CompactProtocol
}

// Open opens the segment at path with the Meta that its Writer returned. key
// is the table's row key (empty: implicit row ids). cache may be nil.
func Open(fs vfs.FS, path string, m Meta, key []storage.KeyColumn, cache *Cache) (*Reader, error) {
	f, err := openChecked(fs, path, m.Bytes, m.Checksum)
	if err != nil {
		return nil, err
	}
	r := &Reader{file: f, meta: m, key: key, cache: cache, offsets: map[[2]int][]format.PageLocation{}}
	if err := r.readFooter(); err != nil {
		f.file.Close()
		return nil, fault.Bugf("open segment %s: %w", path, err)
	}
	return r, nil
}

// Meta returns what Open was given.
func (r *Reader) Meta() *Meta { return &r.meta }

const parquetMagic = "PAR1"

// readFooter reads the footer and holds it against Meta.
func (r *Reader) readFooter() error {
	n := r.file.length
	if n < 12 {
		return fault.Bugf("%d bytes are too few for a Parquet file", n)
	}
	// One read gets the footer and, mostly, the page indexes before it.
	start, data, err := r.file.blocks(max(0, n-blockSize), n, nil)
	if err != nil {
		return err
	}
	if start == 0 { // a small file: its columns share blocks, which are read once
		r.whole = data
	}
	end := data[len(data)-8:]
	if string(end[4:]) != parquetMagic {
		return fault.Bugf("the file ends in %q instead of %q", end[4:], parquetMagic)
	}
	size := int64(binary.LittleEndian.Uint32(end))
	if size > n-12 {
		return fault.Bugf("a footer of %d bytes in a file of %d", size, n)
	}
	if at := n - 8 - size; at < start {
		if start, data, err = r.file.blocks(at, n, nil); err != nil {
			return err
		}
	}
	if err := thrift.Unmarshal(&r.protocol, data[n-8-size-start:n-8-start], &r.footer); err != nil {
		return fault.Bugf("footer at byte %d: %w", n-8-size, err)
	}
	if err := r.readProperties(); err != nil {
		return fault.Bugf("footer at byte %d: %w", n-8-size, err)
	}
	return r.readOffsetRange(start, data)
}

// readProperties takes the schema, key index and the rest of what the footer
// says, and checks it.
func (r *Reader) readProperties() error {
	props := map[string]string{}
	for _, kv := range r.footer.KeyValueMetadata {
		props[kv.Key] = kv.Value
	}
	if props[propFormat] != formatVersion {
		return fault.Bugf("%s is %q instead of %q: a file of another version", propFormat, props[propFormat], formatVersion)
	}
	var s fileSchema
	if err := json.Unmarshal([]byte(props[propSchema]), &s); err != nil {
		return fault.Bugf("%s: %w", propSchema, err)
	}
	types := map[int32]schema.Type{
		keyField: schema.BinaryType, beginField: schema.BigIntType, tombstoneField: schema.BooleanType,
	}
	for _, c := range s.Columns {
		t, err := c.typ(0)
		if err != nil {
			return fault.Bugf("column %d: %w", c.ID, err)
		}
		types[int32(c.ID)] = t
	}
	if len(r.footer.Schema) == 0 {
		return fault.Bugf("no schema")
	}
	r.byField = map[int32]int{}
	for i := 1; i < len(r.footer.Schema); i++ {
		e := &r.footer.Schema[i]
		t, ok := types[e.FieldID]
		if ok && t.IsNested() {
			tree, err := newNest(e.Name, t, len(r.columns))
			if err != nil {
				return err
			}
			end, err := tree.match(r.footer.Schema, i)
			if err != nil {
				return err
			}
			r.byField[e.FieldID] = len(r.columns)
			r.columns = tree.columns(e.FieldID, r.columns)
			i = end - 1
			continue
		}
		p, stored := physicalOf(t)
		if !ok || !stored {
			return fault.Bugf("column %s has the unknown id %d or type %s", e.Name, e.FieldID, t)
		}
		if _, want := p.parquetType(); !e.Type.Valid || e.Type.V != want {
			return fault.Bugf("column %s of type %s isn't stored as %s", e.Name, t, want)
		}
		r.byField[e.FieldID] = len(r.columns)
		r.columns = append(r.columns, column{field: e.FieldID, name: e.Name, typ: t, phys: p, null: e.RepetitionType.V == format.Optional})
	}
	if err := r.checkMeta(&s); err != nil {
		return err
	}
	var nan []nanChunk
	if text := props[propNaN]; text != "" {
		if err := json.Unmarshal([]byte(text), &nan); err != nil {
			return fault.Bugf("%s: %w", propNaN, err)
		}
	}
	r.nan = map[nanChunk]bool{}
	for _, c := range nan {
		r.nan[c] = true
	}
	r.plain = -1
	if len(r.key) == 0 {
		return nil
	}
	return r.bindKey(props[propIndex])
}

// bindKey finds the columns that make up the row key.
func (r *Reader) bindKey(index string) error {
	var err error
	if r.index, err = decodeIndex(index, len(r.footer.RowGroups)); err != nil {
		return err
	}
	for g, k := range r.index {
		if want := (r.footer.RowGroups[g].NumRows + stripeRows - 1) / stripeRows; int64(k.Len()) != want {
			return fault.Bugf("row group %d has %d keys in the index instead of %d", g, k.Len(), want)
		}
	}
	if _, ok := r.byField[keyField]; ok {
		return nil
	}
	i, ok := r.byField[int32(r.key[0].Column)]
	if len(r.key) != 1 || r.key[0].Desc || !ok {
		return fault.Bugf("no key column")
	}
	r.plain = i
	r.encoder = rowkey.NewEncoder([]rowkey.Column{{Type: r.columns[i].typ}})
	return nil
}

// checkMeta holds the footer against what the manifest says.
func (r *Reader) checkMeta(s *fileSchema) error {
	m := &r.meta
	if r.footer.NumRows != m.Rows || len(r.footer.RowGroups) != len(m.RowGroups) {
		return fault.Bugf("%d rows in %d row groups, but the manifest has %d in %d", r.footer.NumRows, len(r.footer.RowGroups), m.Rows, len(m.RowGroups))
	}
	for i := range r.footer.RowGroups {
		g := &r.footer.RowGroups[i]
		if g.NumRows != m.RowGroups[i].Rows || len(g.Columns) != len(r.columns) {
			return fault.Bugf("row group %d has %d rows of %d columns, but the manifest has %d of %d", i, g.NumRows, len(g.Columns), m.RowGroups[i].Rows, len(r.columns))
		}
	}
	if len(s.Columns) != len(m.Columns) {
		return fault.Bugf("%d columns, but the manifest has %d", len(s.Columns), len(m.Columns))
	}
	for i, c := range s.Columns {
		if c.ID != m.Columns[i] {
			return fault.Bugf("column %d has id %d, but the manifest has %d", i, c.ID, m.Columns[i])
		}
		if _, ok := r.byField[int32(c.ID)]; !ok {
			return fault.Bugf("column %d isn't in the Parquet schema", c.ID)
		}
	}
	if len(s.Key) != len(r.key) {
		return fault.Bugf("a row key of %d columns, but the table's has %d", len(s.Key), len(r.key))
	}
	for i, k := range s.Key {
		if k.ID != r.key[i].Column || k.Desc != r.key[i].Desc {
			return fault.Bugf("row-key column %d differs from the table's", i+1)
		}
	}
	if _, ok := r.byField[beginField]; ok != m.Versions {
		return fault.Bugf("versions are %t in the file but %t in the manifest", ok, m.Versions)
	}
	return nil
}

// readOffsetRange keeps the bytes of all offset indexes, which lie side by
// side before the footer. data are the file's bytes from start on.
func (r *Reader) readOffsetRange(start int64, data []byte) error {
	first, end := r.file.length, int64(0)
	for _, g := range r.footer.RowGroups {
		for i := range g.Columns {
			c := &g.Columns[i]
			if c.OffsetIndexOffset <= 0 || c.OffsetIndexLength <= 0 {
				return fault.Bugf("a column chunk without an offset index")
			}
			first = min(first, c.OffsetIndexOffset)
			end = max(end, c.OffsetIndexOffset+int64(c.OffsetIndexLength))
		}
	}
	if first >= end {
		return nil
	}
	if end > r.file.length {
		return fault.Bugf("offset indexes end at byte %d of %d", end, r.file.length)
	}
	r.tailAt = first
	if first >= start {
		r.tail = bytes.Clone(data[first-start : end-start])
		return nil
	}
	var err error
	r.tail, err = r.file.bytes(first, end)
	return err
}

// pages returns where the pages of a column chunk are.
func (r *Reader) pages(group, leaf int) ([]format.PageLocation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := [2]int{group, leaf}
	if p, ok := r.offsets[at]; ok {
		return p, nil
	}
	c := &r.footer.RowGroups[group].Columns[leaf]
	from := c.OffsetIndexOffset - r.tailAt
	var x format.OffsetIndex
	if err := thrift.Unmarshal(&r.protocol, r.tail[from:from+int64(c.OffsetIndexLength)], &x); err != nil {
		return nil, fault.Bugf("read segment %s: offset index at byte %d: %w", r.file.path, c.OffsetIndexOffset, err)
	}
	rows := r.footer.RowGroups[group].NumRows
	for i, p := range x.PageLocations {
		bad := i == 0 && p.FirstRowIndex != 0 || i > 0 && p.FirstRowIndex <= x.PageLocations[i-1].FirstRowIndex
		if bad || p.FirstRowIndex >= rows || p.CompressedPageSize < 0 {
			return nil, fault.Bugf("read segment %s: offset index at byte %d: page %d starts at row %d", r.file.path, c.OffsetIndexOffset, i, p.FirstRowIndex)
		}
	}
	if len(x.PageLocations) == 0 {
		return nil, fault.Bugf("read segment %s: offset index at byte %d: no pages", r.file.path, c.OffsetIndexOffset)
	}
	r.offsets[at] = x.PageLocations
	return x.PageLocations, nil
}

// Verify reads the whole file against its sidecar. Open has held the sidecar
// and the footer against Meta.
func (r *Reader) Verify(ctx context.Context) error {
	var buf []byte
	for at := int64(0); at < r.file.length; at += windowBytes {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, data, err := r.file.blocks(at, min(at+windowBytes, r.file.length), buf)
		if err != nil {
			return err
		}
		buf = data[:0]
	}
	return nil
}

// Close closes the files.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.cache.forget(r)
	return r.file.file.Close()
}

// keyReader reads the keys of single rows.
type keyReader struct {
	r     *Reader
	chunk *chunkReader
	page  int // whose values bound is of, in chunk
	bound *rowkey.Binding
	buf   []byte
}

// close gives the buffers back.
func (k *keyReader) close() {
	if k.chunk != nil {
		k.r.cache.giveBack(k.chunk.scratch)
		k.chunk = nil
	}
}

// at returns the key of a row of a row group; it is valid until the next call.
func (k *keyReader) at(group int, row int64) ([]byte, error) {
	leaf := k.r.plain
	if leaf < 0 {
		leaf = k.r.byField[keyField]
	}
	if k.chunk == nil || k.chunk.group != group {
		var err error
		if k.chunk, err = k.r.chunk(group, leaf, chunkOptions{}, k.chunk); err != nil {
			return nil, err
		}
		k.page = -1
	}
	v, first, err := k.chunk.page(row)
	if err != nil {
		return nil, err
	}
	i := int(row - first)
	if k.r.plain < 0 {
		return v.data[v.offsets[i]:v.offsets[i+1]], nil
	}
	if k.page != k.chunk.current {
		a, err := v.array(k.r.columns[leaf].typ, 0, v.n)
		if err != nil {
			return nil, err
		}
		if k.bound, err = k.r.encoder.Bind([]arrow.Array{a}); err != nil {
			return nil, err
		}
		k.page = k.chunk.current
	}
	k.buf = k.bound.Append(k.buf[:0], i)
	return k.buf, nil
}

// RowsIn returns how many of the file's rows have keys in rng. It reads at most
// two pages of keys.
func (r *Reader) RowsIn(rng storage.KeyRange) (int64, error) {
	k := &keyReader{r: r}
	defer k.close()
	lo, hi := int64(0), r.meta.Rows
	var err error
	if len(rng.Start) > 0 {
		if lo, err = r.search(k, rng.Start); err != nil {
			return 0, err
		}
	}
	if len(rng.End) > 0 {
		if hi, err = r.search(k, rng.End); err != nil {
			return 0, err
		}
	}
	return max(0, hi-lo), nil
}

// search returns the position of the first row whose key is at least key.
func (r *Reader) search(k *keyReader, key storage.Key) (int64, error) {
	if len(r.key) == 0 {
		return r.meta.searchImplicit(key), nil
	}
	// The last row group and in it the last stripe that start below key.
	g := sort.Search(len(r.index), func(i int) bool { return bytes.Compare(r.index[i].At(0), key) >= 0 }) - 1
	if g < 0 {
		return 0, nil
	}
	keys := r.index[g]
	stripe := sort.Search(keys.Len(), func(i int) bool { return bytes.Compare(keys.At(i), key) >= 0 }) - 1
	first := int64(stripe) * stripeRows
	n := min(r.meta.RowGroups[g].Rows-first, stripeRows)
	var err error
	at := sort.Search(int(n), func(i int) bool {
		if err != nil {
			return true
		}
		var got []byte
		got, err = k.at(g, first+int64(i))
		return bytes.Compare(got, key) >= 0
	})
	return r.meta.RowGroups[g].FirstRow + first + int64(at), err
}
