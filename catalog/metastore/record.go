package metastore

import (
	"time"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// The values, apart from the contract's types so that a renamed field there
// doesn't change what is on disk.

type databaseRecord struct {
	Comment         string            `json:"comment,omitempty"`
	Properties      map[string]string `json:"properties,omitempty"`
	Location        string            `json:"location,omitempty"`
	ManagedLocation string            `json:"managed_location,omitempty"`
	Owner           string            `json:"owner,omitempty"`
	OwnerType       string            `json:"owner_type,omitempty"`
	Created         time.Time         `json:"created"`
}

type tableRecord struct {
	Version      int               `json:"version"`
	Database     string            `json:"database"`
	Name         string            `json:"name"`
	Columns      []columnRecord    `json:"columns"`
	Key          []keyRecord       `json:"key,omitempty"`
	NextColumnID int32             `json:"next_column_id"`
	Comment      string            `json:"comment,omitempty"`
	Properties   map[string]string `json:"properties,omitempty"`
	RowFormat    rowFormatRecord   `json:"row_format,omitzero"`
	StoredAs     string            `json:"stored_as,omitempty"`
	WantRegions  int               `json:"want_regions,omitempty"`
	Owner        string            `json:"owner,omitempty"`
	Created      time.Time         `json:"created"`

	Kind             string             `json:"kind,omitempty"`
	PartitionColumns []columnRecord     `json:"partition_columns,omitempty"`
	Serde            string             `json:"serde,omitempty"`
	SerdeProperties  map[string]string  `json:"serde_properties,omitempty"`
	Location         string             `json:"location,omitempty"`
	ViewText         string             `json:"view_text,omitempty"`
	ViewDatabase     string             `json:"view_database,omitempty"`
	Buckets          bucketsRecord      `json:"buckets,omitzero"`
	Skew             skewRecord         `json:"skew,omitzero"`
	Constraints      []constraintRecord `json:"constraints,omitempty"`
	Temporary        bool               `json:"temporary,omitempty"`
	Modified         time.Time          `json:"modified,omitzero"`
}

type bucketsRecord struct {
	N       int          `json:"n"`
	Columns []string     `json:"columns"`
	Sorted  []sortRecord `json:"sorted,omitempty"`
}

type sortRecord struct {
	Name string `json:"name"`
	Desc bool   `json:"desc,omitempty"`
}

type skewRecord struct {
	Columns             []string   `json:"columns"`
	Values              [][]string `json:"values"`
	StoredAsDirectories bool       `json:"stored_as_directories,omitempty"`
}

type constraintRecord struct {
	Kind       string   `json:"kind"`
	Name       string   `json:"name"`
	Columns    []string `json:"columns,omitempty"`
	Text       string   `json:"text,omitempty"`
	RefTable   string   `json:"ref_table,omitempty"`
	RefColumns []string `json:"ref_columns,omitempty"`
	Enforced   bool     `json:"enforced,omitempty"`
	Validated  bool     `json:"validated,omitempty"`
	Rely       bool     `json:"rely,omitempty"`
}

// columnRecord has the type as SQL writes it.
type columnRecord struct {
	ID      int32  `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	NotNull bool   `json:"not_null,omitempty"`
	Comment string `json:"comment,omitempty"`
}

type keyRecord struct {
	Column int32 `json:"column"`
	Desc   bool  `json:"desc,omitempty"`
}

type rowFormatRecord struct {
	FieldDelimiter  string `json:"field,omitempty"`
	Escape          string `json:"escape,omitempty"`
	LineDelimiter   string `json:"line,omitempty"`
	CollectionDelim string `json:"collection,omitempty"`
	MapKeyDelim     string `json:"map_key,omitempty"`
	NullText        string `json:"null,omitempty"`
	CSV             bool   `json:"csv,omitempty"`
}

// regionRecord has keys as base64, as encoding/json writes bytes.
type regionRecord struct {
	Start  []byte `json:"start,omitempty"`
	End    []byte `json:"end,omitempty"`
	Worker string `json:"worker"`
	Folder int    `json:"folder"`
	Table  uint64 `json:"table,omitempty"` // only of dropped regions
}

type txnRecord struct {
	Kind    string    `json:"kind"`
	Tables  []uint64  `json:"tables,omitempty"`
	State   string    `json:"state"` // undecided, committed, aborted
	At      uint64    `json:"at,omitempty"`
	Winners []string  `json:"winners,omitempty"`
	Started time.Time `json:"started"`
}

func recordOfTable(t *catalog.Table) tableRecord {
	r := tableRecord{
		Version: t.Version, Database: t.Database, Name: t.TableName, NextColumnID: int32(t.NextColumnID),
		Comment: t.Comment, Properties: t.Properties, RowFormat: rowFormatRecord(t.RowFormat), StoredAs: t.StoredAs,
		WantRegions: t.WantRegions, Owner: t.Owner, Created: t.Created,
		Kind: string(t.Kind), Serde: t.Serde, SerdeProperties: t.SerdeProperties, Location: t.Location,
		ViewText: t.ViewText, ViewDatabase: t.ViewDatabase, Temporary: t.Temporary, Modified: t.Modified,
		Columns: recordOfColumns(t.Columns), PartitionColumns: recordOfColumns(t.PartitionColumns),
		Buckets: bucketsRecord{N: t.Buckets.N, Columns: t.Buckets.Columns}, Skew: skewRecord(t.Skew),
	}
	for _, c := range t.Buckets.Sorted {
		r.Buckets.Sorted = append(r.Buckets.Sorted, sortRecord(c))
	}
	for _, c := range t.Constraints {
		r.Constraints = append(r.Constraints, constraintRecord{string(c.Kind), c.Name, c.Columns, c.Text, c.RefTable, c.RefColumns, c.Enforced, c.Validated, c.Rely})
	}
	for _, k := range t.Key {
		r.Key = append(r.Key, keyRecord{int32(k.Column), k.Desc})
	}
	return r
}

func (r tableRecord) table(id storage.TableID) (*catalog.Table, error) {
	t := &catalog.Table{
		Table:    storage.Table{ID: id, Name: r.Database + "." + r.Name, Version: r.Version},
		Database: r.Database, TableName: r.Name, NextColumnID: schema.ColumnID(r.NextColumnID),
		Comment: r.Comment, Properties: r.Properties, RowFormat: catalog.RowFormat(r.RowFormat), StoredAs: r.StoredAs,
		WantRegions: r.WantRegions, Owner: r.Owner, Created: r.Created,
		Kind: catalog.TableKind(r.Kind), Serde: r.Serde, SerdeProperties: r.SerdeProperties, Location: r.Location,
		ViewText: r.ViewText, ViewDatabase: r.ViewDatabase, Temporary: r.Temporary, Modified: r.Modified,
		Buckets: catalog.Buckets{N: r.Buckets.N, Columns: r.Buckets.Columns}, Skew: catalog.Skew(r.Skew),
	}
	var err error
	if t.Columns, err = columnsOf(r.Columns); err != nil {
		return nil, err
	}
	if t.PartitionColumns, err = columnsOf(r.PartitionColumns); err != nil {
		return nil, err
	}
	t.Partitioned = len(t.PartitionColumns) > 0
	for _, c := range r.Buckets.Sorted {
		t.Buckets.Sorted = append(t.Buckets.Sorted, catalog.SortColumn(c))
	}
	for _, c := range r.Constraints {
		t.Constraints = append(t.Constraints, catalog.Constraint{Kind: catalog.ConstraintKind(c.Kind), Name: c.Name, Columns: c.Columns, Text: c.Text,
			RefTable: c.RefTable, RefColumns: c.RefColumns, Enforced: c.Enforced, Validated: c.Validated, Rely: c.Rely})
	}
	for _, k := range r.Key {
		t.Key = append(t.Key, storage.KeyColumn{Column: schema.ColumnID(k.Column), Desc: k.Desc})
	}
	return t, nil
}

func recordOfColumns(columns schema.Columns) []columnRecord {
	var out []columnRecord
	for _, c := range columns {
		out = append(out, columnRecord{int32(c.ID), c.Name, c.Type.String(), c.NotNull, c.Comment})
	}
	return out
}

func columnsOf(records []columnRecord) (schema.Columns, error) {
	var out schema.Columns
	for _, c := range records {
		typ, err := schema.ParseType(c.Type)
		if err != nil {
			return nil, err
		}
		out = append(out, schema.Column{ID: schema.ColumnID(c.ID), Name: c.Name, Type: typ, NotNull: c.NotNull, Comment: c.Comment})
	}
	return out, nil
}

func recordOfDatabase(d catalog.Database) databaseRecord {
	return databaseRecord{Comment: d.Comment, Properties: d.Properties, Location: d.Location, ManagedLocation: d.ManagedLocation,
		Owner: d.Owner, OwnerType: d.OwnerType, Created: d.Created.UTC()}
}

func (r databaseRecord) database(name string) catalog.Database {
	return catalog.Database{Name: name, Comment: r.Comment, Properties: r.Properties, Location: r.Location, ManagedLocation: r.ManagedLocation,
		Owner: r.Owner, OwnerType: r.OwnerType, Created: r.Created}
}

func recordOfRegion(r storage.Region) regionRecord {
	return regionRecord{Start: r.Range.Start, End: r.Range.End, Worker: string(r.Worker), Folder: r.Folder}
}

func (r regionRecord) region(table storage.TableID, id storage.RegionID) storage.Region {
	return storage.Region{ID: id, Table: table, Range: storage.KeyRange{Start: r.Start, End: r.End}, Worker: cluster.WorkerID(r.Worker), Folder: r.Folder}
}

const (
	stateUndecided = "undecided"
	stateCommitted = "committed"
	stateAborted   = "aborted"
)

func (r txnRecord) outcome() storage.Outcome {
	switch r.State {
	case stateCommitted:
		return storage.Outcome{State: storage.Committed, At: storage.Timestamp(r.At), Winners: r.Winners}
	case stateUndecided:
		return storage.Outcome{State: storage.Undecided}
	}
	return storage.Outcome{State: storage.Aborted}
}
