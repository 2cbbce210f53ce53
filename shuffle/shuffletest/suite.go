// Package shuffletest is the suite that every shuffle.Service must pass.
package shuffletest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
)

// Setup is what is tested: where attempts write, and where their output is read,
// which may be another process.
type Setup struct {
	// Write has a service for each producer; the suite spreads attempts over them.
	Write []shuffle.Service
	Read  shuffle.Service
	// Source says where the output of an attempt of a producer is found; nil:
	// in Read's process.
	Source func(a shuffle.Attempt, producer int) shuffle.Source
}

func (s *Setup) source(a shuffle.Attempt, producer int) shuffle.Source {
	if s.Source == nil {
		return shuffle.Source{Attempt: a}
	}
	return s.Source(a, producer)
}

// Test runs the suite; open is called for each test and cleans up by t.Cleanup.
func Test(t *testing.T, open func(t *testing.T) Setup) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Setup)
	}{
		{"Order", testOrder},
		{"Types", testTypes},
		{"NoColumns", testNoColumns},
		{"Gone", testGone},
		{"Drop", testDrop},
		{"Misuse", testMisuse},
		{"Cancel", testCancel},
		{"Immutable", testImmutable},
		{"Concurrent", testConcurrent},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func attempt(job string, task int) shuffle.Attempt { return shuffle.Attempt{Job: job, Task: task} }

// numbers is a batch of one bigint column.
func numbers(from, n int64) *batch.Batch {
	v := make([]int64, n)
	for i := range v {
		v[i] = from + int64(i)
	}
	return &batch.Batch{Columns: []arrow.Array{batch.NewFixed(schema.BigIntType.Arrow(), v, nil)}, Len: int(n)}
}

var numberFields = []schema.Field{{Name: "n", Type: schema.BigIntType}}

func finish(t *testing.T, w shuffle.Writer) []int64 {
	t.Helper()
	sizes, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sizes
}

func write(t *testing.T, w shuffle.Writer, partition int, b *batch.Batch) {
	t.Helper()
	if err := w.Write(t.Context(), partition, b); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, s shuffle.Service, a shuffle.Attempt, fields []schema.Field, partitions int) shuffle.Writer {
	t.Helper()
	w, err := s.Writer(t.Context(), a, fields, partitions)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func read(t *testing.T, s shuffle.Service, fields []schema.Field, partition int, from ...shuffle.Source) []string {
	t.Helper()
	r, err := s.Reader(t.Context(), fields, partition, from)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Drain(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Attempts come in the order asked for, their rows as they were written.
func testOrder(t *testing.T, s Setup) {
	const tasks, partitions, rows = 5, 3, 50
	var from []shuffle.Source
	want := make([][]string, partitions)
	for task := range tasks {
		producer := task % len(s.Write)
		w := open(t, s.Write[producer], attempt("job", task), numberFields, partitions)
		for p := range partitions - 1 { // the last one stays empty
			for k := range 4 {
				first := int64(task*1000 + p*300 + k*rows)
				write(t, w, p, numbers(first, rows))
			}
		}
		sizes := finish(t, w)
		if len(sizes) != partitions || sizes[0] != 4*rows*8 || sizes[1] != 4*rows*8 || sizes[2] != 0 {
			t.Errorf("sizes %v, want 1600, 1600 and 0", sizes)
		}
		from = append(from, s.source(attempt("job", task), producer))
	}
	slices.Reverse(from)
	for _, src := range from {
		for p := range partitions - 1 {
			for k := range 4 * rows {
				want[p] = append(want[p], fmt.Sprint(src.Task*1000+p*300+k))
			}
		}
	}
	for p := range partitions {
		equal(t, fmt.Sprint("partition ", p), read(t, s.Read, numberFields, p, from...), want[p])
	}
	equal(t, "again", read(t, s.Read, numberFields, 0, from...), want[0])
	equal(t, "one attempt", read(t, s.Read, numberFields, 0, from[:1]...), want[0][:4*rows])
	equal(t, "no attempts", read(t, s.Read, numberFields, 0), nil)
}

// Every type survives, with NULLs, dictionaries that change and selections.
func testTypes(t *testing.T, s Setup) {
	fields := Fields()
	for seed := range uint64(6) {
		random := &Random{Rand: rand.New(rand.NewPCG(seed, 1))}
		a := attempt("job", int(seed))
		w := open(t, s.Write[0], a, fields, 2)
		var want [2][]string
		for range random.Rand.IntN(12) {
			n := 1 + random.Rand.IntN(120)
			if random.Rand.IntN(10) == 0 {
				n = batch.MaxRows / 2
			}
			b, p := random.Batch(fields, n), random.Rand.IntN(2)
			want[p] = append(want[p], Text(fields, b)...)
			write(t, w, p, b)
		}
		finish(t, w)
		for p := range want {
			equal(t, fmt.Sprint("seed ", seed), read(t, s.Read, fields, p, s.source(a, 0)), want[p])
		}
	}
}

// Rows without columns are rows: a count needs no more.
func testNoColumns(t *testing.T, s Setup) {
	w := open(t, s.Write[0], attempt("job", 0), nil, 1)
	write(t, w, 0, &batch.Batch{Len: 5000})
	write(t, w, 0, &batch.Batch{Len: 7, Sel: []int32{1, 3}})
	finish(t, w)
	if got := read(t, s.Read, nil, 0, s.source(attempt("job", 0), 0)); len(got) != 5002 {
		t.Errorf("%d rows, want 5002", len(got))
	}
}

// goneNames returns the tasks that an error says are gone.
func goneNames(t *testing.T, s shuffle.Service, from ...shuffle.Source) []int {
	t.Helper()
	r, err := s.Reader(t.Context(), numberFields, 0, from)
	if err == nil {
		_, err = Drain(t.Context(), r)
	}
	if !errors.Is(err, shuffle.ErrGone) {
		t.Fatalf("error %v, want that the output is gone", err)
	}
	e, ok := errors.AsType[*shuffle.GoneError](err)
	if !ok || len(e.From) == 0 {
		t.Fatalf("error %#v names no attempts", err)
	}
	var tasks []int
	for _, a := range e.From {
		tasks = append(tasks, a.Task)
	}
	return tasks
}

// What is not finished, was aborted or never was, is gone, by name.
func testGone(t *testing.T, s Setup) {
	last := len(s.Write) - 1
	good := open(t, s.Write[0], attempt("job", 0), numberFields, 1)
	write(t, good, 0, numbers(1, 3))
	finish(t, good)
	unfinished := open(t, s.Write[last], attempt("job", 1), numberFields, 1)
	write(t, unfinished, 0, numbers(10, 3))
	aborted := open(t, s.Write[last], attempt("job", 2), numberFields, 1)
	write(t, aborted, 0, numbers(20, 3))
	aborted.Abort()
	aborted.Abort()
	ok := s.source(attempt("job", 0), 0)
	for task := 1; task < 4; task++ {
		if got := goneNames(t, s.Read, ok, s.source(attempt("job", task), last)); !slices.Equal(got, []int{task}) {
			t.Errorf("gone are %v, want %d", got, task)
		}
	}
	if got := goneNames(t, s.Read, s.source(shuffle.Attempt{Job: "job", Attempt: 1}, 0)); !slices.Equal(got, []int{0}) {
		t.Errorf("gone are %v, want task 0", got)
	}
	finish(t, unfinished)
	unfinished.Abort() // does nothing
	equal(t, "finished", read(t, s.Read, numberFields, 0, ok, s.source(attempt("job", 1), last)), []string{"1", "2", "3", "10", "11", "12"})
	// An attempt whose output was aborted may write again.
	again := open(t, s.Write[last], attempt("job", 2), numberFields, 1)
	write(t, again, 0, numbers(30, 1))
	finish(t, again)
	equal(t, "written again", read(t, s.Read, numberFields, 0, s.source(attempt("job", 2), last)), []string{"30"})
}

// Drop ends a job's output and no other's; writers that are open fail.
func testDrop(t *testing.T, s Setup) {
	for _, job := range []string{"one", "two"} {
		w := open(t, s.Write[0], attempt(job, 0), numberFields, 1)
		write(t, w, 0, numbers(1, 2))
		finish(t, w)
	}
	late := open(t, s.Write[0], attempt("one", 1), numberFields, 1)
	write(t, late, 0, numbers(1, 2))
	for _, w := range s.Write {
		w.Drop("one")
		w.Drop("unknown")
	}
	goneNames(t, s.Read, s.source(attempt("one", 0), 0))
	if err := late.Write(t.Context(), 0, numbers(1, 2)); err == nil {
		if _, err := late.Finish(t.Context()); err == nil {
			t.Error("output of a job that was dropped is finished")
		}
	}
	late.Abort()
	goneNames(t, s.Read, s.source(attempt("one", 1), 0))
	equal(t, "the other job", read(t, s.Read, numberFields, 0, s.source(attempt("two", 0), 0)), []string{"1", "2"})
}

// Mistakes of the caller are errors.
func testMisuse(t *testing.T, s Setup) {
	ctx := t.Context()
	w := open(t, s.Write[0], attempt("job", 0), numberFields, 2)
	if _, err := s.Write[0].Writer(ctx, attempt("job", 0), numberFields, 2); err == nil {
		t.Error("an attempt's output was opened twice")
	}
	if _, err := s.Write[0].Writer(ctx, attempt("job", 1), numberFields, 0); err == nil {
		t.Error("output without partitions")
	}
	if _, err := s.Write[0].Writer(ctx, attempt("../job", 1), numberFields, 1); err == nil {
		t.Error("a job whose name is a path")
	}
	for _, p := range []int{-1, 2} {
		if err := w.Write(ctx, p, numbers(1, 1)); err == nil {
			t.Errorf("written to partition %d of 2", p)
		}
	}
	if err := w.Write(ctx, 0, &batch.Batch{Len: 1}); err == nil {
		t.Error("written without columns")
	}
	write(t, w, 0, numbers(1, 1))
	finish(t, w)
	if err := w.Write(ctx, 0, numbers(1, 1)); err == nil {
		t.Error("written after Finish")
	}
	if _, err := w.Finish(ctx); err == nil {
		t.Error("finished twice")
	}
	for _, p := range []int{-1, 2} {
		r, err := s.Read.Reader(ctx, numberFields, p, []shuffle.Source{s.source(attempt("job", 0), 0)})
		if err == nil {
			_, err = Drain(ctx, r)
		}
		if err == nil || errors.Is(err, shuffle.ErrGone) {
			t.Errorf("partition %d of 2 was read: %v", p, err)
		}
	}
	r, err := s.Read.Reader(ctx, numberFields, 0, []shuffle.Source{s.source(attempt("job", 0), 0)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if _, err := r.Next(ctx); err == nil || err == io.EOF {
		t.Errorf("read after Close: %v", err)
	}
}

// Whoever waits or works stops when the context ends.
func testCancel(t *testing.T, s Setup) {
	w := open(t, s.Write[0], attempt("job", 0), numberFields, 1)
	write(t, w, 0, numbers(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Write(ctx, 0, numbers(1, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("write: %v", err)
	}
	if _, err := w.Finish(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("finish: %v", err)
	}
	if _, err := s.Write[0].Writer(ctx, attempt("job", 1), numberFields, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	finish(t, w)
	src := []shuffle.Source{s.source(attempt("job", 0), 0)}
	if _, err := s.Read.Reader(ctx, numberFields, 0, src); !errors.Is(err, context.Canceled) {
		t.Errorf("open to read: %v", err)
	}
	r, err := s.Read.Reader(t.Context(), numberFields, 0, src)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
}

// Batches are their reader's for ever, whatever happens to the output.
func testImmutable(t *testing.T, s Setup) {
	fields := Fields()
	random := &Random{Rand: rand.New(rand.NewPCG(7, 7))}
	a := attempt("job", 0)
	w := open(t, s.Write[0], a, fields, 1)
	var want []string
	for range 6 {
		b := random.Batch(fields, 500)
		want = append(want, Text(fields, b)...)
		write(t, w, 0, b)
	}
	finish(t, w)
	r, err := s.Read.Reader(t.Context(), fields, 0, []shuffle.Source{s.source(a, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var kept []*batch.Batch
	for {
		b, err := r.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, b)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	s.Write[0].Drop("job")
	var got []string
	for _, b := range kept {
		got = append(got, Text(fields, b)...)
	}
	equal(t, "kept", got, want)
}

// Attempts write and read side by side.
func testConcurrent(t *testing.T, s Setup) {
	const tasks, partitions = 12, 5
	fields := Fields()[6:10]
	want := make([][][]string, tasks)
	var from []shuffle.Source
	var all sync.WaitGroup
	for task := range tasks {
		producer := task % len(s.Write)
		from = append(from, s.source(attempt("job", task), producer))
		want[task] = make([][]string, partitions)
		all.Go(func() {
			random := &Random{Rand: rand.New(rand.NewPCG(uint64(task), 3))}
			w, err := s.Write[producer].Writer(t.Context(), attempt("job", task), fields, partitions)
			if err != nil {
				t.Error(err)
				return
			}
			for range 30 {
				b, p := random.Batch(fields, 1+random.Rand.IntN(200)), random.Rand.IntN(partitions)
				want[task][p] = append(want[task][p], Text(fields, b)...)
				if err := w.Write(t.Context(), p, b); err != nil {
					t.Error(err)
					return
				}
			}
			if _, err := w.Finish(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	got, errs := make([][]string, partitions), make([]error, partitions)
	for p := range partitions {
		all.Go(func() {
			r, err := s.Read.Reader(t.Context(), fields, p, from)
			if err == nil {
				got[p], err = Drain(t.Context(), r)
			}
			errs[p] = err
		})
	}
	all.Wait()
	for p := range partitions {
		if errs[p] != nil {
			t.Fatal(errs[p])
		}
		var rows []string
		for task := range tasks {
			rows = append(rows, want[task][p]...)
		}
		equal(t, fmt.Sprint("partition ", p), got[p], rows)
	}
}
