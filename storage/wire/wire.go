// Package wire has the types by which storage/client asks storage/server, and
// what package coding must know of the store's and schema's types.
package wire

import (
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// Register makes predicates and values known to a registry.
func Register(r *coding.Registry) {
	coding.Custom(r, encodeNum, decodeNum)
	r.Add("storage.Compare", &storage.Compare{})
	r.Add("storage.In", &storage.In{})
	r.Add("storage.IsNull", &storage.IsNull{})
	r.Add("storage.And", storage.And{})
	r.Add("storage.Or", storage.Or{})
	// By name only so that they are part of the fingerprint.
	for name, args := range map[string]any{
		"storage.args.CreateRegion": CreateRegion{}, "storage.args.CutKeys": CutKeys{}, "storage.args.Get": Get{},
		"storage.args.Put": Put{}, "storage.args.Delete": Delete{}, "storage.args.StageTruncate": StageTruncate{},
		"storage.args.Split": Split{}, "storage.args.ReplaceEmpty": ReplaceEmpty{}, "storage.args.Stage": Stage{},
		"storage.args.Scan": storage.Scan{}, "storage.result.Parts": Parts{}, "storage.result.Stats": storage.RegionStats{},
		"storage.result.Staged": storage.Staged{}, "storage.result.ScanStats": storage.ScanStats{},
		"storage.result.Problem": storage.CheckProblem{}, "storage.result.Outcome": storage.Outcome{},
	} {
		r.Add(name, args)
	}
}

func encodeNum(n decimal128.Num) ([]byte, error) {
	b := binary.LittleEndian.AppendUint64(nil, n.LowBits())
	return binary.LittleEndian.AppendUint64(b, uint64(n.HighBits())), nil
}

func decodeNum(b []byte) (decimal128.Num, error) {
	if len(b) != 16 {
		return decimal128.Num{}, errors.New("want 16 bytes")
	}
	return decimal128.New(int64(binary.LittleEndian.Uint64(b[8:])), binary.LittleEndian.Uint64(b)), nil
}

// Errors keeps the meaning of the store's errors between processes.
func Errors() rpc.Translator {
	return rpc.Translator{Marks: []rpc.Mark{
		{Name: "storage.region gone", Sentinel: storage.ErrRegionGone},
		{Name: "unavailable", Sentinel: fault.ErrUnavailable},
	}}
}

// The arguments of storage.Server's methods that have more than one, and results.
type (
	CreateRegion struct {
		Table  *storage.Table
		Region storage.Region
	}
	CutKeys struct {
		Region storage.RegionID
		Range  storage.KeyRange
		At     storage.Timestamp
		N      int
	}
	Parts struct {
		Keys  []storage.Key
		Parts []storage.RegionStats
	}
	Get struct {
		Region  storage.RegionID
		Keys    []storage.Key
		At      storage.Timestamp
		Columns schema.Columns
	}
	Put struct {
		// Partitioned: the rows begin with a column of partition ids.
		Partitioned bool
		Region      storage.RegionID
		Columns     schema.Columns
		Rows        int // of the batch
	}
	Delete struct {
		Region storage.RegionID
		Keys   []storage.Key
	}
	StageTruncate struct {
		Region storage.RegionID
		Txn    storage.TxnID
		Ranges []storage.KeyRange
	}
	Split struct {
		Region storage.RegionID
		At     storage.Key
	}
	ReplaceEmpty struct {
		Region storage.RegionID
		With   []storage.Region
	}
	Stage struct {
		Table   *storage.Table
		Regions []storage.Region
		Options storage.StageOptions
	}
)

// Fields are the fields of columns.
func Fields(c schema.Columns) []schema.Field {
	out := make([]schema.Field, len(c))
	for i, x := range c {
		out[i] = schema.Field{Name: x.Name, Type: x.Type}
	}
	return out
}

// Written returns the columns of rows that are put or staged: those of a
// partitioned table begin with the partition ids.
func Written(columns schema.Columns, partitioned bool) schema.Columns {
	if !partitioned {
		return columns
	}
	return append(schema.Columns{{Name: "partition", Type: schema.IntType}}, columns...)
}

// Concat makes one batch of several; of none, an empty one.
func Concat(parts []*batch.Batch, columns schema.Columns) *batch.Batch {
	if len(parts) == 1 {
		return parts[0]
	}
	out := &batch.Batch{Columns: make([]arrow.Array, len(columns))}
	for i, p := range parts {
		parts[i] = batch.Compact(p)
		out.Len += parts[i].Len
	}
	for i, c := range columns {
		if len(parts) == 0 {
			out.Columns[i] = schema.ArrayOf(c.Type, nil)
			continue
		}
		arrays := make([]arrow.Array, len(parts))
		for k, p := range parts {
			arrays[k] = p.Columns[i]
		}
		out.Columns[i] = batch.Concat(arrays)
	}
	return out
}
