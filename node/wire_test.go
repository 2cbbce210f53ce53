package node

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/google/go-cmp/cmp"
	"github.com/skepdb/skep/internal/coding/codingtest"
)

// Whatever processes send each other comes through whole: every field of plans,
// specs, splits and manifests.
func TestRegistry(t *testing.T) {
	f := codingtest.NewFiller(3, Registry())
	codingtest.Maker(f, func(r *rand.Rand) decimal128.Num { return decimal128.New(r.Int64(), r.Uint64()) })
	codingtest.All(t, f, 10, cmp.Comparer(func(a, b decimal128.Num) bool { return a == b }))
}

// Two builds of one source talk to each other.
func TestVersionIsSteady(t *testing.T) {
	if again := Version(); Version() != again {
		t.Error("the version changes from call to call")
	}
}
