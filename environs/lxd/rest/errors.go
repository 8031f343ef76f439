package rest

import (
	"context"
	"net/http"

	"github.com/juju/errors"
)

// Errors of a Client's methods, to be tested for with errors.Is.
const (
	// ErrUnreachable says that no answer came: the daemon is not there, or
	// something between is broken. What was asked for may have been done.
	ErrUnreachable = errors.ConstError("LXD does not answer")
	// ErrLost says that the daemon has forgotten an operation, as it does when
	// it is restarted. What came of it must be looked up.
	ErrLost = errors.ConstError("LXD has lost track of what it was doing")
	// ErrFailed says that an operation was begun, and failed.
	ErrFailed = errors.ConstError("LXD operation failed")
)

// unreachable is the error for a call without an answer. The end of a context
// stays recognizable.
func unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.Trace(err)
	}
	return errors.WithType(errors.Annotatef(err, "%v", ErrUnreachable), ErrUnreachable)
}

// refusal is the error for an answer that is one. Its text is LXD's.
func refusal(code int, text string) error {
	if text == "" {
		text = http.StatusText(code)
	}
	err := errors.New(text)
	switch code {
	case http.StatusNotFound:
		return errors.WithType(err, errors.NotFound)
	case http.StatusUnauthorized, http.StatusForbidden:
		return errors.WithType(err, errors.Unauthorized)
	case http.StatusConflict, http.StatusPreconditionFailed:
		return errors.WithType(err, errors.AlreadyExists)
	case http.StatusBadRequest:
		return errors.WithType(err, errors.NotValid)
	case http.StatusServiceUnavailable:
		return errors.WithType(err, ErrUnreachable)
	}
	return err
}
