// Package artifact keeps the files that jobs need, users' programs above all, by
// the SHA-256 of what is in them: a name that can't lie.
package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/skepdb/skep/internal/fault"
)

// MaxBytes is the most that an artifact may have.
const MaxBytes = 1 << 30

// Store keeps artifacts in a directory. Safe for concurrent use, also by several
// processes.
type Store struct {
	dir string
	// Fetch returns the content of an artifact that is not here, from where it
	// is; nil: nobody has it. Set it before use.
	Fetch func(ctx context.Context, id string) (io.ReadCloser, error)

	mu       sync.Mutex
	verified map[string]bool // in this process
	flight   sync.Mutex      // one fetch at a time
}

// New returns the store in a directory, which is made when it is first needed.
func New(dir string) *Store { return &Store{dir: dir, verified: map[string]bool{}} }

var idPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Put stores what r has and returns its id, the SHA-256 in hexadecimal. The file
// is durable when Put returns.
func (s *Store) Put(ctx context.Context, r io.Reader) (string, error) { return s.put(ctx, r, "") }

// put stores r; its id must be want unless that is "".
func (s *Store) put(ctx context.Context, r io.Reader, want string) (id string, err error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return "", fmt.Errorf("store an artifact: %w", err)
	}
	f, err := os.CreateTemp(s.dir, ".new-*")
	if err != nil {
		return "", fmt.Errorf("store an artifact: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), &limited{ctx: ctx, r: r, left: MaxBytes})
	if err == nil {
		err = errors.Join(f.Chmod(0o555), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("store an artifact: %w", err)
	}
	id = hex.EncodeToString(h.Sum(nil))
	switch {
	case n == 0:
		return "", fault.Userf("store an artifact: it is empty")
	case want != "" && id != want:
		return "", fault.Retryablef("fetch artifact %s: what came is %s", want, id)
	}
	if err := os.Rename(f.Name(), s.path(id)); err != nil {
		return "", fmt.Errorf("store an artifact: %w", err)
	}
	if d, derr := os.Open(s.dir); derr == nil { // the name must be durable, too
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return "", fmt.Errorf("store an artifact: %w", err)
	}
	s.mu.Lock()
	s.verified[id] = true
	s.mu.Unlock()
	return id, nil
}

// limited is a reader that refuses what is too long and stops with its context.
type limited struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fault.Userf("it has more than %d MiB", MaxBytes>>20)
	}
	return n, err
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id) }

// Path returns the file of an artifact, fetched if it is not here, whose content
// was checked against its id at least once in this process. The file is
// executable and must not be changed.
func (s *Store) Path(ctx context.Context, id string) (string, error) {
	if !idPattern.MatchString(id) {
		return "", fault.Userf("artifact %.80q: want 64 hexadecimal digits", id)
	}
	s.mu.Lock()
	known := s.verified[id]
	s.mu.Unlock()
	path := s.path(id)
	if known {
		return path, nil
	}
	s.flight.Lock()
	defer s.flight.Unlock()
	err := s.verify(id)
	if err == nil {
		return path, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || s.Fetch == nil {
		return "", err
	}
	r, err := s.Fetch(ctx, id)
	if err != nil {
		return "", fmt.Errorf("fetch artifact %s: %w", id, err)
	}
	_, err = s.put(ctx, r, id)
	if err := errors.Join(err, r.Close()); err != nil {
		return "", err
	}
	return path, nil
}

// Open opens an artifact that is here, for others to fetch.
func (s *Store) Open(id string) (*os.File, error) {
	if !idPattern.MatchString(id) {
		return nil, fault.Userf("artifact %.80q: want 64 hexadecimal digits", id)
	}
	f, err := os.Open(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("there is no artifact %s: %w", id, fs.ErrNotExist)
	}
	return f, err
}

func (s *Store) verify(id string) error {
	f, err := s.Open(id)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read artifact %s: %w", id, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != id {
		return fault.Userf("artifact %s is damaged: its content is %s; submit the program again", id, got)
	}
	s.mu.Lock()
	s.verified[id] = true
	s.mu.Unlock()
	return nil
}
