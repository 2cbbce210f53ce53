package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var wordCountMiB = flag.Int("wordcount.mib", 2, "how much text the word count test counts, in MiB; the project's figure is 256")

// generateText writes words of very different frequencies, with odd white space
// and bytes between them, and returns how often each occurs: counted as they
// are written, by nothing of Skep's.
func generateText(t *testing.T, dir string, size int) map[string]int {
	t.Helper()
	want := map[string]int{}
	rng := rand.New(rand.NewPCG(7, 9))
	zipf := rand.NewZipf(rng, 1.1, 3, 200_000)
	gaps := []string{" ", " ", " ", " ", "\n", "\n", "  ", "\t", "\r\n", "\n\n", " \v", "\f"}
	const files = 3
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("text%d.txt", i)))
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriterSize(f, 1<<20)
		for n := 0; n < size/files; {
			word := fmt.Sprintf("%x", zipf.Uint64()*2654435761%16777213)
			switch {
			case len(word)%7 == 0:
				word += "é\x00"
			case len(word)%5 == 0:
				word = strings.Repeat(word, 3)
			}
			gap := gaps[rng.IntN(len(gaps))]
			want[word]++
			n += len(word) + len(gap)
			if _, err := w.WriteString(word + gap); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmp.Or(w.Flush(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

// readCounts reads the files of an output.
func readCounts(t *testing.T, dir string) map[string]int {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*.tsv"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("no files in %s, %v", dir, err)
	}
	got := map[string]int{}
	for _, p := range parts {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			word, count, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if _, twice := got[word]; twice {
				t.Fatalf("two rows for %q", word)
			}
			var n int
			if _, err := fmt.Sscan(count, &n); err != nil {
				t.Fatal(err)
			}
			got[word] = n
		}
	}
	return got
}

// goBuild builds a program for tests.
func goBuild(t *testing.T, dir, pkg string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	c := exec.Command("go", "build", "-o", out, pkg)
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	return out
}

// TestWordCount counts words in this process and by child processes, and
// compares with what was written. With -wordcount.mib 256 it is the project's
// figure.
func TestWordCount(t *testing.T) {
	dir := t.TempDir()
	texts := filepath.Join(dir, "texts")
	if err := os.Mkdir(texts, 0o755); err != nil {
		t.Fatal(err)
	}
	want := generateText(t, texts, *wordCountMiB<<20)
	child := goBuild(t, repository(t), "./cmd/skep/testdata/wordcount")
	for name, args := range map[string][]string{
		"in process": {"job", "run", "wordcount", texts, "--reduces", "3"},
		"by child":   {"job", "submit", child, texts, "--reduces", "3"},
	} {
		out := filepath.Join(dir, strings.ReplaceAll(name, " ", ""))
		start := time.Now()
		var stdout, stderr bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &stdout, err: &stderr}
		if code := a.run(t.Context(), append(args, "--data", filepath.Join(dir, "data"), "--output", out)); code != exitFine {
			t.Fatalf("%s: exit code %d\n%s", name, code, stderr.String())
		}
		took := time.Since(start).Seconds()
		t.Logf("%s: %d MiB in %.2f s, %.1f MB/s", name, *wordCountMiB, took, float64(*wordCountMiB<<20)/1e6/took)
		if got := readCounts(t, out); !maps.Equal(got, want) {
			words := slices.Sorted(maps.Keys(want))
			for _, w := range words {
				if got[w] != want[w] {
					t.Errorf("%s: %q counted %d times, want %d", name, w, got[w], want[w])
					break
				}
			}
			t.Errorf("%s: %d words, want %d", name, len(got), len(want))
		}
	}
}
