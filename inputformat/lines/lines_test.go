package lines

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
)

func read(t *testing.T, spec Spec, parallelism int) (lines []string, splits int) {
	t.Helper()
	f := New()
	for sp, err := range f.Splits(t.Context(), spec, inputformat.Want{Parallelism: parallelism}) {
		if err != nil {
			t.Fatal(err)
		}
		splits++
		r, err := f.Open(t.Context(), spec, sp)
		if err != nil {
			t.Fatal(err)
		}
		for {
			b, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text := batch.TextOf(b.Columns[0])
			for i := range b.Len {
				if b.Columns[0].IsNull(i) {
					t.Fatalf("line %d is NULL", len(lines))
				}
				lines = append(lines, strings.Clone(text.String(i)))
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return lines, splits
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"\n", []string{""}},
		{"a", []string{"a"}},
		{"a\nb\n", []string{"a", "b"}},
		{"a\r\n\r\n\n\\N\n", []string{"a", "", "", `\N`}},
		{"x\x01y\tz\x00\n\xff\xfe bad utf-8", []string{"x\x01y\tz\x00", "\xff\xfe bad utf-8"}},
	} {
		path := filepath.Join(t.TempDir(), "in.txt")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, _ := read(t, Spec{Paths: []string{path}}, 1); !slices.Equal(got, c.want) {
			t.Errorf("%q: read %q, want %q", c.text, got, c.want)
		}
	}
}

// A file that is cut into splits has each line once.
func TestSplits(t *testing.T) {
	var text strings.Builder
	var want []string
	for i := 0; text.Len() < 3<<20; i++ {
		line := strings.Repeat("word ", i%40)
		want = append(want, line)
		text.WriteString(line + "\n")
	}
	path := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	got, splits := read(t, Spec{Paths: []string{filepath.Dir(path)}}, 4)
	if splits < 4 || !slices.Equal(got, want) {
		t.Errorf("%d splits, %d lines, want at least 4 and %d lines", splits, len(got), len(want))
	}
}
