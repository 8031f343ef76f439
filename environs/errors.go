package environs

import "github.com/juju/errors"

// Errors that brokers return and callers test for with errors.Is. Give them to
// an error with errors.WithType, which leaves the error's own text.
const (
	// ErrPermanent marks a failed start that no further try will mend, such as
	// constraints that no hardware meets.
	ErrPermanent = errors.ConstError("permanent failure")
	// ErrZone marks a failed start for which some zone is to blame, such as
	// one without room, after all zones that would do have been tried.
	ErrZone = errors.ConstError("zone-specific failure")
	// ErrBusy marks a failure of a provider that has too much to do: the same
	// call is worth repeating later.
	ErrBusy = errors.ConstError("provider is busy")
	// ErrPartialInstances says that some of the instances asked for are there
	// and some are not.
	ErrPartialInstances = errors.ConstError("only some instances were found")
)

// ErrNoInstances says that none of the instances asked for is there. It
// satisfies errors.NotFound.
var ErrNoInstances = errors.NotFoundf("instances")

// Class says what to do about an error of StartInstance.
type Class int

// The classes of start errors.
const (
	Retryable    Class = iota // wait, then try again
	ZoneSpecific              // wait, then try again: all zones that would do have been tried
	Permanent                 // say so, and leave it to a person
)

// String returns the class in a word or two.
func (c Class) String() string {
	return [...]string{"retryable", "zone-specific", "permanent"}[c]
}

// ClassOf returns the class of err. Whatever does not say otherwise is
// retryable: a provider need not know its errors for a start to be tried
// again. Errors about the request itself (errors.NotValid, errors.NotSupported)
// are permanent.
func ClassOf(err error) Class {
	switch {
	case errors.Is(err, ErrPermanent), errors.Is(err, errors.NotValid), errors.Is(err, errors.NotSupported):
		return Permanent
	case errors.Is(err, ErrZone):
		return ZoneSpecific
	}
	return Retryable
}
