package folder

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/internal/fault"
)

func open(t *testing.T, fs vfs.FS, dir string) *Folder {
	t.Helper()
	f, err := Open(fs, dir, Options{PID: 7, Command: "skep sql", Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOpenMakesAndKeepsTheFolder(t *testing.T) {
	fs := vfs.NewCrashableMem()
	f := open(t, fs, "/a/data")
	id := f.ID()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// What Open made is durable: only what was synced survives.
	f = open(t, fs.CrashClone(vfs.CrashCloneCfg{}), "/a/data")
	if f.ID() != id {
		t.Errorf("id %v after a crash, want %v", f.ID(), id)
	}
	if got, want := f.Path("store", "x"), "/a/data/store/x"; got != want {
		t.Errorf("Path: %s, want %s", got, want)
	}
}

func TestSecondOpenNamesTheHolder(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": vfs.NewMem(), "os": vfs.Default} {
		dir := filepath.Join(t.TempDir(), "data")
		f := open(t, fs, dir)
		_, err := Open(fs, dir, Options{})
		want := "data folder " + dir + " is in use by process 7 (skep sql), started 2026-11-30 12:00:00 UTC"
		if err == nil || err.Error() != want || fault.ClassOf(err) != fault.User {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		open(t, fs, dir)
	}
}

// A lock of another process is reported, and gone once that process is dead,
// though it never closed anything.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if os.Getenv("SKEP_TEST_HOLD") != "" {
		if _, err := Open(vfs.Default, os.Getenv("SKEP_TEST_HOLD"), Options{PID: 99, Command: "skep start"}); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("held\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestLockOfAnotherProcess")
	cmd.Env = append(os.Environ(), "SKEP_TEST_HOLD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "held"; {
	}
	if _, err := Open(vfs.Default, dir, Options{}); err == nil || !strings.Contains(err.Error(), "in use by process 99 (skep start)") {
		t.Errorf("error %v, want one that names process 99", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
	f := open(t, vfs.Default, dir)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	write := func(fs vfs.FS, path, text string) {
		t.Helper()
		if err := fs.MkdirAll(fs.PathDir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ path, text, dir, want string }{
		{"/d", "x", "/d", "is a file, not a folder"},
		{"/d/notes.txt", "x", "/d", `isn't empty (there is "notes.txt")`},
		{"/d/FORMAT", "skep data folder\nversion 3\nid 6ba7b810-9dad-11d1-80b4-00c04fd430c8\n", "/d", "the folder has format 3, this program reads formats up to 2"},
		{"/d/FORMAT", "skep data folder\nversion 1\nid 6ba7b810-9dad-11d1-80b4-00c04fd430c8\n", "/d", "the folder has format 1, this program reads formats from 2"},
		{"/d/FORMAT", "skep data folder\nversion x\n", "/d", `line 2: version "x" is not a number`},
		{"/d/FORMAT", "skep data folder\nversion 2\nid 12\n", "/d", `line 3: id "12" is not a UUID`},
		{"/d/FORMAT", "skep data folder\nversion 2\n", "/d", "version or id is missing"},
		{"/d/FORMAT", "skep data folder\ncolour red\n", "/d", `line 2: unknown "colour"`},
		{"/d/FORMAT", "hello", "/d", `line 1 is "hello", expected "skep data folder"`},
		{"/d/FORMAT", "", "/d", `line 1 is "", expected`},
		{"/x", "", "", "the path is empty"},
	}
	for _, tt := range tests {
		fs := vfs.NewMem()
		write(fs, tt.path, tt.text)
		_, err := Open(fs, tt.dir, Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || fault.ClassOf(err) != fault.User {
			t.Errorf("%s %q: error %v, want a user error with %q", tt.path, tt.text, err, tt.want)
		}
	}
}

// A crash at any point of the first Open leaves a folder that opens.
func TestCrashWhileMaking(t *testing.T) {
	fs := vfs.NewCrashableMem()
	if err := fs.MkdirAll("/data", 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	write("/data/LOCK", "")
	write("/data/FORMAT.tmp", "skep da")
	open(t, fs, "/data")
}

func FuzzParseFormat(f *testing.F) {
	f.Add([]byte("skep data folder\nversion 2\nid 6ba7b810-9dad-11d1-80b4-00c04fd430c8\n"))
	f.Add([]byte("skep data folder\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if id, err := parseFormat(text); err == nil && id.String() == "00000000-0000-0000-0000-000000000000" {
			t.Errorf("no id and no error")
		}
	})
}
