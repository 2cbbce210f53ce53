package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/rowkey"
)

// Region is a contiguous key range of a table, and what is in it.
type Region struct {
	ID       uint64
	Start    string // decoded key columns, comma-separated; "" is the lowest key
	End      string // exclusive; "" is above the highest key
	Worker   string
	Folder   string // the data folder it is in
	Rows     int64  // versions, an estimate where some are in the delta
	Bytes    int64  // in segment files
	Delta    int64  // bytes written since the last flush
	Segments int
}

// Regions returns the table's regions, by key.
func (t *Table) Regions(ctx context.Context) ([]Region, error) {
	stats, err := t.client.engine.Store().Regions(ctx, &t.def.Table)
	if err != nil {
		return nil, err
	}
	out := make([]Region, len(stats))
	for i, s := range stats {
		out[i] = Region{ID: uint64(s.ID), Start: t.showKey(s.Range.Start), End: t.showKey(s.Range.End), Worker: string(s.Worker),
			Folder: t.client.engine.FolderOf(s.Region), Rows: s.Rows, Bytes: s.Bytes, Delta: s.DeltaBytes, Segments: s.Segments}
	}
	return out, nil
}

// showKey returns a region's bound as people write it.
func (t *Table) showKey(k storage.Key) string {
	if len(k) == 0 {
		return ""
	}
	if !t.def.Keyed() {
		return fmt.Sprintf("stripe %d", int(k[0])<<8|int(append(k, 0)[1]))
	}
	values, err := t.encoder().Decode(k)
	if err != nil {
		return fmt.Sprintf("0x%x", []byte(k))
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = v.Text()
	}
	return strings.Join(parts, ",")
}

func (t *Table) encoder() *rowkey.Encoder {
	var columns []rowkey.Column
	for i, c := range t.def.KeyColumns() {
		columns = append(columns, rowkey.Column{Type: c.Type, Desc: t.def.Key[i].Desc})
	}
	return rowkey.NewEncoder(columns)
}

// Split cuts a region in two: at a key, or at the median of its data when key
// is nil. It returns the two.
func (t *Table) Split(ctx context.Context, region uint64, key Key) ([2]uint64, error) {
	var at storage.Key
	if key != nil {
		if err := t.keyed("split at a key"); err != nil {
			return [2]uint64{}, err
		}
		var err error
		if at, err = t.encode(key, false); err != nil {
			return [2]uint64{}, err
		}
	}
	two, err := t.client.engine.Store().Split(ctx, &t.def.Table, storage.RegionID(region), at)
	if err != nil {
		return [2]uint64{}, fmt.Errorf("split region %d of %s: %w", region, t.Name(), err)
	}
	return [2]uint64{uint64(two[0].ID), uint64(two[1].ID)}, nil
}

// Flush writes what was put since the last flush to segment files.
func (t *Table) Flush(ctx context.Context) error {
	if err := t.client.engine.Store().Flush(ctx, &t.def.Table); err != nil {
		return fmt.Errorf("flush %s: %w", t.Name(), err)
	}
	return nil
}

// Check reads everything that belongs to the table and returns the faults that
// it finds: ranges that don't tile, files that are missing or changed.
func (t *Table) Check(ctx context.Context) ([]string, error) {
	problems, err := t.client.engine.Store().Check(ctx, &t.def.Table)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", t.Name(), err)
	}
	out := make([]string, len(problems))
	for i, p := range problems {
		out[i] = p.String()
	}
	return out, nil
}

// Count returns the number of rows, of one snapshot.
func (t *Table) Count(ctx context.Context) (int64, error) {
	rows, err := t.client.Query(ctx, "SELECT count(*) FROM "+quoteName(t.def.Database)+"."+quoteName(t.def.TableName))
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for row, err := range rows.All(ctx) {
		if err != nil {
			return 0, err
		}
		if n, ok := row[0].(int64); ok {
			return n, nil
		}
	}
	return 0, fault.Bugf("count of %s: no number came back", t.Name())
}
