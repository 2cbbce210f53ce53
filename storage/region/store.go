package region

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/folder"
	"github.com/skepdb/skep/storage/region/segment"
)

// The first byte of a key in Pebble says what it is; docs/format/folder.md.
const (
	keyNext     = 1 // the next number for a file or generation
	keyManifest = 2 // | region, 8 bytes big endian: its manifest
	keySplit    = 3 // | region, 8 bytes big endian: a split of it that began
	keyDelta    = 4 // | generation | ...: a row, see delta.go
)

const (
	storeDir    = "store"
	segmentsDir = "segments"
	fileSuffix  = ".parquet"
)

func regionKey(kind byte, id storage.RegionID) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, uint64(id))
}

// store is what one data folder holds: a Pebble and the segment files.
//
// Pebble ends the process when a commit or a manifest write fails. Here its
// logger parks the goroutine instead and marks the folder as failed; calls
// that may end up there run in a goroutine of their own, so that only that one
// is lost. A failed folder answers everything with an error until the process
// starts anew.
type store struct {
	folder *folder.Folder
	index  int // Region.Folder of its regions
	db     *pebble.DB
	dicts  *segment.Cache
	log    *slog.Logger

	failOnce sync.Once
	failed   chan struct{} // closed when the folder has failed
	failure  error         // set before failed is closed

	next atomic.Uint64 // the last number given to a file or generation

	mu      sync.Mutex
	files   map[uint64]*file
	writing map[uint64]struct{} // files that no manifest lists yet
	closing bool
}

// openStore opens the Pebble of a folder.
func openStore(f *folder.Folder, index int, o Options, cache *pebble.Cache, dicts *segment.Cache) (*store, error) {
	s := &store{folder: f, index: index, dicts: dicts, log: o.Logger.With("folder", f.Dir()), failed: make(chan struct{}), files: map[uint64]*file{}, writing: map[uint64]struct{}{}}
	dir := f.Path(storeDir)
	if err := folder.MakeDir(f.FS(), dir); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	opts := &pebble.Options{
		FS:                 f.FS(),
		Cache:              cache,
		MemTableSize:       uint64(o.MemTableBytes),
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             parkingLogger{s},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { s.log.Error("pebble background work failed", "error", err) },
			DataCorruption:  func(info pebble.DataCorruptionInfo) { s.log.Error("pebble found corruption", "info", info.String()) },
		},
	}
	err := s.run(func() (err error) {
		s.db, err = pebble.Open(dir, opts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return s, nil
}

// run runs f in its own goroutine and waits for it, or for the folder to
// fail, in which case f's goroutine may be parked for ever.
func (s *store) run(f func() error) error {
	if err := s.err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-s.failed:
		return s.err()
	}
}

// err returns the error of a failed folder, else nil.
func (s *store) err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

func (s *store) fail(cause string) {
	s.failOnce.Do(func() {
		s.failure = fault.Retryablef("data folder %s has failed and needs a restart: %s", s.folder.Dir(), cause)
		s.log.Error("data folder failed", "error", cause)
		close(s.failed)
	})
}

// parkingLogger is Pebble's logger. Pebble relies on Fatalf not returning.
type parkingLogger struct{ s *store }

func (l parkingLogger) Infof(string, ...any) {}
func (l parkingLogger) Errorf(format string, args ...any) {
	l.s.log.Warn(fmt.Sprintf("pebble: "+format, args...))
}
func (l parkingLogger) Fatalf(format string, args ...any) {
	l.s.fail(fmt.Sprintf(format, args...))
	select {}
}

// apply commits a batch durably and closes it. After an error nobody knows
// whether a restart will find it applied: no file that it lists may be removed.
func (s *store) apply(b *pebble.Batch) error {
	err := s.run(func() error { return errors.Join(b.Commit(pebble.Sync), b.Close()) })
	if err != nil {
		if s.err() == nil {
			s.fail(fmt.Sprintf("commit: %v", err))
		}
		return s.err()
	}
	return nil
}

// snapshot returns a Pebble snapshot.
func (s *store) snapshot() (snap *pebble.Snapshot, err error) {
	err = s.run(func() error { snap = s.db.NewSnapshot(); return nil })
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// newID returns a number for a file or generation, never used before in this
// folder by anything that a manifest has listed.
func (s *store) newID() uint64 { return s.next.Add(1) }

// raise makes newID return numbers above id.
func (s *store) raise(id uint64) {
	if id > s.next.Load() {
		s.next.Store(id)
	}
}

// newBatch returns a batch that also records the numbers given out.
func (s *store) newBatch() (*pebble.Batch, error) {
	b := s.db.NewBatch()
	if err := b.Set([]byte{keyNext}, binary.BigEndian.AppendUint64(nil, s.next.Load()), nil); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// load reads all manifests and split records.
func (s *store) load() (manifests []*manifest, splits []*splitRecord, err error) {
	value, closer, err := s.db.Get([]byte{keyNext})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
	case err != nil:
		return nil, nil, fmt.Errorf("read manifests of %s: %w", s.folder.Dir(), err)
	default:
		if len(value) == 8 {
			s.raise(binary.BigEndian.Uint64(value))
		}
		if err := closer.Close(); err != nil {
			return nil, nil, err
		}
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyManifest}, UpperBound: []byte{keyDelta}})
	if err != nil {
		return nil, nil, fmt.Errorf("read manifests of %s: %w", s.folder.Dir(), err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, nil, fmt.Errorf("read manifests of %s: %w", s.folder.Dir(), err)
		}
		if key[0] == keySplit {
			rec, err := decodeSplit(value)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: key %x: %w", s.folder.Dir(), key, err)
			}
			splits = append(splits, rec)
			continue
		}
		m, err := decodeManifest(value)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: key %x: %w", s.folder.Dir(), key, err)
		}
		if len(key) != 9 || storage.RegionID(binary.BigEndian.Uint64(key[1:])) != m.region.ID {
			return nil, nil, fmt.Errorf("%s: key %x has the manifest of region %d", s.folder.Dir(), key, m.region.ID)
		}
		m.region.Folder = s.index
		for _, g := range m.generations {
			s.raise(g.id)
		}
		m.files(func(e *entry) { s.raise(e.file) })
		manifests = append(manifests, m)
	}
	if err := it.Error(); err != nil {
		return nil, nil, fmt.Errorf("read manifests of %s: %w", s.folder.Dir(), err)
	}
	return manifests, splits, nil
}

// fileName returns a segment's path relative to the data folder.
func fileName(table storage.TableID, id uint64) string {
	return segmentsDir + "/" + strconv.FormatUint(uint64(table), 10) + "/" + strconv.FormatUint(id, 10) + fileSuffix
}

func (s *store) filePath(table storage.TableID, id uint64) string {
	return s.folder.Path(segmentsDir, strconv.FormatUint(uint64(table), 10), strconv.FormatUint(id, 10)+fileSuffix)
}

// tableDir makes the folder of a table's segments.
func (s *store) tableDir(table storage.TableID) error {
	dir := s.folder.Path(segmentsDir, strconv.FormatUint(uint64(table), 10))
	if err := folder.MakeDir(s.folder.FS(), dir); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return nil
}

// newFile gives a new file its number; it counts as known until doneWriting.
func (s *store) newFile() uint64 {
	id := s.newID()
	s.mu.Lock()
	s.writing[id] = struct{}{}
	s.mu.Unlock()
	return id
}

// doneWriting forgets a file that newFile announced: a manifest lists it now,
// or it was removed.
func (s *store) doneWriting(id uint64) {
	s.mu.Lock()
	delete(s.writing, id)
	s.mu.Unlock()
}

// list calls f for every file under segments/, with the table's folder name.
func (s *store) list(f func(table, name string) error) error {
	root := s.folder.Path(segmentsDir)
	tables, err := s.folder.FS().List(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", root, err)
	}
	for _, table := range tables {
		names, err := s.folder.FS().List(s.folder.FS().PathJoin(root, table))
		if err != nil {
			return fmt.Errorf("list %s: %w", root, err)
		}
		for _, name := range names {
			if err := f(table, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileID returns the number in a segment's or sidecar's name.
func fileID(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(strings.TrimSuffix(name, segment.SidecarSuffix), fileSuffix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, err == nil
}

// known reports whether a manifest lists a file or someone is writing it.
func (s *store) known(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, listed := s.files[id]
	_, writing := s.writing[id]
	return listed || writing
}

// collectOrphans removes files that no manifest lists: those that were being
// written, or about to be removed, when the process died.
func (s *store) collectOrphans(ctx context.Context) error {
	return s.list(func(table, name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		id, ok := fileID(name)
		if !ok || s.known(id) {
			return nil
		}
		path := s.folder.Path(segmentsDir, table, name)
		s.log.Info("removing a file that no region lists", "file", path)
		if err := s.folder.FS().Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
		return nil
	})
}

// close closes Pebble, after a flush so that the next open has no log to
// read, and the segment readers. A failed folder's Pebble stays open: parked
// goroutines hold its locks.
func (s *store) close() error {
	s.mu.Lock()
	s.closing = true
	files := s.files
	s.mu.Unlock()
	var errs []error
	for _, f := range files {
		errs = append(errs, f.closeReader())
	}
	if s.err() == nil {
		errs = append(errs, s.run(func() error { return errors.Join(s.db.Flush(), s.db.Close()) }))
	}
	return errors.Join(errs...)
}
