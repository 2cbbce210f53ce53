package node

import (
	"context"
	"errors"
	"testing"

	"github.com/skepdb/skep/storage/region"
)

// A node whose regions can't be opened says so, again and again, and closes.
func TestLazyServerFails(t *testing.T) {
	broken := errors.New("a broken manifest")
	opened := 0
	l := &lazyServer{open: func() (regionServer, error) {
		opened++
		return (*region.Server)(nil), broken
	}}
	for range 2 {
		if _, err := l.Stats(context.Background(), 1); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	}
	if opened != 1 {
		t.Errorf("opened %d times", opened)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
