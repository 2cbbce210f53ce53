package frame

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Encoder turns batches into frames. It keeps scratch memory between calls; the
// zero value is usable. Not safe for concurrent use.
type Encoder struct {
	// Uncompressed leaves the frames as they are, for a pipe between two processes of
	// one machine.
	Uncompressed bool

	pack   packer
	remaps map[*array.Data]*remap
}

// remap is the way from the codes of a dictionary to those of a compacted one.
type remap struct {
	to      []int32 // new code + 1; 0: not used
	touched []int32 // codes for which to isn't 0
}

// Encode writes batches as one Arrow stream and gives emit its frames, each of
// which is valid during the call only. Small batches are joined. A column of
// which all arrays are dictionary-coded is written with one dictionary of the
// values in use, or as plain text where that is smaller. Equal batches give equal
// streams. The result is how many rows were written.
func (e *Encoder) Encode(fields []schema.Field, batches []*batch.Batch, emit func(frame []byte) error) (rows int64, err error) {
	columns := make([]column, len(fields))
	af := make([]arrow.Field, len(fields))
	for i, f := range fields {
		c, err := e.plan(i, batches)
		if err != nil {
			return 0, err
		}
		columns[i] = c
		af[i] = arrow.Field{Name: f.Name, Type: f.Type.Arrow(), Nullable: true}
		if c.dict != nil {
			af[i].Type = batch.DictionaryType()
		}
	}
	as := arrow.NewSchema(af, nil)
	e.pack.start(emit)
	e.pack.plain = e.Uncompressed
	w := ipc.NewWriter(&e.pack, ipc.WithSchema(as))
	for len(batches) > 0 {
		n, size := 0, 0
		for n < len(batches) && (n == 0 || size+batches[n].Rows() <= batch.MaxRows) {
			size += batches[n].Rows()
			n++
		}
		if size > 0 {
			if err := e.write(w, as, columns, batches[:n], size); err != nil {
				return rows, err
			}
			rows += int64(size)
		}
		batches = batches[n:]
	}
	if err := w.Close(); err != nil {
		return rows, fmt.Errorf("encode batches: %w", err)
	}
	return rows, e.pack.end()
}

// column is how a column is written.
type column struct {
	plain  bool                   // text of which some is coded, as plain text
	dict   *array.Data            // not nil: coded, all batches with this dictionary
	remaps map[*array.Data]*remap // to dict
}

// plan looks at what a column's arrays are and decides.
func (e *Encoder) plan(i int, batches []*batch.Batch) (column, error) {
	coded, plain := false, false
	for _, b := range batches {
		if i >= len(b.Columns) {
			return column{}, fmt.Errorf("encode batches: a batch has %d columns, not %d", len(b.Columns), i+1)
		}
		if batch.IsDictionary(b.Columns[i]) {
			coded = true
		} else {
			plain = true
		}
	}
	if !coded {
		return column{}, nil
	}
	if plain {
		return column{plain: true}, nil
	}
	var (
		merged    batch.Dictionary
		dictBytes = int64(4)
		codeBytes int64
		textBytes int64
		remaps    = map[*array.Data]*remap{}
	)
	for _, b := range batches {
		c := b.Columns[i]
		d := batch.DictionaryOf(c)
		m := remaps[d]
		if m == nil {
			m = e.remap(d)
			remaps[d] = m
		}
		text := batch.TextOfData(d)
		codes, valid := batch.Values[int32](c), batch.Validity(c)
		one := func(k int32) {
			codeBytes += 4
			textBytes += 4
			if valid != nil && !batch.BitSet(valid, int(k)) {
				return
			}
			code := codes[k]
			size := int64(len(text.Bytes(int(code))))
			textBytes += size
			if m.to[code] != 0 {
				return
			}
			before := merged.Len()
			to := merged.Add(text.String(int(code)))
			m.to[code] = to + 1
			m.touched = append(m.touched, code)
			if merged.Len() > before {
				dictBytes += size + 4
			}
		}
		if b.Sel != nil {
			for _, k := range b.Sel {
				one(k)
			}
		} else {
			for k := range b.Len {
				one(int32(k))
			}
		}
	}
	if merged.Len() == 0 || textBytes <= codeBytes+dictBytes {
		e.forget(remaps)
		return column{plain: true}, nil
	}
	// The scratch tables serve the next column, too: what this one needs of them is kept.
	own := make(map[*array.Data]*remap, len(remaps))
	for d, m := range remaps {
		own[d] = &remap{to: append([]int32(nil), m.to...)}
	}
	e.forget(remaps)
	return column{dict: merged.Data(), remaps: own}, nil
}

// remap returns an empty table for a dictionary.
func (e *Encoder) remap(d *array.Data) *remap {
	if e.remaps == nil {
		e.remaps = map[*array.Data]*remap{}
	}
	m := e.remaps[d]
	if m == nil {
		m = &remap{to: make([]int32, d.Len())}
		e.remaps[d] = m
	}
	return m
}

// forget empties tables for the next stream.
func (e *Encoder) forget(remaps map[*array.Data]*remap) {
	for _, m := range remaps {
		for _, c := range m.touched {
			m.to[c] = 0
		}
		m.touched = m.touched[:0]
	}
}

// write writes some batches as one record batch of size rows.
func (e *Encoder) write(w *ipc.Writer, as *arrow.Schema, columns []column, batches []*batch.Batch, size int) error {
	out := make([]arrow.Array, len(columns))
	parts := make([]arrow.Array, 0, len(batches))
	for i, c := range columns {
		parts = parts[:0]
		for _, b := range batches {
			if b.Rows() == 0 {
				continue
			}
			a := b.Columns[i]
			if b.Sel != nil {
				a = batch.Gather(a, b.Sel)
			}
			switch {
			case c.dict != nil:
				a = c.remaps[batch.DictionaryOf(b.Columns[i])].apply(a, c.dict)
			case c.plain:
				a = batch.Plain(a)
			}
			parts = append(parts, a)
		}
		out[i] = batch.Concat(parts)
	}
	rec := array.NewRecordBatch(as, out, int64(size))
	if err := w.Write(rec); err != nil {
		return fmt.Errorf("encode batches: %w", err)
	}
	return nil
}

// apply returns a with the codes of dict.
func (m *remap) apply(a arrow.Array, dict *array.Data) arrow.Array {
	codes, valid := batch.Values[int32](a), batch.Validity(a)
	out := make([]int32, len(codes))
	for k, c := range codes {
		if valid == nil || batch.BitSet(valid, k) {
			out[k] = m.to[c] - 1
		}
	}
	return batch.NewDictionary(out, valid, dict)
}
