package server

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	clusterpb "github.com/skepdb/skep/api/cluster"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
)

// DefaultLease is how long a worker may be silent before it is given up.
const DefaultLease = 10 * time.Second

// Member is a worker of another process.
type Member struct {
	cluster.Worker
	Folders int // data folders
}

// Self is the process that the scheduler is in.
type Self struct {
	Member
	Role    string
	Running int // attempts
}

// Workers are the workers of other processes: it answers their lines, keeps their
// leases, and is their Worker to the Server. Safe for concurrent use.
//
// A worker is there from Ready until it was silent for a lease. Its line may
// break and be made anew meanwhile. Only the lease decides: the transport's opinion and
// gossip don't.
type Workers struct {
	clusterpb.UnimplementedClusterServer
	s     *Server
	codec wire.Codec
	lease time.Duration
	// changed, if not nil, hears of who is there now; in order.
	changed func([]Member)
	local   []Member
	self    func() Self

	mu       sync.Mutex
	attached map[cluster.WorkerID]*attached
	lost     map[cluster.WorkerID]*clusterpb.Node // for people
	closed   bool
	stop     chan struct{}
	// receiving are the receiving halves of lines; they end soon after their handlers.
	receiving sync.WaitGroup
}

// attached is a worker that is there, or is about to be.
type attached struct {
	w           *Workers
	member      Member
	incarnation string

	// mu of Workers guards the rest.
	line    *line // nil: broken
	ready   bool
	heard   time.Time
	since   time.Time
	live    map[jobs.AttemptID]jobs.Reporter
	expired bool
	unwatch func() bool
}

// line is one stream of a worker. What is to be sent waits in a queue, so that
// nobody waits for the network; it is bounded by what the scheduler launches.
type line struct {
	mu     sync.Mutex
	queue  []*clusterpb.ToWorker
	signal chan struct{}
	gone   chan struct{} // closed when another line has taken its place, or at the end
	once   sync.Once
}

func newLine() *line { return &line{signal: make(chan struct{}, 1), gone: make(chan struct{})} }

func (l *line) send(m *clusterpb.ToWorker) {
	l.mu.Lock()
	l.queue = append(l.queue, m)
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

func (l *line) end() { l.once.Do(func() { close(l.gone) }) }

// pump sends what is queued until the line ends.
func (l *line) pump(ctx context.Context, send func(*clusterpb.ToWorker) error) error {
	for {
		select {
		case <-l.signal:
		case <-l.gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		l.mu.Lock()
		queue := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, m := range queue {
			if err := send(m); err != nil {
				return err
			}
		}
	}
}

// WorkersOptions make a Workers.
type WorkersOptions struct {
	Codec wire.Codec
	Lease time.Duration // 0: DefaultLease
	// Changed, if not nil, hears of the workers that are there whenever that
	// changes. It must not block.
	Changed func([]Member)
	// Local are the workers of this process, for the others to know of.
	Local []Member
	// Self, if not nil, is this process, to be listed with the workers.
	Self func() Self
}

// NewWorkers returns the registry of the workers that attach to s.
func NewWorkers(s *Server, o WorkersOptions) *Workers {
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	return &Workers{
		s: s, codec: o.Codec, lease: o.Lease, changed: o.Changed, local: o.Local, self: o.Self,
		attached: map[cluster.WorkerID]*attached{}, lost: map[cluster.WorkerID]*clusterpb.Node{}, stop: make(chan struct{}),
	}
}

// Close ends all lines and leases. Workers that are there stay so for the Server.
func (w *Workers) Close() {
	defer w.receiving.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	close(w.stop)
	for _, a := range w.attached {
		if a.unwatch != nil {
			a.unwatch()
		}
		if a.line != nil {
			a.line.end()
		}
	}
}

// Attach implements the service.
func (w *Workers) Attach(stream clusterpb.Cluster_AttachServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	reg := first.GetRegister()
	if reg == nil || reg.GetWorker().GetId() == "" || reg.GetIncarnation() == "" {
		return fault.Bugf("attach: the first message registers nobody")
	}
	l := newLine()
	a, err := w.register(reg, l)
	if err != nil {
		return err
	}
	// The receiving half ends when the stream does, which is when this handler returns.
	received := make(chan error, 1)
	w.receiving.Go(func() { received <- w.receive(a, l, stream) })
	ctx, cancel := context.WithCancel(stream.Context())
	var sending sync.WaitGroup
	sent := make(chan error, 1)
	sending.Go(func() { sent <- l.pump(ctx, stream.Send) })
	select {
	case err = <-received:
	case err = <-sent:
	case <-l.gone:
		err = fault.Unavailablef("the worker has another line, or was given up")
	case <-w.stop:
		err = fault.Unavailablef("the master is closing")
	}
	cancel()
	sending.Wait()
	w.broken(a, l)
	if err == io.EOF {
		err = nil
	}
	return err
}

// register makes a line the worker's.
func (w *Workers) register(reg *clusterpb.Register, l *line) (*attached, error) {
	id := cluster.WorkerID(reg.GetWorker().GetId())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fault.Unavailablef("the master is closing")
	}
	old := w.attached[id]
	resumed := old != nil && old.incarnation == reg.GetIncarnation() && old.ready
	if old != nil && old.incarnation != reg.GetIncarnation() && old.line != nil {
		return nil, fault.Userf("worker %s is running already, at %s: is its data folder a copy?", id, old.member.Address)
	}
	a := old
	if !resumed {
		if old != nil {
			w.detach(old, "restarted")
		}
		a = &attached{w: w, incarnation: reg.GetIncarnation(), live: map[jobs.AttemptID]jobs.Reporter{}, since: w.s.o.Clock.Now()}
		w.attached[id] = a
	}
	if a.line != nil {
		a.line.end()
	}
	a.line = l
	a.member = Member{Worker: workerOf(reg.GetWorker()), Folders: int(reg.GetFolders())}
	w.hear(a)
	welcome := &clusterpb.Welcome{LeaseNs: int64(w.lease), Resumed: resumed, Jobs: w.s.liveJobs()}
	l.send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Welcome{Welcome: welcome}})
	if resumed {
		w.reconcile(a, wire.AttemptsOf(reg.GetRunning()))
		l.send(w.members())
	}
	return a, nil
}

// reconcile compares what a worker runs with what it should. mu is held.
func (w *Workers) reconcile(a *attached, running []jobs.AttemptID) {
	for id, report := range a.live {
		if !slices.Contains(running, id) {
			// The launch, or an end that the worker has never seen acknowledged and
			// will tell again, got lost. Running lists those too.
			delete(a.live, id)
			lapsed(report, id)
		}
	}
	for _, id := range running {
		if a.live[id] == nil {
			a.line.send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Cancel{Cancel: wire.Attempt(id)}})
		}
	}
}

// lapsed reports that an attempt has come to nothing, through no fault of its own.
func lapsed(report jobs.Reporter, id jobs.AttemptID) { report.Ended(jobs.Result{ID: id, Killed: true}) }

// hear renews a worker's lease. mu is held.
func (w *Workers) hear(a *attached) {
	a.heard = w.s.o.Clock.Now()
	if a.unwatch == nil {
		w.watch(a, w.lease)
	}
}

// watch looks after d whether the lease is over. mu is held.
func (w *Workers) watch(a *attached, d time.Duration) {
	a.unwatch = w.s.o.Clock.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.closed || a.expired {
			return
		}
		if left := a.heard.Add(w.lease).Sub(w.s.o.Clock.Now()); left > 0 {
			w.watch(a, left)
			return
		}
		w.s.o.Logger.Warn("worker is lost: it was silent for a lease", "worker", string(a.member.ID), "address", a.member.Address, "lease", w.lease.String())
		w.detach(a, "lost")
	})
}

// detach gives a worker up. mu is held.
func (w *Workers) detach(a *attached, why string) {
	a.expired = true
	if a.unwatch != nil {
		a.unwatch()
	}
	if a.line != nil {
		a.line.end()
		a.line = nil
	}
	a.live = map[jobs.AttemptID]jobs.Reporter{}
	if w.attached[a.member.ID] == a {
		delete(w.attached, a.member.ID)
		w.lost[a.member.ID] = &clusterpb.Node{
			Worker: workerPB(a.member.Worker), Role: "worker", State: "lost", Folders: int32(a.member.Folders),
			HeardNs: a.heard.UnixNano(), SinceNs: w.s.o.Clock.Now().UnixNano(),
		}
	}
	if a.ready {
		w.s.RemoveWorker(a.member.ID)
		w.announce()
	}
}

// broken notes that a line has ended.
func (w *Workers) broken(a *attached, l *line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.end()
	if a.line == l {
		a.line = nil
		a.since = w.s.o.Clock.Now()
	}
}

// receive takes what a worker says.
func (w *Workers) receive(a *attached, l *line, stream clusterpb.Cluster_AttachServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		w.mu.Lock()
		if a.line != l {
			w.mu.Unlock()
			return nil // another line has taken over
		}
		w.hear(a)
		w.mu.Unlock()
		if err := w.take(a, l, m); err != nil {
			return err
		}
	}
}

func (w *Workers) take(a *attached, l *line, m *clusterpb.FromWorker) error {
	switch m := m.GetMessage().(type) {
	case *clusterpb.FromWorker_Heartbeat:
		l.send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Heartbeat{Heartbeat: &clusterpb.Heartbeat{}}})
	case *clusterpb.FromWorker_Ready:
		w.mu.Lock()
		defer w.mu.Unlock()
		if a.ready || a.expired {
			return nil
		}
		a.ready, a.since = true, w.s.o.Clock.Now()
		delete(w.lost, a.member.ID)
		w.s.addWorker(a.member.Worker, a, a.incarnation)
		w.announce()
	case *clusterpb.FromWorker_Started:
		if report := w.reporter(a, wire.AttemptOf(m.Started), false); report != nil {
			report.Started(wire.AttemptOf(m.Started))
		}
	case *clusterpb.FromWorker_Progress:
		id := wire.AttemptOf(m.Progress.GetId())
		if report := w.reporter(a, id, false); report != nil {
			report.Progress(id, m.Progress.GetShare())
		}
	case *clusterpb.FromWorker_Ended:
		id := wire.AttemptOf(m.Ended.GetId())
		result, err := w.codec.ResultOf(m.Ended)
		if err != nil {
			result = jobs.Result{ID: id, Err: err}
		}
		if report := w.reporter(a, id, true); report != nil {
			report.Ended(result)
		}
		l.send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Ack{Ack: m.Ended.GetId()}})
	case *clusterpb.FromWorker_Log:
		w.s.logs.add(m.Log)
	}
	return nil
}

// reporter returns who hears of an attempt; nil if nobody (any more) does.
func (w *Workers) reporter(a *attached, id jobs.AttemptID, last bool) jobs.Reporter {
	w.mu.Lock()
	defer w.mu.Unlock()
	report := a.live[id]
	if last {
		delete(a.live, id)
	}
	return report
}

// announce tells everybody who is there. mu is held.
func (w *Workers) announce() {
	m := w.members()
	var now []Member
	for _, a := range w.sorted() {
		if !a.ready {
			continue
		}
		now = append(now, a.member)
		if a.line != nil {
			a.line.send(m)
		}
	}
	if w.changed != nil {
		w.changed(now)
	}
}

func (w *Workers) sorted() []*attached {
	all := make([]*attached, 0, len(w.attached))
	for _, a := range w.attached {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *attached) int { return cmp.Compare(a.member.ID, b.member.ID) })
	return all
}

func (w *Workers) members() *clusterpb.ToWorker {
	m := &clusterpb.Members{}
	for _, l := range w.local {
		m.Members = append(m.Members, &clusterpb.Member{Worker: workerPB(l.Worker), Folders: int32(l.Folders)})
	}
	for _, a := range w.sorted() {
		if a.ready {
			m.Members = append(m.Members, &clusterpb.Member{Worker: workerPB(a.member.Worker), Folders: int32(a.member.Folders)})
		}
	}
	return &clusterpb.ToWorker{Message: &clusterpb.ToWorker_Members{Members: m}}
}

// Launch implements Worker. The assignment waits for the line if it is broken.
func (a *attached) Launch(_ context.Context, as jobs.Assignment, report jobs.Reporter) error {
	m, err := a.w.codec.Assignment(&as)
	if err != nil {
		return err
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if a.expired {
		return fault.Unavailablef("launch %s: worker %s is lost", as.ID, a.member.ID)
	}
	if a.line == nil {
		// Nothing has been sent: the attempt is as good as lost, which costs it nothing,
		// and another worker may have it meanwhile.
		return fault.Unavailablef("launch %s: worker %s is silent", as.ID, a.member.ID)
	}
	a.live[as.ID] = report
	a.line.send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Launch{Launch: m}})
	return nil
}

// Cancel implements Worker.
func (a *attached) Cancel(id jobs.AttemptID) {
	a.tell(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Cancel{Cancel: wire.Attempt(id)}})
}

// Drop implements Worker. What a worker doesn't hear, it drops when it attaches anew.
func (a *attached) Drop(job jobs.ID) {
	a.tell(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Drop{Drop: string(job)}})
}

func (a *attached) tell(m *clusterpb.ToWorker) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if a.line != nil {
		a.line.send(m)
	}
}

// Drop forgets what is kept under a job's name at all workers that can be told.
func (w *Workers) Drop(job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.attached {
		if a.line != nil {
			a.line.send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Drop{Drop: job}})
		}
	}
}

// Nodes implements the service.
func (w *Workers) Nodes(context.Context, *clusterpb.NodesRequest) (*clusterpb.NodesReply, error) {
	out := &clusterpb.NodesReply{}
	if w.self != nil {
		self := w.self()
		out.Nodes = append(out.Nodes, &clusterpb.Node{
			Worker: workerPB(self.Worker), Role: self.Role, State: "up", Folders: int32(self.Folders), Running: int32(self.Running),
		})
	}
	now := w.s.o.Clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.sorted() {
		n := &clusterpb.Node{
			Worker: workerPB(a.member.Worker), Role: "worker", State: "up", Folders: int32(a.member.Folders),
			Running: int32(len(a.live)), HeardNs: int64(now.Sub(a.heard)), SinceNs: int64(now.Sub(a.since)),
		}
		if a.line == nil || !a.ready {
			n.State = "silent"
		}
		out.Nodes = append(out.Nodes, n)
	}
	lost := make([]*clusterpb.Node, 0, len(w.lost))
	for id, n := range w.lost {
		if w.attached[id] == nil {
			lost = append(lost, &clusterpb.Node{Worker: n.Worker, Role: n.Role, State: n.State, Folders: n.Folders,
				HeardNs: int64(now.Sub(time.Unix(0, n.HeardNs))), SinceNs: int64(now.Sub(time.Unix(0, n.SinceNs)))})
		}
	}
	slices.SortFunc(lost, func(a, b *clusterpb.Node) int { return cmp.Compare(a.Worker.Id, b.Worker.Id) })
	out.Nodes = append(out.Nodes, lost...)
	return out, nil
}

func workerPB(w cluster.Worker) *clusterpb.Worker {
	return &clusterpb.Worker{Id: string(w.ID), Name: w.Name, Host: w.Host, Rack: w.Rack, Slots: int32(w.Slots), Address: w.Address}
}

func workerOf(p *clusterpb.Worker) cluster.Worker {
	return cluster.Worker{ID: cluster.WorkerID(p.GetId()), Name: p.GetName(), Host: p.GetHost(), Rack: p.GetRack(), Slots: int(p.GetSlots()), Address: p.GetAddress()}
}
