package folder

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// isLocked reports whether an error of vfs.FS.Lock means that someone holds
// the lock, rather than that the file can't be made.
func isLocked(err error) bool {
	if errors.Is(err, syscall.EAGAIN) {
		return true
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	// fcntl(2): "EACCES or EAGAIN"; the second is an error text of package
	// vfs for a lock of this very process.
	return errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "lock held by current process")
}
