package metastore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
)

const (
	// reserveAhead is how far above the last timestamp the durable mark is set:
	// one write serves so much time.
	reserveAhead = 3 * time.Second
	// maxJumpRunning and maxJumpIdle are how much later than the last known time the clock may
	// say it is, while running and when opened: a folder may well have lain
	// about for years.
	maxJumpRunning = 366 * 24 * time.Hour
	maxJumpIdle    = 10 * maxJumpRunning
)

// oracle gives out timestamps, pins and the history floor.
//
// Every timestamp is below a mark that was made durable before, and an oracle
// that is opened starts above the mark: so none is given twice and none goes
// back, whatever the clock does and wherever the process dies.
type oracle struct {
	mu     sync.Mutex
	now    func() time.Time
	write  func(key []byte, v uint64) error
	last   storage.Timestamp // given out
	mark   storage.Timestamp // durable; last < mark
	limit  time.Duration     // how far above last the clock may be
	accept bool

	closed    bool
	retention time.Duration
	floor     storage.Timestamp // told to someone; never goes back
	durable   storage.Timestamp // floor is below it, durably
	pins      map[*pin]struct{}
}

func newOracle(o Options, mark, floor storage.Timestamp, write func([]byte, uint64) error) *oracle {
	c := &oracle{now: o.Now, write: write, mark: mark, accept: o.AcceptClockJump, limit: maxJumpIdle,
		retention: o.Retention, floor: floor, durable: floor, pins: map[*pin]struct{}{}}
	if mark > 0 {
		c.last = mark - 1
	}
	return c
}

func ofTime(t time.Time) storage.Timestamp { return storage.Timestamp(max(t.UnixMilli(), 0)) << 20 }

// take returns the next timestamp. mu is held.
func (c *oracle) take() (storage.Timestamp, error) {
	if c.closed {
		return 0, errClosed()
	}
	now := ofTime(c.now())
	t := max(now, c.last+1)
	if c.last > 0 && !c.accept && now.Millis()-c.last.Millis() > c.limit.Milliseconds() {
		return 0, fault.Retryablef("the clock says %s, but the catalogue's last timestamp is of %s: a jump of more than %d days is refused, since later timestamps could never go back (set the clock right; if it is right, open the folder once with --accept-clock-jump)",
			timeOf(now), timeOf(c.last), int(c.limit.Hours()/24))
	}
	if t >= c.mark {
		mark := t + storage.Timestamp(reserveAhead.Milliseconds())<<20
		if err := c.write(keyClock, uint64(mark)); err != nil {
			return 0, fmt.Errorf("reserve timestamps: %w", err)
		}
		c.mark = mark
	}
	c.last, c.limit, c.accept = t, maxJumpRunning, false
	return t, nil
}

func timeOf(t storage.Timestamp) string {
	return time.UnixMilli(t.Millis()).UTC().Format("2006-01-02 15:04:05")
}

func (c *oracle) giveBack() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.mark == c.last+1 || c.last == 0 {
		return nil
	}
	c.mark = c.last + 1
	return c.write(keyClock, uint64(c.mark))
}

// Timestamp implements storage.Authority.
func (s *Store) Timestamp(ctx context.Context) (storage.Timestamp, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return s.clock.take()
}

// Floor implements storage.Authority. A floor that was told survives a crash:
// versions below it may be gone.
func (s *Store) Floor(ctx context.Context) (storage.Timestamp, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, errClosed()
	}
	// Below every timestamp that is yet to come, so that a later Pin is above it.
	floor := ofTime(c.now().Add(-c.retention))
	floor = min(floor, c.last)
	for p := range c.pins {
		floor = min(floor, p.at-1)
	}
	if floor <= c.floor {
		return c.floor, nil
	}
	if floor > c.durable {
		// A pin is never below last, so the mark may run ahead of the floor up
		// to there: one write for many questions.
		durable := max(floor, min(c.last, floor+storage.Timestamp(reserveAhead.Milliseconds())<<20))
		if err := c.write(keyFloor, uint64(durable)); err != nil {
			return 0, fmt.Errorf("raise history floor: %w", err)
		}
		c.durable = durable
	}
	c.floor = floor
	return floor, nil
}

type pin struct {
	oracle *oracle
	at     storage.Timestamp
}

func (p *pin) At() storage.Timestamp { return p.at }

func (p *pin) Release() {
	p.oracle.mu.Lock()
	defer p.oracle.mu.Unlock()
	delete(p.oracle.pins, p)
}

// Pin implements catalog.Store.
func (s *Store) Pin(ctx context.Context) (catalog.Pin, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	at, err := c.take()
	if err != nil {
		return nil, err
	}
	p := &pin{oracle: c, at: at}
	c.pins[p] = struct{}{}
	return p, nil
}

// NewRegionID implements storage.Authority.
func (s *Store) NewRegionID(ctx context.Context) (storage.RegionID, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	id, err := s.ids.take()
	return storage.RegionID(id), err
}
