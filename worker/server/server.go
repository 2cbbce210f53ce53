// Package server is a worker's line to its master: it registers the worker, keeps
// its lease with heartbeats, starts what it is told, and reports how it went. A line
// that breaks is made anew; what has ended meanwhile is told again until the master
// has acknowledged it.
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	clusterpb "github.com/skepdb/skep/api/cluster"
	jobspb "github.com/skepdb/skep/api/jobs"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
	"github.com/skepdb/skep/worker"
)

// Clock is where the time comes from.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d, unless stopped before.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// Member is a worker that the master says is there.
type Member struct {
	cluster.Worker
	Folders int // data folders
}

// Options make a Line.
type Options struct {
	Worker      *worker.Worker
	Folders     int    // data folders, whose regions the worker serves
	Incarnation string // names this process
	Codec       wire.Codec
	// Connect returns a connection to the master. It is called again when a line has
	// ended; the line closes what it returned.
	Connect func(ctx context.Context) (Conn, error)
	// Members hears of the workers that are there. It must not block. nil: nobody.
	Members func([]Member)
	// Kept hears, when the worker starts afresh, which jobs' map output may still be
	// wanted. nil: nobody.
	Kept func(jobs []string)
	// Ended, if not nil, hears of each attempt's end before the master does: tests
	// stop the process there.
	Ended func(jobs.AttemptID)
	Clock Clock // nil: the system's
	// Retry is the pause before a new line, which doubles up to MaxRetry. Defaults
	// 100 ms, 2 s.
	Retry, MaxRetry time.Duration
	Logger          *slog.Logger // nil: none
}

// Conn is a connection to the master.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
}

// Line is a worker's connection to its master. Run makes it work.
type Line struct {
	o Options

	mu      sync.Mutex
	running map[jobs.AttemptID]bool
	unacked map[jobs.AttemptID]*jobspb.Result
	idle    chan struct{} // closed and renewed when an attempt has ended
	queue   []*clusterpb.FromWorker
	signal  chan struct{}
	lease   time.Duration
	up      chan struct{} // closed when the master has first accepted the worker
	isUp    bool
	// welcomed says that the last line got as far as a welcome.
	welcomed bool
}

// New returns a line that does nothing before Run.
func New(o Options) *Line {
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Retry <= 0 {
		o.Retry = 100 * time.Millisecond
	}
	if o.MaxRetry <= 0 {
		o.MaxRetry = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Line{
		o: o, running: map[jobs.AttemptID]bool{}, unacked: map[jobs.AttemptID]*jobspb.Result{},
		idle: make(chan struct{}), signal: make(chan struct{}, 1), up: make(chan struct{}),
	}
}

// Up is closed when the master has accepted the worker.
func (l *Line) Up() <-chan struct{} { return l.up }

// Run keeps a line to the master until ctx ends, or until the master refuses the
// worker for good: it is of another version, or its id is taken. An attempt that
// runs when Run returns is cancelled by whoever closes the worker.
func (l *Line) Run(ctx context.Context) error {
	pause := l.o.Retry
	for {
		err := l.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case fault.ClassOf(err) == fault.User:
			return err
		}
		l.mu.Lock()
		if l.welcomed {
			pause, l.welcomed = l.o.Retry, false // there was a line: only it is broken
		}
		l.mu.Unlock()
		text := "the master ended it"
		if err != nil {
			text = err.Error()
		}
		l.o.Logger.Warn("no line to the master, trying again", "in", pause.String(), "because", text)
		l.sleep(ctx, pause)
		pause = min(2*pause, l.o.MaxRetry)
	}
}

func (l *Line) sleep(ctx context.Context, d time.Duration) {
	over := make(chan struct{})
	stop := l.o.Clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// once has one line, from registration to its end.
func (l *Line) once(ctx context.Context) (err error) {
	conn, err := l.o.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := conn.Close(); err == nil {
			err = cerr
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := clusterpb.NewClusterClient(conn).Attach(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&clusterpb.FromWorker{Message: &clusterpb.FromWorker_Register{Register: l.register()}}); err != nil && err != io.EOF {
		return err
	}
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	welcome := m.GetWelcome()
	if welcome == nil || welcome.GetLeaseNs() <= 0 {
		return fault.Bugf("attach: the master's first message is no welcome")
	}
	if err := l.welcome(ctx, welcome, stream.Send); err != nil {
		return err
	}
	var sending sync.WaitGroup
	sent := make(chan error, 1)
	sending.Go(func() {
		sent <- l.pump(ctx, stream.Send)
		cancel() // a line that can't be written on is no line
	})
	defer sending.Wait()
	defer cancel()
	for {
		m, err := stream.Recv()
		if err != nil {
			cancel()
			if serr := <-sent; serr != nil && !errors.Is(serr, context.Canceled) && !errors.Is(serr, io.EOF) {
				err = serr
			}
			if err == io.EOF {
				err = nil
			}
			return err
		}
		l.take(m)
	}
}

// register says who the worker is and what it runs, or ran without knowing that the
// master knows.
func (l *Line) register() *clusterpb.Register {
	w := l.o.Worker.Identity()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = nil // told again below
	reg := &clusterpb.Register{
		Worker: &clusterpb.Worker{
			Id: string(w.ID), Name: w.Name, Host: w.Host, Rack: w.Rack, Slots: int32(w.Slots), Address: w.Address,
		},
		Folders: int32(l.o.Folders), Incarnation: l.o.Incarnation,
	}
	for id := range l.running {
		reg.Running = append(reg.Running, wire.Attempt(id))
	}
	for id := range l.unacked {
		reg.Running = append(reg.Running, wire.Attempt(id))
	}
	return reg
}

// welcome goes on with what runs, or ends it first.
func (l *Line) welcome(ctx context.Context, m *clusterpb.Welcome, send func(*clusterpb.FromWorker) error) error {
	l.mu.Lock()
	l.lease, l.welcomed = time.Duration(m.GetLeaseNs()), true
	l.mu.Unlock()
	if m.GetResumed() {
		l.mu.Lock()
		for _, r := range l.unacked {
			l.enqueue(&clusterpb.FromWorker{Message: &clusterpb.FromWorker_Ended{Ended: r}})
		}
		l.mu.Unlock()
		return nil
	}
	l.mu.Lock()
	for id := range l.running {
		l.o.Worker.Cancel(id)
	}
	for len(l.running) > 0 {
		idle := l.idle
		l.mu.Unlock()
		// Cancelled attempts end soon; the lease goes on meanwhile.
		stop := l.o.Clock.AfterFunc(l.beat(), func() {
			_ = send(&clusterpb.FromWorker{Message: &clusterpb.FromWorker_Heartbeat{Heartbeat: &clusterpb.Heartbeat{}}})
		})
		select {
		case <-idle:
		case <-ctx.Done():
			stop()
			return ctx.Err()
		}
		stop()
		l.mu.Lock()
	}
	// Nobody waits for these any more.
	clear(l.unacked)
	l.queue = nil
	l.mu.Unlock()
	if l.o.Kept != nil {
		l.o.Kept(m.GetJobs())
	}
	if err := send(&clusterpb.FromWorker{Message: &clusterpb.FromWorker_Ready{Ready: &clusterpb.Ready{}}}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isUp {
		l.isUp = true
		close(l.up)
	}
	return nil
}

// beat is the time between two heartbeats.
func (l *Line) beat() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.lease/4, time.Millisecond)
}

// enqueue has a message sent. mu is held.
func (l *Line) enqueue(m *clusterpb.FromWorker) {
	l.queue = append(l.queue, m)
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// pump sends what is queued, and heartbeats.
func (l *Line) pump(ctx context.Context, send func(*clusterpb.FromWorker) error) error {
	for {
		due := make(chan struct{})
		stop := l.o.Clock.AfterFunc(l.beat(), func() { close(due) })
		beat := false
		select {
		case <-l.signal:
		case <-due:
			beat = true
		case <-ctx.Done():
			stop()
			return ctx.Err()
		}
		stop()
		l.mu.Lock()
		queue := l.queue
		l.queue = nil
		l.mu.Unlock()
		if beat {
			queue = append(queue, &clusterpb.FromWorker{Message: &clusterpb.FromWorker_Heartbeat{Heartbeat: &clusterpb.Heartbeat{}}})
		}
		for _, m := range queue {
			if err := send(m); err != nil {
				return err
			}
		}
	}
}

// take does what the master says.
func (l *Line) take(m *clusterpb.ToWorker) {
	switch m := m.GetMessage().(type) {
	case *clusterpb.ToWorker_Launch:
		l.launch(m.Launch)
	case *clusterpb.ToWorker_Cancel:
		id := wire.AttemptOf(m.Cancel)
		l.o.Worker.Cancel(id)
	case *clusterpb.ToWorker_Drop:
		l.o.Worker.Drop(jobs.ID(m.Drop))
	case *clusterpb.ToWorker_Ack:
		l.mu.Lock()
		delete(l.unacked, wire.AttemptOf(m.Ack))
		l.mu.Unlock()
	case *clusterpb.ToWorker_Members:
		if l.o.Members == nil {
			return
		}
		out := make([]Member, 0, len(m.Members.GetMembers()))
		for _, p := range m.Members.GetMembers() {
			w := p.GetWorker()
			out = append(out, Member{Folders: int(p.GetFolders()), Worker: cluster.Worker{
				ID: cluster.WorkerID(w.GetId()), Name: w.GetName(), Host: w.GetHost(), Rack: w.GetRack(),
				Slots: int(w.GetSlots()), Address: w.GetAddress(),
			}})
		}
		l.o.Members(out)
	}
}

func (l *Line) launch(p *jobspb.Assignment) {
	id := wire.AttemptOf(p.GetId())
	a, err := l.o.Codec.AssignmentOf(p)
	if err == nil {
		l.mu.Lock()
		if l.running[id] || l.unacked[id] != nil {
			l.mu.Unlock()
			return // known already
		}
		l.running[id] = true
		l.mu.Unlock()
		// The attempt's context is not the line's: it outlives it.
		err = l.o.Worker.Launch(context.Background(), a, reporter{l})
	}
	if err != nil {
		reporter{l}.Ended(jobs.Result{ID: id, Err: err, Unavailable: errors.Is(err, fault.ErrUnavailable)})
	}
}

// maxQueue bounds what waits for a line; news that doesn't matter is left out then.
const maxQueue = 4096

// reporter tells the master what the worker says.
type reporter struct{ l *Line }

func (r reporter) Started(id jobs.AttemptID) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.enqueue(&clusterpb.FromWorker{Message: &clusterpb.FromWorker_Started{Started: wire.Attempt(id)}})
}

func (r reporter) Progress(id jobs.AttemptID, share float64) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if len(r.l.queue) > maxQueue {
		return
	}
	r.l.enqueue(&clusterpb.FromWorker{Message: &clusterpb.FromWorker_Progress{Progress: &clusterpb.Progress{Id: wire.Attempt(id), Share: share}}})
}

func (r reporter) Ended(result jobs.Result) {
	l := r.l
	if l.o.Ended != nil {
		l.o.Ended(result.ID)
	}
	p, err := l.o.Codec.Result(&result)
	if err != nil {
		p, _ = l.o.Codec.Result(&jobs.Result{ID: result.ID, Err: err}) // of this nothing can fail
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, result.ID)
	l.unacked[result.ID] = p
	l.enqueue(&clusterpb.FromWorker{Message: &clusterpb.FromWorker_Ended{Ended: p}})
	close(l.idle)
	l.idle = make(chan struct{})
}

// Log sends what an attempt has written to its log.
func (l *Line) Log(id jobs.AttemptID, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > maxQueue {
		return
	}
	l.enqueue(&clusterpb.FromWorker{Message: &clusterpb.FromWorker_Log{Log: &jobspb.LogChunk{Id: wire.Attempt(id), Text: slices.Clone(text)}}})
}

// Running returns the attempts that run.
func (l *Line) Running() []jobs.AttemptID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.running))
}
