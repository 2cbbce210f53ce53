package region_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/region"
	"github.com/skepdb/skep/storage/storagetest"
)

// TestConcurrent lets puts, partial puts, loads, flushes, splits and scans
// race. Each writer owns some ids and counts up in them, so that a scan knows
// what it must see: for each id at least what was acknowledged before its
// timestamp was asked for, and at a timestamp always the same.
func TestConcurrent(t *testing.T) {
	noLeaks(t)
	const writers, perWriter, rounds = 3, 8, 120
	auth := storagetest.NewAuthority()
	s := open(t, vfs.NewMem(), auth, func(o *region.Options) { o.FlushBytes = 4000 })
	table := crashTable()
	f := storagetest.NewFixture(t, s, auth, table)
	ctx := context.Background()
	columns := table.Columns

	// retry repeats what met a region that was just split.
	retry := func(id int, do func(region storage.RegionID) error) {
		for {
			err := do(f.Region(storagetest.Key(table, fmt.Sprint(id))))
			if err == nil {
				return
			}
			if !errors.Is(err, storage.ErrRegionGone) {
				t.Error(err)
				return
			}
		}
	}
	var acked [writers * perWriter]atomic.Int64
	var work, readers sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			for n := int64(1); n <= rounds; n++ {
				id := w*perWriter + rng.IntN(perWriter)
				switch rng.IntN(5) {
				case 0: // name and age belong together: a partial put keeps the name
					if acked[id].Load() == 0 {
						continue
					}
					retry(id, func(r storage.RegionID) error {
						cols := schema.Columns{columns[0], columns[1]}
						_, err := s.Put(ctx, r, cols, storagetest.Rows(cols, fmt.Sprintf("%d|w%d", id, w)))
						return err
					})
					continue
				case 1:
					txn := auth.Begin()
					st, err := f.TryStage(storage.StageOptions{Txn: txn, Attempt: "a"}, fmt.Sprintf("%d|w%d|%d", id, w, n))
					if errors.Is(err, storage.ErrRegionGone) {
						auth.Abort(txn)
						continue
					}
					if err != nil || st.Rows != 1 {
						t.Errorf("staged %+v, %v", st, err)
						return
					}
					auth.Commit(txn, "a")
				default:
					retry(id, func(r storage.RegionID) error {
						_, err := s.Put(ctx, r, columns, storagetest.Rows(columns, fmt.Sprintf("%d|w%d|%d", id, w, n)))
						return err
					})
				}
				acked[id].Store(n)
			}
		})
	}
	// scan reads the whole table as of a timestamp; nil if regions changed.
	scan := func(at storage.Timestamp, ordered bool) map[int]int64 {
		rows, _, err := f.TryScan(storage.Scan{At: at, Ordered: ordered})
		if errors.Is(err, storage.ErrRegionGone) {
			return nil
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		out := map[int]int64{}
		for _, row := range rows {
			cells := strings.Split(row, "|")
			id, _ := strconv.Atoi(cells[0])
			age, _ := strconv.ParseInt(cells[2], 10, 64)
			if _, twice := out[id]; twice || cells[1] != fmt.Sprintf("w%d", id/perWriter) {
				t.Errorf("at %d: %s (twice: %t)", at, row, twice)
			}
			out[id] = age
		}
		return out
	}
	for i := range 2 {
		readers.Go(func() {
			for done := false; !done; {
				select {
				case <-stop:
					done = true
				default:
				}
				var least [len(acked)]int64
				for id := range acked {
					least[id] = acked[id].Load()
				}
				at := auth.Now()
				got := scan(at, i == 0)
				if got == nil {
					continue
				}
				for id, n := range least {
					if got[id] < n {
						t.Errorf("id %d is %d at %d, but %d was acknowledged before", id, got[id], at, n)
					}
				}
				if again := scan(at, i == 1); again != nil && fmt.Sprint(again) != fmt.Sprint(got) {
					t.Errorf("two scans at %d differ:\n%v\n%v", at, got, again)
				}
			}
		})
	}
	readers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			rs := f.Regions()
			r := rs[i%len(rs)]
			if err := s.Flush(ctx, r.ID); err != nil && !errors.Is(err, storage.ErrRegionGone) {
				t.Error(err)
			}
			if i%10 == 9 && len(rs) < 5 {
				if _, err := s.Split(ctx, r.ID, nil); err != nil && !strings.Contains(err.Error(), "too few rows") {
					t.Error(err)
				}
			}
		}
	})
	work.Wait()
	close(stop)
	readers.Wait()
	got := scan(auth.Now(), true)
	for id := range acked {
		if n := acked[id].Load(); got[id] != n {
			t.Errorf("at the end id %d is %d, want %d", id, got[id], n)
		}
	}
	f.Check()
}
