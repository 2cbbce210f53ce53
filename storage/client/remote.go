package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/grpc"

	storagepb "github.com/skepdb/skep/api/storage"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/wire"
)

// Remote is a storage.Server in another process. Errors of the transport are
// fault.ErrUnavailable: whether a write that ends so has been done is not known.
type Remote struct {
	api   storagepb.RegionsClient
	codec *coding.Registry
}

var _ storage.Server = (*Remote)(nil)

// NewRemote returns the regions at the other end of a connection, which must
// translate errors as wire.Errors says.
func NewRemote(conn grpc.ClientConnInterface, codec *coding.Registry) *Remote {
	return &Remote{api: storagepb.NewRegionsClient(conn), codec: codec}
}

type method func(ctx context.Context, in *storagepb.Request, opts ...grpc.CallOption) (*storagepb.Reply, error)

// ask calls a method and decodes what it returns.
func ask[R any](ctx context.Context, r *Remote, m method, args any) (result R, err error) {
	data, err := r.codec.Marshal(args)
	if err != nil {
		return result, err
	}
	reply, err := m(ctx, &storagepb.Request{Args: data})
	if err != nil {
		return result, err
	}
	return coding.Decode[R](r.codec, reply.GetResult())
}

type nothing struct{}

// CreateRegion implements storage.Server.
func (r *Remote) CreateRegion(ctx context.Context, t *storage.Table, g storage.Region) error {
	_, err := ask[nothing](ctx, r, r.api.CreateRegion, wire.CreateRegion{Table: t, Region: g})
	return err
}

// DropRegion implements storage.Server.
func (r *Remote) DropRegion(ctx context.Context, id storage.RegionID) error {
	_, err := ask[nothing](ctx, r, r.api.DropRegion, id)
	return err
}

// Stats implements storage.Server.
func (r *Remote) Stats(ctx context.Context, id storage.RegionID) (storage.RegionStats, error) {
	return ask[storage.RegionStats](ctx, r, r.api.Stats, id)
}

// CutKeys implements storage.Server.
func (r *Remote) CutKeys(ctx context.Context, id storage.RegionID, rng storage.KeyRange, at storage.Timestamp, n int) ([]storage.Key, []storage.RegionStats, error) {
	p, err := ask[wire.Parts](ctx, r, r.api.CutKeys, wire.CutKeys{Region: id, Range: rng, At: at, N: n})
	return p.Keys, p.Parts, err
}

// Delete implements storage.Server.
func (r *Remote) Delete(ctx context.Context, id storage.RegionID, keys []storage.Key) (storage.Timestamp, error) {
	return ask[storage.Timestamp](ctx, r, r.api.Delete, wire.Delete{Region: id, Keys: keys})
}

// StageTruncate implements storage.Server.
func (r *Remote) StageTruncate(ctx context.Context, id storage.RegionID, txn storage.TxnID, ranges ...storage.KeyRange) error {
	_, err := ask[nothing](ctx, r, r.api.StageTruncate, wire.StageTruncate{Region: id, Txn: txn, Ranges: ranges})
	return err
}

// Resolve implements storage.Server.
func (r *Remote) Resolve(ctx context.Context, txn storage.TxnID) error {
	_, err := ask[nothing](ctx, r, r.api.Resolve, txn)
	return err
}

// Flush implements storage.Server.
func (r *Remote) Flush(ctx context.Context, id storage.RegionID) error {
	_, err := ask[nothing](ctx, r, r.api.Flush, id)
	return err
}

// Split implements storage.Server.
func (r *Remote) Split(ctx context.Context, id storage.RegionID, at storage.Key) ([2]storage.Region, error) {
	return ask[[2]storage.Region](ctx, r, r.api.Split, wire.Split{Region: id, At: at})
}

// ReplaceEmpty implements storage.Server.
func (r *Remote) ReplaceEmpty(ctx context.Context, id storage.RegionID, with []storage.Region) (bool, error) {
	return ask[bool](ctx, r, r.api.ReplaceEmpty, wire.ReplaceEmpty{Region: id, With: with})
}

// Check implements storage.Server.
func (r *Remote) Check(ctx context.Context, id storage.RegionID) ([]storage.CheckProblem, error) {
	return ask[[]storage.CheckProblem](ctx, r, r.api.Check, id)
}

// Get implements storage.Server.
func (r *Remote) Get(ctx context.Context, id storage.RegionID, keys []storage.Key, at storage.Timestamp, columns schema.Columns) (*batch.Batch, error) {
	args, err := r.codec.Marshal(wire.Get{Region: id, Keys: keys, At: at, Columns: columns})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.api.Get(ctx, &storagepb.Request{Args: args})
	if err != nil {
		return nil, err
	}
	in := &rowStream{recv: stream.Recv}
	rows := frame.NewReader(wire.Fields(columns), in)
	var parts []*batch.Batch
	for {
		b, err := rows.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, b)
	}
	return wire.Concat(parts, columns), nil
}

// rowStream is the frames of a stream of rows. It ends well only after the
// message that says that nothing is missing.
type rowStream struct {
	recv  func() (*storagepb.Rows, error)
	stats []byte
}

// Frame implements frame.Source.
func (s *rowStream) Frame(context.Context) ([]byte, error) {
	m, err := s.recv()
	if err == io.EOF {
		return nil, fault.Unavailablef("the stream of rows broke off")
	}
	if err != nil {
		return nil, err
	}
	if m.GetEnd() {
		s.stats = m.GetStats()
		return nil, io.EOF
	}
	return m.GetFrame(), nil
}

// Put implements storage.Server.
func (r *Remote) Put(ctx context.Context, id storage.RegionID, columns schema.Columns, b *batch.Batch) (storage.Timestamp, error) {
	partitioned := len(b.Columns) == len(columns)+1 // the server knows if it has to be
	args, err := r.codec.Marshal(wire.Put{Region: id, Columns: columns, Partitioned: partitioned, Rows: b.Rows()})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.api.Put(ctx)
	if err != nil {
		return 0, err
	}
	err = stream.Send(&storagepb.Rows{Args: args})
	if err == nil {
		var e frame.Encoder
		_, err = e.Encode(wire.Fields(wire.Written(columns, partitioned)), []*batch.Batch{b}, func(f []byte) error { return stream.Send(&storagepb.Rows{Frame: f}) })
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the server has an error for us
		return 0, err
	}
	reply, err := stream.CloseAndRecv()
	if err != nil {
		return 0, err
	}
	return coding.Decode[storage.Timestamp](r.codec, reply.GetResult())
}

// Scan implements storage.Server. A scan whose connection breaks before the first
// row, or whose rows come in key order, is opened again and goes on where it
// was: the rows of a snapshot in key order are the same each time. Others fail with
// fault.ErrUnavailable.
func (r *Remote) Scan(ctx context.Context, s storage.Scan) (storage.ScanReader, error) {
	sr := &remoteScan{r: r, spec: s, fields: wire.Fields(s.Columns)}
	if err := sr.open(ctx); err != nil {
		return nil, err
	}
	// The server answers when it has opened the scan or has failed to: the
	// caller must hear of a region that is gone from Scan, not from Next.
	first, err := sr.read(ctx)
	if err != nil && err != io.EOF {
		return nil, errors.Join(err, sr.Close())
	}
	sr.first, sr.ended = first, err == io.EOF
	return sr, nil
}

type remoteScan struct {
	r      *Remote
	spec   storage.Scan
	fields []schema.Field

	cancel context.CancelFunc
	in     *rowStream
	rows   *frame.Reader

	first    *batch.Batch // read ahead
	ended    bool
	emitted  int64 // rows handed on
	reopened int
	err      error
}

// maxReopen bounds how often a scan is opened again without a row in between.
const maxReopen = 3

func (s *remoteScan) open(ctx context.Context) error {
	args, err := s.r.codec.Marshal(s.spec)
	if err != nil {
		return err
	}
	// The stream outlives this call and any one Next: Close ends it.
	ctx, s.cancel = context.WithCancel(ctx)
	stream, err := s.r.api.Scan(ctx, &storagepb.Request{Args: args})
	if err != nil {
		s.cancel()
		return err
	}
	s.in = &rowStream{recv: stream.Recv}
	s.rows = frame.NewReader(s.fields, s.in)
	return nil
}

// read returns the next batch, from another stream if need be.
func (s *remoteScan) read(ctx context.Context) (*batch.Batch, error) {
	skip := int64(0)
	for {
		b, err := s.next(ctx)
		switch {
		case err == nil && skip >= int64(b.Rows()):
			skip -= int64(b.Rows())
			continue
		case err == nil && skip > 0:
			b = batch.Compact(b)
			rest := &batch.Batch{Len: b.Len - int(skip), Columns: make([]arrow.Array, len(b.Columns))}
			for i, c := range b.Columns {
				rest.Columns[i] = batch.Slice(c, int(skip), b.Len)
			}
			return rest, nil
		case err == nil, err == io.EOF && skip == 0:
			return b, err
		case err == io.EOF:
			return nil, fault.Bugf("scan of region %d: %d rows fewer when it was opened again", s.spec.Region, skip)
		case !errors.Is(err, fault.ErrUnavailable) || s.emitted > 0 && !s.spec.Ordered || s.reopened >= maxReopen || ctx.Err() != nil:
			return nil, err
		}
		s.reopened++
		s.cancel()
		if err := s.open(ctx); err != nil {
			return nil, err
		}
		skip = s.emitted
	}
}

// next reads from the present stream; it returns soon after ctx is done.
func (s *remoteScan) next(ctx context.Context) (*batch.Batch, error) {
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	b, err := s.rows.Next(ctx)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return b, err
}

// Fields implements batch.Reader.
func (s *remoteScan) Fields() []schema.Field { return s.fields }

// Next implements batch.Reader.
func (s *remoteScan) Next(ctx context.Context) (*batch.Batch, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.err = ctx.Err(); s.err != nil {
		return nil, s.err
	}
	b := s.first
	s.first = nil
	switch {
	case b != nil:
	case s.ended:
		s.err = io.EOF
	default:
		b, s.err = s.read(ctx)
	}
	if s.err != nil {
		s.cancel()
		if s.err != io.EOF {
			s.err = fmt.Errorf("scan of region %d: %w", s.spec.Region, s.err)
		}
		return nil, s.err
	}
	s.reopened = 0
	s.emitted += int64(b.Rows())
	return b, nil
}

// Stats implements storage.ScanReader: known at the end only, but for the rows
// that came.
func (s *remoteScan) Stats() storage.ScanStats {
	if s.in != nil && s.in.stats != nil {
		if stats, err := coding.Decode[storage.ScanStats](s.r.codec, s.in.stats); err == nil {
			return stats
		}
	}
	return storage.ScanStats{Emitted: s.emitted}
}

// Close implements batch.Reader.
func (s *remoteScan) Close() error {
	s.cancel()
	s.first = nil
	if s.err == nil {
		s.err = fault.Bugf("scan of region %d: read after close", s.spec.Region)
	}
	return nil
}

// Stage implements storage.Server. The writer needs its connection until Finish or
// Abort; ctx must end some time.
func (r *Remote) Stage(ctx context.Context, t *storage.Table, regions []storage.Region, o storage.StageOptions) (storage.StageWriter, error) {
	args, err := r.codec.Marshal(wire.Stage{Table: t, Regions: regions, Options: o})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := r.api.Stage(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &remoteStage{r: r, fields: wire.Fields(wire.Written(t.Columns, t.Partitioned)), stream: stream, cancel: cancel}
	if err := w.send(&storagepb.StageRequest{Args: args}); err != nil {
		cancel()
		return nil, err
	}
	if _, err := stream.Recv(); err != nil {
		cancel()
		return nil, err
	}
	return w, nil
}

type remoteStage struct {
	r        *Remote
	fields   []schema.Field
	stream   storagepb.Regions_StageClient
	cancel   context.CancelFunc
	encoder  frame.Encoder
	finished bool
	closed   bool
}

// send sends a message. If the server has ended the stream, its error is why.
func (w *remoteStage) send(m *storagepb.StageRequest) error {
	err := w.stream.Send(m)
	if errors.Is(err, io.EOF) {
		if _, why := w.stream.Recv(); why != nil && why != io.EOF {
			return why
		}
		return fault.Bugf("stage: the server ended the stream")
	}
	return err
}

// Write implements storage.StageWriter.
func (w *remoteStage) Write(ctx context.Context, b *batch.Batch) error {
	if w.finished || w.closed {
		return fault.Bugf("stage: write after Finish or Abort")
	}
	defer context.AfterFunc(ctx, w.cancel)()
	if len(b.Columns) != len(w.fields) {
		return fault.Bugf("stage: a batch of %d columns instead of %d (if the table is partitioned, with a column of partition ids)", len(b.Columns), len(w.fields))
	}
	_, err := w.encoder.Encode(w.fields, []*batch.Batch{b}, func(f []byte) error {
		return w.send(&storagepb.StageRequest{Frame: f})
	})
	return err
}

// Finish implements storage.StageWriter.
func (w *remoteStage) Finish(ctx context.Context) (storage.Staged, error) {
	if w.finished || w.closed {
		return storage.Staged{}, fault.Bugf("stage: finished twice")
	}
	defer context.AfterFunc(ctx, w.cancel)()
	if err := w.send(&storagepb.StageRequest{Finish: true}); err != nil {
		return storage.Staged{}, err
	}
	reply, err := w.stream.Recv()
	if err != nil {
		return storage.Staged{}, err
	}
	w.finished = true
	return coding.Decode[storage.Staged](w.r.codec, reply.GetResult())
}

// Abort implements storage.StageWriter: the server drops what was staged when the
// stream ends before Finish, or says so.
func (w *remoteStage) Abort() error {
	if w.closed {
		return nil
	}
	w.closed = true
	defer w.cancel()
	if err := w.stream.Send(&storagepb.StageRequest{Abort: true}); err != nil {
		return nil // the stream has ended, and the server knows
	}
	if err := w.stream.CloseSend(); err != nil {
		return nil
	}
	for {
		if _, err := w.stream.Recv(); err != nil {
			if err == io.EOF || errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrUnavailable) {
				return nil
			}
			return err
		}
	}
}
