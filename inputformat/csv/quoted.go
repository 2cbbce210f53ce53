package csv

import (
	"bytes"

	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/schema"
)

// quoted is the Tokenizer of files with quotes. Record and Tokenize walk over
// fields in the same way, so that a cut is always an end of a record.
type quoted struct {
	o      text.Options
	quote  byte
	strict bool
}

// LineEnds implements text.Tokenizer.
func (q *quoted) LineEnds() bool { return false }

// Record implements text.Tokenizer.
func (q *quoted) Record(data []byte, final bool) int {
	nl := bytes.IndexByte(data, '\n')
	line := data
	if nl >= 0 {
		line = data[:nl]
	}
	if bytes.IndexByte(line, q.quote) < 0 { // most lines
		switch {
		case nl >= 0:
			return nl + 1
		case final:
			return len(data)
		}
		return -1
	}
	at := 0
	if nl < 0 {
		nl = len(data)
	}
	for {
		f := q.field(data, at, &nl)
		if f.open {
			if final {
				return len(data)
			}
			return -1
		}
		switch {
		case f.end == len(data):
			if final {
				return len(data)
			}
			return -1
		case data[f.end] == '\n':
			return f.end + 1
		}
		at = f.end + 1
	}
}

// field is a field of a record in data.
type field struct {
	start, stop int  // its text, without quotes
	end         int  // of the delimiter or line end that follows, or len(data)
	quoted      bool // it was
	rewrite     bool // it has doubled quotes or escapes, or text after the closing quote
	junk        int  // position of text after the closing quote, or 0
	open        bool // there is no closing quote
}

// field finds the field that begins at at. nl is the position of a line end, or
// len(data), that is the next one unless at lies behind it: it is kept so that no
// byte is searched for line ends twice.
func (q *quoted) field(data []byte, at int, nl *int) field {
	if at >= len(data) || data[at] != q.quote {
		return q.bare(data, at, nl)
	}
	f := field{start: at + 1, quoted: true}
	i := at + 1
	for {
		k := bytes.IndexByte(data[i:], q.quote)
		if q.o.HasEscape {
			before := data[i:]
			if k >= 0 {
				before = before[:k]
			}
			if e := bytes.IndexByte(before, q.o.Escape); e >= 0 {
				f.rewrite = true
				i += e + 2
				if i > len(data) {
					f.open = true
					return f
				}
				continue
			}
		}
		if k < 0 {
			f.open = true
			return f
		}
		i += k
		if i+1 < len(data) && data[i+1] == q.quote {
			f.rewrite = true
			i += 2
			continue
		}
		break
	}
	f.stop = i
	rest := q.bare(data, i+1, nl)
	f.end = rest.end
	if rest.stop > i+1 {
		f.junk, f.rewrite = i+1, true
	}
	return f
}

// bare finds the end of a field without quotes.
func (q *quoted) bare(data []byte, at int, nl *int) field {
	f := field{start: at}
	if *nl < at {
		*nl = len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			*nl = at + i
		}
	}
	if d := bytes.IndexByte(data[at:*nl], q.o.Delimiter); d >= 0 {
		f.end = at + d
		f.stop = f.end
		return f
	}
	f.end, f.stop = *nl, *nl
	if f.stop > at && data[f.stop-1] == '\r' {
		f.stop--
	}
	return f
}

// Tokenize implements text.Tokenizer.
func (q *quoted) Tokenize(b *text.Block, final bool) {
	for !b.Full() && b.Pos < b.Len {
		data := b.Data[:b.Len]
		start := b.Pos
		nl := bytes.IndexByte(data[start:], '\n')
		end := b.Len
		if nl >= 0 {
			end = start + nl
		}
		if bytes.IndexByte(data[start:end], q.quote) >= 0 {
			if !q.record(b, data, start, end, final) {
				return
			}
			continue
		}
		next := end
		if nl >= 0 {
			next++
		} else if !final {
			return
		}
		if end > start && data[end-1] == '\r' {
			end--
		}
		b.Pos = next
		if end == start && q.o.SkipBlank {
			continue
		}
		q.plain(b, data, start, end)
	}
}

// plain cuts a line that has no quotes.
func (q *quoted) plain(b *text.Block, data []byte, start, end int) {
	row := b.Begin()
	cells := b.Cells()
	n, at := 0, start
	for _, s := range b.Slot {
		stop := end
		i := bytes.IndexByte(data[at:end], q.o.Delimiter)
		if i >= 0 {
			stop = at + i
		}
		if s >= 0 {
			c := schema.Cell{Start: int32(at), Len: int32(stop - at)}
			if q.o.IsNull(data[at:stop]) {
				c.Len = -1
			}
			cells[s][row] = c
		}
		n++
		if i < 0 {
			b.End(start, end, n)
			return
		}
		at = stop + 1
	}
	n++
	if b.CountFields {
		n += bytes.Count(data[at:end], []byte{q.o.Delimiter})
	}
	b.End(start, end, n)
}

// record cuts a record that has quotes; nl is the first line end in it. false:
// it isn't whole, or no record.
func (q *quoted) record(b *text.Block, data []byte, start, nl int, final bool) bool {
	row := b.Begin()
	cells := b.Cells()
	n, at := 0, start
	junk := 0
	for {
		var f field
		if at < len(data) && data[at] == q.quote {
			f = q.field(data, at, &nl)
		} else { // as q.bare, in line
			if nl < at {
				nl = len(data)
				if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
					nl = at + i
				}
			}
			if d := bytes.IndexByte(data[at:nl], q.o.Delimiter); d >= 0 {
				if n < len(b.Slot) && b.Slot[n] >= 0 {
					c := schema.Cell{Start: int32(at), Len: int32(d)}
					if q.o.IsNull(data[at : at+d]) {
						c.Len = -1
					}
					cells[b.Slot[n]][row] = c
				}
				n++
				at += d + 1
				continue
			}
			f = q.bare(data, at, &nl)
		}
		if f.open {
			if final {
				b.Broken(at, "the quoted field that begins here has no closing quote")
			}
			return false
		}
		if f.end == len(data) && !final {
			return false
		}
		if junk == 0 {
			junk = f.junk
		}
		if n < len(b.Slot) && b.Slot[n] >= 0 {
			cells[b.Slot[n]][row] = q.cell(b, data, f)
		}
		n++
		if f.end == len(data) || data[f.end] == '\n' {
			stop := f.end
			if stop > start && data[stop-1] == '\r' {
				stop--
			}
			if junk > 0 && q.strict {
				b.Malformed(junk, "text after a closing quote (a quote inside a quoted field must be doubled)")
			}
			b.End(start, stop, n)
			b.Pos = min(f.end+1, len(data))
			return true
		}
		at = f.end + 1
	}
}

func (q *quoted) cell(b *text.Block, data []byte, f field) schema.Cell {
	c := schema.Cell{Start: int32(f.start), Len: int32(f.stop - f.start)}
	switch {
	case !f.quoted:
		if q.o.IsNull(data[f.start:f.stop]) {
			c.Len = -1
		}
	case f.rewrite:
		out := b.Rewrite()
		for i := f.start; i < f.stop; i++ {
			if data[i] == q.quote || q.o.HasEscape && data[i] == q.o.Escape {
				i++ // the second of two quotes, or what is escaped
			}
			if i < f.stop {
				out = append(out, data[i])
			}
		}
		if f.junk > 0 {
			end := f.end
			if end > f.junk && data[end-1] == '\r' && (end == len(data) || data[end] == '\n') {
				end--
			}
			out = append(out, data[f.junk:end]...)
		}
		return b.Rewritten(out)
	}
	return c
}
