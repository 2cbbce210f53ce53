package sql

import (
	"context"
	"fmt"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/csv"
	"github.com/skepdb/skep/inputformat/region"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/outputformat/table"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/optimizer"
	"github.com/skepdb/skep/storage"
)

// sampleRows is how many rows of files are read to find where to cut.
const sampleRows = 50_000

// NewSpecs returns the Specs of the formats in this repository.
func NewSpecs(c catalog.Store, s storage.Store) Specs { return formatSpecs{c, s} }

type formatSpecs struct {
	catalog catalog.Store
	store   storage.Store
}

// Region implements Specs.
func (formatSpecs) Region(s *optimizer.Source) inputformat.Spec {
	return region.Spec{Table: s.Table, At: s.At, Ranges: s.Ranges, Partitions: s.Partitions, PartitionColumns: s.PartitionColumns, Columns: s.Columns, Filter: s.Filter, Limit: s.Limit}
}

// Files implements Specs.
func (formatSpecs) Files(f Files) (inputformat.Spec, error) {
	spec := textSpec(f)
	if f.CSV {
		return csv.Spec{Spec: spec, Quote: f.Quote}, nil
	}
	return spec, nil
}

func textSpec(f Files) text.Spec {
	return text.Spec{Paths: f.Paths, Columns: f.Columns, Out: f.Out, Delimiter: f.Delimiter, Escape: f.Escape, Items: f.Items, MapKeys: f.MapKeys, NullText: f.NullText,
		EmptyIsNull: f.EmptyIsNull, SkipHeader: f.SkipHeader, RejectPath: f.Reject,
		OnError: map[OnError]text.OnError{Null: text.Null, Abort: text.Abort, Skip: text.Skip}[f.OnError]}
}

// Table implements Specs.
func (formatSpecs) Table(w Write) outputformat.Spec {
	s := table.Spec{Table: &w.Table.Table, Overwrite: w.Overwrite, Kind: w.Kind}
	if w.Table.Partitioned {
		s.Partitions = &table.Partitions{Columns: w.Table.PartitionColumns, Static: w.Static, Most: w.Most, MostOfTask: w.MostOfTask}
	}
	return s
}

// Cuts implements Specs.
func (s formatSpecs) Cuts(ctx context.Context, t *catalog.Table, files *Files, rows int64) ([][]byte, error) {
	if files == nil || !t.Keyed() {
		return table.Cuts(ctx, s.catalog, s.store, t, nil, max(rows, 0), 0)
	}
	// Only the key columns of the sample count.
	keys := *files
	keys.Out = schema.Columns{}
	for _, k := range t.Key {
		keys.Out = append(keys.Out, t.Columns[t.Columns.ByID(k.Column)])
	}
	sample, estRows, estBytes, err := sampleOf(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("looking where to cut the load: %w", err)
	}
	defer sample.Close()
	return table.Cuts(ctx, s.catalog, s.store, t, sample, estRows, estBytes)
}

func sampleOf(ctx context.Context, f Files) (batch.Reader, int64, int64, error) {
	if f.CSV {
		return csv.Sample(ctx, csv.Spec{Spec: textSpec(f), Quote: f.Quote}, sampleRows)
	}
	return text.Sample(ctx, textSpec(f), sampleRows)
}

// explainSpecs are Specs that change nothing: EXPLAIN shows where rows would
// be cut as the regions are now.
type explainSpecs struct {
	Specs
	catalog catalog.Store
}

// Cuts implements Specs.
func (s explainSpecs) Cuts(ctx context.Context, t *catalog.Table, _ *Files, _ int64) ([][]byte, error) {
	regions, err := s.catalog.Regions(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	var cuts [][]byte
	for _, r := range regions {
		if len(r.Range.Start) > 0 {
			cuts = append(cuts, r.Range.Start)
		}
	}
	return cuts, nil
}
