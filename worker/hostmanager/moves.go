package hostmanager

import (
	"slices"
	"time"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// state is all there is to know about one state of a host.
type state struct {
	name metal3v1alpha1.ProvisioningState
	// handle makes the next move out of the state, or notes that there is none.
	handle func(*pass) outcome
	// next are the states that a host may go to, removal aside.
	next []metal3v1alpha1.ProvisioningState
	// limit is how long a host may be at work in the state; 0: as long as it likes.
	limit time.Duration
	// failure is the type of an error in the state.
	failure metal3v1alpha1.ErrorType
	// reason is what is waited for in the state; empty: it is one to rest in.
	reason string
	// onDelete is where the removal of the host leads.
	onDelete metal3v1alpha1.ProvisioningState
	// unregistered states do without the back end knowing the host.
	unregistered bool
	// slot states count against the limit of hosts that write images.
	slot bool
}

// states returns the table. A host whose record has another state is not touched.
func states() []state {
	const (
		none            = metal3v1alpha1.StateNone
		unmanaged       = metal3v1alpha1.StateUnmanaged
		registering     = metal3v1alpha1.StateRegistering
		inspecting      = metal3v1alpha1.StateInspecting
		matchProfile    = metal3v1alpha1.StateMatchProfile
		ready           = metal3v1alpha1.StateReady
		provisioning    = metal3v1alpha1.StateProvisioning
		provisioned     = metal3v1alpha1.StateProvisioned
		external        = metal3v1alpha1.StateExternallyProvisioned
		deprovisioning  = metal3v1alpha1.StateDeprovisioning
		deleting        = metal3v1alpha1.StateDeleting
		registration    = metal3v1alpha1.RegistrationError
		reregistration  = metal3v1alpha1.ProvisionedRegistrationError
		inspection      = metal3v1alpha1.InspectionError
		provisioningErr = metal3v1alpha1.ProvisioningError
		power           = metal3v1alpha1.PowerManagementError
	)
	type list = []metal3v1alpha1.ProvisioningState
	return []state{
		{name: none, handle: (*pass).none, next: list{unmanaged, registering}, onDelete: deleting, unregistered: true},
		{name: unmanaged, handle: (*pass).unmanaged, next: list{registering}, onDelete: deleting, unregistered: true},
		{name: registering, handle: (*pass).registering, next: list{inspecting, matchProfile, external}, onDelete: deleting,
			failure: registration, reason: "the BMC to be verified", limit: 30 * time.Minute},
		{name: inspecting, handle: (*pass).inspecting, next: list{matchProfile}, onDelete: deleting,
			failure: inspection, reason: "the hardware to be inspected", limit: 2 * time.Hour},
		{name: matchProfile, handle: (*pass).matchProfile, next: list{ready}, onDelete: deleting, failure: inspection},
		{name: ready, handle: (*pass).ready, next: list{provisioning, external, inspecting}, onDelete: deleting, failure: power},
		{name: provisioning, handle: (*pass).provisioning, next: list{provisioned, deprovisioning}, onDelete: deprovisioning,
			failure: provisioningErr, reason: "the image to be written", limit: 4 * time.Hour, slot: true},
		{name: provisioned, handle: (*pass).provisioned, next: list{deprovisioning}, onDelete: deprovisioning, failure: reregistration},
		{name: external, handle: (*pass).external, next: list{inspecting, matchProfile, ready}, onDelete: deleting, failure: reregistration},
		{name: deprovisioning, handle: (*pass).deprovisioning, next: list{ready, deleting}, onDelete: deprovisioning,
			failure: provisioningErr, reason: "the image to be removed", limit: 4 * time.Hour},
		{name: deleting, handle: (*pass).deleting, onDelete: deleting, unregistered: true,
			failure: provisioningErr, reason: "the back end to let go of the host", limit: time.Hour},
	}
}

// lookUp returns the row of a state; available is the same as ready.
func lookUp(name metal3v1alpha1.ProvisioningState) (state, bool) {
	if name == metal3v1alpha1.StateAvailable {
		name = metal3v1alpha1.StateReady
	}
	all := states()
	i := slices.IndexFunc(all, func(s state) bool { return s.name == name })
	if i < 0 {
		return state{}, false
	}
	return all[i], true
}

// CanMove reports whether a host may go from one state to another. A removal by
// force may begin in every state.
func CanMove(from, to metal3v1alpha1.ProvisioningState) bool {
	s, ok := lookUp(from)
	return ok && (from == to || slices.Contains(s.next, to) || s.onDelete == to || to == metal3v1alpha1.StateDeleting)
}
