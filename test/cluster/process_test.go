package cluster

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skepdb/skep/frontend"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/builtin"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/node"
	"github.com/skepdb/skep/scheduler"
	"github.com/skepdb/skep/sql/parser"
	"go.uber.org/goleak"
)

// The test program is also the nodes that it starts: with childVariable set it runs
// one and nothing else.
const (
	childVariable = "SKEP_TEST_NODE" // role;data;join or listen;kill after so many attempts;script
	lease         = 600 * time.Millisecond
)

var seeds = flag.Int("seeds", 3, "runs of each test that kills processes")

func TestMain(m *testing.M) {
	if os.Getenv(mapreduce.ChildVariable) != "" {
		mapreduce.Main(builtin.WordCount()) // a user's program, in a child process
	}
	if spec := os.Getenv(childVariable); spec != "" {
		os.Exit(child(spec))
	}
	goleak.VerifyTestMain(m)
}

// child is a node that may kill itself, as kill -9 does, when it has seen some attempts end.
func child(spec string) int {
	part := strings.SplitN(spec, ";", 5)
	after, err := strconv.Atoi(part[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	o := node.StartOptions{
		Options: node.Options{Data: []string{part[1]}, Slots: 2, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))},
		Role:    part[0], Hostname: "here", Lease: lease,
	}
	if o.Role == node.RoleWorker {
		o.Join = []string{part[2]}
	} else {
		o.Listen = part[2]
	}
	var ended atomic.Int64
	o.AttemptEnded = func(jobs.AttemptID) {
		if after > 0 && ended.Add(1) == int64(after) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it is on its way
		}
	}
	p, err := node.Start(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(p.Address())
	in := bufio.NewReader(os.Stdin)
	if part[4] != "" {
		if _, err := in.ReadString('\n'); err != nil { // until there are workers
			return 1
		}
		go func() { // for the life of the process
			s, err := p.Node.Session(context.Background(), frontend.Options{})
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			for _, piece := range parser.Split(part[4]) {
				if err := s.Start(context.Background(), piece).Wait(context.Background()); err != nil {
					fmt.Fprintln(os.Stderr, "script:", err)
				}
			}
			fmt.Println("script done")
		}()
	}
	_, _ = in.ReadString('\n') // until the parent goes
	return 0
}

// process is a node in a process of its own.
type process struct {
	cmd     *exec.Cmd
	out     *bufio.Scanner
	address string
	in      io.WriteCloser
}

func spawn(t *testing.T, role, data, at string, after int, script string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s;%s;%s;%d;%s", childVariable, role, data, at, after, script))
	log, err := os.OpenFile(data+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, out: bufio.NewScanner(out), in: in}
	t.Cleanup(func() { _ = p.kill() })
	if !p.out.Scan() {
		text, _ := os.ReadFile(data + ".log")
		t.Fatalf("%s %s did not start:\n%s", role, data, text)
	}
	p.address = p.out.Text()
	return p
}

// wait returns when the process has ended.
func (p *process) wait() {
	for p.out.Scan() {
	}
	_ = p.cmd.Wait()
}

func (p *process) kill() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	p.wait()
	_ = p.in.Close() // Wait has closed it, as a rule
	return err
}

// rows are the numbers from 1 to n with their towns, as VALUES.
func values(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if i > 1 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "(%d, 't%d')", i, i%7)
	}
	return b.String()
}

const nRows = 300

func startMaster(t *testing.T, dir string, o node.StartOptions) *cluster {
	t.Helper()
	o.Options.Data, o.Role, o.Hostname, o.Lease = []string{filepath.Join(dir, "m")}, node.RoleMaster, "here", lease
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	p, err := node.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &cluster{t: t, master: p}
}

// fill makes a table of eight regions with the numbers, and an empty one without key, in
// which a row that is written twice shows.
func (c *cluster) fill() {
	c.t.Helper()
	c.run("CREATE TABLE src (id int, town string) SPLIT INTO 8; INSERT INTO src VALUES " + values(nRows) +
		"; CREATE TABLE dst (id int, town string) SPLIT INTO 4; CREATE TABLE sums (town string, n bigint, s bigint)")
}

const (
	copyRows = "INSERT INTO dst SELECT id, town FROM src"
	sumRows  = "INSERT INTO sums SELECT town, count(*), sum(id) FROM src GROUP BY town"
)

func (c *cluster) checkOnce(what string) {
	c.t.Helper()
	if got, want := c.run("SELECT count(*), count(DISTINCT id), sum(id) FROM dst"), fmt.Sprintf("%d %d %d", nRows, nRows, nRows*(nRows+1)/2); got != want {
		c.t.Errorf("%s: the copied rows are %s, want %s", what, got, want)
	}
}

// A worker that is killed at any point of a job costs nothing but time if it comes back: the job
// ends well, and no row is there twice.
func TestKilledWorkerComesBack(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 7))
			dir := t.TempDir()
			c := startMaster(t, dir, node.StartOptions{})
			at := c.master.Address()
			data := []string{filepath.Join(dir, "w0"), filepath.Join(dir, "w1")}
			w := []*process{spawn(t, node.RoleWorker, data[0], at, 0, ""), spawn(t, node.RoleWorker, data[1], at, 0, "")}
			c.fill()
			victim := rnd.IntN(2)
			if err := w[victim].kill(); err != nil {
				t.Fatal(err)
			}
			after := 1 + rnd.IntN(5)
			statement, check := copyRows, func() { c.checkOnce("copy") }
			if rnd.IntN(2) == 0 {
				statement, check = sumRows, func() {
					if got, want := c.run("SELECT count(*), sum(n), sum(s) FROM sums"), fmt.Sprintf("7 %d %d", nRows, nRows*(nRows+1)/2); got != want {
						t.Errorf("sums %s, want %s", got, want)
					}
				}
			}
			w[victim] = spawn(t, node.RoleWorker, data[victim], at, after, "")
			done := make(chan error, 1)
			go func() {
				_, err := c.try(statement)
				// It may have had fewer attempts than it was to die after.
				_ = w[victim].cmd.Process.Kill()
				done <- err
			}()
			w[victim].wait()
			back := spawn(t, node.RoleWorker, data[victim], at, 0, "")
			if err := <-done; err != nil {
				t.Fatalf("worker %d killed after %d attempts: %v", victim, after, err)
			}
			check()
			if err := back.kill(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A worker that doesn't come back: the job waits and says for whom, then fails in a way
// that says that it may be tried again; with the worker back it succeeds.
func TestKilledWorkerStaysAway(t *testing.T) {
	dir := t.TempDir()
	c := startMaster(t, dir, node.StartOptions{Scheduler: scheduler.Options{ParkLimit: 1500}})
	at := c.master.Address()
	spawn(t, node.RoleWorker, filepath.Join(dir, "w0"), at, 0, "")
	w := spawn(t, node.RoleWorker, filepath.Join(dir, "w1"), at, 0, "")
	c.fill()
	if err := w.kill(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := c.try("SELECT sum(id) FROM src"); done <- err }()
	waiting := ""
	var err error
	for waiting == "" && err == nil {
		select {
		case err = <-done:
		case <-time.After(10 * time.Millisecond): // asks again, nothing depends on how often
			for _, st := range c.master.Node.Jobs() {
				for _, stage := range st.Stages {
					if stage.Parked > 0 {
						waiting = stage.Waiting
						if stage.Failed > 0 {
							t.Errorf("%d attempts failed", stage.Failed)
						}
					}
				}
			}
		}
	}
	if !strings.Contains(waiting, "for worker") || !strings.Contains(waiting, "has not been there for") {
		t.Errorf("the job waits for %q (it ended with %v)", waiting, err)
	}
	if err == nil {
		err = <-done
	}
	if fault.ClassOf(err) != fault.Retryable || !strings.Contains(fmt.Sprint(err), "only copy") {
		t.Errorf("the job ended with %v", err)
	}
	spawn(t, node.RoleWorker, filepath.Join(dir, "w1"), at, 0, "")
	if got, want := c.run("SELECT sum(id) FROM src"), fmt.Sprint(nRows*(nRows+1)/2); got != want {
		t.Errorf("with the worker back: %s, want %s", got, want)
	}
}

// A master that is killed at any point of a job goes on with it when it starts again:
// published once, and what had won stays won.
func TestKilledMasterGoesOn(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 8))
			dir := t.TempDir()
			data := filepath.Join(dir, "m")
			m := spawn(t, node.RoleMaster, data, "127.0.0.1:0", 0, "CREATE TABLE src (id int, town string) SPLIT INTO 8; INSERT INTO src VALUES "+values(nRows)+
				"; CREATE TABLE dst (id int, town string) SPLIT INTO 4; "+copyRows)
			at := m.address
			spawn(t, node.RoleWorker, filepath.Join(dir, "w0"), at, 0, "")
			spawn(t, node.RoleWorker, filepath.Join(dir, "w1"), at, 0, "")
			if _, err := io.WriteString(m.in, "go\n"); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			cl, err := node.Connect(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			// The copying is the second job; somewhere in it the master goes.
			after := rnd.IntN(8)
			for seen := false; !seen; <-time.After(time.Millisecond) {
				all, err := cl.List(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, st := range all {
					if strings.HasPrefix(st.Name, copyRows) {
						done := 0
						for _, stage := range st.Stages {
							done += stage.Done
						}
						seen = done >= after || st.State > jobs.Running
					}
				}
			}
			if err := m.kill(); err != nil {
				t.Fatal(err)
			}
			if err := cl.Close(); err != nil {
				t.Error(err)
			}
			c := startMaster(t, dir, node.StartOptions{Listen: at})
			for over := false; !over; <-time.After(time.Millisecond) {
				for _, st := range c.master.Node.Jobs() {
					if strings.HasPrefix(st.Name, copyRows) && st.State > jobs.Running {
						over = true
						if st.State != jobs.Succeeded {
							t.Errorf("the job ended %s: %s", st.State, st.Error)
						}
					}
				}
			}
			c.checkOnce(fmt.Sprintf("master killed after %d tasks", after))
		})
	}
}

// Scans run where the regions are, and the status says so.
func TestScansAreLocal(t *testing.T) {
	dir := t.TempDir()
	c := startMaster(t, dir, node.StartOptions{})
	for _, w := range []string{"w0", "w1", "w2"} {
		spawn(t, node.RoleWorker, filepath.Join(dir, w), c.master.Address(), 0, "")
	}
	c.run("CREATE TABLE src (id int, town string) SPLIT INTO 12; INSERT INTO src VALUES " + values(nRows))
	local, placed := 0, 0
	for range 5 {
		c.run("SELECT town, count(*) FROM src GROUP BY town")
	}
	for _, st := range c.master.Node.Jobs() {
		for _, stage := range st.Stages {
			local, placed = local+stage.Local, placed+stage.Placed
			if stage.Warning != "" {
				t.Errorf("%s: %s", st.Name, stage.Warning)
			}
		}
	}
	if placed < 50 || local*100 < placed*95 {
		t.Errorf("%d of %d tasks ran on the worker that holds their region", local, placed)
	}
}
