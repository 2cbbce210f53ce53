package artifact

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skepdb/skep/internal/fault"
)

// SHA-256 of "abc", from FIPS 180-2.
const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	s := New(dir)
	for range 2 {
		if id, err := s.Put(t.Context(), strings.NewReader("abc")); err != nil || id != abc {
			t.Fatalf("put: %s, %v", id, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	path, err := New(dir).Path(t.Context(), abc)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// A file whose content is not its name is never run.
	if err := errors.Join(os.Chmod(path, 0o755), os.WriteFile(path, []byte("abd"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir).Path(t.Context(), abc); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a changed artifact: %v", err)
	}
}

func TestRefused(t *testing.T) {
	s := New(t.TempDir())
	if _, err := s.Put(t.Context(), strings.NewReader("")); fault.ClassOf(err) != fault.User {
		t.Errorf("an empty artifact: %v", err)
	}
	for _, id := range []string{"", "../x", strings.ToUpper(abc), abc + "0"} {
		if _, err := s.Path(t.Context(), id); fault.ClassOf(err) != fault.User {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := s.Path(t.Context(), abc); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown artifact: %v", err)
	}
	if _, err := s.Put(t.Context(), io.MultiReader(strings.NewReader("x"), broken{})); err == nil {
		t.Error("a broken upload is stored")
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the line is dead") }

// An artifact that isn't here is fetched once, and only kept if it is the one.
func TestFetch(t *testing.T) {
	s := New(t.TempDir())
	content, fetched := "abd", 0
	s.Fetch = func(context.Context, string) (io.ReadCloser, error) {
		fetched++
		return io.NopCloser(strings.NewReader(content)), nil
	}
	if _, err := s.Path(t.Context(), abc); fault.ClassOf(err) != fault.Retryable {
		t.Errorf("another content came: %v", err)
	}
	content = "abc"
	for range 2 {
		if _, err := s.Path(t.Context(), abc); err != nil {
			t.Fatal(err)
		}
	}
	if fetched != 2 {
		t.Errorf("fetched %d times", fetched)
	}
}
