package region

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// scanReader is a scan in progress: its pieces one after the other. The files
// and the Pebble snapshot that it reads stay until it ends, whatever flushes,
// publishes and splits do meanwhile.
type scanReader struct {
	s      *Server
	fields []schema.Field
	spec   storage.Scan
	// columns are the output's, then those that only the filter needs.
	columns schema.Columns

	mu     sync.Mutex // Server.Close ends scans from outside
	v      *view
	reads  []*segmentRead
	pieces []*piece
	stats  storage.ScanStats // of the delta's rows, and of segments done
	left   int64             // rows until the limit; < 0: no limit
	err    error             // what Next returns from now on

	// The current piece: a scanner, with a mask or not, or a merge.
	scanner *segment.Scanner
	read    *segmentRead
	mask    *mask
	merge   *merger
}

// Scan implements storage.Server.
func (s *Server) Scan(ctx context.Context, spec storage.Scan) (storage.ScanReader, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	r, err := s.region(ctx, spec.Region)
	if err != nil {
		return nil, err
	}
	sr, err := s.scan(ctx, r, spec)
	if err != nil {
		return nil, fmt.Errorf("scan of %s: %w", r.table.Name, err)
	}
	return sr, nil
}

func (s *Server) scan(ctx context.Context, r *region, spec storage.Scan) (*scanReader, error) {
	sr := &scanReader{s: s, spec: spec, columns: slices.Clone(spec.Columns), left: -1}
	if spec.Limit > 0 {
		sr.left = spec.Limit
	}
	for _, c := range spec.Columns {
		sr.fields = append(sr.fields, schema.Field{Name: c.Name, Type: c.Type})
	}
	for _, id := range filterColumns(spec.Filter, nil) {
		if sr.columns.ByID(id) >= 0 {
			continue
		}
		at := r.table.Columns.ByID(id)
		if at < 0 {
			return nil, fault.Bugf("the filter names column %d, which the table doesn't have", id)
		}
		sr.columns = append(sr.columns, r.table.Columns[at])
	}
	if err := sr.filterFits(); err != nil {
		return nil, err
	}
	var err error
	if sr.v, err = s.read(ctx, r, spec.At); err != nil {
		return nil, err
	}
	if rng, ok := spec.Range.Intersect(r.rng); ok {
		if err := sr.plan(ctx, rng); err != nil {
			return nil, errors.Join(err, sr.v.close())
		}
	}
	s.mu.Lock()
	s.scans[sr] = struct{}{}
	s.mu.Unlock()
	return sr, nil
}

// filterFits finds out early whether the filter can be used.
func (sr *scanReader) filterFits() error {
	if sr.spec.Filter == nil {
		return nil
	}
	_, err := segment.NewFilter(sr.spec.Filter, sr.columns)
	return err
}

// filterColumns appends the columns of a predicate to ids.
func filterColumns(p storage.Predicate, ids []schema.ColumnID) []schema.ColumnID {
	switch p := p.(type) {
	case *storage.Compare:
		return append(ids, p.Column)
	case *storage.In:
		return append(ids, p.Column)
	case *storage.IsNull:
		return append(ids, p.Column)
	case storage.And:
		for _, q := range p {
			ids = filterColumns(q, ids)
		}
	case storage.Or:
		for _, q := range p {
			ids = filterColumns(q, ids)
		}
	}
	return ids
}

// plan finds out what to read.
func (sr *scanReader) plan(ctx context.Context, r storage.KeyRange) (err error) {
	if sr.reads, err = sr.v.segmentReads(r); err != nil {
		return err
	}
	if !sr.v.r.table.Keyed() && !sr.spec.Ordered {
		// Implicit row ids are never written twice: no version work, ever.
		for _, s := range sr.reads {
			for _, part := range s.parts {
				p := &piece{r: part.r}
				if part.state == gone {
					p.gone = []*segmentRead{s}
				} else {
					p.segments = []*segmentRead{s}
				}
				sr.pieces = append(sr.pieces, p)
			}
		}
		return nil
	}
	keys, err := sr.v.deltaKeys(r)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		if err := sr.v.dropSnapshot(); err != nil {
			return err
		}
	}
	large, small, err := scatter(ctx, sr.reads)
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		small = append(small, &scattered{keys: keys})
	}
	sr.pieces = plan(r, large, small, sr.spec.Ordered)
	return nil
}

// Fields implements batch.Reader.
func (sr *scanReader) Fields() []schema.Field { return sr.fields }

// Stats implements storage.ScanReader.
func (sr *scanReader) Stats() storage.ScanStats {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	st := sr.stats
	for _, s := range sr.reads {
		st.Add(s.stats)
	}
	if sr.scanner != nil {
		now := sr.scanner.Stats()
		now.Clipped = 0 // counted at the end, once for all pieces
		st.Add(now)
	}
	return st
}

// Next implements batch.Reader.
func (sr *scanReader) Next(ctx context.Context) (*batch.Batch, error) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	if sr.err != nil {
		return nil, sr.err
	}
	b, err := sr.next(ctx)
	if err == nil {
		return b, nil
	}
	if !errors.Is(err, io.EOF) {
		err = fmt.Errorf("scan of %s: %w", sr.v.r.table.Name, err)
	}
	return nil, sr.finish(err)
}

func (sr *scanReader) next(ctx context.Context) (*batch.Batch, error) {
	for {
		if sr.left == 0 {
			return nil, io.EOF
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, err := sr.nextOfPiece(ctx)
		if err == io.EOF {
			if err := sr.closePiece(); err != nil {
				return nil, err
			}
			if len(sr.pieces) == 0 {
				return nil, sr.checkAll()
			}
			if err := sr.openPiece(sr.pieces[0]); err != nil {
				return nil, err
			}
			sr.pieces = sr.pieces[1:]
			continue
		}
		if err != nil {
			return nil, err
		}
		if sr.left > 0 {
			b = firstRows(b, sr.left)
			sr.left -= int64(b.Rows())
		}
		return b, nil
	}
}

// firstRows returns at most n rows of b.
func firstRows(b *batch.Batch, n int64) *batch.Batch {
	if int64(b.Rows()) <= n {
		return b
	}
	out := *b
	if b.Sel != nil {
		out.Sel = b.Sel[:n]
		return &out
	}
	out.Sel = make([]int32, n)
	for i := range out.Sel {
		out.Sel[i] = int32(i)
	}
	return &out
}

// nextOfPiece returns the current piece's next batch, or io.EOF.
func (sr *scanReader) nextOfPiece(ctx context.Context) (*batch.Batch, error) {
	var c *segment.Chunk
	var err error
	switch {
	case sr.mask != nil:
		return sr.nextMasked(ctx)
	case sr.scanner != nil:
		c, err = sr.scanner.Next(ctx)
	case sr.merge != nil:
		c, err = sr.merge.next(ctx)
	default:
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	return &c.Batch, nil
}

// newMerger returns a merger without inputs.
func (sr *scanReader) newMerger() (*merger, error) {
	m := &merger{at: sr.spec.At, since: sr.v.since, width: len(sr.spec.Columns), ordered: sr.spec.Ordered}
	if sr.spec.Filter == nil {
		return m, nil
	}
	var err error
	m.filter, err = segment.NewFilter(sr.spec.Filter, sr.columns)
	return m, err
}

func (sr *scanReader) openPiece(p *piece) error {
	if len(p.gone) > 0 {
		for _, s := range p.gone {
			n, err := s.rd.RowsIn(p.r)
			if err != nil {
				return err
			}
			s.stats.Superseded += n
		}
		return nil
	}
	if !sr.v.r.table.Keyed() && !sr.spec.Ordered || p.columnar() {
		sr.read = p.segments[0]
		if len(p.masked) > 0 {
			sr.mask = &mask{p: p}
		}
		var err error
		sr.scanner, err = sr.read.rd.Scan(segment.ScanOptions{Columns: sr.spec.Columns, Filter: sr.spec.Filter, Range: p.r})
		return err
	}
	m, err := sr.newMerger()
	if err != nil {
		return err
	}
	sr.merge = m
	slices.SortFunc(p.segments, func(a, b *segmentRead) int { return a.rank - b.rank })
	for _, s := range p.segments {
		sc, err := s.rd.Scan(segment.ScanOptions{Columns: sr.columns, Range: p.r, NeedKeys: true, NeedVersions: true})
		if err != nil {
			return err
		}
		m.inputs = append(m.inputs, &input{src: sc, begin: s.e.begin, stats: &s.stats})
	}
	if p.delta {
		it, err := newDeltaIter(sr.v.snap, sr.v.v.m.generations, p.r)
		if err != nil {
			return err
		}
		m.inputs = append(m.inputs, &input{src: newDeltaSource(it, sr.columns, sr.spec.At), stats: &sr.stats})
	}
	return nil
}

// closePiece ends the current piece and counts what it read.
func (sr *scanReader) closePiece() error {
	var err error
	if sr.scanner != nil {
		st := sr.scanner.Stats()
		st.Clipped = 0
		if sr.mask != nil {
			sr.mask.correct(&st)
		}
		sr.read.stats.Add(st)
		err = sr.scanner.Close()
	}
	if sr.merge != nil {
		for _, in := range sr.merge.inputs {
			if sc, ok := in.src.(*segment.Scanner); ok {
				st := sc.Stats()
				in.stats.BytesRead += st.BytesRead
				in.stats.RowGroups += st.RowGroups
			}
		}
		err = errors.Join(err, sr.merge.close())
	}
	sr.scanner, sr.read, sr.mask, sr.merge = nil, nil, nil, nil
	return err
}

// checkAll proves at the end that no row was forgotten; then it is io.EOF.
func (sr *scanReader) checkAll() error {
	for _, s := range sr.reads {
		sr.stats.Add(s.stats)
		if err := s.check(sr.v.r.table.Name, &sr.stats); err != nil {
			return err
		}
	}
	sr.reads = nil
	return io.EOF
}

// finish ends the scan and returns what Next returns from now on.
func (sr *scanReader) finish(err error) error {
	sr.err = err
	sr.s.mu.Lock()
	delete(sr.s.scans, sr)
	sr.s.mu.Unlock()
	closeErr := errors.Join(sr.closePiece(), sr.v.close())
	if closeErr != nil && errors.Is(err, io.EOF) {
		sr.err = fmt.Errorf("scan of %s: %w", sr.v.r.table.Name, closeErr)
	}
	return sr.err
}

// errScanClosed is what Next returns after Close.
var errScanClosed = errors.New("the scan is closed")

// Close implements batch.Reader.
func (sr *scanReader) Close() error { return sr.end(errScanClosed) }

func (sr *scanReader) end(cause error) error {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	if sr.err == nil {
		sr.finish(cause)
	}
	return nil
}
