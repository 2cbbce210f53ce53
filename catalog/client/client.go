// Package client is the catalogue of another process.
package client

import (
	"context"
	"io"

	"google.golang.org/grpc"

	catalogpb "github.com/skepdb/skep/api/catalog"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// Store is a catalog.Store at the other end of a connection. Errors of the
// transport are fault.ErrUnavailable: whether a change that ends so has been
// made is not known, as with any store that crashes before it answers.
type Store struct {
	api   catalogpb.CatalogClient
	codec *coding.Registry
}

var _ catalog.Store = (*Store)(nil)

// New returns the catalogue at the other end of conn, which stays the caller's.
func New(conn grpc.ClientConnInterface, codec *coding.Registry) *Store {
	return &Store{api: catalogpb.NewCatalogClient(conn), codec: codec}
}

type method func(ctx context.Context, in *catalogpb.Request, opts ...grpc.CallOption) (*catalogpb.Reply, error)

// ask calls a method and decodes what it returns.
func ask[R any](ctx context.Context, s *Store, m method, args any) (result R, err error) {
	data, err := s.codec.Marshal(args)
	if err != nil {
		return result, err
	}
	reply, err := m(ctx, &catalogpb.Request{Args: data})
	if err != nil {
		return result, err
	}
	return coding.Decode[R](s.codec, reply.GetResult())
}

// CreateTable implements catalog.Store. place runs here.
func (s *Store) CreateTable(ctx context.Context, t catalog.Table, place func(*catalog.Table) ([]storage.Region, error)) (*catalog.Table, error) {
	ctx, cancel := context.WithCancel(ctx) // an error of place ends the call
	defer cancel()
	stream, err := s.api.CreateTable(ctx)
	if err != nil {
		return nil, err
	}
	send := func(v any) error {
		data, err := s.codec.Marshal(v)
		if err != nil {
			return err
		}
		if err := stream.Send(&catalogpb.Request{Args: data}); err != nil && err != io.EOF {
			return err
		}
		return nil // EOF: Recv has the reason
	}
	recv := func() (*catalog.Table, error) {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil, fault.Unavailablef("the catalogue ended the call")
		}
		if err != nil {
			return nil, err
		}
		return coding.Decode[*catalog.Table](s.codec, m.GetResult())
	}
	if err := send(struct {
		Table  catalog.Table
		Placed bool
	}{t, place != nil}); err != nil {
		return nil, err
	}
	made, err := recv()
	if err != nil || place == nil {
		return made, err
	}
	regions, err := place(made)
	if err != nil {
		return nil, err
	}
	if err := send(regions); err != nil {
		return nil, err
	}
	return recv()
}

// Pin implements catalog.Store. The pin ends at the latest with the connection,
// not with ctx.
func (s *Store) Pin(ctx context.Context) (catalog.Pin, error) {
	held, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := s.api.Pin(held, &catalogpb.Request{})
	if err == nil {
		var m *catalogpb.Reply
		if m, err = stream.Recv(); err == nil {
			var at storage.Timestamp
			if at, err = coding.Decode[storage.Timestamp](s.codec, m.GetResult()); err == nil && stop() {
				return pin{at, cancel}, nil
			}
		}
	}
	stop()
	cancel()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, err
}

type pin struct {
	at     storage.Timestamp
	cancel context.CancelFunc
}

func (p pin) At() storage.Timestamp { return p.at }
func (p pin) Release()              { p.cancel() }

// Close implements catalog.Store. The connection stays open.
func (s *Store) Close() error { return nil }
