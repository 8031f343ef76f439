//go:build e2e

package hosts_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakeinstaller"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// faulty is how many of the hosts have a fault that stays: 5 %.
const faulty = many / 20

// want is where a host ends.
type want struct {
	states  []metal3v1alpha1.ProvisioningState
	failure metal3v1alpha1.ErrorType
	reason  string // a part of what the host shows
	away    bool   // its BMC does not answer, which is no verdict
}

// is reports whether a host is there.
func (w want) is(v view) bool {
	s := v.record.Status
	for _, state := range w.states {
		if s.Provisioning.State != state || s.ErrorType != w.failure || (v.Progress.Faults > 0) != w.away {
			continue
		}
		if w.failure == metal3v1alpha1.NoError {
			return w.away || s.PoweredOn
		}
		return strings.Contains(s.ErrorMessage, w.reason)
	}
	return false
}

// well reports whether the host is to be without an error. One with an error may lose it for a
// while, and get it again, with each try.
func (w want) well() bool { return w.failure == metal3v1alpha1.NoError && !w.away }

// in returns the want of a host without an error.
func in(s metal3v1alpha1.ProvisioningState) want {
	return want{states: []metal3v1alpha1.ProvisioningState{s}}
}

// fails returns the want of a host with an error in one of some states.
func fails(failure metal3v1alpha1.ErrorType, reason string, states ...metal3v1alpha1.ProvisioningState) want {
	return want{states: states, failure: failure, reason: reason}
}

// fate is what is wrong with a host, and what becomes of it.
type fate struct {
	kind   string // empty: nothing is wrong
	faults []fakebmc.Fault
	fits   func(n int) bool // which hosts can have it; nil: all
	rest   want             // without a machine
	used   want             // with one; no states: it gets none
	freed  want             // after that; no states: it is removed
}

// good is the fate of most.
func good() fate {
	return fate{rest: in(metal3v1alpha1.StateReady), used: in(metal3v1alpha1.StateProvisioned), freed: in(metal3v1alpha1.StateReady)}
}

// kinds returns all that can be wrong but for the installer.
func kinds() []fate {
	const (
		registering  = metal3v1alpha1.StateRegistering
		registration = metal3v1alpha1.RegistrationError
	)
	ready := in(metal3v1alpha1.StateReady)
	return []fate{
		{kind: "password", rest: fails(registration, "the BMC refuses the user name or password; correct the host's credentials", registering), freed: ready},
		{kind: "certificate", rest: fails(registration, "not the pinned "+otherPin, registering)},
		{kind: "garbage", faults: []fakebmc.Fault{{Kind: fakebmc.FaultGarbage}}, rest: fails(registration, "is not what Redfish prescribes", registering)},
		{
			kind: "hung", faults: []fakebmc.Fault{{Kind: fakebmc.FaultHang}},
			rest: want{states: []metal3v1alpha1.ProvisioningState{registering}, away: true},
		},
		{
			kind: "lying power", faults: []fakebmc.Fault{{Kind: fakebmc.FaultIgnore, Method: http.MethodPost, Path: "Reset"}},
			rest: fails(metal3v1alpha1.PowerManagementError, "the BMC accepted power command On", metal3v1alpha1.StateReady),
		},
		{
			kind: "media refused", fits: func(n int) bool { return !byHTTP(n) },
			faults: []fakebmc.Fault{
				{Kind: fakebmc.FaultStatus, Status: http.StatusForbidden, Method: http.MethodPost, Path: "InsertMedia"},
				{Kind: fakebmc.FaultStatus, Status: http.StatusForbidden, Method: http.MethodPatch, Path: "VirtualMedia"},
			},
			// What was begun is undone before the next try, which takes a medium as well.
			rest: ready, used: fails(metal3v1alpha1.ProvisioningError, "A simulated fault", metal3v1alpha1.StateProvisioning, metal3v1alpha1.StateDeprovisioning), freed: ready,
		},
		{kind: wrongImage, rest: ready, used: fails(metal3v1alpha1.ProvisioningError, "image is not what was ordered", metal3v1alpha1.StateProvisioning), freed: ready},
	}
}

// wrongImage is the kind of a host whose machine gets an image with another checksum.
const wrongImage = "wrong image"

// otherPin is not the fingerprint of the BMCs' certificate.
var otherPin = strings.Repeat("ab", 32)

// byHTTP reports whether a host boots the installer by UEFI HTTP boot.
func byHTTP(n int) bool { return n%4 == 3 }

// draw draws the fates of the hosts, and the imitation of the installer that goes with them.
func draw(seed uint64) ([]fate, fakeinstaller.Options) {
	dice := rand.New(rand.NewPCG(seed, 0))
	o := fakeinstaller.Options{Failures: 0.015, Seed: seed}
	all := make([]fate, many)
	strike := func() (struck int) {
		for n := range all {
			all[n] = good()
			step, ok := o.Fails(n)
			if !ok {
				continue
			}
			struck++
			all[n].kind = "installer fails in " + step
			all[n].used = fails(metal3v1alpha1.ProvisioningError, fmt.Sprintf("step %s: a simulated fault of machine %d", step, n), metal3v1alpha1.StateProvisioning)
		}
		return struck
	}
	rest := kinds()
	for strike() != faulty-len(rest) { // so that there is one of each kind
		o.Seed = dice.Uint64()
	}
	for _, n := range dice.Perm(many) {
		if len(rest) > 0 && all[n].kind == "" && (rest[0].fits == nil || rest[0].fits(n)) {
			all[n], rest = rest[0], rest[1:]
		}
	}
	// Faults that pass are nobody's fate.
	for _, n := range dice.Perm(many)[:many/10] {
		if all[n].kind == "" {
			all[n].faults = []fakebmc.Fault{{Kind: fakebmc.FaultStatus, Status: http.StatusServiceUnavailable, Times: 2}, {Kind: fakebmc.FaultClose, Times: 1}}
		}
	}
	return all, o
}
