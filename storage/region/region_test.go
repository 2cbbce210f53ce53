package region_test

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/folder"
	"github.com/skepdb/skep/storage/region"
	"github.com/skepdb/skep/storage/storagetest"
	"go.uber.org/goleak"
)

// noLeaks fails the test if it leaves goroutines behind. Tests that make a
// folder fail don't use it: its Pebble is left as it is, by design, until the
// process ends.
func noLeaks(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

// open opens a server over one folder of fs; it closes at the end of the test.
func open(tb testing.TB, fs vfs.FS, a storage.Authority, change ...func(*region.Options)) *region.Server {
	tb.Helper()
	s, closeAll, err := tryOpen(fs, a, change...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := closeAll(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func tryOpen(fs vfs.FS, a storage.Authority, change ...func(*region.Options)) (*region.Server, func() error, error) {
	f, err := folder.Open(fs, "/data", folder.Options{PID: 1, Command: "test"})
	if err != nil {
		return nil, nil, err
	}
	o := region.Options{Folders: []*folder.Folder{f}, Worker: "w1", Authority: a, CacheBytes: 1 << 20, MemTableBytes: 1 << 20}
	for _, c := range change {
		c(&o)
	}
	s, err := region.Open(context.Background(), o)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return s, func() error {
		err := s.Close()
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		return err
	}, nil
}

func TestServer(t *testing.T) {
	noLeaks(t)
	storagetest.Run(t, func(tb testing.TB, a *storagetest.Authority, maxRowGroup int64) storage.Server {
		return open(tb, vfs.NewMem(), a, func(o *region.Options) { o.RowGroupRows = maxRowGroup })
	})
}

// TestServerSpilling runs the suite with sorted runs of a few rows.
func TestServerSpilling(t *testing.T) {
	storagetest.Run(t, func(tb testing.TB, a *storagetest.Authority, maxRowGroup int64) storage.Server {
		return open(tb, vfs.NewMem(), a, func(o *region.Options) { o.RowGroupRows, o.StageBytes = maxRowGroup, 1 })
	})
}
