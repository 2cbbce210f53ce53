package metastore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// The keys, see docs/format/catalog.md. Numbers in keys and counters are eight
// bytes, big endian.
var (
	keyFormat = []byte("format")
	keyClock  = []byte("c/clock") // no timestamp at or above it has been given out
	keyFloor  = []byte("c/floor")
	keyIDs    = []byte("c/ids") // no id at or above it has been given out

	prefixDatabase = []byte("d/")
	prefixName     = []byte("n/")
	prefixTable    = []byte("t/")
	prefixRegion   = []byte("r/")
	prefixTxn      = []byte("x/")
	prefixDropped  = []byte("g/")

	prefixPartition = []byte("p/")
	prefixWrites    = []byte("w/")
	prefixTemporary = []byte("m/")
)

const (
	formatMagic = "skep catalog 1"
	// recordVersion begins every JSON value.
	recordVersion = 1
)

func databaseKey(name string) []byte { return append(clip(prefixDatabase), name...) }

func nameKey(database, table string) []byte {
	k := append(clip(prefixName), database...)
	k = append(k, 0)
	return append(k, table...)
}

func tableKey(id storage.TableID) []byte { return appendUint64(clip(prefixTable), uint64(id)) }

func regionKey(table storage.TableID, id storage.RegionID) []byte {
	return appendUint64(regionPrefix(table), uint64(id))
}

func regionPrefix(table storage.TableID) []byte {
	return appendUint64(clip(prefixRegion), uint64(table))
}

func txnKey(id storage.TxnID) []byte { return appendUint64(clip(prefixTxn), uint64(id)) }

func droppedKey(id storage.RegionID) []byte { return appendUint64(clip(prefixDropped), uint64(id)) }

func partitionPrefix(table storage.TableID) []byte {
	return appendUint64(clip(prefixPartition), uint64(table))
}

func partitionKey(table storage.TableID, id storage.PartitionID) []byte {
	return binary.BigEndian.AppendUint32(partitionPrefix(table), uint32(id))
}

// writesKey is what a transaction does to a partition.
func writesKey(txn storage.TxnID, table storage.TableID, id storage.PartitionID) []byte {
	return binary.BigEndian.AppendUint32(appendUint64(writesPrefix(txn), uint64(table)), uint32(id))
}

func writesPrefix(txn storage.TxnID) []byte { return appendUint64(clip(prefixWrites), uint64(txn)) }

func temporaryKey(id storage.TableID) []byte { return appendUint64(clip(prefixTemporary), uint64(id)) }

// clip makes append copy.
func clip(b []byte) []byte { return b[:len(b):len(b)] }

// after returns the first key that doesn't begin with prefix.
func after(prefix []byte) []byte {
	out := append([]byte(nil), prefix...)
	for i := len(out) - 1; i >= 0; i-- {
		if out[i]++; out[i] != 0 {
			return out[:i+1]
		}
	}
	return nil
}

func appendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

func decodeUint64(b []byte) (uint64, bool) {
	if len(b) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(b), true
}

// setRecord adds a JSON value with its version byte to a batch.
func setRecord(b *pebble.Batch, key []byte, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write catalogue key %q: %w", key, err)
	}
	return b.Set(key, append([]byte{recordVersion}, text...), nil)
}

func parseRecord(key, value []byte, record any) error {
	if len(value) == 0 || value[0] != recordVersion {
		return fault.Userf("catalogue key %q: its value has another version than %d: use a newer skep", key, recordVersion)
	}
	if err := json.Unmarshal(value[1:], record); err != nil {
		return fault.Bugf("catalogue key %q: %w", key, err)
	}
	return nil
}
