package state

import (
	"fmt"

	"github.com/juju/errors"
)

// Conditions that callers tell apart, beside those of package kind and the kinds
// of package errors (NotFound, NotProvisioned, AlreadyExists, NotValid). Test them
// with errors.Is.
const (
	// ErrNotAlive says that an entity is gone, or on its way, and the change
	// is for living ones only.
	ErrNotAlive = errors.ConstError("not found or not alive")

	// ErrNotDead says that only a dead entity can be removed.
	ErrNotDead = errors.ConstError("not dead")

	// ErrRequired says that the model needs the machine.
	ErrRequired = errors.ConstError("machine is required by the model")

	// ErrAlreadySet says that instance data was recorded before; it never
	// changes.
	ErrAlreadySet = errors.ConstError("already set")

	// ErrModelNotAlive says that a model takes no new things any more.
	ErrModelNotAlive = errors.ConstError("model is no longer alive")

	// ErrBadCredentials says that a name or a password is wrong, or the user
	// is disabled; which of them is not told.
	ErrBadCredentials = errors.ConstError("invalid entity name or password")

	// ErrClosed says that the controller's state has been closed; watchers
	// end with it.
	ErrClosed = errors.ConstError("state has been closed")
)

// typedf returns an error with its own text that satisfies errors.Is(err, kind).
func typedf(kind errors.ConstError, format string, args ...any) error {
	return errors.WithType(errors.New(fmt.Sprintf(format, args...)), kind)
}
