// Package client is the shuffle of a process among many: what its own attempts
// write stays here, and what others have written is fetched from their
// processes, from several at once.
package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/shuffle"
)

// Conn is a connection to another process.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// Options make a Service.
type Options struct {
	Local *shuffle.Local
	// Workers are those of this process: their output is read from Local.
	Workers []cluster.WorkerID
	// Connect returns a connection to an address, which connects when it is first
	// used. It should bound the window of a stream: see Buffer.
	Connect func(address string) (Conn, error)
	// Buffer is how many bytes a reader fetches ahead, shared out to the processes
	// that it fetches from; at least one message of 256 KiB and the window of a stream
	// for each of them. Default 4 MiB.
	Buffer int64
	// Retries is how often a stream is opened again that broke without having
	// brought anything. Then the output counts as gone. Default 5.
	Retries int
	// Backoff is the pause before the first of them; it doubles each time.
	// Default 100 ms.
	Backoff time.Duration
}

// Service is the shuffle of a process. Safe for concurrent use.
type Service struct {
	o Options

	mu     sync.Mutex
	conns  map[string]*conn
	use    int64 // counts uses of connections
	closed bool
}

// conn is a connection that readers share.
type conn struct {
	Conn
	users int
	last  int64 // when it was last given out, by Service.use
}

// maxIdle is how many connections are kept that nobody uses.
const maxIdle = 64

var _ shuffle.Service = (*Service)(nil)

// New returns a service. Close closes its connections; readers must be closed
// before, Local is closed by who made it.
func New(o Options) *Service {
	if o.Buffer <= 0 {
		o.Buffer = 4 << 20
	}
	if o.Retries <= 0 {
		o.Retries = 5
	}
	if o.Backoff <= 0 {
		o.Backoff = 100 * time.Millisecond
	}
	return &Service{o: o, conns: map[string]*conn{}}
}

// Writer implements shuffle.Service.
func (s *Service) Writer(ctx context.Context, a shuffle.Attempt, fields []schema.Field, partitions int) (shuffle.Writer, error) {
	return s.o.Local.Writer(ctx, a, fields, partitions)
}

// Drop implements shuffle.Service, for what is in this process.
func (s *Service) Drop(job string) { s.o.Local.Drop(job) }

// Close closes the connections.
func (s *Service) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, c := range s.conns {
		errs = append(errs, c.Close())
	}
	clear(s.conns)
	return errors.Join(errs...)
}

// connect returns the connection to an address, for one user more.
func (s *Service) connect(address string) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.Retryablef("shuffle: fetch from %s: the shuffle is closed", address)
	}
	c := s.conns[address]
	if c == nil {
		made, err := s.o.Connect(address)
		if err != nil {
			return nil, fmt.Errorf("shuffle: fetch from %s: %w", address, err)
		}
		c = &conn{Conn: made}
		s.conns[address] = c
	}
	s.use++
	c.users, c.last = c.users+1, s.use
	return c, nil
}

// release gives a connection back. Of those that nobody uses the oldest are
// closed: workers come and go.
func (s *Service) release(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.users--
	var idle []string
	for a, c := range s.conns {
		if c.users == 0 {
			idle = append(idle, a)
		}
	}
	if len(idle) <= maxIdle {
		return
	}
	oldest := slices.MinFunc(idle, func(a, b string) int { return int(s.conns[a].last - s.conns[b].last) })
	_ = s.conns[oldest].Close() // nothing is under way on it
	delete(s.conns, oldest)
}

// Reader implements shuffle.Service. Fetching begins at once and ends with ctx, or
// when the reader is closed.
func (s *Service) Reader(ctx context.Context, fields []schema.Field, partition int, from []shuffle.Source) (batch.Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("shuffle: read partition %d: %w", partition, err)
	}
	r := &reader{s: s, fields: fields, partition: partition}
	var lost []shuffle.Attempt
	fetches := map[place]*fetch{}
	for _, src := range from {
		at := place{src.Worker, src.Address}
		switch {
		case src.Worker == "" || slices.Contains(s.o.Workers, src.Worker):
			if !s.o.Local.Has(src.Attempt) {
				lost = append(lost, src.Attempt)
			}
			r.rest = append(r.rest, part{source: src})
		case src.Address == "":
			lost = append(lost, src.Attempt)
		default:
			f := fetches[at]
			if f == nil {
				f = &fetch{s: s, place: at, partition: partition}
				fetches[at] = f
				r.fetches = append(r.fetches, f)
			}
			f.from = append(f.from, src.Attempt)
			r.rest = append(r.rest, part{source: src, fetch: f})
		}
	}
	if lost != nil {
		return nil, &shuffle.GoneError{From: lost}
	}
	if len(r.fetches) > 0 {
		ctx, cancel := context.WithCancel(ctx)
		r.cancel = cancel
		room := max(1, int(s.o.Buffer/int64(len(r.fetches))/maxChunk))
		for _, f := range r.fetches {
			f.chunks = make(chan chunk, min(room, 64))
			r.running.Go(func() { f.run(ctx) })
		}
	}
	return r, nil
}
