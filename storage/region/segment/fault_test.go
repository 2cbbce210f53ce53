package segment

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// small makes a small segment and returns its files.
func small(t testing.TB, fs vfs.FS, path string) (Meta, []storage.KeyColumn, schema.Columns) {
	t.Helper()
	r := rand.New(rand.NewPCG(21, 22))
	columns := allTypes()
	key := []storage.KeyColumn{{Column: 0}}
	return write(t, r, Options{FS: fs, Path: path, Columns: columns, Key: key, RowGroupRows: 8192}, table(r, columns, 9000)), key, columns
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	b, err := readAll(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(data)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// readEverything opens a segment, verifies it and scans it.
func readEverything(fs vfs.FS, path string, m Meta, key []storage.KeyColumn, columns schema.Columns, verify bool) error {
	r, err := Open(fs, path, m, key, NewCache(64<<20))
	if err != nil {
		return err
	}
	defer r.Close()
	if verify {
		return r.Verify(context.Background())
	}
	s, err := r.Scan(ScanOptions{Columns: columns, NeedKeys: true})
	if err != nil {
		return err
	}
	for {
		if _, err := s.Next(context.Background()); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestDamage: a flipped bit or a cut anywhere in file or sidecar is found and
// the error names file and place.
func TestDamage(t *testing.T) {
	fs := vfs.NewMem()
	m, key, columns := small(t, fs, "s")
	r := rand.New(rand.NewPCG(23, 24))
	for _, path := range []string{"s", "s" + SidecarSuffix} {
		good := readFile(t, fs, path)
		for i := range 120 {
			bad := bytes.Clone(good)
			what := "flip"
			at := r.IntN(len(bad))
			switch i % 4 {
			case 0: // the ends matter most: header, footer, checksums
				at = []int{0, len(bad) - 1, 4, len(bad) - 5, len(bad) - 300}[i/4%5]
				at = max(0, at)
				fallthrough
			default:
				bad[at] ^= 1 << r.IntN(8)
			case 3:
				what = "cut"
				bad = bad[:at]
			}
			writeFile(t, fs, path, bad)
			err := readEverything(fs, "s", m, key, columns, true)
			if err == nil {
				t.Fatalf("%s of %s at byte %d of %d isn't found by Verify", what, path, at, len(good))
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "byte") {
				t.Errorf("%s of %s at %d: the error doesn't say where: %v", what, path, at, err)
			}
			// A scan of all columns touches all but the column indexes.
			if err := readEverything(fs, "s", m, key, columns, false); err == nil && (what == "cut" || path != "s" || at < int(m.RowGroups[0].Bytes+m.RowGroups[1].Bytes)) {
				t.Errorf("%s of %s at byte %d of %d isn't found by a scan", what, path, at, len(good))
			}
		}
		writeFile(t, fs, path, good)
	}
	if err := readEverything(fs, "s", m, key, columns, false); err != nil {
		t.Errorf("the good files: %v", err)
	}
}

// TestSwapped: whole, valid files of another segment aren't taken for this one.
func TestSwapped(t *testing.T) {
	fs := vfs.NewMem()
	m, key, columns := small(t, fs, "s")
	r := rand.New(rand.NewPCG(99, 1))
	other := write(t, r, Options{FS: fs, Path: "o", Columns: columns, Key: key}, table(r, columns, 9000))
	if err := readEverything(fs, "o", m, key, columns, true); err == nil {
		t.Error("another segment's files are taken")
	}
	if err := readEverything(fs, "o", other, []storage.KeyColumn{{Column: 0, Desc: true}}, columns, true); err == nil {
		t.Error("another row key is taken")
	}
	other.Rows--
	if err := readEverything(fs, "o", other, key, columns, true); err == nil {
		t.Error("another row count is taken")
	}
}

// TestCrash: what Finish returned survives a crash whole.
func TestCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	if err := fs.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := fs.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Sync(); err != nil {
		t.Fatal(err)
	}
	m, key, columns := small(t, fs, "d/s")
	after := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := readEverything(after, "d/s", m, key, columns, true); err != nil {
		t.Error(err)
	}
	if err := readEverything(after, "d/s", m, key, columns, false); err != nil {
		t.Error(err)
	}
}

// TestWriteFaults: an error of the file system at any operation comes out of
// the writer, never a Meta.
func TestWriteFaults(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	columns := allTypes()[:8]
	rows := table(r, columns, 500)
	key := []storage.KeyColumn{{Column: 0}}
	for n := int32(0); ; n++ {
		mem := vfs.NewMem()
		inject := errorfs.OnIndex(n)
		fs := errorfs.Wrap(mem, errorfs.ErrInjected.If(errorfs.And(errorfs.Writes, inject)))
		w, err := Create(Options{FS: fs, Path: "s", Columns: columns, Key: key})
		if err != nil {
			continue
		}
		var m Meta
		if err = w.Append(Rows{Batch: makeBatch(columns, rows, true)}); err == nil {
			m, err = w.Finish()
		}
		if err == nil {
			if n < 5 {
				t.Errorf("only %d operations write", n)
			}
			if err := readEverything(mem, "s", m, key, columns, true); err != nil {
				t.Error(err)
			}
			return
		}
		if _, again := w.Finish(); again == nil {
			t.Error("Finish succeeds after a failure")
		}
		if err := w.Abort(); err != nil && !strings.Contains(err.Error(), "injected") {
			t.Error(err)
		}
	}
}

// FuzzMeta: no entry panics; what decodes encodes to the same.
func FuzzMeta(f *testing.F) {
	m := Meta{Rows: 3, Bytes: 100, Checksum: 7, Columns: []schema.ColumnID{1, 2}, FirstKey: storage.Key("a"), LastKey: storage.Key("b"),
		Runs: []Run{{7, 1, 2, 3, 4, 3}}, RowGroups: []RowGroup{{FirstKey: storage.Key("a"), Rows: 3, Bytes: 90}}}
	b, err := m.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Meta
		if m.UnmarshalBinary(b) != nil {
			return
		}
		c, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalBinary(c); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzFile: bytes whose checksums are right but that no writer made never
// panic or hang a reader.
func FuzzFile(f *testing.F) {
	fs := vfs.NewMem()
	m, key, columns := small(f, fs, "s")
	good := readFile(f, fs, "s")
	f.Add(uint32(100), byte(1), uint32(len(good)-100), byte(3))
	f.Fuzz(func(t *testing.T, at uint32, x byte, at2 uint32, x2 byte) {
		bad := bytes.Clone(good)
		bad[int(at)%len(bad)] ^= x
		bad[int(at2)%len(bad)] ^= x2
		mem := vfs.NewMem()
		sum := newSummer(io.Discard)
		if _, err := sum.Write(bad); err != nil {
			t.Fatal(err)
		}
		side := sum.sidecar()
		writeFile(t, mem, "s", bad)
		writeFile(t, mem, "s"+SidecarSuffix, side)
		m := m
		m.Checksum = sidecarSum(side)
		_ = readEverything(mem, "s", m, key, columns, false)
	})
}
