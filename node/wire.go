package node

import (
	"runtime/debug"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/inputformat/csv"
	"github.com/skepdb/skep/inputformat/lines"
	inputregion "github.com/skepdb/skep/inputformat/region"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/jobs/mapreduce/engine"
	"github.com/skepdb/skep/outputformat/resultset"
	outputtable "github.com/skepdb/skep/outputformat/table"
	outputtext "github.com/skepdb/skep/outputformat/text"
	planwire "github.com/skepdb/skep/sql/plan/wire"
	storagewire "github.com/skepdb/skep/storage/wire"
)

// Registry returns what processes of Skep must know of each other's types: kinds
// of work, specs and bodies of formats, and what storage and catalogue talk about.
func Registry() *coding.Registry {
	r := coding.NewRegistry()
	storagewire.Register(r)
	planwire.Register(r)
	r.Add("mapreduce.Work", &engine.Work{})
	for name, sample := range map[string]any{
		"region.Spec": inputregion.Spec{}, "region.Body": inputregion.Body{},
		"text.Spec": text.Spec{}, "text.Body": text.Body{}, "csv.Spec": csv.Spec{}, "lines.Spec": lines.Spec{},
		"table.out.Spec": outputtable.Spec{}, "text.out.Spec": outputtext.Spec{},
		"resultset.Spec": resultset.Spec{}, "resultset.Part": resultset.Part{},
		// For the fingerprint: the catalogue's arguments and results.
		"catalog.Database": catalog.Database{}, "catalog.Table": catalog.Table{},
		"catalog.Partition": catalog.Partition{}, "catalog.TxnInfo": catalog.TxnInfo{},
	} {
		r.Add(name, sample)
	}
	return r
}

// Version is what two processes must have in common to talk: the release, and the
// shapes of what they send each other.
func Version() string { return release() + " wire " + Registry().Fingerprint() }

func release() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
