// Package engine runs map/reduce programs as jobs: it cuts a request into the
// stages of a jobs.Job, and runs their tasks, in this process or in a child.
package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
)

// Kind is the kind of Work.
const Kind = "mapreduce"

// Work is what the tasks of a map or reduce stage do.
type Work struct {
	Program string
	// Artifact is the SHA-256 of the program's file, in hexadecimal; "": the
	// program is part of Skep.
	Artifact string
	Reduce   bool
	MapOnly  bool
	Params   map[string]string
	Input    inputformat.Spec // of the map stage
	Fields   []schema.Field   // of the program's rows
	// Columns says, for each column of the job's output, which of the program's
	// columns goes there, or -1 for NULL; nil: they are the same. Output has the
	// columns of the job's output then.
	Columns []int
	Output  []schema.Field
	Limits  Limits
}

// Kind implements jobs.Work.
func (*Work) Kind() string { return Kind }

// Request asks for a job.
type Request struct {
	Name     string // for people
	Program  mapreduce.Description
	Artifact string
	Params   map[string]string
	Input    inputformat.Spec
	Formats  inputformat.Formats
	// Slots is how many tasks can run at once: about so many splits are made,
	// and reduces unless Reduces says otherwise.
	Slots   int
	Reduces int
	Output  outputformat.Spec
	// Columns are those of the output, nil when it takes the program's.
	Columns     []schema.Field
	MaxAttempts int
	Limits      Limits
}

// maxReduces keeps a slip of the pen from becoming a million tasks.
const maxReduces = 10000

// Build cuts a request into a job. The splits are made here.
func Build(ctx context.Context, r Request) (*jobs.Job, error) {
	if r.Reduces < 0 || r.Reduces > maxReduces {
		return nil, fault.Userf("%d reduces: want 1 to %d", r.Reduces, maxReduces)
	}
	if r.MaxAttempts < 0 {
		return nil, fault.Userf("%d attempts: want at least 1", r.MaxAttempts)
	}
	if err := r.Limits.Validate(); err != nil {
		return nil, err
	}
	columns, err := match(r.Program.Fields, r.Columns)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", r.Program.Name, err)
	}
	work := Work{Program: r.Program.Name, Artifact: r.Artifact, MapOnly: r.Program.MapOnly, Params: r.Params,
		Fields: r.Program.Fields, Columns: columns, Output: r.Columns, Limits: r.Limits.WithDefaults()}
	fields := r.Program.Fields
	if columns != nil {
		fields = r.Columns
	}
	maps := &jobs.Stage{ID: 0, Name: "map"}
	m := work
	m.Input = r.Input
	maps.Work = &m
	format := r.Formats[r.Input.Format()]
	if format == nil {
		return nil, fault.Bugf("mapreduce: no input format %q", r.Input.Format())
	}
	for sp, err := range format.Splits(ctx, r.Input, inputformat.Want{Parallelism: max(r.Slots, 1)}) {
		if err != nil {
			return nil, fmt.Errorf("splits of %s: %w", r.Input.Describe(), err)
		}
		maps.Tasks = append(maps.Tasks, jobs.Task{Index: len(maps.Tasks), Split: &sp, Bytes: sp.Bytes, Hosts: sp.Hosts})
	}
	if len(maps.Tasks) == 0 {
		maps.Tasks = []jobs.Task{{}} // without rows: setup and cleanup still run
	}
	job := &jobs.Job{Name: r.Name, Stages: []*jobs.Stage{maps}, Output: r.Output, MaxAttempts: r.MaxAttempts}
	if r.Program.MapOnly {
		maps.Fields = fields
		return job, nil
	}
	n := r.Reduces
	if n == 0 {
		n = max(r.Slots, 1)
	}
	maps.Partitions, maps.Fields = n, mapreduce.ShuffleFields()
	work.Reduce = true
	reduces := &jobs.Stage{ID: 1, Name: "reduce", Work: &work, Inputs: []int{0}, Broadcast: []bool{false}, Fields: fields}
	for i := range n {
		reduces.Tasks = append(reduces.Tasks, jobs.Task{Index: i})
	}
	job.Stages = append(job.Stages, reduces)
	return job, nil
}

// match says where the program's columns go in an output with given ones; nil:
// nowhere else.
func match(have, want []schema.Field) ([]int, error) {
	if want == nil {
		return nil, nil
	}
	at := make([]int, len(want))
	used := make([]bool, len(have))
	same := len(have) == len(want)
	for i, w := range want {
		at[i] = slices.IndexFunc(have, func(f schema.Field) bool { return f.Name == w.Name })
		if at[i] < 0 {
			same = false
			continue
		}
		used[at[i]] = true
		if !have[at[i]].Type.Equal(w.Type) {
			return nil, fault.Userf("its column %s is %s, the output's is %s", w.Name, have[at[i]].Type, w.Type)
		}
		same = same && at[i] == i
	}
	for i, u := range used {
		if !u {
			return nil, fault.Userf("the output has no column %s", have[i].Name)
		}
	}
	if same {
		return nil, nil
	}
	return at, nil
}
