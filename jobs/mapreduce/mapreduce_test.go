package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// reader yields batches.
type reader struct {
	fields  []schema.Field
	batches []*batch.Batch
}

func (r *reader) Fields() []schema.Field { return r.fields }
func (r *reader) Close() error           { return nil }
func (r *reader) Next(ctx context.Context) (*batch.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(r.batches) == 0 {
		return nil, io.EOF
	}
	b := r.batches[0]
	r.batches = r.batches[1:]
	return b, nil
}

func lineReader(lines ...string) *reader {
	r := &reader{fields: []schema.Field{{Name: "line", Type: schema.StringType}}}
	for part := range slices.Chunk(lines, 100) {
		r.batches = append(r.batches, &batch.Batch{Len: len(part), Columns: []arrow.Array{batch.NewStrings(part)}})
	}
	return r
}

// setup is how a test runs a program.
type setup struct {
	reduces int
	memory  int64
	params  map[string]string
}

// run runs a program over inputs, one a map task, and returns the rows of each
// reduce, cells joined by blanks, and the counters.
func run(t *testing.T, p Program, s setup, inputs ...batch.Reader) (rows [][]string, counters map[string]int64, err error) {
	t.Helper()
	dir := t.TempDir()
	d, err := p.Describe()
	if err != nil {
		return nil, nil, err
	}
	counters = map[string]int64{}
	partitions := make([][]*batch.Batch, s.reduces)
	var out []*batch.Batch
	for i, in := range inputs {
		a := &Attempt{Index: i, Label: fmt.Sprint("input ", i), Params: s.params, Input: in, Memory: s.memory, Dir: dir, Counters: counters,
			Write: func(_ context.Context, partition int, b *batch.Batch) error {
				if d.MapOnly {
					out = append(out, b)
				} else {
					partitions[partition] = append(partitions[partition], b)
				}
				return nil
			}}
		if !d.MapOnly {
			a.Partitions = s.reduces
		}
		if err := Run(t.Context(), p, a); err != nil {
			return nil, counters, err
		}
	}
	if d.MapOnly {
		return [][]string{rowTexts(d.Fields, out)}, counters, nil
	}
	for i := range s.reduces {
		var out []*batch.Batch
		a := &Attempt{Reduce: true, Index: i, Params: s.params, Input: &reader{ShuffleFields(), partitions[i]}, Memory: s.memory, Dir: dir, Counters: counters,
			Write: func(_ context.Context, _ int, b *batch.Batch) error { out = append(out, b); return nil }}
		if err := Run(t.Context(), p, a); err != nil {
			return nil, counters, err
		}
		rows = append(rows, rowTexts(d.Fields, out))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d spilled runs are left, %v", len(left), err)
	}
	return rows, counters, nil
}

func rowTexts(fields []schema.Field, batches []*batch.Batch) (out []string) {
	for _, b := range batches {
		for i := range b.Len {
			var cells []string
			for c, f := range fields {
				cells = append(cells, string(schema.AppendText(nil, f.Type, b.Columns[c], i)))
			}
			out = append(out, strings.Join(cells, " "))
		}
	}
	return out
}

type count struct {
	Word  string
	Count int64
}

func wordCount() Job[string, string, int64, count] {
	return Job[string, string, int64, count]{
		Name: "wordcount", Input: Lines(),
		Map: func(_ *Task, line string, emit func(string, int64)) error {
			for w := range strings.FieldsSeq(line) {
				emit(w, 1)
			}
			return nil
		},
		Reduce: func(_ *Task, word string, counts iter.Seq[int64], emit func(count)) error {
			var n int64
			for c := range counts {
				n += c
			}
			emit(count{word, n})
			return nil
		},
	}
}

func TestWordCount(t *testing.T) {
	rows, counters, err := run(t, wordCount(), setup{reduces: 1}, lineReader("a b a", "c"), lineReader("b  a"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ", "); got != "a 3, b 2, c 1" {
		t.Errorf("rows %s", got)
	}
	for name, want := range map[string]int64{CounterMapInput: 3, CounterMapOutput: 6, CounterShuffled: 6, CounterReduceInput: 6, CounterReduceGroups: 3, CounterOutput: 3} {
		if counters[name] != want {
			t.Errorf("%s = %d, want %d", name, counters[name], want)
		}
	}
}

// Whatever the memory, the number of reduces and the combiner, the counts are
// those of a map.
func TestWordCountMetamorphic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[string]int64{}
	var inputs [5][]string
	for i := range inputs {
		for range 400 {
			var line []string
			for range rng.IntN(12) {
				w := strings.Repeat(string(rune('a'+rng.IntN(3))), 1+rng.IntN(4)) + fmt.Sprint(rng.IntN(1+rng.IntN(3000)))
				line = append(line, w)
				want[w]++
			}
			inputs[i] = append(inputs[i], strings.Join(line, " "))
		}
	}
	for _, combine := range []bool{false, true} {
		for _, keys := range []Order{Ascending, Descending} {
			for _, s := range []setup{{reduces: 1}, {reduces: 7}, {reduces: 1, memory: 1}, {reduces: 3, memory: 1}} {
				j := wordCount()
				j.Keys = keys
				if combine {
					j.Combine = func(a, b int64) int64 { return a + b }
				}
				var in []batch.Reader
				for _, lines := range inputs {
					in = append(in, lineReader(lines...))
				}
				rows, counters, err := run(t, j, s, in...)
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("combine %v, keys %d, %+v", combine, keys, s)
				got := map[string]int64{}
				for _, part := range rows {
					words := make([]string, len(part))
					for i, r := range part {
						var n int64
						if _, err := fmt.Sscan(r, &words[i], &n); err != nil {
							t.Fatal(err)
						}
						got[words[i]] += n
					}
					if keys == Descending {
						slices.Reverse(words)
					}
					if !slices.IsSorted(words) {
						t.Errorf("%s: keys of a reduce are not in order", name)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%s: %d words, want %d", name, len(got), len(want))
				}
				for w, n := range want {
					if got[w] != n {
						t.Fatalf("%s: %s counted %d times, want %d", name, w, got[w], n)
					}
				}
				if (s.memory == 1) != (counters[CounterSpilled] > 0) {
					t.Errorf("%s: spilled %d records", name, counters[CounterSpilled])
				}
			}
		}
	}
}

type reading struct {
	At    int32
	Value float64
}

type series struct {
	Station string
	Values  string
}

// Values of a key come in the order that the job asks for, also from many spilled
// runs.
func TestSecondarySort(t *testing.T) {
	job := func(values Order) Program {
		return Job[string, string, reading, series]{
			Name: "series", Input: Lines(), Values: values,
			Map: func(_ *Task, line string, emit func(string, reading)) error {
				var station string
				var r reading
				if _, err := fmt.Sscan(line, &station, &r.At, &r.Value); err != nil {
					return Permanent(err)
				}
				emit(station, r)
				return nil
			},
			Reduce: func(_ *Task, station string, values iter.Seq[reading], emit func(series)) error {
				var all []string
				for r := range values {
					if all = append(all, fmt.Sprint(r.At)); len(all) == 4 {
						break // the rest is skipped
					}
				}
				emit(series{station, strings.Join(all, ",")})
				return nil
			},
		}
	}
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf("s%d %d 1.5", i%3, (i*7919)%3001-1500))
	}
	for _, memory := range []int64{0, 1} {
		for values, want := range map[Order]string{Ascending: "s0 -1500,-1499,-1498,-1497", Descending: "s0 1500,1498,1497,1496"} {
			rows, _, err := run(t, job(values), setup{reduces: 1, memory: memory}, lineReader(lines[:1700]...), lineReader(lines[1700:]...))
			if err != nil {
				t.Fatal(err)
			}
			var all []int
			for i := range 3000 {
				if i%3 == 0 {
					all = append(all, (i*7919)%3001-1500)
				}
			}
			slices.Sort(all)
			if values == Descending {
				slices.Reverse(all)
			}
			want = "s0 " + strings.ReplaceAll(strings.Trim(fmt.Sprint(all[:4]), "[]"), " ", ",")
			if len(rows[0]) != 3 || rows[0][0] != want {
				t.Errorf("memory %d, order %d: rows %v, want %s first", memory, values, rows[0], want)
			}
		}
	}
}

type bird struct {
	ID   int64
	Name *string
	Mass float64 `skep:"grams"`
	Seen time.Time
	Kept bool
	Note string `skep:"-"`
	Day  string
}

func birds() *reader {
	type d = schema.Datum
	text := func(s string) d { return d{Type: schema.StringType, S: s} }
	return &reader{
		fields: []schema.Field{{Name: "name", Type: schema.StringType}, {Name: "grams", Type: schema.FloatType}, {Name: "id", Type: schema.IntType},
			{Name: "kept", Type: schema.BooleanType}, {Name: "seen", Type: schema.TimestampType}, {Name: "day", Type: schema.DateType}},
		batches: []*batch.Batch{{Len: 3, Sel: []int32{0, 2}, Columns: []arrow.Array{
			schema.ArrayOf(schema.StringType, []d{text("merle"), text("left out"), schema.NullOf(schema.StringType)}),
			schema.ArrayOf(schema.FloatType, []d{{Type: schema.FloatType, F: 102.5}, {Type: schema.FloatType}, schema.NullOf(schema.FloatType)}),
			schema.ArrayOf(schema.IntType, []d{{Type: schema.IntType, I: 1}, {Type: schema.IntType, I: 2}, {Type: schema.IntType, I: 3}}),
			schema.ArrayOf(schema.BooleanType, []d{{Type: schema.BooleanType, I: 1}, {Type: schema.BooleanType}, schema.NullOf(schema.BooleanType)}),
			schema.ArrayOf(schema.TimestampType, []d{{Type: schema.TimestampType, D: schema.NanosOf(86400, 5e8)}, {Type: schema.TimestampType}, {Type: schema.TimestampType, D: schema.NanosOf(-1, 0)}}),
			schema.ArrayOf(schema.DateType, []d{{Type: schema.DateType, I: 31}, {Type: schema.DateType}, {Type: schema.DateType}}),
		}}},
	}
}

// Rows of a table become structs, and structs rows; NULLs stay NULL.
func TestRecords(t *testing.T) {
	p := MapOnly[bird, bird]{Name: "copy", Input: Records[bird](), Map: func(_ *Task, b bird, emit func(bird)) error {
		emit(b)
		return nil
	}}
	d, err := p.Describe()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(d.Columns); got != "[id name grams seen kept day]" {
		t.Errorf("columns %s", got)
	}
	rows, _, err := run(t, p, setup{}, birds())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1 merle 102.5 1970-01-02 00:00:00.5 true 1970-02-01", "3 NULL 0.0 1969-12-31 23:59:59 false 1970-01-01"}
	if !slices.Equal(rows[0], want) {
		t.Errorf("rows %q, want %q", rows[0], want)
	}
}

func TestRecordsRefuse(t *testing.T) {
	type narrow struct{ ID int16 }
	type absent struct{ Nam string }
	for name, c := range map[string]struct {
		p    Program
		want string
	}{
		"narrow": {MapOnly[narrow, int64]{Name: "x", Input: Records[narrow](), Map: func(*Task, narrow, func(int64)) error { return nil }}, "column id into field ID: an integer of 32 bits can't be read into a int16"},
		"absent": {MapOnly[absent, int64]{Name: "x", Input: Records[absent](), Map: func(*Task, absent, func(int64)) error { return nil }}, `no column "nam" (did you mean "name"?)`},
	} {
		_, _, err := run(t, c.p, setup{}, birds())
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.ClassOf(err) != fault.User {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Describe names every fault at once.
func TestDescribeFaults(t *testing.T) {
	_, err := Job[string, map[int]int, int64, chan int]{Name: "a b", Values: Ascending, Combine: func(a, _ int64) int64 { return a }}.Describe()
	for _, want := range []string{`the name "a b"`, "one of Map and NewMapper", "one of Reduce and NewReducer", "can't be sorted", "key: no codec", "no Input", "chan int can't be a column"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// Errors of user code have the right class, and bad partitions and counters are
// refused.
func TestUserErrors(t *testing.T) {
	boom := errors.New("boom")
	with := func(change func(*Job[string, string, int64, count])) Program {
		j := wordCount()
		change(&j)
		return j
	}
	for name, c := range map[string]struct {
		p     Program
		class fault.Class
		want  string
	}{
		"map": {with(func(j *Job[string, string, int64, count]) {
			j.Map = func(*Task, string, func(string, int64)) error { return boom }
		}), fault.Retryable, "map: boom"},
		"permanent": {with(func(j *Job[string, string, int64, count]) {
			j.Map = func(*Task, string, func(string, int64)) error { return Permanent(boom) }
		}), fault.User, "boom"},
		"reduce": {with(func(j *Job[string, string, int64, count]) {
			j.Reduce = func(*Task, string, iter.Seq[int64], func(count)) error { return boom }
		}), fault.Retryable, "reduce: boom"},
		"partition": {with(func(j *Job[string, string, int64, count]) {
			j.Partition = func(string, int) int { return 9 }
		}), fault.User, "partition 9 of 2"},
		"counter": {with(func(j *Job[string, string, int64, count]) {
			j.Map = func(t *Task, _ string, _ func(string, int64)) error { t.Counter("words").Add(1); return nil }
		}), fault.User, `counter "words": want group/name`},
	} {
		_, _, err := run(t, c.p, setup{reduces: 2}, lineReader("a b"))
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.ClassOf(err) != c.class {
			t.Errorf("%s: %v of class %s, want %q of class %s", name, err, fault.ClassOf(err), c.want, c.class)
		}
	}
}

// topWords is state, setup, cleanup, parameters and counters.
type topWords struct {
	n    int64
	seen *Counter
	best []string
}

func (m *topWords) Setup(t *Task) (err error) {
	m.seen = t.Counter("words/seen")
	m.n, err = t.IntParam("n", 2)
	return err
}

func (m *topWords) Map(_ *Task, line string, _ func(string)) error {
	for w := range strings.FieldsSeq(line) {
		m.seen.Add(1)
		m.best = append(m.best, w)
	}
	slices.Sort(m.best)
	m.best = m.best[:min(len(m.best), int(m.n))]
	return nil
}

func (m *topWords) Cleanup(_ *Task, emit func(string)) error {
	for _, w := range m.best {
		emit(w)
	}
	return nil
}

func TestMapperWithState(t *testing.T) {
	p := MapOnly[string, string]{Name: "top", Input: Lines(), NewMapper: func() RowMapper[string, string] { return &topWords{} }}
	rows, counters, err := run(t, p, setup{params: map[string]string{"n": "3"}}, lineReader("d c b", "a z"), lineReader("q"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ","); got != "a,b,c,q" || counters["words/seen"] != 6 {
		t.Errorf("rows %s, %d words", got, counters["words/seen"])
	}
	if _, _, err := run(t, p, setup{params: map[string]string{"n": "x"}}, lineReader("q")); err == nil || fault.ClassOf(err) != fault.User {
		t.Errorf("a parameter that is no number: %v", err)
	}
}

// A combiner whose values grow does not outgrow the budget.
func TestGrowingValues(t *testing.T) {
	j := Job[string, string, []string, int64]{
		Name: "group", Input: Lines(),
		Map: func(_ *Task, line string, emit func(string, []string)) error {
			emit(line[:1], []string{line})
			return nil
		},
		Combine: func(a, b []string) []string { return append(a, b...) },
		Reduce: func(_ *Task, _ string, lists iter.Seq[[]string], emit func(int64)) error {
			var n int64
			for l := range lists {
				n += int64(len(l))
			}
			emit(n)
			return nil
		},
	}
	var lines []string
	for i := range 20000 {
		lines = append(lines, fmt.Sprintf("%c%0100d", 'a'+i%2, i))
	}
	rows, counters, err := run(t, j, setup{reduces: 1, memory: 600 << 10}, lineReader(lines...))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ","); got != "10000,10000" {
		t.Errorf("rows %s", got)
	}
	if counters[CounterSpilled] == 0 {
		t.Error("2 MB of values under a budget of 200 kB: nothing was spilled")
	}
}

// A flipped bit in a spilled run is an error, not another answer.
func TestDamagedSpill(t *testing.T) {
	s := &spills{parent: t.TempDir()}
	defer s.close()
	err := s.spill(func(to func(*block) error) error {
		b := &builder{to: to}
		for i := range 100 {
			if err := b.add(0, []byte(fmt.Sprintf("key%03d", i)), []byte("v")); err != nil {
				return err
			}
		}
		return b.flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.runs[0].f.WriteAt([]byte{0xee}, 300); err != nil {
		t.Fatal(err)
	}
	if _, err := s.runs[0].next(); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("read a damaged run: %v", err)
	}
}

func BenchmarkWordCount(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var lines []string
	size := 0
	zipf := rand.NewZipf(rng, 1.1, 1, 50000)
	for size < 16<<20 {
		var line []string
		for range 12 {
			line = append(line, fmt.Sprintf("w%d", zipf.Uint64()))
		}
		lines = append(lines, strings.Join(line, " "))
		size += len(lines[len(lines)-1]) + 1
	}
	j := wordCount()
	j.Combine = func(a, b int64) int64 { return a + b }
	b.SetBytes(int64(size))
	for b.Loop() {
		a := &Attempt{Input: lineReader(lines...), Partitions: 4, Write: func(context.Context, int, *batch.Batch) error { return nil }}
		if err := Run(b.Context(), j, a); err != nil {
			b.Fatal(err)
		}
	}
}
