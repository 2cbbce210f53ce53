package function

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"strconv"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func addHashes(r *Registry) {
	digest := func(name string, f func(dst, s []byte) []byte) {
		r.add(name, func(args []schema.Type) (Signature, error) {
			want, err := bytesArg(args)
			if err != nil {
				return Signature{}, err
			}
			return Signature{Args: want, Result: schema.StringType,
				Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
					x := textsOf(args[0])
					return func(dst []byte, i int) ([]byte, bool) { return f(dst, x.at(i)), true }, nil
				})}, nil
		})
	}
	digest("md5", func(dst, s []byte) []byte { h := md5.Sum(s); return hex.AppendEncode(dst, h[:]) })
	digest("sha sha1", func(dst, s []byte) []byte { h := sha1.Sum(s); return hex.AppendEncode(dst, h[:]) })
	digest("base64", base64.StdEncoding.AppendEncode)
	r.add("sha2", func(args []schema.Type) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
			return Signature{}, err
		}
		want, err := bytesArg(args[:1])
		if err != nil {
			return Signature{}, err
		}
		if _, err := integer(args[1:]); err != nil {
			return Signature{}, err
		}
		return Signature{Args: append(want, schema.IntType), Result: schema.StringType,
			Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				x, n := textsOf(args[0]), integers(args[1])
				return func(dst []byte, i int) ([]byte, bool) {
					switch s := x.at(i); n(i) {
					case 224:
						h := sha256.Sum224(s)
						return hex.AppendEncode(dst, h[:]), true
					case 0, 256:
						h := sha256.Sum256(s)
						return hex.AppendEncode(dst, h[:]), true
					case 384:
						h := sha512.Sum384(s)
						return hex.AppendEncode(dst, h[:]), true
					case 512:
						h := sha512.Sum512(s)
						return hex.AppendEncode(dst, h[:]), true
					}
					return dst, false
				}, nil
			})}, nil
	})
	r.add("crc32", func(args []schema.Type) (Signature, error) {
		want, err := bytesArg(args)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: want, Result: schema.BigIntType,
			Kernel: eachValid(schema.BigIntType, func(_ *Context, args []Vector) (func(int) (int64, bool), error) {
				x := textsOf(args[0])
				return func(i int) (int64, bool) { return int64(crc32.ChecksumIEEE(x.at(i))), true }, nil
			})}, nil
	})
	r.add("hex", func(args []schema.Type) (Signature, error) {
		if len(args) == 1 && args[0].IsInteger() {
			return Signature{Args: []schema.Type{schema.BigIntType}, Result: schema.StringType,
				Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
					x := columnOf[int64](args[0])
					return func(dst []byte, i int) ([]byte, bool) {
						return appendUpperHex(dst, uint64(x.at(i))), true
					}, nil
				})}, nil
		}
		want, err := bytesArg(args)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: want, Result: schema.StringType,
			Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				x := textsOf(args[0])
				const digits = "0123456789ABCDEF"
				return func(dst []byte, i int) ([]byte, bool) {
					for _, c := range x.at(i) {
						dst = append(dst, digits[c>>4], digits[c&15])
					}
					return dst, true
				}, nil
			})}, nil
	})
	addTextFunction(r, "bin", "n", func(dst []byte, _ []texts, n []func(int) int64, i int) ([]byte, bool) {
		return strconv.AppendUint(dst, uint64(n[0](i)), 2), true
	})
}

func appendUpperHex(dst []byte, v uint64) []byte {
	start := len(dst)
	dst = strconv.AppendUint(dst, v, 16)
	for k := start; k < len(dst); k++ {
		if dst[k] >= 'a' {
			dst[k] -= 'a' - 'A'
		}
	}
	return dst
}

// bytesArg takes one text or binary argument.
func bytesArg(args []schema.Type) ([]schema.Type, error) {
	if err := arity(args, 1, 1); err != nil {
		return nil, err
	}
	switch t := args[0]; {
	case isBytes(t):
		return args, nil
	case t.IsPrimitive(), t.Kind == schema.Void:
		return []schema.Type{schema.StringType}, nil
	default:
		return nil, fault.Userf("it takes text or binary, not %s", t)
	}
}
