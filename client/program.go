package client

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/jobs"
	"github.com/skepdb/skep/jobs/mapreduce"
	"github.com/skepdb/skep/jobs/mapreduce/engine"
	"github.com/skepdb/skep/node"
	"github.com/skepdb/skep/outputformat/text"
)

// Program is a run of a map/reduce program.
type Program struct {
	// Name is that of a built-in program, or of one in Executable, which may have
	// only one.
	Name string
	// Executable is the file of a program that is built with mapreduce.Main, for
	// the system that the workers run on; "": the program is a built-in one.
	Executable string
	// Files are the input of programs that read lines: files, folders and
	// patterns.
	Files []string
	// Table is the input of programs that read rows; Where, if not "", a HiveQL
	// condition that picks rows and is pushed into the scan.
	Table string
	Where string
	// Dir is a directory that is made for the output, as tsv or csv files (Format;
	// "": tsv), with a line of column names if Header. Into is a table that takes
	// it, columns by name. With neither, Job.Rows has the output.
	Dir    string
	Format string
	Header bool
	Into   string
	// Overwrite replaces what Dir or Into has; otherwise Dir must not exist.
	Overwrite bool
	Reduces   int // 0 = one a slot
	Attempts  int // that may fail of a task before the job does; 0 = 4
	Params    map[string]string
	Limits    Limits
}

// Limits bound what an attempt of a program in a child process may take.
type Limits = engine.Limits

// JobStatus says how far a job is.
type JobStatus = jobs.Status

// ProgramDescription says what a program reads and what its rows are.
type ProgramDescription = mapreduce.Description

// Job is a job that was started here. It must be closed.
type Job struct{ run *node.ProgramRun }

// BuiltinPrograms describes the programs that are part of Skep, by name.
func BuiltinPrograms() []ProgramDescription { return node.BuiltinPrograms() }

// Program describes the program that Run would run.
func (c *Client) Program(ctx context.Context, p Program) (ProgramDescription, error) {
	r, err := c.request(ctx, p)
	if err != nil {
		return ProgramDescription{}, err
	}
	return c.node.Program(ctx, r)
}

// Run starts a program. The job is killed when ctx ends, or the job is closed.
func (c *Client) Run(ctx context.Context, p Program) (*Job, error) {
	r, err := c.request(ctx, p)
	if err != nil {
		return nil, err
	}
	run, err := c.node.RunProgram(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("run program %s: %w", p.Name+p.Executable, err)
	}
	return &Job{run}, nil
}

// request is what a node is asked; the executable is stored as an artifact.
func (c *Client) request(ctx context.Context, p Program) (node.ProgramRequest, error) {
	r := node.ProgramRequest{
		Program: p.Name, Files: p.Files, Table: p.Table, Where: p.Where,
		Dir: p.Dir, Style: text.Style(p.Format), Header: p.Header, Into: p.Into, Overwrite: p.Overwrite,
		Reduces: p.Reduces, Attempts: p.Attempts, Params: p.Params, Limits: p.Limits,
	}
	if c.node == nil {
		return r, errProgramHere
	}
	if p.Format != "" {
		if _, err := text.ParseStyle(p.Format); err != nil {
			return r, err
		}
	}
	if p.Executable == "" {
		return r, nil
	}
	f, err := os.Open(p.Executable)
	if err != nil {
		return r, fault.Userf("program: %w", err)
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return r, errors.Join(fault.Userf("program %s is not a file", p.Executable), f.Close())
	}
	r.Artifact, err = c.node.PutArtifact(ctx, f)
	return r, errors.Join(err, f.Close())
}

// ID returns the job's id.
func (j *Job) ID() string { return string(j.run.ID()) }

// Status returns how far the job is, or how it ended.
func (j *Job) Status() JobStatus { return j.run.Status() }

// Wait waits for the job's end. If ctx ends first, the job goes on.
func (j *Job) Wait(ctx context.Context) (JobStatus, error) { return j.run.Wait(ctx) }

// Kill ends the job soon.
func (j *Job) Kill() { j.run.Kill(nil) }

// Rows returns the output of a job that has succeeded, if it went neither to
// a directory nor into a table. The rows end with the job.
func (j *Job) Rows() (*Rows, error) {
	r, err := j.run.Rows()
	if err != nil {
		return nil, err
	}
	return &Rows{fields: j.run.Fields, next: r.Next, close: r.Close}, nil
}

// Close kills the job if it runs, and frees its rows.
func (j *Job) Close() error { return j.run.Close() }

// errProgramHere is the error of programs on a client of a server.
var errProgramHere = fault.Unsupportedf("map/reduce programs at a server: open its data folders while it isn't running")
