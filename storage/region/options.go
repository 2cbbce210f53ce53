package region

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/skepdb/skep/cluster"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage"
	"github.com/skepdb/skep/storage/folder"
)

// Options configure a Server. Zero values mean the defaults named.
type Options struct {
	Folders   []*folder.Folder // the worker's data folders, locked; Region.Folder counts them
	Worker    cluster.WorkerID
	Authority storage.Authority
	Logger    *slog.Logger // nil: discarded

	DictBytes     int64 // cache of segments' dictionaries, shared by the folders; 64 MiB
	CacheBytes    int64 // Pebble's block cache, shared by the folders; 16 MiB
	MemTableBytes int64 // Pebble's write buffer, a folder; 8 MiB
	FlushBytes    int64 // a region's delta is flushed when it is larger; 64 MiB
	StageBytes    int64 // rows an unsorted StageWriter keeps before it writes a sorted run; 256 MiB
	RowGroupRows  int64 // of segments; 0: the segment writer's default
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for p, d := range map[*int64]int64{&o.DictBytes: 64 << 20, &o.CacheBytes: 16 << 20, &o.MemTableBytes: 8 << 20, &o.FlushBytes: 64 << 20, &o.StageBytes: 256 << 20} {
		if *p == 0 {
			*p = d
		}
	}
	return o
}

// Validate names every fault at once.
func (o Options) Validate() error {
	var errs []error
	if len(o.Folders) == 0 {
		errs = append(errs, errors.New("no data folder"))
	}
	if o.Authority == nil {
		errs = append(errs, errors.New("no authority"))
	}
	for name, v := range map[string]int64{"DictBytes": o.DictBytes, "CacheBytes": o.CacheBytes, "MemTableBytes": o.MemTableBytes, "FlushBytes": o.FlushBytes, "StageBytes": o.StageBytes, "RowGroupRows": o.RowGroupRows} {
		if v < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", name, v))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fault.Userf("region server options: %w", err)
	}
	return nil
}
