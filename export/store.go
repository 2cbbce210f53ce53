package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
)

// Names within the folder of exports.
const (
	definitionFile = "definition.json"
	runsDir        = "runs"
	dataDir        = "data"
	aside          = ".aside" // half-written files and dropped exports; nothing in it counts
)

// store is the folder. It keeps nothing in memory.
type store struct{ dir string }

func (s store) definition(name string) string { return filepath.Join(s.dir, name, definitionFile) }
func (s store) run(name, id string) string {
	return filepath.Join(s.dir, name, runsDir, id+".json")
}
func (s store) data(name, id string) string { return filepath.Join(s.dir, name, dataDir, id+".zip") }
func (s store) aside() string               { return filepath.Join(s.dir, aside) }

// write makes a file durable and visible in one step.
func (s store) write(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.aside(), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.aside(), "json-")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = s.install(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// install renames a synced file to its place.
func (s store) install(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	// The folders above are new with the first file in them.
	for dir := filepath.Dir(to); len(dir) >= len(s.dir); dir = filepath.Dir(dir) {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func read[T any](path string) (*T, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fault.Userf("%s is damaged: %w", path, err)
	}
	return v, nil
}

// load reads all definitions and runs.
func (s store) load() (map[string]*exported, error) {
	out := map[string]*exported{}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read exports: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !namePattern.MatchString(e.Name()) {
			continue
		}
		d, err := read[Definition](s.definition(e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // made, but never complete
		}
		if err != nil {
			return nil, fmt.Errorf("read exports: %w", err)
		}
		d.Name = e.Name()
		x := &exported{def: d, runs: map[string]*Run{}}
		runs, err := os.ReadDir(filepath.Join(s.dir, e.Name(), runsDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read exports: %w", err)
		}
		for _, r := range runs {
			id, ok := strings.CutSuffix(r.Name(), ".json")
			if !ok {
				continue
			}
			run, err := read[Run](s.run(e.Name(), id))
			if err != nil {
				return nil, fmt.Errorf("read exports: %w", err)
			}
			run.Export, run.ID = e.Name(), id
			x.runs[id] = run
		}
		out[e.Name()] = x
	}
	return out, nil
}

// tidy removes what no record speaks of: half-written files, and files of runs
// that did not succeed.
func (s store) tidy(all map[string]*exported) error {
	err := os.RemoveAll(s.aside())
	for name, x := range all {
		entries, derr := os.ReadDir(filepath.Join(s.dir, name, dataDir))
		if derr != nil && !errors.Is(derr, fs.ErrNotExist) {
			err = errors.Join(err, derr)
		}
		for _, e := range entries {
			id := strings.TrimSuffix(e.Name(), ".zip")
			if r := x.runs[id]; r == nil || r.State != Succeeded {
				err = errors.Join(err, os.Remove(filepath.Join(s.dir, name, dataDir, e.Name())))
			}
		}
	}
	return err
}

// dropRun forgets a run and its file: the record goes first, so that none ever
// names a file that isn't there.
func (s store) dropRun(name, id string) error {
	if err := os.Remove(s.run(name, id)); err != nil {
		return err
	}
	if err := os.Remove(s.data(name, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// drop forgets an export in one step.
func (s store) drop(name string) error {
	if err := os.MkdirAll(s.aside(), 0o755); err != nil {
		return err
	}
	to, err := os.MkdirTemp(s.aside(), "dropped-")
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(s.dir, name), filepath.Join(to, name)); err != nil {
		return err
	}
	return errors.Join(syncDir(s.dir), os.RemoveAll(to))
}

// exported is an export and its runs.
type exported struct {
	def  *Definition
	runs map[string]*Run
}

// sorted returns the runs, the newest first.
func (x *exported) sorted() []*Run {
	out := make([]*Run, 0, len(x.runs))
	for _, r := range x.runs {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Run) int {
		if c := b.Queued.Compare(a.Queued); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return out
}

// latest returns the newest run that succeeded, or nil.
func (x *exported) latest() *Run {
	for _, r := range x.sorted() {
		if r.State == Succeeded {
			return r
		}
	}
	return nil
}
