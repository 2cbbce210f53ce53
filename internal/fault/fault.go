// Package fault gives errors one of three classes: the user's, retryable, or a
// bug. Code below the edge returns wrapped errors; the edge (command line,
// REST, gRPC) translates the class once.
package fault

import (
	"errors"
	"fmt"
)

// Class says who can do something about an error.
type Class uint8

const (
	// Bug is the class of an error nobody has classified: our fault.
	Bug Class = iota
	// User means the query, file or argument is wrong; a retry fails again.
	User
	// Retryable means the same request may succeed elsewhere or later.
	Retryable
)

// String returns "bug", "user" or "retryable".
func (c Class) String() string {
	switch c {
	case User:
		return "user"
	case Retryable:
		return "retryable"
	default:
		return "bug"
	}
}

// SQLSTATEs used in more than one package.
const (
	StateSyntax       = "42000" // syntax error or access rule violation
	StateUnknownTable = "42S02"
	StateTableExists  = "42S01"
	StateUnknownCol   = "42S22"
	StateUnsupported  = "0A000"
	StateBadData      = "22000"
	StateInternal     = "XX000"
	StateRetry        = "40001"
	StateUnavailable  = "57P03" // what is needed is away for a while
)

// Error is an error with a class and, where it concerns SQL text, a place.
type Error struct {
	Class    Class
	SQLState string // five characters, or empty
	Message  string
	Line     int // 1-based; 0 = no place
	Column   int // 1-based, in runes
	Hint     string
	Cause    error // printed after Message

	inner error // an error whose text Message already contains
}

func (e *Error) Error() string {
	s := e.Message
	if e.Cause != nil {
		if s != "" {
			s += ": "
		}
		s += e.Cause.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	if e.Cause != nil {
		return e.Cause
	}
	return e.inner
}

// Userf returns an error of class User. %w is honoured.
func Userf(format string, args ...any) error { return newf(User, StateBadData, format, args...) }

// Retryablef returns an error of class Retryable. %w is honoured.
func Retryablef(format string, args ...any) error {
	return newf(Retryable, StateRetry, format, args...)
}

// Bugf returns an error of class Bug. %w is honoured.
func Bugf(format string, args ...any) error { return newf(Bug, StateInternal, format, args...) }

// Unsupportedf returns a user error with SQLSTATE 0A000.
func Unsupportedf(format string, args ...any) error {
	return newf(User, StateUnsupported, "not supported yet: "+format, args...)
}

// ErrUnavailable is in the tree of errors about something that is the only one of
// its kind and away for a while, such as a region of a worker that is not
// there: to wait helps, to try elsewhere doesn't.
var ErrUnavailable = errors.New("unavailable")

// Unavailablef returns an error of class Retryable that is ErrUnavailable.
func Unavailablef(format string, args ...any) error {
	return &Error{Class: Retryable, SQLState: StateUnavailable, Message: fmt.Sprintf(format, args...), inner: ErrUnavailable}
}

func newf(c Class, state, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Class: c, SQLState: state, Message: err.Error(), inner: errors.Unwrap(err)}
}

// ClassOf returns the class of the outermost classified error in err's tree;
// Bug if there is none.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Bug
}

// StateOf returns err's SQLSTATE: its own or that of its class.
func StateOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		if e.SQLState != "" {
			return e.SQLState
		}
		switch e.Class {
		case User:
			return StateBadData
		case Retryable:
			return StateRetry
		}
	}
	return StateInternal
}

// PlaceOf returns the line and column err points at, or zeros.
func PlaceOf(err error) (line, column int) {
	for {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return 0, 0
		}
		if e.Line > 0 {
			return e.Line, e.Column
		}
		err = e.Unwrap()
		if err == nil {
			return 0, 0
		}
	}
}
