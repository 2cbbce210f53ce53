package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	faultpb "github.com/skepdb/skep/api/fault"
	"github.com/skepdb/skep/internal/fault"
)

// Mark is a sentinel error that keeps its identity on the way to another
// process: errors.Is(err, Sentinel) there is what it was here.
type Mark struct {
	// Name is the mark's on the wire; never reuse one.
	Name     string
	Sentinel error
	// Encode returns what is to be known of an error that is Sentinel, and
	// Decode makes such an error of it. Both are nil if there is nothing but that it is.
	Encode func(err error) []byte
	Decode func(payload []byte, text string) error
}

// Translator turns errors into gRPC statuses and back. The class, SQLSTATE,
// place, hint and text of an error survive, and the marks that both sides know.
type Translator struct{ Marks []Mark }

// remote is an error that came from another process.
type remote struct {
	text string
	is   []error
}

func (e *remote) Error() string   { return e.text }
func (e *remote) Unwrap() []error { return e.is }

// Encode returns err as a message: what Status sends along, and what replies
// carry in which an error is news and not a failure of the call. nil stays nil.
func (t Translator) Encode(err error) *faultpb.Error {
	if err == nil {
		return nil
	}
	e := &faultpb.Error{Class: uint32(fault.ClassOf(err)), Sqlstate: fault.StateOf(err), Message: err.Error()}
	line, column := fault.PlaceOf(err)
	e.Line, e.Column = int32(line), int32(column)
	if f, ok := errors.AsType[*fault.Error](err); ok && f == err {
		e.Hint = f.Hint
		if f.Hint != "" { // Error() has it at its end
			g := *f
			g.Hint = ""
			e.Message = g.Error()
		}
	}
	for _, m := range t.Marks {
		if errors.Is(err, m.Sentinel) {
			e.Marks = append(e.Marks, m.Name)
			if len(e.Marks) == 1 && m.Encode != nil {
				e.Payload = m.Encode(err)
			}
		}
	}
	if errors.Is(err, context.Canceled) {
		e.Marks = append(e.Marks, markCanceled)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Marks = append(e.Marks, markDeadline)
	}
	return shorten(e)
}

// Status returns err as what a gRPC handler returns. A context's end stays one;
// nil stays nil.
func (t Translator) Status(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok && !isClassified(err) {
		return err // gRPC's own
	}
	e := t.Encode(err)
	code := codes.Internal
	switch {
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case fault.ClassOf(err) == fault.User:
		code = codes.InvalidArgument
	case fault.ClassOf(err) == fault.Retryable:
		code = codes.Aborted
	}
	// A status's message goes into a header, whose size is bounded.
	s := status.New(code, clip(err.Error(), 512))
	if withDetail, derr := s.WithDetails(e); derr == nil {
		s = withDetail
	}
	return s.Err()
}

func isClassified(err error) bool {
	_, ok := errors.AsType[*fault.Error](err)
	return ok
}

// maxText keeps the detail of a status below what gRPC allows for all headers.
const maxText = 4 << 10

func shorten(e *faultpb.Error) *faultpb.Error {
	e.Message, e.Hint = clip(e.Message, maxText), clip(e.Hint, maxText)
	return e
}

// clip cuts a text at n bytes, saying so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 { // not within a rune
		n--
	}
	return fmt.Sprintf("%s ... (%d bytes more)", s[:n], len(s)-n)
}

// Error returns what a gRPC call returned as an error of ours. peer names who was
// called, for errors of the transport itself. io.EOF, a context's end and nil
// stay what they are.
func (t Translator) Error(peer string, err error) error {
	if err == nil || err == io.EOF || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, d := range s.Details() {
		if e, ok := d.(*faultpb.Error); ok {
			return t.Decode(e)
		}
	}
	switch s.Code() {
	case codes.OK:
		return nil
	case codes.Canceled:
		return fmt.Errorf("%s: %s: %w", peer, s.Message(), context.Canceled)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%s didn't answer in time: %w", peer, context.DeadlineExceeded)
	case codes.Unavailable:
		return fault.Unavailablef("%s can't be reached: %s", peer, reason(s.Message()))
	case codes.Unimplemented:
		return fault.Userf("%s doesn't do this: %s", peer, s.Message())
	case codes.ResourceExhausted:
		return fault.Bugf("%s: a message is too large: %s", peer, s.Message())
	}
	return fault.Bugf("%s: %s: %s", peer, s.Code(), s.Message())
}

// Names of the marks that need no registration.
const (
	markCanceled = "context canceled"
	markDeadline = "context deadline exceeded"
)

// Decode is the inverse of Encode.
func (t Translator) Decode(e *faultpb.Error) error {
	if e == nil {
		return nil
	}
	r := &remote{text: e.Message}
	for i, name := range e.Marks {
		switch name {
		case markCanceled:
			r.is = append(r.is, context.Canceled)
		case markDeadline:
			r.is = append(r.is, context.DeadlineExceeded)
		}
		for _, m := range t.Marks {
			if m.Name != name {
				continue
			}
			if i == 0 && m.Decode != nil {
				if err := m.Decode(e.Payload, e.Message); err != nil {
					r.is = append(r.is, err)
					continue
				}
			}
			r.is = append(r.is, m.Sentinel)
		}
	}
	class := fault.Class(e.Class)
	if class > fault.Retryable {
		class = fault.Bug
	}
	return &fault.Error{
		Class: class, SQLState: e.Sqlstate, Hint: e.Hint,
		Line: int(e.Line), Column: int(e.Column), Cause: r,
	}
}
