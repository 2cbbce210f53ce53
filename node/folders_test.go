package node

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/storage/folder"
)

func options(fsys vfs.FS, workers int, data ...string) Options {
	return Options{Data: data, Workers: workers, FS: fsys, Now: func() time.Time { return time.Unix(0, 0) }, Command: "test"}.withDefaults()
}

// openAll opens folders and returns, for each worker, the directories.
func openAll(t *testing.T, o Options) (dirs [][]string, workers []string, err error) {
	t.Helper()
	own, err := openFolders(o)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range own {
		var d []string
		for _, f := range w.folders {
			d = append(d, f.Dir())
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		dirs = append(dirs, d)
		workers = append(workers, string(w.worker))
	}
	return dirs, workers, nil
}

func TestFoldersKeepTheirWorkers(t *testing.T) {
	fsys := vfs.NewMem()
	dirs, first, err := openAll(t, options(fsys, 2, "a", "b", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) != 2 || strings.Join(dirs[0], " ") != "a c" || strings.Join(dirs[1], " ") != "b" {
		t.Fatalf("folders by worker: %v, want a and c, b", dirs)
	}
	// Another order, and another wanted number of workers, change nothing.
	dirs, again, err := openAll(t, options(fsys, 1, "c", "b", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) != 2 || strings.Join(dirs[0], " ") != "a c" || again[0] != first[0] || again[1] != first[1] {
		t.Errorf("opened again: %v of %v, at first %v", dirs, again, first)
	}
	// A new folder goes to a worker that exists.
	dirs, again, err = openAll(t, options(fsys, 1, "a", "b", "c", "d"))
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) != 2 || strings.Join(dirs[0], " ") != "a c d" || again[0] != first[0] {
		t.Errorf("with a new folder: %v", dirs)
	}
}

func TestFoldersFile(t *testing.T) {
	fsys := vfs.NewMem()
	if err := WriteFolders(fsys, "root", []string{"one", "two"}); err != nil {
		t.Fatal(err)
	}
	dirs, _, err := openAll(t, options(fsys, 2, "root"))
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) != 2 || dirs[0][0] != "root/one" || dirs[1][0] != "root/two" {
		t.Errorf("folders %v", dirs)
	}
	if err := WriteFolders(fsys, "bad", []string{"../elsewhere"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openAll(t, options(fsys, 1, "bad")); err == nil || !strings.Contains(err.Error(), "../elsewhere") {
		t.Errorf("a name outside of the directory: %v", err)
	}
}

func TestFolderFaults(t *testing.T) {
	fsys := vfs.NewMem()
	if _, _, err := openAll(t, options(fsys, 1, "a", "b")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openAll(t, options(fsys, 2, "z")); err == nil || !strings.Contains(err.Error(), "2 workers") {
		t.Errorf("more workers than folders: %v", err)
	}
	if _, _, err := openAll(t, options(fsys, 1, "b")); err == nil || !strings.Contains(err.Error(), "number 0 that isn't given") {
		t.Errorf("a worker's folder is missing: %v", err)
	}
	o := options(fsys, 1, "nope")
	o.MustExist = true
	if _, _, err := openAll(t, o); err == nil || !strings.Contains(err.Error(), "nope doesn't exist") {
		t.Errorf("a folder that must exist: %v", err)
	}
	if err := folder.WriteFile(fsys, "a", workerFile, []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openAll(t, options(fsys, 1, "a", "b")); err == nil || !strings.Contains(err.Error(), "a/WORKER") {
		t.Errorf("a WORKER file that can't be read: %v", err)
	}
	// After each failure all locks are free again.
	if _, _, err := openAll(t, options(fsys, 1, "c", "d")); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	err := Options{Data: []string{"a", "", "./a"}, Workers: -1, Slots: -2, Memory: 5}.Validate()
	for _, want := range []string{"path is empty", "a and ./a are the same", "workers: -1", "slots: -2", "memory: 5"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	want := "data = \"skep-data\"\nworkers = 1\nslots = auto\nmemory = 1073741824\nshuffle_memory = 1073741824\n"
	if got := (Options{}).String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
