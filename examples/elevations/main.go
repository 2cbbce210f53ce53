// Command elevations is a map/reduce program: for each species in a table of
// occurrence records, how many records there are, between which elevations, and
// the median. It shows rows as structs, NULLs, sorted values, a counter and a
// parameter.
//
//	go build -o elevations ./examples/elevations
//	skep job submit ./elevations occurrence -D least=20
package main

import (
	"iter"

	"github.com/skepdb/skep/jobs/mapreduce"
)

// Record is what is read of a row: columns by the names of the fields.
type Record struct {
	ScientificName string
	Elevation      *float64 // metres; NULL in many records
}

// Species is a row of output.
type Species struct {
	Name    string `skep:"species"`
	Records int64
	Lowest  float64
	Median  float64
	Highest float64
}

func main() {
	mapreduce.Main(mapreduce.Job[Record, string, float64, Species]{
		Name: "elevations", About: "between which elevations each species occurs",
		Input: mapreduce.Records[Record](),
		Map: func(t *mapreduce.Task, r Record, emit func(string, float64)) error {
			if r.Elevation == nil {
				t.Counter("records/without elevation").Add(1)
				return nil
			}
			emit(r.ScientificName, *r.Elevation)
			return nil
		},
		Values: mapreduce.Ascending, // a reduce gets the elevations of a species from low to high
		NewReducer: func() mapreduce.Reducer[string, float64, Species] {
			return &summary{}
		},
	})
}

// summary is the reducer; it leaves out species with few records.
type summary struct{ least int64 }

func (s *summary) Setup(t *mapreduce.Task) (err error) {
	s.least, err = t.IntParam("least", 1)
	return err
}

func (s *summary) Reduce(_ *mapreduce.Task, name string, elevations iter.Seq[float64], emit func(Species)) error {
	var all []float64
	for e := range elevations {
		all = append(all, e)
	}
	if n := int64(len(all)); n >= s.least {
		emit(Species{Name: name, Records: n, Lowest: all[0], Median: all[n/2], Highest: all[n-1]})
	}
	return nil
}

func (s *summary) Cleanup(*mapreduce.Task, func(Species)) error { return nil }
