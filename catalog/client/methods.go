package client

import (
	"context"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// The methods of the catalogue whose arguments and results are plain values.

type none struct{}

// Timestamp implements catalog.Store.
func (s *Store) Timestamp(ctx context.Context) (storage.Timestamp, error) {
	return ask[storage.Timestamp](ctx, s, s.api.Timestamp, none{})
}

// Floor implements catalog.Store.
func (s *Store) Floor(ctx context.Context) (storage.Timestamp, error) {
	return ask[storage.Timestamp](ctx, s, s.api.Floor, none{})
}

// Outcome implements catalog.Store.
func (s *Store) Outcome(ctx context.Context, txn storage.TxnID) (storage.Outcome, error) {
	return ask[storage.Outcome](ctx, s, s.api.Outcome, txn)
}

// Regions implements catalog.Store.
func (s *Store) Regions(ctx context.Context, table storage.TableID) ([]storage.Region, error) {
	return ask[[]storage.Region](ctx, s, s.api.Regions, table)
}

// NewRegionID implements catalog.Store.
func (s *Store) NewRegionID(ctx context.Context) (storage.RegionID, error) {
	return ask[storage.RegionID](ctx, s, s.api.NewRegionID, none{})
}

// ReplaceRegions implements catalog.Store.
func (s *Store) ReplaceRegions(ctx context.Context, table storage.TableID, old []storage.RegionID, with []storage.Region) error {
	_, err := ask[none](ctx, s, s.api.ReplaceRegions, struct {
		Table storage.TableID
		Old   []storage.RegionID
		With  []storage.Region
	}{table, old, with})
	return err
}

// Databases implements catalog.Store.
func (s *Store) Databases(ctx context.Context) ([]catalog.Database, error) {
	return ask[[]catalog.Database](ctx, s, s.api.Databases, none{})
}

// Database implements catalog.Store.
func (s *Store) Database(ctx context.Context, name string) (catalog.Database, error) {
	return ask[catalog.Database](ctx, s, s.api.Database, name)
}

// CreateDatabase implements catalog.Store.
func (s *Store) CreateDatabase(ctx context.Context, d catalog.Database) error {
	_, err := ask[none](ctx, s, s.api.CreateDatabase, d)
	return err
}

// AlterDatabase implements catalog.Store.
func (s *Store) AlterDatabase(ctx context.Context, d catalog.Database) error {
	_, err := ask[none](ctx, s, s.api.AlterDatabase, d)
	return err
}

// DropDatabase implements catalog.Store.
func (s *Store) DropDatabase(ctx context.Context, name string) error {
	_, err := ask[none](ctx, s, s.api.DropDatabase, name)
	return err
}

// Tables implements catalog.Store.
func (s *Store) Tables(ctx context.Context, database string) ([]*catalog.Table, error) {
	return ask[[]*catalog.Table](ctx, s, s.api.Tables, database)
}

// Table implements catalog.Store.
func (s *Store) Table(ctx context.Context, database string, name string) (*catalog.Table, error) {
	return ask[*catalog.Table](ctx, s, s.api.Table, struct {
		Database string
		Name     string
	}{database, name})
}

// TableByID implements catalog.Store.
func (s *Store) TableByID(ctx context.Context, id storage.TableID) (*catalog.Table, error) {
	return ask[*catalog.Table](ctx, s, s.api.TableByID, id)
}

// AlterTable implements catalog.Store.
func (s *Store) AlterTable(ctx context.Context, t catalog.Table) (*catalog.Table, error) {
	return ask[*catalog.Table](ctx, s, s.api.AlterTable, t)
}

// Temporaries implements catalog.Store.
func (s *Store) Temporaries(ctx context.Context) ([]*catalog.Table, error) {
	return ask[[]*catalog.Table](ctx, s, s.api.Temporaries, none{})
}

// DropTable implements catalog.Store.
func (s *Store) DropTable(ctx context.Context, id storage.TableID) ([]storage.Region, error) {
	return ask[[]storage.Region](ctx, s, s.api.DropTable, id)
}

// Dropped implements catalog.Store.
func (s *Store) Dropped(ctx context.Context) ([]storage.Region, error) {
	return ask[[]storage.Region](ctx, s, s.api.Dropped, none{})
}

// ForgetDropped implements catalog.Store.
func (s *Store) ForgetDropped(ctx context.Context, ids []storage.RegionID) error {
	_, err := ask[none](ctx, s, s.api.ForgetDropped, ids)
	return err
}

// Partitions implements catalog.Store.
func (s *Store) Partitions(ctx context.Context, table storage.TableID, at storage.Timestamp) ([]*catalog.Partition, error) {
	return ask[[]*catalog.Partition](ctx, s, s.api.Partitions, struct {
		Table storage.TableID
		At    storage.Timestamp
	}{table, at})
}

// PartitionIDs implements catalog.Store.
func (s *Store) PartitionIDs(ctx context.Context, txn storage.TxnID, table storage.TableID, values [][]schema.Datum) ([]storage.PartitionID, error) {
	return ask[[]storage.PartitionID](ctx, s, s.api.PartitionIDs, struct {
		Txn    storage.TxnID
		Table  storage.TableID
		Values [][]schema.Datum
	}{txn, table, values})
}

// DropPartitions implements catalog.Store.
func (s *Store) DropPartitions(ctx context.Context, txn storage.TxnID, table storage.TableID, ids []storage.PartitionID) error {
	_, err := ask[none](ctx, s, s.api.DropPartitions, struct {
		Txn   storage.TxnID
		Table storage.TableID
		Ids   []storage.PartitionID
	}{txn, table, ids})
	return err
}

// AddPartitions implements catalog.Store.
func (s *Store) AddPartitions(ctx context.Context, table storage.TableID, parts []catalog.Partition, ifNotExists bool) error {
	_, err := ask[none](ctx, s, s.api.AddPartitions, struct {
		Table       storage.TableID
		Parts       []catalog.Partition
		IfNotExists bool
	}{table, parts, ifNotExists})
	return err
}

// AlterPartitions implements catalog.Store.
func (s *Store) AlterPartitions(ctx context.Context, table storage.TableID, parts []catalog.Partition) error {
	_, err := ask[none](ctx, s, s.api.AlterPartitions, struct {
		Table storage.TableID
		Parts []catalog.Partition
	}{table, parts})
	return err
}

// Begin implements catalog.Store.
func (s *Store) Begin(ctx context.Context, kind catalog.TxnKind, tables []storage.TableID) (storage.TxnID, error) {
	return ask[storage.TxnID](ctx, s, s.api.Begin, struct {
		Kind   catalog.TxnKind
		Tables []storage.TableID
	}{kind, tables})
}

// Commit implements catalog.Store.
func (s *Store) Commit(ctx context.Context, txn storage.TxnID, winners []string) (storage.Timestamp, error) {
	return ask[storage.Timestamp](ctx, s, s.api.Commit, struct {
		Txn     storage.TxnID
		Winners []string
	}{txn, winners})
}

// Abort implements catalog.Store.
func (s *Store) Abort(ctx context.Context, txn storage.TxnID) error {
	_, err := ask[none](ctx, s, s.api.Abort, txn)
	return err
}

// Forget implements catalog.Store.
func (s *Store) Forget(ctx context.Context, txn storage.TxnID) error {
	_, err := ask[none](ctx, s, s.api.Forget, txn)
	return err
}

// Open implements catalog.Store.
func (s *Store) Open(ctx context.Context) ([]catalog.TxnInfo, error) {
	return ask[[]catalog.TxnInfo](ctx, s, s.api.Open, none{})
}
