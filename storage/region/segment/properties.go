package segment

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Keys of the footer's key-value metadata (docs/format/segment.md).
const (
	propFormat = "skep.format" // "1"
	propSchema = "skep.schema" // JSON of fileSchema
	propIndex  = "skep.index"  // key index, base64
	propNaN    = "skep.nan"    // JSON list of nanChunk
	propRuns   = "skep.runs"   // JSON list of Run

	formatVersion = "1"
)

// fileSchema tells what the Parquet schema can't.
type fileSchema struct {
	Version int          `json:"version"` // of the table's schema
	Columns []fileColumn `json:"columns"`
	Key     []fileKey    `json:"key"`
	// Partitioned: row keys begin with a partition id.
	Partitioned bool `json:"partitioned,omitempty"`
}

type fileColumn struct {
	ID   schema.ColumnID `json:"id"`
	Type string          `json:"type"` // as HiveQL writes it; for people
	fileType
}

// fileType is a schema.Type.
type fileType struct {
	Kind      schema.Kind `json:"kind"`
	Precision uint8       `json:"precision,omitempty"`
	Scale     uint8       `json:"scale,omitempty"`
	Length    uint16      `json:"length,omitempty"`
	Parts     []filePart  `json:"parts,omitempty"` // of a nested type
}

type filePart struct {
	Name string `json:"name,omitempty"`
	fileType
}

func fileTypeOf(t schema.Type) fileType {
	out := fileType{Kind: t.Kind, Precision: t.Precision, Scale: t.Scale, Length: t.Length}
	if t.Nested != nil {
		for _, f := range t.Nested.Fields {
			out.Parts = append(out.Parts, filePart{f.Name, fileTypeOf(f.Type)})
		}
	}
	return out
}

// typ returns the type, or an error if there is no such one.
func (f *fileType) typ(depth int) (schema.Type, error) {
	t := schema.Type{Kind: f.Kind, Precision: f.Precision, Scale: f.Scale, Length: f.Length}
	if !t.IsNested() {
		if len(f.Parts) > 0 {
			return t, fault.Bugf("a %s with parts", t)
		}
		return t, nil
	}
	if n := len(f.Parts); n == 0 || t.Kind == schema.Array && n != 1 || t.Kind == schema.Map && n != 2 || depth > maxLevel {
		return t, fault.Bugf("a type of kind %d with %d parts", f.Kind, n)
	}
	t.Nested = &schema.Nested{}
	for i := range f.Parts {
		part, err := f.Parts[i].typ(depth + 1)
		if err != nil {
			return t, err
		}
		t.Nested.Fields = append(t.Nested.Fields, schema.Field{Name: f.Parts[i].Name, Type: part})
	}
	return t, nil
}

type fileKey struct {
	ID   schema.ColumnID `json:"id"`
	Desc bool            `json:"desc,omitempty"`
}

// nanChunk names a column chunk with a NaN, which statistics leave out.
type nanChunk struct {
	Group int   `json:"group"`
	Field int32 `json:"field"`
}

// writeProperties adds the footer's key-value metadata.
func (w *Writer) writeProperties() error {
	s := fileSchema{Version: w.o.SchemaVersion, Partitioned: w.o.Partitioned}
	for _, c := range w.o.Columns {
		s.Columns = append(s.Columns, fileColumn{c.ID, c.Type.String(), fileTypeOf(c.Type)})
	}
	for _, k := range w.o.Key {
		s.Key = append(s.Key, fileKey{k.Column, k.Desc})
	}
	put := func(key string, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return w.pq.AppendKeyValueMetadata(key, string(text))
	}
	if err := w.pq.AppendKeyValueMetadata(propFormat, formatVersion); err != nil {
		return err
	}
	if err := put(propSchema, s); err != nil {
		return err
	}
	if len(w.o.Key) > 0 {
		if err := w.pq.AppendKeyValueMetadata(propIndex, encodeIndex(w.index)); err != nil {
			return err
		}
	}
	if len(w.nan) > 0 {
		if err := put(propNaN, w.nan); err != nil {
			return err
		}
	}
	if len(w.meta.Runs) > 0 {
		return put(propRuns, w.meta.Runs)
	}
	return nil
}

// encodeIndex encodes the key index: for each row group the number of keys,
// then each key as the bytes it shares with the one before and the rest.
func encodeIndex(index []Keys) string {
	var b []byte
	for _, keys := range index {
		b = binary.AppendUvarint(b, uint64(keys.Len()))
		var last []byte
		for i := range keys.Len() {
			k := keys.At(i)
			shared := 0
			for shared < min(len(k), len(last)) && k[shared] == last[shared] {
				shared++
			}
			b = binary.AppendUvarint(b, uint64(shared))
			b = appendBytes(b, k[shared:])
			last = k
		}
	}
	return base64.StdEncoding.EncodeToString(b)
}

func decodeIndex(text string, groups int) ([]Keys, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fault.Bugf("key index: %w", err)
	}
	r := metaReader{rest: b}
	out := make([]Keys, groups)
	for g := range out {
		n := r.count()
		var last []byte
		for range n {
			shared := r.uint()
			rest := r.bytes()
			if shared > uint64(len(last)) {
				r.bad = true
				break
			}
			last = append(append([]byte(nil), last[:shared]...), rest...)
			out[g].Append(last)
		}
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fault.Bugf("key index: damaged at byte %d", len(b)-len(r.rest))
	}
	return out, nil
}
