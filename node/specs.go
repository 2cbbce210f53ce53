package node

import (
	"context"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/csv"
	inputregion "github.com/skepdb/skep/inputformat/region"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/outputformat"
	outputtable "github.com/skepdb/skep/outputformat/table"
	"github.com/skepdb/skep/sql"
	"github.com/skepdb/skep/sql/optimizer"
)

// specs makes the specs of the formats that this node has registered.
type specs struct{ n *Node }

var _ sql.Specs = specs{}

// Region implements sql.Specs.
func (s specs) Region(src *optimizer.Source) inputformat.Spec {
	return inputregion.Spec{Table: src.Table, At: src.At, Ranges: src.Ranges, Columns: src.Columns, Filter: src.Filter, Limit: src.Limit}
}

// Table implements sql.Specs.
func (s specs) Table(t *catalog.Table, overwrite bool, kind catalog.TxnKind) outputformat.Spec {
	return outputtable.Spec{Table: &t.Table, Overwrite: overwrite, Kind: kind}
}

// Files implements sql.Specs.
func (s specs) Files(f sql.Files) (inputformat.Spec, error) {
	if f.CSV {
		return csvSpec(f), nil
	}
	return textSpec(f), nil
}

func textSpec(f sql.Files) text.Spec {
	return text.Spec{
		Paths: f.Paths, Columns: f.Columns, Out: f.Out, Delimiter: f.Delimiter, Escape: f.Escape, NullText: f.NullText,
		EmptyIsNull: f.EmptyIsNull, SkipHeader: f.SkipHeader, OnError: onError(f.OnError), RejectPath: f.Reject,
	}
}

func csvSpec(f sql.Files) csv.Spec { return csv.Spec{Spec: textSpec(f), Quote: f.Quote} }

func onError(o sql.OnError) text.OnError {
	switch o {
	case sql.Abort:
		return text.Abort
	case sql.Skip:
		return text.Skip
	}
	return text.Null
}

// sampleRows is how many rows of files are looked at to cut a table's keys:
// quantiles of so many are off by less than a hundredth of the table.
const sampleRows = 20_000

// Cuts implements sql.Specs.
func (s specs) Cuts(ctx context.Context, t *catalog.Table, files *sql.Files, rows int64) ([][]byte, error) {
	if files == nil {
		return outputtable.Cuts(ctx, s.n.catalog, s.n.store, t, nil, max(rows, 0), 0)
	}
	// Only the key's columns are read, and a row that is wrong stops no sample:
	// the load itself will say what is wrong with it.
	keys := *files
	keys.OnError, keys.Reject = sql.Null, ""
	keys.Out = t.KeyColumns()
	var sample batch.Reader
	var estRows, estBytes int64
	var err error
	if keys.CSV {
		sample, estRows, estBytes, err = csv.New().Sample(ctx, csvSpec(keys), sampleRows)
	} else {
		sample, estRows, estBytes, err = text.New().Sample(ctx, textSpec(keys), sampleRows)
	}
	if err != nil {
		return nil, err
	}
	defer sample.Close()
	return outputtable.Cuts(ctx, s.n.catalog, s.n.store, t, sample, estRows, estBytes)
}
