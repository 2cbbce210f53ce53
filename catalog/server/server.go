// Package server lets other processes use the catalogue: it is a catalog.Store
// behind gRPC. catalog/client has the other half.
package server

import (
	"context"

	"google.golang.org/grpc"

	catalogpb "github.com/skepdb/skep/api/catalog"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// Register makes store available to the callers of r.
func Register(r grpc.ServiceRegistrar, store catalog.Store, codec *coding.Registry) {
	catalogpb.RegisterCatalogServer(r, &server{store: store, codec: codec})
}

type server struct {
	catalogpb.UnimplementedCatalogServer
	store catalog.Store
	codec *coding.Registry
}

func decode[A any](s *server, req *catalogpb.Request) (A, error) {
	a, err := coding.Decode[A](s.codec, req.GetArgs())
	if err != nil {
		err = fault.Bugf("catalogue: arguments: %w", err)
	}
	return a, err
}

func (s *server) reply(result any) (*catalogpb.Reply, error) {
	data, err := s.codec.Marshal(result)
	return &catalogpb.Reply{Result: data}, err
}

// call decodes a request, answers it with f, and codes what f returns.
func call[A, R any](ctx context.Context, s *server, req *catalogpb.Request, f func(context.Context, A) (R, error)) (*catalogpb.Reply, error) {
	args, err := decode[A](s, req)
	if err != nil {
		return nil, err
	}
	result, err := f(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.reply(result)
}

// CreateTable asks the caller, within the store's call, for the table's regions. The first
// message is the table and whether it has regions.
func (s *server) CreateTable(stream catalogpb.Catalog_CreateTableServer) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	args, err := decode[struct {
		Table  catalog.Table
		Placed bool
	}](s, req)
	if err != nil {
		return err
	}
	place := func(t *catalog.Table) ([]storage.Region, error) {
		m, err := s.reply(t)
		if err != nil {
			return nil, err
		}
		if err := stream.Send(m); err != nil {
			return nil, err
		}
		req, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return decode[[]storage.Region](s, req)
	}
	if !args.Placed {
		place = nil
	}
	t, err := s.store.CreateTable(stream.Context(), args.Table, place)
	if err != nil {
		return err
	}
	m, err := s.reply(t)
	if err != nil {
		return err
	}
	return stream.Send(m)
}

func (s *server) Pin(_ *catalogpb.Request, stream catalogpb.Catalog_PinServer) error {
	pin, err := s.store.Pin(stream.Context())
	if err != nil {
		return err
	}
	defer pin.Release()
	m, err := s.reply(pin.At())
	if err != nil {
		return err
	}
	if err := stream.Send(m); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}
