package segment

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/parquet-go/parquet-go/format"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
)

// dictionary is the dictionary of a column chunk or of an array. Scans share
// it: what isn't set when it is made is made under its lock.
type dictionary struct {
	n    int
	phys physical
	i32  []int32
	i64  []int64

	// Text as it lies in the page, each value after its length. To look up one
	// value it is enough to walk over it; offsets and text are made of it when
	// somebody needs them, the index when one value after the other is looked up.
	raw []byte

	mu      sync.Mutex
	offsets []int32
	text    []byte
	data    *array.Data // as Arrow sees it
	walks   int
	seed    maphash.Seed
	index   []int32 // codes plus 1 by hash of the value; a power of two of them
}

// maxWalks is how often a dictionary is walked over before it gets an index.
const maxWalks = 2

// size is about what the dictionary takes in memory once all is made.
func (d *dictionary) size() int64 {
	return int64(4*len(d.i32) + 8*len(d.i64) + 2*len(d.raw) + 20*d.n + 200)
}

// values returns the text as offsets and data.
func (d *dictionary) values() (offsets []int32, text []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.split()
	return d.offsets, d.text, err
}

func (d *dictionary) split() (err error) {
	if d.offsets == nil {
		if d.offsets, d.text, err = splitText(d.raw, nil, d.n, d.n, nil, nil); err == nil {
			d.raw = nil
		}
	}
	return err
}

// arrow returns the one Arrow form of a text dictionary, for its identity
// tells others whether the dictionary changed.
func (d *dictionary) arrow() (*array.Data, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.data == nil {
		if err := d.split(); err != nil {
			return nil, err
		}
		d.data, _ = batch.NewText(arrow.BinaryTypes.String, d.offsets, d.text, nil).Data().(*array.Data)
	}
	return d.data, nil
}

// find returns the code of a text value, -1 if it isn't there.
func (d *dictionary) find(v []byte) (int32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.index == nil && d.walks < maxWalks {
		d.walks++
		if d.raw != nil {
			return walkText(d.raw, d.n, v)
		}
		for i := range d.n {
			if from, to := d.offsets[i], d.offsets[i+1]; int(to-from) == len(v) && string(d.text[from:to]) == string(v) {
				return int32(i), nil
			}
		}
		return -1, nil
	}
	if err := d.makeIndex(); err != nil {
		return 0, err
	}
	mask := uint64(len(d.index) - 1)
	for i := maphash.Bytes(d.seed, v) & mask; d.index[i] != 0; i = (i + 1) & mask {
		code := d.index[i] - 1
		if bytes.Equal(d.text[d.offsets[code]:d.offsets[code+1]], v) {
			return code, nil
		}
	}
	return -1, nil
}

func (d *dictionary) makeIndex() error {
	if d.index != nil {
		return nil
	}
	if err := d.split(); err != nil {
		return err
	}
	size := 8
	for size < 2*d.n {
		size *= 2
	}
	d.seed = maphash.MakeSeed()
	index := make([]int32, size)
	for code := range d.n {
		i := maphash.Bytes(d.seed, d.text[d.offsets[code]:d.offsets[code+1]]) & uint64(size-1)
		for index[i] != 0 {
			i = (i + 1) & uint64(size-1)
		}
		index[i] = int32(code) + 1
	}
	d.index = index
	return nil
}

// walkText returns the position of a value in plain text of n values, or -1.
func walkText(raw []byte, n int, v []byte) (int32, error) {
	found := int32(-1)
	for i := range n {
		if len(raw) < 4 {
			return 0, fault.Bugf("text ends within value %d", i)
		}
		length := binary.LittleEndian.Uint32(raw)
		if uint64(length) > uint64(len(raw)-4) {
			return 0, fault.Bugf("value %d has %d bytes of %d", i, length, len(raw)-4)
		}
		if int(length) == len(v) && found < 0 && string(raw[4:4+length]) == string(v) {
			found = int32(i) // the rest is only checked
		}
		raw = raw[4+length:]
	}
	return found, nil
}

// openDictionary returns the chunk's dictionary before any page is read, from
// the cache if it is there.
func (c *chunkReader) openDictionary() (err error) {
	if c.dict != nil {
		return nil
	}
	at := cacheKey{c.r, c.group, c.leaf}
	if c.dict = c.r.cache.dictionary(at); c.dict != nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = c.bad(c.meta.DictionaryPageOffset, "%v", p)
		}
	}()
	if c.dict, err = c.loadDictionary(); err == nil {
		c.r.cache.add(at, c.dict)
	}
	return err
}

// loadDictionary decodes the chunk's dictionary page.
func (c *chunkReader) loadDictionary() (*dictionary, error) {
	at := c.meta.DictionaryPageOffset
	stop := c.locs[0].Offset // data pages follow the dictionary
	if at >= stop {
		return nil, c.bad(at, "a dictionary behind the data, at byte %d", stop)
	}
	b, err := c.fetch(at, stop)
	if err != nil {
		return nil, err
	}
	h, n, err := c.header(b)
	if err != nil {
		return nil, c.bad(at, "header: %w", err)
	}
	p := &h.DictionaryPageHeader
	if h.Type != format.DictionaryPage || !p.Valid || p.V.NumValues < 0 || h.UncompressedPageSize < 0 ||
		h.CompressedPageSize < 0 || int(h.CompressedPageSize) != len(b)-n {
		return nil, c.bad(at, "a dictionary header that doesn't fit: %d bytes of %d", h.CompressedPageSize, len(b)-n)
	}
	raw, err := c.unpack(b[n:], int(h.UncompressedPageSize), c.meta.Codec != format.Uncompressed, true)
	if err != nil {
		return nil, c.bad(at, "%w", err)
	}
	d := &dictionary{n: int(p.V.NumValues), phys: c.col.phys}
	if width := c.col.phys.width(); width > 0 && len(raw) != width*d.n {
		return nil, c.bad(at, "%d bytes for %d values", len(raw), d.n)
	}
	switch c.col.phys {
	case physInt32:
		d.i32 = cast[int32](raw)
	case physInt64:
		d.i64 = cast[int64](raw)
	case physBytes:
		// At least 4 bytes a value: this bounds what is allocated.
		if len(raw) < 4*d.n {
			return nil, c.bad(at, "%d bytes for %d values", len(raw), d.n)
		}
		d.raw = raw
	default:
		return nil, c.bad(at, "a dictionary of %s", c.col.typ)
	}
	return d, nil
}
