package segment

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

const (
	// stripeRows is the most rows a data page has, and the distance of the
	// keys in the key index: a get decodes one stripe of the key column.
	// Narrower pages have stripeRows divided by a power of two.
	stripeRows = batch.MaxRows
	minPage    = 64      // rows; keeps pages whole words of a bitmap
	pageBytes  = 1 << 20 // of values, which pages of long values stay near to
	writeBytes = 1 << 18 // of each write to the file
	statsBytes = 4 << 10 // longer values are left out of statistics

	defaultGroupRows  = 1 << 20
	defaultGroupBytes = 256 << 20
)

// Writer writes one segment. Not safe for concurrent use.
type Writer struct {
	o       Options
	columns []column
	plain   int // see plainKey
	encoder *rowkey.Encoder
	keyAt   []int // key columns in Options.Columns

	file vfs.File
	sums *summer
	buf  *bufio.Writer
	pq   *file.Writer // nil before the first row group

	codec compress.Compression

	pending      [][]arrow.Array // a row group's batches, by column of the file
	pendingRows  int64
	pendingBytes int64
	encode       columnEncoder

	meta      Meta
	index     []Keys // by row group, the key of every stripe's first row
	nan       []nanChunk
	lastBegin storage.Timestamp
	keyBuf    Keys // of one batch
	err       error
	done      bool
}

// Create starts a segment.
func Create(o Options) (*Writer, error) {
	if o.RowGroupRows <= 0 {
		o.RowGroupRows = defaultGroupRows
	}
	if o.RowGroupBytes <= 0 {
		o.RowGroupBytes = defaultGroupBytes
	}
	o.RowGroupRows = (o.RowGroupRows + stripeRows - 1) / stripeRows * stripeRows
	if o.Tombstones && !o.Versions {
		return nil, fault.Bugf("segment %s: tombstones need versions", o.Path)
	}
	if len(o.Key) == 0 && o.Versions {
		return nil, fault.Bugf("segment %s: rows without a key have no versions", o.Path)
	}
	codec, err := codecOf(o.Codec)
	if err != nil {
		return nil, err
	}
	columns, err := layout(&o)
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o, columns: columns, plain: plainKey(&o), pending: make([][]arrow.Array, len(columns))}
	keys := make([]rowkey.Column, len(o.Key))
	for i, k := range o.Key {
		at := o.Columns.ByID(k.Column)
		if at < 0 {
			return nil, fault.Bugf("segment %s: key column %d isn't among the columns", o.Path, k.Column)
		}
		w.keyAt = append(w.keyAt, at)
		keys[i] = rowkey.Column{Type: o.Columns[at].Type, Desc: k.Desc}
	}
	w.encoder = rowkey.NewEncoder(keys)
	w.meta = Meta{SchemaVersion: o.SchemaVersion, Versions: o.Versions, MinBegin: storage.MaxTimestamp}
	for _, c := range o.Columns {
		w.meta.Columns = append(w.meta.Columns, c.ID)
	}
	w.codec = codec
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

func codecOf(name string) (compress.Compression, error) {
	switch name {
	case "", "snappy":
		return compress.Codecs.Snappy, nil
	case "none":
		return compress.Codecs.Uncompressed, nil
	case "zstd":
		return compress.Codecs.Zstd, nil
	}
	return 0, fault.Userf("unknown codec %q: it can be snappy, zstd or none", name)
}

func (w *Writer) open() error {
	for _, p := range []string{w.o.Path, w.o.Path + SidecarSuffix} {
		if _, err := w.o.FS.Stat(p); err == nil {
			return fault.Bugf("create segment: %s exists", p)
		} else if !oserror.IsNotExist(err) {
			return fault.Retryablef("create segment: %w", err)
		}
	}
	f, err := w.o.FS.Create(w.o.Path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fault.Retryablef("create segment: %w", err)
	}
	w.file = f
	w.sums = newSummer(f)
	w.buf = bufio.NewWriterSize(w.sums, writeBytes)
	return nil
}

// start opens the Parquet writer, once the first row group's values are there
// to choose the columns' codecs by.
func (w *Writer) start() error {
	root, err := parquetSchema(w.columns)
	if err != nil {
		return err
	}
	props := []parquet.WriterProperty{
		parquet.WithVersion(parquet.V2_LATEST), parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithCreatedBy("skep"), parquet.WithCompression(w.codec),
		parquet.WithBatchSize(stripeRows), parquet.WithMaxStatsSize(statsBytes), parquet.WithPageIndexEnabled(true),
		// Pages are cut by the encoder, at stripes; dictionaries are made there too.
		parquet.WithDataPageSize(1 << 40), parquet.WithDictionaryPageSizeLimit(1 << 40), parquet.WithDictionaryDefault(false),
	}
	for i, c := range w.columns {
		if c.mayCode() {
			props = append(props, parquet.WithDictionaryFor(c.name, true), parquet.WithDictionaryCostFallbackFor(c.name, false))
		}
		flat := c.mayCode() && w.encode.flatCodes(&c, w.pending[i], int(w.pendingRows))
		if flat || incompressible(w.pending[i][0]) {
			props = append(props, parquet.WithCompressionFor(c.name, compress.Codecs.Uncompressed))
		}
	}
	w.pq, err = file.NewParquetWriterWithError(w.buf, root, file.WithWriterProps(parquet.NewWriterProperties(props...)))
	return err
}

// incompressible reports whether a column of floats doesn't shrink by a tenth:
// then pages are as fast to read as memory is to copy without a codec.
func incompressible(a arrow.Array) bool {
	id := a.DataType().ID()
	if id != arrow.FLOAT64 && id != arrow.FLOAT32 || a.Len() < minPage {
		return false
	}
	raw := a.Data().Buffers()[1].Bytes()
	width := a.DataType().(arrow.FixedWidthDataType).Bytes()
	raw = raw[a.Data().Offset()*width:][:a.Len()*width]
	raw = raw[:min(len(raw), pageBytes/16)]
	return stays(raw)
}

// stays reports whether bytes don't shrink by a tenth.
func stays(raw []byte) bool {
	codec, err := compress.GetCodec(compress.Codecs.Snappy)
	return err == nil && len(codec.Encode(nil, raw))*10 > len(raw)*9
}

// mayCode reports whether a column may get a dictionary.
func (c *column) mayCode() bool {
	return c.nest == nil && (c.typ.IsText() || c.phys == physInt32 || c.phys == physInt64)
}

// Append adds rows. Rows out of key order are an error of class Bug. The
// writer keeps the batch's arrays until their row group is written.
func (w *Writer) Append(r Rows) error {
	if w.err == nil {
		if w.err = w.append(r); w.err != nil {
			w.err = fmt.Errorf("write segment %s: %w", w.o.Path, w.err)
		}
	}
	return w.err
}

func (w *Writer) append(r Rows) error {
	b := r.Batch
	n := b.Rows()
	if len(b.Columns) != len(w.o.Columns) {
		return fault.Bugf("%d columns instead of %d", len(b.Columns), len(w.o.Columns))
	}
	if w.o.Versions && len(r.Begin) != n {
		return fault.Bugf("%d begin timestamps for %d rows", len(r.Begin), n)
	}
	if r.Deleted != nil && (!w.o.Tombstones || len(r.Deleted) != n) {
		return fault.Bugf("%d tombstone flags for %d rows", len(r.Deleted), n)
	}
	if n == 0 {
		return nil
	}
	arrays := make([]arrow.Array, 0, len(w.columns))
	for i, a := range b.Columns {
		if b.Sel != nil {
			a = batch.Gather(a, b.Sel)
		}
		if !arrayFits(a, w.o.Columns[i].Type) {
			return fault.Bugf("column %s of type %s gets an array of Arrow type %s", w.columns[i].name, w.columns[i].typ, a.DataType())
		}
		if a.Len() != n {
			return fault.Bugf("column %s has %d values for %d rows", w.columns[i].name, a.Len(), n)
		}
		if !w.columns[i].null && a.NullN() > 0 {
			return fault.Userf("column %s is NOT NULL but a row has NULL there", w.columns[i].name)
		}
		arrays = append(arrays, a)
	}
	keys := r.Keys
	if len(w.o.Key) > 0 {
		if keys.Len() == 0 && !w.o.Partitioned {
			cols := make([]arrow.Array, len(w.keyAt))
			for i, at := range w.keyAt {
				cols[i] = arrays[at]
			}
			bound, err := w.encoder.Bind(cols)
			if err != nil {
				return err
			}
			w.keyBuf.Data, w.keyBuf.Offsets = bound.AppendAll(w.keyBuf.Data[:0], w.keyBuf.Offsets[:0], nil, n)
			keys = w.keyBuf
		}
		if keys.Len() != n {
			return fault.Bugf("%d keys for %d rows", keys.Len(), n)
		}
		if err := w.check(keys, r.Begin); err != nil {
			return err
		}
		if w.plain < 0 {
			arrays = append(arrays, keyArray(keys))
		}
	}
	if w.o.Versions {
		begin := make([]int64, n)
		for i, t := range r.Begin {
			begin[i] = int64(t)
			w.meta.MinBegin = min(w.meta.MinBegin, t)
			w.meta.MaxBegin = max(w.meta.MaxBegin, t)
		}
		arrays = append(arrays, batch.NewFixed(arrow.PrimitiveTypes.Int64, begin, nil))
	}
	if w.o.Tombstones {
		bits := make([]byte, (n+7)/8)
		for i, d := range r.Deleted {
			if d {
				bits[i>>3] |= 1 << (i & 7)
				w.meta.Tombstones++
			}
		}
		arrays = append(arrays, batch.NewBoolean(bits, n, nil))
	}
	return w.hold(arrays, keys, n)
}

// check proves that keys ascend, and within a key its begins descend.
func (w *Writer) check(keys Keys, begin []storage.Timestamp) error {
	last := w.meta.LastKey
	for i := range keys.Len() {
		k := keys.At(i)
		c := bytes.Compare(last, k)
		if c > 0 && w.meta.Rows+int64(i) > 0 {
			return fault.Bugf("row %d: key %x comes after %x", w.meta.Rows+int64(i), []byte(k), []byte(last))
		}
		if c == 0 {
			if !w.o.Versions || begin[i] >= w.lastBegin {
				return fault.Bugf("row %d: key %x comes twice", w.meta.Rows+int64(i), []byte(k))
			}
			w.meta.MultiVersion = true
		}
		last = k
		if w.o.Versions {
			w.lastBegin = begin[i]
		}
	}
	w.meta.LastKey = append(w.meta.LastKey[:0], last...)
	return nil
}

// keyArray copies keys into a binary array.
func keyArray(k Keys) arrow.Array {
	base := k.Offsets[0]
	offsets := make([]int32, len(k.Offsets))
	for i, o := range k.Offsets {
		offsets[i] = int32(o - base)
	}
	data := append([]byte(nil), k.Data[base:k.Offsets[len(k.Offsets)-1]]...)
	return batch.NewText(arrow.BinaryTypes.Binary, offsets, data, nil)
}

// hold adds arrays to the row group, and writes it when it is full.
func (w *Writer) hold(arrays []arrow.Array, keys Keys, n int) error {
	for from := 0; from < n; {
		to := int(min(int64(n), int64(from)+w.o.RowGroupRows-w.pendingRows))
		if w.pendingRows == 0 {
			w.index = append(w.index, Keys{})
			w.meta.RowGroups = append(w.meta.RowGroups, RowGroup{FirstRow: w.meta.Rows})
		}
		if keys.Len() > 0 {
			first := (stripeRows - int(w.pendingRows)%stripeRows) % stripeRows
			for i := from + first; i < to; i += stripeRows {
				w.index[len(w.index)-1].Append(keys.At(i))
			}
		}
		for c, a := range arrays {
			if from > 0 || to < n {
				a = batch.Slice(a, from, to)
			}
			w.pending[c] = append(w.pending[c], a)
			w.pendingBytes += batch.Bytes(a)
		}
		w.pendingRows += int64(to - from)
		w.meta.Rows += int64(to - from)
		from = to
		if w.pendingRows >= w.o.RowGroupRows || w.pendingBytes >= w.o.RowGroupBytes {
			if err := w.writeGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeGroup writes the rows held as a row group, column by column.
func (w *Writer) writeGroup() error {
	if w.pendingRows == 0 {
		return nil
	}
	if w.pq == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	before := w.pq.TotalBytesWritten()
	rg, err := w.pq.AppendRowGroupChecked()
	if err != nil {
		return err
	}
	for i := range w.columns {
		c := &w.columns[i]
		var nan bool
		if c.nest != nil {
			err = w.encode.writeNested(rg, c, w.pending[i], int(w.pendingRows))
		} else {
			var cw file.ColumnChunkWriter
			if cw, err = rg.NextColumn(); err != nil {
				return err
			}
			nan, err = w.encode.write(cw, c, w.pending[i], int(w.pendingRows))
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		if nan {
			w.nan = append(w.nan, nanChunk{len(w.meta.RowGroups) - 1, c.field})
		}
		clear(w.pending[i])
		w.pending[i] = w.pending[i][:0]
	}
	if err := rg.Close(); err != nil {
		return err
	}
	g := &w.meta.RowGroups[len(w.meta.RowGroups)-1]
	g.Rows = w.pendingRows
	g.Bytes = w.pq.TotalBytesWritten() - before
	if k := w.index[len(w.index)-1]; k.Len() > 0 {
		g.FirstKey = append(storage.Key(nil), k.At(0)...)
	}
	w.pendingRows, w.pendingBytes = 0, 0
	return nil
}

// SetRuns says which implicit row ids the rows have, in row order; before Finish.
func (w *Writer) SetRuns(runs []Run) { w.meta.Runs = runs }

// Rows returns the rows appended so far.
func (w *Writer) Rows() int64 { return w.meta.Rows }

// Bytes returns the bytes written so far and an upper estimate of those held.
func (w *Writer) Bytes() int64 { return w.sums.length + int64(w.buf.Buffered()) + w.pendingBytes }

// Finish writes footer and sidecar and syncs both and their directory. A
// segment without rows is an error.
func (w *Writer) Finish() (Meta, error) {
	if w.err == nil && !w.done {
		if w.err = w.finish(); w.err != nil {
			w.err = fault.Retryablef("write segment %s: %w", w.o.Path, w.err)
		}
	}
	return w.meta, w.err
}

func (w *Writer) finish() error {
	if w.meta.Rows == 0 {
		return fault.Bugf("no rows")
	}
	if err := w.writeGroup(); err != nil {
		return err
	}
	if err := w.setKeys(); err != nil {
		return err
	}
	if err := w.writeProperties(); err != nil {
		return err
	}
	if err := w.pq.Close(); err != nil {
		return err
	}
	if err := w.buf.Flush(); err != nil {
		return err
	}
	f := w.file
	w.file = nil
	if err := closeSynced(f); err != nil {
		return err
	}
	side := w.sums.sidecar()
	w.meta.Bytes = w.sums.length
	w.meta.Checksum = sidecarSum(side)
	sf, err := w.o.FS.Create(w.o.Path+SidecarSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := sf.Write(side); err != nil {
		return errors.Join(err, sf.Close())
	}
	if err := closeSynced(sf); err != nil {
		return err
	}
	dir, err := w.o.FS.OpenDir(w.o.FS.PathDir(w.o.Path))
	if err != nil {
		return err
	}
	if err := closeSynced(dir); err != nil {
		return err
	}
	w.done = true
	return nil
}

func closeSynced(f vfs.File) error {
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// setKeys completes the key range of Meta.
func (w *Writer) setKeys() error {
	if !w.o.Versions {
		w.meta.MinBegin = 0
	}
	if len(w.o.Key) > 0 {
		w.meta.FirstKey = append(storage.Key(nil), w.index[0].At(0)...)
		return nil
	}
	return w.meta.setImplicitKeys()
}

// Abort closes and removes the files; safe after Finish or an error.
func (w *Writer) Abort() error {
	var errs []error
	if w.file != nil {
		errs = append(errs, w.file.Close())
		w.file = nil
	}
	for _, p := range []string{w.o.Path, w.o.Path + SidecarSuffix} {
		if err := w.o.FS.Remove(p); err != nil && !oserror.IsNotExist(err) {
			errs = append(errs, err)
		}
	}
	if w.err == nil {
		w.err = fault.Bugf("segment %s was given up", w.o.Path)
	}
	if err := errors.Join(errs...); err != nil {
		return fault.Retryablef("remove segment %s: %w", w.o.Path, err)
	}
	return nil
}

// isInteger reports whether values are stored as integers of 32 or 64 bits.
func (p physical) isInteger() bool { return p == physInt32 || p == physInt64 }
