// Package outputformat is the door by which rows leave a job: attempts write
// under unique names, one publish makes the winners' output visible, all of it
// at once. Its children are the kinds.
package outputformat

import (
	"context"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Spec says where to write, wholly resolved.
type Spec interface {
	Format() string // "table", "resultset"
	Describe() string
}

// Manifest is what a finished attempt has written. Only the manifests of the
// attempts that won are published.
type Manifest struct {
	Attempt string // unique name of the attempt
	Task    int
	Rows    int64
	Bytes   int64
	Body    any // the format's own
}

// Summary is the result of a publish.
type Summary struct {
	Rows       int64
	Duplicates int64
}

// Writer takes one attempt's rows.
type Writer interface {
	Write(ctx context.Context, b *batch.Batch) error
	// Finish makes the attempt's output durable, not visible.
	Finish(ctx context.Context) (Manifest, error)
	// Abort removes it; safe after an error, a no-op after Finish.
	Abort() error
}

// Format is a kind of output.
type Format interface {
	// Begin prepares the output of a job (opens the transaction) before the
	// first attempt; the returned Spec is the one attempts get.
	Begin(ctx context.Context, s Spec) (Spec, error)
	// Open opens the output of an attempt; may run many times for one task.
	Open(ctx context.Context, s Spec, fields []schema.Field, task int, attempt string) (Writer, error)
	// Publish makes the manifests' rows visible: once, idempotent.
	Publish(ctx context.Context, s Spec, won []Manifest) (Summary, error)
	// Abandon drops everything attempts have written; after Publish it fails.
	Abandon(ctx context.Context, s Spec) error
}

// Formats is the registry, a value built by node.
type Formats map[string]Format
