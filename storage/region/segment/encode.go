package segment

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
)

// columnEncoder writes column chunks. It keeps its buffers from chunk to chunk.
type columnEncoder struct {
	text  textDict
	ints  intDict
	codes []int32

	ones   []int16 // definition levels of rows that aren't null
	levels []int16

	i32   []int32
	i64   []int64
	f32   []float32
	f64   []float64
	bools []bool
	bytes []parquet.ByteArray
	fixed []parquet.FixedLenByteArray
	raw   []byte
	wide  []int64
	seen  []bool // codes seen in the page
}

// pageFlusher is what arrow-go's column writers have besides their interface:
// the means to cut a page.
type pageFlusher interface{ FlushCurrentPage() error }

// write writes a column chunk and reports whether it has a NaN.
func (e *columnEncoder) write(cw file.ColumnChunkWriter, c *column, pieces []arrow.Array, rows int) (nan bool, err error) {
	if e.ones == nil {
		e.ones = make([]int16, stripeRows)
		for i := range e.ones {
			e.ones[i] = 1
		}
	}
	coded := false
	if c.mayCode() {
		if cap(e.codes) < rows {
			e.codes = make([]int32, rows)
		}
		e.codes = e.codes[:rows]
		if c.phys == physBytes {
			coded = e.text.codeText(pieces, e.codes)
		} else {
			coded = e.ints.codeInts(pieces, c.phys, e.codes)
		}
		if coded {
			err = e.putDictionary(cw, c)
		} else {
			cw.FallbackToPlain()
		}
		if err != nil {
			return false, err
		}
	}
	page := stripeRows
	if c.phys == physBytes && !coded {
		page = pageRows(pieces, rows)
	}
	row, inPage := 0, 0
	for _, a := range pieces {
		for from := 0; from < a.Len(); {
			to := min(a.Len(), from+page-inPage)
			part := a
			if from > 0 || to < a.Len() {
				part = batch.Slice(a, from, to)
			}
			if coded {
				err = e.writeCodes(cw, c, part, row)
			} else {
				var n bool
				n, err = e.writePlain(cw, part, e.definition(c, batch.Validity(part), part.Len()), nil)
				nan = nan || n
			}
			if err != nil {
				return nan, err
			}
			row += to - from
			inPage += to - from
			from = to
			if inPage == page {
				if err := cw.(pageFlusher).FlushCurrentPage(); err != nil {
					return nan, err
				}
				inPage = 0
			}
		}
	}
	return nan, nil
}

// pageRows returns the rows a page of plain text may have: stripeRows or, for
// long values, that halved until a page has about pageBytes.
func pageRows(pieces []arrow.Array, rows int) int {
	total := 0
	for _, a := range pieces {
		t := batch.TextOf(a)
		if t.Codes == nil {
			total += t.Size(a.Len())
			continue
		}
		valid := batch.Validity(a)
		for i := range a.Len() {
			if valid == nil || batch.BitSet(valid, i) {
				total += len(t.Bytes(i))
			}
		}
	}
	page := stripeRows
	for page > minPage && total/rows*page > pageBytes {
		page /= 2
	}
	return page
}

func (e *columnEncoder) putDictionary(cw file.ColumnChunkWriter, c *column) error {
	enc, ok := cw.CurrentEncoder().(interface {
		PutDictionary(arrow.Array) error
		NumEntries() int
	})
	if !ok {
		return fault.Bugf("no dictionary encoder")
	}
	var dict arrow.Array
	switch c.phys {
	case physBytes:
		dict = batch.NewText(arrow.BinaryTypes.Binary, e.text.offsets, e.text.data, nil)
	case physInt32:
		narrow := make([]int32, len(e.ints.values))
		for i, v := range e.ints.values {
			narrow[i] = int32(v)
		}
		dict = batch.NewFixed(arrow.PrimitiveTypes.Int32, narrow, nil)
	default:
		dict = batch.NewFixed(arrow.PrimitiveTypes.Int64, e.ints.values, nil)
	}
	if err := enc.PutDictionary(dict); err != nil {
		return err
	}
	if enc.NumEntries() != dict.Len() {
		return fault.Bugf("the dictionary of %d values has %d entries", dict.Len(), enc.NumEntries())
	}
	return nil
}

// writeCodes writes rows as dictionary codes. arrow-go leaves the statistics
// to its caller here.
func (e *columnEncoder) writeCodes(cw file.ColumnChunkWriter, c *column, a arrow.Array, row int) error {
	codes := e.codes[row : row+a.Len()]
	valid := batch.Validity(a)
	size := e.text.len()
	if c.phys != physBytes {
		size = len(e.ints.values)
	}
	if cap(e.seen) < size {
		e.seen = make([]bool, size)
	}
	seen := e.seen[:size]
	clear(seen)
	nulls := 0
	for i, code := range codes {
		if valid != nil && !batch.BitSet(valid, i) {
			nulls++
			continue
		}
		seen[code] = true
	}
	stats := cw.PageStatistics()
	stats.IncNulls(int64(nulls))
	stats.IncNumValues(int64(len(codes) - nulls))
	if nulls < len(codes) {
		switch s := stats.(type) {
		case *metadata.ByteArrayStatistics:
			s.SetMinMax(e.text.bounds(seen))
		case *metadata.Int32Statistics:
			lo, hi := e.ints.bounds(seen)
			s.SetMinMax(int32(lo), int32(hi))
		case *metadata.Int64Statistics:
			s.SetMinMax(e.ints.bounds(seen))
		}
	}
	return cw.WriteDictIndices(batch.NewFixed(arrow.PrimitiveTypes.Int32, codes, valid), e.definition(c, valid, a.Len()), nil)
}

// bounds returns the least and the greatest of the values whose codes were
// seen, at least one.
func (d *textDict) bounds(seen []bool) (lo, hi parquet.ByteArray) {
	for code, s := range seen {
		if !s {
			continue
		}
		v := d.data[d.offsets[code]:d.offsets[code+1]:d.offsets[code+1]]
		if v == nil {
			v = []byte{}
		}
		if lo == nil || string(v) < string(lo) {
			lo = v
		}
		if hi == nil || string(v) > string(hi) {
			hi = v
		}
	}
	return lo, hi
}

func (d *intDict) bounds(seen []bool) (lo, hi int64) {
	first := true
	for code, s := range seen {
		if !s {
			continue
		}
		v := d.values[code]
		if first || v < lo {
			lo = v
		}
		if first || v > hi {
			hi = v
		}
		first = false
	}
	return lo, hi
}

// definition returns the definition levels of rows: 1 for a value, 0 for NULL;
// nil for a column that can't be NULL.
func (e *columnEncoder) definition(c *column, valid []byte, n int) []int16 {
	if !c.null {
		return nil
	}
	if valid == nil {
		return e.ones[:n]
	}
	if cap(e.levels) < n {
		e.levels = make([]int16, stripeRows)
	}
	levels := e.levels[:n]
	for i := range levels {
		levels[i] = int16(valid[i>>3] >> (i & 7) & 1)
	}
	return levels
}

// dense appends the values of rows that aren't null to out.
func dense[T any](out, v []T, valid []byte) []T {
	if valid == nil {
		return v
	}
	for i := range v {
		if valid[i>>3]>>(i&7)&1 != 0 {
			out = append(out, v[i])
		}
	}
	return out
}

// writeNested writes the leaves of a nested column, always by value: there is a
// page for every so many rows.
func (e *columnEncoder) writeNested(rg file.SerialRowGroupWriter, c *column, pieces []arrow.Array, rows int) error {
	var size int64
	for _, a := range pieces {
		size += batch.Bytes(a)
	}
	page := stripeRows
	for page > minPage && size/int64(rows)*int64(page) > pageBytes {
		page /= 2
	}
	var s shred
	for leaf := range c.nest.leaves {
		cw, err := rg.NextColumn()
		if err != nil {
			return err
		}
		inPage := 0
		for _, a := range pieces {
			for from := 0; from < a.Len(); {
				to := min(a.Len(), from+page-inPage)
				s.reps, s.defs, s.at = s.reps[:0], s.defs[:0], s.at[:0]
				if err := shredLeaf(c.nest, batch.Slice(a, from, to), leaf, &s); err != nil {
					return err
				}
				if _, err := e.writePlain(cw, batch.Gather(s.values, s.at), s.defs, s.reps); err != nil {
					return err
				}
				if inPage += to - from; inPage == page {
					if err := cw.(pageFlusher).FlushCurrentPage(); err != nil {
						return err
					}
					inPage = 0
				}
				from = to
			}
		}
	}
	return nil
}

// writePlain writes values, those of a that aren't null, with the levels of the
// entries that they belong to; a column that can't be NULL has none.
func (e *columnEncoder) writePlain(cw file.ColumnChunkWriter, a arrow.Array, levels, reps []int16) (nan bool, err error) {
	valid := batch.Validity(a)
	switch w := cw.(type) {
	case *file.BooleanColumnChunkWriter:
		bits := batch.Bits(a)
		e.bools = e.bools[:0]
		for i := range a.Len() {
			if valid == nil || batch.BitSet(valid, i) {
				e.bools = append(e.bools, batch.BitSet(bits, i))
			}
		}
		_, err = w.WriteBatch(e.bools, levels, reps)
	case *file.Int32ColumnChunkWriter:
		var v []int32
		if is32(a) {
			v = dense(e.i32[:0], batch.Values[int32](a), valid)
		} else {
			if e.wide, err = integers(a, e.wide[:0]); err != nil {
				return false, err
			}
			v = e.i32[:0]
			for i, x := range e.wide {
				if valid == nil || batch.BitSet(valid, i) {
					v = append(v, int32(x))
				}
			}
			e.i32 = v
		}
		_, err = w.WriteBatch(v, levels, reps)
	case *file.Int64ColumnChunkWriter:
		var v []int64
		if a.DataType().ID() == arrow.INT64 {
			v = batch.Values[int64](a)
		} else {
			if v, err = integers(a, e.wide[:0]); err != nil {
				return false, err
			}
			e.wide = v
		}
		_, err = w.WriteBatch(dense(e.i64[:0], v, valid), levels, reps)
	case *file.Float32ColumnChunkWriter:
		v := dense(e.f32[:0], batch.Values[float32](a), valid)
		_, err = w.WriteBatch(v, levels, reps)
		nan = hasNaN(v)
	case *file.Float64ColumnChunkWriter:
		v := dense(e.f64[:0], batch.Values[float64](a), valid)
		_, err = w.WriteBatch(v, levels, reps)
		nan = hasNaN(v)
	case *file.FixedLenByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(e.wideFixed(batch.Values[decimal128.Num](a), valid), levels, reps)
	case *file.ByteArrayColumnChunkWriter:
		t := batch.TextOf(a)
		e.bytes = e.bytes[:0]
		for i := range a.Len() {
			if valid == nil || batch.BitSet(valid, i) {
				v := t.Bytes(i)
				if v == nil {
					v = []byte{} // arrow-go's statistics take nil for no value
				}
				e.bytes = append(e.bytes, v)
			}
		}
		_, err = w.WriteBatch(e.bytes, levels, reps)
	default:
		return false, fault.Bugf("no way to write %T", cw)
	}
	return nan, err
}

func hasNaN[T float32 | float64](v []T) bool {
	for _, x := range v {
		if x != x {
			return true
		}
	}
	return false
}

func is32(a arrow.Array) bool {
	id := a.DataType().ID()
	return id == arrow.INT32 || id == arrow.DATE32
}

// integers appends the values of an integer, date or decimal array to out.
func integers(a arrow.Array, out []int64) ([]int64, error) {
	switch a.DataType().ID() {
	case arrow.INT8:
		return widen(out, batch.Values[int8](a)), nil
	case arrow.INT16:
		return widen(out, batch.Values[int16](a)), nil
	case arrow.INT32, arrow.DATE32:
		return widen(out, batch.Values[int32](a)), nil
	case arrow.INT64:
		return append(out, batch.Values[int64](a)...), nil
	case arrow.DECIMAL128:
		for i, v := range batch.Values[decimal128.Num](a) {
			n := int64(v.LowBits())
			if v.HighBits() != n>>63 && a.IsValid(i) {
				return nil, fault.Bugf("the decimal %s has more than 18 digits", v.BigInt())
			}
			out = append(out, n)
		}
		return out, nil
	}
	return nil, fault.Bugf("an array of Arrow type %s where integers are stored", a.DataType())
}

func widen[T int8 | int16 | int32](out []int64, v []T) []int64 {
	for _, x := range v {
		out = append(out, int64(x))
	}
	return out
}

// wideFixed returns 128-bit numbers as big-endian bytes.
func (e *columnEncoder) wideFixed(v []decimal128.Num, valid []byte) []parquet.FixedLenByteArray {
	if cap(e.raw) < 16*len(v) {
		e.raw = make([]byte, 16*max(len(v), stripeRows))
	}
	e.fixed = e.fixed[:0]
	for i, x := range v {
		if valid != nil && !batch.BitSet(valid, i) {
			continue
		}
		at := 16 * len(e.fixed)
		b := e.raw[at : at+16 : at+16]
		binary.BigEndian.PutUint64(b, uint64(x.HighBits()))
		binary.BigEndian.PutUint64(b[8:], x.LowBits())
		e.fixed = append(e.fixed, b)
	}
	return e.fixed
}
