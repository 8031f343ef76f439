package hostmanager_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/simulated"
	"github.com/slipway-project/slipway/worker/hostmanager"
	"github.com/slipway-project/slipway/worker/hostmanager/hostmanagertest"
)

// simulationSeed makes a simulation that failed run again.
var simulationSeed = flag.Uint64("hostmanager.seed", 0, "seed of the simulations; 0: a new one each time")

// site is a simulated data centre with its store.
type site struct {
	t     *testing.T
	seed  uint64
	rack  *simulated.Rack
	store *hostmanagertest.Store
	hosts []string
}

func newSite(t *testing.T, hosts int) *site {
	seed := *simulationSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	t.Logf("seed %d (run again with -hostmanager.seed=%d)", seed, seed)
	s := &site{t: t, seed: seed, store: hostmanagertest.New()}
	delays := map[simulated.Op]time.Duration{simulated.OpRegister: 2 * time.Second, simulated.OpInspect: time.Minute, simulated.OpProvision: 5 * time.Minute,
		simulated.OpDeprovision: 2 * time.Minute, simulated.OpPower: 10 * time.Second, simulated.OpAdopt: time.Second, simulated.OpDelete: time.Second}
	s.rack = simulated.New(simulated.Options{Seed: seed, FaultRate: 0.05, Delays: delays})
	for n := range hosts {
		id := fmt.Sprintf("h%03d", n)
		s.hosts = append(s.hosts, id)
		s.store.Add(id, withImage)
	}
	return s
}

// manager starts a host manager.
func (s *site) manager() (stop func()) {
	s.t.Helper()
	return start(s.t, hostmanager.Config{Store: s.store, Slots: 20, Factory: func(context.Context) provisioner.Factory { return s.rack.Factory() }})
}

// address returns a host's BMC.
func (s *site) address(id string) bmc.Address {
	a, err := bmc.Parse("simulated://" + id)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// lasting returns the first of the operations that never succeeds on a host.
func (s *site) lasting(id string, ops ...simulated.Op) simulated.Op {
	for _, op := range ops {
		if s.rack.Fault(s.address(id), op).Lasting() {
			return op
		}
	}
	return ""
}

// end is where a host ends.
type end struct {
	state metal3v1alpha1.ProvisioningState
	err   metal3v1alpha1.ErrorType
}

// provisioned predicts the end of a host that should get an image.
func (s *site) provisioned(id string) end {
	switch s.lasting(id, simulated.OpRegister, simulated.OpInspect, simulated.OpProvision) {
	case simulated.OpRegister:
		return end{metal3v1alpha1.StateRegistering, metal3v1alpha1.RegistrationError}
	case simulated.OpInspect:
		return end{metal3v1alpha1.StateInspecting, metal3v1alpha1.InspectionError}
	case simulated.OpProvision:
		return end{metal3v1alpha1.StateProvisioning, metal3v1alpha1.ProvisioningError}
	}
	return end{metal3v1alpha1.StateProvisioned, ""}
}

// deprovisioned predicts the end of a host that should lose its image, and be on.
func (s *site) deprovisioned(id string) end {
	switch s.lasting(id, simulated.OpRegister, simulated.OpInspect, simulated.OpPower) {
	case simulated.OpPower:
		return end{metal3v1alpha1.StateReady, metal3v1alpha1.PowerManagementError}
	case "":
		return end{metal3v1alpha1.StateReady, ""}
	}
	return s.provisioned(id)
}

// settle waits until every host is where it should be.
func (s *site) settle(what string, want func(id string) end) {
	s.t.Helper()
	begin := time.Now()
	for {
		synctest.Wait()
		wrong := ""
		for _, id := range s.hosts {
			r, ok := s.store.Get(id)
			if !ok {
				s.t.Fatalf("%s: %s is gone", what, id)
			}
			st := r.Host.Status
			if got := (end{st.Provisioning.State, st.ErrorType}); got != want(id) {
				wrong = fmt.Sprintf("%s, want %v", s.store.Show(id), want(id))
				break
			}
		}
		if wrong == "" {
			s.t.Logf("%s: all %d hosts as predicted after %v, %d saves, %d intents", what, len(s.hosts), time.Since(begin).Round(time.Minute), s.store.Saves(), s.store.Intents())
			return
		}
		if time.Since(begin) > 48*time.Hour {
			s.t.Fatalf("seed %d, %s: %s", s.seed, what, wrong)
		}
		<-time.After(10 * time.Minute)
	}
}

// life takes all hosts through their whole life, and checks each end.
func (s *site) life(change func()) {
	s.t.Helper()
	s.settle("provisioned", s.provisioned)
	for _, id := range s.hosts {
		m := s.rack.Machine(s.address(id))
		if want := s.provisioned(id).state == metal3v1alpha1.StateProvisioned; (m.Image == "one") != want {
			s.t.Errorf("seed %d: machine %s carries %q, provisioned %v", s.seed, id, m.Image, want)
		}
	}
	change()
	for _, id := range s.hosts {
		s.store.SetImage(id, "")
	}
	s.settle("deprovisioned", s.deprovisioned)
	change()
	for _, id := range s.hosts {
		s.store.AskRemoval(id, false)
	}
	eventually(s.t, 48*time.Hour, "removal of all hosts", func() bool {
		for _, id := range s.hosts {
			if _, ok := s.store.Get(id); ok {
				return false
			}
		}
		return true
	})
	for _, id := range s.hosts {
		if m := s.rack.Machine(s.address(id)); m.Registered || m.Image != "" {
			s.t.Errorf("seed %d: %s is removed, but its machine is %+v", s.seed, id, m)
		}
	}
}

func TestSimulation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 200)
		defer s.manager()()
		s.life(func() {})
	})
}

func TestSimulationWithRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 50)
		rnd := rand.New(rand.NewPCG(s.seed, 1))
		done := make(chan struct{})
		stopped := make(chan struct{})
		go func() { // kill the manager at odd moments, for the first hours
			defer close(stopped)
			stop := s.manager()
			for n := 0; ; n++ {
				pause := time.Duration(rnd.Int64N(int64(10 * time.Minute)))
				if n > 100 {
					pause = 1000 * time.Hour
				}
				select {
				case <-done:
					stop()
					return
				case <-time.After(pause):
					stop()
					stop = s.manager()
				}
			}
		}()
		s.life(func() {})
		close(done)
		<-stopped
	})
}

func TestSimulationWithALostDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 50)
		defer s.manager()()
		s.life(s.rack.Forget)
	})
}
