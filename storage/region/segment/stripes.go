package segment

import (
	"bytes"
	"sort"

	"github.com/skepdb/skep/storage"
)

// StripeKeys returns the keys strictly inside rng, ascending, at which the
// file's key index has stripes (of 8,192 rows, the last of a row group
// shorter). None for a file of implicit row ids. The keys share the reader's
// memory.
func (r *Reader) StripeKeys(rng storage.KeyRange) []storage.Key {
	if len(r.key) == 0 {
		return nil
	}
	var out []storage.Key
	for _, keys := range r.index {
		from := sort.Search(keys.Len(), func(i int) bool { return bytes.Compare(keys.At(i), rng.Start) > 0 })
		for i := from; i < keys.Len() && rng.Contains(keys.At(i)); i++ {
			out = append(out, keys.At(i))
		}
	}
	return out
}
