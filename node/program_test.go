package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/jobs/mapreduce/engine"
	"github.com/skepdb/skep/schema"
	"go.uber.org/goleak"
)

// The test binary is the program of users, too: as a child it is this one, which
// counts words, unless its mode says what it does wrong.
func TestMain(m *testing.M) {
	if os.Getenv(mapreduce.ChildVariable) != "" {
		if os.Getenv("HOME") == os.Getenv("TMPDIR") && len(os.Environ()) > 8 {
			fmt.Fprintln(os.Stderr, "the environment is not clean:", os.Environ())
			os.Exit(9)
		}
		mapreduce.Main(wordProgram())
	}
	goleak.VerifyTestMain(m)
}

type wordRow struct {
	Word  string
	Count int64
}

func wordProgram() mapreduce.Program {
	return mapreduce.Job[string, string, int64, wordRow]{
		Name: "words", Input: mapreduce.Lines(),
		Map: func(t *mapreduce.Task, line string, emit func(string, int64)) error {
			if err := misbehave(t); err != nil {
				return err
			}
			for w := range strings.FieldsSeq(line) {
				t.Counter("words/all").Add(1)
				emit(w, 1)
			}
			return nil
		},
		Reduce: func(_ *mapreduce.Task, w string, counts iter.Seq[int64], emit func(wordRow)) error {
			row := wordRow{Word: w}
			for c := range counts {
				row.Count += c
			}
			emit(row)
			return nil
		},
	}
}

var held [][]byte

func misbehave(t *mapreduce.Task) error {
	sleep := func(group *syscall.SysProcAttr) *exec.Cmd {
		c := exec.Command("sleep", "1000")
		c.SysProcAttr = group
		if err := c.Start(); err != nil {
			panic(err)
		}
		t.Logf("started %d", c.Process.Pid)
		return c
	}
	switch t.Param("mode") {
	case "panic":
		panic("the mapper's own panic")
	case "exit":
		t.Logf("leaving with 7")
		os.Exit(7)
	case "exit0":
		os.Exit(0)
	case "error":
		return errors.New("the mapper's own error")
	case "permanent":
		return mapreduce.Permanent(errors.New("the input makes no sense"))
	case "loop":
		for i := 0; ; i++ {
			held = held[:0]
		}
	case "flood":
		for {
			fmt.Println(strings.Repeat("flood ", 1000))
		}
	case "garbage":
		_, _ = os.NewFile(4, "out").WriteString("hello, this is not a message\n")
	case "memory":
		for {
			b := make([]byte, 8<<20)
			for i := range b {
				b[i] = byte(i)
			}
			held = append(held, b)
			time.Sleep(time.Millisecond)
		}
	case "fork":
		return sleep(nil).Wait()
	case "orphan":
		sleep(&syscall.SysProcAttr{Setsid: true})
	case "bomb":
		for {
			sleep(nil)
		}
	case "file":
		f, err := os.Create("big")
		if err != nil {
			return err
		}
		for {
			if _, err := f.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
	case "files":
		for i := 0; ; i++ {
			if _, err := os.Create(fmt.Sprint("f", i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// programNode opens a node on disk and stores this binary as an artifact.
func programNode(t *testing.T) (n *Node, dir, id string) {
	t.Helper()
	dir = t.TempDir()
	n, err := Open(t.Context(), Options{Data: []string{filepath.Join(dir, "data")}, Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if id, err = n.PutArtifact(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in.txt"), []byte("b a\nc a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return n, dir, id
}

// finish waits for a program and returns its rows.
func finish(t *testing.T, n *Node, r ProgramRequest) ([]string, jobs.Status, error) {
	t.Helper()
	run, err := n.RunProgram(t.Context(), r)
	if err != nil {
		return nil, jobs.Status{}, err
	}
	defer func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	}()
	status, err := run.Wait(t.Context())
	if err != nil || r.Dir != "" || r.Into != "" {
		return nil, status, err
	}
	rows, err := run.Rows()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for {
		b, err := rows.Next(t.Context())
		if errors.Is(err, io.EOF) {
			slices.Sort(out)
			return out, status, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Len {
			var cells []string
			for c, f := range run.Fields {
				cells = append(cells, string(schema.AppendText(nil, f.Type, b.Columns[c], i)))
			}
			out = append(out, strings.Join(cells, " "))
		}
	}
}

func TestProgramInChild(t *testing.T) {
	n, dir, id := programNode(t)
	rows, status, err := finish(t, n, ProgramRequest{Artifact: id, Files: []string{filepath.Join(dir, "in.txt")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows, ", "); got != "a 2, b 1, c 1" {
		t.Errorf("rows %s", got)
	}
	if got := status.Counters["words/all"]; got != 4 {
		t.Errorf("words/all = %d, want 4", got)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "data", programsDir)); err != nil || len(left) > 0 {
		t.Errorf("folders of programs are left: %v, %v", left, err)
	}
}

// What a user's program does wrong fails its attempt, with the reason and its
// log, and nothing else: the next job runs.
func TestProgramsThatMisbehave(t *testing.T) {
	n, dir, id := programNode(t)
	in := []string{filepath.Join(dir, "in.txt")}
	for _, c := range []struct {
		mode   string
		limits engine.Limits
		want   []string
		class  fault.Class
	}{
		{"panic", engine.Limits{}, []string{"exit status 2", "panic: the mapper's own panic", "program_test.go"}, fault.Retryable},
		{"exit", engine.Limits{}, []string{"exit status 7", "leaving with 7"}, fault.Retryable},
		{"exit0", engine.Limits{}, []string{"ended before its task did"}, fault.Retryable},
		{"error", engine.Limits{}, []string{"map: the mapper's own error", "failure 2 of 2"}, fault.Retryable},
		{"permanent", engine.Limits{}, []string{"the input makes no sense"}, fault.User},
		{"loop", engine.Limits{Timeout: 300 * time.Millisecond}, []string{"no progress for 300ms"}, fault.Retryable},
		{"flood", engine.Limits{LogBytes: 100 << 10}, []string{"more than 102400 bytes to its log", "flood flood"}, fault.Retryable},
		{"garbage", engine.Limits{}, []string{"descriptor 4 what isn't in the protocol"}, fault.Retryable},
		{"memory", engine.Limits{Memory: 64 << 20}, []string{"its limit is 64 MiB"}, fault.Retryable},
		{"fork", engine.Limits{}, []string{"started other processes"}, fault.Retryable},
		{"bomb", engine.Limits{}, []string{"started other processes"}, fault.Retryable},
		{"file", engine.Limits{FileBytes: 1 << 20}, []string{"file too large"}, fault.Retryable},
		{"files", engine.Limits{Files: 32}, []string{"too many open files"}, fault.Retryable},
	} {
		t.Run(c.mode, func(t *testing.T) {
			_, _, err := finish(t, n, ProgramRequest{Artifact: id, Files: in, Attempts: 2, Limits: c.limits, Params: map[string]string{"mode": c.mode}})
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the job ended with\n%v\nwant %q in it", err, want)
				}
			}
			if fault.ClassOf(err) != c.class {
				t.Errorf("class %s, want %s", fault.ClassOf(err), c.class)
			}
		})
	}
	if rows, _, err := finish(t, n, ProgramRequest{Artifact: id, Files: in}); err != nil || len(rows) != 3 {
		t.Errorf("a job after those: %v, %v", rows, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "data", programsDir)); err != nil || len(left) > 0 {
		t.Errorf("folders of programs are left: %v, %v", left, err)
	}
}

// A process that leaves the group and outlives its program is found and killed.
func TestOrphans(t *testing.T) {
	n, dir, id := programNode(t)
	_, _, err := finish(t, n, ProgramRequest{Artifact: id, Files: []string{filepath.Join(dir, "in.txt")}, Attempts: 1, Params: map[string]string{"mode": "orphan"}})
	if err == nil || !strings.Contains(err.Error(), "other processes") {
		t.Errorf("the job ended with %v", err)
	}
	for _, pid := range started(t, n) {
		gone(t, pid)
	}
}

// started returns the processes that logs speak of.
func started(t *testing.T, n *Node) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir(n.logs.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		logs, err := n.TaskLogs(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range logs {
			f, err := n.OpenTaskLog(l.Attempt)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(f)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if rest, ok := strings.CutPrefix(line, "started "); ok {
					pid, err := strconv.Atoi(strings.TrimSpace(rest))
					if err != nil {
						t.Fatal(err)
					}
					pids = append(pids, pid)
				}
			}
		}
	}
	if len(pids) == 0 {
		t.Error("no log speaks of a process")
	}
	return pids
}

// alive reports whether a process runs; one that waits to be reaped doesn't.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// gone waits for the end of a process that was killed: the system takes a moment.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 2000 {
		if !alive(pid) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("process %d is alive", pid)
}

// Killing a job ends its processes, and those that they started.
func TestKillProgram(t *testing.T) {
	n, dir, id := programNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	run, err := n.RunProgram(ctx, ProgramRequest{Artifact: id, Files: []string{filepath.Join(dir, "in.txt")},
		Limits: engine.Limits{Processes: 5}, Params: map[string]string{"mode": "fork"}})
	if err != nil {
		t.Fatal(err)
	}
	for { // until the program has started its process
		if logs, err := n.TaskLogs(string(run.ID())); err == nil && len(logs) > 0 && logs[0].Bytes > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	pids := started(t, n)
	cancel()
	if _, err := run.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a killed job ended with %v", err)
	}
	for _, pid := range pids {
		gone(t, pid)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
}

func TestProgramRequests(t *testing.T) {
	n, dir, id := programNode(t)
	in := []string{filepath.Join(dir, "in.txt")}
	run(t, n, "CREATE TABLE words (count bigint, word string, note string) ROW KEY (word)")
	run(t, n, "CREATE TABLE other (word int, count bigint) ROW KEY (word)")
	script, err := n.PutArtifact(t.Context(), strings.NewReader("#!/bin/sh\necho I am a script\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		r    ProgramRequest
		want string
	}{
		"no program":    {ProgramRequest{Program: "wordcont", Files: in}, `no program "wordcont" (did you mean "wordcount"?)`},
		"other program": {ProgramRequest{Program: "word", Artifact: id, Files: in}, `the file has no program "word" (did you mean "words"?)`},
		"no file":       {ProgramRequest{Program: "wordcount", Files: []string{filepath.Join(dir, "in.tx")}}, `did you mean "in.txt"?`},
		"a table":       {ProgramRequest{Program: "wordcount", Table: "words"}, "reads lines of text files"},
		"no table":      {ProgramRequest{Program: "rowcount", Table: "word"}, `did you mean "words"?`},
		"files":         {ProgramRequest{Program: "rowcount", Files: in}, "reads the rows of a table"},
		"two outputs":   {ProgramRequest{Program: "wordcount", Files: in, Dir: "x", Into: "words"}, "not both"},
		"types":         {ProgramRequest{Program: "wordcount", Files: in, Into: "other"}, "its column word is string, the output's is int"},
		"condition":     {ProgramRequest{Program: "rowcount", Table: "words", Where: "cont > 1"}, `did you mean "count"?`},
		"two":           {ProgramRequest{Program: "rowcount", Table: "words", Where: "true); DROP TABLE words; SELECT (1"}, "want one expression"},
		"reduces":       {ProgramRequest{Program: "wordcount", Files: in, Reduces: -1}, "-1 reduces"},
		"limits":        {ProgramRequest{Program: "wordcount", Files: in, Limits: engine.Limits{Memory: 1}}, "memory in bytes: 1 is less"},
		"no such":       {ProgramRequest{Artifact: strings.Repeat("0", 64), Files: in}, "there is no artifact"},
		"bad id":        {ProgramRequest{Artifact: "../../etc/passwd", Files: in}, "want 64 hexadecimal digits"},
		"a script":      {ProgramRequest{Artifact: script, Files: in}, "I am a script"},
	} {
		_, _, err := finish(t, n, c.r)
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.ClassOf(err) != fault.User {
			t.Errorf("%s: %v (%s), want %q", name, err, fault.ClassOf(err), c.want)
		}
	}
}

// Rows go into a table by the names of their columns, all at once.
func TestProgramIntoTable(t *testing.T) {
	n, dir, id := programNode(t)
	run(t, n, "CREATE TABLE words (count bigint, word string, note string) ROW KEY (word); INSERT INTO words VALUES (5, 'old', 'x')")
	r := ProgramRequest{Artifact: id, Files: []string{filepath.Join(dir, "in.txt")}, Into: "words"}
	if _, _, err := finish(t, n, r); err != nil {
		t.Fatal(err)
	}
	if got := run(t, n, "SELECT * FROM words ORDER BY word"); got != "2 a NULL;1 b NULL;1 c NULL;5 old x" {
		t.Errorf("rows %s", got)
	}
	r.Params, r.Attempts = map[string]string{"mode": "error"}, 1
	if _, _, err := finish(t, n, r); err == nil {
		t.Error("the job succeeded")
	}
	r.Params, r.Overwrite = nil, true
	if _, _, err := finish(t, n, r); err != nil {
		t.Fatal(err)
	}
	if got := run(t, n, "SELECT * FROM words ORDER BY word"); got != "2 a NULL;1 b NULL;1 c NULL" {
		t.Errorf("rows %s", got)
	}
	for where, want := range map[string]string{"": "3", "word >= 'b'": "2", "count = 2 and word = 'a'": "1", "1 = 0": "0", "word = 'zz'": "0"} {
		rows, _, err := finish(t, n, ProgramRequest{Program: "rowcount", Table: "words", Where: where})
		if err != nil || strings.Join(rows, ",") != want {
			t.Errorf("rowcount where %q: %v, %v, want %s", where, rows, err, want)
		}
	}
}

// Rows of partitioned and external tables are read, partition columns too; views and
// conditions that the scan can't evaluate are refused, not half read.
func TestProgramOverTables(t *testing.T) {
	n, dir, _ := programNode(t)
	run(t, n, `CREATE TABLE p (id int) PARTITIONED BY (day string);
		INSERT INTO p PARTITION (day = 'mon') VALUES (1), (2);
		INSERT INTO p PARTITION (day = 'tue') VALUES (3);
		CREATE VIEW v AS SELECT * FROM p WHERE id > 1`)
	for _, c := range []struct{ table, where, want string }{
		{"p", "", "3"}, {"p", "day = 'mon'", "2"}, {"p", "id = 3", "1"}, {"p", "day = 'wed'", "0"},
	} {
		rows, _, err := finish(t, n, ProgramRequest{Program: "rowcount", Table: c.table, Where: c.where})
		if err != nil || strings.Join(rows, ",") != c.want {
			t.Errorf("rowcount of %s where %q: %v, %v, want %s", c.table, c.where, rows, err, c.want)
		}
	}
	for _, r := range []ProgramRequest{{Program: "rowcount", Table: "v"}, {Program: "rowcount", Table: "p", Where: "concat(id, 'x') = '1x'"},
		{Program: "wordcount", Files: []string{filepath.Join(dir, "in.txt")}, Into: "p"}} {
		if _, _, err := finish(t, n, r); fault.StateOf(err) != fault.StateUnsupported {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// Files appear all at once, and an output that is there is refused.
func TestProgramIntoFiles(t *testing.T) {
	n, dir, id := programNode(t)
	out := filepath.Join(dir, "out")
	r := ProgramRequest{Artifact: id, Files: []string{filepath.Join(dir, "in.txt")}, Dir: out, Reduces: 1, Params: map[string]string{"mode": "error"}, Attempts: 1}
	if _, _, err := finish(t, n, r); err == nil {
		t.Error("the job succeeded")
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a job that failed left an output: %v", err)
	}
	r.Params = nil
	if _, _, err := finish(t, n, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "part-00000.tsv"))
	if err != nil || string(text) != "a\t2\nb\t1\nc\t1\n" {
		t.Errorf("read %q, %v", text, err)
	}
	if _, _, err := finish(t, n, r); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("over an output that is there: %v", err)
	}
	r.Overwrite, r.Header = true, true
	if _, _, err := finish(t, n, r); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(out, "part-00000.tsv")); err != nil || !strings.HasPrefix(string(text), "word\tcount\na\t2\n") {
		t.Errorf("read %q, %v", text, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left", e.Name())
		}
	}
}
