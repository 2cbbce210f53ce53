package server

import (
	"context"
	"slices"
	"sync"

	jobspb "github.com/skepdb/skep/api/jobs"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/wire"
)

// What is kept of logs: the end of each attempt's, and of the last jobs' only.
const (
	maxLogAttempt = 256 << 10
	maxLogJob     = 8 << 20
	maxLogJobs    = 100
)

// logs keeps what attempts write, for people. Safe for concurrent use.
type logs struct {
	mu    sync.Mutex
	jobs  map[jobs.ID]*jobLog
	order []jobs.ID
}

type jobLog struct {
	attempts map[jobs.AttemptID]*attemptLog
	order    []jobs.AttemptID
	bytes    int
	changed  chan struct{} // closed and renewed at each change
}

type attemptLog struct {
	text    []byte
	dropped int64 // bytes before text
}

func newLogs() *logs { return &logs{jobs: map[jobs.ID]*jobLog{}} }

// job returns a job's log; mu is held.
func (l *logs) job(id jobs.ID) *jobLog {
	j := l.jobs[id]
	if j == nil {
		j = &jobLog{attempts: map[jobs.AttemptID]*attemptLog{}, changed: make(chan struct{})}
		l.jobs[id] = j
		l.order = append(l.order, id)
		if len(l.order) > maxLogJobs {
			delete(l.jobs, l.order[0])
			l.order = slices.Delete(l.order, 0, 1)
		}
	}
	return j
}

// add keeps what an attempt has written.
func (l *logs) add(c *jobspb.LogChunk) {
	id := wire.AttemptOf(c.GetId())
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(id.Job)
	a := j.attempts[id]
	if a == nil {
		a = &attemptLog{}
		j.attempts[id] = a
		j.order = append(j.order, id)
	}
	a.dropped += c.GetDropped()
	a.text = append(a.text, c.GetText()...)
	j.bytes += len(c.GetText())
	j.cut(a, len(a.text)-maxLogAttempt)
	for _, old := range j.order {
		if j.bytes <= maxLogJob {
			break
		}
		j.cut(j.attempts[old], min(j.bytes-maxLogJob, len(j.attempts[old].text)))
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// cut drops the first n bytes of an attempt's log.
func (j *jobLog) cut(a *attemptLog, n int) {
	if n > 0 {
		a.text = slices.Clone(a.text[n:])
		a.dropped += int64(n)
		j.bytes -= n
	}
}

// follow sends a job's log: what is there and, until over is closed or ctx ends,
// what comes. A nil over means: not any more.
func (l *logs) follow(ctx context.Context, id jobs.ID, over <-chan struct{}, send func(*jobspb.LogChunk) error) error {
	sent := map[jobs.AttemptID]int64{} // up to which byte
	last := over == nil
	for {
		l.mu.Lock()
		j := l.job(id)
		changed := j.changed
		var chunks []*jobspb.LogChunk
		for _, a := range j.order {
			at := j.attempts[a]
			from, end := sent[a], at.dropped+int64(len(at.text))
			if from == end {
				continue
			}
			c := &jobspb.LogChunk{Id: wire.Attempt(a)}
			if from < at.dropped {
				c.Dropped, from = at.dropped-from, at.dropped
			}
			c.Text = slices.Clone(at.text[from-at.dropped:])
			chunks = append(chunks, c)
			sent[a] = end
		}
		l.mu.Unlock()
		for _, c := range chunks {
			if err := send(c); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		select {
		case <-changed:
		case <-over:
			last = true // what came before the end
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
