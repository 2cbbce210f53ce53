package server

import (
	"context"

	catalogpb "github.com/skepdb/skep/api/catalog"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// The methods of the catalogue whose arguments and results are plain values.

type none struct{}

func (s *server) Timestamp(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, _ none) (storage.Timestamp, error) { return s.store.Timestamp(ctx) })
}

func (s *server) Floor(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, _ none) (storage.Timestamp, error) { return s.store.Floor(ctx) })
}

func (s *server) Outcome(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a storage.TxnID) (storage.Outcome, error) { return s.store.Outcome(ctx, a) })
}

func (s *server) Regions(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a storage.TableID) ([]storage.Region, error) { return s.store.Regions(ctx, a) })
}

func (s *server) NewRegionID(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, _ none) (storage.RegionID, error) { return s.store.NewRegionID(ctx) })
}

func (s *server) ReplaceRegions(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Table storage.TableID
		Old   []storage.RegionID
		With  []storage.Region
	}) (none, error) {
		return none{}, s.store.ReplaceRegions(ctx, a.Table, a.Old, a.With)
	})
}

func (s *server) Databases(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, _ none) ([]catalog.Database, error) { return s.store.Databases(ctx) })
}

func (s *server) Database(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a string) (catalog.Database, error) { return s.store.Database(ctx, a) })
}

func (s *server) CreateDatabase(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a catalog.Database) (none, error) {
		return none{}, s.store.CreateDatabase(ctx, a)
	})
}

func (s *server) AlterDatabase(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a catalog.Database) (none, error) {
		return none{}, s.store.AlterDatabase(ctx, a)
	})
}

func (s *server) DropDatabase(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a string) (none, error) { return none{}, s.store.DropDatabase(ctx, a) })
}

func (s *server) Tables(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a string) ([]*catalog.Table, error) { return s.store.Tables(ctx, a) })
}

func (s *server) Table(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Database string
		Name     string
	}) (*catalog.Table, error) {
		return s.store.Table(ctx, a.Database, a.Name)
	})
}

func (s *server) TableByID(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a storage.TableID) (*catalog.Table, error) { return s.store.TableByID(ctx, a) })
}

func (s *server) AlterTable(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a catalog.Table) (*catalog.Table, error) { return s.store.AlterTable(ctx, a) })
}

func (s *server) Temporaries(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, _ none) ([]*catalog.Table, error) { return s.store.Temporaries(ctx) })
}

func (s *server) DropTable(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a storage.TableID) ([]storage.Region, error) {
		return s.store.DropTable(ctx, a)
	})
}

func (s *server) Dropped(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, _ none) ([]storage.Region, error) { return s.store.Dropped(ctx) })
}

func (s *server) ForgetDropped(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a []storage.RegionID) (none, error) {
		return none{}, s.store.ForgetDropped(ctx, a)
	})
}

func (s *server) Partitions(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Table storage.TableID
		At    storage.Timestamp
	}) ([]*catalog.Partition, error) {
		return s.store.Partitions(ctx, a.Table, a.At)
	})
}

func (s *server) PartitionIDs(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Txn    storage.TxnID
		Table  storage.TableID
		Values [][]schema.Datum
	}) ([]storage.PartitionID, error) {
		return s.store.PartitionIDs(ctx, a.Txn, a.Table, a.Values)
	})
}

func (s *server) DropPartitions(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Txn   storage.TxnID
		Table storage.TableID
		Ids   []storage.PartitionID
	}) (none, error) {
		return none{}, s.store.DropPartitions(ctx, a.Txn, a.Table, a.Ids)
	})
}

func (s *server) AddPartitions(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Table       storage.TableID
		Parts       []catalog.Partition
		IfNotExists bool
	}) (none, error) {
		return none{}, s.store.AddPartitions(ctx, a.Table, a.Parts, a.IfNotExists)
	})
}

func (s *server) AlterPartitions(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Table storage.TableID
		Parts []catalog.Partition
	}) (none, error) {
		return none{}, s.store.AlterPartitions(ctx, a.Table, a.Parts)
	})
}

func (s *server) Begin(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Kind   catalog.TxnKind
		Tables []storage.TableID
	}) (storage.TxnID, error) {
		return s.store.Begin(ctx, a.Kind, a.Tables)
	})
}

func (s *server) Commit(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a struct {
		Txn     storage.TxnID
		Winners []string
	}) (storage.Timestamp, error) {
		return s.store.Commit(ctx, a.Txn, a.Winners)
	})
}

func (s *server) Abort(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a storage.TxnID) (none, error) { return none{}, s.store.Abort(ctx, a) })
}

func (s *server) Forget(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, a storage.TxnID) (none, error) { return none{}, s.store.Forget(ctx, a) })
}

func (s *server) Open(ctx context.Context, req *catalogpb.Request) (*catalogpb.Reply, error) {
	return call(ctx, s, req, func(ctx context.Context, _ none) ([]catalog.TxnInfo, error) { return s.store.Open(ctx) })
}
