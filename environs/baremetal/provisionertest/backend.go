// Package provisionertest is what every bare-metal back end must do, as a test
// suite: each back end's own tests call Run.
//
// The suite plays the host manager's part, in the plainest way: it makes a
// Provisioner for every call, obeys the Results, and writes the few fields of the
// host's status that a back end may rely on.
package provisionertest

import (
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// Backend is a back end under test with what a test needs besides. Functions
// marked optional may be nil: what cannot be observed or brought about is then
// left out.
type Backend struct {
	// Factory is the back end as it would be after a restart of our own process:
	// it is called anew for every call of a test that restarts.
	Factory func() provisioner.Factory
	// NewHost returns a machine that the back end does not know yet, powered off,
	// and the credentials that its BMC accepts.
	NewHost func() (*metal3v1alpha1.BareMetalHost, bmc.Credentials)

	// Good and Other are two images that can be provisioned, Bad one that cannot.
	Good, Other, Bad metal3v1alpha1.Image

	// Forget makes the back end lose its database. Optional: a back end without one.
	Forget func()
	// Power returns a machine's real power state. Optional.
	Power func(*metal3v1alpha1.BareMetalHost) bool
	// SetPower changes it behind the back end's back. Optional.
	SetPower func(host *metal3v1alpha1.BareMetalHost, on bool)
	// Image returns the URL of the image on a machine's disk. Optional.
	Image func(*metal3v1alpha1.BareMetalHost) string
	// Writes returns how often a machine's disk was written. Optional.
	Writes func(*metal3v1alpha1.BareMetalHost) int
	// SetReachable unplugs or plugs in a machine's BMC. Optional.
	SetReachable func(host *metal3v1alpha1.BareMetalHost, reachable bool)
	// Wait is called between two calls with what the Result asked for; nil waits
	// for a hundredth of it, and at most 20 ms.
	Wait func(time.Duration)
}

// Open makes a fresh back end for one test.
type Open func(t *testing.T) Backend

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Backend)
	}{
		{"Register", testRegister},
		{"WrongPassword", testWrongPassword},
		{"WrongPasswordThenDelete", testWrongPasswordThenDelete},
		{"BadAddress", testBadAddress},
		{"NotRegistered", testNotRegistered},
		{"Inspect", testInspect},
		{"Power", testPower},
		{"PowerBehindOurBack", testPowerBehindOurBack},
		{"Provision", testProvision},
		{"ProvisionReadsConfigDataLate", testConfigData},
		{"ProvisionFailure", testProvisionFailure},
		{"OtherImage", testOtherImage},
		{"OtherImageAfterFailure", testOtherImageAfterFailure},
		{"DeprovisionMidway", testDeprovisionMidway},
		{"Delete", testDelete},
		{"DeleteWhileBusy", testDeleteWhileBusy},
		{"RestartInTheMiddle", testRestart},
		{"Adopt", testAdopt},
		{"LostDatabase", testLostDatabase},
		{"Unreachable", testUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}
