package function

import (
	"crypto/aes"
	"crypto/cipher"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addCiphers registers aes_encrypt and aes_decrypt: AES/ECB/PKCS5Padding with a key of
// 16, 24 or 32 bytes; any other key, and a cipher text that isn't one, gives NULL. ECB shows
// which blocks are equal; it is what Hive's functions do.
func addCiphers(r *Registry) {
	for name, f := range map[string]func(c cipher.Block, dst, s []byte) ([]byte, bool){"aes_encrypt": encrypt, "aes_decrypt": decrypt} {
		r.add(name, func(args []schema.Type) (Signature, error) {
			if err := arity(args, 2, 2); err != nil {
				return Signature{}, err
			}
			want := make([]schema.Type, 2)
			for i, t := range args {
				if want[i] = t; t.Kind == schema.Void {
					want[i] = schema.BinaryType
				} else if !isBytes(t) {
					return Signature{}, fault.Userf("argument %d must be text or binary, not %s", i+1, t)
				}
			}
			return Signature{Args: want, Result: schema.BinaryType,
				Kernel: eachText(schema.BinaryType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
					x, keys := textsOf(args[0]), textsOf(args[1])
					var last string
					var block cipher.Block
					return func(dst []byte, i int) ([]byte, bool) {
						if key := keys.at(i); block == nil || last != string(key) {
							b, err := aes.NewCipher(key)
							if err != nil {
								return dst, false
							}
							block, last = b, string(key)
						}
						return f(block, dst, x.at(i))
					}, nil
				})}, nil
		})
	}
}

func encrypt(c cipher.Block, dst, s []byte) ([]byte, bool) {
	const size = aes.BlockSize
	pad := size - len(s)%size
	start := len(dst)
	dst = append(dst, s...)
	for range pad {
		dst = append(dst, byte(pad))
	}
	for k := start; k < len(dst); k += size {
		c.Encrypt(dst[k:k+size], dst[k:k+size])
	}
	return dst, true
}

func decrypt(c cipher.Block, dst, s []byte) ([]byte, bool) {
	const size = aes.BlockSize
	if len(s) == 0 || len(s)%size != 0 {
		return dst, false
	}
	start := len(dst)
	dst = append(dst, s...)
	for k := start; k < len(dst); k += size {
		c.Decrypt(dst[k:k+size], dst[k:k+size])
	}
	pad := int(dst[len(dst)-1])
	if pad < 1 || pad > size {
		return dst[:start], false
	}
	for _, b := range dst[len(dst)-pad:] {
		if int(b) != pad {
			return dst[:start], false
		}
	}
	return dst[:len(dst)-pad], true
}
