// Package stage cuts a physical plan at its exchanges into the stages of a job,
// and asks the input formats for the splits that become tasks.
package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/sql/optimizer"
	"github.com/skepdb/skep/sql/plan"
)

// SmallRows is the number of rows below which a shuffle has one partition: a
// task costs more than it saves.
const SmallRows = 50_000

// Options say how a plan is cut.
type Options struct {
	Inputs inputformat.Formats
	Slots  int    // of the cluster: the parallelism to aim for; 0 = 1
	Name   string // of the job, for people: the SQL text
	// Now and Location are the statement's time and zone; Settings the session's variables
	// that functions heed.
	Now      time.Time
	Location *time.Location
	Settings map[string]string
}

// Fragment is a stage before its tasks are known.
type Fragment struct {
	Root plan.Node // what each task runs
	// Inputs are the fragments whose output it reads, in the order of the
	// plan.Input leaves; Broadcast[i]: all of it in every task.
	Inputs    []int
	Broadcast []bool
	// Scan is the leaf that has splits; nil: there is none.
	Scan *plan.Scan
	// Exchange is the root, if this is not the last fragment.
	Exchange *plan.Exchange
	Rows     int64 // estimate of the output; < 0 = unknown
}

// Fragments cuts a plan without looking at its inputs. A fragment comes after
// those it reads; the last one holds the root of the plan.
func Fragments(root plan.Node) ([]*Fragment, error) {
	c := &cutter{at: map[*plan.Exchange]int{}}
	last := &Fragment{Rows: optimizer.Rows(root)}
	var err error
	if last.Root, err = c.cut(root, last); err != nil {
		return nil, err
	}
	for _, f := range append(c.done, last) {
		for i := range f.Inputs {
			if f.Scan != nil && !f.Broadcast[i] {
				return nil, fault.Bugf("stage: a fragment reads both splits of %s and partitions of a shuffle", f.Scan.Spec.Describe())
			}
		}
	}
	return append(c.done, last), nil
}

type cutter struct {
	done []*Fragment
	at   map[*plan.Exchange]int // fragments by their exchange: one may be read twice
}

// read adds an input.
func (f *Fragment) read(k int, e *plan.Exchange) {
	f.Inputs = append(f.Inputs, k)
	f.Broadcast = append(f.Broadcast, e.How == plan.Broadcast)
}

// cut returns n with everything below an exchange replaced by an Input of f.
func (c *cutter) cut(n plan.Node, f *Fragment) (plan.Node, error) {
	switch n := n.(type) {
	case *plan.Scan:
		if f.Scan != nil {
			return nil, fault.Bugf("stage: two scans in one fragment: %s and %s", f.Scan.Spec.Describe(), n.Spec.Describe())
		}
		f.Scan = n
		return n, nil
	case *plan.Exchange:
		k, known := c.at[n]
		if known {
			f.read(k, n)
			return &plan.Input{Index: len(f.Inputs) - 1, Out: n.Fields()}, nil
		}
		below := &Fragment{Exchange: n, Rows: optimizer.Rows(n.Input)}
		input, err := c.cut(n.Input, below)
		if err != nil {
			return nil, err
		}
		below.Root = n.WithChildren([]plan.Node{input})
		c.at[n] = len(c.done)
		f.read(len(c.done), n)
		c.done = append(c.done, below)
		return &plan.Input{Index: len(f.Inputs) - 1, Out: n.Fields()}, nil
	}
	children := n.Children()
	if len(children) == 0 {
		return n, nil
	}
	out := make([]plan.Node, len(children))
	for i, child := range children {
		var err error
		if out[i], err = c.cut(child, f); err != nil {
			return nil, err
		}
	}
	return n.WithChildren(out), nil
}

// Cut makes a job of a plan whose root is a Write.
func Cut(ctx context.Context, root plan.Node, o Options) (*jobs.Job, error) {
	write, ok := root.(*plan.Write)
	if !ok {
		return nil, fault.Bugf("stage: the root of a job's plan is a %T, not a Write", root)
	}
	fragments, err := Fragments(root)
	if err != nil {
		return nil, err
	}
	job := &jobs.Job{Name: o.Name, Output: write.Spec}
	for i, f := range fragments {
		s := &jobs.Stage{ID: i, Name: Name(f), Inputs: f.Inputs, Broadcast: f.Broadcast}
		if f.Exchange != nil {
			s.Fields = f.Root.Fields()
			s.Partitions = partitions(fragments, i, o)
		} else { // the Write: its input's rows are what leaves
			s.Fields = f.Root.Children()[0].Fields()
		}
		if s.Tasks, err = tasks(ctx, f, job.Stages, o); err != nil {
			return nil, err
		}
		if len(s.Tasks) == 0 { // nothing to read: one task that has no rows, for an aggregate must still answer
			f.Root = withoutScan(f.Root)
			s.Tasks = []jobs.Task{{}}
		}
		s.Work = &plan.Fragment{Root: f.Root, Now: o.Now, Location: o.Location, Settings: o.Settings}
		job.Stages = append(job.Stages, s)
	}
	return job, nil
}

// partitions is how many tasks will read the output of fragment i. The hashed inputs
// of a fragment must agree, and so must those of all that share one of them.
func partitions(fragments []*Fragment, i int, o Options) int {
	switch e := fragments[i].Exchange; e.How {
	case plan.ByRegion:
		return len(e.Cuts) + 1
	case plan.ToOne, plan.Broadcast:
		return 1
	}
	group := map[int]bool{i: true}
	for changed := true; changed; {
		changed = false
		for _, f := range fragments {
			joins := false
			for _, in := range f.Inputs {
				joins = joins || group[in]
			}
			if !joins {
				continue
			}
			for _, in := range f.Inputs {
				if fragments[in].Exchange.How == plan.ByHash && !group[in] {
					group[in], changed = true, true
				}
			}
		}
	}
	rows := int64(0)
	for in := range group {
		if fragments[in].Rows < 0 {
			return max(o.Slots, 1)
		}
		rows += fragments[in].Rows
	}
	if rows < SmallRows {
		return 1
	}
	return max(o.Slots, 1)
}

// withoutScan replaces the scan of a fragment by no rows.
func withoutScan(n plan.Node) plan.Node {
	return plan.RewriteNode(n, func(n plan.Node) plan.Node {
		if scan, ok := n.(*plan.Scan); ok {
			return &plan.Values{Out: scan.Fields()}
		}
		return n
	})
}

// tasks makes one task a split, or one a partition of the inputs, or one.
func tasks(ctx context.Context, f *Fragment, before []*jobs.Stage, o Options) ([]jobs.Task, error) {
	if f.Scan != nil {
		return splitTasks(ctx, f.Scan, o)
	}
	n := 1
	for i, in := range f.Inputs {
		if !f.Broadcast[i] {
			n = before[in].Partitions
		}
	}
	out := make([]jobs.Task, n)
	for i := range out {
		out[i].Index = i
	}
	return out, nil
}

// tinyRows: an input of fewer rows is not cut further, a small job is one task.
const tinyRows = 4 * batch.MaxRows

func splitTasks(ctx context.Context, scan *plan.Scan, o Options) ([]jobs.Task, error) {
	format, ok := o.Inputs[scan.Spec.Format()]
	if !ok {
		return nil, fault.Bugf("stage: no input format %q", scan.Spec.Format())
	}
	want := inputformat.Want{Parallelism: max(o.Slots, 1)}
	if scan.Rows >= 0 && scan.Rows < tinyRows {
		want.Parallelism = 1
	}
	var out []jobs.Task
	for split, err := range format.Splits(ctx, scan.Spec, want) {
		if err != nil {
			return nil, fmt.Errorf("splitting %s: %w", scan.Spec.Describe(), err)
		}
		out = append(out, jobs.Task{Index: len(out), Split: &split, Bytes: split.Bytes, Hosts: split.Hosts})
	}
	return out, nil
}

// Name describes a fragment in a few words: "scan t, partial aggregate".
func Name(f *Fragment) string {
	name := ""
	add := func(s string) {
		if name != "" {
			name = ", " + name
		}
		name = s + name
	}
	var walk func(n plan.Node)
	walk = func(n plan.Node) {
		switch n := n.(type) {
		case *plan.Scan:
			add("scan")
		case *plan.Values:
			add("values")
		case *plan.Filter:
			add("filter")
		case *plan.Join:
			add("join")
		case *plan.Union:
			add("union")
		case *plan.Window:
			add("window")
		case *plan.Generate:
			add("generate")
		case *plan.Expand:
			add("expand")
		case *plan.Sort:
			add("sort")
		case *plan.Limit:
			add("limit")
		case *plan.Aggregate:
			switch n.Phase {
			case plan.Partial:
				add("partial aggregate")
			case plan.Final:
				add("final aggregate")
			default:
				add("aggregate")
			}
		case *plan.Write:
			add("write")
		}
		for _, c := range n.Children() {
			walk(c)
		}
	}
	walk(f.Root)
	if name == "" {
		name = "project"
	}
	return name
}
