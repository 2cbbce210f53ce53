package node

import (
	"context"
	"errors"
	"sync"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// regionServer is a storage.Server that can be closed.
type regionServer interface {
	storage.Server
	Close() error
}

// lazyServer opens a worker's regions when they are first asked for: a
// statement that reads no table doesn't wait for their logs to be read.
type lazyServer struct {
	worker cluster.WorkerID
	open   func() (regionServer, error)

	mu     sync.Mutex
	server regionServer
	err    error
	closed bool
}

var errClosed = errors.New("node: the regions are closed")

func (l *lazyServer) get() (regionServer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errClosed
	case l.server == nil && l.err == nil:
		s, err := l.open()
		if err != nil { // s may be a nil pointer in an interface that isn't nil
			l.err = err
			break
		}
		l.server = s
	}
	return l.server, l.err
}

// Close closes the regions, if they were opened.
func (l *lazyServer) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.server == nil {
		return nil
	}
	return l.server.Close()
}

func (l *lazyServer) CreateRegion(ctx context.Context, t *storage.Table, r storage.Region) error {
	s, err := l.get()
	if err != nil {
		return err
	}
	return s.CreateRegion(ctx, t, r)
}

func (l *lazyServer) DropRegion(ctx context.Context, id storage.RegionID) error {
	s, err := l.get()
	if err != nil {
		return err
	}
	return s.DropRegion(ctx, id)
}

func (l *lazyServer) Stats(ctx context.Context, id storage.RegionID) (storage.RegionStats, error) {
	s, err := l.get()
	if err != nil {
		return storage.RegionStats{}, err
	}
	return s.Stats(ctx, id)
}

func (l *lazyServer) CutKeys(ctx context.Context, id storage.RegionID, r storage.KeyRange, at storage.Timestamp, n int) ([]storage.Key, []storage.RegionStats, error) {
	s, err := l.get()
	if err != nil {
		return nil, nil, err
	}
	return s.CutKeys(ctx, id, r, at, n)
}

func (l *lazyServer) Scan(ctx context.Context, scan storage.Scan) (storage.ScanReader, error) {
	s, err := l.get()
	if err != nil {
		return nil, err
	}
	return s.Scan(ctx, scan)
}

func (l *lazyServer) Get(ctx context.Context, id storage.RegionID, keys []storage.Key, at storage.Timestamp, columns schema.Columns) (*batch.Batch, error) {
	s, err := l.get()
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, id, keys, at, columns)
}

func (l *lazyServer) Put(ctx context.Context, id storage.RegionID, columns schema.Columns, b *batch.Batch) (storage.Timestamp, error) {
	s, err := l.get()
	if err != nil {
		return 0, err
	}
	return s.Put(ctx, id, columns, b)
}

func (l *lazyServer) Delete(ctx context.Context, id storage.RegionID, keys []storage.Key) (storage.Timestamp, error) {
	s, err := l.get()
	if err != nil {
		return 0, err
	}
	return s.Delete(ctx, id, keys)
}

func (l *lazyServer) Stage(ctx context.Context, t *storage.Table, regions []storage.Region, o storage.StageOptions) (storage.StageWriter, error) {
	s, err := l.get()
	if err != nil {
		return nil, err
	}
	return s.Stage(ctx, t, regions, o)
}

func (l *lazyServer) StageTruncate(ctx context.Context, id storage.RegionID, txn storage.TxnID, ranges ...storage.KeyRange) error {
	s, err := l.get()
	if err != nil {
		return err
	}
	return s.StageTruncate(ctx, id, txn, ranges...)
}

func (l *lazyServer) Resolve(ctx context.Context, txn storage.TxnID) error {
	s, err := l.get()
	if err != nil {
		return err
	}
	return s.Resolve(ctx, txn)
}

func (l *lazyServer) Flush(ctx context.Context, id storage.RegionID) error {
	s, err := l.get()
	if err != nil {
		return err
	}
	return s.Flush(ctx, id)
}

func (l *lazyServer) Split(ctx context.Context, id storage.RegionID, at storage.Key) ([2]storage.Region, error) {
	s, err := l.get()
	if err != nil {
		return [2]storage.Region{}, err
	}
	return s.Split(ctx, id, at)
}

func (l *lazyServer) ReplaceEmpty(ctx context.Context, id storage.RegionID, with []storage.Region) (bool, error) {
	s, err := l.get()
	if err != nil {
		return false, err
	}
	return s.ReplaceEmpty(ctx, id, with)
}

func (l *lazyServer) Check(ctx context.Context, id storage.RegionID) ([]storage.CheckProblem, error) {
	s, err := l.get()
	if err != nil {
		return nil, err
	}
	return s.Check(ctx, id)
}
