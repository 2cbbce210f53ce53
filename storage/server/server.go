// Package server lets other processes use one worker's regions: it is a
// storage.Server behind gRPC. storage/client has the other half.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"

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

// Register makes the regions of s available to the callers of r.
func Register(r grpc.ServiceRegistrar, s storage.Server, codec *coding.Registry) {
	storagepb.RegisterRegionsServer(r, &server{s: s, codec: codec})
}

type server struct {
	storagepb.UnimplementedRegionsServer
	s     storage.Server
	codec *coding.Registry
}

// call decodes a request, answers it with f, and codes what f returns.
func call[A, R any](ctx context.Context, s *server, req *storagepb.Request, f func(context.Context, A) (R, error)) (*storagepb.Reply, error) {
	args, err := coding.Decode[A](s.codec, req.GetArgs())
	if err != nil {
		return nil, fault.Bugf("regions: arguments: %w", err)
	}
	result, err := f(ctx, args)
	if err != nil {
		return nil, err
	}
	data, err := s.codec.Marshal(result)
	return &storagepb.Reply{Result: data}, err
}

// done is the result of methods that return none.
type done struct{}

func (s *server) CreateRegion(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a wire.CreateRegion) (done, error) {
		return done{}, s.s.CreateRegion(ctx, a.Table, a.Region)
	})
}

func (s *server) DropRegion(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, id storage.RegionID) (done, error) { return done{}, s.s.DropRegion(ctx, id) })
}

func (s *server) Stats(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, s.s.Stats)
}

func (s *server) CutKeys(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a wire.CutKeys) (p wire.Parts, err error) {
		p.Keys, p.Parts, err = s.s.CutKeys(ctx, a.Region, a.Range, a.At, a.N)
		return p, err
	})
}

func (s *server) Delete(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a wire.Delete) (storage.Timestamp, error) {
		return s.s.Delete(ctx, a.Region, a.Keys)
	})
}

func (s *server) StageTruncate(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a wire.StageTruncate) (done, error) {
		return done{}, s.s.StageTruncate(ctx, a.Region, a.Txn, a.Ranges...)
	})
}

func (s *server) Resolve(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, txn storage.TxnID) (done, error) { return done{}, s.s.Resolve(ctx, txn) })
}

func (s *server) Flush(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, id storage.RegionID) (done, error) { return done{}, s.s.Flush(ctx, id) })
}

func (s *server) Split(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a wire.Split) ([2]storage.Region, error) {
		return s.s.Split(ctx, a.Region, a.At)
	})
}

func (s *server) ReplaceEmpty(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a wire.ReplaceEmpty) (bool, error) {
		return s.s.ReplaceEmpty(ctx, a.Region, a.With)
	})
}

func (s *server) Check(ctx context.Context, req *storagepb.Request) (*storagepb.Reply, error) {
	return call(ctx, s, req, s.s.Check)
}

// rows sends a batch as frames.
func (s *server) rows(e *frame.Encoder, fields []schema.Field, b *batch.Batch, send func(*storagepb.Rows) error) error {
	_, err := e.Encode(fields, []*batch.Batch{b}, func(f []byte) error { return send(&storagepb.Rows{Frame: f}) })
	return err
}

func (s *server) Scan(req *storagepb.Request, stream storagepb.Regions_ScanServer) (err error) {
	spec, err := coding.Decode[storage.Scan](s.codec, req.GetArgs())
	if err != nil {
		return fault.Bugf("regions: arguments: %w", err)
	}
	ctx := stream.Context()
	r, err := s.s.Scan(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var e frame.Encoder
	for {
		b, err := r.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := s.rows(&e, r.Fields(), b, stream.Send); err != nil {
			return err
		}
	}
	stats, err := s.codec.Marshal(r.Stats())
	if err != nil {
		return err
	}
	return stream.Send(&storagepb.Rows{Stats: stats, End: true})
}

func (s *server) Get(req *storagepb.Request, stream storagepb.Regions_GetServer) error {
	a, err := coding.Decode[wire.Get](s.codec, req.GetArgs())
	if err != nil {
		return fault.Bugf("regions: arguments: %w", err)
	}
	b, err := s.s.Get(stream.Context(), a.Region, a.Keys, a.At, a.Columns)
	if err != nil {
		return err
	}
	if b.Rows() > 0 {
		var e frame.Encoder
		if err := s.rows(&e, wire.Fields(a.Columns), b, stream.Send); err != nil {
			return err
		}
	}
	return stream.Send(&storagepb.Rows{End: true})
}

func (s *server) Put(stream storagepb.Regions_PutServer) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	a, err := coding.Decode[wire.Put](s.codec, first.GetArgs())
	if err != nil {
		return fault.Bugf("regions: arguments: %w", err)
	}
	columns := wire.Written(a.Columns, a.Partitioned)
	r := frame.NewReader(wire.Fields(columns), frames(func() ([]byte, error) {
		m, err := stream.Recv()
		return m.GetFrame(), err
	}))
	var parts []*batch.Batch
	rows := 0
	for {
		b, err := r.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("put: %w", err)
		}
		rows += b.Rows()
		parts = append(parts, b)
	}
	// All or nothing: a stream that was cut off at a frame's end is no batch.
	if rows != a.Rows {
		return fault.Retryablef("put: %d of %d rows arrived", rows, a.Rows)
	}
	at, err := s.s.Put(ctx, a.Region, a.Columns, wire.Concat(parts, columns))
	if err != nil {
		return err
	}
	data, err := s.codec.Marshal(at)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&storagepb.Reply{Result: data})
}

// frames is a frame.Source.
type frames func() ([]byte, error)

func (f frames) Frame(context.Context) ([]byte, error) { return f() }

// Stage runs one stage writer for the life of the stream: if the caller goes
// before it has finished, what was staged goes too.
func (s *server) Stage(stream storagepb.Regions_StageServer) (err error) {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	a, err := coding.Decode[wire.Stage](s.codec, first.GetArgs())
	if err != nil {
		return fault.Bugf("regions: arguments: %w", err)
	}
	w, err := s.s.Stage(ctx, a.Table, a.Regions, a.Options)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			err = errors.Join(err, w.Abort())
		}
	}()
	// The answer to the arguments: an error of opening comes with it, early.
	if err := stream.Send(&storagepb.Reply{}); err != nil {
		return err
	}
	var last *storagepb.StageRequest
	r := frame.NewReader(wire.Fields(wire.Written(a.Table.Columns, a.Table.Partitioned)), frames(func() ([]byte, error) {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil, fmt.Errorf("stage: the caller is gone: %w", context.Canceled)
		}
		if err != nil {
			return nil, err
		}
		if m.GetFinish() || m.GetAbort() {
			last = m
			return nil, io.EOF
		}
		return m.GetFrame(), nil
	}))
	for {
		b, err := r.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := w.Write(ctx, b); err != nil {
			return err
		}
	}
	if last.GetAbort() {
		return nil
	}
	staged, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	data, err := s.codec.Marshal(staged)
	if err != nil {
		return err
	}
	// From here on it is the transaction's outcome that decides, unless the
	// caller says otherwise.
	keep = true
	if err := stream.Send(&storagepb.Reply{Result: data}); err != nil {
		return err
	}
	if m, err := stream.Recv(); err == nil && m.GetAbort() {
		keep = false
	}
	return nil
}
