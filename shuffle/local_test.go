package shuffle_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/skepdb/skep/shuffle"
	"github.com/skepdb/skep/shuffle/shuffletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	shuffletest.Test(t, func(*testing.T) shuffletest.Setup {
		l := shuffle.NewMemory()
		return shuffletest.Setup{Write: []shuffle.Service{l}, Read: l}
	})
}

// local opens a Local; memory may be so little that every batch goes to disk.
func local(t *testing.T, fsys vfs.FS, memory int64, dirs ...string) *shuffle.Local {
	t.Helper()
	l, err := shuffle.NewLocal(shuffle.LocalOptions{Memory: memory, Dirs: dirs, FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if l.Stats().Memory != 0 {
			t.Errorf("%d bytes are accounted after Close", l.Stats().Memory)
		}
		for _, d := range dirs {
			if _, err := fsys.Stat(d); err == nil {
				names, _ := fsys.List(d)
				t.Errorf("%s has %v after Close", d, names)
			}
		}
	})
	return l
}

func TestLocal(t *testing.T) {
	for name, memory := range map[string]int64{"all on disk": 1, "a part on disk": 64 << 10, "nothing on disk": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			shuffletest.Test(t, func(t *testing.T) shuffletest.Setup {
				l := local(t, vfs.NewMem(), memory, "a/shuffle", "b/shuffle")
				return shuffletest.Setup{Write: []shuffle.Service{l}, Read: l}
			})
		})
	}
}
