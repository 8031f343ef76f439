// Package provisioner is the contract between the host manager and whatever
// carries out its wishes on a bare-metal host: a back end.
//
// # The calls
//
// A Provisioner is made for one host and one pass, and thrown away; it must be
// cheap, and keeps nothing that cannot be read again. A call never waits for
// hardware: it makes at most one move, and says by its Result whether to call
// again. All calls are idempotent.
//
// What a call returns is looked at in this order:
//
//	err != nil          a fault that says nothing about the host: network, back end
//	                    down, node gone (ErrNotRegistered). Try again.
//	ErrorMessage != ""  the back end's verdict: this operation failed for this host.
//	Dirty               under way: call the same method again after RequeueAfter.
//	otherwise           done.
//
// # The host
//
// A back end reads the spec and the status of the host that its Factory was
// given. It may write two fields of the status and no others:
// Provisioning.ID, from registration on, and PoweredOn, by UpdateHardwareState
// and the power calls. IsRetry tells it whether the last call of a kind failed, in
// which case it is now being called to try once more.
//
// # Time
//
// The methods take no context: a back end takes one, and its time limits, where
// its Factory is made.
package provisioner

import (
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// ErrNotRegistered is returned by a back end that does not know the host (any
// more). Registering it again helps.
const ErrNotRegistered = errors.ConstError("host is not registered")

// EventPublisher tells people that something happened to a host: reason is one
// word in CamelCase, message one sentence. It returns at once, and nothing
// depends on the event being seen.
type EventPublisher func(reason, message string)

// Factory returns a Provisioner for host. It does no I/O; an error means that the
// host's BMC address or credentials cannot be used, and satisfies errors.NotValid
// or errors.NotSupported. During the removal of a host credentials may be empty.
type Factory func(host *metal3v1alpha1.BareMetalHost, bmcCreds bmc.Credentials, publish EventPublisher) (Provisioner, error)

// HostConfigData gives the data with which a host is configured at its first
// boot. It is read only at the moment when deployment starts, so that a secret is
// read as late as can be. No data is the empty string without an error.
type HostConfigData interface {
	// UserData returns the user data.
	UserData() (string, error)

	// NetworkData returns the network configuration.
	NetworkData() (string, error)
}

// MetaDataGetter is what a HostConfigData may have besides: the YAML of a map
// that is merged over the meta data a back end makes up itself.
type MetaDataGetter interface {
	MetaData() (string, error)
}

// Provisioner carries out one host's operations. See the package comment for
// what the results mean.
type Provisioner interface {
	// ValidateManagementAccess makes the host known to the back end and checks
	// that its BMC can be reached with the credentials. credentialsChanged says
	// that they are not those of the last call, and nothing about either being
	// right; an earlier failure is then forgotten.
	ValidateManagementAccess(credentialsChanged bool) (result Result, err error)

	// InspectHardware finds out what the host is made of. It is dirty until
	// details are there, and returns them once done.
	InspectHardware() (result Result, details *metal3v1alpha1.HardwareDetails, err error)

	// UpdateHardwareState reads the power state in the cheapest way there is, and
	// is dirty only if it is not the recorded one. An unknown power state is no
	// change and no error.
	UpdateHardwareState() (result Result, err error)

	// Adopt makes the back end regard the host as carrying its image already,
	// without writing anything. It does nothing to a host that it regards so.
	Adopt() (result Result, err error)

	// Provision writes the image of the host's spec. The image that just failed
	// fails again with the same ErrorMessage, unless the host's record says that
	// this is a new try; another image is a new try.
	Provision(configData HostConfigData) (result Result, err error)

	// Deprovision removes the image. It is dirty until that is done.
	Deprovision() (result Result, err error)

	// Delete makes the back end forget the host, without wiping it. It is dirty
	// until the back end does not know the host.
	Delete() (result Result, err error)

	// PowerOn switches the host on, and is dirty until it is.
	PowerOn() (result Result, err error)

	// PowerOff switches the host off, and is dirty until it is. It asks the
	// operating system first; if that failed, it does without.
	PowerOff() (result Result, err error)
}

// ReadyChecker is what a Provisioner may have besides: whether the back end is up
// at all. While it is not, no call is made to it.
type ReadyChecker interface {
	IsReady() (ready bool, err error)
}

// ProgressTeller is what a Provisioner may have besides: how far the operation has
// come that the last call found under way, in a few words such as "writing image
// 40 %"; empty if it cannot tell.
type ProgressTeller interface {
	Progress() string
}

// DetailsTeller is what a Provisioner may have besides: what the host turned out to be made
// of while its image was written; nil if that is not known. It is asked once Provision is done.
type DetailsTeller interface {
	Details() *metal3v1alpha1.HardwareDetails
}

// Result is the answer to a call. The zero Result means: done.
type Result struct {
	// Dirty says that the operation is under way, or, from
	// UpdateHardwareState, that the host's record changed.
	Dirty bool
	// RequeueAfter is how long to wait before the same call; 0: no time. It
	// matters only if Dirty is set.
	RequeueAfter time.Duration
	// ErrorMessage, when not empty, says in one line why the operation failed.
	ErrorMessage string
}

// Again returns a dirty Result: call again after wait.
func Again(wait time.Duration) Result { return Result{Dirty: true, RequeueAfter: wait} }

// Failed returns the Result of an operation that failed.
func Failed(message string) Result { return Result{ErrorMessage: message} }

// IsRetry reports whether the last operation of the given kind failed for host,
// so that the present call is a new try.
func IsRetry(host *metal3v1alpha1.BareMetalHost, kind metal3v1alpha1.ErrorType) bool {
	return host.Status.ErrorType == kind
}
