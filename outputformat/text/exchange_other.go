//go:build !linux

package text

import "os"

// exchange swaps two directories.
func exchange(a, b string) error { return exchangeByHand(a, b, os.Rename) }
