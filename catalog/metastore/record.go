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
	Comment    string            `json:"comment,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	Created    time.Time         `json:"created"`
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
	}
	for _, c := range t.Columns {
		r.Columns = append(r.Columns, columnRecord{int32(c.ID), c.Name, c.Type.String(), c.NotNull, c.Comment})
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
	}
	for _, c := range r.Columns {
		typ, err := schema.ParseType(c.Type)
		if err != nil {
			return nil, err
		}
		t.Columns = append(t.Columns, schema.Column{ID: schema.ColumnID(c.ID), Name: c.Name, Type: typ, NotNull: c.NotNull, Comment: c.Comment})
	}
	for _, k := range r.Key {
		t.Key = append(t.Key, storage.KeyColumn{Column: schema.ColumnID(k.Column), Desc: k.Desc})
	}
	return t, nil
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
