package segment

import (
	"encoding/binary"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

const metaVersion = 2

// Flags of an encoded Meta.
const (
	flagVersions     = 1 << 0
	flagMultiVersion = 1 << 1
)

// MarshalBinary encodes m for the manifest (docs/format/segment.md).
func (m *Meta) MarshalBinary() ([]byte, error) {
	flags := uint64(0)
	if m.Versions {
		flags |= flagVersions
	}
	if m.MultiVersion {
		flags |= flagMultiVersion
	}
	b := []byte{metaVersion}
	for _, v := range []uint64{flags, uint64(m.Rows), uint64(m.Bytes), uint64(m.SchemaVersion), uint64(m.Tombstones),
		uint64(m.MinBegin), uint64(m.MaxBegin)} {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, m.Checksum)
	b = appendBytes(b, m.FirstKey)
	b = appendBytes(b, m.LastKey)
	b = binary.AppendUvarint(b, uint64(len(m.Columns)))
	for _, c := range m.Columns {
		b = binary.AppendUvarint(b, uint64(c))
	}
	b = binary.AppendUvarint(b, uint64(len(m.Runs)))
	for _, r := range m.Runs {
		for _, v := range []uint64{uint64(r.Partition), uint64(r.Stripe), r.Load, uint64(r.Task), r.Ordinal, uint64(r.Count)} {
			b = binary.AppendUvarint(b, v)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.RowGroups)))
	for _, g := range m.RowGroups {
		b = appendBytes(b, g.FirstKey)
		b = binary.AppendUvarint(b, uint64(g.Rows))
		b = binary.AppendUvarint(b, uint64(g.Bytes))
	}
	return b, nil
}

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// metaReader takes values off an encoded Meta; after a fault it gives zeros.
type metaReader struct {
	rest []byte
	bad  bool
}

func (r *metaReader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// int takes a number that must not be negative as an int64.
func (r *metaReader) int() int64 {
	v := r.uint()
	if v > 1<<62 {
		r.bad = true
		return 0
	}
	return int64(v)
}

// count takes a number of things that need at least one byte each.
func (r *metaReader) count() int {
	v := r.uint()
	if v > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(v)
}

func (r *metaReader) bytes() []byte {
	n := r.count()
	v := append([]byte(nil), r.rest[:n]...)
	r.rest = r.rest[n:]
	return v
}

// UnmarshalBinary decodes what MarshalBinary made.
func (m *Meta) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || data[0] != metaVersion {
		return fault.Bugf("segment entry %x: not of version %d", data[:min(len(data), 16)], metaVersion)
	}
	r := metaReader{rest: data[1:]}
	flags := r.uint()
	out := Meta{Versions: flags&flagVersions != 0, MultiVersion: flags&flagMultiVersion != 0}
	out.Rows, out.Bytes, out.SchemaVersion, out.Tombstones = r.int(), r.int(), int(r.int()), r.int()
	out.MinBegin, out.MaxBegin = storage.Timestamp(r.uint()), storage.Timestamp(r.uint())
	if len(r.rest) < 4 {
		return fault.Bugf("segment entry of %d bytes: cut off", len(data))
	}
	out.Checksum = binary.LittleEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	out.FirstKey, out.LastKey = r.bytes(), r.bytes()
	for range r.count() {
		out.Columns = append(out.Columns, schema.ColumnID(r.int()))
	}
	for range r.count() {
		out.Runs = append(out.Runs, Run{storage.PartitionID(r.uint()), uint16(r.uint()), r.uint(), uint32(r.uint()), r.uint(), r.int()})
	}
	var row int64
	for range r.count() {
		g := RowGroup{FirstKey: r.bytes(), FirstRow: row, Rows: r.int(), Bytes: r.int()}
		row += g.Rows
		out.RowGroups = append(out.RowGroups, g)
	}
	if r.bad || len(r.rest) > 0 || row != out.Rows || flags > flagVersions|flagMultiVersion {
		return fault.Bugf("segment entry of %d bytes: damaged at byte %d", len(data), len(data)-len(r.rest))
	}
	*m = out
	return nil
}
