package text

import (
	"os"

	"golang.org/x/sys/unix"
)

// exchange swaps two directories in one step.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if err == nil || err == unix.ENOENT {
		return err
	}
	return exchangeByHand(a, b, os.Rename) // a file system that can't
}
