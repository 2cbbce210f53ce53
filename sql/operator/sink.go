package operator

import (
	"bytes"
	"context"
	"math/bits"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/cespare/xxhash/v2"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/function"
	"github.com/skepdb/skep/sql/plan"
	"github.com/skepdb/skep/storage/rowkey"
)

// sink takes the rows of a fragment's root.
type sink interface {
	write(ctx context.Context, b *batch.Batch) error
	// finish writes what is held back.
	finish(ctx context.Context) error
}

// outputSink writes to the job's output.
type outputSink struct{ c *jobs.Context }

func (s outputSink) write(ctx context.Context, b *batch.Batch) error { return s.c.Output.Write(ctx, b) }
func (s outputSink) finish(context.Context) error                    { return nil }

// exchange writes to the shuffle. It cuts batches by partition and joins small
// pieces, so that a reader doesn't pay for the number of partitions.
type exchange struct {
	c       *jobs.Context
	choose  func(b *batch.Batch) ([]int32, error) // partition of each of b.Len rows; nil: all to 0
	pending []store                               // by partition
}

func newExchange(c *compiler, n *plan.Exchange, jc *jobs.Context) (*exchange, error) {
	partitions := jc.Stage.Partitions
	if partitions < 1 {
		return nil, fault.Bugf("stage %d has an exchange but no partitions", jc.ID.Stage)
	}
	x := &exchange{c: jc, pending: make([]store, partitions)}
	fields := n.Input.Fields()
	for i := range x.pending {
		x.pending[i].width = len(fields)
	}
	switch n.How {
	case plan.ToOne, plan.Broadcast:
		if partitions != 1 {
			return nil, fault.Bugf("stage %d: an exchange to one task with %d partitions", jc.ID.Stage, partitions)
		}
	case plan.ByHash:
		keys, err := c.compileAll(n.Keys, fields)
		if err != nil {
			return nil, err
		}
		if partitions > 1 {
			x.choose = (&hasher{keys: keys, partitions: uint64(partitions)}).partitions32
		}
	case plan.ByRegion:
		if partitions != len(n.Cuts)+1 {
			return nil, fault.Bugf("stage %d: %d partitions for %d cuts", jc.ID.Stage, partitions, len(n.Cuts))
		}
		if partitions > 1 {
			x.choose = byRegion(n, fields)
		}
	default:
		return nil, fault.Bugf("exchange of kind %d", n.How)
	}
	return x, nil
}

func (x *exchange) write(ctx context.Context, b *batch.Batch) error {
	if x.choose == nil {
		return x.put(ctx, 0, b)
	}
	b = batch.Compact(b)
	to, err := x.choose(b)
	if err != nil {
		return err
	}
	// Counting sort of the rows by partition.
	ends := make([]int32, len(x.pending)+1)
	for _, p := range to {
		ends[p+1]++
	}
	for p := range x.pending {
		ends[p+1] += ends[p]
	}
	at := slices.Clone(ends)
	order := make([]int32, len(to))
	for i, p := range to {
		order[at[p]] = int32(i)
		at[p]++
	}
	for p := range x.pending {
		if sel := order[ends[p]:ends[p+1]:ends[p+1]]; len(sel) > 0 {
			if err := x.put(ctx, p, &batch.Batch{Columns: b.Columns, Len: b.Len, Sel: sel}); err != nil {
				return err
			}
		}
	}
	return nil
}

// put sends rows to a partition, now or with later ones.
func (x *exchange) put(ctx context.Context, p int, b *batch.Batch) error {
	s := &x.pending[p]
	n := b.Rows()
	if s.rows+n > batch.MaxRows {
		if err := x.flush(ctx, p); err != nil {
			return err
		}
	}
	if n > batch.MaxRows/2 && s.rows == 0 {
		return x.send(ctx, p, batch.Compact(b))
	}
	s.add(batch.Compact(b))
	return nil
}

func (x *exchange) flush(ctx context.Context, p int) error {
	s := &x.pending[p]
	if s.rows == 0 {
		return nil
	}
	columns, err := s.concat("exchange")
	if err != nil {
		return err
	}
	b := &batch.Batch{Columns: columns, Len: s.rows}
	*s = store{width: s.width}
	return x.send(ctx, p, b)
}

func (x *exchange) send(ctx context.Context, p int, b *batch.Batch) error {
	return x.c.Shuffle.Write(ctx, p, b)
}

func (x *exchange) finish(ctx context.Context) error {
	for p := range x.pending {
		if err := x.flush(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// byRegion chooses the region that a row's key belongs to.
func byRegion(n *plan.Exchange, fields []schema.Field) func(b *batch.Batch) ([]int32, error) {
	columns := make([]rowkey.Column, len(n.KeyColumns))
	for i, k := range n.KeyColumns {
		columns[i] = rowkey.Column{Type: fields[k.Index].Type, Desc: k.Desc}
	}
	encoder := rowkey.NewEncoder(columns)
	var key []byte
	return func(b *batch.Batch) ([]int32, error) {
		arrays := make([]arrow.Array, len(n.KeyColumns))
		for i, k := range n.KeyColumns {
			arrays[i] = b.Columns[k.Index]
		}
		bound, err := encoder.Bind(arrays)
		if err != nil {
			return nil, err
		}
		out := make([]int32, b.Len)
		for i := range out {
			key = bound.Append(key[:0], i)
			at, equal := slices.BinarySearchFunc(n.Cuts, key, bytes.Compare)
			if equal { // a cut is the first key of the partition to its right
				at++
			}
			out[i] = int32(at)
		}
		return out, nil
	}
}

// hasher chooses partitions by a hash of keys that is the same in every process
// and for every encoding.
type hasher struct {
	keys       []compiled
	partitions uint64
	dicts      []hashedDictionary // by key
	bits       []uint64
}

type hashedDictionary struct {
	of     *array.Data
	hashes []uint64
}

// hashOfNull is any number; seed starts a row's hash.
const (
	hashSeed   = 0x736B6570_62656573
	hashOfNull = 0x9E3779B97F4A7C15
)

func (h *hasher) partitions32(b *batch.Batch) ([]int32, error) {
	hashes, err := h.hashes(b)
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(hashes))
	for i, x := range hashes {
		hi, _ := bits.Mul64(x, h.partitions)
		out[i] = int32(hi)
	}
	return out, nil
}

func (h *hasher) hashes(b *batch.Batch) ([]uint64, error) {
	out := make([]uint64, b.Len)
	for i := range out {
		out[i] = hashSeed
	}
	if h.dicts == nil {
		h.dicts = make([]hashedDictionary, len(h.keys))
	}
	r := rows{b.Columns, b.Len}
	for k := range h.keys {
		v, err := h.keys[k].eval(r)
		if err != nil {
			return nil, err
		}
		a := materialise(v, b.Len)
		valid := batch.Validity(a)
		isNull := func(i int) bool { return valid != nil && !batch.BitSet(valid, i) }
		add := func(i int, x uint64) {
			if isNull(i) {
				x = hashOfNull
			}
			out[i] = mix(out[i], x)
		}
		switch a.DataType().ID() {
		case arrow.NULL:
			for i := range out {
				out[i] = mix(out[i], hashOfNull)
			}
		case arrow.DECIMAL128:
			for i, x := range batch.Values[decimal128.Num](a) {
				add(i, mix(x.LowBits(), uint64(x.HighBits())))
			}
		case arrow.DICTIONARY:
			of := h.dictionary(k, a)
			for i, c := range batch.Values[int32](a) {
				if isNull(i) {
					out[i] = mix(out[i], hashOfNull)
					continue
				}
				out[i] = mix(out[i], of[c])
			}
		case arrow.STRING, arrow.BINARY:
			t := batch.TextOf(a)
			for i := range out {
				if isNull(i) {
					out[i] = mix(out[i], hashOfNull)
					continue
				}
				out[i] = mix(out[i], xxhash.Sum64(t.Bytes(i)))
			}
		case arrow.LIST, arrow.MAP, arrow.STRUCT:
			e := newEncoder(a, h.keys[k].t)
			var encoded []byte
			for i := range out {
				encoded = e.append(encoded[:0], i)
				out[i] = mix(out[i], xxhash.Sum64(encoded))
			}
		default:
			h.bits = function.Bits64(h.keys[k].t, a, h.bits[:0])
			for i, x := range h.bits {
				add(i, x)
			}
		}
	}
	return out, nil
}

// dictionary returns the hashes of the entries of a's dictionary.
func (h *hasher) dictionary(k int, a arrow.Array) []uint64 {
	d := batch.DictionaryOf(a)
	c := &h.dicts[k]
	if c.of == d {
		return c.hashes
	}
	t := batch.TextOfData(d)
	c.of, c.hashes = d, make([]uint64, d.Len())
	for i := range c.hashes {
		c.hashes[i] = xxhash.Sum64(t.Bytes(i))
	}
	return c.hashes
}
