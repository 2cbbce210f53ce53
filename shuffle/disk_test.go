package shuffle_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
	"github.com/skepdb/skep/shuffle/shuffletest"
)

var numberFields = []schema.Field{{Name: "n", Type: schema.BigIntType}}

func numbers(from, n int64) *batch.Batch {
	v := make([]int64, n)
	for i := range v {
		v[i] = from + int64(i)
	}
	return &batch.Batch{Columns: []arrow.Array{batch.NewFixed(schema.BigIntType.Arrow(), v, nil)}, Len: int(n)}
}

func attempt(task int) shuffle.Attempt { return shuffle.Attempt{Job: "job", Task: task} }

func source(task int) []shuffle.Source { return []shuffle.Source{{Attempt: attempt(task)}} }

func writer(t *testing.T, l *shuffle.Local, task, partitions int) shuffle.Writer {
	t.Helper()
	w, err := l.Writer(t.Context(), attempt(task), numberFields, partitions)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func put(t *testing.T, w shuffle.Writer, p int, b *batch.Batch) {
	t.Helper()
	if err := w.Write(t.Context(), p, b); err != nil {
		t.Fatal(err)
	}
}

func finish(t *testing.T, w shuffle.Writer) {
	t.Helper()
	if _, err := w.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// files lists what is below a directory.
func files(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range names {
		p := fsys.PathJoin(dir, n)
		if info, err := fsys.Stat(p); err == nil && info.IsDir() {
			out = append(out, files(t, fsys, p)...)
			continue
		}
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// What is held stays below the limit, however much is written and read, by many
// writers at a time: at most one batch each beyond it.
func TestMemoryIsBounded(t *testing.T) {
	const limit, writers, rows, batches = 1 << 20, 4, 4096, 200 // 4 x 6.5 MB
	l := local(t, vfs.NewMem(), limit, "d")
	errs := make(chan error, writers)
	most := make(chan int64, writers)
	for k := range writers {
		go func() {
			w, err := l.Writer(t.Context(), attempt(k), numberFields, 3)
			peak := int64(0)
			for i := range int64(batches) {
				if err != nil {
					break
				}
				err = w.Write(t.Context(), int(i%3), numbers(i*rows, rows))
				peak = max(peak, l.Stats().Memory)
			}
			if err == nil {
				_, err = w.Finish(t.Context())
			}
			most <- peak
			errs <- err
		}()
	}
	peak := int64(0)
	for range writers {
		peak = max(peak, <-most)
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if peak > limit+writers*rows*8 {
		t.Errorf("%d bytes were held, the limit is %d", peak, limit)
	}
	if peak < limit/2 {
		t.Errorf("only %d bytes were ever held: the memory isn't used", peak)
	}
	for k := range writers {
		for p := range 3 {
			var want int64
			r, err := l.Reader(t.Context(), numberFields, p, source(k))
			if err != nil {
				t.Fatal(err)
			}
			got := int64(0)
			for {
				b, err := r.Next(t.Context())
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range batch.Values[int64](b.Columns[0]) {
					got += v
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			for i := int64(p); i < batches; i += 3 {
				want += i*rows*rows + rows*(rows-1)/2
			}
			if got != want {
				t.Errorf("partition %d of %d: sum %d, want %d", p, k, got, want)
			}
		}
	}
	if m := l.Stats().Memory; m > limit {
		t.Errorf("%d bytes are held after reading", m)
	}
}

// A finished output goes to disk before one that is being written.
func TestFinishedGoFirst(t *testing.T) {
	fsys := vfs.NewMem()
	l := local(t, fsys, 40_000, "d")
	w := writer(t, l, 0, 1)
	put(t, w, 0, numbers(0, 2000))
	finish(t, w)
	w = writer(t, l, 1, 1)
	put(t, w, 0, numbers(0, 2500))
	if got := files(t, fsys, "d"); got != nil {
		t.Errorf("36,000 of 40,000 bytes: files %v", got)
	}
	put(t, w, 0, numbers(0, 2000))
	want := []string{"d/job/job.0.0.0.data", "d/job/job.0.0.0.index"}
	if got := files(t, fsys, "d"); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if got := l.Stats().Memory; got != 36_000 {
		t.Errorf("%d bytes are held, want 36000", got)
	}
	w.Abort()
	if got := l.Stats().Memory; got != 0 {
		t.Errorf("%d bytes are held after Abort", got)
	}
}

// A reader goes on in the file when what it reads is written out meanwhile.
func TestEvictionWhileReading(t *testing.T) {
	l := local(t, vfs.NewMem(), 100_000, "d")
	w := writer(t, l, 0, 1)
	for i := range int64(10) {
		put(t, w, 0, numbers(i*1000, 1000))
	}
	finish(t, w)
	r, err := l.Reader(t.Context(), numberFields, 0, source(0))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []int64
	for k := 0; ; k++ {
		b, err := r.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, batch.Values[int64](b.Columns[0])...)
		if k == 2 {
			w := writer(t, l, 1, 1)
			put(t, w, 0, numbers(0, 8000))
			if l.Stats().Spilled == 0 {
				t.Fatal("nothing was written out")
			}
			w.Abort()
		}
	}
	if len(got) != 10_000 {
		t.Fatalf("%d rows, want 10000", len(got))
	}
	for i, v := range got {
		if v != int64(i) {
			t.Fatalf("row %d is %d", i, v)
		}
	}
}

// Without directories a write beyond the limit fails, and may be tried again.
func TestMemoryWithoutDirectories(t *testing.T) {
	l := local(t, nil, 10_000)
	w := writer(t, l, 0, 1)
	put(t, w, 0, numbers(0, 1000))
	err := w.Write(t.Context(), 0, numbers(0, 1000))
	if fault.ClassOf(err) != fault.Retryable || fault.StateOf(err) != "53200" {
		t.Errorf("a write beyond the limit: %v", err)
	}
	w.Abort()
	w = writer(t, l, 1, 1)
	put(t, w, 0, numbers(0, 1000))
	w.Abort()
}

// A full disk is an error to try again elsewhere; it leaves nothing, and what was
// written before is there.
func TestDiskFull(t *testing.T) {
	for limit := range 12 {
		t.Run(fmt.Sprint("operation ", limit), func(t *testing.T) {
			mem := vfs.NewMem()
			armed, n := false, 0
			full := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if !armed || op.Kind != errorfs.OpCreate && op.Kind != errorfs.OpFileWrite {
					return nil
				}
				if n++; n > limit {
					return syscall.ENOSPC
				}
				return nil
			})
			l := local(t, errorfs.Wrap(mem, full), 50_000, "d")
			w := writer(t, l, 0, 2)
			put(t, w, 0, numbers(0, 5000))
			finish(t, w)
			before := files(t, mem, "d")
			armed = true
			w = writer(t, l, 1, 2)
			var err error
			for i := range int64(6) {
				if err = w.Write(t.Context(), int(i%2), numbers(i*4000, 4000)); err != nil {
					break
				}
			}
			if err == nil {
				_, err = w.Finish(t.Context())
			}
			w.Abort()
			if err == nil {
				if n < limit {
					return // all was written
				}
			} else if fault.ClassOf(err) != fault.Retryable || fault.StateOf(err) != "53100" || !strings.Contains(err.Error(), "full") {
				t.Fatalf("error %v, want a retryable one that says that the disk is full", err)
			}
			if err == nil {
				return
			}
			// The finished output may have been written out; of the other nothing is left.
			for _, f := range files(t, mem, "d") {
				if !slices.Contains(before, f) && !strings.Contains(f, "job.0.0.0.") {
					t.Errorf("%s was left behind", f)
				}
			}
			armed = false
			rows, err := shuffletest.Drain(t.Context(), reader(t, l, 0, source(0)))
			if err != nil || len(rows) != 5000 || rows[4999] != "4999" {
				t.Errorf("the output from before: %d rows, %v", len(rows), err)
			}
			// The disk has room again.
			w = writer(t, l, 1, 2)
			put(t, w, 1, numbers(0, 9000))
			finish(t, w)
		})
	}
}

func reader(t *testing.T, l *shuffle.Local, p int, from []shuffle.Source) batch.Reader {
	t.Helper()
	r, err := l.Reader(t.Context(), numberFields, p, from)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Files of a process that has died are removed, others are not touched.
func TestOrphans(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "shuffle")
	l, err := shuffle.NewLocal(shuffle.LocalOptions{Memory: 1, Dirs: []string{own}})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, l, 0, 1)
	put(t, w, 0, numbers(0, 10))
	put(t, w, 0, numbers(0, 10))
	finish(t, w)
	w = writer(t, l, 1, 1)
	put(t, w, 0, numbers(0, 10))
	put(t, w, 0, numbers(0, 10))
	if got := files(t, vfs.Default, own); len(got) < 3 {
		t.Fatalf("files %v", got)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// Nobody closes it.
	l = local(t, vfs.Default, 1, own)
	if got := files(t, vfs.Default, dir); !slices.Equal(got, []string{other}) {
		t.Errorf("files after the next start: %v", got)
	}
	if _, err := l.Reader(t.Context(), numberFields, 0, source(0)); !errors.Is(err, shuffle.ErrGone) {
		t.Errorf("output of the process before: %v", err)
	}
}

// Dropped jobs leave no files, not even directories.
func TestDropRemovesFiles(t *testing.T) {
	fsys := vfs.NewMem()
	l := local(t, fsys, 1, "a", "b")
	for task := range 4 {
		w := writer(t, l, task, 2)
		for range 3 {
			put(t, w, 0, numbers(0, 10))
		}
		finish(t, w)
	}
	open := writer(t, l, 9, 2)
	for range 3 {
		put(t, open, 0, numbers(0, 10))
	}
	l.Drop("job")
	open.Abort()
	for _, d := range []string{"a", "b"} {
		if names, err := fsys.List(d); err != nil || len(names) != 0 {
			t.Errorf("%s has %v, %v", d, names, err)
		}
	}
}

// Any changed byte and any cut is noticed: the output is gone, and the file named.
func TestCorruption(t *testing.T) {
	mem := vfs.NewMem()
	l := local(t, mem, 1, "d")
	w := writer(t, l, 0, 3)
	for p := range 3 {
		put(t, w, p, numbers(int64(p)*100, 30))
	}
	finish(t, w)
	want := make([][]string, 3)
	for p := range want {
		var err error
		if want[p], err = shuffletest.Drain(t.Context(), reader(t, l, p, source(0))); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name, what string) (noticed int) {
		for p := range want {
			rows, err := shuffletest.Drain(t.Context(), reader(t, l, p, source(0)))
			if err == nil {
				if !slices.Equal(rows, want[p]) {
					t.Fatalf("%s, %s: partition %d is %v", name, what, p, rows)
				}
				continue
			}
			noticed++
			e, ok := errors.AsType[*shuffle.GoneError](err)
			if !ok || !errors.Is(err, frame.ErrCorrupt) || len(e.From) != 1 || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s, %s: partition %d: %v", name, what, p, err)
			}
		}
		return noticed
	}
	for _, name := range []string{"d/job/job.0.0.0.data", "d/job/job.0.0.0.index"} {
		whole := content(t, mem, name)
		for i := range whole {
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			replace(t, mem, name, b)
			if check(name, fmt.Sprint("byte ", i)) == 0 && !(strings.HasSuffix(name, "data") && i < 16) {
				t.Errorf("%s: a change of byte %d was not noticed", name, i)
			}
			if i%7 == 0 {
				replace(t, mem, name, whole[:i])
				if check(name, fmt.Sprint("cut at ", i)) == 0 {
					t.Errorf("%s: a cut at byte %d was not noticed", name, i)
				}
			}
		}
		replace(t, mem, name, whole)
		if check(name, "whole") != 0 {
			t.Errorf("%s: the whole file isn't read", name)
		}
	}
}

func content(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func replace(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(b)); err != nil { // MemFS may scribble on it
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Frames of a partition are the same from memory and from disk, and a call that
// begins later gives the rest.
func TestFramesResume(t *testing.T) {
	fields := shuffletest.Fields()
	random := &shuffletest.Random{Rand: rand.New(rand.NewPCG(1, 1))}
	l := local(t, vfs.NewMem(), 64<<20, "d")
	w, err := l.Writer(t.Context(), attempt(0), fields, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows := int64(0)
	for range 8 {
		b := random.Batch(fields, 3000)
		rows += int64(b.Rows())
		put(t, w, 0, b)
	}
	finish(t, w)
	all := func(skip int) (out [][]byte) {
		n, err := l.Frames(t.Context(), attempt(0), 0, skip, func(f []byte) error {
			if err := frame.Check(f); err != nil {
				t.Error(err)
			}
			out = append(out, bytes.Clone(f))
			return nil
		})
		if err != nil || n != rows {
			t.Fatalf("%d rows, %v; want %d", n, err, rows)
		}
		return out
	}
	memory := all(0)
	if len(memory) < 4 {
		t.Fatalf("only %d frames", len(memory))
	}
	// In the middle of a call the output goes to disk.
	var mixed [][]byte
	if _, err := l.Frames(t.Context(), attempt(0), 0, 1, func(f []byte) error {
		if len(mixed) == 1 {
			big := writer(t, l, 1, 1)
			for range 1025 {
				put(t, big, 0, numbers(0, batch.MaxRows))
			}
			big.Abort()
		}
		mixed = append(mixed, bytes.Clone(f))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if l.Stats().Spilled == 0 {
		t.Fatal("nothing was written out")
	}
	disk := all(0)
	if len(disk) != len(memory) {
		t.Fatalf("%d frames from disk, %d from memory", len(disk), len(memory))
	}
	for i := range disk {
		if !bytes.Equal(disk[i], memory[i]) {
			t.Errorf("frame %d differs", i)
		}
	}
	for i, f := range mixed {
		if !bytes.Equal(f, disk[i+1]) {
			t.Errorf("frame %d differs where the output moved meanwhile", i)
		}
	}
	if len(mixed) != len(disk)-1 || len(all(3)) != len(disk)-3 || len(all(len(disk))) != 0 {
		t.Error("a call that begins later gives another number of frames")
	}
}
