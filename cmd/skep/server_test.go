package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process starts skep as a process of its own and returns the first address that it
// prints.
func process(t *testing.T, args ...string) (address string) {
	t.Helper()
	c := exec.Command("skep", args...)
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout = c.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	addresses := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(addresses)
		found := false
		for s := bufio.NewScanner(out); s.Scan(); {
			if a := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(s.Text()); a != "" && !found {
				found = true
				addresses <- a
			}
		}
	}()
	t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		<-read
		_ = c.Wait() // an interrupt may be told by the exit code
	})
	return <-addresses
}

// skep runs a command and returns its output and exit code.
func skep(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	c := exec.Command("skep", args...)
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), code
}

// A server, a worker that joined it, and clients, each a process.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	server := process(t, "start", "--data", one, "--listen", "127.0.0.1:0")
	worker := process(t, "start", "--role", "worker", "--data", two, "--join", server)
	file := filepath.Join(dir, "birds.tsv")
	if err := os.WriteFile(file, []byte("id\tname\n1\tTurdus merula\n2\tParus major\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		out  string // exactly
		err  string // a part
		code int
	}{
		{args: []string{"table", "create", "birds", "id int, name string", "--key", "id"}},
		{args: []string{"table", "load", "birds", file, "--header"}, err: "2 rows"},
		{args: []string{"table", "put", "birds", "id=3", "name=Corvus corax"}},
		{args: []string{"table", "get", "birds", "3"}, out: "id    3\nname  Corvus corax\n"},
		{args: []string{"table", "count", "birds"}, out: "3\n"},
		{args: []string{"sql", "-e", "SELECT name FROM birds WHERE id < 3 ORDER BY id"}, out: "Turdus merula\nParus major\n"},
		{args: []string{"sql", "-e", "SELECT nme FROM birds"}, err: "name", code: 1},
		{args: []string{"job", "list"}, out: "job  state  done  local  name\n"},
		{args: []string{"job", "status", "job_0"}, err: "no job", code: 1},
	} {
		out, errOut, code := skep(t, append(c.args, "--server", server)...)
		if code != c.code || c.out != "" && out != c.out || !strings.Contains(errOut+out, c.err) {
			t.Errorf("%q: exit code %d\n%s%s", c.args, code, out, errOut)
		}
	}
	for _, c := range []struct {
		args []string
		err  string
		code int
	}{
		{[]string{"--data", one}, "--server " + server, 1},
		{[]string{"--data", one, "--server", server}, "exclude each other", 2},
		{[]string{"--server", worker}, "ask its master: --server " + server, 1},
		{[]string{"--server", "127.0.0.1:1"}, "no server answers at 127.0.0.1:1", 1},
		{[]string{"--server", "somewhere"}, "HOST:PORT", 1},
	} {
		if _, errOut, code := skep(t, append([]string{"sql", "-e", "SELECT 1"}, c.args...)...); code != c.code || !strings.Contains(errOut, c.err) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.err, errOut)
		}
	}
	interrupt(t, "--server", server)
	if out, errOut, _ := skep(t, "job", "history", "--server", server); !strings.Contains(out, "killed") {
		t.Errorf("history:\n%s%s", out, errOut)
	}
	if out, errOut, _ := skep(t, "sql", "-e", "SELECT count(*) FROM birds", "--server", server); out != "3\n" {
		t.Errorf("after it all: %s%s", out, errOut)
	}
}

// interrupt presses Ctrl-C while a query runs: it ends with 130, and its slots are
// free at once.
func interrupt(t *testing.T, place ...string) {
	t.Helper()
	numbers := strings.Repeat("1 x UNION ALL SELECT ", 39) + "1 x"
	endless := "WITH n AS (SELECT " + numbers + ") SELECT count(*) FROM n a CROSS JOIN n b CROSS JOIN n c CROSS JOIN n d CROSS JOIN n e CROSS JOIN n f WHERE a.x + b.x + c.x + d.x + e.x + f.x = 0"
	c := exec.Command("skep", append([]string{"sql", "-e", endless}, place...)...)
	var errOut bytes.Buffer
	c.Stderr = &errOut
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for running := false; !running; time.Sleep(20 * time.Millisecond) {
		out, _, _ := skep(t, append([]string{"job", "list", "--json"}, place...)...)
		running = strings.Contains(out, `"state":"running"`)
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("after Ctrl-C: %v\n%s", err, errOut.String())
	}
	// The client waits for the end at the server: nothing runs any more.
	if out, _, _ := skep(t, append([]string{"job", "list", "--json"}, place...)...); strings.Contains(out, `"running":1`) || strings.Contains(out, `"state":"running"`) {
		t.Errorf("after Ctrl-C there still runs:\n%s", out)
	}
}

// Without a server the last jobs are remembered in the data folder.
func TestHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, errOut, code := skep(t, "sql", "--data", dir, "-e", "CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2); SELECT count(*) FROM t"); code != 0 {
		t.Fatal(errOut)
	}
	out, errOut, code := skep(t, "job", "history", "--data", dir)
	if code != 0 || strings.Count(out, "succeeded") != 2 || !strings.Contains(out, "SELECT count(*) FROM t") {
		t.Errorf("history, exit code %d:\n%s%s", code, out, errOut)
	}
	id := regexp.MustCompile(`job_\d+_\d+`).FindString(out)
	if out, errOut, _ := skep(t, "job", "status", id, "--data", dir); !strings.Contains(out, "state   succeeded") || !strings.Contains(out, "rows    2") {
		t.Errorf("status:\n%s%s", out, errOut)
	}
	if out, _, _ := skep(t, "job", "counters", id, "--data", dir, "--json"); !strings.Contains(out, "rows_out") {
		t.Errorf("counters: %s", out)
	}
	if _, errOut, code := skep(t, "job", "kill", id+"0", "--data", dir); code != 1 || !strings.Contains(errOut, id) {
		t.Errorf("an unknown job, exit code %d: %s", code, errOut)
	}
}

func TestPlace(t *testing.T) {
	env := func(server, data string) func(string) string {
		return func(name string) string { return map[string]string{envServer: server, envData: data}[name] }
	}
	for _, c := range []struct {
		name         string
		f            placeFlags
		server, data string
		want         string // the server, or the folders
		usage        bool
	}{
		{name: "nothing"},
		{name: "flag before environment", f: placeFlags{data: []string{"d"}}, server: "s:1", want: "d"},
		{name: "server flag before environment", f: placeFlags{server: "f:1"}, server: "s:1", data: "e", want: "f:1"},
		{name: "environment's server", server: "s:1", want: "s:1"},
		{name: "environment's folders", data: "a:b", want: "a b"},
		{name: "both flags", f: placeFlags{server: "f:1", data: []string{"d"}}, usage: true},
		{name: "both in the environment", server: "s:1", data: "e", usage: true},
	} {
		got, err := c.f.resolve(env(c.server, c.data))
		if usage := (*usageError)(nil); errors.As(err, &usage) != c.usage {
			t.Errorf("%s: error %v", c.name, err)
		}
		if err == nil && strings.Join(got.data, " ")+got.server != c.want {
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
	}
}
