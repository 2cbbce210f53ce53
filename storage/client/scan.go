package client

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Scan implements storage.Store. Regions are opened one after the other, as
// they are reached; a region that was split before it was reached is looked up
// again. The reader fails if the regions it read don't tile the range.
func (s *Store) Scan(ctx context.Context, t *storage.Table, scan storage.Scan) (storage.ScanReader, error) {
	r := &scanReader{store: s, table: t, scan: scan, rest: scan.Range, left: scan.Limit}
	r.fields = make([]schema.Field, len(scan.Columns))
	for i, c := range scan.Columns {
		r.fields[i] = schema.Field{Name: c.Name, Type: c.Type}
	}
	if r.rest.Empty() {
		r.end = true
		return r, nil
	}
	// The first region is opened now, so that errors of the request show here.
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

type scanReader struct {
	store  *Store
	table  *storage.Table
	scan   storage.Scan
	fields []schema.Field

	rest   storage.KeyRange // not read yet, the open region included
	left   int64            // rows, when scan.Limit > 0
	reader storage.ScanReader
	next   storage.Key // where the region after the open one begins
	end    bool
	err    error
	stats  storage.ScanStats // of regions that are done
}

// open opens the region that holds the start of rest.
func (r *scanReader) open(ctx context.Context) error {
	return retry(ctx, func() error {
		regions, err := r.store.regions(ctx, r.table, r.rest)
		if err != nil {
			return err
		}
		if len(regions) == 0 {
			return fault.Bugf("scan of %s: no region for %s", r.table.Name, r.rest)
		}
		g := regions[0]
		server, err := r.store.server(g)
		if err != nil {
			return err
		}
		one := r.scan
		one.Region, one.Limit = g.ID, r.left
		one.Range, _ = g.Range.Intersect(r.rest)
		if r.reader, err = server.Scan(ctx, one); err != nil {
			return err
		}
		r.next = g.Range.End
		return nil
	})
}

// Fields implements batch.Reader.
func (r *scanReader) Fields() []schema.Field { return r.fields }

// Next implements batch.Reader.
func (r *scanReader) Next(ctx context.Context) (*batch.Batch, error) {
	for r.err == nil {
		if r.end {
			return nil, io.EOF
		}
		if r.reader == nil {
			if r.err = r.open(ctx); r.err != nil {
				break
			}
		}
		b, err := r.reader.Next(ctx)
		switch {
		case err == nil:
			return r.take(b), nil
		case errors.Is(err, io.EOF):
			r.err = r.finish()
		default:
			r.err = errors.Join(err, r.closeOpen())
		}
	}
	return nil, r.err
}

// take counts a batch's rows against the limit and cuts it there.
func (r *scanReader) take(b *batch.Batch) *batch.Batch {
	if r.scan.Limit <= 0 {
		return b
	}
	if n := int64(b.Rows()); n < r.left {
		r.left -= n
		return b
	}
	out := *b
	if b.Sel != nil {
		out.Sel = b.Sel[:r.left]
	} else if r.left < int64(b.Len) {
		out.Sel = make([]int32, r.left)
		for i := range out.Sel {
			out.Sel[i] = int32(i)
		}
	}
	r.left, r.end = 0, true
	return &out
}

// finish ends the open region and moves on to the next one.
func (r *scanReader) finish() error {
	if err := r.closeOpen(); err != nil {
		return err
	}
	past := len(r.next) == 0 || (len(r.scan.Range.End) > 0 && bytes.Compare(r.next, r.scan.Range.End) >= 0)
	if past {
		r.end = true
		return nil
	}
	if bytes.Compare(r.next, r.rest.Start) <= 0 {
		return fault.Bugf("scan of %s: the region at %s ends before it begins", r.table.Name, r.rest)
	}
	r.rest.Start = r.next
	return nil
}

func (r *scanReader) closeOpen() error {
	if r.reader == nil {
		return nil
	}
	r.stats.Add(r.reader.Stats())
	err := r.reader.Close()
	r.reader = nil
	return err
}

// Stats implements storage.ScanReader.
func (r *scanReader) Stats() storage.ScanStats {
	out := r.stats
	if r.reader != nil {
		out.Add(r.reader.Stats())
	}
	return out
}

// Close implements batch.Reader.
func (r *scanReader) Close() error {
	if r.err == nil {
		r.err = errors.New("scan: read after Close")
	}
	r.end = true
	return r.closeOpen()
}
