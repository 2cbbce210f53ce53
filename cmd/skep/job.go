package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/frontend/render"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/spf13/cobra"
)

// job is the parent of the job verbs.
func (a *app) job() *cobra.Command {
	c := &cobra.Command{
		Use:   "job",
		Short: "Map/reduce jobs: run Skep's programs and your own",
		Example: "  skep job run wordcount books/*.txt --output counts\n" +
			"  skep job run rowcount birds --where \"family = 'Paridae'\"\n" +
			"  skep job submit ./myprogram birds --into result",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf(" (did you mean %q?)", near[0])
			}
			return usagef("unknown verb %q%s\ntry 'skep job --help'", args[0], hint)
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(a.jobRun(), a.jobSubmit(), a.jobList(), a.jobStatus(), a.jobKill(), a.jobLogs(), a.jobCounters(), a.jobHistory())
	return c
}

// programFlags are the flags of verbs that run a program.
type programFlags struct {
	place  placeFlags
	json   bool
	params []string
	p      client.Program
}

func (f *programFlags) add(c *cobra.Command) {
	f.place.add(c)
	fl := c.Flags()
	fl.StringVar(&f.p.Where, "where", "", "only rows for which this HiveQL `condition` is true (programs that read a table)")
	fl.StringVar(&f.p.Dir, "output", "", "write the output to text files in this new `folder`; without it and --into, it is printed")
	fl.StringVar(&f.p.Format, "output-format", "tsv", "how these files are written: `tsv|csv`")
	fl.BoolVar(&f.p.Header, "header", false, "begin each file with the names of the columns")
	fl.StringVar(&f.p.Into, "into", "", "write the output into this `table`, its columns by name")
	fl.BoolVar(&f.p.Overwrite, "overwrite", false, "replace what the folder or table has")
	fl.IntVar(&f.p.Reduces, "reduces", 0, "run `n` reduce tasks (default one a slot)")
	fl.IntVar(&f.p.Attempts, "attempts", 0, "the job fails when a task has failed `n` times (default 4)")
	fl.StringArrayVarP(&f.params, "define", "D", nil, "a parameter of the program: `name=value`; may be repeated")
	fl.BoolVar(&f.json, "json", false, "print the job's end as a JSON object, and rows of output as JSON objects before it")
}

// parse completes the program from flags and input arguments.
func (f *programFlags) parse(d client.ProgramDescription, inputs []string) error {
	f.p.Params = map[string]string{}
	for _, d := range f.params {
		name, value, ok := strings.Cut(d, "=")
		if !ok || name == "" {
			return usagef("-D %q: want name=value", d)
		}
		f.p.Params[name] = value
	}
	if d.Input == mapreduce.InputLines {
		f.p.Files = inputs
		return nil
	}
	if len(inputs) > 1 {
		return usagef("program %s reads one table: got %d names", d.Name, len(inputs))
	}
	f.p.Table = strings.Join(inputs, "")
	return nil
}

func (a *app) jobRun() *cobra.Command {
	f := &programFlags{}
	c := &cobra.Command{
		Use:   "run PROGRAM INPUT...",
		Short: "Run one of Skep's map/reduce programs and wait for its end",
		Long: "Runs a program that is part of Skep over text files (files, folders, patterns) or a table:\n\n" +
			programList() + "\nCtrl-C kills the job.",
		Example: "  skep job run wordcount books/*.txt --output counts\n" +
			"  skep job run wordcount books --into words --overwrite\n" +
			"  skep job run rowcount birds --where \"family = 'Paridae'\" --json",
		Args: arguments(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			f.p.Name = args[0]
			return a.runProgram(c.Context(), f, args[1:])
		},
	}
	f.add(c)
	return c
}

func (a *app) jobSubmit() *cobra.Command {
	f := &programFlags{}
	l := &f.p.Limits
	c := &cobra.Command{
		Use:   "submit FILE INPUT...",
		Short: "Run a map/reduce program of your own and wait for its end",
		Long: "Runs a program that is built with package jobs/mapreduce (docs/jobs.md). Each task is a process of its\n" +
			"own, with a clean environment, a folder and limits; what it prints is the task's log. Ctrl-C kills the\n" +
			"job and all its processes.",
		Example: "  go build -o /tmp/trigrams ./examples/trigrams\n" +
			"  skep job submit /tmp/trigrams books/*.txt --output trigrams -D length=4\n" +
			"  skep job submit /tmp/several birds --program heaviest --task-memory 512",
		Args: arguments(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			f.p.Executable = args[0]
			return a.runProgram(c.Context(), f, args[1:])
		},
	}
	f.add(c)
	fl := c.Flags()
	fl.StringVar(&f.p.Name, "program", "", "the `name` of the program, if the file has several")
	fl.DurationVar(&l.Timeout, "task-timeout", 0, "kill a task that makes no progress for this `time` (default 10m)")
	var memory int64
	fl.Int64Var(&memory, "task-memory", 0, "kill a task that uses more than so many `MiB` of memory (default 1024)")
	fl.IntVar(&l.Processes, "task-processes", 0, "how many processes a task may have, itself included, `n` (default 1)")
	c.PreRun = func(*cobra.Command, []string) { l.Memory = memory << 20 }
	return c
}

// programList has a line a built-in program.
func programList() string {
	g := newGrid("program", "reads", "what it does")
	for _, p := range client.BuiltinPrograms() {
		g.add(p.Name, string(p.Input), p.About)
	}
	var b strings.Builder
	_ = g.write(&b) // a builder takes everything
	return b.String()
}

// runProgram runs a program to its end.
func (a *app) runProgram(ctx context.Context, f *programFlags, inputs []string) (err error) {
	ctx, stop := a.interruptible(ctx)
	defer stop()
	db, err := f.place.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	d, err := db.Program(ctx, f.p)
	if err != nil {
		return err
	}
	if err := f.parse(d, inputs); err != nil {
		return err
	}
	start := time.Now()
	job, err := db.Run(ctx, f.p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, job.Close()) }()
	status, err := a.watch(ctx, job)
	if err == nil && f.p.Dir == "" && f.p.Into == "" {
		err = a.programRows(ctx, job, f.json)
	}
	return errors.Join(err, a.jobEnd(f, job, status, time.Since(start), err))
}

// watch draws a job's progress on a terminal until it ends.
func (a *app) watch(ctx context.Context, job *client.Job) (client.JobStatus, error) {
	stop := a.drawProgress(func() (client.JobStatus, bool) { return job.Status(), true })
	defer stop()
	status, err := job.Wait(ctx)
	if ctx.Err() == nil {
		return status, err
	}
	job.Kill()
	if status, err = job.Wait(context.WithoutCancel(ctx)); err != nil {
		err = ctx.Err()
	}
	return status, err
}

func (a *app) programRows(ctx context.Context, job *client.Job, asJSON bool) error {
	rows, err := job.Rows()
	if err != nil {
		return err
	}
	defer rows.Close()
	format := render.TSV
	if asJSON {
		format = render.JSONL
	}
	_, err = a.printRows(ctx, rows, format, false)
	return err
}

// jobEnd prints how a job ended: on standard error for people, as JSON on
// standard output.
func (a *app) jobEnd(f *programFlags, job *client.Job, s client.JobStatus, took time.Duration, failed error) error {
	if f.json {
		end := map[string]any{"job": job.ID(), "state": s.State.String(), "rows": s.Summary.Rows, "elapsed_ms": took.Milliseconds(), "counters": s.Counters}
		if failed != nil {
			end["error"] = failed.Error()
		}
		return a.json(end)
	}
	if failed != nil {
		return nil // printed at the end
	}
	fmt.Fprintf(a.err, "job %s succeeded in %.2f s: %s of output\n", job.ID(), took.Seconds(), count(s.Summary.Rows, "row"))
	for _, st := range s.Stages {
		fmt.Fprintf(a.err, "  %s: %s, %d of %d local\n", st.Name, count(int64(st.Tasks), "task"), st.Local, st.Placed)
	}
	var names []string
	for n := range s.Counters {
		names = append(names, n)
	}
	slices.Sort(names)
	g := newGrid("counter", "value")
	g.right(1)
	for _, n := range names {
		g.add(n, fmt.Sprint(s.Counters[n]))
	}
	return g.write(a.err)
}
