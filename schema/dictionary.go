package schema

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cespare/xxhash/v2"
)

const (
	// maxDictionary and maxDictionaryBytes end dictionary coding for good: beyond,
	// the dictionary no longer sits in the second-level cache.
	maxDictionary      = 1 << 14
	maxDictionaryBytes = 1 << 19
	// dictionaryShare: at most one value in so many may be new in an array.
	dictionaryShare = 4
)

// dictionary gives codes to texts: an open-addressing table over an
// append-only list of values, so that an array that was handed out shares its
// memory and never sees it change.
type dictionary struct {
	table   []slot // a power of two, at most half full
	offsets []int32
	text    []byte
	fresh   int           // values added since the last array
	made    *array.String // of all values, nil when some came since
}

type slot struct {
	hash uint32
	code int32 // code+1; 0 = free
}

func newDictionary() *dictionary {
	return &dictionary{table: make([]slot, 256), offsets: []int32{0}}
}

func (d *dictionary) len() int { return len(d.offsets) - 1 }

func (d *dictionary) value(code int32) []byte { return d.text[d.offsets[code]:d.offsets[code+1]] }

// code returns the code of s, which it adds if need be; false: the dictionary
// is full.
func (d *dictionary) code(s []byte) (int32, bool) {
	h := uint32(xxhash.Sum64(s))
	mask := uint32(len(d.table) - 1)
	i := h & mask
	for {
		e := d.table[i]
		if e.code == 0 {
			break
		}
		if e.hash == h && string(d.value(e.code-1)) == string(s) {
			return e.code - 1, true
		}
		i = (i + 1) & mask
	}
	if d.len() >= maxDictionary || len(d.text)+len(s) > maxDictionaryBytes {
		return 0, false
	}
	d.text = append(d.text, s...)
	d.offsets = append(d.offsets, int32(len(d.text)))
	d.made = nil
	d.fresh++
	code := int32(d.len())
	d.table[i] = slot{h, code}
	if 2*d.len() > len(d.table) {
		d.grow()
	}
	return code - 1, true
}

func (d *dictionary) grow() {
	old := d.table
	d.table = make([]slot, 2*len(old))
	mask := uint32(len(d.table) - 1)
	for _, e := range old {
		if e.code == 0 {
			continue
		}
		i := e.hash & mask
		for d.table[i].code != 0 {
			i = (i + 1) & mask
		}
		d.table[i] = e
	}
}

// pays reports whether codes are worth it after an array of so many values.
func (d *dictionary) pays(values int) bool { return values < 64 || d.fresh*dictionaryShare <= values }

// array returns codes with the dictionary.
func (d *dictionary) array(codes []int32, valid *memory.Buffer, nulls int) arrow.Array {
	if d.made == nil {
		n := d.len()
		d.made = array.NewStringData(array.NewData(arrow.BinaryTypes.String, n, []*memory.Buffer{nil,
			memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(d.offsets[: n+1 : n+1])),
			memory.NewBufferBytes(d.text[:len(d.text):len(d.text)])}, nil, 0, 0))
	}
	d.fresh = 0
	t := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	indices := array.NewInt32Data(array.NewData(arrow.PrimitiveTypes.Int32, len(codes), []*memory.Buffer{valid,
		memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(codes))}, nil, nulls, 0))
	return array.NewDictionaryArray(t, indices, d.made)
}
