package cluster

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skepdb/skep/node"
)

var wordCountMiB = flag.Int("wordcount.mib", 1, "how much text the word count test counts, in MiB; the project's figure is 256")

// writeWords writes text and returns how often each word is in it, counted as it is
// written.
func writeWords(t *testing.T, path string, size int) map[string]int {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	rng := rand.New(rand.NewPCG(5, 5))
	zipf := rand.NewZipf(rng, 1.1, 3, 200_000)
	w := bufio.NewWriterSize(f, 1<<20)
	for n := 0; n < size; {
		word := fmt.Sprintf("%x", zipf.Uint64()*2654435761%16777213)
		gap := []string{" ", " ", " ", "\n", "\t ", "\r\n"}[rng.IntN(6)]
		want[word]++
		n += len(word) + len(gap)
		if _, err := w.WriteString(word + gap); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmp.Or(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return want
}

// Word count over a master and three workers, each a process, built in and as a
// user's program that the workers fetch and run as child processes.
func TestWordCountOverWorkers(t *testing.T) {
	dir := t.TempDir()
	c := startMaster(t, dir, node.StartOptions{})
	for _, w := range []string{"w1", "w2", "w3"} {
		spawn(t, node.RoleWorker, filepath.Join(dir, w), c.master.Address(), 0, "")
	}
	text := filepath.Join(dir, "text.txt")
	want := writeWords(t, text, *wordCountMiB<<20)
	self, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	program, err := c.master.Node.PutArtifact(t.Context(), self)
	if err != nil {
		t.Fatal(err)
	}
	for name, artifact := range map[string]string{"built in": "", "by child": program} {
		out := filepath.Join(dir, strings.ReplaceAll(name, " ", ""))
		start := time.Now()
		run, err := c.master.Node.RunProgram(t.Context(), node.ProgramRequest{Program: "wordcount", Artifact: artifact, Files: []string{text}, Dir: out, Reduces: 3})
		if err != nil {
			t.Fatal(err)
		}
		status, err := run.Wait(t.Context())
		if err := cmp.Or(err, run.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		took := time.Since(start).Seconds()
		t.Logf("%s: %d MiB in %.2f s, %.1f MB/s, %d map tasks", name, *wordCountMiB, took, float64(*wordCountMiB<<20)/1e6/took, status.Stages[0].Tasks)
		got := map[string]int{}
		parts, err := filepath.Glob(filepath.Join(out, "part-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			lines, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(lines)) {
				var word string
				var n int
				if _, err := fmt.Sscan(line, &word, &n); err != nil {
					t.Fatal(err)
				}
				got[word] += n
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %d words, want %d, or other counts", name, len(got), len(want))
		}
	}
	// The workers ran the program: each that did has it.
	have, err := filepath.Glob(filepath.Join(dir, "w?", "artifacts", program))
	if err != nil || len(have) == 0 {
		t.Errorf("no worker has fetched the program: %v", err)
	}
}
