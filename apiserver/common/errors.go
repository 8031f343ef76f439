package common

import (
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/params"
)

// The errors that facades share. Their texts are part of the protocol.
var (
	// ErrPerm says that the caller may not do this, or not to this entity.
	ErrPerm = errors.WithType(errors.New("permission denied"), errors.Unauthorized)
	// ErrBadID says that a facade has no object of that id.
	ErrBadID = errors.WithType(errors.New("id not found"), errors.NotFound)
	// ErrUnknownWatcher says that the connection has no watcher of that id, or
	// one of another kind.
	ErrUnknownWatcher = errors.WithType(errors.New("unknown watcher id"), errors.NotFound)
	// ErrStopped says that a watcher was stopped while somebody waited for it.
	ErrStopped error = kind.Stopped
)

// ServerError returns err as it goes over the wire, nil for nil.
func ServerError(err error) *params.Error { return params.ErrorOf(err) }

// OwnError is ServerError for facades that are additions of this project: more kinds have
// a code there; see params.OwnErrorOf.
func OwnError(err error) *params.Error { return params.OwnErrorOf(err) }
