package rpc

import "github.com/juju/errors"

// ErrShutdown says that the connection is closed or closing, so that a request
// was not sent, not started, or not answered.
const ErrShutdown = errors.ConstError("connection is shut down")

// ErrTooManyRequests answers a request that exceeds the number which may be
// under way on one connection.
const ErrTooManyRequests = errors.ConstError("too many requests under way on this connection")

// ErrNotReading ends a connection whose peer requests but does not read what it
// is answered.
const ErrNotReading = errors.ConstError("peer does not read its replies")

// Error is the failure of a call as it travels: a text for people, a code for
// programs, and more where the code promises it.
type Error struct {
	Message string
	Code    string         // empty means that no code fits
	Info    map[string]any // nil means none
}

// Error returns the message alone.
func (e *Error) Error() string { return e.Message }

// ErrorCode returns the code, which may be empty.
func (e *Error) ErrorCode() string { return e.Code }
