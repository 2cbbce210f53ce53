package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage/folder"
)

// Names of the node's own files; docs/format/node.md describes them.
const (
	workerFile  = "WORKER"  // in a data folder: whose it is
	foldersFile = "FOLDERS" // in a directory that stands for data folders
)

// membership is the content of a WORKER file.
type membership struct {
	Worker cluster.WorkerID `json:"worker"`
	// Folder is the folder's number among the worker's: regions name it.
	Folder int `json:"folder"`
}

// ownFolders are the open data folders of one worker, by number.
type ownFolders struct {
	worker  cluster.WorkerID
	folders []*folder.Folder
}

// expand replaces each directory that has a FOLDERS file by what it names.
func expand(fsys vfs.FS, dirs []string) ([]string, error) {
	var out []string
	for _, dir := range dirs {
		if info, err := fsys.Stat(dir); err != nil || !info.IsDir() {
			out = append(out, dir) // opening it says what is wrong, or makes it
			continue
		}
		text, err := readFile(fsys, fsys.PathJoin(dir, foldersFile))
		if errors.Is(err, fs.ErrNotExist) {
			out = append(out, dir)
			continue
		}
		if err != nil {
			return nil, fault.Userf("data folder %s: %w", dir, err)
		}
		for _, name := range strings.Fields(string(text)) {
			if !filepath.IsLocal(name) {
				return nil, fault.Userf("%s names %q: want the name of a folder beside it", fsys.PathJoin(dir, foldersFile), name)
			}
			out = append(out, fsys.PathJoin(dir, name))
		}
	}
	return out, nil
}

// WriteFolders makes dir stand for the data folders with these names inside it.
func WriteFolders(fsys vfs.FS, dir string, names []string) error {
	if fsys == nil {
		fsys = vfs.Default
	}
	if err := folder.MakeDir(fsys, dir); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	if err := folder.WriteFile(fsys, dir, foldersFile, []byte(strings.Join(names, "\n")+"\n")); err != nil {
		return fmt.Errorf("write %s: %w", fsys.PathJoin(dir, foldersFile), err)
	}
	return nil
}

// openFolders opens and locks all folders, gives new ones to workers in turn,
// and returns the workers in the order of their first folder. On an error
// nothing stays open.
func openFolders(o Options) (own []ownFolders, err error) {
	dirs, err := expand(o.FS, o.Data)
	if err != nil {
		return nil, err
	}
	if o.MustExist {
		if _, err := o.FS.Stat(dirs[0]); errors.Is(err, fs.ErrNotExist) {
			return nil, fault.Userf("data folder %s doesn't exist", dirs[0])
		}
	}
	var opened []*folder.Folder
	defer func() {
		if err != nil {
			for _, f := range opened {
				err = errors.Join(err, f.Close())
			}
		}
	}()
	members := make([]membership, len(dirs))
	var fresh []int
	for i, dir := range dirs {
		f, err := folder.Open(o.FS, dir, folder.Options{Command: o.Command, Now: o.Now()})
		if err != nil {
			return nil, err
		}
		opened = append(opened, f)
		m, err := readMembership(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fresh = append(fresh, i)
		case err != nil:
			return nil, err
		}
		members[i] = m
	}
	if err := assign(members, fresh, o.Workers); err != nil {
		return nil, err
	}
	for _, i := range fresh {
		if err := writeMembership(opened[i], members[i]); err != nil {
			return nil, err
		}
	}
	return group(dirs, opened, members)
}

// assign gives the fresh folders to workers: to those that exist already, or
// else to count new ones.
func assign(members []membership, fresh []int, count int) error {
	var workers []cluster.WorkerID
	next := map[cluster.WorkerID]int{}
	for _, m := range members {
		if m.Worker == "" {
			continue
		}
		if _, known := next[m.Worker]; !known {
			workers = append(workers, m.Worker)
		}
		next[m.Worker] = max(next[m.Worker], m.Folder+1)
	}
	if len(workers) == 0 {
		if count > len(fresh) {
			return fault.Userf("%d workers need as many data folders: %d given", count, len(fresh))
		}
		for range count {
			workers = append(workers, cluster.NewWorkerID())
		}
	}
	for k, i := range fresh {
		w := workers[k%len(workers)]
		members[i] = membership{Worker: w, Folder: next[w]}
		next[w]++
	}
	return nil
}

// group sorts folders by worker and number; each worker's numbers must be
// complete, since its regions are spread over all of them.
func group(dirs []string, opened []*folder.Folder, members []membership) ([]ownFolders, error) {
	var own []ownFolders
	index := map[cluster.WorkerID]int{}
	at := map[membership]string{}
	for i, m := range members {
		if other, twice := at[m]; twice {
			return nil, fault.Userf("data folders %s and %s are copies of one another: give one of them", other, dirs[i])
		}
		at[m] = dirs[i]
		w, known := index[m.Worker]
		if !known {
			w = len(own)
			index[m.Worker] = w
			own = append(own, ownFolders{worker: m.Worker})
		}
		for len(own[w].folders) <= m.Folder {
			own[w].folders = append(own[w].folders, nil)
		}
		own[w].folders[m.Folder] = opened[i]
	}
	for _, o := range own {
		for n, f := range o.folders {
			if f == nil {
				return nil, fault.Userf("worker %s has a data folder number %d that isn't given: name all its folders with --data",
					o.worker, n)
			}
		}
	}
	return own, nil
}

func readMembership(f *folder.Folder) (membership, error) {
	var m membership
	text, err := readFile(f.FS(), f.Path(workerFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Worker == "" || m.Folder < 0 || m.Folder > 1<<10 {
		return m, fault.Userf("%s: want a worker's id and a folder number, found %.80q", f.Path(workerFile), text)
	}
	return m, nil
}

func writeMembership(f *folder.Folder, m membership) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := folder.WriteFile(f.FS(), f.Dir(), workerFile, append(text, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", f.Path(workerFile), err)
	}
	return nil
}

// maxFile bounds the node's own files: a longer one isn't ours.
const maxFile = 64 << 10

func readFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	return text, errors.Join(err, f.Close())
}
