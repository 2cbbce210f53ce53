package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/jobs"
	"github.com/spf13/cobra"
)

// jobVerb makes a verb about jobs that run or have run: flags, and a client that is
// open while it runs.
func (a *app) jobVerb(c *cobra.Command, run func(ctx context.Context, db *client.Client, asJSON bool, args []string) error) *cobra.Command {
	var place placeFlags
	var asJSON bool
	place.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print for programs")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := a.interruptible(c.Context())
		defer stop()
		db, err := place.open(ctx, true)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, db, asJSON, args), db.Close())
	}
	return c
}

func (a *app) jobList() *cobra.Command {
	return a.jobVerb(&cobra.Command{
		Use: "list", Short: "List the jobs that run",
		Long:    "Lists the jobs that wait or run at a server. Without a server, jobs end with their\ncommand: see `skep job history`.",
		Example: "  skep job list --server 127.0.0.1:7070",
		Args:    arguments(cobra.NoArgs),
	}, func(ctx context.Context, db *client.Client, asJSON bool, _ []string) error {
		return a.printJobs(ctx, db, asJSON, func(s client.JobStatus) bool { return s.State <= jobs.Running })
	})
}

func (a *app) jobHistory() *cobra.Command {
	return a.jobVerb(&cobra.Command{
		Use: "history", Short: "List the jobs that have ended, the last ones",
		Example: "  skep job history\n  skep job history --json",
		Args:    arguments(cobra.NoArgs),
	}, func(ctx context.Context, db *client.Client, asJSON bool, _ []string) error {
		return a.printJobs(ctx, db, asJSON, func(s client.JobStatus) bool { return s.State > jobs.Running })
	})
}

func (a *app) printJobs(ctx context.Context, db *client.Client, asJSON bool, wanted func(client.JobStatus) bool) error {
	all, err := db.Jobs(ctx)
	if err != nil {
		return err
	}
	g := newGrid("job", "state", "done", "local", "name")
	for _, s := range all {
		switch {
		case !wanted(s):
		case asJSON:
			if err := a.json(jobJSON(s)); err != nil {
				return err
			}
		default:
			g.add(string(s.ID), s.State.String(), jobDone(s), jobLocal(s), oneLine(s.Name, 60))
		}
	}
	if asJSON {
		return nil
	}
	return g.write(a.out)
}

// jobDone is "3/8 tasks".
func jobDone(s client.JobStatus) string {
	done, all := 0, 0
	for _, st := range s.Stages {
		done, all = done+st.Done, all+st.Tasks
	}
	return fmt.Sprintf("%d/%d tasks", done, all)
}

// jobLocal is how many of the tasks whose data has a place ran there.
func jobLocal(s client.JobStatus) string {
	local, placed := 0, 0
	for _, st := range s.Stages {
		local, placed = local+st.Local, placed+st.Placed
	}
	if placed == 0 {
		return "-"
	}
	return strconv.Itoa(local*100/placed) + " %"
}

// oneLine shortens a text to a line of n letters.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}

func (a *app) jobStatus() *cobra.Command {
	return a.jobVerb(&cobra.Command{
		Use: "status JOB", Short: "Show how far a job is, what it waits for, or how it ended",
		Example: "  skep job status job_1_0001 --server 127.0.0.1:7070",
		Args:    arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, db *client.Client, asJSON bool, args []string) error {
		s, err := db.JobStatus(ctx, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return a.json(jobJSON(s))
		}
		fmt.Fprintf(a.out, "job     %s\nname    %s\nstate   %s\n", s.ID, oneLine(s.Name, 200), s.State)
		if s.Error != "" {
			fmt.Fprintf(a.out, "error   %s\n", s.Error)
		}
		if s.State == jobs.Succeeded {
			fmt.Fprintf(a.out, "rows    %d\n", s.Summary.Rows)
		}
		fmt.Fprintln(a.out)
		g := newGrid("stage", "state", "done", "running", "failed", "local", "time")
		g.right(2, 3, 4, 5, 6)
		for i, st := range s.Stages {
			local := "-"
			if st.Placed > 0 {
				local = fmt.Sprintf("%d/%d", st.Local, st.Placed)
			}
			g.add(fmt.Sprintf("%d %s", i, oneLine(st.Name, 40)), st.State.String(), fmt.Sprintf("%d/%d", st.Done, st.Tasks),
				strconv.Itoa(st.Running), strconv.Itoa(st.Failed), local, st.Elapsed.Round(time.Millisecond).String())
		}
		if err := g.write(a.out); err != nil {
			return err
		}
		for _, line := range jobNews(s) {
			if _, err := fmt.Fprintln(a.out, line); err != nil {
				return err
			}
		}
		return nil
	})
}

// jobNews are the lines about what a job waits for, and what is odd about it.
func jobNews(s client.JobStatus) []string {
	var out []string
	for i, st := range s.Stages {
		if st.Waiting != "" {
			out = append(out, fmt.Sprintf("stage %d waits for %s", i, st.Waiting))
		}
		if st.Warning != "" {
			out = append(out, fmt.Sprintf("stage %d: %s", i, st.Warning))
		}
	}
	return out
}

func (a *app) jobCounters() *cobra.Command {
	return a.jobVerb(&cobra.Command{
		Use: "counters JOB", Short: "Show what a job has counted: rows, bytes, its program's own counters",
		Example: "  skep job counters job_1_0001",
		Args:    arguments(cobra.ExactArgs(1)),
	}, func(ctx context.Context, db *client.Client, asJSON bool, args []string) error {
		s, err := db.JobStatus(ctx, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return a.json(s.Counters)
		}
		g := newGrid("counter", "value")
		g.right(1)
		var names []string
		for n := range s.Counters {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			g.add(n, strconv.FormatInt(s.Counters[n], 10))
		}
		return g.write(a.out)
	})
}

func (a *app) jobKill() *cobra.Command {
	return a.jobVerb(&cobra.Command{
		Use: "kill JOB...", Short: "End jobs that run at a server; their output is dropped",
		Example: "  skep job kill job_1_0001 --server 127.0.0.1:7070",
		Args:    arguments(cobra.MinimumNArgs(1)),
	}, func(ctx context.Context, db *client.Client, asJSON bool, args []string) error {
		for _, id := range args {
			s, err := db.KillJob(ctx, id)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				err = a.json(jobJSON(s))
			default:
				_, err = fmt.Fprintf(a.out, "job %s %s\n", s.ID, s.State)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) jobLogs() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "logs JOB", Short: "Print what the attempts of a job have written",
		Example: "  skep job logs job_1_0001\n  skep job logs job_1_0001 --follow --server 127.0.0.1:7070",
		Args:    arguments(cobra.ExactArgs(1)),
	}
	c.Flags().BoolVar(&follow, "follow", false, "go on until the job has ended")
	return a.jobVerb(c, func(ctx context.Context, db *client.Client, asJSON bool, args []string) error {
		last, open := "", false // whose text was printed last, and whether its line is open
		return db.JobLogs(ctx, args[0], follow, func(l client.LogText) error {
			if asJSON {
				return a.json(map[string]any{"attempt": l.Attempt, "text": l.Text, "dropped": l.Dropped})
			}
			var b strings.Builder
			if l.Attempt != last {
				if open {
					b.WriteByte('\n')
				}
				fmt.Fprintf(&b, "== %s ==\n", l.Attempt)
				last = l.Attempt
			}
			if l.Dropped > 0 {
				fmt.Fprintf(&b, "(%d bytes before this are not kept)\n", l.Dropped)
			}
			b.WriteString(l.Text)
			open = !strings.HasSuffix(l.Text, "\n")
			_, err := fmt.Fprint(a.out, b.String())
			return err
		})
	})
}

// jobJSON is a job as --json prints it.
func jobJSON(s client.JobStatus) map[string]any {
	stages := []map[string]any{}
	for _, st := range s.Stages {
		m := map[string]any{"name": st.Name, "state": st.State.String(), "tasks": st.Tasks, "done": st.Done, "running": st.Running,
			"failed": st.Failed, "attempts": st.Attempts, "local": st.Local, "placed": st.Placed, "progress": st.Progress,
			"elapsed_ms": st.Elapsed.Milliseconds(), "counters": st.Counters}
		if st.Waiting != "" {
			m["waiting"] = st.Waiting
		}
		if st.Warning != "" {
			m["warning"] = st.Warning
		}
		stages = append(stages, m)
	}
	m := map[string]any{"job": string(s.ID), "name": s.Name, "state": s.State.String(), "rows": s.Summary.Rows, "stages": stages, "counters": s.Counters}
	if s.Error != "" {
		m["error"] = s.Error
	}
	return m
}
