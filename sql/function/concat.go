package function

import (
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// bindConcat is concat(values...) and ||: binary if all are binary, char or varchar if all are
// and their lengths' sum is no more than the type's most, else string.
func bindConcat(args []schema.Type) (Signature, error) {
	if err := arity(args, 1, -1); err != nil {
		return Signature{}, err
	}
	want := make([]schema.Type, len(args))
	binary, chars, sized, length := true, true, true, 0
	for i, t := range args {
		binary = binary && t.Kind == schema.Binary
		chars = chars && t.Kind == schema.Char
		sized = sized && (t.Kind == schema.Char || t.Kind == schema.Varchar)
		length += int(t.Length)
		switch {
		case t.IsText() || t.Kind == schema.Binary:
			want[i] = t
		case t.IsPrimitive() || t.Kind == schema.Void || isInterval(t):
			want[i] = schema.StringType
		default:
			return Signature{}, fault.Userf("argument %d can't be text: %s", i+1, t)
		}
	}
	result := schema.StringType
	switch {
	case binary:
		result = schema.BinaryType
	case chars && length <= 255:
		result = schema.CharType(uint16(length))
	case sized && !chars && length <= 65535:
		result = schema.VarcharType(uint16(length))
	}
	for i, t := range want {
		if !binary && t.Kind == schema.Binary {
			want[i] = schema.StringType
		}
	}
	return Signature{Args: want, Result: result,
		Kernel: eachText(result, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
			t := make([]texts, len(args))
			for k, v := range args {
				t[k] = textsOf(v)
			}
			return func(dst []byte, i int) ([]byte, bool) {
				for k := range t {
					start := len(dst)
					dst = append(dst, t[k].at(i)...)
					if want[k].Kind == schema.Char && k < len(t)-1 { // its blanks count in between
						dst = padChar(dst, start, int(want[k].Length))
					}
				}
				return dst, true
			}, nil
		})}, nil
}

// padChar fills dst[start:] with blanks up to length code points.
func padChar(dst []byte, start, length int) []byte {
	n := 0
	for _, c := range dst[start:] {
		if c&0xc0 != 0x80 {
			n++
		}
	}
	for ; n < length; n++ {
		dst = append(dst, ' ')
	}
	return dst
}

// bindConcatWS is concat_ws(separator, texts or arrays of texts...): NULLs are left out,
// a NULL separator gives NULL.
func bindConcatWS(args []schema.Type) (Signature, error) {
	if err := arity(args, 2, -1); err != nil {
		return Signature{}, err
	}
	want := make([]schema.Type, len(args))
	for i, t := range args {
		want[i] = schema.StringType
		if i > 0 && t.Kind == schema.Array && (t.Part(0).IsPrimitive() || t.Part(0).Kind == schema.Void) {
			want[i] = schema.ArrayType(schema.StringType)
		} else if !t.IsPrimitive() && t.Kind != schema.Void {
			return Signature{}, fault.Userf("argument %d must be text or an array of texts, not %s", i+1, t)
		}
	}
	return Signature{Args: want, Result: schema.StringType,
		Kernel: func(c *Context, n int, args []Vector) (Vector, error) {
			separator := textsOf(args[0])
			valid := validBits(n, args[0])
			// part adds the texts of one argument in a row.
			parts := make([]func(i int, add func(s []byte)), len(args)-1)
			for k, v := range args[1:] {
				if want[k+1].Kind == schema.Array {
					l := listOf(v)
					x := batch.TextOf(l.values)
					parts[k] = func(i int, add func(s []byte)) {
						for j, end := l.span(i); j < end; j++ {
							if l.values.IsValid(j) {
								add(x.Bytes(j))
							}
						}
					}
					continue
				}
				x, present := textsOf(v), validBits(n, v)
				parts[k] = func(i int, add func(s []byte)) {
					if batch.BitSet(present, i) {
						add(x.at(i))
					}
				}
			}
			offsets, data := make([]int32, n+1), []byte(nil)
			for i := range n {
				if batch.BitSet(valid, i) {
					first := true
					for _, part := range parts {
						part(i, func(s []byte) {
							if !first {
								data = append(data, separator.at(i)...)
							}
							data = append(data, s...)
							first = false
						})
					}
				}
				if len(data) > maxTextBytes {
					return Vector{}, tooMuchText()
				}
				offsets[i+1] = int32(len(data))
			}
			return Vector{Array: batch.NewText(schema.StringType.Arrow(), offsets, data, valid)}, nil
		}}, nil
}
