package function

import (
	"bytes"
	"sync/atomic"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// pieces calls f for the parts of s between matches of a pattern, as Java's
// String.split(regex, -1) does: an empty match at the start gives no empty part.
func (p *pattern) pieces(s []byte, f func(part []byte)) error {
	if p.literal != nil {
		for {
			head, rest, more := bytes.Cut(s, p.literal)
			f(head)
			if !more {
				return nil
			}
			s = rest
		}
	}
	at := 0
	err := p.each(s, func(from, to int) {
		if to == 0 {
			return
		}
		f(s[at:from])
		at = to
	})
	f(s[at:])
	return err
}

// splitJava is String.split(regex) with the given limit: 0 drops empty parts at the
// end, a positive one bounds the number of parts.
func (p *pattern) splitJava(s []byte, limit int) ([][]byte, error) {
	var out [][]byte
	at := 0
	err := p.each(s, func(from, to int) {
		if to == 0 || limit > 0 && len(out) == limit-1 {
			return
		}
		out = append(out, s[at:from])
		at = to
	})
	out = append(out, s[at:])
	if limit == 0 {
		for len(out) > 1 && len(out[len(out)-1]) == 0 {
			out = out[:len(out)-1]
		}
	}
	return out, err
}

// bindSplit is split(text, pattern).
func bindSplit(args []schema.Type) (Signature, error) {
	want, err := shaped("tt", args)
	if err != nil {
		return Signature{}, err
	}
	t := schema.ArrayType(schema.StringType)
	var kept atomic.Pointer[pattern]
	return Signature{Args: want, Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(t), nil
		}
		s, p := textsOf(args[0]), textsOf(args[1])
		l := newTextLists(n)
		for i := range n {
			if valid == nil || batch.BitSet(valid, i) {
				re, err := compiledPattern(&kept, p.at(i))
				if err == nil {
					err = re.pieces(s.at(i), l.add)
				}
				if err != nil {
					return Vector{}, err
				}
				if len(l.data) > maxTextBytes {
					return Vector{}, tooMuchText()
				}
			}
			l.end()
		}
		return Vector{Array: batch.NewList(t.Arrow(), l.offsets, l.values(), valid)}, nil
	}}, nil
}

// bindStrToMap is str_to_map(text[, pattern between entries[, pattern between key and
// value]]).
func bindStrToMap(args []schema.Type) (Signature, error) {
	want, err := shaped("t?tt", args)
	if err != nil {
		return Signature{}, err
	}
	for i, a := range args {
		if !a.IsText() && a.Kind != schema.Void {
			return Signature{}, fault.Userf("argument %d must be text, not %s", i+1, a)
		}
	}
	t := schema.MapType(schema.StringType, schema.StringType)
	var keptEntry, keptKey atomic.Pointer[pattern]
	return Signature{Args: want, Result: t, Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
		valid, null := validity(n, args)
		if null {
			return nullOf(t), nil
		}
		x, _ := shapedArgs(want, args)
		separator := func(k, i int, standard string) []byte {
			if len(x) > k {
				return x[k].at(i)
			}
			return []byte(standard)
		}
		keys, items := newTextLists(n), newTextLists(n)
		var missing []int
		for i := range n {
			if valid == nil || batch.BitSet(valid, i) {
				entry, err := compiledPattern(&keptEntry, separator(1, i, ","))
				if err != nil {
					return Vector{}, err
				}
				key, err := compiledPattern(&keptKey, separator(2, i, ":"))
				if err != nil {
					return Vector{}, err
				}
				parts, err := entry.splitJava(x[0].at(i), 0)
				if err != nil {
					return Vector{}, err
				}
				for _, part := range parts {
					kv, err := key.splitJava(part, 2)
					if err != nil {
						return Vector{}, err
					}
					keys.add(kv[0])
					if len(kv) < 2 {
						missing = append(missing, len(items.text)-1)
						items.add(nil)
						continue
					}
					items.add(kv[1])
				}
			}
			keys.end()
		}
		values := items.values()
		if len(missing) > 0 {
			present := ones(values.Len())
			for _, j := range missing {
				present[j>>3] &^= 1 << (uint(j) & 7)
			}
			values = batch.NewText(schema.StringType.Arrow(), items.text, items.data, present)
		}
		return Vector{Array: mapOfEntries(t, keys.offsets, keys.values(), values, valid)}, nil
	}}, nil
}
