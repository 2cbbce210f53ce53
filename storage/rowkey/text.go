package rowkey

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// RangeText returns a range of keys of some columns as people write it, in the
// order of the keys:
//
//	[5]             the key 5
//	['p', 7, ...]   all keys that begin with 'p', 7
//	[5, 9)  (5, 9]  from 5 to 9, without 9; without 5
//	[lowest, 9)     all below 9
//
// Values of a key of several columns are in parentheses when there are two
// bounds. A bound that isn't made of whole values is in hexadecimal.
func RangeText(columns []Column, r storage.KeyRange) string {
	e := NewEncoder(columns)
	start, startAfter, startOK := e.bound(r.Start)
	end, endAfter, endOK := e.bound(r.End)
	if prefix, ok := e.prefix(r.Start); ok && slices.Equal(successor(r.Start), []byte(r.End)) {
		more := ""
		if len(prefix) < len(columns) {
			more = ", ..."
		}
		return "[" + list(prefix) + more + "]"
	}
	text := func(values []schema.Datum, ok bool, k storage.Key) string {
		switch {
		case !ok:
			return fmt.Sprintf("0x%x", []byte(k))
		case len(columns) == 1:
			return list(values)
		}
		return "(" + list(values) + ")"
	}
	from, to := "[lowest", "highest]"
	if len(r.Start) > 0 {
		if from = "[" + text(start, startOK, r.Start); startAfter {
			from = "(" + from[1:]
		}
	}
	if len(r.End) > 0 {
		if to = text(end, endOK, r.End); endAfter {
			to += "]"
		} else {
			to += ")"
		}
	}
	return from + ", " + to
}

func list(values []schema.Datum) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = v.String()
	}
	return strings.Join(parts, ", ")
}

// prefix decodes a key, or what keys begin with: values of the first columns.
func (e *Encoder) prefix(b []byte) (values []schema.Datum, ok bool) {
	for _, c := range e.columns {
		if len(b) == 0 {
			break
		}
		d, rest, ok := decodeColumn(c, b)
		if !ok {
			return nil, false
		}
		values, b = append(values, d), rest
	}
	return values, len(b) == 0 && len(values) > 0
}

// bound decodes a bound: the values that it consists of or, with after, those
// of which it is the lowest key above all that begin with them.
func (e *Encoder) bound(b []byte) (values []schema.Datum, after, ok bool) {
	if values, ok = e.prefix(b); ok || len(b) == 0 || b[len(b)-1] == 0 {
		return values, false, ok
	}
	// The successor of a key has its last byte but FFs counted up, and not the FFs.
	x := slices.Clone(b)
	x[len(x)-1]--
	for range 20 {
		if values, ok = e.prefix(x); ok {
			return values, true, true
		}
		x = append(x, 0xFF)
	}
	return nil, false, false
}

// successor returns the lowest key above all that begin with b; nil if there is
// none.
func successor(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0xFF {
			out := slices.Clone(b[:i+1])
			out[i]++
			return out
		}
	}
	return nil
}
