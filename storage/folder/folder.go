// Package folder opens data folders: it makes and checks the FORMAT file and
// holds the lock that keeps a second process out. docs/format/folder.md has
// the layout. What lies inside belongs to storage/region and
// catalog/metastore.
package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/skepdb/skep/internal/fault"
)

// Version is the format of data folders that this program writes, and Oldest the
// oldest that it reads. docs/format/folder.md says what changed between formats.
const (
	Version = 2
	Oldest  = 2
)

// Names of files in a data folder.
const (
	formatFile = "FORMAT"
	lockFile   = "LOCK"
	// The holder's identity can't be in LOCK itself: whoever tries to take
	// the lock truncates that file first.
	ownerFile = "LOCK.owner"

	formatMagic = "skep data folder"
	maxFormat   = 4096 // bytes; a longer FORMAT or owner file isn't ours
)

// Options say who opens a folder. The zero value means this process.
type Options struct {
	PID     int       // 0: os.Getpid()
	Command string    // "": the command line
	Now     time.Time // start time shown to others; zero: time.Now()
}

// Owner is the process that holds a folder.
type Owner struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Started time.Time `json:"started"`
	// Server is where the process takes statements, "host:port"; "" if it doesn't.
	Server string `json:"server,omitempty"`
}

// Folder is an open, locked data folder.
type Folder struct {
	fs   vfs.FS
	dir  string
	id   uuid.UUID
	lock io.Closer
	// owner is what others are told.
	owner Owner
}

// Open locks the data folder at dir, which is made if it doesn't exist or is
// empty, and checks its format. A path that can't be a data folder, one of a
// newer format and one that another process holds are user errors.
func Open(fsys vfs.FS, dir string, o Options) (*Folder, error) {
	if dir == "" {
		return nil, fault.Userf("data folder: the path is empty")
	}
	if o.PID == 0 {
		o.PID = os.Getpid()
	}
	if o.Command == "" {
		o.Command = strings.Join(os.Args, " ")
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	f := &Folder{fs: fsys, dir: dir}
	if err := f.prepare(); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(f.Path(lockFile))
	if err != nil {
		return nil, f.lockError(err)
	}
	f.lock = lock
	if err := f.start(o); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

// FS returns the file system that the folder is on.
func (f *Folder) FS() vfs.FS { return f.fs }

// Dir returns the folder's path as it was given to Open.
func (f *Folder) Dir() string { return f.dir }

// ID returns the folder's UUID, made with it. A copied folder has the same one.
func (f *Folder) ID() uuid.UUID { return f.id }

// Path returns the path of a file in the folder.
func (f *Folder) Path(elem ...string) string {
	return f.fs.PathJoin(append([]string{f.dir}, elem...)...)
}

// Close gives the lock up. What uses the folder must be closed before.
func (f *Folder) Close() error {
	if f.lock == nil {
		return nil
	}
	lock := f.lock
	f.lock = nil
	err := f.fs.Remove(f.Path(ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(err, lock.Close()); err != nil {
		return fmt.Errorf("close data folder %s: %w", f.dir, err)
	}
	return nil
}

// prepare makes the directory if there is none and refuses what can't be a
// data folder, before anything is written into it.
func (f *Folder) prepare() error {
	info, err := f.fs.Stat(f.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := MakeDir(f.fs, f.dir); err != nil {
			return f.accessError("make", err)
		}
		return nil
	case err != nil:
		return f.accessError("open", err)
	case !info.IsDir():
		return fault.Userf("data folder %s: is a file, not a folder", f.dir)
	}
	names, err := f.fs.List(f.dir)
	if err != nil {
		return f.accessError("list", err)
	}
	var other string
	for _, name := range names {
		switch name {
		case formatFile:
			return nil
		case lockFile, ownerFile, formatFile + ".tmp", ownerFile + ".tmp", "lost+found":
		default:
			other = name
		}
	}
	if other != "" {
		return fault.Userf("data folder %s: it has no %s file but isn't empty (there is %q): it isn't a Skep data folder; name an empty or a new one", f.dir, formatFile, other)
	}
	return nil
}

// start reads or makes FORMAT and tells others who holds the lock.
func (f *Folder) start(o Options) error {
	text, err := f.read(formatFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.id = uuid.New()
		text := fmt.Sprintf("%s\nversion %d\nid %s\n", formatMagic, Version, f.id)
		if err := f.write(formatFile, []byte(text)); err != nil {
			return f.accessError("write "+formatFile+" in", err)
		}
	case err != nil:
		return f.accessError("read "+formatFile+" in", err)
	default:
		if f.id, err = parseFormat(text); err != nil {
			return fault.Userf("data folder %s: %s: %w", f.dir, formatFile, err)
		}
	}
	f.owner = Owner{PID: o.PID, Command: o.Command, Started: o.Now.UTC().Truncate(time.Second)}
	return f.tell()
}

// tell writes for others who holds the lock.
func (f *Folder) tell() error {
	owner, err := json.Marshal(f.owner)
	if err != nil {
		return fmt.Errorf("data folder %s: %w", f.dir, err)
	}
	if err := f.write(ownerFile, append(owner, '\n')); err != nil {
		return f.accessError("write "+ownerFile+" in", err)
	}
	return nil
}

// Serving tells others where the process that holds the folder takes statements.
func (f *Folder) Serving(address string) error {
	f.owner.Server = address
	return f.tell()
}

// parseFormat reads a FORMAT file: the magic line, then "name value" lines.
func parseFormat(text []byte) (uuid.UUID, error) {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if lines[0] != formatMagic {
		return uuid.UUID{}, fmt.Errorf("line 1 is %.40q, expected %q", lines[0], formatMagic)
	}
	var version int
	var id uuid.UUID
	for i, line := range lines[1:] {
		name, value, _ := strings.Cut(line, " ")
		switch name {
		case "version":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return uuid.UUID{}, fmt.Errorf("line %d: version %.40q is not a number from 1", i+2, value)
			}
			if n > Version {
				return uuid.UUID{}, fmt.Errorf("the folder has format %d, this program reads formats up to %d: use a newer skep", n, Version)
			}
			if n < Oldest {
				return uuid.UUID{}, fmt.Errorf("the folder has format %d, this program reads formats from %d: load its tables again, or use the skep that made it", n, Oldest)
			}
			version = n
		case "id":
			u, err := uuid.Parse(value)
			if err != nil {
				return uuid.UUID{}, fmt.Errorf("line %d: id %.60q is not a UUID", i+2, value)
			}
			id = u
		default:
			return uuid.UUID{}, fmt.Errorf("line %d: unknown %.40q, expected version or id", i+2, name)
		}
	}
	if version == 0 || id == (uuid.UUID{}) {
		return uuid.UUID{}, errors.New("version or id is missing")
	}
	return id, nil
}

func (f *Folder) lockError(err error) error {
	if !isLocked(err) {
		return f.accessError("lock", err)
	}
	text, readErr := f.read(ownerFile)
	var owner Owner
	if readErr != nil || json.Unmarshal(text, &owner) != nil || owner.PID == 0 {
		return fault.Userf("data folder %s is in use by another process", f.dir)
	}
	err = fault.Userf("data folder %s is in use by process %d (%s), started %s", f.dir, owner.PID, owner.Command, owner.Started.Format(time.DateTime+" MST"))
	if owner.Server != "" {
		return &fault.Error{Class: fault.User, SQLState: fault.StateBadData, Message: err.Error(),
			Hint: "it is a server: ask it with --server " + owner.Server + " in place of --data"}
	}
	return err
}

func (f *Folder) accessError(op string, err error) error {
	return fault.Userf("%s data folder %s: %w", op, f.dir, err)
}

// read returns a small file of the folder.
func (f *Folder) read(name string) ([]byte, error) {
	file, err := f.fs.Open(f.Path(name))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFormat))
	return text, errors.Join(err, file.Close())
}

// write replaces a small file of the folder durably.
func (f *Folder) write(name string, text []byte) error { return WriteFile(f.fs, f.dir, name, text) }

// WriteFile replaces a small file durably: a crash leaves the old or the new one.
func WriteFile(fsys vfs.FS, dir, name string, text []byte) error {
	path := fsys.PathJoin(dir, name)
	tmp := path + ".tmp"
	file, err := fsys.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(bytes.Clone(text))
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(fsys, dir)
}

// MakeDir makes a directory and its missing parents durably: their entries
// survive a crash too.
func MakeDir(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil {
		return nil
	}
	parent := fsys.PathDir(dir)
	if parent != dir {
		if err := MakeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return syncDir(fsys, parent)
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
