package region

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// reader reads the key ranges of a split one after the other.
type reader struct {
	store  storage.Store
	spec   Spec
	fields []schema.Field
	ranges []storage.KeyRange // not opened yet
	values [][]schema.Datum   // of the partition columns in the ranges; nil: none is read
	// partition[i] is the i-th output column's position among the partition
	// columns, -1 for a stored one; stored are the latter.
	partition []int
	stored    schema.Columns
	constants []arrow.Array // of the open range: for each partition column of the output, as long as a batch can be
	left      int64         // rows, when the Spec has a limit
	scan      storage.ScanReader
	stats     storage.ScanStats // of scans that are done
	err       error
}

var _ inputformat.Reader = (*reader)(nil)

// open opens the next range; there being none is fine.
func (r *reader) open(ctx context.Context) error {
	if len(r.ranges) == 0 {
		return nil
	}
	scan, err := r.store.Scan(ctx, r.spec.Table, storage.Scan{
		Range: r.ranges[0], At: r.spec.At, Columns: r.stored, Filter: r.spec.Filter, Limit: r.left,
	})
	if err != nil {
		return fmt.Errorf("scan %s: %w", r.spec.Table.Name, err)
	}
	r.scan, r.ranges = scan, r.ranges[1:]
	if r.values != nil {
		r.setConstants(r.values[0])
		r.values = r.values[1:]
	}
	return nil
}

// setConstants makes the arrays of the partition columns in a range.
func (r *reader) setConstants(values []schema.Datum) {
	if r.constants == nil {
		r.constants = make([]arrow.Array, len(r.partition))
	}
	for i, at := range r.partition {
		if at >= 0 {
			r.constants[i] = batch.Constant(values[at], batch.MaxRows)
		}
	}
}

// withConstants puts the partition columns between the stored ones.
func (r *reader) withConstants(b *batch.Batch) *batch.Batch {
	if r.constants == nil {
		return b
	}
	out := *b
	out.Columns = make([]arrow.Array, len(r.partition))
	next := 0
	for i, at := range r.partition {
		if at < 0 {
			out.Columns[i] = b.Columns[next]
			next++
			continue
		}
		if b.Len > r.constants[i].Len() {
			r.constants[i] = batch.Gather(r.constants[i], make([]int32, b.Len))
		}
		out.Columns[i] = batch.Slice(r.constants[i], 0, b.Len)
	}
	return &out
}

// Fields implements batch.Reader.
func (r *reader) Fields() []schema.Field { return r.fields }

// Next implements batch.Reader.
func (r *reader) Next(ctx context.Context) (*batch.Batch, error) {
	for r.err == nil {
		if r.scan == nil {
			if len(r.ranges) == 0 || (r.spec.Limit > 0 && r.left <= 0) {
				return nil, io.EOF
			}
			if r.err = r.open(ctx); r.err != nil {
				break
			}
		}
		b, err := r.scan.Next(ctx)
		if err == nil {
			r.left -= int64(b.Rows())
			return r.withConstants(b), nil
		}
		closeErr := r.closeScan()
		if !errors.Is(err, io.EOF) {
			r.err = errors.Join(fmt.Errorf("scan %s: %w", r.spec.Table.Name, err), closeErr)
		} else {
			r.err = closeErr
		}
	}
	return nil, r.err
}

func (r *reader) closeScan() error {
	if r.scan == nil {
		return nil
	}
	r.stats.Add(r.scan.Stats())
	err := r.scan.Close()
	r.scan = nil
	return err
}

// ScanStats returns what the scans of the split have done so far.
func (r *reader) ScanStats() storage.ScanStats {
	out := r.stats
	if r.scan != nil {
		out.Add(r.scan.Stats())
	}
	return out
}

// Stats implements inputformat.Reader. Rows that were pruned were looked at;
// those of another split were not.
func (r *reader) Stats() inputformat.Stats {
	s := r.ScanStats()
	return inputformat.Stats{RowsRead: s.Pruned + s.Superseded + s.Filtered + s.Emitted, BytesRead: s.BytesRead}
}

// Close implements batch.Reader.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = fmt.Errorf("scan %s: read after Close", r.spec.Table.Name)
	}
	r.ranges = nil
	return r.closeScan()
}

// predicateText writes a predicate as SQL would.
func predicateText(t *storage.Table, p storage.Predicate) string {
	switch p := p.(type) {
	case *storage.Compare:
		return fmt.Sprintf("%s %s %s", columnName(t, p.Column), p.Op, p.Value)
	case *storage.In:
		values := make([]string, len(p.Values))
		for i, v := range p.Values {
			values[i] = v.String()
		}
		return fmt.Sprintf("%s IN (%s)", columnName(t, p.Column), strings.Join(values, ", "))
	case *storage.IsNull:
		if p.Not {
			return columnName(t, p.Column) + " IS NOT NULL"
		}
		return columnName(t, p.Column) + " IS NULL"
	case storage.And:
		return joinPredicates(t, p, " AND ")
	case storage.Or:
		return joinPredicates(t, p, " OR ")
	}
	return fmt.Sprintf("%T", p)
}

func joinPredicates(t *storage.Table, parts []storage.Predicate, with string) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = predicateText(t, p)
		switch p.(type) {
		case storage.And, storage.Or:
			texts[i] = "(" + texts[i] + ")"
		}
	}
	return strings.Join(texts, with)
}

func columnName(t *storage.Table, id schema.ColumnID) string {
	if i := t.Columns.ByID(id); i >= 0 {
		return t.Columns[i].Name
	}
	return fmt.Sprintf("column %d", id)
}
