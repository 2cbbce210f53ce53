package table

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// The settings that bound dynamic partitions, for messages.
const (
	settingMost       = "hive.exec.max.dynamic.partitions"
	settingMostOfTask = "hive.exec.max.dynamic.partitions.pernode"
)

func tooMany(t *storage.Table, n int, who string, most int, setting string) error {
	return &fault.Error{Class: fault.User, SQLState: fault.StateBadData,
		Message: fault.Userf("%s would write %d or more partitions of %s, which is more than %s = %d", who, n, t.Name, setting, most).Error(),
		Hint:    "raise the setting if that is meant"}
}

// partitioner gives rows the ids of their partitions. It asks the catalogue once
// for each partition.
type partitioner struct {
	catalog catalog.Store
	spec    Spec
	encoder *rowkey.Encoder
	ids     map[string]storage.PartitionID // by the encoded values
	seen    map[storage.PartitionID]bool
	// constant is the column of ids of the last batch, when it was all one id.
	constant arrow.Array
	last     storage.PartitionID
}

func newPartitioner(c catalog.Store, spec Spec) *partitioner {
	key := make([]rowkey.Column, len(spec.Partitions.Columns))
	for i, col := range spec.Partitions.Columns {
		key[i] = rowkey.Column{Type: col.Type}
	}
	return &partitioner{catalog: c, spec: spec, encoder: rowkey.NewEncoder(key), ids: map[string]storage.PartitionID{}, seen: map[storage.PartitionID]bool{}}
}

func (p *partitioner) written() []storage.PartitionID {
	out := make([]storage.PartitionID, 0, len(p.seen))
	for id := range p.seen {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// withIDs replaces the partition columns, which are last, by a column of ids,
// which is first.
func (p *partitioner) withIDs(ctx context.Context, b *batch.Batch) (*batch.Batch, error) {
	stored := len(p.spec.Table.Columns)
	cols := b.Columns[stored:]
	bound, err := p.encoder.Bind(cols)
	if err != nil {
		return nil, err
	}
	n := b.Rows()
	data, offsets := bound.AppendAll(nil, make([]uint32, 0, n+1), b.Sel, b.Len)
	ids := make([]int32, b.Len)
	var missing []int32 // rows, one of each partition that isn't known yet
	pending := map[string]bool{}
	row := func(k int) int32 {
		if b.Sel != nil {
			return b.Sel[k]
		}
		return int32(k)
	}
	for k := range n {
		key := data[offsets[k]:offsets[k+1]]
		if _, ok := p.ids[string(key)]; !ok && !pending[string(key)] {
			pending[string(key)] = true
			missing = append(missing, row(k))
		}
	}
	if missing != nil {
		if err := p.ask(ctx, cols, missing); err != nil {
			return nil, err
		}
	}
	first, same := p.ids[string(data[offsets[0]:offsets[1]])], true
	for k := range n {
		id := p.ids[string(data[offsets[k]:offsets[k+1]])]
		if id != first {
			same = false
		}
		ids[row(k)] = int32(id)
	}
	out := *b
	column := p.constant
	if !same || column == nil || p.last != first || column.Len() < b.Len {
		column = batch.NewFixed(arrow.PrimitiveTypes.Int32, ids, nil)
		if p.constant = nil; same && b.Sel == nil {
			p.constant, p.last = column, first
		}
	}
	if column.Len() > b.Len {
		column = batch.Slice(column, 0, b.Len)
	}
	out.Columns = append([]arrow.Array{column}, b.Columns[:stored]...)
	return &out, nil
}

// ask gets the ids of the partitions of some rows.
func (p *partitioner) ask(ctx context.Context, cols []arrow.Array, rows []int32) error {
	parts := p.spec.Partitions
	values := make([][]schema.Datum, len(rows))
	for i, row := range rows {
		values[i] = make([]schema.Datum, len(cols))
		for c, a := range cols {
			v := schema.FromArrow(a, int(row), parts.Columns[c].Type)
			if kind := parts.Columns[c].Type.Kind; !v.Null && (v.S == "" || v.S == catalog.DefaultPartition) &&
				(kind == schema.String || kind == schema.Varchar || kind == schema.Char) {
				v = schema.NullOf(v.Type) // the default partition has them all
			}
			values[i][c] = v
		}
	}
	if dynamic := len(parts.Static) < len(parts.Columns); dynamic && parts.MostOfTask > 0 && len(p.ids)+len(rows) > parts.MostOfTask {
		return tooMany(p.spec.Table, len(p.ids)+len(rows), "a task", parts.MostOfTask, settingMostOfTask)
	}
	ids, err := p.catalog.PartitionIDs(ctx, p.spec.Txn, p.spec.Table.ID, values)
	if err != nil {
		return err
	}
	gathered := make([]arrow.Array, len(cols))
	for c, a := range cols {
		gathered[c] = batch.Gather(a, rows)
	}
	bound, err := p.encoder.Bind(gathered)
	if err != nil {
		return err
	}
	data, offsets := bound.AppendAll(nil, nil, nil, len(rows))
	for i, id := range ids {
		p.ids[string(data[offsets[i]:offsets[i+1]])] = id
		p.seen[id] = true
	}
	return nil
}
