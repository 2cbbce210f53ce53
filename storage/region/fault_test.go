package region_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/folder"
	"github.com/skepdb/skep/storage/region"
	"github.com/skepdb/skep/storage/storagetest"
)

// failAt fails the n-th writing file operation and, if for ever, all after it.
type failAt struct {
	at, n   atomic.Int64
	forever bool
	what    atomic.Pointer[string]
}

func (f *failAt) String() string { return "fail" }

func (f *failAt) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileRead, errorfs.OpFileReadAt, errorfs.OpOpen, errorfs.OpOpenDir, errorfs.OpList, errorfs.OpStat, errorfs.OpFileStat, errorfs.OpFileClose, errorfs.OpGetDiskUsage, errorfs.OpFilePreallocate:
		return nil
	}
	n, at := f.n.Add(1), f.at.Load()
	if at == 0 || n < at || (n > at && !f.forever) {
		return nil
	}
	what := fmt.Sprintf("%d %s", op.Kind, op.Path)
	f.what.CompareAndSwap(nil, &what)
	return errors.New("no space left on device")
}

// script is a fixed run over all kinds of writes. It stops at the first error.
func script(f *storagetest.Fixture, history *[]moment, maybe *state) error {
	ctx, s, table, auth := context.Background(), f.Server, f.Table, f.Auth
	now := state{}
	step := func(next state, do func() (storage.Timestamp, error)) error {
		*maybe = next
		ts, err := do()
		if err != nil {
			return err
		}
		if next != nil {
			now = next
			*history = append(*history, moment{ts, next})
		}
		*maybe = nil
		return nil
	}
	put := func(id int, value string) error {
		next := maps.Clone(now)
		next[id] = value
		return step(next, func() (storage.Timestamp, error) {
			return s.Put(ctx, f.Region(storagetest.Key(table, fmt.Sprint(id))), table.Columns, storagetest.Rows(table.Columns, row(id, value)))
		})
	}
	flush := func() error {
		for _, r := range f.Regions() {
			if err := step(nil, func() (storage.Timestamp, error) { return 0, s.Flush(ctx, r.ID) }); err != nil {
				return err
			}
		}
		return nil
	}
	load := func(rows map[int]string) error {
		next := maps.Clone(now)
		var text []string
		for id, v := range rows {
			text = append(text, row(id, v))
			next[id] = v
		}
		txn := auth.Begin()
		if err := step(nil, func() (storage.Timestamp, error) {
			_, err := f.TryStage(storage.StageOptions{Txn: txn, Attempt: "a"}, text...)
			return 0, err
		}); err != nil {
			return err
		}
		if err := step(next, func() (storage.Timestamp, error) { return auth.Commit(txn, "a"), nil }); err != nil {
			return err
		}
		return step(nil, func() (storage.Timestamp, error) { return 0, s.Resolve(ctx, txn) })
	}
	for _, err := range []func() error{
		func() error { return put(1, "a|1") }, func() error { return put(45, "b|2") }, flush,
		func() error { return load(map[int]string{2: "l|3", 30: "l|4", 50: "l|5"}) }, func() error { return put(2, "c|6") },
		func() error {
			return step(nil, func() (storage.Timestamp, error) {
				_, err := s.Split(ctx, f.Regions()[0].ID, storagetest.Key(table, "2"))
				return 0, err
			})
		},
		func() error { return put(3, "d|7") }, flush, func() error { return load(map[int]string{1: "m|8", 55: "m|9"}) },
	} {
		if err := err(); err != nil {
			return err
		}
	}
	return nil
}

// TestInjectedErrors fails each write in turn: the call that needed it fails,
// the process lives, and after a restart all that was acknowledged is there.
func TestInjectedErrors(t *testing.T) {
	for _, forever := range []bool{false, true} {
		failed, surfaced := 0, 0
		for at := int64(1); ; at++ {
			fs, auth := vfs.NewCrashableMem(), storagetest.NewAuthority()
			inject := &failAt{forever: forever}
			s, stop, err := tryOpen(errorfs.Wrap(fs, inject), auth)
			if err != nil {
				t.Fatal(err)
			}
			table := crashTable()
			f := storagetest.NewFixture(t, s, auth, table, storagetest.Keys(table, "20", "40")...)
			history, maybe := []moment{{auth.Now(), state{}}}, state(nil)
			inject.at.Store(inject.n.Load() + at)
			err = script(f, &history, &maybe)
			inject.at.Store(0)
			if inject.what.Load() == nil {
				// Every write was tried.
				if err != nil {
					t.Errorf("without a fault: %v", err)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				break
			}
			failed++
			if err != nil {
				surfaced++
				if !strings.Contains(err.Error(), "no space left on device") {
					t.Errorf("%s: error %v doesn't name the cause", *inject.what.Load(), err)
				}
			}
			closeErr := stop()
			if err == nil && closeErr != nil && !strings.Contains(closeErr.Error(), "no space") {
				t.Errorf("%s: close: %v", *inject.what.Load(), closeErr)
			}
			c := crash{fs: fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0}), auth: auth, history: history, maybe: maybe}
			if err := c.recover(t, true); err != nil {
				t.Fatalf("write %d (%s) failed with %v; afterwards: %v", at, *inject.what.Load(), err, err)
			}
		}
		if surfaced < failed/2 || failed < 50 {
			t.Errorf("%d writes failed, %d calls", failed, surfaced)
		}
		t.Logf("for ever %t: %d writes failed, %d calls", forever, failed, surfaced)
	}
}

// segmentFiles lists the files of the table's segments.
func segmentFiles(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("/data/segments/7")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append([]byte(nil), b...)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBrokenFiles flips a bit at every place of a segment and its sidecar, and
// cuts both: check names the file, a scan either names it or is right.
func TestBrokenFiles(t *testing.T) {
	fs, auth := vfs.NewMem(), storagetest.NewAuthority()
	s, stop, err := tryOpen(fs, auth)
	if err != nil {
		t.Fatal(err)
	}
	f := storagetest.NewFixture(t, s, auth, crashTable())
	f.Load("1|ann|30", "2|bob|41", "3|cy|NULL")
	want, err := visible(f, auth.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range segmentFiles(t, fs) {
		path := "/data/segments/7/" + name
		good := readFile(t, fs, path)
		broken := func(what string, b []byte) {
			t.Helper()
			writeFile(t, fs, path, b)
			s, stop, err := tryOpen(fs, auth)
			if err != nil {
				t.Fatalf("%s: open: %v", what, err)
			}
			f.Server = s
			got, err := visible(f, auth.Now())
			base := strings.TrimSuffix(name, ".crc")
			if err == nil {
				if !maps.Equal(got, want) {
					t.Errorf("%s: a wrong answer: %v", what, got)
				}
			} else if !strings.Contains(err.Error(), base) {
				t.Errorf("%s: the scan's error doesn't name the file: %v", what, err)
			}
			problems, err := s.Check(context.Background(), f.Regions()[0].ID)
			if err != nil {
				t.Errorf("%s: check: %v", what, err)
			}
			found := false
			for _, p := range problems {
				found = found || strings.Contains(p.String(), base)
			}
			if !found {
				t.Errorf("%s: check found %v", what, problems)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < len(good); i += 1 + len(good)/97 {
			b := append([]byte(nil), good...)
			b[i] ^= 1 << (i % 8)
			broken(fmt.Sprintf("%s: bit %d of byte %d flipped", name, i%8, i), b)
		}
		for _, n := range []int{0, 1, len(good) / 2, len(good) - 1} {
			broken(fmt.Sprintf("%s: cut to %d bytes", name, n), good[:n])
		}
		writeFile(t, fs, path, good)
	}
	// Missing and unknown files.
	names := segmentFiles(t, fs)
	s, stop, err = tryOpen(fs, auth)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, fs, "/data/segments/7/notes.txt", []byte("x"))
	problems, err := s.Check(context.Background(), f.Regions()[0].ID)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].String(), "segments/7/notes.txt: no region lists this file") {
		t.Errorf("check with an unknown file: %v, %v", problems, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := fs.Remove("/data/segments/7/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if f.Server, stop, err = tryOpen(fs, auth); err != nil {
		t.Fatal(err)
	}
	if problems, err = f.Server.Check(context.Background(), f.Regions()[0].ID); err != nil || len(problems) < 2 || !strings.Contains(problems[0].String(), names[0]) {
		t.Errorf("check without the file: %v, %v", problems, err)
	}
	if _, err := visible(f, auth.Now()); err == nil || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("scan without the file: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestSplitInDoubt: an error of the catalogue's answer, or of asking again, or
// a crash right after it never loses a row or a key range.
func TestSplitInDoubt(t *testing.T) {
	for _, happened := range []bool{false, true} {
		fs, auth := vfs.NewCrashableMem(), storagetest.NewAuthority()
		s, stop, err := tryOpen(fs, auth)
		if err != nil {
			t.Fatal(err)
		}
		f := storagetest.NewFixture(t, s, auth, crashTable())
		f.Put("1|ann|30", "2|bob|41", "3|cy|NULL")
		history := []moment{{auth.Now(), state{1: "ann|30", 2: "bob|41", 3: "cy|NULL"}}}
		var crashed crash
		auth.Replace = func(do func() error) error {
			if happened {
				if err := do(); err != nil {
					t.Error(err)
				}
			}
			crashed = crash{fs: fs.CrashClone(vfs.CrashCloneCfg{}), auth: auth.Clone(), history: history}
			return errors.New("the connection broke")
		}
		_, err = s.Split(context.Background(), f.Regions()[0].ID, storagetest.Key(f.Table, "2"))
		if happened != (err == nil) {
			t.Errorf("happened %t, error %v", happened, err)
		}
		auth.Replace = nil
		want := 1
		if happened {
			want = 2
		}
		if n := len(f.Regions()); n != want {
			t.Errorf("%d regions, want %d", n, want)
		}
		if _, err := verify(f, history, nil); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if err := crashed.recover(t, true); err != nil {
			t.Errorf("after a crash: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseEndsScans: Close doesn't wait for forgotten scans.
func TestCloseEndsScans(t *testing.T) {
	auth := storagetest.NewAuthority()
	s, stop, err := tryOpen(vfs.NewMem(), auth, func(o *region.Options) { o.RowGroupRows = 1 })
	if err != nil {
		t.Fatal(err)
	}
	f := storagetest.NewFixture(t, s, auth, crashTable())
	f.Load("1|a|1", "2|b|2")
	f.Put("1|c|3")
	sr, err := s.Scan(context.Background(), storage.Scan{Region: f.Regions()[0].ID, At: auth.Now(), Columns: f.Table.Columns})
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := sr.Next(context.Background()); err == nil {
		t.Error("Next works after the server was closed")
	}
	if err := sr.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Put(context.Background(), f.Regions()[0].ID, f.Table.Columns, storagetest.Rows(f.Table.Columns, "1|c|3")); err == nil {
		t.Error("Put works after Close")
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// TestFailedFolder: after a failed commit the folder answers with retryable
// errors that name it, and Close returns.
func TestFailedFolder(t *testing.T) {
	auth, inject := storagetest.NewAuthority(), &failAt{forever: true}
	s, stop, err := tryOpen(errorfs.Wrap(vfs.NewCrashableMem(), inject), auth)
	if err != nil {
		t.Fatal(err)
	}
	f := storagetest.NewFixture(t, s, auth, crashTable())
	f.Put("1|a|1")
	inject.at.Store(inject.n.Load() + 1)
	id := f.Regions()[0].ID
	for range 3 {
		_, err = s.Put(context.Background(), id, f.Table.Columns, storagetest.Rows(f.Table.Columns, "2|b|1"))
		if fault.ClassOf(err) != fault.Retryable || !strings.Contains(fmt.Sprint(err), "data folder /data has failed") {
			t.Errorf("put: %v", err)
		}
	}
	if _, err := s.Scan(context.Background(), storage.Scan{Region: id, At: auth.Now(), Columns: f.Table.Columns}); fault.ClassOf(err) != fault.Retryable || err == nil {
		t.Errorf("scan: %v", err)
	}
	if err := stop(); err != nil && !strings.Contains(err.Error(), "no space") {
		t.Errorf("close: %v", err)
	}
}

// TestStrays: an empty region that the catalogue doesn't know, as a crash
// leaves it, takes no rows and is gone after the next open.
func TestStrays(t *testing.T) {
	fs, auth := vfs.NewMem(), storagetest.NewAuthority()
	s, stop, err := tryOpen(fs, auth)
	if err != nil {
		t.Fatal(err)
	}
	table := crashTable()
	stray := storage.Region{ID: 500, Table: table.ID, Range: storage.KeyRange{}}
	if err := s.CreateRegion(context.Background(), table, stray); err != nil {
		t.Fatal(err)
	}
	f := storagetest.NewFixture(t, s, auth, table, storagetest.Keys(table, "20")...)
	f.Load("1|ann|30", "25|bob|41")
	f.Rows(0, "1|ann|30", "25|bob|41")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if f.Server, stop, err = tryOpen(fs, auth); err != nil {
		t.Fatal(err)
	}
	f.Rows(0, "1|ann|30", "25|bob|41")
	f.Check()
	if _, err := f.Server.Stats(context.Background(), stray.ID); !errors.Is(err, storage.ErrRegionGone) {
		t.Errorf("the stray region after the next open: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestFolders: regions live in the folder they were made in, loads and splits
// stay there, and the order of folders may change.
func TestFolders(t *testing.T) {
	fs, auth := vfs.NewMem(), storagetest.NewAuthority()
	table := crashTable()
	start := func(dirs ...string) (*region.Server, func()) {
		var folders []*folder.Folder
		for _, d := range dirs {
			fo, err := folder.Open(fs, d, folder.Options{})
			if err != nil {
				t.Fatal(err)
			}
			folders = append(folders, fo)
		}
		s, err := region.Open(context.Background(), region.Options{Folders: folders, Authority: auth})
		if err != nil {
			t.Fatal(err)
		}
		return s, func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			for _, fo := range folders {
				if err := fo.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	s, stop := start("/a", "/b")
	cut := storagetest.Key(table, "20")
	for i, r := range []storage.KeyRange{{End: cut}, {Start: cut}} {
		reg := storage.Region{ID: storage.RegionID(100 + i), Table: table.ID, Range: r, Folder: i}
		if err := s.CreateRegion(context.Background(), table, reg); err != nil {
			t.Fatal(err)
		}
		auth.AddRegions(reg)
	}
	f := &storagetest.Fixture{TB: t, Server: s, Auth: auth, Table: table}
	f.SetColumns()
	f.Load("1|ann|1", "19|bob|2", "20|cy|3", "40|di|4")
	f.Put("2|eve|5")
	f.Put("41|fay|6")
	want := []string{"1|ann|1", "19|bob|2", "2|eve|5", "20|cy|3", "40|di|4", "41|fay|6"}
	f.Rows(0, want...)
	for _, dir := range []string{"/a", "/b"} {
		if names, err := fs.List(dir + "/segments/7"); err != nil || len(names) != 2 {
			t.Errorf("%s has segments %v, %v", dir, names, err)
		}
	}
	if halves, err := s.Split(context.Background(), 101, storagetest.Key(table, "30")); err != nil || halves[1].Folder != 1 {
		t.Errorf("halves %v, %v", halves, err)
	}
	f.Rows(0, want...)
	f.Check()
	stop()
	if f.Server, stop = start("/b", "/a"); f.Server == nil {
		t.Fatal("no server")
	}
	f.Rows(0, want...)
	stop()
}
