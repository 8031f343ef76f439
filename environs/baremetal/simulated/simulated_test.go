package simulated_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/provisionertest"
	"github.com/slipway-project/slipway/environs/baremetal/simulated"
)

var good = bmc.Credentials{Username: "admin", Password: "simulated-password"}

func address(t *testing.T, h *metal3v1alpha1.BareMetalHost) bmc.Address {
	t.Helper()
	a, err := bmc.Parse(h.Spec.BMC.Address)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// backend returns a rack as the conformance suite wants it.
func backend(t *testing.T, o simulated.Options) provisionertest.Backend {
	o.Credentials = good
	rack := simulated.New(o)
	n := 0
	at := func(h *metal3v1alpha1.BareMetalHost) simulated.Machine { return rack.Machine(address(t, h)) }
	return provisionertest.Backend{
		Factory: rack.Factory,
		NewHost: func() (*metal3v1alpha1.BareMetalHost, bmc.Credentials) {
			n++
			h := new(metal3v1alpha1.BareMetalHost)
			h.Metadata.Name = fmt.Sprintf("host-%d", n)
			h.Spec.BMC.Address = fmt.Sprintf("simulated://machine-%d", n)
			return h, good
		},
		Good:         metal3v1alpha1.Image{URL: "http://images/good"},
		Other:        metal3v1alpha1.Image{URL: "http://images/other"},
		Bad:          metal3v1alpha1.Image{URL: "http://images.invalid/bad"},
		Forget:       rack.Forget,
		Power:        func(h *metal3v1alpha1.BareMetalHost) bool { return at(h).PoweredOn },
		SetPower:     func(h *metal3v1alpha1.BareMetalHost, on bool) { rack.SetPower(address(t, h), on) },
		Image:        func(h *metal3v1alpha1.BareMetalHost) string { return at(h).Image },
		Writes:       func(h *metal3v1alpha1.BareMetalHost) int { return at(h).Writes },
		SetReachable: func(h *metal3v1alpha1.BareMetalHost, r bool) { rack.SetReachable(address(t, h), r) },
		Wait: func(d time.Duration) {
			if d > 0 {
				<-time.After(d)
			}
		},
	}
}

func TestConformanceWithoutDelays(t *testing.T) {
	provisionertest.Run(t, func(t *testing.T) provisionertest.Backend { return backend(t, simulated.Options{}) })
}

func TestConformanceWithDelays(t *testing.T) {
	delays := map[simulated.Op]time.Duration{
		simulated.OpRegister: time.Millisecond, simulated.OpInspect: time.Millisecond, simulated.OpAdopt: time.Millisecond,
		simulated.OpProvision: 3 * time.Millisecond, simulated.OpDeprovision: time.Millisecond,
		simulated.OpDelete: time.Millisecond, simulated.OpPower: time.Millisecond,
	}
	provisionertest.Run(t, func(t *testing.T) provisionertest.Backend { return backend(t, simulated.Options{Delays: delays}) })
}

func TestOperationsTakeTheirDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rack := simulated.New(simulated.Options{Delays: map[simulated.Op]time.Duration{simulated.OpRegister: time.Minute}})
		h := new(metal3v1alpha1.BareMetalHost)
		h.Spec.BMC.Address = "simulated://a"
		start, calls := time.Now(), 0
		for {
			p, err := rack.Factory()(h, bmc.Credentials{}, func(string, string) {})
			if err != nil {
				t.Fatal(err)
			}
			calls++
			r, err := p.ValidateManagementAccess(false)
			if err != nil || r.ErrorMessage != "" {
				t.Fatalf("%+v, %v", r, err)
			}
			if !r.Dirty {
				break
			}
			<-time.After(r.RequeueAfter)
		}
		if took := time.Since(start); took != time.Minute || calls != 2 {
			t.Errorf("registered after %v and %d calls, want 1m0s and 2", took, calls)
		}
	})
}

func TestFaultsFollowFromTheSeed(t *testing.T) {
	a, b := simulated.New(simulated.Options{Seed: 7, FaultRate: 0.2}), simulated.New(simulated.Options{Seed: 7, FaultRate: 0.2})
	faults, lasting := 0, 0
	const n = 2000
	for i := range n {
		at, err := bmc.Parse(fmt.Sprintf("simulated://m%d", i))
		if err != nil {
			t.Fatal(err)
		}
		f := a.Fault(at, simulated.OpProvision)
		if f != b.Fault(at, simulated.OpProvision) {
			t.Fatal("the same seed gave different faults")
		}
		if f.Times > 0 {
			faults++
		}
		if f.Lasting() {
			lasting++
		}
		if a.Fault(at, simulated.OpDelete).Verdict {
			t.Fatal("removal can fail for good")
		}
	}
	if faults < n/8 || faults > n/3 || lasting == 0 {
		t.Errorf("%d faults of %d, %d lasting; want about a fifth, some lasting", faults, n, lasting)
	}
}

func TestFaultsPass(t *testing.T) {
	rack := simulated.New(simulated.Options{Seed: 1, FaultRate: 1})
	for i := range 200 {
		h := new(metal3v1alpha1.BareMetalHost)
		h.Spec.BMC.Address = fmt.Sprintf("simulated://m%d", i)
		want := rack.Fault(address(t, h), simulated.OpRegister)
		errs, verdicts := 0, 0
		for range 10 {
			p, _ := rack.Factory()(h, bmc.Credentials{}, func(string, string) {})
			r, err := p.ValidateManagementAccess(false)
			if err == nil && r == (provisioner.Result{}) {
				break
			}
			if err != nil {
				errs++
			} else {
				verdicts++
			}
		}
		if want.Lasting() != (verdicts == 10) || !want.Lasting() && errs+verdicts != want.Times || want.Verdict != (verdicts > 0) {
			t.Errorf("host %d: %d errors, %d verdicts; want %+v", i, errs, verdicts, want)
		}
	}
}
