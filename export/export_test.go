package export

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeClock is a clock that stands until it is told.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*fakeTimer]bool
}

type fakeTimer struct {
	at time.Time
	f  func()
}

func newClock(text string) *fakeClock {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return &fakeClock{now: t, timers: map[*fakeTimer]bool{}}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{c.now.Add(d), f}
	c.timers[t] = true
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		was := c.timers[t]
		delete(c.timers, t)
		return was
	}
}

// advance goes to a time, ringing what is due on the way.
func (c *fakeClock) advance(to time.Time) {
	for {
		c.mu.Lock()
		var first *fakeTimer
		for t := range c.timers {
			if !t.at.After(to) && (first == nil || t.at.Before(first.at)) {
				first = t
			}
		}
		if first == nil {
			c.now = to
			c.mu.Unlock()
			return
		}
		delete(c.timers, first)
		if first.at.After(c.now) {
			c.now = first.at
		}
		c.mu.Unlock()
		first.f()
	}
}

// fakeEngine has queries "rows N"; others do what they say.
type fakeEngine struct {
	clock Clock
	mu    sync.Mutex
	ran   int
	block chan struct{} // not nil: queries wait for it
	fail  error
	probe func(rows int)
}

var fields = []schema.Field{{Name: "id", Type: schema.BigIntType}, {Name: "name", Type: schema.StringType}}

func (e *fakeEngine) Check(_ context.Context, _, query string) ([]schema.Field, error) {
	if !strings.HasPrefix(query, "rows ") && !strings.HasPrefix(query, "SELECT ") {
		return nil, fault.Userf("want SELECT, found %q", query)
	}
	return fields, nil
}

func (e *fakeEngine) Query(ctx context.Context, _, query string) (Result, error) {
	e.mu.Lock()
	e.ran++
	block, fail := e.block, e.fail
	e.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fail != nil {
		return nil, fail
	}
	r := &fakeResult{e: e, at: uint64(e.clock.Now().UnixMilli()) << 20}
	_, err := fmt.Sscanf(query, "rows %d", &r.left)
	return r, err
}

func (e *fakeEngine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ran
}

type fakeResult struct {
	e          *fakeEngine
	at         uint64
	done, left int
}

func (r *fakeResult) Fields() []schema.Field { return fields }
func (r *fakeResult) Snapshot() uint64       { return r.at }
func (r *fakeResult) Close() error           { return nil }
func (r *fakeResult) Next(ctx context.Context) (*batch.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.left == 0 {
		return nil, io.EOF
	}
	n := min(r.left, batch.MaxRows)
	ids, names := make([]int64, n), make([]string, n)
	for i := range n {
		ids[i] = int64(r.done + i)
		names[i] = fmt.Sprintf("name %x", (r.done+i)*2654435761)
	}
	r.left -= n
	r.done += n
	if r.e.probe != nil {
		r.e.probe(r.done)
	}
	return &batch.Batch{Len: n, Columns: []arrow.Array{batch.NewFixed(schema.BigIntType.Arrow(), ids, nil), batch.NewStrings(names)}}, nil
}

func open(t *testing.T, o Options) *Service {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// closing closes a service at the end of a test.
func closing(t *testing.T, s *Service) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestExport(t *testing.T) {
	clock := newClock("2026-12-01T10:00:00Z")
	e := &fakeEngine{clock: clock}
	s := open(t, Options{Dir: t.TempDir(), Engine: e, Clock: clock})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "birds", Query: "rows 3"}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Start("birds")
	if err != nil {
		t.Fatal(err)
	}
	if r, err = s.Wait(t.Context(), "birds", r.ID); err != nil {
		t.Fatal(err)
	}
	const data = "id,name\n0,name 0\n1,name 9e3779b1\n2,name 13c6ef362\n"
	sum := sha256.Sum256([]byte(data))
	want := Manifest{Export: "birds", Run: "run-1", Query: "rows 3", Snapshot: 1796119200000 << 20, SnapshotTime: clock.now, Format: "csv", Header: true,
		Columns: []Column{{"id", "bigint"}, {"name", "string"}}, Rows: 3, DataFile: "birds.csv", DataBytes: int64(len(data)), DataSHA256: hex.EncodeToString(sum[:])}
	f, _, err := s.Artifact("birds", "latest")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	zipped := want
	whole := sha256.Sum256(text)
	zipped.ZipBytes, zipped.ZipSHA256 = int64(len(text)), hex.EncodeToString(whole[:])
	if got, want := asJSON(t, r.Manifest), asJSON(t, zipped); got != want {
		t.Errorf("manifest\n%s\nwant\n%s", got, want)
	}
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != 2 || z.File[0].Name != "birds.csv" || z.File[1].Name != "manifest.json" {
		t.Fatalf("the zip has %d files", len(z.File))
	}
	for i, want := range []string{data, asJSON(t, want) + "\n"} {
		in, err := z.File[i].Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", z.File[i].Name, got, err, want)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quiet waits until no run is queued or running.
func quiet(t *testing.T, s *Service) {
	t.Helper()
	for _, d := range s.List() {
		_, runs, err := s.Get(d.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			if _, err := s.Wait(t.Context(), d.Name, r.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A week with the end of summer time in it, and restarts at awkward times: each time
// of each schedule runs once. The process is down for some: then the rule for missed
// times counts.
func TestScheduledWeek(t *testing.T) {
	dir := t.TempDir()
	clock := newClock("2026-10-22T22:30:00Z") // Friday, 00:30 in Berlin
	e := &fakeEngine{clock: clock}
	o := Options{Dir: dir, Engine: e, Clock: clock, Follow: true}
	s := open(t, o)
	for name, schedule := range map[string]Schedule{
		"nightly": {Cron: "30 2 * * *", Zone: "Europe/Berlin"},
		"sixth":   {Cron: "0 */6 * * *", Zone: "UTC", Missed: MissedAll},
		"strict":  {Cron: "0 12 * * *", Zone: "UTC", Missed: MissedSkip},
	} {
		if _, err := s.Create(t.Context(), Definition{Name: name, Query: "rows 1", Schedule: &schedule, Keep: 100}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(text string) time.Time {
		x, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	// until, and whether the process is down up to then.
	for _, step := range []struct {
		to   string
		down bool
	}{
		{"2026-10-23T00:29:59Z", false}, // a second before 02:30
		{"2026-10-23T00:30:00Z", true},  // restarted right on it
		{"2026-10-23T00:30:01Z", false},
		{"2026-10-23T00:30:02Z", true},
		{"2026-10-24T11:00:00Z", false},
		{"2026-10-24T19:00:00Z", true}, // noon and 18:00 missed
		{"2026-10-25T00:31:00Z", false},
		{"2026-10-25T01:29:00Z", true}, // between the two half past two
		{"2026-10-25T01:31:00Z", false},
		{"2026-10-26T13:00:00Z", false},
		{"2026-10-28T07:00:00Z", true}, // two nights, and many sixths, missed
		{"2026-10-29T22:30:00Z", false},
	} {
		if step.down {
			quiet(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			clock.advance(at(step.to))
			s = open(t, o)
		} else {
			clock.advance(at(step.to))
		}
		quiet(t, s)
	}
	quiet(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, o) // what is on disk
	closing(t, s)
	var sixths []string
	for x := at("2026-10-23T00:00:00Z"); x.Before(at("2026-10-29T22:30:00Z")); x = x.Add(6 * time.Hour) {
		sixths = append(sixths, x.Format("02T1504"))
	}
	total := 0
	for name, want := range map[string][]string{
		// The night of the 27th was missed, and so was the 28th, which was made up for.
		"nightly": {"23T0030", "24T0030", "25T0030", "26T0130", "28T0130", "29T0130"},
		"sixth":   sixths,
		"strict":  {"23T1200", "25T1200", "26T1200", "28T1200", "29T1200"},
	} {
		_, runs, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range runs {
			if r.State != Succeeded || r.Attempts != 1 {
				t.Errorf("%s: run %s %s after %d attempts", name, r.ID, r.State, r.Attempts)
			}
			got = append(got, r.Scheduled.Format("02T1504"))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s ran at %v, want %v", name, got, want)
		}
		total += len(want)
	}
	if e.count() != total {
		t.Errorf("%d queries ran, want %d", e.count(), total)
	}
}

// copyTree copies a folder as a crash would leave it.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// A process that ends while a run is made leaves nothing of it to fetch; the next
// one makes it again, a few times at most, or says that it was interrupted.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	clock := newClock("2026-12-01T10:00:00Z")
	e := &fakeEngine{clock: clock, block: make(chan struct{})}
	s := open(t, Options{Dir: dir, Engine: e, Clock: clock})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "birds", Query: "rows 10"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start("birds"); err != nil {
		t.Fatal(err)
	}
	for e.count() == 0 {
		runtime.Gosched()
	}
	crashed := copyTree(t, dir)
	// What a crash at a later step would have left, too.
	if err := errors.Join(os.MkdirAll(filepath.Join(crashed, "birds", dataDir), 0o755), os.MkdirAll(filepath.Join(crashed, aside), 0o755),
		os.WriteFile(filepath.Join(crashed, "birds", dataDir, "run-1.zip"), []byte("half"), 0o644),
		os.WriteFile(filepath.Join(crashed, aside, "zip-1"), []byte("half"), 0o644)); err != nil {
		t.Fatal(err)
	}
	looked := copyTree(t, crashed)

	// A process that only looks marks it.
	only := open(t, Options{Dir: looked, Engine: e, Clock: clock})
	r, err := only.Run("birds", "run-1")
	if err != nil || r.State != Interrupted {
		t.Errorf("run %+v, %v", r, err)
	}
	if _, _, err := only.Artifact("birds", "run-1"); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("the file of an interrupted run: %v", err)
	}
	if err := only.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{crashed, looked} {
		e := &fakeEngine{clock: clock}
		next := open(t, Options{Dir: dir, Engine: e, Clock: clock, Follow: true})
		r, err := next.Wait(t.Context(), "birds", "run-1")
		if err != nil || r.Manifest.Rows != 10 || r.Attempts != 2 || e.count() != 1 {
			t.Errorf("made again: %+v, %v", r, err)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, aside)); err == nil && len(left) > 0 {
			t.Errorf("half-written files are left: %v", left)
		}
	}
	close(e.block)
}

// A run that ends its process each time is given up.
func TestInterruptedAgainAndAgain(t *testing.T) {
	dir := t.TempDir()
	clock := newClock("2026-12-01T10:00:00Z")
	e := &fakeEngine{clock: clock, block: make(chan struct{})}
	s := open(t, Options{Dir: dir, Engine: e, Clock: clock, Follow: true})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "birds", Query: "rows 10"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start("birds"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for e.count() == i {
			runtime.Gosched()
		}
		dir = copyTree(t, dir)
		s := open(t, Options{Dir: dir, Engine: e, Clock: clock, Follow: true})
		closing(t, s)
		if i == 2 {
			if r, err := s.Run("birds", "run-1"); err != nil || r.State != Failed || !strings.Contains(r.Error, "attempt 3 of 3") {
				t.Errorf("after three crashes: %+v, %v", r, err)
			}
		}
	}
}

func TestFailures(t *testing.T) {
	clock := newClock("2026-12-01T10:00:00Z")
	e := &fakeEngine{clock: clock, fail: fault.Retryablef("a region is away")}
	s := open(t, Options{Dir: t.TempDir(), Engine: e, Clock: clock})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "birds", Query: "rows 10"}); err != nil {
		t.Fatal(err)
	}
	// Retryable: three times, with pauses.
	r, err := s.Start("birds")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Wait(t.Context(), "birds", r.ID)
		done <- err
	}()
	for range 2 {
		for {
			clock.mu.Lock()
			n := len(clock.timers)
			clock.mu.Unlock()
			if n > 0 {
				break
			}
			runtime.Gosched()
		}
		clock.advance(clock.Now().Add(time.Minute))
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "a region is away") || e.count() != 3 {
		t.Errorf("%v after %d attempts", err, e.count())
	}
	// The user's: once.
	e.mu.Lock()
	e.fail = fault.Userf("no table birds")
	e.mu.Unlock()
	if r, err = s.Start("birds"); err != nil {
		t.Fatal(err)
	}
	if r, err = s.Wait(t.Context(), "birds", r.ID); err == nil || r.Attempts != 1 || r.State != Failed {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCancel(t *testing.T) {
	clock := newClock("2026-12-01T10:00:00Z")
	e := &fakeEngine{clock: clock, block: make(chan struct{})}
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Engine: e, Clock: clock})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "birds", Query: "rows 10"}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 3 { // one runs, two wait
		r, err := s.Start("birds")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	for e.count() == 0 {
		runtime.Gosched()
	}
	for _, id := range ids[:2] {
		if err := s.Cancel("birds", id); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Wait(t.Context(), "birds", id); err == nil || r.State != Cancelled {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	close(e.block)
	if r, err := s.Wait(t.Context(), "birds", ids[2]); err != nil || r.Manifest.Rows != 10 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Cancel("birds", ids[2]); fault.ClassOf(err) != fault.User {
		t.Errorf("cancel what is over: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "birds", dataDir)); err != nil || len(left) != 1 {
		t.Errorf("files: %v, %v", left, err)
	}
}

func TestRetention(t *testing.T) {
	clock := newClock("2026-12-01T10:00:00Z")
	e := &fakeEngine{clock: clock}
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Engine: e, Clock: clock})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "birds", Query: "rows 1", Keep: 3, KeepDays: 2}); err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		r, err := s.Start("birds")
		if err == nil {
			_, err = s.Wait(t.Context(), "birds", r.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		clock.advance(clock.Now().Add(time.Minute))
	}
	kept := func() (ids string) {
		t.Helper()
		_, runs, err := s.Get("birds")
		if err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(filepath.Join(dir, "birds", dataDir))
		if err != nil || len(files) != len(runs) {
			t.Errorf("%d runs, %d files, %v", len(runs), len(files), err)
		}
		for _, r := range runs {
			ids += r.ID + " "
		}
		return ids
	}
	for range 5 {
		run()
	}
	if got := kept(); got != "run-5 run-4 run-3 " {
		t.Errorf("kept %s", got)
	}
	f, _, err := s.Artifact("birds", "run-3")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	clock.advance(clock.Now().Add(72 * time.Hour))
	run()
	if got := kept(); got != "run-6 " {
		t.Errorf("kept %s", got)
	}
	if text, err := io.ReadAll(f); err != nil || len(text) == 0 {
		t.Errorf("a dropped file that is being read: %d bytes, %v", len(text), err)
	}
	if err := s.Delete("birds", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run("birds", "latest"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a deleted export: %v", err)
	}
	if _, err := s.Create(t.Context(), Definition{Name: "birds", Query: "rows 1"}); err != nil {
		t.Errorf("create it again: %v", err)
	}
}

func TestDefinitionFaults(t *testing.T) {
	s := open(t, Options{Dir: t.TempDir(), Engine: &fakeEngine{}})
	closing(t, s)
	for _, c := range []struct {
		d    Definition
		want string
	}{
		{Definition{Name: "A b", Query: "rows 1", Format: "xml", Keep: -1}, `the name "A b"`},
		{Definition{Name: "x"}, "no query and no table"},
		{Definition{Name: "x", Query: "rows 1", Table: "t"}, "give one of them"},
		{Definition{Name: "x", Query: "rows 1", Where: "a"}, "go with a table"},
		{Definition{Name: "x", Query: "DROP TABLE t"}, "want SELECT"},
		{Definition{Name: "x", Query: "rows 1", Schedule: &Schedule{Cron: "never"}}, `schedule "never"`},
	} {
		if _, err := s.Create(t.Context(), c.d); err == nil || !strings.Contains(err.Error(), c.want) || fault.ClassOf(err) != fault.User {
			t.Errorf("%+v: %v, want %q", c.d, err, c.want)
		}
	}
	d, err := s.Create(t.Context(), Definition{Name: "x", Table: "d.t`u", Columns: []string{"a", "b"}, Where: "a > 1 -- all"})
	if err != nil || d.Query != "SELECT `a`, `b` FROM `d`.`t``u` WHERE (a > 1 -- all\n)" {
		t.Errorf("query %q, %v", d.Query, err)
	}
	if _, err := s.Create(t.Context(), Definition{Name: "x", Query: "rows 1"}); err == nil {
		t.Error("two exports of one name")
	}
	if _, err := s.Start("xx"); err == nil || !strings.Contains(err.Error(), `did you mean "x"?`) {
		t.Errorf("a wrong name: %v", err)
	}
}

// What a run holds in memory doesn't grow with its rows.
func TestMemory(t *testing.T) {
	rows := 800_000
	if testing.Short() {
		rows = 400_000
	}
	clock := newClock("2026-12-01T10:00:00Z")
	var first, most uint64
	e := &fakeEngine{clock: clock, probe: func(rows int) {
		if rows%(32*batch.MaxRows) != 0 {
			return
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if first == 0 {
			first = m.HeapAlloc
		}
		most = max(most, m.HeapAlloc)
	}}
	s := open(t, Options{Dir: t.TempDir(), Engine: e, Clock: clock})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "big", Query: fmt.Sprintf("rows %d", rows)}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Start("big")
	if err == nil {
		r, err = s.Wait(t.Context(), "big", r.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Manifest.DataBytes < 6<<20 {
		t.Fatalf("%d bytes of data are too few to tell", r.Manifest.DataBytes)
	}
	if most > first+2<<20 {
		t.Errorf("the heap grew from %d to %d KiB over %d KiB of data", first>>10, most>>10, r.Manifest.DataBytes>>10)
	}
}

// breaking is a listener whose connections end after some bytes.
type breaking struct {
	net.Listener
	after int
}

func (b breaking) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &breakingConn{c, b.after}, nil
}

type breakingConn struct {
	net.Conn
	left int
}

func (c *breakingConn) Write(p []byte) (int, error) {
	if len(p) > c.left {
		n, _ := c.Conn.Write(p[:c.left])
		return n, errors.Join(errors.New("the line broke"), c.Close())
	}
	c.left -= len(p)
	return c.Conn.Write(p)
}

// A million rows over a line that breaks every some hundred kilobytes come as they
// were made; so does a download that is given up and taken up again.
func TestDownload(t *testing.T) {
	rows := int64(1_000_000)
	if testing.Short() {
		rows = 400_000
	}
	clock := newClock("2026-12-01T10:00:00Z")
	e := &fakeEngine{clock: clock}
	s := open(t, Options{Dir: t.TempDir(), Engine: e, Clock: clock})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "big", Query: fmt.Sprintf("rows %d", rows), Format: "tsv"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start("big"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), "big", "run-1"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(Handler(s))
	server.Listener = breaking{server.Listener, 900_000}
	server.Start()
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()
	src := Remote{Client: client, Base: server.URL, Name: "big"}
	path := filepath.Join(t.TempDir(), "big.zip")
	// Given up after the first megabyte.
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Download(ctx, src, path, DownloadOptions{Pause: time.Microsecond, Progress: func(have, _ int64) {
		if have > 1<<20 {
			cancel()
		}
	}})
	if err == nil {
		t.Fatal("a cancelled download succeeded")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a file has the whole one's name: %v", err)
	}
	resumed := int64(-1)
	r, err := Download(t.Context(), src, path, DownloadOptions{Pause: time.Microsecond, Progress: func(have, _ int64) {
		if resumed < 0 {
			resumed = have
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if resumed < 1<<20 {
		t.Errorf("the second download began at %d bytes", resumed)
	}
	sum, err := hashFile(path)
	if err != nil || sum != r.Manifest.ZipSHA256 || r.Manifest.Rows != rows || r.Manifest.ZipBytes < 2_000_000 {
		t.Errorf("sha256 %s, %v, manifest %+v", sum, err, r.Manifest)
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	in, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, in); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != r.Manifest.DataSHA256 {
		t.Errorf("data sha256 %s, want %s", got, r.Manifest.DataSHA256)
	}
	// Once more: it is there already. Another file under that name is not touched.
	if _, err := Download(t.Context(), src, path, DownloadOptions{}); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Download(t.Context(), src, path, DownloadOptions{}); fault.ClassOf(err) != fault.User {
		t.Errorf("over another file: %v", err)
	}
	// A part that is not one is found out.
	other := filepath.Join(t.TempDir(), "big.zip")
	if err := os.WriteFile(other+"."+r.Manifest.ZipSHA256[:12]+".part", []byte("this is not the beginning of a zip"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Download(t.Context(), src, other, DownloadOptions{Pause: time.Microsecond}); fault.ClassOf(err) != fault.Retryable {
		t.Errorf("with a wrong part: %v", err)
	}
	if _, err := Download(t.Context(), Local{s, "big", ""}, other, DownloadOptions{}); err != nil {
		t.Error(err)
	}
}

func TestHTTP(t *testing.T) {
	clock := newClock("2026-12-01T10:00:00Z")
	e := &fakeEngine{clock: clock}
	s := open(t, Options{Dir: t.TempDir(), Engine: e, Clock: clock})
	closing(t, s)
	if _, err := s.Create(t.Context(), Definition{Name: "birds", Query: "rows 5"}); err != nil {
		t.Fatal(err)
	}
	h := Handler(s)
	get := func(method, path string, header ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, path, nil)
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w
	}
	if w := get("GET", "/exports/birds/runs/latest/download"); w.Code != 404 || !strings.Contains(w.Body.String(), "no run that succeeded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if _, err := s.Start("birds"); err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(t.Context(), "birds", "run-1")
	if err != nil {
		t.Fatal(err)
	}
	const download = "/exports/birds/runs/latest/download"
	whole := get("GET", download)
	tag := `"` + r.Manifest.ZipSHA256 + `"`
	if whole.Code != 200 || whole.Header().Get("ETag") != tag || int64(whole.Body.Len()) != r.Manifest.ZipBytes || whole.Header().Get(RunHeader) != "run-1" {
		t.Errorf("%d, %v", whole.Code, whole.Header())
	}
	text := whole.Body.Bytes()
	for _, c := range []struct {
		name   string
		header []string
		code   int
		body   string
	}{
		{"from 10", []string{"Range", "bytes=10-", "If-Range", tag}, 206, string(text[10:])},
		{"middle", []string{"Range", "bytes=3-7"}, 206, string(text[3:8])},
		{"last", []string{"Range", "bytes=-4"}, 206, string(text[len(text)-4:])},
		{"of another file", []string{"Range", "bytes=10-", "If-Range", `"other"`}, 200, string(text)},
		{"beyond", []string{"Range", "bytes=100000-"}, 416, ""},
		{"known", []string{"If-None-Match", tag}, 304, ""},
	} {
		w := get("GET", download, c.header...)
		if w.Code != c.code || c.body != "" && w.Body.String() != c.body {
			t.Errorf("%s: %d, %d bytes", c.name, w.Code, w.Body.Len())
		}
	}
	for _, c := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"HEAD", download, 200, ""},
		{"GET", "/exports", 200, `"name":"birds"`},
		{"GET", "/exports/birds", 200, `"id":"run-1"`},
		{"GET", "/exports/birds/runs/run-1", 200, `"zip_sha256":` + tag},
		{"GET", "/exports/bird", 404, `did you mean \"birds\"?`},
		{"GET", "/exports/birds/runs/run-2/download", 404, `no run \"run-2\"`},
		{"GET", "/exports/..%2f..%2fetc/runs/passwd/download", 404, "no export"},
		{"POST", "/exports", 405, ""},
		{"DELETE", "/exports/birds", 405, ""},
	} {
		w := get(c.method, c.path)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, w.Code, w.Body, c.code, c.want)
		}
	}
}
