package region

import (
	"encoding/binary"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
	"github.com/skepdb/skep/storage/rowkey"
)

// implicitIDs gives the rows that an attempt stages in a keyless, partitioned
// table their keys: within a partition, ordinals count up. As long as the
// partitions come in ascending order, keys do, and rows stream into their file;
// otherwise they are sorted like those of a keyed table. Either way an attempt's
// rows of a partition are one run.
type implicitIDs struct {
	o       storage.StageOptions
	next    map[int32]uint64 // ordinal by partition
	last    int32            // partition of the latest row; 0: none
	sorting bool             // partitions don't come in order
}

func newImplicitIDs(o storage.StageOptions) *implicitIDs {
	return &implicitIDs{o: o, next: map[int32]uint64{}}
}

// ascend reports whether all partitions so far, these included, came in order.
func (s *implicitIDs) ascend(ids []int32, sel []int32) bool {
	if s.sorting {
		return false
	}
	last := uint32(s.last)
	for k := range rowsIn(ids, sel) {
		id := uint32(ids[rowAt(sel, k)])
		if id < last {
			return false
		}
		last = id
	}
	return true
}

func rowsIn(ids, sel []int32) int {
	if sel != nil {
		return len(sel)
	}
	return len(ids)
}

func rowAt(sel []int32, k int) int {
	if sel != nil {
		return int(sel[k])
	}
	return k
}

// keys returns the keys of the rows at sel (nil: of all).
func (s *implicitIDs) keys(ids []int32, sel []int32) segment.Keys {
	n := rowsIn(ids, sel)
	const size = 4 + rowkey.ImplicitLen
	out := segment.Keys{Offsets: make([]uint32, 1, n+1), Data: make([]byte, 0, n*size)}
	stripe := rowkey.Stripe(s.o.Task)
	for k := range n {
		id := ids[rowAt(sel, k)]
		out.Data = rowkey.AppendPartition(out.Data, storage.PartitionID(id))
		out.Data = rowkey.AppendImplicit(out.Data, stripe, uint64(s.o.Txn), uint32(s.o.Task), s.next[id])
		out.Offsets = append(out.Offsets, uint32(len(out.Data)))
		s.next[id]++
		s.last = id
	}
	return out
}

// stopStreaming goes over to sorting: what was written is a sorted run.
func (w *stageWriter) stopStreaming() error {
	if w.ids.sorting {
		return nil
	}
	w.ids.sorting = true
	if err := w.finishFile(); err != nil {
		return err
	}
	w.runs, w.files = append(w.runs, w.files...), nil
	w.rows, w.last = 0, nil
	return nil
}

// runList are runs of implicit row ids, in the order of the ids.
type runList []segment.Run

// append adds a row id of a partitioned table.
func (l *runList) append(key storage.Key) error {
	if len(key) != 4+rowkey.ImplicitLen {
		return fault.Bugf("%x is no row id of a partitioned table", []byte(key))
	}
	stripe, load, task, ordinal, _ := rowkey.ParseImplicit(key[4:])
	id := storage.PartitionID(binary.BigEndian.Uint32(key))
	if n := len(*l); n > 0 {
		r := &(*l)[n-1]
		if r.Partition == id && r.Stripe == stripe && r.Load == load && r.Task == task && r.Ordinal+uint64(r.Count) == ordinal {
			r.Count++
			return nil
		}
	}
	*l = append(*l, segment.Run{Partition: id, Stripe: stripe, Load: load, Task: task, Ordinal: ordinal, Count: 1})
	return nil
}

// append adds rows in key order.
func (f *stageFile) append(b *batch.Batch, keys segment.Keys, t *storage.Table) error {
	if t.Keyed() {
		return f.w.Append(segment.Rows{Batch: b, Keys: keys})
	}
	for i := range keys.Len() {
		if err := f.runs.append(keys.At(i)); err != nil {
			return err
		}
	}
	return f.w.Append(segment.Rows{Batch: b})
}
