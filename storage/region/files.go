package region

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region/segment"
)

// file is a segment file that some manifest version lists. Versions hold
// references, readers hold versions: when the last reference goes, nothing can
// read the file any more and it is removed. A version that dropped a file is
// durable before its predecessor is let go, so a crash leaves at worst an
// orphan, which the next open collects.
type file struct {
	st    *store
	table storage.TableID
	id    uint64
	refs  int // guarded by st.mu

	mu     sync.Mutex
	reader *segment.Reader
}

// refFile returns the file with one more reference.
func (s *store) refFile(table storage.TableID, id uint64) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	if f == nil {
		f = &file{st: s, table: table, id: id}
		s.files[id] = f
		delete(s.writing, id)
	}
	f.refs++
	return f
}

// unref gives a reference back and removes the file if it was the last.
func (f *file) unref() {
	s := f.st
	s.mu.Lock()
	f.refs--
	last := f.refs == 0
	if last {
		delete(s.files, f.id)
	}
	keep := s.closing
	s.mu.Unlock()
	if !last {
		return
	}
	if err := f.closeReader(); err != nil {
		s.log.Warn("close segment", "file", fileName(f.table, f.id), "error", err)
	}
	if keep || s.err() != nil {
		return
	}
	if err := s.removeFile(f.table, f.id); err != nil {
		// It stays as an orphan until the next open.
		s.log.Warn("remove segment", "file", fileName(f.table, f.id), "error", err)
	}
}

// removeFile removes a segment and its sidecar.
func (s *store) removeFile(table storage.TableID, id uint64) error {
	path := s.filePath(table, id)
	var errs []error
	for _, p := range []string{path, path + segment.SidecarSuffix} {
		if err := s.folder.FS().Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// open returns the file's reader, the same one for all.
func (f *file) open(meta segment.Meta, key []storage.KeyColumn) (*segment.Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reader == nil {
		r, err := segment.Open(f.st.folder.FS(), f.st.filePath(f.table, f.id), meta, key, f.st.dicts)
		if err != nil {
			return nil, err
		}
		f.reader = r
	}
	return f.reader, nil
}

func (f *file) closeReader() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.reader
	f.reader = nil
	if r == nil {
		return nil
	}
	return r.Close()
}
