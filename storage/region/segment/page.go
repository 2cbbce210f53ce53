package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/uncompressed"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/skepdb/skep/internal/fault"
)

const (
	windowBytes = 1 << 20 // read ahead in a scan
	decodeSlack = 64      // bytes behind a buffer that parquet-go's unpacking may read
)

// chunkOptions say how a column chunk is going to be read.
type chunkOptions struct {
	keep  bool // values are handed on: they need memory of their own
	scan  bool // pages are read in order: read ahead
	codes bool // numbers may stay dictionary codes, for a filter
}

// chunkReader decodes the pages of one column chunk. Pages are found by the
// offset index and decoded when asked for, so that those of rows nobody wants
// cost nothing.
type chunkReader struct {
	r     *Reader
	group int
	leaf  int
	col   *column
	meta  *format.ColumnMetaData
	locs  []format.PageLocation
	rows  int64
	o     chunkOptions

	window   []byte // checked bytes of the file from windowAt on
	windowAt int64
	end      int64 // of the chunk in the file
	read     *int64

	current int // page that vec holds; -1: none
	first   int64
	vec     vector
	dict    *dictionary
	codec   compress.Codec
	decoder *thrift.Decoder
	input   thrift.BytesReader
	scratch *buffers
}

// chunk opens a column chunk; it takes over the buffers of old, which may be nil.
func (r *Reader) chunk(group, leaf int, o chunkOptions, old *chunkReader) (*chunkReader, error) {
	m := &r.footer.RowGroups[group].Columns[leaf].MetaData
	locs, err := r.pages(group, leaf)
	if err != nil {
		return nil, err
	}
	c := &chunkReader{r: r, group: group, leaf: leaf, col: &r.columns[leaf], meta: m, locs: locs,
		rows: r.footer.RowGroups[group].NumRows, o: o, current: -1}
	if old != nil {
		c.scratch, old.scratch = old.scratch, nil
	} else {
		c.scratch = r.cache.borrow()
	}
	last := locs[len(locs)-1]
	c.end = last.Offset + int64(last.CompressedPageSize)
	switch m.Codec {
	case format.Snappy:
		c.codec = &snappy.Codec{}
	case format.Zstd:
		c.codec = &zstd.Codec{}
	case format.Uncompressed:
		c.codec = &uncompressed.Codec{}
	default:
		return nil, c.bad(m.DataPageOffset, "unknown codec %s", m.Codec)
	}
	return c, nil
}

// bad returns an error about the file at an offset.
func (c *chunkReader) bad(at int64, message string, args ...any) error {
	args = append([]any{c.r.file.path, c.col.name, at}, args...)
	return fault.Bugf("read segment %s: column %s: page at byte %d: "+message, args...)
}

// pageOf returns the page that has a row of the row group.
func (c *chunkReader) pageOf(row int64) int {
	lo, hi := 0, len(c.locs)
	if c.current >= 0 && c.locs[c.current].FirstRowIndex <= row {
		lo = c.current
		if lo+1 == hi || c.locs[lo+1].FirstRowIndex > row {
			return lo
		}
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if c.locs[mid].FirstRowIndex <= row {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// pageRange returns the first row of a page and that of the next.
func (c *chunkReader) pageRange(page int) (first, end int64) {
	first, end = c.locs[page].FirstRowIndex, c.rows
	if page+1 < len(c.locs) {
		end = c.locs[page+1].FirstRowIndex
	}
	return first, end
}

// page returns the values of the page that has a row, and its first row. They
// are valid until the next call unless they are to be kept.
func (c *chunkReader) page(row int64) (v *vector, first int64, err error) {
	p := c.pageOf(row)
	if p != c.current {
		if err := c.decode(p); err != nil {
			return nil, 0, err
		}
	}
	return &c.vec, c.first, nil
}

// fetch returns bytes [off, end) of the file, checked, valid until the next call.
func (c *chunkReader) fetch(off, end int64) ([]byte, error) {
	if w := c.r.whole; w != nil && 0 <= off && off <= end && end <= int64(len(w)) {
		if c.read != nil {
			*c.read += end - off
		}
		return w[off:end], nil
	}
	if off < c.windowAt || end > c.windowAt+int64(len(c.window)) {
		stop := end
		if c.o.scan {
			stop = max(end, min(off+windowBytes, c.end))
		}
		at, data, err := c.r.file.blocks(off, stop, c.scratch.window)
		if err != nil {
			c.window = nil
			return nil, err
		}
		c.windowAt, c.window, c.scratch.window = at, data, data
		if c.read != nil {
			*c.read += int64(len(data))
		}
	}
	return c.window[off-c.windowAt : end-c.windowAt], nil
}

// header decodes the page header at the start of b.
func (c *chunkReader) header(b []byte) (h format.PageHeader, n int, err error) {
	if c.decoder == nil {
		var p thrift.CompactProtocol
		c.input = p.NewReaderFromBytes(b)
		c.decoder = thrift.NewDecoder(c.input)
	} else {
		c.input.ResetBytes(b)
	}
	err = c.decoder.Decode(&h)
	return h, c.input.BytesRead(), err
}

// decode decodes a page. parquet-go's decoders may panic on bytes that no
// writer makes; the checksums keep such away, this catches what they let by.
func (c *chunkReader) decode(page int) (err error) {
	at := c.locs[page].Offset
	defer func() {
		if p := recover(); p != nil {
			err = c.bad(at, "%v", p)
		}
		if err != nil {
			c.current = -1
		}
	}()
	if c.meta.DictionaryPageOffset > 0 {
		if err := c.openDictionary(); err != nil {
			return err
		}
	}
	b, err := c.fetch(at, at+int64(c.locs[page].CompressedPageSize))
	if err != nil {
		return err
	}
	h, n, err := c.header(b)
	if err != nil {
		return c.bad(at, "header: %w", err)
	}
	body := b[n:]
	v2 := &h.DataPageHeaderV2.V
	first, end := c.pageRange(page)
	rows := int(end - first)
	levels := int(v2.DefinitionLevelsByteLength)
	if h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid && c.col.level != nil {
		if err := c.decodeNested(&h, body, rows); err != nil {
			return c.bad(at, "%w", err)
		}
		c.first, c.current = first, page
		return nil
	}
	if h.Type != format.DataPageV2 || !h.DataPageHeaderV2.Valid || int(v2.NumValues) != rows || int(h.CompressedPageSize) != len(body) ||
		v2.RepetitionLevelsByteLength != 0 || levels < 0 || levels > len(body) || v2.NumNulls < 0 || int(v2.NumNulls) > rows {
		return c.bad(at, "a header that doesn't fit: %d values for %d rows, %d bytes of %d", v2.NumValues, rows, h.CompressedPageSize, len(body))
	}
	v := vector{n: rows, phys: c.col.phys}
	if v2.NumNulls > 0 {
		if v.valid, err = decodeBits(body[:levels], rows); err != nil {
			return c.bad(at, "definition levels: %w", err)
		}
	}
	values := int(rows) - int(v2.NumNulls)
	size := int(h.UncompressedPageSize) - levels
	if size < 0 {
		return c.bad(at, "an uncompressed size of %d", h.UncompressedPageSize)
	}
	body = body[levels:]
	compressed := !(v2.IsCompressed.Valid && !v2.IsCompressed.V) && c.meta.Codec != format.Uncompressed
	if !compressed && len(body) != size {
		return c.bad(at, "%d bytes instead of %d", len(body), size)
	}
	switch v2.Encoding {
	case format.Plain:
		err = c.plain(&v, body, size, values, compressed)
	//lint:ignore SA1019 older writers still name it so
	case format.RLEDictionary, format.PlainDictionary:
		err = c.coded(&v, body, size, values, compressed)
	case format.RLE:
		err = c.runs(&v, body, size, values, compressed)
	default:
		err = fault.Bugf("encoding %s", v2.Encoding)
	}
	if err != nil {
		return c.bad(at, "%w", err)
	}
	c.vec, c.first, c.current = v, first, page
	return nil
}

// unpack decompresses body to size bytes, in memory that is free to keep when
// keep, 8-byte aligned, with some slack behind.
func (c *chunkReader) unpack(body []byte, size int, compressed, keep bool) ([]byte, error) {
	if keep && !compressed && size >= 16 {
		// append doesn't clear the memory before it is overwritten. Memory of
		// 16 bytes and more is 8-byte aligned.
		return append([]byte(nil), body...), nil
	}
	words := (size+7)/8 + decodeSlack/8
	var mem []uint64
	if keep {
		mem = make([]uint64, words)
	} else {
		if cap(c.scratch.values) < words {
			c.scratch.values = make([]uint64, words)
		}
		mem = c.scratch.values[:words]
	}
	out := unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), words*8)[:size]
	if !compressed {
		copy(out, body)
		return out, nil
	}
	got, err := c.codec.Decode(out, body)
	if err != nil {
		return nil, err
	}
	if len(got) != size {
		return nil, fault.Bugf("%d bytes after decompression instead of %d", len(got), size)
	}
	if size > 0 && &got[0] != &out[0] {
		copy(out, got)
	}
	return out, nil
}

// plain decodes a page of plain values.
func (c *chunkReader) plain(v *vector, body []byte, size, values int, compressed bool) error {
	// Text is copied apart from its lengths, 128-bit numbers turned: their
	// page needn't be kept. Nor need values that nulls are put between.
	direct := v.valid == nil && (c.col.phys.isInteger() || c.col.phys == physFloat || c.col.phys == physDouble || c.col.phys == physBool)
	raw, err := c.unpack(body, size, compressed, c.o.keep && direct)
	if err != nil {
		return err
	}
	if width := c.col.phys.width(); width > 0 && size != width*values {
		return fault.Bugf("%d bytes for %d values of %d bytes", size, values, width)
	}
	switch c.col.phys {
	case physBool:
		if size < (values+7)/8 {
			return fault.Bugf("%d bytes for %d booleans", size, values)
		}
		v.bits = raw
		if v.valid != nil {
			v.bits = spreadBits(raw, v.valid, v.n)
		}
	case physInt32:
		v.i32 = spread(cast[int32](raw), v.valid, v.n)
	case physInt64:
		v.i64 = spread(cast[int64](raw), v.valid, v.n)
	case physFloat:
		v.f32 = spread(cast[float32](raw), v.valid, v.n)
	case physDouble:
		v.f64 = spread(cast[float64](raw), v.valid, v.n)
	case physFixed16:
		v.wide = make([]decimal128.Num, v.n)
		j := 0
		for i := range v.wide {
			if v.valid != nil && v.valid[i>>3]>>(i&7)&1 == 0 {
				continue
			}
			b := raw[16*j:]
			v.wide[i] = decimal128.New(int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:16]))
			j++
		}
	case physBytes:
		if c.o.keep {
			v.offsets, v.data, err = splitText(raw, v.valid, v.n, values, nil, nil)
			break
		}
		s := c.scratch
		v.offsets, v.data, err = splitText(raw, v.valid, v.n, values, s.ends, s.text)
		s.ends, s.text = v.offsets, v.data
	}
	return err
}

// width returns the bytes of a plain value; 0 for booleans and text.
func (p physical) width() int {
	switch p {
	case physInt32, physFloat:
		return 4
	case physInt64, physDouble:
		return 8
	case physFixed16:
		return 16
	}
	return 0
}

// cast views bytes, 8-byte aligned, as numbers.
func cast[T int32 | int64 | float32 | float64](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(t)))
}

// spread returns n values with those of v at the valid places; v itself
// without nulls.
func spread[T any](v []T, valid []byte, n int) []T {
	if valid == nil {
		return v
	}
	out := make([]T, n)
	spreadInto(out, v, valid)
	return out
}

func spreadInto[T any](out, v []T, valid []byte) {
	j := 0
	for at := 0; at < len(out); at += 8 {
		b := valid[at>>3]
		if at+8 <= len(out) && b == 0xFF {
			copy(out[at:at+8], v[j:j+8])
			j += 8
			continue
		}
		for ; b != 0; b &= b - 1 {
			if i := at + bits.TrailingZeros8(b); i < len(out) {
				out[i] = v[j]
				j++
			}
		}
	}
}

func spreadBits(raw, valid []byte, n int) []byte {
	out := make([]byte, (n+7)/8)
	j := 0
	for i := range n {
		if valid[i>>3]>>(i&7)&1 != 0 {
			out[i>>3] |= raw[j>>3] >> (j & 7) & 1 << (i & 7)
			j++
		}
	}
	return out
}

// splitText parts plain text, each value after its length, into offsets and
// data, for which it takes the given memory if that is enough.
func splitText(raw, valid []byte, n, values int, offsets []int32, data []byte) ([]int32, []byte, error) {
	size := len(raw) - 4*values
	if size < 0 || size > math.MaxInt32 {
		return nil, nil, fault.Bugf("%d bytes for %d values of text", len(raw), values)
	}
	if cap(offsets) <= n {
		offsets = make([]int32, n+1)
	}
	if offsets = offsets[:n+1]; cap(data) < size {
		data = make([]byte, size)
	}
	offsets[0], data = 0, data[:size]
	at := 0
	for i := range n {
		if valid == nil || valid[i>>3]>>(i&7)&1 != 0 {
			if len(raw) < 4 {
				return nil, nil, fault.Bugf("text ends within value %d", i)
			}
			length := int(binary.LittleEndian.Uint32(raw))
			if length > len(raw)-4 || length > len(data)-at {
				return nil, nil, fault.Bugf("value %d has %d bytes of %d", i, length, len(raw)-4)
			}
			copy(data[at:], raw[4:4+length])
			at += length
			raw = raw[4+length:]
		}
		offsets[i+1] = int32(at)
	}
	return offsets, data[:at], nil
}

// codes decodes a page of dictionary codes: text stays codes, numbers are
// looked up.
func (c *chunkReader) coded(v *vector, body []byte, size, values int, compressed bool) error {
	if c.dict == nil {
		return fault.Bugf("dictionary codes without a dictionary")
	}
	raw := body
	var err error
	if compressed {
		if raw, err = c.unpack(body, size, true, false); err != nil {
			return err
		}
	}
	text := c.col.phys == physBytes
	keep := c.o.keep && text
	codes := c.scratch.codes
	if keep {
		codes = nil
	}
	// Unpacking works in blocks of 8 values, a whole run at a time.
	if cap(codes) < values+64 {
		codes = make([]int32, 0, values+64)
	}
	codes, err = unpackCodes(codes[:0], raw, values)
	if err != nil {
		return err
	}
	if !keep {
		c.scratch.codes = codes
	}
	codes = codes[:values]
	if !below(codes, c.dict.n) {
		return fault.Bugf("a code beyond the dictionary's %d values", c.dict.n)
	}
	switch {
	case keep && text:
		v.codes, v.dict = spread(codes, v.valid, v.n), c.dict
	case text || c.o.codes:
		v.codes, v.dict = codes, c.dict
		if v.valid != nil {
			if cap(c.scratch.spread) < v.n {
				c.scratch.spread = make([]int32, max(v.n, stripeRows))
			}
			v.codes = c.scratch.spread[:v.n]
			clear(v.codes)
			spreadInto(v.codes, codes, v.valid)
		}
	case c.col.phys == physInt32:
		v.i32 = lookUp(c.dict.i32, codes, v.valid, v.n)
	case c.col.phys == physInt64:
		v.i64 = lookUp(c.dict.i64, codes, v.valid, v.n)
	default:
		return fault.Bugf("a dictionary of %s", c.col.typ)
	}
	return nil
}

// below reports whether all codes are in [0, n).
func below(codes []int32, n int) bool {
	// The highest bit is set in a code that is negative, and in n-1 - code when
	// one that isn't is too large: one OR a code instead of a comparison.
	last := uint32(n - 1)
	var a, b, c, d uint32
	i := 0
	for ; i+8 <= len(codes); i += 8 {
		p := (*[8]int32)(codes[i:])
		a |= last - uint32(p[0]) | uint32(p[0])
		b |= last - uint32(p[1]) | uint32(p[1])
		c |= last - uint32(p[2]) | uint32(p[2])
		d |= last - uint32(p[3]) | uint32(p[3])
		a |= last - uint32(p[4]) | uint32(p[4])
		b |= last - uint32(p[5]) | uint32(p[5])
		c |= last - uint32(p[6]) | uint32(p[6])
		d |= last - uint32(p[7]) | uint32(p[7])
	}
	for ; i < len(codes); i++ {
		a |= last - uint32(codes[i]) | uint32(codes[i])
	}
	return int32(a|b|c|d) >= 0
}

func lookUp[T any](dict []T, codes []int32, valid []byte, n int) []T {
	out := make([]T, len(codes))
	for i, code := range codes {
		out[i] = dict[code]
	}
	return spread(out, valid, n)
}

// unpackCodes decodes bit-packed and run-length coded codes, after their width.
func unpackCodes(dst []int32, raw []byte, n int) ([]int32, error) {
	if n == 0 {
		return dst, nil
	}
	if len(raw) == 0 || raw[0] > 32 {
		return nil, fault.Bugf("no width of codes")
	}
	if raw[0] == 0 {
		clear(dst[:n])
		return dst[:n], nil
	}
	e := rle.Encoding{BitWidth: int(raw[0])}
	dst, err := e.DecodeInt32(dst, raw[1:])
	if err != nil {
		return nil, err
	}
	if len(dst) < n {
		return nil, fault.Bugf("%d codes for %d values", len(dst), n)
	}
	return dst, nil
}

// runs decodes booleans in run-length coding.
func (c *chunkReader) runs(v *vector, body []byte, size, values int, compressed bool) error {
	if c.col.phys != physBool {
		return fault.Bugf("run lengths of %s", c.col.typ)
	}
	raw, err := c.unpack(body, size, compressed, false)
	if err != nil {
		return err
	}
	if len(raw) < 4 || int(binary.LittleEndian.Uint32(raw)) != len(raw)-4 {
		return fault.Bugf("%d bytes of booleans", len(raw))
	}
	if v.bits, err = decodeBits(raw[4:], values); err != nil {
		return err
	}
	if v.valid != nil {
		v.bits = spreadBits(v.bits, v.valid, v.n)
	}
	return nil
}

// decodeBits decodes Parquet's hybrid of runs and packed groups with one bit a
// value into a bitmap of n bits.
func decodeBits(b []byte, n int) ([]byte, error) {
	// Whole words, so that masks can be read from it 64 bits at a time.
	out := make([]byte, (n+63)/64*8)
	at := 0
	for at < n {
		u, k := binary.Uvarint(b)
		if k <= 0 {
			return nil, fault.Bugf("run lengths end after %d of %d values", at, n)
		}
		b = b[k:]
		if u&1 != 0 { // groups of 8 values, one byte each
			groups := int(min(u>>1, uint64(len(b))))
			if groups == 0 {
				return nil, fault.Bugf("packed bits end after %d of %d values", at, n)
			}
			for _, x := range b[:groups] {
				out[at>>3] |= x << (at & 7)
				if at&7 != 0 && at>>3+1 < len(out) {
					out[at>>3+1] |= x >> (8 - at&7)
				}
				if at += 8; at >= n {
					break
				}
			}
			b = b[groups:]
			continue
		}
		run := int(min(u>>1, uint64(n-at)))
		if len(b) == 0 || run == 0 {
			return nil, fault.Bugf("a run ends after %d of %d values", at, n)
		}
		if b[0]&1 != 0 {
			for i := at; i < at+run; {
				if i&7 == 0 && i+8 <= at+run {
					out[i>>3] = 0xFF
					i += 8
					continue
				}
				out[i>>3] |= 1 << (i & 7)
				i++
			}
		}
		b = b[1:]
		at += run
	}
	// Bits past n would count as values.
	if r := n & 7; r != 0 {
		out[n>>3] &= 1<<r - 1
		clear(out[n>>3+1:])
	} else {
		clear(out[n>>3:])
	}
	return out, nil
}
