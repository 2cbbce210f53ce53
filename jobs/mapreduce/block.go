package mapreduce

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// ShuffleFields are the columns in which records move from maps to reduces: the
// bytes that their codecs make.
func ShuffleFields() []schema.Field {
	return []schema.Field{{Name: "key", Type: schema.BinaryType}, {Name: "value", Type: schema.BinaryType}}
}

// block is some records of one partition. It is immutable once handed on, and
// its memory is never used again for something else: keys and values that were
// decoded from it share it.
type block struct {
	part       int
	keys, vals texts
	n          int
}

// texts are byte strings side by side: the i-th is data[off[i]:off[i+1]].
type texts struct {
	off  []int32
	data []byte
}

func (t *texts) at(i int) []byte { return t.data[t.off[i]:t.off[i+1]:t.off[i+1]] }

// bytes is about what the block takes.
func (b *block) bytes() int64 {
	return int64(b.keys.off[b.n]-b.keys.off[0]) + int64(b.vals.off[b.n]-b.vals.off[0]) + 8*int64(b.n)
}

// batch returns the block as a batch of ShuffleFields.
func (b *block) batch() *batch.Batch {
	t := schema.BinaryType.Arrow()
	return &batch.Batch{Len: b.n, Columns: []arrow.Array{
		batch.NewText(t, b.keys.off[:b.n+1], b.keys.data, nil), batch.NewText(t, b.vals.off[:b.n+1], b.vals.data, nil)}}
}

// blockOf is the inverse of batch.
func blockOf(b *batch.Batch) (*block, error) {
	if len(b.Columns) != 2 {
		return nil, fault.Bugf("mapreduce: shuffled records have %d columns", len(b.Columns))
	}
	b = batch.Compact(b)
	out := &block{n: b.Len}
	for i, to := range []*texts{&out.keys, &out.vals} {
		a := b.Columns[i]
		if a.DataType().ID() != arrow.BINARY || a.NullN() > 0 || a.Len() != b.Len {
			return nil, fault.Bugf("mapreduce: column %d of shuffled records is %d values of %s", i, a.Len(), a.DataType())
		}
		d := a.Data()
		if bufs := d.Buffers(); b.Len > 0 {
			to.off = arrow.Int32Traits.CastFromBytes(bufs[1].Bytes())[d.Offset() : d.Offset()+b.Len+1]
			if bufs[2] != nil {
				to.data = bufs[2].Bytes()
			}
		} else {
			to.off = []int32{0}
		}
	}
	return out, nil
}

// What a block has at most; a record that is larger is one alone.
const (
	blockRows  = batch.MaxRows
	blockBytes = 1 << 20
)

// builder makes blocks of records that come in order, and hands them on.
type builder struct {
	to   func(*block) error
	part int
	keys texts
	vals texts
}

// add takes a record; its bytes are copied.
func (b *builder) add(part int, key, val []byte) error {
	if n := len(b.keys.off) - 1; n > 0 && (part != b.part || n == blockRows || len(b.keys.data)+len(b.vals.data)+len(key)+len(val) > blockBytes) {
		if err := b.flush(); err != nil {
			return err
		}
	}
	if b.keys.off == nil {
		b.keys.off, b.vals.off = append(make([]int32, 0, 1024), 0), append(make([]int32, 0, 1024), 0)
	}
	b.part = part
	b.keys.data = append(b.keys.data, key...)
	b.vals.data = append(b.vals.data, val...)
	b.keys.off = append(b.keys.off, int32(len(b.keys.data)))
	b.vals.off = append(b.vals.off, int32(len(b.vals.data)))
	return nil
}

// flush hands on what there is.
func (b *builder) flush() error {
	n := len(b.keys.off) - 1
	if n <= 0 {
		return nil
	}
	out := &block{part: b.part, keys: b.keys, vals: b.vals, n: n}
	b.keys, b.vals = texts{}, texts{}
	return b.to(out)
}
