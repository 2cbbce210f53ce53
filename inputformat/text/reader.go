package text

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/schema"
)

// reader reads one split. It fills a block with as many whole records as make a
// batch, then turns them into arrays column by column.
type reader struct {
	spec   Spec
	tok    Tokenizer
	body   Body
	fields []schema.Field

	in     io.ReadCloser
	left   int64 // bytes of the split that haven't been read
	size   int   // how many bytes the block takes
	final  bool  // all have
	offset int64 // of block.Data[0] in the file
	block  *Block
	out    []*schema.Appender
	bad    []int32
	isBad  []bool // rows of the block, with Skip
	reject *rejects
	stats  inputformat.Stats
	err    error
}

func newReader(spec Spec, tok Tokenizer, body Body) (*reader, error) {
	in, err := body.File.open(body.Start)
	if err != nil {
		return nil, err
	}
	r := &reader{spec: spec, tok: tok, body: body, fields: spec.Fields(), in: in, left: body.End - body.Start, offset: body.Start}
	slot := make([]int32, 0, len(spec.Columns))
	wanted := 0
	for i := range spec.Columns {
		s := int32(spec.Out.Index(spec.Columns[i].Name))
		slot = append(slot, s)
		if s >= 0 {
			wanted = i + 1
		}
	}
	strict := spec.OnError != Null
	r.block = newBlock(slot[:wanted], len(spec.Out), strict)
	r.size = int(min(bufferBytes, r.left))
	r.block.Data = make([]byte, 0, r.size)
	o, err := spec.Options(0)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	var form *schema.CellForm // of all nested columns
	for i, c := range spec.Out {
		a := schema.NewAppender(c.Type, firstRoom)
		if c.Type.IsNested() {
			if form == nil {
				form = schema.NewCellForm(o.Items, o.MapKeys, o.Escape, string(o.NullText))
			}
			a.SetCellForm(form)
			r.block.Raw[i] = true
		}
		r.out = append(r.out, a)
	}
	if spec.OnError == Skip && spec.RejectPath != "" {
		r.reject = newRejects(spec.RejectPath, body)
	}
	return r, nil
}

// Fields implements batch.Reader.
func (r *reader) Fields() []schema.Field { return r.fields }

// Stats implements inputformat.Reader.
func (r *reader) Stats() inputformat.Stats { return r.stats }

// Close implements batch.Reader.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = errors.New("text file: read after Close")
	}
	return r.release()
}

func (r *reader) release() error {
	var err error
	if r.in != nil {
		err = r.in.Close()
		r.in = nil
	}
	r.block = nil
	return errors.Join(err, r.reject.abort())
}

// Next implements batch.Reader.
func (r *reader) Next(ctx context.Context) (*batch.Batch, error) {
	if r.err != nil {
		return nil, r.err
	}
	b, err := r.next(ctx)
	if err == nil {
		return b, nil
	}
	if errors.Is(err, io.EOF) {
		if finishErr := r.reject.finish(); finishErr != nil {
			err = finishErr
		}
	}
	r.err = err
	if closeErr := r.release(); closeErr != nil && errors.Is(err, io.EOF) {
		r.err = closeErr
	}
	return nil, r.err
}

func (r *reader) next(ctx context.Context) (*batch.Batch, error) {
	b := r.block
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
		b.reset()
		r.tok.Tokenize(b, r.final)
		if b.row > 0 {
			out, err := r.build()
			if err != nil || out.Rows() > 0 {
				return out, err
			}
			continue // every row was left out
		}
		switch {
		case b.broken != "":
			return nil, r.brokenError()
		case r.final && b.Pos == b.Len:
			return nil, io.EOF
		case r.final:
			continue // only empty lines so far
		}
	}
}

// fill moves what is left of the block to its front and reads on. The block
// grows when one record fills it.
func (r *reader) fill() error {
	b := r.block
	n := copy(b.Data[:b.Len], b.Data[b.Pos:b.Len])
	r.offset += int64(b.Pos)
	b.Pos, b.Len = 0, n
	b.Data = b.Data[:n]
	if r.final {
		return nil
	}
	if n == r.size {
		if n >= maxRecord {
			return tooLong(r.body.File, r.offset)
		}
		r.size = max(2*n, bufferBytes)
	}
	if cap(b.Data) < r.size {
		b.Data = append(make([]byte, 0, r.size), b.Data...)
	}
	room := b.Data[n : n+int(min(int64(r.size-n), r.left))]
	got, err := io.ReadFull(r.in, room)
	b.Len += got
	b.Data = b.Data[:b.Len]
	r.left -= int64(got)
	r.stats.BytesRead += int64(got)
	switch {
	case err == nil:
		r.final = r.left == 0
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if !r.body.File.compressed() {
			return r.body.File.readError(io.ErrUnexpectedEOF) // the split is longer than the file
		}
		// ReadFull makes ErrUnexpectedEOF of the stream's end; so does a gzip
		// file that is cut off: only another read tells.
		if _, again := r.in.Read(make([]byte, 1)); !errors.Is(again, io.EOF) {
			return r.body.File.readError(again)
		}
		r.final = true
	default:
		return r.body.File.readError(err)
	}
	return nil
}

// build makes a batch of the block's rows.
func (r *reader) build() (*batch.Batch, error) {
	b := r.block
	n := b.row
	r.stats.RowsRead += int64(n)
	if r.spec.OnError == Skip {
		if cap(r.isBad) < n {
			r.isBad = make([]bool, batch.MaxRows)
		}
		r.isBad = r.isBad[:n]
		clear(r.isBad)
	}
	// The first bad cell in the file, with Abort.
	first := problem{row: n}
	if r.spec.OnError != Null {
		for row, fields := range b.fields {
			if int(fields) != len(r.spec.Columns) {
				first = r.note(first, problem{row: row, column: wrongFields})
			}
		}
		for i, m := range b.malformed {
			first = r.note(first, problem{row: m.row, column: malformed, which: i})
		}
	}
	out := &batch.Batch{Columns: make([]arrow.Array, len(r.out)), Len: n}
	for i, a := range r.out {
		cells := b.cells[i][:n]
		r.bad = a.AppendCells(b.Data, cells, r.bad[:0])
		out.Columns[i] = a.Finish()
		notNull := r.spec.Out[i].NotNull
		if r.spec.OnError == Null && !notNull {
			for _, row := range r.bad {
				if cells[row].Len > 0 {
					r.stats.BadCells++
				}
			}
			continue
		}
		for _, row := range r.bad {
			first = r.note(first, problem{row: int(row), column: i})
		}
		if notNull {
			for row := range cells {
				if cells[row].Len < 0 {
					first = r.note(first, problem{row: row, column: i})
				}
			}
		}
	}
	if first.row == n {
		return out, nil
	}
	if r.spec.OnError != Skip {
		return nil, r.cellError(first)
	}
	out.Sel = make([]int32, 0, n)
	for row, bad := range r.isBad {
		if !bad {
			out.Sel = append(out.Sel, int32(row))
			continue
		}
		r.stats.BadRows++
		if err := r.reject.add(b.Data[b.records[row].start:b.records[row].end]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// note keeps the earlier of two problems, by row, then by the order in which
// they are looked for.
func (r *reader) note(first, p problem) problem {
	if r.isBad != nil {
		r.isBad[p.row] = true
	}
	if p.row < first.row {
		return p
	}
	return first
}
