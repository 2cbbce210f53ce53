// Package rpc is the protocol between the shell, or a Go client, and a server:
// frontend's sessions and operations over gRPC, with the same methods at both
// ends. Rows travel as frames of Arrow streams, a page at a time; files of LOAD
// DATA LOCAL travel the other way.
package rpc

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/schema"
)

// slice is a frame.Source of frames that lie one after the other in memory.
type slice struct{ rest []byte }

// Frame implements frame.Source.
func (s *slice) Frame(context.Context) ([]byte, error) {
	if len(s.rest) == 0 {
		return nil, io.EOF
	}
	n, err := frame.Size(s.rest)
	if err == nil && n > len(s.rest) {
		err = fmt.Errorf("%w: a frame is cut off", frame.ErrCorrupt)
	}
	if err != nil {
		return nil, err
	}
	f := s.rest[:n]
	s.rest = s.rest[n:]
	return f, nil
}

// decodeRows returns the batches in frames.
func decodeRows(ctx context.Context, fields []schema.Field, frames []byte) ([]*batch.Batch, error) {
	r := frame.NewReader(fields, &slice{frames})
	var out []*batch.Batch
	for {
		b, err := r.Next(ctx)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("fetch rows: %w", err)
		}
		out = append(out, b)
	}
}

func encodeFields(c *coding.Registry, fields []schema.Field) ([]byte, error) {
	return c.Marshal(fields)
}

func decodeFields(c *coding.Registry, b []byte) ([]schema.Field, error) {
	fields, err := coding.Decode[[]schema.Field](c, b)
	if err == nil && fields == nil {
		fields = []schema.Field{}
	}
	return fields, err
}

// renamed is an error that names files as the client does, who doesn't know where
// the server keeps them.
type renamed struct {
	err   error
	names []string // pairs for strings.NewReplacer
}

func (e *renamed) Error() string { return strings.NewReplacer(e.names...).Replace(e.err.Error()) }
func (e *renamed) Unwrap() error { return e.err }
