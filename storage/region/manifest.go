package region

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// manifestVersion is the first byte of a manifest record.
const manifestVersion = 2

// manifest is all that is known of a region: one Pebble value, replaced as a
// whole by each edit. Immutable once it is a region's current one. Its bytes
// are described in docs/format/folder.md.
type manifest struct {
	edit   uint64 // counts edits
	table  *storage.Table
	region storage.Region

	// segments that count, oldest first: among versions of one key with one
	// timestamp, which only rows of one load can have, the last wins.
	segments []entry
	// generations of the delta, oldest first; puts go to the last.
	generations []generation
	pending     []pendingTxn
	// truncates are committed range tombstones, in the order of their times.
	truncates []truncate
	// floor: versions that ended at or before it may be gone.
	floor storage.Timestamp
}

// entry lists a segment.
type entry struct {
	file uint64 // names the file, with the table
	// clip: only rows in it belong to the region; the rest of a file that was
	// there before a split belongs to others.
	clip  storage.KeyRange
	begin storage.Timestamp // of all rows, unless meta.Versions
	meta  segment.Meta
}

// minBegin and maxBegin bound the timestamps of the entry's rows.
func (e *entry) minBegin() storage.Timestamp {
	if e.meta.Versions {
		return e.meta.MinBegin
	}
	return e.begin
}

func (e *entry) maxBegin() storage.Timestamp {
	if e.meta.Versions {
		return e.meta.MaxBegin
	}
	return e.begin
}

// generation lists a part of the delta: the keys of generation id in clip.
type generation struct {
	id   uint64
	clip storage.KeyRange
}

// pendingTxn is a transaction whose outcome isn't applied yet.
type pendingTxn struct {
	txn       storage.TxnID
	truncates []storage.KeyRange // that it ends; clipped to the region
	attempts  []attempt
}

// attempt is what one attempt of a task has staged here.
type attempt struct {
	name     string
	segments []entry
}

// clone returns a copy whose lists can be changed. The entries' insides are
// shared: they are immutable.
func (m *manifest) clone() *manifest {
	c := *m
	c.segments = slices.Clone(m.segments)
	c.generations = slices.Clone(m.generations)
	c.truncates = slices.Clone(m.truncates)
	c.pending = make([]pendingTxn, len(m.pending))
	for i, p := range m.pending {
		p.attempts = slices.Clone(p.attempts)
		p.truncates = slices.Clone(p.truncates)
		c.pending[i] = p
	}
	return &c
}

// live returns the generation that puts go to.
func (m *manifest) live() generation { return m.generations[len(m.generations)-1] }

// txn returns the position of a pending transaction, or -1.
func (m *manifest) txn(id storage.TxnID) int {
	return slices.IndexFunc(m.pending, func(p pendingTxn) bool { return p.txn == id })
}

// files calls f for every segment the manifest lists, pending ones too.
func (m *manifest) files(f func(e *entry)) {
	for i := range m.segments {
		f(&m.segments[i])
	}
	for i := range m.pending {
		for j := range m.pending[i].attempts {
			a := &m.pending[i].attempts[j]
			for k := range a.segments {
				f(&a.segments[k])
			}
		}
	}
}

func appendRange(dst []byte, r storage.KeyRange) []byte {
	return appendBytes(appendBytes(dst, r.Start), r.End)
}

func (d *decoder) keyRange() storage.KeyRange {
	return storage.KeyRange{Start: d.key(), End: d.key()}
}

func appendEntry(dst []byte, e *entry) ([]byte, error) {
	meta, err := e.meta.MarshalBinary()
	if err != nil {
		return nil, err
	}
	dst = binary.AppendUvarint(dst, e.file)
	dst = appendRange(dst, e.clip)
	dst = binary.AppendUvarint(dst, uint64(e.begin))
	return appendBytes(dst, meta), nil
}

func (d *decoder) entry() (e entry) {
	e.file = d.uvarint()
	e.clip = d.keyRange()
	e.begin = storage.Timestamp(d.uvarint())
	meta := d.bytes()
	if d.err == nil {
		if err := e.meta.UnmarshalBinary(meta); err != nil {
			d.fail("file %d: %w", e.file, err)
		}
	}
	return e
}

func appendEntries(dst []byte, es []entry) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(len(es)))
	for i := range es {
		if dst, err = appendEntry(dst, &es[i]); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// minEntry is the least number of bytes of an entry.
const minEntry = 5

func (d *decoder) entries() []entry {
	es := make([]entry, 0, d.count(minEntry))
	for range cap(es) {
		es = append(es, d.entry())
	}
	return es
}

func appendTable(dst []byte, t *storage.Table) []byte {
	dst = binary.AppendUvarint(dst, uint64(t.ID))
	dst = appendString(dst, t.Name)
	dst = binary.AppendUvarint(dst, uint64(t.Version))
	dst = binary.AppendUvarint(dst, uint64(len(t.Columns)))
	for _, c := range t.Columns {
		dst = binary.AppendUvarint(dst, uint64(c.ID))
		dst = appendString(dst, c.Name)
		dst = appendType(dst, c.Type)
		dst = appendBool(dst, c.NotNull)
		dst = appendString(dst, c.Comment)
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Key)))
	for _, k := range t.Key {
		dst = binary.AppendUvarint(dst, uint64(k.Column))
		dst = appendBool(dst, k.Desc)
	}
	return appendBool(dst, t.Partitioned)
}

func (d *decoder) table() *storage.Table {
	t := &storage.Table{ID: storage.TableID(d.uvarint()), Name: d.string(), Version: int(d.uvarint())}
	for range d.count(6) {
		c := schema.Column{ID: schema.ColumnID(d.uvarint()), Name: d.string(), Type: d.typ(0), NotNull: d.bool(), Comment: d.string()}
		t.Columns = append(t.Columns, c)
	}
	for range d.count(2) {
		k := storage.KeyColumn{Column: schema.ColumnID(d.uvarint()), Desc: d.bool()}
		if d.err == nil && t.Columns.ByID(k.Column) < 0 {
			d.fail("the row key names column %d, which the table doesn't have", k.Column)
		}
		t.Key = append(t.Key, k)
	}
	t.Partitioned = d.bool()
	return t
}

func appendType(dst []byte, t schema.Type) []byte {
	dst = append(dst, byte(t.Kind), t.Precision, t.Scale)
	dst = binary.AppendUvarint(dst, uint64(t.Length))
	if t.Nested == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(append(dst, 1), uint64(len(t.Nested.Fields)))
	for _, f := range t.Nested.Fields {
		dst = appendType(appendString(dst, f.Name), f.Type)
	}
	return dst
}

// maxNesting bounds the depth of a type, as a guard against a broken record.
const maxNesting = 64

func (d *decoder) typ(depth int) schema.Type {
	t := schema.Type{Kind: schema.Kind(d.byte()), Precision: d.byte(), Scale: d.byte(), Length: uint16(d.uvarint())}
	if t.Kind > schema.Union {
		d.fail("unknown kind of type %d", t.Kind)
	}
	if !d.bool() {
		return t
	}
	if depth == maxNesting {
		d.fail("a type is nested more than %d deep", maxNesting)
		return t
	}
	t.Nested = &schema.Nested{}
	for range d.count(6) {
		t.Nested.Fields = append(t.Nested.Fields, schema.Field{Name: d.string(), Type: d.typ(depth + 1)})
	}
	return t
}

func appendRegion(dst []byte, r storage.Region) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.ID))
	dst = binary.AppendUvarint(dst, uint64(r.Table))
	dst = appendRange(dst, r.Range)
	dst = appendString(dst, string(r.Worker))
	return binary.AppendUvarint(dst, uint64(r.Folder))
}

func (d *decoder) region() storage.Region {
	return storage.Region{
		ID: storage.RegionID(d.uvarint()), Table: storage.TableID(d.uvarint()), Range: d.keyRange(),
		Worker: cluster.WorkerID(d.string()), Folder: int(d.uvarint()),
	}
}

// encode returns the manifest's record.
func (m *manifest) encode() (dst []byte, err error) {
	dst = append(dst, manifestVersion)
	dst = binary.AppendUvarint(dst, m.edit)
	dst = appendTable(dst, m.table)
	dst = appendRegion(dst, m.region)
	dst = binary.AppendUvarint(dst, uint64(m.floor))
	if dst, err = appendEntries(dst, m.segments); err != nil {
		return nil, err
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.generations)))
	for _, g := range m.generations {
		dst = appendRange(binary.AppendUvarint(dst, g.id), g.clip)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.truncates)))
	for _, t := range m.truncates {
		dst = binary.AppendUvarint(appendRange(dst, t.r), uint64(t.at))
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.pending)))
	for _, p := range m.pending {
		dst = binary.AppendUvarint(dst, uint64(p.txn))
		dst = binary.AppendUvarint(dst, uint64(len(p.truncates)))
		for _, r := range p.truncates {
			dst = appendRange(dst, r)
		}
		dst = binary.AppendUvarint(dst, uint64(len(p.attempts)))
		for _, a := range p.attempts {
			if dst, err = appendEntries(appendString(dst, a.name), a.segments); err != nil {
				return nil, err
			}
		}
	}
	return dst, nil
}

// decodeManifest reads a record that encode made.
func decodeManifest(b []byte) (*manifest, error) {
	d := &decoder{b: b}
	if v := d.byte(); d.err == nil && v != manifestVersion {
		return nil, fmt.Errorf("manifest record of version %d, this program reads version %d", v, manifestVersion)
	}
	m := &manifest{edit: d.uvarint(), table: d.table(), region: d.region(), floor: storage.Timestamp(d.uvarint()), segments: d.entries()}
	for range d.count(3) {
		m.generations = append(m.generations, generation{id: d.uvarint(), clip: d.keyRange()})
	}
	for range d.count(3) {
		m.truncates = append(m.truncates, truncate{r: d.keyRange(), at: storage.Timestamp(d.uvarint())})
	}
	for range d.count(3) {
		p := pendingTxn{txn: storage.TxnID(d.uvarint())}
		for range d.count(2) {
			p.truncates = append(p.truncates, d.keyRange())
		}
		for range d.count(2) {
			p.attempts = append(p.attempts, attempt{name: d.string(), segments: d.entries()})
		}
		m.pending = append(m.pending, p)
	}
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("manifest record: %w", err)
	}
	if len(m.generations) == 0 {
		return nil, fmt.Errorf("manifest record: region %d has no generation", m.region.ID)
	}
	for i, t := range m.truncates {
		if t.r.Empty() || i > 0 && t.at < m.truncates[i-1].at {
			return nil, fmt.Errorf("manifest record: region %d: truncate %d at %d of %s is out of place", m.region.ID, i, t.at, t.r)
		}
	}
	if m.region.Table != m.table.ID {
		return nil, fmt.Errorf("manifest record: region %d is of table %d, its descriptor of table %d", m.region.ID, m.region.Table, m.table.ID)
	}
	return m, nil
}
