// Package metastore keeps the catalogue in a Pebble of its own: databases,
// tables, the region map, transactions, ids and the clock. docs/format/catalog.md
// describes every key and value.
//
// Every change is one synced batch. Readers never see a change that is not
// durable yet.
package metastore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

// Options configure Open.
type Options struct {
	FS  vfs.FS // nil: the operating system's
	Dir string // the catalogue's folder; made if absent
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Retention is how long ended versions stay readable without a pin; 0: five
	// minutes, negative: not at all.
	Retention time.Duration
	// AcceptClockJump takes the clock's word once although it says much later
	// than the last timestamp. Without it Timestamp fails then: a wild clock
	// would be written into every later timestamp.
	AcceptClockJump bool
	Logger          *slog.Logger // nil: none
}

// Store implements catalog.Store.
type Store struct {
	db     *pebble.DB
	clock  *oracle
	ids    *ids
	logger *slog.Logger

	// mu orders changes. Whoever holds it for reading sees only durable state.
	mu      sync.RWMutex
	closed  bool
	tables  map[storage.TableID]*catalog.Table // read so far; immutable
	regions map[storage.TableID][]storage.Region
	// partitions are those read so far, ended and reserved ones included.
	partitions map[storage.TableID]*partitionSet

	broken brokenState
}

var _ catalog.Store = (*Store)(nil)

// Open opens the catalogue in o.Dir.
func Open(o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Retention == 0:
		o.Retention = defaultRetention
	case o.Retention < 0:
		o.Retention = 0
	}
	if o.Dir == "" {
		return nil, fault.Userf("catalogue: the path is empty")
	}
	s := &Store{
		logger:     o.Logger,
		tables:     map[storage.TableID]*catalog.Table{},
		regions:    map[storage.TableID][]storage.Region{},
		partitions: map[storage.TableID]*partitionSet{},
	}
	db, err := pebble.Open(o.Dir, &pebble.Options{
		FS:                 o.FS,
		FormatMajorVersion: pebbleFormat,
		MemTableSize:       1 << 20,
		CacheSize:          4 << 20,
		MaxOpenFiles:       64,
		Logger:             &logger{to: o.Logger, broken: &s.broken},
	})
	if err != nil {
		return nil, fmt.Errorf("open catalogue %s: %w", o.Dir, err)
	}
	s.db = db
	if err := s.start(o); err != nil {
		return nil, errors.Join(fmt.Errorf("open catalogue %s: %w", o.Dir, err), db.Close())
	}
	return s, nil
}

const defaultRetention = 5 * time.Minute

// pebbleFormat is pinned: a newer Pebble must not raise the version of a
// folder that an older skep should still open.
const pebbleFormat = pebble.FormatColumnarBlocks

// start checks the format and reads the counters.
func (s *Store) start(o Options) error {
	format, err := s.read(keyFormat)
	if err != nil {
		return err
	}
	if format == nil {
		b := s.db.NewBatch()
		now := o.Now().UTC()
		if err := errors.Join(
			b.Set(keyFormat, []byte(formatMagic), nil),
			setRecord(b, databaseKey(catalog.DefaultDatabase), databaseRecord{Comment: "Default database", Created: now}),
		); err != nil {
			return err
		}
		if err := s.apply(b); err != nil {
			return err
		}
	} else if string(format) != formatMagic {
		return fault.Userf("the catalogue has format %.40q, this program reads %q: use a newer skep", format, formatMagic)
	}
	mark, err := s.readCounter(keyClock)
	if err != nil {
		return err
	}
	floor, err := s.readCounter(keyFloor)
	if err != nil {
		return err
	}
	next, err := s.readCounter(keyIDs)
	if err != nil {
		return err
	}
	s.clock = newOracle(o, storage.Timestamp(mark), storage.Timestamp(floor), func(key []byte, v uint64) error {
		return s.writeCounter(key, v)
	})
	s.ids = &ids{next: max(next, 1), reserved: max(next, 1), write: func(v uint64) error { return s.writeCounter(keyIDs, v) }}
	return nil
}

// Close writes back what was reserved and closes the catalogue.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.broken.get(); err != nil {
		return err // Pebble can't be closed after a failed commit
	}
	err := errors.Join(s.clock.giveBack(), s.ids.giveBack(), s.db.Close())
	if err != nil {
		return fmt.Errorf("close catalogue: %w", err)
	}
	return nil
}

// read returns the value of a key, nil if there is none.
func (s *Store) read(key []byte) ([]byte, error) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read catalogue key %q: %w", key, err)
	}
	out := append(make([]byte, 0, len(v)), v...)
	if err := closer.Close(); err != nil {
		return nil, fmt.Errorf("read catalogue key %q: %w", key, err)
	}
	return out, nil
}

// each calls f with the keys (without prefix) and values under a prefix.
func (s *Store) each(prefix []byte, f func(key, value []byte) error) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return fmt.Errorf("read catalogue %q: %w", prefix, err)
	}
	for it.First(); it.Valid(); it.Next() {
		if err := f(it.Key()[len(prefix):], it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("read catalogue %q: %w", prefix, err)
	}
	return nil
}

// apply makes a batch durable.
func (s *Store) apply(b *pebble.Batch) (err error) {
	if err := s.broken.get(); err != nil {
		return err
	}
	defer func() {
		// See logger.Fatalf.
		if r := recover(); r != nil {
			f, ok := r.(fatal)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	if err := s.db.Apply(b, pebble.Sync); err != nil {
		return fmt.Errorf("write catalogue: %w", err)
	}
	return nil
}

func (s *Store) readCounter(key []byte) (uint64, error) {
	v, err := s.read(key)
	if err != nil || v == nil {
		return 0, err
	}
	n, ok := decodeUint64(v)
	if !ok {
		return 0, fault.Bugf("catalogue key %q has %d bytes, want 8", key, len(v))
	}
	return n, nil
}

func (s *Store) writeCounter(key []byte, v uint64) error {
	b := s.db.NewBatch()
	if err := b.Set(key, appendUint64(nil, v), nil); err != nil {
		return err
	}
	return s.apply(b)
}

// rlock and lock take mu unless the store is closed or ctx is done.
func (s *Store) rlock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return errClosed()
	}
	return nil
}

func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed()
	}
	return nil
}

func errClosed() error { return fault.Retryablef("the catalogue is closed") }

// ids gives out numbers, reserved in blocks so that most cost no write.
type ids struct {
	mu       sync.Mutex
	next     uint64
	reserved uint64 // numbers below are ours
	closed   bool
	write    func(uint64) error
}

const idBlock = 256

func (i *ids) take() (uint64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return 0, errClosed()
	}
	if i.next >= i.reserved {
		if err := i.write(i.next + idBlock); err != nil {
			return 0, err
		}
		i.reserved = i.next + idBlock
	}
	i.next++
	return i.next - 1, nil
}

func (i *ids) giveBack() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	if i.next == i.reserved {
		return nil
	}
	i.reserved = i.next
	return i.write(i.next)
}

// brokenState is the first fatal error of Pebble.
type brokenState struct {
	mu  sync.Mutex
	err error
}

func (b *brokenState) get() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *brokenState) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

// fatal is what logger.Fatalf panics with.
type fatal struct{ err error }

// logger passes Pebble's messages on. Fatalf must not return: Pebble calls it
// when a commit has failed and nothing can be known of what is durable. The panic ends
// the goroutine of the change, where apply turns it into an error; from then on
// every change fails. In a goroutine of Pebble's it ends the process, which is
// what Pebble's own logger does.
type logger struct {
	to     *slog.Logger
	broken *brokenState
}

func (l *logger) Infof(format string, args ...any) {
	l.to.Debug(fmt.Sprintf("catalogue: "+format, args...))
}
func (l *logger) Errorf(format string, args ...any) {
	l.to.Error(fmt.Sprintf("catalogue: "+format, args...))
}

func (l *logger) Fatalf(format string, args ...any) {
	err := fault.Retryablef("the catalogue has failed and must be opened again: "+format, args...)
	l.broken.set(err)
	panic(fatal{err})
}

var _ io.Closer = (*Store)(nil)
