package text

import (
	"bytes"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Tokenizer knows how records and fields are told apart.
type Tokenizer interface {
	// Tokenize takes whole records off b.Data[b.Pos:b.Len] with b.Begin, b.Put
	// and b.End, until there is none left or b.Full. final: the data doesn't go
	// on, so what is left is a record.
	Tokenize(b *Block, final bool)
	// Record returns the length of the first record of data, line end
	// included, or -1 if it isn't whole.
	Record(data []byte, final bool) int
	// LineEnds reports that every line end ends a record, so that a file can be
	// cut without reading it from the start.
	LineEnds() bool
}

// Block is a part of a file and the fields that were found in it, by column.
type Block struct {
	// Data is the file's bytes in [0, Len), and behind them the fields that had
	// to be rewritten (unescaped).
	Data []byte
	Len  int
	Pos  int // of the first byte that hasn't been tokenized

	// Slot is, for each field of a record, where it goes in cells, or -1;
	// fields from len(Slot) on are not wanted.
	Slot []int32
	// CountFields: the number of fields must be known even where they aren't
	// wanted.
	CountFields bool
	// Raw is, by slot, whether a field keeps its escapes: those in nested values
	// are undone part by part.
	Raw []bool

	cells   [][]schema.Cell // by slot, then by row
	records []span
	fields  []int32 // of each record, when CountFields
	room    int     // rows that fit in cells
	row     int     // rows so far

	malformed []malformedRow // rows that can't be told apart into fields

	broken     string // what is wrong with the record at Pos
	brokenFrom int
}

type span struct{ start, end int32 }

type malformedRow struct {
	row, where int
	what       string
}

const firstRoom = 1024

func newBlock(slot []int32, columns int, countFields bool) *Block {
	b := &Block{Slot: slot, CountFields: countFields, cells: make([][]schema.Cell, columns), Raw: make([]bool, columns)}
	b.grow(firstRoom)
	return b
}

func (b *Block) grow(room int) {
	for i, c := range b.cells {
		b.cells[i] = append(make([]schema.Cell, 0, room), c...)[:room]
	}
	b.room = room
}

func (b *Block) reset() {
	b.row, b.records, b.fields = 0, b.records[:0], b.fields[:0]
	b.Data = b.Data[:b.Len]
	b.malformed, b.broken = b.malformed[:0], ""
}

// Full reports that no more records fit.
func (b *Block) Full() bool { return b.row >= batch.MaxRows }

// Begin starts a record and returns the cells of its row: column Slot[f] of field f
// is Cells()[Slot[f]][row].
func (b *Block) Begin() (row int) {
	if b.row == b.room {
		b.grow(min(2*b.room, batch.MaxRows))
	}
	return b.row
}

// Cells returns the cells by slot; each has room for the row of Begin.
func (b *Block) Cells() [][]schema.Cell { return b.cells }

// End ends the record that is Data[start:end], without its line end, after so
// many fields; fields of it that are wanted and missing become NULL.
func (b *Block) End(start, end, fields int) {
	for f := fields; f < len(b.Slot); f++ {
		if s := b.Slot[f]; s >= 0 {
			b.cells[s][b.row] = schema.Cell{Len: -1}
		}
	}
	b.records = append(b.records, span{int32(start), int32(end)})
	if b.CountFields {
		b.fields = append(b.fields, int32(fields))
	}
	b.row++
}

// Malformed says, between Begin and End, that the record is not as it must be;
// its fields are a guess. where is a position in Data.
func (b *Block) Malformed(where int, what string) {
	b.malformed = append(b.malformed, malformedRow{b.row, where, what})
}

// Broken says that there is no record at Pos, and so none after it; where is a position in Data.
func (b *Block) Broken(where int, what string) {
	b.broken, b.brokenFrom = what, where
}

// Rewrite begins a field that isn't in the data as it is: append to what it returns and
// give that to Rewritten.
func (b *Block) Rewrite() []byte { return b.Data }

// Rewritten returns the cell of a field that was appended to Rewrite's result.
func (b *Block) Rewritten(data []byte) schema.Cell {
	c := schema.Cell{Start: int32(len(b.Data)), Len: int32(len(data) - len(b.Data))}
	b.Data = data
	return c
}

// delimited is the Tokenizer without quotes.
type delimited struct{ o Options }

// LineEnds implements Tokenizer.
func (d *delimited) LineEnds() bool { return true }

// Record implements Tokenizer.
func (d *delimited) Record(data []byte, final bool) int {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1
	}
	if final {
		return len(data)
	}
	return -1
}

// Tokenize implements Tokenizer.
func (d *delimited) Tokenize(b *Block, final bool) {
	for !b.Full() && b.Pos < b.Len {
		data := b.Data[:b.Len]
		start, end := b.Pos, b.Len
		next := end
		if i := bytes.IndexByte(data[start:], '\n'); i >= 0 {
			end = start + i
			next = end + 1
		} else if !final {
			return
		}
		if end > start && data[end-1] == '\r' {
			end--
		}
		b.Pos = next
		if end == start && d.o.SkipBlank {
			continue
		}
		if d.o.HasEscape && bytes.IndexByte(data[start:end], d.o.Escape) >= 0 {
			d.escaped(b, start, end)
		} else {
			d.plain(b, data, start, end)
		}
	}
}

// plain cuts a line without escapes.
func (d *delimited) plain(b *Block, data []byte, start, end int) {
	row := b.Begin()
	cells := b.cells
	field, at := 0, start
	for _, s := range b.Slot {
		stop := end
		i := bytes.IndexByte(data[at:end], d.o.Delimiter)
		if i >= 0 {
			stop = at + i
		}
		if s >= 0 {
			c := schema.Cell{Start: int32(at), Len: int32(stop - at)}
			if d.o.IsNull(data[at:stop]) {
				c.Len = -1
			}
			cells[s][row] = c
		}
		field++
		if i < 0 {
			b.End(start, end, field)
			return
		}
		at = stop + 1
	}
	// There are more fields than are wanted.
	field++
	if b.CountFields {
		field += bytes.Count(data[at:end], []byte{d.o.Delimiter})
	}
	b.End(start, end, field)
}

// IsNull reports whether a field that isn't quoted is NULL.
func (o *Options) IsNull(field []byte) bool {
	if len(field) == 0 {
		return o.EmptyIsNull || len(o.NullText) == 0
	}
	return len(field) == len(o.NullText) && string(field) == string(o.NullText)
}

// escaped cuts a line with escapes. A field is compared with the NULL text as it
// is written, so \N may use the escape character.
func (d *delimited) escaped(b *Block, start, end int) {
	row := b.Begin()
	field, at := 0, start
	for {
		stop, rewrite := at, false
		for stop < end && b.Data[stop] != d.o.Delimiter {
			if b.Data[stop] == d.o.Escape && stop+1 < end {
				rewrite = true
				stop++
			}
			stop++
		}
		if field < len(b.Slot) && b.Slot[field] >= 0 {
			c := schema.Cell{Start: int32(at), Len: int32(stop - at)}
			switch {
			case d.o.IsNull(b.Data[at:stop]):
				c.Len = -1
			case rewrite && !b.Raw[b.Slot[field]]:
				out := b.Rewrite()
				for i := at; i < stop; i++ {
					if b.Data[i] == d.o.Escape && i+1 < stop {
						i++
					}
					out = append(out, b.Data[i])
				}
				c = b.Rewritten(out)
			}
			b.cells[b.Slot[field]][row] = c
		}
		field++
		if stop >= end {
			break
		}
		at = stop + 1
	}
	b.End(start, end, field)
}
