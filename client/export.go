package client

import (
	"context"

	"github.com/skepdb/skep/export"
	"github.com/skepdb/skep/internal/fault"
)

type (
	// Export says what an export is: a query or table, a format, a schedule.
	Export = export.Definition
	// ExportSchedule says when an export runs by itself.
	ExportSchedule = export.Schedule
	// ExportRun is one making of an export.
	ExportRun = export.Run
	// ExportManifest says what an exported file is.
	ExportManifest = export.Manifest
	// DownloadOptions say how a file is fetched.
	DownloadOptions = export.DownloadOptions
)

// CreateExport makes an export. Its schedule is followed by `skep start`.
func (c *Client) CreateExport(ctx context.Context, d Export) (Export, error) {
	s, err := c.exports()
	if err != nil {
		return Export{}, err
	}
	return s.Create(ctx, d)
}

// Exports returns all exports, by name.
func (c *Client) Exports() ([]Export, error) {
	s, err := c.exports()
	if err != nil {
		return nil, err
	}
	return s.List(), nil
}

// Export returns an export and its runs, the newest first.
func (c *Client) Export(name string) (Export, []ExportRun, error) {
	s, err := c.exports()
	if err != nil {
		return Export{}, nil, err
	}
	return s.Get(name)
}

// RunExport makes an export now and waits for its end; the run is cancelled when ctx
// ends before.
func (c *Client) RunExport(ctx context.Context, name string) (ExportRun, error) {
	s, err := c.exports()
	if err != nil {
		return ExportRun{}, err
	}
	r, err := s.Start(name)
	if err != nil {
		return r, err
	}
	r, err = s.Wait(ctx, name, r.ID)
	if ctx.Err() == nil {
		return r, err
	}
	if cerr := s.Cancel(name, r.ID); cerr == nil {
		r, _ = s.Wait(context.WithoutCancel(ctx), name, r.ID)
	}
	return r, context.Cause(ctx)
}

// CancelExport ends a run that is queued or being made.
func (c *Client) CancelExport(name, run string) error {
	s, err := c.exports()
	if err != nil {
		return err
	}
	return s.Cancel(name, run)
}

// ScheduleExport changes when an export runs by itself; nil is never.
func (c *Client) ScheduleExport(name string, schedule *ExportSchedule) (Export, error) {
	s, err := c.exports()
	if err != nil {
		return Export{}, err
	}
	return s.SetSchedule(name, schedule)
}

// DeleteExport drops an export with all its files, or, if run isn't "", one run.
func (c *Client) DeleteExport(name, run string) error {
	s, err := c.exports()
	if err != nil {
		return err
	}
	return s.Delete(name, run)
}

// DownloadExport copies the file of a run ("" is the newest that succeeded) to path,
// and checks its SHA-256.
func (c *Client) DownloadExport(ctx context.Context, name, run, path string, o DownloadOptions) (ExportRun, error) {
	s, err := c.exports()
	if err != nil {
		return ExportRun{}, err
	}
	return export.Download(ctx, export.Local{Service: s, Name: name, Run: run}, path, o)
}

// DownloadURL fetches the file of a run from a server: base is the address of `skep
// start --http`, "http://host:port". A broken transfer is resumed, in this call or
// by a later one.
func DownloadURL(ctx context.Context, base, name, run, path string, o DownloadOptions) (ExportRun, error) {
	return export.Download(ctx, export.Remote{Base: base, Name: name, Run: run}, path, o)
}

// exports returns the exports of the engine in this process.
func (c *Client) exports() (*export.Service, error) {
	if c.node == nil {
		return nil, fault.Unsupportedf("exports of a server by this client: download them over its HTTP address, or open its data folders while it isn't running")
	}
	return c.node.Exports()
}
