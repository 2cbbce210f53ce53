package schema

import (
	"bytes"
	"encoding/base64"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// CellForm is how nested values lie in a cell of a delimited text file, as Hive's
// LazySimpleSerDe has it.
type CellForm struct {
	// Separators are those inside a cell, outermost first: between the items of a
	// collection, between key and value of a map, then one for each further level. A map
	// takes two levels, an array, struct or union one.
	Separators []byte
	Escape     byte // before a separator, itself or a line end that is meant; 0: there is none
	Null       []byte
}

// NewCellForm returns the form with these outer separators (Hive's defaults: ^B, ^C);
// the deeper levels are ^D, ^E and so on.
func NewCellForm(items, keys, escape byte, null string) *CellForm {
	f := &CellForm{Separators: []byte{items, keys}, Escape: escape, Null: []byte(null)}
	// LazySerDeParameters with hive.serialization.extend.additional.nesting.levels: control
	// characters that texts are unlikely to have.
	for b := byte(4); b <= 8; b++ {
		f.Separators = append(f.Separators, b)
	}
	f.Separators = append(f.Separators, 11)
	for b := byte(14); b <= 26; b++ {
		f.Separators = append(f.Separators, b)
	}
	for b := byte(28); b <= 31; b++ {
		f.Separators = append(f.Separators, b)
	}
	return f
}

func (f *CellForm) separator(level int) byte {
	if level < len(f.Separators) {
		return f.Separators[level]
	}
	return 0
}

// cut returns s up to the first separator that isn't escaped, and what follows it;
// found is false when there is none.
func (f *CellForm) cut(s []byte, separator byte) (head, rest []byte, found bool) {
	if f.Escape == 0 {
		return bytes.Cut(s, []byte{separator})
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case f.Escape:
			i++
		case separator:
			return s[:i], s[i+1:], true
		}
	}
	return s, nil, false
}

// unescaped returns s without its escapes; s itself when it has none.
func (f *CellForm) unescaped(s []byte) []byte {
	if f.Escape == 0 || bytes.IndexByte(s, f.Escape) < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == f.Escape && i+1 < len(s) {
			i++
			switch s[i] { // LazyUtils.writeEscaped writes line ends so
			case 'r':
				out = append(out, '\r')
				continue
			case 'n':
				out = append(out, '\n')
				continue
			}
		}
		out = append(out, s[i])
	}
	return out
}

// AppendNested appends a cell of a nested type as LazySimpleSerDe reads it; escapes
// must not have been undone. A part that can't be read becomes NULL, what is missing in a
// struct is NULL, what is too much is dropped; of equal keys in a map the first counts. ok is
// false when some part was unreadable.
func (a *Appender) AppendNested(cell []byte, f *CellForm) (ok bool) {
	return a.appendNested(cell, f, 0)
}

func (a *Appender) appendNested(cell []byte, f *CellForm, level int) (ok bool) {
	if bytes.Equal(cell, f.Null) {
		a.appendNull()
		return true
	}
	ok = true
	switch a.t.Kind {
	case Array:
		if len(cell) > 0 {
			for more := true; more; {
				var item []byte
				item, cell, more = f.cut(cell, f.separator(level))
				ok = a.children[0].appendNested(item, f, level+1) && ok
			}
		}
		a.endList()
	case Map:
		if len(cell) > 0 {
			var seen map[string]bool
			for more := true; more; {
				var item []byte
				item, cell, more = f.cut(cell, f.separator(level))
				key, value, has := f.cut(item, f.separator(level+1))
				if bytes.Equal(key, f.Null) {
					continue
				}
				if seen[string(key)] {
					continue
				}
				if seen == nil {
					seen = make(map[string]bool)
				}
				seen[string(key)] = true
				if t := a.t.Part(0); t.Kind != String && !t.IsNested() { // a key that can't be read is no key
					if _, readable := ParseText(t, f.unescaped(key)); !readable {
						ok = false
						continue
					}
				}
				ok = a.children[0].appendNested(key, f, level+2) && ok
				if !has {
					a.children[1].appendNull()
				} else {
					ok = a.children[1].appendNested(value, f, level+2) && ok
				}
			}
		}
		a.endList()
	case Struct:
		more := true
		for _, c := range a.children {
			if !more {
				c.appendNull()
				continue
			}
			var item []byte
			item, cell, more = f.cut(cell, f.separator(level))
			ok = c.appendNested(item, f, level+1) && ok
		}
		a.n++
	case Union:
		tag, value, _ := f.cut(cell, f.separator(level))
		n, good := parseInt(tag, 0, int64(len(a.children)-2))
		if !good {
			a.appendNull()
			return false
		}
		a.children[0].i8 = append(a.children[0].i8, int8(n))
		a.children[0].n++
		for k, c := range a.children[1:] {
			if k == int(n) {
				ok = c.appendNested(value, f, level+1)
			} else {
				c.appendNull()
			}
		}
		a.n++
	default:
		return a.AppendText(f.unescaped(cell))
	}
	return ok
}

// ParseNested reads one nested cell; see Appender.AppendNested.
func ParseNested(t Type, cell []byte, f *CellForm) (d Datum, ok bool) {
	a := NewPlainAppender(t, 1)
	ok = a.AppendNested(cell, f)
	return FromArrow(a.Finish(), 0, t), ok
}

// AppendCell appends element i of an array as a cell of a delimited text file, the
// inverse of AppendNested: nested values with their separators, texts escaped if the
// form has an escape, binary as base64. Escapes of the separator between cells are the
// caller's: outer lists what must be escaped besides the form's own.
func AppendCell(dst []byte, t Type, a arrow.Array, i int, f *CellForm, outer []byte) []byte {
	return appendCell(dst, t, a, i, f, outer, 0)
}

func appendCell(dst []byte, t Type, a arrow.Array, i int, f *CellForm, outer []byte, level int) []byte {
	if isNull(a, i) {
		return append(dst, f.Null...)
	}
	switch x := a.(type) {
	case *array.List:
		values, from, to := listSpan(x, i)
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, f.separator(level))
			}
			dst = appendCell(dst, t.Part(0), values, j, f, outer, level+1)
		}
		return dst
	case *array.Map:
		from, to := x.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			if j > int(from) {
				dst = append(dst, f.separator(level))
			}
			dst = append(appendCell(dst, t.Part(0), x.Keys(), j, f, outer, level+2), f.separator(level+1))
			dst = appendCell(dst, t.Part(1), x.Items(), j, f, outer, level+2)
		}
		return dst
	case *array.Struct:
		if t.Kind == Union {
			k := int(x.Field(0).(*array.Int8).Value(i))
			dst = append(appendIntegral(dst, TinyInt, int64(k)), f.separator(level))
			return appendCell(dst, t.Part(k), x.Field(k+1), i, f, outer, level+1)
		}
		for k := range t.Parts() {
			if k > 0 {
				dst = append(dst, f.separator(level))
			}
			dst = appendCell(dst, t.Part(k), x.Field(k), i, f, outer, level+1)
		}
		return dst
	case *array.Binary:
		return base64.StdEncoding.AppendEncode(dst, x.Value(i))
	}
	start := len(dst)
	dst = AppendText(dst, t, a, i)
	if f.Escape == 0 || !t.IsText() {
		return dst
	}
	text := append([]byte(nil), dst[start:]...)
	dst = dst[:start]
	for _, c := range text {
		switch {
		case c == '\n':
			dst = append(dst, f.Escape, 'n')
		case c == '\r':
			dst = append(dst, f.Escape, 'r')
		case c == f.Escape, bytes.IndexByte(outer, c) >= 0, bytes.IndexByte(f.Separators, c) >= 0:
			dst = append(dst, f.Escape, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
